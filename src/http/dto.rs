//! Owns the objects that the API takes and gives. Inner types are no wire types: they are turned into these here.

mod approval;
mod message;
mod meta;
mod problem;
mod redact;
mod session;
mod status;
mod turn;

pub(super) use approval::{APPROVALS_CSV_HEADING, Approval, ApprovalPage, ApprovalSummary, DecisionRequest};
pub(super) use message::{
    ControlReply, ControlRequest, ConversationItem, ConversationPage, EventPage, InterruptRequest,
    ModelRequest, PermissionModeRequest, Prompt, Role, SendReply, SendRequest, ThinkingRequest,
};
pub(super) use problem::Problem;
pub(super) use session::{CreateRequest, ForkRequest, Session, SessionPage, UpdateRequest};
pub(super) use status::{Health, Readiness};
pub(super) use turn::{RunPage, Turn, TurnPage, TurnResult, UsageBy, UsagePage};
