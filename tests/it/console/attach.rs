//! Owns `attach`: in a terminal, where questions are answered by typing, and without one, where it only watches.

use std::{
    io::{Read as _, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::json;

use crate::{
    console::common::{tl, to},
    support::{daemon::TestDaemon, programs::fake_prompt, wait::wait_for},
};

/// A program and what it has printed so far.
pub(crate) struct Typed {
    child: Child,
    keys: Option<ChildStdin>,
    screen: Arc<Mutex<String>>,
}

/// Runs the rest of its arguments in a terminal of their own and passes keys and text through.
const TERMINAL: &str = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";

impl Typed {
    pub(crate) fn start(mut command: Command) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let outputs: [Box<dyn std::io::Read + Send>; 2] = [
            Box::new(child.stdout.take().unwrap()),
            Box::new(child.stderr.take().unwrap()),
        ];
        for mut output in outputs {
            let screen = Arc::clone(&screen);
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = output.read(&mut bytes) {
                    screen
                        .lock()
                        .unwrap()
                        .push_str(&String::from_utf8_lossy(&bytes[..count]));
                }
            });
        }
        let keys = child.stdin.take();
        Self { child, keys, screen }
    }

    /// `attach` in a terminal.
    fn attach(daemon: &TestDaemon, args: &[&str]) -> Self {
        let plain = to(daemon, args);
        let mut command = Command::new("python3");
        command
            .arg("-c")
            .arg(TERMINAL)
            .arg(plain.get_program())
            .args(plain.get_args())
            .env_clear()
            .envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("NO_COLOR", "1")
            .current_dir(plain.get_current_dir().unwrap());
        Self::start(command)
    }

    pub(crate) fn shown(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    /// Waits until a text is on the screen.
    pub(crate) async fn shows(&self, text: &str) {
        self.shows_times(text, 1).await;
    }

    async fn shows_times(&self, text: &str, times: usize) {
        let what = format!("the screen shows {text:?}");
        let limit = Duration::from_secs(60);
        let seen = async || (self.shown().matches(text).count() >= times).then_some(());
        if tokio::time::timeout(limit, wait_for(&what, limit * 2, seen))
            .await
            .is_err()
        {
            panic!("{text:?} is not shown: {}", self.shown());
        }
    }

    fn types(&mut self, text: &str) {
        let keys = self.keys.as_mut().unwrap();
        keys.write_all(text.as_bytes()).unwrap();
        keys.flush().unwrap();
    }

    /// Waits for the end and gives the exit code.
    pub(crate) async fn code(&mut self) -> i32 {
        wait_for("the program ends", Duration::from_secs(60), async || {
            self.child
                .try_wait()
                .unwrap()
                .map(|status| status.code().unwrap_or(-1))
        })
        .await
    }
}

