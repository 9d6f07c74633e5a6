//! The state machine against single lines, and against what the real CLI printed.

mod conversation;
mod own;
mod park;
mod restart;
mod rules;

use proptest::prelude::*;

use super::*;
use crate::{
    domain::{ApprovalKind, RunExit, StartMode, StopIntent, TurnEnd, Usd, fact::CliTotals},
    session::{exit, notes::RunStarted},
};

/// A session under test: records are applied one after the other.
struct Bench {
    machine: Machine,
    run: RunId,
    seq: Seq,
    out: Outcome,
}

impl Bench {
    fn at_rest() -> Self {
        Self {
            machine: Machine::at_rest(AtRest::of_new(SessionId::new())),
            run: RunId::new(),
            seq: Seq::ZERO,
            out: Outcome::default(),
        }
    }

    fn started() -> Self {
        let mut bench = Self::at_rest();
        bench.start(CliTotals::default());
        bench
    }

    fn ready() -> Self {
        let mut bench = Self::started();
        bench.answer_initialize();
        bench
    }

    fn answer_initialize(&mut self) {
        self.client(&format!(
            r#"{{"type":"control_request","request_id":"{INITIALIZE_ID}","request":{{"subtype":"initialize"}}}}"#
        ));
        self.cli(&format!(
            r#"{{"type":"control_response","response":{{"subtype":"success","request_id":"{INITIALIZE_ID}","response":{{"claude_code_version":"2.1.332","current_permission_mode":"default"}}}}}}"#
        ));
    }

    fn start(&mut self, base: CliTotals) {
        self.run = RunId::new();
        let turns = self.machine.turns();
        self.note(&Note::RunStarted(RunStarted {
            turns,
            base,
            ..RunStarted::plain(self.run, StartMode::New)
        }));
    }

    fn exit(&mut self, code: Option<i32>, signal: Option<i32>, intent: StopIntent) {
        let exit = RunExit {
            code,
            signal,
            intent,
            ..exit::unseen()
        };
        self.note(&Note::RunExited {
            run_id: self.run,
            exit,
        });
    }

    fn record(&mut self, source: Source, data: &[u8]) {
        self.seq = self.seq.next();
        let record = RecordRef {
            seq: self.seq,
            at: Timestamp::from_micros(1_000_000 + i64::try_from(self.seq.get()).unwrap()),
            source,
            by: (source == Source::Client).then_some("test"),
            data,
            line: b"",
        };
        self.machine.apply(&record, &mut self.out);
    }

    fn cli(&mut self, line: &str) {
        self.record(Source::Cli, line.as_bytes());
    }

    fn client(&mut self, line: &str) {
        self.record(Source::Client, line.as_bytes());
    }

    fn note(&mut self, note: &Note) {
        self.record(Source::Daemon, &note.to_json());
    }

    fn prompt(&mut self, n: u8) -> PromptUuid {
        let uuid = uuid::Uuid::from_bytes([n; 16]);
        self.client(&format!(
            r#"{{"type":"user","message":{{"role":"user","content":"prompt {n}"}},"uuid":"{uuid}"}}"#
        ));
        uuid
    }

    fn lifecycle(&mut self, uuid: PromptUuid, state: &str) {
        self.cli(&format!(
            r#"{{"type":"command_lifecycle","command_uuid":"{uuid}","state":"{state}"}}"#
        ));
    }

