//! Owns `open` and `logins`: a browser is signed in without a secret in any program's arguments, and signed out.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    process::Stdio,
};

use serde_json::{Value, json};

use crate::{
    console::common::{run, tl, to},
    support::{daemon::TestDaemon, login::Page},
};

/// Notes what it is given, and signs in as the console's page does.
const BROWSER: &str = r#"#!/bin/sh
out=$(dirname "$0")
echo "$*" > "$out/arguments"
stat -c %a "$1" > "$out/mode"
address=$(grep -o 'url=[^"]*' "$1" | cut -c5-)
ticket=${address#*/open#}
curl -sS --noproxy '*' -H 'content-type: application/json' -d "{\"ticket\":\"$ticket\",\"name\":\"A browser\"}" \
  "${address%/open*}/v1/logins" > "$out/made"
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_signs_a_browser_in_through_a_private_file() {
    let daemon = TestDaemon::with_fake().start().await;
    let dir = daemon.work_dir("browser");
    let program = dir.join("browser");
    fs::write(&program, BROWSER).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = to(&daemon, &["open", "--viewer"]);
    command.env(
        "BROWSER",
        format!("/nonexistent:{} %s --private", program.display()),
    );
    let opened = run(command);
    assert!(opened.code == 0 && opened.stdout.is_empty(), "{opened:?}");
    assert!(opened.stderr.contains("signed in"), "{opened:?}");
    let noted = |name: &str| fs::read_to_string(dir.join(name)).unwrap().trim().to_owned();
    let page = daemon.data_dir().join("open.html");
    assert_eq!(noted("arguments"), format!("{} --private", page.display()));
    assert_eq!(noted("mode"), "600");
    assert!(!page.exists(), "the file is gone");
    let made: Value = serde_json::from_str(&noted("made")).unwrap();
    assert_eq!(made["login"]["role"], "viewer", "{made:#}");

    let listed = tl(&daemon, &["logins"]).good();
    assert!(
        listed.contains("A browser") && listed.contains("viewer"),
        "{listed}"
    );
    let id = made["login"]["id"].as_str().unwrap();
    let revoked = tl(&daemon, &["logins", "revoke", &id[..id.len() - 1]]);
    assert!(revoked.stderr.contains("revoked 1 login"), "{revoked:?}");
    let again = tl(&daemon, &["logins", "revoke", id]).failed(4);
    assert!(again.contains("no such login"), "{again}");
    for _ in 0..2 {
        Page::let_in(&daemon.rest(), "operator").await;
    }
    let revoked = tl(&daemon, &["logins", "revoke", "--all"]);
    assert!(revoked.stderr.contains("revoked 2 logins"), "{revoked:?}");
    let none = tl(&daemon, &["logins", "ls"]);
    assert!(
        none.stdout.is_empty() && none.stderr.contains("trunkline open"),
        "{none:?}"
    );
}

/// The address that was printed, which makes one login.
async fn signs_in(daemon: &TestDaemon, address: &str) -> Value {
    let ticket = address.split_once("/open#").unwrap().1;
    let made = daemon.rest().with_token(None);
    made.post("/v1/logins", json!({"ticket": ticket}))
        .await
        .expect(201)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_browser_the_address_is_printed() {
    let daemon = TestDaemon::with_fake().start().await;
    let url = format!("{}/open#", daemon.url());
    let printed = tl(&daemon, &["open", "--print"]).line();
    assert!(printed.starts_with(&url), "{printed}");
    let made = signs_in(&daemon, &printed).await;
    assert_eq!(made["login"]["role"], "operator", "{made:#}");
    let none = tl(&daemon, &["open"]);
    assert!(
        none.stdout.starts_with(&url) && none.stderr.contains("no browser"),
        "{none:?}"
    );
    let mut broken = to(&daemon, &["open"]);
    broken.env("BROWSER", "false");
    let broken = run(broken);
    assert!(broken.stdout.starts_with(&url) && broken.code == 0, "{broken:?}");
    let told = tl(&daemon, &["--json", "open"]).json();
    assert!(told["url"].as_str().unwrap().starts_with(&url), "{told:#}");
    assert!(!daemon.data_dir().join("open.html").exists());
    // The daemon prints into a file here, and so prints no ticket.
    let log = daemon.log();
    assert!(!log.contains("/open#"), "{log}");
    assert!(log.contains("open:   ") && log.contains(" open\n"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_phone_is_shown_a_code_or_told_what_is_missing() {
    let daemon = TestDaemon::with_fake().start().await;
    let refused = tl(&daemon, &["open", "--qr"]).failed(5);
    for option in [
        "server.listen",
        "server.allowed_hosts",
        "server.insecure",
        "--at URL",
    ] {
        assert!(refused.contains(option), "{refused}");
    }
    assert!(
        tl(&daemon, &["open", "--qr", "--at", "desk.example/x"])
            .failed(2)
            .contains("--at")
    );
    let mut command = to(&daemon, &["open", "--qr", "--at", "https://desk.example"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut shown = command.spawn().unwrap();
    let mut lines = BufReader::new(shown.stdout.take().unwrap()).lines();
    let (mut picture, mut address) = (0, String::new());
    while !address.starts_with("https://desk.example/open#") {
        address = lines.next().expect("an address").unwrap();
        picture += 1;
    }
    assert!(picture > 15, "{picture} lines");
    signs_in(&daemon, &address).await;
    assert!(shown.wait().unwrap().success());
}
