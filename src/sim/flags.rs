//! Owns the flags: those of the agent CLI that matter here are read, all others are accepted and ignored.

/// The flags that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags {
    pub(super) session_id: Option<String>,
    pub(super) resume: Option<String>,
    pub(super) resume_at: Option<String>,
    pub(super) is_fork: bool,
    pub(super) model: Option<String>,
    pub(super) permission_mode: Option<String>,
    pub(super) may_bypass: bool,
    pub(super) asks_on_stdio: bool,
    pub(super) streams: bool,
    pub(super) replays: bool,
    pub(super) allowed_tools: Vec<String>,
}

impl Flags {
    /// Reads `--flag=value`, `--flag value` and bare flags.
    pub(super) fn parse(arguments: &[String]) -> Self {
        let mut flags = Self::default();
        let mut rest = arguments.iter().peekable();
        while let Some(argument) = rest.next() {
            let (name, joined) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            let mut value = || {
                joined
                    .clone()
                    .or_else(|| rest.next_if(|next| !next.starts_with("--")).cloned())
            };
            match name {
                "--session-id" => flags.session_id = value(),
                "--resume" => flags.resume = value(),
                "--resume-session-at" => flags.resume_at = value(),
                "--fork-session" => flags.is_fork = true,
                "--model" => flags.model = value(),
                "--permission-mode" => flags.permission_mode = value(),
                "--allow-dangerously-skip-permissions" => flags.may_bypass = true,
                "--permission-prompt-tool" => flags.asks_on_stdio = value().as_deref() == Some("stdio"),
                "--include-partial-messages" => flags.streams = true,
                "--replay-user-messages" => flags.replays = true,
                "--allowedTools" => {
                    flags.allowed_tools = value()
                        .unwrap_or_default()
                        .split(',')
                        .map(str::to_owned)
                        .collect();
                }
                _ => {}
            }
        }
        flags.may_bypass |= flags.permission_mode.as_deref() == Some("bypassPermissions");
        flags
    }
}
