//! Owns the projection of facts into tables.
//!
//! The session's row is read once, folded over all facts of a projection in memory, and written once with the new
//! projected `seq`; the rows of runs, turns, prompts and approvals are written as the facts come.

mod money;

pub(super) use money::{charged, set_total};

use sqlx::{SqliteConnection, sqlite::SqliteRow};
use uuid::Uuid;

use super::{
    PROMPT_TEXT_CHARS, QueryError,
    column::{Columns, integer, name},
    outbox::{self, Happened},
    rate_limits, tasks, todos,
};
use crate::domain::{
    AgentKind, Approval, ApprovalHow, ApprovalId, ApprovalKind, ApprovalState, Chosen, CliSessionId, Fact,
    Projection, PromptState, PromptUuid, Resolution, RunExit, RunId, Seq, SessionId, SessionState, StartMode,
    Timestamp, TokenUsage, TurnEnd, Usd,
};

/// The outcome of facts.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// Whether a webhook is to be told of any of them.
    pub(super) is_told: bool,
    /// The sessions of whose journals records are missing.
    pub(super) damaged: Vec<SessionId>,
}

/// Adds what journals say. A projection that is covered already is skipped.
pub(super) async fn apply(
    connection: &mut SqliteConnection,
    projections: Vec<Projection>,
) -> Result<Applied, QueryError> {
    let mut applied = Applied::default();
    for projection in projections {
        let Some(mut session) = Session::load(connection, projection.session).await? else {
            tracing::warn!(session.id = %projection.session, "facts of a session that is not there were dropped");
            continue;
        };
        if projection.seq <= session.projected_seq {
            continue;
        }
        for fact in projection.facts {
            if matches!(fact, Fact::RecordsMissing) && !applied.damaged.contains(&session.id) {
                applied.damaged.push(session.id);
            }
            session.fold(connection, fact).await?;
        }
        session.projected_seq = projection.seq;
        let happened = std::mem::take(&mut session.happened);
        session.save(connection).await?;
        applied.is_told |= outbox::queue(connection, projection.session, happened).await?;
    }
    Ok(applied)
}

/// The columns of a session's row that facts change.
struct Session {
    id: SessionId,
    state: SessionState,
    state_reason: Option<String>,
    parked: Option<String>,
    cli_session_id: CliSessionId,
    agent: Option<AgentKind>,
    run_id: Option<RunId>,
    run_seq: Seq,
    cli_version: Option<String>,
    model: Option<String>,
    permission_mode: Option<String>,
    mode_of_options: bool,
    resume_at: Option<Uuid>,
    updated_at: Timestamp,
    projected_seq: Seq,
    turns: u64,
    cost_usd: Usd,
    unknown_cost_turns: u64,
    usage: TokenUsage,
    first_prompt: Option<String>,
    last_prompt: Option<String>,
    /// The facts that webhooks may be told of.
    happened: Vec<Happened>,
    last_line: Option<String>,
    last_turn_seq: Seq,
    seen_seq: Seq,
}

impl Session {
    async fn load(connection: &mut SqliteConnection, id: SessionId) -> Result<Option<Self>, QueryError> {
        let row = sqlx::query(
            "SELECT id, state, state_reason, cli_session_id, run_id, run_seq, cli_version, model, permission_mode,
                updated_at, projected_seq, turns, cost_nanos, unknown_cost_turns, input_tokens, output_tokens,
                cache_read_tokens, cache_creation_tokens, last_prompt, parked, agent,
                last_line, last_turn_seq, seen_seq, first_prompt, cache_creation_5m_tokens, cache_creation_1h_tokens,
                web_searches, mode_of_options, resume_at
             FROM sessions WHERE id = ?1",
        )
        .bind(id.to_string())
        .fetch_optional(connection)
        .await?;
        row.map(|row| Self::from_row(&row)).transpose()
    }

