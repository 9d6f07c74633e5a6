//! Parking, as the records tell of it.

use super::*;
use crate::domain::{ParkObstacle, ParkReason};

impl Bench {
    pub(super) fn park(&mut self) {
        self.note(&Note::StopRequested {
            by: "daemon".to_owned(),
            start_timeout_ms: None,
            silent_for_ms: None,
            park: Some(ParkReason::Idle),
        });
    }

    fn is_void(&self) -> bool {
        self.out.effects.iter().any(|it| matches!(it, Effect::ParkVoid))
    }
}

#[test]
fn a_park_ends_parked_however_the_process_ends() {
    let ends: [fn(&mut Bench); 3] = [
        |bench| bench.exit(Some(0), None, StopIntent::Stop),
        |bench| bench.exit(None, Some(9), StopIntent::None),
        |bench| {
            bench.note(&Note::RunLost {
                run_id: bench.run,
                watched: false,
            });
        },
    ];
    for end in ends {
        let mut bench = Bench::ready();
        bench.park();
        bench.is(SessionState::Stopping);
        end(&mut bench);
        bench.is(SessionState::Parked);
        assert_eq!(bench.machine.parked().map(|it| it.reason), Some(ParkReason::Idle));
        assert_eq!(bench.machine.reason(), None);
        bench.start(CliTotals::default());
        assert_eq!(bench.machine.parked(), None);
        bench.is(SessionState::Starting);
    }
}

#[test]
fn what_began_before_the_record_of_the_park_makes_it_void() {
    let mut bench = Bench::ready();
    bench.init();
    bench.park();
    assert!(bench.is_void());
    bench.is(SessionState::Busy);
    bench.exit(Some(1), None, StopIntent::None);
    bench.is(SessionState::Failed);
}

#[test]
fn a_stop_takes_a_park_back_and_a_park_no_stop() {
    let stop = Note::StopRequested {
        by: "rest".to_owned(),
        start_timeout_ms: None,
        silent_for_ms: None,
        park: None,
    };
    let mut bench = Bench::ready();
    bench.park();
    bench.note(&stop);
    bench.exit(Some(0), None, StopIntent::Stop);
    bench.is(SessionState::Stopped);

    let mut bench = Bench::ready();
    bench.note(&stop);
    bench.park();
    assert!(bench.is_void());
    bench.exit(Some(0), None, StopIntent::Stop);
    bench.is(SessionState::Stopped);

    let mut bench = Bench::ready();
    bench.park();
    bench.exit(Some(0), None, StopIntent::Stop);
    bench.note(&stop);
    bench.is(SessionState::Stopped);
}

#[test]
fn a_timer_of_this_process_is_in_the_way() {
    let call = |name: &str| {
        format!(
            r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","id":"t","name":"{name}","input":{{}}}},{{"type":"text","text":"CronCreate"}}]}}}}"#
        )
    };
    for (name, expected) in [("Read", None), ("ScheduleWakeup", Some(ParkObstacle::Timers))] {
        let mut bench = Bench::ready();
        bench.cli(&call(name));
        bench.result("");
        assert_eq!(bench.machine.park_obstacle(), expected, "{name}");
        bench.exit(Some(0), None, StopIntent::None);
        bench.start(CliTotals::default());
        bench.answer_initialize();
        assert_eq!(bench.machine.park_obstacle(), None);
    }
}
