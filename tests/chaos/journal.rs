//! Owns reading the journal of a session as it lies on the disk, with eyes of its own and not the daemon's. In the place of records that
//! were taken out on purpose come those that the test has seen before.

use std::{collections::BTreeMap, fs, ops::RangeInclusive, path::Path};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::pieces;

/// A record as docs/protocol/records.md describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    seq: u64,
    ts: &'a str,
    src: &'a str,
    #[serde(default)]
    by: Option<&'a str>,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// The line that stands in the place of records that a compaction took out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Compacted<'a> {
    seq: u64,
    last_seq: u64,
    src: &'a str,
}

/// The name of what retention removed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpTo {
    last_seq: u64,
}

/// A line that the agent printed.
#[derive(Debug)]
pub(crate) struct Printed {
    /// Byte for byte; `None` when the test had not seen it before a compaction took it out.
    pub(crate) text: Option<String>,
    /// Whether a compaction has taken it out.
    pub(crate) is_gone: bool,
}

impl Printed {
    /// Whether this is the line that was printed.
    pub(crate) fn is(&self, line: &str) -> bool {
        match &self.text {
            Some(text) => text == line,
            None => pieces::is_piece(line),
        }
    }
}

/// One life of one process.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) id: String,
    /// The content of `run_started`.
    pub(crate) started: Value,
    /// Whether it ended.
    pub(crate) is_over: bool,
    /// How it ended; `null` when nobody saw that.
    pub(crate) exit: Value,
    /// Whether it was to be parked.
    pub(crate) parked: bool,
    /// The lines of the agent.
    pub(crate) lines: Vec<Printed>,
    /// Among them those that are about turns.
    pub(crate) results: Vec<Value>,
    /// Prompts that were written to it, with the numbers of their records.
    pub(crate) prompts: Vec<(String, u64)>,
    /// How often the agent said of a prompt that it began it.
    pub(crate) begun: BTreeMap<String, u32>,
    /// Prompts that the agent has done.
    pub(crate) done: Vec<String>,
}

/// A journal.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// The records by their numbers, from 1 on; those that are gone as they were, where the test has seen them.
    records: Vec<Option<String>>,
    pub(crate) head: u64,
    pub(crate) runs: Vec<Run>,
    /// How often its process, started in advance, became this session's.
    pub(crate) claims: u32,
    /// Retention has removed the records up to this one.
    pub(crate) removed: u64,
    /// Whether some of these went before the test had seen them. Then its first run stands for all that are not known.
    pub(crate) is_unseen: bool,
    /// The ranges that compactions took out, as the journal names them.
    compacted: Vec<RangeInclusive<u64>>,
}

