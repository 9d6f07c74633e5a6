//! Owns the bridge from the CLI to one MCP server behind a URL: messages keep their order where it matters, requests run side
//! by side, and the server is greeted when the CLI has not done that through this bridge.

use std::sync::Arc;

use serde_json::{json, value::RawValue};
use tokio::{
    sync::{Mutex, mpsc},
    time::{Duration, Instant},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    domain::{RunId, SessionId},
    json,
    outbound::{BridgeError, McpBridge, McpEndpoint},
    telemetry,
};

use super::{
    book::{About, Asked},
    fallback::{self, FallbackReason},
    outside::{CallbackResult, CallbackTasks},
};

/// Messages that may wait for a server, and from one.
const QUEUE: usize = 64;
/// How long the greeting and a notification may take. Requests take as long as the CLI waits.
const NOTIFICATION_PATIENCE: Duration = Duration::from_secs(10);

/// The actor's side of a bridge. Dropped, it ends without a word to the server.
#[derive(Debug)]
pub(super) struct Bridge {
    pub(super) orders: mpsc::Sender<Order>,
    closed: CancellationToken,
}

impl Bridge {
    /// Ends the session with the server, which is told.
    pub(super) fn close(self) {
        self.closed.cancel();
    }
}

/// An order to a bridge.
#[derive(Debug)]
pub(super) enum Order {
    /// Pass a message of the CLI on; given up when `call` is cancelled.
    Message {
        asked: Arc<Asked>,
        call: CancellationToken,
    },
}

/// Opens a bridge. `handshake` is the CLI's `initialize` to this server, if it has sent one in this run.
pub(super) fn open(
    tasks: &CallbackTasks,
    endpoint: McpEndpoint,
    handshake: Option<Box<RawValue>>,
    (session, run, server): (SessionId, RunId, String),
    tracker: &TaskTracker,
) -> Bridge {
    let (incoming, mut from_server) = mpsc::channel(QUEUE);
    let (orders, received) = mpsc::channel(QUEUE);
    let closed = CancellationToken::new();
    let runner = Runner {
        session,
        server: server.clone(),
        line: Line {
            bridge: McpBridge::open(&tasks.outbound, endpoint, incoming, tracker),
            greeting: Arc::new(Mutex::new(Greeting { handshake, count: 0 })),
        },
        results: tasks.results.clone(),
        tracker: tracker.clone(),
    };
    let (results, room) = (tasks.results.clone(), Arc::clone(&tasks.room));
    tracker.spawn(async move {
        while let Some(message) = from_server.recv().await {
            let Ok(room) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            let said = CallbackResult::FromServer {
                run,
                server: server.clone(),
                message,
                room,
            };
            if results.send(said).await.is_err() {
                return;
            }
        }
    });
    tracker.spawn(runner.run(received, closed.clone()));
    Bridge { orders, closed }
}

/// How the server is greeted.
struct Greeting {
    /// The CLI's `initialize`, if it has sent one in this run.
    handshake: Option<Box<RawValue>>,
    /// How often that was done here.
    count: u64,
}

/// The way to the server. Clones are the same one.
#[derive(Clone)]
struct Line {
    bridge: McpBridge,
    greeting: Arc<Mutex<Greeting>>,
}

impl Line {
    /// Sends a message. A server that has forgotten its session, as after a restart, has done nothing with it: it is
    /// greeted again and gets the message once more. The CLI never hears of sessions, and would not greet it again.
    async fn send(
        &self,
        message: &RawValue,
        deadline: Option<Instant>,
    ) -> Result<Option<Box<RawValue>>, BridgeError> {
        let greeted = self.greeting.lock().await.count;
        match self.bridge.send(message, deadline).await {
            Err(BridgeError::SessionLost) => {
                let mut greeting = self.greeting.lock().await;
                // Only the first message that finds this out sends `initialize` again.
                if greeting.count == greeted {
                    self.greet(&mut greeting).await?;
                }
                drop(greeting);
                self.bridge.send(message, deadline).await
            }
            sent => sent,
        }
    }