    fn from_row(row: &SqliteRow) -> Result<Self, QueryError> {
        let columns = Columns {
            table: "sessions",
            row,
        };
        Ok(Self {
            id: columns.parsed("id")?,
            state: columns.named("state")?,
            state_reason: columns.get("state_reason")?,
            parked: columns.get("parked")?,
            cli_session_id: columns.parsed("cli_session_id")?,
            agent: columns.named_opt("agent")?,
            run_id: columns.parsed_opt("run_id")?,
            run_seq: columns.seq("run_seq")?,
            cli_version: columns.get("cli_version")?,
            model: columns.get("model")?,
            permission_mode: columns.get("permission_mode")?,
            mode_of_options: columns.get("mode_of_options")?,
            resume_at: columns.parsed_opt("resume_at")?,
            updated_at: columns.time("updated_at")?,
            projected_seq: columns.seq("projected_seq")?,
            turns: columns.count("turns")?,
            cost_usd: columns.usd("cost_nanos")?,
            unknown_cost_turns: columns.count("unknown_cost_turns")?,
            usage: columns.tokens()?,
            first_prompt: columns.get("first_prompt")?,
            last_prompt: columns.get("last_prompt")?,
            happened: Vec::new(),
            last_line: columns.get("last_line")?,
            last_turn_seq: columns.seq("last_turn_seq")?,
            seen_seq: columns.seq("seen_seq")?,
        })
    }

    async fn save(self, connection: &mut SqliteConnection) -> Result<(), QueryError> {
        sqlx::query(
            "UPDATE sessions SET state = ?2, state_reason = ?3, cli_session_id = ?4, run_id = ?5, run_seq = ?6,
                cli_version = ?7, model = ?8, permission_mode = ?9, updated_at = ?10, projected_seq = ?11, turns = ?12,
                cost_nanos = ?13, unknown_cost_turns = ?14, input_tokens = ?15, output_tokens = ?16,
                cache_read_tokens = ?17, cache_creation_tokens = ?18, last_prompt = ?19, parked = ?20, agent = ?21,
                last_line = ?22, last_turn_seq = ?23, seen_seq = max(seen_seq, ?24),
                first_prompt = ?25, cache_creation_5m_tokens = ?26, cache_creation_1h_tokens = ?27, web_searches = ?28,
                mode_of_options = ?29, resume_at = ?30
             WHERE id = ?1",
        )
        .bind(self.id.to_string())
        .bind(self.state.as_str())
        .bind(self.state_reason)
        .bind(self.cli_session_id.to_string())
        .bind(self.run_id.map(|id| id.to_string()))
        .bind(integer(self.run_seq.get()))
        .bind(self.cli_version)
        .bind(self.model)
        .bind(self.permission_mode)
        .bind(self.updated_at.as_micros())
        .bind(integer(self.projected_seq.get()))
        .bind(integer(self.turns))
        .bind(self.cost_usd.as_nanos())
        .bind(integer(self.unknown_cost_turns))
        .bind(integer(self.usage.input_tokens))
        .bind(integer(self.usage.output_tokens))
        .bind(integer(self.usage.cache_read_input_tokens))
        .bind(integer(self.usage.cache_creation_input_tokens))
        .bind(self.last_prompt)
        .bind(self.parked)
        .bind(self.agent.map(AgentKind::as_str))
        .bind(self.last_line)
        .bind(integer(self.last_turn_seq.get()))
        .bind(integer(self.seen_seq.get()))
        .bind(self.first_prompt)
        .bind(integer(self.usage.cache_creation_5m_input_tokens))
        .bind(integer(self.usage.cache_creation_1h_input_tokens))
        .bind(integer(self.usage.web_search_requests))
        .bind(self.mode_of_options)
        .bind(self.resume_at.map(|at| at.to_string()))
        .execute(connection)
        .await?;
        Ok(())
    }

