//! Owns the frames of `trunkline.v1` that are no records, and how client frames are split into lines.

use std::borrow::Cow;

use axum::{body::Bytes, extract::ws::Utf8Bytes};
use memchr::memchr;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use crate::{
    claude::{ControlResponse, scan},
    domain::{self, AttachedClient, ClientId, ConnectionId, Seq, Timestamp},
    http::{
        ApiError, ErrorCode,
        dto::{Approval, QueuedPrompt, Session},
    },
    session::{ClientFrame, LateAnswer, LiveView, MOST_BYTES, RefusedLine, excerpt},
    supervisor::{SessionView, build_id},
};

/// Frames of our own are small; longer lines are for the CLI and not looked into.
const MAX_OWN_FRAME_BYTES: usize = 4 * 1024;
/// The bytes of requests in a snapshot from which on no more than a part of another one is shown.
const SNAPSHOT_BYTES: usize = 128 * 1024;
/// The size of such a part.
const STUB_BYTES: usize = 1024;
/// The prefix of the types of our own frames.
const OWN_PREFIX: &str = "trunkline.";

/// How much of the session the first frame has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum Snapshot {
    /// All of it.
    #[default]
    Full,
    /// The client's place, the state and the messages that wait: for a client that knows the session and comes back. It is not
    /// told which other clients come and leave.
    Brief,
}

impl Snapshot {
    /// Whether the client is told this news: it is a long list each time that anybody comes or leaves.
    pub(super) const fn has(self, news: &ClientFrame) -> bool {
        !matches!((self, news), (Self::Brief, ClientFrame::Clients(_)))
    }
}

/// The first frame: the session at the moment at which the records after `after` begin to follow.
pub(super) fn first(
    wanted: Snapshot,
    view: SessionView,
    live: LiveView,
    client: (ConnectionId, ClientId),
    clients: &[AttachedClient],
    after: Seq,
    queue: &[domain::QueuedPrompt],
) -> String {
    match wanted {
        Snapshot::Full => snapshot(view, live, client, clients, after, queue),
        Snapshot::Brief => attached(&live, &client, after, queue),
    }
}

/// The session in short.
fn attached(
    live: &LiveView,
    (connection_id, client_id): &(ConnectionId, ClientId),
    after: Seq,
    queue: &[domain::QueuedPrompt],
) -> String {
    json!({
        "type": "trunkline.attached",
        "build": build_id(),
        "connection_id": connection_id,
        "client_id": client_id,
        "head_seq": live.head_seq,
        "after": after,
        "state": live.state,
        "queue": QueuedPrompt::within_frame(queue),
    })
    .to_string()
}

