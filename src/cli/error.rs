//! Owns what a command can end with: the exit codes, and how an error is told to a person.

use std::process::ExitCode;

use crate::{config::ConfigError, domain::ErrorCode, telemetry};

/// Why a command failed. Each kind has an exit code that scripts can rely on.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    /// The command line or the configuration is wrong.
    #[error("{0}")]
    Usage(String),
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No daemon answers.
    #[error("the daemon is not running: {reason}")]
    NotRunning {
        /// How we know.
        reason: String,
        /// Advice.
        hint: String,
    },
    /// The daemon's token cannot be read.
    #[error("cannot read the token in {}: {error}", file.display())]
    Token {
        /// The token's file.
        file: std::path::PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// The daemon knows no such thing.
    #[error("{message}")]
    NotFound {
        /// The thing that is not there.
        message: String,
        /// Where to look for it.
        hint: Option<String>,
    },
    /// The daemon said no.
    #[error("{message}")]
    Refused {
        /// The daemon's code for it, if this program knows it.
        code: Option<ErrorCode>,
        /// The daemon's words.
        message: String,
        /// The next step, when we know one.
        hint: Option<String>,
    },
    /// The agent CLI does not start, or its turn failed.
    #[error("{message}")]
    Agent {
        /// The CLI's words.
        message: String,
        /// The next step, when we know one.
        hint: Option<String>,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: it is already in use")]
    AddressInUse {
        /// The address.
        address: std::net::SocketAddr,
    },
    /// The socket that the service manager passed cannot be listened on.
    #[error(transparent)]
    Socket(#[from] crate::service::SocketError),
    /// Another daemon holds the data directory.
    #[error("{0}")]
    AlreadyRunning(String),
    /// The reader of our output went away.
    #[error("nobody reads the output any more")]
    ReaderGone,
    /// Anything else.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

impl CliError {
    /// A thing that is not there, and the command that lists such things.
    pub(super) fn not_found(message: impl Into<String>, hint: Option<&str>) -> Self {
        Self::NotFound {
            message: message.into(),
            hint: hint.map(Into::into),
        }
    }

    /// A refusal without a next step gets this one.
    pub(super) fn or_hint(self, hint: &str) -> Self {
        match self {
            Self::Refused {
                code,
                message,
                hint: None,
            } => Self::Refused {
                code,
                message,
                hint: Some(hint.into()),
            },
            other => other,
        }
    }

    /// The exit code. The list in the help text says the same.
    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::ReaderGone => 0,
            Self::Agent { .. } | Self::Token { .. } | Self::Other(_) => 1,
            Self::Usage(_) | Self::Config(_) | Self::Socket(_) => 2,
            Self::NotRunning { .. } => 3,
            Self::NotFound { .. } => 4,
            Self::Refused { .. } => 5,
            Self::AddressInUse { .. } => 6,
            Self::AlreadyRunning(_) => 7,
        })
    }

    /// Whether the daemon may be back in a moment.
    pub(super) const fn is_away(&self) -> bool {
        matches!(self, Self::NotRunning { .. })
    }

    /// The daemon's name for why it said no.
    pub(super) const fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => *code,
            _ => None,
        }
    }

    /// Whether the session has no process that could take a message.
    pub(super) fn is_not_live(&self) -> bool {
        self.code() == Some(ErrorCode::SessionNotLive)
    }

    /// Advice on the error, when we know any.
    pub(super) fn hint(&self) -> Option<String> {
        match self {
            Self::NotRunning { hint, .. } => Some(hint.clone()),
            Self::Refused { hint, .. } | Self::Agent { hint, .. } | Self::NotFound { hint, .. } => hint.clone(),
            Self::Token { error, .. } if error.kind() == std::io::ErrorKind::NotFound => Some(
                "name the data directory of the daemon with --data-dir, or the token's file with --token-file".into(),
            ),
            Self::Token { .. } => Some("run this as the user of the daemon".into()),
            Self::AddressInUse { .. } => Some(
                "another program listens there; choose another port with --listen, or let the system choose with \
                 --listen 127.0.0.1:0"
                    .into(),
            ),
            Self::AlreadyRunning(_) => {
                Some("use that daemon, stop it, or give this one its own --data-dir".into())
            }
            Self::Socket(_) => {
                Some("look at the socket unit: it needs ListenStream=, without Accept=yes".into())
            }
            Self::Config(_) => Some("`trunkline config --here` prints the values and their origins".into()),
            Self::Usage(_) | Self::ReaderGone | Self::Other(_) => None,
        }
    }

    /// The error with its causes, as one line.
    pub(super) fn chain(&self) -> String {
        telemetry::chain(self)
    }
}
