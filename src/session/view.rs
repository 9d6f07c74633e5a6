//! Owns what can be seen of a session at a moment.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::domain::{
    Activity, Approval, CliSessionId, ClientId, FailReason, LeftOut, Parked, PromptState, PromptUuid,
    Restart, RunId, Seq, SessionState, Timestamp,
};

use super::desk::Asked;

/// Tools that change files. In its default mode the CLI asks before each of their calls, unless a rule allows it.
pub const EDITING_TOOLS: [&str; 4] = ["Edit", "MultiEdit", "NotebookEdit", "Write"];

/// The session as it looks now.
#[derive(Clone, Debug)]
pub struct LiveView {
    /// The state.
    pub state: SessionState,
    /// Why it failed, or that its keeper does not answer; set in no other case.
    pub reason: Option<FailReason>,
    /// The last run.
    pub run_id: Option<RunId>,
    /// The CLI's process id while it lives.
    pub cli_pid: Option<i32>,
    /// The CLI's own id of the conversation.
    pub cli_session_id: Option<CliSessionId>,
    /// The id that the conversation had before, while it is not certain that the CLI knows it by the new one.
    pub earlier_session_id: Option<CliSessionId>,
    /// The CLI's version, once it said so.
    pub cli_version: Option<String>,
    /// The model that the CLI reports.
    pub model: Option<String>,
    /// The permission mode that the CLI reports.
    pub permission_mode: Option<String>,
    /// The newest record.
    pub head_seq: Seq,
    /// The turn that runs.
    pub turn: Option<OpenTurn>,
    /// Turns that ended so far.
    pub turns: u64,
    /// Prompts that were sent and are not done.
    pub open_prompts: Vec<OpenPrompt>,
    /// The requests that need a person, oldest first. A bounded number is open at a time.
    pub approvals: Vec<Arc<Approval>>,
    /// The approvals that open once others are closed.
    pub waiting_approvals: Waiting,
    /// The other requests of the CLI that a client may answer, oldest first, with the same bound.
    pub requests: Vec<PendingRequest>,
    /// How many of these wait.
    pub waiting_requests: usize,
    /// Background tasks that the CLI reports.
    pub background_tasks: u32,
    /// The CLI's work between its answers, if that takes long.
    pub activity: Option<Activity>,
    /// Where the CLI says what it offers.
    pub offers: Offers,
    /// The tool that changed a file in a mode that asks, in a process that has asked for no permission.
    pub unasked_tool: Option<&'static str>,
    /// When the CLI printed its last line.
    pub last_line_at: Option<Timestamp>,
    /// The restart that is due.
    pub restart: Option<Restart>,
    /// Since when it is parked, and why.
    pub parked: Option<Parked>,
    /// Since when nothing is asked of a process that could be parked; absent when something stands in the way.
    pub unused_since: Option<Timestamp>,
    /// Whether a prompt, a request or a decision that was sent is not in the journal yet, or not answered.
    pub is_input_under_way: bool,
    /// Whether something was sent that wakes it.
    pub is_woken: bool,
    /// Since when the CLI has said nothing; absent without a process and while a person, a hook, an MCP server or a tool has
    /// the word.
    pub silent_since: Option<Timestamp>,
    /// Whether it has said nothing for longer than it may.
    pub is_silent: bool,
}

/// Requests that are not open yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many wait.
    pub count: usize,
    /// The record of the oldest one.
    pub from: Option<Seq>,
}

/// The newest records of the last run in which the CLI says what it offers and what runs. Only the journal has their
/// content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// The slash commands.
    pub commands: Option<Seq>,
    /// The kinds of sub-agents.
    pub agents: Option<Seq>,
    /// The models.
    pub models: Option<Seq>,
    /// The account.
    pub account: Option<Seq>,
    /// The background tasks of a process that lives.
    pub tasks: Option<Seq>,
}

/// A request of the CLI that is no approval and waits for a client.
#[derive(Clone, Debug)]
pub struct PendingRequest {
    pub(super) asked: Arc<Asked>,
    /// The client that answers; anyone when absent.
    pub client_id: Option<ClientId>,
    /// When the stated answer is given.
    pub deadline: Option<Timestamp>,
}

impl PendingRequest {
    /// The CLI's id, which the answer must carry.
    pub fn request_id(&self) -> &str {
        &self.asked.request.request_id
    }

    /// The subtype of the request.
    pub fn subtype(&self) -> &str {
        &self.asked.request.subtype
    }

    /// The record of the request.
    pub fn seq(&self) -> Seq {
        self.asked.seq
    }

    /// The request; of a large one the small members.
    pub fn request(&self) -> &RawValue {
        &self.asked.request.request
    }

    /// The part that is missing in the request; `None` when it is whole.
    pub fn left_out(&self) -> Option<&LeftOut> {
        self.asked.left_out.as_ref()
    }
}

/// A turn that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTurn {
    /// Number within the session.
    pub number: u64,
    /// Its first record.
    pub first_seq: Seq,
    /// When it began.
    pub started_at: Timestamp,
    /// Whether somebody has asked for its end.
    pub is_interrupted: bool,
    /// Whether its prompt was kept from the model.
    pub is_blocked: bool,
}

/// A prompt that is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenPrompt {
    /// The client's id of it.
    pub uuid: PromptUuid,
    /// How far it came.
    pub state: PromptState,
    /// The record that sent it.
    pub seq: Seq,
}
