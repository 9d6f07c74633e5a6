//! The id to go back to: when there is one, and when it is of no use any more.

use super::*;

impl Bench {
    /// A process that goes on with a conversation.
    fn resume(&mut self, id: CliSessionId, earlier: Option<CliSessionId>) {
        self.run = RunId::new();
        let turns = self.machine.turns();
        self.note(&Note::RunStarted(RunStarted {
            parked: None,
            run_id: self.run,
            mode: StartMode::Resume,
            agent: None,
            cli_session_id: id,
            turns,
            base: CliTotals::default(),
            permission_mode: None,
            restart: None,
            carried: Vec::new(),
            earlier_session_id: earlier,
            restores: Vec::new(),
            left_out: Vec::new(),
            resume_at: None,
            has_choices: None,
        }));
    }

    /// The first line of a turn.
    fn reports(&mut self, id: CliSessionId) {
        self.cli(&format!(
            r#"{{"type":"system","subtype":"init","session_id":"{id}"}}"#
        ));
    }

    fn is_in(&self, id: CliSessionId, earlier: Option<CliSessionId>) {
        let view = self.machine.view(None);
        assert_eq!(
            (view.cli_session_id, view.earlier_session_id),
            (Some(id), earlier)
        );
    }
}

#[test]
fn a_new_id_has_to_prove_itself() {
    let (old, new) = (CliSessionId::new(), CliSessionId::new());
    let mut bench = Bench::at_rest();
    bench.resume(old, None);
    bench.answer_initialize();
    bench.is_in(old, None);
    bench.reports(new);
    bench.is_in(new, Some(old));
    assert_eq!(bench.machine.earlier_id_of(new), Some(old));
    assert_eq!(bench.machine.earlier_id_of(CliSessionId::new()), None);
    // The same again, and turns, prove nothing: only a process that finds the conversation by it does.
    bench.reports(new);
    bench.is_in(new, Some(old));
    bench.exit(Some(0), None, StopIntent::Stop);
    bench.resume(new, Some(old));
    bench.is_in(new, Some(old));
    bench.exit(Some(1), None, StopIntent::None);
    bench.is_in(new, Some(old));
    bench.resume(new, Some(old));
    bench.answer_initialize();
    bench.is_in(new, None);
}

#[test]
fn another_conversation_is_no_other_name_for_this_one() {
    let (old, new) = (CliSessionId::new(), CliSessionId::new());
    let mut bench = Bench::at_rest();
    bench.resume(old, None);
    bench.answer_initialize();
    bench.reports(old);
    bench.cli(r#"{"type":"conversation_reset"}"#);
    bench.reports(new);
    bench.is_in(new, None);
    // Nor is a reset after another id was reported.
    let (newer, newest) = (CliSessionId::new(), CliSessionId::new());
    bench.exit(Some(0), None, StopIntent::Stop);
    bench.resume(new, None);
    bench.answer_initialize();
    bench.reports(newer);
    bench.is_in(newer, Some(new));
    bench.cli(r#"{"type":"conversation_reset"}"#);
    bench.reports(newest);
    bench.is_in(newest, None);
    // A first start has nothing to go back to.
    bench.exit(Some(0), None, StopIntent::Stop);
    bench.start(CliTotals::default());
    bench.answer_initialize();
    bench.reports(old);
    bench.is_in(old, None);
}
