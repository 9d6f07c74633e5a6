//! Owns the outside of a session: the handle that others hold, and the commands that its actor takes.

use std::{path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    admission::Admitted,
    claude::{
        BadAnswer, ControlResponse,
        answer::{self, QuestionAnswers},
        options::PermissionMode,
    },
    domain::{
        AgentKind, ApprovalId, AttachedClient, ClientId, ConnectionId, FailReason, ParkReason, PromptUuid,
        QueuedPrompt, Resolution, RestartTerms, RuleSet, Seq, SessionId, SessionState, TurnEnd,
    },
    journal::{Cursor, Feed},
    keeper::LaunchPlan,
};

use super::{
    Claim, ClientFrame, Kept, LiveView, Newcomer, Roots, Routes, SaidAnew, SessionError, clients::Question,
    park::WakeFailure,
};

/// Commands that may wait for the actor.
pub(super) const COMMANDS: usize = 256;
/// Stop requests that may wait.
pub(super) const STOPS: usize = 32;

/// From the end of a background task to the turn that the CLI begins with what came of it, at most.
const TASK_TURN: Duration = Duration::from_secs(1);

/// The decision on an approval, as a client gives it.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Yes, perhaps with other input, perhaps for the future as well.
    Allow {
        /// The input to run instead of the original one.
        updated_input: Option<Box<RawValue>>,
        /// Permission updates, as the CLI takes them.
        updated_permissions: Option<Box<RawValue>>,
    },
    /// Yes to a plan, perhaps edited, perhaps with the mode to go on in.
    Plan {
        /// The plan as it shall be carried out.
        plan: Option<String>,
        /// The permission mode from here on.
        next_mode: Option<PermissionMode>,
    },
    /// No.
    Deny {
        /// A message for the model.
        message: Option<String>,
        /// Whether the turn ends as well.
        interrupt: bool,
    },
    /// Answers to the questions.
    Answers(QuestionAnswers),
    /// An elicitation is filled in; without content, its page was visited.
    Accept(Option<Box<RawValue>>),
    /// An elicitation is refused.
    Decline,
    /// An elicitation or a dialog is closed without an answer.
    Cancel,
    /// A dialog is completed with this result.
    Complete(Box<RawValue>),
    /// An answer as the CLI takes it.
    Raw(Box<RawValue>),
    /// The owner could not answer, and says why: it is denied.
    Fail(String),
}

/// A process to be started for a session.
#[derive(Debug)]
pub struct Launch {
    /// The keeper's orders; the session fills in `start_note` and `journal_floor`.
    pub plan: LaunchPlan,
    /// How the conversation is opened.
    pub mode: crate::domain::StartMode,
    /// The kind of agent that is started.
    pub agent: AgentKind,
    /// The conversation's id.
    pub cli_session: crate::domain::CliSessionId,
    /// The CLI's last known running totals of the conversation that is opened.
    pub base: crate::domain::fact::CliTotals,
    /// The permission mode that the process is asked to start in.
    pub permission_mode: Option<String>,
    /// Where hooks and MCP messages go.
    pub routes: Routes,
    /// Directories of the options that were left out, as they are outside of the roots.
    pub left_out: Vec<String>,
    /// The names of stored options that are left out, as no process starts with them.
    pub without: Vec<&'static str>,
    /// The terms on which it is restarted when it dies; `None` when it never is.
    pub restart: Option<RestartTerms>,
    /// Whether the CLI keeps the conversation, so that a later process can go on with it.
    pub keeps_conversation: bool,
    /// The requests that give it what was set at run time, by their ids.
    pub restores: Vec<String>,
    /// The reason for this start.
    pub occasion: Occasion,
    /// The message after which the conversation goes on, when not at its end.
    pub resume_at: Option<uuid::Uuid>,
}

/// The reason for a start. A start that the daemon itself decided on may be void by the time there is room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// Somebody asks for it.
    Asked,
    /// Something was sent to a parked session, and waits for the process.
    Wake,
    /// A restart is due.
    Restart,
}

/// A prompt that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its record.
    pub seq: Seq,
    /// Whether it had been accepted before.
    pub repeated: bool,
}

/// The end of the turn that answered a prompt.
#[derive(Clone, Debug)]
pub struct TurnOutcome {
    /// The turn.
    pub turn: TurnEnd,
    /// The CLI's `result` line; absent when the process ended in mid-turn.
    pub result: Option<Box<RawValue>>,
}

/// A prompt on its way.
#[derive(Debug)]
pub(super) struct Prompt {
    pub(super) uuid: PromptUuid,
    pub(super) line: Bytes,
}

