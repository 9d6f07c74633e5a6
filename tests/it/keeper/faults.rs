//! Owns the tests of floods and refusing disks, and of helper commands.

use std::{fs, path::Path, time::Duration};

use bytes::Bytes;
use trunkline::{
    keeper::{StopRequest, WriteError},
    os::{CaptureError, capture},
};

use crate::keeper::support::{Bed, exited, is_running, wait_for};

#[tokio::test]
async fn a_flood_on_stderr_is_read_and_bounded() {
    let bed = Bed::new();
    let mut link = bed
        .launch(&bed.python(
            "
sys.stderr.write('e' * 1_000_000)
sys.stderr.flush()
say(type='up')
sys.stderr.write('ü' * 50_000 + 'the reason')
sys.exit(2)
",
        ))
        .await;
    let exit = bed.ended(&mut link).await;
    bed.said("up").await;
    assert_eq!(exit.code, Some(2));
    assert!(exit.stderr_tail.ends_with("üüüthe reason"));
    assert!(
        !exit.stderr_tail.contains('\u{fffd}'),
        "the tail begins with a whole character"
    );
    assert!((16_000..=16_384).contains(&exit.stderr_tail.len()));
    let pieces = bed.data("stderr");
    let bytes: usize = pieces
        .iter()
        .map(|data| data["text"].as_str().unwrap().len())
        .sum();
    assert!((60_000..=65_536).contains(&bytes), "{bytes}");
    assert!(
        pieces
            .iter()
            .all(|data| data["text"].as_str().unwrap().len() <= 4_096)
    );
    assert_eq!(bed.notices("stderr_dropped").len(), 1);
}

#[expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
/// Each batch begins a new segment, so a journal folder that is moved away refuses every batch, as a full disk does.
async fn on_a_disk_that_refuses(give_up_ms: u64) -> (Bed, trunkline::keeper::Link) {
    let bed = Bed::new();
    let mut plan = bed.python(
        "
say(type='up')
for text in sys.stdin: say(type='echo', n=json.loads(text)['n'])
say(type='last')
",
    );
    plan.limits.segment_bytes = 1;
    plan.limits.journal_give_up_ms = give_up_ms;
    plan.limits.drain_ms = 200;
    let link = bed.launch(&plan).await;
    bed.said("up").await;
    fs::rename(bed.path("journal"), bed.path("away")).unwrap();
    (bed, link)
}

#[tokio::test]
async fn a_disk_that_recovers_loses_nothing() {
    let (bed, mut link) = on_a_disk_that_refuses(60_000).await;
    let handle = link.handle.clone();
    let write = bed
        .tracker
        .spawn(async move { handle.write_line(None, Bytes::from_static(br#"{"n":1}"#)).await });
    let mut refused = false;
    for _ in 0..200 {
        let note = link.handle.note(Bytes::from_static(br#"{"type":"state"}"#));
        match tokio::time::timeout(Duration::from_millis(50), note).await {
            Ok(Err(WriteError::Busy)) => {
                refused = true;
                break;
            }
            Ok(other) => panic!("{other:?}"),
            Err(_) => {}
        }
    }
    assert!(refused, "a note is refused, not kept");
    assert!(is_running(link.hello.child_pid.into()));
    link.handle.close_stdin().await.unwrap();
    fs::rename(bed.path("away"), bed.path("journal")).unwrap();
    write.await.unwrap().unwrap();
    assert_eq!(bed.ended(&mut link).await.code, Some(0));
    let kinds: Vec<_> = bed.data("cli").iter().map(|data| data["type"].clone()).collect();
    assert_eq!(kinds, ["up", "echo", "last"]);
    assert_eq!(bed.notices("journal_was_blocked").len(), 1);
}

#[tokio::test]
async fn a_disk_that_stays_full_stops_no_stop() {
    let (bed, mut link) = on_a_disk_that_refuses(300).await;
    let handle = link.handle.clone();
    let write = bed
        .tracker
        .spawn(async move { handle.write_line(None, Bytes::from_static(br#"{"n":1}"#)).await });
    link.handle.stop(StopRequest::default()).await.unwrap();
    let exit = exited(&mut link).await;
    assert_eq!(exit.signal, Some(15));
    assert!(
        write.await.unwrap().is_err(),
        "what is not in the journal was not taken"
    );
    wait_for("the keeper to clean up", || !bed.path("keeper.json").exists()).await;
    bed.is_swept().await;
    fs::rename(bed.path("away"), bed.path("journal")).unwrap();
    assert_eq!(bed.data("client").len(), 0);
}

#[tokio::test]
async fn a_helper_command_is_captured_and_bounded() {
    let env = vec![("PATH".to_owned(), std::env::var("PATH").unwrap())];
    let long = Duration::from_secs(20);
    let sh = Path::new("/bin/sh");
    let captured = capture(sh, &["-c", "echo \"$X\"; cat; echo bad >&2; exit 4"], &env, long)
        .await
        .unwrap();
    assert_eq!(captured.code, Some(4));
    assert_eq!(captured.stdout, b"\n");
    assert_eq!(captured.stderr, b"bad\n");

    let flood = "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2";
    let captured = capture(sh, &["-c", flood], &env, long).await.unwrap();
    assert_eq!(
        (captured.stdout.len(), captured.stderr.len()),
        (256 << 10, 256 << 10)
    );

    let result = capture(Path::new("/no/such"), &["x"], &env, long).await;
    assert!(matches!(result, Err(CaptureError::Spawn(_))));
}

#[tokio::test]
async fn a_helper_command_dies_at_its_deadline_with_its_children() {
    let bed = Bed::new();
    let file = bed.path("pid");
    let script = format!("sleep 600 & echo $! > {}; wait", file.display());
    let env = vec![("PATH".to_owned(), std::env::var("PATH").unwrap())];
    let result = capture(
        Path::new("/bin/sh"),
        &["-c", &script],
        &env,
        // Time enough to say who its child is.
        Duration::from_secs(3),
    )
    .await;
    assert!(matches!(result, Err(CaptureError::Timeout)));
    let pid: i64 = fs::read_to_string(file).unwrap().trim().parse().unwrap();
    wait_for("the child to die", || !is_running(pid)).await;
}
