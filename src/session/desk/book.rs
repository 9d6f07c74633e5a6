//! Owns what the journal says about requests of the CLI that are no approvals: which are open, and since when.

use std::{collections::HashMap, sync::Arc};

use serde_json::value::RawValue;

use crate::{
    claude::{ControlRequest, ControlResponse, Envelope, scan},
    domain::{ClientId, LeftOut, Seq, Timestamp},
    journal::RecordRef,
    json,
    session::large,
};

use super::{greetings::Greetings, registrations::Registrations};

/// A request that waits for its answer.
#[derive(Clone, Debug)]
pub(in crate::session) struct Asked {
    /// An excerpt where it is large.
    pub(in crate::session) request: ControlRequest,
    /// The part that is missing in the excerpt; `None` when the request is whole.
    pub(in crate::session) left_out: Option<LeftOut>,
    /// Its record.
    pub(in crate::session) seq: Seq,
    pub(in crate::session) at: Timestamp,
    pub(in crate::session) about: About,
}

impl Asked {
    /// The part of a request that is held.
    fn held(request: ControlRequest, record: &RecordRef<'_>, about: About) -> Self {
        // The log compares all of a hook's input with the answer.
        let is_hook = about.hook_event().is_some();
        let part = large::excerpt(&request.request, large::MOST_BYTES).filter(|_| !is_hook);
        let mut asked = Self {
            request,
            left_out: None,
            seq: record.seq,
            at: record.at,
            about,
        };
        let Some(large::Excerpt { object, left_out }) = part else {
            return asked;
        };
        asked.request.request = object;
        asked.left_out = Some(left_out);
        asked
    }

    /// A request with all that was asked, by the data of its record.
    pub(super) fn completed(&self, data: &[u8]) -> Option<Self> {
        let request = ControlRequest::read(&scan(data)?)?;
        (request.request_id == self.request.request_id).then(|| Self {
            request,
            left_out: None,
            ..self.clone()
        })
    }
}

/// The subject of a request.
#[derive(Clone, Debug)]
pub(in crate::session) enum About {
    /// A hook.
    Hook {
        callback_id: String,
        event: String,
        /// Whether a sub-agent's doing is asked about.
        of_agent: bool,
        /// The call of a tool that is asked about before it runs.
        call: Option<String>,
    },
    /// A message to an MCP server that is no process of the CLI.
    Mcp {
        server: String,
        /// The raw id that the response must carry; a notification has none.
        id: Option<Box<RawValue>>,
        /// Whether a tool is called.
        is_call: bool,
        /// Whether it is part of the connection, which the process waits for before its first turn.
        connects: bool,
    },
    /// Fresh credentials are wanted. The answer holds them, so the journal never gets it.
    Credentials,
    /// Something else.
    Other,
}

impl About {
    /// Whether the answer holds credentials.
    pub(in crate::session) fn is_credentials(&self) -> bool {
        matches!(self, Self::Credentials)
    }

    /// The event of a hook.
    pub(in crate::session) fn hook_event(&self) -> Option<&str> {
        match self {
            Self::Hook { event, .. } => Some(event),
            _ => None,
        }
    }

    /// The call of a tool that a hook is asked about before it runs.
    pub(in crate::session) fn call(&self) -> Option<&str> {
        match self {
            Self::Hook { call, .. } => call.as_deref(),
            Self::Mcp { .. } | Self::Credentials | Self::Other => None,
        }
    }

    fn of(request: &ControlRequest) -> Self {
        let whole = request.request.get();
        match request.subtype.as_str() {
            "hook_callback" => {
                let callback_id = json::member_text(whole, "callback_id").unwrap_or_default();
                let input = json::member(whole, "input").unwrap_or("{}");
                let event = json::member_text(input, "hook_event_name").unwrap_or_default();
                let call = json::member_text(whole, "tool_use_id");
                Self::Hook {
                    callback_id,
                    call: call.filter(|_| event == "PreToolUse"),
                    event,
                    of_agent: json::member_text(input, "agent_id").is_some(),
                }
            }
            "mcp_message" => match (
                json::member_text(whole, "server_name"),
                json::member(whole, "message"),
            ) {
                (Some(server), Some(message)) => {
                    // An id without a method is a response: nobody answers that.
                    let id = json::member(message, "method").and_then(|_| json::member(message, "id"));
                    let method = json::member_text(message, "method");
                    Self::Mcp {
                        server,
                        is_call: method.as_deref() == Some("tools/call"),
                        connects: method
                            .as_deref()
                            .is_some_and(|method| method == "initialize" || method.ends_with("/list")),
                        id: id.and_then(|id| RawValue::from_string(id.to_owned()).ok()),
                    }
                }
                _ => Self::Other,
            },
            "oauth_token_refresh" | "host_auth_token_refresh" | "remote_control_work_secret" => {
                Self::Credentials
            }
            _ => Self::Other,
        }
    }
}

