//! Owns the session object and the bodies that make and change sessions.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;
use uuid::Uuid;

use super::{ApprovalSummary, Prompt, TurnResult, meta, redact};
use crate::{
    claude::{
        LaunchOptions,
        options::{OptionsPatch, patch::differing},
    },
    domain::{
        Activity, CliSessionId, Clock, FailReason, LastLine, Parked, PromptState, RateLimit, Restart,
        RestartOverride, RuleSpec, Seq, SessionId, SessionState, Timestamp, TokenUsage, Usd, WayOut, restart,
    },
    http::{ApiError, ErrorCode},
    session::{self, EDITING_TOOLS, LiveView},
    store::{MetaPatch, SessionRow},
    supervisor::{CreateSession, ForkSession, ResumePoint, Resumed, SessionChange, SessionView},
};

/// A session as it is now.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Session {
    /// Our id. It never changes.
    id: SessionId,
    /// A person's name for it.
    title: Option<String>,
    /// A person's group for it.
    tag: Option<String>,
    /// A person's key-value pairs.
    labels: BTreeMap<String, String>,
    /// The working directory.
    cwd: String,
    /// Its state.
    state: SessionState,
    /// Its place among the starts that wait for their turn, from 1; `null` when it does not wait. It is in the state
    /// `starting` meanwhile.
    start_queue_position: Option<usize>,
    /// Why it failed; set in the state `failed`.
    reason: Option<FailReason>,
    /// The ways to go on from there, best first; empty in every state but `failed`. `resume` and `fork` are the requests of these
    /// names, `fresh_start` is a resume with `fresh`, `change_options` is a `PATCH` of its options, after which it can be resumed.
    ways_out: Vec<WayOut>,
    /// The restart that is due, as the CLI died unasked; `null` when none is. The state is `starting` meanwhile. A stop takes
    /// it back, a resume makes it at once.
    restart: Option<DueRestart>,
    /// Since when it has no process on purpose, and why; set in the state `parked`. The next message wakes it.
    parked: Option<Parked>,
    /// For how long the CLI has said nothing: since its start, its last line, or since the word came back to it. `null`
    /// without a process, and while a person, a hook, an MCP server or a tool has the word.
    silent_for_ms: Option<u64>,
    /// Whether it has been silent for longer than `liveness.after_ms` while it should say something.
    is_silent: bool,
    /// The CLI's work between its answers, if that takes long: it compacts the conversation, or waits to ask the model API again.
    activity: Option<Activity>,
    /// Whether the simulated agent runs it in place of the CLI. The first run decides; it never changes.
    simulated: bool,
    /// The CLI behind it.
    cli: Cli,
    /// The model that the CLI reported last.
    model: Option<String>,
    /// The permission mode that the CLI reported last.
    permission_mode: Option<String>,
    /// The last record of its journal; 0 when there is none.
    head_seq: Seq,
    /// The turn that runs now.
    turn: Option<OpenTurn>,
    /// Prompts whose turn has not ended, oldest first.
    open_prompts: Vec<OpenPrompt>,
    /// The requests that need a person, oldest first: at most 256 are open at a time.
    pending_approvals: Vec<ApprovalSummary>,
    /// Approvals that open once others are closed. The list of approvals has them, and they can be decided already.
    waiting_approvals: usize,
    /// Background tasks of the CLI that run now.
    background_tasks: u32,
    /// Set when a tool of this name has changed a file although the permission mode asks, its process has asked for no
    /// permission so far, and `allowed_tools` names no such tool. A rule of a settings file is one reason, a CLI that does
    /// not ask its host is another.
    unasked_tool: Option<String>,
    /// Finished turns.
    turns: u64,
    /// Sum of the known costs of its turns, in US dollars. It never falls.
    #[schema(value_type = f64)]
    cost_usd: Usd,
    /// Turns whose cost is not known and so is not in the sum.
    turns_with_unknown_cost: u64,
    /// Sum of the tokens of its turns.
    usage: TokenUsage,
    /// The session that it was forked from.
    parent_id: Option<SessionId>,
    /// Whether that one is deleted.
    parent_deleted: bool,
    /// The message of the parent at which it branches off.
    forked_at: Option<Uuid>,
    /// The launch options. The values of environments and headers are hidden.
    #[schema(value_type = Object)]
    options: Value,
    /// The options that were changed since its process was started: the next one has them. Empty while it has no process.
    needs_restart: Vec<String>,
    /// Grows with each edit of its title, tag, labels, options, rules, what was seen and what waits. A `PATCH` with `If-Match` changes
    /// nothing when it is another one.
    pub(in crate::http) revision: u64,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it last worked or was edited.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// When the CLI last printed something.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_line_at: Option<Timestamp>,
    /// Messages that wait for it in the daemon.
    queued_prompts: u64,
    /// The start of the first prompt.
    first_prompt: Option<String>,
    /// The start of the last prompt.
    last_prompt: Option<String>,
    /// The last thing that the agent said or did.
    last_line: Option<LastLine>,
    /// Whether a turn ended that no person has seen.
    unread: bool,
    /// The last record that a person has seen, as clients say.
    seen_seq: Seq,
    /// The last words of its CLI about each limit of the account that it uses.
    rate_limits: Vec<RateLimit>,
    /// The prompt that came with the request; only in the answer to one that brought a prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) prompt_uuid: Option<Uuid>,
    /// The turn that answered the prompt; only in the answer to a request with `wait=result`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) outcome: Option<TurnResult>,
}

