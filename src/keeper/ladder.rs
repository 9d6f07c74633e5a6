//! Owns the order and the times of the signals that end a process. Pure: the caller sends them.

use std::time::{Duration, Instant};

use super::wire::StopRequest;
use crate::domain::{StopAction, StopIntent, StopStep};

/// The next thing to do to a process that shall end, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(super) enum Rung {
    /// SIGINT to the group, with stdin open.
    Interrupt,
    /// The end of input.
    CloseStdin,
    /// SIGTERM to the group.
    Terminate,
    /// SIGKILL to the group.
    Kill,
}

/// A stop under way, or none.
#[derive(Debug, Default)]
pub(super) struct Ladder {
    stop: Option<Stop>,
}

#[derive(Debug)]
struct Stop {
    intent: StopIntent,
    began_at: Instant,
    steps: Vec<StopStep>,
    /// Whether it begins with SIGINT.
    interrupts: bool,
    /// When stdin is closed; `None` when it stays open.
    close_at: Option<Instant>,
    terminate_at: Instant,
    kill_at: Instant,
    last: Option<Rung>,
}

impl Stop {
    fn note(&mut self, now: Instant, step: StopAction) {
        let after = now.saturating_duration_since(self.began_at).as_millis();
        self.steps.push(StopStep {
            step,
            after_ms: u64::try_from(after).unwrap_or(u64::MAX),
        });
    }

    /// The next rung, and when it comes.
    fn next(&self) -> Option<(Rung, Instant)> {
        if self.last.is_none() && self.interrupts {
            return Some((Rung::Interrupt, self.began_at));
        }
        if self.last < Some(Rung::CloseStdin)
            && let Some(at) = self.close_at.filter(|at| *at <= self.terminate_at)
        {
            return Some((Rung::CloseStdin, at));
        }
        match self.last {
            Some(Rung::Kill) => None,
            Some(Rung::Terminate) => Some((Rung::Kill, self.kill_at)),
            _ => Some((Rung::Terminate, self.terminate_at)),
        }
    }
}

impl Ladder {
    /// Begins a stop. If one is under way, each rung comes at the earlier of the two times.
    pub(super) fn stop(&mut self, now: Instant, request: &StopRequest, intent: StopIntent) {
        let after = |at: Instant, ms: u64| at + Duration::from_millis(ms);
        let interrupts = request.close_stdin_first && request.interrupt_grace_ms > 0;
        let close_at = request.close_stdin_first.then(|| {
            let grace = if interrupts { request.interrupt_grace_ms } else { 0 };
            after(now, grace)
        });
        let terminate_at = close_at.map_or(now, |at| after(at, request.eof_grace_ms));
        let kill_at = after(terminate_at, request.term_grace_ms);
        let stop = self.stop.get_or_insert_with(|| Stop {
            intent,
            began_at: now,
            steps: Vec::new(),
            interrupts,
            close_at,
            terminate_at,
            kill_at,
            last: None,
        });
        // A stop without the end of input goes on to SIGTERM at once.
        stop.close_at = stop.close_at.map(|at| close_at.map_or(at, |other| at.min(other)));
        stop.terminate_at = stop.terminate_at.min(terminate_at);
        stop.kill_at = stop.kill_at.min(kill_at);
    }

    /// The rung whose time has come, once each.
    pub(super) fn due(&mut self, now: Instant) -> Option<Rung> {
        let stop = self.stop.as_mut()?;
        let (rung, _) = stop.next().filter(|(_, at)| *at <= now)?;
        stop.last = Some(rung);
        stop.note(
            now,
            match rung {
                Rung::Interrupt => StopAction::Sigint,
                Rung::CloseStdin => StopAction::CloseStdin,
                Rung::Terminate => StopAction::Sigterm,
                Rung::Kill => StopAction::Sigkill,
            },
        );
        Some(rung)
    }

    /// The process ended.
    pub(super) fn exited(&mut self, now: Instant) {
        if let Some(stop) = &mut self.stop {
            stop.note(now, StopAction::Exited);
        }
    }

    /// The steps taken so far.
    pub(super) fn steps(&self) -> &[StopStep] {
        self.stop.as_ref().map_or(&[], |stop| &stop.steps)
    }

    /// When to ask [`Self::due`] again.
    pub(super) fn next(&self) -> Option<Instant> {
        let (_, at) = self.stop.as_ref()?.next()?;
        Some(at)
    }

    /// Whether a stop is under way.
    pub(super) fn is_stopping(&self) -> bool {
        self.stop.is_some()
    }

    /// The reason for the stop.
    pub(super) fn intent(&self) -> StopIntent {
        self.stop.as_ref().map_or(StopIntent::None, |stop| stop.intent)
    }