/// A hook said that nothing more shall happen in this turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) struct HookStop {
    /// The turn.
    pub(in crate::session) turn: u64,
    /// When that was written to the CLI.
    pub(in crate::session) at: Timestamp,
}

/// The requests of one run.
#[derive(Clone, Debug, Default)]
pub(in crate::session) struct Book {
    open: Vec<Arc<Asked>>,
    registrations: Registrations,
    greetings: Greetings,
    hook_stop: Option<HookStop>,
    /// How the CLI greeted each MCP server that is no process of its own.
    handshakes: HashMap<String, Box<RawValue>>,
}

impl Book {
    /// The open requests, oldest first.
    pub(in crate::session) fn open(&self) -> &[Arc<Asked>] {
        &self.open
    }

    /// The open request with this id.
    pub(in crate::session) fn get(&self, request_id: &str) -> Option<&Arc<Asked>> {
        self.open
            .iter()
            .find(|asked| asked.request.request_id == request_id)
    }

    /// How the CLI greeted an MCP server in this run: its `initialize`.
    pub(in crate::session) fn handshake(&self, server: &str) -> Option<&RawValue> {
        self.handshakes.get(server).map(AsRef::as_ref)
    }

    /// Whether a hook waits for its answer. New hooks would end it.
    pub(in crate::session) fn has_open_hook(&self) -> bool {
        let mut open = self.open.iter();
        open.any(|asked| matches!(asked.about, About::Hook { .. }))
    }

    /// The record of the CLI's answer to what a client says again, hooks and servers apart.
    pub(super) fn answer_to_greeting(&self, client: &ClientId, request: &str) -> Option<Seq> {
        self.greetings.answer_to(client, request)
    }

    /// The registrations of the clients.
    pub(in crate::session) fn registrations(&self) -> &Registrations {
        &self.registrations
    }

    /// The stop that a hook asked for and that has not happened.
    pub(in crate::session) fn hook_stop(&self) -> Option<HookStop> {
        self.hook_stop
    }

    /// The CLI asks. Gives the ids of the open requests that are over with that: one that has the same id, and a call of an MCP
    /// server that is cancelled, which nobody answers any more.
    pub(in crate::session) fn ask(&mut self, request: ControlRequest, record: &RecordRef<'_>) -> Vec<String> {
        let replaced = self.close(&request.request_id);
        let about = About::of(&request);
        let cancelled = self.cancelled_by(&about, &request);
        if let About::Mcp {
            server, id: Some(_), ..
        } = &about
            && let Some(message) = json::member(request.request.get(), "message")
            && json::member_text(message, "method").as_deref() == Some("initialize")
        {
            let message = RawValue::from_string(message.to_owned()).ok();
            self.handshakes
                .extend(message.map(|message| (server.clone(), message)));
        }
        self.open.push(Arc::new(Asked::held(request, record, about)));
        let over = replaced.into_iter().chain(cancelled);
        over.map(|asked| asked.request.request_id.clone()).collect()
    }

    /// Takes out the request to the same server that a message of the CLI cancels.
    fn cancelled_by(&mut self, about: &About, request: &ControlRequest) -> Option<Arc<Asked>> {
        let About::Mcp { server, id: None, .. } = about else {
            return None;
        };
        let message = json::member(request.request.get(), "message")?;
        if json::member_text(message, "method")? != "notifications/cancelled" {
            return None;
        }
        let of = json::member(json::member(message, "params")?, "requestId")?;
        let at = self.open.iter().position(|asked| match &asked.about {
            About::Mcp {
                server: other,
                id: Some(id),
                ..
            } => other == server && same_value(id.get(), of),
            _ => false,
        })?;
        Some(self.open.remove(at))
    }

