//! Plays the agent over channels, as a host would over pipes.

use std::{io, path::Path, process::ExitCode, sync::mpsc, thread::JoinHandle, time::Duration};

use serde_json::{Value, json};

use super::{Fatal, Input, play};

const DEADLINE: Duration = Duration::from_secs(20);
const ID: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const THIRD: &str = "aaaaaaaa-0000-4000-8000-000000000003";
const OTHER: &str = "aaaaaaaa-0000-4000-8000-000000000002";

/// Takes lines apart for the test.
struct Lines(mpsc::Sender<Value>, Vec<u8>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.extend_from_slice(bytes);
        while let Some(end) = self.1.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.1.drain(..=end).collect();
            let _test_is_over = self.0.send(serde_json::from_slice(&line).unwrap());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Host {
    stdin: Option<mpsc::SyncSender<Input>>,
    stdout: mpsc::Receiver<Value>,
    agent: JoinHandle<Result<ExitCode, Fatal>>,
}

impl Host {
    fn start(dir: &Path, flags: &[&str], pace: Duration) -> Self {
        let (stdin, inbox) = mpsc::sync_channel(64);
        let (sender, stdout) = mpsc::channel();
        let dir = dir.to_owned();
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let agent = std::thread::spawn(move || play(&flags, inbox, Lines(sender, Vec::new()), &dir, pace));
        Self {
            stdin: Some(stdin),
            stdout,
            agent,
        }
    }

    fn send(&self, line: &Value) {
        let line = format!("{line}\n").into_bytes();
        self.stdin.as_ref().unwrap().send(Input::Line(line)).unwrap();
    }

    fn prompt(&self, text: &str) {
        self.send(&json!({"type": "user", "message": {"role": "user", "content": text}}));
    }

    fn control(&self, id: &str, request: &Value) {
        self.send(&json!({"type": "control_request", "request_id": id, "request": request}));
    }

    fn answer(&self, asked: &Value, answer: &Value) {
        self.send(&json!({"type": "control_response", "response": {
            "subtype": "success", "request_id": asked["request_id"], "response": answer,
        }}));
    }

    /// The next line of this type, and the types of the lines before it.
    fn until(&self, kind: &str) -> (Value, Vec<String>) {
        let mut before = Vec::new();
        loop {
            let line = self
                .stdout
                .recv_timeout(DEADLINE)
                .unwrap_or_else(|_| panic!("no {kind} after {before:?}"));
            let name = |key: &str| line[key].as_str().unwrap_or("").to_owned();
            if name("type") == kind {
                return (line, before);
            }
            before.push(match name("subtype").as_str() {
                "" => name("type"),
                subtype => subtype.to_owned(),
            });
        }
    }

    fn result(&self) -> Value {
        self.until("result").0
    }

    fn end(mut self) -> Result<ExitCode, Fatal> {
        self.stdin = None;
        self.agent.join().unwrap()
    }
}

fn is_code(code: Result<ExitCode, Fatal>, expected: u8) -> bool {
    format!("{:?}", code.unwrap()) == format!("{:?}", ExitCode::from(expected))
}

#[test]
fn a_streamed_turn_has_the_lines_of_the_protocol_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let session = format!("--session-id={ID}");
    let host = Host::start(
        dir.path(),
        &[&session, "--include-partial-messages"],
        Duration::ZERO,
    );
    host.control("i", &json!({"subtype": "initialize"}));
    let (init, _) = host.until("control_response");
    assert_eq!(init["response"]["request_id"], "i");
    assert_eq!(init["response"]["response"]["claude_code_version"], "0.0.0-sim");
    host.send(&json!({"type": "user", "uuid": "p1", "message": {"role": "user", "content": [{"type": "text", "text": "hi"}]}}));
    let (assistant, before) = host.until("assistant");
    assert_eq!(
        before[..5],
        [
            "command_lifecycle",
            "command_lifecycle",
            "init",
            "status",
            "stream_event"
        ]
    );
    assert!(
        assistant["message"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("simulated")
    );
    assert_eq!(assistant["session_id"], ID);
    let (result, before) = host.until("result");
    assert_eq!(before, ["stream_event"; 3]);
    assert_eq!(result["result"], assistant["message"]["content"][0]["text"]);
    assert_eq!(result["user_message_uuids"], json!(["p1"]));
    assert_eq!(host.until("command_lifecycle").0["state"], "completed");
    assert!(is_code(host.end(), 0));
}

#[test]
fn totals_and_history_go_on_over_resume_and_fork() {
    let dir = tempfile::tempdir().unwrap();
    let used = |result: &Value| {
        let models = result["modelUsage"].as_object().unwrap();
        models.values().next().unwrap()["outputTokens"].as_u64().unwrap()
    };
    let host = Host::start(dir.path(), &["--session-id", ID], Duration::ZERO);
    host.prompt("first words");
    let one = host.result();
    host.prompt("again");
    let two = host.result();
    assert!(used(&two) > used(&one) && used(&one) > 0);
    assert_eq!(two["total_cost_usd"], 0, "{two:#}");
    assert!(is_code(host.end(), 0));

    let resume = format!("--resume={ID}");
    let host = Host::start(dir.path(), &[&resume], Duration::ZERO);
    host.prompt("and again");
    let three = host.result();
    assert!(used(&three) > used(&two));
    assert_eq!(three["session_id"], ID);
    assert!(three["result"].as_str().unwrap().contains("turn 3"));
    assert!(three["result"].as_str().unwrap().contains("first words"));
    host.end().unwrap();

    let fork = ["--fork-session", "--session-id", OTHER];
    let host = Host::start(dir.path(), &[&resume, fork[0], fork[1], fork[2]], Duration::ZERO);
    host.prompt("fork");
    let four = host.result();
    assert_eq!(four["session_id"], OTHER);
    assert!(used(&four) > used(&three));
    host.end().unwrap();

    let (first, _) = {
        let host = Host::start(dir.path(), &["--session-id", THIRD], Duration::ZERO);
        host.prompt("one");
        let first = host.until("assistant");
        host.prompt("two");
        host.result();
        host.result();
        host.end().unwrap();
        first
    };
    let at = format!("--resume-session-at={}", first["uuid"].as_str().unwrap());
    let host = Host::start(
        dir.path(),
        &["--resume", THIRD, "--fork-session", &at],
        Duration::ZERO,
    );
    host.prompt("three");
    let forked = host.result();
    assert!(forked["result"].as_str().unwrap().contains("turn 2"), "{forked}");
    host.end().unwrap();

    for flags in [
        vec!["--session-id", ID],
        vec!["--resume", OTHER, "--session-id", ID],
        vec!["--resume", "x"],
    ] {
        assert!(
            matches!(
                Host::start(dir.path(), &flags, Duration::ZERO).end(),
                Err(Fatal::Said(_))
            ),
            "{flags:?}"
        );
    }
    let unknown = "aaaaaaaa-0000-4000-8000-00000000000f";
    let host = Host::start(dir.path(), &["--resume", unknown], Duration::ZERO);
    let result = host.result();
    assert_eq!(result["subtype"], "error_during_execution");
    assert_eq!(
        result["errors"],
        json!([format!("No conversation found with session ID: {unknown}")])
    );
    assert!(host.end().is_err());
}

#[test]
fn a_tool_is_allowed_changed_or_denied() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::start(dir.path(), &["--permission-prompt-tool=stdio"], Duration::ZERO);
    let cases = [
        (json!({"behavior": "allow"}), false, "echo"),
        (
            json!({"behavior": "allow", "updatedInput": {"command": "date"}}),
            false,
            "`date`",
        ),
        (json!({"behavior": "deny", "message": "no"}), true, "will not"),
        (json!({"behavior": "maybe"}), true, "will not"),
    ];
    for (answer, is_error, words) in cases {
        host.prompt("use a tool");
        let (asked, before) = host.until("control_request");
        assert!(before.contains(&"assistant".to_owned()));
        assert_eq!(asked["request"]["tool_name"], "Bash");
        host.answer(&asked, &answer);
        let (result, _) = host.until("user");
        assert_eq!(result["message"]["content"][0]["is_error"], is_error);
        assert!(
            host.result()["result"].as_str().unwrap().contains(words),
            "{answer}"
        );
    }
    host.prompt("use a tool");
    let (asked, _) = host.until("control_request");
    host.answer(
        &asked,
        &json!({"behavior": "deny", "message": "stop", "interrupt": true}),
    );
    assert_eq!(host.result()["terminal_reason"], "aborted_tools");
    assert!(is_code(host.end(), 1), "the last result was an error");
}

