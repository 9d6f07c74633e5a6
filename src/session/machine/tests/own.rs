//! The consequences of our requests once the CLI has answered them.

use serde_json::json;

use super::*;
use crate::domain::{Chosen, MAX_TITLE_BYTES};

#[test]
fn what_was_chosen_is_kept_only_once_the_cli_agreed() {
    let mut bench = Bench::ready();
    bench.client(
        r#"{"type":"control_request","request_id":"a","request":{"subtype":"set_model","model":"opus"}}"#,
    );
    bench.client(r#"{"type":"control_request","request_id":"b","request":{"subtype":"set_max_thinking_tokens","max_thinking_tokens":4000}}"#);
    bench.cli(r#"{"type":"control_response","response":{"subtype":"error","request_id":"a","error":"no"}}"#);
    bench.cli(r#"{"type":"control_response","response":{"subtype":"success","request_id":"b"}}"#);
    let chosen: Vec<_> = bench
        .out
        .facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::Chosen(chosen) => Some(chosen.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(chosen, [Chosen::MaxThinkingTokens(Some(4_000))]);
}

#[test]
fn a_title_follows_the_cli_and_only_that_of_this_conversation() {
    let mut bench = Bench::ready();
    let long = format!("{}é", "x".repeat(MAX_TITLE_BYTES - 1));
    for (id, request, answer) in [
        ("a", json!({ "title": "refused" }), "error"),
        ("b", json!({ "title": "mine" }), "success"),
        (
            "c",
            json!({ "title": "theirs", "session_id": CliSessionId::new() }),
            "success",
        ),
        ("d", json!({ "title": long }), "success"),
    ] {
        let mut request = request;
        request["subtype"] = "rename_session".into();
        bench.client(&json!({ "type": "control_request", "request_id": id, "request": request }).to_string());
        let response = json!({ "subtype": answer, "request_id": id, "error": "no" });
        bench.cli(&json!({ "type": "control_response", "response": response }).to_string());
    }
    let titles = bench.out.facts.iter().filter_map(|fact| match fact {
        Fact::Renamed(title) => Some(title.as_str()),
        _ => None,
    });
    assert_eq!(titles.collect::<Vec<_>>(), ["mine", &long[..MAX_TITLE_BYTES - 1]]);
}

#[test]
fn what_changes_nothing_here_is_not_remembered() {
    let mut bench = Bench::ready();
    for n in 0..100 {
        bench.client(&format!(
            r#"{{"type":"control_request","request_id":"{n}","request":{{"subtype":"mcp_status"}}}}"#
        ));
    }
    assert!(bench.machine.own_requests.is_empty());
}
