//! Owns what an operator sees in `/metrics` of a daemon whose CLI says what is new.

use reqwest::Method;
use serde_json::json;

use crate::{
    fake::bed::{act, act_through, answer_heard, path, plain, records, session},
    support::{
        daemon::TestDaemon,
        rest::Rest,
        wait::{PATIENCE, wait_for},
    },
};

/// The lines of a scrape.
pub(crate) struct Scrape(Vec<String>);

impl Scrape {
    pub(crate) async fn of(rest: &Rest) -> Self {
        let response = rest.builder(Method::GET, "/metrics").send().await.unwrap();
        let text = response.error_for_status().unwrap().text().await.unwrap();
        assert!(text.ends_with("# EOF\n"), "{text}");
        Self(text.lines().map(ToOwned::to_owned).collect())
    }

    /// The value of a series; 0 for one that has not begun.
    pub(crate) fn value(&self, series: &str) -> f64 {
        let found = self
            .0
            .iter()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        found.map_or(0.0, |value| value.parse().unwrap())
    }

    #[track_caller]
    pub(crate) fn expect(&self, series: &str, value: f64) {
        let found = self.value(series);
        let text = self.0.join("\n");
        assert!(
            (found - value).abs() < 1e-9,
            "{series} is {found} and not {value}:\n{text}"
        );
    }

