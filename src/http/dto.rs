//! Owns the objects that the API takes and gives. Inner types are no wire types: they are turned into these here.

mod approval;
mod attention;
mod control;
mod export;
mod files;
mod find;
mod journals;
mod lobby;
mod message;
mod meta;
mod problem;
mod processes;
mod queue;
mod rate_limit;
mod redact;
mod rule;
mod session;
mod status;
mod task;
mod turn;
mod webhook;

pub(super) use approval::{APPROVALS_CSV_HEADING, Approval, ApprovalPage, ApprovalSummary, DecisionRequest};
pub(super) use attention::{AttentionState, PutOffRequest, Seen, SeenRequest};
pub(super) use control::{
    Account, AgentList, AnyReply, BackgroundRequest, CommandList, ControlReply, ControlRequest, Detail,
    InterruptRequest, McpServerRequest, McpServersRequest, ModelList, ModelRequest, PermissionModeRequest,
    RawAccount, RawList, RawReply, RewindRequest, SettingsRequest, ThinkingRequest, documented,
};
pub(super) use export::ExportItem;
pub(super) use files::{DirectoryList, FileBefore};
pub(super) use find::{FindHit, FindPage, Speaker};
pub(super) use journals::CollectJournals;
pub use journals::JournalsCollected;
pub(super) use lobby::{LobbyFrame, LobbyStreamEvent};
pub(super) use message::{
    ConversationItem, ConversationPage, EventPage, Prompt, Record, Role, SendReply, SendRequest,
};
pub(super) use problem::Problem;
pub(super) use processes::{Examination, ProcessList};
pub use processes::{Finding, FindingGrade};
pub(super) use queue::{QueueChange, QueueRequest, QueuedPrompt, QueuedPromptList, read_queued};
pub(super) use rate_limit::RateLimitList;
pub(super) use rule::{RuleList, RuleTestRequest, RuleVerdict};
pub(super) use session::{CreateRequest, ForkRequest, ResumeRequest, Session, SessionPage, UpdateRequest};
pub(super) use status::{Health, Readiness};
pub(super) use task::{TaskList, Tasks, TodoList};
pub(super) use turn::{RunPage, Turn, TurnPage, TurnResult, UsageBy, UsagePage};
pub(super) use webhook::{MadeWebhook, Webhook, WebhookList, WebhookRequest, WebhookTest, WebhookUpdate};
