//! Owns the journals that were damaged while no daemon ran: what is left can be read, what is missing is told, and the session has
//! a way out.

use std::{fs, path::PathBuf};

use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    daemon::TestDaemon,
    proc,
    programs::fake_prompt,
    rest::Rest,
    wait::{PATIENCE, wait_for, wait_until},
};

fn folder(daemon: &TestDaemon, session: &str) -> PathBuf {
    daemon.data_dir().join("sessions").join(session)
}

/// The segments of a session's journal, oldest first.
fn segments(daemon: &TestDaemon, session: &str) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder(daemon, session))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "ndjson"))
        .collect();
    found.sort();
    found
}

/// Numbers of the records in a file.
fn numbers(path: &PathBuf) -> Vec<u64> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["seq"]
                .as_u64()
                .unwrap()
        })
        .collect()
}

/// All of the events after `after`, from pages, and what the pages say is missing.
async fn pages(rest: &Rest, session: &str, mut after: u64) -> (Vec<Value>, Vec<(u64, u64)>) {
    let (mut records, mut missing) = (Vec::new(), Vec::new());
    loop {
        let path = format!("/v1/sessions/{session}/events?after={after}&limit=7");
        let page = rest.get(&path).await.expect(200);
        records.extend(page["items"].as_array().unwrap().iter().cloned());
        for gap in page["missing"].as_array().into_iter().flatten() {
            missing.push((
                gap["first_seq"].as_u64().unwrap(),
                gap["last_seq"].as_u64().unwrap(),
            ));
        }
        let next = page["next_after"].as_u64().unwrap();
        if next == page["head_seq"].as_u64().unwrap() {
            return (records, missing);
        }
        assert!(next > after, "{page:#}");
        after = next;
    }
}

fn notices(records: &[Value]) -> Vec<(u64, u64)> {
    let ours = records.iter().map(|record| &record["data"]);
    ours.filter(|data| data["type"] == "notice" && data["code"] == "records_missing")
        .map(|data| {
            (
                data["first_seq"].as_u64().unwrap(),
                data["last_seq"].as_u64().unwrap(),
            )
        })
        .collect()
}

/// Every number is either a record or told to be missing, in order and once.
fn check_numbers(records: &[Value], missing: &[(u64, u64)], after: u64) -> u64 {
    let mut all: Vec<u64> = records
        .iter()
        .map(|record| record["seq"].as_u64().unwrap())
        .collect();
    assert!(all.is_sorted());
    all.extend(missing.iter().flat_map(|(first, last)| *first..=*last));
    all.sort_unstable();
    let last = all.last().copied().unwrap();
    assert_eq!(all, (after + 1..=last).collect::<Vec<_>>());
    last
}