/// The CLI behind a session.
#[derive(Serialize, utoipa::ToSchema)]
struct Cli {
    /// The CLI's id of the conversation. It can change.
    session_id: CliSessionId,
    /// The version that ran last.
    version: Option<String>,
    /// The process; `null` while there is none.
    pid: Option<i32>,
}

/// A restart that is due.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct DueRestart {
    /// Which one in a row, from 1.
    attempt: u32,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// Why the last process ended.
    reason: FailReason,
}

impl DueRestart {
    pub(super) fn of(restart: Restart) -> Self {
        Self {
            attempt: restart.attempt,
            at: restart.at,
            reason: restart.reason,
        }
    }
}

/// A turn that has not ended.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct OpenTurn {
    /// Its number within the session, from 1.
    number: u64,
    /// Its first record.
    first_seq: Seq,
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
}

impl OpenTurn {
    pub(super) const fn of(turn: session::OpenTurn) -> Self {
        Self {
            number: turn.number,
            first_seq: turn.first_seq,
            started_at: turn.started_at,
        }
    }
}

/// A prompt whose turn has not ended.
#[derive(Serialize, utoipa::ToSchema)]
struct OpenPrompt {
    /// Its id.
    uuid: Uuid,
    /// How far it has come.
    state: PromptState,
    /// Its record.
    seq: Seq,
}

impl From<SessionView> for Session {
    fn from(view: SessionView) -> Self {
        let SessionView {
            row,
            live,
            simulated,
            start_queue_position,
        } = view;
        Self {
            start_queue_position,
            ..Self::new(row, live, simulated)
        }
    }
}

