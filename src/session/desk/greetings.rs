//! Owns what each client said last in its `initialize`, and where the CLI's answer is: who says the same again needs no CLI for it.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

use crate::{
    claude::{Envelope, control::Fields},
    domain::{ClientId, Seq},
};

use super::registrations::CLIENT_PREFIX;

/// All that an `initialize` says beside hooks and servers.
type Rest = [u8; 32];

/// The registrations of clients in this run.
#[derive(Clone, Debug, Default)]
pub(super) struct Greetings(HashMap<ClientId, Greeting>);

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
        let client = by.and_then(|by| by.strip_prefix(CLIENT_PREFIX));
        let client = client.and_then(|client| client.parse().ok());
        if let (Some(client), Some(id), Some(request)) = (client, line.request_id.as_deref(), line.request)
            && let Some(rest) = rest_of(request)
        {
            let greeting = Greeting {
                request_id: id.to_owned(),
                rest,
                answer: None,
            };
            self.0.insert(client, greeting);
        }
    }

    /// The CLI answered a request.
    pub(super) fn settled(&mut self, request_id: &str, is_done: bool, seq: Seq) {
        let greeting = self.0.values_mut().find(|it| it.request_id == request_id);
        if let Some(greeting) = greeting {
            greeting.answer = Some(seq).filter(|_| is_done);
        }
    }

    /// The record of the answer to the last `initialize` of a client, if that said the same beside hooks and servers.
    pub(super) fn answer_to(&self, client: &ClientId, request: &str) -> Option<Seq> {
        let greeting = self.0.get(client)?;
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
