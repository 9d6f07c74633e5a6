//! Owns the life of sessions: create, resume, fork, stop, delete.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    admission::Admitted,
    claude::{BadLine, InvalidOption, LaunchOptions, Policy, Start, catalogue, options::Settings},
    domain::{
        CliSessionId, Clock, FailReason, PutOffHow, RestartTerms, Seq, SessionId, SessionState, StartMode,
        Timestamp,
    },
    files,
    journal::{Head, ReadError},
    keeper::{self, ForeignProcess, StdinLine},
    session::{
        self, AtRest, HostEnd, Kept, Launch, LiveView, Roots, Routes, SaidAnew, SessionError, SessionHandle,
        SessionParts, SessionSettings,
    },
    store::{NewSession, SessionRow},
};

use super::{
    CliFound, CreateSession, ForkSession, Needs, Resumed, SessionView, Supervisor, SupervisorError,
    adoption::adopted,
    budget::{self, refuse_spent},
    lobby,
    messages::{CheckedPrompt, read_options},
    plan::{LaunchParts, apply_mode, keeps_conversation, options_text, refuse_unkept, restart_text},
    removal::absent,
    requests::{Host, Inherited, Opening},
    resume_point::{self, at_point, pending_point},
    settings::make_private_dir,
    settings_file, tether, update,
};

/// How often it is looked whether a process that is being stopped is gone.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// By then a keeper has killed what the process had left behind, if that can be killed.
const SWEPT_BY: Duration = Duration::from_secs(4);
/// More than the last record of a process.
const RECORD_BYTES: usize = 64 << 10;

impl Supervisor {
    /// Makes a session and starts its process. The session is there also when the start fails; its state says so.
    ///
    /// # Errors
    /// Bad input (`Cwd…`, `InvalidOption`, `EmptyPrompt`, …), `CliNotFound`, `TooFewFiles`, `NoRoom`; for a conversation to go on with
    /// `ConversationTaken`, `ConversationInUse`, `ConversationNotFound`.
    pub async fn create(&self, mut request: CreateSession, by: &str) -> Result<SessionView, SupervisorError> {
        // A session in a database that was deleted would be gone with this daemon.
        self.shared.store.in_place().await?;
        self.refuse_without_files()?;
        update::check_new_options(self, &request.cwd, &request.options).await?;
        let prompt = request
            .prompt
            .as_ref()
            .map(|message| self.check_prompt(message, &request.options))
            .transpose()?;
        let id = request.id.unwrap_or_else(SessionId::new);
        let cwd = self.check_cwd(&request.cwd).await?;
        let begins = request.options.take_beginning();
        if begins.continues {
            request.options.resume = self.newest_conversation(&cwd, &request.options).await;
        }
        if begins.is_copy
            && let Some(parent) = request.options.resume.take()
        {
            request.copies = Some((parent, begins.at));
        }
        let adopted = request.options.resume;
        let asked = request.conversation.or(begins.id);
        let fresh = asked.unwrap_or_else(CliSessionId::new);
        let start = match (adopted, request.copies) {
            (Some(id), _) => Start::Resume {
                id,
                at: begins.at,
                drops: None,
            },
            (None, Some((parent, at))) => Start::Fork {
                parent,
                id: fresh,
                at,
            },
            (None, None) => Start::New { id: fresh },
        };
        check_host(&self.shared.settings.policy, request.host.as_ref())?;
        let new = NewSession {
            id,
            cwd: cwd.display().to_string(),
            title: request.title,
            tag: request.tag,
            labels: request.labels,
            options: options_text(&request.options)?,
            rules: self.check_rules(request.rules).await?.specs(),
            restart: request.restart.map(|own| restart_text(&own)).transpose()?,
            parent: None,
            forked_from: request.copies.map(|(parent, _)| parent),
            forked_at: request.copies.and_then(|(_, at)| at),
            agent: None,
            cli_session_id: start.cli_session(),
            created_at: Clock.now(),
            state: SessionState::Starting,
        };
        // A host hears from the CLI itself that there is no such conversation.
        let earlier = adopted.map(|id| (id, begins.at)).or(request.copies);
        if let Some((conversation, at)) = earlier.filter(|_| request.host.is_none()) {
            let (supervisor, by) = (self.clone(), by.to_owned());
            return self
                .run_uncancelled(async move {
                    let first = (prompt, None);
                    let made = supervisor
                        .make(new, start, Inherited::default(), first, &by)
                        .await?;
                    match adopted {
                        Some(_) => supervisor.settle_adoption(made, conversation, at, &by).await,
                        None => supervisor.settle_fork(made, conversation, at, &by).await,
                    }
                })
                .await;
        }
        // A process that was started in advance has heard its first words, and its conversation has an id.
        if request.host.is_none()
            && asked.is_none()
            && let Some(view) = self
                .create_warm(&new, &request.options, prompt.as_ref(), by)
                .await?
        {
            return Ok(view);
        }
        self.make(new, start, Inherited::default(), (prompt, request.host), by)
            .await
    }

