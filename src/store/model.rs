//! Owns what goes into the store and what comes out of it: plain rows in the types of `domain`.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::domain::{
    AgentKind, Approval, ApprovalHow, ApprovalKind, ApprovalState, CliSessionId, FailReason, LastLine,
    Parked, PromptState, PromptUuid, PutOff, RateLimit, Resolution, RuleSpec, RunExit, RunId, Seq, SessionId,
    SessionState, StartMode, Timestamp, Todo, TokenUsage, Usd,
};

/// A session to be made.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Our id.
    pub id: SessionId,
    /// The resolved working directory.
    pub cwd: String,
    /// A person's name for it.
    pub title: Option<String>,
    /// A person's group for it.
    pub tag: Option<String>,
    /// A person's key-value pairs.
    pub labels: BTreeMap<String, String>,
    /// The launch options as JSON text.
    pub options: String,
    /// Its rules, in their order.
    pub rules: Vec<RuleSpec>,
    /// Its settings in place of the configuration's restart policy, as JSON text.
    pub restart: Option<String>,
    /// The session that this is a fork of. It must be there.
    pub parent: Option<SessionId>,
    /// The CLI's id of the conversation that the fork copies.
    pub forked_from: Option<CliSessionId>,
    /// The message of the parent that the fork branches off at; `None` for its end.
    pub forked_at: Option<Uuid>,
    /// The CLI's id of the conversation.
    pub cli_session_id: CliSessionId,
    /// The kind of agent that must run it, when its conversation is of one already.
    pub agent: Option<AgentKind>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// The state that it begins in.
    pub state: SessionState,
}

/// A session as the tables know it.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRow {
    /// Our id.
    pub id: SessionId,
    /// The resolved working directory.
    pub cwd: String,
    /// A person's name for it.
    pub title: Option<String>,
    /// A person's group for it.
    pub tag: Option<String>,
    /// A person's key-value pairs.
    pub labels: BTreeMap<String, String>,
    /// The launch options as JSON text, as they were stored; a model that was chosen in a run is written into them.
    pub options: String,
    /// The options that the last process was started with, if others are stored since.
    pub started_options: Option<String>,
    /// Whether the permission mode of the options was set later than the session came into the one that was reported last.
    pub mode_of_options: bool,
    /// Grows with each edit of what no journal says of the session.
    pub revision: u64,
    /// The message after which its conversation goes on, while nothing was said behind it.
    pub resume_at: Option<Uuid>,
    /// Its settings in place of the configuration's restart policy, as JSON text.
    pub restart: Option<String>,
    /// The session that this is a fork of; `None` once the parent is deleted.
    pub parent: Option<SessionId>,
    /// Whether the transcript of the conversation does not have the title and the tag yet.
    pub untold: bool,
    /// The session that this is a fork of, also when that is deleted.
    pub fork_of: Option<SessionId>,
    /// The CLI's id of the conversation that the fork copies, also when the parent is deleted. `None` as well for one that was
    /// made by an older version and whose parent was deleted.
    pub forked_from: Option<CliSessionId>,
    /// The message that the fork branches off at.
    pub forked_at: Option<Uuid>,
    /// The last projected state.
    pub state: SessionState,
    /// Why it failed.
    pub state_reason: Option<FailReason>,
    /// Since when it is parked, and why.
    pub parked: Option<Parked>,
    /// The CLI's current id of the conversation.
    pub cli_session_id: CliSessionId,
    /// The kind of agent that runs it; `None` before its first process.
    pub agent: Option<AgentKind>,
    /// The last process; `None` before the first.
    pub run_id: Option<RunId>,
    /// The record that asked for the last process; zero before the first.
    pub run_seq: Seq,
    /// The version of the CLI that ran last.
    pub cli_version: Option<String>,
    /// The model that the CLI reported last.
    pub model: Option<String>,
    /// The permission mode that the CLI reported last.
    pub permission_mode: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last worked or was edited. Reading, attaching, parking and recovery do not move it.
    pub updated_at: Timestamp,
    /// The last record that the tables cover.
    pub projected_seq: Seq,
    /// Finished turns.
    pub turns: u64,
    /// Sum of the known costs of its turns. It never falls.
    pub cost_usd: Usd,
    /// Turns whose cost is not known and so is not in the sum.
    pub turns_with_unknown_cost: u64,
    /// Sum of the tokens of its turns.
    pub usage: TokenUsage,
    /// The start of the first prompt, as long as that of the last.
    pub first_prompt: Option<String>,
    /// The start of the last prompt, at most [`PROMPT_TEXT_CHARS`](super::PROMPT_TEXT_CHARS) characters.
    pub last_prompt: Option<String>,
    /// The last thing that the agent said or did.
    pub last_line: Option<LastLine>,
    /// The last record of the last turn that ended; 0 before the first.
    pub last_turn_seq: Seq,
    /// The last record that a person has seen, as clients say.
    pub seen_seq: Seq,
    /// Messages that wait for it in the daemon.
    pub queued_prompts: u64,
    /// The reasons that a person put off.
    pub put_off: Option<PutOff>,
    /// The last words of its CLI about each limit of the account.
    pub rate_limits: Vec<RateLimit>,
}

