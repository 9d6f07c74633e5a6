//! Owns the actor's side of its process: start, stop, and the loss of the keeper.

use std::time::Duration;

use bytes::Bytes;
use tokio::{sync::mpsc, time::Instant};

use crate::{
    admission::{Admitted, StartPermit},
    claude::{ClientLine, stdin},
    domain::{Clock, FailReason, PromptUuid, SessionState},
    keeper::{self, Identity, Link, StopRequest, WriteError},
    telemetry,
};

use super::{
    SessionError,
    actor::Actor,
    exit::code_of_launch,
    handle::{HostEnd, Launch, Occasion, Reply, Stop},
    machine::{Machine, digest},
    notes::{Carried, ChoicesNotice, LeftOut, Note, Notice, RunStarted},
    outbox::{self, Backlog, Due, Entry, OUTBOX_ENTRIES, Payload, Subject, Unsent},
    park::WakeFailure,
};

/// How long a stop waits until its record is in the journal.
const NOTE_PATIENCE: Duration = Duration::from_secs(1);

/// From SIGTERM to SIGKILL at most, when somebody does not want to wait.
const URGENT_TERM_GRACE_MS: u64 = 500;

/// From SIGINT to the end of input, in a stop of an idle CLI that asks something at its end. It waits as long for the answers.
const INTERRUPT_GRACE_MS: u64 = 1_500;

/// From the end of a host's input to SIGTERM at most: the CLI alone takes as long as it needs, and its host tells it when it has
/// no more patience.
pub const HOST_PATIENCE: Duration = Duration::from_secs(600);

/// How long after a stop its keeper is woken if it is still there: it may have been stopped, as by SIGSTOP.
const WAKE_AFTER: Duration = Duration::from_secs(2);

/// Why a process is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopCause {
    /// Somebody wants it.
    Asked,
    /// Somebody wants it, and does not want to wait.
    Urgent,
    /// The program that it was started for has ended.
    Host(HostEnd),
    /// It was not ready after this time.
    StartTimeout { ms: u64 },
    /// It said nothing for this time, and another is to take its place.
    Silence { ms: u64 },
    /// It was decided before, and the record of that is in the journal.
    AlreadyRecorded,
    /// The same, and somebody does not want to wait.
    Escalate,
}

impl StopCause {
    /// The cause of a requested stop.
    pub(super) fn asked(is_urgent: bool) -> Self {
        if is_urgent { Self::Urgent } else { Self::Asked }
    }
}

/// A stop of a process that is being started.
#[derive(Debug)]
struct StopAsked {
    by: String,
    is_urgent: bool,
    keeps_park: bool,
}

/// A process that is being started.
#[derive(Debug)]
pub(super) struct Launching {
    /// The launch to start; set while it waits for its turn, or for the end of the last process's keeper.
    waits: Option<Waits>,
    /// The caller that waits for the keeper.
    reply: Option<Reply<()>>,
    /// Messages sent meanwhile.
    held: Backlog,
    stop_asked: Option<StopAsked>,
    /// Directories that the process does not get.
    left_out: Vec<String>,
    /// The names of stored options that it is started without.
    without: Vec<&'static str>,
}

/// A start that has not begun.
#[derive(Debug)]
struct Waits {
    launch: Box<Launch>,
    permit: StartPermit,
    /// The prompts that the last process had not begun.
    carried: Vec<Carried>,
}

impl Launching {
    /// Whether nothing was started yet.
    pub(super) fn waits(&self) -> bool {
        self.waits.is_some()
    }

    /// The permit that is not granted yet.
    pub(super) fn waiting_permit(&mut self) -> Option<&mut StartPermit> {
        let permit = &mut self.waits.as_mut()?.permit;
        (!permit.is_granted()).then_some(permit)
    }

    fn answer(&mut self, outcome: Result<(), SessionError>) {
        if let Some(reply) = self.reply.take() {
            // The asker may have left.
            reply.send(outcome).ok();
        }
    }
}