    /// Makes a session whose conversation begins as a copy of another's. The parent is not touched.
    ///
    /// # Errors
    /// `SessionNotFound`, `ConversationNotStarted`, `ConversationNotFound`, `MessageNotFound`, `MessageNotForkable`,
    /// `ForkCwdDiffers`, and those of [`Self::create`].
    pub async fn fork(
        &self,
        parent: SessionId,
        request: ForkSession,
        by: &str,
    ) -> Result<SessionView, SupervisorError> {
        self.shared.store.in_place().await?;
        self.catch_up().await?;
        let row = self.row(parent).await?;
        if row.turns == 0 && adopted(&row)?.is_none() {
            return Err(SupervisorError::ConversationNotStarted);
        }
        refuse_unkept(&row, row.turns > 0)?;
        if request.at.is_none() {
            self.refuse_without_turn(&row).await?;
        }
        let first_has_options = request.host.is_some() && request.options.is_some();
        let cwd = self.cwd_of(&row).await?;
        if let Some(asked) = &request.cwd {
            // The CLI finds a conversation only from the directory that it began in.
            if self.check_cwd(asked).await? != cwd {
                return Err(SupervisorError::ForkCwdDiffers);
            }
        }
        check_host(&self.shared.settings.policy, request.host.as_ref())?;
        let options = match request.options {
            Some(options) => {
                update::check_new_options(self, &row.cwd, &options).await?;
                options
            }
            None => {
                let mut options = read_options(&row.options)?;
                // It has a conversation of its own.
                options.resume = None;
                apply_mode(&mut options, &row);
                match &request.patch {
                    Some(patch) => {
                        update::patched(self, &row.cwd, &options_text(&options)?, patch)
                            .await?
                            .1
                    }
                    None => options,
                }
            }
        };
        let prompt = request
            .prompt
            .as_ref()
            .map(|message| self.check_prompt(message, &options))
            .transpose()?;
        let cli_session = request.conversation.unwrap_or_else(CliSessionId::new);
        let branch = self.fork_point(&row, request.at).await?;
        let (conversation, at) = (branch.conversation, branch.at);
        let new = NewSession {
            id: request.id.unwrap_or_else(SessionId::new),
            cwd: cwd.display().to_string(),
            title: request.title.or(row.title),
            tag: row.tag,
            labels: row.labels,
            options: options_text(&options)?,
            rules: self.shared.store.rules(parent).await?,
            restart: row.restart,
            parent: Some(parent),
            forked_from: Some(conversation),
            agent: row.agent,
            forked_at: at,
            cli_session_id: cli_session,
            created_at: Clock.now(),
            state: SessionState::Starting,
        };
        let start = Start::Fork {
            parent: conversation,
            id: cli_session,
            at,
        };
        let mut choices = self.choices(&self.handle(parent).await?, false).await?;
        if first_has_options {
            choices.give_way(&SaidAnew::of_host(&read_options(&new.options)?));
        } else if let Some(patch) = &request.patch {
            choices.give_way(&SaidAnew::of_patch(patch));
        }
        let (supervisor, by) = (self.clone(), by.to_owned());
        let first = (prompt, request.host);
        self.run_uncancelled(async move {
            let has_host = first.1.is_some();
            let history = Some(branch);
            let inherited = Inherited { choices, history };
            let made = supervisor.make(new, start, inherited, first, &by).await?;
            if has_host {
                // It hears from the CLI itself what there is not.
                return Ok(made);
            }
            supervisor.settle_fork(made, conversation, at, &by).await
        })
        .await
    }