#[test]
fn questions_and_plans_are_asked_in_every_mode() {
    let dir = tempfile::tempdir().unwrap();
    let flags = [
        "--permission-prompt-tool=stdio",
        "--permission-mode=bypassPermissions",
    ];
    let host = Host::start(dir.path(), &flags, Duration::ZERO);
    host.prompt("ask me a question");
    let (asked, _) = host.until("control_request");
    assert_eq!(asked["request"]["requires_user_interaction"], true);
    let mut input = asked["request"]["input"].clone();
    input["answers"] = json!({"Which colour does the simulation get?": "Blue"});
    host.answer(&asked, &json!({"behavior": "allow", "updatedInput": input}));
    assert!(host.result()["result"].as_str().unwrap().contains("Blue"));

    host.prompt("make a plan");
    let (asked, _) = host.until("control_request");
    assert!(
        asked["request"]["input"]["plan"]
            .as_str()
            .unwrap()
            .contains("simulated")
    );
    host.answer(&asked, &json!({"behavior": "allow"}));
    let (status, _) = host.until("system");
    assert_eq!(
        status["permissionMode"], "bypassPermissions",
        "the mode before the plan is back"
    );
    host.result();
    host.prompt("tool");
    assert!(
        host.result()["result"].as_str().unwrap().contains("echo"),
        "nobody is asked in this mode"
    );
    host.end().unwrap();
}

