//! Owns the simulated agent: a stand-in for the agent CLI that speaks its protocol on stdin and stdout and runs nothing.
//!
//! It lets people try the daemon where no agent CLI is installed, and says in every answer that it is simulated. Words in
//! a prompt choose what it does: `tool` asks for permission, `question` asks questions, `plan` shows a plan, `form` shows
//! a form, `slow` streams for a while, `error` fails. Hooks are asked before a tool. It is synchronous: one thread reads,
//! one plays the turns.

mod agent;
mod ask;
mod controls;
mod conversation;
mod flags;
mod hooks;
mod script;
mod turn;
mod wire;

use std::{
    ffi::OsString,
    io::{self, BufRead as _, Write as _},
    path::PathBuf,
    process::ExitCode,
    sync::mpsc,
    time::Duration,
};

use self::{agent::Agent, conversation::Conversation, flags::Flags, wire::Wire};

/// The version that the simulated agent reports.
pub const VERSION: &str = crate::claude::SIMULATED_VERSION;

/// The name of its model.
pub const MODEL: &str = "simulated";

/// Time between two pieces of streamed text.
const PACE: Duration = Duration::from_millis(25);

/// Lines read ahead before the reader waits.
const READ_AHEAD: usize = 64;

/// An input.
enum Input {
    /// A line of stdin.
    Line(Vec<u8>),
    /// The end of stdin.
    End,
}

/// Why the agent ends at once, told on stderr.
#[derive(Debug, thiserror::Error)]
enum Fatal {
    #[error("{0}")]
    Said(String),
    #[error("cannot write to stdout")]
    Output(#[from] io::Error),
}

/// Plays the agent with the arguments that follow `trunkline sim`.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<String> = arguments
        .map(|text| text.to_string_lossy().into_owned())
        .collect();
    if arguments.iter().any(|text| text == "--version" || text == "-v") {
        let _nobody_reads = writeln!(io::stdout(), "{VERSION} (Trunkline's simulated agent)");
        return ExitCode::SUCCESS;
    }
    let (sender, inbox) = mpsc::sync_channel(READ_AHEAD);
    std::thread::spawn(move || read(&sender));
    match play(&arguments, inbox, io::stdout(), &directory(), PACE) {
        Ok(code) => code,
        Err(fatal) => {
            let _nobody_reads = writeln!(io::stderr(), "Error: {fatal}");
            ExitCode::FAILURE
        }
    }
}

fn play(
    arguments: &[String],
    inbox: mpsc::Receiver<Input>,
    out: impl io::Write,
    directory: &std::path::Path,
    pace: Duration,
) -> Result<ExitCode, Fatal> {
    let flags = Flags::parse(arguments);
    let conversation = match Conversation::open(directory, &flags) {
        Ok(conversation) => conversation,
        Err(refusal) => {
            if let Some(id) = &refusal.unknown {
                wire::conversation_not_found(out, id)?;
            }
            return Err(Fatal::Said(refusal.message));
        }
    };
    let wire = Wire::new(out, conversation.id().to_owned());
    Agent::new(flags, conversation, wire, inbox, pace).run()
}

fn read(sender: &mpsc::SyncSender<Input>) {
    let mut stdin = io::stdin().lock();
    loop {
        let mut line = Vec::new();
        let input = match stdin.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => Input::End,
            Ok(_) => Input::Line(line),
        };
        let is_end = matches!(input, Input::End);
        if sender.send(input).is_err() || is_end {
            return;
        }
    }
}

/// Where conversations are kept: `TRUNKLINE_SIM_DIR`, else a folder in the home directory.
fn directory() -> PathBuf {
    std::env::var_os("TRUNKLINE_SIM_DIR").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".trunkline-sim"),
        PathBuf::from,
    )
}

#[cfg(test)]
mod tests;