    fn init(&mut self) {
        self.cli(r#"{"type":"system","subtype":"init","model":"m","permissionMode":"default"}"#);
    }

    fn result(&mut self, fields: &str) {
        self.cli(&format!(
            r#"{{"type":"result","subtype":"success","is_error":false{fields}}}"#
        ));
    }

    fn ask(&mut self, id: &str) {
        self.cli(&format!(
            r#"{{"type":"control_request","request_id":"{id}","request":{{"subtype":"can_use_tool","tool_name":"Bash","input":{{"command":"ls"}},"tool_use_id":"t"}}}}"#
        ));
    }

    #[track_caller]
    fn is(&self, state: SessionState) {
        assert_eq!(self.machine.state(), state, "after record {}", self.seq);
    }

    fn turns(&self) -> Vec<TurnEnd> {
        let ended = self.out.facts.iter().filter_map(|fact| match fact {
            Fact::TurnEnded(turn) => Some((**turn).clone()),
            _ => None,
        });
        ended.collect()
    }

    fn last_state_of(&self, uuid: PromptUuid) -> Option<PromptState> {
        self.out.facts.iter().rev().find_map(|fact| match fact {
            Fact::Prompt { uuid: of, state, .. } if *of == uuid => Some(*state),
            _ => None,
        })
    }
}

#[test]
fn a_turn_goes_from_idle_over_busy_to_idle() {
    let mut bench = Bench::started();
    bench.is(SessionState::Starting);
    bench = Bench::ready();
    bench.is(SessionState::Idle);
    let prompt = bench.prompt(1);
    bench.is(SessionState::Busy);
    bench.lifecycle(prompt, "started");
    bench.init();
    bench.cli(r#"{"type":"assistant","message":{"content":[]}}"#);
    bench.is(SessionState::Busy);
    bench.result(&format!(
        r#","total_cost_usd":0.25,"user_message_uuids":["{prompt}"]"#
    ));
    bench.is(SessionState::Idle);
    let [turn] = &bench.turns()[..] else {
        panic!("one turn")
    };
    assert_eq!((turn.number, &turn.prompts[..]), (1, &[prompt][..]));
    assert_eq!(turn.cost_usd, Usd::from_dollars(0.25));
    assert_eq!(bench.last_state_of(prompt), Some(PromptState::Completed));
}

#[test]
fn a_prompt_that_was_begun_and_never_closed_ends_with_the_word_that_nothing_runs() {
    let mut bench = Bench::ready();
    let begun = bench.prompt(1);
    bench.lifecycle(begun, "started");
    bench.result(r#","origin":{"kind":"task-notification"}"#);
    let queued = bench.prompt(2);
    bench.cli(r#"{"type":"system","subtype":"session_state_changed","state":"idle"}"#);
    assert_eq!(bench.last_state_of(begun), Some(PromptState::Completed));
    assert_eq!(bench.last_state_of(queued), Some(PromptState::Sent));
    let told: Vec<_> = bench
        .out
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::PromptDropped(uuid, state) => Some((*uuid, *state)),
            _ => None,
        })
        .collect();
    assert_eq!(
        told,
        [(begun, PromptState::Completed)],
        "who waits for it is told"
    );
}

#[test]
fn a_prompt_sent_while_starting_waits() {
    let mut bench = Bench::started();
    bench.prompt(1);
    bench.is(SessionState::Starting);
}

#[test]
fn a_result_is_not_the_end() {
    // Background work starts turns by itself, and asks for permissions after the result.
    let mut bench = Bench::ready();
    let prompt = bench.prompt(1);
    bench.init();
    bench.result(&format!(r#","user_message_uuids":["{prompt}"]"#));
    bench.is(SessionState::Idle);
    bench.ask("r1");
    bench.is(SessionState::Waiting);
    bench.client(
        r#"{"type":"control_response","response":{"subtype":"success","request_id":"r1","response":{"behavior":"allow","updatedInput":{}}}}"#,
    );
    bench.init();
    bench.is(SessionState::Busy);
    bench.result(r#","origin":{"kind":"task-notification"}"#);
    bench.is(SessionState::Idle);
    let turns = bench.turns();
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[1].origin.as_deref(), Some("task-notification"));
    assert!(turns[1].prompts.is_empty());
}

#[test]
fn the_late_result_of_an_interrupted_turn_leaves_the_next_prompt_alone() {
    let mut bench = Bench::ready();
    let first = bench.prompt(1);
    bench.lifecycle(first, "started");
    bench.init();
    let second = bench.prompt(2);
    bench.lifecycle(second, "queued");
    bench.cli(r#"{"type":"result","subtype":"error_during_execution","is_error":true,"total_cost_usd":0.1}"#);
    bench.is(SessionState::Busy);
    bench.lifecycle(second, "started");
    bench.init();
    bench.result(r#","total_cost_usd":0.3"#);
    bench.is(SessionState::Idle);
    let turns = bench.turns();
    assert_eq!(turns[0].prompts, [first]);
    assert_eq!(turns[1].prompts, [second]);
    assert_eq!(turns[1].cost_usd, Usd::from_dollars(0.2));
}

#[test]
fn one_result_can_answer_several_prompts() {
    let mut bench = Bench::ready();
    let prompts = [bench.prompt(1), bench.prompt(2)];
    bench.init();
    bench.result(&format!(
        r#","user_message_uuids":["{}","{}"]"#,
        prompts[0], prompts[1]
    ));
    bench.is(SessionState::Idle);
    assert_eq!(bench.turns()[0].prompts, prompts);
}

#[test]
fn a_cli_without_receipts_answers_its_prompts_in_their_order() {
    let mut bench = Bench::ready();
    let first = bench.prompt(1);
    let second = bench.prompt(2);
    bench.result("");
    bench.is(SessionState::Busy);
    bench.result("");
    bench.is(SessionState::Idle);
    assert_eq!(bench.turns()[0].prompts, [first]);
    assert_eq!(bench.turns()[1].prompts, [second]);
}

#[test]
fn a_cancelled_prompt_is_not_waited_for() {
    let mut bench = Bench::ready();
    let prompt = bench.prompt(1);
    bench.lifecycle(prompt, "queued");
    bench.lifecycle(prompt, "cancelled");
    bench.is(SessionState::Idle);
    assert_eq!(bench.last_state_of(prompt), Some(PromptState::Cancelled));
}

#[test]
fn approvals_are_kept_apart_and_end_once() {
    let mut bench = Bench::ready();
    bench.init();
    for id in ["r1", "r2", "r3"] {
        bench.ask(id);
    }
    assert_eq!(bench.machine.approvals().len(), 3);
    bench.client(
        r#"{"type":"control_response","response":{"subtype":"success","request_id":"r3","response":{"behavior":"deny","message":"no"}}}"#,
    );
    bench.cli(r#"{"type":"control_cancel_request","request_id":"r1"}"#);
    bench.cli(r#"{"type":"control_cancel_request","request_id":"unknown"}"#);
    bench.is(SessionState::Waiting);
    bench.exit(None, Some(9), StopIntent::None);
    bench.is(SessionState::Failed);
    let ends: Vec<_> = bench
        .out
        .facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::ApprovalClosed { resolution, .. } => Some((resolution.state, resolution.by.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(
        ends,
        [
            (ApprovalState::Denied, "test"),
            (ApprovalState::Withdrawn, "cli"),
            (ApprovalState::Abandoned, "daemon"),
        ]
    );
}

#[test]
fn the_kinds_of_approvals() {
    let mut bench = Bench::ready();
    for tool in ["Bash", "AskUserQuestion", "ExitPlanMode"] {
        bench.cli(&format!(
            r#"{{"type":"control_request","request_id":"{tool}","request":{{"subtype":"can_use_tool","tool_name":"{tool}","input":{{"x":"\ud83d"}}}}}}"#
        ));
    }
    bench.cli(r#"{"type":"control_request","request_id":"h","request":{"subtype":"hook_callback","callback_id":"c","input":{}}}"#);
    let kinds: Vec<_> = bench.machine.approvals().iter().map(|it| it.kind).collect();
    assert_eq!(
        kinds,
        [ApprovalKind::Tool, ApprovalKind::Question, ApprovalKind::Plan]
    );
    let asked: Vec<_> = bench
        .machine
        .desk()
        .open()
        .iter()
        .map(|it| it.request.subtype.as_str())
        .collect();
    assert_eq!(asked, ["hook_callback"]);
}

#[test]
fn a_process_that_dies_in_a_turn_leaves_nothing_open() {
    let mut bench = Bench::ready();
    let started = bench.prompt(1);
    bench.lifecycle(started, "started");
    bench.init();
    let queued = bench.prompt(2);
    bench.exit(Some(0), None, StopIntent::None);
    bench.is(SessionState::Failed);
    assert_eq!(
        bench.machine.reason().map(|it| it.code.as_str()),
        Some("cli_exited")
    );
    let [turn] = &bench.turns()[..] else {
        panic!("one turn")
    };
    assert_eq!((turn.subtype.as_str(), turn.cost_usd), ("interrupted", None));
    for prompt in [started, queued] {
        assert_eq!(bench.last_state_of(prompt), Some(PromptState::Interrupted));
    }
    // The next run counts on.
    bench.start(CliTotals::default());
    bench.is(SessionState::Starting);
    assert_eq!(bench.machine.turns(), 1);
}

#[test]
fn an_end_that_nobody_asked_for_is_no_stop_while_background_tasks_run() {
    let mut bench = Bench::ready();
    bench.cli(r#"{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"b1"}]}"#);
    bench.exit(Some(0), None, StopIntent::None);
    bench.is(SessionState::Failed);
    let reason = bench.machine.reason().unwrap();
    assert_eq!(reason.code, "cli_exited");
    assert!(reason.detail.contains("background tasks"), "{}", reason.detail);
}

#[test]
fn a_stop_is_a_stop_whatever_the_code() {
    let mut bench = Bench::ready();
    bench.prompt(1);
    bench.note(&Note::StopRequested {
        by: "test".to_owned(),
        start_timeout_ms: None,
        silent_for_ms: None,
        park: None,
    });
    bench.is(SessionState::Stopping);
    bench.exit(Some(143), None, StopIntent::Stop);
    bench.is(SessionState::Stopped);
    assert_eq!(bench.machine.reason(), None);
}

#[test]
fn clear_changes_the_conversation_and_its_counter() {
    let mut bench = Bench::ready();
    bench.result(r#","total_cost_usd":0.5"#);
    let new = CliSessionId::new();
    bench.cli(&format!(
        r#"{{"type":"conversation_reset","new_conversation_id":"{new}"}}"#
    ));
    bench.cli(&format!(
        r#"{{"type":"system","subtype":"init","session_id":"{new}"}}"#
    ));
    bench.result(r#","total_cost_usd":0,"num_turns":0"#);
    bench.result(r#","total_cost_usd":0.02"#);
    let costs: Vec<_> = bench.turns().iter().map(|turn| turn.cost_usd).collect();
    assert_eq!(costs, [0.5, 0.0, 0.02].map(Usd::from_dollars));
    assert_eq!(bench.machine.view(None).cli_session_id, Some(new));
}

#[test]
fn a_refused_mode_leaves_the_old_one() {
    let mut bench = Bench::ready();
    bench.client(r#"{"type":"control_request","request_id":"a","request":{"subtype":"set_permission_mode","mode":"bypassPermissions"}}"#);
    bench.cli(r#"{"type":"control_response","response":{"subtype":"error","request_id":"a","error":"no","error_code":"bypass_not_launched"}}"#);
    assert_eq!(
        bench.machine.view(None).permission_mode.as_deref(),
        Some("default")
    );
    bench.client(r#"{"type":"control_request","request_id":"b","request":{"subtype":"set_permission_mode","mode":"plan"}}"#);
    bench.cli(r#"{"type":"control_response","response":{"subtype":"success","request_id":"b","response":{"mode":"plan"}}}"#);
    assert_eq!(bench.machine.view(None).permission_mode.as_deref(), Some("plan"));
}

fn restoring(bench: &mut Bench, restores: &[&str]) {
    bench.note(&Note::RunStarted(RunStarted {
        restores: restores.iter().map(|id| (*id).to_owned()).collect(),
        ..RunStarted::plain(bench.run, StartMode::Resume)
    }));
    assert!(
        bench.machine.left_to_restore().is_empty(),
        "it cannot be asked yet"
    );
    bench.answer_initialize();
}

fn answered(bench: &mut Bench, id: &str, outcome: &str) {
    bench.cli(&format!(
        r#"{{"type":"control_response","response":{{{outcome},"request_id":"{id}"}}}}"#
    ));
}

#[test]
fn a_process_is_ready_once_it_has_what_was_set() {
    let mut bench = Bench::at_rest();
    restoring(&mut bench, &["one", "two"]);
    assert_eq!(bench.machine.left_to_restore(), ["one", "two"]);
    assert_eq!(bench.machine.state(), SessionState::Starting);
    answered(&mut bench, "one", r#""subtype":"success""#);
    assert_eq!(bench.machine.left_to_restore(), ["two"]);
    assert!(!bench.machine.is_ready());
    answered(&mut bench, "two", r#""subtype":"success""#);
    assert!(bench.machine.is_ready() && !bench.machine.is_restoring());
    assert_eq!(bench.machine.state(), SessionState::Idle);
}

#[test]
fn a_process_that_refuses_what_was_set_is_unwanted() {
    let mut bench = Bench::at_rest();
    restoring(&mut bench, &["one", "two"]);
    answered(&mut bench, "one", r#""subtype":"error","error":"no such rule""#);
    assert!(bench.machine.has_wrong_mode());
    assert!(
        bench.machine.left_to_restore().is_empty(),
        "nothing more is asked"
    );
    bench.note(&Note::StopRequested {
        by: "daemon".to_owned(),
        start_timeout_ms: None,
        silent_for_ms: None,
        park: None,
    });
    bench.exit(Some(0), None, StopIntent::Stop);
    let reason = bench.machine.reason().unwrap();
    assert_eq!(reason.code, FailReason::CHOICES_NOT_RESTORED);
    assert!(reason.detail.contains("no such rule"), "{}", reason.detail);
}

#[test]
fn another_permission_mode_than_asked_for_fails_the_start() {
    let mut bench = Bench::at_rest();
    bench.note(&Note::RunStarted(RunStarted {
        permission_mode: Some("auto".to_owned()),
        ..RunStarted::plain(bench.run, StartMode::New)
    }));
    bench.answer_initialize();
    assert!(bench.machine.has_wrong_mode());
    bench.note(&Note::StopRequested {
        by: "daemon".to_owned(),
        start_timeout_ms: None,
        silent_for_ms: None,
        park: None,
    });
    assert!(!bench.machine.has_wrong_mode());
    bench.exit(Some(143), None, StopIntent::Stop);
    bench.is(SessionState::Failed);
    let reason = bench
        .machine
        .reason()
        .map(|it| (it.code.as_str(), it.detail.as_str()));
    let detail = "the CLI runs in permission mode default, not in auto; once its settings, its model and its account \
                  allow auto, a resume works";
    assert_eq!(reason, Some(("permission_mode_refused", detail)));
    // The mode that was asked for is the one to ask for again.
    assert_eq!(bench.machine.view(None).permission_mode, None);
}

#[test]
fn a_start_that_fails_with_a_result_is_no_turn() {
    let mut bench = Bench::started();
    bench.cli(r#"{"type":"result","subtype":"error_during_execution","is_error":true,"num_turns":0,"total_cost_usd":0,"errors":["No conversation found with session ID: x"]}"#);
    bench.exit(Some(1), None, StopIntent::None);
    bench.is(SessionState::Failed);
    assert_eq!(
        bench.machine.reason().map(|it| it.code.as_str()),
        Some("conversation_not_found")
    );
    assert!(bench.turns().is_empty());
}

/// The state of the machine after a whole recording of the real CLI, replies of the host included where they matter.
#[test]
fn recordings_end_at_rest() {
    for (name, turns) in [
        ("01-plain-turn", 2),
        ("57-slash-commands", 10),
        ("43-background-bash", 2),
    ] {
        let path = format!("tests/fixtures/recordings/{name}.ndjson");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut bench = Bench::ready();
        for line in text.lines() {
            bench.cli(line);
        }
        bench.is(SessionState::Idle);
        assert_eq!(bench.turns().len(), turns, "{name}");
    }
}

proptest! {
    /// In any order of records, a session without a run is at rest, and nothing stays open in it.
    #[test]
    fn no_order_of_records_breaks_it(steps in proptest::collection::vec(0_u8..17, 0..60)) {
        let mut bench = Bench::ready();
        let uuid = uuid::Uuid::from_bytes([3; 16]);
        for step in steps {
            match step {
                0 => drop(bench.prompt(3)),
                1 => bench.lifecycle(uuid, "queued"),
                2 => bench.lifecycle(uuid, "started"),
                3 => bench.lifecycle(uuid, "completed"),
                4 => bench.lifecycle(uuid, "cancelled"),
                5 => bench.init(),
                6 => bench.result(r#","total_cost_usd":0.1"#),
                7 => bench.ask("r1"),
                8 => bench.cli(r#"{"type":"control_cancel_request","request_id":"r1"}"#),
                9 => bench.exit(Some(0), None, StopIntent::None),
                10 => bench.start(CliTotals::default()),
                11 => bench.note(&Note::RunLost { run_id: bench.run, watched: true }),
                12 => bench.cli(r#"{"type":"from_the_future"}"#),
                13 => bench.cli("[]"),
                14 => bench.cli(r#"{"type":"system","subtype":"session_state_changed","state":"idle"}"#),
                15 => bench.park(),
                _ => bench.note(&Note::StopRequested { by: "x".to_owned(), start_timeout_ms: None, silent_for_ms: None, park: None }),
            }
            let view = bench.machine.view(Some(1));
            prop_assert_eq!(view.head_seq, bench.seq);
            if bench.machine.has_run() {
                prop_assert!(view.state.is_live());
            } else {
                prop_assert!(!view.state.is_live());
                prop_assert!(view.approvals.is_empty() && view.open_prompts.is_empty() && view.turn.is_none());
                prop_assert_eq!(view.cli_pid, None);
            }
        }
        let numbers: Vec<_> = bench.turns().iter().map(|turn| turn.number).collect();
        let expected: Vec<_> = (1..=numbers.len() as u64).collect();
        prop_assert_eq!(numbers, expected);
    }
}

#[test]
fn a_second_stop_does_not_take_the_reason_of_the_first_back() {
    let mut bench = Bench::started();
    for start_timeout_ms in [Some(5), None] {
        bench.note(&Note::StopRequested {
            by: "daemon".to_owned(),
            start_timeout_ms,
            silent_for_ms: None,
            park: None,
        });
    }
    bench.exit(Some(143), None, StopIntent::Stop);
    bench.is(SessionState::Failed);
    let reason = bench.machine.reason().map(|reason| reason.code.as_str());
    assert_eq!(reason, Some("start_timed_out"));
}

#[test]
fn a_second_result_is_no_turn_of_its_own() {
    let mut bench = Bench::ready();
    let first = bench.prompt(1);
    bench.init();
    bench.result(&format!(
        r#","num_turns":1,"total_cost_usd":2.1,"user_message_uuids":["{first}"]"#
    ));
    for stray in [
        r#","num_turns":0,"total_cost_usd":0"#.to_owned(),
        format!(r#","num_turns":0,"total_cost_usd":0,"user_message_uuids":["{first}"]"#),
        r#","num_turns":0"#.to_owned(),
    ] {
        bench.result(&stray);
        bench.is(SessionState::Idle);
    }
    // A CLI that gives no receipts: the next prompt is written before the line comes.
    let next = bench.prompt(2);
    bench.result(r#","num_turns":0,"total_cost_usd":0"#);
    bench.is(SessionState::Busy);
    bench.init();
    bench.result(r#","num_turns":1,"total_cost_usd":2.3"#);
    bench.is(SessionState::Idle);
    let turns: Vec<_> = bench
        .turns()
        .into_iter()
        .map(|turn| (turn.number, turn.prompts, turn.cost_usd))
        .collect();
    assert_eq!(
        turns,
        [
            (1, vec![first], Usd::from_dollars(2.1)),
            (2, vec![next], Usd::from_dollars(0.2))
        ]
    );
}

#[test]
fn a_result_without_a_model_call_may_end_a_turn() {
    let mut bench = Bench::ready();
    let named = bench.prompt(1);
    bench.result(&format!(r#","num_turns":0,"user_message_uuids":["{named}"]"#));
    bench.is(SessionState::Idle);
    bench.prompt(2);
    bench.init();
    bench.result(r#","num_turns":0,"total_cost_usd":0"#);
    bench.is(SessionState::Idle);
    // Money that was spent is in some turn.
    bench.result(r#","num_turns":0,"total_cost_usd":0.5"#);
    assert_eq!(bench.turns().len(), 3);
}
