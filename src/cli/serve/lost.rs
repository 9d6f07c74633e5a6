//! Owns the start of a daemon whose database was lost: it is made again from the sessions before the API answers.

use std::{
    net::TcpListener as StdTcpListener,
    os::{fd::AsFd as _, unix::net::UnixListener as StdUnixListener},
    path::Path,
};

use anyhow::Context as _;
use tokio::net::{TcpListener, UnixListener};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{super::CliError, listen::Listeners};
use crate::{
    auth::Tokens,
    http::{HttpConfig, Rebuilding, serve_rebuilding},
    service::Notifier,
    supervisor::{LostDatabase, RebuildProgress, rebuild, remove_half_made},
};

/// Makes the database again if it is gone and its sessions are not. Meanwhile clients hear how far that is.
pub(super) async fn make_again(
    data_dir: &Path,
    http: &HttpConfig,
    tokens: &Tokens,
    listeners: &Listeners,
    manager: &Notifier,
) -> Result<(), CliError> {
    let lost = LostDatabase::find(data_dir).context("cannot look at the data directory")?;
    let Some(lost) = lost else {
        remove_half_made(data_dir).context("cannot remove what a killed rebuild left")?;
        return Ok(());
    };
    tracing::warn!(reason = %lost, "the database was lost");
    let progress = RebuildProgress::default();
    let answers = Rebuilding::new(http, tokens.clone(), progress.clone());
    let (answering, end) = (TaskTracker::new(), CancellationToken::new());
    for listener in &listeners.tcp {
        let listener = StdTcpListener::from(listener.as_fd().try_clone_to_owned().context(KEPT)?);
        let listener = TcpListener::from_std(listener).context(KEPT)?;
        answering.spawn(serve_rebuilding(listener, answers.clone(), end.clone()));
    }
    for (listener, _) in &listeners.unix {
        let listener = StdUnixListener::from(listener.as_fd().try_clone_to_owned().context(KEPT)?);
        let listener = UnixListener::from_std(listener).context(KEPT)?;
        answering.spawn(serve_rebuilding(listener, answers.clone(), end.clone()));
    }
    answering.close();
    let made = manager.extending(rebuild(data_dir, &progress)).await;
    end.cancel();
    answering.wait().await;
    made.context("cannot make the database again from the sessions")?;
    Ok(())
}

const KEPT: &str = "a socket cannot be used twice";
