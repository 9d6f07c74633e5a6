//! Owns what makes the outside agree with the state machine: records of ours that are due, stated answers, the view.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    domain::{Clock, FailReason, SessionState},
    journal::{Source, Writer, WriterOptions},
    telemetry,
};

use super::{
    LiveView, SessionError,
    actor::Actor,
    large::MOST_OPEN,
    notes::{DueRestart, Note},
    outbox::{Due, Entry, Payload, Subject},
    process::{Launching, StopCause},
};

/// How long after the disk had no room for a record it is tried again.
const DISK_PAUSE: Duration = Duration::from_secs(1);

impl Actor {
    /// Called after everything that may have changed something.
    pub(super) fn settle(&mut self) {
        if self.machine.has_wrong_mode() && !self.stop_sent {
            self.stop_sent = true;
            // It must not go on in a conversation of another session.
            let cause = StopCause::asked(self.machine.is_elsewhere());
            self.stop_process("daemon".to_owned(), cause);
        }
        self.settle_restart();
        self.settle_parking();
        self.settle_requests();
        self.note_missing();
        self.note_state();
        self.listen();
        self.consult_rules();
        self.note_approvals();
        self.answer_by_rules();
        self.detach_cut();
        self.serve_desk();
        self.answer_questions();
        let is_ready = self.machine.is_ready() && self.launching.is_none() && !self.wakes();
        self.deciding.expect_question(is_ready, Instant::now());
        self.give_back();
        self.show();
        self.settle_parked();
    }

    /// Gives back what only a process that starts, or one that lives, has a right to. A caller that sees the session
    /// ready or gone finds room.
    pub(super) fn give_back(&mut self) {
        if self.launching.is_some() {
            return;
        }
        // A session that waits for its restart is starting too, and takes a turn once it is due.
        if self.machine.state() != SessionState::Starting || !self.machine.has_run() {
            self.start_permit = None;
        }
        if !self.machine.has_run() {
            self.slot = None;
        }
    }

    /// A process that an earlier daemon has started may still be getting ready: it counts as one that starts.
    pub(super) fn hold_start_permit(&mut self) {
        if self.machine.state() == SessionState::Starting
            && let Some(slot) = &self.slot
        {
            self.start_permit = Some(slot.start_permit());
        }
    }

    /// Makes the view true. A caller that is answered finds the result in it.
    pub(super) fn show(&self) {
        self.view.send_replace(Arc::new(self.shown_view()));
    }

    fn note_state(&mut self) {
        let state = self.machine.state();
        let restart = self.machine.restart();
        let now = (state, restart.map(|restart| restart.at));
        let has_process = state.is_live() && restart.is_none();
        if (self.machine.noted_state(), self.machine.noted_restart()) == (Some(now.0), now.1) {
            self.sent_state = None;
        } else if self.sent_state != Some(now) && self.link.is_some() == has_process {
            let note = Note::State {
                state,
                reason: self.machine.reason().cloned(),
                restart: restart.map(DueRestart::of),
                parked: self.machine.parked(),
            };
            self.sent_state = Some(now);
            self.note(note, Subject::Due(Due::State));
        }
    }

    fn note_approvals(&mut self) {
        let mut due: Vec<_> = self
            .machine
            .open_approvals()
            .iter()
            .filter_map(|approval| {
                // Not before the rules have seen it.
                let (rule, deadline) = self.ruling.of(approval.id)?;
                let is_said = self.machine.is_announced(approval.id)
                    && (approval.rule.as_ref(), approval.deadline) == (rule, deadline);
                (!is_said).then(|| Note::Approval {
                    approval_id: approval.id,
                    request_id: approval.request_id.clone(),
                    seq: approval.seq,
                    kind: approval.kind,
                    subject: approval.subject.clone(),
                    deadline,
                    rule: rule.cloned(),
                })
            })
            .collect();
        due.extend(
            self.machine
                .unannounced_ends()
                .map(|(id, state, by)| Note::Decision {
                    approval_id: id,
                    state,
                    by: by.to_owned(),
                }),
        );
        for note in due {
            if let Note::Approval { approval_id, .. } | Note::Decision { approval_id, .. } = &note {
                let (id, ended) = (*approval_id, matches!(note, Note::Decision { .. }));
                if self.announced.insert((id, ended)) {
                    self.note(note, Subject::Due(Due::Approval(id, ended)));
                }
            }
        }
        // Forget each end that the journal has by now: it is not announced again.
        let machine = &self.machine;
        self.announced
            .retain(|(id, ended)| !ended || machine.has_unannounced_end(*id));
    }