/// Where the answer to a command goes.
pub(super) type Reply<T> = oneshot::Sender<Result<T, SessionError>>;

/// A request to the actor.
#[derive(Debug)]
pub(super) enum Command {
    Start {
        launch: Box<Launch>,
        admitted: Admitted,
        reply: Reply<()>,
    },
    Send {
        prompt: Prompt,
        by: String,
        reply: Reply<Sent>,
    },
    Control {
        subtype: String,
        request: Bytes,
        by: String,
        reply: Reply<ControlResponse>,
    },
    Decide {
        approval: ApprovalId,
        decision: Decision,
        by: String,
        reply: Reply<Resolution>,
    },
    Choices {
        fresh: bool,
        reply: Reply<Kept>,
    },
    /// The messages that wait in the daemon have changed.
    TellQueue {
        queue: Arc<[QueuedPrompt]>,
    },
    GiveWay {
        said: SaidAnew,
        reply: Reply<()>,
    },
    SetRules {
        rules: Arc<RuleSet>,
        reply: Reply<()>,
    },
    Claim {
        claim: Box<Claim>,
        reply: Reply<()>,
    },
    StartProjecting {
        reply: Reply<()>,
    },
    WaitTurn {
        prompt: PromptUuid,
        reply: Reply<Arc<TurnOutcome>>,
    },
    Attach {
        after: Option<Seq>,
        newcomer: Newcomer,
        /// Where the lines of the client go.
        sender: mpsc::Sender<Command>,
        reply: Reply<Attachment>,
    },
    Detach {
        connection: ConnectionId,
    },
    Line {
        connection: ConnectionId,
        /// The first directory outside of the session's bounds that it would add.
        outside: Option<String>,
        line: Bytes,
    },
    /// Whether a request of the CLI is for a client.
    IsAsked(Question),
    /// The restart that is due did not come about.
    RestartFailed {
        reason: Option<FailReason>,
    },
    Park {
        reason: ParkReason,
        least_unused_ms: u64,
        reply: Reply<()>,
    },
    /// No process could be started for what was sent to a parked session.
    WakeFailed {
        failure: WakeFailure,
    },
    Close {
        reply: oneshot::Sender<()>,
    },
    Retire {
        reply: Reply<()>,
    },
}

/// The end of the program that a process was started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostEnd {
    /// It has no more input. The process ends by itself, and may take its time for that.
    Input,
    /// It was told to end by this signal, and so is the process.
    Signal(i32),
}

/// A request to stop the process.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) by: String,
    /// Whether the process gets little time.
    pub(super) is_urgent: bool,
    /// Whether what is parked, or is being parked, stays so.
    pub(super) keeps_park: bool,
    /// The end of the host that the process has its end from.
    pub(super) of_host: Option<HostEnd>,
    pub(super) reply: oneshot::Sender<()>,
}

impl Stop {
    fn asked(by: &str, reply: oneshot::Sender<()>) -> Self {
        Self {
            by: by.to_owned(),
            is_urgent: false,
            keeps_park: false,
            of_host: None,
            reply,
        }
    }
}

/// One attached client.
#[derive(Debug)]
pub struct Attachment {
    /// The connection's id.
    pub connection: ConnectionId,
    /// The client's name: its own, or that of its connection.
    pub client: ClientId,
    /// All clients that are attached now, this one too.
    pub clients: Arc<[AttachedClient]>,
    /// The session at the moment of attaching.
    pub view: LiveView,
    /// The session's journal, as a feed.
    pub feed: Feed,
    /// The records after the asked one, without gap or double.
    pub cursor: Cursor,
    /// The names under which records have the client's lines.
    pub authors: Vec<String>,
    /// News for this client only.
    pub direct: mpsc::Receiver<ClientFrame>,
    /// Where its lines go.
    pub inbox: ClientInbox,
}

/// The refusal of a control request that adds a directory.
pub(super) fn outside_roots(subtype: &str, directory: &str) -> SessionError {
    tracing::debug!(subtype, directory, "a directory is outside of the roots");
    SessionError::ControlNotAllowed {
        subtype: subtype.to_owned(),
        why: "the directory is outside of sessions.cwd_roots",
    }
}

/// Where a session works, and what its directories are bound by.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    pub(super) cwd: Arc<Path>,
    pub(super) roots: Roots,
}

/// Where a client's lines go. The client is attached for as long as one of these is kept.
#[derive(Clone, Debug)]
pub struct ClientInbox {
    pub(super) connection: ConnectionId,
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) bounds: Bounds,
    /// Tells the actor when the last one is dropped.
    pub(super) _present: Arc<DropGuard>,
}

