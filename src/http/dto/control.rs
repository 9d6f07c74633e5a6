//! Owns the bodies of the routes that steer a CLI, and what they answer.

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{
    claude::controls::{AccountInfo, AgentInfo, ModelInfo, SlashCommand},
    domain::Seq,
    json::JsonObject,
    supervisor::Offered,
};

/// How to interrupt. May be left out.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct InterruptRequest {
    /// Whether prompts that wait for their turn are dropped as well.
    #[serde(default)]
    pub(in crate::http) cancel_queued: bool,
}

/// A model to change to.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"model": "opus"}))]
pub(in crate::http) struct ModelRequest {
    /// An alias or a full name; `null` for the default.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(
        required,
        min_length = 1,
        max_length = 1024,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
    )]
    pub(in crate::http) model: Option<String>,
}

/// A permission mode to change to.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"mode": "acceptEdits"}))]
pub(in crate::http) struct PermissionModeRequest {
    /// The mode as the CLI names it.
    pub(in crate::http) mode: String,
}

/// How much to think from now on.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"max_thinking_tokens": 8000}))]
pub(in crate::http) struct ThinkingRequest {
    /// Most tokens for thinking; 0 turns it off, `null` gives the default back.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required, format = Int64, maximum = 4_294_967_295_i64)]
    pub(in crate::http) max_thinking_tokens: Option<u32>,
    /// How thinking is shown: `summarized`, `omitted` or `highlights`.
    #[schema(pattern = "^(summarized|omitted|highlights)$")]
    pub(in crate::http) display: Option<String>,
}

/// How much is to be said of the context.
#[derive(Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum Detail {
    /// The sums; cheaper.
    Summary,
    /// Every part.
    Full,
}

/// MCP servers to use.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"servers": {"files": {"type": "stdio", "command": "mcp-files"}}}))]
pub(in crate::http) struct McpServersRequest {
    /// How each is reached, by name, as the CLI takes it. They replace those that were set here before,
    /// and in-process servers: one that is to stay is named, as `{"type": "sdk", "name": …}`.
    pub(in crate::http) servers: JsonObject,
}

/// Whether an MCP server is used.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"enabled": false}))]
pub(in crate::http) struct McpServerRequest {
    /// Whether it is on.
    pub(in crate::http) enabled: bool,
}

/// Files to be given back their earlier content.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"user_message_id": "0192f0c1-2b3c-7d4e-8f50-616263646566", "dry_run": true}))]
pub(in crate::http) struct RewindRequest {
    /// The message before which the files had that content: the `uuid` of a prompt.
    pub(in crate::http) user_message_id: String,
    /// Whether it is only said what would change.
    #[serde(default)]
    pub(in crate::http) dry_run: bool,
}

/// Settings to change.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"settings": {"effortLevel": "high"}}))]
pub(in crate::http) struct SettingsRequest {
    /// The settings as the CLI names them; `null` takes one back. They hold for later processes too.
    pub(in crate::http) settings: JsonObject,
}

/// The work to move to the background. May be left out.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct BackgroundRequest {
    /// One tool call only.
    pub(in crate::http) tool_use_id: Option<String>,
}

/// A control request as a client sends it: an object with a `subtype`, kept byte for byte.
pub(in crate::http) struct ControlRequest {
    pub(in crate::http) subtype: String,
    pub(in crate::http) request: JsonObject,
}

impl<'de> Deserialize<'de> for ControlRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Head {
            subtype: String,
        }
        let request = JsonObject::deserialize(deserializer)?;
        let head: Head = serde_json::from_str(request.get()).map_err(de::Error::custom)?;
        Ok(Self {
            subtype: head.subtype,
            request,
        })
    }
}

/// The CLI's answer.
#[derive(Serialize)]
pub(in crate::http) struct ControlReply<T> {
    /// The answer, byte for byte; `null` when the CLI has nothing to say beyond success.
    pub(in crate::http) response: Option<T>,
}

/// The answers of the short routes, as the contract shows them: generic types cannot be named there.
pub(in crate::http) mod documented {
    use super::ControlReply;
    use crate::claude::controls::*;

