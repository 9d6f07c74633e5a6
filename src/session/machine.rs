//! Owns the state machine of a session: a pure fold over its journal. It knows nothing but the records, so a daemon
//! that starts again and reads the same ones is in the same state.

mod activity;
mod audit;
mod conversation;
mod ended;
mod liveness;
mod missing;
mod own;
mod park;
mod pending;
mod restart;
mod restore;
mod runs;
mod stdin;
mod stdout;
#[cfg(test)]
mod tests;
mod unasked;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};
use sha2::{Digest as _, Sha256};

use crate::{
    claude::ControlResponse,
    domain::{
        Activity, Approval, ApprovalId, ApprovalKind, ApprovalState, CliSessionId, Fact, FailReason,
        ParkReason, Parked, PromptState, PromptUuid, Resolution, Restart, RestartTerms, RunId, Seq,
        SessionId, SessionState, Timestamp,
    },
    journal::{Chunk, Missing, RecordRef, Source},
    json,
};

use conversation::Conversation;
use own::OwnRequest;
use park::Timers;
use restore::Restore;

use super::{
    Conversations, LiveView, Offers, OpenPrompt, OpenTurn,
    choices::ChoiceRecord,
    counted::Counted,
    covered::Granted,
    desk::{Book, FallbackReason},
    exit::{SaidError, Unfit},
    large,
    money::Ledger,
    notes::{Note, Notice, Told},
};
use audit::Audit;
pub(super) use ended::EndedApproval;
use liveness::Calls;
use unasked::SilentPermissions;

/// How much of a prompt's text is kept for lists.
const PROMPT_START_CHARS: usize = 200;

/// The id of the `initialize` request that opens each run.
pub const INITIALIZE_ID: &str = "trunkline-initialize";

/// The facts known about a session before its journal is read from the start of its last run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AtRest {
    /// The session.
    pub session: SessionId,
    /// The state without a process.
    pub state: SessionState,
    /// Why it failed.
    pub reason: Option<FailReason>,
    /// Since when it is parked, and why.
    pub parked: Option<Parked>,
    /// The conversation.
    pub cli_session: Option<CliSessionId>,
    /// The last run.
    pub run: Option<RunId>,
    /// The CLI's last reported version.
    pub cli_version: Option<String>,
    /// The CLI's last reported model.
    pub model: Option<String>,
    /// The CLI's last reported permission mode.
    pub permission_mode: Option<String>,
    /// Turns that ended so far.
    pub turns: u64,
    /// Calls that were put off before the fold begins, and that nobody has decided.
    pub deferred: Vec<Approval>,
    /// The record that is read last before the fold begins.
    pub head: Seq,
    /// Which session has which conversation.
    #[serde(skip)]
    pub conversations: Conversations,
}

impl AtRest {
    /// A session of which nothing is known yet.
    pub fn of_new(session: SessionId) -> Self {
        Self {
            session,
            state: SessionState::Starting,
            reason: None,
            parked: None,
            cli_session: None,
            run: None,
            cli_version: None,
            model: None,
            permission_mode: None,
            turns: 0,
            deferred: Vec::new(),
            head: Seq::ZERO,
            conversations: Conversations::default(),
        }
    }
}

/// A process that lives, as far as the journal knows.
#[derive(Clone, Debug)]
struct Run {
    id: RunId,
    started_at: Timestamp,
    ready: bool,
    ready_at: Option<Timestamp>,
    /// Whether it was to go on with a conversation.
    resumed: bool,
    /// The id of that conversation, as long as the process is in it.
    resumes: Option<CliSessionId>,
    /// Whether the model said something in it.
    has_worked: bool,
    /// The terms of a restart.
    restart: Option<RestartTerms>,
    stop_asked: bool,
    /// The permission mode that it was asked to start in.
    asked_mode: Option<String>,
    /// Set when it is not what the session needs.
    unfit: Option<Unfit>,
    /// Set when it is stopped for not getting ready in this time.
    start_timeout_ms: Option<u64>,
    /// Set when it is stopped for saying nothing for this long.
    silent_for_ms: Option<u64>,
    /// Whether it closed its stdout, for which its keeper stops it.
    is_mute: bool,
    /// The CLI's work between its answers, if that takes long.
    activity: Option<Activity>,
    /// Set when it is stopped to be parked.
    park: Option<ParkReason>,
    /// Whether somebody interrupted its last turn.
    is_interrupted: bool,
    /// The words of the last `result`, if it was an error.
    said_error: Option<SaidError>,
    /// The choices that it still has to be given.
    restore: Restore,
}

