//! Owns the words of parking: why a session has no process on purpose, and why it may not be parked.

use serde::{Deserialize, Serialize};

use super::{ErrorCode, Timestamp};

/// Why a session was parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ParkReason {
    /// Nothing was asked of it for long.
    Idle,
    /// The processes took more memory than they may.
    Memory,
    /// Somebody asked for it.
    Asked,
    /// Another session needed its place.
    Room,
}

impl ParkReason {
    /// The JSON name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Memory => "memory",
            Self::Asked => "asked",
            Self::Room => "room",
        }
    }
}

/// A session is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Parked {
    /// When its process was gone.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// Why.
    pub reason: ParkReason,
}

/// The work that the end of the process would cut short, or the reason why there is none to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkObstacle {
    /// It is stopped or failed.
    NotLive,
    /// Its process is getting ready, or a restart is due.
    Starting,
    /// It is being stopped.
    Stopping,
    /// A turn runs, or a prompt waits for its turn.
    Busy,
    /// Something needs a person.
    Waiting,
    /// A prompt, a decision or a control request is on its way to the CLI.
    InputUnderWay,
    /// A hook, an MCP server or a client has not answered the CLI.
    RequestOpen,
    /// Background tasks run; they would end with the process.
    BackgroundTasks,
    /// The model set timers or watches, of whose end the CLI says nothing; they would end with the process.
    Timers,
    /// A client serves hooks or MCP servers; the next process would not know of them.
    ClientCallbacks,
    /// The program that the process was started for is attached; the next process would lack its arguments and variables.
    HostAttached,
    /// The CLI keeps no conversation; all that was said would end with the process.
    ConversationNotKept,
    /// It was used a moment ago.
    RecentlyUsed,
}

impl ParkObstacle {
    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotLive => "not_live",
            Self::Starting => "starting",
            Self::Stopping => "stopping",
            Self::Busy => "busy",
            Self::Waiting => "waiting",
            Self::InputUnderWay => "input_under_way",
            Self::RequestOpen => "request_open",
            Self::BackgroundTasks => "background_tasks",
            Self::Timers => "timers",
            Self::ClientCallbacks => "client_callbacks",
            Self::HostAttached => "host_attached",
            Self::ConversationNotKept => ErrorCode::ConversationNotKept.as_str(),
            Self::RecentlyUsed => "recently_used",
        }
    }

    /// In words, after "the session".
    pub const fn words(self) -> &'static str {
        match self {
            Self::NotLive => "has no process",
            Self::Starting => "is starting",
            Self::Stopping => "is being stopped",
            Self::Busy => "is busy",
            Self::Waiting => "waits for a person",
            Self::InputUnderWay => "has input under way",
            Self::RequestOpen => "waits for the answer of a hook, an MCP server or a client",
            Self::BackgroundTasks => "has background tasks",
            Self::Timers => "has timers or watches that end with its process",
            Self::ClientCallbacks => {
                "has hooks or MCP servers that a client serves and that end with its process"
            }
            Self::HostAttached => {
                "has a host, the program that its process was started for, which the next process would not be"
            }
            Self::ConversationNotKept => "keeps no conversation, which would be lost with its process",
            Self::RecentlyUsed => "was used a moment ago",
        }
    }
}
