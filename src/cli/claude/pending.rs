//! Owns what a stand-in has to say again when its connection was lost: the lines of the host that the daemon may not have, and
//! the requests of the CLI that the host knows.

use std::collections::{BTreeMap, VecDeque};

use memchr::memmem;

use crate::{
    claude::{ControlResponse, scan, stdin},
    domain::prompt_uuid_from_daemon,
    json,
};

/// Requests that do something else when the CLI gets them a second time.
const ONCE: [&str; 4] = ["interrupt", "mcp_call", "rewind_files", "stop_task"];
/// The subtype of a line about the state of the session.
const STATES: &str = "session_state_changed";

/// By what it is known that the daemon has a line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Key {
    /// The id of a message.
    User(String),
    /// The id of a request to the CLI, which its answer has.
    Request(String),
    /// The id of a request of the CLI, which the line answers.
    Answer(String),
}

/// The `initialize` of the host.
#[derive(Clone, Debug)]
pub(super) struct Greeting {
    request_id: String,
    pub(super) line: String,
    pub(super) is_greeted: bool,
}

/// The words that may have to be said again.
#[derive(Debug, Default)]
pub(super) struct Pending {
    lines: VecDeque<(Key, String)>,
    /// The open requests of the CLI that the host knows, and whether it has answered.
    known: BTreeMap<String, bool>,
    greeting: Option<Greeting>,
    /// The open requests that must not be sent twice.
    once: Vec<String>,
    /// The host has not said that it reads the states of its session.
    is_blind_to_states: bool,
}

impl Pending {
    /// For a host that reads the states of its session, or does not.
    pub(super) fn of_host(reads_states: bool) -> Self {
        Self {
            is_blind_to_states: !reads_states,
            ..Self::default()
        }
    }

    /// Takes a line of the host, and gives it as it is to be sent: a message with an id, by which it is never sent twice.
    pub(super) fn said(&mut self, line: String) -> String {
        let Some(read) = scan(line.as_bytes()) else {
            return line;
        };
        let id = read.request_id.as_deref().map(str::to_owned);
        let (key, line) = match read.kind.as_deref() {
            Some("user") => match json::member_text(&line, "uuid") {
                Some(uuid) => (Key::User(uuid), line),
                None => {
                    // By such an id the daemon knows that the host gave none, and leaves the receipts of it out.
                    let uuid = prompt_uuid_from_daemon();
                    let line = stdin::complete_user_line(&line, Some(uuid), false);
                    let line = String::from_utf8_lossy(&line).into_owned();
                    (Key::User(uuid.to_string()), line)
                }
            },
            Some("control_request") => {
                let Some(id) = id else {
                    return line;
                };
                if read.request_subtype().as_deref() == Some("initialize") {
                    self.greeting = Some(Greeting {
                        request_id: id.clone(),
                        line: line.clone(),
                        is_greeted: false,
                    });
                }
                if read
                    .request_subtype()
                    .is_some_and(|it| ONCE.contains(&it.as_str()))
                {
                    self.once.push(id.clone());
                }
                (Key::Request(id), line)
            }
            Some("control_response") => {
                let Some(answer) = ControlResponse::read(&read) else {
                    return line;
                };
                if let Some(is_answered) = self.known.get_mut(&answer.request_id) {
                    *is_answered = true;
                }
                (Key::Answer(answer.request_id), line)
            }
            _ => return line,
        };
        self.lines.push_back((key, line.clone()));
        line
    }

    /// The CLI has said a line. Says whether the host hears it: the CLI tells of states only to those who read them.
    pub(super) fn heard(&mut self, line: &str) -> bool {
        if self.is_blind_to_states
            && memmem::find(line.as_bytes(), STATES.as_bytes()).is_some()
            && json::member_text(line, "subtype").as_deref() == Some(STATES)
        {
            return false;
        }
        if memmem::find(line.as_bytes(), b"\"control_").is_some() {
            self.heard_control(line);
        }
        true
    }