impl Session {
    /// The object for what the tables and the actor know at one moment.
    pub(in crate::http) fn new(row: SessionRow, live: LiveView, simulated: bool) -> Self {
        // A process that died before its first result may have kept nothing.
        let is_kept = keeps_conversation(&row.options);
        let can_be_copied = is_kept && row.turns > row.turns_with_unknown_cost;
        let changed = changed_options(&row);
        let has_process = live.state.is_live() && live.restart.is_none();
        let is_mended = !changed.is_empty() && !budget_is_spent(&row);
        Self {
            id: row.id,
            title: row.title,
            tag: row.tag,
            labels: row.labels,
            cwd: row.cwd,
            state: live.state,
            ways_out: restart::ways_out(
                live.state,
                live.reason.as_ref(),
                row.turns,
                is_kept,
                can_be_copied,
                is_mended,
            ),
            start_queue_position: None,
            reason: live.reason,
            restart: live.restart.map(DueRestart::of),
            parked: live.parked,
            silent_for_ms: live.silent_since.map(|since| Clock.now().millis_since(since)),
            is_silent: live.is_silent,
            activity: live.activity,
            simulated,
            cli: Cli {
                session_id: live.cli_session_id.unwrap_or(row.cli_session_id),
                version: live.cli_version.or(row.cli_version),
                pid: live.cli_pid,
            },
            model: live.model.or(row.model),
            permission_mode: live.permission_mode.or(row.permission_mode),
            head_seq: live.head_seq,
            turn: live.turn.map(OpenTurn::of),
            open_prompts: live
                .open_prompts
                .into_iter()
                .map(|prompt| OpenPrompt {
                    uuid: prompt.uuid,
                    state: prompt.state,
                    seq: prompt.seq,
                })
                .collect(),
            pending_approvals: live
                .approvals
                .iter()
                .map(|approval| ApprovalSummary::of(approval))
                .collect(),
            waiting_approvals: live.waiting_approvals.count,
            background_tasks: live.background_tasks,
            unasked_tool: live
                .unasked_tool
                .filter(|_| !allows_edits(&row.options))
                .map(str::to_owned),
            turns: row.turns,
            cost_usd: row.cost_usd,
            turns_with_unknown_cost: row.turns_with_unknown_cost,
            usage: row.usage,
            parent_id: row.fork_of,
            parent_deleted: row.parent.is_none() && row.fork_of.is_some(),
            forked_at: row.forked_at,
            options: redact::options(&row.options),
            needs_restart: if has_process { changed } else { Vec::new() },
            revision: row.revision,
            created_at: row.created_at,
            updated_at: row.updated_at,
            last_line_at: live.last_line_at,
            queued_prompts: row.queued_prompts,
            first_prompt: row.first_prompt,
            last_prompt: row.last_prompt,
            unread: row.last_turn_seq > row.seen_seq,
            seen_seq: row.seen_seq,
            last_line: row.last_line,
            rate_limits: row.rate_limits,
            prompt_uuid: None,
            outcome: None,
        }
    }
}

/// The options that were changed since the last start.
fn changed_options(row: &SessionRow) -> Vec<String> {
    let started = row.started_options.as_deref();
    started.map_or_else(Vec::new, |started| differing(started, &row.options))
}

/// Whether a start would have nothing to spend.
fn budget_is_spent(row: &SessionRow) -> bool {
    #[derive(Deserialize)]
    struct Limited {
        max_budget_usd: Option<Usd>,
    }
    let limit = serde_json::from_str::<Limited>(&row.options).ok();
    let limit = limit.and_then(|limited| limited.max_budget_usd);
    limit.is_some_and(|limit| row.cost_usd >= limit)
}

/// Whether the launch options let the CLI keep the conversation.
fn keeps_conversation(options: &str) -> bool {
    #[derive(Deserialize)]
    struct Kept {
        persist_session: Option<bool>,
    }
    serde_json::from_str::<Kept>(options).map_or(true, |kept| kept.persist_session.unwrap_or(true))
}

/// Whether the launch options allow a tool that changes files.
fn allows_edits(options: &str) -> bool {
    #[derive(Deserialize)]
    struct Allowed {
        #[serde(default)]
        allowed_tools: Vec<String>,
    }
    let allowed: Option<Allowed> = serde_json::from_str(options).ok();
    allowed.is_some_and(|allowed| {
        let mut rules = allowed.allowed_tools.iter();
        rules.any(|rule| EDITING_TOOLS.iter().any(|tool| rule.starts_with(tool)))
    })
}

/// A page of sessions, newest activity first.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct SessionPage {
    /// The sessions.
    pub(in crate::http) items: Vec<Session>,
    /// Where the next page begins; `null` at the end.
    pub(in crate::http) next_cursor: Option<String>,
}

