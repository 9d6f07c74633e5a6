//! Owns the side channels of attached clients: what is meant for one of them only.

use std::collections::HashMap;

use serde_json::{json, value::RawValue};
use tokio::sync::mpsc;

use crate::{
    claude::ControlResponse,
    domain::{ConnectionId, PromptUuid},
};

use super::{SessionError, decisions::Ended, handle::Sent};

/// Frames that may wait for one client. One that does not take them is cut off.
const DIRECT_FRAMES: usize = 256;

/// The attached clients.
#[derive(Debug, Default)]
pub(super) struct Clients {
    direct: HashMap<ConnectionId, mpsc::Sender<String>>,
}

impl Clients {
    /// Adds a client; those that left are returned.
    pub(super) fn attach(&mut self, connection: ConnectionId) -> (mpsc::Receiver<String>, Vec<ConnectionId>) {
        let left: Vec<_> = self
            .direct
            .extract_if(|_, direct| direct.is_closed())
            .map(|(connection, _)| connection)
            .collect();
        let (sender, receiver) = mpsc::channel(DIRECT_FRAMES);
        self.direct.insert(connection, sender);
        (receiver, left)
    }

    /// Tells a client that its prompt is in the journal.
    pub(super) fn ack_prompt(&mut self, connection: ConnectionId, uuid: PromptUuid, sent: Sent) {
        let ack = json!({
            "type": "trunkline.ack", "for": "user", "uuid": uuid, "seq": sent.seq, "repeated": sent.repeated,
        });
        self.send(connection, ack.to_string());
    }

    /// Tells a client that its decision was written.
    pub(super) fn ack_decision(&mut self, connection: ConnectionId, request_id: &str) {
        let ack = json!({"type": "trunkline.ack", "for": "control_response", "request_id": request_id});
        self.send(connection, ack.to_string());
    }

    /// Tells a client that an approval ended before its answer came, and how.
    pub(super) fn lost_decision(&mut self, connection: ConnectionId, request_id: &str, ended: &Ended) {
        let Ended { id, resolution, .. } = ended;
        let error = if resolution.state.is_answered() {
            SessionError::AlreadyDecided(*id)
        } else {
            SessionError::ApprovalNotPending(*id)
        };
        // The answer is kept byte for byte: what no string can hold must not get lost, or in the way.
        let response = resolution.response.as_deref().map_or("null", RawValue::get);
        let frame = json!({
            "type": "trunkline.error", "code": error.code(),
            "detail": format!("the approval is already {}", resolution.state.as_str()),
            "request_id": request_id, "approval_id": id,
        });
        let decision = json!({
            "state": resolution.state, "how": resolution.how, "by": resolution.by, "at": resolution.at,
            "input_changed": resolution.input_changed, "permissions_updated": resolution.permissions_updated,
        });
        let open = |object: serde_json::Value| object.to_string().trim_end_matches('}').to_owned();
        let (frame, decision) = (open(frame), open(decision));
        self.send(
            connection,
            format!(r#"{frame},"decision":{decision},"response":{response}}}}}"#),
        );
    }

    /// Tells a client what went wrong with one of its lines; `about` names the line by its own id.
    pub(super) fn error(
        &mut self,
        connection: ConnectionId,
        error: &SessionError,
        about: Option<(&str, &str)>,
    ) {
        let mut frame = json!({
            "type": "trunkline.error", "code": error.code(), "detail": crate::telemetry::chain(error),
        });
        if let (Some((name, value)), Some(fields)) = (about, frame.as_object_mut()) {
            fields.insert(name.to_owned(), value.into());
        }
        self.send(connection, frame.to_string());
    }

    /// Gives a client the CLI's answer to its own request, under its own id.
    pub(super) fn control_response(&mut self, connection: ConnectionId, id: &str, answer: &ControlResponse) {
        let id = serde_json::Value::from(id).to_string();
        let response = match &answer.outcome {
            Ok(payload) => {
                let payload = payload.as_deref().map(RawValue::get);
                let payload = payload
                    .map(|text| format!(r#","response":{text}"#))
                    .unwrap_or_default();
                format!(r#"{{"subtype":"success","request_id":{id}{payload}}}"#)
            }
            Err(refused) => {
                let error = serde_json::Value::from(refused.error.as_str()).to_string();
                let code = refused.error_code.as_deref();
                let code = code.map(|code| format!(r#","error_code":{}"#, serde_json::Value::from(code)));
                let code = code.unwrap_or_default();
                format!(r#"{{"subtype":"error","request_id":{id},"error":{error}{code}}}"#)
            }
        };
        self.send(
            connection,
            format!(r#"{{"type":"control_response","response":{response}}}"#),
        );
    }

    fn send(&mut self, connection: ConnectionId, frame: String) {
        let Some(direct) = self.direct.get(&connection) else {
            return;
        };
        if direct.try_send(frame).is_err() {
            // Its channel closes, which ends its connection: a client that misses an answer must not go on as if it had it.
            self.direct.remove(&connection);
        }
    }
}