impl Drop for Typed {
    fn drop(&mut self) {
        // Only what this test started; it has ended if the test went well.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[tokio::test]
async fn a_person_talks_answers_and_leaves() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = tl(&daemon, &["new"]).line();
    let mut terminal = Typed::attach(&daemon, &["attach", &id]);
    wait_for("the client is attached", Duration::from_secs(60), async || {
        (!terminal.shown().is_empty()).then_some(())
    })
    .await;
    let asks = json!([{"ask": {"input": {"command": "make test"}}}, {"text": "tests are green"}]);
    terminal.types(&format!("{}\n", fake_prompt(&asks)));
    terminal.shows("command: make test").await;
    terminal.shows("y allows").await;
    terminal.types("y\n");
    terminal.shows_times("tests are green", 2).await;
    daemon.rest().in_state(&id, &["idle"]).await;

    let asks = json!([{"ask": {"input": {"command": "rm -r /"}}}, {"text": "then not"}]);
    terminal.types(&format!("{}\n", fake_prompt(&asks)));
    terminal.shows("command: rm -r /").await;
    terminal.shows_times("y allows", 2).await;
    terminal.types("n use trash instead\n");
    terminal.shows_times("then not", 2).await;
    daemon.rest().in_state(&id, &["idle"]).await;
    let events = daemon.rest().events(&id, 0).await;
    let told: Vec<_> = events
        .iter()
        .filter(|it| it["data"]["type"] == "fake_answer")
        .map(|it| &it["data"]["response"]["response"])
        .collect();
    assert_eq!(
        (&told[0]["behavior"], &told[1]["behavior"]),
        (&json!("allow"), &json!("deny"))
    );
    assert_eq!(told[1]["message"], "use trash instead");

    let questions = json!({"questions": [
        {"question": "Which colour?", "header": "Colour", "multiSelect": false,
         "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]}]});
    let asks = json!([{"ask": {"tool": "AskUserQuestion", "input": questions}}, {"text": "noted"}]);
    terminal.types(&format!("{}\n", fake_prompt(&asks)));
    terminal.shows("2 Blue - cold").await;
    terminal.types("2\n");
    terminal.shows_times("noted", 2).await;
    daemon.rest().in_state(&id, &["idle"]).await;
    let events = daemon.rest().events(&id, 0).await;
    let last = events
        .iter()
        .rfind(|it| it["data"]["type"] == "fake_answer")
        .unwrap();
    let answers = &last["data"]["response"]["response"]["updatedInput"]["answers"];
    assert_eq!(answers, &json!({"Which colour?": "Blue"}), "{last:#}");

    // Ctrl-C interrupts the turn and stays; Ctrl-D leaves and the session stays.
    terminal.types(&format!(
        "{}\n",
        fake_prompt(&json!([{"text": "endless"}, {"silent": 1}]))
    ));
    daemon.rest().in_state(&id, &["busy"]).await;
    terminal.shows_times("endless", 2).await;
    terminal.types("\u{3}");
    terminal.shows("interrupted; Ctrl-D leaves").await;
    daemon.rest().in_state(&id, &["idle"]).await;
    assert!(
        !terminal.shown().contains('\u{1b}'),
        "colour in spite of NO_COLOR: {:?}",
        terminal.shown()
    );
    terminal.types("\u{4}");
    assert_eq!(terminal.code().await, 0, "{}", terminal.shown());
    assert_eq!(daemon.rest().session(&id).await["state"], "idle");
}

#[tokio::test]
async fn without_a_terminal_it_only_watches() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = tl(&daemon, &["new", &fake_prompt(&json!([{"text": "said before"}]))]).line();
    daemon.rest().in_state(&id, &["idle"]).await;
    let mut watching = Typed::start(to(&daemon, &["attach", "--after", "0"]));
    watching.shows("said before").await;
    watching.types("this is not sent\n");
    drop(watching.keys.take());
    let asks = fake_prompt(&json!([{"ask": {"input": {"command": "make"}}}, {"text": "made"}]));
    tl(&daemon, &["send", &id, &asks]).good();
    watching.shows("command: make").await;
    watching.shows("trunkline approve").await;
    tl(&daemon, &["approve", &id]).good();
    watching.shows("made").await;
    daemon.rest().in_state(&id, &["idle"]).await;
    assert_eq!(daemon.rest().turns(&id).await.len(), 2, "what was typed was sent");
    // The session is deleted: the watcher ends and says why.
    tl(&daemon, &["rm", &id]).good();
    assert_eq!(watching.code().await, 0, "{}", watching.shown());
    assert!(watching.shown().contains("deleted"), "{}", watching.shown());
}

/// Commands that wait for a decision, by the id of the request.
async fn pending(daemon: &TestDaemon, id: &str, count: usize) -> Vec<(String, String)> {
    let what = format!("{count} requests are pending");
    let limit = Duration::from_secs(60);
    wait_for(&what, limit, async || {
        let path = format!("/v1/sessions/{id}/approvals?state=pending");
        let list = daemon.rest().get(&path).await.expect(200);
        let found: Vec<(String, String)> = list["items"].as_array()?.iter().map(command_of).collect();
        (found.len() == count).then_some(found)
    })
    .await
}

fn command_of(approval: &serde_json::Value) -> (String, String) {
    let command = approval["request"]["input"]["command"]
        .as_str()
        .unwrap_or_default();
    (approval["id"].as_str().unwrap().to_owned(), command.to_owned())
}

#[tokio::test]
async fn an_answer_half_typed_meets_no_other_question() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = tl(&daemon, &["new"]).line();
    let asks = fake_prompt(&json!([
        {"ask": {"input": {"command": "touch one.txt"}, "wait": false}},
        {"ask": {"input": {"command": "rm -rf precious"}}},
    ]));
    tl(&daemon, &["send", &id, &asks]).good();
    let both = pending(&daemon, &id, 2).await;
    let first = &both
        .iter()
        .find(|(_, command)| command == "touch one.txt")
        .unwrap()
        .0;
    let mut terminal = Typed::attach(&daemon, &["attach", &id]);
    terminal.shows("command: touch one.txt").await;
    terminal.shows("says why: ").await;
    terminal.types("yy");
    terminal.shows("says why: yy").await;
    terminal.types("\u{8}");
    daemon
        .rest()
        .decide(&id, first, json!({"decision": "allow"}))
        .await
        .expect(200);
    terminal.shows("command: rm -rf precious").await;
    terminal.shows_times("says why: ", 2).await;
    terminal.types("\n");
    terminal.shows_times("says why: ", 3).await;
    let left = pending(&daemon, &id, 1).await;
    assert_eq!(left[0].1, "rm -rf precious");
    // An answer typed for this one is taken.
    terminal.types("n\n");
    daemon.rest().in_state(&id, &["idle"]).await;
}
