//! Owns the comparison of what was decided with what the CLI read, with the journal, and with the audit log, line by line.

use std::collections::HashMap;

use reqwest::{Method, header};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use sha2::{Digest as _, Sha256};

use crate::support::rest::Rest;

/// The decision that won.
#[derive(Debug)]
pub(super) struct Won {
    approval: String,
    pub(super) client: usize,
    pub(super) by: String,
    pub(super) state: String,
    answer: Value,
}

impl Won {
    pub(super) fn new(approval: String, client: usize, by: String, answer: Value) -> Self {
        let state = if answer["behavior"] == "allow" {
            "allowed"
        } else {
            "denied"
        };
        Self {
            approval,
            client,
            by,
            state: state.to_owned(),
            answer,
        }
    }

    /// Whether this is what the winner said. Over REST there are no other words for "do not interrupt" than none.
    pub(super) fn is_answer(&self, response: &Value) -> bool {
        let plain = |answer: &Value| {
            let mut answer = answer.clone();
            if answer["interrupt"] == false {
                answer.as_object_mut().unwrap().remove("interrupt");
            }
            answer
        };
        plain(&self.answer) == plain(response)
    }
}

#[derive(Deserialize)]
struct Record<'a> {
    seq: u64,
    ts: &'a str,
    src: &'a str,
    by: Option<&'a str>,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Deserialize)]
struct Line<'a> {
    r#type: &'a str,
    request_id: Option<&'a str>,
    #[serde(borrow)]
    request: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    input: &'a RawValue,
}

#[derive(Deserialize)]
struct Response<'a> {
    request_id: &'a str,
    #[serde(borrow)]
    response: &'a RawValue,
}

#[derive(Deserialize)]
struct Logged<'a> {
    id: &'a str,
    session_id: &'a str,
    seq: u64,
    request_id: &'a str,
    state: &'a str,
    #[serde(borrow)]
    request: &'a RawValue,
    input_sha256: &'a str,
    requested_at: &'a str,
    #[serde(borrow)]
    resolution: Resolution<'a>,
}

#[derive(Deserialize)]
struct Resolution<'a> {
    how: &'a str,
    by: &'a str,
    #[serde(borrow)]
    response: &'a RawValue,
    input_changed: bool,
    permissions_updated: bool,
    at: &'a str,
}

/// The lines of an export.
pub(super) async fn export(rest: &Rest, path: &str) -> Vec<String> {
    let request = rest
        .builder(Method::GET, path)
        .header(header::ACCEPT, "application/x-ndjson");
    let response = request.send().await.unwrap().error_for_status().unwrap();
    let text = response.text().await.unwrap();
    text.lines().map(ToOwned::to_owned).collect()
}

/// Checks one session: the CLI was answered once per request with what won, and the log says what the journal says.
pub(super) fn check(id: &str, journal: &str, stdin: &str, winners: &HashMap<String, Won>, log: &[String]) {
    let records: Vec<Record<'_>> = journal
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |src: &str, kind: &str| -> Vec<(&Record<'_>, Line<'_>)> {
        let lines = records.iter().filter(|record| record.src == src);
        lines
            .map(|record| {
                (
                    record,
                    serde_json::from_str::<Line<'_>>(record.data.get()).unwrap(),
                )
            })
            .filter(|(_, line)| line.r#type == kind)
            .collect()
    };

    // The CLI read exactly the lines that the journal has as written, byte for byte and in the same order.
    let answers = of("client", "control_response");
    let read: Vec<&str> = stdin
        .lines()
        .filter(|line| serde_json::from_str::<Line<'_>>(line).unwrap().r#type == "control_response")
        .collect();
    let written: Vec<&str> = answers.iter().map(|(record, _)| record.data.get()).collect();
    assert_eq!(read, written);
    let heard = of("cli", "fake_answer");
    assert_eq!(heard.len(), winners.len());
    for (record, _) in &heard {
        let heard: Value = serde_json::from_str(record.data.get()).unwrap();
        assert_eq!(
            (&heard["expected"], &heard["valid"]),
            (&Value::Bool(true), &Value::Bool(true)),
            "{heard:#}"
        );
    }

    let mut decisions = HashMap::new();
    for (record, line) in answers {
        let response: Response<'_> = serde_json::from_str(line.response.unwrap().get()).unwrap();
        let won = &winners[response.request_id];
        let answer = serde_json::from_str(response.response.get()).unwrap();
        assert!(won.is_answer(&answer), "{answer:#} and not {won:#?}");
        assert_eq!(record.by, Some(won.by.as_str()));
        let before = decisions.insert(response.request_id, (record, response.response));
        assert!(before.is_none(), "{} was answered twice", response.request_id);
    }
    assert_eq!(decisions.len(), winners.len());

    // Everybody attached was told each decision once.
    let mut told = HashMap::new();
    for (record, _) in of("daemon", "decision") {
        let note: Value = serde_json::from_str(record.data.get()).unwrap();
        let approval = note["approval_id"].as_str().unwrap().to_owned();
        let before = told.insert(approval, (note["state"].clone(), note["by"].clone()));
        assert!(before.is_none(), "told twice: {note:#}");
    }
    for won in winners.values() {
        let (state, by) = &told[&won.approval];
        assert_eq!(
            (state, by),
            (&Value::from(won.state.as_str()), &Value::from(won.by.as_str()))
        );
    }

    let requests = of("cli", "control_request");
    assert_eq!((requests.len(), log.len()), (winners.len(), winners.len()));
    // The newest is the first of the log.
    for ((asked, line), logged) in requests.iter().rev().zip(log) {
        let logged: Logged<'_> = serde_json::from_str(logged).unwrap();
        let request_id = line.request_id.unwrap();
        let (won, (decided, response)) = (&winners[request_id], &decisions[request_id]);
        let request = line.request.unwrap();
        let input = serde_json::from_str::<Request<'_>>(request.get()).unwrap().input;
        let hash: String = Sha256::digest(input.get())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!((logged.session_id, logged.request_id), (id, request_id));
        assert_eq!(
            (logged.id, logged.state),
            (won.approval.as_str(), won.state.as_str())
        );
        assert_eq!((logged.seq, logged.requested_at), (asked.seq, asked.ts));
        assert_eq!(
            (logged.request.get(), logged.input_sha256),
            (request.get(), hash.as_str())
        );
        let resolution = &logged.resolution;
        assert_eq!((resolution.how, resolution.by), ("person", decided.by.unwrap()));
        assert_eq!(
            (resolution.at, resolution.response.get()),
            (decided.ts, response.get())
        );
        let updates = won.answer.get("updatedPermissions").is_some();
        assert_eq!(
            (resolution.input_changed, resolution.permissions_updated),
            (won.state == "allowed", updates)
        );
    }
}
