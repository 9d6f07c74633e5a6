//! Owns the smaller commands of a day: `log`, `status`, `model`, `mode`, rules, `resume --all`, `rm`, and what the program
//! says about itself.

use serde_json::json;

use crate::{
    console::{
        attach::Typed,
        common::{command, run, tl, to},
        terminal::Terminal,
    },
    support::{
        daemon::TestDaemon,
        programs::{fake_claude, fake_prompt},
        wait::{PATIENCE, wait_for},
    },
};

#[tokio::test]
async fn log_prints_a_conversation() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = tl(
        &daemon,
        &["new", &fake_prompt(&json!([{"text": "the first answer"}]))],
    )
    .line();
    daemon.rest().in_state(&id, &["idle"]).await;
    tl(
        &daemon,
        &[
            "send",
            &id,
            "--wait",
            &fake_prompt(&json!([{"text": "the second answer"}])),
        ],
    )
    .good();
    let all = tl(&daemon, &["log", &id]).good();
    let (first, second) = (all.find("the first answer"), all.find("the second answer"));
    assert!(
        first.is_some() && first < second && all.contains("- turn done"),
        "{all}"
    );
    let end = tl(&daemon, &["log", &id, "-n", "2"]).good();
    assert!(
        end.contains("- turn done") && !end.contains("the first answer"),
        "{end}"
    );
    let records = tl(&daemon, &["log", &id, "--json"]).good();
    let seqs = records
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"].as_u64());
    assert!(
        seqs.eq((1..=records.lines().count() as u64).map(Some)),
        "{records}"
    );
}

#[tokio::test]
async fn log_goes_on_with_what_happens() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = tl(&daemon, &["new", &fake_prompt(&json!([{"text": "before"}]))]).line();
    daemon.rest().in_state(&id, &["idle"]).await;
    let followed = Typed::start(to(&daemon, &["log", &id, "--follow"]));
    followed.shows("before").await;
    let after = fake_prompt(&json!([{"text": "afterwards"}]));
    tl(&daemon, &["send", &id, "--wait", &after]).good();
    followed.shows("afterwards").await;
    let asks = fake_prompt(&json!([{"ask": {"input": {"command": "make"}}}]));
    tl(&daemon, &["send", &id, &asks]).good();
    followed.shows("? it asks: Bash make").await;
}

#[tokio::test]
async fn settings_and_rules_are_shown_and_changed() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = tl(&daemon, &["new", "hello"]).line();
    daemon.rest().in_state(&id, &["idle"]).await;
    assert_eq!(tl(&daemon, &["model", &id]).line(), "claude-fake-1");
    tl(&daemon, &["mode", &id, "acceptEdits"]).good();
    assert_eq!(tl(&daemon, &["mode", &id]).line(), "acceptEdits");
    let change = ["options", &id, "effort=low", "env={\"TOKEN\": \"planted\"}"];
    let changed = tl(&daemon, &change);
    assert!(
        changed.stderr.contains("does not have effort, env"),
        "{changed:?}"
    );
    let shown = tl(&daemon, &["options", &id]).good();
    assert!(
        shown.contains("effort = low") && !shown.contains("planted"),
        "{shown}"
    );
    let refused = tl(&daemon, &["options", &id, "session_id=null"]).code;
    assert_ne!(refused, 0, "it is fixed");
    tl(&daemon, &["options", &id, "effort=null", "env=null"]).good();
    assert!(!tl(&daemon, &["options", &id]).stdout.contains("effort"));
    let rule = tl(&daemon, &["rules", "add", &id, "--deny", "WebFetch"]).line();
    let list = tl(&daemon, &["rules", &id]).good();
    assert!(
        list.contains(&rule) && list.contains("WebFetch") && list.contains("deny"),
        "{list}"
    );
    tl(&daemon, &["rules", "rm", &id, &rule]).good();
    assert!(!tl(&daemon, &["rules", &id]).stdout.contains("WebFetch"));
    let told = tl(&daemon, &["rules", "rm", &id, &rule]).failed(4);
    assert!(
        told.contains("`trunkline rules SESSION`") && !told.contains("GET"),
        "{told}"
    );
    let nothing = tl(&daemon, &["interrupt", &id]);
    assert!(
        nothing.code == 0 && nothing.stderr.contains("nothing ran"),
        "{nothing:?}"
    );
    let status = tl(&daemon, &["status"]).good();
    assert!(
        status.contains(daemon.url()) && status.contains("live sessions    1"),
        "{status}"
    );
}