/// Tells two prompts apart that claim to be the same.
pub(super) type PromptDigest = [u8; 32];

/// The digest of what a user message says, however its line is spelled: each transport has a spelling of its own.
pub(super) fn digest(line: &[u8]) -> PromptDigest {
    let message = std::str::from_utf8(line)
        .ok()
        .and_then(|line| json::member(line, "message"));
    let Some(content) = message.and_then(|message| json::member(message, "content")) else {
        return Sha256::digest(line).into();
    };
    match serde_json::from_str::<Value>(content) {
        // A text is one block of it.
        Ok(Value::String(text)) => Sha256::digest(json!([{"type": "text", "text": text}]).to_string()).into(),
        Ok(value) => Sha256::digest(value.to_string()).into(),
        // Half a character, or too deep.
        Err(_) => Sha256::digest(content).into(),
    }
}

/// A thing that the live daemon has to hear about, beside the facts.
#[derive(Debug)]
pub(super) enum Effect {
    /// The CLI answered one of our control requests.
    ControlAnswered(ControlResponse),
    /// A request of the CLI that is no approval is open no longer; whether it was answered.
    AskedClosed(String, bool),
    /// Something was allowed that may cover other approvals that are open.
    Granted(Granted),
    /// The choices that a record tells of.
    Choice(ChoiceRecord),
    /// An answer updates permissions.
    RulesUpdated(Seq, Box<RawValue>),
    /// A person asked for the stop of the session.
    StopAsked(Seq),
    /// An approval ended.
    ApprovalClosed(ApprovalId, Box<Resolution>),
    /// A turn ended; `result` is the CLI's line, if there was one.
    TurnEnded(Box<crate::domain::TurnEnd>, Option<Box<RawValue>>),
    /// A `result` that ends no turn.
    StrayResult(Seq),
    /// A person may want to know this.
    Notice(Told),
    /// The journal says so.
    NoticeRead(Told),
    /// A prompt was written to the CLI.
    PromptSent {
        uuid: PromptUuid,
        seq: Seq,
        digest: PromptDigest,
    },
    /// A prompt that was written is the command `/effort`.
    EffortTyped(PromptUuid),
    /// A process that was started in advance is a session's.
    Claimed,
    /// A prompt will not be answered by a turn.
    PromptDropped(PromptUuid, PromptState),
    /// The process ended.
    RunEnded,
    /// The session is not parked after all: something began first.
    ParkVoid,
    /// The process of a wake did not get ready, and the session is parked again.
    WakeFailed(FailReason),
}

/// The result of one or more records.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) facts: Vec<Fact>,
    pub(super) effects: Vec<Effect>,
    pub(super) counted: Counted,
}