    async fn fold(&mut self, connection: &mut SqliteConnection, fact: Fact) -> Result<(), QueryError> {
        match fact {
            Fact::State { state, reason, at } => {
                // Parking, stopping and recovery are no work: they must not reorder a list.
                if matches!(state, SessionState::Busy | SessionState::Waiting) {
                    self.worked(at);
                }
                if state != SessionState::Parked {
                    self.parked = None;
                }
                if state == SessionState::Failed && self.state != SessionState::Failed {
                    self.happened.push(Happened::Failed(at));
                }
                self.state = state;
                // A reason is two strings: it can always be written.
                self.state_reason = reason.and_then(|reason| serde_json::to_string(&reason).ok());
                Ok(())
            }
            Fact::Parked(parked) => {
                self.parked = serde_json::to_string(&parked).ok();
                Ok(())
            }
            Fact::CliSession { id, at } => self.cli_session(connection, id, at).await,
            Fact::RunStarted {
                id,
                mode,
                agent,
                resume_at,
                seq,
                at,
            } => {
                // The first run decides for all.
                self.agent = self.agent.or(agent);
                self.resume_at = resume_at;
                self.run_started(connection, id, mode, seq, at).await
            }
            Fact::RunReady { id, cli_version, at } => self.run_ready(connection, id, cli_version, at).await,
            Fact::RunExited { id, exit, at } => {
                tasks::end_all(connection, self.id, at).await?;
                run_exited(connection, id, &exit, at).await
            }
            Fact::Task { news, run, seq, at } => {
                tasks::told(connection, self.id, &news, run, (seq, at)).await
            }
            Fact::Todos { change, seq, at } => todos::change(connection, self.id, *change, (seq, at)).await,
            Fact::Model(model) => {
                self.model = Some(model);
                Ok(())
            }
            Fact::Chosen(chosen) => {
                self.mode_of_options &= chosen != Chosen::PermissionMode;
                option_chosen(connection, self.id, chosen).await
            }
            Fact::Renamed(title) => renamed(connection, self.id, &title).await,
            Fact::PermissionMode(mode) => {
                if self.permission_mode.as_deref() != Some(&mode) {
                    self.mode_of_options = false;
                }
                self.permission_mode = Some(mode);
                Ok(())
            }
            Fact::Prompt {
                uuid,
                state,
                text,
                seq,
                at,
            } => self.prompt(connection, uuid, state, text, (seq, at)).await,
            Fact::LastLine(line) => {
                self.last_line = serde_json::to_string(&line).ok();
                Ok(())
            }
            Fact::TurnEnded(turn) => self.turn_ended(connection, &turn).await,
            Fact::CliTotal { cli_session, total } => money::set_total(connection, cli_session, &total).await,
            Fact::RateLimit(limit) => rate_limits::said(connection, self.id, &limit).await,
            Fact::ApprovalOpened(approval) => self.approval_opened(connection, &approval).await,
            Fact::ApprovalRuled { id, rule, deadline } => {
                self.approval_ruled(connection, id, rule, deadline).await
            }
            Fact::ApprovalClosed { id, resolution } => {
                self.approval_closed(connection, id, &resolution).await
            }
            Fact::ApprovalOverruled(id) => self.approval_overruled(connection, id).await,
            // The file of the session is written with what the tables know.
            Fact::RecordsMissing => Ok(()),
        }
    }

    fn worked(&mut self, at: Timestamp) {
        self.updated_at = self.updated_at.max(at);
    }

    async fn cli_session(
        &mut self,
        connection: &mut SqliteConnection,
        id: CliSessionId,
        at: Timestamp,
    ) -> Result<(), QueryError> {
        // The CLI repeats its id at every turn; only a new one is news.
        if self.cli_session_id == id {
            return Ok(());
        }
        self.resume_at = None;
        self.cli_session_id = id;
        sqlx::query(
            "INSERT INTO cli_sessions (session_id, position, cli_session_id, from_at)
             SELECT ?1, ifnull(max(position), 0) + 1, ?2, ?3 FROM cli_sessions WHERE session_id = ?1",
        )
        .bind(self.id.to_string())
        .bind(id.to_string())
        .bind(at.as_micros())
        .execute(connection)
        .await?;
        Ok(())
    }

    async fn run_started(
        &mut self,
        connection: &mut SqliteConnection,
        id: RunId,
        mode: StartMode,
        seq: Seq,
        at: Timestamp,
    ) -> Result<(), QueryError> {
        self.run_id = Some(id);
        self.run_seq = seq;
        self.worked(at);
        sqlx::query(
            "INSERT INTO runs (id, session_id, mode, started_seq, started_at) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (id) DO NOTHING",
        )
        .bind(id.to_string())
        .bind(self.id.to_string())
        .bind(name(&mode))
        .bind(integer(seq.get()))
        .bind(at.as_micros())
        .execute(connection)
        .await?;
        Ok(())
    }

    async fn run_ready(
        &mut self,
        connection: &mut SqliteConnection,
        id: RunId,
        cli_version: Option<String>,
        at: Timestamp,
    ) -> Result<(), QueryError> {
        sqlx::query("UPDATE runs SET ready_at = ?2, cli_version = ?3 WHERE id = ?1")
            .bind(id.to_string())
            .bind(at.as_micros())
            .bind(&cli_version)
            .execute(connection)
            .await?;
        if let Some(version) = &cli_version
            && self.agent.is_none()
        {
            // An older version did not write down the kind.
            self.agent = Some(AgentKind::of_version(version));
        }
        if cli_version.is_some() {
            self.cli_version = cli_version;
        }
        Ok(())
    }

