//! Owns the launch options that have the CLI call back: hooks, and MCP servers that live outside of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{domain::ClientId, json::JsonObject};

/// The CLI asks before or after something, and a target answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Hook {
    /// The event, as the CLI names it: `PreToolUse`, `UserPromptSubmit`, `Stop`, …
    #[schema(min_length = 1, max_length = 128)]
    pub event: String,
    /// Which of its occurrences, such as a tool's name or `Edit|Write`. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matcher: Option<String>,
    /// How long the CLI waits for the answer, 1000 to 3600000. The daemon's fallback comes a little earlier.
    /// Default: 60000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1_000, maximum = 3_600_000)]
    pub timeout_ms: Option<u64>,
    /// The outcome when no answer can be had. Default: `continue`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// The party that answers.
    pub target: HookTarget,
    /// The answer when the target is gone, late or fails: a hook output, as the CLI takes it. Default: no opinion (`{}`),
    /// or, with `on_failure: block`, a refusal in the form that the event takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<JsonObject>,
}

/// The outcome when a hook gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// As if the hook were not there.
    Continue,
    /// The event that the hook was asked about does not happen.
    Block,
}

/// The party that answers a hook.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "FlatTarget", tag = "type", rename_all = "snake_case")]
pub enum HookTarget {
    /// A client on a WebSocket, by the `client_id` that it attaches with.
    Client {
        /// Its name.
        client_id: ClientId,
    },
    /// An HTTP address that is posted to.
    Webhook {
        /// The address: `http` or `https`, without user name or password. Values in its query are never given back.
        url: String,
        /// The key of the Standard Webhooks signature that each delivery carries: `whsec_` and 24 to 64 bytes in base64, or
        /// any other text, which is the key as it stands. Never given back. Default: not signed.
        #[serde(skip_serializing_if = "Option::is_none")]
        secret: Option<String>,
        /// Most tries before the deadline, 1 to 10. Default: 3.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(minimum = 1, maximum = 10)]
        attempts: Option<u8>,
    },
    /// Always the same answer.
    Fixed {
        /// A hook output, as the CLI takes it.
        output: JsonObject,
    },
}

/// Without what may be secret.
impl std::fmt::Debug for HookTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Client { client_id } => return write!(f, "Client({client_id})"),
            Self::Webhook { .. } => "Webhook",
            Self::Fixed { .. } => "Fixed",
        })
    }
}

/// The targets in one: raw JSON cannot be read inside an enum that is told apart by a member.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlatTarget {
    r#type: TargetType,
    client_id: Option<ClientId>,
    url: Option<String>,
    secret: Option<String>,
    attempts: Option<u8>,
    headers: Option<BTreeMap<String, String>>,
    output: Option<JsonObject>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TargetType {
    Client,
    Webhook,
    Fixed,
    Url,
}

/// The targets of hooks and of MCP servers.
enum Target {
    Client {
        client_id: ClientId,
    },
    Webhook {
        url: String,
        secret: Option<String>,
        attempts: Option<u8>,
    },
    Fixed {
        output: JsonObject,
    },
    Url {
        url: String,
        headers: Option<BTreeMap<String, String>>,
    },
}

impl FlatTarget {
    /// `None` when a member is missing, or is one of another target.
    fn target(mut self) -> Option<Target> {
        let target = match self.r#type {
            TargetType::Client => Target::Client {
                client_id: self.client_id.take()?,
            },
            TargetType::Webhook => Target::Webhook {
                url: self.url.take()?,
                secret: self.secret.take(),
                attempts: self.attempts.take(),
            },
            TargetType::Fixed => Target::Fixed {
                output: self.output.take()?,
            },
            TargetType::Url => Target::Url {
                url: self.url.take()?,
                headers: self.headers.take(),
            },
        };
        let Self {
            r#type: _,
            client_id: None,
            url: None,
            secret: None,
            attempts: None,
            headers: None,
            output: None,
        } = self
        else {
            return None;
        };
        Some(target)
    }
}

impl TryFrom<FlatTarget> for HookTarget {
    type Error = &'static str;

    fn try_from(flat: FlatTarget) -> Result<Self, Self::Error> {
        match flat.target() {
            Some(Target::Client { client_id }) => Ok(Self::Client { client_id }),
            Some(Target::Webhook {
                url,
                secret,
                attempts,
            }) => Ok(Self::Webhook {
                url,
                secret,
                attempts,
            }),
            Some(Target::Fixed { output }) => Ok(Self::Fixed { output }),
            Some(Target::Url { .. }) | None => Err(
                "a hook's target is client with client_id, webhook with url (secret, attempts), or fixed with output",
            ),
        }
    }
}

/// An MCP server that is no process of the CLI: its messages go to a client or to a URL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SdkMcpServer {
    /// The party that serves it.
    pub target: McpTarget,
    /// Its answers to `initialize` and `tools/list` (`initializeResult`, `toolsListResult`), so that the CLI need not
    /// ask. Default: it is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<JsonObject>,
    /// How long one call of a tool may take, at least 1. Default: the CLI's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_i64)]
    pub timeout_ms: Option<u64>,
    /// Policies of single tools, as the CLI takes them. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1_000)]
    pub tools: Option<Vec<JsonObject>>,
}

/// The party that serves an MCP server.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(try_from = "FlatTarget", tag = "type", rename_all = "snake_case")]
pub enum McpTarget {
    /// A client on a WebSocket, by the `client_id` that it attaches with.
    Client {
        /// Its name.
        client_id: ClientId,
    },
    /// A server that speaks MCP over streamable HTTP.
    Url {
        /// The address: `http` or `https`, without user name or password. Values in its query are never given back.
        url: String,
        /// Headers of each request. Values are never given back. Default: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        headers: Option<BTreeMap<String, String>>,
    },
}

/// Without what may be secret.
impl std::fmt::Debug for McpTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Client { client_id } => write!(f, "Client({client_id})"),
            Self::Url { .. } => f.write_str("Url"),
        }
    }
}

impl TryFrom<FlatTarget> for McpTarget {
    type Error = &'static str;

    fn try_from(flat: FlatTarget) -> Result<Self, Self::Error> {
        match flat.target() {
            Some(Target::Client { client_id }) => Ok(Self::Client { client_id }),
            Some(Target::Url { url, headers }) => Ok(Self::Url { url, headers }),
            Some(Target::Webhook { .. } | Target::Fixed { .. }) | None => {
                Err("an MCP server's target is client with client_id, or url with url (headers)")
            }
        }
    }
}
