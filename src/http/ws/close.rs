//! Owns why a socket is closed: the codes and their reasons.

use axum::extract::ws::{CloseFrame, Message};

/// Why we close a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Close {
    /// The daemon stops.
    Shutdown,
    /// A binary frame came.
    Binary,
    /// A message is over the limit.
    TooBig,
    /// What came is no WebSocket frame.
    Protocol,
    /// The client does not take what it is sent.
    Slow,
    /// The client does not answer pings.
    Silent,
    /// The session was deleted.
    Deleted,
    /// The journal cannot be read.
    Journal,
}

impl Close {
    pub(super) const fn code(self) -> u16 {
        match self {
            Self::Shutdown => 1001,
            Self::Protocol => 1002,
            Self::Binary => 1003,
            Self::TooBig => 1009,
            Self::Journal => 1011,
            Self::Slow => 4408,
            Self::Silent => 4409,
            Self::Deleted => 4410,
        }
    }

    /// For people; at most 123 bytes.
    pub(super) fn reason(self, sent: u64) -> String {
        match self {
            Self::Shutdown => format!("the daemon stops; come back with after={sent}"),
            Self::Protocol => "what came is no valid WebSocket frame".to_owned(),
            Self::Binary => "binary frames are not taken; send text".to_owned(),
            Self::TooBig => "the message is over server.max_prompt_bytes".to_owned(),
            Self::Journal => "the journal cannot be read".to_owned(),
            Self::Slow => format!("too slow; come back with after={sent}"),
            Self::Silent => format!("no answer to pings; come back with after={sent}"),
            Self::Deleted => "the session was deleted".to_owned(),
        }
    }

    /// The frame; `sent` is the last record that was certainly written.
    pub(super) fn frame(self, sent: u64) -> Message {
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
        for close in [
            Close::Shutdown,
            Close::Binary,
            Close::TooBig,
            Close::Protocol,
            Close::Slow,
            Close::Silent,
            Close::Deleted,
            Close::Journal,
        ] {
            assert!(close.reason(u64::MAX).len() <= 123, "{close:?}");
        }
    }
}
