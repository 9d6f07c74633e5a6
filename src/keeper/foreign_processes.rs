//! Owns the search for processes that work on a conversation and were not started for it by us, such as a CLI that somebody
//! runs in a terminal.
//!
//! Some processes cannot be seen: a conversation that was chosen without naming it (`--continue`, the CLI's own list),
//! processes of other users, and those of another container or machine that shares the files.

use std::{ffi::OsStr, fmt, io, os::unix::ffi::OsStrExt as _, path::Path};

use super::{
    leftovers::value,
    plan::{DATA_MARKER, SESSION_MARKER},
};
use crate::{
    domain::{CliSessionId, SessionId, Timestamp},
    os::{self, Process},
};

/// A process that works on a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignProcess {
    /// The conversation.
    pub conversation: CliSessionId,
    /// The process.
    pub pid: i32,
    /// When it was started.
    pub started_at: Option<Timestamp>,
    /// The evidence.
    pub evidence: Evidence,
}

/// The evidence that a process works on a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// It was started with `--resume` or `--session-id` and the conversation's id.
    Arguments,
    /// It has the conversation's transcript open for writing.
    OpenTranscript,
}

impl Evidence {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Arguments => "arguments",
            Self::OpenTranscript => "open_transcript",
        }
    }
}

impl fmt::Display for ForeignProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        if let Some(started_at) = self.started_at {
            write!(f, ", started at {started_at},")?;
        }
        match self.evidence {
            Evidence::Arguments => write!(f, " was started on conversation {}", self.conversation),
            Evidence::OpenTranscript => {
                write!(f, " writes the transcript of conversation {}", self.conversation)
            }
        }
    }
}

/// The processes of this user that work on one of the conversations that `is_wanted`.
///
/// Arguments count only where the program is the CLI, by its name, by the name of `program`, or as a script of an interpreter:
/// others name conversations too, such as a client or a search for one.
///
/// Those that carry the marker of a session that `is_own` are left out; it also hears the mark of their data directory, as a
/// copy of a directory has the same sessions. It reads all of `/proc`, so call it where blocking is allowed. Only Linux can tell; elsewhere
/// there are none.
///
/// # Errors
/// The processes cannot be listed.
pub fn foreign_processes(
    program: Option<&Path>,
    is_wanted: impl Fn(CliSessionId) -> bool,
    is_own: impl Fn(SessionId, Option<&str>) -> bool,
) -> io::Result<Vec<ForeignProcess>> {
    let mut found = Vec::new();
    for process in os::own_processes()? {
        let named = conversation_of(&process.args)
            .filter(|_| is_agent(&process.args, &process.name, program))
            .map(|id| (id, Evidence::Arguments));
        let open = || {
            let files = looks_like_an_agent(&process).then(|| os::written_files(process.pid));
            let ids = files
                .into_iter()
                .flatten()
                .filter_map(|file| transcript_of(&file));
            ids.map(|id| (id, Evidence::OpenTranscript))
                .find(|(id, _)| is_wanted(*id))
        };
        let Some((conversation, evidence)) = named.filter(|(id, _)| is_wanted(*id)).or_else(open) else {
            continue;
        };
        if is_marked(&process, &is_own) {
            continue;
        }
        found.push(ForeignProcess {
            conversation,
            pid: process.pid.as_raw(),
            started_at: os::started_at(process.start_time),
            evidence,
        });
    }
    Ok(found)
}

/// The name of our own processes in lists.
const OWN_NAME: &[u8] = b"trunkline";

/// Has lists of processes call this one by the name of its program, also where it was started by the name of another. By that it
/// is known to work on no conversation itself.
pub fn take_own_name() {
    // Without it the process is taken for what it is called.
    os::take_own_name().ok();
}

/// The programs that run the CLI where it is a script.
const INTERPRETERS: [&[u8]; 8] = [
    b"node", b"nodejs", b"bun", b"deno", b"python", b"python3", b"sh", b"bash",
];

/// Whether these are the arguments of the agent CLI, in a process of this name.
fn is_agent(args: &[Vec<u8>], name: &[u8], program: Option<&Path>) -> bool {
    let Some(first) = args.first() else {
        return false;
    };
    if name.trim_ascii_end() == OWN_NAME && !is_simulated(args) {
        // It only stands in for the CLI.
        return false;
    }
    let own = program.and_then(Path::file_name).map(OsStr::as_bytes);
    let is_cli = |path: &[u8]| {
        let mut parts = path.rsplit(|byte| *byte == b'/');
        let file = parts.next().unwrap_or_default();
        let is_version = parts.next() == Some(b"versions") && parts.next() == Some(b"claude");
        own == Some(file)
            || memchr::memmem::find(file, b"claude").is_some()
            || is_version
            || memchr::memmem::find(path, b"/claude-code/").is_some()
    };
    let file = first.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if INTERPRETERS.contains(&file) {
        // An argument behind a text that is the program itself is no script.
        let mut rest = args.iter().skip(1).map(Vec::as_slice);
        let script = rest.find(|arg| !arg.starts_with(b"-") || matches!(*arg, b"-c" | b"-e"));
        return script.is_some_and(is_cli);
    }
    is_cli(first) || memchr::memmem::find(name, b"claude").is_some() || is_simulated(args)
}