impl ClientInbox {
    /// Gives one line of the client to the session; what comes of it arrives through `direct`.
    ///
    /// # Errors
    /// `Ended` when the session is gone.
    pub async fn line(&self, line: Bytes) -> Result<(), SessionError> {
        let command = Command::Line {
            connection: self.connection,
            outside: self.bounds.roots.outside_of_line(&self.bounds.cwd, &line).await,
            line,
        };
        self.commands.send(command).await.map_err(|_| SessionError::Ended)
    }

    /// Whether a request of the CLI, which the journal has, waits for an answer that may be this client's. Known once the
    /// rules have seen it; a session that is gone asks nobody.
    pub async fn is_asked(&self, request_id: String) -> bool {
        let (reply, answer) = oneshot::channel();
        let command = Command::IsAsked(Question {
            connection: self.connection,
            request_id,
            reply,
        });
        self.commands.send(command).await.is_ok() && answer.await.unwrap_or(false)
    }
}

/// Has the actor look who still waits, when a caller stops.
struct Departure<'a>(&'a Notify);

impl Drop for Departure<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// A handle on a session's actor.
#[derive(Clone, Debug)]
pub struct SessionHandle {
    pub(super) id: SessionId,
    pub(super) bounds: Bounds,
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) stops: mpsc::Sender<Stop>,
    pub(super) departures: Arc<Notify>,
    pub(super) view: watch::Receiver<Arc<LiveView>>,
    pub(super) feed: Feed,
    /// Cancelled when the daemon lets go of the session at its end.
    pub(super) released: CancellationToken,
}

impl SessionHandle {
    /// The session's id.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Where it works.
    pub fn cwd(&self) -> &Path {
        &self.bounds.cwd
    }

    /// Whether its actor lives.
    pub fn is_open(&self) -> bool {
        !self.commands.is_closed()
    }

    /// The session as it looks now.
    pub fn view(&self) -> Arc<LiveView> {
        Arc::clone(&self.view.borrow())
    }

    /// The session's journal, as a feed.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Starts a process. When its turn to start has not come, this returns at once, and what comes of the start is seen in
    /// the view.
    ///
    /// # Errors
    /// `AlreadyLive` when there is one; `NotLive` when the occasion is over; `StartFailed` when none could be started.
    pub async fn start(&self, launch: Launch, admitted: Admitted) -> Result<(), SessionError> {
        let launch = Box::new(launch);
        self.ask(|reply| Command::Start {
            launch,
            admitted,
            reply,
        })
        .await
    }

    /// Sends a user message: one line that carries `uuid`. Returns once it is in the journal.
    ///
    /// # Errors
    /// `NotLive`, `Stopping`, `Busy`.
    pub async fn send(&self, uuid: PromptUuid, line: Bytes, by: &str) -> Result<Sent, SessionError> {
        let (prompt, by) = (Prompt { uuid, line }, by.to_owned());
        self.ask(|reply| Command::Send { prompt, by, reply }).await
    }

    /// Sends a control request (the JSON text of its whole `request` object) and waits for the CLI's answer, up to the
    /// subtype's deadline. One that comes before the process is ready is sent once it is.
    ///
    /// CANCEL-SAFETY: a request whose answer is not waited for any more is taken back, unless it is an interrupt.
    ///
    /// # Errors
    /// `NotLive`, `Busy`, `ControlDeadline`, `ControlNotAllowed`.
    pub async fn control(
        &self,
        subtype: &str,
        request: Bytes,
        by: &str,
    ) -> Result<ControlResponse, SessionError> {
        let bounds = &self.bounds;
        if let Some(outside) = bounds
            .roots
            .outside_of_request(&bounds.cwd, subtype, &request)
            .await
        {
            return Err(outside_roots(subtype, &outside));
        }
        let (subtype, by) = (subtype.to_owned(), by.to_owned());
        let _departure = Departure(&self.departures);
        self.ask(|reply| Command::Control {
            subtype,
            request,
            by,
            reply,
        })
        .await
    }

    /// Decides a pending approval; the first valid decision wins.
    ///
    /// # Errors
    /// `ApprovalNotPending`, `AlreadyDecided`, `InvalidDecision` (it stays pending).
    pub async fn decide(
        &self,
        approval: ApprovalId,
        decision: Decision,
        by: &str,
    ) -> Result<Resolution, SessionError> {
        if let Decision::Allow {
            updated_permissions: Some(updates),
            ..
        } = &decision
        {
            let directories = answer::directories_of_updates(updates.get());
            if let Some(outside) = self.bounds.roots.outside(&self.bounds.cwd, directories).await {
                return Err(SessionError::InvalidDecision(BadAnswer::OutsideRoots(outside)));
            }
        }
        let by = by.to_owned();
        self.ask(|reply| Command::Decide {
            approval,
            decision,
            by,
            reply,
        })
        .await
    }