/// The list of what an agent means to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TodoRow {
    /// Its entries, in their order.
    pub items: Vec<Todo>,
    /// The record that changed it last.
    pub seq: Seq,
    /// When that was.
    pub at: Timestamp,
}

/// Where a finished turn ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndOfTurn {
    /// The turn's number, from 1.
    pub number: u64,
    /// Its last record.
    pub last: Seq,
}

/// Which sessions are wanted: those that match every field that is set.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// In this state.
    pub state: Option<SessionState>,
    /// In exactly this working directory.
    pub cwd: Option<String>,
    /// With exactly this tag.
    pub tag: Option<String>,
    /// With this label key and value.
    pub label: Option<(String, String)>,
    /// With this text in the title or in the start of a prompt. ASCII letters match in either case.
    pub q: Option<String>,
}

/// A change of what people say about a session. `None` leaves a field alone; `Some(None)` empties it.
#[derive(Clone, Debug, Default)]
pub struct MetaPatch {
    /// The new title.
    pub title: Option<Option<String>>,
    /// The new tag.
    pub tag: Option<Option<String>>,
    /// The new labels; they replace all that were there.
    pub labels: Option<BTreeMap<String, String>>,
    /// The new launch options.
    pub options: Option<OptionsWrite>,
    /// The revision that the session must have, or nothing is changed.
    pub revision: Option<u64>,
}

/// Launch options in the place of those that are stored.
#[derive(Clone)]
pub struct OptionsWrite {
    /// The ones that they were made of: others that are stored meanwhile are not lost.
    pub before: String,
    /// The new ones.
    pub after: String,
    /// Whether their permission mode, or that they have none, counts from the next start on.
    pub sets_mode: bool,
}

/// Shows no values: they may be secret.
impl std::fmt::Debug for OptionsWrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OptionsWrite").finish_non_exhaustive()
    }
}

/// One life of a CLI process.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    /// Its id.
    pub id: RunId,
    /// The session.
    pub session: SessionId,
    /// How the conversation was opened.
    pub mode: StartMode,
    /// The record that asked for it.
    pub started_seq: Seq,
    /// When it was asked for.
    pub started_at: Timestamp,
    /// When it answered `initialize`.
    pub ready_at: Option<Timestamp>,
    /// The version that it reported.
    pub cli_version: Option<String>,
    /// How it ended; `None` while it lives.
    pub ended: Option<RunEnd>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEnd {
    /// When.
    pub at: Timestamp,
    /// How.
    pub exit: RunExit,
}