    /// Writes a record of ours: through the keeper while there is one, else by our own hand.
    pub(super) fn note(&mut self, note: Note, subject: Subject) {
        if self.link.is_some() && !self.machine.has_run() {
            // The keeper is about to go and takes nothing more.
            self.late_notes.push(note);
        } else if self.outbox.is_some() {
            self.enqueue(Entry::new(Payload::Note(note.to_json()), subject));
        } else if self.link.is_none()
            && self.launching.as_ref().is_none_or(Launching::waits)
            && !self.append(&note)
            && let Subject::Due(due) = subject
        {
            self.retry_later(due, DISK_PAUSE);
        }
    }

    /// Writes a record that a session without a process needs to come to rest: a disk that is full takes it later.
    pub(super) fn append_at_last(&mut self, note: Note) {
        if !self.append(&note) {
            self.unwritten = Some(note);
            self.retry_at.get_or_insert_with(|| Instant::now() + DISK_PAUSE);
        }
    }

    /// Tries once more, unless another start has made it void.
    pub(super) fn append_unwritten(&mut self) {
        if let Some(note) = self.unwritten.take()
            && self.launching.is_none()
            && !self.may_have_keeper()
        {
            self.append_at_last(note);
        }
    }

    /// Writes a record by our own hand; says whether it is in the journal.
    pub(super) fn append(&mut self, note: &Note) -> bool {
        let appended = self.try_append(note);
        if let Err(error) = &appended {
            tracing::error!(session.id = %self.id, %error, "the journal could not be written");
        }
        appended.is_ok()
    }

    pub(super) fn try_append(&mut self, note: &Note) -> Result<(), SessionError> {
        let options = WriterOptions {
            segment_bytes: self.settings.segment_bytes,
            floor: self.journal_floor(),
            ..WriterOptions::default()
        };
        let failed = |error: &dyn std::error::Error| SessionError::JournalWrite(telemetry::chain(error));
        let (mut writer, _) = Writer::open(&self.journal_dir, options).map_err(|e| failed(&e))?;
        writer
            .push(Clock.now(), Source::Daemon, None, &note.to_json())
            .map_err(|e| failed(&e))?;
        let head = writer.commit().map_err(|e| failed(&e))?;
        drop(writer);
        self.follow(head);
        Ok(())
    }

    /// The state as shown: a process that is asked for counts as starting, also before its first record.
    pub(super) fn shown_state(&self) -> SessionState {
        if self.launching.is_some() {
            SessionState::Starting
        } else if self.unrecorded_failure().is_some() {
            SessionState::Failed
        } else {
            self.machine.state()
        }
    }

    /// Why a first start failed whose end the disk has not taken yet. The journal says `starting` until it does, and nobody
    /// may be told that the session goes on.
    fn unrecorded_failure(&self) -> Option<&FailReason> {
        let is_first = self.machine.state() == SessionState::Starting && self.machine.restart().is_none();
        match &self.unwritten {
            Some(Note::StartFailed { reason, .. }) if is_first => Some(reason),
            _ => None,
        }
    }

    pub(super) fn shown_view(&self) -> LiveView {
        let view = self.machine.view(self.cli_pid);
        let mut requests = self.pending_requests();
        let waiting_requests = requests.len().saturating_sub(MOST_OPEN);
        requests.truncate(MOST_OPEN);
        LiveView {
            reason: self
                .silence()
                .or_else(|| self.unrecorded_failure().cloned())
                .or_else(|| view.reason.clone()),
            state: self.shown_state(),
            requests,
            waiting_requests,
            parked: self.machine.parked().filter(|_| self.launching.is_none()),
            unused_since: self.parkable().ok(),
            is_input_under_way: self.is_input_under_way(),
            is_woken: self.is_woken(),
            ..view
        }
    }
}