#[test]
fn a_form_is_filled_in_or_declined() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::start(dir.path(), &["--permission-prompt-tool=stdio"], Duration::ZERO);
    host.prompt("show me a form");
    let (asked, _) = host.until("control_request");
    assert_eq!(asked["request"]["subtype"], "elicitation");
    host.answer(&asked, &json!({"action": "accept", "content": {"name": "Ada"}}));
    assert!(host.result()["result"].as_str().unwrap().contains("Ada"));
    host.prompt("form");
    let (asked, _) = host.until("control_request");
    host.answer(&asked, &json!({"action": "decline"}));
    assert!(host.result()["result"].as_str().unwrap().contains("did not"));
    host.end().unwrap();
}

#[test]
fn an_interrupt_ends_the_turn_and_not_the_agent() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--permission-prompt-tool=stdio", "--include-partial-messages"];
    let host = Host::start(dir.path(), &flags, Duration::from_secs(60));
    host.prompt("slow");
    host.until("stream_event");
    host.send(&json!({"type": "user", "uuid": "q1", "message": {"role": "user", "content": "error"}}));
    host.control("x", &json!({"subtype": "interrupt", "cancel_queued": true}));
    let (response, before) = host.until("control_response");
    assert!(before.contains(&"command_lifecycle".to_owned()));
    assert_eq!(
        response["response"]["response"],
        json!({"still_queued": [], "cancelled": ["q1"]})
    );
    let result = host.result();
    assert_eq!(result["terminal_reason"], "aborted_streaming");
    assert_eq!(result["is_error"], true);
    host.control("y", &json!({"subtype": "interrupt"}));
    assert_eq!(
        host.until("control_response").0["response"]["response"],
        json!({"still_queued": []})
    );
    host.prompt("error");
    assert_eq!(host.result()["api_error_status"], 500);
    host.end().unwrap();

    let host = Host::start(dir.path(), &flags[..1], Duration::ZERO);
    host.prompt("tool");
    let (asked, _) = host.until("control_request");
    host.control("again", &json!({"subtype": "initialize"}));
    let (again, _) = host.until("control_response");
    let pending = &again["response"]["response"]["pending_permission_requests"];
    assert_eq!(
        pending[0]["request_id"], asked["request_id"],
        "a second initialize lists what is pending"
    );
    host.control("z", &json!({"subtype": "interrupt"}));
    assert_eq!(
        host.until("control_cancel_request").0["request_id"],
        asked["request_id"]
    );
    assert_eq!(host.until("control_response").0["response"]["request_id"], "z");
    assert_eq!(host.result()["terminal_reason"], "aborted_tools");
    host.end().unwrap();
}

#[test]
fn controls_are_answered_as_the_agent_cli_does() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::start(dir.path(), &[], Duration::ZERO);
    for (request, path, expected) in [
        (
            json!({"subtype": "set_model", "model": "opus"}),
            "/response/response/model",
            json!("simulated"),
        ),
        (
            json!({"subtype": "set_permission_mode", "mode": "plan"}),
            "/response/response/mode",
            json!("plan"),
        ),
        (
            json!({"subtype": "set_permission_mode", "mode": "bypassPermissions"}),
            "/response/error_code",
            json!("bypass_not_launched"),
        ),
        (
            json!({"subtype": "set_permission_mode", "mode": "x"}),
            "/response/error_code",
            json!("invalid_mode"),
        ),
        (
            json!({"subtype": "frobnicate"}),
            "/response/error_code",
            json!("unsupported_request"),
        ),
    ] {
        host.control("c", &request);
        let (response, _) = host.until("control_response");
        assert_eq!(response.pointer(path), Some(&expected), "{request}");
    }
    host.send(&json!({"type": "something_new"}));
    host.prompt("tool");
    let (denied, _) = host.until("result");
    assert_eq!(
        denied["permission_denials"][0]["tool_name"], "Bash",
        "nobody can be asked"
    );
    host.end().unwrap();
}

