//! Owns what a person is shown of a request before deciding: all of it, in characters that can be seen.

use serde_json::{Value, json};

use crate::{
    console::{
        common::{run_with, tl, to},
        terminal::Terminal,
    },
    support::{
        daemon::TestDaemon,
        programs::fake_prompt,
        wait::{PATIENCE, wait_until},
    },
};

/// A session that asks for a tool.
async fn asking(daemon: &TestDaemon, tool: &str, input: &Value) -> String {
    let asks = fake_prompt(&json!([{"ask": {"tool": tool, "input": input}}]));
    let id = tl(daemon, &["new", &asks]).line();
    daemon.rest().pending_approval(&id).await;
    id
}

#[tokio::test]
async fn each_argument_of_a_tool_is_shown() {
    let daemon = TestDaemon::with_fake().start().await;
    let transfer = json!({"description": "Check the balance", "to": "mallory", "amount": 1_000_000});
    let edit =
        json!({"file_path": "/x/a.rs", "old_string": "fn a() {}\nsafe", "new_string": "fn a() {}\nunsafe"});
    let bash = json!({"command": "ls", "dangerouslyDisableSandbox": true, "run_in_background": true});
    let write = json!({"file_path": "/x/b.txt", "content": "first\nsecond\n"});
    for (tool, input, expected) in [
        (
            "mcp__bank__transfer",
            &transfer,
            &["amount: 1000000", "to: mallory", "Check the balance"][..],
        ),
        (
            "Edit",
            &edit,
            &["/x/a.rs", "|   fn a() {}", "| - safe", "| + unsafe"],
        ),
        (
            "Bash",
            &bash,
            &["outside of the sandbox", "run_in_background: true", "command: ls"],
        ),
        ("Write", &write, &["/x/b.txt", "| first", "| second"]),
    ] {
        let id = asking(&daemon, tool, input).await;
        for args in [&["show", &id][..], &["approvals", "--session", &id]] {
            let shown = tl(&daemon, args).good();
            for part in expected {
                assert!(shown.contains(part), "{part} is not in {args:?}: {shown}");
            }
        }
        tl(&daemon, &["deny", &id]).good();
        daemon.rest().in_state(&id, &["idle"]).await;
    }
}

#[tokio::test]
async fn no_character_of_a_request_hides() {
    let daemon = TestDaemon::with_fake().start().await;
    let command = format!("ls \u{202e}txt\u{200b}{}; curl evil", " ".repeat(300));
    let id = asking(&daemon, "Bash", &json!({"command": command})).await;
    let other = tl(&daemon, &["new", "--title", "two\nlines\u{202e}", "hello"]).line();
    for args in [&["show", &id][..], &["approvals"]] {
        let shown = tl(&daemon, args).good();
        assert!(
            shown.contains("ls \\u{202e}txt\\u{200b}‹300 blanks›; curl evil"),
            "{args:?}: {shown}"
        );
    }
    let allowed = tl(&daemon, &["approve", &id]);
    assert!(
        allowed.stderr.contains("\\u{202e}") && allowed.code == 0,
        "{allowed:?}"
    );
    let titled = tl(&daemon, &["show", &other]).good();
    assert!(titled.contains("two lines\\u{202e}"), "{titled}");
    assert!(!tl(&daemon, &["ls"]).good().contains('\u{202e}'));
}

#[tokio::test]
async fn a_long_request_says_that_it_is_cut() {
    let daemon = TestDaemon::with_fake().start().await;
    let command = format!("{}evil", "line\n".repeat(400));
    let id = asking(&daemon, "Bash", &json!({"command": command})).await;
    let list = tl(&daemon, &["approvals"]);
    assert!(
        list.stdout.contains("cut here") && list.stdout.contains("| evil") && list.stderr.contains("--full"),
        "{list:?}"
    );
    for args in [&["approvals", "--full"][..], &["show", &id]] {
        let all = tl(&daemon, args).good();
        assert_eq!(all.matches("| line").count(), 400, "{args:?}");
    }
}

#[tokio::test]
async fn all_of_a_large_request_is_shown() {
    let daemon = TestDaemon::with_fake().start().await;
    let content = format!("{}evil", "0123456789\n".repeat(20_000));
    let input = json!({"file_path": "/x/a.txt", "content": content});
    let asks = fake_prompt(&json!([{"ask": {"tool": "Write", "input": input}}]));
    let id = run_with(to(&daemon, &["new", "-"]), &asks).line();
    daemon.rest().pending_approval(&id).await;
    let shown = tl(&daemon, &["show", &id]).good();
    assert_eq!(shown.matches("| 0123456789").count(), 20_000);
    assert!(shown.contains("| evil"));
    // A screen gets a part, and is told.
    let terminal = Terminal::new(&daemon, &["show", &id]);
    terminal.shows("cut here").await;
    terminal.shows("| evil").await;
    terminal.shows("--full` shows it").await;
}

#[tokio::test]
async fn a_deep_request_is_shown_and_decided_like_others() {
    let daemon = TestDaemon::with_fake().start().await;
    let deep = (0..125).fold(json!("core"), |inner, _| json!({ "d": inner }));
    let asks = fake_prompt(&json!([{"ask": {"tool": "Odd", "input": {"deep": deep}}}]));
    let deep = tl(&daemon, &["new", &asks]).line();
    let asks = fake_prompt(&json!([{"ask": {"input": {"command": "make"}}}]));
    let other = tl(&daemon, &["new", &asks]).line();
    // No reader of these tests goes so deep either.
    wait_until("both requests are listed", PATIENCE, || {
        let list = tl(&daemon, &["approvals"]).stdout;
        list.contains("Odd") && list.contains("Bash")
    })
    .await;
    let list = tl(&daemon, &["approvals", "--full"]).good();
    assert!(list.contains("command: make") && list.contains("core"), "{list}");
    assert!(tl(&daemon, &["show", &deep]).good().contains("core"));
    tl(&daemon, &["deny", &deep]).good();
    tl(&daemon, &["approve", &other]).good();
    for id in [&deep, &other] {
        daemon.rest().in_state(id, &["idle"]).await;
    }
}
