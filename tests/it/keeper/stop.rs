//! Owns the tests of stops: by ask, by end of input, by neglect; and that nothing of a run is left.

use std::time::{Duration, Instant};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use trunkline::{
    domain::{StopAction, StopIntent},
    keeper::{self, AttachError, StopRequest, WriteError},
};

use crate::keeper::support::{Bed, exited, is_running, marked, wait_for};

const IGNORES_SIGTERM: &str = "
signal.signal(signal.SIGTERM, signal.SIG_IGN)
say(type='up')
while True: time.sleep(60)
";

#[tokio::test]
async fn the_end_of_input_gives_time_to_finish() {
    let bed = Bed::new();
    let mut link = bed
        .launch(&bed.python("say(type='up'); sys.stdin.read(); time.sleep(0.7); say(type='saved')"))
        .await;
    bed.said("up").await;
    let request = StopRequest {
        close_stdin_first: true,
        eof_grace_ms: 15_000,
        term_grace_ms: 15_000,
        interrupt_grace_ms: 0,
    };
    link.handle.stop(request).await.unwrap();
    let exit = bed.ended(&mut link).await;
    assert_eq!(
        (exit.code, exit.intent, exit.killed),
        (Some(0), StopIntent::Stop, false)
    );
    bed.said("saved").await;
}

#[tokio::test]
async fn a_process_that_ignores_all_else_is_killed_in_time() {
    let bed = Bed::new();
    let mut link = bed.launch(&bed.python(IGNORES_SIGTERM)).await;
    bed.said("up").await;
    let start = Instant::now();
    let request = StopRequest {
        close_stdin_first: true,
        eof_grace_ms: 200,
        term_grace_ms: 300,
        interrupt_grace_ms: 0,
    };
    link.handle.stop(request).await.unwrap();
    let exit = bed.ended(&mut link).await;
    assert_eq!((exit.code, exit.signal, exit.killed), (None, Some(9), true));
    assert!(
        start.elapsed() >= Duration::from_millis(500),
        "each grace was given"
    );
    // By the keeper's own clock: what this test and a busy machine take is not in it.
    let killed = exit.stop_steps.iter().find(|it| it.step == StopAction::Sigkill);
    assert!(killed.unwrap().after_ms < 4_000, "{:?}", exit.stop_steps);
}

#[tokio::test]
async fn an_impatient_second_stop_is_heard() {
    let bed = Bed::new();
    let mut link = bed.launch(&bed.python(IGNORES_SIGTERM)).await;
    bed.said("up").await;
    let patient = StopRequest {
        term_grace_ms: 600_000,
        ..StopRequest::default()
    };
    link.handle.stop(patient).await.unwrap();
    let now = StopRequest {
        term_grace_ms: 0,
        ..patient
    };
    link.handle.stop(now).await.unwrap();
    link.handle.stop(patient).await.unwrap();
    assert!(bed.ended(&mut link).await.killed);
}

#[tokio::test]
async fn a_stopped_process_is_woken_to_end() {
    let bed = Bed::new();
    let mut link = bed
        .launch(&bed.python(
            "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); say(type='up')\nwhile True: time.sleep(0.05)",
        ))
        .await;
    bed.said("up").await;
    link.handle.signal(nix::libc::SIGSTOP).await.unwrap();
    link.handle.stop(StopRequest::default()).await.unwrap();
    assert_eq!(bed.ended(&mut link).await.code, Some(7));
}

/// Starts tools as agents do, and says who they are: in the group, in a session of its own, orphaned twice over, without
/// environment, deaf to SIGTERM.
const TOOLS: &str = "
shell = \"trap '' TERM HUP; echo $$; while :; do sleep 100; done\"
def tool(**more):
    child = subprocess.Popen(['sh', '-c', shell], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, **more)
    return int(child.stdout.readline())
def orphan(**more):
    r, w = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(w, str(tool(**more)).encode())
        os._exit(0)
    os.wait()
    return int(os.read(r, 20))
bare = {'PATH': os.environ['PATH']}
say(type='tools', pids=[tool(), tool(start_new_session=True), tool(start_new_session=True, env=bare),
    orphan(), orphan(start_new_session=True, env=bare)])
";

#[tokio::test]
async fn no_tool_outlives_a_stop() {
    let bed = Bed::new();
    let script = format!("{TOOLS}\nwhile True: time.sleep(60)");
    let mut link = bed.launch(&bed.python(&script)).await;
    let tools = bed.said("tools").await;
    let pids: Vec<_> = tools["pids"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pid| pid.as_i64().unwrap())
        .collect();
    assert_eq!(pids.len(), 5);
    assert!(pids.iter().all(|pid| is_running(*pid)));
    link.handle.stop(StopRequest::default()).await.unwrap();
    bed.ended(&mut link).await;
    assert!(!pids.iter().any(|pid| is_running(*pid)));
    assert!(bed.notices("descendants_left").is_empty());
}

#[tokio::test]
async fn no_tool_outlives_an_exit() {
    let bed = Bed::new();
    let mut link = bed.launch(&bed.python(TOOLS)).await;
    let exit = bed.ended(&mut link).await;
    assert_eq!((exit.code, exit.intent), (Some(0), StopIntent::None));
    let tools = bed.said("tools").await;
    for pid in tools["pids"].as_array().unwrap() {
        assert!(!is_running(pid.as_i64().unwrap()));
    }
}

