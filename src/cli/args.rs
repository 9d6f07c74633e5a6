//! Owns the command line: subcommands, flags and their help.

mod browsers;
mod deciding;
mod values;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::domain::Timestamp;

pub(super) use self::browsers::{Logins, LoginsChange, LoginsRevoke, Open};
pub(super) use self::deciding::{Approvals, Approve, Deny, Rules, RulesAdd, RulesChange, RulesRm};
use self::values::{conversation, count, dollars, instant, key_value, message_id, whole};

const EXAMPLES: &str = "\
Examples:
  trunkline serve                              start the daemon in this terminal
  trunkline new --attach \"Explain this repo\"   start a session here and talk to it
  trunkline ls                                 list sessions
  trunkline send last --wait \"And the tests?\"  ask the newest session and print its answer
  trunkline attach 0196                        watch a session; the beginning of its id is enough
  trunkline open                               see all sessions in a browser
  trunkline restart                            start the daemon again; sessions run on
  trunkline doctor                             find out why something does not work

Sessions are named by their id, any unique beginning of it, or `last` (the one with the newest activity).

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 the daemon is not running, 4 not found,
5 refused by the daemon, 6 address already in use, 7 another daemon uses the data directory, 8 the daemon ended and \
left something running.";

const SERVE_HELP: &str = "\
Start the daemon in the foreground. It keeps agent sessions, and gives them to clients over HTTP and WebSocket on \
127.0.0.1. When it is ready it prints one line with its address and how to reach it.

Stop it with Ctrl-C or SIGTERM: clients are told, turns that run may end (`stop.finish_turns_ms`), and sessions are \
stopped; they can be resumed. `stop.on_shutdown` in the configuration can leave them running for the next daemon \
instead. A second Ctrl-C waits for no turn and gives the agents little time; a third one waits for nothing: what still \
runs then is stopped by its keeper, or taken over by the next daemon.";

const GC_HELP: &str = "Compact journals now, and remove what the configuration keeps no longer.

The daemon does it by itself from time to time. A closed file of a journal that is older than
journal.compact_after_ms loses the pieces of messages that are there as a whole. Where
journal.keep_ms or journal.keep_bytes is set, the oldest closed files are removed. Nothing that
came since the last start of a session's process is touched, and nothing of a session that has
a process now. Without a daemon this program does it.";

const RESTART_HELP: &str = "\
Start the daemon again: the same process becomes the program that is at its path now, with the same arguments, \
environment and address. The agents run on, in the middle of a turn too; clients are told to come back, and miss \
nothing. Under systemd and in a container it works in the same way.

The program is asked first whether it would start. If not, the daemon that runs goes on, and the reason is printed.";

const UPGRADE_HELP: &str = "\
As `trunkline restart`, with another program: the one that you name, or else the one that runs this command. So after \
an installation, run `upgrade` of the new version.

The program is asked first whether it would start with the daemon's arguments, environment and configuration, whether \
it can read the database, and whether it can talk to the processes that keep the sessions. If not, the daemon that runs \
goes on, and the reason is printed.";

const OPEN_HELP: &str = "\
Open the console in a browser, and sign that in: $BROWSER, or the browser of the desktop. Where none is, the address is \
printed. It signs one browser in, within a minute; a login ends 30 days after its last use, or with `trunkline logins revoke`.

With --qr the address is a code for the camera of a phone. The daemon must be in reach of the phone, by an address of the \
network or behind a TLS proxy or a tunnel; what is missing is said.";

const CLAUDE_HELP: &str = "\
Stand in for the `claude` program, for a program that starts it: the official SDKs (`pathToClaudeCodeExecutable`, \
`cli_path`) and all that run `claude -p --input-format stream-json`. The arguments, the input, the outputs, the signals \
and the exit code are those of `claude`; the session is one of the daemon's, which other clients see and answer. It ends \
with its input, and can be resumed.

As the SDKs take one program without arguments, make a link: `ln -s \"$(command -v trunkline)\" ~/bin/claude`. Under that \
name every other call, such as `claude --version` or one in a terminal, runs the real `claude`.

The daemon is found as by every command, by TRUNKLINE_DATA_DIR or TRUNKLINE_URL and TRUNKLINE_TOKEN_FILE. Arguments \
that no launch option has need `sessions.allow_extra_args`.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "trunkline",
    version,
    about = "One local daemon for all your agent CLI sessions",
    after_help = EXAMPLES,
    max_term_width = 100
)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) common: Common,

    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

