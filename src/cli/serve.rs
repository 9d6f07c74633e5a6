//! Owns `serve`, the composition root: builds everything from the configuration, runs it, and takes it down in order.

mod build;
mod instance;
mod ready;

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use anyhow::Context as _;
use serde_json::Value;
use tokio::net::TcpListener;

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
    lifecycle::{End, Lifecycle, Shutdown},
    store::Store,
    supervisor::Supervisor,
    telemetry,
};

/// The name under which the daemon's own decisions are recorded.
const SELF: &str = "daemon";

/// `serve`
pub(super) fn run(common: &Common, output: &Output, flags: &Serve) -> Result<ExitCode, CliError> {
    let loaded = settings::load(common, flag_values(flags))?;
    loaded.check()?;
    telemetry::init(&loaded.config.log).context("cannot set up the log")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(serve(&loaded.config, output));
    // Whatever is still running was told to end and had its time.
    runtime.shutdown_background();
    result
}

/// `openapi`
pub(super) fn print_openapi(output: &Output) -> Result<(), CliError> {
    let document = http::openapi_json().context("cannot make the document")?;
    output.line(document.trim_end())
}

async fn serve(config: &Config, output: &Output) -> Result<ExitCode, CliError> {
    let mut lifecycle = Lifecycle::new().context("cannot take over signals")?;
    let instance = Instance::acquire(&config.data.dir)?;
    // Bound before anything is started: a port in use must not cost a recovery.
    let listener = bind(config.server.listen).await?;
    let address = listener.local_addr().context("the listener has no address")?;

    let token = Token::load_or_create(&config.data.dir.join("token")).context("cannot use the token")?;
    let store = Store::open(&config.data.dir.join("trunkline.db"))
        .await
        .context("cannot open the database")?;
    let tracker = lifecycle.tracker();
    let supervisor = Supervisor::start(build::supervisor(config)?, store, tracker.clone())
        .await
        .context("cannot take over the sessions")?;
    let state = AppState::new(
        supervisor.clone(),
        token,
        build::http(config),
        lifecycle.soft(),
        tracker.clone(),
    );
    let soft = lifecycle.soft();
    tracker.spawn(async move {
        if let Err(error) = http::serve(listener, state).await {
            tracing::error!(error = %telemetry::chain(&error), "the HTTP server ended");
        }
        // Without it the daemon is of no use; in a shutdown this changes nothing.
        soft.cancel();
    });

    let file = DaemonFile {
        url: format!("http://{address}"),
        socket: None,
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").into(),
        started_at: Clock.now(),
    };
    instance.announce(&file)?;
    ready::print(output, &file, &config.data.dir, &supervisor.health().await)?;

    let end = lifecycle.wait().await;
    let on_shutdown = config.stop.on_shutdown;
    tracing::info!(?on_shutdown, "shutting down");
    instance.withdraw();
    // The work takes the supervisor with it: tasks of the supervisor end once nobody holds it any more.
    let work = async move {
        supervisor.close();
        if on_shutdown == OnShutdown::Stop {
            supervisor.stop_all(SELF).await;
        }
        supervisor.finish().await;
    };
    let deadline = Duration::from_millis(config.stop.shutdown_deadline_ms);
    let shutdown = lifecycle.shut_down(work, deadline).await;
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

async fn bind(address: SocketAddr) -> Result<TcpListener, CliError> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            Err(CliError::AddressInUse { address })
        }
        Err(error) => Err(CliError::Other(
            anyhow::Error::new(error).context(format!("cannot listen on {address}")),
        )),
    }
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
