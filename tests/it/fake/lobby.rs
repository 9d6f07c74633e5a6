//! Owns the tests of the lobby: all sessions in one stream, each change once, and what a client gets that comes back.

use serde_json::{Value, json};
use trunkline::domain::Clock;

use crate::{
    fake::bed::{act, act_through, session},
    support::{daemon::TestDaemon, event_stream::EventStream},
};

/// The changes of one session that came, up to one that `wanted` accepts.
async fn changes_of(
    stream: &mut EventStream,
    id: &str,
    what: &str,
    wanted: impl Fn(&Value) -> bool + Send + Sync,
) -> Vec<Value> {
    let is_last = |data: &Value| data["session_id"] == id && wanted(data);
    let events = stream.until(what, is_last).await;
    let data = events.into_iter().map(|event| event.data);
    data.filter(|data| data["session_id"] == id).collect()
}

fn has_changed(data: &Value, respect: &str) -> bool {
    data["changed"].as_array().unwrap().contains(&json!(respect))
}

fn ids(snapshot: &Value) -> Vec<&str> {
    let sessions = snapshot["sessions"].as_array().unwrap().iter();
    sessions.map(|session| session["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn watchers_see_every_session_and_then_each_change() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let first = session(&daemon, "a", json!({})).await;
    let mut stream = EventStream::open(&rest, "/v1/events", None).await;
    let snapshot = stream.next().await;
    assert_eq!(snapshot.data["type"], "trunkline.lobby");
    assert_eq!(snapshot.id.as_deref(), snapshot.data["event_id"].as_str());
    assert_eq!(ids(&snapshot.data), [first.as_str()]);
    assert_eq!(snapshot.data["sessions"][0]["state"], "idle");

    let second = session(&daemon, "b", json!({})).await;
    let made = changes_of(&mut stream, &second, "a ready session", |data| {
        data["session"]["state"] == "idle"
    })
    .await;
    assert_eq!(made[0]["change"], "made", "{made:#?}");
    assert!(
        made[1..].iter().all(|data| data["change"] == "changed"),
        "{made:#?}"
    );

    rest.patch(&format!("/v1/sessions/{first}"), json!({ "title": "Named" }))
        .await
        .expect(200);
    let named = changes_of(&mut stream, &first, "the title", |data| {
        has_changed(data, "title")
    })
    .await;
    assert_eq!(named.last().unwrap()["session"]["title"], "Named");

    act_through(&rest, &first, json!([])).await;
    let turn = changes_of(&mut stream, &first, "the end of the turn", |data| {
        data["session"]["turns"] == 1 && data["session"]["state"] == "idle"
    })
    .await;
    // The states of a turn that is over at once may be one change, and so none.
    for respect in ["prompt", "turn", "last_line", "cost"] {
        assert!(
            turn.iter().any(|data| has_changed(data, respect)),
            "{respect}: {turn:#?}"
        );
    }
    let view = rest.session(&first).await;
    assert_eq!(turn.last().unwrap()["session"]["cost_usd"], view["cost_usd"]);

    rest.delete(&format!("/v1/sessions/{second}")).await.expect(204);
    let gone = changes_of(&mut stream, &second, "the deletion", |data| {
        data["change"] == "deleted"
    })
    .await;
    assert_eq!(gone.last().unwrap()["session"], Value::Null);
}

#[tokio::test]
async fn a_session_that_needs_a_person_says_why_and_since_when() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    let mut all = EventStream::open(&rest, "/v1/events", None).await;
    let mut needy = EventStream::open(&rest, "/v1/events?needs_person=true", None).await;
    assert_eq!(needy.next().await.data["total"], 0);
    act(&rest, &id, json!([{ "ask": { "tool": "Bash", "input": {} } }])).await;
    let approval = rest.pending_approval(&id).await;
    let asked = changes_of(&mut all, &id, "the approval", |data| {
        has_changed(data, "approval_opened")
    })
    .await;
    let asked = asked.last().unwrap();
    assert_eq!(asked["session"]["pending_approvals"][0]["id"], approval["id"]);
    let attention = &asked["session"]["attention"];
    assert_eq!(
        (&attention["reason"], &attention["rank"]),
        (&json!("decision"), &json!(2))
    );
    assert_eq!(attention["since"], approval["requested_at"]);
    // A watcher of such sessions alone sees it come and go.
    let came = needy.next().await.data;
    assert_eq!(
        (&came["change"], &came["session_id"]),
        (&json!("made"), &json!(id))
    );
    let approval = approval["id"].as_str().unwrap();
    rest.decide(&id, approval, json!({ "decision": "allow" }))
        .await
        .expect(200);
    let decided = changes_of(&mut all, &id, "the decision", |data| {
        has_changed(data, "approval_closed")
    })
    .await;
    assert_eq!(decided.last().unwrap()["session"]["attention"], Value::Null);
    let left = needy.until("the end", |data| data["change"] == "left").await;
    assert_eq!(left.last().unwrap().data["session_id"], json!(id));

    // A CLI that dies for good needs a person until something is done.
    act(&rest, &id, json!([{ "exit": 3 }])).await;
    let failed = changes_of(&mut all, &id, "the failure", |data| {
        data["session"]["attention"]["reason"] == "failed"
    })
    .await;
    assert_eq!(failed.last().unwrap()["session"]["attention"]["rank"], 3);
}

#[tokio::test]
async fn a_watcher_that_comes_back_gets_what_it_missed_and_nothing_twice() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    let title = async |title: &str| {
        let path = format!("/v1/sessions/{id}");
        rest.patch(&path, json!({ "title": title })).await.expect(200);
    };
    let mut stream = EventStream::open(&rest, "/v1/events", None).await;
    stream.next().await;
    title("one").await;
    let seen = stream
        .until("a title", |data| data["session"]["title"] == "one")
        .await;
    let seen = seen.last().unwrap().id.clone().unwrap();
    drop(stream);
    title("two").await;
    // Two changes that come before the lobby looks may be one.
    let mut other = EventStream::open(&rest, "/v1/events", None).await;
    let is_two = |data: &Value| data["session"]["title"] == "two" || data["sessions"][0]["title"] == "two";
    other.until("the second title", is_two).await;
    title("three").await;
    let mut stream = EventStream::open(&rest, "/v1/events", Some(&seen)).await;
    let missed = stream
        .until("the last title", |data| data["session"]["title"] == "three")
        .await;
    let titles: Vec<_> = missed
        .iter()
        .map(|event| &event.data["session"]["title"])
        .collect();
    assert_eq!(titles, ["two", "three"]);

    // The place may stand in the query, for clients that set no header. A place of no lobby, or of an earlier one, is none.
    let newest = missed.last().unwrap().id.clone().unwrap();
    let path = format!("/v1/events?last_event_id={seen}");
    let mut stream = EventStream::open(&rest, &path, None).await;
    assert_eq!(stream.next().await.data["session"]["title"], "two");
    for unknown in ["", "7", "zz-1", "0-1", "5f-18446744073709551615"] {
        let mut stream = EventStream::open(&rest, "/v1/events", Some(unknown)).await;
        assert_eq!(stream.next().await.data["type"], "trunkline.lobby", "{unknown}");
    }
    daemon.kill();
    daemon.start().await;
    let mut stream = EventStream::open(&daemon.rest(), "/v1/events", Some(&newest)).await;
    let snapshot = stream.next().await.data;
    assert_eq!(snapshot["sessions"][0]["title"], "three", "{snapshot:#}");
}