impl Actor {
    pub(super) fn start(&mut self, mut launch: Box<Launch>, admitted: Admitted, reply: Reply<()>) {
        if self.machine.has_run() || self.launching.is_some() {
            let state = self.shown_state();
            reply.send(Err(SessionError::AlreadyLive { state })).ok();
            return;
        }
        let is_due = match launch.occasion {
            Occasion::Asked => true,
            Occasion::Wake => self.is_woken(),
            Occasion::Restart => self.machine.restart().is_some(),
        };
        if !is_due {
            // Somebody stopped it while the start waited for room. Give the slot back first, so that the caller finds
            // it free.
            drop(admitted);
            let state = self.shown_state();
            reply.send(Err(SessionError::NotLive { state })).ok();
            return;
        }
        let waits_for_restore = !launch.restores.is_empty();
        let mut after_restore = Vec::new();
        for first in &launch.plan.first_lines {
            let line = first.line.as_bytes();
            // Known from now on: it can be waited for, and a repeat of it is not written once more.
            if let Ok(ClientLine::User { uuid: Some(uuid), .. }) = stdin::check_client_line(line) {
                self.prompts.expect(uuid, digest(line));
                self.launch_prompts.push(uuid);
                let by = first.by.clone().unwrap_or_else(|| "daemon".to_owned());
                let line = Payload::line(by, Bytes::copy_from_slice(line));
                after_restore.push(Entry::new(line, Subject::Prompt(uuid)));
            }
        }
        self.desk.start(launch.routes.clone());
        self.parking.keeps_conversation = launch.keeps_conversation;
        let carried = self.carry_on(&mut launch);
        if waits_for_restore {
            // No prompt before the process has what was set. Those of the last process are written from the journal then.
            launch.plan.first_lines.truncate(1);
        } else {
            after_restore.clear();
        }
        if self.machine.state() == SessionState::Parked {
            self.metrics.woken();
        }
        // Messages that waited for a restart, or for a wake.
        let mut held = std::mem::take(&mut self.parking.held);
        held.after(self.restarting.held.take());
        held.after(after_restore);
        let Admitted { slot, permit } = admitted;
        self.slot = Some(slot);
        self.unwritten = None;
        self.launching = Some(Launching {
            left_out: launch.left_out.clone(),
            without: std::mem::take(&mut launch.without),
            waits: Some(Waits {
                launch,
                permit,
                carried,
            }),
            reply: Some(reply),
            held,
            stop_asked: None,
        });
        self.spawn_keeper();
        // The caller is answered as soon as the start is queued, so the view shows the queue first.
        self.show();
        if let Some(launching) = &mut self.launching
            && launching.waiting_permit().is_some()
        {
            launching.answer(Ok(()));
        }
    }

    /// Starts the process that is waited for, if one is, its permit is granted, the keeper of the last one is gone, and so is all
    /// that a keeper left which was killed: two would be at work on one conversation.
    pub(super) fn spawn_keeper(&mut self) {
        if self.link.is_some() || self.sweep.is_some() {
            return;
        }
        let is_due = |waits: &mut Waits| waits.permit.is_granted();
        let Some(Waits {
            mut launch,
            permit,
            carried,
        }) = self
            .launching
            .as_mut()
            .and_then(|launching| launching.waits.take_if(is_due))
        else {
            return;
        };
        self.start_permit = Some(permit);
        launch.plan.journal_floor = self.journal_floor();
        if launch.base.cost_usd.is_none()
            && let Some(totals) = self.machine.totals_of(launch.cli_session)
        {
            // The store knows what was reported. A fork that has reported nothing yet still is where its parent was.
            launch.base = totals.clone();
        }
        let note = Note::RunStarted(RunStarted {
            run_id: launch.plan.run,
            mode: launch.mode,
            agent: Some(launch.agent),
            cli_session_id: launch.cli_session,
            turns: self.machine.turns(),
            base: std::mem::take(&mut launch.base),
            permission_mode: launch.permission_mode.take(),
            restart: launch.restart.take(),
            carried,
            restores: std::mem::take(&mut launch.restores),
            has_choices: Some(self.controls.choices.are_any()),
            left_out: std::mem::take(&mut launch.left_out),
            parked: match launch.occasion {
                Occasion::Wake | Occasion::Restart => self.machine.woken_from(),
                Occasion::Asked => None,
            },
            earlier_session_id: self.machine.earlier_id_of(launch.cli_session),
            resume_at: launch.resume_at,
        });
        launch.plan.start_note = String::from_utf8_lossy(&note.to_json()).into_owned();
        let program = self.settings.keeper_program.clone();
        let (tracker, launched) = (self.tracker.clone(), self.launched_sender.clone());
        self.tracker.spawn(async move {
            let link = keeper::launch(&program, &launch.plan, &tracker).await;
            let link = link.map_err(|error| FailReason {
                code: code_of_launch(error.cause()).to_owned(),
                detail: telemetry::chain(&error),
            });
            // The actor outlives its launches, or nobody wants the link: dropping it leaves the keeper alone.
            launched.send(link).await.ok();
        });
    }

