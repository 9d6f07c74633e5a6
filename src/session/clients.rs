//! Owns the side channels of attached clients: what is meant for one of them only.

use std::collections::HashMap;

use serde_json::{json, value::RawValue};
use tokio::sync::mpsc;

use crate::{
    claude::ControlResponse,
    domain::{ClientId, ConnectionId, PromptUuid},
};

use super::{Refusal, SessionError, handle::Sent, machine::EndedApproval};

/// Frames that may wait for one client. One that does not take them is cut off.
const DIRECT_FRAMES: usize = 256;

/// The attached clients.
#[derive(Debug, Default)]
pub(super) struct Clients {
    attached: HashMap<ConnectionId, Seat>,
    /// Those that did not take what they were sent.
    cut: Vec<ConnectionId>,
}

/// One attached client.
#[derive(Debug)]
struct Seat {
    direct: mpsc::Sender<String>,
    client: ClientId,
    /// Whether it named itself, and so can be known again.
    is_named: bool,
}

impl Clients {
    /// Adds a client; its name is returned as well.
    pub(super) fn attach(
        &mut self,
        connection: ConnectionId,
        named: Option<ClientId>,
    ) -> (mpsc::Receiver<String>, ClientId) {
        let (direct, receiver) = mpsc::channel(DIRECT_FRAMES);
        let is_named = named.is_some();
        let client = named.unwrap_or_else(|| connection.into());
        let seat = Seat {
            direct,
            client: client.clone(),
            is_named,
        };
        self.attached.insert(connection, seat);
        (receiver, client)
    }

    /// Removes a client; its name, and whether it gave that to itself. `None` when it was removed before.
    pub(super) fn detach(&mut self, connection: ConnectionId) -> Option<(ClientId, bool)> {
        let seat = self.attached.remove(&connection)?;
        Some((seat.client, seat.is_named))
    }

    /// A client that is to be let go because it did not take what it was sent.
    pub(super) fn next_cut(&mut self) -> Option<ConnectionId> {
        self.cut.pop()
    }

    /// The name of an attached client.
    pub(super) fn client(&self, connection: ConnectionId) -> Option<&ClientId> {
        self.attached.get(&connection).map(|seat| &seat.client)
    }

    /// Whether an attached client named itself.
    pub(super) fn is_named(&self, connection: ConnectionId) -> bool {
        let seat = self.attached.get(&connection);
        seat.is_some_and(|seat| seat.is_named)
    }

    /// A connection of this client.
    pub(super) fn connection_of(&self, client: &ClientId) -> Option<ConnectionId> {
        let mut attached = self.attached.iter();
        attached.find_map(|(connection, seat)| (seat.client == *client).then_some(*connection))
    }

    /// Whether this client is attached.
    pub(super) fn is_attached(&self, client: &ClientId) -> bool {
        self.connection_of(client).is_some()
    }

    /// Whether nobody is attached.
    pub(super) fn is_empty(&self) -> bool {
        self.attached.is_empty()
    }

    /// Tells a client that its prompt is in the journal.
    pub(super) fn ack_prompt(&mut self, connection: ConnectionId, uuid: PromptUuid, sent: Sent) {
        let ack = json!({
            "type": "trunkline.ack", "for": "user", "uuid": uuid, "seq": sent.seq, "repeated": sent.repeated,
        });
        self.send(connection, ack.to_string());
    }

    /// Tells a client that its decision or answer was written.
    pub(super) fn ack_answer(&mut self, connection: ConnectionId, request_id: &str) {
        let ack = json!({"type": "trunkline.ack", "for": "control_response", "request_id": request_id});
        self.send(connection, ack.to_string());
    }

    /// Tells a client what went wrong with one of its lines; `about` names the line by its own id.
    pub(super) fn error(
        &mut self,
        connection: ConnectionId,
        error: &SessionError,
        about: Option<(&str, &str)>,
    ) {
        self.error_about(connection, error, about.as_slice());
    }

    /// As [`Self::error`], with all that the client may know it by.
    pub(super) fn error_about(
        &mut self,
        connection: ConnectionId,
        error: &SessionError,
        about: &[(&str, &str)],
    ) {
        let mut frame = json!({
            "type": "trunkline.error", "code": error.code(), "detail": crate::telemetry::chain(error),
        });
        for (name, value) in about {
            frame[*name] = (*value).into();
        }
        if let SessionError::NotWoken(failure) = error
            && failure.room.is_some()
        {
            frame["retry_after_ms"] = Refusal::RETRY_AFTER_MS.into();
        }
        self.send(connection, frame.to_string());
    }

    /// Tells a client how the approval ended that it answered too late.
    pub(super) fn late_answer(&mut self, connection: ConnectionId, ended: &EndedApproval) {
        let error = if ended.resolution.state.is_answered() {
            SessionError::AlreadyDecided(ended.id)
        } else {
            SessionError::ApprovalNotPending(ended.id)
        };
        let end = &ended.resolution;
        let frame = json!({
            "type": "trunkline.error", "code": error.code(), "detail": error.to_string(), "request_id": ended.request_id,
            "approval_id": ended.id, "state": end.state, "by": end.by,
        });
        let decision = json!({
            "state": end.state, "how": end.how, "by": end.by, "at": end.at, "input_changed": end.input_changed,
            "permissions_updated": end.permissions_updated,
        });
        // The answer is kept byte for byte: what no string can hold must not get lost, or in the way.
        let response = end.response.as_deref().map_or("null", RawValue::get);
        let open = |object: serde_json::Value| {
            let mut text = object.to_string();
            text.pop();
            text
        };
        let (frame, decision) = (open(frame), open(decision));
        self.send(
            connection,
            format!(r#"{frame},"decision":{decision},"response":{response}}}}}"#),
        );
    }

    /// Gives a client the CLI's answer to its own request, under its own id.
    pub(super) fn control_response(&mut self, connection: ConnectionId, id: &str, answer: &ControlResponse) {
        let id = serde_json::Value::from(id).to_string();
        let beside: String = answer
            .beside
            .iter()
            .map(|(name, value)| format!(r#",{}:{}"#, serde_json::Value::from(name), value.get()))
            .collect();
        let response = match &answer.outcome {
            Ok(payload) => {
                let payload = payload.as_deref().map(RawValue::get);
                let payload = payload
                    .map(|text| format!(r#","response":{text}"#))
                    .unwrap_or_default();
                format!(r#"{{"subtype":"success","request_id":{id}{payload}{beside}}}"#)
            }
            Err(refused) => {
                let error = serde_json::Value::from(refused.error.as_str()).to_string();
                let code = refused.error_code.as_deref();
                let code = code.map(|code| format!(r#","error_code":{}"#, serde_json::Value::from(code)));
                let code = code.unwrap_or_default();
                format!(r#"{{"subtype":"error","request_id":{id},"error":{error}{code}{beside}}}"#)
            }
        };
        self.send(
            connection,
            format!(r#"{{"type":"control_response","response":{response}}}"#),
        );
    }

    fn send(&mut self, connection: ConnectionId, frame: String) {
        let Some(seat) = self.attached.get(&connection) else {
            return;
        };
        if seat.direct.try_send(frame).is_err() {
            // It is let go, which ends its connection: a client that misses an answer must not go on as if it had it.
            self.cut.push(connection);
        }
    }
}
