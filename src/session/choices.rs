//! Owns what people set while a process runs, so that the next process gets it too: settings, MCP servers, how the model
//! thinks, the permission rules that came with decisions, hooks of named clients. It may hold secrets, so it is in a file of its own beside the journal, which only the owner can read.
//!
//! A request is kept before the CLI is asked, and counts once the CLI has done it. So a daemon that dies in between reads
//! the answer in the journal and loses nothing.

mod effort;
mod kept;
mod line;
mod restore;
mod rules;
mod yields;

use std::{
    io,
    path::{Path, PathBuf},
};

use serde_json::value::RawValue;

use crate::{
    claude::{ControlResponse, hooks::HookMatcher},
    domain::{ClientId, ErrorCode, PromptUuid, RunId, Seq, TurnEnd},
    journal::{read_beside, replace_beside},
    json,
};

use effort::TypedEfforts;
pub(super) use effort::{COMMAND_CHARS, is_effort_command};
pub use kept::Kept;
pub(super) use line::{choice_of, is_named_client, secret_line};
pub(super) use restore::{RestoreFailure, Restoring, is_step, tolerates};
pub use yields::SaidAnew;

/// The name of the file.
const FILE: &str = "choices.json";
/// Where a damaged file is kept once a person has asked for a fresh start.
const ASIDE: &str = "choices.json.aside";

/// Why what was set cannot be used or kept.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ChoicesError {
    /// The file is there and cannot be read. It may hold a `deny`, so nothing starts without it.
    #[error(
        "the run-time choices cannot be read from {path}: {detail}; mend the file, or resume with fresh to put it aside"
    )]
    Damaged {
        /// The file.
        path: String,
        /// The fault.
        detail: String,
    },
    /// The records of the last process say that there was a file, and there is none. It may have held a `deny`.
    #[error(
        "the run-time choices are gone from {path}; put the file back and restart the daemon, or resume with fresh to begin without them"
    )]
    Missing {
        /// The file.
        path: String,
    },
    /// The file cannot be written.
    #[error("the run-time choices cannot be kept: {0}")]
    Unwritten(String),
}

impl ChoicesError {
    /// The code of the fault.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Damaged { .. } => ErrorCode::ChoicesDamaged,
            Self::Missing { .. } => ErrorCode::ChoicesMissing,
            Self::Unwritten(_) => ErrorCode::StorageUnavailable,
        }
    }
}

/// A record that tells of choices.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChoiceRecord {
    /// A process began.
    Began {
        /// Whether anything had been set; `None` when an older version began it, which says nothing.
        has_choices: Option<bool>,
        /// Whether it is given something by requests.
        restores: bool,
    },
    /// A request that sets something was sent.
    Sent {
        /// Whether the journal has only the names of what it sets.
        is_redacted: bool,
    },
}

/// The file as the records of the newest process tell of it.
#[derive(Clone, Copy, Debug, Default)]
struct Recorded {
    /// Whether a file stays once it is there: older versions removed one in which nothing was set any more.
    is_kept: bool,
    /// Whether they tell of choices.
    has_choices: bool,
}

/// The choices, and their file.
#[derive(Debug)]
pub(super) struct Choices {
    dir: PathBuf,
    kept: Result<Kept, String>,
    /// The content of the file; empty when there is none. Once there is one it stays, so that its absence says something.
    written: Vec<u8>,
    /// Whether the file was there at first, or was written since.
    is_there: bool,
    recorded: Recorded,
    /// Whether old records are being read. Only the last of them says whether the file is missing, so none is written before.
    is_replaying: bool,
    /// The newest record with an update of rules, an effort, or a stop.
    seen: u64,
    efforts: TypedEfforts,
    pub(super) restoring: Restoring,
}

impl Choices {
    /// Reads the file in a session's folder; none is as good as an empty one.
    pub(super) fn open(dir: &Path) -> Self {
        let (kept, written) = match read_beside(dir, FILE) {
            Ok(Some(bytes)) => (Kept::read(&bytes), bytes),
            Ok(None) => (Ok(Kept::default()), Vec::new()),
            Err(error) => (Err(error.to_string()), Vec::new()),
        };
        Self {
            dir: dir.to_owned(),
            is_there: kept.is_err() || !written.is_empty(),
            recorded: Recorded::default(),
            is_replaying: false,
            kept,
            written,
            seen: 0,
            efforts: TypedEfforts::default(),
            restoring: Restoring::default(),
        }
    }