    pub(super) fn on_launched(&mut self, launched: Result<Link, FailReason>) {
        let Some(mut launching) = self.launching.take() else {
            // Nothing was started: a keeper that had lost us was attached to again.
            if let Ok(link) = launched {
                self.reattached(link);
            }
            return;
        };
        match launched {
            Ok(link) => {
                self.take_link(link);
                let left_out = std::mem::take(&mut launching.left_out);
                if !left_out.is_empty() {
                    let note = Note::Notice(Notice::LeftOut(LeftOut::new(left_out)));
                    self.note(note, Subject::Nobody);
                }
                if let Some(file) = self.controls.choices.take_lost() {
                    let notice = ChoicesNotice::lost(&file);
                    self.note(Note::Notice(Notice::Choices(notice)), Subject::Nobody);
                }
                if !launching.without.is_empty() {
                    let notice = ChoicesNotice::without(&launching.without);
                    self.note(Note::Notice(Notice::Choices(notice)), Subject::Nobody);
                }
                for entry in launching.held.take() {
                    match entry.subject {
                        Subject::Prompt(_) => self.enqueue_prompt(entry),
                        _ => self.enqueue(entry),
                    }
                }
                if let Some(StopAsked { by, is_urgent, .. }) = launching.stop_asked.take() {
                    self.stop_process(by, StopCause::asked(is_urgent));
                }
                self.show();
                launching.answer(Ok(()));
            }
            Err(reason) => {
                // The keeper may have come as far as the journal.
                self.read_to_the_end();
                if self.machine.woken_from().is_some() {
                    // The outcome of the start is told when the journal says it.
                    self.parking.held.after(launching.held.take());
                } else {
                    self.refuse_held(launching.held.take());
                }
                self.drop_launch_prompts();
                self.give_back();
                if self.machine.has_run() {
                    self.on_link_lost();
                } else {
                    if self.machine.state() != SessionState::Failed {
                        self.append_at_last(Note::StartFailed {
                            reason: reason.clone(),
                            retry: true,
                        });
                    }
                    if let Some(StopAsked { by, .. }) = launching.stop_asked.take() {
                        self.stop_restart(by);
                    }
                    self.answer_stops();
                }
                let reason = self.machine.reason().cloned().unwrap_or(reason);
                self.show();
                launching.answer(Err(SessionError::StartFailed(reason)));
            }
        }
    }

    /// Refuses what was held for a process that does not come.
    pub(super) fn refuse_held(&mut self, held: Vec<Entry>) {
        for Entry { subject, .. } in held {
            let error = WriteError::Gone;
            self.refuse(Unsent { subject, error });
        }
    }

    pub(super) fn take_link(&mut self, link: Link) {
        let (sender, entries) = mpsc::channel(OUTBOX_ENTRIES);
        self.tracker.spawn(outbox::run(
            link.handle.clone(),
            self.journal_dir.clone(),
            entries,
            self.told_sender.clone(),
        ));
        self.outbox = Some(sender);
        self.cli_pid = Some(link.hello.child_pid);
        self.link = Some(link.handle);
        self.events = Some(link.events);
        self.start_deadline = Some(Instant::now() + Duration::from_millis(self.settings.start_timeout_ms));
        self.follow(link.hello.head);
        if link.hello.exited.is_none() && self.machine.run_id() != Some(link.hello.run) {
            tracing::warn!(session.id = %self.id, "the first record of the process that lives is missing");
            self.machine.adopt(link.hello.run, Clock.now());
        }
        if self.machine.state() == SessionState::Stopping {
            // The daemon that recorded the stop may have died before it carried the stop out. A second stop changes
            // nothing.
            self.parking.told();
            self.stop_process("daemon".to_owned(), StopCause::AlreadyRecorded);
        }
    }

