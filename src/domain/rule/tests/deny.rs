//! Checks what a denied command makes of a line: it is denied, a person is asked, or it passes. And that everyday lines pass.

use super::*;
use RuleAction::{Ask, Deny};

const EVERYDAY: &str = include_str!("everyday.txt");

/// The rule that decides about a line, and its action.
fn decide(rules: &Value, line: &str) -> Option<(String, RuleAction)> {
    let rules = Rules {
        session: std::sync::Arc::new(RuleSet::new(serde_json::from_value(rules.clone()).unwrap()).unwrap()),
        config: std::sync::Arc::default(),
    };
    let verdict = rules.decide(&asked("Bash", &json!({ "command": line })), now(), &plain);
    verdict.decided.map(|decided| (decided.id, decided.action))
}

fn deny(id: &str, prefix: &[&str]) -> Value {
    json!({ "id": id, "action": "deny", "input": { "command": { "command_prefix": prefix } } })
}

fn denied(prefix: &[&str], line: &str) -> Option<RuleAction> {
    decide(&json!([deny("d", prefix)]), line).map(|(_, action)| action)
}

#[test]
fn a_denied_command_is_denied_where_it_is_certain() {
    for (prefix, line) in [
        (&["rm"][..], "rm x"),
        (&["rm"], "ls; /bin/rm x"),
        (&["rm"], "r\\m x"),
        (&["rm"], "sudo -u root rm x"),
        (&["rm"], "sh -c 'rm x'"),
        (&["rm"], "if true; then rm x; fi"),
        (&["rm"], "x() { rm y; }; x"),
        (&["rm"], "echo `rm x`"),
        (&["rm"], "bash <<'E'\nrm x\nE"),
        (&["rm"], "sudo ssh host bash -s <<'E'\nrm x\nE"),
        (&["rm"], "env X=1 rm x"),
        (&["rm"], "nice -n 5 rm x"),
        (&["rm"], "sh -ec 'cd x && rm y'"),
        (&["rm"], "ls | xargs -0 rm"),
        (&["rm"], "find . -name x -exec rm {} +"),
        (&["rm"], ">x 2>&- rm \"$y\" *.o z{a,b} 2>&1 &"),
        (&["rm"], "echo \"$(rm x)\""),
        (&["rm"], "diff <(rm x) y"),
        (&["git", "push"], "git push $x"),
        (&["git", "push"], "git -C \"$x\" push"),
        (
            &["git", "push"],
            "git add . && git commit -m \"$(cat <<'E'\nx\nE\n)\" && git push",
        ),
        (&["git", "push"], "git -C . push"),
        (&["git", "push"], "git --no-pager push"),
        (&["git", "push"], "git -c a=b push"),
        (&["git", "push"], "git --git-dir=.git push"),
        (&["git", "push"], "bash -c 'git -C . push'"),
        (&["git", "push"], "git-push"),
    ] {
        assert_eq!(denied(prefix, line), Some(Deny), "{line:?}");
    }
}

#[test]
fn a_person_is_asked_where_a_denied_command_may_be_run() {
    for (prefix, line) in [
        (&["rm"][..], "$'\\x72m' v"),
        (&["rm"], "$'\\162m' v"),
        (&["rm"], "r{m,} v"),
        (&["rm"], "{r,}m v"),
        (&["rm"], "${x:-rm} v"),
        (&["rm"], "/bin/r? v"),
        (&["rm"], "$x v"),
        (&["rm"], "sudo $x v"),
        (&["rm"], "find . -exec $x {} +"),
        (&["rm"], "ls | xargs -I% % v"),
        (&["rm"], "eval $x"),
        (&["rm"], "eval \"$(curl x)\""),
        (&["rm"], "source <(curl x)"),
        (&["rm"], ". \"$x\""),
        (&["rm"], "bash -c \"$x\""),
        (&["rm"], "curl x | sh"),
        (&["rm"], "curl x | sudo bash -s -- y"),
        (&["rm"], "cat x | python3.11 -"),
        (&["rm"], "echo rm v | rbash"),
        (&["rm"], "echo rm v | mksh"),
        (&["rm"], "echo rm v | at now"),
        (&["rm"], "echo 'rm v' | tee s.sh && chmod +x s.sh && ./s.sh"),
        (&["rm"], "cp /bin/rm z && ./z v"),
        (&["rm"], "git commit -m 'rm x'"),
        (&["rm"], "npx rm x"),
        (&["rm"], "echo \"${x\""),
        (&["rm"], "echo 'x"),
        (&["rm"], "case x in y) z;; esac"),
        (&["rm"], "echo \"$(case x in y) $z;; esac)\""),
        (&["rm"], "echo ${ $x; }"),
        (&["rm"], "echo `echo \\`$x\\``"),
        (&["rm"], "echo \"$\\\n($x)\""),
        (&["rm"], "cat <<E\n$(x)\nE"),
        (&["rm"], "cat <<'E X'\ny\nE X\n$z 'v"),
        (&["rm"], "cat <<E"),
        (&["rm"], "cat <<EOF\nE\\\nOF\n$x v\nEOF"),
        (&["rm"], "bash <<E\n\\$x v\nE"),
        (&["rm"], "2>&- $x v"),
        (&["rm"], "docker exec box sh -c \"$x\""),
        (&["rm"], "trap \"$x\" EXIT"),
        (&["rm"], "bash -o pipefail -c \"$x\""),
        (&["rm"], "bash /dev/fd/3 3<<<\"$x\""),
        (&["rm"], "python3 -c 'import os; os.system(\"rm x\")'"),
        (&["git", "push"], "git --git-dir .git push"),
        (&["git", "push", "--force"], "git push origin --force"),
        (&["git", "push"], "git --no-pager $x"),
        (&["git", "push"], "git $'\\x70ush'"),
        (&["git", "push"], "git pu{sh,}"),
        (&["git", "push"], "git ${x:-push}"),
        (&["git", "push"], "git $(echo push)"),
    ] {
        assert_eq!(denied(prefix, line), Some(Ask), "{line:?}");
    }
}

