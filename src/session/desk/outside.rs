//! Owns the owners of requests that are reached over HTTP: webhooks that are called, and MCP servers behind a URL. Each call
//! is a task of its own; what comes of it goes back to the actor through one bounded queue.

use std::{collections::HashMap, sync::Arc};

use serde_json::value::RawValue;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Duration, Instant},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use crate::{
    claude::{
        answer::added_directories,
        hooks::DEFAULT_TIMEOUT_MS,
        options::{HookTarget, McpTarget},
    },
    domain::{RunId, Secret, Seq, SigningKey, Timestamp},
    outbound::{Delivery, McpEndpoint, Outbound, Webhook, WebhookError},
    session::{
        actor::Actor,
        outbox::{Entry, Payload, Subject},
    },
};

use super::{
    book::{About, Asked},
    bridge::{self, Bridge, Order},
    fallback::FallbackReason,
    route::{Owner, Route},
    serve::DAEMON,
};

/// Results that wait for the actor.
const RESULTS: usize = 64;
/// Calls of one session that may be under way. More requests wait for their turn.
const MOST_CALLS: usize = 64;
/// Messages that servers started and that are on their way to the CLI. A server that talks without end waits, and leaves
/// room for people.
const FROM_SERVERS: usize = 4;
/// Tries of a webhook whose hook does not say.
const ATTEMPTS: u8 = 3;

/// A message from outside the process.
#[derive(Debug)]
pub(in crate::session) enum CallbackResult {
    /// A request has its answer, or can't get one.
    Answered {
        request_id: String,
        seq: Seq,
        outcome: Result<Box<RawValue>, FallbackReason>,
    },
    /// An MCP server says something by itself.
    FromServer {
        run: RunId,
        server: String,
        message: Box<RawValue>,
        /// Held until the CLI has it.
        room: OwnedSemaphorePermit,
    },
}

/// The calls and bridges of a session.
#[derive(Debug)]
pub(in crate::session) struct CallbackTasks {
    pub(super) outbound: Outbound,
    pub(super) results: mpsc::Sender<CallbackResult>,
    /// Room for messages that servers start by themselves.
    pub(super) room: Arc<Semaphore>,
    /// Calls under way, by the CLI's request id. Dropping one ends it.
    calls: HashMap<String, DropGuard>,
    bridges: HashMap<String, Bridge>,
}

impl CallbackTasks {
    pub(super) fn new(outbound: Outbound) -> (Self, mpsc::Receiver<CallbackResult>) {
        let (results, received) = mpsc::channel(RESULTS);
        let tasks = Self {
            outbound,
            results,
            room: Arc::new(Semaphore::new(FROM_SERVERS)),
            calls: HashMap::new(),
            bridges: HashMap::new(),
        };
        (tasks, received)
    }

    /// The request is answered or taken back.
    pub(super) fn forget(&mut self, request_id: &str) {
        self.calls.remove(request_id);
    }

    /// The process ended, and with it the sessions of its MCP servers.
    pub(super) fn close(&mut self) {
        self.calls.clear();
        for (_, bridge) in self.bridges.drain() {
            bridge.close();
        }
    }

    fn begin(&mut self, request_id: &str) -> CancellationToken {
        let call = CancellationToken::new();
        self.calls
            .insert(request_id.to_owned(), call.clone().drop_guard());
        call
    }

    fn has_room_for(&self, request_id: &str) -> bool {
        !self.calls.contains_key(request_id) && self.calls.len() < MOST_CALLS
    }
}

impl Actor {
    /// Asks a webhook, unless it is being asked.
    pub(super) fn call_webhook(
        &mut self,
        asked: &Arc<Asked>,
        index: usize,
        until: Option<Timestamp>,
        now: Timestamp,
    ) {
        let request_id = &asked.request.request_id;
        if !self.desk.outside.has_room_for(request_id) {
            return;
        }
        let Some(asked) = self.whole(asked) else {
            let route = self.route(asked);
            self.fall_back(asked, &route, FallbackReason::WebhookFailed);
            return;
        };
        let target = self.desk.routes.hooks.get(index).map(|hook| &hook.target);
        let Some(HookTarget::Webhook {
            url,
            secret,
            attempts,
        }) = target
        else {
            return;
        };
        let Ok(url) = url.parse() else {
            let route = self.route(&asked);
            self.fall_back(&asked, &route, FallbackReason::WebhookFailed);
            return;
        };
        let hook = Webhook {
            url,
            key: secret.as_deref().map(SigningKey::of_stored),
            attempts: attempts.unwrap_or(ATTEMPTS),
        };
        let until = until.unwrap_or_else(|| asked.at.plus_millis(DEFAULT_TIMEOUT_MS));
        let deadline = Instant::now() + Duration::from_millis(until.millis_since(now));
        let call = self.desk.outside.begin(request_id);
        let (outbound, results) = (
            self.desk.outside.outbound.clone(),
            self.desk.outside.results.clone(),
        );
        let (session, bounds) = (self.id, self.bounds());
        self.tracker.spawn(call.run_until_cancelled_owned(async move {
            let event = match &asked.about {
                About::Hook { event, .. } => event.as_str(),
                _ => "",
            };
            let delivery = Delivery {
                id: delivery_id(session.as_uuid(), asked.seq),
                session: Some(session),
                event,
                body: &asked.request.request,
            };
            let answer = outbound.call(&hook, delivery, deadline).await;
            let added = answer.as_ref().map_or_else(|_| Vec::new(), |output| added_directories(output.get()));
            let outside = bounds.roots.outside(&bounds.cwd, added).await;
            let outcome = answer.map_err(|error| {
                // The request is overdue at the same moment: whoever notices first, the reason is one.
                let reason = match error {
                    WebhookError::Deadline => FallbackReason::Late,
                    _ => FallbackReason::WebhookFailed,
                };
                let error = crate::telemetry::chain(&error);
                tracing::warn!(session.id = %session, delivery.id = %delivery.id, error, "a webhook gave no answer");
                reason
            });
            let outcome = match outside {
                None => outcome,
                Some(_) => {
                    tracing::warn!(session.id = %session, "a webhook adds a directory outside of the roots");
                    Err(FallbackReason::WebhookFailed)
                }
            };
            // An actor that is gone leaves the request to the next one.
            results.send(CallbackResult::answered(&asked, outcome)).await.ok();
        }));
    }