    pub(super) fn on_run_ended(&mut self) {
        let state = self.machine.state();
        for (id, waiting) in self.controls.take_all() {
            self.answer_waiting(waiting, &|| Err(SessionError::Died { state }.of_sent(&id)));
        }
        self.on_turn_ended(u64::MAX);
        let state = self.machine.state();
        let is_due = self.machine.restart().is_some();
        let carried: Vec<_> = self.machine.carried().iter().map(|it| it.uuid).collect();
        let carried = |prompt: &PromptUuid| carried.contains(prompt);
        if self.controls.choices.run_ended(carried) {
            let note = Note::Notice(Notice::Choices(ChoicesNotice::effort_unknown()));
            self.note(note, Subject::Nobody);
        }
        for (_, waiters) in self
            .turn_waiters
            .extract_if(|prompt, _| !is_due || !carried(prompt))
        {
            for waiter in waiters {
                waiter.send(Err(no_turn_comes(&self.machine))).ok();
            }
        }
        self.refuse_claim(&|| SessionError::NotLive { state });
        for due in std::mem::take(&mut self.refused) {
            if let Due::Notice(told) = due {
                self.late_notes.push(Note::Notice(Notice::Told(told)));
            }
        }
        self.retry_at = None;
        self.drop_launch_prompts();
        self.announced.clear();
        self.ruling.forget_all();
        self.stop_sent = false;
        self.park_is_off();
        let state = self.machine.state();
        if state != SessionState::Parked && self.machine.restart().is_none() {
            self.refuse_put_off(&|| SessionError::NotLive { state });
        }
        if let Some(parked) = self.machine.parked() {
            self.metrics.parked(parked.reason);
        }
        self.close_desk();
    }

    /// Whether the session has no process, and none comes before somebody asks for it.
    pub(super) fn expects_no_process(&self) -> bool {
        !self.machine.has_run()
            && self.launching.is_none()
            && self.machine.restart().is_none()
            && !self.is_woken()
    }

    /// Takes back a start that waits and was stopped before it began.
    fn take_back_start(&mut self) {
        let stopped = |launching: &mut Launching| launching.waits() && launching.stop_asked.is_some();
        let Some(mut launching) = self.launching.take_if(stopped) else {
            return;
        };
        let Some(StopAsked { by, keeps_park, .. }) = launching.stop_asked.take() else {
            return;
        };
        let stays_parked = keeps_park && self.machine.state() == SessionState::Parked;
        let held = launching.held.take();
        if stays_parked {
            self.refuse_waking(held, &WakeFailure::shutting_down());
        } else {
            self.refuse_held(held);
        }
        self.drop_launch_prompts();
        if self.machine.restart().is_some() {
            self.stop_restart(by);
        } else if stays_parked {
            // The sender can send its messages again, and one of them wakes the session then.
        } else if self.machine.state() == SessionState::Parked {
            self.stop_parked(by);
        } else if !self.may_have_keeper() && self.machine.state().is_live() {
            // It never had a process, so nothing else says that none is to come.
            self.append(&Note::StopRequested {
                by,
                start_timeout_ms: None,
                silent_for_ms: None,
                park: None,
            });
        }
        if !self.may_have_keeper() {
            self.give_back();
            self.show();
            self.answer_stops();
        }
        launching.answer(Err(SessionError::Stopping));
    }

    /// Tells who asked for a stop that nothing runs any more.
    pub(super) fn answer_stops(&mut self) {
        let stops = std::mem::take(&mut self.stop_waiters);
        let answer = |stops: Vec<Stop>| {
            for stop in stops {
                // The caller may have left.
                stop.reply.send(()).ok();
            }
        };
        match self.sweep.clone().filter(|sweep| !sweep.is_cancelled()) {
            Some(sweep) if !stops.is_empty() => {
                self.tracker.spawn(async move {
                    sweep.cancelled().await;
                    answer(stops);
                });
            }
            _ => answer(stops),
        }
    }

    /// Prompts of the launch that did not come as far as the journal never will.
    fn drop_launch_prompts(&mut self) {
        let state = self.machine.state();
        for uuid in std::mem::take(&mut self.launch_prompts) {
            for reply in self.prompts.on_unsent(uuid) {
                self.answer_prompt(reply, uuid, Err(SessionError::NotLive { state }));
            }
        }
    }

