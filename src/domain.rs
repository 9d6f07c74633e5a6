//! Owns the plain vocabulary of the program: ids, states, times, money and facts. It does no IO and knows no protocol.

pub mod activity;
pub mod agent;
pub mod approval;
pub mod client;
pub mod clock;
pub mod error_code;
pub mod excerpt;
pub mod fact;
pub mod ids;
pub mod last_line;
pub mod liveness;
pub mod lobby;
pub mod login;
pub mod money;
pub mod park;
pub mod prompt;
pub mod rate_limit;
pub mod restart;
pub mod role;
pub mod rule;
pub mod run;
pub mod seq;
pub mod state;
pub mod task;
pub mod todo;
pub mod turn;
pub mod web;
pub mod webhook;

pub use activity::{Activity, ActivityKind, ApiRetry};
pub use agent::AgentKind;
pub use approval::{
    Approval, ApprovalHow, ApprovalKind, ApprovalState, LeftOut, Resolution, kind_of_decider,
};
pub use client::{AttachedClient, BadClientId, ClientId};
pub use clock::{Clock, Timestamp};
pub use error_code::ErrorCode;
pub use excerpt::{BadWords, Excerpt, MAX_WORDS_CHARS, Words};
pub use fact::{Chosen, Fact, MAX_TITLE_BYTES, Projection};
pub use ids::{
    ApprovalId, CliSessionId, ConnectionId, DeliveryId, LoginId, RequestId, RunId, SessionId, WebhookId,
};
pub use last_line::{LastLine, LastLineKind};
pub use liveness::{Liveness, SilenceAction};
pub use lobby::{Attention, AttentionReason, LobbyChange, PutOff, PutOffHow};
pub use login::{LOGIN_LIFE_MS, LOGIN_USE_STEP_MS, Login, MAX_LOGINS, author_of_login, author_of_name};
pub use money::{ModelUsage, TokenUsage, Usd};
pub use park::{ParkObstacle, ParkReason, Parked};
pub use prompt::{PromptState, PromptUuid, QueuedPrompt, is_from_daemon, prompt_uuid_from_daemon};
pub use rate_limit::RateLimit;
pub use restart::{Restart, RestartOverride, RestartPolicy, RestartTerms, WayOut};
pub use role::Role;
pub use rule::{Rule, RuleSet, RuleSpec};
pub use run::{RunExit, StartMode, StopAction, StopIntent, StopStep};
pub use seq::Seq;
pub use state::{FailReason, SessionState};
pub use task::{Task, TaskNews};
pub use todo::{Todo, TodoChange};
pub use turn::TurnEnd;
pub use web::{Secret, SigningKey, SigningKeyError, WebUrl, WebUrlError};
pub use webhook::{MAX_WEBHOOKS, WebhookEvent, WebhookFilter, WebhookSpec};