    /// Starts a process for a session that has none; its conversation goes on with the settings it had, or with `fresh` a new
    /// one begins with them. A restart that is due is not waited for.
    ///
    /// # Errors
    /// `SessionNotFound`, `Session` (`AlreadyLive`, `StartFailed`), `InvalidOption`, `BudgetSpent`, `ConversationNotKept`, `Cwd…`,
    /// `CliNotFound`, `NoRoom`, `ConversationInUse`.
    pub async fn resume(&self, id: SessionId, how: Resumed) -> Result<SessionView, SupervisorError> {
        self.resume_as(id, how, None, None).await
    }

    /// As [`Self::resume`], for a program that speaks to the process first. From now on the session has these options, if any.
    ///
    /// # Errors
    /// Those of [`Self::resume`], and `InvalidOption`.
    pub async fn resume_for(
        &self,
        id: SessionId,
        options: Option<LaunchOptions>,
        host: Host,
    ) -> Result<SessionView, SupervisorError> {
        check_host(&self.shared.settings.policy, Some(&host))?;
        if let Some(options) = &options {
            let row = self.row(id).await?;
            update::check_new_options(self, &row.cwd, options).await?;
        }
        let how = Resumed::default();
        self.resume_as(id, how, options, Some(host)).await
    }

    async fn resume_as(
        &self,
        id: SessionId,
        how: Resumed,
        options: Option<LaunchOptions>,
        host: Option<Host>,
    ) -> Result<SessionView, SupervisorError> {
        self.refuse_new()?;
        let session = self.handle(id).await?;
        let _exclusive = self.shared.registry.exclusive(id).await;
        self.catch_up().await?;
        let mut row = self.row(id).await?;
        let view = session.view();
        let state = view.state;
        if state.is_live() && view.restart.is_none() {
            return Err(SessionError::AlreadyLive { state }.into());
        }
        let (before, fresh) = (row.options.clone(), how.fresh);
        let mut said = options.as_ref().map(SaidAnew::of_host);
        // A host says all options, the mode too.
        let sets_mode =
            options.is_some() || how.options.as_ref().is_some_and(|it| it.names("permission_mode"));
        if let Some(options) = options {
            row.options = options_text(&options)?;
        }
        if let Some(point) = how.point {
            resume_point::check_point(self, &row, point).await?;
        }
        if let Some(patch) = how.options {
            row.options = update::patched(self, &row.cwd, &row.options, &patch).await?.0;
            said = Some(SaidAnew::of_patch(&patch));
        }
        refuse_spent(&row)?;
        // Whether one can work in the directory is looked at last.
        if row.cwd.is_empty() {
            return Err(SupervisorError::CwdUnknown);
        }
        self.agent_of(&row).await?;
        if let Some(said) = said {
            update::store_options(self, &session, &mut row, before, sets_mode, said).await?;
        }
        let start = if fresh {
            Start::New {
                id: CliSessionId::new(),
            }
        } else {
            at_point(self.start_of(&row).await?, how.point)
        };
        if fresh {
            self.choices(&session, fresh).await?;
        }
        let earlier = view.earlier_session_id.filter(|_| !fresh);
        let doubtful = self.is_doubtful(&row, &start).await?;
        let terms = self.terms(&row, &start, None).await?;
        // A session that may be restarted does by itself what follows from an unknown conversation.
        let must_look = (doubtful || earlier.is_some()) && terms.is_none();
        let prompt = self.queued_prompt(&row).await?;
        let was_queued = prompt.is_some();
        let admitted = self.admit(id, &row.cwd).await?;
        let dir = self.shared.settings.session_dir(id);
        let tied = host.as_ref().filter(|host| host.is_tied);
        let is_tied = tied.is_some();
        if let Some(host) = tied {
            tether::mark(&dir, &host.mark(view.head_seq)).map_err(SupervisorError::files(&dir))?;
        }
        let opening = Opening { host, prompt };
        let started = self.start_process(&session, &row, start, opening, terms, admitted);
        if let Err(error) = started.await {
            if is_tied {
                tether::unmark(&dir).await.map_err(SupervisorError::files(&dir))?;
            }
            return Err(error);
        }
        if was_queued {
            self.forget_queued_once_started(session.clone());
        }
        if must_look {
            let started = self.start_otherwise_if_unknown(&session, earlier).await;
            started.map_err(SupervisorError::partly)?;
        }
        if let Some(point) = how.point {
            let settled = resume_point::settle_point(self, &session, point).await;
            settled.map_err(SupervisorError::partly)?;
        }
        self.session(id).await
    }