    /// Greets the server as the CLI did, or would: it may know the server by its manifest alone, or have greeted it through
    /// a daemon before this one.
    async fn greet(&self, greeting: &mut Greeting) -> Result<(), BridgeError> {
        let deadline = Some(Instant::now() + NOTIFICATION_PATIENCE);
        let hello = match &greeting.handshake {
            Some(hello) => hello.clone(),
            None => raw(
                &json!({"jsonrpc": "2.0", "id": "trunkline", "method": "initialize", "params": {
                    "protocolVersion": "2025-11-25", "capabilities": {},
                    "clientInfo": {"name": "trunkline", "version": env!("CARGO_PKG_VERSION")},
                }}),
            ),
        };
        self.bridge.send(&hello, deadline).await?;
        let ready = raw(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        self.bridge.send(&ready, deadline).await?;
        greeting.count += 1;
        Ok(())
    }
}

struct Runner {
    session: SessionId,
    server: String,
    line: Line,
    results: mpsc::Sender<CallbackResult>,
    tracker: TaskTracker,
}

impl Runner {
    async fn run(self, mut orders: mpsc::Receiver<Order>, closed: CancellationToken) {
        let mut is_greeted = false;
        let serving = closed.run_until_cancelled(async {
            while let Some(Order::Message { asked, call }) = orders.recv().await {
                let Some(message) = message(&asked) else { continue };
                let greets = json::member_text(message.get(), "method").as_deref() == Some("initialize");
                if greets {
                    self.line.greeting.lock().await.handshake = Some(message.clone());
                } else if !is_greeted && let Err(error) = self.greet().await {
                    self.report(&error);
                    self.answer(&asked, Err(error)).await;
                    continue;
                }
                is_greeted = true;
                if matches!(&asked.about, About::Mcp { id: Some(_), .. }) {
                    let (line, results) = (self.line.clone(), self.results.clone());
                    let (session, server) = (self.session, self.server.clone());
                    self.tracker.spawn(call.run_until_cancelled_owned(async move {
                        let response = line.send(&message, None).await;
                        if let Err(error) = &response {
                            report(session, &server, error);
                        }
                        results
                            .send(CallbackResult::answered(&asked, outcome(&asked, response)))
                            .await
                            .ok();
                    }));
                } else {
                    // Wait for it, as later messages may depend on it.
                    let deadline = Instant::now() + NOTIFICATION_PATIENCE;
                    let sent = self.line.send(&message, Some(deadline)).await;
                    if let Err(error) = &sent {
                        self.report(error);
                    }
                    self.answer(&asked, sent).await;
                }
            }
        });
        // Also when the queue's end was seen first.
        let _ended = serving.await;
        if closed.is_cancelled() {
            self.line.bridge.close().await;
        }
    }

    async fn greet(&self) -> Result<(), BridgeError> {
        let mut greeting = self.line.greeting.lock().await;
        self.line.greet(&mut greeting).await
    }

    async fn answer(&self, asked: &Asked, response: Result<Option<Box<RawValue>>, BridgeError>) {
        let answered = CallbackResult::answered(asked, outcome(asked, response));
        // An actor that is gone leaves the request to the next one.
        self.results.send(answered).await.ok();
    }

    fn report(&self, error: &BridgeError) {
        report(self.session, &self.server, error);
    }
}

fn report(session: SessionId, server: &str, error: &BridgeError) {
    let error = telemetry::chain(error);
    tracing::warn!(session.id = %session, mcp.server = server, error, "a message did not reach an MCP server");
}

fn message(asked: &Asked) -> Option<Box<RawValue>> {
    let message = json::member(asked.request.request.get(), "message")?;
    RawValue::from_string(message.to_owned()).ok()
}

/// The payload for the CLI.
fn outcome(
    asked: &Asked,
    response: Result<Option<Box<RawValue>>, BridgeError>,
) -> Result<Box<RawValue>, FallbackReason> {
    match (response, &asked.about) {
        (Ok(Some(response)), _) => {
            let payload = format!(r#"{{"mcp_response":{}}}"#, response.get());
            RawValue::from_string(payload).map_err(|_| FallbackReason::BridgeFailed)
        }
        (Ok(None), About::Mcp { id: None, .. }) => Ok(fallback::notified()),
        (Ok(None) | Err(_), _) => Err(FallbackReason::BridgeFailed),
    }
}

fn raw(value: &serde_json::Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
