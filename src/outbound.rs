//! Owns the HTTP that the daemon makes itself: calls of webhooks and the bridge to MCP servers. The sessions decide what
//! follows from the answers.
//!
//! Redirects are not followed: a signed body goes to the address that was registered and nowhere else. No proxy is taken
//! from the environment: most targets are on this machine, and what the daemon happened to be started with must not
//! decide who reads the bodies. Answers are bounded in bytes.

mod client;
mod endpoint;
pub mod mcp;
mod message;
mod sse;
mod stream;
pub mod webhook;

pub use client::{Outbound, RequestError};
pub use endpoint::{EndpointError, McpEndpoint};
pub use mcp::{BridgeError, McpBridge};
pub use webhook::{Delivery, Untold, Webhook, WebhookError};

pub use crate::domain::{Secret, SigningKey, WebUrl, WebUrlError};
