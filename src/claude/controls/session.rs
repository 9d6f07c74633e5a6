//! Owns the controls of the conversation and of how it is carried on.

use serde::Deserialize;
use utoipa::ToSchema;

use super::Text;
use crate::json::JsonObject;

/// End the turn.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct InterruptControl {
    /// Whether prompts that wait for their turn are dropped as well.
    pub cancel_queued: Option<bool>,
}

/// The fate of the prompts that waited.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct InterruptPayload {
    /// The ids of prompts that still wait.
    pub still_queued: Option<Vec<String>>,
    /// The ids of prompts that were dropped.
    pub cancelled: Option<Vec<String>>,
}

/// Change the model.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SetModelControl {
    /// An alias or a full name; `null` or absent for the default.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 1024, pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$")]
    pub model: Option<Text>,
}

/// The model from here on.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SetModelPayload {
    /// Its full name.
    pub model: Option<String>,
}

/// Change the permission mode.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SetPermissionModeControl {
    /// The mode: `default`, `acceptEdits`, `bypassPermissions`, `plan`, `dontAsk`, `auto`, …
    #[schema(value_type = String)]
    pub mode: Text,
}

/// The permission mode from here on.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SetPermissionModePayload {
    /// The mode.
    pub mode: Option<String>,
}

/// Change how much the model thinks.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SetThinkingControl {
    /// Most tokens for thinking; 0 turns it off, `null` gives the default back.
    pub max_thinking_tokens: Option<u64>,
    /// How thinking is shown: `summarized`, `omitted` or `highlights`.
    #[schema(value_type = Option<String>, pattern = "^(summarized|omitted|highlights)$")]
    pub thinking_display: Option<Text>,
}

/// Give the conversation another title.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct RenameSessionControl {
    /// The title.
    #[schema(value_type = String)]
    pub title: Text,
    /// The side that gave it: `remote` or `host`.
    #[schema(value_type = Option<String>)]
    pub source: Option<Text>,
    /// Another conversation than this one.
    #[schema(value_type = Option<String>)]
    pub session_id: Option<Text>,
}

/// Give the session a color. CLIs refused it so far.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SetColorControl {
    /// The color.
    #[schema(value_type = String)]
    pub color: Text,
}

/// Take back a prompt that waits.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct CancelMessageControl {
    /// The prompt's id.
    #[schema(value_type = String)]
    pub message_uuid: Text,
}

/// Whether the prompt was taken back.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct CancelMessagePayload {
    /// `false` when it had begun, or is not known.
    pub cancelled: Option<bool>,
    /// The prompt's id.
    pub message_uuid: Option<String>,
}

/// Say whether anybody looks at the session.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SetHasSubscribersControl {
    /// `null` when it is not known.
    pub has_subscribers: Option<bool>,
}

/// Have the model find a title.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct GenerateTitleControl {
    /// A description of the conversation.
    #[schema(value_type = String)]
    pub description: Text,
    /// Whether the conversation is given the title.
    pub persist: Option<bool>,
}

/// A title.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct GenerateTitlePayload {
    /// `null` when none was found.
    pub title: Option<String>,
}

/// Ask the model beside the conversation.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SideQuestionControl {
    /// The question.
    #[schema(value_type = String)]
    pub question: Text,
    /// Earlier questions and answers.
    pub history: Option<Vec<JsonObject>>,
}

/// The answer to a side question.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SideQuestionPayload {
    /// The answer.
    pub response: Option<String>,
    /// Whether the CLI made it up, because the model gave none.
    pub synthetic: Option<bool>,
}

/// The conversation as a text.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ExportConversationPayload {
    /// The text.
    pub text: Option<String>,
    /// A name for the file.
    pub default_filename: Option<String>,
}

/// Stop suggesting prompts, or go on with it.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SetPausedControl {
    /// Whether it stops.
    pub paused: bool,
}

/// End the remote control of the session. It cannot be turned on: see the page on the protocol.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct RemoteControlControl {
    /// Must be `false`.
    pub enabled: bool,
    /// A name for the session.
    #[schema(value_type = Option<String>)]
    pub name: Option<Text>,
}

/// Say whether a message was good.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct MessageRatedControl {
    /// The id of the message of the model.
    #[serde(rename = "messageUuid")]
    #[schema(value_type = String)]
    pub message_uuid: Text,
    /// `positive` or `negative`.
    #[schema(value_type = String)]
    pub sentiment: Text,
    /// `tool_use` or `assistant_text`: what was rated.
    #[schema(value_type = Option<String>)]
    pub surface: Option<Text>,
    /// Whether the rating is taken back.
    pub cleared: Option<bool>,
}