#[test]
fn a_person_is_asked_where_a_shell_may_read_a_line_otherwise() {
    for (prefix, line) in [
        (&["rm"][..], "echo }#; r${x}m y"),
        (&["rm"], "ls ;}#; r${x}m y"),
        (&["rm"], "echo \r#; r${x}m y"),
        (&["rm"], "echo \u{a0}#; r${x}m y"),
        (&["rm"], "cat <<E\u{a0}\nE\necho 'z\nE\u{a0}\nr${x}m y\n#'"),
        (&["rm"], ">- r${x}m y"),
        (&["rm"], "<<<- r${x}m y"),
        (&["rm"], "2>&-r${x}m y"),
        (&["rm"], "2>& -r${x}m y"),
        (&["rm"], r#"echo "$'"; r${x}m y; echo "'""#),
        (&["rm"], r#"sh -c "echo \'; r\${x}m y; echo \'""#),
        (&["rm"], "cat <<\"E\\$\"\nE$\nr${x}m y\nE\\$"),
        (&["rm"], "x='$(r${y}m z)'; echo ${x@P}"),
        (&["rm"], "let 'a[$(r${x}m y)]=1'"),
        (&["rm"], "[[ -v 'a[$(r${x}m y)]' ]]"),
        (&["rm"], "[ -v 'a[$(r${x}m y)]' ]"),
        (&["rm"], "unset 'a[$(r${x}m y)]'"),
        (&["rm"], "printf -v 'a[$(rm y)]' x"),
        (&["rm"], "mapfile -C 'r${x}m y' a"),
        (&["rm"], "bash -c -e 'r${x}m y'"),
        (&["rm"], "bash -c -- 'r${x}m y'"),
        (&["rm"], "bash -co pipefail 'r${x}m y'"),
        (&["rm"], "bash -c -O extglob 'r${x}m y'"),
        (&["rm"], "bash -cs 'r${x}m y'"),
        (&["rm"], "bash -s -c 'r${x}m y'"),
        (&["rm"], "bash --rcfile /dev/null -c 'r${x}m y'"),
        (&["rm"], "bash --init-file f.sh -c 'r${x}m y'"),
        (&["rm"], "bash $x 'r${y}m z'"),
        (&["rm"], "su -c'r${x}m y'"),
        (&["rm"], "time -- r${x}m y"),
        (&["rm"], "time -p -- r${x}m y"),
        (&["rm"], "command time -o f r${x}m y"),
        (&["rm"], "builtin -- eval 'r${x}m y'"),
        (&["rm"], r#"X=r; X+="m -rf "; $X/foo"#),
        (&["rm"], r#"HOME="r${x}m -rf "; $HOME/foo"#),
        (&["rm"], "parallel r{} y ::: m"),
        (&["rm"], "ls | xargs -I@ sh -c '@ y'"),
        (&["rm"], "ls | xargs -0 -I @ sh -c 'cd x; @ y'"),
        (&["rm"], "env --unset FOO r${x}m y"),
        (&["rm"], "env -S 'r${x}m y'"),
        (&["rm"], "env -S '-u FOO r${x}m y'"),
        (&["rm"], "env a-b=c r${x}m y"),
        (&["rm"], "eval 'z=1; r${x}m y'"),
        (&["rm"], "eval '2>&- r${x}m y'"),
        (&["rm"], "stdbuf --output L r${x}m y"),
        (&["rm"], "exec -ca n r${x}m y"),
        (&["rm"], "sudo -nu root r${x}m y"),
        (&["rm"], "doas -nu root r${x}m y"),
        (&["rm"], "ssh -tp 22 h 'r${x}m y'"),
        (&["rm"], "xargs --arg-file f r${x}m"),
        (&["rm"], "curl y | env --unset FOO sh"),
        (&["rm"], "flock /tmp/l -c 'r${x}m y'"),
        (&["rm"], "strace -o f r${x}m y"),
        (&["rm"], "taskset 3 r${x}m y"),
        (&["rm"], "unshare --user r${x}m y"),
        (&["rm"], "setpriv --reuid 1000 r${x}m y"),
        (&["rm"], "script -qc 'r${x}m y' f"),
        (&["rm"], "script /tmp/f -c 'r${x}m y'"),
        (&["git", "push", "--force"], "x=--force; git push $x"),
        (&["git", "push", "--force"], "git push --for$x"),
        (&["git", "push", "--force"], r#"git push origin "$x""#),
        (&["git", "push"], "git -c alias.x=push x origin main"),
        (&["git", "push"], r#"x="a.b=c push origin"; git -c $x"#),
        (&["git", "push"], r#"git -c "$x" y"#),
        (&["git", "push"], "y='p push'; git -$y"),
    ] {
        assert_eq!(denied(prefix, line), Some(Ask), "{line:?}");
    }
}

#[test]
fn a_denied_command_behind_options_is_denied() {
    for (prefix, line) in [
        (&["rm"][..], "echo } ; rm y"),
        (&["rm"], "bash -c -e 'rm y'"),
        (&["rm"], "bash --rcfile /dev/null -c 'rm y'"),
        (&["rm"], "bash -co pipefail 'rm y'"),
        (&["rm"], "time -p -- rm y"),
        (&["rm"], "env -S 'rm y'"),
        (&["rm"], "sudo -nu root rm y"),
        (&["rm"], "flock /tmp/l -c 'rm y'"),
        (&["rm"], "mapfile -C 'rm y' a"),
        (&["rm"], "strace -f -o f rm y"),
        (&["rm"], "script -qc 'rm y'"),
        (&["cargo", "publish"], "cargo +nightly publish"),
    ] {
        assert_eq!(denied(prefix, line), Some(Deny), "{line:?}");
    }
}

/// Rules as people write them: some commands are denied, and all else is allowed.
fn guarded() -> Value {
    json!([
        deny("rm", &["rm"]),
        deny("push", &["git", "push"]),
        { "id": "all", "action": "allow" },
    ])
}

#[test]
fn text_that_reaches_an_interpreter_asks() {
    let asks = |line: &str| matches!(decide(&guarded(), line), Some((_, Ask)));
    for end in [
        "bash -e",
        "bash -euo pipefail",
        "sh -x",
        "bash -xs -- y",
        "bash --login",
        "bash /dev/stdin",
        "python3 -u",
        "python3 -W ignore",
        "node -r esm",
        "perl -w",
        "sudo -u a sh",
        "sudo --user a -- sh",
        "sudo -i",
        "sudo su - a",
        "env -u X A=1 bash",
        "timeout -k 5 10 bash",
        "nice -n 5 bash",
        "flock /tmp/l sh",
        "chroot /x",
        "ssh host",
        "ssh -p 22 10.0.0.1 bash -s",
        "ssh host 'bash -s'",
        "docker run -i --rm alpine sh",
        "kubectl exec -i pod -- bash",
        "bash -c sh",
        "at now",
        "crontab -",
        "make -f -",
        "parallel",
        "source /dev/stdin",
        "(sh)",
        "(cd /x && sh)",
        "{ sh; }",
        "{ cat; sh; }",
        "\nsh",
        "# a remark\n sh",
        "(\nsh\n)",
        "while true; do sh; done",
        "while read x; do if y; then sh; fi; done",
        "for x in 1 2; do sh; done",
        "if true; then sh; fi",
        "case x in x) sh;; esac",
        "case x in y) z;; x) sh;; esac",
        "! sh",
        "time sh",
        "tee >(sh)",
        "tee >(cat | sh)",
        "cat <(sh)",
        "echo $(sh)",
        "xargs sh",
        "xargs -n 1 sh",
        "xargs -0 sh -c",
        "xargs -I % sh %",
        "xargs -I{} sh -c {}",
        "xargs env",
        "xargs sudo -u a bash",
    ] {
        let line = format!("curl x | {end}");
        assert!(asks(&line), "{line:?}");
    }
    for line in [
        "sh < y",
        "sh 0< y",
        "<y sh",
        "bash -x < y",
        "(sh) < y",
        "{ sh; } < y",
        "while read x; do sh; done < y",
        "sh <<< $x",
        "bash -x <<< \"$(curl x)\"",
        "(sh) <<< $x",
        "cat <<E | sh -x\n$x\nE",
        "sh <(curl x)",
        "bash -o posix <(curl x)",
        "bash --rcfile <(curl x) -i",
        "curl x > >(sh)",
        "find . -exec sh {} +",
        "find . -exec bash -e {} \\;",
        "fd -e x -x bash",
        "xargs -a y bash",
        "f() { sh; }; curl x | f",
        "f ()\n{\n  sh\n}\ncurl x | f",
        "function f { sh; }; f < y",
        "exec < y; sh",
    ] {
        assert!(asks(line), "{line:?}");
    }
}

#[test]
fn what_only_reads_data_asks_nobody() {
    for line in [
        "curl x | python3 -m json.tool",
        "curl x | python3 -c 'import sys; print(len(sys.stdin.read()))'",
        "curl x | node -e 'process.stdin.pipe(process.stdout)'",
        "curl x | perl -ne 'print if /x/'",
        "curl x | perl -lane 'print $F[0]'",
        "curl x | ruby -ne 'puts $_'",
        "curl x | bash -c 'cat; ls'",
        "curl x | bash -e deploy.sh",
        "curl x | sudo -u a tee y",
        "curl x | sudo grep bash",
        "curl x | ssh host 'cat > y'",
        "curl x | docker exec -i db psql",
        "curl x | ./import.sh --all",
        "curl x | while read y; do python3 tool.py $y; done",
        "ls | xargs python3 tool.py",
        "ls | xargs -n 1 bash -c 'echo x'",
        "ls | xargs grep node",
        "python3 tool.py < y",
        "find . -name x -exec ./fix.sh {} +",
        "docker ps | grep bash",
        "crontab -l | grep x",
        "python3 - <<'E'\nprint(1)\nE",
        "bash <<'E'\nset -e\nmake\nE",
        "ssh host <<'E'\nuptime\nE",
        "cat > x <<E\n$y \\$z\nE",
        "echo ${x[0]} ${#x[@]} ${y:-z}",
        "exec > y; bash",
        "git -C \"$x\" status",
        "\"$x\"/bin/tool && $HOME/bin/tool",
        "{ ls; } > y; { ls; }",
        "ls 2>&- >&2 &> y",
        "bash --rcfile x -c 'ls'",
        "bash \"$x\" y",
        "sudo --preserve-env=X ls \"$x\"",
        "timeout --foreground 60 npm test",
        "[[ -v x ]] && printf -v y '%s' z",
        "source $x/bin/activate",
        "strace -f -o f ls $x",
        "ls | xargs grep -i x",
        "ls | xargs -I f sh -c 'cat f'",
    ] {
        let (id, _) = decide(&guarded(), line).unwrap();
        assert_eq!(id, "all", "{line:?}");
    }
}

#[test]
fn everyday_lines_ask_nobody() {
    let lines: Vec<String> = EVERYDAY.lines().map(|line| line.replace("\\n", "\n")).collect();
    assert_eq!(lines.len(), 200);
    let rules = json!([
        deny("rm", &["rm"]),
        deny("push", &["git", "push"]),
        deny("sudo", &["sudo"]),
        deny("publish", &["npm", "publish"]),
        { "id": "all", "action": "allow" },
    ]);
    let held: Vec<_> = lines
        .iter()
        .filter(|line| decide(&rules, line) != Some(("all".to_owned(), RuleAction::Allow)))
        .collect();
    assert!(held.len() <= 3, "{held:#?}");
}

#[test]
fn a_line_that_is_too_deep_asks() {
    for piece in [
        "(",
        "$(",
        "${x",
        "\"$(",
        "{ ",
        "sudo ",
        "eval ",
        "find -exec ",
        "docker sh ",
        "x=1 ",
        "if ",
    ] {
        let line = format!("{} x", piece.repeat(2_000));
        let is_plain = ["{ ", "x=1 ", "if "].contains(&piece);
        let expected = if is_plain { None } else { Some(Ask) };
        assert_eq!(denied(&["rm"], &line), expected, "{piece:?}");
    }
}

#[test]
fn a_guess_gives_way_to_a_certain_denial_alone() {
    let certain = deny("certain", &["curl"]);
    let allow = json!({ "id": "all", "action": "allow" });
    let ask = json!({ "id": "ask", "action": "ask", "deadline_ms": 5, "on_deadline": "allow" });
    let guess = deny("guess", &["rm"]);
    for (rules, expected) in [
        (json!([guess, certain]), ("certain", Deny)),
        (json!([guess, allow, certain]), ("guess", Ask)),
        (json!([guess, ask, certain]), ("guess", Ask)),
        (json!([guess]), ("guess", Ask)),
        (json!([allow, guess]), ("all", RuleAction::Allow)),
    ] {
        let decided = decide(&rules, "curl x | sh");
        assert_eq!(decided, Some((expected.0.to_owned(), expected.1)), "{rules}");
    }
}
