//! Owns what a session tells one of its clients alone. Each sub-protocol writes it in its own way.

use std::sync::Arc;

use crate::{
    claude::ControlResponse,
    domain::{ApprovalId, AttachedClient, PromptUuid, QueuedPrompt, Resolution},
};

use super::{Sent, SessionError};

/// Something for one client, or for each.
#[derive(Debug)]
pub enum ClientFrame {
    /// A prompt of the client is in the journal.
    Prompted {
        /// The prompt.
        uuid: PromptUuid,
        /// Its record.
        sent: Sent,
    },
    /// A decision or answer of the client was written.
    Answered {
        /// The CLI's request.
        request_id: String,
    },
    /// A line of the client was not taken.
    Refused(Box<Refused>),
    /// A decision of the client came after the end of its approval.
    Late(Box<LateAnswer>),
    /// The messages of the session that wait in the daemon, which have changed.
    Queue(Arc<[QueuedPrompt]>),
    /// The clients that are attached: one came or left.
    Clients(Arc<[AttachedClient]>),
    /// The CLI's answer to a control request of the client.
    Response {
        /// The client's own id of the request.
        request_id: String,
        /// The answer.
        answer: Box<ControlResponse>,
    },
}

/// A line that was not taken.
#[derive(Debug)]
pub struct Refused {
    /// The line.
    pub line: RefusedLine,
    /// The reason.
    pub error: SessionError,
}

/// A client's line, by its own ids.
#[derive(Debug)]
pub enum RefusedLine {
    /// A line without an id.
    Nameless,
    /// A user message.
    Prompt(Option<PromptUuid>),
    /// A control request of the client, by its own id.
    Request(String),
    /// An answer to a request of the CLI.
    Answer {
        /// The CLI's request.
        request_id: String,
        /// The approval, if it is one.
        approval_id: Option<ApprovalId>,
    },
}

/// The end of an approval, for a decision that came after it.
#[derive(Debug)]
pub struct LateAnswer {
    /// The fault.
    pub error: SessionError,
    /// The CLI's request.
    pub request_id: String,
    /// The approval.
    pub approval_id: ApprovalId,
    /// How it ended, without an answer that is too large to keep.
    pub resolution: Resolution,
}