/// Under this heading the flags of every subcommand stand behind its own.
const COMMON: &str = "Options of every command";

/// Flags of every subcommand.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Common {
    /// Configuration file [default: ~/.config/trunkline/config.toml, if there is one].
    #[arg(
        long,
        global = true,
        help_heading = COMMON,
        value_name = "FILE",
        env = "TRUNKLINE_CONFIG",
        hide_env_values = true
    )]
    pub(super) config: Option<PathBuf>,

    /// Data directory, by which clients also find the daemon [default: ~/.local/state/trunkline].
    #[arg(long, global = true, help_heading = COMMON, value_name = "DIR")]
    pub(super) data_dir: Option<PathBuf>,

    /// Talk to the daemon at this URL instead of the one that the data directory names.
    #[arg(
        long,
        global = true,
        help_heading = COMMON,
        value_name = "URL",
        env = "TRUNKLINE_URL",
        hide_env_values = true
    )]
    pub(super) url: Option<String>,

    /// File with the daemon's token [default: `token` in the data directory].
    #[arg(
        long,
        global = true,
        help_heading = COMMON,
        value_name = "FILE",
        env = "TRUNKLINE_TOKEN_FILE",
        hide_env_values = true
    )]
    pub(super) token_file: Option<PathBuf>,

    /// Print the API's JSON instead of text.
    #[arg(long, global = true, help_heading = COMMON)]
    pub(super) json: bool,
}

/// The command. Without a subcommand, the daemon is started.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Start the daemon (the default).
    #[command(long_about = SERVE_HELP)]
    Serve(Serve),
    /// Create a session, with a first prompt if you give one.
    #[command(visible_alias = "create")]
    New(Box<New>),
    /// List sessions, newest activity first.
    #[command(visible_alias = "list")]
    Ls(Ls),
    /// Show one session: state, model, cost, what waits for you.
    Show(OneSession),
    /// Send a message to a session.
    Send(Send),
    /// Print the conversation of a session.
    Log(Log),
    /// Watch a session and talk to it: type to send, Ctrl-C interrupts the turn, Ctrl-D leaves.
    Attach(Attach),
    /// List what waits for a person, over all sessions; or what was decided.
    Approvals(Approvals),
    /// Allow what a session asks for, answer its questions, fill in its form.
    #[command(visible_alias = "allow")]
    Approve(Approve),
    /// Deny what a session asks for.
    Deny(Deny),
    /// List the rules that decide without a person, change them, or try what they would decide.
    Rules(Rules),
    /// Interrupt the running turn; the session stays.
    Interrupt(Interrupt),
    /// Stop a session. It can be resumed.
    Stop(OneSession),
    /// End the process of a session that does nothing. Its next message starts it again.
    Park(OneSession),
    /// Start a stopped session again where it was.
    Resume(Resume),
    /// Show or change the model of a session.
    Model(Setting),
    /// Show or change when a session asks before a tool runs: default, acceptEdits, plan, ...
    Mode(Setting),
    /// Show or change the launch options of a session, for its next start.
    Options(Options),
    /// Copy a session: the copy goes on by itself, the original stays as it is.
    Fork(Fork),
    /// Delete a session with its journal. A running one is stopped first.
    Rm(Rm),
    /// Show costs and tokens.
    Usage(Usage),
    /// Open the console in a browser, and sign that in.
    #[command(long_about = OPEN_HELP)]
    Open(Open),
    /// List the browsers that are signed in, or sign them out.
    Logins(Logins),
    /// Show the daemon: where it is, since when, how many sessions live and wait for you.
    Status,
    /// Start the daemon again with the program at its path; sessions run on.
    #[command(long_about = RESTART_HELP)]
    Restart,
    /// Let another program, such as a newer version, take the daemon's place; sessions run on.
    #[command(long_about = UPGRADE_HELP)]
    Upgrade(Upgrade),
    /// Check the installation and say what to do about each problem.
    Doctor,
    /// Compact journals now, and remove what the configuration keeps no longer.
    #[command(long_about = GC_HELP)]
    Gc(Gc),
    /// Make the database again from the sessions, while no daemon runs; the old one is kept.
    Rebuild,
    /// Print the configuration in force in the running daemon, or what this shell would use.
    Config(Config),
    /// Print the OpenAPI document of the HTTP API.
    Openapi,
    /// Print the AsyncAPI document of the sockets and event streams.
    Asyncapi,
    /// Print the version.
    Version,
    /// Print a script that completes commands in a shell.
    Completions(Completions),
    /// Print a manual page, as `man` reads it.
    Man(Man),
    /// Stand in for the `claude` program: for programs that start it, such as the official SDKs.
    #[command(long_about = CLAUDE_HELP, disable_help_flag = true)]
    Claude(Claude),
}