#[tokio::test]
async fn what_the_agent_suggests_is_always_allowed() {
    let daemon = TestDaemon::with_fake().start().await;
    let rule = json!({"type": "addRules", "behavior": "allow", "destination": "session",
        "rules": [{"toolName": "Bash", "ruleContent": "make *"}]});
    let asks = json!([{"ask": {"input": {"command": "make"}, "suggestions": [rule]}}]);
    let id = tl(&daemon, &["new", &fake_prompt(&asks)]).line();
    daemon.rest().pending_approval(&id).await;
    let told = tl(&daemon, &["allow", &id, "--always"]);
    assert!(
        told.code == 0 && told.stderr.contains("Bash(make *), for this session"),
        "{told:?}"
    );
    daemon.rest().in_state(&id, &["idle"]).await;
    let events = daemon.rest().events(&id, 0).await;
    let answer = events
        .iter()
        .find(|it| it["data"]["type"] == "fake_answer")
        .unwrap();
    assert_eq!(
        answer["data"]["response"]["response"]["updatedPermissions"],
        json!([rule])
    );
}

#[tokio::test]
async fn all_that_was_stopped_is_resumed_and_rm_asks() {
    let daemon = TestDaemon::with_fake().start().await;
    let ids: Vec<String> = (0..2).map(|_| tl(&daemon, &["new", "hello"]).line()).collect();
    for id in &ids {
        daemon.rest().in_state(id, &["idle"]).await;
        tl(&daemon, &["stop", id]).good();
    }
    let resumed = tl(&daemon, &["resume", "--all"]).good();
    for id in &ids {
        assert!(resumed.contains(id), "{resumed}");
        daemon.rest().in_state(id, &["idle"]).await;
    }
    let mut terminal = Terminal::new(&daemon, &["rm", &ids[0]]);
    terminal
        .shows("is idle; end it and delete its conversation? y or n:")
        .await;
    terminal.types("n\n");
    terminal.shows("kept ").await;
    assert_eq!(terminal.code().await, 0, "{}", terminal.screen());
    assert_eq!(daemon.rest().session(&ids[0]).await["state"], "idle");
    let mut terminal = Terminal::new(&daemon, &["rm", "--force", &ids[0]]);
    terminal.shows("deleted ").await;
    assert_eq!(terminal.code().await, 0, "{}", terminal.screen());
    tl(&daemon, &["show", &ids[0]]).failed(4);
}

#[test]
fn the_program_tells_about_itself() {
    let home = tempfile::tempdir().unwrap();
    let told = |args: &[&str]| run(command(home.path(), args)).good();
    assert!(told(&["version"]).starts_with("trunkline 0."));
    assert!(told(&["help"]).contains("Examples:"));
    assert!(told(&["help", "send"]).contains("Usage: trunkline send"));
    assert!(told(&["completions", "bash"]).contains("trunkline"));
    assert!(told(&["man"]).contains(".TH trunkline"));
    assert!(told(&["man", "attach"]).contains("attach"));
    let unknown = run(command(home.path(), &["man", "flyaway"])).failed(2);
    assert!(unknown.contains("flyaway"), "{unknown}");
}

#[tokio::test]
async fn ctrl_c_of_the_daemon_says_what_it_waits_for() {
    let other = TestDaemon::with_fake().start().await;
    let data = other.home().join("data of a second one");
    let dir = data.to_str().unwrap();
    let claude = fake_claude();
    let serve = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        dir,
        "--claude-bin",
        claude.to_str().unwrap(),
    ];
    let mut terminal = Terminal::new(&other, &serve);
    terminal.shows("stop:   Ctrl-C").await;
    // On a terminal a person reads the ticket.
    terminal.shows("open:   http://127.0.0.1:").await;
    terminal.shows("/open#").await;
    let asks = fake_prompt(&json!([{"ask": {"input": {"command": "make"}}}]));
    let id = tl(&other, &["new", "--data-dir", dir, &asks]).line();
    let shows_waiting = async || {
        let shown = tl(&other, &["show", "--data-dir", dir, &id]).good();
        shown.contains("waits for you").then_some(())
    };
    wait_for("the agent asks", PATIENCE, shows_waiting).await;
    terminal.types("\x03");
    terminal.shows("ending: 1 session to stop; 1 in a turn").await;
    terminal.types("\x03");
    assert_eq!(terminal.code().await, 0, "{}", terminal.screen());
    let log = terminal.screen();
    assert!(
        log.contains("on_shutdown=\"stop\"") && !log.contains("Stop\n"),
        "{log}"
    );
}

