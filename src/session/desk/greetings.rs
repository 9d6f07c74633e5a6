//! Owns what each client said last in its `initialize`, and where the CLI's answer is: a client that says the same again needs no CLI for it.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

use crate::{
    claude::{Envelope, control::Fields},
    domain::{ClientId, Seq},
};

use super::registrations::CLIENT_PREFIX;

/// An `initialize` that says nothing beside hooks and servers.
const NOTHING_ELSE: &str = r#"{"subtype":"initialize"}"#;

/// All that an `initialize` says beside hooks and servers.
type Rest = [u8; 32];

/// The registrations of clients in this run.
#[derive(Clone, Debug, Default)]
pub(super) struct Greetings {
    of_clients: HashMap<ClientId, Greeting>,
    /// The one that the process began with. It carried the hooks that clients had registered before.
    first: Option<Greeting>,
}

#[derive(Clone, Debug)]
struct Greeting {
    request_id: String,
    rest: Rest,
    /// The record of the CLI's answer.
    answer: Option<Seq>,
}

impl Greetings {
    /// An `initialize` was written.
    pub(super) fn sent(&mut self, line: &Envelope<'_>, by: Option<&str>) {
        let (Some(by), Some(id), Some(request)) = (by, line.request_id.as_deref(), line.request) else {
            return;
        };
        let greeting = |rest| Greeting {
            request_id: id.to_owned(),
            rest,
            answer: None,
        };
        if by == "daemon" {
            self.first = rest_of(NOTHING_ELSE).map(greeting);
        } else if let Some(client) = by.strip_prefix(CLIENT_PREFIX).and_then(|it| it.parse().ok())
            && let Some(rest) = rest_of(request)
        {
            self.of_clients.insert(client, greeting(rest));
        }
    }

    /// The CLI answered a request.
    pub(super) fn settled(&mut self, request_id: &str, is_done: bool, seq: Seq) {
        let mut greetings = self.of_clients.values_mut().chain(&mut self.first);
        let greeting = greetings.find(|it| it.request_id == request_id);
        if let Some(greeting) = greeting {
            greeting.answer = Some(seq).filter(|_| is_done);
        }
    }

    /// The record of the answer to the last `initialize` of a client, if that said the same beside hooks and servers. A client
    /// that said none in this run, and has nothing else to say, is answered as the process was at first.
    pub(super) fn answer_to(&self, client: &ClientId, request: &str) -> Option<Seq> {
        let greeting = self.of_clients.get(client).or(self.first.as_ref())?;
        let is_same = rest_of(request)? == greeting.rest;
        greeting.answer.filter(|_| is_same)
    }
}

fn rest_of(request: &str) -> Option<Rest> {
    let mut fields = Fields::of_object(request)?;
    fields.remove("hooks");
    fields.remove("sdkMcpServers");
    let mut fields: Vec<_> = fields.iter().map(|(name, value)| (name, value.get())).collect();
    fields.sort_unstable();
    let mut digest = Sha256::new();
    for part in fields.into_iter().flat_map(|(name, value)| [name, value]) {
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    }
    Some(digest.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::scan;

    fn line(id: &str, request: &str) -> String {
        format!(r#"{{"type":"control_request","request_id":"{id}","request":{request}}}"#)
    }

    #[test]
    fn hooks_of_the_launch_need_no_second_word() {
        let x: ClientId = "x".parse().unwrap();
        let launch = r#"{"subtype":"initialize","hooks":{"Stop":[]},"systemPrompt":["a"]}"#;
        let mut it = Greetings::default();
        it.sent(&scan(line("0", launch).as_bytes()).unwrap(), Some("daemon"));
        it.settled("0", true, Seq::new(2));
        let hooks = r#"{"subtype":"initialize","hooks":{"Stop":[]}}"#;
        assert_eq!(it.answer_to(&x, hooks), Some(Seq::new(2)));
        assert_eq!(it.answer_to(&x, launch), None, "the process was told for another");
    }

    #[test]
    fn only_the_same_once_more_has_an_answer() {
        let x: ClientId = "x".parse().unwrap();
        let y: ClientId = "y".parse().unwrap();
        let said = r#"{"subtype":"initialize","hooks":{"Stop":[]},"a":1,"b":{"c": 2}}"#;
        let again = r#"{"b":{"c": 2},"a":1,"subtype":"initialize","sdkMcpServers":[]}"#;
        let other = r#"{"subtype":"initialize","a":2,"b":{"c": 2}}"#;
        let mut it = Greetings::default();
        it.sent(&scan(line("1", said).as_bytes()).unwrap(), Some("ws:x"));
        assert_eq!(it.answer_to(&x, said), None, "it was not answered");
        it.settled("1", true, Seq::new(7));
        assert_eq!(it.answer_to(&x, again), Some(Seq::new(7)));
        assert_eq!(it.answer_to(&x, other), None);
        assert_eq!(it.answer_to(&y, said), None);
        it.sent(&scan(line("2", other).as_bytes()).unwrap(), Some("ws:x"));
        it.settled("2", false, Seq::new(9));
        assert_eq!(it.answer_to(&x, other), None, "it was refused");
    }
}
