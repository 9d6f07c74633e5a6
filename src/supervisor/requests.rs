//! Owns what callers ask of the supervisor.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{
    claude::{LaunchOptions, stdin::Priority},
    domain::{PromptUuid, RestartOverride, RuleSpec, Seq},
};

/// A session to be made.
#[derive(Clone, Debug)]
pub struct CreateSession {
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
}

/// A fork to be made.
#[derive(Clone, Debug, Default)]
pub struct ForkSession {
    /// The last message to copy; all when absent.
    pub at: Option<Uuid>,
    /// The directory, which must be the parent's.
    pub cwd: Option<String>,
    /// A name for people.
    pub title: Option<String>,
    /// The first prompt.
    pub prompt: Option<NewMessage>,
}

/// A user message to be sent.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// What it says.
    pub content: Content,
    /// The client's id of it; minted when absent.
    pub uuid: Option<PromptUuid>,
    /// Where in the queue it goes.
    pub priority: Option<Priority>,
    /// `false` adds it to the conversation without asking the model.
    pub should_query: Option<bool>,
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
