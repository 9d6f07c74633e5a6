//! The bridge to an MCP server: messages, sessions, and their ends.

use serde_json::value::RawValue;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::task::TaskTracker;
use trunkline::outbound::{
    BridgeError, EndpointError, McpBridge, McpEndpoint, Outbound, RequestError, Secret,
    mcp::LARGEST_MESSAGE_BYTES,
};

use crate::{
    outbound::{all_texts, raw},
    support::{server::Server, wait::PATIENCE},
};

pub(crate) const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":"a","method":"tools/list"}"#;
const LISTED: &str = r#"{"jsonrpc":"2.0", "id":"\u0061","result":{"n":1.50}}"#;
const BEGUN: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18"}}"#;
const JSON: &str = "200 OK\ncontent-type: application/json; charset=utf-8";

/// A bridge and all around it.
pub(crate) struct Bed {
    pub(crate) server: Server,
    pub(crate) bridge: McpBridge,
    pub(crate) incoming: mpsc::Receiver<Box<RawValue>>,
    pub(crate) tracker: TaskTracker,
}

impl Bed {
    pub(crate) async fn new() -> Self {
        let server = Server::start().await;
        let headers = [("Authorization".into(), Secret::new("Bearer PLANTED".into()))];
        let endpoint = McpEndpoint::new(server.url("/mcp?key=PLANTED"), headers).unwrap();
        let (sender, incoming) = mpsc::channel(64);
        let tracker = TaskTracker::new();
        let bridge = McpBridge::open(&Outbound::new(), endpoint, sender, &tracker);
        tracker.close();
        Self {
            server,
            bridge,
            incoming,
            tracker,
        }
    }

    /// A bridge whose server has begun the session `s-1`.
    pub(crate) async fn begun() -> Self {
        let mut bed = Self::new().await;
        bed.begin("s-1").await;
        bed
    }

    pub(crate) async fn begin(&mut self, session: &str) {
        let initialize = raw(INITIALIZE);
        let (answer, ()) = tokio::join!(self.bridge.send(&initialize, None), async {
            let asked = self.server.next().await;
            assert_eq!(asked.header("mcp-session-id"), None);
            assert_eq!(asked.header("mcp-protocol-version"), None);
            let head = format!("{JSON}\nmcp-session-id: {session}");
            asked.answer(&head, BEGUN).await;
        });
        assert_eq!(answer.unwrap().unwrap().get(), BEGUN);
    }

    /// The outcome of a request that the server answers with these bytes.
    pub(crate) async fn answered(&mut self, head: &str, body: &str) -> Result<String, BridgeError> {
        let list = raw(LIST);
        let (answer, ()) = tokio::join!(self.bridge.send(&list, Some(soon())), async {
            self.server.next().await.answer(head, body).await;
        });
        answer.map(|answer| answer.unwrap().get().to_owned())
    }

    /// The task that listens has ended.
    pub(crate) async fn listens_no_more(&self) {
        let ended = tokio::time::timeout(PATIENCE, self.tracker.wait()).await;
        ended.expect("the listener ended in time");
    }
}

pub(crate) fn soon() -> Instant {
    Instant::now() + PATIENCE
}