/// `gc`
#[derive(Clone, Debug, Args)]
pub(super) struct Gc {
    /// Change nothing, and say what would be done.
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// `claude`
#[derive(Clone, Debug, Args)]
pub(super) struct Claude {
    /// The arguments of `claude`, as they are.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub(super) args: Vec<std::ffi::OsString>,
}

/// `config`
#[derive(Clone, Debug, Args)]
pub(super) struct Config {
    /// Print what a daemon that this shell starts would use, also while one runs.
    #[arg(long)]
    pub(super) here: bool,
}

/// `completions`
#[derive(Clone, Debug, Args)]
pub(super) struct Completions {
    /// The shell.
    pub(super) shell: clap_complete::Shell,
}

/// `man`
#[derive(Clone, Debug, Args)]
pub(super) struct Man {
    /// The page of this command [default: of the program].
    pub(super) command: Option<String>,

    /// Write the pages of the program and of all commands into this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(super) dir: Option<PathBuf>,
}

/// Longest wait for an answer, in seconds: a day, as the daemon waits.
const LONGEST_TIMEOUT: u64 = 86_400;

/// `log`
#[derive(Clone, Debug, Args)]
pub(super) struct Log {
    /// Session: id, unique beginning of it, or `last`.
    pub(super) session: String,

    /// Only the last entries: messages, tools, ends of turns.
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = count)]
    pub(super) lines: Option<u64>,

    /// Go on with what happens.
    #[arg(short, long)]
    pub(super) follow: bool,
}

/// `resume`
#[derive(Clone, Debug, Args)]
pub(super) struct Resume {
    /// Session: id, unique beginning of it, or `last`.
    #[arg(required_unless_present = "all")]
    pub(super) session: Option<String>,

    /// Each session that is stopped.
    #[arg(long, conflicts_with = "session")]
    pub(super) all: bool,

    /// Directory the session works in, if its file was lost.
    #[arg(long, value_name = "DIR", conflicts_with = "all")]
    pub(super) cwd: Option<PathBuf>,
}

/// `model` and `mode`
#[derive(Clone, Debug, Args)]
pub(super) struct Setting {
    /// Session: id, unique beginning of it, or `last`.
    pub(super) session: String,

    /// The new value; without it the one that holds is shown.
    pub(super) value: Option<String>,
}

/// `options`
#[derive(Clone, Debug, Args)]
pub(super) struct Options {
    /// Session: id, unique beginning of it, or `last`.
    pub(super) session: String,

    /// New values, such as `effort=low` or `max_budget_usd=20`; the value is JSON, or else a text, and `null` takes the option away.
    #[arg(value_name = "NAME=VALUE")]
    pub(super) changes: Vec<String>,
}

/// `serve`
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Serve {
    /// Address to listen on; port 0 picks a free one [default: 127.0.0.1:7433].
    #[arg(long, value_name = "ADDR:PORT")]
    pub(super) listen: Option<String>,

    /// The agent CLI to run: a path, or a name on PATH [default: searched].
    #[arg(long, value_name = "PATH")]
    pub(super) claude_bin: Option<PathBuf>,

    /// Allow an address that other machines can reach. The connection is not encrypted.
    #[arg(long)]
    pub(super) insecure: bool,

    /// The log level: error, warn, info, debug, trace, or a filter.
    #[arg(long, value_name = "LEVEL")]
    pub(super) log_level: Option<String>,

    /// Form of the log lines.
    #[arg(long, value_name = "FORMAT")]
    pub(super) log_format: Option<LogForm>,

    /// Only say whether the daemon would start, and what it can take over. A daemon asks this of its successor.
    #[arg(long, hide = true)]
    pub(super) check: bool,
}