/// The fold.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    session: SessionId,
    rest: SessionState,
    reason: Option<FailReason>,
    /// Holds in the state `parked`, and until a process that was started by a wake is ready.
    parked: Option<Parked>,
    /// The start that follows the death of the last process.
    restart: Option<Box<Restart>>,
    /// Prompts of the last process whose lines are on their way to this one.
    awaited: Vec<PromptUuid>,
    run: Option<Run>,
    last_run: Option<RunId>,
    conversation: Conversation,
    cli_version: Option<String>,
    model: Option<String>,
    permission_mode: Option<String>,
    turns: u64,
    turn: Option<OpenTurn>,
    prompts: Vec<OpenPrompt>,
    approvals: Vec<Arc<Approval>>,
    audit: Audit,
    /// Requests of the CLI that are no approvals, and who answers them.
    desk: Book,
    /// Control requests of ours that the CLI has not answered and whose answers change something here.
    own_requests: HashMap<String, OwnRequest>,
    ledger: Ledger,
    unasked: SilentPermissions,
    background_tasks: u32,
    offers: Offers,
    last_line_at: Option<Timestamp>,
    /// When the CLI last said something; that it is still connected says nothing.
    heard_at: Option<Timestamp>,
    /// When the word came back to the CLI.
    owed_since: Option<Timestamp>,
    /// Calls of tools that have no result.
    calls: Calls,
    /// The silence that the last notice is about.
    noticed_silence: Option<Timestamp>,
    timers: Timers,
    /// When the session was last used: something was written to the CLI, or something of it ended.
    used_at: Option<Timestamp>,
    head: Seq,
    /// Records that are missing and that no record tells of.
    missing: Vec<Missing>,
    has_lost: bool,
    last_lost: Seq,
    noted: Option<SessionState>,
    /// The restart that the last `state` record announced.
    noted_restart: Option<Timestamp>,
    /// Approvals that an `approval` record announced.
    announced: HashSet<ApprovalId>,
    /// Ends of approvals that no `decision` record announced yet.
    unannounced_ends: HashMap<ApprovalId, (ApprovalState, String)>,
}

impl Machine {
    pub(super) fn at_rest(rest: AtRest) -> Self {
        Self {
            session: rest.session,
            // A row may say "live" although no process is: the records that follow decide.
            rest: rest.state,
            reason: rest.reason,
            parked: rest.parked.filter(|_| rest.state == SessionState::Parked),
            restart: None,
            awaited: Vec::new(),
            run: None,
            last_run: rest.run,
            conversation: Conversation::of(rest.cli_session, rest.session, rest.conversations),
            cli_version: rest.cli_version,
            model: rest.model,
            permission_mode: rest.permission_mode,
            turns: rest.turns,
            turn: None,
            prompts: Vec::new(),
            approvals: rest
                .deferred
                .iter()
                .map(large::held_alone)
                .map(Arc::new)
                .collect(),
            audit: Audit::default(),
            desk: Book::default(),
            own_requests: HashMap::new(),
            ledger: Ledger::default(),
            unasked: SilentPermissions::default(),
            background_tasks: 0,
            offers: Offers::default(),
            last_line_at: None,
            heard_at: None,
            owed_since: None,
            calls: Calls::default(),
            noticed_silence: None,
            timers: Timers::default(),
            used_at: None,
            head: rest.head,
            missing: Vec::new(),
            has_lost: false,
            last_lost: Seq::ZERO,
            noted: None,
            noted_restart: None,
            announced: HashSet::new(),
            unannounced_ends: HashMap::new(),
        }
    }

    /// The facts that it needs before it goes on with the start of a process.
    pub(super) fn rest(&self) -> AtRest {
        let deferred = self
            .approvals
            .iter()
            .filter(|it| it.kind == ApprovalKind::Deferred);
        AtRest {
            session: self.session,
            state: self.state(),
            reason: self.reason.clone(),
            parked: self.parked,
            cli_session: self.conversation.id,
            run: self.last_run,
            cli_version: self.cli_version.clone(),
            model: self.model.clone(),
            permission_mode: self.permission_mode.clone(),
            turns: self.turns,
            deferred: deferred.map(|approval| Approval::clone(approval)).collect(),
            head: self.head,
            conversations: Conversations::default(),
        }
    }

    /// The state; it follows from the rest.
    pub(super) fn state(&self) -> SessionState {
        let Some(run) = &self.run else {
            return match &self.restart {
                Some(_) => SessionState::Starting,
                None => self.rest,
            };
        };
        if run.stop_asked || run.is_mute {
            SessionState::Stopping
        } else if !run.is_ready() {
            SessionState::Starting
        } else if self.waits_for_answer() {
            SessionState::Waiting
        } else if self.turn.is_some() || !self.prompts.is_empty() {
            SessionState::Busy
        } else if self.has_deferred() {
            SessionState::Waiting
        } else {
            SessionState::Idle
        }
    }

    /// Whether a process lives, as far as the records say.
    pub(super) fn has_run(&self) -> bool {
        self.run.is_some()
    }

