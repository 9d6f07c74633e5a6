//! Restarts and silence, as the records tell of them.

use super::*;
use crate::{
    domain::{RestartPolicy, RestartTerms},
    session::notes::Carried,
};

impl Bench {
    fn start_under(&mut self, terms: Option<RestartTerms>, carried: Vec<Carried>) {
        self.run = RunId::new();
        let turns = self.machine.turns();
        self.note(&Note::RunStarted(RunStarted {
            turns,
            restart: terms,
            carried,
            ..RunStarted::plain(self.run, StartMode::Resume)
        }));
        self.answer_initialize();
    }

    fn carried(&self) -> Vec<Carried> {
        let carried = self.machine.carried().iter();
        carried
            .map(|prompt| Carried {
                uuid: prompt.uuid,
                seq: prompt.seq,
            })
            .collect()
    }

    fn stop(&mut self, silent_for_ms: Option<u64>) {
        self.note(&Note::StopRequested {
            by: "test".to_owned(),
            start_timeout_ms: None,
            silent_for_ms,
            park: None,
        });
    }

    fn silent_micros(&self) -> Option<i64> {
        self.machine.silent_since().map(Timestamp::as_micros)
    }

    fn now(&self) -> Option<i64> {
        Some(1_000_000 + i64::try_from(self.seq.get()).unwrap())
    }
}

fn terms(max_restarts: u32) -> Option<RestartTerms> {
    let policy = RestartPolicy {
        max_restarts,
        window_ms: 1_000,
        first_delay_ms: 10,
        longest_delay_ms: 10,
        stable_ms: 1_000,
    };
    RestartTerms::asked(policy, false)
}

#[test]
fn the_state_never_fails_on_its_way_to_a_restart() {
    let mut bench = Bench::at_rest();
    bench.start_under(terms(1), Vec::new());
    let (begun, waits) = (bench.prompt(1), bench.prompt(2));
    bench.lifecycle(begun, "started");
    bench.exit(Some(0), None, StopIntent::None);
    bench.is(SessionState::Starting);
    assert!(bench.machine.reason().is_none());
    assert_eq!(bench.last_state_of(begun), Some(PromptState::Interrupted));
    assert_eq!(bench.last_state_of(waits), Some(PromptState::Queued));
    let due = bench.machine.restart().unwrap().clone();
    assert_eq!((due.attempt, due.reason.code.as_str()), (1, "cli_exited"));

    let carried = bench.carried();
    assert_eq!(carried.len(), 1);
    bench.start_under(Some(due.terms), carried);
    bench.is(SessionState::Busy);
    assert_eq!(bench.prompt(2), waits);
    assert_eq!(bench.last_state_of(waits), Some(PromptState::Sent));
    // Nothing more is allowed, so what waits ends too.
    bench.exit(None, Some(9), StopIntent::None);
    bench.is(SessionState::Failed);
    assert_eq!(
        bench.machine.reason().unwrap().code,
        "conversation_unusable",
        "it had done nothing"
    );
    assert_eq!(bench.last_state_of(waits), Some(PromptState::Interrupted));
}

#[test]
fn a_daemon_that_reads_from_the_last_start_knows_what_was_carried() {
    let mut bench = Bench::at_rest();
    let uuid = uuid::Uuid::from_bytes([7; 16]);
    let seq = Seq::new(3);
    bench.start_under(terms(1), vec![Carried { uuid, seq }]);
    bench.exit(None, Some(9), StopIntent::None);
    let again: Vec<_> = bench.carried().iter().map(|it| (it.uuid, it.seq)).collect();
    assert_eq!(again, [(uuid, seq)], "its line never came");
}

#[test]
fn a_stop_ends_the_wait_and_a_prompt_with_it() {
    let mut bench = Bench::at_rest();
    bench.start_under(terms(1), Vec::new());
    let waits = bench.prompt(1);
    bench.exit(None, Some(9), StopIntent::None);
    bench.is(SessionState::Starting);
    bench.stop(None);
    bench.is(SessionState::Stopped);
    assert!(bench.machine.restart().is_none());
    assert_eq!(bench.last_state_of(waits), Some(PromptState::Interrupted));
}