/// `--log-format`
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum LogForm {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// `new`
#[derive(Clone, Debug, Args)]
pub(super) struct New {
    /// First message; `-` reads it from stdin, as does --wait without one.
    pub(super) prompt: Option<String>,

    /// Directory the agent works in [default: this one].
    #[arg(long, value_name = "DIR")]
    pub(super) cwd: Option<PathBuf>,

    /// Title for lists.
    #[arg(long)]
    pub(super) title: Option<String>,

    /// A tag to filter by.
    #[arg(long)]
    pub(super) tag: Option<String>,

    /// A label; may be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(super) labels: Vec<(String, String)>,

    /// Model, by name or alias.
    #[arg(long)]
    pub(super) model: Option<String>,

    /// When to ask before a tool runs: default, acceptEdits, plan, dontAsk, auto, ...
    #[arg(long, value_name = "MODE")]
    pub(super) permission_mode: Option<String>,

    /// Go on with a conversation of the agent CLI that was begun in this directory without trunkline: its id.
    // Without a value it is told what to give, as `claude --resume` alone lists conversations.
    #[arg(long, value_name = "CONVERSATION", num_args = 0..=1, default_missing_value = "", value_parser = conversation)]
    pub(super) resume: Option<String>,

    /// Go on with the newest session of this directory, or else with the agent CLI's newest conversation in it.
    #[arg(long = "continue", conflicts_with = "resume")]
    pub(super) go_on: bool,

    /// Tools that run without asking; comma-separated.
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub(super) allowed_tools: Vec<String>,

    /// Tools that the agent may not use; comma-separated.
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub(super) disallowed_tools: Vec<String>,

    /// Another directory the agent may work in; may be repeated.
    #[arg(long = "add-dir", value_name = "DIR")]
    pub(super) add_dirs: Vec<PathBuf>,

    /// System prompt, in place of the agent's own.
    #[arg(long, value_name = "TEXT")]
    pub(super) system_prompt: Option<String>,

    /// Text at the end of the agent's own system prompt.
    #[arg(long, value_name = "TEXT", conflicts_with = "system_prompt")]
    pub(super) append_system_prompt: Option<String>,

    /// JSON file with MCP servers, as the agent CLI takes it.
    #[arg(long, value_name = "FILE")]
    pub(super) mcp_config: Option<PathBuf>,

    /// End the turn after this many model calls.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole(1..=u32::MAX))]
    pub(super) max_turns: Option<u32>,

    /// Stop when the session has cost this much.
    #[arg(long, value_name = "USD", allow_negative_numbers = true, value_parser = dollars)]
    pub(super) max_budget_usd: Option<f64>,

    /// How hard the model thinks: low, medium, high, ...
    #[arg(long)]
    pub(super) effort: Option<String>,

    /// JSON file with launch options, as the API takes them; flags win over it.
    #[arg(long, value_name = "FILE")]
    pub(super) options: Option<PathBuf>,

    /// Wait for the answer to the prompt and print it.
    #[arg(long, conflicts_with = "attach")]
    pub(super) wait: bool,

    /// Attach to the new session.
    #[arg(long)]
    pub(super) attach: bool,
}

/// `ls`
#[derive(Clone, Debug, Args)]
pub(super) struct Ls {
    /// Only sessions in this state: starting, idle, busy, waiting, stopped, failed, parked, ...
    #[arg(long)]
    pub(super) state: Option<String>,

    /// Only sessions of this directory.
    #[arg(long, value_name = "DIR")]
    pub(super) cwd: Option<PathBuf>,

    /// Only sessions with this tag.
    #[arg(long)]
    pub(super) tag: Option<String>,

    /// Only sessions with this label.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) label: Option<String>,

    /// Only sessions whose title or last prompt contains this.
    #[arg(short, long, value_name = "TEXT")]
    pub(super) query: Option<String>,

    /// At most this many.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, allow_negative_numbers = true, value_parser = whole(1..=500_u32))]
    pub(super) limit: u32,
}

/// A subcommand that only needs a session.
#[derive(Clone, Debug, Args)]
pub(super) struct OneSession {
    /// Session: id, unique beginning of it, or `last`.
    pub(super) session: String,
}

/// `send`
#[derive(Clone, Debug, Args)]
pub(super) struct Send {
    /// Session: id, unique beginning of it, or `last`.
    pub(super) session: String,

    /// The message; without one, or with `-`, stdin is read.
    pub(super) message: Option<String>,

    /// Wait for the answer and print it.
    #[arg(long)]
    pub(super) wait: bool,

    /// How long to wait, in seconds.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 600,
        requires = "wait",
        allow_negative_numbers = true,
        value_parser = whole(1..=LONGEST_TIMEOUT)
    )]
    pub(super) timeout: u64,
}