    /// Whether the process answered `initialize`, and has what was set.
    pub(super) fn is_ready(&self) -> bool {
        self.run.as_ref().is_some_and(Run::is_ready)
    }

    /// The number of the turn that runs, or of the next one.
    pub(super) fn turn_number(&self) -> u64 {
        self.turn.as_ref().map_or(self.turns + 1, |turn| turn.number)
    }

    /// The run that lives.
    pub(super) fn run_id(&self) -> Option<RunId> {
        self.run.as_ref().map(|run| run.id)
    }

    /// Whether the process must be stopped because it is not what was asked for.
    pub(super) fn has_wrong_mode(&self) -> bool {
        let run = self.run.as_ref();
        run.is_some_and(|run| (run.unfit.is_some() || run.restore.refused.is_some()) && !run.stop_asked)
    }

    /// The newest record that was read.
    pub(super) fn head(&self) -> Seq {
        self.head
    }

    /// The state that the last `state` record says.
    pub(super) fn noted_state(&self) -> Option<SessionState> {
        self.noted
    }

    /// Why the session failed.
    pub(super) fn reason(&self) -> Option<&FailReason> {
        self.reason
            .as_ref()
            .filter(|_| self.state() == SessionState::Failed)
    }

    /// Whether the last process did not take what had been set, also if the session has come to rest otherwise than failed.
    pub(super) fn has_refused_choices(&self) -> bool {
        let reason = self.reason.as_ref().filter(|_| self.run.is_none());
        reason.is_some_and(|reason| reason.code == FailReason::CHOICES_NOT_RESTORED)
    }

    /// The requests that need a person, oldest first, open or not.
    pub(super) fn approvals(&self) -> &[Arc<Approval>] {
        &self.approvals
    }

    /// How the approval of this request ended, unless that is long ago.
    pub(super) fn ended_approval(&self, request_id: &str) -> Option<&EndedApproval> {
        self.audit.ended_of(request_id)
    }

    /// Whether an approval of this run was answered, not long ago.
    pub(super) fn is_answered(&self, id: ApprovalId) -> bool {
        self.audit.is_answered(id)
    }

    /// Whether an `approval` record announced it.
    pub(super) fn is_announced(&self, id: ApprovalId) -> bool {
        self.announced.contains(&id)
    }

    /// The permission mode that the CLI reported last.
    pub(super) fn permission_mode(&self) -> Option<&str> {
        self.permission_mode.as_deref()
    }

    /// Ends of approvals that no record announced yet: how, and by whom.
    pub(super) fn unannounced_ends(&self) -> impl Iterator<Item = (ApprovalId, ApprovalState, &str)> {
        let ends = self.unannounced_ends.iter();
        ends.map(|(id, (state, by))| (*id, *state, by.as_str()))
    }

    /// Whether no record announced yet that this approval ended.
    pub(super) fn has_unannounced_end(&self, id: ApprovalId) -> bool {
        self.unannounced_ends.contains_key(&id)
    }

    /// The CLI's open requests, approvals apart.
    pub(super) fn desk(&self) -> &Book {
        &self.desk
    }

    /// The number of the turn that runs.
    pub(super) fn running_turn(&self) -> Option<u64> {
        self.turn.as_ref().map(|turn| turn.number)
    }

    /// Whether prompts were written that have not begun, and nothing runs before them.
    pub(super) fn has_unbegun_prompt(&self) -> bool {
        let is_unbegun =
            |prompt: &OpenPrompt| matches!(prompt.state, PromptState::Sent | PromptState::Queued);
        self.turn.is_none() && self.prompts.iter().any(is_unbegun)
    }

    /// Whether nothing runs that an end of input would cut short.
    pub(super) fn is_quiet(&self) -> bool {
        self.turn.is_none()
            && self.prompts.is_empty()
            && !self.waits_for_answer()
            && self.background_tasks == 0
    }

    /// Whether the CLI asks something of its host before it ends, if it can.
    pub(super) fn has_last_words(&self) -> bool {
        self.is_ready() && self.desk.registrations().has_event("SessionEnd")
    }