/// All of the session.
fn snapshot(
    view: SessionView,
    live: LiveView,
    client: (ConnectionId, ClientId),
    clients: &[AttachedClient],
    after: Seq,
    queue: &[domain::QueuedPrompt],
) -> String {
    #[derive(Serialize)]
    struct Request<'a> {
        request_id: &'a str,
        seq: Seq,
        subtype: &'a str,
        client_id: Option<&'a ClientId>,
        deadline: Option<Timestamp>,
        request: &'a RawValue,
        request_truncated: bool,
        request_bytes: u64,
        left_out: &'a [String],
    }
    #[derive(Serialize)]
    struct Snapshot<'a> {
        r#type: &'static str,
        protocol: &'static str,
        build: &'static str,
        connection_id: ConnectionId,
        client_id: ClientId,
        head_seq: Seq,
        after: Seq,
        pending_approvals: Vec<Approval>,
        pending_requests: Vec<Request<'a>>,
        waiting_requests: usize,
        queue: Vec<QueuedPrompt>,
        clients: &'a [AttachedClient],
        session: Session,
    }
    let session = view.row.id;
    let (connection_id, client_id) = client;
    let (requests, waiting_requests) = (live.requests.clone(), live.waiting_requests);
    let mut room = SNAPSHOT_BYTES;
    let pending_approvals = live
        .approvals
        .iter()
        .map(|approval| {
            let approval = within(approval.as_ref().clone(), &mut room);
            Approval::pending(session, approval)
        })
        .collect();
    let parts: Vec<_> = requests
        .iter()
        .map(|request| excerpt(request.request(), most(request.request(), &mut room)))
        .collect();
    let snapshot = Snapshot {
        r#type: "trunkline.snapshot",
        protocol: super::v1::PROTOCOL,
        build: build_id(),
        connection_id,
        client_id,
        head_seq: live.head_seq,
        after,
        pending_approvals,
        pending_requests: requests
            .iter()
            .zip(&parts)
            .map(|(request, part)| {
                let left_out = request.left_out();
                let left_out = left_out.or_else(|| part.as_ref().map(|part| &part.left_out));
                let whole = request.request();
                Request {
                    request_id: request.request_id(),
                    seq: request.seq(),
                    subtype: request.subtype(),
                    client_id: request.client_id.as_ref(),
                    deadline: request.deadline,
                    request: part.as_ref().map_or(whole, |part| part.object.as_ref()),
                    request_truncated: left_out.is_some(),
                    request_bytes: left_out.map_or(whole.get().len() as u64, |left_out| left_out.bytes),
                    left_out: left_out.map_or(&[], |left_out| &left_out.members),
                }
            })
            .collect(),
        waiting_requests,
        queue: QueuedPrompt::within_frame(queue),
        clients,
        session: Session::from(SessionView { live, ..view }),
    };
    // Plain data with string keys always has a JSON form.
    serde_json::to_string(&snapshot).unwrap_or_default()
}

/// How large a request may be that is shown as it is.
fn most(request: &RawValue, room: &mut usize) -> usize {
    let size = request.get().len();
    if size > STUB_BYTES && size > *room {
        return STUB_BYTES;
    }
    *room = room.saturating_sub(size);
    MOST_BYTES
}

/// The approval with as much of its request as there is room for.
fn within(mut approval: domain::Approval, room: &mut usize) -> domain::Approval {
    if let Some(part) = excerpt(&approval.request, most(&approval.request, room)) {
        approval.request = part.object;
        // The size of the whole is known to whoever cut it first.
        approval.left_out.get_or_insert_with(|| Box::new(part.left_out));
    }
    approval
}

/// A line that is for the daemon itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OwnFrame {
    /// Answered with a pong that repeats the id.
    Ping { id: Option<String> },
    /// A type that this version does not know.
    Unknown { kind: String },
}

/// The frame of our own in `line`, if it is one.
pub(super) fn own_frame(line: &[u8]) -> Option<OwnFrame> {
    #[derive(Deserialize)]
    struct Frame<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        id: Option<&'a RawValue>,
    }
    if line.len() > MAX_OWN_FRAME_BYTES {
        return None;
    }
    let frame: Frame<'_> = serde_json::from_slice(line).ok()?;
    match frame.kind.strip_prefix(OWN_PREFIX)? {
        "ping" => Some(OwnFrame::Ping {
            id: frame.id.map(|id| id.get().to_owned()),
        }),
        _ => Some(OwnFrame::Unknown {
            kind: frame.kind.into_owned(),
        }),
    }
}

/// The frame for news that the session has for this client alone.
pub(super) fn direct(frame: ClientFrame) -> String {
    match frame {
        ClientFrame::Prompted { uuid, sent } => json!({
            "type": "trunkline.ack", "for": "user", "uuid": uuid, "seq": sent.seq, "repeated": sent.repeated,
        })
        .to_string(),
        ClientFrame::Answered { request_id } => {
            json!({"type": "trunkline.ack", "for": "control_response", "request_id": request_id}).to_string()
        }
        ClientFrame::Queue(queue) => {
            json!({"type": "trunkline.queue", "queue": QueuedPrompt::within_frame(&queue)}).to_string()
        }
        ClientFrame::Clients(clients) => {
            json!({"type": "trunkline.clients", "clients": *clients}).to_string()
        }
        ClientFrame::Refused(refused) => refusal(refused.line, &refused.error.into()),
        ClientFrame::Late(late) => late_answer(*late),
        ClientFrame::Response { request_id, answer } => response(&request_id, &answer),
    }
}