    /// The request with all that was asked, for its owner; `None` when it cannot be read.
    fn whole(&self, asked: &Arc<Asked>) -> Option<Arc<Asked>> {
        if asked.left_out.is_none() {
            return Some(Arc::clone(asked));
        }
        let data = self.record_data(asked.seq)?;
        asked.completed(&data).map(Arc::new)
    }

    /// Hands a message to the MCP server behind a URL, unless it has it.
    pub(super) fn bridge(&mut self, asked: &Arc<Asked>) {
        let About::Mcp { server, is_call, .. } = &asked.about else {
            return;
        };
        let request_id = &asked.request.request_id;
        if !self.desk.outside.has_room_for(request_id) {
            return;
        }
        if *is_call && asked.seq <= self.desk.inherited {
            // A tool that may have run is not run again.
            let route = self.route(asked);
            self.fall_back(asked, &route, FallbackReason::Uncertain);
            return;
        }
        let Some(bridge) = self.bridge_to(server) else {
            let route = self.route(asked);
            self.fall_back(asked, &route, FallbackReason::BridgeFailed);
            return;
        };
        let orders = bridge.orders.clone();
        let Ok(room) = orders.try_reserve() else {
            // It is handed over once others are answered.
            return;
        };
        let Some(asked) = self.whole(asked) else {
            let route = self.route(asked);
            self.fall_back(asked, &route, FallbackReason::BridgeFailed);
            return;
        };
        let call = self.desk.outside.begin(request_id);
        room.send(Order::Message { asked, call });
    }

    fn bridge_to(&mut self, server: &str) -> Option<&Bridge> {
        if !self.desk.outside.bridges.contains_key(server) {
            let target = self.desk.routes.servers.get(server).map(|server| &server.target);
            let (Some(McpTarget::Url { url, headers }), Some(run)) = (target, self.machine.run_id()) else {
                return None;
            };
            let headers = headers.clone().unwrap_or_default().into_iter();
            let headers = headers.map(|(name, value)| (name, Secret::new(value)));
            let endpoint = McpEndpoint::new(url.parse().ok()?, headers).ok()?;
            let handshake = self.machine.desk().handshake(server).map(ToOwned::to_owned);
            let bridge = bridge::open(
                &self.desk.outside,
                endpoint,
                handshake,
                (self.id, run, server.to_owned()),
                &self.tracker,
            );
            self.desk.outside.bridges.insert(server.to_owned(), bridge);
        }
        self.desk.outside.bridges.get(server)
    }

    pub(in crate::session) fn on_outside(&mut self, outside: CallbackResult) {
        match outside {
            CallbackResult::Answered {
                request_id,
                seq,
                outcome,
            } => {
                self.desk.outside.forget(&request_id);
                let open = self.machine.desk().get(&request_id).cloned();
                // The CLI may have taken it back and asked something else under the same id.
                let Some(asked) = open.filter(|asked| asked.seq == seq) else {
                    return;
                };
                if self.desk.answering.contains_key(&request_id) {
                    return;
                }
                let outcome = outcome.and_then(|payload| match self.check_output(&asked.about, &payload) {
                    Ok(()) => Ok(payload),
                    Err(error) => {
                        let (session, error) = (self.id, error.to_string());
                        tracing::warn!(session.id = %session, error, "the answer of a webhook was refused");
                        Err(FallbackReason::WebhookFailed)
                    }
                });
                match outcome {
                    Ok(payload) => {
                        let line = crate::claude::stdin::control_success(&request_id, Some(&payload));
                        let by = match self.route(&asked).owner {
                            Owner::Webhook(index) => format!("webhook:{index}"),
                            _ => DAEMON.to_owned(),
                        };
                        self.give(request_id, by, line);
                    }
                    Err(reason) => {
                        let route: Route = self.route(&asked);
                        self.fall_back(&asked, &route, reason);
                    }
                }
            }
            CallbackResult::FromServer {
                run,
                server,
                message,
                room,
            } => {
                if self.machine.run_id() == Some(run) && self.outbox.is_some() {
                    let line = mcp_message(&RunId::new().to_string(), &server, &message);
                    let payload = Payload::line("daemon", line);
                    self.enqueue(Entry::new(payload, Subject::Nobody).holding(room));
                }
            }
        }
    }
}

impl CallbackResult {
    pub(super) fn answered(asked: &Asked, outcome: Result<Box<RawValue>, FallbackReason>) -> Self {
        Self::Answered {
            request_id: asked.request.request_id.clone(),
            seq: asked.seq,
            outcome,
        }
    }
}

/// A message of a server to the CLI.
fn mcp_message(id: &str, server: &str, message: &RawValue) -> Vec<u8> {
    let mut fields = crate::claude::control::Fields::new();
    fields.set("server_name", server);
    fields.set_raw("message", message.to_owned());
    crate::claude::stdin::control_request(id, "mcp_message", &fields)
}

/// The same for each call about one record, also by the next daemon.
fn delivery_id(session: &Uuid, seq: Seq) -> Uuid {
    Uuid::new_v5(session, format!("hook:{seq}").as_bytes())
}