    /// The records of all sources.
    pub(crate) fn records(&self) -> f64 {
        let sources = ["cli", "client", "daemon", "stdout_text", "stderr"];
        let values =
            sources.map(|source| self.value(&format!(r#"trunkline_records_total{{source="{source}"}}"#)));
        values.iter().sum()
    }

    /// The series of a metric.
    fn series(&self, metric: &str) -> Vec<&str> {
        let begin = format!("{metric}{{");
        let lines = self.0.iter().filter(|line| line.starts_with(&begin));
        lines.map(String::as_str).collect()
    }
}

async fn until(rest: &Rest, series: &str, value: f64) {
    wait_for(&format!("{series} is {value}"), PATIENCE, async || {
        let found = Scrape::of(rest).await.value(series);
        ((found - value).abs() < 1e-9).then_some(())
    })
    .await;
}

fn same(found: f64, expected: usize) -> bool {
    let expected = u32::try_from(expected).unwrap();
    (found - f64::from(expected)).abs() < 1e-9
}

const NEW_TYPE: &str =
    r#"{"type":"brand_new_thing","n":1.50,"deep":{"x":[1e400,null,"\ud800"]}, "z":"\u0041"}"#;

#[tokio::test]
async fn an_unknown_type_reaches_clients_byte_for_byte_and_is_counted() {
    let (daemon, rest, id) = plain().await;
    let mut client = daemon.attach(&id, None).await;
    let lines = [
        NEW_TYPE,
        r#"{"type":"system","subtype":"never_seen","z":"z"}"#,
        r#"{"no_type_at_all":1}"#,
    ];
    act(
        &rest,
        &id,
        json!([{ "raw": lines.join("\n") }, { "raw": NEW_TYPE }, { "text": "normal" }]),
    )
    .await;
    for line in lines {
        let data = format!(r#""src":"cli","data":{line}}}"#);
        client.text_that(|text| text.ends_with(&data)).await;
    }
    client.text_that(|text| text.contains(r#""type":"result""#)).await;

    let scrape = Scrape::of(&rest).await;
    for (kind, name, count) in [
        ("message", "brand_new_thing", 2.0),
        ("message", "unnamed", 1.0),
        ("system", "never_seen", 1.0),
    ] {
        let series = format!(r#"trunkline_unknown_messages_total{{kind="{kind}",name="{name}"}}"#);
        scrape.expect(&series, count);
    }
    // Nothing that is known is called unknown.
    assert_eq!(scrape.series("trunkline_unknown_messages_total").len(), 3);
}

#[tokio::test]
async fn an_unknown_control_request_is_counted_and_answered() {
    let (daemon, rest, id) = plain().await;
    act(
        &rest,
        &id,
        json!([
            { "request": { "subtype": "brand new\"} 7\nthing", "secret": "planted" }, "id": "new-1" },
            { "request": { "subtype": "hook_callback", "callback_id": "h", "input": {} }, "id": "hook-1" },
        ]),
    )
    .await;
    let mut client = daemon.attach(&id, Some(0)).await;
    for request in ["new-1", "hook-1"] {
        answer_heard(&mut client, request).await;
    }
    client.cli_line("result").await;
    let name = "brand_new___7_thing";
    let scrape = Scrape::of(&rest).await;
    let unknown = format!(r#"trunkline_unknown_messages_total{{kind="control_request",name="{name}"}}"#);
    scrape.expect(&unknown, 1.0);
    let own_lines = scrape.series("trunkline_unknown_messages_total");
    assert!(
        own_lines.iter().all(|line| !line.contains("hook_callback")),
        "{own_lines:?}"
    );
    let of_subtype = format!(r#"trunkline_fallbacks_total{{subtype="{name}",reason=""#);
    wait_for("the stated answer is counted", PATIENCE, async || {
        let scrape = Scrape::of(&rest).await;
        let counted = scrape.0.iter().find(|line| line.starts_with(&of_subtype))?;
        counted.ends_with(" 1").then_some(())
    })
    .await;
    assert!(!scrape.0.join("\n").contains("planted"));
}

#[tokio::test]
async fn what_happens_is_counted_once_also_over_a_restart_of_the_daemon() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let settings = json!({ "controls": { "set_color": { "error": "no" } } });
    let id = session(&daemon, "a", settings).await;
    let rest = daemon.rest();
    act_through(
        &rest,
        &id,
        json!([{ "text": "one" }, { "result": {}, "cost": 0.25 }]),
    )
    .await;
    let turn = json!([{ "text": "two" }, { "result": { "is_error": true }, "cost": 0.5 }]);
    act_through(&rest, &id, turn).await;
    rest.put(&path(&id, "model"), json!({ "model": "m" }))
        .await
        .expect(200);
    let refused = rest
        .post(
            &path(&id, "control"),
            json!({ "subtype": "set_color", "color": "red" }),
        )
        .await;
    assert_eq!(refused.problem(409), "control_refused");
    let view = rest.in_state(&id, &["idle"]).await;
    assert_eq!(view["turns"], 2);

    let scrape = Scrape::of(&rest).await;
    scrape.expect(r#"trunkline_turns_total{outcome="success"}"#, 1.0);
    scrape.expect(r#"trunkline_turns_total{outcome="failed"}"#, 1.0);
    scrape.expect("trunkline_cost_usd_total", 0.75);
    scrape.expect(
        r#"trunkline_control_requests_total{subtype="set_model",outcome="success"}"#,
        1.0,
    );
    scrape.expect(
        r#"trunkline_control_requests_total{subtype="set_color",outcome="refused"}"#,
        1.0,
    );
    wait_for("all records are counted", PATIENCE, async || {
        let scrape = Scrape::of(&rest).await;
        let (there, bytes) = (records(&rest, &id).await.len(), daemon.journal(&id).len());
        let is_all =
            same(scrape.records(), there) && same(scrape.value("trunkline_journaled_bytes_total"), bytes);
        is_all.then_some(())
    })
    .await;

    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    rest.in_state(&id, &["idle"]).await;
    let scrape = Scrape::of(&rest).await;
    scrape.expect(r#"trunkline_sessions{state="idle"}"#, 1.0);
    scrape.expect("trunkline_cost_usd_total", 0.0);
    scrape.expect(r#"trunkline_turns_total{outcome="success"}"#, 0.0);
    let counted = scrape.records();
    assert!(same(counted, 0), "what is read again is not new: {counted}");
    act_through(
        &rest,
        &id,
        json!([{ "text": "three" }, { "result": {}, "cost": 0.125 }]),
    )
    .await;
    let scrape = Scrape::of(&rest).await;
    scrape.expect("trunkline_cost_usd_total", 0.125);
    scrape.expect(r#"trunkline_turns_total{outcome="success"}"#, 1.0);
}

#[tokio::test]
async fn levels_follow_sessions_clients_and_approvals() {
    let (daemon, rest, a) = plain().await;
    let b = session(&daemon, "b", json!({})).await;
    let client = daemon.attach(&a, None).await;
    act(&rest, &a, json!([{ "ask": { "ids": ["q-1"] } }])).await;
    let approval = rest.pending_approval(&a).await;
    until(&rest, r#"trunkline_sessions{state="waiting"}"#, 1.0).await;
    let scrape = Scrape::of(&rest).await;
    scrape.expect(r#"trunkline_sessions{state="idle"}"#, 1.0);
    scrape.expect("trunkline_processes", 2.0);
    scrape.expect("trunkline_clients", 1.0);
    scrape.expect(r#"trunkline_approvals_pending{kind="tool"}"#, 1.0);
    scrape.expect(r#"trunkline_approvals_pending{kind="plan"}"#, 0.0);

    rest.decide(
        &a,
        approval["id"].as_str().unwrap(),
        json!({ "decision": "deny" }),
    )
    .await
    .expect(200);
    rest.in_state(&a, &["idle"]).await;
    client.close().await;
    rest.lifecycle(&b, "stop", json!({})).await.expect(200);
    until(&rest, "trunkline_clients", 0.0).await;
    until(&rest, r#"trunkline_sessions{state="stopped"}"#, 1.0).await;
    let scrape = Scrape::of(&rest).await;
    scrape.expect("trunkline_processes", 1.0);
    scrape.expect(r#"trunkline_approvals_pending{kind="tool"}"#, 0.0);
    scrape.expect(
        r#"trunkline_approvals_ended_total{kind="tool",how="person",by="rest"}"#,
        1.0,
    );
    until(&rest, "trunkline_projections_waiting", 0.0).await;
    until(&rest, "trunkline_store_lag_seconds", 0.0).await;
}

#[tokio::test]
async fn no_label_says_which_session_or_where() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "planted-dir", json!({})).await;
    act_through(&rest, &id, json!([{ "text": "planted-words" }])).await;
    rest.get("/no/planted-path?planted=1").await.problem(404);
    rest.send(rest.builder(Method::from_bytes(b"PLANTED").unwrap(), "/v1/sessions"))
        .await
        .problem(405);
    let scrape = Scrape::of(&rest).await;
    let text = scrape.0.join("\n");
    for secret in [id.as_str(), daemon.token(), "planted", "PLANTED"] {
        assert!(!text.contains(secret), "{secret} in\n{text}");
    }
    scrape.expect(
        r#"trunkline_http_requests_total{method="GET",route="unmatched",status="404"}"#,
        1.0,
    );
    scrape.expect(
        r#"trunkline_http_requests_total{method="OTHER",route="/v1/sessions",status="405"}"#,
        1.0,
    );
    let timed = r#"trunkline_http_request_duration_seconds_count{method="POST",route="/v1/sessions"}"#;
    scrape.expect(timed, 1.0);
    let refused = rest.with_token(None).get("/metrics").await;
    assert_eq!(refused.problem(401), "unauthorized");
}

/// Takes the write lock of a database until it reads a line.
const LOCK: &str = "
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute('BEGIN IMMEDIATE')
print('locked', flush=True)
sys.stdin.readline()
database.execute('ROLLBACK')
";

#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    reason = "another program holds the database, as a backup would"
)]
async fn a_database_that_takes_nothing_is_seen_and_holds_up_neither_sessions_nor_the_scrape() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio};

    // A busy machine may hold the lock for longer than the daemon tries at once.
    let daemon = TestDaemon::with_fake().allow_errors().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    let mut client = daemon.attach(&id, None).await;
    let mut locker = Command::new("python3")
        .args(["-c", LOCK])
        .arg(daemon.database())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut lines = BufReader::new(locker.stdout.take().unwrap());
    lines.read_line(&mut said).unwrap();
    assert_eq!(said, "locked\n");

    client
        .send(&json!({ "type": "user", "message": { "role": "user", "content": "one" } }))
        .await;
    client.cli_line("result").await;
    wait_for("the lag is seen", PATIENCE, async || {
        let scrape = Scrape::of(&rest).await;
        (scrape.value("trunkline_store_lag_seconds") > 0.2).then_some(())
    })
    .await;
    locker.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(locker.wait().unwrap().success());
    until(&rest, "trunkline_store_lag_seconds", 0.0).await;
    until(&rest, "trunkline_projections_waiting", 0.0).await;
    assert_eq!(rest.session(&id).await["turns"], 1);
}
