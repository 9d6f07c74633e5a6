//! Owns the life of a keeper process: become independent, read the plan, start the agent, run the loop, clean up.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    process::ExitCode,
    time::Instant,
};

use nix::{
    sys::{
        signal::Signal,
        stat::{Mode, umask},
    },
    unistd::{close, dup2_stderr, dup2_stdin, dup2_stdout, setsid},
};

use super::{
    child,
    identity::{self, Identity},
    ladder::Ladder,
    lease,
    plan::LaunchPlan,
    recorder::Recorder,
    records,
    report::{LaunchFailure, LaunchFailureCause as Cause, Ready, Report},
    run::Keeper,
    server::Server,
    stderr::Stderr,
    stdin::Stdin,
    stdout::Stdout,
    wire::Submission,
};
use crate::{
    domain::{RunExit, StopIntent},
    journal::{OpenError, Source, Writer, WriterOptions},
    json,
    os::{self, Signals, limit_open_files},
};

/// Runs this process as a keeper: the plan is on stdin, the report goes to stdout. Call it before anything else in the
/// process starts a thread.
pub fn run_process() -> ExitCode {
    match keep() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // The daemon may be gone; then nobody wants to know.
            let _ = report(&Report::Failed(failure));
            ExitCode::FAILURE
        }
    }
}

fn keep() -> Result<(), LaunchFailure> {
    let mask = become_independent().map_err(system)?;
    let plan = read_plan()?;
    limit_open_files(plan.limits.open_files).map_err(system)?;
    let Started {
        mut keeper,
        lease: _lease,
    } = start(&plan, mask)?;
    let (socket, identity_file) = (plan.socket.clone(), plan.identity_file.clone());
    // It may hold large prompts.
    drop(plan);
    // The daemon may have died over the start, or have become another program: the next one finds the keeper by its file.
    let _ = report(&Report::Ready(Ready {
        child_pid: keeper.child.as_raw(),
        child_start_time: keeper.child_start_time,
    }));
    leave_pipes().map_err(system)?;
    // The process dies with this one, so an error of poll(2) itself needs no more than an end.
    let result = keeper.run();
    let _ = fs::remove_file(identity_file);
    let _ = fs::remove_file(socket);
    result.map(drop).map_err(system)
}

/// Leaves the daemon's session and files, and gets ready to be a parent. Gives the umask that was set before.
fn become_independent() -> io::Result<Mode> {
    // Fails only for the leader of a group, which a person's shell makes of it: then it is apart already.
    let _ = setsid();
    os::return_freed_memory();
    os::become_keeper()?;
    for file in os::open_files()? {
        if file > 2 {
            // The listing's own file is closed already.
            let _ = close(file);
        }
    }
    std::env::set_current_dir("/")?;
    Ok(umask(Mode::from_bits_truncate(0o077)))
}

fn read_plan() -> Result<LaunchPlan, LaunchFailure> {
    let plan_failure = |detail: &dyn std::fmt::Display| LaunchFailure::new(Cause::Plan, detail);
    let mut text = Vec::new();
    io::stdin()
        .lock()
        .read_to_end(&mut text)
        .map_err(|error| plan_failure(&error))?;
    // The text of such an error could quote the plan, and with it a secret.
    let plan: LaunchPlan = serde_json::from_slice(&text)
        .map_err(|error| plan_failure(&format!("no plan at column {}", error.column())))?;
    let is_data = |text: &str| !text.contains('\n') && json::validate::is_json_object(text.as_bytes());
    if !is_data(&plan.start_note) || !plan.first_lines.iter().all(|line| is_data(&line.line)) {
        return Err(plan_failure(
            &"a record or line is not one JSON object on one line",
        ));
    }
    let paths = [&plan.cwd, &plan.journal_dir, &plan.socket, &plan.identity_file];
    if !paths
        .into_iter()
        .chain(&plan.lease_file)
        .all(|path| path.is_absolute())
    {
        return Err(plan_failure(&"a path is not absolute"));
    }
    Ok(plan)
}

struct Started {
    keeper: Keeper,
    lease: Option<fs::File>,
}

/// A process begins a new segment of the journal where the last one has this part of its size, so that what came before can be
/// compacted.
const CLOSED_AT: u64 = 64;