#[tokio::test]
async fn a_session_goes_from_initialize_to_its_end() {
    let mut bed = Bed::begun().await;

    let initialized = raw(INITIALIZED);
    let (answer, ()) = tokio::join!(bed.bridge.send(&initialized, None), async {
        let told = bed.server.next().await;
        assert_eq!(
            (told.method.as_str(), told.path.as_str()),
            ("POST", "/mcp?key=PLANTED")
        );
        assert_eq!(told.body, INITIALIZED);
        for (name, value) in [
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("authorization", "Bearer PLANTED"),
            ("mcp-session-id", "s-1"),
            ("mcp-protocol-version", "2025-06-18"),
        ] {
            assert_eq!(told.header(name), Some(value), "{name}");
        }
        told.answer("202 Accepted", "").await;
    });
    assert!(answer.unwrap().is_none());

    let mut stream = bed.server.next().await;
    assert_eq!((stream.method.as_str(), stream.body.as_str()), ("GET", ""));
    assert_eq!(stream.header("accept"), Some("text/event-stream"));
    assert_eq!(stream.header("mcp-session-id"), Some("s-1"));
    assert_eq!(stream.header("mcp-protocol-version"), Some("2025-06-18"));
    stream.begin_events().await;
    let asks = r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#;
    stream.event(asks).await;
    assert_eq!(bed.incoming.recv().await.unwrap().get(), asks);

    let roots = raw(r#"{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}"#);
    let (answer, ()) = tokio::join!(bed.bridge.send(&roots, None), async {
        let told = bed.server.next().await;
        assert_eq!(told.body, roots.get());
        told.answer("202 Accepted", "").await;
    });
    assert!(answer.unwrap().is_none());

    let ((), ()) = tokio::join!(bed.bridge.clone().close(), async {
        let ended = bed.server.next().await;
        assert_eq!(
            (ended.method.as_str(), ended.header("mcp-session-id")),
            ("DELETE", Some("s-1"))
        );
        ended.answer("405 No", "").await;
    });
    stream.gone().await;
    bed.listens_no_more().await;
    let answer = bed.bridge.send(&raw(LIST), None).await;
    assert!(matches!(answer, Err(BridgeError::Closed)));
}

#[tokio::test]
async fn a_server_without_state_and_streams_is_served() {
    let mut bed = Bed::new().await;
    let (initialize, initialized) = (raw(INITIALIZE), raw(INITIALIZED));
    let (_, ()) = tokio::join!(bed.bridge.send(&initialize, None), async {
        bed.server.next().await.answer(JSON, BEGUN).await;
    });
    let (answer, ()) = tokio::join!(bed.bridge.send(&initialized, None), async {
        bed.server.next().await.answer("200 OK", "").await;
        let stream = bed.server.next().await;
        assert_eq!(stream.method, "GET");
        stream.answer("405 Method Not Allowed", "").await;
    });
    assert!(answer.unwrap().is_none());
    bed.listens_no_more().await;

    assert_eq!(bed.answered(JSON, LISTED).await.unwrap(), LISTED);
    bed.bridge.close().await;
    assert!(bed.server.is_quiet(), "there is no session to end");
}

#[tokio::test]
async fn requests_run_side_by_side_and_get_their_own_answers() {
    let mut bed = Bed::begun().await;
    let ask = |id: usize| raw(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call"}}"#));
    let (one, two, three) = (ask(1), ask(2), ask(3));
    let (answers, ()) = tokio::join!(
        async {
            tokio::join!(
                bed.bridge.send(&one, None),
                bed.bridge.send(&two, None),
                bed.bridge.send(&three, None)
            )
        },
        async {
            let mut asked = vec![
                bed.server.next().await,
                bed.server.next().await,
                bed.server.next().await,
            ];
            while let Some(request) = asked.pop() {
                let answer = request.body.replace(r#""method":"tools/call""#, r#""result":{}"#);
                request.answer(JSON, &answer).await;
            }
        }
    );
    for (answer, id) in [(answers.0, 1), (answers.1, 2), (answers.2, 3)] {
        let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        assert_eq!(answer.unwrap().unwrap().get(), expected);
    }
}

#[tokio::test]
async fn an_answer_passes_byte_for_byte_on_one_line() {
    let mut bed = Bed::begun().await;
    assert_eq!(bed.answered(JSON, LISTED).await.unwrap(), LISTED);
    let error = r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"\ud83d"}}"#;
    assert_eq!(bed.answered(JSON, error).await.unwrap(), error);
    let pretty = "{\r\n  \"id\": \"a\",\n\"result\": \"\\n\"}\n";
    assert_eq!(
        bed.answered(JSON, pretty).await.unwrap(),
        r#"{    "id": "a", "result": "\n"}"#
    );
    // Some servers give errors of JSON-RPC a status of HTTP.
    assert_eq!(bed.answered("400 Bad Request", error).await.unwrap(), error);
}

#[tokio::test]
async fn what_is_no_response_is_said() {
    let mut bed = Bed::begun().await;
    for body in [
        "",
        "nope",
        "[]",
        r#"{"jsonrpc":"2.0","id":"b","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#,
        r#"{"jsonrpc":"2.0","error":{"code":1,"message":""}}"#,
        "{\"id\":\"a\",\"result\":{}",
    ] {
        let answer = bed.answered(JSON, body).await;
        assert!(matches!(answer, Err(BridgeError::NoResponse)), "{body}");
    }
    for status in [202, 204] {
        let answer = bed.answered(&format!("{status} X"), "").await;
        assert!(matches!(answer, Err(BridgeError::NoResponse)), "{status}");
    }
    let other = bed.server.url("/elsewhere");
    for status in [302, 307, 400, 401, 405, 500] {
        let answer = bed
            .answered(&format!("{status} X\nlocation: {other}"), "nope")
            .await;
        assert!(
            matches!(answer, Err(BridgeError::Status(of)) if of == status),
            "{status}"
        );
    }
    assert!(
        bed.server.is_quiet(),
        "nothing is sent twice, and no redirect is followed"
    );
}

#[tokio::test]
async fn a_lost_session_is_said_and_a_new_one_can_begin() {
    let mut bed = Bed::begun().await;
    let answer = bed.answered("404 Not Found", "").await;
    assert!(matches!(answer, Err(BridgeError::SessionLost)));
    // As servers after the example of the official SDK have it.
    let forgotten = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}"#;
    let answer = bed.answered("400 Bad Request", forgotten).await;
    assert!(matches!(answer, Err(BridgeError::SessionLost)));

    bed.begin("s-2").await;
    let list = raw(LIST);
    let (answer, ()) = tokio::join!(bed.bridge.send(&list, None), async {
        let asked = bed.server.next().await;
        assert_eq!(asked.header("mcp-session-id"), Some("s-2"));
        asked.answer(JSON, LISTED).await;
    });
    assert!(answer.is_ok());
}