#[test]
fn a_line_that_is_no_message_is_fatal() {
    let dir = tempfile::tempdir().unwrap();
    for line in [
        "this is not json\n",
        r#"{"type":"user","message":{"role":"assistant"}}"#,
        r#"{"type":"user"}"#,
    ] {
        let host = Host::start(dir.path(), &[], Duration::ZERO);
        let stdin = host.stdin.as_ref().unwrap();
        stdin.send(Input::Line(b"  \n".to_vec())).unwrap();
        stdin.send(Input::Line(line.as_bytes().to_vec())).unwrap();
        assert!(matches!(host.end(), Err(Fatal::Said(_))), "{line}");
    }
}

#[test]
fn the_end_of_stdin_stops_no_turn() {
    let dir = tempfile::tempdir().unwrap();
    let mut host = Host::start(
        dir.path(),
        &["--permission-prompt-tool=stdio"],
        Duration::from_millis(1),
    );
    host.prompt("hello");
    host.prompt("tool");
    host.stdin = None;
    assert_eq!(host.result()["is_error"], false);
    let (refused, _) = host.until("user");
    assert_eq!(
        refused["message"]["content"][0]["is_error"], true,
        "nobody can allow it any more"
    );
    assert_eq!(host.result()["is_error"], false);
    assert!(is_code(host.end(), 0));
}

#[test]
fn hooks_are_asked_before_a_tool_and_decide() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::start(dir.path(), &["--permission-prompt-tool=stdio"], Duration::ZERO);
    host.control(
        "1",
        &json!({"subtype": "initialize", "hooks": {
            "PreToolUse": [
                {"matcher": "Edit", "hookCallbackIds": ["edits"]},
                {"matcher": "Edit|Bash", "hookCallbackIds": ["first", "second"]},
            ],
            "Stop": [{"hookCallbackIds": ["stops"]}],
        }}),
    );
    let output = |decision: &Value| json!({"hookSpecificOutput": decision});
    let asked_by = |asked: &Value| asked["request"]["callback_id"].as_str().unwrap().to_owned();

    // A denial ends the round.
    host.prompt("Use your tool to run: rm x");
    let (asked, _) = host.until("control_request");
    assert_eq!(asked["request"]["subtype"], "hook_callback");
    assert_eq!(asked["request"]["input"]["tool_input"]["command"], "rm x");
    assert_eq!(asked_by(&asked), "first");
    host.answer(
        &asked,
        &output(&json!({"permissionDecision": "deny", "permissionDecisionReason": "no rm"})),
    );
    let (result, before) = host.until("result");
    assert!(!before.contains(&"control_request".to_owned()), "{before:?}");
    assert_eq!(result["permission_denials"][0]["tool_name"], "Bash");

    // An allowance needs no person, and may change the input.
    host.prompt("tool");
    let (asked, _) = host.until("control_request");
    host.answer(
        &asked,
        &output(&json!({"permissionDecision": "allow", "updatedInput": {"command": "ls"}})),
    );
    let (asked, _) = host.until("control_request");
    assert_eq!(asked_by(&asked), "second");
    assert_eq!(asked["request"]["input"]["tool_input"], json!({"command": "ls"}));
    host.answer(&asked, &json!({}));
    let result = host.result();
    assert!(result["result"].as_str().unwrap().contains("`ls`"), "{result}");

    // No opinion, and the answer `ask`, leave it to a person.
    for answer in [json!({}), output(&json!({"permissionDecision": "ask"}))] {
        host.prompt("tool");
        for _ in 0..2 {
            let (asked, _) = host.until("control_request");
            host.answer(&asked, &answer);
        }
        let (asked, _) = host.until("control_request");
        assert_eq!(asked["request"]["subtype"], "can_use_tool");
        host.answer(&asked, &json!({"behavior": "allow"}));
        assert_eq!(host.result()["permission_denials"], json!([]));
    }
    assert!(is_code(host.end(), 0));
}