    /// Whether the last rung was reached.
    pub(super) fn killed(&self) -> bool {
        self.stop
            .as_ref()
            .is_some_and(|stop| stop.last == Some(Rung::Kill))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(eof_grace_ms: Option<u64>, term_grace_ms: u64) -> StopRequest {
        StopRequest {
            close_stdin_first: eof_grace_ms.is_some(),
            eof_grace_ms: eof_grace_ms.unwrap_or(99_999),
            term_grace_ms,
            interrupt_grace_ms: 0,
        }
    }

    fn asking(interrupt_grace_ms: u64, eof_grace_ms: u64, term_grace_ms: u64) -> StopRequest {
        StopRequest {
            interrupt_grace_ms,
            ..request(Some(eof_grace_ms), term_grace_ms)
        }
    }

    /// The times in milliseconds at which the rungs come after these stops, and the order of the rungs.
    fn times(stops: &[(u64, StopRequest)]) -> Vec<(u64, Rung)> {
        let start = Instant::now();
        let mut ladder = Ladder::default();
        let mut rungs = Vec::new();
        for at in 0..20_000 {
            let now = start + Duration::from_millis(at);
            for (_, request) in stops.iter().filter(|(when, _)| *when == at) {
                ladder.stop(now, request, StopIntent::Stop);
            }
            while let Some(rung) = ladder.due(now) {
                rungs.push((at, rung));
            }
        }
        assert_eq!(ladder.next(), None);
        rungs
    }

    #[test]
    fn each_rung_comes_once_in_its_time() {
        assert_eq!(
            times(&[(5, request(None, 100))]),
            [(5, Rung::Terminate), (105, Rung::Kill)]
        );
        assert_eq!(
            times(&[(0, request(Some(50), 0))]),
            [(0, Rung::CloseStdin), (50, Rung::Terminate), (50, Rung::Kill)]
        );
        assert_eq!(
            times(&[(3, asking(20, 50, 7))]),
            [
                (3, Rung::Interrupt),
                (23, Rung::CloseStdin),
                (73, Rung::Terminate),
                (80, Rung::Kill)
            ]
        );
    }

    #[test]
    fn a_second_stop_hastens_and_never_lengthens() {
        let patient = request(Some(1_000), 5_000);
        assert_eq!(
            times(&[(0, patient), (10, request(None, 100))]),
            [(0, Rung::CloseStdin), (10, Rung::Terminate), (110, Rung::Kill)]
        );
        assert_eq!(
            times(&[(0, asking(1_000, 1_000, 5_000)), (10, request(None, 100))]),
            [(0, Rung::Interrupt), (10, Rung::Terminate), (110, Rung::Kill)]
        );
        assert_eq!(
            times(&[(0, asking(1_000, 1_000, 5_000)), (10, request(Some(5), 5))]),
            [
                (0, Rung::Interrupt),
                (10, Rung::CloseStdin),
                (15, Rung::Terminate),
                (20, Rung::Kill)
            ]
        );
        assert_eq!(
            times(&[(0, request(None, 100)), (10, patient)]),
            [(0, Rung::Terminate), (100, Rung::Kill)]
        );
        assert_eq!(
            times(&[(0, request(None, 5_000)), (10, request(None, 5))]),
            [(0, Rung::Terminate), (15, Rung::Kill)]
        );
    }

    #[test]
    fn each_step_is_noted_with_its_time() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut ladder = Ladder::default();
        ladder.exited(at(0));
        assert!(ladder.steps().is_empty(), "nobody asked");
        ladder.stop(at(1), &request(Some(50), 100), StopIntent::Stop);
        ladder.stop(at(2), &request(Some(50), 100), StopIntent::Stop);
        ladder.due(at(1));
        ladder.due(at(51));
        ladder.due(at(152));
        ladder.exited(at(160));
        let steps: Vec<_> = ladder
            .steps()
            .iter()
            .map(|it| (it.step.as_str(), it.after_ms))
            .collect();
        let expected = [
            ("close_stdin", 0),
            ("sigterm", 50),
            ("sigkill", 151),
            ("exited", 159),
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn the_first_stop_names_the_intent() {
        let mut ladder = Ladder::default();
        assert_eq!(ladder.intent(), StopIntent::None);
        let now = Instant::now();
        ladder.stop(now, &request(Some(1), 1), StopIntent::Orphaned);
        ladder.stop(now, &request(None, 1), StopIntent::Stop);
        assert_eq!(ladder.intent(), StopIntent::Orphaned);
        assert!(!ladder.killed());
    }
}