impl Journal {
    /// Reads all segments. `seen` has the records that the test has seen before.
    ///
    /// # Errors
    /// The faults of the segments.
    pub(crate) fn read(dir: &Path, seen: impl Fn(u64) -> Option<String>) -> Result<Self, String> {
        let mut segments: Vec<_> = fs::read_dir(dir)
            .map_err(|error| format!("{}: {error}", dir.display()))?
            .map(|entry| entry.unwrap().path())
            .filter(|path| is_segment(path))
            .collect();
        segments.sort();
        let mut journal = Self {
            removed: removed(dir)?,
            ..Self::default()
        };
        for path in segments {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let first: u64 = name.parse().map_err(|_| format!("a segment is called {name}"))?;
            if journal.head == 0 && first > 1 {
                journal.take_removed(first - 1, &seen)?;
            }
            if first != journal.head + 1 {
                let (head, dir) = (journal.head, dir.display());
                return Err(format!("segment {name} comes after record {head} in {dir}"));
            }
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            if !text.is_empty() && !text.ends_with('\n') {
                return Err(format!("{} ends with half a record", path.display()));
            }
            for line in text.lines() {
                let taken = match serde_json::from_str::<Compacted<'_>>(line) {
                    Ok(range) => journal.take_compacted(&range, &seen),
                    Err(_) => journal.take(line),
                };
                taken.map_err(|fault| format!("{}: {fault}: {}", path.display(), start(line)))?;
            }
        }
        Ok(journal)
    }

    /// A record as it is or was; `None` when there is none, or the test has never seen it.
    pub(crate) fn record(&self, seq: u64) -> Option<&str> {
        let place = usize::try_from(seq.checked_sub(1)?).unwrap();
        self.records.get(place)?.as_deref()
    }

    /// Whether the journal names a reason for which this record is gone, so that a client may be told the same.
    pub(crate) fn is_gone(&self, seq: u64, reason: &str) -> bool {
        let is_removed = seq <= self.removed;
        match reason {
            "removed" => is_removed,
            // It may have been removed since.
            "compacted" => is_removed || self.compacted.iter().any(|range| range.contains(&seq)),
            _ => false,
        }
    }

    /// The first files are not there.
    fn take_removed(&mut self, last: u64, seen: impl Fn(u64) -> Option<String>) -> Result<(), String> {
        if last > self.removed {
            return Err(format!(
                "records 1 to {last} are gone, and nothing is said of those after {}",
                self.removed
            ));
        }
        for seq in 1..=last {
            let Some(line) = seen(seq) else {
                self.is_unseen = true;
                self.runs = vec![Run::default()];
                self.records.resize(usize::try_from(last).unwrap(), None);
                self.head = last;
                return Ok(());
            };
            self.take(&line)
                .map_err(|fault| format!("{fault}: {}", start(&line)))?;
        }
        Ok(())
    }

    fn take_compacted(
        &mut self,
        range: &Compacted<'_>,
        seen: impl Fn(u64) -> Option<String>,
    ) -> Result<(), String> {
        if range.src != "compacted" || range.seq != self.head + 1 || range.last_seq < range.seq {
            return Err(format!("after record {}", self.head));
        }
        self.compacted.push(range.seq..=range.last_seq);
        for seq in range.seq..=range.last_seq {
            let Some(line) = seen(seq) else {
                self.head = seq;
                self.records.push(None);
                self.running()?.lines.push(Printed {
                    text: None,
                    is_gone: true,
                });
                continue;
            };
            self.take(&line)?;
            let data: Line<'_> = serde_json::from_str(&line).map_err(|error| error.to_string())?;
            if data.src != "cli" || !pieces::is_piece(data.data.get()) {
                return Err(format!(
                    "record {seq} was taken out, and is no piece of a message: {}",
                    start(&line)
                ));
            }
            if let Some(printed) = self.running()?.lines.last_mut() {
                printed.is_gone = true;
            }
        }
        Ok(())
    }

    fn running(&mut self) -> Result<&mut Run, String> {
        let run = self.runs.last_mut().filter(|run| !run.is_over);
        run.ok_or_else(|| "a line of no process".to_owned())
    }

    /// The run that is not over.
    pub(crate) fn live(&self) -> Option<&Run> {
        self.runs.last().filter(|run| !run.is_over)
    }

    fn take(&mut self, text: &str) -> Result<(), String> {
        let line: Line<'_> = serde_json::from_str(text).map_err(|error| format!("no record: {error}"))?;
        if line.seq != self.head + 1 {
            return Err(format!("after record {}", self.head));
        }
        self.head = line.seq;
        self.records.push(Some(text.to_owned()));
        if line.ts.len() != 27 || !line.ts.ends_with('Z') {
            return Err("the time is none".to_owned());
        }
        if line.by.is_some() != (line.src == "client") {
            return Err("only lines of clients say by whom they are".to_owned());
        }
        match line.src {
            "cli" => self.on_line(line.data.get()),
            "client" => self.on_client(line.seq, line.data.get()),
            "daemon" => self.on_note(line.data.get()),
            "stdout_text" | "stderr" => Ok(()),
            other => Err(format!("no source: {other}")),
        }
    }

    fn on_note(&mut self, data: &str) -> Result<(), String> {
        let note: Value = parse(data)?;
        let run = note["run_id"].as_str().unwrap_or_default().to_owned();
        match note["type"].as_str() {
            Some("run_started") => {
                let is_open = |live: &Run| !live.id.is_empty();
                if self.live().is_some_and(is_open) {
                    return Err("a run starts before the one before it is over".to_owned());
                }
                self.runs.push(Run {
                    id: run,
                    started: note,
                    ..Run::default()
                });
            }
            Some("run_exited" | "run_lost") => {
                let live = self
                    .runs
                    .last_mut()
                    .filter(|live| !live.is_over && (live.id == run || live.id.is_empty()));
                let live = live.ok_or("a run ends that does not run")?;
                live.is_over = true;
                if note["type"] == "run_exited" {
                    live.exit = note;
                }
            }
            Some("stop_requested") if note["park"].is_string() => {
                if let Some(live) = self.runs.last_mut() {
                    live.parked = true;
                }
            }
            Some("claimed") => self.claims += 1,
            Some("notice") if note["code"] == "records_missing" => {
                return Err("the daemon missed records".to_owned());
            }
            Some(_) => {}
            None => return Err("a note without a type".to_owned()),
        }
        Ok(())
    }

    fn on_client(&mut self, seq: u64, data: &str) -> Result<(), String> {
        let line: Value = parse(data)?;
        if line["type"] == "user"
            && let Some(uuid) = line["uuid"].as_str()
        {
            let run = self.runs.last_mut().filter(|run| !run.is_over);
            let run = run.ok_or("a prompt is written to no process")?;
            run.prompts.push((uuid.to_owned(), seq));
        }
        Ok(())
    }

    fn on_line(&mut self, data: &str) -> Result<(), String> {
        let run = self.running()?;
        run.lines.push(Printed {
            text: Some(data.to_owned()),
            is_gone: false,
        });
        // Parsing all of them would take most of the test's time.
        if data.starts_with(r#"{"type":"stream_event""#) {
            return Ok(());
        }
        let line: Value = parse(data)?;
        match line["type"].as_str() {
            Some("result") => run.results.push(line),
            Some("command_lifecycle") => {
                let uuid = line["command_uuid"].as_str().unwrap_or_default().to_owned();
                match line["state"].as_str() {
                    Some("started") => *run.begun.entry(uuid).or_default() += 1,
                    Some("completed" | "cancelled" | "discarded") => run.done.push(uuid),
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Whether it is a file of records. The ledger beside them has the same extension.
pub(crate) fn is_segment(path: &Path) -> bool {
    let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    path.extension().is_some_and(|extension| extension == "ndjson")
        && path
            .file_stem()
            .is_some_and(|name| name.to_str().is_some_and(is_number))
}

/// The last record that retention has removed, or is about to.
fn removed(dir: &Path) -> Result<u64, String> {
    match fs::read_to_string(dir.join("removed.json")) {
        Ok(text) => serde_json::from_str::<UpTo>(&text)
            .map(|up_to| up_to.last_seq)
            .map_err(|error| format!("removed.json is {text:?}: {error}")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(format!("removed.json: {error}")),
    }
}

fn parse(data: &str) -> Result<Value, String> {
    serde_json::from_str(data).map_err(|error| error.to_string())
}

fn start(line: &str) -> String {
    line.chars().take(300).collect()
}

/// The journal that these files make. Records in `seen` are known from before.
#[cfg(test)]
fn read(files: &[(&str, &str)], seen: &[&str]) -> Result<Journal, String> {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let seen = |seq: u64| {
        let start = format!(r#"{{"seq":{seq},"#);
        seen.iter()
            .find(|line| line.starts_with(&start))
            .map(|line| (*line).to_owned())
    };
    Journal::read(dir.path(), seen)
}

#[test]
fn only_pieces_go_and_what_went_has_a_name() {
    let record = |seq: u64, src: &str, data: &str| {
        format!(r#"{{"seq":{seq},"ts":"2026-01-02T03:04:05.678901Z","src":"{src}","data":{data}}}"#)
    };
    let started = record(1, "daemon", r#"{"type":"run_started","run_id":"r"}"#);
    let piece = record(2, "cli", r#"{"type":"stream_event","event":{"type":"ping"}}"#);
    let result = record(2, "cli", r#"{"type":"result"}"#);
    let last = record(
        3,
        "daemon",
        r#"{"type":"run_exited","run_id":"r","intent":"stop"}"#,
    );
    let span = r#"{"seq":2,"last_seq":2,"src":"compacted"}"#;
    let first = "0000000000000001.ndjson";
    let compacted = format!("{started}\n{span}\n{last}\n");
    let journal = read(&[(first, &compacted)], &[&piece]).unwrap();
    assert_eq!((journal.head, journal.record(2)), (3, Some(piece.as_str())));
    assert!(
        journal.is_gone(2, "compacted") && !journal.is_gone(2, "removed") && !journal.is_gone(3, "compacted")
    );
    assert!(read(&[(first, &compacted)], &[]).unwrap().runs[0].lines[0].is_gone);
    read(&[(first, &compacted)], &[&result]).unwrap_err();
    read(&[(first, &format!("{started}\n{last}\n"))], &[&piece]).unwrap_err();
    let missed = record(2, "daemon", r#"{"type":"notice","code":"records_missing"}"#);
    read(&[(first, &format!("{started}\n{missed}\n"))], &[]).unwrap_err();

    let third = ("0000000000000003.ndjson", format!("{last}\n"));
    let rest = (third.0, third.1.as_str());
    read(&[rest], &[&started, &piece]).unwrap_err();
    read(
        &[rest, ("removed.json", r#"{"last_seq":1}"#)],
        &[&started, &piece],
    )
    .unwrap_err();
    let named = ("removed.json", r#"{"last_seq":2}"#);
    let journal = read(&[rest, named], &[&started, &piece]).unwrap();
    assert!(journal.is_gone(2, "removed") && journal.runs[0].is_over && !journal.is_unseen);
    assert!(read(&[rest, named], &[&started]).unwrap().is_unseen);
}
