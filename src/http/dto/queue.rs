//! Owns messages that wait in the daemon: how they are queued, changed and shown.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::SendRequest;
use crate::{
    claude::stdin::Priority,
    domain::{self, Timestamp},
    http::{ApiError, ErrorCode},
    supervisor::NewMessage,
};

/// A message that waits until the session does nothing: `text` or `content`, one of the two.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"text": "Then run the tests.", "held": true}))]
pub(in crate::http) struct QueueRequest {
    /// Plain text.
    text: Option<String>,
    /// Content blocks of the model API, passed on byte for byte.
    #[schema(value_type = Option<Vec<Object>>)]
    content: Option<Box<RawValue>>,
    /// An id of the client's own. The same message queued again with it waits once.
    uuid: Option<Uuid>,
    /// When it is taken up, should a turn have begun meanwhile.
    priority: Option<Priority>,
    /// `false`: the message is added to the conversation and starts no turn.
    should_query: Option<bool>,
    /// Whether it reaches the model as it is: no `@path` expansion, no slash commands. Default: as the option `verbatim_prompts` says.
    client_composed: Option<bool>,
    /// The parts of it that were pasted, each as the content of a message; passed on byte for byte.
    #[schema(value_type = Option<Vec<Value>>)]
    pasted_content: Option<Box<RawValue>>,
    /// The pasted texts that stand in it.
    inline_pastes: Option<Vec<String>>,
    /// Where it comes from, in the SDK's words, such as `{"kind": "human"}`; passed on byte for byte.
    #[schema(value_type = Option<Object>, example = json!({"kind": "human"}))]
    origin: Option<Box<RawValue>>,
    /// Whether it waits until somebody lets it go, and those behind it with it. Default: `false`.
    #[serde(default)]
    held: bool,
}

/// A change of a message that waits. A member that is left out stays as it is.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"text": "Then run all tests.", "held": false}))]
pub(in crate::http) struct QueueChange {
    /// The new text, in the place of text or content.
    text: Option<String>,
    /// The new content blocks, in the place of text or content.
    #[schema(value_type = Option<Vec<Object>>)]
    content: Option<Box<RawValue>>,
    /// Whether it is held.
    pub(in crate::http) held: Option<bool>,
}

/// The text that is kept of a message that waits, once it is known to be one.
fn into_body(kept: SendRequest, uuid: Uuid) -> Result<String, ApiError> {
    let body =
        serde_json::to_string(&kept).map_err(|error| ApiError::new(ErrorCode::Internal).caused_by(error))?;
    kept.into_message(uuid)?;
    Ok(body)
}

impl QueueRequest {
    /// The message as it is kept. One without an id gets `uuid`.
    pub(in crate::http) fn into_prompt(self, uuid: Uuid) -> Result<domain::QueuedPrompt, ApiError> {
        let uuid = self.uuid.unwrap_or(uuid);
        let kept = SendRequest {
            text: self.text,
            content: self.content,
            // The row has it.
            uuid: None,
            priority: self.priority,
            should_query: self.should_query,
            client_composed: self.client_composed,
            pasted_content: self.pasted_content,
            inline_pastes: self.inline_pastes,
            origin: self.origin,
        };
        Ok(crate::supervisor::queued(uuid, into_body(kept, uuid)?, self.held))
    }
}

impl QueueChange {
    /// The message as it is to be kept; `None` when what it says stays.
    pub(in crate::http) fn body(&self, known: &domain::QueuedPrompt) -> Result<Option<String>, ApiError> {
        if self.text.is_none() && self.content.is_none() {
            return Ok(None);
        }
        let kept = SendRequest {
            text: self.text.clone(),
            content: self.content.clone(),
            // These stood in what is replaced.
            pasted_content: None,
            inline_pastes: None,
            ..kept(&known.body).unwrap_or_default()
        };
        into_body(kept, known.uuid).map(Some)
    }
}

fn kept(body: &str) -> Option<SendRequest> {
    serde_json::from_str(body).ok()
}

/// The message that was kept; `None` when it is none.
pub(in crate::http) fn read_queued(body: &str, uuid: Uuid) -> Option<NewMessage> {
    kept(body)?.into_message(uuid).ok()
}

/// A message that waits in the daemon.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct QueuedPrompt {
    /// Its id, under which it is in the journal once it is given.
    uuid: Uuid,
    /// Its text; `null` for content blocks.
    text: Option<String>,
    /// Its content blocks; `null` for text.
    #[schema(value_type = Option<Vec<Object>>)]
    content: Option<Box<RawValue>>,
    /// When it is taken up, should a turn have begun meanwhile.
    priority: Option<Priority>,
    /// Whether it starts a turn; `null`: it does.
    should_query: Option<bool>,
    /// Whether it reaches the model as it is; `null`: as the option `verbatim_prompts` says.
    client_composed: Option<bool>,
    /// The parts of it that were pasted.
    #[schema(value_type = Option<Vec<Value>>)]
    pasted_content: Option<Box<RawValue>>,
    /// The pasted texts that stand in it.
    inline_pastes: Option<Vec<String>>,
    /// Where it comes from.
    #[schema(value_type = Option<Object>)]
    origin: Option<Box<RawValue>>,
    /// Whether it waits until somebody lets it go.
    held: bool,
    /// When it was queued.
    #[schema(value_type = String, format = DateTime)]
    queued_at: Timestamp,
    /// Whether it is longer than what is shown: `text` is then its beginning, and `content`, what was pasted and `origin` are `null`. Only frames of sockets
    /// shorten; the route that lists the messages has all of each.
    truncated: bool,
}

/// The bytes of messages in a frame from which on no more than the beginning of another one is shown.
const FRAME_BYTES: usize = 64 * 1024;
/// The size of such a beginning.
const STUB_BYTES: usize = 1024;

impl QueuedPrompt {
    /// The messages as a frame shows them, with as much of each as there is room for.
    pub(in crate::http) fn within_frame(queue: &[domain::QueuedPrompt]) -> Vec<Self> {
        let mut room = FRAME_BYTES;
        let shown = queue.iter().cloned().map(|prompt| {
            let size = prompt.body.len();
            let mut shown = Self::from(prompt);
            if size <= STUB_BYTES || size <= room {
                room = room.saturating_sub(size);
                return shown;
            }
            shown.truncated = true;
            (
                shown.content,
                shown.pasted_content,
                shown.inline_pastes,
                shown.origin,
            ) = (None, None, None, None);
            if let Some(text) = &mut shown.text {
                text.truncate(text.floor_char_boundary(STUB_BYTES));
            }
            shown
        });
        shown.collect()
    }
}

impl From<domain::QueuedPrompt> for QueuedPrompt {
    fn from(prompt: domain::QueuedPrompt) -> Self {
        let kept = kept(&prompt.body).unwrap_or_default();
        Self {
            uuid: prompt.uuid,
            text: kept.text,
            content: kept.content,
            priority: kept.priority,
            should_query: kept.should_query,
            client_composed: kept.client_composed,
            pasted_content: kept.pasted_content,
            inline_pastes: kept.inline_pastes,
            origin: kept.origin,
            held: prompt.held,
            queued_at: prompt.at,
            truncated: false,
        }
    }
}

/// The messages of a session that wait in the daemon, in their order.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct QueuedPromptList {
    /// The messages.
    pub(in crate::http) items: Vec<QueuedPrompt>,
}
