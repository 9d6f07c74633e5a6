//! Owns `trunkline claude`, the stand-in for the CLI's program: what it is started for, its input, outputs and signals, and its
//! end. All calls that are not of a host's kind become the real program.

mod pending;
mod relay;

use std::{
    ffi::{OsStr, OsString},
    io::{self, BufRead as _, BufReader, IsTerminal as _, Stdin, Write as _},
    path::Path,
    process::ExitCode,
    thread,
    time::Duration,
};

use anyhow::Context as _;
use nix::sys::signal::{SigSet, Signal, raise};
use tokio::sync::mpsc;

use self::relay::{End, Launch, Piece};
use super::{CliError, args::Common, output, settings};
use crate::{
    claude::{binary, environment},
    keeper::take_own_name,
    os::replace_this_process,
};

/// The name of the program that is stood in for.
const NAME: &str = "claude";
/// The way in which a host speaks to it.
const STREAM: &str = "stream-json";
/// The flag that says so.
const INPUT_FORMAT: &str = "--input-format";
/// Lines and pieces of output that may wait.
const WAITING: usize = 64;
/// By this variable it is known that a program that was taken for the CLI leads back here.
const LEVEL: &str = "TRUNKLINE_STAND_IN";
/// CLIs within CLIs, each of which was started by this program.
const MOST_LEVELS: u32 = 16;

/// How long a host that has told us to end may take to read the last pieces.
const LAST_PIECES: Duration = Duration::from_secs(1);

/// The signals that are handed on.
const HANDED_ON: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];

/// Whether a program of this name stands in for the CLI.
pub fn is_name_of_cli(program: &OsStr) -> bool {
    Path::new(program).file_name() == Some(OsStr::new(NAME))
}

