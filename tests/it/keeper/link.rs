//! Owns the tests of the link: who may connect, what a daemon that comes back finds.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{fs::PermissionsExt as _, net::UnixStream, process::CommandExt as _},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use bytes::Bytes;
use nix::unistd::geteuid;
use serde_json::json;
use tokio_util::task::TaskTracker;
use trunkline::{
    domain::RunId,
    keeper::{self, AttachError, KeeperEvent, StopRequest, WriteError},
};

use crate::keeper::support::{Bed, SOON, is_running, pass, send};

const ECHO: &str = "for text in sys.stdin: say(type='echo', n=json.loads(text)['n'])";

#[tokio::test]
async fn daemons_come_and_go_in_a_stream_and_no_record_is_lost_or_doubled() {
    let bed = Bed::new();
    let mut link = bed
        .launch(&bed.python(
            "
import select
n = 0
while not select.select([sys.stdin], [], [], 0.0001)[0]:
    say(type='tick', n=n)
    n += 1
",
        ))
        .await;
    let mut seen = link.hello.head;
    for round in 0..10 {
        let event = tokio::time::timeout(SOON, link.events.recv()).await.unwrap();
        if let Some(KeeperEvent::Head(head)) = event {
            assert!(head.seq > seen.seq, "heads only grow");
        }
        if round % 2 == 0 {
            link.handle.detach();
        }
        drop(link);
        link = bed.attach().await;
        assert!(link.hello.head.seq >= seen.seq);
        seen = link.hello.head;
    }
    // It ticks until it is told something, so that every daemon finds it in its stream.
    send(&link, "again", "{}".to_owned()).await;
    assert_eq!(bed.ended(&mut link).await.code, Some(0));
    let ticks: Vec<_> = bed
        .data("cli")
        .iter()
        .map(|data| data["n"].as_u64().unwrap())
        .collect();
    assert!(
        ticks.len() >= 10,
        "each daemon saw the stream go on: {}",
        ticks.len()
    );
    assert_eq!(ticks, (0..ticks.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_keeper_outlives_the_thread_and_the_runtime_that_started_it() {
    let bed = Bed::new();
    let plan = bed.python(ECHO);
    let child = thread::scope(|scope| {
        let first = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let tracker = TaskTracker::new();
            runtime.block_on(async {
                let program = std::path::Path::new(crate::keeper::support::TRUNKLINE);
                let link = keeper::launch(program, &plan, &tracker).await.unwrap();
                send(&link, "a", r#"{"n":1}"#.to_owned()).await;
                link.handle.detach();
                tracker.close();
                // Nothing of the link keeps a daemon from ending.
                tokio::time::timeout(SOON, tracker.wait()).await.unwrap();
                link.hello.child_pid
            })
        };
        scope.spawn(first).join().unwrap()
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        assert!(is_running(child.into()));
        let mut link = bed.attach().await;
        assert_eq!(link.hello.child_pid, child);
        send(&link, "b", r#"{"n":2}"#.to_owned()).await;
        link.handle.close_stdin().await.unwrap();
        assert_eq!(bed.ended(&mut link).await.code, Some(0));
        let numbers: Vec<_> = bed.data("cli").iter().map(|data| data["n"].clone()).collect();
        assert_eq!(numbers, [1, 2]);
    });
}

#[tokio::test]
async fn what_was_taken_outlives_its_daemon() {
    let bed = Bed::new();
    let mut link = bed
        .launch(
            &bed.python(
                "
say(type='up')
signal.pause_for = signal.sigwait([signal.SIGUSR1])
for text in sys.stdin: say(type='echo', n=json.loads(text)['n'])
"
                .replace(
                    "say(type='up')",
                    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]); say(type='up')",
                )
                .as_str(),
            ),
        )
        .await;
    bed.said("up").await;
    let filler = "f".repeat(100_000);
    let begun = format!(r#"{{"n":1,"f":"{filler}"}}"#);
    send(&link, "a", begun).await;
    // The pipe is full: this one is in the journal before the process can have read it.
    send(&link, "a", r#"{"n":2}"#.to_owned()).await;
    drop(link);
    link = bed.attach().await;
    let after = link
        .handle
        .write_line(Some("b"), Bytes::from_static(br#"{"n":3}"#));
    link.handle.signal(nix::libc::SIGUSR1).await.unwrap();
    after.await.unwrap();
    link.handle.close_stdin().await.unwrap();
    assert_eq!(bed.ended(&mut link).await.code, Some(0));
    let numbers = |src| -> Vec<_> { bed.data(src).iter().map(|data| data["n"].clone()).collect() };
    assert_eq!(numbers("client"), [1, 2, 3]);
    assert_eq!(numbers("cli")[1..], [json!(1), json!(2), json!(3)]);
}

#[tokio::test]
async fn the_newest_daemon_has_the_keeper() {
    let bed = Bed::new();
    let mut first = bed.launch(&bed.python(ECHO)).await;
    let mut second = bed.attach().await;
    let mut event = first.events.recv().await;
    while let Some(KeeperEvent::Head(_)) = event {
        event = first.events.recv().await;
    }
    assert_eq!(event, Some(KeeperEvent::Gone));
    assert_eq!(first.events.recv().await, None);
    assert_eq!(
        first.handle.write_line(None, Bytes::from_static(b"{}")).await,
        Err(WriteError::Gone)
    );
    assert!(first.handle.stop(StopRequest::default()).await.is_err());
    send(&second, "two", r#"{"n":5}"#.to_owned()).await;
    second.handle.stop(StopRequest::default()).await.unwrap();
    bed.ended(&mut second).await;
}

#[tokio::test]
async fn only_who_knows_the_secret_and_the_version_is_let_in() {
    let bed = Bed::new();
    let mut link = bed.launch(&bed.program("cat", &[])).await;

    let mut other: serde_json::Value =
        serde_json::from_slice(&fs::read(bed.path("keeper.json")).unwrap()).unwrap();
    let secret = other["secret"].as_str().unwrap().to_owned();
    other["secret"] = "0".repeat(secret.len()).into();
    fs::write(bed.path("other.json"), other.to_string()).unwrap();
    let result = keeper::attach(&bed.path("other.json"), &bed.tracker).await;
    assert!(matches!(result, Err(AttachError::Refused)), "{result:?}");

    let hello = json!({"protocol": 9, "secret": secret}).to_string();
    let mut stream = UnixStream::connect(bed.path("socket")).unwrap();
    stream
        .write_all(&u32::try_from(hello.len()).unwrap().to_le_bytes())
        .unwrap();
    stream.write_all(&[1]).unwrap();
    stream.write_all(hello.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(&answer[5..], br#"{"version":2}"#);

    // Neither rubbish nor silence nor a stop without hello does harm.
    let mut stop = UnixStream::connect(bed.path("socket")).unwrap();
    let request = br#"{"close_stdin_first":false,"eof_grace_ms":0,"term_grace_ms":0}"#;
    stop.write_all(&frame(5, request)).unwrap();
    answer.clear();
    stop.read_to_end(&mut answer).unwrap();
    assert!(answer.is_empty());
    let silent: Vec<_> = (0..20)
        .map(|_| UnixStream::connect(bed.path("socket")).unwrap())
        .collect();
    assert_eq!(silent.len(), 20);
    send(&link, "me", "{}".to_owned()).await;
    assert!(is_running(link.hello.child_pid.into()));
    link.handle.close_stdin().await.unwrap();
    bed.ended(&mut link).await;
}

/// A keeper's place may be taken by another one.
#[tokio::test]
async fn a_keeper_of_another_run_is_not_talked_to() {
    let bed = Bed::new();
    let mut link = bed.launch(&bed.program("cat", &[])).await;
    let mut other: serde_json::Value =
        serde_json::from_slice(&fs::read(bed.path("keeper.json")).unwrap()).unwrap();
    other["run"] = json!(RunId::new());
    fs::write(bed.path("other.json"), other.to_string()).unwrap();
    let result = keeper::attach(&bed.path("other.json"), &bed.tracker).await;
    assert!(matches!(result, Err(AttachError::OtherRun { .. })), "{result:?}");
    while link.events.recv().await.is_some() {}
    let mut link = bed.attach().await;
    link.handle.close_stdin().await.unwrap();
    bed.ended(&mut link).await;
}

/// Neither end talks to another user, whatever he may open. Only root can try it.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a program of another user")]
async fn another_user_is_told_nothing_at_either_end() {
    if !geteuid().is_root() {
        return;
    }
    let bed = Bed::new();
    let mut link = bed.launch(&bed.program("cat", &[])).await;
    let opened = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let all = bed.path("all");
    fs::create_dir(&all).unwrap();
    opened(&all, 0o777);
    opened(all.parent().unwrap(), 0o711);
    opened(&bed.path("socket"), 0o666);
    let mut identity: serde_json::Value =
        serde_json::from_slice(&fs::read(bed.path("keeper.json")).unwrap()).unwrap();
    let hello = json!({ "protocol": 2, "secret": identity["secret"] }).to_string();
    let script = format!(
        r#"
import socket, struct, sys
keeper = socket.socket(socket.AF_UNIX)
keeper.connect(sys.argv[1])
hello = {hello:?}.encode()
try:
    keeper.sendall(struct.pack("<IB", len(hello), 1) + hello)
    print(keeper.recv(100), flush=True)
except OSError:
    print(b"", flush=True)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[2])
listener.listen()
print("listens", flush=True)
while True:
    daemon, _ = listener.accept()
    print(daemon.recv(100), flush=True)
"#
    );
    let mut other = Command::new("python3")
        .args(["-S", "-c", &script])
        .args([bed.path("socket"), all.join("socket")])
        .current_dir("/")
        .uid(65_534)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "b''", "what the keeper said");
    assert_eq!(lines.next().unwrap().unwrap(), "listens");
    identity["socket"] = json!(all.join("socket"));
    fs::write(bed.path("other.json"), identity.to_string()).unwrap();
    let result = keeper::attach(&bed.path("other.json"), &bed.tracker).await;
    assert!(
        matches!(result, Err(AttachError::Foreign { uid: 65_534, .. })),
        "{result:?}"
    );
    let text = result.unwrap_err().to_string();
    assert!(text.contains("data.runtime_dir"), "{text}");
    other.kill().unwrap();
    other.wait().unwrap();
    let said: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(
        !said.is_empty() && said.iter().all(|said| said == "b''"),
        "what the daemon said: {said:?}"
    );
    link.handle.close_stdin().await.unwrap();
    bed.ended(&mut link).await;
}

/// Woken, a keeper makes its socket again, and the folder too. Connections stay.
#[tokio::test]
async fn a_keeper_whose_socket_is_gone_makes_it_again() {
    let bed = Bed::new();
    let mut plan = bed.program("cat", &[]);
    plan.socket = bed.path("run/sockets/it");
    let mut link = bed.launch(&plan).await;
    fs::remove_dir_all(bed.path("run")).unwrap();
    send(&link, "me", "{}".to_owned()).await;
    let mut second = bed.attach().await;
    while link.events.recv().await.is_some() {}
    send(&second, "me", "{}".to_owned()).await;
    second.handle.close_stdin().await.unwrap();
    bed.ended(&mut second).await;
    assert!(!plan.socket.exists());
}

/// A daemon that gets no time has connected, and says hello long after.
#[tokio::test]
async fn a_daemon_that_says_hello_late_is_let_in() {
    let bed = Bed::new();
    let mut link = bed.launch(&bed.program("cat", &[])).await;
    let identity: serde_json::Value =
        serde_json::from_slice(&fs::read(bed.path("keeper.json")).unwrap()).unwrap();
    let mut late = UnixStream::connect(bed.path("socket")).unwrap();
    pass(Duration::from_millis(6_500)).await;
    let hello = json!({"protocol": 2, "secret": identity["secret"]}).to_string();
    late.write_all(&frame(1, hello.as_bytes())).unwrap();
    let mut header = [0; 5];
    late.read_exact(&mut header).unwrap();
    assert_eq!(header[4], 1, "a hello comes back");
    drop(late);

    while link.events.recv().await.is_some() {}
    let mut link = bed.attach().await;
    link.handle.close_stdin().await.unwrap();
    bed.ended(&mut link).await;
}

#[tokio::test]
async fn a_keeper_that_is_not_there_is_named_so() {
    let bed = Bed::new();
    let result = keeper::attach(&bed.path("keeper.json"), &bed.tracker).await;
    assert!(matches!(result, Err(AttachError::NoIdentity)));

    let mut link = bed.launch(&bed.program("cat", &[])).await;
    let identity = fs::read(bed.path("keeper.json")).unwrap();
    link.handle.close_stdin().await.unwrap();
    bed.ended(&mut link).await;
    fs::write(bed.path("keeper.json"), identity).unwrap();
    let result = keeper::attach(&bed.path("keeper.json"), &bed.tracker).await;
    assert!(matches!(result, Err(AttachError::ProcessGone)), "{result:?}");

    fs::write(bed.path("keeper.json"), "rubbish").unwrap();
    let result = keeper::attach(&bed.path("keeper.json"), &bed.tracker).await;
    assert!(matches!(result, Err(AttachError::Io(_))));
}

#[tokio::test]
async fn a_reader_that_sleeps_sees_the_newest_head_only() {
    let bed = Bed::new();
    let mut link = bed
        .launch(
            &bed.python(
                "for n in range(5000): say(type='tick', n=n)\nsay(type='done'); sys.stdin.readline()",
            ),
        )
        .await;
    bed.said("done").await;
    let end = 5_002;
    let mut heads = 0;
    tokio::time::timeout(SOON, async {
        while let Some(KeeperEvent::Head(head)) = link.events.recv().await {
            heads += 1;
            if head.seq.get() == end {
                break;
            }
        }
    })
    .await
    .unwrap();
    assert!(heads < 100, "{heads} heads");
    link.handle.stop(StopRequest::default()).await.unwrap();
    bed.ended(&mut link).await;
}

/// A frame as the protocol writes it down.
fn frame(tag: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(payload.len())
        .unwrap_or_default()
        .to_le_bytes()
        .to_vec();
    frame.push(tag);
    frame.extend_from_slice(payload);
    frame
}

#[tokio::test]
async fn a_daemon_that_asks_and_never_reads_is_dropped() {
    let bed = Bed::new();
    let link = bed.launch(&bed.python(ECHO)).await;
    let identity: serde_json::Value =
        serde_json::from_slice(&fs::read(bed.path("keeper.json")).unwrap()).unwrap();
    let path = bed.path("socket");
    let sent = tokio::task::spawn_blocking(move || {
        let mut deaf = UnixStream::connect(path).unwrap();
        let hello = json!({"protocol": 1, "secret": identity["secret"]}).to_string();
        let mut bytes = frame(1, hello.as_bytes());
        let mut note = vec![0; 10];
        note.extend_from_slice(b"{}");
        // The first ones come right behind the hello.
        let many = frame(3, &note).repeat(1_000);
        bytes.extend_from_slice(&many);
        let mut sent = 0;
        while deaf.write_all(&bytes).is_ok() && sent < 1_000 {
            sent += 1;
            bytes.clone_from(&many);
        }
        sent
    })
    .await
    .unwrap();
    assert!(sent < 1_000, "it was never dropped");
    let mut again = bed.attach().await;
    send(&again, "me", r#"{"n":1}"#.to_owned()).await;
    bed.said("echo").await;
    assert!(
        bed.records().len() > 1_000,
        "its notes were taken while they could be answered"
    );
    again.handle.close_stdin().await.unwrap();
    bed.ended(&mut again).await;
    drop(link);
}

#[tokio::test]
async fn of_a_line_with_a_secret_the_journal_gets_what_stands_for_it() {
    let bed = Bed::new();
    let mut plan = bed.python("for text in sys.stdin: say(type='echo', length=len(text))");
    plan.limits.max_line_bytes = 1_000;
    let mut link = bed.launch(&plan).await;
    assert!(link.handle.takes_secrets());
    let secret = br#"{"key":"PLANTED"}"#.as_slice();
    let hidden = |text: &'static [u8], record: &'static [u8]| keeper::Line::secret(text, record);
    let seq = link
        .handle
        .write_line(Some("a"), hidden(secret, br#"{"redacted":true}"#))
        .await
        .unwrap();
    send(&link, "b", r#"{"n":2}"#.to_owned()).await;
    // Neither may break a line, and together they are no longer than one may be.
    for (text, record) in [(secret, b"no JSON".as_slice()), (b"{\n}", b"{}")] {
        let refused = link.handle.write_line(None, hidden(text, record)).await;
        assert_eq!(refused, Err(WriteError::Invalid));
    }
    let limit = link.hello.max_line_bytes;
    let long = format!(r#"{{"x":"{}"}}"#, "x".repeat(limit - 10));
    let refused = link
        .handle
        .write_line(None, keeper::Line::secret(long, secret))
        .await;
    assert!(matches!(refused, Err(WriteError::TooLarge { .. })), "{refused:?}");
    link.handle.close_stdin().await.unwrap();
    assert_eq!(bed.ended(&mut link).await.code, Some(0));
    let lengths: Vec<_> = bed
        .data("cli")
        .iter()
        .map(|data| data["length"].clone())
        .collect();
    assert_eq!(
        lengths,
        [secret.len() + 1, 8],
        "both were written, whole and in their order"
    );
    let lines = bed.data("client");
    assert_eq!(lines, [json!({ "redacted": true }), json!({ "n": 2 })]);
    assert!(seq.get() > 0);
}

/// A keeper of the version before is one whose hello does not name what it lacks.
#[tokio::test]
async fn an_older_keeper_never_sees_a_secret() {
    let bed = Bed::new();
    let link = bed.launch(&bed.python(ECHO)).await;
    drop(link);
    let identity = &bed.path("keeper.json");
    let mut known: serde_json::Value = serde_json::from_slice(&fs::read(identity).unwrap()).unwrap();
    let real = known["socket"].as_str().unwrap().to_owned();
    let between = format!("{real}.o");
    let listener = std::os::unix::net::UnixListener::bind(&between).unwrap();
    known["socket"] = json!(between);
    fs::write(identity, known.to_string()).unwrap();
    let relay = thread::spawn(move || {
        let (mut daemon, _) = listener.accept().unwrap();
        let mut keeper = UnixStream::connect(real).unwrap();
        let mut to_keeper = keeper.try_clone().unwrap();
        let mut from_daemon = daemon.try_clone().unwrap();
        let heard = thread::spawn(move || {
            let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
            while let Ok(bytes @ 1..) = from_daemon.read(&mut buffer) {
                all.extend_from_slice(&buffer[..bytes]);
                to_keeper.write_all(&buffer[..bytes]).unwrap();
            }
            all
        });
        let mut head = [0; 5];
        keeper.read_exact(&mut head).unwrap();
        let mut hello = vec![0; u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize];
        keeper.read_exact(&mut hello).unwrap();
        let mut hello: serde_json::Value = serde_json::from_slice(&hello).unwrap();
        assert_eq!(
            hello.as_object_mut().unwrap().remove("journal_as"),
            Some(json!(true))
        );
        let hello = hello.to_string();
        head[..4].copy_from_slice(&u32::try_from(hello.len()).unwrap().to_le_bytes());
        daemon.write_all(&head).unwrap();
        daemon.write_all(hello.as_bytes()).unwrap();
        // Until the daemon goes.
        std::io::copy(&mut keeper, &mut daemon).ok();
        heard.join().unwrap()
    });
    let link = bed.attach().await;
    assert!(!link.handle.takes_secrets());
    let line = keeper::Line::secret(r#"{"key":"PLANTED"}"#, "{}");
    let refused = link.handle.write_line(None, line).await;
    assert_eq!(refused, Err(WriteError::Unjournalable));
    send(&link, "a", r#"{"n":1}"#.to_owned()).await;
    link.handle.stop(StopRequest::default()).await.unwrap();
    drop(link);
    // The link's own task needs this thread.
    let heard = tokio::task::spawn_blocking(|| relay.join().unwrap())
        .await
        .unwrap();
    let has = |text: &str| heard.windows(text.len()).any(|it| it == text.as_bytes());
    assert!(has(r#"{"n":1}"#) && !has("PLANTED"));
}

/// A daemon of version 1, as it was: its bytes are written out here, and do not follow the program.
#[tokio::test]
async fn a_daemon_of_the_version_before_attaches_writes_and_stops() {
    let bed = Bed::new();
    let mut link = bed.launch(&bed.python(ECHO)).await;
    let identity: serde_json::Value =
        serde_json::from_slice(&fs::read(bed.path("keeper.json")).unwrap()).unwrap();
    assert_eq!(
        identity["protocol"], 2,
        "daemons of version 2 know whom they talk to"
    );
    let (path, pid) = (bed.path("socket"), link.hello.child_pid);
    let told = tokio::task::spawn_blocking(move || {
        let mut daemon = UnixStream::connect(path).unwrap();
        let mut told: Vec<(u8, serde_json::Value)> = Vec::new();
        // Reads frames up to the first with this tag.
        let hear = |stream: &mut UnixStream, told: &mut Vec<(u8, serde_json::Value)>, last: u8| {
            while told.last().is_none_or(|(tag, _)| *tag != last) {
                let mut head = [0; 5];
                stream.read_exact(&mut head).unwrap();
                let mut payload = vec![0; u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize];
                stream.read_exact(&mut payload).unwrap();
                told.push((head[4], serde_json::from_slice(&payload).unwrap()));
            }
        };
        let secret = identity["secret"].as_str().unwrap();
        let hello = format!(r#"{{"protocol":1,"secret":"{secret}"}}"#);
        daemon.write_all(&frame(1, hello.as_bytes())).unwrap();
        hear(&mut daemon, &mut told, 1);
        let mut line = b"\x07\0\0\0\0\0\0\0\x02\0me".to_vec();
        line.extend_from_slice(br#"{"n":1}"#);
        daemon.write_all(&frame(2, &line)).unwrap();
        hear(&mut daemon, &mut told, 66);
        let stop = br#"{"close_stdin_first":false,"eof_grace_ms":0,"term_grace_ms":5000}"#;
        daemon.write_all(&frame(5, stop)).unwrap();
        hear(&mut daemon, &mut told, 69);
        told
    })
    .await
    .unwrap();
    let (tag, hello) = &told[0];
    assert_eq!(
        (*tag, &hello["protocol"], &hello["child_pid"]),
        (1, &json!(1), &json!(pid))
    );
    let ack = told.iter().find(|(tag, _)| *tag == 66).unwrap();
    assert_eq!(ack.1["id"], 7);
    let (tag, exit) = told.last().unwrap();
    assert_eq!(
        (*tag, &exit["signal"], &exit["intent"]),
        (69, &json!(15), &json!("stop"))
    );
    assert!(
        told.iter().all(|(tag, _)| [1, 66, 68, 69].contains(tag)),
        "it hears no word of a later version: {told:?}"
    );
    assert!(!is_running(pid.into()));
    // The first daemon lost its place when the other came.
    while link.events.recv().await.is_some() {}
}