#[tokio::test]
async fn a_snapshot_is_bounded_and_says_how_many_there_are() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    for name in ["a", "b", "c"] {
        session(&daemon, name, json!({})).await;
    }
    let newest = session(&daemon, "d", json!({})).await;
    rest.patch(
        &format!("/v1/sessions/{newest}"),
        json!({ "labels": { "kind": "x" } }),
    )
    .await
    .expect(200);
    let mut stream = EventStream::open(&rest, "/v1/events?limit=2", None).await;
    let snapshot = stream.next().await.data;
    assert_eq!(snapshot["total"], 4);
    assert_eq!(ids(&snapshot).len(), 2);
    assert_eq!(ids(&snapshot)[0], newest, "the newest activity first");
    let mut stream = EventStream::open(&rest, "/v1/events?label=kind%3Dx", None).await;
    assert_eq!(ids(&stream.next().await.data), [newest.as_str()]);
    for query in [
        "limit=0",
        "limit=10001",
        "state=gone",
        "label=x",
        "other=1",
        "needs_person=maybe",
    ] {
        let refused = rest.get(&format!("/v1/events?{query}")).await;
        assert_eq!(refused.problem(400), "invalid_query", "{query}");
    }
}

#[tokio::test]
async fn silence_is_told_to_a_watcher_that_comes_later() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_LIVENESS_AFTER_MS", "2000")
        .env("TRUNKLINE_LIVENESS_ACTION", "report")
        .start()
        .await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    // The lobby is filled, and nobody watches it any more.
    drop(EventStream::open(&rest, "/v1/events", None).await);
    let gate = daemon.home().join("gate");
    act(&rest, &id, json!([{ "text": "begun" }, { "wait_file": gate }])).await;
    let mut stream = EventStream::open(&rest, "/v1/events", None).await;
    let silent = |data: &Value| data["session"]["attention"]["reason"] == "silent";
    let told = changes_of(&mut stream, &id, "the silence", silent).await;
    assert_eq!(told.last().unwrap()["session"]["is_silent"], true);
}

