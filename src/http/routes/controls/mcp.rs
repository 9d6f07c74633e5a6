//! Owns the routes of a session's MCP servers.

use axum::{Json, extract::State};

use super::{ask, field};
use crate::{
    claude::control::Fields,
    http::{
        ApiError, AppState,
        dto::{McpServerRequest, McpServersRequest, RawReply, documented},
        extract::{Body, OfNamed, OfSession},
    },
};

/// List the MCP servers.
///
/// Each server with its state and its tools, as the CLI has it now. The session must have a process.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/mcp", operation_id = "list_mcp_servers", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 200, description = "The CLI's answer", body = documented::McpStatusReply)),
)]
pub(in crate::http::routes) async fn status(
    State(state): State<AppState>,
    OfSession(id): OfSession,
) -> Result<Json<RawReply>, ApiError> {
    ask(&state, id, "mcp_status", &Fields::new()).await
}

/// Replace the MCP servers that were set at run time.
///
/// The in-process servers of the launch are replaced as well; those of `mcp_servers` stay. One that cannot
/// be reached is no failure of the request: it is named in `errors`.
#[utoipa::path(
    put, path = "/v1/sessions/{id}/mcp", operation_id = "set_mcp_servers", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")), request_body = McpServersRequest,
    responses((status = 200, description = "The CLI's answer", body = documented::McpSetServersReply)),
)]
pub(in crate::http::routes) async fn set_servers(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Body(request): Body<McpServersRequest>,
) -> Result<Json<RawReply>, ApiError> {
    ask(&state, id, "mcp_set_servers", &field("servers", &request.servers)).await
}

/// Turn an MCP server on or off.
///
/// The CLI connects to a server that is turned on, and drops the tools of one that is turned off.
#[utoipa::path(
    put, path = "/v1/sessions/{id}/mcp/{server}", operation_id = "set_mcp_server", tag = "controls",
    params(
        ("id" = Uuid, Path, description = "The session"),
        ("server" = String, Path, description = "The server's name, percent-encoded: a slash in it is %2F"),
    ),
    request_body = McpServerRequest,
    responses((status = 200, description = "The CLI's answer", body = documented::NoReply)),
)]
pub(in crate::http::routes) async fn set_server(
    State(state): State<AppState>,
    OfNamed(id, server): OfNamed,
    Body(request): Body<McpServerRequest>,
) -> Result<Json<RawReply>, ApiError> {
    let mut fields = field("serverName", &server);
    fields.set("enabled", &request.enabled);
    ask(&state, id, "mcp_toggle", &fields).await
}

/// Connect to an MCP server again.
///
/// For a server that failed or whose login has changed. The answer comes when the CLI has tried.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/mcp/{server}/reconnect", operation_id = "reconnect_mcp_server", tag = "controls",
    params(
        ("id" = Uuid, Path, description = "The session"),
        ("server" = String, Path, description = "The server's name, percent-encoded: a slash in it is %2F"),
    ),
    responses((status = 200, description = "The CLI's answer", body = documented::NoReply)),
)]
pub(in crate::http::routes) async fn reconnect(
    State(state): State<AppState>,
    OfNamed(id, server): OfNamed,
) -> Result<Json<RawReply>, ApiError> {
    ask(&state, id, "mcp_reconnect", &field("serverName", &server)).await
}
