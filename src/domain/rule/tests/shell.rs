//! Checks the reading of commands: a table of tricks, and properties that no line breaks.

use proptest::prelude::*;
use serde_json::json;

use super::{asked, matches};
use crate::domain::rule::{matcher::Fit, shell};

fn command(action: &str, prefix: &[&str], line: &str) -> bool {
    let spec =
        json!({ "action": action, "tool": "Bash", "input": { "command": { "command_prefix": prefix } } });
    matches(spec, &asked("Bash", &json!({ "command": line })))
}

#[test]
fn only_what_is_certainly_the_command_is_allowed() {
    let git = ["git", "status"];
    for line in [
        "git status",
        "  git   status\t",
        "git status -s",
        "git status\n",
        "git status;",
        "git status && git status -s",
        "git status || git status",
        "git status; git status --short=yes",
        "git status | git status",
        "git status\ngit status",
        "git 'status'",
        "\"git\" status",
        "g'i't st\"at\"us",
        "git status 'a; rm -rf /'",
        "git status \"a && b\"",
        "git status --format='%H $x `y`'",
        "git status src/a_b.rs:10 --x=1,2@3+4%5",
        "git status 'größe'",
    ] {
        assert!(command("allow", &git, line), "{line:?} is asked for");
    }
    for line in [
        "",
        " ",
        "git",
        "git statusx",
        "gitstatus",
        "git  log",
        "git -c core.pager=sh status",
        "/usr/bin/git status",
        "./git status",
        "git status; rm -rf /",
        "git status;rm -rf /",
        "git status && rm x",
        "git status&&rm x",
        "git status || rm x",
        "git status | sh",
        "git status | tee /etc/x",
        "git status |& sh",
        "git status & rm x",
        "git status &",
        "git status &rm",
        "git status\nrm -rf /",
        "git status\r\nrm -rf /",
        "git status\rrm x",
        "git status\u{b}rm",
        "git status\u{c}rm",
        "git status\0rm",
        "git status\u{85}rm",
        "git status\u{a0}rm",
        "git status\u{2028}rm",
        "git\u{a0}status",
        "rm x; git status",
        "git status $(rm x)",
        "git status $((1))",
        "git status \"$(rm x)\"",
        "git status `rm x`",
        "git status \"`rm x`\"",
        "git status $x",
        "git status ${x}",
        "git status \"$x\"",
        "git status $'a'",
        "git status $\"a\"",
        "git status \\; rm",
        "git status \\\n; rm",
        "git status \"a\\\"; rm x; \\\"\"",
        "git status 'a''; rm x; '''",
        "git status 'a",
        "git status \"a",
        "git status > /etc/passwd",
        "git status >> x",
        "git status 2>x",
        "git status 2>&1",
        "git status >| x",
        "git status &> x",
        "git status < x",
        "git status << EOF\nrm\nEOF",
        "git status <<< x",
        "git status <(rm x)",
        "git status >(rm x)",
        "git status; (rm x)",
        "(git status)",
        "{ git status; }",
        "git status; { rm x; }",
        "git() { rm x; }; git status",
        "function git { rm x; }\ngit status",
        "alias git=rm; git status",
        "env git status",
        "env -i rm; git status",
        "X=1 git status",
        "PATH=/tmp git status",
        "PATH=/tmp; git status",
        "GIT_PAGER='rm x' git status",
        "LD_PRELOAD=/tmp/x.so git status",
        "X+=1 git status",
        "=git status",
        "git =status",
        "git status =rm",
        "export PATH=/tmp && git status",
        "cd /tmp && git status",
        "sudo git status",
        "command git status",
        "time git status",
        "! git status",
        "if git status; then rm x; fi",
        "while git status; do rm x; done",
        "for x in 1; do git status; done",
        "case x in x) git status;; esac",
        "[[ x ]] && git status",
        "coproc git status",
        "eval git status",
        "git status *",
        "git status ?",
        "git status [a]",
        "git status {a,b}",
        "git status ~",
        "git status !!",
        "git status \"!!\"",
        "git status ^a^b",
        "git status # x",
        "git status#x",
        "git s*",
        "git stat?s",
        "g?t status",
        "{git,status}",
        "git status;;",
        "git status ;",
        ";git status",
        "&& git status",
        "git status &&",
        "git status ||",
        "git status |",
        "git status | | git status",
        "git status &&& git status",
        "git status ||| git status",
        "git status && && git status",
        "git status &&\n git status",
        "'' git status",
        "'git status'",
        "\"git status\"",
        "git 'status; rm x'",
        "git\\ status",
        "git stat\\us",
        "gi\\\nt status",
        "git 'sta\ntus'",
    ] {
        // A blank before the last semicolon is the one harmless line here.
        let is_harmless = line == "git status ;";
        assert_eq!(command("allow", &git, line), is_harmless, "{line:?}");
    }
}