    /// The records of earlier daemons are read from now on.
    pub(super) fn begin_replay(&mut self) {
        self.is_replaying = true;
    }

    /// All of them are read.
    pub(super) fn end_replay(&mut self) {
        self.is_replaying = false;
        self.change(|_| {});
    }

    /// A record tells of choices.
    pub(super) fn on_record(&mut self, record: ChoiceRecord) {
        match record {
            ChoiceRecord::Began {
                has_choices,
                restores,
            } => {
                self.recorded = Recorded {
                    is_kept: has_choices.is_some(),
                    has_choices: has_choices.unwrap_or(restores),
                };
            }
            ChoiceRecord::Sent { is_redacted } => {
                self.recorded.has_choices |= is_redacted || self.recorded.is_kept;
            }
        }
    }

    /// Whether there must be a file, and is none.
    fn is_missing(&self) -> bool {
        !self.is_there && self.recorded.has_choices && self.recorded.is_kept
    }

    /// The file, if it may have been lost under an older version and nobody has told so.
    pub(super) fn take_lost(&mut self) -> Option<PathBuf> {
        let is_lost = !self.is_there && !self.recorded.is_kept;
        (is_lost && std::mem::take(&mut self.recorded.has_choices)).then(|| self.path())
    }

    /// Whether the file says that anything is set.
    pub(super) fn are_any(&self) -> bool {
        !self.written.is_empty() && self.kept.as_ref().is_ok_and(|kept| !kept.is_empty())
    }

    /// The choices that the next process is started with.
    ///
    /// # Errors
    /// It cannot be read, or is gone, or the newest of it cannot be written down.
    pub(super) fn get(&mut self) -> Result<&Kept, ChoicesError> {
        if self.is_missing() {
            return Err(ChoicesError::Missing {
                path: self.path().display().to_string(),
            });
        }
        self.save()?;
        self.kept.as_ref().map_err(|detail| ChoicesError::Damaged {
            path: self.path().display().to_string(),
            detail: detail.clone(),
        })
    }

    /// Keeps a request that is about to be sent to the CLI.
    ///
    /// # Errors
    /// As [`Self::get`]; then it must not be sent.
    pub(super) fn ask(&mut self, id: &str, request: Box<RawValue>, by: &str) -> Result<(), ChoicesError> {
        self.get()?;
        if let Ok(kept) = &mut self.kept {
            kept.ask(id, request, by);
        }
        let saved = self.save();
        if saved.is_err() {
            self.unsent(id);
        }
        saved
    }

    /// The CLI answered one of our requests.
    pub(super) fn answered(&mut self, answer: &ControlResponse) {
        let is_done = answer.outcome.is_ok();
        self.change(|kept| kept.answered(&answer.request_id, is_done));
    }

    /// The CLI was given an answer that updates permissions.
    pub(super) fn rules_updated(&mut self, seq: Seq, answer: &RawValue) {
        self.seen = self.seen.max(seq.get());
        self.change(|kept| kept.rules.answered(seq, answer.get()));
    }

    /// A person stopped the session.
    pub(super) fn stopped(&mut self, seq: Seq) {
        self.seen = self.seen.max(seq.get());
        self.change(|kept| kept.rules.stopped(seq));
    }

    /// A prompt that is the command `/effort` was written to the CLI.
    pub(super) fn effort_typed(&mut self, prompt: PromptUuid) {
        self.efforts.typed(prompt);
    }

    /// A prompt was taken back before it began.
    pub(super) fn prompt_cancelled(&mut self, prompt: PromptUuid) {
        self.efforts.take(&[prompt]);
    }

    /// A turn ended; `result` is the CLI's line. The line of the command `/effort` says what the CLI made of it.
    pub(super) fn turn_ended(&mut self, turn: &TurnEnd, result: Option<&RawValue>) {
        if !self.efforts.take(&turn.prompts) {
            return;
        }
        let answer = result.and_then(|result| json::member_text(result.get(), "result"));
        let settings = answer.and_then(|answer| effort::settings_of(&answer));
        self.efforts.answered(settings.is_some());
        let seq = turn.last_seq.get();
        self.seen = self.seen.max(seq);
        self.change(|kept| kept.effort_answered(seq, settings.unwrap_or_default()));
    }