#[test]
fn a_start_that_fails_counts_as_a_restart_and_one_that_cannot_be_ends_them() {
    for (retry, state) in [(true, SessionState::Starting), (false, SessionState::Failed)] {
        let mut bench = Bench::at_rest();
        bench.start_under(terms(2), Vec::new());
        bench.exit(None, Some(9), StopIntent::None);
        let reason = FailReason {
            code: "start_failed".to_owned(),
            detail: "no".to_owned(),
        };
        bench.note(&Note::StartFailed { reason, retry });
        bench.is(state);
        let attempt = bench.machine.restart().map(|restart| restart.attempt);
        assert_eq!(attempt, retry.then_some(2));
    }
}

#[test]
fn what_was_lost_out_of_sight_is_not_restarted() {
    for watched in [true, false] {
        let mut bench = Bench::at_rest();
        bench.start_under(terms(1), Vec::new());
        bench.note(&Note::RunLost {
            run_id: bench.run,
            watched,
        });
        assert_eq!(bench.machine.restart().is_some(), watched);
    }
}

#[test]
fn a_person_who_stops_a_silent_process_wants_none_in_its_place() {
    for (asked, restarts) in [(false, true), (true, false)] {
        let mut bench = Bench::at_rest();
        bench.start_under(terms(1), Vec::new());
        bench.prompt(1);
        bench.stop(Some(5));
        if asked {
            bench.stop(None);
        }
        bench.exit(Some(143), None, StopIntent::Stop);
        assert_eq!(bench.machine.restart().is_some(), restarts, "asked: {asked}");
    }
}

#[test]
fn silence_is_measured_from_the_start_the_last_line_and_the_return_of_the_word() {
    let mut bench = Bench::at_rest();
    assert_eq!(bench.silent_micros(), None, "there is no process");
    bench.start(CliTotals::default());
    assert_eq!(bench.silent_micros(), bench.now());
    bench.answer_initialize();
    let ready = bench.now();
    bench.cli(r#"{"type":"keep_alive"}"#);
    assert_eq!(bench.silent_micros(), ready, "that its timers run says nothing");
    assert_eq!(bench.machine.silence(), None, "it owes nothing");
    bench.prompt(1);
    assert_eq!(bench.machine.silence().map(Timestamp::as_micros), bench.now());

    bench.cli(r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{}},{"type":"tool_use","id":"t2","name":"Read","input":{}}]}}"#);
    assert_eq!(bench.silent_micros(), None, "tools run");
    bench.cli(r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1"}]}}"#);
    assert_eq!(bench.silent_micros(), None, "one still runs");
    bench.cli(r#"{"type":"tool_progress","tool_use_id":"t2"}"#);
    bench.cli(r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t2"}]}}"#);
    assert_eq!(bench.silent_micros(), bench.now());

    bench.ask("r1");
    assert_eq!(bench.silent_micros(), None, "a person is asked");
    bench.client(r#"{"type":"control_response","response":{"subtype":"success","request_id":"r1","response":{"behavior":"deny","message":"no"}}}"#);
    assert_eq!(bench.silent_micros(), bench.now());
    for request in [
        r#"{"subtype":"hook_callback","callback_id":"c","input":{}}"#,
        r#"{"subtype":"mcp_message","server_name":"s","message":{"jsonrpc":"2.0","id":1,"method":"tools/call"}}"#,
    ] {
        bench.cli(&format!(
            r#"{{"type":"control_request","request_id":"r2","request":{request}}}"#
        ));
        assert_eq!(bench.silent_micros(), None, "{request}");
        bench.client(
            r#"{"type":"control_response","response":{"subtype":"success","request_id":"r2","response":{}}}"#,
        );
        assert_eq!(bench.silent_micros(), bench.now());
    }
    bench.cli(r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t3","name":"Bash","input":{}}]}}"#);
    bench.result("");
    assert_eq!(
        bench.silent_micros(),
        bench.now(),
        "the turn took its tools with it"
    );
}
