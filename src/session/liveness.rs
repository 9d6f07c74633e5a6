//! Owns what is done about a CLI that says nothing although it should. The records say since when; this measures on from
//! there with a clock that nobody sets.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::{
    claude::{control::Fields, stdin},
    domain::{Clock, RunId, SessionState, SilenceAction, Timestamp},
};

use super::{
    actor::Actor,
    notes::{Note, Notice, Silence, SilenceCode},
    outbox::{Entry, Payload, Subject},
    process::StopCause,
};

/// The silence that is listened to.
#[derive(Debug, Default)]
pub(super) struct Listening {
    since: Option<Timestamp>,
    /// When it is too long; `None` once that was said.
    due: Option<Instant>,
}

impl Listening {
    /// When something is to be done.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due
    }
}

impl Actor {
    /// Keeps the timer in step with what the records say.
    pub(super) fn listen(&mut self) {
        let after_ms = self.settings.liveness.after_ms;
        let since = self
            .machine
            .silence()
            .filter(|_| after_ms > 0 && self.link.is_some());
        if self.listening.since == since {
            return;
        }
        self.listening.since = since;
        self.listening.due = since.filter(|_| !self.machine.is_silence_noticed()).map(|since| {
            let passed = Clock.now().millis_since(since);
            Instant::now() + Duration::from_millis(after_ms.saturating_sub(passed))
        });
    }

    /// Does what is to be done when the silence is too long.
    pub(super) fn on_silence(&mut self, now: Instant) {
        if self.listening.due.take_if(|due| *due <= now).is_none() {
            return;
        }
        let Some(since) = self.listening.since else {
            return;
        };
        let ms = self.settings.liveness.after_ms;
        // A process that starts is not interrupted: its start has a time limit of its own.
        let action = match self.machine.state() {
            SessionState::Starting => SilenceAction::Report,
            // No other process could go on with a conversation that is not kept.
            _ if self.settings.liveness.action == SilenceAction::Restart
                && !self.parking.keeps_conversation =>
            {
                SilenceAction::Interrupt
            }
            _ => self.settings.liveness.action,
        };
        let note = Note::Notice(Notice::Silence(Silence {
            code: SilenceCode::CliSilent,
            detail: format!("the CLI has said nothing for {ms} ms"),
            since,
            action,
        }));
        self.note(note, Subject::Nobody);
        match action {
            SilenceAction::Report => {}
            SilenceAction::Interrupt => self.interrupt_silent(),
            SilenceAction::Restart => self.stop_process("daemon".to_owned(), StopCause::Silence { ms }),
        }
    }

    fn interrupt_silent(&mut self) {
        if self.controls.is_interrupting() {
            // Somebody was faster, and one interrupt must not become two.
            return;
        }
        self.turn_is_ending();
        let id = RunId::new().to_string();
        let line = Bytes::from(stdin::control_request(&id, "interrupt", &Fields::new()));
        let by = "daemon".to_owned();
        self.enqueue(Entry::new(
            Payload::Line {
                by,
                line: line.into(),
            },
            Subject::Nobody,
        ));
    }
}