    /// The hooks that named clients registered, as the CLI gets them.
    pub(super) fn hooks(&self) -> Vec<HookMatcher> {
        self.kept.as_ref().map(Kept::hooks).unwrap_or_default()
    }

    /// The request as the CLI gets it, if that is another one: new permissions keep the rules that only settings can say.
    pub(super) fn with_rules(&self, subtype: &str, request: &str) -> Option<String> {
        let rules = &self
            .kept
            .as_ref()
            .ok()
            .filter(|_| subtype == "apply_flag_settings")?
            .rules;
        rules.merge_into_request(request)
    }

    /// A request did not reach the CLI.
    pub(super) fn unsent(&mut self, id: &str) {
        self.change(|kept| kept.answered(id, false));
    }

    /// The process ended: it answers nothing any more. Whether a person had typed an effort that nobody knows; prompts
    /// that are carried go to the next process.
    pub(super) fn run_ended(&mut self, is_carried: impl Fn(&PromptUuid) -> bool) -> bool {
        self.restoring = Restoring::default();
        self.change(Kept::forget_unanswered);
        std::mem::take(&mut self.efforts).is_unknown(is_carried)
    }

    /// Puts the file aside, after which nothing is set: a person wants a fresh start, and it cannot be used. A file that says
    /// so takes its place, so that no later start takes it for lost.
    ///
    /// # Errors
    /// It cannot be renamed or replaced.
    pub(super) fn put_aside(&mut self) -> Result<(), ChoicesError> {
        let unwritten = |error: io::Error| ChoicesError::Unwritten(error.to_string());
        let (path, aside) = (self.path(), self.dir.join(ASIDE));
        let is_moved = match std::fs::rename(&path, &aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unwritten(error)),
            moved => moved.is_ok(),
        };
        let kept = Kept::since(self.seen);
        let bytes = kept.to_json();
        if let Err(error) = replace_beside(&self.dir, FILE, &bytes) {
            if is_moved {
                // If this fails too, the file is missing, and a fresh start can still be asked for.
                std::fs::rename(&aside, &path).ok();
            }
            return Err(unwritten(error));
        }
        self.kept = Ok(kept);
        self.written = bytes;
        self.is_there = true;
        Ok(())
    }

    /// Launch options were said anew: what was set about the same before counts no more.
    pub(super) fn give_way(&mut self, said: &SaidAnew) {
        self.change(|kept| kept.give_way(said));
    }

    /// Whether the file cannot be read, or is gone.
    pub(super) fn is_unusable(&self) -> bool {
        self.kept.is_err() || self.is_missing()
    }

    /// The next request that gives the process what was set, by the ids that are left, without the directories that are
    /// `outside` of the roots; `None` while one is under way. It is under way from then on.
    pub(super) fn next_step(
        &mut self,
        run: RunId,
        left: &[String],
        outside: &[String],
        is_here: impl Fn(&ClientId) -> bool,
    ) -> Option<Result<restore::Step, RestoreFailure>> {
        let id = left.first()?;
        if !self.restoring.begin(run, id) {
            return None;
        }
        let kept = self.kept.as_ref().ok();
        let step = kept.and_then(|kept| restore::step(kept, id, outside, is_here));
        Some(step.ok_or(RestoreFailure))
    }

    fn path(&self) -> PathBuf {
        self.dir.join(FILE)
    }

    fn change(&mut self, change: impl FnOnce(&mut Kept)) {
        let Ok(kept) = &mut self.kept else {
            return;
        };
        change(kept);
        if let Err(error) = self.save() {
            // The next start needs it, and says so.
            tracing::error!(path = %self.path().display(), %error, "what was set is in memory only");
        }
    }

    /// Brings the file in line with what is kept.
    fn save(&mut self) -> Result<(), ChoicesError> {
        if self.is_replaying || self.is_missing() {
            // A file with a part of it would hide that the rest is gone.
            return Ok(());
        }
        let Ok(kept) = &self.kept else {
            return Ok(());
        };
        if kept.is_empty() && self.written.is_empty() {
            return Ok(());
        }
        let bytes = kept.to_json();
        if bytes == self.written {
            return Ok(());
        }
        replace_beside(&self.dir, FILE, &bytes)
            .map_err(|error| ChoicesError::Unwritten(error.to_string()))?;
        self.written = bytes;
        self.is_there = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