/// A frame that says what went wrong, in the members of a problem.
fn error_frame(error: &ApiError) -> Value {
    let mut frame = error.fault();
    frame.insert("type".to_owned(), "trunkline.error".into());
    Value::Object(frame)
}

fn refusal(line: RefusedLine, error: &ApiError) -> String {
    let mut frame = error_frame(error);
    match line {
        RefusedLine::Nameless | RefusedLine::Prompt(None) => {}
        RefusedLine::Prompt(Some(uuid)) => frame["uuid"] = json!(uuid),
        RefusedLine::Request(request_id) => frame["request_id"] = json!(request_id),
        RefusedLine::Answer {
            request_id,
            approval_id,
        } => {
            frame["request_id"] = json!(request_id);
            if let Some(id) = approval_id {
                frame["approval_id"] = json!(id);
            }
        }
    }
    frame.to_string()
}

/// The refusal of a line of a viewer; nothing for one that says nothing.
pub(super) fn forbidden(line: &[u8]) -> Option<String> {
    let told = |line| Some(refusal(line, &ErrorCode::RoleForbidden.into()));
    let Some(said) = scan(line) else {
        return told(RefusedLine::Nameless);
    };
    if said.is("keep_alive") {
        return None;
    }
    if let Some(answer) = ControlResponse::read(&said) {
        let (request_id, approval_id) = (answer.request_id, None);
        return told(RefusedLine::Answer {
            request_id,
            approval_id,
        });
    }
    let request = said.request_id.map(|id| RefusedLine::Request(id.into_owned()));
    let prompt = || RefusedLine::Prompt(said.uuid.and_then(|uuid| uuid.parse().ok()));
    told(request.unwrap_or_else(prompt))
}