    /// Stops the process of a session, if it has one, and starts another, as [`Self::resume`] does. A start that would be refused
    /// for what can be known before leaves the process alone.
    ///
    /// # Errors
    /// Those of [`Self::stop`] and [`Self::resume`].
    pub async fn restart_session(
        &self,
        id: SessionId,
        how: Resumed,
        by: &str,
    ) -> Result<SessionView, SupervisorError> {
        self.refuse_new()?;
        self.catch_up().await?;
        let mut row = self.row(id).await?;
        if let Some(patch) = &how.options {
            row.options = update::patched(self, &row.cwd, &row.options, patch).await?.0;
        }
        let fresh = how.fresh;
        refuse_spent(&row)?;
        self.cwd_of(&row).await?;
        self.agent_of(&row).await?;
        if !fresh {
            // The turn that runs is in no row yet.
            let live = self.live(id);
            let has_begun =
                |live: &LiveView| live.turns > 0 || live.turn.is_some() || !live.open_prompts.is_empty();
            refuse_unkept(&row, row.turns > 0 || live.as_ref().is_some_and(has_begun))?;
        }
        if let Some(point) = how.point {
            resume_point::check_point(self, &row, point).await?;
        }
        let (supervisor, by) = (self.clone(), by.to_owned());
        // Also when the asker leaves between the two.
        self.run_uncancelled(async move {
            let session = supervisor.handle_to_stop(id).await?;
            session
                .stop(&by, supervisor.shared.settings.stop_deadline())
                .await?;
            supervisor.resume(id, how).await.map_err(SupervisorError::partly)
        })
        .await
    }

    /// Only the CLI knows what it has kept and by which id, so it was asked to go on. If it can't, it is asked for the id
    /// before; without one it was killed before it had kept anything, and the session begins a conversation again.
    async fn start_otherwise_if_unknown(
        &self,
        session: &SessionHandle,
        earlier: Option<CliSessionId>,
    ) -> Result<(), SupervisorError> {
        let view = session.wait_started().await?;
        let reason = view.reason.as_ref().map(|reason| reason.code.as_str());
        if reason != Some(FailReason::CONVERSATION_NOT_FOUND) {
            return Ok(());
        }
        self.catch_up().await?;
        let row = self.row(session.id()).await?;
        let start = match earlier {
            Some(id) => Start::Resume {
                id,
                at: row.resume_at,
                drops: None,
            },
            None => self.first_start_of(&row).await?,
        };
        let terms = self.terms(&row, &start, None).await?;
        let admitted = self.admit(row.id, &row.cwd).await?;
        self.start_process(session, &row, start, Opening::default(), terms, admitted)
            .await
    }

    /// Stops the process of a session and returns after its end. Stopping what is stopped is no error. While the disk takes no
    /// record, the end of the process is enough: the session is `stopping` until its journal says more.
    ///
    /// # Errors
    /// `SessionNotFound`, `Session` (`StopTimedOut`).
    pub async fn stop(&self, id: SessionId, by: &str) -> Result<SessionView, SupervisorError> {
        let session = self.handle_to_stop(id).await?;
        let stop = session.stop(by, self.shared.settings.stop_deadline());
        // Both only wait.
        tokio::select! {
            stopped = stop => stopped?,
            () = self.gone_without_a_record(&session) => {
                let mut view = self.session(id).await?;
                view.live.state = SessionState::Stopping;
                view.live.cli_pid = None;
                return Ok(view);
            }
        }
        self.session(id).await
    }

