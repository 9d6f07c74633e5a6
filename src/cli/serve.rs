//! Owns `serve`: the composition root. It builds every part, in the order in which they need each other, and takes them
//! down in the other.

use std::{
    io::ErrorKind,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context as _;
use nix::fcntl::{Flock, FlockArg};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;

use super::{
    CliError,
    args::{Common, LogForm, Serve},
    daemon_file::DaemonFile,
    output::{Output, note},
    settings,
};
use crate::{
    auth::Token,
    claude::{Policy, environment},
    config::{Config, FlagValue, OnShutdown},
    domain::Clock,
    http::{self, AppState, HttpConfig},
    keeper::KeeperLimits,
    lifecycle::{End, Lifecycle, Shutdown},
    store::Store,
    supervisor::{CliFound, Simulator, Supervisor, SupervisorSettings, VERSION},
    telemetry,
};

/// `serve`
pub(super) fn run(common: &Common, flags: &Serve) -> Result<ExitCode, CliError> {
    let loaded = settings::load(common, flag_values(flags))?;
    loaded.check()?;
    let config = loaded.config;
    if !config.server.listen.ip().is_loopback() && !config.server.insecure {
        return Err(CliError::Usage(format!(
            "{} can be reached from other machines and the connection is not encrypted; --insecure allows it",
            config.server.listen
        )));
    }
    telemetry::init(&config.log).context("cannot set up logging")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(serve(config))
}

/// `openapi`
pub(super) fn print_openapi(output: &Output) -> Result<(), CliError> {
    let document = http::openapi_json().context("cannot write the OpenAPI document")?;
    output.line(document.trim_end())
}

async fn serve(config: Config) -> Result<ExitCode, CliError> {
    let data_dir = make_data_dir(&config.data.dir)?;
    let _lock = lock(&data_dir)?;
    let mut lifecycle = Lifecycle::new().context("cannot take over signals")?;
    let token = Token::load_or_create(&data_dir.join("token")).context("cannot use the token")?;
    let store = Store::open(&data_dir.join("trunkline.db"))
        .await
        .context("cannot open the database")?;
    let settings = supervisor_settings(&config, &data_dir)?;
    // The address is taken before anything is recovered: a daemon that can't be reached must not touch sessions.
    let listener = bind(config.server.listen).await?;
    let address = listener.local_addr().context("cannot read the address")?;
    let supervisor = Supervisor::start(settings, store, lifecycle.tracker())
        .await
        .context("cannot start the supervisor")?;
    let state = AppState::new(
        supervisor.clone(),
        token,
        http_config(&config),
        lifecycle.soft(),
        lifecycle.tracker(),
    );
    let file = DaemonFile {
        url: format!("http://{address}"),
        socket: None,
        pid: std::process::id(),
        version: VERSION.to_owned(),
        started_at: Clock.now(),
    };
    let soft = lifecycle.soft();
    lifecycle.tracker().spawn(async move {
        if let Err(error) = http::serve(listener, state).await {
            tracing::error!(%error, "the listener failed");
            soft.cancel();
        }
    });
    file.write(&data_dir).context("cannot write daemon.json")?;
    announce(&file, &data_dir, supervisor.health().await.cli.ok().as_ref());

    let end = lifecycle.wait().await;
    tracing::info!("shutting down");
    supervisor.close();
    let work = async {
        if config.stop.on_shutdown == OnShutdown::Stop {
            supervisor.stop_all("shutdown").await;
        }
        supervisor.finish().await;
    };
    let deadline = Duration::from_millis(config.stop.shutdown_deadline_ms);
    let shutdown = lifecycle.shut_down(work, deadline).await;
    if let Err(error) = DaemonFile::remove(&data_dir) {
        tracing::warn!(%error, "daemon.json was not removed");
    }
    Ok(match (end, shutdown) {
        (End::Asked, Shutdown::Clean) => ExitCode::SUCCESS,
        (End::Asked, Shutdown::Forced) | (End::Broken, _) => ExitCode::FAILURE,
    })
}

fn flag_values(flags: &Serve) -> Vec<FlagValue> {
    let value = |key, flag, value: Value| FlagValue { key, flag, value };
    let form = |form: LogForm| match form {
        LogForm::Text => "text",
        LogForm::Json => "json",
    };
    [
        flags
            .listen
            .map(|address| value("server.listen", "--listen", address.to_string().into())),
        flags
            .claude_bin
            .as_ref()
            .map(|path| value("claude.bin", "--claude-bin", path.to_string_lossy().into())),
        flags
            .insecure
            .then(|| value("server.insecure", "--insecure", true.into())),
        flags
            .log_level
            .as_ref()
            .map(|level| value("log.level", "--log-level", level.as_str().into())),
        flags
            .log_format
            .map(|it| value("log.format", "--log-format", form(it).into())),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn make_data_dir(dir: &Path) -> Result<PathBuf, CliError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .with_context(|| format!("cannot make the data directory {}", dir.display()))?;
    let resolved = dir
        .canonicalize()
        .with_context(|| format!("cannot use the data directory {}", dir.display()))?;
    Ok(resolved)
}

/// Two daemons on one data directory would fight over its sessions. The lock goes with the process, however it ends.
fn lock(data_dir: &Path) -> Result<Flock<std::fs::File>, CliError> {
    let path = data_dir.join("lock");
    let file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| match error {
        nix::errno::Errno::EWOULDBLOCK => {
            let holder = DaemonFile::read(data_dir).ok().flatten();
            let holder = holder.map(|file| format!(" (pid {}, {})", file.pid, file.url)).unwrap_or_default();
            CliError::AlreadyRunning(format!(
                "another daemon{holder} uses the data directory {}",
                data_dir.display()
            ))
        }
        error => CliError::Other(anyhow::Error::new(error).context("cannot lock the data directory")),
    })
}

async fn bind(address: std::net::SocketAddr) -> Result<TcpListener, CliError> {
    TcpListener::bind(address).await.map_err(|error| {
        if error.kind() == ErrorKind::AddrInUse {
            CliError::AddressInUse { address }
        } else {
            CliError::Other(anyhow::Error::new(error).context(format!("cannot listen on {address}")))
        }
    })
}

fn supervisor_settings(config: &Config, data_dir: &Path) -> Result<SupervisorSettings, CliError> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let sessions = &config.sessions;
    Ok(SupervisorSettings {
        data_dir: data_dir.to_owned(),
        runtime_dir: config.data.runtime_dir.join(short_name(data_dir)),
        keeper_program: program.clone(),
        claude_bin: config.claude.bin.clone(),
        simulator: Simulator::WhenNoCli(program, vec!["sim".to_owned()]),
        env_allow: allowed_variables(config),
        env_fixed: config.claude.env.clone(),
        daemon_env: daemon_environment(&config.claude.path_extra),
        cwd_roots: sessions.cwd_roots.clone(),
        policy: Policy {
            allow_bypass_permissions: sessions.allow_bypass_permissions,
            allow_extra_args: sessions.allow_extra_args,
        },
        max_prompt_bytes: bytes(config.server.max_prompt_bytes),
        start_timeout_ms: sessions.start_timeout_ms,
        keeper: KeeperLimits {
            max_line_bytes: bytes(sessions.max_line_bytes),
            stdin_queue_bytes: bytes(sessions.stdin_queue_bytes),
            stderr_tail_bytes: bytes(sessions.stderr_tail_bytes),
            segment_bytes: sessions.segment_bytes,
            eof_grace_ms: config.stop.eof_grace_ms,
            term_grace_ms: config.stop.term_grace_ms,
            drain_ms: config.stop.drain_ms,
            orphan_grace_ms: config.stop.orphan_grace_ms,
            sync_interval_ms: sessions.sync_interval_ms,
            ..KeeperLimits::default()
        },
        ring_bytes: bytes(sessions.ring_bytes),
    })
}

