//! Owns edits of a session that is there: what people say about it, and the launch options of its next start.

use crate::{
    claude::{InvalidOption, LaunchOptions, options::OptionsPatch},
    domain::{AgentKind, Clock, SessionId},
    session::{SaidAnew, SessionHandle},
    store::{MetaPatch, OptionsWrite, SessionRow, StoreError},
};

use super::{
    CliFound, SessionChange, SessionView, Supervisor, SupervisorError, messages::read_options, transcript,
};

/// How often a change of options is made anew, when a choice of a process came between.
const MOST_TRIES: u32 = 8;

/// Changes a session; its process does not notice. The transcript of the conversation is told of a title and a tag, where there is one.
///
/// # Errors
/// `SessionNotFound`, `InvalidOption`, `RevisionDiffers`, `Store`: nothing is changed then. `Partly` once the change is stored.
pub(super) async fn update(
    supervisor: &Supervisor,
    id: SessionId,
    change: SessionChange,
) -> Result<SessionView, SupervisorError> {
    let before = supervisor.row(id).await?;
    match &change.options {
        Some(patch) => change_options(supervisor, id, &change.meta, patch).await?,
        None => {
            let patch = change.meta.clone();
            supervisor
                .shared
                .store
                .update_meta(id, patch, Clock.now())
                .await?;
        }
    }
    supervisor.shared.changes.mark(id);
    let view = supervisor.session(id).await.map_err(SupervisorError::partly)?;
    if transcript::tell_of(supervisor, &before, &change.meta, &view).await {
        // The answer has the revision that counts from now on.
        return supervisor.session(id).await.map_err(SupervisorError::partly);
    }
    Ok(view)
}

async fn change_options(
    supervisor: &Supervisor,
    id: SessionId,
    meta: &MetaPatch,
    patch: &OptionsPatch,
) -> Result<(), SupervisorError> {
    let session = supervisor.handle(id).await?;
    // A start takes the options before or after.
    let _exclusive = supervisor.shared.registry.exclusive(id).await;
    let said = SaidAnew::of_patch(patch);
    let mut tries = 1;
    loop {
        // Choices of the process are part of the options.
        supervisor.catch_up().await?;
        let row = supervisor.row(id).await?;
        let (after, _) = patched(supervisor, &row.cwd, &row.options, patch).await?;
        let write = OptionsWrite {
            before: row.options,
            after,
            sets_mode: said.has_mode(),
        };
        let meta = MetaPatch {
            options: Some(write),
            ..meta.clone()
        };
        match supervisor.shared.store.update_meta(id, meta, Clock.now()).await {
            Ok(()) => break,
            Err(StoreError::OptionsMoved) if tries < MOST_TRIES => tries += 1,
            Err(error) => return Err(error.into()),
        }
    }
    let gave_way = session.give_way(said).await;
    gave_way.map_err(|error| SupervisorError::from(error).partly())
}

/// Stored options with a change, checked whole.
///
/// # Errors
/// `InvalidOption`, `CwdUnreadable`, `StoredOptions`.
pub(super) async fn patched(
    supervisor: &Supervisor,
    cwd: &str,
    stored: &str,
    patch: &OptionsPatch,
) -> Result<(String, LaunchOptions), SupervisorError> {
    let merged = patch.merged(stored).map_err(SupervisorError::InvalidOption)?;
    let (text, options) = merged.ok_or(SupervisorError::StoredOptions)?;
    check_new_options(supervisor, cwd, &options).await?;
    Ok((text, options))
}

/// Checks options that somebody says anew.
///
/// # Errors
/// `InvalidOption`, `CwdUnreadable`.
pub(super) async fn check_new_options(
    supervisor: &Supervisor,
    cwd: &str,
    options: &LaunchOptions,
) -> Result<(), SupervisorError> {
    options
        .check(&supervisor.shared.settings.policy)
        .and_then(|()| options.check_new_hooks())
        .map_err(SupervisorError::InvalidOption)?;
    check_executable(supervisor, options)?;
    supervisor.check_directories(cwd, options).await
}

/// Refuses a program that the configuration does not have.
fn check_executable(supervisor: &Supervisor, options: &LaunchOptions) -> Result<(), SupervisorError> {
    let known = &supervisor.shared.settings.executables;
    match &options.executable {
        Some(name) if !known.contains_key(name) => Err(SupervisorError::InvalidOption(InvalidOption {
            field: "executable".to_owned(),
            reason: "is not among claude.executables of the daemon's configuration".to_owned(),
        })),
        Some(_) | None => Ok(()),
    }
}

/// The program that runs a session of this kind with these stored options.
pub(super) async fn agent_for(
    supervisor: &Supervisor,
    kind: Option<AgentKind>,
    options: &str,
) -> Result<CliFound, SupervisorError> {
    let options = read_options(options)?;
    check_executable(supervisor, &options)?;
    let executable = options.executable.as_deref();
    Ok(supervisor
        .shared
        .cli
        .look(&supervisor.shared.settings, kind, executable)
        .await?)
}

/// Stores the options of a row, which were said anew in the place of those `before`, and has the choices that came before give way. The caller has the session to itsupervisor.
pub(super) async fn store_options(
    supervisor: &Supervisor,
    session: &SessionHandle,
    row: &mut SessionRow,
    before: String,
    sets_mode: bool,
    said: SaidAnew,
) -> Result<(), SupervisorError> {
    let write = OptionsWrite {
        before: before.clone(),
        after: row.options.clone(),
        sets_mode,
    };
    supervisor.shared.store.set_options(row.id, write).await?;
    row.started_options.get_or_insert(before);
    row.mode_of_options |= sets_mode;
    session.give_way(said).await.map_err(SupervisorError::from)
}
