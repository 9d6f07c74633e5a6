//! Owns the tests of starts: what the process is given, and why it may not start.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
};

use serde_json::json;
use trunkline::{
    domain::{RunId, StopIntent},
    keeper::{LaunchError, LaunchFailureCause as Cause, LaunchPlan, RUN_MARKER, StopRequest},
    os::capture,
};

use crate::keeper::support::{Bed, SOON, TRUNKLINE, is_running, line, wait_for};

#[tokio::test]
async fn the_process_gets_exactly_what_the_plan_says() {
    let bed = Bed::new();
    let mut plan = bed.python(
        "
status = dict(l.split(':', 1) for l in open('/proc/self/status'))
mask = os.umask(0)
say(type='facts', args=sys.argv[1:], env=dict(os.environ), cwd=os.getcwd(), umask=mask,
    fds=sorted(int(f) for f in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + f)),
    blocked=status['SigBlk'].strip(), ignored=status['SigIgn'].strip(),
    group=os.getpgrp() == os.getpid(), session=os.getsid(0) == os.getppid())
",
    );
    // A launcher in between would add to the environment.
    let python = capture(
        &plan.program,
        &["-c", "import sys; print(sys.executable)"],
        &plan.env,
        SOON,
    );
    plan.program = String::from_utf8(python.await.unwrap().stdout)
        .unwrap()
        .trim()
        .into();
    plan.args
        .extend(["--x=ä b".to_owned(), String::new(), "$HOME; \"'".to_owned()]);
    plan.env.push(("TOKEN".to_owned(), "a=b\nc".to_owned()));
    let mut link = bed.launch(&plan).await;
    assert_eq!(bed.ended(&mut link).await.code, Some(0));

    let facts = bed.said("facts").await;
    assert_eq!(facts["args"], json!(["--x=ä b", "", "$HOME; \"'"]));
    let mut env = facts["env"].clone();
    // Python sets this by itself in the C locale.
    env.as_object_mut().unwrap().remove("LC_CTYPE");
    assert_eq!(
        env,
        json!({"PATH": std::env::var("PATH").unwrap(), "TOKEN": "a=b\nc", RUN_MARKER: bed.run.to_string()})
    );
    let cwd = fs::canonicalize(&plan.cwd).unwrap();
    assert_eq!(facts["cwd"], cwd.to_str().unwrap());
    assert_eq!(facts["fds"], json!([0, 1, 2]));
    assert_eq!(facts["blocked"], "0".repeat(16));
    // Python itself ignores SIGPIPE (13) and SIGXFSZ (25); glibc keeps 32 and 33 for itself.
    let ignored = u64::from_str_radix(facts["ignored"].as_str().unwrap(), 16).unwrap();
    assert_eq!(ignored & 0x7fff_ffff, 1 << 12 | 1 << 24);
    assert_eq!(facts["group"], true);
    assert_eq!(facts["session"], true, "the keeper leads the session");
    // It is read and not set, as other tests may run in this process.
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:"))
        .unwrap();
    assert_eq!(
        facts["umask"],
        u32::from_str_radix(mask.trim(), 8).unwrap(),
        "files of the process are the user's as ever"
    );
}