#[tokio::test]
async fn the_last_line_and_what_is_unread_are_told_to_all() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    let mut stream = EventStream::open(&rest, "/v1/events", None).await;
    act_through(&rest, &id, json!([{ "text": "Done.\n\nAll 12 tests pass.\n" }])).await;
    let unread = |data: &Value| data["session"]["unread"] == true && data["session"]["state"] == "idle";
    let told = changes_of(&mut stream, &id, "the end of the turn", unread).await;
    let last = told.iter().find(|data| data["session"]["last_line"].is_object());
    let last = last.unwrap_or_else(|| panic!("no last line: {told:#?}"));
    let line = &last["session"]["last_line"];
    assert_eq!(
        (&line["kind"], &line["text"]),
        (&json!("said"), &json!("All 12 tests pass."))
    );
    let view = rest.session(&id).await;
    assert_eq!(view["last_line"], last["session"]["last_line"]);
    assert_eq!(view["unread"], true);

    let head = view["head_seq"].as_u64().unwrap();
    let path = format!("/v1/sessions/{id}/seen");
    assert_eq!(
        rest.put(&path, json!({ "seq": head + 1000 })).await.problem(400),
        "seq_beyond_head"
    );
    let seen = rest.put(&path, json!({ "seq": head })).await.expect(200);
    assert_eq!(seen, json!({ "seen_seq": head, "unread": false }));
    let read = |data: &Value| data["session"]["unread"] == false;
    let read = changes_of(&mut stream, &id, "the mark", read).await;
    assert!(has_changed(read.last().unwrap(), "attention"));
    let earlier = rest.put(&path, json!({ "seq": 1 })).await.expect(200);
    assert_eq!(earlier["seen_seq"], head, "a late mark takes nothing back");
    let again = rest.delete(&path).await.expect(200);
    assert_eq!(again["unread"], true, "{again}");
    let unread = |data: &Value| data["session"]["unread"] == true;
    changes_of(&mut stream, &id, "that it is unread again", unread).await;
    assert!(again["seen_seq"].as_u64() < Some(head), "{again}");
    rest.put(&path, json!({ "seq": head })).await.expect(200);

    daemon.kill();
    daemon.start().await;
    let view = daemon.rest().session(&id).await;
    assert_eq!(view["seen_seq"], head);
    assert_eq!(view["last_line"]["text"], "All 12 tests pass.");
}