/// A session to be made.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"cwd": "/home/me/project", "prompt": "What does this project do?", "options": {"permission_mode": "default"}}))]
pub(in crate::http) struct CreateRequest {
    /// The working directory, as an absolute path.
    #[schema(pattern = "^/")]
    cwd: String,
    /// The first message.
    pub(in crate::http) prompt: Option<Prompt>,
    /// A name for it, at most 1024 characters.
    #[schema(max_length = 1024)]
    title: Option<String>,
    /// A group for it, at most 1024 characters.
    #[schema(max_length = 1024)]
    tag: Option<String>,
    /// Key-value pairs for it: at most 64, keys without `=`.
    #[serde(default)]
    #[schema(value_type = BTreeMap<meta::LabelKey, String>)]
    labels: BTreeMap<String, String>,
    /// How the CLI is started.
    #[serde(default, deserialize_with = "object")]
    options: LaunchOptions,
    /// The rules that decide approvals without a person, before those of the configuration; in their order.
    #[serde(default)]
    #[schema(max_items = 256)]
    rules: Vec<RuleSpec>,
    /// Its restart settings in place of the configuration's `[restart]`; a field that is left out stays as there.
    #[serde(default, deserialize_with = "some_object")]
    #[schema(value_type = Option<RestartOverride>)]
    restart: Option<RestartOverride>,
}

impl CreateRequest {
    /// The request in the supervisor's form. A prompt without an id gets `prompt_uuid`.
    pub(in crate::http) fn into_session(self, prompt_uuid: Uuid) -> Result<CreateSession, ApiError> {
        meta::check_text("title", self.title.as_deref())?;
        meta::check_text("tag", self.tag.as_deref())?;
        meta::check_labels(&self.labels)?;
        // Options of another session, as they were read, have it in the place of secrets.
        let options = serde_json::to_value(&self.options)
            .map_err(|error| ApiError::new(ErrorCode::Internal).caused_by(error))?;
        refuse_marked(&options, "say the value itself")?;
        if let Some(name) = self.restart.as_ref().and_then(RestartOverride::inexact) {
            let field = format!("restart.{name}");
            return Err(ApiError::new(ErrorCode::InvalidField)
                .detail(format!("{field}: expected a number up to {}", Seq::MAX))
                .member("field", field));
        }
        Ok(CreateSession {
            id: None,
            cwd: self.cwd,
            prompt: self
                .prompt
                .map(|prompt| prompt.into_message(prompt_uuid))
                .transpose()?,
            title: self.title,
            tag: self.tag,
            labels: self.labels,
            options: self.options,
            rules: self.rules,
            restart: self.restart,
            conversation: None,
            copies: None,
            host: None,
        })
    }
}

/// How a session is started again. Every field may be left out.
#[derive(Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ResumeRequest {
    /// Whether a new conversation begins, with the same settings.
    #[serde(default)]
    pub(in crate::http) fresh: bool,
    /// Where the session works, as an absolute path, if its file was lost and nothing else says so (409 `cwd_unknown`). Another
    /// one than it has is refused (422 `cwd_differs`).
    #[schema(pattern = "^/")]
    pub(in crate::http) cwd: Option<String>,
    /// A change of its launch options, which stays. Checked whole before anything is done.
    #[serde(default)]
    options: Option<OptionsPatch>,
    /// The message of the conversation after which it goes on, in place: the agent knows nothing of what came behind it. Not with `fresh`.
    at: Option<Uuid>,
    /// The prompt of the turn that alone may be behind `at`: with anything else there the agent CLI refuses (409 `resume_rejected`).
    resume_drops_turn: Option<Uuid>,
}

impl ResumeRequest {
    /// The request in the supervisor's form.
    pub(in crate::http) fn into_resumed(self) -> Result<Resumed, ApiError> {
        self.options.as_ref().map_or(Ok(()), refuse_hidden)?;
        let wrong = |field: &'static str, words: &str| {
            Err(ApiError::new(ErrorCode::InvalidField)
                .detail(format!("{field}: {words}"))
                .member("field", field))
        };
        let point = match (self.at, self.resume_drops_turn) {
            (Some(_), _) if self.fresh => return wrong("at", "a new conversation has no message"),
            (None, Some(_)) => return wrong("resume_drops_turn", "goes with 'at' alone"),
            (at, drops_turn) => at.map(|at| ResumePoint { at, drops_turn }),
        };
        Ok(Resumed {
            fresh: self.fresh,
            options: self.options,
            point,
        })
    }
}