fn start(plan: &LaunchPlan, mask: Mode) -> Result<Started, LaunchFailure> {
    let now = Instant::now();
    let options = WriterOptions {
        segment_bytes: plan.limits.segment_bytes,
        floor: plan.journal_floor,
        close_bytes: plan.limits.segment_bytes / CLOSED_AT,
    };
    let (writer, _) = Writer::open(&plan.journal_dir, options).map_err(|error| {
        let cause = match error {
            OpenError::Locked { .. } => Cause::JournalLocked,
            OpenError::Io { .. } => Cause::Journal,
        };
        LaunchFailure::of_file(cause, error)
    })?;
    let mut recorder = Recorder::new(writer, &plan.limits, now);
    let lease = plan.lease_file.as_deref().map(lease::take).transpose()?;

    let secret = identity::new_secret().map_err(system)?;
    let server = Server::bind(&plan.socket, secret.clone(), plan.limits.max_line_bytes)
        .map_err(|error| LaunchFailure::of_file(Cause::Socket, error))?;
    let started = Identity::of_this_process(secret, plan.socket.clone(), plan.session, plan.run)
        .and_then(|identity| identity.write(&plan.identity_file))
        .map_err(|error| LaunchFailure::of_file(Cause::Identity, error))
        .and_then(|()| start_child(plan, mask, &mut recorder));
    let (signals, child) = match started {
        Ok(started) => started,
        Err(failure) => {
            let _ = fs::remove_file(&plan.identity_file);
            let _ = fs::remove_file(&plan.socket);
            if let Some(lease) = &plan.lease_file {
                // It is held until this process ends.
                let _ = fs::remove_file(lease);
            }
            return Err(failure);
        }
    };

    let mut stdin = Stdin::new(child.stdin, plan.limits.stdin_queue_bytes);
    for line in &plan.first_lines {
        let line = Submission::new(0, line.by.clone(), line.line.clone().into_bytes());
        stdin.push(line, None);
    }
    let keeper = Keeper {
        session: plan.session,
        run: plan.run,
        limits: plan.limits.clone(),
        signals,
        server,
        child_start_time: os::start_time(child.pid).unwrap_or_default(),
        child: child.pid,
        stdin,
        stdout: Stdout::new(child.stdout, &plan.limits),
        stderr: Stderr::new(child.stderr, &plan.limits, now),
        recorder,
        ladder: Ladder::default(),
        told_steps: 0,
        ending: None,
        acks: Vec::new(),
        unwritten_lines: 0,
        idle_since: now,
        mute_since: None,
    };
    Ok(Started { keeper, lease })
}

/// Writes the first record, then starts the process. A start that fails is a record too.
fn start_child(
    plan: &LaunchPlan,
    mask: Mode,
    recorder: &mut Recorder,
) -> Result<(Signals, child::Child), LaunchFailure> {
    let mut append = |data: &[u8]| {
        recorder
            .push(Source::Daemon, None, data)
            .map_err(|error| LaunchFailure::of_file(Cause::Journal, error))?;
        recorder
            .commit_now()
            .map_err(|error| LaunchFailure::of_file(Cause::Journal, error))
    };
    append(plan.start_note.as_bytes())?;
    // Before there is a child, so that no signal of its end is missed.
    let taken = [
        Signal::SIGCHLD,
        Signal::SIGTERM,
        Signal::SIGINT,
        // From a daemon that looks for the keeper.
        Signal::SIGCONT,
    ];
    let signals = Signals::new(&taken).map_err(system)?;
    match child::spawn(plan, mask) {
        Ok(child) => Ok((signals, child)),
        Err(failure) => {
            let exit = RunExit {
                code: None,
                signal: None,
                intent: StopIntent::None,
                killed: false,
                stderr_tail: String::new(),
                spawn_error: Some(failure.to_string()),
                unwritten_lines: 0,
                stop_steps: Vec::new(),
            };
            append(&records::run_exited(plan.run, &exit))?;
            Err(failure)
        }
    }
}

fn report(report: &Report) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(&line)?;
    stdout.flush()
}

/// Closes the pipes to the daemon, which may be gone tomorrow.
fn leave_pipes() -> io::Result<()> {
    let null = fs::File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    Ok(())
}

fn system(error: impl std::fmt::Display) -> LaunchFailure {
    LaunchFailure::new(Cause::System, error)
}