    /// Somebody answered; `turn` is the one that runs. Whether that request was open.
    pub(in crate::session) fn answer(
        &mut self,
        answer: &ControlResponse,
        turn: Option<u64>,
        at: Timestamp,
    ) -> bool {
        let Some(asked) = self.close(&answer.request_id) else {
            return false;
        };
        let payload = answer.outcome.as_ref().ok().and_then(Option::as_deref);
        let stops = payload.is_some_and(|payload| json::member(payload.get(), "continue") == Some("false"));
        // Only a turn that runs can be ended, and a sub-agent's end is not the turn's.
        if let (About::Hook { of_agent: false, .. }, true, Some(turn)) = (&asked.about, stops, turn) {
            self.hook_stop = Some(HookStop { turn, at });
        }
        true
    }

    /// The CLI takes a request back. Whether it was open.
    pub(in crate::session) fn withdraw(&mut self, request_id: &str) -> bool {
        self.close(request_id).is_some()
    }

    /// A request of ours to the CLI.
    pub(in crate::session) fn sent(&mut self, line: &Envelope<'_>, by: Option<&str>) {
        match line.request_subtype().as_deref() {
            Some("interrupt") => self.hook_stop = None,
            Some("initialize") => {
                self.registrations.initialized(line, by);
                self.greetings.sent(line, by);
            }
            Some("mcp_set_servers") => self.registrations.set_servers(line, by),
            _ => {}
        }
    }

    /// The CLI answered a request of ours.
    pub(in crate::session) fn settled(&mut self, request_id: &str, is_done: bool, seq: Seq) {
        self.greetings.settled(request_id, is_done, seq);
        if is_done {
            self.registrations.accepted(request_id);
        } else {
            self.registrations.refused(request_id);
        }
    }

    /// The turn ended.
    pub(in crate::session) fn end_turn(&mut self) {
        self.hook_stop = None;
    }

    fn close(&mut self, request_id: &str) -> Option<Arc<Asked>> {
        let at = self
            .open
            .iter()
            .position(|asked| asked.request.request_id == request_id)?;
        Some(self.open.remove(at))
    }
}

/// Whether two raw values are the same, however they are spelled.
pub(super) fn same_value(one: &str, other: &str) -> bool {
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    one == other || value(one).is_some_and(|one| Some(one) == value(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Source;

    fn ask(book: &mut Book, id: &str, server: &str, message: &str) -> Vec<String> {
        let line = format!(
            r#"{{"type":"control_request","request_id":"{id}","request":{{"subtype":"mcp_message","server_name":"{server}","message":{message}}}}}"#
        );
        let record = RecordRef {
            seq: Seq::new(1),
            at: Timestamp::from_micros(1),
            source: Source::Cli,
            by: None,
            data: line.as_bytes(),
            line: line.as_bytes(),
        };
        book.ask(
            ControlRequest::read(&scan(line.as_bytes()).unwrap()).unwrap(),
            &record,
        )
    }

    #[test]
    fn a_cancelled_call_is_open_no_longer() {
        let mut book = Book::default();
        let call = |id: &str| format!(r#"{{"id":{id},"method":"tools/call"}}"#);
        let cancel =
            |id: &str| format!(r#"{{"method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
        for (request, server, id) in [
            ("a", "one", "1"),
            ("b", "two", "1"),
            ("c", "one", r#""1""#),
            ("d", "one", r#""\u0078""#),
        ] {
            assert!(ask(&mut book, request, server, &call(id)).is_empty());
        }
        assert!(ask(&mut book, "n1", "one", &cancel("2")).is_empty(), "nobody's");
        assert_eq!(ask(&mut book, "n2", "one", &cancel("1")), ["a"]);
        assert_eq!(ask(&mut book, "n3", "one", &cancel(r#""x""#)), ["d"]);
        let open: Vec<_> = book
            .open()
            .iter()
            .map(|it| it.request.request_id.as_str())
            .collect();
        assert_eq!(open, ["b", "c", "n1", "n2", "n3"]);
    }
}
