//! Owns `serve`, the composition root: builds everything from the configuration, runs it, and takes it down in order.

mod build;
mod instance;
mod listen;
mod ready;

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context as _;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::instance::Instance;
use super::{
    CliError,
    args::{Common, LogForm, Serve},
    daemon_file::DaemonFile,
    output::Output,
    settings,
};
use crate::{
    auth::Token,
    config::{Config, FlagValue, OnShutdown},
    domain::Clock,
    http::{self, AppState},
    keeper::{Seat, take_init_duties},
    lifecycle::{End, Lifecycle, Shutdown},
    service::{self, Addressee, Notifier, Passed},
    store::{Store, StoreError},
    supervisor::Supervisor,
    telemetry,
};

/// The name under which the daemon's own decisions are recorded.
const SELF: &str = "daemon";

/// `serve`
pub(super) fn run(common: &Common, output: &Output, flags: &Serve) -> Result<ExitCode, CliError> {
    let loaded = settings::load(common, flag_values(flags))?;
    loaded.check()?;
    // From here on a container has two processes, so it comes before the log and the runtime, which have threads.
    let us = match take_init_duties().context("cannot do the duties of process 1")? {
        Seat::Daemon { below_init } => Addressee {
            pid: std::process::id(),
            below_init,
        },
        Seat::Ended(code) => return Ok(code),
    };
    let passed = service::passed(&variable, us)?;
    telemetry::init(&loaded.config.log).context("cannot set up the log")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(serve(&loaded.config, output, us, passed));
    // Whatever is still running was told to end and had its time.
    runtime.shutdown_background();
    result
}

/// `openapi`
pub(super) fn print_openapi(output: &Output) -> Result<(), CliError> {
    let document = http::openapi_json().context("cannot make the document")?;
    output.line(document.trim_end())
}

async fn serve(
    config: &Config,
    output: &Output,
    us: Addressee,
    passed: Vec<Passed>,
) -> Result<ExitCode, CliError> {
    let mut lifecycle = Lifecycle::new().context("cannot take over signals")?;
    let instance = Instance::acquire(&config.data.dir)?;
    let manager = Arc::new(Notifier::from_env(&variable, us));
    // Bound before anything is started: a port in use must not cost a recovery.
    let listeners = listen::open(&config.server, passed).await?;
    let (address, socket) = (listeners.address, listeners.socket.clone());

    let token = Token::load_or_create(&config.data.dir.join("token")).context("cannot use the token")?;
    let store = Store::open(&config.data.dir.join("trunkline.db"))
        .await
        .context("cannot open the database")?;
    let tracker = lifecycle.tracker();
    let starting = Box::pin(Supervisor::start(
        build::supervisor(config)?,
        store,
        tracker.clone(),
    ));
    // There may be many journals to read.
    let supervisor = manager
        .extending(starting)
        .await
        .context("cannot take over the sessions")?;
    let state = AppState::new(
        supervisor.clone(),
        token,
        build::http(config),
        lifecycle.soft(),
        tracker.clone(),
    );
    for listener in listeners.tcp {
        let served = http::serve(listener, state.clone());
        tracker.spawn(until_it_ends(served, lifecycle.soft()));
    }
    for listener in listeners.unix {
        let served = http::serve_unix(listener, state.clone());
        tracker.spawn(until_it_ends(served, lifecycle.soft()));
    }
    drop(state);

    let file = DaemonFile {
        url: format!("http://{address}"),
        socket,
        pid: us.pid,
        version: env!("CARGO_PKG_VERSION").into(),
        started_at: Clock.now(),
    };
    instance.announce(&file)?;
    ready::print(output, &file, &config.data.dir, &supervisor.health().await)?;
    manager.ready(&format!("Listening on {}", file.url)).await;
    tracker.spawn(sign_of_life(
        manager.clone(),
        supervisor.store().clone(),
        lifecycle.soft(),
    ));

    let end = lifecycle.wait().await;
    let on_shutdown = config.stop.on_shutdown;
    tracing::info!(?on_shutdown, "shutting down");
    instance.withdraw();
    manager
        .stopping(match on_shutdown {
            OnShutdown::Stop => "Stopping the sessions",
            OnShutdown::Detach => "Leaving the sessions to the next daemon",
        })
        .await;
    // The work takes the supervisor with it: tasks of the supervisor end once nobody holds it any more.
    let work = async move {
        supervisor.close();
        if on_shutdown == OnShutdown::Stop {
            supervisor.stop_all(SELF).await;
        }
        supervisor.finish().await;
    };
    let deadline = Duration::from_millis(config.stop.shutdown_deadline_ms);
    let shutdown = manager.extending(lifecycle.shut_down(work, deadline)).await;
    if shutdown == Shutdown::Forced {
        tracing::warn!(
            "the shutdown was cut short; sessions that still run are taken over by the next daemon"
        );
    }
    Ok(match (end, shutdown) {
        (End::Asked, Shutdown::Clean) => ExitCode::SUCCESS,
        (End::Asked, Shutdown::Forced) | (End::Broken, _) => ExitCode::FAILURE,
    })
}

/// Without its server the daemon is of no use; in a shutdown this changes nothing.
async fn until_it_ends(served: impl Future<Output = std::io::Result<()>> + Send, soft: CancellationToken) {
    if let Err(error) = served.await {
        tracing::error!(error = %telemetry::chain(&error), "the HTTP server ended");
    }
    soft.cancel();
}

/// Tells the service manager that the daemon works as long as the runtime runs tasks and the store takes writes. A store
/// that answers that it can't, such as for want of space, is no reason to be started anew: that would not help.
async fn sign_of_life(manager: Arc<Notifier>, store: Store, soft: CancellationToken) {
    let works = || async { !matches!(store.ping().await, Err(StoreError::Locked | StoreError::Closed)) };
    service::feed(&manager, soft, works).await;
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
