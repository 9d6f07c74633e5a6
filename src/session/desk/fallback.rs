//! Owns the stated answers to requests of the CLI that got no other: never silence, never an invented decision of a person.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};

use crate::{
    claude::{answer, stdin},
    domain::ErrorCode,
};

use super::{
    book::{About, Asked},
    route::Route,
};

/// Why a stated answer was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::session) enum FallbackReason {
    /// The client that owns the request is not attached, or nobody is.
    NoClient,
    /// The owner did not answer in time.
    #[serde(rename = "timeout", alias = "late")]
    Late,
    /// Nobody registered the hook or the server.
    Unregistered,
    /// The webhook could not be called, or did not answer as it must.
    WebhookFailed,
    /// The MCP server behind the URL could not be reached, or did not answer as it must.
    #[serde(rename = "mcp_server_failed", alias = "bridge_failed")]
    BridgeFailed,
    /// The daemon was restarted in the middle of a call that may have had effects.
    #[serde(rename = "outcome_unknown", alias = "uncertain")]
    Uncertain,
    /// The answer holds a secret, and the keeper is of an older version, which would journal it.
    #[serde(rename = "secret_refused", alias = "unsupported")]
    Unsupported,
}

/// A request that got the stated answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::session) struct Fallback {
    pub(in crate::session) request_id: String,
    pub(in crate::session) subtype: String,
    pub(in crate::session) reason: FallbackReason,
}

impl FallbackReason {
    /// The JSON name.
    pub(in crate::session) const fn as_str(self) -> &'static str {
        match self {
            Self::NoClient => "no_client",
            Self::Late => "timeout",
            Self::Unregistered => "unregistered",
            Self::WebhookFailed => "webhook_failed",
            Self::BridgeFailed => "mcp_server_failed",
            Self::Uncertain => ErrorCode::OutcomeUnknown.as_str(),
            Self::Unsupported => ErrorCode::SecretRefused.as_str(),
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::NoClient => "the client that answers this is not connected",
            Self::Late => "no answer came in time",
            Self::Unregistered => "nobody answers this",
            Self::WebhookFailed => "the webhook gave no answer",
            Self::BridgeFailed => "the server cannot be reached",
            Self::Uncertain => "the daemon was restarted during the call, which may have run",
            Self::Unsupported => "the answer could not be kept out of the journal",
        }
    }
}

/// JSON-RPC's range for errors of an implementation's own.
const RPC_ERROR: i64 = -32_000;

/// The line that answers a request in the place of its owner.
pub(super) fn answer(asked: &Asked, route: &Route, reason: FallbackReason) -> Bytes {
    let id = &asked.request.request_id;
    let payload = match &asked.about {
        About::Hook { event, .. } => Some(match &route.fallback {
            Some(fallback) => fallback.clone(),
            None if route.blocks => raw(&refusal(event, reason)),
            None => raw(&json!({})),
        }),
        About::Mcp { id: Some(id), .. } => Some(mcp_error(id, reason.text())),
        // As the official SDK answers notifications.
        About::Mcp { id: None, .. } => Some(notified()),
        About::Credentials | About::Other => None,
    };
    Bytes::from(match payload {
        Some(payload) => stdin::control_success(id, Some(&payload)),
        None => stdin::control_error(id, reason.text(), Some("unsupported_request")),
    })
}

/// The answer to a notification.
pub(super) fn notified() -> Box<RawValue> {
    raw(&json!({"mcp_response": {"jsonrpc": "2.0", "result": {}, "id": 0}}))
}

/// The JSON-RPC error for the request with this raw id.
pub(super) fn mcp_error(id: &RawValue, text: &str) -> Box<RawValue> {
    let error = json!({"code": RPC_ERROR, "message": text});
    let response = format!(
        r#"{{"mcp_response":{{"jsonrpc":"2.0","id":{},"error":{error}}}}}"#,
        id.get()
    );
    RawValue::from_string(response).unwrap_or_else(|_| raw(&json!({})))
}

/// A refusal in the form that the event takes. Where "block" means to go on working, as at the end of a turn, it would be
/// no refusal; there and where nothing can be blocked the hook has no opinion.
fn refusal(event: &str, reason: FallbackReason) -> serde_json::Value {
    let text = format!("the hook could not be asked: {}", reason.text());
    match event {
        "PreToolUse" | "PreSkillShellCommand" | "PreModelSwitch" => json!({"hookSpecificOutput": {
            "hookEventName": event, "permissionDecision": "deny", "permissionDecisionReason": text,
        }}),
        "PermissionRequest" => json!({"hookSpecificOutput": {
            "hookEventName": event, "decision": {"behavior": "deny", "message": text},
        }}),
        "Elicitation" | "ElicitationResult" => json!({"hookSpecificOutput": {
            "hookEventName": event, "action": "decline",
        }}),
        event if answer::block_goes_on(event) || !answer::can_block(event) => json!({}),
        _ => json!({"decision": "block", "reason": text}),
    }
}

fn raw(value: &serde_json::Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

#[cfg(test)]
mod tests;
