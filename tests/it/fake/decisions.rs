//! Owns section P where it is about time: races, repeats, long waits, deaths, and interrupts that overlap.

use std::{fs, time::Duration};

use serde_json::{Value, json};

use crate::{
    fake::bed::{act, answer_heard, of_type, path, plain, records, session, session_with},
    support::{
        chance::Chance,
        daemon::TestDaemon,
        programs::fake_prompt,
        wait::{PATIENCE, pass, wait_for, wait_until},
    },
};

/// A request that is withdrawn while an answer to it is on its way.
const RACES: usize = 40;

/// Longer than a minute, which is the limit that programs of this kind are known to have.
const LONG: Duration = Duration::from_secs(62);

fn id_of(approval: &Value) -> String {
    approval["id"].as_str().unwrap().to_owned()
}

fn answer(request: &str, response: Value) -> Value {
    json!({ "type": "control_response",
            "response": { "subtype": "success", "request_id": request, "response": response } })
}

/// In any order there is one end, it is told once, and the clients were told the recorded one.
#[tokio::test]
async fn a_withdrawal_that_races_an_answer_leaves_one_end() {
    let mut chance = Chance::new();
    let (daemon, rest, id) = plain().await;
    let mut client = daemon.attach(&id, None).await;
    let mut ends = [0, 0];
    for race in 0..RACES {
        let (request, gate) = (format!("q-{race}"), daemon.home().join(format!("gate-{race}")));
        act(
            &rest,
            &id,
            json!([
                { "ask": { "ids": [request], "wait": false } },
                { "wait_file": gate },
                { "cancel": request },
                { "text": "never mind" },
            ]),
        )
        .await;
        let approval = id_of(&rest.pending_approval(&id).await);
        let denial = answer(&request, json!({ "behavior": "deny", "message": "no" }));
        fs::write(&gate, "").unwrap();
        pass(chance.moment(8)).await;
        let (over_rest, ()) = tokio::join!(
            rest.decide(&id, &approval, json!({ "decision": "allow" })),
            client.send(&denial),
        );
        let shown = match over_rest.status.as_u16() {
            200 => over_rest.body,
            _ => over_rest.body["approval"].clone(),
        };
        let about = |frame: &Value| {
            ["trunkline.ack", "trunkline.error"].contains(&frame["type"].as_str().unwrap_or_default())
                && frame["request_id"] == json!(request)
        };
        let outcome = client.find("the outcome on the socket", about).await;
        rest.in_state(&id, &["idle"]).await;
        let recorded = rest
            .get(&path(&id, &format!("approvals/{approval}")))
            .await
            .expect(200);
        assert_eq!(
            shown["state"], recorded["state"],
            "the client was told what is recorded"
        );
        let written: Vec<_> = records(&rest, &id)
            .await
            .into_iter()
            .filter(|record| {
                record["src"] == "client" && record["data"]["response"]["request_id"] == json!(request)
            })
            .collect();
        match recorded["state"].as_str().unwrap() {
            "withdrawn" => {
                ends[0] += 1;
                assert_eq!(outcome["code"], "approval_not_pending", "{outcome:#}");
                // One answer may have been on its way already.
                assert!(written.len() <= 1, "{written:#?}");
            }
            state => {
                ends[1] += 1;
                let by_socket = outcome["type"] == "trunkline.ack";
                assert_eq!(state, if by_socket { "denied" } else { "allowed" });
                assert_eq!(written.len(), 1, "{written:#?}");
                assert_eq!(written[0]["by"], recorded["resolution"]["by"]);
            }
        }
    }
    println!("withdrawn, answered: {ends:?}");
    let inbox = rest.get("/v1/approvals?state=pending").await.expect(200);
    assert_eq!(inbox["items"], json!([]));
    let records = wait_for("each end is told", PATIENCE, async || {
        let records = records(&rest, &id).await;
        (of_type(&records, "daemon", "decision").len() >= RACES).then_some(records)
    })
    .await;
    assert_eq!(
        of_type(&records, "daemon", "decision").len(),
        RACES,
        "each end is told once"
    );
}