    /// The choices of people, for the next process; with `fresh` a file that cannot be used is put aside.
    ///
    /// # Errors
    /// `Choices`.
    pub async fn choices(&self, fresh: bool) -> Result<Kept, SessionError> {
        self.ask(|reply| Command::Choices { fresh, reply }).await
    }

    /// Tells the attached clients which messages wait in the daemon now. A session that has ended has none.
    pub async fn tell_queue(&self, queue: Arc<[QueuedPrompt]>) {
        self.commands.send(Command::TellQueue { queue }).await.ok();
    }

    /// Launch options were said anew: they count and no earlier choice does that is about the same.
    ///
    /// # Errors
    /// `Ended` when the session is gone.
    pub async fn give_way(&self, said: SaidAnew) -> Result<(), SessionError> {
        self.ask(|reply| Command::GiveWay { said, reply }).await
    }

    /// Puts these in the place of the session's own rules. The rules look at pending approvals again.
    ///
    /// # Errors
    /// `Ended` when the session is gone.
    pub async fn set_rules(&self, rules: Arc<RuleSet>) -> Result<(), SessionError> {
        self.ask(|reply| Command::SetRules { rules, reply }).await
    }

    /// Makes a process that was started in advance a session's: it must be idle, and its journal says so from then on. Its
    /// earlier records are still kept from the store.
    ///
    /// # Errors
    /// `NotLive` when it is not idle any more, or was claimed.
    pub async fn claim(&self, claim: Claim) -> Result<(), SessionError> {
        let claim = Box::new(claim);
        self.ask(|reply| Command::Claim { claim, reply }).await
    }

    /// Gives the store all that a claimed session has done so far, and from then on what it does.
    ///
    /// # Errors
    /// `Ended` when the session is gone.
    pub async fn start_projecting(&self) -> Result<(), SessionError> {
        self.ask(|reply| Command::StartProjecting { reply }).await
    }

    /// Stops the process and returns after its end. Stopping what is stopped is no error.
    ///
    /// # Errors
    /// `StopTimedOut` after `deadline`.
    pub async fn stop(&self, by: &str, deadline: Duration) -> Result<(), SessionError> {
        let (reply, stopped) = oneshot::channel();
        self.stop_with(Stop::asked(by, reply), stopped, deadline).await
    }

    /// Ends what the session has for a process because the daemon ends: as [`Self::stop`], but what is parked, or is being
    /// parked, stays so. An urgent one has little patience for the process, and hastens a stop that is under way.
    ///
    /// # Errors
    /// Those of [`Self::stop`].
    pub async fn end(&self, by: &str, is_urgent: bool, deadline: Duration) -> Result<(), SessionError> {
        let (reply, stopped) = oneshot::channel();
        let stop = Stop {
            is_urgent,
            keeps_park: true,
            ..Stop::asked(by, reply)
        };
        self.stop_with(stop, stopped, deadline).await
    }

    /// As [`Self::stop`], with the host of the process. One that does not end by that is stopped as always.
    ///
    /// # Errors
    /// Those of [`Self::stop`].
    pub async fn stop_with_host(
        &self,
        by: &str,
        end: HostEnd,
        deadline: Duration,
    ) -> Result<(), SessionError> {
        let (reply, stopped) = oneshot::channel();
        let stop = Stop {
            of_host: Some(end),
            ..Stop::asked(by, reply)
        };
        self.stop_with(stop, stopped, deadline).await
    }

    async fn stop_with(
        &self,
        stop: Stop,
        stopped: oneshot::Receiver<()>,
        deadline: Duration,
    ) -> Result<(), SessionError> {
        self.stops.send(stop).await.map_err(|_| self.gone())?;
        match tokio::time::timeout(deadline, stopped).await {
            Ok(ended) => ended.map_err(|_| self.cut_off()),
            Err(_) => Err(SessionError::StopTimedOut),
        }
    }

