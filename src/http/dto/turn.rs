//! Owns turns, runs and sums of usage.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{
    domain::{ModelUsage, RunExit, RunId, Seq, Timestamp, TokenUsage, TurnEnd, Usd},
    session::TurnOutcome,
    store::{RunRow, UsageGroup, UsageRow},
};

/// A finished turn.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Turn {
    /// Its number within the session, from 1.
    number: u64,
    /// The process that ran it.
    run_id: RunId,
    /// Its first record.
    first_seq: Seq,
    /// The record of its end.
    last_seq: Seq,
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// When it ended.
    #[schema(value_type = String, format = DateTime)]
    ended_at: Timestamp,
    /// The prompts that it answered; empty when the CLI began it by itself.
    prompts: Vec<Uuid>,
    /// The origin of a turn that no prompt began.
    origin: Option<String>,
    /// How it ended, as the CLI says; `interrupted` when its process ended first.
    subtype: String,
    /// Whether it failed. One that somebody interrupted has not.
    is_error: bool,
    /// `interrupted` when somebody interrupted it, `blocked` when a hook kept its prompt from the model, so that nothing was
    /// answered, `cut_short` when its process ended first, `failed` for a `success` with an error of the model API; else the subtype.
    outcome: String,
    /// Why it ended, as the CLI says.
    terminal_reason: Option<String>,
    /// Model calls.
    num_turns: Option<u64>,
    /// Wall time as the CLI measured it.
    duration_ms: Option<u64>,
    /// Time spent in the model API.
    duration_api_ms: Option<u64>,
    /// The service that the model API gave, such as `standard` or `priority`; `null` when unknown.
    service_tier: Option<String>,
    /// Cost of this turn in US dollars; `null` when unknown.
    #[schema(value_type = Option<f64>)]
    cost_usd: Option<Usd>,
    /// Tokens of this turn; `null` when unknown.
    usage: Option<TokenUsage>,
    /// Each model's share.
    models: Vec<ModelUsage>,
}

impl From<TurnEnd> for Turn {
    fn from(turn: TurnEnd) -> Self {
        Self {
            number: turn.number,
            run_id: turn.run_id,
            first_seq: turn.first_seq,
            last_seq: turn.last_seq,
            started_at: turn.started_at,
            ended_at: turn.ended_at,
            prompts: turn.prompts,
            origin: turn.origin,
            subtype: turn.subtype,
            is_error: turn.is_error,
            outcome: turn.outcome,
            terminal_reason: turn.terminal_reason,
            num_turns: turn.num_turns,
            duration_ms: turn.duration_ms,
            duration_api_ms: turn.duration_api_ms,
            service_tier: turn.service_tier,
            cost_usd: turn.cost_usd,
            usage: turn.usage,
            models: turn.models,
        }
    }
}

/// A turn and what the CLI said at its end.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct TurnResult {
    /// The turn.
    pub(in crate::http) turn: Turn,
    /// The CLI's result message, byte for byte; `null` when its process ended first.
    #[schema(value_type = Option<Object>)]
    pub(in crate::http) result: Option<Box<RawValue>>,
}

impl From<&TurnOutcome> for TurnResult {
    fn from(outcome: &TurnOutcome) -> Self {
        Self {
            turn: outcome.turn.clone().into(),
            result: outcome.result.clone(),
        }
    }
}

/// A page of turns, first one first.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct TurnPage {
    /// The turns.
    pub(in crate::http) items: Vec<Turn>,
    /// Where the next page begins; `null` at the end.
    pub(in crate::http) next_cursor: Option<String>,
}

/// How a process was told which conversation to open.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum RunMode {
    /// A new one.
    New,
    /// The stored one.
    Resume,
    /// A copy of another.
    Fork,
}

/// One life of a CLI process.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Run {
    /// Its id.
    id: RunId,
    /// How it was told which conversation to open.
    mode: RunMode,
    /// The record that asked for it.
    started_seq: Seq,
    /// When it was asked for.
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// When it was ready.
    #[schema(value_type = Option<String>, format = DateTime)]
    ready_at: Option<Timestamp>,
    /// The CLI's version.
    cli_version: Option<String>,
    /// When it ended; `null` while it lives.
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
    /// How it ended; `null` while it lives.
    exit: Option<RunExit>,
}

impl From<RunRow> for Run {
    fn from(run: RunRow) -> Self {
        use crate::domain::StartMode;
        let (ended_at, exit) = run.ended.map(|ended| (ended.at, ended.exit)).unzip();
        Self {
            id: run.id,
            mode: match run.mode {
                StartMode::New => RunMode::New,
                StartMode::Resume => RunMode::Resume,
                StartMode::Fork => RunMode::Fork,
            },
            started_seq: run.started_seq,
            started_at: run.started_at,
            ready_at: run.ready_at,
            cli_version: run.cli_version,
            ended_at,
            exit,
        }
    }
}

/// The processes of a session, first one first.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct RunPage {
    /// The runs.
    pub(in crate::http) items: Vec<Run>,
    /// Always `null`: the list is whole.
    pub(in crate::http) next_cursor: Option<String>,
}

/// The key that usage is summed by.
#[derive(Clone, Copy, Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum UsageBy {
    /// The day on which the turn ended: in UTC, or in the time zone that `tz` names.
    #[default]
    Day,
    /// The model.
    Model,
    /// The session.
    Session,
    /// The working directory.
    Cwd,
    /// The tag.
    Tag,
    /// The agent that leads the conversation, as the launch option `agent` names it.
    Agent,
}

impl From<UsageBy> for UsageGroup {
    fn from(by: UsageBy) -> Self {
        match by {
            UsageBy::Day => Self::Day,
            UsageBy::Model => Self::Model,
            UsageBy::Session => Self::Session,
            UsageBy::Cwd => Self::Cwd,
            UsageBy::Tag => Self::Tag,
            UsageBy::Agent => Self::Agent,
        }
    }
}

/// The sum of one group.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Usage {
    /// The day (`YYYY-MM-DD`), model, session id, directory, tag or agent; `null` for sessions without a tag or an agent.
    key: Option<String>,
    /// Finished turns of the CLI; by model, turns that the model took part in.
    turns: u64,
    /// Finished turns of the simulated agent. They cost nothing and are in no other sum.
    simulated_turns: u64,
    /// Sum of the known costs in US dollars.
    #[schema(value_type = f64)]
    cost_usd: Usd,
    /// Turns whose cost is not known and so is not in the sum.
    turns_with_unknown_cost: u64,
    /// Sum of the tokens.
    usage: TokenUsage,
}

impl From<UsageRow> for Usage {
    fn from(row: UsageRow) -> Self {
        Self {
            key: row.key,
            turns: row.turns,
            simulated_turns: row.simulated_turns,
            cost_usd: row.cost_usd,
            turns_with_unknown_cost: row.unknown_cost_turns,
            usage: row.usage,
        }
    }
}

/// A page of sums. Days come newest first, other groups by falling cost.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct UsagePage {
    /// The sums.
    pub(in crate::http) items: Vec<Usage>,
    /// Where the next page begins; `null` at the end.
    pub(in crate::http) next_cursor: Option<String>,
}