    pub(super) fn on_stop(&mut self, stop: Stop) {
        let (by, is_urgent, keeps_park) = (stop.by.clone(), stop.is_urgent, stop.keeps_park);
        let cause = stop.of_host.map_or(StopCause::asked(is_urgent), StopCause::Host);
        if let Some(launching) = &mut self.launching {
            let earlier = launching.stop_asked.as_ref();
            launching.stop_asked = Some(StopAsked {
                by,
                is_urgent: is_urgent || earlier.is_some_and(|stop| stop.is_urgent),
                keeps_park: keeps_park && earlier.is_none_or(|stop| stop.keeps_park),
            });
            self.stop_waiters.push(stop);
            self.take_back_start();
        } else if self.may_have_keeper() {
            self.stop_waiters.push(stop);
            if keeps_park && self.is_being_parked() {
                self.hasten_park();
            } else if self.machine.has_run() {
                self.stop_process(by, cause);
            } else {
                self.stop_restart(by.clone());
                if !keeps_park {
                    self.stop_parked(by);
                }
            }
        } else {
            self.stop_restart(by.clone());
            if !keeps_park {
                self.stop_parked(by);
            }
            // Update the view before the reply, so that the caller sees `stopped`.
            self.show();
            self.stop_waiters.push(stop);
            self.answer_stops();
        }
    }