    /// Waits until the turn that runs is over, or waits for a person, and no agent or task runs in the background: the CLI
    /// begins a turn with what comes of them. Returns at once when nothing runs.
    pub async fn wait_turn_over(&self) {
        let mut view = self.view.clone();
        loop {
            let (mut running, mut had_tasks) = (None, false);
            let over = view.wait_for(|view| {
                let may_work = matches!(view.state, SessionState::Idle | SessionState::Busy);
                if may_work && view.background_tasks > 0 {
                    (running, had_tasks) = (None, true);
                    return false;
                }
                let turn = view.turn.as_ref().map(|turn| turn.number);
                running = running.or(turn);
                view.state != SessionState::Busy || (running.is_some() && turn != running)
            });
            // An actor that is gone runs no turn.
            if over.await.is_err() || !had_tasks {
                return;
            }
            let follows = view.wait_for(|view| view.state != SessionState::Idle);
            if tokio::time::timeout(TASK_TURN, follows).await.is_err() {
                return;
            }
        }
    }

    /// Waits for the turn that answers a prompt.
    ///
    /// # Errors
    /// `PromptDropped` when it ends without one, `PromptNotOpen` when it is unknown here.
    pub async fn wait_turn(&self, prompt: PromptUuid) -> Result<Arc<TurnOutcome>, SessionError> {
        self.ask(|reply| Command::WaitTurn { prompt, reply }).await
    }

    /// Waits until the process is ready, or none is left, and gives the view then. A start that is being given up, as at
    /// its deadline, is neither: why it failed is known at its end.
    ///
    /// # Errors
    /// `Ended` when the session is gone.
    pub async fn wait_started(&self) -> Result<Arc<LiveView>, SessionError> {
        self.seen(|view| !matches!(view.state, SessionState::Starting | SessionState::Stopping))
            .await
    }

    /// Waits until the view is like this, and gives it then.
    ///
    /// # Errors
    /// `Ended` when the session is gone.
    pub async fn seen(
        &self,
        mut is_seen: impl FnMut(&LiveView) -> bool,
    ) -> Result<Arc<LiveView>, SessionError> {
        let mut view = self.view.clone();
        let seen = view.wait_for(|view| is_seen(view)).await;
        let seen = seen.map_err(|_| self.gone())?;
        Ok(Arc::clone(&seen))
    }

    /// Attaches a client, by the name that it gives itself. Requests of the CLI do not wait for a viewer.
    ///
    /// # Errors
    /// `Journal` when the records after `after` can't be given.
    pub async fn attach(&self, after: Option<Seq>, newcomer: Newcomer) -> Result<Attachment, SessionError> {
        let sender = self.commands.clone();
        self.ask(|reply| Command::Attach {
            after,
            newcomer,
            sender,
            reply,
        })
        .await
    }

    /// Says that the restart which is due did not come about: for good, for this reason, or for now.
    pub async fn restart_failed(&self, reason: Option<FailReason>) {
        // An actor that is gone restarts nothing.
        self.commands.send(Command::RestartFailed { reason }).await.ok();
    }

    /// Ends the process of a session of which nothing has been asked for so long, and returns after its end. The next message
    /// starts another. Parking what is parked is no error.
    ///
    /// # Errors
    /// `NotParkable` when that would cut something short; `StopTimedOut` after `deadline`.
    pub async fn park(
        &self,
        reason: ParkReason,
        least_unused_ms: u64,
        deadline: Duration,
    ) -> Result<(), SessionError> {
        let parked = self.ask(|reply| Command::Park {
            reason,
            least_unused_ms,
            reply,
        });
        match tokio::time::timeout(deadline, parked).await {
            Ok(parked) => parked,
            Err(_) => Err(SessionError::StopTimedOut),
        }
    }

    /// Says that the process which a message needs did not come about.
    pub async fn wake_failed(&self, failure: WakeFailure) {
        // An actor that is gone has answered who sent it.
        self.commands.send(Command::WakeFailed { failure }).await.ok();
    }

    /// Ends the actor of a session that has no process, and will have none: what was asked of it later is refused.
    ///
    /// # Errors
    /// `AlreadyLive` when there is a process, or one is being started.
    pub async fn retire(&self) -> Result<(), SessionError> {
        self.ask(|reply| Command::Retire { reply }).await
    }

    /// Ends the actor: its feed closes once everything was read. A process lives on.
    pub async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        self.released.cancel();
        if self.commands.send(Command::Close { reply }).await.is_ok() {
            // An error means that the actor is gone, which is what was asked for.
            closed.await.ok();
        }
    }

    /// Why the actor does not answer.
    fn gone(&self) -> SessionError {
        if self.released.is_cancelled() {
            SessionError::LetGo
        } else {
            SessionError::Ended
        }
    }

    /// Why the actor does not answer what it was asked.
    fn cut_off(&self) -> SessionError {
        match self.gone() {
            SessionError::LetGo => SessionError::CutOff,
            error => error,
        }
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.commands
            .send(command(reply))
            .await
            .map_err(|_| self.gone())?;
        answer.await.map_err(|_| self.cut_off())?
    }
}