    /// Ends the process of a session as its host ends, and returns after its end. A session that has none is stopped.
    ///
    /// # Errors
    /// Those of [`Self::stop`].
    pub async fn stop_with_host(&self, id: SessionId, end: HostEnd, by: &str) -> Result<(), SupervisorError> {
        let session = self.handle_to_stop(id).await?;
        let deadline = self.shared.settings.stop_deadline();
        let deadline = match end {
            HostEnd::Input => deadline + session::HOST_PATIENCE,
            HostEnd::Signal(_) => deadline,
        };
        Ok(session.stop_with_host(by, end, deadline).await?)
    }

    /// Waits until the process is gone for so long that nothing of it is left, and the disk takes no record of that.
    async fn gone_without_a_record(&self, session: &SessionHandle) {
        let mut gone_since = None;
        loop {
            tokio::time::sleep(LOOK_PAUSE).await;
            let is_gone = session.view().cli_pid.is_some_and(|pid| !keeper::is_running(pid));
            if !is_gone {
                gone_since = None;
                continue;
            }
            let since = *gone_since.get_or_insert_with(Instant::now);
            if since.elapsed() < SWEPT_BY {
                continue;
            }
            let dir = self.shared.settings.session_dir(session.id());
            let has_room = tokio::task::spawn_blocking(move || files::has_room(&dir, RECORD_BYTES)).await;
            // An unknown state is waited for.
            if !has_room.unwrap_or(true) {
                return;
            }
        }
    }

    /// A person has seen a session up to this record.
    ///
    /// # Errors
    /// `SessionNotFound`, `Read` (the journal has no such record yet), `Store`.
    pub async fn set_seen(&self, id: SessionId, seq: Seq) -> Result<SessionView, SupervisorError> {
        let head = Head {
            seq: self.session(id).await?.live.head_seq,
            ..Head::EMPTY
        };
        if seq > head.seq {
            return Err(SupervisorError::Read(ReadError::Beyond { head }));
        }
        self.shared.store.set_seen(id, seq).await?;
        self.shared.changes.mark(id);
        self.session(id).await
    }

    /// A person wants to read the end of a session's last turn again: it is seen no longer. Without a turn nothing changes.
    ///
    /// # Errors
    /// `SessionNotFound`, `Store`.
    pub async fn set_unread(&self, id: SessionId) -> Result<SessionView, SupervisorError> {
        self.row(id).await?;
        self.shared.store.set_unread(id).await?;
        self.shared.changes.mark(id);
        self.session(id).await
    }

    /// Puts off what a session needs now; with `None` nothing of it is put off any more.
    ///
    /// # Errors
    /// `SessionNotFound`, `NothingToPutOff`, `Store`.
    pub async fn put_off(
        &self,
        id: SessionId,
        how: Option<(PutOffHow, Option<Timestamp>)>,
    ) -> Result<Needs, SupervisorError> {
        let mut view = self.session(id).await?;
        let now = Clock.now();
        let mark = match how {
            None => None,
            Some((how, until)) => {
                let mark = lobby::put_off(&view, how, until, now);
                Some(mark.ok_or(SupervisorError::NothingToPutOff)?)
            }
        };
        self.shared.store.put_off(id, mark.clone()).await?;
        self.shared.changes.mark(id);
        view.row.put_off = mark;
        Ok(Needs::of(&view, &[], now))
    }