/// `attach`
#[derive(Clone, Debug, Args)]
pub(super) struct Attach {
    /// Session: id, unique beginning of it, or `last`.
    #[arg(default_value = "last")]
    pub(super) session: String,

    /// Show what happened after this record first; 0 shows everything. Without it, a terminal shows the last screen.
    #[arg(long, value_name = "SEQ", allow_negative_numbers = true, value_parser = count)]
    pub(super) after: Option<u64>,

    /// Read lines as they come, without a line editor.
    #[arg(long)]
    pub(super) plain: bool,
}

/// `upgrade`
#[derive(Clone, Debug, Args)]
pub(super) struct Upgrade {
    /// The program [default: the one that runs this command].
    #[arg(value_name = "PROGRAM")]
    pub(super) program: Option<PathBuf>,
}

/// `interrupt`
#[derive(Clone, Debug, Args)]
pub(super) struct Interrupt {
    /// Session: id, unique beginning of it, or `last`.
    pub(super) session: String,

    /// Also drop the messages that wait for their turn.
    #[arg(long)]
    pub(super) cancel_queued: bool,
}

/// `fork`
#[derive(Clone, Debug, Args)]
pub(super) struct Fork {
    /// Session: id, unique beginning of it, or `last`.
    pub(super) session: String,

    /// First message to the copy.
    pub(super) prompt: Option<String>,

    /// Copy up to this message of the agent (its uuid) instead of everything.
    #[arg(long, value_name = "UUID", value_parser = message_id)]
    pub(super) at: Option<uuid::Uuid>,

    /// Directory the copy works in [default: the original's].
    #[arg(long, value_name = "DIR")]
    pub(super) cwd: Option<PathBuf>,

    /// Title of the copy.
    #[arg(long)]
    pub(super) title: Option<String>,
}

/// `rm`
#[derive(Clone, Debug, Args)]
pub(super) struct Rm {
    /// Sessions: ids, unique beginnings of them, or `last`.
    #[arg(required = true)]
    pub(super) sessions: Vec<String>,

    /// Do not ask, also for one that runs.
    #[arg(short, long)]
    pub(super) force: bool,
}

/// `usage`
#[derive(Clone, Debug, Args)]
pub(super) struct Usage {
    /// The key to add up by.
    #[arg(long, value_enum, default_value_t = GroupBy::Day)]
    pub(super) by: GroupBy,

    /// From this time on: 2026-01-31 (its beginning in UTC), or 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub(super) from: Option<Timestamp>,

    /// Before this time, in the same forms.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub(super) to: Option<Timestamp>,
}

/// `usage --by`
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum GroupBy {
    /// Per day (UTC).
    Day,
    /// Per model.
    Model,
    /// Per session.
    Session,
    /// Per directory.
    Cwd,
    /// Per tag.
    Tag,
    /// Per agent that leads the conversation.
    Agent,
}

impl GroupBy {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Model => "model",
            Self::Session => "session",
            Self::Cwd => "cwd",
            Self::Tag => "tag",
            Self::Agent => "agent",
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_texts() {
        let mut text = String::new();
        let mut command = Cli::command();
        command.build();
        text.push_str(&command.render_long_help().to_string());
        for subcommand in command.get_subcommands_mut() {
            text.push_str("\n================\n");
            text.push_str(&subcommand.render_long_help().to_string());
        }
        insta::assert_snapshot!(text);
    }

    #[test]
    fn no_subcommand_is_serve_and_flags_may_stand_anywhere() {
        assert!(Cli::try_parse_from(["trunkline"]).unwrap().command.is_none());
        let cli = Cli::try_parse_from(["trunkline", "ls", "--json", "--data-dir", "/x"]).unwrap();
        assert!(cli.common.json);
        assert_eq!(cli.common.data_dir.unwrap(), PathBuf::from("/x"));
        assert!(Cli::try_parse_from(["trunkline", "resume"]).is_err());
        assert!(Cli::try_parse_from(["trunkline", "rules", "last", "--test", "Bash"]).is_ok());
        assert!(Cli::try_parse_from(["trunkline", "rules", "add", "last", "--deny", "Bash"]).is_ok());
        assert!(Cli::try_parse_from(["trunkline", "new", "--label", "x"]).is_err());
    }
}