    async fn prompt(
        &mut self,
        connection: &mut SqliteConnection,
        uuid: PromptUuid,
        state: PromptState,
        text: Option<String>,
        (seq, at): (Seq, Timestamp),
    ) -> Result<(), QueryError> {
        let text = text.map(|text| text.chars().take(PROMPT_TEXT_CHARS).collect::<String>());
        // A prompt is interrupted by the end of its process, which recovery may be the first to see.
        if state != PromptState::Interrupted {
            self.worked(at);
        }
        if state == PromptState::Started {
            // The prompt is the new end of the conversation.
            self.resume_at = None;
        }
        sqlx::query(
            "INSERT INTO prompts (session_id, uuid, state, text, seq, at, state_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)
             ON CONFLICT (session_id, uuid) DO UPDATE SET state = excluded.state, state_at = excluded.state_at,
                text = ifnull(prompts.text, excluded.text)",
        )
        .bind(self.id.to_string())
        .bind(uuid.to_string())
        .bind(state.as_str())
        .bind(&text)
        .bind(integer(seq.get()))
        .bind(at.as_micros())
        .execute(connection)
        .await?;
        if text.is_some() {
            // The client that writes to it has seen what came before.
            self.seen_seq = self.seen_seq.max(seq);
            if self.first_prompt.is_none() {
                self.first_prompt.clone_from(&text);
            }
            self.last_prompt = text;
        }
        Ok(())
    }

    async fn turn_ended(
        &mut self,
        connection: &mut SqliteConnection,
        turn: &TurnEnd,
    ) -> Result<(), QueryError> {
        let is_simulated = self.agent == Some(AgentKind::Simulated);
        let free = is_simulated.then(|| money::free(turn));
        let turn = free.as_ref().unwrap_or(turn);
        if !money::insert_turn(connection, self.id, turn, is_simulated).await? {
            // Counting a turn twice would be worse than not counting a second one of the same number.
            tracing::warn!(session.id = %self.id, turn = turn.number, "a turn with this number is stored already");
            return Ok(());
        }
        self.worked(turn.ended_at);
        self.resume_at = None;
        self.happened
            .push(Happened::TurnEnded(Box::new(turn.clone()), self.cost_usd));
        self.last_turn_seq = self.last_turn_seq.max(turn.last_seq);
        self.turns += 1;
        match turn.cost_usd {
            Some(cost) => self.cost_usd += money::charged(cost),
            None => self.unknown_cost_turns += 1,
        }
        if let Some(usage) = turn.usage {
            self.usage = money::sum(self.usage, usage);
        }
        Ok(())
    }

    async fn approval_opened(
        &mut self,
        connection: &mut SqliteConnection,
        approval: &Approval,
    ) -> Result<(), QueryError> {
        self.worked(approval.requested_at);
        sqlx::query(
            "INSERT INTO approvals (id, session_id, run_id, seq, request_id, kind, subject, request, requested_at,
                state, input_sha256, deadline, rule)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
             ON CONFLICT (id) DO NOTHING",
        )
        .bind(approval.id.to_string())
        .bind(self.id.to_string())
        .bind(approval.run_id.to_string())
        .bind(integer(approval.seq.get()))
        .bind(&approval.request_id)
        .bind(approval.kind.as_str())
        .bind(&approval.subject)
        .bind(approval.request.get())
        .bind(approval.requested_at.as_micros())
        .bind(ApprovalState::Pending.as_str())
        .bind(&approval.input_sha256)
        .bind(approval.deadline.map(Timestamp::as_micros))
        .bind(&approval.rule)
        .execute(connection)
        .await?;
        // A hook's decisions are only in the log.
        if approval.kind != ApprovalKind::Hook {
            self.happened
                .push(Happened::ApprovalOpened(Box::new(approval.clone())));
        }
        Ok(())
    }

    async fn approval_ruled(
        &self,
        connection: &mut SqliteConnection,
        id: ApprovalId,
        rule: Option<String>,
        deadline: Option<Timestamp>,
    ) -> Result<(), QueryError> {
        sqlx::query("UPDATE approvals SET rule = ?3, deadline = ?4 WHERE id = ?1 AND session_id = ?2")
            .bind(id.to_string())
            .bind(self.id.to_string())
            .bind(rule)
            .bind(deadline.map(Timestamp::as_micros))
            .execute(connection)
            .await?;
        Ok(())
    }

    /// Records that a call did not run that this entry says to have passed.
    async fn approval_overruled(
        &self,
        connection: &mut SqliteConnection,
        id: ApprovalId,
    ) -> Result<(), QueryError> {
        sqlx::query(
            "UPDATE approvals SET state = iif(state = ?3, ?4, state), ran_sha256 = NULL
             WHERE id = ?1 AND session_id = ?2 AND state IN (?3, ?5)",
        )
        .bind(id.to_string())
        .bind(self.id.to_string())
        .bind(ApprovalState::Allowed.as_str())
        .bind(ApprovalState::Overruled.as_str())
        .bind(ApprovalState::Changed.as_str())
        .execute(connection)
        .await?;
        Ok(())
    }

    /// Records how an approval ended. The first end stays.
    async fn approval_closed(
        &mut self,
        connection: &mut SqliteConnection,
        id: ApprovalId,
        resolution: &Resolution,
    ) -> Result<(), QueryError> {
        if resolution.state.is_answered() {
            self.worked(resolution.at);
        }
        if needed_nobody(resolution.how) {
            self.happened
                .retain(|fact| !matches!(fact, Happened::ApprovalOpened(approval) if approval.id == id));
            outbox::forget_approval(connection, id).await?;
        }
        sqlx::query(
            "UPDATE approvals SET state = ?2, resolved_by = ?3, response = ?4, resolved_at = ?5, how = ?8,
                input_changed = ?9, permissions_updated = ?10, ran_sha256 = ?11
             WHERE id = ?1 AND session_id = ?6 AND state = ?7",
        )
        .bind(id.to_string())
        .bind(resolution.state.as_str())
        .bind(&resolution.by)
        .bind(resolution.response.as_ref().map(|response| response.get()))
        .bind(resolution.at.as_micros())
        .bind(self.id.to_string())
        .bind(ApprovalState::Pending.as_str())
        .bind(resolution.how.as_str())
        .bind(resolution.input_changed)
        .bind(resolution.permissions_updated)
        .bind(&resolution.ran_sha256)
        .execute(connection)
        .await?;
        Ok(())
    }
}