fn late_answer(late: LateAnswer) -> String {
    let end = &late.resolution;
    let error = ApiError::from(late.error);
    let mut frame = error_frame(&error.detail(format!("the approval is already {}", end.state.as_str())));
    frame["request_id"] = json!(late.request_id);
    frame["approval_id"] = json!(late.approval_id);
    frame["state"] = json!(end.state);
    frame["by"] = json!(end.by);
    let resolution = json!({
        "state": end.state, "how": end.how, "by": end.by, "at": end.at, "input_changed": end.input_changed,
        "permissions_updated": end.permissions_updated,
    });
    // The answer is kept byte for byte: what no string can hold must not get lost, or in the way.
    let response = end.response.as_deref().map_or("null", RawValue::get);
    let open = |object: Value| {
        let mut text = object.to_string();
        text.pop();
        text
    };
    let (frame, resolution) = (open(frame), open(resolution));
    format!(r#"{frame},"resolution":{resolution},"response":{response}}}}}"#)
}

/// The CLI's answer to a control request, under the client's own id.
pub(super) fn response(request_id: &str, answer: &ControlResponse) -> String {
    let id = Value::from(request_id);
    let beside: String = answer
        .beside
        .iter()
        .map(|(name, value)| format!(r#",{}:{}"#, Value::from(name), value.get()))
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
            let error = Value::from(refused.error.as_str());
            let code = refused.error_code.as_deref();
            let code = code.map(|code| format!(r#","error_code":{}"#, Value::from(code)));
            let code = code.unwrap_or_default();
            format!(r#"{{"subtype":"error","request_id":{id},"error":{error}{code}{beside}}}"#)
        }
    };
    format!(r#"{{"type":"control_response","response":{response}}}"#)
}

/// The answer to a ping.
pub(super) fn pong(id: Option<&str>, head: Seq) -> String {
    let id = id.map_or_else(String::new, |id| format!(r#""id":{id},"#));
    format!(r#"{{"type":"trunkline.pong",{id}"head_seq":{head}}}"#)
}

/// An error that ends nothing.
pub(super) fn error(error: &ApiError) -> String {
    error_frame(error).to_string()
}

/// The lines of a client's frame: split at 0x0A, without a carriage return at the end, without blank ones. Nothing is copied.
pub(super) fn lines(frame: Utf8Bytes) -> impl Iterator<Item = Bytes> {
    let mut rest = Bytes::from(frame);
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let end = memchr(b'\n', &rest);
            let mut line = rest.split_to(end.unwrap_or(rest.len()));
            if end.is_some() {
                let _newline = rest.split_to(1);
            }
            if line.last() == Some(&b'\r') {
                line.truncate(line.len() - 1);
            }
            if !line.trim_ascii().is_empty() {
                return Some(line);
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_split_into_lines() {
        let split = |text: &str| -> Vec<String> {
            lines(text.to_owned().into())
                .map(|line| String::from_utf8(line.to_vec()).unwrap())
                .collect()
        };
        assert_eq!(split("{\"a\":1}"), ["{\"a\":1}"]);
        assert_eq!(
            split("{\"a\":1}\r\n\n  \r\n{\"b\":\"\u{2028}\"}\n"),
            ["{\"a\":1}", "{\"b\":\"\u{2028}\"}"]
        );
        assert_eq!(split("\n\r\n "), Vec::<String>::new());
        assert_eq!(split(""), Vec::<String>::new());
    }

    #[test]
    fn only_our_own_types_are_ours() {
        let ping = |id: Option<&str>| {
            Some(OwnFrame::Ping {
                id: id.map(str::to_owned),
            })
        };
        assert_eq!(own_frame(br#"{"type":"trunkline.ping"}"#), ping(None));
        assert_eq!(own_frame(br#"{"id":7,"type":"trunkline.ping"}"#), ping(Some("7")));
        assert_eq!(
            own_frame(br#"{"type":"user","message":{"role":"user","content":"trunkline.ping"}}"#),
            None
        );
        assert_eq!(own_frame(b"not json"), None);
        let unknown = own_frame(br#"{"type":"trunkline.dance"}"#);
        assert!(matches!(unknown, Some(OwnFrame::Unknown { kind }) if kind == "trunkline.dance"));
    }

    #[test]
    fn a_refused_line_of_a_viewer_is_named_by_its_own_id() {
        let told =
            |line: &str| forbidden(line.as_bytes()).map(|it| serde_json::from_str::<Value>(&it).unwrap());
        assert_eq!(told(r#"{"type":"keep_alive"}"#), None);
        for (line, member, id) in [
            (
                r#"{"type":"control_request","request_id":"1","request":{"subtype":"interrupt"}}"#,
                "request_id",
                "1",
            ),
            (
                r#"{"type":"control_cancel_request","request_id":"2"}"#,
                "request_id",
                "2",
            ),
            (
                r#"{"type":"control_response","response":{"subtype":"success","request_id":"3","response":{}}}"#,
                "request_id",
                "3",
            ),
            (
                r#"{"type":"user","uuid":"00000000-0000-4000-8000-000000000001","message":{"role":"user","content":"hi"}}"#,
                "uuid",
                "00000000-0000-4000-8000-000000000001",
            ),
        ] {
            let told = told(line).unwrap();
            assert_eq!(
                (&told["code"], &told[member]),
                (&"role_forbidden".into(), &id.into()),
                "{told}"
            );
        }
        assert_eq!(told("no json").unwrap()["code"], "role_forbidden");
    }

    #[test]
    fn answers_are_json() {
        let parsed: Value = serde_json::from_str(&pong(Some("\"a\""), Seq::new(7))).unwrap();
        assert_eq!(
            parsed,
            json!({"type": "trunkline.pong", "id": "a", "head_seq": 7})
        );
        let parsed: Value = serde_json::from_str(&pong(None, Seq::ZERO)).unwrap();
        assert_eq!(parsed, json!({"type": "trunkline.pong", "head_seq": 0}));
        let parsed: Value = serde_json::from_str(&error(
            &ApiError::new(ErrorCode::UnknownFrame).detail("say \"no\""),
        ))
        .unwrap();
        assert_eq!(
            parsed,
            json!({
                "type": "trunkline.error", "code": ErrorCode::UnknownFrame, "title": ErrorCode::UnknownFrame.title(),
                "detail": "say \"no\"", "retryable": false, "side_effect_possible": false,
            })
        );
    }
}
