//! Owns how the fold begins and ends a run.

use crate::{
    domain::{Fact, RunExit, RunId, StartMode},
    journal::RecordRef,
    session::{Offers, approvals, desk::Book, exit, money::Ledger, notes::RunStarted, turns},
};

use super::{Audit, Calls, Effect, Machine, Outcome, Run, Timers, Unasked};

impl Machine {
    pub(super) fn on_run_started(&mut self, started: RunStarted, record: &RecordRef<'_>, out: &mut Outcome) {
        self.run = Some(Run {
            id: started.run_id,
            started_at: record.at,
            ready: false,
            ready_at: None,
            resumed: started.mode == StartMode::Resume,
            resumes: (started.mode == StartMode::Resume).then_some(started.cli_session_id),
            turns_before: started.turns,
            restart: started.restart,
            stop_asked: false,
            asked_mode: started.permission_mode,
            refused_mode: None,
            start_timeout_ms: None,
            silent_for_ms: None,
            park: None,
            start_errors: Vec::new(),
        });
        self.last_run = Some(started.run_id);
        self.turns = started.turns;
        self.turn = None;
        self.restart = None;
        self.calls = Calls::default();
        self.noticed_silence = None;
        self.timers = Timers::default();
        self.parked = None;
        self.heard_at = None;
        self.owed_since = None;
        self.earlier = started.earlier_session_id;
        self.carry(&started.carried, record, out);
        self.approvals.clear();
        self.audit = Audit::default();
        self.desk = Book::default();
        self.own_requests.clear();
        self.background_tasks = 0;
        self.offers = Offers::default();
        self.reason = None;
        self.ledger = Ledger::start_run(started.base);
        self.unasked = Unasked::default();
        out.facts.push(Fact::RunStarted {
            id: started.run_id,
            mode: started.mode,
            agent: started.agent,
            seq: record.seq,
            at: record.at,
        });
        self.set_cli_session(started.cli_session_id, record.at, out);
    }

    pub(super) fn on_run_ended(
        &mut self,
        run_id: RunId,
        exit: Option<RunExit>,
        watched: bool,
        record: &RecordRef<'_>,
        out: &mut Outcome,
    ) {
        let Some(run) = self.run.take_if(|run| run.id == run_id) else {
            return;
        };
        let cut_short = self.turn.is_some() || !self.prompts.is_empty();
        let begun = self.begun();
        for approval in std::mem::take(&mut self.approvals) {
            let resolution = approvals::abandoned(record.at);
            self.close_approval(&approval, resolution, out);
        }
        if let Some(turn) = self.turn.take() {
            let turn = turns::cut_short(turn, run.id, &self.prompts, record);
            self.turns = turn.number;
            out.facts.push(Fact::TurnEnded(Box::new(turn.clone())));
            out.effects.push(Effect::TurnEnded(Box::new(turn), None));
        }
        self.desk = Book::default();
        self.own_requests.clear();
        self.background_tasks = 0;
        self.offers.tasks = None;
        self.calls = Calls::default();
        let (state, reason) = match (run.start_timeout_ms, &run.refused_mode, run.silent_for_ms) {
            (Some(ms), _, _) => exit::start_timed_out(ms, exit.as_ref()),
            (None, Some(detail), _) => exit::mode_refused(detail.clone()),
            (None, None, Some(ms)) => exit::silent(ms, exit.as_ref()),
            (None, None, None) => exit::rest_after(exit.as_ref(), run.ready, cut_short, &run.start_errors),
        };
        match run.park {
            Some(reason) => self.come_to_park(reason, record.at, out),
            None => self.come_to_rest((state, reason), &run, exit.as_ref(), watched, record),
        }
        self.settle_prompts(&begun, record.at, out);
        out.facts.push(Fact::RunExited {
            id: run.id,
            exit: exit.unwrap_or_else(exit::unseen),
            at: record.at,
        });
        out.effects.push(Effect::RunEnded);
    }
}
