//! Owns why a socket is closed: the codes and their reasons.

use axum::extract::ws::{CloseFrame, Message};

use crate::{
    domain::{ErrorCode, SessionState},
    http::ApiError,
};

/// The most bytes of a reason.
const MAX_REASON_BYTES: usize = 123;

/// Why we close a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Close {
    /// The daemon stops.
    Shutdown,
    /// The daemon stops, and what was under way is cut short for the client: no clean end for it.
    CutShort,
    /// No token came in time, or another one.
    Unproven,
    /// A binary frame came.
    Binary,
    /// A message is over the limit.
    TooBig,
    /// The login that opened it has ended.
    LoginEnded,
    /// A viewer sent something.
    Forbidden,
    /// The input is no WebSocket frame.
    Protocol,
    /// A text came that is no UTF-8.
    NoText,
    /// The client does not take what it is sent.
    Slow,
    /// The client does not answer pings.
    Silent,
    /// The session was deleted.
    Deleted,
    /// The journal cannot be read.
    Journal,
    /// A line of the client was not taken.
    Refused(Fault),
    /// The session cannot be attached to.
    Unattached(Fault),
    /// The session has no process, and gets none by itself.
    NotLive(SessionState),
    /// The process has ended, and the stand-in has heard how.
    Exited,
}

/// An error, as the reason of a close has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    code: ErrorCode,
    words: String,
}

impl From<ApiError> for Fault {
    fn from(error: ApiError) -> Self {
        Self {
            code: error.code(),
            words: error.words().to_owned(),
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.words)
    }
}

impl Close {
    pub(super) const fn code(&self) -> u16 {
        match self {
            Self::Exited => 1000,
            Self::Shutdown => 1001,
            Self::Protocol => 1002,
            Self::Binary => 1003,
            Self::NoText => 1007,
            Self::Unproven => 1008,
            Self::TooBig => 1009,
            Self::Journal => 1011,
            Self::CutShort => 1012,
            Self::Refused(_) => 4400,
            Self::LoginEnded => 4401,
            Self::Forbidden => 4403,
            Self::Unattached(_) => 4404,
            Self::Slow => 4408,
            Self::Silent => 4409,
            Self::Deleted => 4410,
            Self::NotLive(_) => 4411,
        }
    }

    /// For the log. It holds nothing that a client said.
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Shutdown | Self::CutShort => "shutdown",
            Self::Binary => "binary frame",
            Self::TooBig => "message too big",
            Self::Protocol => "protocol error",
            Self::NoText => "text is no UTF-8",
            Self::Slow => "client too slow",
            Self::Silent => "client silent",
            Self::Exited => "the process has ended",
            Self::Deleted => "session deleted",
            Self::Journal => "journal unreadable",
            Self::Unproven => "not authenticated",
            Self::Forbidden => ErrorCode::RoleForbidden.as_str(),
            Self::LoginEnded => ErrorCode::LoginInvalid.as_str(),
            Self::Refused(fault) | Self::Unattached(fault) => fault.code.as_str(),
            Self::NotLive(state) => state.as_str(),
        }
    }

    /// For people; at most 123 bytes. `sent` is the record after which the client may go on.
    pub(super) fn reason(&self, sent: Option<u64>) -> String {
        let again = |reason: &str| match sent {
            Some(sent) => format!("{reason}; come back with after={sent}"),
            None => reason.to_owned(),
        };
        let mut reason = match self {
            Self::Shutdown => again("the daemon stops"),
            Self::CutShort => "the daemon stops".to_owned(),
            Self::Protocol => "what came is no valid WebSocket frame".to_owned(),
            Self::NoText => "the text is no valid UTF-8".to_owned(),
            Self::Binary => "binary frames are not taken; send text".to_owned(),
            Self::Unproven => "no valid auth line came in time".to_owned(),
            Self::TooBig => "the message is over server.max_prompt_bytes".to_owned(),
            Self::Journal => "the journal cannot be read".to_owned(),
            Self::Forbidden => format!("{}: a viewer may look, and send nothing", self.as_str()),
            Self::LoginEnded => format!("{}: the login has ended", self.as_str()),
            Self::Slow => again("too slow"),
            Self::Silent => again("no answer to pings"),
            Self::Deleted => "the session was deleted".to_owned(),
            Self::Exited => "the process has ended".to_owned(),
            Self::Refused(fault) | Self::Unattached(fault) => fault.to_string(),
            Self::NotLive(state) => Fault {
                code: ErrorCode::SessionNotLive,
                words: format!("the session is {}", state.as_str()),
            }
            .to_string(),
        };
        reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
        reason
    }

    /// The frame; `sent` is the last record that was certainly written, for a client that counts them.
    pub(super) fn frame(&self, sent: Option<u64>) -> Message {
        Message::Close(Some(CloseFrame {
            code: self.code(),
            reason: self.reason(sent).into(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_fit_into_a_control_frame() {
        let fault = Fault::from(ApiError::new(ErrorCode::InvalidDecision).detail("é".repeat(200)));
        for close in [
            Close::Shutdown,
            Close::CutShort,
            Close::Binary,
            Close::TooBig,
            Close::Protocol,
            Close::Slow,
            Close::Silent,
            Close::Deleted,
            Close::Journal,
            Close::Unproven,
            Close::Forbidden,
            Close::LoginEnded,
            Close::Refused(fault.clone()),
            Close::Unattached(fault),
            Close::NotLive(SessionState::Stopped),
            Close::Exited,
        ] {
            assert!(
                close.reason(Some(u64::MAX)).len() <= MAX_REASON_BYTES,
                "{close:?}"
            );
        }
    }
}