/// Stands in for the CLI's program, which was started with these arguments.
pub fn stand_in(args: impl Iterator<Item = OsString>) -> ExitCode {
    let common = Common {
        config: variable("TRUNKLINE_CONFIG").map(Into::into),
        url: variable("TRUNKLINE_URL"),
        token_file: variable("TRUNKLINE_TOKEN_FILE").map(Into::into),
        ..Common::default()
    };
    run(&common, args.collect()).unwrap_or_else(|error| {
        output::failure(&error);
        ExitCode::FAILURE
    })
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// As [`stand_in`], with what the command line says of the daemon.
pub(super) fn run(common: &Common, args: Vec<OsString>) -> Result<ExitCode, CliError> {
    let texts: Option<Vec<String>> = args.iter().map(|arg| arg.to_str().map(str::to_owned)).collect();
    let texts = texts.filter(|args| is_of_host(args));
    let (Some(argv), false) = (texts, io::stdin().is_terminal()) else {
        return become_cli(common, &args);
    };
    let mut input = BufReader::new(io::stdin());
    let first = loop {
        let Some(line) = next_line(&mut input).context("cannot read the standard input")? else {
            // It ends before anything was said, which the CLI knows best.
            return become_cli(common, &args);
        };
        if !line.trim().is_empty() {
            break line;
        }
    };
    take_own_name();
    let cwd = std::env::current_dir().context("cannot find the working directory")?;
    let launch = Launch {
        argv,
        cwd: cwd.display().to_string(),
        line: first,
    };
    // Before any other thread is there, which would take them.
    let signals: SigSet = HANDED_ON.into_iter().collect();
    signals.thread_block().context("cannot hold back signals")?;
    let (sender, lines) = mpsc::channel(WAITING);
    thread::spawn(move || read_on(input, &sender));
    let (sender, caught) = mpsc::channel(WAITING);
    thread::spawn(move || catch(signals, &sender));
    let (sender, pieces) = mpsc::channel(WAITING);
    let (printed, is_printed) = std::sync::mpsc::channel();
    thread::spawn(move || {
        print(pieces);
        // The other side may have lost its patience.
        printed.send(()).ok();
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let end = runtime.block_on(relay::run(common, launch, lines, caught, sender));
    runtime.shutdown_background();
    // The output that was told is printed before the end. A stand-in that is told to end does not wait for a host that
    // reads nothing.
    let (end, is_told) = end?;
    if is_told {
        is_printed.recv_timeout(LAST_PIECES).ok();
    } else {
        is_printed.recv().ok();
    }
    Ok(match end {
        End::Code(code) => ExitCode::from(code),
        End::Signal(number) => die(number),
        End::ReaderGone => ExitCode::FAILURE,
    })
}

/// Whether the CLI would be spoken to line by line.
fn is_of_host(args: &[String]) -> bool {
    let format = args.iter().enumerate().any(|(place, arg)| {
        let value = match arg.strip_prefix(INPUT_FORMAT) {
            Some("") => args.get(place + 1).map(String::as_str),
            Some(joined) => joined.strip_prefix('='),
            None => None,
        };
        value == Some(STREAM)
    });
    let asks_about_itself = ["--help", "-h", "--version", "-v"];
    let is_command = args.first().is_none_or(|first| !first.starts_with('-'));
    format && !is_command && !args.iter().any(|arg| asks_about_itself.contains(&arg.as_str()))
}

/// Becomes the real program.
fn become_cli(common: &Common, args: &[OsString]) -> Result<ExitCode, CliError> {
    // Without a readable configuration it is looked for where it usually is.
    let configured = settings::load(common, Vec::new()).ok();
    let configured = configured.and_then(|loaded| loaded.config.claude.bin);
    let found = binary::find(configured.as_deref(), &|name| std::env::var_os(name)).map_err(|missing| {
        CliError::not_found(
            missing.to_string(),
            Some("install Claude Code, or name it with TRUNKLINE_CLAUDE_BIN"),
        )
    })?;
    let (own, level) = Level::of_this_process(&found.path)?;
    let mut env: Vec<(OsString, OsString)> = std::env::vars_os().filter(|(name, _)| name != LEVEL).collect();
    env.push((LEVEL.into(), format!("{own}/{level}").into()));
    match replace_this_process(&found.path, args, &env)
        .with_context(|| format!("cannot start {}", found.path.display()))? {}
}

/// How often programs of the name of the CLI have led back here.
struct Level;

impl Level {
    /// This process, and how many of its kind are above it.
    fn of_this_process(found: &Path) -> Result<(u32, u32), CliError> {
        let own = std::process::id();
        let before = variable(LEVEL).unwrap_or_default();
        let (pid, level) = before.split_once('/').unwrap_or_default();
        let level = level.parse().unwrap_or(0_u32) + 1;
        // A script that becomes this program again is the same process.
        if pid == own.to_string() || level > MOST_LEVELS {
            return Err(CliError::Usage(format!(
                "{} leads back to trunkline; name the real claude with TRUNKLINE_CLAUDE_BIN",
                found.display()
            )));
        }
        Ok((own, level))
    }
}

/// The environment that goes along: all of it to a daemon on this machine, else what says what the host is.
fn environment(is_local: bool) -> Vec<(String, String)> {
    let passes = |name: &str| is_local || environment::OF_HOST.contains(&name);
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| passes(name))
        .collect()
}

/// The next line of the input, without its end.
fn next_line(input: &mut BufReader<Stdin>) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if input.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    // As the CLI reads it: what is no text becomes a mark of that.
    let line = String::from_utf8_lossy(&line);
    Ok(Some(line.trim_end_matches(['\n', '\r']).to_owned()))
}

/// Reads lines until the input ends, however it does.
fn read_on(mut input: BufReader<Stdin>, lines: &mpsc::Sender<String>) {
    while let Ok(Some(line)) = next_line(&mut input) {
        if !line.trim().is_empty() && lines.blocking_send(line).is_err() {
            return;
        }
    }
}

/// Tells of each signal that comes.
fn catch(signals: SigSet, caught: &mpsc::Sender<i32>) {
    while let Ok(signal) = signals.wait() {
        if caught.blocking_send(signal as i32).is_err() {
            return;
        }
    }
}

/// Prints what comes, and holds nothing back.
fn print(mut pieces: mpsc::Receiver<Piece>) {
    while let Some(piece) = pieces.blocking_recv() {
        let printed = match &piece {
            Piece::Lines(text) => {
                let mut out = io::stdout().lock();
                out.write_all(text.as_bytes()).and_then(|()| out.flush())
            }
            // A host that hears no errors may still hear the lines.
            Piece::Errors(text) => io::stderr().write_all(text.as_bytes()).or(Ok(())),
        };
        if printed.is_err() {
            return;
        }
    }
}

/// Dies by the signal that the CLI died by.
fn die(number: i32) -> ExitCode {
    if let Ok(signal) = Signal::try_from(number) {
        let mut let_through = SigSet::empty();
        let_through.add(signal);
        let_through.thread_unblock().ok();
        // The first SIGSEGV or SIGBUS only ends the handler that the standard library has for it.
        for _ in 0..2 {
            raise(signal).ok();
        }
    }
    // It was one that does not end a program.
    ExitCode::from(u8::try_from(128 + number).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_of_hosts_are_stood_in_for() {
        let is_of_host = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            super::is_of_host(&args)
        };
        let sdk = [
            "--output-format",
            "stream-json",
            "--verbose",
            "--input-format",
            "stream-json",
        ];
        assert!(is_of_host(&sdk));
        assert!(is_of_host(&[
            "-p",
            "--input-format=stream-json",
            "--output-format=stream-json"
        ]));
        for other in [
            &[][..],
            &["--version"],
            &["mcp", "list"],
            &["-p", "hello"],
            &["--input-format", "text"],
            &["--input-format", "stream-json", "--help"],
        ] {
            assert!(!is_of_host(other), "{other:?}");
        }
    }

    #[test]
    fn a_link_is_known_by_its_name() {
        assert!(is_name_of_cli(OsStr::new("/usr/local/bin/claude")) && is_name_of_cli(OsStr::new("claude")));
        assert!(!is_name_of_cli(OsStr::new("/opt/claude/trunkline")));
    }
}