#[tokio::test]
async fn an_answer_that_is_sent_twice_counts_once() {
    let (daemon, rest, id) = plain().await;
    act(&rest, &id, json!([{ "ask": { "ids": ["q-1"] } }])).await;
    let approval = id_of(&rest.pending_approval(&id).await);
    let allow = answer("q-1", json!({ "behavior": "allow" }));
    let mut first = daemon.attach(&id, None).await;
    first.send(&allow).await;
    first.send(&allow).await;
    first
        .until("the ack", |frame| frame["type"] == "trunkline.ack")
        .await;
    let refusal = first
        .find("a refusal", |frame| frame["type"] == "trunkline.error")
        .await;
    assert_eq!(refusal["code"], "already_decided", "{refusal:#}");
    // And again after it came back.
    let by = refusal["by"].clone();
    first.close().await;
    let mut second = daemon.attach(&id, None).await;
    second.send(&allow).await;
    let refusal = second
        .find("a refusal", |frame| frame["type"] == "trunkline.error")
        .await;
    assert_eq!(
        (&refusal["code"], &refusal["by"]),
        (&json!("already_decided"), &by)
    );
    let again = rest.decide(&id, &approval, json!({ "decision": "allow" })).await;
    assert_eq!(again.problem(409), "already_decided");
    rest.in_state(&id, &["idle"]).await;
    let records = records(&rest, &id).await;
    assert_eq!(of_type(&records, "client", "control_response").len(), 1);
    assert_eq!(of_type(&records, "cli", "fake_answer").len(), 1);
}

#[tokio::test]
async fn an_answer_that_names_a_request_of_another_session_decides_nothing() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let (a, b) = (
        session(&daemon, "a", json!({})).await,
        session(&daemon, "b", json!({})).await,
    );
    act(&rest, &a, json!([{ "ask": { "ids": ["of-a"] } }])).await;
    act(&rest, &b, json!([{ "ask": { "ids": ["of-b"] } }])).await;
    let of_a = id_of(&rest.pending_approval(&a).await);
    rest.pending_approval(&b).await;
    let mut client = daemon.attach(&b, None).await;
    client.send(&answer("of-a", json!({ "behavior": "allow" }))).await;
    let refusal = client
        .find("a refusal", |frame| frame["type"] == "trunkline.error")
        .await;
    assert_eq!(refusal["code"], "request_not_pending", "{refusal:#}");
    let wrong = rest.decide(&b, &of_a, json!({ "decision": "allow" })).await;
    assert_eq!(wrong.problem(404), "approval_not_found");
    let inbox = rest.get("/v1/approvals?state=pending").await.expect(200);
    assert_eq!(inbox["items"].as_array().unwrap().len(), 2, "{inbox:#}");
    for id in [&a, &b] {
        let records = records(&rest, id).await;
        assert_eq!(of_type(&records, "client", "control_response").len(), 0);
    }
}

#[tokio::test]
async fn a_daemon_that_was_killed_over_a_request_leaves_every_way_out() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let id = session(&daemon, "a", json!({})).await;
    daemon.rest().ask(&id, "hello").await;
    act(&daemon.rest(), &id, json!([{ "ask": { "ids": ["q-1"] } }])).await;
    let asked = daemon.rest().pending_approval(&id).await;
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    let list = rest.get("/v1/sessions?state=waiting").await.expect(200);
    assert_eq!(list["items"][0]["id"], json!(id), "{list:#}");
    assert_eq!(list["items"][0]["pending_approvals"][0]["id"], asked["id"]);
    assert_eq!(rest.pending_approval(&id).await, asked);
    let fork = rest
        .lifecycle(&id, "fork?wait=ready", json!({}))
        .await
        .expect(201);
    rest.ask(fork["id"].as_str().unwrap(), "on").await;
    rest.lifecycle(&id, "interrupt", json!({})).await.expect(200);
    rest.in_state(&id, &["idle"]).await;
    act(&rest, &id, json!([{ "ask": { "ids": ["q-2"] } }])).await;
    rest.pending_approval(&id).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let shown = rest.get(&path(&id, "approvals")).await.expect(200);
    let states: Vec<_> = shown["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["abandoned", "withdrawn"]);
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "on").await;
    act(&rest, &id, json!([{ "ask": {} }])).await;
    rest.pending_approval(&id).await;
    assert_eq!(rest.delete(&format!("/v1/sessions/{id}")).await.status, 204);
    assert_eq!(rest.get(&format!("/v1/sessions/{id}")).await.status, 404);
}