fn http_config(config: &Config) -> HttpConfig {
    let server = &config.server;
    HttpConfig {
        allowed_hosts: server.allowed_hosts.clone(),
        allowed_origins: server.allowed_origins.clone(),
        max_prompt_bytes: bytes(server.max_prompt_bytes),
        max_connections_per_session: count(server.max_connections_per_session),
        max_connections: count(server.max_connections),
        ping_interval_ms: server.ping_interval_ms,
        send_timeout_ms: server.send_timeout_ms,
        ..HttpConfig::default()
    }
}

fn allowed_variables(config: &Config) -> Vec<String> {
    let mut allowed = environment::default_allow();
    allowed.extend(config.claude.env_allow.iter().cloned());
    allowed
}

/// The daemon's own environment, what is no text left out.
fn daemon_environment(path_extra: &[PathBuf]) -> Vec<(String, String)> {
    let mut variables: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    if !path_extra.is_empty() {
        let extra: Vec<_> = path_extra.iter().map(|dir| dir.display().to_string()).collect();
        let extra = extra.join(":");
        match variables.iter_mut().find(|(name, _)| name == "PATH") {
            Some((_, path)) => *path = format!("{extra}:{path}"),
            None => variables.push(("PATH".to_owned(), extra)),
        }
    }
    variables
}

/// A name for a data directory that is short enough to leave room in a socket's path.
fn short_name(data_dir: &Path) -> String {
    let digest = Sha256::digest(data_dir.as_os_str().as_encoded_bytes());
    digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

fn announce(file: &DaemonFile, data_dir: &Path, cli: Option<&CliFound>) {
    let token = data_dir.join("token");
    note(&format!("trunkline {VERSION} listening on {}", file.url));
    note(&format!("token: {}", token.display()));
    match cli {
        Some(cli) if cli.simulated => note(
            "agent: SIMULATED. No claude CLI was found, so sessions talk to a built-in agent that calls no model.",
        ),
        Some(cli) => note(&format!(
            "agent: {} {}",
            cli.path.display(),
            cli.version.as_deref().unwrap_or("(version unknown)")
        )),
        None => note("agent: none. No claude CLI was found; `trunkline doctor` says more."),
    }
    note(&format!(
        "try: curl -s -H \"Authorization: Bearer $(cat {})\" {}/v1/sessions",
        token.display(),
        file.url
    ));
}

fn bytes(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn count(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