    /// Whether the prompt is open.
    pub(super) fn has_prompt(&self, uuid: PromptUuid) -> bool {
        self.prompts.iter().any(|prompt| prompt.uuid == uuid)
    }

    /// Turns that ended so far.
    pub(super) fn turns(&self) -> u64 {
        self.turns
    }

    /// The view of the session as it is now.
    pub(super) fn view(&self, cli_pid: Option<i32>) -> LiveView {
        LiveView {
            state: self.state(),
            reason: self.reason().cloned().or_else(|| self.unusable_now()),
            run_id: self.last_run,
            cli_pid: cli_pid.filter(|_| self.run.is_some()),
            cli_session_id: self.conversation.id,
            earlier_session_id: self.conversation.earlier,
            cli_version: self.cli_version.clone(),
            model: self.model.clone(),
            permission_mode: self.permission_mode.clone(),
            head_seq: self.head,
            turn: self.turn.clone(),
            turns: self.turns,
            open_prompts: self.prompts.clone(),
            approvals: self.open_approvals().to_vec(),
            waiting_approvals: self.waiting_approvals(),
            requests: Vec::new(),
            waiting_requests: 0,
            background_tasks: self.background_tasks,
            activity: self.run.as_ref().and_then(|run| run.activity.clone()),
            offers: self.offers,
            unasked_tool: self.unasked.tool().filter(|_| self.run.is_some()),
            last_line_at: self.last_line_at,
            restart: self.restart.as_deref().cloned(),
            parked: self.parked(),
            unused_since: None,
            is_input_under_way: false,
            is_woken: false,
            silent_since: self.silent_since(),
            is_silent: self.is_silence_noticed(),
        }
    }

    /// Reads what comes before the records of a chunk: that some are missing.
    pub(super) fn enter(&mut self, chunk: &Chunk) {
        match chunk.missing {
            Some(missing) if missing.is_lost() => self.skip(missing),
            // Nothing that they said is not said elsewhere.
            Some(missing) => self.head = missing.last_seq,
            None => {}
        }
    }

    /// Reads the next record.
    pub(super) fn apply(&mut self, record: &RecordRef<'_>, out: &mut Outcome) {
        let before = self.state();
        let (spoke, owed) = (self.silent_since().is_some(), self.silence().is_some());
        self.head = record.seq;
        match record.source {
            Source::Cli => {
                self.last_line_at = Some(record.at);
                if self.run.is_some() {
                    self.on_cli(record, out);
                }
            }
            Source::Client => {
                self.used_at = Some(record.at);
                self.on_client(record, out);
            }
            Source::Daemon => self.on_note(record, out),
            Source::StdoutText | Source::Stderr => {}
        }
        if (!spoke && self.silent_since().is_some()) || (!owed && self.silence().is_some()) {
            // Its turn to speak begins now.
            self.owed_since = Some(record.at);
        }
        let after = self.state();
        if after != before {
            let reason = self.reason().cloned();
            out.facts.push(Fact::State {
                state: after,
                reason,
                at: record.at,
            });
        }
    }