/// Every limit that can be set is short here, and those that cannot be are outlived.
#[tokio::test]
async fn a_request_waits_as_long_as_it_takes() {
    let mut daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SESSIONS_START_TIMEOUT_MS", "10000")
        .env("TRUNKLINE_STOP_EOF_GRACE_MS", "500")
        .env("TRUNKLINE_STOP_TERM_GRACE_MS", "500")
        .start()
        .await;
    let id = session(&daemon, "a", json!({})).await;
    act(
        &daemon.rest(),
        &id,
        json!([{ "ask": { "ids": ["q-1"] } }, { "text": "it ran" }]),
    )
    .await;
    let asked = daemon.rest().pending_approval(&id).await;
    // Nobody is attached, and the daemon is not the same either.
    pass(LONG / 2).await;
    daemon.kill();
    daemon.start().await;
    pass(LONG / 2).await;
    let rest = daemon.rest();
    assert_eq!(rest.pending_approval(&id).await, asked);
    assert_eq!(rest.session(&id).await["state"], "waiting");
    let before = records(&rest, &id).await;
    assert_eq!(of_type(&before, "client", "control_response").len(), 0);
    let mut client = daemon.attach(&id, None).await;
    let snapshot = client.next().await;
    assert_eq!(snapshot["pending_approvals"][0]["id"], asked["id"]);
    client.send(&answer("q-1", json!({ "behavior": "allow" }))).await;
    let heard = answer_heard(&mut client, "q-1").await;
    assert_eq!(
        (&heard["expected"], &heard["valid"]),
        (&json!(true), &json!(true))
    );
    let result = client.cli_line("result").await;
    assert_eq!(result["result"], "it ran");
}

#[tokio::test]
async fn interrupts_that_overlap_leave_the_next_prompt_alone() {
    let (_daemon, rest, id) = plain().await;
    for round in 0..10_u64 {
        let request = format!("q-{round}");
        act(
            &rest,
            &id,
            json!([{ "ask": { "ids": [request] } }, { "text": "went on" }]),
        )
        .await;
        let approval = id_of(&rest.pending_approval(&id).await);
        let deny = json!({ "decision": "deny", "message": "stop", "interrupt": true });
        let next = fake_prompt(&json!([{ "text": format!("answer {round}") }]));
        let (first, second, denied) = tokio::join!(
            rest.lifecycle(&id, "interrupt", json!({})),
            rest.lifecycle(&id, "interrupt", json!({})),
            rest.decide(&id, &approval, deny),
        );
        first.expect(200);
        second.expect(200);
        let denied = denied.status.as_u16();
        assert!([200, 409].contains(&denied), "{denied}");
        let answered = rest.ask(&id, &next).await;
        assert_eq!(answered["result"]["subtype"], "success", "{answered:#}");
        assert_eq!(answered["result"]["result"], format!("answer {round}"));
        let turns = rest.turns(&id).await;
        assert_eq!(turns.len() as u64, 2 * (round + 1), "{turns:#?}");
        if denied == 200 {
            let records = records(&rest, &id).await;
            let answers = of_type(&records, "client", "control_response");
            let passed = answers.last().unwrap();
            assert_eq!(passed["response"]["response"]["interrupt"], true, "{passed:#}");
        }
    }
}

#[tokio::test]
async fn the_mode_is_the_same_after_a_resume() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let dump = daemon.home().join("dump");
    let options = json!({ "permission_mode": "acceptEdits" });
    let id = session_with(&daemon, "a", json!({ "dump": dump }), options).await;
    rest.ask(&id, "hello").await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    assert_eq!(rest.session(&id).await["permission_mode"], "acceptEdits");
    wait_until("both starts are dumped", PATIENCE, || {
        fs::read_to_string(&dump).is_ok_and(|text| text.lines().count() == 2)
    })
    .await;
    for start in fs::read_to_string(&dump).unwrap().lines() {
        let start: Value = serde_json::from_str(start).unwrap();
        let modes: Vec<_> = start["argv"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|arg| arg.as_str().unwrap().starts_with("--permission-mode"))
            .collect();
        assert_eq!(modes, ["--permission-mode=acceptEdits"]);
    }
}
