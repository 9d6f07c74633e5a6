//! Owns the tests of a CLI that begins a turn by itself before anybody has asked for its session: nobody gets that turn, nor pays
//! for it.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{app, ended, gone, keeping, list, ready, spare, spares, stock};
use crate::{
    fake::bed::{of_type, records},
    support::wait::{PATIENCE, wait_for},
};

#[tokio::test]
async fn a_process_that_began_a_turn_by_itself_is_given_to_nobody_and_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let gate = dir.path().join("gate");
    let unasked =
        json!({ "after_init": [{ "wait_file": gate }, { "turn": { "do": [{ "text": "unasked" }] } }] });
    let daemon = keeping(1, &json!({ "starts": [unasked, {}] })).start().await;
    let rest = daemon.rest();
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    assert_eq!(stock(&rest).await["failure"], json!(null));
    fs::write(&gate, "").unwrap();
    gone(&daemon, &waits).await;
    ready(&rest, 1).await;
    assert!((ended(&rest, "died").await - 1.0).abs() < 0.5);
    assert!(daemon.log().contains("unasked_turn"), "{}", daemon.log());

    let next = spare(&daemon);
    assert_ne!(next, waits);
    let session = rest.create_ready(app(&daemon)).await;
    assert_eq!(session, next);
    let view = rest.session(&session).await;
    assert_eq!(
        (&view["turns"], &view["cost_usd"]),
        (&json!(0), &json!(0.0)),
        "{view:#}"
    );
    assert!(of_type(&records(&rest, &session).await, "cli", "assistant").is_empty());
    assert_eq!(rest.ask(&session, "hello").await["turn"]["number"], 1);
    let usage = rest.get("/v1/usage?group_by=session").await.expect(200);
    assert_eq!(usage["items"].as_array().unwrap().len(), 1, "{usage:#}");
}

#[tokio::test]
async fn a_profile_whose_cli_always_begins_by_itself_is_tried_less_and_less_often() {
    let daemon = keeping(
        1,
        &json!({ "after_init": [{ "turn": { "do": [{ "text": "unasked" }] } }] }),
    )
    .start()
    .await;
    let rest = daemon.rest();
    let of_no_use = async |at_least: u32| {
        wait_for(&format!("{at_least} were of no use"), PATIENCE, async || {
            let ends = ended(&rest, "died").await + ended(&rest, "failed").await;
            (ends > f64::from(at_least) - 0.5).then_some(ends)
        })
        .await
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small whole number"
    )]
    let seen = of_no_use(1).await.round() as u32;
    let begun = Instant::now();
    // A caller that asks meanwhile gets a process of its own, with no turn from before.
    let session = rest.create_ready(app(&daemon)).await;
    of_no_use(seen + 2).await;
    // The first of the two pauses may have begun before; the second one is twice as long.
    let pause = Duration::from_secs(1 << seen);
    assert!(begun.elapsed() >= pause, "{:?} after {seen}", begun.elapsed());
    assert_eq!(stock(&rest).await["failure"]["code"], "unasked_turn");
    assert_eq!(list(&rest).await, [session.as_str()]);
    let view = rest.session(&session).await;
    for turn in rest.turns(&session).await {
        assert!(
            turn["started_at"].as_str() >= view["created_at"].as_str(),
            "{turn:#}"
        );
    }
    assert!(spares(&daemon).len() <= 1, "they are removed");
}