    async fn make(
        &self,
        new: NewSession,
        start: Start,
        inherited: Inherited,
        (prompt, host): (Option<CheckedPrompt>, Option<Host>),
        by: &str,
    ) -> Result<SessionView, SupervisorError> {
        self.refuse_when_closing()?;
        // Before anything is made: who has no CLI gets no session either.
        update::agent_for(self, new.agent, &new.options).await?;
        let admitted = self.admit(new.id, &new.cwd).await?;
        let prompt = prompt.map(|prompt| StdinLine {
            by: Some(by.to_owned()),
            line: String::from_utf8_lossy(&prompt.line).into_owned(),
        });
        let (supervisor, by) = (self.clone(), by.to_owned());
        self.run_uncancelled(async move {
            let id = new.id;
            let opening = Opening { host, prompt };
            match supervisor.make_all(new, start, inherited, opening, admitted).await {
                Ok(()) | Err(SupervisorError::Session(SessionError::StartFailed(_))) => {
                    supervisor.session(id).await
                }
                Err(error) => {
                    let queued = supervisor.shared.settings.queued_file(id);
                    if let Err(error) = absent(tokio::fs::remove_file(&queued).await) {
                        tracing::warn!(session.id = %id, %error, "what a start has waited with stays");
                    }
                    // A caller that gets an error has no session; in a shutdown the next daemon marks it, and starts
                    // nothing for it.
                    if supervisor.shared.closing.is_cancelled() {
                        return Err(error);
                    }
                    match supervisor.remove(id, &by).await {
                        Ok(()) | Err(SupervisorError::SessionNotFound(_)) => Err(error.undone()),
                        Err(left) => {
                            let left = crate::telemetry::chain(&left);
                            tracing::error!(session.id = %id, error = left, "what is left of a failed session stays");
                            Err(error)
                        }
                    }
                }
            }
        })
        .await
    }

    async fn make_all(
        &self,
        new: NewSession,
        start: Start,
        inherited: Inherited,
        opening: Opening,
        admitted: Admitted,
    ) -> Result<(), SupervisorError> {
        let id = new.id;
        let dir = self.shared.settings.session_dir(id);
        make_private_dir(&dir).map_err(SupervisorError::files(&dir))?;
        let waits = !admitted.permit.is_granted();
        if let Err(error) = self.furnish(id, inherited.choices, &opening, waits) {
            absent(tokio::fs::remove_dir_all(&dir).await).map_err(SupervisorError::files(&dir))?;
            return Err(error);
        }
        let (row, session) = {
            // Once it can be listed it can be asked for, and two actors on one journal must never be.
            let _exclusive = self.shared.registry.exclusive(id).await;
            if let Err(error) = self.shared.store.insert_session(new).await {
                absent(tokio::fs::remove_dir_all(&dir).await).map_err(SupervisorError::files(&dir))?;
                return Err(error.into());
            }
            if let Some(branch) = inherited.history {
                self.copy_history(branch, id).await?;
            }
            let row = self.row(id).await?;
            let session = self.open(&row, None, true).await?;
            self.shared.registry.insert(session.clone());
            (row, session)
        };
        let terms = self.terms(&row, &start, None).await?;
        self.start_process(&session, &row, start, opening, terms, admitted)
            .await?;
        if waits {
            self.forget_queued_once_started(session);
        }
        Ok(())
    }

