//! The webhook of `docs/protocol/outbound.md`, run as it stands there and asked by a daemon.
#![expect(
    clippy::unwrap_used,
    reason = "reads what the programs print, and fails by panicking"
)]

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use crate::docs::{daemon::Newcomer, read};

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The server of the page on a free port, and its address.
fn start(newcomer: &Newcomer) -> (Server, String) {
    let page = read("docs/protocol/outbound.md");
    let (_, block) = page.split_once("```python\n").unwrap();
    let (program, _) = block.split_once("```").unwrap();
    let mut child = newcomer
        .command("python3")
        .args(["-c", program, "0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut address)
        .unwrap();
    (Server(child), address.trim().to_owned())
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

/// The conversation after a command in a session with this hook.
fn asked(newcomer: &Newcomer, url: &str, secret: &str, command: &str) -> String {
    let options = serde_json::json!({
        "allowed_tools": ["Bash"],
        "hooks": [{
            "event": "PreToolUse", "matcher": "Bash", "on_failure": "block",
            "target": {"type": "webhook", "url": url, "secret": secret},
        }],
    });
    let script = r#"printf %s "$1" > options.json
        trunkline new --wait --options options.json "Use your Bash tool to run: $2" > said.txt 2>&1
        printf 'header = "Authorization: Bearer %s"' "$(cat ~/.local/state/trunkline/token)" > curl.conf
        id=$(grep -o '^session .*' said.txt | cut -d ' ' -f 2)
        curl -sSf -K curl.conf "$0/v1/sessions/$id/messages""#;
    output(
        newcomer
            .command("bash")
            .args(["-ec", script, &newcomer.url, &options.to_string(), command]),
    )
}

#[test]
fn the_webhook_in_python_decides_about_commands() {
    let newcomer = Newcomer::start();
    let (_server, url) = start(&newcomer);
    let secret = "whsec_Y29ycmVjdCBob3JzZSBiYXR0ZXJ5IHN0YXBsZQ==";
    let denied = asked(&newcomer, &url, secret, "rm notes.txt");
    assert!(denied.contains("rm is not for you"), "{denied}");
    let allowed = asked(&newcomer, &url, secret, "ls");
    assert!(allowed.contains("pretended to run `ls`"), "{allowed}");
    // A delivery that somebody else signed is not answered, and `on_failure` blocks.
    let forged = asked(&newcomer, &url, "another secret", "ls");
    assert!(forged.contains("I will not"), "{forged}");
    newcomer.stop();
}
