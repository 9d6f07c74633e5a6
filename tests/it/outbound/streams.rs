//! Event streams of an MCP server: what they carry, and how they go on after a break.

use trunkline::outbound::{BridgeError, RequestError, mcp::LARGEST_MESSAGE_BYTES};

use crate::{
    outbound::{
        mcp::{Bed, INITIALIZED, soon},
        raw,
    },
    support::{server::Exchange, wait::PATIENCE},
};

const CALL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#;
const CALLED: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"n":1.50}}"#;
const PROGRESS: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}"#;
const ASKS: &str = r#"{"jsonrpc":"2.0","id":7,"method":"elicitation/create"}"#;

/// A bridge that listens, and the stream that it listens to.
async fn listening() -> (Bed, Exchange) {
    let mut bed = Bed::begun().await;
    let initialized = raw(INITIALIZED);
    let (answer, stream) = tokio::join!(bed.bridge.send(&initialized, None), async {
        bed.server.next().await.answer("202 Accepted", "").await;
        bed.server.next().await
    });
    assert!(answer.unwrap().is_none());
    (bed, stream)
}

#[tokio::test]
async fn what_comes_before_the_response_is_there_before_it() {
    let mut bed = Bed::begun().await;
    let call = raw(CALL);
    let (answer, ()) = tokio::join!(bed.bridge.send(&call, Some(soon())), async {
        let mut asked = bed.server.next().await;
        asked.begin_events().await;
        asked.write(": comment\r\n\r\nid: 1\ndata:\n\n").await;
        asked.event(PROGRESS).await;
        asked.event("PLANTED nonsense").await;
        // A request of the server may have the id that one of the client's has.
        asked.event(ASKS).await;
        asked
            .event(r#"{"jsonrpc":"2.0","id":8,"result":"of another request"}"#)
            .await;
        asked
            .write("data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":7,\r\ndata: \"result\":{}}\n\n")
            .await;
        // The response ends it, not the connection.
        asked.gone().await;
    });
    let response = answer.unwrap().unwrap();
    assert_eq!(response.get(), r#"{"jsonrpc":"2.0", "id":7, "result":{}}"#);
    assert_eq!(bed.incoming.try_recv().unwrap().get(), PROGRESS);
    assert_eq!(bed.incoming.try_recv().unwrap().get(), ASKS);
    assert!(bed.incoming.try_recv().is_err());
}

#[tokio::test]
async fn an_initialize_may_be_answered_with_a_stream() {
    let mut bed = Bed::new().await;
    let initialize = raw(crate::outbound::mcp::INITIALIZE);
    let (answer, ()) = tokio::join!(bed.bridge.send(&initialize, None), async {
        let mut asked = bed.server.next().await;
        asked
            .write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nMcp-Session-Id: s-9\r\n\r\nid: e-1\ndata\n\n")
            .await;
        drop(asked);
        // The session counts as soon as its id is known.
        let mut resumed = bed.server.next().await;
        assert_eq!(resumed.header("mcp-session-id"), Some("s-9"));
        assert_eq!(resumed.header("last-event-id"), Some("e-1"));
        resumed.begin_events().await;
        resumed
            .event(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#)
            .await;
    });
    assert!(answer.unwrap().is_some());
    let call = raw(CALL);
    let (_, ()) = tokio::join!(bed.bridge.send(&call, None), async {
        let asked = bed.server.next().await;
        assert_eq!(asked.header("mcp-session-id"), Some("s-9"));
        assert_eq!(asked.header("mcp-protocol-version"), Some("2025-11-25"));
        asked.answer("200 OK", CALLED).await;
    });
}

#[tokio::test]
async fn a_broken_stream_goes_on_after_the_last_event() {
    let mut bed = Bed::begun().await;
    let call = raw(CALL);
    let (answer, ()) = tokio::join!(bed.bridge.send(&call, Some(soon())), async {
        let mut asked = bed.server.next().await;
        asked.begin_events().await;
        asked
            .write(format!(
                "retry: 0\nid: e-1\ndata: {PROGRESS}\n\nid: e-2\ndata: {{\"lost"
            ))
            .await;
        drop(asked);

        let refused = bed.server.next().await;
        assert_eq!((refused.method.as_str(), refused.body.as_str()), ("GET", ""));
        assert_eq!(refused.header("last-event-id"), Some("e-1"));
        assert_eq!(refused.header("mcp-session-id"), Some("s-1"));
        refused.answer("503 Later", "").await;

        let mut polled = bed.server.next().await;
        polled.begin_events().await;
        drop(polled);

        let mut resumed = bed.server.next().await;
        assert_eq!(resumed.header("last-event-id"), Some("e-1"));
        resumed.begin_events().await;
        resumed.event(CALLED).await;
    });
    assert_eq!(answer.unwrap().unwrap().get(), CALLED);
    assert_eq!(bed.incoming.try_recv().unwrap().get(), PROGRESS);
    assert!(bed.incoming.try_recv().is_err(), "nothing twice");
}

#[tokio::test]
async fn a_stream_without_a_place_to_go_on_is_over() {
    let mut bed = Bed::begun().await;
    let call = raw(CALL);
    let (ended, ()) = tokio::join!(bed.bridge.send(&call, None), async {
        let mut asked = bed.server.next().await;
        asked.begin_events().await;
        asked.event(PROGRESS).await;
    });
    assert!(matches!(ended, Err(BridgeError::NoResponse)));
    let (cut, ()) = tokio::join!(bed.bridge.send(&call, None), async {
        let mut asked = bed.server.next().await;
        asked
            .write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n")
            .await;
    });
    assert!(matches!(cut, Err(BridgeError::Request(RequestError::Broken(_)))));
    assert!(bed.server.is_quiet());
}

#[tokio::test]
async fn a_stream_that_cannot_go_on_is_given_up() {
    let mut bed = Bed::begun().await;
    let call = raw(CALL);
    let (answer, ()) = tokio::join!(bed.bridge.send(&call, None), async {
        let mut asked = bed.server.next().await;
        asked.begin_events().await;
        asked.write("retry: 1\nid: e-1\ndata\n\n").await;
        drop(asked);
        for _ in 0..5 {
            bed.server.next().await.answer("502 Later", "").await;
        }
    });
    assert!(matches!(answer, Err(BridgeError::Status(status)) if status == 502));
    assert!(bed.server.is_quiet());

    for (status, is_lost) in [(404, true), (400, false), (405, false)] {
        let (answer, ()) = tokio::join!(bed.bridge.send(&call, None), async {
            let mut asked = bed.server.next().await;
            asked.begin_events().await;
            asked.write("retry: 1\nid: e-1\ndata\n\n").await;
            drop(asked);
            bed.server.next().await.answer(&format!("{status} X"), "").await;
        });
        match answer {
            Err(BridgeError::SessionLost) => assert!(is_lost),
            Err(BridgeError::Status(of)) => assert!(!is_lost && of == status),
            other => panic!("{status}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_message_is_bounded_and_a_stream_is_not() {
    let mut bed = Bed::begun().await;
    let call = raw(CALL);
    let (answer, ()) = tokio::join!(bed.bridge.send(&call, None), async {
        let mut asked = bed.server.next().await;
        asked.begin_events().await;
        asked.write("data: ").await;
        while asked.write(vec![b' '; 256 * 1024]).await {}
    });
    assert!(matches!(
        answer,
        Err(BridgeError::Request(RequestError::TooLarge {
            limit_bytes: LARGEST_MESSAGE_BYTES
        }))
    ));

    let padding = format!("{{\"method\":\"x\",\"params\":\"{}\"}}", "a".repeat(1024 * 1024));
    let messages = LARGEST_MESSAGE_BYTES / padding.len() + 2;
    let (answer, ()) = tokio::join!(bed.bridge.send(&call, Some(soon())), async {
        let mut asked = bed.server.next().await;
        asked.begin_events().await;
        for _ in 0..messages {
            asked.event(&padding).await;
        }
        asked.event(CALLED).await;
    });
    assert_eq!(answer.unwrap().unwrap().get(), CALLED);
    for _ in 0..messages {
        assert_eq!(bed.incoming.try_recv().unwrap().get(), padding);
    }
}

#[tokio::test]
async fn the_listener_comes_back_where_it_was() {
    let (mut bed, mut stream) = listening().await;
    assert_eq!(stream.header("last-event-id"), None);
    stream.begin_events().await;
    stream
        .write(format!("retry: 1\nid: n-1\ndata: {PROGRESS}\n\n"))
        .await;
    assert_eq!(bed.incoming.recv().await.unwrap().get(), PROGRESS);
    drop(stream);

    let mut again = bed.server.next().await;
    assert_eq!(again.header("last-event-id"), Some("n-1"));
    again.begin_events().await;
    again.event(ASKS).await;
    assert_eq!(bed.incoming.recv().await.unwrap().get(), ASKS);
    // Nothing waits for a response there.
    again.event(CALLED).await;
    again.event(PROGRESS).await;
    assert_eq!(bed.incoming.recv().await.unwrap().get(), PROGRESS);
    drop(again);

    bed.server.next().await.answer("404 Gone", "").await;
    bed.listens_no_more().await;
}

#[tokio::test]
async fn a_listener_that_is_refused_for_now_comes_back() {
    let (mut bed, stream) = listening().await;
    stream.answer("503 Later", "").await;
    let mut again = bed.server.next().await;
    again.begin_events().await;
    again.event(PROGRESS).await;
    assert_eq!(bed.incoming.recv().await.unwrap().get(), PROGRESS);
}

#[tokio::test]
async fn a_new_session_has_a_new_listener() {
    let (mut bed, mut before) = listening().await;
    before.begin_events().await;
    bed.begin("s-2").await;
    before.gone().await;
    bed.listens_no_more().await;
}

#[tokio::test]
async fn a_dropped_bridge_leaves_nothing_behind() {
    let (mut bed, mut stream) = listening().await;
    stream.begin_events().await;
    stream.event(PROGRESS).await;
    assert!(bed.incoming.recv().await.is_some());
    let clone = bed.bridge.clone();
    drop(bed.bridge);
    // One is left: it goes on.
    stream.event(ASKS).await;
    assert!(bed.incoming.recv().await.is_some());
    drop(clone);
    stream.gone().await;
    let ended = tokio::time::timeout(PATIENCE, bed.tracker.wait()).await;
    ended.expect("the listener ended in time");
    assert!(bed.server.is_quiet(), "no network is needed to drop it");
}

#[tokio::test]
async fn a_dropped_request_closes_its_stream() {
    let mut bed = Bed::begun().await;
    let call = raw(CALL);
    let mut asked = {
        let send = bed.bridge.send(&call, None);
        tokio::pin!(send);
        tokio::select! {
            _ = &mut send => panic!("nobody has answered"),
            asked = bed.server.next() => asked,
        }
    };
    asked.begin_events().await;
    asked.gone().await;
}

#[tokio::test]
async fn a_full_queue_makes_the_server_wait_and_loses_nothing() {
    let (mut bed, mut stream) = listening().await;
    stream.begin_events().await;
    let many = 1_000;
    let ((), ()) = tokio::join!(
        async {
            for n in 0..many {
                stream
                    .event(&format!(r#"{{"jsonrpc":"2.0","method":"n","params":{n}}}"#))
                    .await;
            }
        },
        async {
            for n in 0..many {
                let message = bed.incoming.recv().await.unwrap();
                assert_eq!(
                    message.get(),
                    format!(r#"{{"jsonrpc":"2.0","method":"n","params":{n}}}"#)
                );
            }
        }
    );
}