async fn check_ways_out(daemon: &TestDaemon, session: &str) {
    let rest = daemon.rest();
    rest.lifecycle(session, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    let answer = rest.ask(session, "are you there?").await;
    assert_eq!(answer["result"]["subtype"], "success", "{answer:#}");
    let deleted = rest.delete(&format!("/v1/sessions/{session}")).await;
    assert_eq!(deleted.status, 204, "{:#}", deleted.body);
}

/// A daemon with a session that has several segments; the session is stopped, or it lives.
async fn with_segments(live: bool) -> (TestDaemon, String) {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SESSIONS_SEGMENT_BYTES", "65536")
        .allow_errors()
        .start()
        .await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    // Enough for four segments, however much the keeper writes at a time: it begins a new one between two batches only.
    for _ in 0..4 {
        rest.ask(&session, &fake_prompt(&json!([{ "flood": 100, "bytes": 1500 }])))
            .await;
    }
    rest.ask(&session, "the last").await;
    if !live {
        rest.lifecycle(&session, "stop", json!({})).await.expect(200);
    }
    assert!(segments(&daemon, &session).len() >= 4);
    (daemon, session)
}

#[tokio::test]
async fn a_segment_that_is_missing_is_told_to_every_client_and_the_session_goes_on() {
    for live in [false, true] {
        let (mut daemon, session) = with_segments(live).await;
        let files = segments(&daemon, &session);
        let gone = numbers(&files[1]);
        let gap = (gone[0], *gone.last().unwrap());
        daemon.kill();
        fs::remove_file(&files[1]).unwrap();
        daemon.start().await;
        let rest = daemon.rest();
        let view = rest.session(&session).await;
        assert_eq!(view["state"], if live { "idle" } else { "stopped" }, "{view:#}");

        let (records, missing) = pages(&rest, &session, 0).await;
        assert_eq!(missing, [gap]);
        let last = check_numbers(&records, &missing, 0);
        // A cursor inside of the hole hears of the rest of it.
        let (records, missing) = pages(&rest, &session, gap.0 + 1).await;
        assert_eq!(missing, [(gap.0 + 2, gap.1)]);
        check_numbers(&records, &missing, gap.0 + 1);

        let mut client = daemon.attach(&session, Some(0)).await;
        let frames = client
            .until("the last record", |frame| frame["seq"] == last)
            .await;
        let told: Vec<_> = frames
            .iter()
            .filter(|frame| frame["type"] == "trunkline.gap")
            .collect();
        assert_eq!(told.len(), 1, "{told:#?}");
        assert_eq!(
            (told[0]["first_seq"].as_u64(), told[0]["last_seq"].as_u64()),
            (Some(gap.0), Some(gap.1))
        );
        let place = frames
            .iter()
            .position(|frame| frame["type"] == "trunkline.gap")
            .unwrap();
        assert_eq!(frames[place - 1]["seq"], gap.0 - 1);
        assert_eq!(frames[place + 1]["seq"], gap.1 + 1);

        let lines = rest.builder(Method::GET, &format!("/v1/sessions/{session}/events"));
        let lines = lines
            .header("accept", "application/x-ndjson")
            .send()
            .await
            .unwrap();
        let text = lines.text().await.unwrap();
        let told = format!(
            "\n{{\"type\":\"trunkline.gap\",\"first_seq\":{},\"last_seq\":{},\"reason\":\"lost\"}}\n",
            gap.0, gap.1
        );
        assert_eq!(text.matches(&told).count(), 1, "{told}");

        if live {
            rest.lifecycle(&session, "stop", json!({})).await.expect(200);
        }
        check_ways_out(&daemon, &session).await;
    }
}

/// Records that the store has read cannot be read again; no other record gets their numbers.
#[tokio::test]
async fn an_end_that_is_missing_is_noticed_and_no_number_is_given_twice() {
    let (mut daemon, session) = with_segments(false).await;
    let rest = daemon.rest();
    let before = rest.session(&session).await;
    let head = before["head_seq"].as_u64().unwrap();
    let files = segments(&daemon, &session);
    let gone = numbers(files.last().unwrap());
    assert_eq!(gone.last(), Some(&head));
    daemon.kill();
    fs::remove_file(files.last().unwrap()).unwrap();
    daemon.start().await;
    let rest = daemon.rest();
    let (records, missing) = pages(&rest, &session, 0).await;
    assert_eq!(missing, [(gone[0], head)]);
    check_numbers(&records, &missing, 0);
    assert_eq!(notices(&records), missing);
    assert!(records.last().unwrap()["seq"].as_u64().unwrap() > head);
    let after = rest.session(&session).await;
    for field in ["state", "turns", "cost_usd"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    // It is said once, however often it is read.
    daemon.kill();
    daemon.start().await;
    let (records, _) = pages(&daemon.rest(), &session, 0).await;
    assert_eq!(notices(&records), missing);
    check_ways_out(&daemon, &session).await;
}

#[tokio::test]
async fn a_foreign_line_in_a_live_run_is_noticed_and_the_run_goes_on() {
    spoil_a_line("\"type\":\"assistant\"").await;
}

/// The store had read the end of the turn in time.
#[tokio::test]
async fn a_result_that_is_missing_leaves_no_session_busy_and_is_not_paid_twice() {
    spoil_a_line("\"type\":\"result\"").await;
}

/// Spoils the newest line that has this text in the journal of a session that lives, while no daemon runs.
async fn spoil_a_line(kind: &str) {
    let (mut daemon, session) = with_segments(true).await;
    let before = daemon.rest().session(&session).await;
    daemon.kill();
    // A part of the newest text, as a bad disk gives it back.
    let has = |line: &[u8]| memchr::memmem::find(line, kind.as_bytes()).is_some();
    // A segment may end anywhere, also in the last turn.
    let with_it = segments(&daemon, &session)
        .into_iter()
        .rfind(|path| has(&fs::read(path).unwrap()));
    let path = with_it.unwrap();
    let bytes = fs::read(&path).unwrap();
    let numbers = numbers(&path);
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let spoilt = lines.iter().rposition(|line| has(line)).unwrap();
    let mut text = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        if place == spoilt {
            let mut rubbish = vec![b'x'; line.len() - 1];
            rubbish.push(b'\n');
            text.extend(rubbish);
        } else {
            text.extend_from_slice(line);
        }
    }
    // In place: the keeper has the file open.
    let file = fs::File::options().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &text, 0).unwrap();
    daemon.start().await;
    let rest = daemon.rest();
    assert_eq!(rest.session(&session).await["state"], "idle");
    let lost = numbers[spoilt];
    let (records, missing) = wait_for("the notice", PATIENCE, async || {
        let (records, missing) = pages(&rest, &session, 0).await;
        (!notices(&records).is_empty()).then_some((records, missing))
    })
    .await;
    assert_eq!(missing, [(lost, lost)]);
    assert_eq!(notices(&records), missing);
    check_numbers(&records, &missing, 0);
    let answer = rest.ask(&session, "and now?").await;
    assert_eq!(answer["result"]["subtype"], "success");
    let after = rest.session(&session).await;
    assert_eq!(after["turns"], before["turns"].as_u64().unwrap() + 1, "{after:#}");
    let spent = after["cost_usd"].as_f64().unwrap() - before["cost_usd"].as_f64().unwrap();
    assert!(
        (spent - 0.0008).abs() < 1e-9,
        "a turn of 0.0008 was charged as {spent}"
    );
    rest.lifecycle(&session, "stop", json!({})).await.expect(200);
    check_ways_out(&daemon, &session).await;
}