#[tokio::test]
async fn without_a_session_404_is_only_a_status() {
    let mut bed = Bed::new().await;
    let answer = bed.answered("404 Not Found", "").await;
    assert!(matches!(answer, Err(BridgeError::Status(status)) if status == 404));
}

#[tokio::test]
async fn a_refused_initialize_begins_no_session() {
    let mut bed = Bed::new().await;
    let initialize = raw(INITIALIZE);
    let refusal = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no"}}"#;
    let (answer, ()) = tokio::join!(bed.bridge.send(&initialize, None), async {
        let head = format!("{JSON}\nmcp-session-id: s-1");
        bed.server.next().await.answer(&head, refusal).await;
    });
    assert_eq!(answer.unwrap().unwrap().get(), refusal);
    let list = raw(LIST);
    let (_, ()) = tokio::join!(bed.bridge.send(&list, None), async {
        let asked = bed.server.next().await;
        assert_eq!(asked.header("mcp-session-id"), None);
        asked.answer(JSON, LISTED).await;
    });
}

#[tokio::test]
async fn an_answer_is_bounded() {
    let mut bed = Bed::begun().await;
    let list = raw(LIST);
    let (answer, ()) = tokio::join!(bed.bridge.send(&list, None), async {
        let mut asked = bed.server.next().await;
        asked
            .write("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
            .await;
        let mut bytes = 0;
        while asked.write(vec![b' '; 256 * 1024]).await {
            bytes += 256 * 1024;
        }
        assert!(bytes < 4 * LARGEST_MESSAGE_BYTES);
    });
    assert!(matches!(
        answer,
        Err(BridgeError::Request(RequestError::TooLarge { .. }))
    ));
}

#[tokio::test]
async fn a_cut_answer_is_not_asked_for_again() {
    let mut bed = Bed::begun().await;
    let list = raw(LIST);
    let (answer, _) = tokio::join!(bed.bridge.send(&list, None), async {
        let mut asked = bed.server.next().await;
        asked
            .write("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"jsonrpc\"")
            .await
    });
    assert!(matches!(
        answer,
        Err(BridgeError::Request(RequestError::Broken(_)))
    ));
    assert!(bed.server.is_quiet(), "a tool may have run");
}

#[tokio::test]
async fn silence_ends_at_the_deadline_and_closes_the_connection() {
    let mut bed = Bed::begun().await;
    let list = raw(LIST);
    let deadline = Instant::now() + std::time::Duration::from_secs(1);
    let (answer, ()) = tokio::join!(bed.bridge.send(&list, Some(deadline)), async {
        bed.server.next().await.gone().await;
    });
    assert!(matches!(answer, Err(BridgeError::Deadline)));
    assert!(Instant::now() >= deadline);
}

#[tokio::test]
async fn a_close_ends_what_is_under_way() {
    let mut bed = Bed::begun().await;
    let list = raw(LIST);
    let (answer, ()) = tokio::join!(bed.bridge.send(&list, None), async {
        let asked = bed.server.next().await;
        let ((), ()) = tokio::join!(bed.bridge.clone().close(), async {
            bed.server.next().await.answer("200 OK", "").await;
        });
        asked.gone().await;
    });
    assert!(matches!(answer, Err(BridgeError::Closed)));
}

#[tokio::test]
async fn what_is_no_message_is_not_sent() {
    let mut bed = Bed::begun().await;
    for text in ["[]", "1", "null", r#"{"id":1,"id":2,"method":"x"}"#] {
        let answer = bed.bridge.send(&raw(text), None).await;
        assert!(matches!(answer, Err(BridgeError::NotAMessage)), "{text}");
    }
    assert!(bed.server.is_quiet());
}

#[tokio::test]
async fn headers_are_checked_before_anything_is_sent() {
    let server = Server::start().await;
    let endpoint = |name: &str, value: &str| {
        let headers = [(name.to_owned(), Secret::new(value.into()))];
        McpEndpoint::new(server.url("/"), headers).map(drop)
    };
    assert_eq!(endpoint("X-Key", "ä is sent as it is"), Ok(()));
    assert_eq!(endpoint("a b", "x"), Err(EndpointError::Name("a b".into())));
    assert_eq!(endpoint("", "x"), Err(EndpointError::Name(String::new())));
    assert_eq!(
        endpoint("X-Key", "a\r\nb: c"),
        Err(EndpointError::Value("X-Key".into()))
    );
    for name in [
        "Host",
        "content-length",
        "Accept",
        "Mcp-Session-Id",
        "MCP-Protocol-Version",
        "Last-Event-ID",
    ] {
        assert_eq!(endpoint(name, "x"), Err(EndpointError::Reserved(name.into())));
    }
}

#[tokio::test]
async fn no_error_shows_what_was_sent() {
    let mut bed = Bed::begun().await;
    let errors = [
        bed.answered("400 PLANTED", "PLANTED").await.unwrap_err(),
        bed.answered(JSON, "PLANTED").await.unwrap_err(),
        bed.bridge
            .send(&raw(LIST), Some(Instant::now()))
            .await
            .unwrap_err(),
        bed.bridge.send(&raw(r#"["PLANTED"]"#), None).await.unwrap_err(),
    ];
    for error in errors {
        let text = all_texts(&error);
        assert!(!text.contains("PLANTED"), "{text}");
    }
    let text = format!("{:?}", bed.bridge);
    assert!(!text.contains("PLANTED"), "{text}");
}