    fn heard_control(&mut self, line: &str) {
        let Some(read) = scan(line.as_bytes()) else {
            return;
        };
        match (read.kind.as_deref(), read.request_id.as_deref()) {
            (Some("control_response"), _) => {
                if let Some(answer) = ControlResponse::read(&read) {
                    if let Some(greeting) = &mut self.greeting
                        && greeting.request_id == answer.request_id
                    {
                        greeting.is_greeted = true;
                    }
                    self.once.retain(|id| *id != answer.request_id);
                    self.forget(&Key::Request(answer.request_id));
                }
            }
            (Some("control_request"), Some(id)) => {
                self.known.insert(id.to_owned(), false);
            }
            (Some("control_cancel_request"), Some(id)) => self.answered(id),
            _ => {}
        }
    }

    /// Takes out the requests that must not be sent again, although nobody knows what became of them.
    pub(super) fn take_once(&mut self) -> Vec<String> {
        let once = std::mem::take(&mut self.once);
        for id in &once {
            self.forget(&Key::Request(id.clone()));
        }
        once
    }

    /// The daemon has a message.
    pub(super) fn sent(&mut self, uuid: &str) {
        self.forget(&Key::User(uuid.to_owned()));
    }

    /// A request of the CLI is open no more.
    pub(super) fn answered(&mut self, request_id: &str) {
        self.known.remove(request_id);
        self.forget(&Key::Answer(request_id.to_owned()));
    }

    /// How many lines may have to be said again.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// These lines, in their order; not the `initialize` that the process began with, which it answers by itself.
    pub(super) fn lines(&self, is_born: bool) -> impl Iterator<Item = &str> {
        let born = self.greeting.as_ref().filter(|_| is_born);
        let born = born.map(|greeting| Key::Request(greeting.request_id.clone()));
        let again = self
            .lines
            .iter()
            .filter(move |(key, _)| Some(key) != born.as_ref());
        again.map(|(_, line)| line.as_str())
    }

    pub(super) fn greeting(&self) -> Option<&Greeting> {
        self.greeting.as_ref()
    }

    pub(super) fn known(&self) -> &BTreeMap<String, bool> {
        &self.known
    }

    fn forget(&mut self, key: &Key) {
        self.lines.retain(|(known, _)| known != key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREETING: &str =
        r#"{"type":"control_request","request_id":"1","request":{"subtype":"initialize"}}"#;

    #[test]
    fn what_the_daemon_has_is_not_said_again() {
        let mut pending = Pending::default();
        pending.said(GREETING.to_owned());
        let said = pending.said(r#"{"type":"user","message":{"role":"user","content":"hi"}}"#.to_owned());
        let uuid = json::member_text(&said, "uuid").unwrap();
        pending.heard(r#"{"type":"control_request","request_id":"x","request":{"subtype":"can_use_tool"}}"#);
        let answer =
            r#"{"type":"control_response","response":{"subtype":"success","request_id":"x","response":{}}}"#;
        pending.said(answer.to_owned());
        assert_eq!(
            pending.lines(false).collect::<Vec<_>>(),
            [GREETING, &said, answer]
        );
        assert_eq!(pending.lines(true).collect::<Vec<_>>(), [&said, answer]);
        assert_eq!(pending.known().get("x"), Some(&true));
        pending.heard(
            r#"{"type":"control_response","response":{"subtype":"success","request_id":"1","response":{}}}"#,
        );
        assert!(pending.greeting().unwrap().is_greeted);
        pending.sent(&uuid);
        pending.answered("x");
        assert_eq!(pending.len(), 0);
        assert!(pending.known().is_empty());
    }

    #[test]
    fn states_are_for_hosts_that_read_them() {
        let state =
            r#"{"type":"system","subtype":"session_state_changed","state":"idle","sdk_host_only":true}"#;
        let quoted = r#"{"type":"assistant","message":{"content":"session_state_changed"}}"#;
        assert!(Pending::of_host(true).heard(state));
        assert!(!Pending::of_host(false).heard(state));
        assert!(Pending::of_host(false).heard(quoted));
    }

    #[test]
    fn a_request_that_is_taken_back_needs_no_answer() {
        let mut pending = Pending::default();
        pending.heard(r#"{"type":"control_request","request_id":"x","request":{"subtype":"can_use_tool"}}"#);
        pending.heard(r#"{"type":"control_cancel_request","request_id":"x"}"#);
        assert!(pending.known().is_empty());
    }
}