/// The record that says that the process was started is gone, and the process lives.
#[tokio::test]
async fn a_process_whose_start_is_missing_is_kept_and_can_be_used() {
    let mut daemon = TestDaemon::with_fake().allow_errors().start().await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    rest.ask(&session, "hello").await;
    let before = rest.session(&session).await;
    daemon.kill();
    let path = segments(&daemon, &session).pop().unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    // The first bytes of the file are in the first record: that of the start.
    std::os::unix::fs::FileExt::write_all_at(&file, b"spoilt", 0).unwrap();
    daemon.start().await;
    let rest = daemon.rest();
    let view = rest.session(&session).await;
    assert_eq!(view["state"], "idle", "{view:#}");
    assert_eq!(view["cli"]["pid"], before["cli"]["pid"]);
    let answer = rest.ask(&session, "and now?").await;
    assert_eq!(answer["result"]["subtype"], "success");
    rest.lifecycle(&session, "stop", json!({})).await.expect(200);
    assert_eq!(rest.session(&session).await["state"], "stopped");
    check_ways_out(&daemon, &session).await;
}

/// The file that the keeper writes to is moved away or removed, as by a clean-up, while the session lives.
#[tokio::test]
async fn a_live_journal_that_is_taken_away_goes_on_in_a_new_file() {
    for is_moved in [true, false] {
        let mut daemon = TestDaemon::with_fake().allow_errors().start().await;
        let rest = daemon.rest();
        let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
        rest.ask(&session, "hello").await;
        let before = rest.session(&session).await;
        let file = segments(&daemon, &session).pop().unwrap();
        daemon.kill();
        let first = numbers(&file).pop().unwrap() + 1;
        if is_moved {
            fs::rename(&file, daemon.data_dir().join("elsewhere")).unwrap();
        } else {
            fs::remove_file(&file).unwrap();
        }
        for life in 0..2 {
            daemon.start().await;
            let rest = daemon.rest();
            let view = rest.session(&session).await;
            assert_eq!(view["state"], "idle", "{view:#}");
            assert_eq!(view["cli"]["pid"], before["cli"]["pid"], "{view:#}");
            let answer = rest.ask(&session, "and now?").await;
            assert_eq!(answer["result"]["subtype"], "success", "{answer:#}");
            let files = segments(&daemon, &session);
            let numbers: Vec<u64> = files.iter().flat_map(numbers).collect();
            assert!(
                numbers.iter().copied().eq(first..first + numbers.len() as u64),
                "{first}: {numbers:?}"
            );
            let (records, _) = pages(&rest, &session, first - 1).await;
            let told = notices(&records);
            assert_eq!(told.len(), 1, "life {life}: {told:?}");
            assert_eq!(told[0].1, first - 1);
            assert!(numbers.len() < 100, "{} records", numbers.len());
            let log = daemon.log();
            let lines = log.matches("records are missing from a journal").count();
            assert_eq!(lines, 1, "{log}");
            if life == 0 {
                daemon.kill();
            }
        }
        let rest = daemon.rest();
        let after = rest.session(&session).await;
        assert_eq!(after["turns"], 3, "{after:#}");
        rest.lifecycle(&session, "stop", json!({})).await.expect(200);
        check_ways_out(&daemon, &session).await;
    }
}

