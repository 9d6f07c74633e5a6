//! Owns the background work: processes are started for profiles that lack some, and those that are old, outdated or dead
//! are taken out. It takes only room that nobody else wants.

use std::{os::unix::fs::OpenOptionsExt as _, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{
    claude::Start,
    domain::{CliSessionId, Clock, ErrorCode, FailReason, SessionId, SessionState},
    metrics::WarmEnd,
    session::{LiveView, SessionError, SessionHandle},
    store::SessionRow,
    telemetry,
};

use super::{
    super::{CliFound, Supervisor, SupervisorError, plan, requests::Opening, settings::make_private_dir},
    WarmProfile,
    key::LaunchKey,
    pool::{self, WarmProcess},
    spare_row, spare_session,
};

/// How often it is looked whether what would be started is still the same.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// A process that nobody has asked for and that has written so many records is not one to wait with.
const MOST_RECORDS: u64 = 1_000;

/// The outcome of the wish for another process.
enum Begun {
    Yes,
    NoRoom,
}

impl Supervisor {
    /// Does the background work until the daemon ends.
    pub(in super::super) fn run_warm(&self) {
        if self.shared.settings.warm.profiles.is_empty() {
            return;
        }
        let supervisor = self.clone();
        let run = async move {
            let pool = &supervisor.shared.warm;
            loop {
                supervisor.refill_once().await;
                let now = tokio::time::Instant::now();
                let latest = now + LOOK_EVERY;
                let next = pool
                    .next(supervisor.shared.settings.warm.max_age())
                    .unwrap_or(latest);
                // Two notifications and a timer: all are cancel-safe.
                tokio::select! {
                    () = pool.changed.notified() => {}
                    () = supervisor.shared.admission.freed() => {}
                    () = tokio::time::sleep_until(next.min(latest)) => {}
                }
            }
        };
        let closing = self.shared.closing.clone();
        self.shared.tracker.spawn(closing.run_until_cancelled_owned(run));
    }

    async fn refill_once(&self) {
        let (settings, pool) = (&self.shared.settings.warm, &self.shared.warm);
        let mut keys = Vec::with_capacity(settings.profiles.len());
        for profile in &settings.profiles {
            let executable = profile.options.executable.as_deref();
            let cli = self
                .shared
                .cli
                .look(&self.shared.settings, None, executable)
                .await;
            keys.push(match &cli {
                Ok(cli) => self.key_of(cli, profile).await,
                Err(missing) => Err(missing.clone().into()),
            });
        }
        for (process, end) in pool.take_stale(&keys, settings.max_age()) {
            self.discard_soon(process, end);
        }
        for (number, (profile, key)) in settings.profiles.iter().zip(keys).enumerate() {
            if !pool.may_refill(number, profile.count) {
                continue;
            }
            let begun = match key {
                Ok(key) => self.begin(number, profile, key).await,
                Err(error) => Err(error),
            };
            match begun {
                Ok(Begun::Yes) => {}
                // One at a time.
                Ok(Begun::NoRoom) => return,
                Err(error) => self.profile_failed(number, reason_of(&error)),
            }
        }
    }

    pub(super) async fn key_of(
        &self,
        cli: &CliFound,
        profile: &WarmProfile,
    ) -> Result<LaunchKey, SupervisorError> {
        let cwd = self.check_cwd(&profile.cwd).await?;
        profile
            .options
            .check(&self.shared.settings.policy)
            .map_err(SupervisorError::InvalidOption)?;
        self.launch_key(cli, &cwd, &profile.options).await
    }

    /// Begins to start a process for a profile.
    async fn begin(
        &self,
        number: usize,
        profile: &WarmProfile,
        key: LaunchKey,
    ) -> Result<Begun, SupervisorError> {
        let (id, cli_session) = (SessionId::new(), CliSessionId::new());
        let Some(admitted) = self.shared.admission.admit_spare(id, &key.cwd) else {
            return Ok(Begun::NoRoom);
        };
        let options = plan::options_text(&profile.options)?;
        let new = spare_session(id, cli_session, key.cwd.display().to_string(), options);
        let row = spare_row(&new);
        let under_way = self.begin_start()?;
        let (supervisor, known) = (self.clone(), row.clone());
        // To the end, for which the end of the daemon waits: half of it would stay on the disk.
        let made = self.run_uncancelled(async move {
            let made = supervisor.make_spare(number, &known, key).await;
            drop(under_way);
            made
        });
        let Some((session, watched)) = made.await? else {
            return Ok(Begun::NoRoom);
        };
        let supervisor = self.clone();
        let seen = session.clone();
        let watch = async move { supervisor.watch_spare(number, seen).await };
        self.shared
            .tracker
            .spawn(watched.run_until_cancelled_owned(watch));
        let start = Start::New { id: cli_session };
        match self
            .start_process(&session, &row, start, Opening::default(), None, admitted)
            .await
        {
            // The task that watches it sees its end.
            Ok(()) | Err(SupervisorError::Session(SessionError::StartFailed(_) | SessionError::Ended)) => {
                Ok(Begun::Yes)
            }
            Err(error) => {
                if let Some(process) = self.shared.warm.take(id) {
                    self.discard_soon(process, WarmEnd::Failed);
                }
                Err(error)
            }
        }
    }

    /// Makes a session for a process that is to be started, and adds it to the others; `None` when they are closed. The token ends
    /// the task that watches it.
    async fn make_spare(
        &self,
        number: usize,
        row: &SessionRow,
        key: LaunchKey,
    ) -> Result<Option<(SessionHandle, CancellationToken)>, SupervisorError> {
        let (id, cli_session) = (row.id, row.cli_session_id);
        let opened = async {
            self.mark_warm(id, cli_session)?;
            let dir = self.shared.settings.session_dir(id);
            make_private_dir(&dir).map_err(SupervisorError::files(&dir))?;
            self.open_as(row, None, true, true).await
        };
        let session = match opened.await {
            Ok(session) => session,
            Err(error) => {
                self.remove_warm(id, cli_session).await?;
                return Err(error);
            }
        };
        let watched = CancellationToken::new();
        let process = WarmProcess {
            profile: number,
            session: session.clone(),
            cli_session,
            cwd: key.cwd.clone(),
            key,
            since: tokio::time::Instant::now(),
            since_at: Clock.now(),
            _watched: watched.clone().drop_guard(),
        };
        if let Err(late) = self.shared.warm.add(process) {
            drop(late);
            self.end(&session).await?;
            self.remove_warm(id, cli_session).await?;
            return Ok(None);
        }
        Ok(Some((session, watched)))
    }

    /// Sees a process get ready, and takes it out when it ends by itself.
    async fn watch_spare(&self, profile: usize, session: SessionHandle) {
        let is_over = |view: &LiveView| {
            !view.state.is_live() || view.head_seq.get() > MOST_RECORDS || pool::has_turned(view)
        };
        let ready = session.seen(|view| view.state == SessionState::Idle || is_over(view));
        let Ok(view) = ready.await else { return };
        let was_ready = !is_over(&view);
        if was_ready {
            self.shared.warm.is_well(profile);
            if session.seen(is_over).await.is_err() {
                return;
            }
        }
        let Some(process) = self.shared.warm.take(session.id()) else {
            return;
        };
        let view = session.view();
        let reason = why_of_no_use(&view, "the CLI ended by itself");
        self.profile_failed(profile, reason);
        let end = if was_ready { WarmEnd::Died } else { WarmEnd::Failed };
        // In a task of its own: this one ends with the process that it watches.
        self.discard_soon(process, end);
    }

    pub(super) fn profile_failed(&self, number: usize, reason: FailReason) {
        let Some(profile) = self.shared.settings.warm.profiles.get(number) else {
            return;
        };
        let (profile, code) = (profile.name.as_str(), reason.code.clone());
        let (failures, pause) = self.shared.warm.failed(number, reason);
        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        if failures == 1 {
            tracing::warn!(
                profile,
                code,
                pause_ms,
                "a process that is to wait for a session was of no use"
            );
        } else {
            tracing::debug!(
                profile,
                code,
                failures,
                pause_ms,
                "a process that is to wait for a session was of no use"
            );
        }
    }

    fn mark_warm(&self, id: SessionId, cli_session: CliSessionId) -> Result<(), SupervisorError> {
        let path = self.shared.settings.warm_file(id);
        let write = || {
            let mut file = std::fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)?;
            std::io::Write::write_all(&mut file, cli_session.to_string().as_bytes())
        };
        write().map_err(SupervisorError::files(&path))
    }
}

/// Why a process is of no use that was started; `end` when it has ended without a word.
pub(super) fn why_of_no_use(view: &LiveView, end: &str) -> FailReason {
    let said = |code: &str, detail: &str| FailReason {
        code: code.to_owned(),
        detail: detail.to_owned(),
    };
    match &view.reason {
        Some(reason) => reason.clone(),
        None if pool::has_turned(view) => said(
            "unasked_turn",
            "the CLI began a turn before anybody had asked for something",
        ),
        None => said("cli_exited", end),
    }
}

fn reason_of(error: &SupervisorError) -> FailReason {
    use ErrorCode as C;
    let code = match error.code() {
        code @ (C::CliNotFound
        | C::CwdMissing
        | C::CwdNotADirectory
        | C::CwdNotAbsolute
        | C::CwdOutsideRoots
        | C::CwdUnreadable
        | C::InvalidOption) => code,
        _ => C::StartFailed,
    };
    FailReason {
        code: code.as_str().to_owned(),
        detail: telemetry::chain(error),
    }
}
