//! Owns the contract of the sockets and event streams: its examples, every frame that a daemon really sends, and the lines
//! of the recorded CLI have the schemas that the documents give them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use reqwest::Method;
use serde_json::{Value, json};
use trunkline::http::{asyncapi_document, openapi_json};

use crate::{
    api::{
        common::{asking, id_of},
        schema::faults,
    },
    support::{
        daemon::TestDaemon, event_stream::EventStream, login::Page, pages::protocol, programs::fake_prompt,
        programs::repository, ws::Ws,
    },
};

/// The frames that are looked at, and which message of the contract each was.
struct Contract {
    document: Value,
    seen: BTreeSet<String>,
}

impl Contract {
    fn new() -> Self {
        Self {
            document: asyncapi_document().unwrap(),
            seen: BTreeSet::new(),
        }
    }

    /// Checks a frame of the daemon against the messages that its channel sends.
    #[track_caller]
    fn check(&mut self, channel: &str, frame: &Value) {
        let channel = format!("#/channels/{channel}");
        let operations = self.document["operations"].as_object().unwrap().values();
        let messages = operations
            .filter(|it| it["action"] == "send" && it["channel"]["$ref"] == channel.as_str())
            .flat_map(|it| it["messages"].as_array().unwrap())
            .map(|it| it["$ref"].as_str().unwrap().rsplit('/').next().unwrap());
        let mut fitting = Vec::new();
        let mut told = BTreeMap::new();
        for message in messages {
            let schema = &self.document["components"]["messages"][message]["payload"];
            match faults(&self.document, schema, frame) {
                found if found.is_empty() => fitting.push(message.to_owned()),
                found => drop(told.insert(message.to_owned(), found)),
            }
        }
        assert!(
            !fitting.is_empty(),
            "no message of {channel} has this form: {frame:#}\n{told:#?}"
        );
        let kind = frame["type"].as_str().unwrap_or("record");
        self.seen.extend(fitting);
        self.seen.insert(kind.to_owned());
    }

    #[track_caller]
    fn check_all(&mut self, channel: &str, frames: &[Value]) {
        for frame in frames {
            self.check(channel, frame);
        }
    }
}

fn user(content: &str, more: Value) -> Value {
    let mut line = json!({"type": "user", "message": {"role": "user", "content": content}});
    line.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    line
}

fn is_ack(frame: &Value) -> bool {
    frame["type"] == "trunkline.ack"
}

#[test]
fn every_example_has_the_schema_of_its_message() {
    let document = asyncapi_document().unwrap();
    for (name, message) in document["components"]["messages"].as_object().unwrap() {
        let examples = message["examples"].as_array().unwrap();
        assert!(!examples.is_empty(), "{name} has no example");
        for example in examples {
            let found = faults(&document, &message["payload"], &example["payload"]);
            assert_eq!(found, Vec::<String>::new(), "{name}");
            if message["headers"].is_object() {
                let found = faults(&document, &message["headers"], &example["headers"]);
                assert_eq!(found, Vec::<String>::new(), "{name}");
            }
        }
    }
    // The text that people read is as exact: the frames of the page say less than the whole, and nothing else.
    let openapi: Value = serde_json::from_str(&openapi_json().unwrap()).unwrap();
    for (schema, lines) in [
        ("ClientFrame", "json client"),
        ("Record", "json record"),
        ("ClientFrameOfMany", "json many"),
    ] {
        for text in blocks(lines) {
            let value: Value = serde_json::from_str(&text).unwrap();
            let found = faults(&openapi, &openapi["components"]["schemas"][schema], &value);
            let found: Vec<_> = found
                .into_iter()
                .filter(|it| !it.ends_with("is missing"))
                .collect();
            assert_eq!(found, Vec::<String>::new(), "{text}");
        }
    }
}