/// Refuses a change of options that has the mark of a hidden value: it was read, and is to stay as it is.
fn refuse_hidden(patch: &OptionsPatch) -> Result<(), ApiError> {
    refuse_marked(&patch.to_value(), "leave it out, and the value stays as it is")
}

/// Refuses options with the mark of a hidden value, which no program means.
fn refuse_marked(options: &Value, way_out: &str) -> Result<(), ApiError> {
    let Some(place) = redact::marked(options) else {
        return Ok(());
    };
    let field = format!("options.{place}");
    Err(ApiError::new(ErrorCode::InvalidOption)
        .detail(format!(
            "{field}: is the mark that stands for a hidden value; {way_out}"
        ))
        .member("field", field))
}

/// A fork to be made. Every field may be left out.
#[derive(Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ForkRequest {
    /// The message after which the fork branches off; the end of the conversation when it is left out.
    at: Option<Uuid>,
    /// Another working directory, as an absolute path.
    #[schema(pattern = "^/")]
    cwd: Option<String>,
    /// A name for the fork, at most 1024 characters.
    #[schema(max_length = 1024)]
    title: Option<String>,
    /// The first message of the fork.
    pub(in crate::http) prompt: Option<Prompt>,
    /// A change of the launch options, for the fork alone.
    #[serde(default)]
    options: Option<OptionsPatch>,
}

impl ForkRequest {
    /// The request in the supervisor's form. A prompt without an id gets `prompt_uuid`.
    pub(in crate::http) fn into_fork(self, prompt_uuid: Uuid) -> Result<ForkSession, ApiError> {
        meta::check_text("title", self.title.as_deref())?;
        self.options.as_ref().map_or(Ok(()), refuse_hidden)?;
        Ok(ForkSession {
            id: None,
            at: self.at,
            cwd: self.cwd,
            title: self.title,
            prompt: self
                .prompt
                .map(|prompt| prompt.into_message(prompt_uuid))
                .transpose()?,
            options: None,
            patch: self.options,
            conversation: None,
            host: None,
        })
    }
}

/// A change of a session. A field that is left out stays; `null` empties it.
#[derive(Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"title": "Release notes", "tag": null, "options": {"max_budget_usd": 20.0}}))]
pub(in crate::http) struct UpdateRequest {
    /// The new name, at most 1024 characters.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, max_length = 1024)]
    title: Option<Option<String>>,
    /// The new group, at most 1024 characters.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, max_length = 1024)]
    tag: Option<Option<String>>,
    /// The new labels, in place of all that were there.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<BTreeMap<meta::LabelKey, String>>)]
    labels: Option<Option<BTreeMap<String, String>>>,
    /// A change of its launch options, for its next start. `needs_restart` in the answer says what its process does not have.
    #[serde(default)]
    options: Option<OptionsPatch>,
}

/// Takes an object only: a derived type would take its fields from a list too.
pub(super) fn object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Only<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Only<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(de::value::MapAccessDeserializer::new(map))
        }
    }

    deserializer.deserialize_map(Only(PhantomData))
}

/// As [`object`], or `null`.
fn some_object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(transparent, bound = "T: Deserialize<'de>")]
    struct Only<T>(#[serde(deserialize_with = "object")] T);

    Ok(Option::<Only<T>>::deserialize(deserializer)?.map(|Only(value)| value))
}

/// Tells a field that is `null` from one that is not there.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl UpdateRequest {
    /// The request in the supervisor's form.
    pub(in crate::http) fn into_change(self, revision: Option<u64>) -> Result<SessionChange, ApiError> {
        let labels = self.labels.map(Option::unwrap_or_default);
        meta::check_text("title", self.title.as_ref().and_then(Option::as_deref))?;
        meta::check_text("tag", self.tag.as_ref().and_then(Option::as_deref))?;
        labels.as_ref().map(meta::check_labels).transpose()?;
        self.options.as_ref().map_or(Ok(()), refuse_hidden)?;
        Ok(SessionChange {
            meta: MetaPatch {
                title: self.title,
                tag: self.tag,
                labels,
                options: None,
                revision,
            },
            options: self.options,
        })
    }
}
