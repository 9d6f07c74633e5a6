//! Owns the tables of owners and deadlines.

use super::*;
use crate::{
    claude::{ControlRequest, scan},
    domain::Seq,
    journal::{RecordRef, Source},
    session::desk::Book,
};

const TIMES: DeskTimes = DeskTimes {
    offer_ms: 10_000,
    return_grace_ms: 15_000,
    host_grace_ms: 30_000,
};
/// When the CLI asks, in seconds.
const ASKED: i64 = 1_000;

fn at(seconds: f64) -> Timestamp {
    #[expect(clippy::cast_possible_truncation, reason = "small numbers of a table")]
    Timestamp::from_micros((seconds * 1e6) as i64)
}

fn asked(request: &str) -> Asked {
    let line = format!(r#"{{"type":"control_request","request_id":"r","request":{request}}}"#);
    let mut book = Book::default();
    let record = RecordRef {
        seq: Seq::new(7),
        at: Timestamp::from_micros(ASKED * 1_000_000),
        source: Source::Cli,
        by: None,
        data: line.as_bytes(),
        line: line.as_bytes(),
    };
    book.ask(
        ControlRequest::read(&scan(line.as_bytes()).unwrap()).unwrap(),
        &record,
    );
    Asked::clone(&book.open()[0])
}

fn hook(callback: &str) -> Asked {
    asked(&format!(
        r#"{{"subtype":"hook_callback","callback_id":"{callback}","input":{{"hook_event_name":"PreToolUse"}}}}"#
    ))
}

fn mcp(server: &str, message: &str) -> Asked {
    asked(&format!(
        r#"{{"subtype":"mcp_message","server_name":"{server}","message":{message}}}"#
    ))
}

/// The launch options of the tests, and what their `initialize` and a client's have registered.
fn registered() -> (Registrations, Routes) {
    let options = r#"{
        "hooks": [
            {"event": "PreToolUse", "target": {"type": "client", "client_id": "x"}, "on_failure": "block"},
            {"event": "PreToolUse", "target": {"type": "webhook", "url": "http://h"}, "timeout_ms": 2000},
            {"event": "Stop", "target": {"type": "fixed", "output": {}}, "fallback": {"a": 1}}
        ],
        "sdk_mcp_servers": {
            "mine": {"target": {"type": "client", "client_id": "x"}},
            "web": {"target": {"type": "url", "url": "http://h"}}
        }
    }"#;
    let routes = Routes::of(&serde_json::from_str(options).unwrap());
    let mut registrations = Registrations::default();
    let initialize = |hooks: &str, servers: &str| {
        format!(
            r#"{{"type":"control_request","request_id":"i","request":{{"subtype":"initialize","hooks":{hooks},"sdkMcpServers":{servers}}}}}"#
        )
    };
    let launch = initialize("{}", r#"["mine","web"]"#);
    registrations.initialized(&scan(launch.as_bytes()).unwrap(), Some("daemon"));
    let hooks = r#"{"PreToolUse":[{"hookCallbackIds":["trunkline/0"],"timeout":60,"onFailure":"block"},{"hookCallbackIds":["trunkline/1"],"timeout":2},{"hookCallbackIds":["y/h"],"timeout":30}],"Stop":[{"hookCallbackIds":["trunkline/2","trunkline/9"]}]}"#;
    let by_client = initialize(hooks, r#"["calc"]"#);
    registrations.initialized(&scan(by_client.as_bytes()).unwrap(), Some("ws:y"));
    (registrations, routes)
}

#[test]
fn every_request_has_its_owner() {
    let (registrations, routes) = registered();
    let client = |name: &str| Owner::Client(name.parse().unwrap());
    let nobody = Owner::Nobody(FallbackReason::Unregistered);
    let call = r#"{"id":1,"method":"tools/call"}"#;
    for (asked, owner) in [
        (hook("trunkline/0"), client("x")),
        (hook("trunkline/1"), Owner::Webhook(1)),
        (hook("trunkline/2"), Owner::Fixed(2)),
        (hook("y/h"), client("y")),
        // Registered by nobody, or by options that are gone.
        (hook("trunkline/9"), nobody.clone()),
        (hook("trunkline/5"), nobody.clone()),
        (hook("y/other"), nobody.clone()),
        (hook("h"), nobody.clone()),
        (mcp("mine", call), client("x")),
        (mcp("calc", call), client("y")),
        (mcp("web", call), Owner::Url),
        (mcp("unknown", call), nobody),
        (asked(r#"{"subtype":"brand_new_thing"}"#), Owner::Anyone),
        (asked(r#"{"subtype":"can_use_tool"}"#), Owner::Anyone),
        (asked(r#"{"subtype":"mcp_message"}"#), Owner::Anyone),
    ] {
        let route = route(&asked, &registrations, &routes, true);
        assert_eq!(route.owner, owner, "{}", asked.request.request);
    }
    let first = route(&hook("trunkline/0"), &registrations, &routes, true);
    assert!(first.blocks && first.fallback.is_none());
    let third = route(&hook("trunkline/2"), &registrations, &routes, true);
    assert_eq!(third.fallback.unwrap().get(), r#"{"a": 1}"#);
}

#[test]
fn credentials_are_asked_for_only_if_they_can_be_kept_out_of_the_journal() {
    let (registrations, routes) = registered();
    for subtype in [
        "oauth_token_refresh",
        "host_auth_token_refresh",
        "remote_control_work_secret",
    ] {
        let request = asked(&format!(r#"{{"subtype":"{subtype}"}}"#));
        let owner = |takes_secrets| route(&request, &registrations, &routes, takes_secrets).owner;
        assert_eq!(owner(true), Owner::Anyone, "{subtype}");
        assert_eq!(
            owner(false),
            Owner::Nobody(FallbackReason::Unsupported),
            "{subtype}"
        );
    }
}

#[test]
fn the_stated_answer_is_due_before_the_clis_patience_ends() {
    use FallbackReason::{Late, NoClient, Unregistered};
    let (registrations, routes) = registered();
    let left = |seconds, may_return| Presence::Left {
        at: at(seconds),
        may_return,
    };
    let unseen = |seconds| Presence::Unseen { since: at(seconds) };
    let (call, note) = (
        r#"{"id":1,"method":"tools/call"}"#,
        r#"{"method":"notifications/x"}"#,
    );
    let here = Presence::Attached;
    for (asked, presence, due) in [
        // A hook that the CLI waits 60, 2 and 30 seconds for.
        (hook("trunkline/0"), here, Some((1_054.0, Late))),
        (hook("trunkline/1"), here, Some((1_001.0, Late))),
        (hook("y/h"), here, Some((1_027.0, Late))),
        // Its client is away: before the request, since then, for ever.
        (hook("y/h"), left(900.0, true), Some((1_000.0, NoClient))),
        (hook("y/h"), left(990.0, true), Some((1_005.0, NoClient))),
        (hook("y/h"), left(1_005.0, true), Some((1_020.0, NoClient))),
        (hook("y/h"), left(1_020.0, true), Some((1_027.0, Late))),
        (hook("y/h"), left(900.0, false), Some((1_000.0, NoClient))),
        (hook("y/h"), left(1_005.0, false), Some((1_005.0, NoClient))),
        // The daemon began before the request, and after it.
        (hook("y/h"), unseen(900.0), Some((1_000.0, NoClient))),
        (hook("y/h"), unseen(1_008.0), Some((1_023.0, NoClient))),
        (hook("y/h"), unseen(1_500.0), Some((1_027.0, Late))),
        (hook("h"), here, Some((1_000.0, Unregistered))),
        // A call of a tool: as long as it takes, and no longer than its client is there.
        (mcp("calc", call), here, None),
        (mcp("calc", call), left(900.0, true), Some((1_000.0, NoClient))),
        (mcp("calc", call), left(1_500.0, true), Some((1_500.0, NoClient))),
        (mcp("calc", call), unseen(1_500.0), Some((1_515.0, NoClient))),
        (mcp("calc", note), unseen(900.0), Some((1_000.0, NoClient))),
        (mcp("web", call), here, None),
        (asked(r#"{"subtype":"new"}"#), here, Some((1_010.0, Late))),
        (
            asked(r#"{"subtype":"new"}"#),
            unseen(1.0),
            Some((1_000.0, NoClient)),
        ),
    ] {
        let route = route(&asked, &registrations, &routes, true);
        let expected = due.map(|(seconds, reason)| (at(seconds), reason));
        assert_eq!(
            route.due(&asked, presence, TIMES),
            expected,
            "{} {presence:?}",
            asked.request.request
        );
    }
}

#[test]
fn there_is_always_time_for_the_stated_answer() {
    for (timeout, expected) in [
        (1_000, 500),
        (1_500, 750),
        (2_000, 1_000),
        (5_000, 4_000),
        (600_000, 540_000),
    ] {
        assert_eq!(patience(timeout), expected);
    }
}

#[test]
fn no_start_and_no_turn_waits_long_for_a_client() {
    use FallbackReason::{Late, NoClient};
    let (registrations, routes) = registered();
    let (hello, list, call, note) = (
        r#"{"id":0,"method":"initialize"}"#,
        r#"{"id":1,"method":"tools/list"}"#,
        r#"{"id":1,"method":"tools/call"}"#,
        r#"{"method":"notifications/initialized"}"#,
    );
    let here = Presence::Attached;
    let unseen = |seconds| Presence::Unseen { since: at(seconds) };
    for (asked, presence, due) in [
        (mcp("calc", hello), here, Some((1_005.0, Late))),
        (mcp("calc", list), here, Some((1_005.0, Late))),
        (mcp("calc", hello), unseen(900.0), Some((1_005.0, NoClient))),
        // The daemon came later.
        (mcp("calc", hello), unseen(1_008.0), Some((1_013.0, NoClient))),
        (mcp("calc", note), here, Some((1_005.0, Late))),
        (mcp("calc", call), here, None),
        (mcp("calc", call), unseen(900.0), None),
        (mcp("web", hello), here, None),
        (hook("y/h"), here, None),
    ] {
        let route = route(&asked, &registrations, &routes, true);
        let expected = due.map(|(seconds, reason)| (at(seconds), reason));
        let found = route.due_early(&asked, presence);
        assert_eq!(found, expected, "{} {presence:?}", asked.request.request);
    }
}