/// A row without a folder, and one whose folder cannot be read.
#[tokio::test]
async fn a_folder_that_is_gone_or_cannot_be_read_leaves_a_session_with_a_way_out() {
    let mut daemon = TestDaemon::with_fake().allow_errors().start().await;
    let rest = daemon.rest();
    let gone = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    let spoilt = rest.create_ready(json!({ "cwd": daemon.work_dir("b") })).await;
    for session in [&gone, &spoilt] {
        rest.ask(session, "hello").await;
    }
    let mut keepers = Vec::new();
    for session in [&gone, &spoilt] {
        let view = rest.session(session).await;
        let cli = i32::try_from(view["cli"]["pid"].as_i64().unwrap()).unwrap();
        keepers.push(proc::read(cli).unwrap().parent);
    }
    let head = rest.session(&gone).await["head_seq"].as_u64().unwrap();
    daemon.kill();
    for keeper in keepers {
        proc::signal(keeper, Signal::SIGKILL);
        wait_until("the keeper is gone", PATIENCE, || !proc::is_alive(keeper)).await;
    }
    fs::remove_dir_all(folder(&daemon, &gone)).unwrap();
    let aside = daemon.data_dir().join("aside");
    fs::rename(folder(&daemon, &spoilt), &aside).unwrap();
    fs::write(folder(&daemon, &spoilt), "no folder").unwrap();
    daemon.start().await;
    let rest = daemon.rest();

    let view = rest.session(&gone).await;
    assert_eq!(view["state"], "failed", "{view:#}");
    assert_eq!(view["reason"]["code"], "journal_damaged", "{view:#}");
    let (records, missing) = pages(&rest, &gone, 0).await;
    assert_eq!(missing.len(), 1);
    assert!(missing[0].0 == 1 && missing[0].1 <= head, "{missing:?}");
    assert_eq!(notices(&records), missing);
    check_ways_out(&daemon, &gone).await;

    let view = rest.session(&spoilt).await;
    assert_eq!(view["state"], "failed", "{view:#}");
    assert_eq!(view["reason"]["code"], "journal_unreadable", "{view:#}");
    let refused = rest.lifecycle(&spoilt, "resume", json!({})).await;
    assert!(refused.status.is_server_error(), "{refused:?}");
    // Once it can be read it goes on, under the same daemon.
    fs::remove_file(folder(&daemon, &spoilt)).unwrap();
    fs::rename(&aside, folder(&daemon, &spoilt)).unwrap();
    check_ways_out(&daemon, &spoilt).await;
}
