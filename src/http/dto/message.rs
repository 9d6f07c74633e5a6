//! Owns messages: what is sent to the agent, and the conversation as it is read back.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value, value::RawValue};
use uuid::Uuid;

use super::{Turn, TurnResult};
use crate::{
    claude::stdin::Priority,
    domain::{Seq, Timestamp},
    http::{ApiError, ErrorCode},
    journal::Missing,
    supervisor::{self, AboutMessage, Content, NewMessage},
};

/// A message to the agent: `text` or `content`, one of the two.
#[derive(Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"text": "Run the tests."}))]
pub(in crate::http) struct SendRequest {
    /// Plain text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    /// Content blocks of the model API, passed on byte for byte.
    #[schema(value_type = Option<Vec<Object>>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<Box<RawValue>>,
    /// An id of the client's own. The same message sent again with it is not run again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uuid: Option<Uuid>,
    /// When it is taken up during a turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) priority: Option<Priority>,
    /// `false`: the message is added to the conversation and starts no turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) should_query: Option<bool>,
    /// Whether it reaches the model as it is: no `@path` expansion, no slash commands. Default: as the option `verbatim_prompts` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) client_composed: Option<bool>,
    /// The parts of it that were pasted, each as the content of a message; passed on byte for byte.
    #[schema(value_type = Option<Vec<Value>>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pasted_content: Option<Box<RawValue>>,
    /// The pasted texts that stand in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inline_pastes: Option<Vec<String>>,
    /// Where it comes from, in the SDK's words, such as `{"kind": "human"}`; passed on byte for byte. The CLI takes a message without it
    /// for one of nobody in particular.
    #[schema(value_type = Option<Object>, example = json!({"kind": "human"}))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<Box<RawValue>>,
}

/// A member of a message that begins with this character.
fn of_kind(
    name: &'static str,
    value: Option<Box<RawValue>>,
    (first, kind): (char, &str),
) -> Result<Option<Box<RawValue>>, ApiError> {
    match value {
        Some(value) if !value.get().starts_with(first) => Err(ApiError::new(ErrorCode::InvalidField)
            .detail(format!("{name}: expected {kind}"))
            .member("field", name)),
        value => Ok(value),
    }
}

impl SendRequest {
    /// The message in the supervisor's form. A message without an id gets `uuid`.
    pub(in crate::http) fn into_message(self, uuid: Uuid) -> Result<NewMessage, ApiError> {
        let content = match (self.text, self.content) {
            (Some(text), None) => Content::Text(text),
            (None, Some(blocks)) if blocks.get().starts_with('[') => Content::Blocks(blocks),
            (None, Some(_)) => {
                return Err(ApiError::new(ErrorCode::InvalidField)
                    .detail("content: expected an array of content blocks")
                    .member("field", "content"));
            }
            (Some(_), Some(_)) => {
                return Err(ApiError::new(ErrorCode::InvalidField)
                    .detail("send text or content, not both")
                    .member("field", "content"));
            }
            (None, None) => return Err(ErrorCode::EmptyPrompt.into()),
        };
        Ok(NewMessage {
            content,
            uuid: Some(self.uuid.unwrap_or(uuid)),
            priority: self.priority,
            should_query: self.should_query,
            about: AboutMessage {
                client_composed: self.client_composed,
                pasted_content: of_kind("pasted_content", self.pasted_content, ('[', "an array"))?,
                // Texts can always be written.
                inline_pastes: self
                    .inline_pastes
                    .and_then(|pastes| serde_json::value::to_raw_value(&pastes).ok()),
                origin: of_kind("origin", self.origin, ('{', "an object"))?,
            },
        })
    }
}

/// The first message of a session: its text, or the same object that is sent to a session.
#[derive(Debug)]
pub(in crate::http) struct Prompt(SendRequest);

impl Prompt {
    pub(super) fn into_message(self, uuid: Uuid) -> Result<NewMessage, ApiError> {
        self.0.into_message(uuid)
    }
}

impl<'de> Deserialize<'de> for Prompt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> de::Visitor<'de> for Either {
            type Value = SendRequest;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a message")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<SendRequest, E> {
                Ok(SendRequest {
                    text: Some(text.to_owned()),
                    ..SendRequest::default()
                })
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<SendRequest, A::Error> {
                SendRequest::deserialize(de::value::MapAccessDeserializer::new(map))
            }
        }

        // In one pass with the body around it, so that an error has its place in the whole body.
        deserializer.deserialize_any(Either).map(Self)
    }
}

impl utoipa::PartialSchema for Prompt {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        utoipa::openapi::OneOfBuilder::new()
            .description(Some(
                "A message: its text, or the object that is sent to a session.",
            ))
            .item(utoipa::openapi::ObjectBuilder::new().schema_type(utoipa::openapi::Type::String))
            .item(utoipa::openapi::Ref::from_schema_name("SendRequest"))
            .into()
    }
}

