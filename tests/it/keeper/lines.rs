//! Owns the tests of lines in both directions.

use bytes::Bytes;
use serde_json::json;
use trunkline::keeper::{StdinLine, StopRequest, WriteError};

use crate::keeper::support::{Bed, SOON, exited, is_running, send, wait_for};

/// Answers each line with its fields, and its size.
const ECHO: &str = "
for text in sys.stdin.buffer:
    got = json.loads(text)
    say(type='echo', n=got.get('n'), size=len(text))
";

#[tokio::test]
async fn lines_go_in_and_out_and_the_journal_tells_in_which_order() {
    let bed = Bed::new();
    let mut plan = bed.python(ECHO);
    plan.first_lines = vec![StdinLine {
        by: Some("daemon".to_owned()),
        line: r#"{"n":0}"#.to_owned(),
    }];
    let mut link = bed.launch(&plan).await;
    assert_eq!(link.hello.run, bed.run);
    assert_eq!(link.hello.session, bed.session);
    wait_for("the first answer", || bed.data("cli").len() == 1).await;
    let seq = send(&link, "phone", r#"{"n":1,"text":"grüße  \u2028"}"#.to_owned()).await;
    assert_eq!(seq.get(), 4);
    link.handle.close_stdin().await.unwrap();
    let exit = bed.ended(&mut link).await;
    assert_eq!((exit.code, exit.signal, exit.killed), (Some(0), None, false));

    let records = bed.records();
    let shape: Vec<_> = records
        .iter()
        .map(|record| (&record.src[..], record.by.as_deref(), &record.data["n"]))
        .collect();
    assert_eq!(
        shape,
        [
            ("daemon", None, &json!(null)),
            ("client", Some("daemon"), &json!(0)),
            ("cli", None, &json!(0)),
            ("client", Some("phone"), &json!(1)),
            ("cli", None, &json!(1)),
            ("daemon", None, &json!(null)),
        ]
    );
}

#[tokio::test]
async fn a_line_that_keeps_alive_has_no_record_and_no_number() {
    let bed = Bed::new();
    let script = r#"
for line in ['{"type":"keep_alive"}', '{"n":1}', '{"n":2,"type" : "keep_alive"}', '{"type":"x","says":"keep_alive"}',
             '{"says":{"type":"keep_alive"}}', '"keep_alive"', '{"type":"keep_alive"}', '{"n":3}', '{"type":"keep_alive"}']:
    print(line, flush=True)
"#;
    let mut link = bed.launch(&bed.python(script)).await;
    bed.ended(&mut link).await;
    let said = [
        json!({ "n": 1 }),
        json!({ "type": "x", "says": "keep_alive" }),
        json!({ "says": { "type": "keep_alive" } }),
        json!({ "n": 3 }),
    ];
    assert_eq!(bed.data("cli"), said);
    assert_eq!(bed.data("stdout_text").len(), 1);
    // The reader of records checks everywhere that the numbers have no gap.
    let last = bed.records().pop().unwrap();
    assert_eq!((last.seq, &last.data["type"]), (7, &json!("run_exited")));
}

#[tokio::test]
async fn many_writers_at_once_leave_whole_lines_in_the_order_of_the_journal() {
    let bed = Bed::new();
    let mut link = bed.launch(&bed.python(ECHO)).await;
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let handle = link.handle.clone();
            bed.tracker.spawn(async move {
                let mut seqs = Vec::new();
                for n in 0..40 {
                    // Now and then one that is longer than a pipe.
                    let filler = "x".repeat(if n % 10 == 9 { 200_000 } else { 50 });
                    let text = format!(r#"{{"n":{},"filler":"{filler}"}}"#, writer * 100 + n);
                    let seq = handle.write_line(Some("w"), Bytes::from(text)).await.unwrap();
                    seqs.push((seq.get(), writer * 100 + n));
                }
                seqs
            })
        })
        .collect();
    let mut told = Vec::new();
    for writer in writers {
        told.extend(writer.await.unwrap());
    }
    link.handle.close_stdin().await.unwrap();
    assert_eq!(bed.ended(&mut link).await.code, Some(0));

    told.sort_unstable();
    let records = bed.records();
    let written: Vec<_> = records
        .iter()
        .filter(|record| record.src == "client")
        .map(|record| (record.seq, record.data["n"].as_u64().unwrap()))
        .collect();
    assert_eq!(written, told, "acks name the records of their own lines");
    let read: Vec<_> = bed
        .data("cli")
        .iter()
        .map(|data| data["n"].as_u64().unwrap())
        .collect();
    assert_eq!(read, written.iter().map(|(_, n)| *n).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_nine_megabyte_line_in_does_not_mix_with_others_and_a_thirty_megabyte_line_comes_out() {
    let bed = Bed::new();
    let mut link = bed
        .launch(&bed.python(&format!("say(type='big', data='y' * 30_000_000)\n{ECHO}")))
        .await;
    let big = format!(r#"{{"n":1,"image":"{}"}}"#, "z".repeat(9_000_000));
    let size = big.len() + 1;
    let (one, two, three) = tokio::join!(
        link.handle.write_line(None, Bytes::from(big)),
        link.handle.write_line(None, Bytes::from_static(br#"{"n":2}"#)),
        link.handle.note(Bytes::from_static(br#"{"type":"state"}"#)),
    );
    assert!(one.unwrap() < two.unwrap());
    three.unwrap();
    link.handle.close_stdin().await.unwrap();
    assert_eq!(bed.ended(&mut link).await.code, Some(0));
    let said = bed.data("cli");
    assert_eq!(said[0]["data"].as_str().unwrap().len(), 30_000_000);
    assert_eq!(said[1], json!({"type": "echo", "n": 1, "size": size}));
    assert_eq!(said[2]["n"], 2);
}

#[tokio::test]
async fn odd_output_is_recorded_and_harms_no_line_after_it() {
    let bed = Bed::new();
    let mut plan = bed.python(
        r#"
out = sys.stdout.buffer
out.write(b'{"type":"separator","text":"a\xe2\x80\xa8b"}\n')
out.write(b'{"type":"surrogate","text":"\\ud83d"}\n')
out.write(b'{"type":"crlf"}\r\n')
out.write(b'\n   \n')
out.write(b'Warning: no object\n')
out.write(b'[1,2]\n')
out.write(b'{"type":"cut\n')
out.write(b'bad \xff\xfe\n')
out.write(b'{"type":"long","text":"' + b'q' * 2_000_000 + b'"}\n')
out.write(b'{"type":"after"}\n')
out.write(b'{"type":"unterminated"}')
"#,
    );
    plan.limits.max_line_bytes = 1_000_000;
    let mut link = bed.launch(&plan).await;
    assert_eq!(exited(&mut link).await.code, Some(0));
    bed.is_swept().await;

    let raw = std::fs::read(bed.path("journal/00000000000000000001.ndjson")).unwrap();
    let raw = String::from_utf8(raw).unwrap();
    assert!(raw.contains("\"data\":{\"type\":\"separator\",\"text\":\"a\u{2028}b\"}}\n"));
    assert!(raw.contains(r#""data":{"type":"surrogate","text":"\ud83d"}}"#));
    // A lone surrogate is no Rust string, so this test reads that line as text only.
    std::fs::write(
        bed.path("journal/00000000000000000001.ndjson"),
        raw.replace(r"\ud83d", ""),
    )
    .unwrap();

    let kinds: Vec<_> = bed.data("cli").iter().map(|data| data["type"].clone()).collect();
    assert_eq!(kinds, ["separator", "surrogate", "crlf", "after", "unterminated"]);
    let texts: Vec<_> = bed
        .data("stdout_text")
        .iter()
        .map(|data| data["text"].clone())
        .collect();
    assert_eq!(texts, ["Warning: no object", "[1,2]", "{\"type\":\"cut"]);
    assert_eq!(bed.notices("line_not_utf8")[0]["bytes"], 6);
    assert_eq!(bed.notices("line_oversized")[0]["bytes"], 2_000_025);
}

#[tokio::test]
async fn what_is_not_one_json_object_on_one_line_never_reaches_the_process() {
    let bed = Bed::new();
    let mut plan = bed.python(ECHO);
    plan.limits.max_line_bytes = 100;
    let mut link = bed.launch(&plan).await;
    for text in ["hello", "", "[]", "{}{}", "{\"a\":\n1}", "{\"a\":1}\n"] {
        let result = link.handle.write_line(None, Bytes::from(text)).await;
        assert_eq!(result, Err(WriteError::Invalid), "{text:?}");
        assert_eq!(
            link.handle.note(Bytes::from(text)).await,
            Err(WriteError::Invalid)
        );
    }
    assert_eq!(
        link.handle
            .write_line(Some("a\"b"), Bytes::from_static(b"{}"))
            .await,
        Err(WriteError::Invalid),
        "a name that would break its record"
    );
    assert_eq!(
        link.handle.write_line(None, Bytes::from("x".repeat(101))).await,
        Err(WriteError::TooLarge { limit_bytes: 100 })
    );
    send(&link, "me", r#"{"n":7}"#.to_owned()).await;
    link.handle.close_stdin().await.unwrap();
    assert_eq!(bed.ended(&mut link).await.code, Some(0));
    assert_eq!(bed.data("client"), [json!({"n": 7})]);
    assert_eq!(bed.data("cli")[0]["n"], 7);
}

#[tokio::test]
async fn a_process_that_never_reads_fills_the_queue_and_can_still_talk_and_be_stopped() {
    let bed = Bed::new();
    let mut plan = bed.python(
        "
signal.signal(signal.SIGUSR1, lambda *_: say(type='poked'))
say(type='up')
while True: time.sleep(0.05) # a signal just before a long sleep would be heard after it
",
    );
    plan.limits.stdin_queue_bytes = 1 << 20;
    let mut link = bed.launch(&plan).await;
    bed.said("up").await;

    let text = format!(r#"{{"filler":"{}"}}"#, "f".repeat(60_000));
    let writers: Vec<_> = (0..30)
        .map(|_| {
            let (handle, text) = (link.handle.clone(), Bytes::from(text.clone()));
            bed.tracker
                .spawn(async move { handle.write_line(None, text).await })
        })
        .collect();
    let pid = link.hello.child_pid;
    link.handle.signal(nix::libc::SIGUSR1).await.unwrap();
    bed.said("poked").await;
    link.handle
        .note(Bytes::from_static(b"{\"type\":\"state\"}"))
        .await
        .unwrap();
    assert!(is_running(pid.into()));
    link.handle.stop(StopRequest::default()).await.unwrap();
    let exit = bed.ended(&mut link).await;
    assert_eq!((exit.signal, exit.killed), (Some(15), false));

    let mut taken = 0;
    let mut busy = 0;
    let mut late = 0;
    for writer in writers {
        match writer.await.unwrap() {
            Ok(_) => taken += 1,
            Err(WriteError::Busy) => busy += 1,
            Err(WriteError::Closed | WriteError::Exited) => late += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(taken, bed.data("client").len(), "what is taken is in the journal");
    // The pipe holds 64 KiB, the queue a MiB; nobody waits for the process to read.
    assert!((16..=20).contains(&taken), "{taken}");
    assert!((10..=14).contains(&busy), "{busy}");
    assert_eq!(taken + busy + late, 30);
}

#[tokio::test]
async fn a_closed_stdin_is_an_event_and_no_end() {
    let bed = Bed::new();
    let mut link = bed
        .launch(&bed.python(
            "
sys.stdin.buffer.read(1000)
os.close(0)
say(type='closed')
while True: time.sleep(60)
",
        ))
        .await;
    let prompt = format!(r#"{{"text":"{}"}}"#, "p".repeat(1_000_000));
    let handle = link.handle.clone();
    let (first, second) = tokio::join!(
        handle.write_line(None, Bytes::from(prompt)),
        handle.write_line(None, Bytes::from_static(b"{}"))
    );
    first.unwrap();
    second.unwrap();
    bed.said("closed").await;
    wait_for("the notice", || bed.notices("stdin_broken").len() == 1).await;
    assert_eq!(
        link.handle.write_line(None, Bytes::from_static(b"{}")).await,
        Err(WriteError::Closed)
    );
    assert!(is_running(link.hello.child_pid.into()));
    link.handle.stop(StopRequest::default()).await.unwrap();
    let exit = tokio::time::timeout(SOON, bed.ended(&mut link)).await.unwrap();
    // The prompt and the line behind it: both were taken, and the record says that neither arrived.
    assert_eq!(exit.unwritten_lines, 2);
    assert_eq!(bed.data("client").len(), 2);
}