    /// Starts the stop ladder, or hastens one that runs. Only the first stop of a run gets a record, and the first that
    /// somebody asks for while the daemon replaces a silent process.
    pub(super) fn stop_process(&mut self, by: String, cause: StopCause) {
        let Some(link) = self.link.clone() else {
            return;
        };
        let has_other_cause = self.machine.is_stopped_for_silence() || self.machine.is_parking();
        let is_urgent = matches!(cause, StopCause::Urgent | StopCause::Escalate);
        let is_first = !matches!(cause, StopCause::AlreadyRecorded | StopCause::Escalate)
            && (self.machine.state() != SessionState::Stopping
                || (has_other_cause
                    && matches!(cause, StopCause::Asked | StopCause::Urgent | StopCause::Host(_))));
        let mut request = self.stop_request(is_urgent);
        let signal = match cause {
            StopCause::Host(HostEnd::Signal(number)) => {
                request.close_stdin_first = false;
                request.interrupt_grace_ms = 0;
                Some((number, Duration::from_millis(request.term_grace_ms)))
            }
            StopCause::Host(HostEnd::Input) => {
                request.close_stdin_first = true;
                request.eof_grace_ms = request.eof_grace_ms.max(HOST_PATIENCE.as_secs() * 1_000);
                None
            }
            _ => None,
        };
        self.desk.stop(&request);
        let (start_timeout_ms, silent_for_ms) = match cause {
            StopCause::Asked
            | StopCause::Urgent
            | StopCause::Host(_)
            | StopCause::AlreadyRecorded
            | StopCause::Escalate => (None, None),
            StopCause::StartTimeout { ms } => (Some(ms), None),
            StopCause::Silence { ms } => (None, Some(ms)),
        };
        let note = Note::StopRequested {
            by,
            start_timeout_ms,
            silent_for_ms,
            park: None,
        };
        let note = Bytes::from(note.to_json());
        let identity_file = self.settings.identity_file.clone();
        self.tracker.spawn(async move {
            // A note that can't be written must not hold up the stop: on a full disk its answer does not come.
            let noted = async {
                if !is_first {
                    return;
                }
                match tokio::time::timeout(NOTE_PATIENCE, link.note(note)).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => tracing::warn!(%error, "the stop request was not journaled"),
                    Err(_) => tracing::warn!("the stop request was not journaled in time"),
                }
            };
            let stopped = async {
                if let Some((number, patience)) = signal
                    && link.signal(number).await.is_ok()
                {
                    // It may take its time, as for what its tools left.
                    link.over()
                        .run_until_cancelled(tokio::time::sleep(patience))
                        .await;
                }
                if link.stop(request).await.is_err() {
                    tracing::debug!("the keeper ended before it was asked to stop");
                }
            };
            if is_urgent {
                tokio::join!(noted, stopped);
            } else {
                noted.await;
                stopped.await;
            }
            let over = link.over();
            // The task must not keep the connection.
            drop(link);
            let waited = over.run_until_cancelled(tokio::time::sleep(WAKE_AFTER)).await;
            // A keeper that was stopped itself takes nothing before it goes on; one that runs does not notice.
            if waited.is_some()
                && let Ok(Some(identity)) = Identity::read(&identity_file)
            {
                identity.wake();
            }
        });
    }

    fn stop_request(&self, is_urgent: bool) -> StopRequest {
        let term_grace_ms = self.settings.term_grace_ms;
        let close_stdin_first = self.machine.is_quiet() && !is_urgent;
        self.unclaimed_stop().unwrap_or(StopRequest {
            close_stdin_first,
            eof_grace_ms: self.settings.eof_grace_ms,
            term_grace_ms: if is_urgent {
                term_grace_ms.min(URGENT_TERM_GRACE_MS)
            } else {
                term_grace_ms
            },
            // At the end of input the CLI asks nothing any more.
            interrupt_grace_ms: if close_stdin_first && self.machine.has_last_words() {
                INTERRUPT_GRACE_MS
            } else {
                0
            },
        })
    }

    pub(super) fn on_deadline(&mut self) {
        if self.retry_at.take_if(|at| *at <= Instant::now()).is_some() {
            // A record that is no longer marked as sent is due again.
            for due in std::mem::take(&mut self.refused) {
                match due {
                    Due::State => self.sent_state = None,
                    Due::Approval(id, ended) => drop(self.announced.remove(&(id, ended))),
                    Due::Answer(id) => self.write_answer(id),
                    Due::Fallback(fallback) => self.note_fallback(fallback),
                    Due::HookStop => self.desk_stop_refused(),
                    Due::Rule(id) => self.ruling.go_on(id),
                    Due::Restore => self.controls.choices.restoring.unsent(),
                    Due::Carried => self.controls.choices.restoring.prompt_unsent(),
                    Due::Notice(told) => self.write_notice(told),
                }
            }
            self.append_unwritten();
        }
        if self.start_deadline.is_some_and(|at| at <= Instant::now()) {
            self.start_deadline = None;
            if self.machine.state() == SessionState::Starting {
                let ms = self.settings.start_timeout_ms;
                self.stop_process("daemon".to_owned(), StopCause::StartTimeout { ms });
            }
        }
        self.reclaim_journal(Instant::now());
        self.ask_for_restart(Instant::now());
        self.on_silence(Instant::now());
        self.on_idle(Instant::now());
        self.on_ruling_deadline();
        self.on_unasked(Instant::now());
        self.on_requests_deadline(Instant::now());
    }

    /// Gives an entry to the keeper, or refuses it at once.
    pub(super) fn enqueue(&mut self, mut entry: Entry) {
        if !entry.take_room(&self.way.room) {
            self.on_unsent(Unsent {
                subject: entry.subject,
                error: WriteError::Busy,
            });
            return;
        }
        // The message of a wake is written once the process is ready: else it could not be sent again.
        let wakes = matches!(entry.subject, Subject::Prompt(_)) && (self.wakes() || self.machine.is_waking());
        let backlog = if let Some(launching) = &mut self.launching {
            Some(&mut launching.held)
        } else if wakes {
            Some(&mut self.parking.held)
        } else if self.machine.restart().is_some() {
            Some(&mut self.restarting.held)
        } else {
            None
        };
        let unsent = match (backlog, &self.outbox) {
            (Some(backlog), _) => backlog.hold(entry).map(|entry| (entry, WriteError::Busy)),
            (None, Some(outbox)) => outbox.try_send(entry).err().map(|error| match error {
                mpsc::error::TrySendError::Full(entry) => (entry, WriteError::Busy),
                mpsc::error::TrySendError::Closed(entry) => (entry, WriteError::Gone),
            }),
            (None, None) => Some((entry, WriteError::Gone)),
        };
        if let Some((Entry { subject, .. }, error)) = unsent {
            self.on_unsent(Unsent { subject, error });
        }
    }
}

/// Why no turn comes for the prompts of a process that has ended.
pub(super) fn no_turn_comes(machine: &Machine) -> SessionError {
    let reason = machine.reason();
    match reason.filter(|reason| reason.code == FailReason::CONVERSATION_TAKEN) {
        Some(reason) => SessionError::StartFailed(reason.clone()),
        None => SessionError::Died {
            state: machine.state(),
        },
    }
}