/// Whether an approval that ended so was decided without a person, and without waiting for one.
const fn needed_nobody(how: ApprovalHow) -> bool {
    matches!(
        how,
        ApprovalHow::Rule | ApprovalHow::Covered | ApprovalHow::Hook | ApprovalHow::Cli
    )
}

async fn run_exited(
    connection: &mut SqliteConnection,
    id: RunId,
    exit: &RunExit,
    at: Timestamp,
) -> Result<(), QueryError> {
    sqlx::query(
        "UPDATE runs SET exited_at = ?2, exit_code = ?3, exit_signal = ?4, exit_intent = ?5, exit_killed = ?6,
            exit_stderr_tail = ?7, exit_spawn_error = ?8, exit_unwritten_lines = ?9,
            exit_stop_steps = ?10
         WHERE id = ?1",
    )
    .bind(id.to_string())
    .bind(at.as_micros())
    .bind(exit.code)
    .bind(exit.signal)
    .bind(name(&exit.intent))
    .bind(exit.killed)
    .bind(&exit.stderr_tail)
    .bind(&exit.spawn_error)
    .bind(exit.unwritten_lines)
    // Plain data always has a JSON form.
    .bind(serde_json::to_string(&exit.stop_steps).unwrap_or_else(|_| "[]".to_owned()))
    .execute(connection)
    .await?;
    Ok(())
}

async fn renamed(connection: &mut SqliteConnection, id: SessionId, title: &str) -> Result<(), QueryError> {
    sqlx::query("UPDATE sessions SET title = ?2 WHERE id = ?1")
        .bind(id.to_string())
        .bind(title)
        .execute(connection)
        .await?;
    Ok(())
}

/// Makes a choice part of the options, which the next start applies; the process has it. Options that are no JSON are left
/// alone: a failure here would hold back all other facts of the session.
async fn option_chosen(
    connection: &mut SqliteConnection,
    id: SessionId,
    chosen: Chosen,
) -> Result<(), QueryError> {
    let query = sqlx::query(
        "UPDATE sessions SET
            options = CASE WHEN ?3 IS NULL THEN json_remove(options, ?2) ELSE json_set(options, ?2, ?3) END,
            started_options = CASE WHEN NOT ifnull(json_valid(started_options), 0) THEN started_options
                WHEN ?3 IS NULL THEN json_remove(started_options, ?2) ELSE json_set(started_options, ?2, ?3) END
         WHERE id = ?1 AND json_valid(options)",
    )
    .bind(id.to_string());
    let query = match chosen {
        Chosen::Model(model) => query.bind("$.model").bind(model),
        Chosen::MaxThinkingTokens(tokens) => query.bind("$.max_thinking_tokens").bind(tokens),
        // The row has the mode in a column.
        Chosen::PermissionMode => return Ok(()),
    };
    query.execute(connection).await?;
    Ok(())
}