/// The fenced parts of the pages of the protocol with this mark.
fn blocks(mark: &str) -> Vec<String> {
    let open = format!("```{mark}\n");
    let of_page = |page: &str| -> Vec<String> {
        let parts = page.split(&open).skip(1);
        parts
            .map(|part| part.split("\n```").next().unwrap().to_owned())
            .collect()
    };
    protocol().iter().flat_map(|(_, page)| of_page(page)).collect()
}

/// Sources of frames that the program says to itself only: any version may change them.
const PRIVATE: [&str; 2] = ["ws/host.rs", "ws/stdio.rs"];

/// The texts of all sources below a directory, but for the private ones.
fn sources(dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs")
            && !PRIVATE.iter().any(|it| path.ends_with(it))
        {
            found.push(fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_frame_type_of_the_code_is_in_the_contract() {
    let mut texts = Vec::new();
    sources(&repository("src/http"), &mut texts);
    let mut types = BTreeSet::new();
    for text in &texts {
        // Tests speak of types that are none.
        let code = text.split("#[cfg(test)]").next().unwrap();
        for part in code.split("trunkline.").skip(1) {
            let name: String = part
                .chars()
                .take_while(|it| it.is_ascii_lowercase() || *it == '_')
                .collect();
            types.insert(name);
        }
        for part in code.split("match own {").skip(1) {
            let arms = part.split("_ =>").next().unwrap().split("\" =>");
            let names = arms.filter_map(|arm| Some(arm.rsplit_once('"')?.1.to_owned()));
            types.extend(names.filter(|name| name.chars().all(|it| it.is_ascii_lowercase() || it == '_')));
        }
    }
    for other in ["v", "service", ""] {
        types.remove(other);
    }
    assert!(types.len() > 15, "{types:?}");
    let contract = asyncapi_document().unwrap()["components"].to_string();
    for name in types {
        assert!(
            contract.contains(&format!("\"enum\":[\"trunkline.{name}\"]")),
            "trunkline.{name} has no message in openapi/asyncapi.yaml"
        );
    }
}

#[test]
fn every_note_of_the_daemon_is_in_the_contract() {
    let text = fs::read_to_string(repository("src/session/notes.rs")).unwrap();
    let notes = text
        .split("enum Note {")
        .nth(1)
        .unwrap()
        .split("\n}")
        .next()
        .unwrap();
    let names = notes.lines().filter_map(|line| {
        let name = line.strip_prefix("    ")?;
        name.starts_with(|it: char| it.is_ascii_uppercase()).then(|| {
            let name = name.split(['(', ' ', ',']).next().unwrap();
            let mut snake = String::new();
            for letter in name.chars() {
                if letter.is_ascii_uppercase() && !snake.is_empty() {
                    snake.push('_');
                }
                snake.push(letter.to_ascii_lowercase());
            }
            snake
        })
    });
    let names: Vec<String> = names.collect();
    assert!(names.len() > 10, "{names:?}");
    let openapi: Value = serde_json::from_str(&openapi_json().unwrap()).unwrap();
    let schemas = &openapi["components"]["schemas"];
    let forms = schemas["Note"]["anyOf"].as_array().unwrap().iter();
    let forms: Vec<&str> = forms
        .map(|it| it["$ref"].as_str().unwrap().rsplit('/').next().unwrap())
        .collect();
    for name in names {
        let has = |form: &&&str| schemas[**form]["properties"]["type"]["enum"] == json!([name]);
        assert!(forms.iter().any(|form| has(&form)), "{name} is no form of Note");
    }
}

#[test]
fn the_recorded_lines_of_the_cli_have_their_schemas() {
    let openapi: Value = serde_json::from_str(&openapi_json().unwrap()).unwrap();
    let mut typed = BTreeMap::new();
    for entry in fs::read_dir(repository("tests/fixtures/recordings")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let schema = if name.contains(".stdin.") {
            "ClientLine"
        } else {
            "CliLine"
        };
        for line in fs::read_to_string(&path).unwrap().lines() {
            let Ok(line) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let found = faults(&openapi, &openapi["components"]["schemas"][schema], &line);
            assert_eq!(found, Vec::<String>::new(), "{name}: {line}");
            *typed
                .entry(line["type"].as_str().unwrap().to_owned())
                .or_insert(0) += 1;
            let blocks = line["message"]["content"].as_array().into_iter().flatten();
            for block in blocks.filter(|it| it["type"] == "tool_use") {
                *typed
                    .entry(format!("tool {}", block["name"].as_str().unwrap()))
                    .or_insert(0) += 1;
            }
        }
    }
    for kind in [
        "assistant",
        "user",
        "result",
        "system",
        "control_request",
        "tool Bash",
        "tool AskUserQuestion",
    ] {
        assert!(typed.contains_key(kind), "{kind}: {typed:?}");
    }
}

/// Joins the socket of one session.
async fn one_session(contract: &mut Contract, daemon: &TestDaemon, id: &str) -> Ws {
    const CHANNEL: &str = "session";
    let mut client = daemon.attach_as("editor", id, Some(0)).await;
    let uuid = "7f0c1d9e-55b4-4c4e-9b8a-1d5a3f0b6c21";
    client.send(&user(&asking(), json!({ "uuid": uuid }))).await;
    let frames = client.until("the request", |frame| {
        frame["data"]["request"]["subtype"] == "can_use_tool"
    });
    let frames = frames.await;
    contract.check_all(CHANNEL, &frames);
    let asked = frames.last().unwrap()["data"]["request_id"].clone();
    let deny = json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": asked, "response": {"behavior": "deny", "message": "no"}}});
    // The second answer comes too late.
    for _ in 0..2 {
        client.send(&deny).await;
    }
    for (id, request) in [
        ("one", json!({"subtype": "set_model", "model": "other"})),
        ("two", json!({"subtype": "get_settings"})),
    ] {
        let line = json!({"type": "control_request", "request_id": id, "request": request});
        client.send(&line).await;
    }
    client.send(&json!({"type": "trunkline.dance"})).await;
    client.send_text("no json").await;
    client
        .send(&json!({"type": "user", "message": {"role": "user", "content": "again"}, "uuid": uuid}))
        .await;
    client.send(&json!({"type": "trunkline.ping", "id": [1]})).await;
    let mut answers = 0;
    let frames = client.until("two answers", |frame| {
        answers += usize::from(frame["type"] == "control_response");
        answers == 2 && frame["type"] == "control_response"
    });
    contract.check_all(CHANNEL, &frames.await);
    client
        .send(&user(
            &fake_prompt(&json!([{"stderr": "a warning\n"}, {"raw": "no json"}, {"text": "told in many pieces", "chunk_size": 4}])),
            json!({}),
        ))
        .await;
    let is_end = |frame: &Value| frame["data"]["type"] == "result";
    contract.check_all(CHANNEL, &client.until("the result", is_end).await);
    let queued = daemon
        .rest()
        .post(
            &format!("/v1/sessions/{id}/prompts"),
            json!({"text": "later", "held": true}),
        )
        .await
        .expect(201);
    let is_queue = |frame: &Value| frame["type"] == "trunkline.queue";
    contract.check_all(CHANNEL, &client.until("the queue", is_queue).await);
    drop(daemon.attach(id, None).await);
    let is_left = |frame: &Value| frame["type"] == "trunkline.clients" && frame["clients"][1].is_null();
    contract.check_all(
        CHANNEL,
        &client.until("that another one came and left", is_left).await,
    );
    let path = format!("/v1/sessions/{id}/prompts/{}", queued["uuid"].as_str().unwrap());
    daemon.rest().delete(&path).await.expect(204);
    client
}

/// Joins the socket of many sessions.
async fn many_sessions(contract: &mut Contract, daemon: &TestDaemon, id: &str) -> Ws {
    const CHANNEL: &str = "sessions";
    let mut client = Ws::try_connect(daemon.url(), "/v1/ws", &["trunkline.v1"], Some(daemon.token()))
        .await
        .unwrap();
    for line in [
        json!({"type": "trunkline.watch"}),
        json!({"type": "trunkline.subscribe", "session_id": id, "after": 0, "credit": 9_000_000, "snapshot": "full"}),
        json!({"type": "trunkline.credit", "session_id": id, "bytes": 9}),
        json!({"type": "trunkline.ping", "id": 2}),
        json!({"type": "trunkline.subscribe", "session_id": id}),
        user("hello", json!({"session_id": id})),
    ] {
        client.send(&line).await;
    }
    // A short turn may be over before its message is acknowledged.
    let (mut is_acknowledged, mut is_said, mut is_over) = (false, false, false);
    let frames = client.until("the ack and the result", |frame| {
        is_acknowledged |= is_ack(frame);
        is_said |= frame["src"] == "client" && frame["data"]["message"]["content"] == "hello";
        is_over |= is_said && frame["data"]["type"] == "result";
        is_acknowledged && is_over
    });
    contract.check_all(CHANNEL, &frames.await);
    let changed = daemon
        .rest()
        .patch(&format!("/v1/sessions/{id}"), json!({"title": "t"}))
        .await;
    changed.expect(200);
    let is_change = |frame: &Value| frame["changed"].to_string().contains("title");
    contract.check_all(CHANNEL, &client.until("the change", is_change).await);
    for line in [
        json!({"type": "trunkline.unsubscribe", "session_id": id}),
        json!({"type": "trunkline.unwatch"}),
    ] {
        client.send(&line).await;
    }
    let is_end = |frame: &Value| frame["type"] == "trunkline.unwatched";
    contract.check_all(CHANNEL, &client.until("the end of the watch", is_end).await);
    client
}

#[tokio::test]
async fn every_frame_that_a_daemon_sends_is_one_of_the_contract() {
    let mut contract = Contract::new();
    let mut daemon = TestDaemon::with_fake()
        .fake(json!({"controls": {"get_settings": {"error": "not now"}}}))
        .allow_errors()
        .start()
        .await;
    let hook = json!({"event": "PreToolUse", "target": {"type": "client", "client_id": "editor"}, "timeout_ms": 60_000});
    let session =
        json!({"cwd": daemon.work_dir("w"), "options": {"hooks": [hook], "include_partial_messages": true}});
    let id = id_of(&daemon.rest().create(session).await);
    daemon.rest().in_state(&id, &["idle"]).await;

    let client = one_session(&mut contract, &daemon, &id).await;
    client.close().await;
    many_sessions(&mut contract, &daemon, &id).await.close().await;

    // The lines of the CLI alone, of a session that is there and of one that is made for the connection.
    let made = format!("/v1/connect?cwd={}", daemon.work_dir("made").display());
    for (channel, path) in [
        ("sessionNdjson", format!("/v1/sessions/{id}/ws")),
        ("connection", made),
    ] {
        let relay = Ws::try_connect(daemon.url(), &path, &["ndjson"], Some(daemon.token()));
        let mut relay = relay.await.unwrap();
        relay.send_text(&format!("{}\n", user("hello", json!({})))).await;
        loop {
            // A frame may hold many lines.
            let text = relay.text_that(|_| true).await;
            let lines: Vec<Value> = text
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            contract.check_all(channel, &lines);
            if lines.iter().any(|line| line["type"] == "result") {
                break;
            }
        }
        relay.close().await;
    }

    // A client that comes back over a slow link knows the session.
    let path = format!("/v1/sessions/{id}/ws?after=0&snapshot=brief");
    let client = Ws::try_connect(daemon.url(), &path, &["trunkline.v1"], Some(daemon.token()));
    let mut client = client.await.unwrap();
    contract.check("session", &client.next().await);
    client.close().await;

    // A slow link: what is left out is told, and pieces are joined.
    for (kind, query) in [("cursor", "only=stderr"), ("coalesced", "coalesce=1000")] {
        let is_it = |frame: &Value| frame["type"] == format!("trunkline.{kind}");
        let path = format!("/v1/sessions/{id}/ws?after=0&{query}");
        let client = Ws::try_connect(daemon.url(), &path, &["trunkline.v1"], Some(daemon.token()));
        let mut client = client.await.unwrap();
        contract.check_all("session", &client.until(kind, is_it).await);
        client.close().await;
        let path = format!("/v1/sessions/{id}/events?{query}");
        let mut records = EventStream::open(&daemon.rest(), &path, None).await;
        for event in records.until(kind, is_it).await {
            contract.check("sessionEvents", &event.data);
        }
    }

    // A record is lost with its disk.
    daemon.rest().lifecycle(&id, "stop", json!({})).await.expect(200);
    daemon.kill();
    let dir = daemon.data_dir().join("sessions").join(&id);
    let segment = fs::read_dir(dir).unwrap().map(|it| it.unwrap().path());
    let segment = segment
        .filter(|it| it.extension().is_some_and(|it| it == "ndjson"))
        .min()
        .unwrap();
    let text = fs::read_to_string(&segment).unwrap();
    let lines: Vec<&str> = text
        .lines()
        .enumerate()
        .filter(|(place, _)| *place != 4)
        .map(|(_, line)| line)
        .collect();
    fs::write(&segment, lines.join("\n") + "\n").unwrap();
    daemon.start().await;

    let mut client = daemon.attach(&id, Some(0)).await;
    let is_gap = |frame: &Value| frame["type"] == "trunkline.gap";
    contract.check_all("session", &client.until("the gap", is_gap).await);
    let mut many = Ws::try_connect(daemon.url(), "/v1/ws", &["trunkline.v1"], Some(daemon.token()))
        .await
        .unwrap();
    many.send(&json!({"type": "trunkline.ping"})).await;
    contract.check("sessions", &many.next().await);
    let rest = daemon.rest();
    let mut records = EventStream::open(&rest, &format!("/v1/sessions/{id}/events"), None).await;
    for event in records.until("the gap", is_gap).await {
        contract.check("sessionEvents", &event.data);
    }
    let mut lobby = EventStream::open(&rest, "/v1/events", None).await;
    contract.check("lobbyEvents", &lobby.next().await.data);

    let page = Page::let_in(&rest, "viewer").await;
    let path = format!("/v1/events?ticket={}", page.ticket("/v1/events").await);
    let mut of_login = EventStream::open(&rest.with_token(None), &path, None).await;
    page.call(Method::DELETE, "/v1/logins/current").await.expect(204);
    let is_last = |data: &Value| data["type"] == "trunkline.login_ended";
    for event in of_login.until("the end of the login", is_last).await {
        contract.check("lobbyEvents", &event.data);
    }

    daemon.stop();
    let is_end = |frame: &Value| frame["type"] == "trunkline.shutdown";
    contract.check_all("session", &client.until("the end", is_end).await);
    contract.check_all("sessions", &many.until("the end", is_end).await);
    for (channel, stream) in [("sessionEvents", &mut records), ("lobbyEvents", &mut lobby)] {
        for event in stream.until("the end", is_end).await {
            contract.check(channel, &event.data);
        }
    }

    let operations = contract.document["operations"].as_object().unwrap().values();
    let sent = operations.filter(|it| it["action"] == "send");
    let sent = sent.flat_map(|it| it["messages"].as_array().unwrap());
    for message in sent.map(|it| it["$ref"].as_str().unwrap().rsplit('/').next().unwrap()) {
        assert!(
            contract.seen.contains(message),
            "no {message} was sent: {:?}",
            contract.seen
        );
    }
}