#[tokio::test]
async fn the_refusal_of_a_mode_names_its_setting() {
    let daemon = TestDaemon::with_fake().start().await;
    let told = tl(&daemon, &["new", "--permission-mode", "bypassPermissions"]).failed(5);
    assert!(told.contains("sessions.allow_bypass_permissions"), "{told}");
}

#[tokio::test]
async fn wrong_values_are_told_in_a_persons_words() {
    let daemon = TestDaemon::with_fake().start().await;
    tl(&daemon, &["new"]).line();
    for (args, expected) in [
        (
            &["new", "--permission-mode", "x"][..],
            "--permission-mode x: it takes one of default, ",
        ),
        (&["ls", "--state", "x"], "--state x: it takes one of starting, "),
        (
            &["new", "--resume", "x"],
            "--continue goes on with the newest one",
        ),
        (&["new", "--resume"], "--continue goes on with the newest one"),
        (
            &["new", "--max-turns", "0"],
            "'--max-turns <N>': expected a whole number from 1 to ",
        ),
        (
            &["new", "--max-budget-usd", "x"],
            "'--max-budget-usd <USD>': expected an amount of dollars above 0",
        ),
        (&["new", "--max-budget-usd", "-1"], "invalid value '-1'"),
        (
            &["new", "--max-budget-usd", "NaN"],
            "expected an amount of dollars above 0",
        ),
        (
            &["new", "--max-budget-usd", "inf"],
            "expected an amount of dollars above 0",
        ),
        (&["new", "--model", ""], "--model: is empty"),
        (
            &["new", "--allowed-tools", "Read,,Bash"],
            "--allowed-tools: is empty",
        ),
        (
            &["new", "--label", "x"],
            "'--label <KEY=VALUE>': expected KEY=VALUE, such as team=web",
        ),
        (
            &["new", "--cwd", "/srv/api/v1/app"],
            "the working directory /srv/api/v1/app does not exist",
        ),
        (&["new", "--options", "nowhere"], "--options: cannot read nowhere"),
        (
            &["send", "last", "x", "--wait", "--timeout", "x"],
            "expected a whole number from 1 to 86400",
        ),
        (
            &["send", "last", "x", "--wait", "--timeout", "18446744073709551615"],
            "expected a whole number from 1 to 86400",
        ),
        (
            &["fork", "last", "--at", "x"],
            "'--at <UUID>': expected the uuid of a message",
        ),
        (
            &["log", "last", "-n", "-1"],
            "'--lines <N>': expected a whole number, 0 or more",
        ),
        (
            &["attach", "--after", "x"],
            "'--after <SEQ>': expected a whole number, 0 or more",
        ),
        (
            &["ls", "-n", "501"],
            "'--limit <N>': expected a whole number from 1 to 500",
        ),
        (&["approvals", "-n", "x"], "expected a whole number from 1 to 500"),
        (&["approvals", "--kind", "x"], "--kind x: it takes one of tool, "),
        (&["usage", "--from", "x"], "expected a day such as 2026-01-31"),
        (
            &["usage", "--from", "2026-02-01", "--to", "2026-01-01"],
            "--from must be earlier than --to",
        ),
        (
            &["rules", "add", "last", "{"],
            "the rule is not JSON: it ends too early",
        ),
        (
            &["rules", "--test", "Bash", "--input", "{]"],
            "--input is not JSON: look at line 1, column 2",
        ),
        (&["serve", "--listen", "x"], "such as 127.0.0.1:7433"),
        (
            &["serve", "--log-level", "loud"],
            "\"loud\" is not error, warn, info, ",
        ),
    ] {
        let told = tl(&daemon, args);
        assert!(
            told.code != 0 && told.stderr.contains(expected),
            "{args:?}: {told:?}"
        );
        for words in [
            "at line 1 column",
            "of the body",
            "invalid digit",
            "UUID parsing",
            "float",
            "EOF",
            "panicked",
        ] {
            assert!(!told.stderr.contains(words), "{told:?}");
        }
    }
}