    pub(in crate::http) type ContextUsageReply = ControlReply<ContextUsagePayload>;
    pub(in crate::http) type EmptyReply = ControlReply<EmptyPayload>;
    pub(in crate::http) type InterruptReply = ControlReply<InterruptPayload>;
    pub(in crate::http) type McpSetServersReply = ControlReply<McpSetServersPayload>;
    pub(in crate::http) type McpStatusReply = ControlReply<McpStatusPayload>;
    pub(in crate::http) type NoReply = ControlReply<NoPayload>;
    pub(in crate::http) type RewindFilesReply = ControlReply<RewindFilesPayload>;
    pub(in crate::http) type SetModelReply = ControlReply<SetModelPayload>;
    pub(in crate::http) type SetPermissionModeReply = ControlReply<SetPermissionModePayload>;
    pub(in crate::http) type SettingsReply = ControlReply<SettingsPayload>;
    pub(in crate::http) type TaskOutputReply = ControlReply<TaskOutputPayload>;
}

/// The CLI's answer as it is sent: in its own bytes.
pub(in crate::http) type RawReply = ControlReply<Box<RawValue>>;

/// The CLI's answer to a request that was named by its subtype.
#[derive(Serialize)]
pub(in crate::http) struct AnyReply {
    /// The subtype of the request.
    pub(in crate::http) subtype: String,
    /// The answer, byte for byte; `null` when the CLI has nothing to say beyond success.
    pub(in crate::http) response: Option<Box<RawValue>>,
}

/// The slash commands and skills.
#[derive(ToSchema)]
#[expect(dead_code, reason = "documents a body that is made of the CLI's bytes")]
pub(in crate::http) struct CommandList {
    /// Each of them, as the CLI says it.
    items: Vec<SlashCommand>,
    /// The record that says it.
    seq: Seq,
}

/// The kinds of sub-agents.
#[derive(ToSchema)]
#[expect(dead_code, reason = "documents a body that is made of the CLI's bytes")]
pub(in crate::http) struct AgentList {
    /// Each of them, as the CLI says it.
    items: Vec<AgentInfo>,
    /// The record that says it.
    seq: Seq,
}

/// The models.
#[derive(ToSchema)]
#[expect(dead_code, reason = "documents a body that is made of the CLI's bytes")]
pub(in crate::http) struct ModelList {
    /// Each of them, as the CLI says it.
    items: Vec<ModelInfo>,
    /// The record that says it.
    seq: Seq,
}

/// The account that the CLI uses.
#[derive(ToSchema)]
#[expect(dead_code, reason = "documents a body that is made of the CLI's bytes")]
pub(in crate::http) struct Account {
    /// The account, as the CLI describes it.
    account: Option<AccountInfo>,
    /// The record that says it.
    seq: Seq,
}

/// A list of the CLI's, as it is sent.
#[derive(Serialize)]
pub(in crate::http) struct RawList {
    pub(super) items: Box<RawValue>,
    pub(super) seq: Option<Seq>,
}

impl From<Option<Offered>> for RawList {
    fn from(offered: Option<Offered>) -> Self {
        let (items, seq) = offered.map(|offered| (offered.value, offered.seq)).unzip();
        Self {
            items: items.flatten().unwrap_or_else(nothing),
            seq,
        }
    }
}

/// An empty list.
fn nothing() -> Box<RawValue> {
    serde_json::value::to_raw_value::<[(); 0]>(&[]).unwrap_or_default()
}

/// An account, as it is sent.
#[derive(Serialize)]
pub(in crate::http) struct RawAccount {
    pub(in crate::http) account: Option<Box<RawValue>>,
    pub(in crate::http) seq: Option<Seq>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_must_be_named_or_null() {
        assert!(serde_json::from_str::<ModelRequest>("{}").is_err());
        assert!(
            serde_json::from_str::<ModelRequest>(r#"{"model":null}"#)
                .unwrap()
                .model
                .is_none()
        );
    }

    #[test]
    fn a_control_request_keeps_its_bytes() {
        let text = r#"{ "b":1.0, "subtype" : "x\u0079", "a":"\ud800" }"#;
        let request: ControlRequest = serde_json::from_str(text).unwrap();
        assert_eq!((request.subtype.as_str(), request.request.get()), ("xy", text));
        for bad in [
            r#"{"a":1}"#,
            r#"{"subtype":1}"#,
            "[]",
            r#"{"subtype":"a","subtype":"b"}"#,
        ] {
            assert!(serde_json::from_str::<ControlRequest>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_list_without_a_word_of_the_cli_is_empty() {
        let list = serde_json::to_string(&RawList::from(None)).unwrap();
        assert_eq!(list, r#"{"items":[],"seq":null}"#);
    }
}
