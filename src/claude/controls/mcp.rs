//! Owns the controls of MCP servers.

use std::collections::BTreeMap;

use serde::Deserialize;
use utoipa::ToSchema;

use super::Text;
use crate::json::JsonObject;

/// List the MCP servers.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct McpStatusControl {
    /// Whether the servers are asked once more.
    #[serde(rename = "liveReply")]
    pub live_reply: Option<bool>,
}

/// The MCP servers.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct McpStatusPayload {
    /// Each server.
    #[serde(rename = "mcpServers")]
    pub mcp_servers: Option<Vec<McpServer>>,
}

/// An MCP server.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServer {
    /// Its name.
    pub name: Option<String>,
    /// `connected`, `failed`, `needs-auth`, `pending`, `disabled`, …
    pub status: Option<String>,
    /// Its description of itself.
    pub server_info: Option<McpServerInfo>,
    /// The error.
    pub error: Option<String>,
    /// How it is reached.
    pub config: Option<JsonObject>,
    /// `stdio`, `http`, `sse`, …
    pub transport: Option<String>,
    /// Where it was set: `dynamic`, `project`, `user`, …
    pub scope: Option<String>,
    /// The file or plug-in that it comes from.
    pub source: Option<String>,
    /// Its tools.
    pub tools: Option<Vec<McpTool>>,
}

/// An MCP server's description of itself.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct McpServerInfo {
    /// Its name.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
}

/// A tool of an MCP server.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct McpTool {
    /// Its name.
    pub name: Option<String>,
    /// A description.
    pub description: Option<String>,
    /// Its hints: `readOnly`, `destructive`, `openWorld`, …
    pub annotations: Option<JsonObject>,
}

/// Replace the MCP servers that were set at run time.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct McpSetServersControl {
    /// How each is reached, by name.
    pub servers: JsonObject,
}

/// The result of setting the MCP servers. One that failed is in both `added` and `errors`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct McpSetServersPayload {
    /// New ones.
    pub added: Option<Vec<String>>,
    /// Those that are gone.
    pub removed: Option<Vec<String>>,
    /// The errors, by name.
    pub errors: Option<BTreeMap<String, String>>,
}

/// Connect to an MCP server again.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct McpReconnectControl {
    /// Its name.
    #[serde(rename = "serverName")]
    #[schema(value_type = String)]
    pub server_name: Text,
}

/// Turn an MCP server on or off.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct McpToggleControl {
    /// Its name.
    #[serde(rename = "serverName")]
    #[schema(value_type = String)]
    pub server_name: Text,
    /// Whether it is on.
    pub enabled: bool,
}

/// Call a tool of an MCP server.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct McpCallControl {
    /// The tool's full name.
    #[schema(value_type = String)]
    pub tool: Text,
    /// Its arguments.
    pub arguments: Option<JsonObject>,
    /// Whether a failure of the tool is an answer and no error.
    pub soft_error_result: Option<bool>,
    /// When the call is of no use any more.
    #[schema(value_type = Option<String>)]
    pub expires_at: Option<Text>,
    /// How long the tool may take, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Whether the result is kept from the model.
    pub result_not_for_model: Option<bool>,
    /// Whether the permission rules are asked.
    pub check_permissions: Option<bool>,
    /// Files that go in.
    pub input_files: Option<Vec<JsonObject>>,
    /// Files that come out.
    pub output_files: Option<Vec<JsonObject>>,
}

/// Send a message of an in-process MCP server to the CLI.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct McpMessageControl {
    /// The server.
    #[schema(value_type = String)]
    pub server_name: Text,
    /// A JSON-RPC message.
    pub message: JsonObject,
}

/// Read a resource of an MCP server.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct McpReadResourceControl {
    /// The server.
    #[serde(rename = "serverName")]
    #[schema(value_type = String)]
    pub server_name: Text,
    /// The resource; the CLI takes `ui://` only.
    #[schema(value_type = String)]
    pub uri: Text,
}

/// A resource.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct McpReadResourcePayload {
    /// Its parts.
    pub contents: Option<Vec<McpResourceContent>>,
}

/// A part of a resource.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct McpResourceContent {
    /// Where it is.
    pub uri: Option<String>,
    /// Its media type.
    #[serde(rename = "mimeType")]
    pub mime_type: Option<String>,
    /// Its text.
    pub text: Option<String>,
    /// Its bytes in Base64.
    pub blob: Option<String>,
}

/// Give the tools of an MCP server a permission mode of their own.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct McpModeOverrideControl {
    /// The server.
    #[serde(rename = "serverName")]
    #[schema(value_type = String)]
    pub server_name: Text,
    /// `default` or `auto`; `null` takes it back.
    #[schema(value_type = Option<String>)]
    pub mode: Option<Text>,
}

/// The CLI's remark on the override.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct McpModeOverridePayload {
    /// A remark.
    pub warning: Option<String>,
}

/// Let an MCP server send messages into the conversation.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ChannelEnableControl {
    /// The server.
    #[serde(rename = "serverName")]
    #[schema(value_type = String)]
    pub server_name: Text,
}
