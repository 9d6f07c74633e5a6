//! Owns what these tests share: sessions whose CLI has settings of its own, and looking into their journals.

use std::fs;

use serde_json::{Value, json};

use crate::support::{daemon::TestDaemon, programs::fake_prompt, rest::Rest, ws::Ws};

/// A daemon with one ready session, whose CLI behaves as it does by itself.
pub(crate) async fn plain() -> (TestDaemon, Rest, String) {
    let daemon = TestDaemon::with_fake().start().await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    (daemon, rest, id)
}

/// A ready session in a directory of its own, whose CLI behaves as `settings` say.
pub(crate) async fn session(daemon: &TestDaemon, name: &str, settings: Value) -> String {
    session_with(daemon, name, settings, json!({})).await
}

/// As [`session`], with launch options.
pub(crate) async fn session_with(daemon: &TestDaemon, name: &str, settings: Value, options: Value) -> String {
    let body = body(daemon, name, settings, options);
    daemon.rest().create_ready(body).await
}

/// The body that creates such a session.
pub(crate) fn body(daemon: &TestDaemon, name: &str, settings: Value, options: Value) -> Value {
    let cwd = daemon.work_dir(name);
    fs::write(cwd.join(".fake-claude.json"), settings.to_string()).unwrap();
    json!({ "cwd": cwd, "options": options })
}

/// The path of a route of a session.
pub(crate) fn path(session: &str, route: &str) -> String {
    format!("/v1/sessions/{session}/{route}")
}

/// Has the CLI do something.
pub(crate) async fn act(rest: &Rest, session: &str, actions: Value) -> Value {
    rest.prompt(session, &fake_prompt(&actions)).await
}

/// As [`act`], and waits for the end of its turn, which must be a success.
pub(crate) async fn act_through(rest: &Rest, session: &str, actions: Value) -> Value {
    let answer = rest.ask(session, &fake_prompt(&actions)).await;
    assert_eq!(answer["result"]["subtype"], "success", "{answer:#}");
    answer
}

/// The CLI's process.
pub(crate) async fn pid(rest: &Rest, session: &str) -> i32 {
    let view = rest.session(session).await;
    let pid = view["cli"]["pid"].as_i64();
    i32::try_from(pid.unwrap_or_else(|| panic!("no process: {view:#}"))).unwrap()
}

/// The records whose data has this type.
pub(crate) fn of_type<'a>(records: &'a [Value], source: &str, kind: &str) -> Vec<&'a Value> {
    records
        .iter()
        .filter(|record| record["src"] == source && record["data"]["type"] == kind)
        .map(|record| &record["data"])
        .collect()
}

/// All records of a session; their numbers have no gap.
pub(crate) async fn records(rest: &Rest, session: &str) -> Vec<Value> {
    let records = rest.events(session, 0).await;
    for (place, record) in (1_u64..).zip(&records) {
        assert_eq!(record["seq"].as_u64(), Some(place), "a gap: {record}");
    }
    records
}

/// No request of the CLI got an answer.
pub(crate) async fn nothing_was_answered(rest: &Rest, session: &str) {
    let records = records(rest, session).await;
    let answers = of_type(&records, "client", "control_response");
    assert!(answers.is_empty(), "{answers:#?}");
}

/// Reads on to the CLI's record that the host answered a request, as the fake CLI repeats it.
pub(crate) async fn answer_heard(client: &mut Ws, request_id: &str) -> Value {
    let wanted =
        |frame: &Value| frame["data"]["type"] == "fake_answer" && frame["data"]["request_id"] == request_id;
    let mut frames = client.until(&format!("the answer to {request_id}"), wanted).await;
    frames.pop().unwrap()["data"].take()
}