    fn on_note(&mut self, record: &RecordRef<'_>, out: &mut Outcome) {
        match Note::read(record.data) {
            Some(Note::RunStarted(started)) => self.on_run_started(started, record, out),
            Some(Note::RunExited { run_id, exit }) => {
                self.on_run_ended(run_id, Some(exit), true, record, out)
            }
            Some(Note::RunLost { run_id, watched }) => {
                self.on_run_ended(run_id, None, watched, record, out);
            }
            Some(Note::StartFailed { reason, retry }) if self.run.is_none() => {
                self.on_start_failed(reason, retry, record, out);
            }
            Some(Note::StopRequested {
                park: Some(reason), ..
            }) => self.on_park_requested(reason, out),
            Some(Note::StopRequested {
                by,
                start_timeout_ms,
                silent_for_ms,
                ..
            }) => {
                if by != "daemon" {
                    out.effects.push(Effect::StopAsked(record.seq));
                }
                if self.run.is_none() && matches!(self.rest, SessionState::Starting | SessionState::Parked) {
                    // Its start was still waiting, or it was parked.
                    self.rest = SessionState::Stopped;
                }
                if let Some(run) = &mut self.run {
                    let is_first = !run.stop_asked;
                    // A caller that stops a process while it is being parked wants no message to wake the session.
                    run.park = None;
                    run.stop_asked = true;
                    // A later stop does not take the reason of the first one back.
                    run.start_timeout_ms = run.start_timeout_ms.or(start_timeout_ms);
                    if is_first {
                        run.silent_for_ms = silent_for_ms;
                    } else if silent_for_ms.is_none() {
                        // But who stops a process that is being replaced wants none in its place.
                        run.silent_for_ms = None;
                    }
                } else {
                    self.on_restart_stopped(record, out);
                }
            }
            Some(Note::Notice(Notice::Silence(silence))) => self.noticed_silence = Some(silence.since),
            Some(Note::Notice(Notice::Lost(lost))) => {
                self.on_missing_noticed(lost.missing());
                out.facts.push(Fact::RecordsMissing);
            }
            Some(Note::Notice(Notice::Mute(_))) => {
                if let Some(run) = &mut self.run {
                    run.is_mute = true;
                }
            }
            Some(Note::Notice(Notice::Told(told))) => self.on_told(told, record.at, out),
            Some(Note::Claimed(claimed)) => {
                if let Some(run) = &mut self.run {
                    run.restart = claimed.restart;
                }
                // Its use begins here, however long it has waited.
                self.used_at = Some(record.at);
                out.effects.push(Effect::Claimed);
            }
            Some(Note::State { state, restart, .. }) => {
                self.noted = Some(state);
                self.noted_restart = restart.map(|restart| restart.at);
            }
            Some(Note::Approval {
                approval_id,
                deadline,
                rule,
                ..
            }) => {
                self.announced.insert(approval_id);
                self.on_ruled(approval_id, rule, deadline, out);
            }
            Some(Note::Decision { approval_id, .. }) => {
                self.announced.remove(&approval_id);
                self.unannounced_ends.remove(&approval_id);
            }
            Some(Note::CallDecided { request_id, .. }) => self.audit.on_call_decided(request_id),
            Some(Note::Fallback { subtype, reason, .. }) => {
                let reason = reason.unwrap_or(FallbackReason::NoClient);
                out.counted.fallback(subtype, reason.as_str());
            }
            Some(_) | None => {}
        }
    }

    fn open_turn(&mut self, record: &RecordRef<'_>) {
        if self.turn.is_none() && self.run.is_some() {
            self.turn = Some(OpenTurn {
                number: self.turns + 1,
                first_seq: record.seq,
                started_at: record.at,
                is_interrupted: false,
                is_blocked: false,
            });
            self.forget_error();
        }
    }

    fn close_prompts(&mut self, done: impl Fn(&OpenPrompt) -> bool, at: Timestamp, out: &mut Outcome) {
        self.prompts.retain(|prompt| {
            let done = done(prompt);
            if done {
                prompt_fact(prompt, PromptState::Completed, at, out);
            }
            !done
        });
    }

    fn set_model(&mut self, model: Option<String>, out: &mut Outcome) {
        if model.is_some() && self.model != model {
            self.model.clone_from(&model);
            out.facts.extend(model.map(Fact::Model));
        }
    }

    fn set_permission_mode(&mut self, mode: Option<String>, out: &mut Outcome) {
        if mode.is_some() && self.permission_mode != mode {
            self.permission_mode.clone_from(&mode);
            let granted = mode
                .as_deref()
                .and_then(|mode| Granted::by_mode(mode, self.approval_ids()));
            out.effects.extend(granted.map(Effect::Granted));
            out.facts.extend(mode.map(Fact::PermissionMode));
        }
    }
}

fn prompt_fact(prompt: &OpenPrompt, state: PromptState, at: Timestamp, out: &mut Outcome) {
    out.facts.push(Fact::Prompt {
        uuid: prompt.uuid,
        state,
        text: None,
        seq: prompt.seq,
        at,
    });
}