impl utoipa::ToSchema for Prompt {
    fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
        schemas.push((
            <SendRequest as utoipa::ToSchema>::name().into_owned(),
            <SendRequest as utoipa::PartialSchema>::schema(),
        ));
        <SendRequest as utoipa::ToSchema>::schemas(schemas);
    }
}

/// A message was taken. With `wait=result` it was answered too.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct SendReply {
    /// The message's id.
    pub(in crate::http) uuid: Uuid,
    /// Its record.
    pub(in crate::http) seq: Seq,
    /// Whether it had been sent before and was not run again.
    pub(in crate::http) repeated: bool,
    /// The turn that answered it; with `wait=result` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) turn: Option<Turn>,
    /// The CLI's result message, byte for byte; with `wait=result` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub(in crate::http) result: Option<Box<RawValue>>,
}

impl SendReply {
    pub(in crate::http) fn new(accepted: &supervisor::Accepted, outcome: Option<TurnResult>) -> Self {
        let (turn, result) = outcome.map(|outcome| (outcome.turn, outcome.result)).unzip();
        let result = result.flatten();
        Self {
            uuid: accepted.uuid,
            seq: accepted.seq,
            repeated: accepted.repeated,
            turn,
            result,
        }
    }
}

/// The speaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum Role {
    /// A person, or a tool's result.
    User,
    /// The agent.
    Assistant,
}

/// One message of a conversation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ConversationItem {
    /// The record in which it begins.
    pub(in crate::http) seq: Seq,
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    pub(in crate::http) ts: Timestamp,
    /// The speaker.
    pub(in crate::http) role: Role,
    /// The CLI's id of the message's last line, or the client's id of a prompt; what a fork takes as `at`.
    pub(in crate::http) uuid: Option<String>,
    /// The model API's id of an assistant message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) message_id: Option<String>,
    /// Text or content blocks, byte for byte.
    #[schema(value_type = Value)]
    pub(in crate::http) content: Box<RawValue>,
    /// The tool call of the sub-agent that speaks; absent for the main conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) parent_tool_use_id: Option<String>,
    /// `true` when the CLI wrote it in a person's place: a summary, the output of a command, the note of an interruption. Absent
    /// otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::http) synthetic: bool,
    /// `true` when it was said in the session that this is a fork of, before the fork. Absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::http) copied: bool,
}

/// A page of a conversation, in its order.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ConversationPage {
    /// The messages.
    pub(in crate::http) items: Vec<ConversationItem>,
    /// Where the next page begins; `null` at the end of what there is now, and with `order=desc`.
    pub(in crate::http) next_cursor: Option<String>,
    /// With `order=desc` the `before` of the page of older messages; absent when there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) next_before: Option<Seq>,
}

/// A page of a journal.
#[derive(utoipa::ToSchema)]
#[expect(
    dead_code,
    reason = "documents a body that is put together from the journal's bytes"
)]
pub(in crate::http) struct EventPage {
    /// The records, byte for byte as in the journal, save stubs.
    items: Vec<Record>,
    /// The `after` of the next page. With `order=desc` the newest record of this page, after which newer ones follow.
    next_after: Seq,
    /// With `order=desc` the `before` of the page of older records; absent when there are none.
    next_before: Option<Seq>,
    /// The last record that there is.
    head_seq: Seq,
    /// Records that this page would hold and that are missing, and why.
    missing: Option<Vec<Missing>>,
}

/// Any JSON object.
type Object = Map<String, Value>;

/// Stands for a record, whose schema is written by hand.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "gives a schema its name")]
pub(in crate::http) struct Record(Object);

#[cfg(test)]
mod tests {
    use super::*;

    fn message(json: &str) -> Result<NewMessage, ErrorCode> {
        serde_json::from_str::<SendRequest>(json)
            .unwrap()
            .into_message(Uuid::nil())
            .map_err(|error| error.code())
    }

    #[test]
    fn a_message_is_text_or_blocks() {
        assert!(matches!(message(r#"{"text":"hi"}"#).unwrap().content, Content::Text(text) if text == "hi"));
        let blocks = message(r#"{"content":[ {"type":"text","text":"\ud83d"} ]}"#)
            .unwrap()
            .content;
        assert!(
            matches!(blocks, Content::Blocks(raw) if raw.get() == r#"[ {"type":"text","text":"\ud83d"} ]"#)
        );
        assert_eq!(message("{}").unwrap_err(), ErrorCode::EmptyPrompt);
        for bad in [r#"{"content":"hi"}"#, r#"{"text":"a","content":[]}"#] {
            assert_eq!(message(bad).unwrap_err(), ErrorCode::InvalidField, "{bad}");
        }
    }

    #[test]
    fn a_first_prompt_may_be_a_bare_text() {
        for (json, good) in [
            (r#""hi""#, true),
            (r#"{"text":"hi","priority":"now"}"#, true),
            (r#"{"txt":"hi"}"#, false),
            ("7", false),
        ] {
            assert_eq!(serde_json::from_str::<Prompt>(json).is_ok(), good, "{json}");
        }
    }
}
