//! Owns a CLI that may not use the model API, as a person at a terminal meets it: nobody is logged in, the key is wrong.

use std::{
    io::Read as _,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};

use serde_json::json;

use crate::{
    support::{
        daemon::TestDaemon,
        programs::trunkline,
        wait::{PATIENCE, wait_until},
    },
    world::World,
};

/// A command of a person, and what it has printed so far.
struct Typed {
    child: Child,
    printed: Arc<Mutex<String>>,
}

impl Typed {
    #[expect(clippy::disallowed_methods, reason = "the command line is what is looked at")]
    fn start(daemon: &TestDaemon, args: &[&str]) -> Self {
        let mut child = Command::new(trunkline())
            .args(args)
            .env_clear()
            .env("HOME", daemon.home())
            .env("TRUNKLINE_DATA_DIR", daemon.data_dir())
            .current_dir(daemon.work_dir("here"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let printed = Arc::new(Mutex::new(String::new()));
        let outputs: [Box<dyn std::io::Read + Send>; 2] = [
            Box::new(child.stdout.take().unwrap()),
            Box::new(child.stderr.take().unwrap()),
        ];
        for mut output in outputs {
            let printed = Arc::clone(&printed);
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = output.read(&mut bytes) {
                    let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                    printed.lock().unwrap().push_str(&text);
                }
            });
        }
        Self { child, printed }
    }

    async fn prints(&self, text: &str) {
        let printed = || self.printed.lock().unwrap().clone();
        let what = format!("{text:?} is printed");
        wait_until(&what, PATIENCE, || printed().contains(text)).await;
    }
}

impl Drop for Typed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[tokio::test]
async fn who_is_not_logged_in_is_told_what_to_do() {
    let world = World::with(|daemon| daemon.env("TRUNKLINE_CLAUDE_ENV_DENY", "ANTHROPIC_API_KEY")).await;
    let asked = Typed::start(&world.daemon, &["new", "--wait", "hello"]);
    asked.prints("Not logged in").await;
    asked
        .prints("type /login, or give the daemon ANTHROPIC_API_KEY")
        .await;
    let watched = Typed::start(&world.daemon, &["attach", "--after", "0"]);
    watched.prints("Not logged in").await;
    watched.prints("type /login").await;
}

#[tokio::test]
async fn a_wrong_key_is_told_while_the_cli_still_tries() {
    let world = World::start().await;
    let refused = json!({"errors": {"status": 401, "times": 1000, "error_type": "authentication_error",
        "message": "invalid x-api-key"}});
    world.api.control(refused).await;
    let asked = Typed::start(&world.daemon, &["new", "--wait", "hello"]);
    asked.prints("API Error: 401").await;
    asked
        .prints("correct ANTHROPIC_API_KEY where the daemon gets it")
        .await;
    let watched = Typed::start(&world.daemon, &["attach", "--after", "0"]);
    watched.prints("correct ANTHROPIC_API_KEY").await;
}
