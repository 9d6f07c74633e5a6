//! Requests with an idempotency key: what is remembered, over which ends of the daemon, and until when.

use super::*;

const DIGEST: RequestDigest = [7; 32];

fn key(key: &str) -> RequestKey {
    RequestKey {
        method: "POST".to_owned(),
        path: "/v1/sessions".to_owned(),
        key: key.to_owned(),
    }
}

fn answer() -> KeptAnswer {
    KeptAnswer {
        content_type: Some("application/json".to_owned()),
        location: None,
        body: b"{\"a\": \xff}".to_vec(),
    }
}

fn ended_at(name: &str, seconds: i64, session: Option<SessionId>) -> EndedRequest {
    EndedRequest {
        key: key(name),
        digest: DIGEST,
        at: at(seconds),
        session,
        end: KeyedEnd {
            status: 201,
            answer: Some(answer()),
        },
    }
}

impl TestStore {
    /// Begins a request at `seconds`, when keys are kept for 100 seconds.
    async fn begin(&self, name: &str, seconds: i64) -> Option<KeyedRequest> {
        let begun = self
            .store
            .begin_request(key(name), DIGEST, at(seconds), at(seconds - 100));
        begun.await.unwrap()
    }
}

#[tokio::test]
async fn a_request_is_known_from_its_begin_on_also_to_the_next_daemon() {
    let test = TestStore::new().await;
    assert_eq!(test.begin("a", 0).await, None);
    let begun = KeyedRequest {
        digest: DIGEST,
        end: None,
    };
    assert_eq!(test.begin("a", 1).await.as_ref(), Some(&begun));
    let test = test.reopen().await;
    assert_eq!(test.begin("a", 2).await.as_ref(), Some(&begun));
    test.store.end_request(ended_at("a", 3, None)).await.unwrap();
    let test = test.reopen().await;
    let known = test.begin("a", 4).await.unwrap();
    assert_eq!(known.digest, DIGEST);
    assert_eq!(known.end, Some(ended_at("a", 3, None).end));
}

#[tokio::test]
async fn method_path_and_key_tell_requests_apart() {
    let test = TestStore::new().await;
    assert_eq!(test.begin("a", 0).await, None);
    assert_eq!(test.begin("A", 0).await, None);
    for other in [
        RequestKey {
            path: "/v1/sessions/".to_owned(),
            ..key("a")
        },
        RequestKey {
            method: "PUT".to_owned(),
            ..key("a")
        },
    ] {
        let begun = test.store.begin_request(other, DIGEST, at(0), at(-1)).await;
        assert_eq!(begun.unwrap(), None);
    }
}

#[tokio::test]
async fn of_many_begins_at_once_one_is_the_first() {
    let test = TestStore::new().await;
    let begins = futures_util::future::join_all((0..20).map(|_| test.begin("a", 0))).await;
    assert_eq!(begins.iter().filter(|begun| begun.is_none()).count(), 1);
}

#[tokio::test]
async fn what_did_nothing_is_forgotten() {
    let test = TestStore::new().await;
    assert_eq!(test.begin("a", 0).await, None);
    test.store.forget_request(key("a")).await.unwrap();
    assert_eq!(test.begin("a", 1).await, None);
}

#[tokio::test]
async fn a_deleted_session_takes_its_answers_along() {
    let test = TestStore::new().await;
    let (gone, stays) = (test.session().await, test.session().await);
    for (name, session) in [("gone", gone), ("stays", stays)] {
        assert_eq!(test.begin(name, 0).await, None);
        let ended = ended_at(name, 0, Some(session));
        test.store.end_request(ended).await.unwrap();
    }
    assert_eq!(test.begin("late", 0).await, None);
    test.store.delete_session(gone).await.unwrap();
    // This one was under way when the session was deleted.
    test.store
        .end_request(ended_at("late", 0, Some(gone)))
        .await
        .unwrap();
    let dropped = Some(KeyedEnd {
        status: 201,
        answer: None,
    });
    assert_eq!(test.begin("gone", 1).await.unwrap().end, dropped);
    assert_eq!(test.begin("late", 1).await.unwrap().end, dropped);
    let kept = test.begin("stays", 1).await.unwrap().end.unwrap();
    assert_eq!(kept.answer, Some(answer()));
}

#[tokio::test]
async fn a_key_is_kept_for_its_time_after_the_end_and_not_longer() {
    let test = TestStore::new().await;
    assert_eq!(test.begin("a", 0).await, None);
    test.store.end_request(ended_at("a", 50, None)).await.unwrap();
    assert!(test.begin("a", 150).await.is_some(), "100 seconds after its end");
    assert_eq!(test.begin("a", 151).await, None, "then the key is free");

    // One that ends after its row was taken away is known again.
    assert_eq!(test.begin("slow", 0).await, None);
    assert_eq!(test.begin("other", 1_000).await, None);
    assert_eq!(test.number("SELECT count(*) FROM idempotency_keys").await, 1);
    test.store
        .end_request(ended_at("slow", 1_001, None))
        .await
        .unwrap();
    assert!(test.begin("slow", 1_002).await.unwrap().end.is_some());
}

#[tokio::test]
async fn old_keys_are_taken_away_in_steps() {
    const COUNT: &str = "SELECT count(*) FROM idempotency_keys";
    let test = TestStore::new().await;
    for number in 0..100 {
        assert_eq!(test.begin(&format!("old {number}"), number).await, None);
    }
    // The newest of the old ones is not among those that go first, but its own key is free.
    assert_eq!(test.begin("old 99", 1_000).await, None);
    assert_eq!(test.number(COUNT).await, 100 - 32);
    for number in 0..3 {
        assert_eq!(test.begin(&format!("new {number}"), 1_000).await, None);
    }
    assert_eq!(test.number(COUNT).await, 4, "only the new ones are left");
}