    /// Does `work` also when the caller stops waiting: a client that leaves must not leave half a session behind.
    pub(super) async fn run_uncancelled<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, SupervisorError>> + Send + 'static,
    ) -> Result<T, SupervisorError> {
        match self.shared.tracker.spawn(work).await {
            Ok(done) => done,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime is shutting down.
            Err(_) => Err(SupervisorError::ShuttingDown),
        }
    }

    pub(super) async fn start_process(
        &self,
        session: &SessionHandle,
        row: &SessionRow,
        start: Start,
        opening: Opening,
        restart: Option<RestartTerms>,
        admitted: Admitted,
    ) -> Result<(), SupervisorError> {
        let launch = self.prepare(session, row, start, opening, restart).await?;
        self.start_prepared(session, launch, admitted).await
    }

    /// The launch to start for a session.
    pub(super) async fn prepare(
        &self,
        session: &SessionHandle,
        row: &SessionRow,
        start: Start,
        opening: Opening,
        restart: Option<RestartTerms>,
    ) -> Result<Launch, SupervisorError> {
        self.refuse_when_closing()?;
        let cli = self.agent_of(row).await?;
        let mut options = read_options(&row.options)?;
        apply_mode(&mut options, row);
        let mut without = Vec::from_iter(options.take_unlaunchable());
        options
            .check(&self.shared.settings.policy)
            .map_err(SupervisorError::InvalidOption)?;
        options.max_budget_usd = budget::left(&options, row)?;
        let choices = self.choices(session, false).await?;
        let mut left_out = self.leave_out_of_settings(&row.cwd, &mut options).await?;
        if let Some(path) = choices.settings_to_read(&options) {
            let settings = settings_file::read(&self.shared.looks, path).await?;
            options.settings = Some(Settings::Inline(settings));
        }
        without.extend(choices.unlaunchable());
        choices.shape(&mut options);
        if let Start::Resume { id, .. } = start {
            self.refuse_when_in_use(row.id, id).await?;
        }
        let opened = match start {
            Start::New { .. } => None,
            Start::Resume { id, .. } => Some(id),
            Start::Fork { parent, .. } => Some(parent),
        };
        let base = match opened {
            Some(id) => self.shared.store.cli_totals(id).await?.unwrap_or_default(),
            None => Default::default(),
        };
        left_out.extend(self.leave_out_directories(&row.cwd, &mut options).await?);
        let set = choices.directories_of_settings();
        left_out.extend(self.directories_outside(&row.cwd, set).await?);
        if row.started_options.is_some() {
            self.shared.store.take_options(row.id).await?;
        }
        self.launch(
            &cli,
            LaunchParts {
                session: row.id,
                cwd: self.cwd_of(row).await?,
                options: &options,
                left_out,
                without,
                start,
                base,
                opening,
                restart,
                restores: choices.steps(),
                hooks: choices.hooks(),
            },
        )
    }

    /// The program of the agent that runs a session.
    pub(super) async fn agent_of(&self, row: &SessionRow) -> Result<CliFound, SupervisorError> {
        update::agent_for(self, row.agent, &row.options).await
    }

    /// The choices of people while the session's processes ran; with `fresh` a file that cannot be used is put aside.
    async fn choices(&self, session: &SessionHandle, fresh: bool) -> Result<Kept, SupervisorError> {
        session.choices(fresh).await.map_err(|error| match error {
            SessionError::Choices(error) => SupervisorError::Choices(error),
            error => error.into(),
        })
    }

    /// Two processes on one conversation would mix their turns in one transcript. Ours are kept apart by leases, which the
    /// CLI itself does not know.
    async fn refuse_when_in_use(
        &self,
        session: SessionId,
        conversation: CliSessionId,
    ) -> Result<(), SupervisorError> {
        let data_mark = self.shared.data_mark.clone();
        let program = self.shared.settings.claude_bin.clone();
        let look = move || {
            keeper::foreign_processes(
                program.as_deref(),
                |id| id == conversation,
                |owner, mark| owner == session && mark.is_none_or(|mark| mark == data_mark),
            )
        };
        let found = match tokio::task::spawn_blocking(look).await {
            Ok(found) => found.map_err(SupervisorError::Processes)?,
            Err(_) => return Err(SupervisorError::ShuttingDown),
        };
        let first: Option<ForeignProcess> = found.into_iter().next();
        first.map_or(Ok(()), |process| Err(SupervisorError::ConversationInUse(process)))
    }

    /// How the conversation of a session is opened again.
    pub(super) async fn start_of(&self, row: &SessionRow) -> Result<Start, SupervisorError> {
        refuse_unkept(row, row.turns > 0)?;
        if row.turns > 0 || adopted(row)?.is_some() {
            return Ok(Start::Resume {
                id: row.cli_session_id,
                at: pending_point(row),
                drops: None,
            });
        }
        self.first_start_of(row).await
    }

    /// How the conversation of a session begins, with nothing of it kept.
    pub(super) async fn first_start_of(&self, row: &SessionRow) -> Result<Start, SupervisorError> {
        // There may be no transcript under the old id, or part of one: a new id is always free.
        let id = CliSessionId::new();
        if let Some(parent) = row.forked_from {
            return Ok(Start::Fork {
                parent,
                id,
                at: row.forked_at,
            });
        }
        let history = self.shared.store.runs(row.id).await?;
        match history.first() {
            // An older version has not written down what it copies; to begin without it would be another conversation.
            Some(run) if run.mode == StartMode::Fork => Err(SupervisorError::ParentDeleted),
            Some(_) | None => Ok(Start::New { id }),
        }
    }

    /// Opens the actor of a session.
    pub(super) async fn open(
        &self,
        row: &SessionRow,
        link: Option<crate::keeper::Link>,
        fresh: bool,
    ) -> Result<SessionHandle, SupervisorError> {
        self.open_as(row, link, fresh, false).await
    }

    /// As [`Self::open`]; `warm` when nobody has asked for the session yet.
    pub(super) async fn open_as(
        &self,
        row: &SessionRow,
        link: Option<crate::keeper::Link>,
        fresh: bool,
        warm: bool,
    ) -> Result<SessionHandle, SupervisorError> {
        let settings = &self.shared.settings;
        let before_run = row.run_seq.get().saturating_sub(1);
        let options = read_options(&row.options)?;
        let totals = self.shared.store.cli_totals(row.cli_session_id).await?;
        let parts = SessionParts {
            rest: AtRest {
                session: row.id,
                state: row.state,
                reason: row.state_reason.clone(),
                parked: row.parked,
                cli_session: Some(row.cli_session_id),
                run: row.run_id,
                cli_version: row.cli_version.clone(),
                model: row.model.clone(),
                permission_mode: row.permission_mode.clone(),
                turns: row.turns,
                deferred: self.shared.store.deferred(row.id, before_run).await?,
                head: crate::domain::Seq::ZERO,
                conversations: self.shared.registry.conversations().clone(),
            },
            cwd: PathBuf::from(&row.cwd),
            rules: self.rules_of(row.id).await?,
            journal_dir: settings.session_dir(row.id),
            read_after: crate::domain::Seq::new(before_run),
            projected: row.projected_seq,
            totals,
            earlier_prompts: self.shared.store.prompts_before(row.id, row.run_seq).await?,
            slot: link
                .as_ref()
                .map(|_| self.shared.admission.adopt(Path::new(&row.cwd))),
            link,
            fresh,
            warm,
            outbound: self.shared.outbound.clone(),
            // A process that lives knows nothing of options that were changed since.
            routes: match &row.started_options {
                Some(started) => Routes::of(&read_options(started)?),
                None => Routes::of(&options),
            },
            restarts: self.shared.restarts.clone(),
            wakes: self.shared.wakes.clone(),
            keeps_conversation: keeps_conversation(&options),
            awaits_host: tether::is_marked(&settings.session_dir(row.id)),
            projections: self.shared.projector.sink(),
            tracker: self.shared.tracker.clone(),
            metrics: self.shared.metrics.sessions().clone(),
            settings: SessionSettings {
                roots: Roots::new(&settings.cwd_roots, Arc::clone(&self.shared.looks)),
                keeper_program: settings.keeper_program.clone(),
                identity_file: settings.identity_file(row.id),
                data_mark: self.shared.data_mark.clone(),
                start_sweep: Arc::clone(self.shared.registry.start_sweep()),
                ring_bytes: settings.ring_bytes,
                segment_bytes: settings.keeper.segment_bytes,
                eof_grace_ms: settings.keeper.eof_grace_ms,
                term_grace_ms: settings.keeper.term_grace_ms,
                start_timeout_ms: settings.start_timeout_ms,
                liveness: settings.liveness,
                park_after_ms: settings.park.idle_ms,
                desk: settings.desk,
                max_prompt_bytes: settings.max_prompt_bytes,
            },
        };
        Ok(Box::pin(session::open(parts)).await?)
    }
}

/// Refuses arguments that the configuration does not allow, and a first word that no client may say.
fn check_host(policy: &Policy, host: Option<&Host>) -> Result<(), SupervisorError> {
    let Some(host) = host else {
        return Ok(());
    };
    if let Some(flag) = host.extra_args.first().filter(|_| !policy.allow_extra_args) {
        return Err(SupervisorError::InvalidOption(InvalidOption {
            field: flag.clone(),
            reason: "is not known; sessions.allow_extra_args in the daemon's configuration allows such flags"
                .to_owned(),
        }));
    }
    let Some(request) = &host.initialize else {
        return Ok(());
    };
    if catalogue::refusal("initialize", request).is_some() {
        let bad = BadLine::BadControl("says what clients may not say");
        return Err(SessionError::InvalidLine(bad).into());
    }
    let hooks = session::own_hooks(&host.client, request);
    hooks
        .map(drop)
        .map_err(|bad| SessionError::InvalidLine(bad).into())
}
