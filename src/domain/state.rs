//! Owns the states of a session.

use serde::{Deserialize, Serialize};

use super::ErrorCode;

/// Why a session failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FailReason {
    /// Stable name: `start_failed`, `start_timed_out`, `conversation_not_found`, `conversation_in_use`, `conversation_taken`,
    /// `conversation_not_kept`, `budget_spent`, `cli_exited`, `cli_killed`, `keeper_lost`, `permission_mode_refused`,
    /// `choices_not_restored`, `cli_silent`, `stdout_closed`, `message_not_found`, `resume_rejected`; after restarts that did not help `crash_loop`, or
    /// `conversation_unusable` when the CLI died each time it went on with the conversation. The latter is also the reason of a
    /// session whose model API refuses the conversation again and again.
    pub code: String,
    /// For people; holds the end of the CLI's stderr.
    pub detail: String,
}

impl FailReason {
    /// The code of a resume of a conversation that the CLI does not have.
    pub const CONVERSATION_NOT_FOUND: &'static str = ErrorCode::ConversationNotFound.as_str();
    /// The code of a process that runs in another permission mode than it was asked to.
    pub const PERMISSION_MODE_REFUSED: &'static str = "permission_mode_refused";
    /// The code of a process that did not take what had been set at run time.
    pub const CHOICES_NOT_RESTORED: &'static str = "choices_not_restored";
    /// The process lives, and its keeper is of a version that this daemon cannot talk to.
    pub const KEEPER_INCOMPATIBLE: &'static str = ErrorCode::KeeperIncompatible.as_str();
    /// The process lives, and its keeper says nothing.
    pub const KEEPER_UNRESPONSIVE: &'static str = ErrorCode::KeeperUnresponsive.as_str();
    /// The system had no room for another process.
    pub const TOO_FEW_PROCESSES: &'static str = ErrorCode::TooFewProcesses.as_str();
    /// The disk had no room for a file that a start needs.
    pub const STORAGE_UNAVAILABLE: &'static str = ErrorCode::StorageUnavailable.as_str();
    /// The run-time choices cannot be read.
    pub const CHOICES_DAMAGED: &'static str = ErrorCode::ChoicesDamaged.as_str();
    /// The run-time choices are gone.
    pub const CHOICES_MISSING: &'static str = ErrorCode::ChoicesMissing.as_str();
    /// The code of a session whose process died as often as it may be restarted.
    pub const CRASH_LOOP: &'static str = "crash_loop";
    /// The same, where each restart died as soon as it went on with the conversation; or the model API refuses what it says.
    pub const CONVERSATION_UNUSABLE: &'static str = "conversation_unusable";
    /// The process died, and the CLI was told to keep nothing: there is no conversation to go on with.
    pub const CONVERSATION_NOT_KEPT: &'static str = ErrorCode::ConversationNotKept.as_str();
    /// The process died, and the turns so far have cost what the session may cost.
    pub const BUDGET_SPENT: &'static str = ErrorCode::BudgetSpent.as_str();
    /// The code of a fork at a message that its conversation does not have.
    pub const MESSAGE_NOT_FOUND: &'static str = ErrorCode::MessageNotFound.as_str();
    /// The code of a start that would drop more of the conversation than was said.
    pub const RESUME_REJECTED: &'static str = ErrorCode::ResumeRejected.as_str();
    /// The code of a start whose conversation another process has.
    pub const CONVERSATION_IN_USE: &'static str = ErrorCode::ConversationInUse.as_str();
    /// The code of a session whose CLI opened a conversation of another session.
    pub const CONVERSATION_TAKEN: &'static str = ErrorCode::ConversationTaken.as_str();
    /// The code of a process that closed its stdout and did not end.
    pub const STDOUT_CLOSED: &'static str = "stdout_closed";
    /// The code of a start that came to nothing.
    pub const START_FAILED: &'static str = ErrorCode::StartFailed.as_str();

    /// The error code of a request that fails because a process did not start for this reason.
    pub fn error_code(&self) -> ErrorCode {
        match self.code.as_str() {
            Self::TOO_FEW_PROCESSES => ErrorCode::TooFewProcesses,
            Self::STORAGE_UNAVAILABLE => ErrorCode::StorageUnavailable,
            Self::CONVERSATION_TAKEN => ErrorCode::ConversationTaken,
            _ => ErrorCode::StartFailed,
        }
    }
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// A process was asked for, or a restart is due; `initialize` is not answered yet. Prompts are accepted and wait.
    Starting,
    /// The process is ready and no turn runs.
    Idle,
    /// A turn runs, or a prompt waits for its turn.
    Busy,
    /// A turn runs and something needs a person.
    Waiting,
    /// A stop was asked for; the process is still alive.
    Stopping,
    /// No process; it ended as asked, or after its work. Can be resumed.
    Stopped,
    /// No process; it ended in a way nobody asked for. Can be resumed.
    Failed,
    /// No process, on purpose, to save memory. The next message wakes it.
    Parked,
}

impl SessionState {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Starting,
        Self::Idle,
        Self::Busy,
        Self::Waiting,
        Self::Stopping,
        Self::Stopped,
        Self::Failed,
        Self::Parked,
    ];

    /// Whether a process belongs to the session in this state, or will after a restart that is due.
    pub const fn is_live(self) -> bool {
        matches!(
            self,
            Self::Starting | Self::Idle | Self::Busy | Self::Waiting | Self::Stopping
        )
    }

    /// The JSON name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Waiting => "waiting",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Parked => "parked",
        }
    }

    /// The state with this JSON name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}
