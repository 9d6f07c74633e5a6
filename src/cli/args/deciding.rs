//! Owns the flags of what decides: `approvals`, `approve`, `deny` and `rules`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::values::whole;

/// `approvals`
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct Approvals {
    /// In this state: pending, allowed, denied, cancelled, withdrawn, abandoned, changed, overruled, or all.
    #[arg(long, default_value = "pending")]
    pub(in crate::cli) state: String,

    /// Only of this session: id, unique beginning of it, or `last`.
    #[arg(long)]
    pub(in crate::cli) session: Option<String>,

    /// Only of this kind: tool, question, plan, elicitation, dialog.
    #[arg(long)]
    pub(in crate::cli) kind: Option<String>,

    /// Only about this tool, MCP server or kind of dialog.
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) tool: Option<String>,

    /// Show all of what is asked, however long.
    #[arg(long)]
    pub(in crate::cli) full: bool,

    /// At most this many.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, allow_negative_numbers = true, value_parser = whole(1..=500_u32))]
    pub(in crate::cli) limit: u32,
}

/// `rules`
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct Rules {
    #[command(subcommand)]
    pub(in crate::cli) change: Option<RulesChange>,

    /// Session: id, unique beginning of it, or `last`. Without one: the rules of the configuration.
    pub(in crate::cli) session: Option<String>,

    /// Say which rule would decide about this tool, and why.
    #[arg(long, value_name = "TOOL")]
    pub(in crate::cli) test: Option<String>,

    /// The tool's input, as JSON: '{"command": "git status"}'.
    #[arg(long, value_name = "JSON", requires = "test")]
    pub(in crate::cli) input: Option<String>,

    /// The sub-agent that asks.
    #[arg(long, value_name = "ID", requires = "test")]
    pub(in crate::cli) agent: Option<String>,

    /// Why the CLI asks, as an approval says: safetyCheck, rule, ...
    #[arg(long, value_name = "REASON", requires = "test")]
    pub(in crate::cli) reason_type: Option<String>,
}

/// `rules add` and `rules rm`
#[derive(Clone, Debug, Subcommand)]
pub(in crate::cli) enum RulesChange {
    /// Add a rule to a session.
    Add(RulesAdd),
    /// Remove a rule of a session.
    Rm(RulesRm),
}

/// `rules add`
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct RulesAdd {
    /// Session: id, unique beginning of it, or `last`.
    pub(in crate::cli) session: String,

    /// The rule as JSON: '{"action": "allow", "tool": "Read"}'.
    pub(in crate::cli) rule: Option<String>,

    /// Allow this tool.
    #[arg(long, value_name = "TOOL", conflicts_with_all = ["rule", "deny", "ask"])]
    pub(in crate::cli) allow: Option<String>,

    /// Deny this tool.
    #[arg(long, value_name = "TOOL", conflicts_with_all = ["rule", "ask"])]
    pub(in crate::cli) deny: Option<String>,

    /// Always ask before this tool.
    #[arg(long, value_name = "TOOL", conflicts_with = "rule")]
    pub(in crate::cli) ask: Option<String>,
}

/// `rules rm`
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct RulesRm {
    /// Session: id, unique beginning of it, or `last`.
    pub(in crate::cli) session: String,

    /// The rule's id.
    pub(in crate::cli) rule: String,
}

/// `approve`
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct Approve {
    /// Session: id, unique beginning of it, or `last`.
    pub(in crate::cli) session: String,

    /// Approval id, or a unique beginning of it; not needed when only one is pending.
    pub(in crate::cli) approval: Option<String>,

    /// Answer to a question, in order; may be repeated. The number of an option or your own text.
    #[arg(long = "answer", value_name = "TEXT")]
    pub(in crate::cli) answers: Vec<String>,

    /// JSON to run the tool with instead of what the agent asked for.
    #[arg(long, value_name = "JSON")]
    pub(in crate::cli) input: Option<String>,

    /// Also always allow what the agent suggests to allow always.
    #[arg(long, conflicts_with = "input")]
    pub(in crate::cli) always: bool,

    /// File with the plan to carry out instead of the agent's.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) plan: Option<PathBuf>,

    /// Permission mode to go on in after a plan: default, acceptEdits, ...
    #[arg(long, value_name = "MODE")]
    pub(in crate::cli) next_mode: Option<String>,

    /// Field of a form; may be repeated.
    #[arg(long = "field", value_name = "NAME=VALUE")]
    pub(in crate::cli) fields: Vec<String>,

    /// JSON of the whole form.
    #[arg(long, value_name = "JSON", conflicts_with = "fields")]
    pub(in crate::cli) content: Option<String>,

    /// JSON that a dialog is completed with.
    #[arg(long, value_name = "JSON")]
    pub(in crate::cli) result: Option<String>,

    /// Do not ask again. On a terminal, a request that is not named by its id is shown and asked about.
    #[arg(short, long)]
    pub(in crate::cli) yes: bool,
}

/// `deny`
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct Deny {
    /// Session: id, unique beginning of it, or `last`.
    pub(in crate::cli) session: String,

    /// Approval id, or a unique beginning of it; not needed when only one is pending.
    pub(in crate::cli) approval: Option<String>,

    /// The words for the agent.
    #[arg(short, long)]
    pub(in crate::cli) message: Option<String>,

    /// Also end the turn.
    #[arg(long)]
    pub(in crate::cli) interrupt: bool,

    /// Close a form without an answer instead of declining it.
    #[arg(long)]
    pub(in crate::cli) cancel: bool,
}