#[tokio::test]
async fn what_is_put_off_does_not_rank_until_something_new_comes() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    let path = format!("/v1/sessions/{id}/put_off");
    let left = json!({ "how": "left" });
    assert_eq!(
        rest.put(&path, left.clone()).await.problem(409),
        "nothing_to_put_off"
    );
    act(&rest, &id, json!([{ "exit": 3 }])).await;
    rest.in_state(&id, &["failed"]).await;
    let mut stream = EventStream::open(&rest, "/v1/events", None).await;
    let failed = stream.next().await.data;
    assert_eq!(failed["sessions"][0]["attention"]["reason"], "failed");
    let put_off = rest.put(&path, left).await.expect(200);
    assert_eq!(put_off["attention"], Value::Null);
    assert_eq!(
        (&put_off["put_off"]["how"], &put_off["put_off"]["reason"]),
        (&json!("left"), &json!("failed"))
    );
    let is_left = |data: &Value| data["session"]["put_off"]["how"] == "left";
    let told = changes_of(&mut stream, &id, "that it is left", is_left).await;
    assert_eq!(told.last().unwrap()["session"]["attention"], Value::Null);

    // The next daemon knows it.
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    let mut needy = EventStream::open(&rest, "/v1/events?needs_person=true", None).await;
    assert_eq!(needy.next().await.data["total"], 0);

    // A failure of the next process is another one.
    rest.lifecycle(&id, "resume", json!({})).await.expect(200);
    rest.in_state(&id, &["idle"]).await;
    act(&rest, &id, json!([{ "exit": 3 }])).await;
    let again = needy
        .until("the next failure", |data| data["session_id"] == id.as_str())
        .await;
    assert_eq!(
        again.last().unwrap().data["session"]["attention"]["reason"],
        "failed"
    );
}

#[tokio::test]
async fn a_snooze_ends_at_its_time_and_at_another_approval() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    let path = format!("/v1/sessions/{id}/put_off");
    let gate = daemon.home().join("gate");
    let ask =
        |id: &str, wait: bool| json!({ "ask": { "ids": [id], "tool": "Bash", "input": {}, "wait": wait } });
    act(
        &rest,
        &id,
        json!([ask("one", false), { "wait_file": gate }, ask("two", true)]),
    )
    .await;
    rest.pending_approval(&id).await;
    let past = json!({ "how": "snoozed", "until": "2020-01-01T00:00:00Z" });
    assert_eq!(rest.put(&path, past).await.problem(422), "invalid_field");
    let snooze = json!({ "how": "snoozed", "until": "2999-01-01T00:00:00Z" });
    rest.put(&path, snooze).await.expect(200);
    let mut stream = EventStream::open(&rest, "/v1/events", None).await;
    let snapshot = stream.next().await.data;
    assert_eq!(snapshot["sessions"][0]["attention"], Value::Null);
    assert_eq!(snapshot["sessions"][0]["put_off"]["rank"], 2);
    std::fs::write(&gate, "").unwrap();
    let is_new = |data: &Value| data["session"]["attention"]["rank"] == 2;
    let new = changes_of(&mut stream, &id, "another approval", is_new).await;
    let new = &new.last().unwrap()["session"];
    assert_eq!(new["put_off"]["how"], "snoozed", "the first one is still put off");
    assert_eq!(new["pending_approvals"].as_array().unwrap().len(), 2);
    let up = rest.delete(&path).await.expect(200);
    assert_eq!(
        (&up["attention"]["rank"], &up["put_off"]),
        (&json!(2), &Value::Null)
    );

    // It comes back by itself.
    let soon = Clock.now().plus_millis(1_000);
    let snooze = json!({ "how": "snoozed", "until": soon.to_string() });
    rest.put(&path, snooze).await.expect(200);
    let is_off = |data: &Value| data["session"]["put_off"]["how"] == "snoozed";
    changes_of(&mut stream, &id, "the snooze", is_off).await;
    let is_back = |data: &Value| data["session"]["attention"]["rank"] == 2;
    changes_of(&mut stream, &id, "its end", is_back).await;
}
