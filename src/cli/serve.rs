//! Owns `serve`, the composition root: builds everything from the configuration, runs it, and takes it down in order.

mod build;
mod instance;
mod listen;
mod lost;
mod ready;
mod restart;

use std::{
    io::{self, IsTerminal as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::OwnedFd,
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use nix::unistd::Pid;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(in crate::cli) use build::journals;
pub(in crate::cli) use instance::Instance;

use self::restart::{Fitness, Replacement, Start};
use super::{
    CliError, agent,
    args::{Common, LogForm, Serve},
    daemon_file::DaemonFile,
    doctor,
    output::{Output, note},
    settings,
};
use crate::{
    auth::Tokens,
    config::{FlagValue, Loaded, OnShutdown},
    domain::Clock,
    files::free_bytes,
    http::{self, AppState, RestartRequest, Successor},
    keeper::{InitRole, take_init_duties},
    lifecycle::{End, Lifecycle, Shutdown},
    os::{
        give_back_free_pages, give_back_large_buffers, inherited_children, raise_open_files, reap_inherited,
    },
    service::{self, Addressee, Inherited, Notifier, Passed},
    store::{Store, StoreError},
    supervisor::{Supervisor, SupervisorError, configure_webhooks, database_file},
    telemetry,
};

/// The name under which the daemon's own decisions are recorded.
const SELF: &str = "daemon";

/// The exit code of a daemon that was asked to end and left something behind. The list in the help text says the same.
const NOT_CLEAN: u8 = 8;

/// A start that finds less room than this on its disk may have failed for it: the database alone needs several pages.
const LEAST_ROOM: u64 = 256 << 10;

/// How often memory is given back.
const TRIM_PAUSE: Duration = Duration::from_secs(20);

/// How long tasks that ignored their end may keep a restart waiting.
const LAST_TASKS: Duration = Duration::from_secs(2);

/// `serve`. `is_named` says whether the command line names the subcommand.
pub(super) fn run(
    common: &Common,
    output: &Output,
    flags: &Serve,
    is_named: bool,
) -> Result<ExitCode, CliError> {
    let loaded = settings::load(common, flag_values(flags))?;
    loaded.check()?;
    if flags.check {
        let fitness = serde_json::to_string(&Fitness::ours()).context("cannot say what this program is")?;
        return output.line(&fitness).map(|()| ExitCode::SUCCESS);
    }
    let inherited = service::inherited(&variable, std::process::id())?;
    // From here on a container has two processes, so it comes before the log and the runtime, which have threads.
    let us = match take_init_duties().context("cannot do the duties of process 1")? {
        InitRole::Daemon { below_init } => Addressee {
            pid: std::process::id(),
            below_init,
        },
        InitRole::Ended(code) => return Ok(code),
    };
    let begin = match inherited {
        Some(Inherited { sockets, lock, us }) => Begin {
            us,
            sockets,
            lock: Some(lock),
            children: inherited_children().context("cannot look for the keepers of before")?,
        },
        None => Begin {
            us,
            sockets: service::passed(&variable, us)?,
            lock: None,
            children: Vec::new(),
        },
    };
    let start = Start::of_this_process(is_named).context("cannot find the path of this program")?;
    // The threads of the log and of the runtime leave the signals to this one.
    Lifecycle::hold_back().context("cannot hold back signals")?;
    give_back_large_buffers();
    let log = telemetry::init(&loaded.config.log).context("cannot set up the log")?;
    if let Err(error) = raise_open_files() {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(serve(&loaded, common, output, begin, start));
    let result = result.map_err(|error| name_full_disk(error, &loaded.config.data.dir));
    match result? {
        // Everything that still runs was told to end and had its time.
        Outcome::Ended(code) => {
            runtime.shutdown_background();
            Ok(code)
        }
        Outcome::Replaced(replacement) => {
            runtime.shutdown_timeout(LAST_TASKS);
            drop(log);
            match replacement.carry_out().context("cannot start again")? {}
        }
    }
}

/// Names the way out of a database that no daemon of this version can use.
fn with_way_out(
    is_lost: bool,
    error: impl std::error::Error + Send + Sync + 'static,
    what: &'static str,
) -> anyhow::Error {
    let error = anyhow::Error::new(error).context(what);
    match is_lost {
        true => {
            error.context("`trunkline rebuild` makes the database again from the sessions and keeps this one")
        }
        false => error,
    }
}

/// A write that failed while the disk of the data was full failed because of that. SQLite has other words for it.
fn name_full_disk(error: CliError, dir: &Path) -> CliError {
    match error {
        CliError::Other(cause)
            if cause.chain().any(is_of_a_write) && free_bytes(dir).is_some_and(|free| free < LEAST_ROOM) =>
        {
            CliError::Other(cause.context(format!("no space is left on the disk of {}", dir.display())))
        }
        error => error,
    }
}

fn is_of_a_write(cause: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        return error.kind() == io::ErrorKind::StorageFull;
    }
    if let Some(error) = cause.downcast_ref::<StoreError>() {
        return error.may_be_of_a_full_disk();
    }
    matches!(cause.downcast_ref(), Some(SupervisorError::StoreBehind))
}

/// The state that a daemon begins with.
struct Begin {
    us: Addressee,
    sockets: Vec<Passed>,
    /// The lock, when this process was a daemon before.
    lock: Option<OwnedFd>,
    /// The keepers that were started then.
    children: Vec<Pid>,
}

/// The sequel of the daemon.
enum Outcome {
    Ended(ExitCode),
    Replaced(Box<Replacement>),
}

/// `openapi` and `asyncapi`
pub(super) fn print_document(
    document: Result<String, serde_json::Error>,
    output: &Output,
) -> Result<(), CliError> {
    let document = document.context("cannot make the document")?;
    output.line(document.trim_end())
}

async fn serve(
    loaded: &Loaded,
    common: &Common,
    output: &Output,
    begin: Begin,
    start: Start,
) -> Result<Outcome, CliError> {
    let config = &loaded.config;
    let mut lifecycle = Lifecycle::new().context("cannot take over signals")?;
    let Begin {
        us,
        sockets,
        lock,
        children,
    } = begin;
    // A daemon that takes the place of another has sessions, and starts whatever became of the program.
    if lock.is_none() {
        agent::refuse_others(&config.claude).await?;
    }
    let instance = Instance::acquire(&config.data.dir, lock)?;
    let manager = Arc::new(Notifier::from_env(&variable, us));
    // Bound before anything is started: a port in use must not cost a recovery.
    let listeners = listen::open(&config.server, sockets).await?;
    let (address, socket) = (listeners.address, listeners.socket.clone());

    let tokens = Tokens::load_or_create(&config.data.dir).context("cannot use the tokens")?;
    let http = build::http(config);
    let made = lost::make_again(&config.data.dir, &http, &tokens, &listeners, &manager);
    // It changes nothing before its end: the next daemon begins again. It is asked first: when nothing was lost it is ready at once, and
    // a signal that came before, as in a restart, ends the sessions too.
    tokio::select! {
        biased;
        made = made => made?,
        _ = lifecycle.wait() => {
            instance.withdraw();
            return Ok(Outcome::Ended(ExitCode::SUCCESS));
        }
    }
    let store = Store::open(&database_file(&config.data.dir))
        .await
        .map_err(|error| with_way_out(error.is_beyond_use(), error, "cannot open the database"))?;
    // Before the facts of the journals that are read again.
    configure_webhooks(&store, build::webhooks(config))
        .await
        .context("cannot store the webhooks of the configuration")?;
    let tracker = lifecycle.tracker();
    tracker.spawn(reap_inherited(children, lifecycle.soft()));
    let settings = build::supervisor(config)?;
    let in_force = build::in_force(loaded, &settings);
    let starting = Box::pin(Supervisor::start(settings, store, tracker.clone()));
    // There may be many journals to read.
    let supervisor = manager.extending(starting).await.map_err(|error| {
        let is_lost = matches!(&error, SupervisorError::Store(error) if error.is_beyond_use());
        with_way_out(is_lost, error, "cannot take over the sessions")
    })?;
    let (asking, mut asked) = mpsc::channel(1);
    let state = AppState::new(
        supervisor.clone(),
        tokens,
        http,
        lifecycle.soft(),
        tracker.clone(),
    )
    .restarted_by(asking)
    .begun_with(in_force)
    .examined_by(doctor::examiner(loaded));
    state.take_up_logins().await.context("cannot read the logins")?;
    state.go_on().await;
    let no_more_requests = CancellationToken::new();
    for listener in listeners.tcp {
        let served = http::serve(listener, state.clone(), no_more_requests.clone());
        tracker.spawn(until_it_ends(served, lifecycle.soft()));
    }
    for (listener, private) in listeners.unix {
        let served = http::serve_unix(listener, private, state.clone(), no_more_requests.clone());
        tracker.spawn(until_it_ends(served, lifecycle.soft()));
    }
    tracker.spawn(lifecycle.soft().run_until_cancelled_owned(state.deliver()));
    // Into a file or a journal goes no ticket.
    let ticket = io::stderr()
        .is_terminal()
        .then(|| state.ticket_for_the_terminal());
    let ticket = ticket.and_then(Result::ok);
    drop(state);

    let file = DaemonFile {
        url: format!("http://{}", reachable(address)),
        socket,
        pid: us.pid,
        version: env!("CARGO_PKG_VERSION").into(),
        started_at: Clock.now(),
    };
    instance.announce(&file)?;
    let command = ready::command(common, loaded);
    ready::print(
        output,
        &file,
        &config.data.dir,
        &supervisor.health().await,
        &ready::Ways { command, ticket },
    );
    manager.ready(&format!("Listening on {}", file.url)).await;
    tracker.spawn(lifecycle.soft().run_until_cancelled_owned(give_back_memory()));
    tracker.spawn(watchdog(
        manager.clone(),
        supervisor.store().clone(),
        lifecycle.soft(),
    ));

    let (end, successor) = tokio::select! {
        end = lifecycle.wait() => (end, None),
        successor = chosen(&mut asked, &start, &supervisor) => (End::Asked, Some(successor)),
    };
    lifecycle.soft().cancel();
    // Any other caller that asks for a restart is told that the daemon ends, and does not hold up its end.
    drop(asked);
    let on_shutdown = match &successor {
        Some(_) => OnShutdown::Detach,
        None => config.stop.on_shutdown,
    };
    let kept = if let Some(successor) = &successor {
        tracing::info!(program = %successor.program.display(), version = successor.version, "starting again");
        manager.reloading("Starting again").await;
        listeners.kept
    } else {
        tracing::info!(on_shutdown = on_shutdown.as_str(), "shutting down");
        if matches!(end, End::Asked) && io::stderr().is_terminal() {
            note(&ready::ending(on_shutdown, config, &supervisor.states()));
        }
        instance.withdraw();
        manager
            .stopping(match on_shutdown {
                OnShutdown::Stop => "Stopping the sessions",
                OnShutdown::Detach => "Leaving the sessions to the next daemon",
            })
            .await;
        // With the last of them the system refuses connections.
        Vec::new()
    };
    let (hurry, turns) = (
        lifecycle.hard(),
        Duration::from_millis(config.stop.finish_turns_ms),
    );
    // The work takes the supervisor with it: tasks of the supervisor end once nobody holds it any more.
    let work = async move {
        supervisor.close();
        let all_stopped = match on_shutdown {
            OnShutdown::Stop => supervisor.stop_all(SELF, turns, &hurry).await,
            OnShutdown::Detach => true,
        };
        no_more_requests.cancel();
        supervisor.finish().await;
        all_stopped
    };
    let requests = lifecycle.requests();
    let deadline = Duration::from_millis(config.stop.shutdown_deadline_ms);
    let (mut shutdown, signals) = manager.extending(lifecycle.shut_down(work, deadline)).await;
    if shutdown != Shutdown::Clean {
        tracing::warn!(
            "the shutdown was cut short; sessions that still run are taken over by the next daemon"
        );
    }
    if let Some(successor) = successor {
        // A signal in the middle of a restart asks for an end: the successor gets it, and ends everything as it is told to.
        // A second signal is not kept waiting for that.
        if signals < 2 {
            return Ok(Outcome::Replaced(Box::new(Replacement {
                start,
                successor: successor.program,
                us,
                sockets: kept,
                instance,
                requests,
            })));
        }
        instance.withdraw();
        if config.stop.on_shutdown == OnShutdown::Stop && shutdown == Shutdown::Clean {
            shutdown = Shutdown::Incomplete;
        }
    }
    Ok(Outcome::Ended(match (end, shutdown) {
        (End::Asked, Shutdown::Clean) => ExitCode::SUCCESS,
        (End::Asked, Shutdown::Incomplete | Shutdown::Forced) => ExitCode::from(NOT_CLEAN),
        (End::Broken, _) => ExitCode::FAILURE,
    }))
}

/// The address under which a program of this machine reaches a listener. One that listens on every address has none of its
/// own, and the Host check knows the loopback ones.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Waits until somebody asks for a restart with a program that can take the place of this one; others are refused.
async fn chosen(
    asked: &mut mpsc::Receiver<RestartRequest>,
    start: &Start,
    supervisor: &Supervisor,
) -> Successor {
    loop {
        let Some(RestartRequest { program, reply }) = asked.recv().await else {
            return std::future::pending().await;
        };
        let checked = start.check(program, supervisor).await;
        if let Err(refused) = &checked {
            tracing::warn!(refused, "not started again");
        }
        let successor = checked.as_ref().ok().cloned();
        // The caller may have left; then nobody wants the restart.
        if reply.send(checked).is_ok()
            && let Some(successor) = successor
        {
            return successor;
        }
    }
}

/// Without its server the daemon is of no use; in a shutdown this changes nothing.
async fn until_it_ends(served: impl Future<Output = ()> + Send, soft: CancellationToken) {
    served.await;
    soft.cancel();
}

/// Tells the service manager that the daemon works as long as the runtime runs tasks and the store takes writes. A store
/// that answers that it can't, such as for want of space, is no reason to be started anew: that would not help.
async fn watchdog(manager: Arc<Notifier>, store: Store, soft: CancellationToken) {
    let works = || async { !matches!(store.ping().await, Err(StoreError::Locked | StoreError::Closed)) };
    service::feed(&manager, soft, works).await;
}

/// Gives memory back that many small things have left: large ones go back by themselves.
async fn give_back_memory() {
    loop {
        tokio::time::sleep(TRIM_PAUSE).await;
        // Only the end of the runtime cancels it.
        tokio::task::spawn_blocking(give_back_free_pages).await.ok();
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn flag_values(flags: &Serve) -> Vec<FlagValue> {
    let given = [
        (
            "server.listen",
            "--listen",
            flags.listen.as_deref().map(Value::from),
        ),
        (
            "claude.bin",
            "--claude-bin",
            flags
                .claude_bin
                .as_ref()
                .map(|path| Value::from(path.to_string_lossy())),
        ),
        (
            "server.insecure",
            "--insecure",
            flags.insecure.then_some(Value::Bool(true)),
        ),
        (
            "log.level",
            "--log-level",
            flags.log_level.as_deref().map(Value::from),
        ),
        (
            "log.format",
            "--log-format",
            flags.log_format.map(|form| {
                Value::from(match form {
                    LogForm::Text => "text",
                    LogForm::Json => "json",
                })
            }),
        ),
    ];
    given
        .into_iter()
        .filter_map(|(key, flag, value)| {
            Some(FlagValue {
                key,
                flag,
                value: value?,
            })
        })
        .collect()
}
