//! Owns what callers ask of the supervisor.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{
    claude::{LaunchOptions, options::OptionsPatch, stdin::Priority},
    domain::{CliSessionId, ClientId, PromptUuid, RestartOverride, RuleSpec, Seq, SessionId},
    keeper::StdinLine,
    session::Kept,
    store::MetaPatch,
};

use super::{fork_history::Branch, tether::Mark};

/// The program for which a process is started, and that speaks to it first.
#[derive(Clone, Serialize, Deserialize)]
pub struct Host {
    /// The name under which it attaches.
    pub client: ClientId,
    /// The `request` object of its `initialize`, which is the process's first one. Without it the daemon says its own.
    pub initialize: Option<String>,
    /// Arguments of the process behind all others.
    pub args: Vec<String>,
    /// The flags among these that the configuration has to allow.
    pub extra_args: Vec<String>,
    /// Variables in the place of those that the protocol sets.
    pub env: Vec<(String, String)>,
    /// Whether the process gets no variable of the daemon's: those of the options are all that the host has.
    pub has_whole_env: bool,
    /// Whether the session ends with it.
    pub is_tied: bool,
    /// Arguments of the options that the process is started without, as the host would.
    pub left_out: Vec<String>,
}

impl Host {
    /// The words about it in the folder of its session, whose process begins behind this record.
    pub(super) fn mark(&self, after: Seq) -> Mark {
        Mark {
            client: Some(self.client.clone()),
            after,
        }
    }
}

/// Shows no arguments and no values: they may be secret.
impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

/// The first lines of a process, beside what its options say.
#[derive(Debug, Default)]
pub(super) struct Opening {
    pub(super) host: Option<Host>,
    pub(super) prompt: Option<StdinLine>,
}

/// The parts of another session that a new one begins with.
#[derive(Default)]
pub(super) struct Inherited {
    pub(super) choices: Kept,
    /// Where the conversation that it copies is.
    pub(super) history: Option<Branch>,
}

impl From<Option<StdinLine>> for Opening {
    fn from(prompt: Option<StdinLine>) -> Self {
        Self { host: None, prompt }
    }
}

/// A session to be made.
#[derive(Clone, Debug)]
pub struct CreateSession {
    /// Its id; minted when absent.
    pub id: Option<SessionId>,
    /// Where the CLI works: an absolute path.
    pub cwd: String,
    /// The first prompt.
    pub prompt: Option<NewMessage>,
    /// A name for people.
    pub title: Option<String>,
    /// A group for people.
    pub tag: Option<String>,
    /// Key-value pairs for people.
    pub labels: BTreeMap<String, String>,
    /// How the CLI is started.
    pub options: LaunchOptions,
    /// Its rules, in their order.
    pub rules: Vec<RuleSpec>,
    /// Its own restart policy.
    pub restart: Option<RestartOverride>,
    /// The CLI's id of a new conversation; minted when absent.
    pub conversation: Option<CliSessionId>,
    /// A conversation of no session that the new one begins as a copy of, and the last message to copy when not all.
    pub copies: Option<(CliSessionId, Option<Uuid>)>,
    /// The program that it is made for.
    pub host: Option<Host>,
}

/// A fork to be made.
#[derive(Clone, Debug, Default)]
pub struct ForkSession {
    /// The id of the new session; minted when absent.
    pub id: Option<SessionId>,
    /// The last message to copy; all when absent.
    pub at: Option<Uuid>,
    /// The directory, which must be the parent's.
    pub cwd: Option<String>,
    /// A name for people.
    pub title: Option<String>,
    /// The first prompt.
    pub prompt: Option<NewMessage>,
    /// Launch options in the place of the parent's.
    pub options: Option<LaunchOptions>,
    /// A change of the parent's options, for the fork alone.
    pub patch: Option<OptionsPatch>,
    /// The CLI's id of the copy; minted when absent.
    pub conversation: Option<CliSessionId>,
    /// The program that it is made for.
    pub host: Option<Host>,
}

/// How a session is started again.
#[derive(Clone, Debug, Default)]
pub struct Resumed {
    /// Whether a new conversation begins.
    pub fresh: bool,
    /// A change of its options, which stays.
    pub options: Option<OptionsPatch>,
    /// Where the conversation goes on, when not at its end.
    pub point: Option<ResumePoint>,
}

/// A place in a conversation at which it goes on: the agent knows nothing of what came behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumePoint {
    /// The message after which it goes on.
    pub at: Uuid,
    /// The prompt of the turn that alone may be behind it, or nothing is dropped.
    pub drops_turn: Option<Uuid>,
}

/// A change of a session.
#[derive(Clone, Debug, Default)]
pub struct SessionChange {
    /// Its title, tag and labels.
    pub meta: MetaPatch,
    /// Its launch options, from its next start on.
    pub options: Option<OptionsPatch>,
}

/// A user message to be sent.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// Its text.
    pub content: Content,
    /// The client's id of it; minted when absent.
    pub uuid: Option<PromptUuid>,
    /// Where in the queue it goes.
    pub priority: Option<Priority>,
    /// `false` adds it to the conversation without asking the model.
    pub should_query: Option<bool>,
    /// The words of its host about it.
    pub about: AboutMessage,
}

/// The words of the host of a message about it.
#[derive(Clone, Debug, Default)]
pub struct AboutMessage {
    /// Whether it reaches the model as it is; as the session's options say when absent.
    pub client_composed: Option<bool>,
    /// The parts that were pasted: a JSON list.
    pub pasted_content: Option<Box<RawValue>>,
    /// The texts that were pasted and stand in it: a JSON list.
    pub inline_pastes: Option<Box<RawValue>>,
    /// Where it comes from: a JSON object.
    pub origin: Option<Box<RawValue>>,
}

impl AboutMessage {
    /// Its members that the line takes byte for byte.
    pub(super) fn members(&self) -> Vec<(&'static str, &RawValue)> {
        let members = [
            ("pasted_content", &self.pasted_content),
            ("inline_pastes", &self.inline_pastes),
            ("origin", &self.origin),
        ];
        let members = members.into_iter();
        members
            .filter_map(|(name, value)| Some((name, &**value.as_ref()?)))
            .collect()
    }
}

/// The content of a user message.
#[derive(Clone, Debug)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// Content blocks as the model API takes them: a JSON list of objects.
    Blocks(Box<RawValue>),
}

/// A message that is in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its id.
    pub uuid: PromptUuid,
    /// Its record.
    pub seq: Seq,
    /// Whether it had been accepted before.
    pub repeated: bool,
}