#[tokio::test]
async fn the_keepers_files_are_private() {
    let bed = Bed::new();
    let mut link = bed.launch(&bed.program("cat", &[])).await;
    for name in ["keeper.json", "socket", "journal/00000000000000000001.ndjson"] {
        let mode = fs::metadata(bed.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let mode = fs::metadata(bed.path("journal")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let command_line = fs::read_to_string(format!("/proc/{}/cmdline", bed.identity().pid)).unwrap();
    assert_eq!(
        command_line.split('\0').skip(1).collect::<Vec<_>>(),
        ["keeper", ""]
    );
    link.handle.close_stdin().await.unwrap();
    bed.ended(&mut link).await;
}

#[tokio::test]
async fn an_end_that_comes_at_once_is_told_with_its_reason() {
    let bed = Bed::new();
    let mut plan = bed.program("sh", &["-c", "echo 'not logged in' >&2; exit 3"]);
    plan.first_lines = vec![line(r#"{"type":"control_request"}"#); 3];
    let mut link = bed.launch(&plan).await;
    let exit = bed.ended(&mut link).await;
    assert_eq!(
        (exit.code, exit.signal, exit.intent),
        (Some(3), None, StopIntent::None)
    );
    assert_eq!(exit.stderr_tail, "not logged in\n");
    let stderr = bed.data("stderr");
    assert_eq!(stderr, [json!({"text": "not logged in"})]);

    let bed = Bed::new();
    let mut link = bed.launch(&bed.program("/bin/false", &[])).await;
    assert_eq!(bed.ended(&mut link).await.code, Some(1));
}

#[tokio::test]
async fn a_crash_names_its_signal() {
    let bed = Bed::new();
    let mut link = bed
        .launch(&bed.python("os.kill(os.getpid(), signal.SIGSEGV)"))
        .await;
    let exit = bed.ended(&mut link).await;
    assert_eq!((exit.code, exit.signal, exit.killed), (None, Some(11), false));
}

#[expect(clippy::panic, reason = "a test that cannot go on fails")]
async fn failure(bed: &Bed, plan: &LaunchPlan) -> Cause {
    match bed.try_launch(plan).await {
        Err(LaunchError::Failed(failure)) => failure.cause,
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("it started"),
    }
}

/// Makes a plan that cannot start.
type Change = fn(&Bed, &mut LaunchPlan);

#[tokio::test]
async fn each_failed_start_has_its_reason_and_a_record() {
    let cases: [(&str, Cause, Change); 7] = [
        ("missing program", Cause::ProgramMissing, |_, plan| {
            plan.program = "/no/such".into()
        }),
        ("missing name", Cause::ProgramMissing, |_, plan| {
            plan.program = "no-such-name".into()
        }),
        ("directory", Cause::ProgramNotExecutable, |_, plan| {
            plan.program = "/tmp".into()
        }),
        ("no interpreter", Cause::ProgramNotExecutable, |bed, plan| {
            plan.program = bed.path("script");
            fs::write(&plan.program, "#!/no/such\n").unwrap();
            fs::set_permissions(&plan.program, fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("missing directory", Cause::CwdMissing, |_, plan| {
            plan.cwd = "/no/such".into()
        }),
        ("file as directory", Cause::CwdNotDirectory, |_, plan| {
            plan.cwd = "/etc/passwd".into()
        }),
        ("long", Cause::TooLong, |_, plan| {
            plan.args.push("x".repeat(4 << 20))
        }),
    ];
    for (name, expected, change) in cases {
        let bed = Bed::new();
        let mut plan = bed.program("true", &[]);
        change(&bed, &mut plan);
        assert_eq!(failure(&bed, &plan).await, expected, "{name}");
        let records = bed.records();
        assert_eq!(records.len(), 2, "{name}");
        assert_eq!(records[0].data["type"], "run_started", "{name}");
        assert_eq!(records[1].data["type"], "run_exited", "{name}");
        assert!(records[1].data["spawn_error"].is_string(), "{name}");
        assert!(
            !bed.path("socket").exists() && !bed.path("keeper.json").exists(),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_plan_that_cannot_be_carried_out_starts_nothing() {
    let bed = Bed::new();
    let mut plan = bed.program("true", &[]);
    plan.start_note = "not json".to_owned();
    assert_eq!(failure(&bed, &plan).await, Cause::Plan);
    let mut plan = bed.program("true", &[]);
    plan.first_lines = vec![line("{}\n{}")];
    assert_eq!(failure(&bed, &plan).await, Cause::Plan);
    let mut plan = bed.program("true", &[]);
    plan.socket = "socket".into();
    assert_eq!(failure(&bed, &plan).await, Cause::Plan);
    let mut plan = bed.program("true", &[]);
    plan.socket = bed.path(&"s".repeat(200));
    assert_eq!(failure(&bed, &plan).await, Cause::Socket);
    assert!(bed.data("daemon").is_empty());
    let result = trunkline::keeper::launch(std::path::Path::new("/no/such"), &plan, &bed.tracker).await;
    assert!(matches!(result, Err(LaunchError::Keeper(_))));
    let result = trunkline::keeper::launch(std::path::Path::new("/bin/true"), &plan, &bed.tracker).await;
    assert!(matches!(result, Err(LaunchError::NoReport { .. })));
}

/// The daemon dies between the plan and the report, or becomes another program.
#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    reason = "starts a keeper as a daemon does that dies"
)]
async fn a_start_whose_report_nobody_hears_goes_on() {
    let bed = Bed::new();
    let plan = bed.python("say(type='up')\nsys.stdin.read()");
    let mut keeper = Command::new(TRUNKLINE)
        .arg("keeper")
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(keeper.stdout.take());
    let mut stdin = keeper.stdin.take().unwrap();
    stdin.write_all(&serde_json::to_vec(&plan).unwrap()).unwrap();
    drop(stdin);

    wait_for("the keeper to say how to reach it", || {
        bed.path("keeper.json").exists()
    })
    .await;
    bed.said("up").await;
    let mut link = bed.attach().await;
    assert!(is_running(link.hello.child_pid.into()));
    link.handle.close_stdin().await.unwrap();
    assert_eq!(bed.ended(&mut link).await.code, Some(0));
    assert!(keeper.wait().unwrap().success());
}

#[tokio::test]
async fn a_session_and_a_lease_have_one_keeper_at_a_time() {
    let bed = Bed::new();
    let mut plan = bed.program("cat", &[]);
    plan.lease_file = Some(bed.path("lease"));
    let mut link = bed.launch(&plan).await;

    let mut same_journal = plan.clone();
    same_journal.run = RunId::new();
    assert_eq!(failure(&bed, &same_journal).await, Cause::JournalLocked);
    let mut same_lease = plan.clone();
    same_lease.journal_dir = bed.path("other");
    assert_eq!(failure(&bed, &same_lease).await, Cause::LeaseHeld);

    assert!(is_running(link.hello.child_pid.into()));
    assert!(bed.identity().may_live(), "the first keeper is as it was");
    link.handle.stop(StopRequest::default()).await.unwrap();
    bed.ended(&mut link).await;
    let mut link = bed.launch(&plan).await;
    link.handle.close_stdin().await.unwrap();
    bed.ended(&mut link).await;
}
