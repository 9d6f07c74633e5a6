//! Owns reading the journal of a session as it lies on the disk, with eyes of its own and not the daemon's.

use std::{collections::BTreeMap, fs, path::Path};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

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

/// One life of one process.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) id: String,
    /// What `run_started` says.
    pub(crate) started: Value,
    /// Whether it ended.
    pub(crate) is_over: bool,
    /// How it ended; `null` when nobody saw that.
    pub(crate) exit: Value,
    /// Whether it was to be parked.
    pub(crate) parked: bool,
    /// The lines of the agent, byte for byte.
    pub(crate) lines: Vec<String>,
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
    pub(crate) bytes: Vec<u8>,
    pub(crate) head: u64,
    pub(crate) runs: Vec<Run>,
    /// How often its process, started in advance, became this session's.
    pub(crate) claims: u32,
}

impl Journal {
    /// Reads all segments.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn read(dir: &Path) -> Result<Self, String> {
        let mut segments: Vec<_> = fs::read_dir(dir)
            .map_err(|error| format!("{}: {error}", dir.display()))?
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "ndjson"))
            .collect();
        segments.sort();
        let mut journal = Self::default();
        for path in segments {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let first: u64 = name.parse().map_err(|_| format!("a segment is called {name}"))?;
            if first != journal.head + 1 {
                return Err(format!(
                    "segment {name} comes after record {} in {}",
                    journal.head,
                    dir.display()
                ));
            }
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            if !text.is_empty() && !text.ends_with('\n') {
                return Err(format!("{} ends with half a record", path.display()));
            }
            for line in text.lines() {
                journal
                    .take(line)
                    .map_err(|fault| format!("{}: {fault}: {}", path.display(), start(line)))?;
            }
            journal.bytes.extend_from_slice(text.as_bytes());
        }
        Ok(journal)
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
                if self.live().is_some() {
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
                    .filter(|live| !live.is_over && live.id == run);
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
        let run = self.runs.last_mut().filter(|run| !run.is_over);
        let run = run.ok_or("a line of no process")?;
        run.lines.push(data.to_owned());
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

fn parse(data: &str) -> Result<Value, String> {
    serde_json::from_str(data).map_err(|error| error.to_string())
}

fn start(line: &str) -> String {
    line.chars().take(300).collect()
}