/// Whether this program runs as the simulated agent.
fn is_simulated(args: &[Vec<u8>]) -> bool {
    args.get(1).is_some_and(|arg| arg == b"sim")
}

/// The conversation that these arguments have the CLI write to.
fn conversation_of(args: &[Vec<u8>]) -> Option<CliSessionId> {
    let value_of = |flags: &[&str]| {
        args.iter().enumerate().find_map(|(place, arg)| {
            flags.iter().find_map(|flag| {
                let rest = arg.strip_prefix(flag.as_bytes())?;
                match rest {
                    [] => args.get(place + 1).map(Vec::as_slice),
                    [b'=', value @ ..] => Some(value),
                    _ => None,
                }
            })
        })
    };
    let is_fork = args.iter().any(|arg| arg == b"--fork-session");
    // A fork only reads what it resumes.
    let resumed = value_of(&["--resume", "-r"]).filter(|_| !is_fork);
    let id = resumed.or_else(|| value_of(&["--session-id"]))?;
    std::str::from_utf8(id).ok()?.parse().ok()
}

/// The conversation whose transcript this file is.
fn transcript_of(file: &Path) -> Option<CliSessionId> {
    let is_transcript = file.extension() == Some(OsStr::new("jsonl"));
    file.file_stem().filter(|_| is_transcript)?.to_str()?.parse().ok()
}

/// Open files are only looked at where a transcript could be among them.
fn looks_like_an_agent(process: &Process) -> bool {
    let has = |text: &[u8]| memchr::memmem::find(text, b"claude").is_some();
    process.args.iter().take(2).any(|arg| has(arg)) || has(&process.name)
}

/// Whether a process carries the marker of a session that `is_own`.
fn is_marked(process: &Process, is_own: &impl Fn(SessionId, Option<&str>) -> bool) -> bool {
    let environment = os::environment(process.pid);
    let session = value(&environment, SESSION_MARKER).and_then(|id| id.parse().ok());
    session.is_some_and(|session| is_own(session, value(&environment, DATA_MARKER)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "11111111-2222-4333-8444-555555555555";
    const B: &str = "99999999-2222-4333-8444-555555555555";

    fn conversation(args: &str) -> Option<String> {
        let args: Vec<Vec<u8>> = args.split(' ').map(|arg| arg.as_bytes().to_vec()).collect();
        conversation_of(&args).map(|id| id.to_string())
    }

    #[test]
    fn arguments_name_the_conversation_that_is_written_to() {
        for (args, expected) in [
            (format!("claude --resume {A}"), Some(A)),
            (format!("node cli.js -p -r {A}"), Some(A)),
            (format!("claude --resume={A} --verbose"), Some(A)),
            (format!("claude --session-id={A}"), Some(A)),
            (format!("claude --session-id {A}"), Some(A)),
            // A fork reads one and writes the other.
            (
                format!("claude --resume={A} --fork-session --session-id={B}"),
                Some(B),
            ),
            (format!("claude --fork-session --resume {A}"), None),
            (format!("claude --resume-session-at={A}"), None),
            (format!("grep {A} notes"), None),
            ("claude --resume".to_owned(), None),
            ("claude --resume last".to_owned(), None),
        ] {
            assert_eq!(conversation(&args).as_deref(), expected, "{args}");
        }
    }

    #[test]
    fn only_the_cli_works_on_what_its_arguments_name() {
        let is = |args: &str, name: &str| {
            let args: Vec<Vec<u8>> = args.split(' ').map(|arg| arg.as_bytes().to_vec()).collect();
            is_agent(&args, name.as_bytes(), Some(Path::new("/opt/agent")))
        };
        for args in [
            "claude --resume x",
            "/home/me/.local/bin/claude -r x",
            "/home/me/.local/share/claude/versions/2.1.332 -r x",
            "node /usr/lib/node_modules/@anthropic-ai/claude-code/cli.js -r x",
            "/usr/bin/node --no-warnings /usr/local/bin/claude -r x",
            "python3 /tests/fake_claude.py -r x",
            "/usr/local/bin/agent --resume x",
            "/bin/sh /home/me/bin/claude -r x",
            "/proc/self/exe sim --resume x",
        ] {
            assert!(is(args, "x"), "{args}");
        }
        assert!(is("./cli -r x", "claude"));
        assert!(is("/proc/self/exe sim --resume x", "trunkline"));
        assert!(!is("/home/me/bin/claude --resume x", "trunkline\n"), "a stand-in");
        for args in [
            "trunkline new --resume x",
            "/home/claude/bin/trunkline new --resume=x",
            "grep -r x /home/me/.claude/projects",
            "tmux new-session claude --resume x",
            "node /srv/web/server.js -r x",
            "bash -c claude -r x notes",
            "vim -r x",
        ] {
            assert!(!is(args, "x"), "{args}");
        }
    }

    #[test]
    fn a_transcript_is_known_by_its_name() {
        let of = |path: String| transcript_of(Path::new(&path)).map(|id| id.to_string());
        assert_eq!(of(format!("/h/.claude/projects/x/{A}.jsonl")).as_deref(), Some(A));
        assert_eq!(of(format!("/h/{A}.json")), None);
        assert_eq!(of("/h/notes.jsonl".to_owned()), None);
    }
}
