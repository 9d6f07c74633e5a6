//! Owns the WebSocket of a session: the upgrade, and what the sub-protocol `trunkline.v1` says in each direction.
//! `docs/PROTOCOL.md` is its description for clients.

mod close;
mod frames;
mod socket;
mod wire;

use axum::{
    extract::{
        State,
        ws::{WebSocketUpgrade, rejection::WebSocketUpgradeRejection},
    },
    http::{HeaderValue, header},
    response::Response,
};
use serde::Deserialize;

use super::{
    ApiError, AppState, ErrorCode,
    extract::{OfSession, Params},
};
use crate::{
    domain::{ClientId, Seq},
    session::{Attachment, ClientInbox},
};
use socket::{Client, Inbox, Limits};

/// The sub-protocol, and the one of a client that names none.
const PROTOCOL: &str = "trunkline.v1";
/// What a sub-protocol that carries the token begins with. It is never chosen.
const BEARER_PREFIX: &str = "bearer.";
/// Bytes that a socket reads at once. Idle sockets hold a buffer of this size each.
const READ_BUFFER_BYTES: usize = 8 * 1024;
/// Bytes that are gathered before they are written.
const WRITE_BUFFER_BYTES: usize = 64 * 1024;
/// Most bytes that wait for a client that does not read. It must hold the largest record, which is one message.
const MAX_WRITE_BUFFER_BYTES: usize = 256 * 1024 * 1024;
/// What a message may have beyond the largest prompt. It is read and answered with a close that says what is wrong;
/// more is not read at all.
const MESSAGE_OVERHEAD_BYTES: usize = 1024 * 1024;

/// How to attach.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AttachParams {
    /// Begin with the records after this number. Default: new records only.
    after: Option<u64>,
    /// The sub-protocol, for clients that cannot set a header: `trunkline.v1`.
    protocol: Option<String>,
    /// How the client names itself: 1 to 64 letters, digits, dots, dashes and underscores. Under this name it can come back and
    /// answer what it registered for. Default: the id of its connection.
    client_id: Option<ClientId>,
}

/// Attach to a session over WebSocket.
///
/// The first frame is a snapshot; then every record follows, one text frame each, byte for byte as in the journal.
/// Frames from the client go to the agent.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/ws", operation_id = "attach_session", tag = "events",
    params(("id" = Uuid, Path, description = "The session"), AttachParams),
    responses((status = 101, description = "The WebSocket is open")),
)]
pub(super) async fn attach(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Params(params): Params<AttachParams>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let upgrade = upgrade.map_err(|_| {
        ApiError::new(ErrorCode::UpgradeRequired)
            .header(header::UPGRADE, HeaderValue::from_static("websocket"))
    })?;
    let upgrade = choose_protocol(upgrade, params.protocol.as_deref())?;
    let permit = state.connections().admit(id)?;
    let view = state.supervisor().session(id).await?;
    let attachment = state
        .supervisor()
        .attach(id, params.after.map(Seq::new), params.client_id)
        .await?;
    let Attachment {
        connection,
        client: client_id,
        view: live,
        cursor,
        direct,
        inbox,
    } = attachment;
    let head = live.head_seq;
    let snapshot = frames::snapshot(view, live, (connection, client_id), cursor.position());
    let client = Client {
        first: snapshot,
        head,
        cursor,
        direct,
        inbox,
    };
    let config = state.config();
    let limits = Limits::of(config);
    let shutdown = state.shutdown().clone();
    let tracked = state.tracker().token();
    let max_bytes = config.max_prompt_bytes.saturating_add(2 * MESSAGE_OVERHEAD_BYTES);
    let response = upgrade
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_write_buffer_size(MAX_WRITE_BUFFER_BYTES)
        .max_message_size(max_bytes)
        .max_frame_size(max_bytes)
        .on_upgrade(move |socket| async move {
            let ended = socket::run(socket, client, limits, shutdown).await;
            tracing::info!(session.id = %id, conn.id = %connection, reason = ended, "WebSocket closed");
            drop((permit, tracked));
        });
    Ok(response)
}

/// Selects our sub-protocol, or none when the client offers none but its token.
fn choose_protocol(mut upgrade: WebSocketUpgrade, named: Option<&str>) -> Result<WebSocketUpgrade, ApiError> {
    if named.is_some_and(|name| name != PROTOCOL) {
        return Err(ErrorCode::UnsupportedProtocol.into());
    }
    let offered: Vec<&[u8]> = upgrade
        .requested_protocols()
        .map(HeaderValue::as_bytes)
        .filter(|name| !name.starts_with(BEARER_PREFIX.as_bytes()))
        .collect();
    let ours = offered.contains(&PROTOCOL.as_bytes());
    if !ours && !offered.is_empty() {
        return Err(ErrorCode::UnsupportedProtocol.into());
    }
    if ours {
        upgrade.set_selected_protocol(HeaderValue::from_static(PROTOCOL));
    }
    Ok(upgrade)
}

impl Inbox for ClientInbox {
    async fn line(&self, line: axum::body::Bytes) -> Result<(), String> {
        Self::line(self, line).await.map_err(|error| error.to_string())
    }
}
