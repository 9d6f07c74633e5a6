//! Owns one session: its state machine (a fold over its journal), its actor, and the handle that others hold.

mod actor;
mod admission;
mod approvals;
mod clients;
mod commands;
mod control;
mod counted;
mod credentials;
mod decisions;
mod desk;
mod error;
mod exit;
mod handle;
mod liveness;
mod machine;
mod money;
mod notes;
mod outbox;
mod process;
mod prompts;
mod requests;
mod restart;
mod ruling;
mod settle;
mod takeover;
mod turns;
mod view;

pub use actor::{SessionParts, SessionSettings, open};
pub use admission::{Admission, Admitted, Limits, Place, Refusal, StartTurn};
pub use approvals::kind_of_tool;
pub use desk::{DeskTimes, Routes};
pub use error::SessionError;
pub use handle::{Attachment, ClientInbox, Decision, Launch, Sent, SessionHandle, TurnOutcome};
pub use machine::{AtRest, INITIALIZE_ID};
pub use ruling::where_it_leads;
pub use view::{EDITING_TOOLS, LiveView, Offers, OpenPrompt, OpenTurn, PendingRequest};
