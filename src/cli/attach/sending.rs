//! Owns what `attach` asks of the daemon. Nothing waits for an answer, so a daemon that hangs holds no key up.

use std::collections::VecDeque;

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use serde_json::{Value, json};

use super::super::{CliError, client::Client, request, resolve};
use crate::domain::RequestId;

/// Messages that wait for the daemon before no more are taken.
const MOST_WAITING: usize = 64;

/// How a request ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The daemon has the oldest message.
    Sent,
    /// It does not have it.
    NotSent(CliError),
    /// An approval was decided, or could not be.
    Decided(String, Option<CliError>),
    /// The session as it is.
    Looked(Value),
    /// The session was started again, or could not be.
    Resumed(Option<CliError>),
    /// Something else was done, which these words tell.
    Done(&'static str, Result<Value, CliError>),
    /// A question of which the daemon had given a part.
    Completed(Value),
    /// Another session is meant.
    Meant(Result<String, CliError>),
    /// The list of sessions.
    Listed(Value),
    /// A question that nobody waits for was not answered.
    Nothing,
}

/// A message that the daemon does not have yet.
#[derive(Clone, Debug)]
struct Message {
    uuid: String,
    text: String,
}

/// The requests that are under way, and the messages that wait.
#[derive(Debug)]
pub(super) struct Sending {
    client: Client,
    session: String,
    under_way: FuturesUnordered<BoxFuture<'static, Outcome>>,
    messages: VecDeque<Message>,
    is_sending: bool,
    is_looking: bool,
    /// Whether something happened during the look that is under way.
    looks_again: bool,
}

impl Sending {
    pub(super) fn new(client: Client, session: &str) -> Self {
        Self {
            client,
            session: session.to_owned(),
            under_way: FuturesUnordered::new(),
            messages: VecDeque::new(),
            is_sending: false,
            is_looking: false,
            looks_again: false,
        }
    }

    /// The daemon is back, maybe at another address: what was under way is lost, and messages are sent again by their ids.
    pub(super) fn reconnected(&mut self, client: Client) {
        self.client = client;
        self.under_way.clear();
        self.is_sending = false;
        self.is_looking = false;
        self.looks_again = false;
        self.pump();
    }

    /// Takes a message. Its id, or nothing when too many wait.
    pub(super) fn message(&mut self, text: &str) -> Option<String> {
        if self.messages.len() == MOST_WAITING {
            return None;
        }
        let uuid = RequestId::new().to_string();
        self.messages.push_back(Message {
            uuid: uuid.clone(),
            text: text.to_owned(),
        });
        self.pump();
        Some(uuid)
    }

    /// Messages that the daemon does not have.
    pub(super) fn waiting(&self) -> usize {
        self.messages.len()
    }

    /// Gives the oldest message back.
    pub(super) fn take_back(&mut self) -> Option<String> {
        self.messages.pop_front().map(|message| message.text)
    }

    /// Sends the oldest message, one at a time so that they keep their order.
    pub(super) fn pump(&mut self) {
        let Some(message) = self.messages.front().filter(|_| !self.is_sending) else {
            return;
        };
        let body = json!({"text": message.text, "uuid": message.uuid});
        self.is_sending = true;
        self.post("messages", body, |result| match result {
            Ok(_) => Outcome::Sent,
            Err(error) => Outcome::NotSent(error),
        });
    }

    /// Has all of a large request.
    pub(super) fn complete(&self, approval: Value) {
        let (client, session) = (self.client.clone(), self.session.clone());
        let complete =
            async move { Outcome::Completed(request::completed(&client, &session, approval).await) };
        self.under_way.push(complete.boxed());
    }

    pub(super) fn decide(&self, approval: &str, decision: Value) {
        let id = approval.to_owned();
        let (client, session) = (self.client.clone(), self.session.clone());
        let decided = async move {
            let path = ["v1", "sessions", &session, "approvals", &id];
            let error = client.post(&path, &decision).await.err();
            Outcome::Decided(id, error)
        };
        self.under_way.push(decided.boxed());
    }

    /// Looks at the session; one look at a time. One that is under way may have seen it before what just happened, so
    /// another one follows it.
    pub(super) fn look(&mut self) {
        if std::mem::replace(&mut self.is_looking, true) {
            self.looks_again = true;
            return;
        }
        let (client, session) = (self.client.clone(), self.session.clone());
        let look = async move {
            let found = client.get(&["v1", "sessions", &session], &[]).await;
            found.map_or(Outcome::Nothing, Outcome::Looked)
        };
        self.under_way.push(look.boxed());
    }

    pub(super) fn list(&self) {
        let client = self.client.clone();
        let list = async move {
            let found = client.get(&["v1", "sessions"], &[("limit", "50")]).await;
            found.map_or(Outcome::Nothing, Outcome::Listed)
        };
        self.under_way.push(list.boxed());
    }

    pub(super) fn resume(&self) {
        self.post("resume", json!({}), |result| Outcome::Resumed(result.err()));
    }

    pub(super) fn interrupt(&self) {
        self.post("interrupt", json!({}), |result| {
            Outcome::Done("interrupted", result)
        });
    }

    pub(super) fn stop(&self) {
        self.post("stop", json!({}), |result| Outcome::Done("stopped", result));
    }

    /// Changes a setting of the session.
    pub(super) fn set(&self, what: &'static str, body: Value, done: &'static str) {
        let (client, session) = (self.client.clone(), self.session.clone());
        let set = async move {
            let result = client.put(&["v1", "sessions", &session, what], &body).await;
            Outcome::Done(done, result)
        };
        self.under_way.push(set.boxed());
    }

    /// Finds the session that a person means.
    pub(super) fn find(&self, name: String) {
        let client = self.client.clone();
        let find = async move { Outcome::Meant(resolve::session(&client, &name).await) };
        self.under_way.push(find.boxed());
    }

    fn post(&self, verb: &'static str, body: Value, then: fn(Result<Value, CliError>) -> Outcome) {
        let (client, session) = (self.client.clone(), self.session.clone());
        let post = async move { then(client.post(&["v1", "sessions", &session, verb], &body).await) };
        self.under_way.push(post.boxed());
    }

    /// How the next request ended; waits for ever when none is under way.
    ///
    /// CANCEL-SAFETY: a request that is not over stays under way.
    pub(super) async fn outcome(&mut self) -> Outcome {
        let outcome = match self.under_way.next().await {
            Some(outcome) => outcome,
            None => std::future::pending().await,
        };
        match &outcome {
            Outcome::Sent => {
                self.messages.pop_front();
                self.is_sending = false;
                self.pump();
            }
            Outcome::NotSent(_) => self.is_sending = false,
            Outcome::Looked(_) | Outcome::Nothing => {
                self.is_looking = false;
                if std::mem::take(&mut self.looks_again) {
                    self.look();
                }
            }
            _ => {}
        }
        outcome
    }
}