/// A user message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptRow {
    /// The client's id, unique within the session.
    pub uuid: PromptUuid,
    /// How far it has come.
    pub state: PromptState,
    /// The start of its text, at most [`PROMPT_TEXT_CHARS`](super::PROMPT_TEXT_CHARS) characters.
    pub text: Option<String>,
    /// The first record that names it.
    pub seq: Seq,
    /// When it was first seen.
    pub at: Timestamp,
    /// When it came to its state.
    pub state_at: Timestamp,
}

/// A request that needs, or needed, a person.
#[derive(Clone, Debug)]
pub struct ApprovalRow {
    /// The session.
    pub session: SessionId,
    /// The approval.
    pub approval: Approval,
    /// How it ended; `None` while it is pending.
    pub resolution: Option<Resolution>,
}

impl ApprovalRow {
    /// Where it stands.
    pub fn state(&self) -> ApprovalState {
        self.resolution
            .as_ref()
            .map_or(ApprovalState::Pending, |resolution| resolution.state)
    }
}

/// Which approvals are wanted: those that match every field that is set.
#[derive(Clone, Debug, Default)]
pub struct ApprovalFilter {
    /// Those of this session.
    pub session: Option<SessionId>,
    /// In this state.
    pub state: Option<ApprovalState>,
    /// Those of this kind.
    pub kind: Option<ApprovalKind>,
    /// About this tool, MCP server or kind of dialog.
    pub subject: Option<String>,
    /// Those that ended in this way.
    pub how: Option<ApprovalHow>,
    /// Those that ended by this hand.
    pub by: Option<String>,
    /// Asked at this time or later.
    pub from: Option<Timestamp>,
    /// Asked before this time.
    pub to: Option<Timestamp>,
}

impl ApprovalFilter {
    /// Whether it lets an approval through.
    pub fn matches(&self, row: &ApprovalRow) -> bool {
        let (approval, end) = (&row.approval, row.resolution.as_ref());
        self.session.is_none_or(|session| session == row.session)
            && self.state.is_none_or(|state| state == row.state())
            && self.kind.is_none_or(|kind| kind == approval.kind)
            && self.subject.as_ref().is_none_or(|it| *it == approval.subject)
            && self.how.is_none_or(|how| end.is_some_and(|end| end.how == how))
            && self
                .by
                .as_ref()
                .is_none_or(|by| end.is_some_and(|end| end.by == *by))
            && self.from.is_none_or(|from| approval.requested_at >= from)
            && self.to.is_none_or(|to| approval.requested_at < to)
    }
}

/// An id that the CLI gave the conversation, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CliSessionSpan {
    /// The id.
    pub id: CliSessionId,
    /// When it began to hold.
    pub from: Timestamp,
}

/// The key that usage is summed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageGroup {
    /// The UTC day on which the turn ended, as `YYYY-MM-DD`.
    Day,
    /// The model.
    Model,
    /// The session.
    Session,
    /// The working directory.
    Cwd,
    /// The tag; sessions without one are the group without a key.
    Tag,
    /// The agent that leads the conversation, by the launch options; sessions without one are the group without a key.
    Agent,
}

/// Which turns are summed, and by what.
#[derive(Clone, Debug)]
pub struct UsageQuery {
    /// The key to sum by.
    pub group_by: UsageGroup,
    /// Only turns that ended at or after this instant.
    pub from: Option<Timestamp>,
    /// Only turns that ended before this instant.
    pub to: Option<Timestamp>,
    /// The time zone whose days are meant; UTC when it is left out.
    pub zone: Option<jiff::tz::TimeZone>,
}

/// The sum of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    /// The day, model, session id, directory or tag; `None` for sessions without a tag.
    pub key: Option<String>,
    /// Turns of the CLI; by model, turns that the model took part in.
    pub turns: u64,
    /// Simulated turns, which are in no other sum.
    pub simulated_turns: u64,
    /// Sum of the known costs.
    pub cost_usd: Usd,
    /// Turns whose cost is not known and so is not in the sum.
    pub unknown_cost_turns: u64,
    /// Sum of the tokens.
    pub usage: TokenUsage,
}