#[tokio::test]
async fn a_tool_that_holds_stdout_open_does_not_hide_the_exit() {
    let bed = Bed::new();
    let start = Instant::now();
    let mut link = bed
        .launch(&bed.python(
            "subprocess.Popen(['sleep', '600'], start_new_session=True); say(type='result'); os._exit(0)",
        ))
        .await;
    assert_eq!(bed.ended(&mut link).await.code, Some(0));
    // The tool lives for ten minutes.
    assert!(start.elapsed() < Duration::from_secs(30));
    bed.said("result").await;
}

#[tokio::test]
async fn sigterm_to_the_keeper_stops_the_run() {
    let bed = Bed::new();
    let mut link = bed.launch(&bed.program("sleep", &["600"])).await;
    kill(Pid::from_raw(bed.identity().pid), Signal::SIGTERM).unwrap();
    let exit = bed.ended(&mut link).await;
    assert_eq!((exit.signal, exit.intent), (Some(15), StopIntent::Stop));
}

#[tokio::test]
async fn a_killed_keeper_takes_its_process_along_and_its_tools_can_be_found() {
    let bed = Bed::new();
    let script = format!("{TOOLS}\nwhile True: time.sleep(60)");
    let mut link = bed.launch(&bed.python(&script)).await;
    let tools = bed.said("tools").await;
    let child = link.hello.child_pid;
    kill(Pid::from_raw(bed.identity().pid), Signal::SIGKILL).unwrap();
    wait_for("the process to die", || !is_running(child.into())).await;
    assert!(link.events.recv().await.is_some());
    wait_for("the identity to be stale", || !bed.identity().may_live()).await;
    let result = keeper::attach(&bed.path("keeper.json"), &bed.tracker).await;
    assert!(matches!(result, Err(AttachError::ProcessGone)), "{result:?}");

    assert!(!marked(bed.run).is_empty());
    assert!(keeper::kill_leftovers("any", bed.run).unwrap().killed >= 3);
    bed.is_swept().await;
    // Those without the marker are beyond reach then; this test knows them.
    for pid in tools["pids"].as_array().unwrap() {
        let pid = i32::try_from(pid.as_i64().unwrap()).unwrap();
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }

    // The next keeper is not hindered by what the dead one left.
    let mut link = bed.launch(&bed.program("true", &[])).await;
    bed.ended(&mut link).await;
}

#[tokio::test]
async fn without_a_daemon_the_process_is_stopped_after_the_grace() {
    let bed = Bed::new();
    let mut plan = bed.program("cat", &[]);
    plan.limits.orphan_grace_ms = 300;
    let link = bed.launch(&plan).await;
    let start = Instant::now();
    link.handle.detach();
    drop(link);
    wait_for("the record of the exit", || {
        bed.records().last().unwrap().data["type"] == "run_exited"
    })
    .await;
    assert!(start.elapsed() >= Duration::from_millis(300));
    let last = bed.records().pop().unwrap();
    assert_eq!(
        (&last.data["intent"], &last.data["code"]),
        (&"orphaned".into(), &0.into())
    );
    assert_eq!(bed.notices("orphaned").len(), 1);
    wait_for("the keeper to clean up", || !bed.path("keeper.json").exists()).await;
    bed.is_swept().await;
}

#[tokio::test]
async fn a_process_that_still_talks_is_no_orphan() {
    let bed = Bed::new();
    let mut plan = bed.python("for n in range(40): say(type='tick', n=n); time.sleep(0.1)");
    plan.limits.orphan_grace_ms = 2_000;
    drop(bed.launch(&plan).await);
    wait_for("the record of the exit", || {
        bed.records().last().unwrap().data["type"] == "run_exited"
    })
    .await;
    assert_eq!(bed.records().pop().unwrap().data["intent"], "none");
    assert_eq!(bed.data("cli").len(), 40);
    bed.is_swept().await;
}

#[tokio::test]
async fn a_daemon_that_is_there_is_no_orphanage() {
    let bed = Bed::new();
    let mut plan = bed.python("time.sleep(1)");
    plan.limits.orphan_grace_ms = 100;
    let mut link = bed.launch(&plan).await;
    assert_eq!(exited(&mut link).await.intent, StopIntent::None);
    bed.is_swept().await;
}

/// A process that asks at SIGINT and says what it was told. Another line is no answer and is refused.
#[tokio::test]
async fn a_process_that_is_stopped_hears_answers_and_nothing_else() {
    let bed = Bed::new();
    let program = "
def leave(*_):
    say(type='asked')
    say(type='heard', line=sys.stdin.readline())
    sys.exit(0)
signal.signal(signal.SIGINT, leave)
say(type='up')
while True: time.sleep(60)
";
    let mut link = bed.launch(&bed.python(program)).await;
    bed.said("up").await;
    let request = StopRequest {
        close_stdin_first: true,
        interrupt_grace_ms: 60_000,
        ..StopRequest::default()
    };
    link.handle.stop(request).await.unwrap();
    bed.said("asked").await;
    let prompt = link.handle.write_line(None, r#"{"type":"user"}"#).await;
    assert!(matches!(prompt, Err(WriteError::Closed)), "{prompt:?}");
    let answer = r#"{"type":"control_response","response":{"request_id":"1"}}"#;
    link.handle.write_line(None, answer).await.unwrap();
    let exit = bed.ended(&mut link).await;
    assert_eq!((exit.code, exit.killed), (Some(0), false));
    let steps: Vec<_> = exit.stop_steps.iter().map(|it| it.step).collect();
    assert_eq!(steps, [StopAction::Sigint, StopAction::Exited]);
    bed.said("heard").await;
}