#[test]
fn what_may_be_the_command_is_denied() {
    for (prefix, line) in [
        (&["rm"][..], "rm x"),
        (&["rm"], "/bin/rm x"),
        (&["rm"], "ls; rm x"),
        (&["rm"], "ls && rm x"),
        (&["rm"], "ls | rm x"),
        (&["rm"], "ls\nrm x"),
        (&["rm"], "ls & rm x"),
        (&["rm"], "'rm' x"),
        (&["rm"], "r''m x"),
        (&["rm"], "r\"\"m x"),
        (&["rm"], "\\rm x"),
        (&["rm"], "r\\m x"),
        (&["rm"], "r\\\nm x"),
        (&["rm"], "$(rm x)"),
        (&["rm"], "echo `rm x`"),
        (&["rm"], "echo \"$(rm x)\""),
        (&["rm"], "(rm x)"),
        (&["rm"], "{ rm x; }"),
        (&["rm"], "X=1 rm x"),
        (&["rm"], "env rm x"),
        (&["rm"], "env X=1 /bin/rm x"),
        (&["rm"], "sudo -u root rm x"),
        (&["rm"], "command rm x"),
        (&["rm"], "nohup rm x"),
        (&["rm"], "timeout 5 rm x"),
        (&["rm"], "find . -exec rm x"),
        (&["rm"], "xargs rm"),
        (&["rm"], "bash -c 'rm x'"),
        (&["rm"], "eval \"rm x\""),
        (&["rm"], "if true; then rm x; fi"),
        (&["rm"], "x() { rm y; }; x"),
        (&["rm"], "cat <(rm x)"),
        (&["rm"], "bash <<< 'rm x'"),
        (&["rm"], "bash << E\nrm x\nE"),
        (&["rm"], "/bin/r? x"),
        (&["rm"], "/bin/r* x"),
        (&["rm"], "r[m] x"),
        (&["rm"], "r$@m x"),
        (&["rm"], "r${x}m y"),
        (&["rm"], "r$(true)m y"),
        (&["rm"], "{rm,-rf,/}"),
        (&["rm"], "ls >x;rm y"),
        (&["rm"], "rm\tx"),
        (&["rm"], "! rm x"),
        (&["rm"], "awk 'BEGIN{system(\"rm x\")}'"),
        (&["rm"], "php -r 'exec(\"rm x\");'"),
        (&["rm"], "python3.12 -c 'import os; os.system(\"rm x\")'"),
        (&["rm"], "npx rm x"),
        (&["rm"], "npm exec rm x"),
        (&["rm"], "docker exec box rm x"),
        (&["rm"], "git -c alias.z='!rm x' z"),
        (&["rm"], "git rebase --exec 'rm x' main"),
        (&["rm"], "git bisect run rm x"),
        (&["rm"], "tar -xf a.tar --to-command='rm x'"),
        (&["rm"], "sed -n 'e rm x' a"),
        (&["rm"], "systemd-run rm x"),
        (&["rm"], "tmux new-session -d 'rm x'"),
        (&["rm"], "ls; nice-wrapper /bin/rm x"),
        (&["git", "push"], "tmux send-keys 'git push'"),
        (&["git", "push"], "git push"),
        (&["git", "push"], "ls && git 'push' -f"),
        (&["git", "push"], "ssh host 'git push'"),
        (&["git", "push"], "git pu\"sh\" $x"),
    ] {
        assert!(command("deny", prefix, line), "{line:?} gets through");
        assert!(command("ask", prefix, line), "{line:?} is not asked for");
        assert!(!command("allow", &["ls"], line), "{line:?}");
    }
    for (prefix, line) in [
        (&["rm"][..], "ls"),
        (&["rm"], "ls rm"),
        (&["rm"], "echo 'rm x'"),
        (&["rm"], "git rm x"),
        (&["rm"], "docker rm x"),
        (&["rm"], "npm rm x"),
        (&["rm"], "grep -r 'rm x' ."),
        (&["rm"], "make -j4 all"),
        (&["rm"], "ls $x"),
        (&["rm"], "ls *"),
        (&["rm"], "ls r*"),
        (&["rm"], "rmdir x"),
        (&["rm"], "npm x"),
        (&["git", "push"], "git pull && git status"),
        (&["git", "push"], "git log > push"),
        (&["git", "push"], "push git $x"),
    ] {
        assert!(!command("deny", prefix, line), "{line:?} is denied");
    }
}

/// Lines made of what shells give a meaning.
fn line() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "(git|status|rm|x| )",
        2 => "[;&|<>()$`'\"\\\\ \n\t#!*?~={}\\[\\]]",
        1 => any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn what_is_allowed_could_be_denied(line in line()) {
        for prefix in [&["git", "status"][..], &["git"], &["rm"]] {
            let runs = shell::runs(&line, &words(prefix));
            prop_assert!(runs != Fit::No || !shell::runs_only(&line, &words(prefix)), "{line:?}");
        }
    }

    #[test]
    fn a_second_command_is_never_allowed(tail in line()) {
        for glue in [";", "&&", "||", "|", "\n", "&", " $(", "`", "<(", " >"] {
            let line = format!("git status {glue} rm {tail}");
            prop_assert!(!shell::runs_only(&line, &words(&["git", "status"])), "{line:?}");
        }
    }

    #[test]
    fn quoted_text_is_one_word(text in "[a-z;&|<>()#*?~ ]{0,20}") {
        let line = format!("git status '{text}'");
        let parsed = shell::commands(&line);
        prop_assert_eq!(parsed, Some(vec![words(&["git", "status", &text])]));
    }
}
