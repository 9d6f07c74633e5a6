//! Owns the daemon's own journal records about a session: their names and shapes (`data.type` of records with `src` `daemon`).

use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::{
    AgentKind, ApprovalId, ApprovalKind, ApprovalState, CliSessionId, FailReason, ParkReason, Parked,
    PromptUuid, Restart, RestartTerms, RunExit, RunId, Seq, SessionState, SilenceAction, StartMode,
    Timestamp, fact::CliTotals,
};

use super::desk::FallbackReason;
use crate::journal::Missing;

/// A record that the daemon or a keeper writes about a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Note {
    /// A process was asked for. Holds all that is needed to read the journal from here on without what came before.
    RunStarted(RunStarted),
    /// The process ended; its keeper says how.
    RunExited {
        run_id: RunId,
        #[serde(flatten)]
        exit: RunExit,
    },
    /// The process ended together with its keeper: nobody saw how.
    RunLost {
        run_id: RunId,
        /// Whether it was lost before the eyes of a daemon. One that finds at its start that all is gone does not start all
        /// again at once.
        #[serde(default)]
        watched: bool,
    },
    /// No process could be started: there is no run.
    StartFailed {
        reason: FailReason,
        /// Whether it may be tried again, if it was a restart.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        retry: bool,
    },
    /// Somebody asked for the stop of the process, or of the restart that is due.
    StopRequested {
        by: String,
        /// Set when the daemon stops a process that was not ready after this time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start_timeout_ms: Option<u64>,
        /// Set when the daemon stops a process that was silent for this long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        silent_for_ms: Option<u64>,
        /// Set when the daemon stops a process to park its session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        park: Option<ParkReason>,
    },
    /// Something that a person may want to know.
    Notice(Notice),
    /// The session is in another state.
    State {
        state: SessionState,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<FailReason>,
        /// Set in the state `starting` while a restart is due.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        restart: Option<DueRestart>,
        /// Set in the state `parked`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parked: Option<Parked>,
    },
    /// The process was started before anybody asked for the session, which begins here.
    Claimed(Claimed),
    /// The CLI's request in record `seq` needs a person.
    Approval {
        approval_id: ApprovalId,
        request_id: String,
        seq: Seq,
        kind: ApprovalKind,
        /// The tool, the MCP server or the kind of dialog.
        #[serde(alias = "tool_name")]
        subject: String,
        /// When a rule decides if nobody has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline: Option<Timestamp>,
        /// The rule that matched. A later record of the same approval says that this has changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
    },
    /// It needs nobody any more.
    Decision {
        approval_id: ApprovalId,
        state: ApprovalState,
        by: String,
    },
    /// A hook is asked again about a call that it had put off. The answer that follows is that of the one who decided meanwhile.
    CallDecided {
        request_id: String,
        approval_id: ApprovalId,
        by: String,
    },
    /// The CLI's request got no answer of its owner's; it got the stated one.
    Fallback {
        request_id: String,
        subtype: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<FallbackReason>,
    },
}

/// The start of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RunStarted {
    pub(super) run_id: RunId,
    pub(super) mode: StartMode,
    pub(super) cli_session_id: CliSessionId,
    /// Turns that ended before this run.
    pub(super) turns: u64,
    /// The CLI's last known running totals of the conversation that is opened.
    pub(super) base: CliTotals,
    /// The kind of agent; older versions did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<AgentKind>,
    /// The permission mode that the process was asked to start in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) permission_mode: Option<String>,
    /// The terms on which it is restarted when it dies; absent when it never is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) restart: Option<RestartTerms>,
    /// Prompts that the last process had not begun, and that are written to this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) carried: Vec<Carried>,
    /// Since when the session was parked, and why, when the process is started by a wake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parked: Option<Parked>,
    /// The id to go back to if the CLI does not know the conversation by `cli_session_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) earlier_session_id: Option<CliSessionId>,
    /// The ids of the requests that give the process what was set at run time. It is ready once all are answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) restores: Vec<String>,
    /// Whether there was anything that had been set at run time. Older versions do not say that there was nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) has_choices: Option<bool>,
    /// The directories that it does not get, as they are outside of the roots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) left_out: Vec<String>,
    /// The message after which the conversation goes on: the process knows nothing of what came behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) resume_at: Option<Uuid>,
}

/// How a process that was started in advance became a session's.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Claimed {
    /// The profile of the configuration that it was started for.
    pub(super) profile: String,
    /// The terms, from here on, on which it is restarted when it dies; absent when it never is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) restart: Option<RestartTerms>,
}

/// A prompt that goes from one process to the next.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Carried {
    pub(super) uuid: PromptUuid,
    /// The record of its line.
    pub(super) seq: Seq,
}

/// A restart, as its record tells of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DueRestart {
    /// Which one in a row.
    pub(super) attempt: u32,
    pub(super) at: Timestamp,
    /// Why the last process ended.
    pub(super) reason: FailReason,
}

impl DueRestart {
    pub(super) fn of(restart: &Restart) -> Self {
        Self {
            attempt: restart.attempt,
            at: restart.at,
            reason: restart.reason.clone(),
        }
    }
}

/// A notice of the daemon's own, told from those of the keeper by its code.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Notice {
    /// The CLI owes output and has said nothing for long.
    Silence(Silence),
    /// The journal was damaged.
    Lost(Lost),
    /// Directories of the launch options were left out.
    LeftOut(LeftOut),
    /// Something that was set at run time does not hold for this process.
    Choices(ChoicesNotice),
    /// The process closed its stdout and is stopped.
    Mute(Mute),
    /// Something about the conversation.
    Told(Told),
}

/// A notice about what was set at run time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ChoicesNotice {
    pub(super) code: ChoicesCode,
    pub(super) detail: String,
}

impl ChoicesNotice {
    /// The clients that serve these servers are not here.
    pub(super) fn left_out(servers: &[String]) -> Self {
        Self {
            code: ChoicesCode::ServersLeftOut,
            detail: format!(
                "nobody is here who serves {}; a client can announce it again",
                servers.join(", ")
            ),
        }
    }

    /// The file may be gone; an older version did not write down whether there was one.
    pub(super) fn lost(path: &Path) -> Self {
        Self {
            code: ChoicesCode::ChoicesMissing,
            detail: format!(
                "{} is not there, and something was set at run time; a setting or a deny that was not taken back does not hold for this process",
                path.display()
            ),
        }
    }

    /// No process starts with what is stored under these names.
    pub(super) fn without(names: &[&str]) -> Self {
        Self {
            code: ChoicesCode::OptionsLeftOut,
            detail: format!(
                "no process starts with the {} that the session has, so this one has the CLI's default; set another",
                names.join(" and the ")
            ),
        }
    }

    /// A person typed an effort, and the process ended before its answer was known, or with one that is not understood.
    pub(super) fn effort_unknown() -> Self {
        Self {
            code: ChoicesCode::EffortUnknown,
            detail: "somebody typed /effort, and what came of it is not known; the next process may have another effort"
                .to_owned(),
        }
    }
}

/// The names of these notices.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum ChoicesCode {
    #[serde(rename = "servers_left_out")]
    ServersLeftOut,
    #[serde(rename = "choices_missing")]
    ChoicesMissing,
    #[serde(rename = "options_left_out")]
    OptionsLeftOut,
    #[serde(rename = "effort_unknown")]
    EffortUnknown,
}

/// The configuration bounds where sessions work, and some directories of the session's options are outside.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LeftOut {
    pub(super) code: LeftOutCode,
    pub(super) detail: String,
    pub(super) directories: Vec<String>,
}

impl LeftOut {
    pub(super) fn new(directories: Vec<String>) -> Self {
        Self {
            code: LeftOutCode::DirectoriesLeftOut,
            detail: "directories of the session's options are outside of sessions.cwd_roots".to_owned(),
            directories,
        }
    }
}

/// Something about the conversation that a person may want to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) code: ToldCode,
    pub(super) detail: String,
    /// The conversation that the session had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<CliSessionId>,
    /// The conversation that the CLI is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<CliSessionId>,
}

/// Notices that follow from the records and are not among them yet.
#[derive(Debug, Default)]
pub(super) struct Unwritten(Vec<Told>);

impl Unwritten {
    /// A notice is due.
    pub(super) fn add(&mut self, told: Told) {
        self.0.push(told);
    }

    /// A record holds the notice. The words of an older version may differ.
    pub(super) fn read(&mut self, told: &Told) {
        let is_it = |due: &Told| (due.code, due.from, due.to) == (told.code, told.from, told.to);
        if let Some(place) = self.0.iter().position(is_it) {
            self.0.remove(place);
        }
    }

    pub(super) fn into_notices(self) -> Vec<Told> {
        self.0
    }
}

impl Told {
    pub(super) fn changed(from: CliSessionId, to: CliSessionId) -> Self {
        Self {
            code: ToldCode::Changed,
            detail: format!("the conversation was {from} and is {to} now"),
            from: Some(from),
            to: Some(to),
        }
    }

    pub(super) fn taken(detail: String, own: Option<CliSessionId>, other: CliSessionId) -> Self {
        Self {
            code: ToldCode::Taken,
            detail,
            from: own,
            to: Some(other),
        }
    }

    pub(super) fn unusable(detail: String) -> Self {
        Self {
            code: ToldCode::Unusable,
            detail,
            from: None,
            to: None,
        }
    }
}

/// The keeper's notice about a process that it cannot hear.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Mute {
    code: MuteCode,
}

/// The name of that notice.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum MuteCode {
    #[serde(rename = "stdout_closed")]
    StdoutClosed,
}

/// The name of that notice.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum LeftOutCode {
    #[serde(rename = "directories_left_out")]
    DirectoriesLeftOut,
}

impl ToldCode {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "conversation_changed",
            Self::Taken => FailReason::CONVERSATION_TAKEN,
            Self::Unusable => FailReason::CONVERSATION_UNUSABLE,
        }
    }
}

/// The names of those notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ToldCode {
    /// The CLI reports another id than before.
    #[serde(rename = "conversation_changed")]
    Changed,
    /// The CLI opened a conversation of another session.
    #[serde(rename = "conversation_taken")]
    Taken,
    /// The model API refuses the conversation again and again.
    #[serde(rename = "conversation_unusable")]
    Unusable,
}

/// Records are missing from the journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Lost {
    pub(super) code: LostCode,
    pub(super) detail: String,
    pub(super) first_seq: Seq,
    pub(super) last_seq: Seq,
}

impl Lost {
    pub(super) fn new(missing: Missing) -> Self {
        let Missing {
            first_seq, last_seq, ..
        } = missing;
        let detail = if first_seq == last_seq {
            format!("record {first_seq} is missing from the journal")
        } else {
            format!("records {first_seq} to {last_seq} are missing from the journal")
        };
        Self {
            code: LostCode::RecordsMissing,
            detail,
            first_seq,
            last_seq,
        }
    }

    /// The records.
    pub(super) fn missing(&self) -> Missing {
        Missing::lost(self.first_seq, self.last_seq)
    }
}

/// The name of that notice.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum LostCode {
    #[serde(rename = "records_missing")]
    RecordsMissing,
}

/// A notice of the daemon's own: the CLI is silent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Silence {
    pub(super) code: SilenceCode,
    pub(super) detail: String,
    /// Since when.
    pub(super) since: Timestamp,
    /// The daemon's reaction.
    pub(super) action: SilenceAction,
}

/// The name of that notice; those of the keeper have others.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum SilenceCode {
    #[serde(rename = "cli_silent")]
    CliSilent,
}

impl Note {
    /// Reads the data of a daemon record; `None` for one of another kind.
    pub(super) fn read(data: &[u8]) -> Option<Self> {
        if data.starts_with(br#"{"type":"history","#) {
            // It is long, and repeats a record of another session.
            return None;
        }
        serde_json::from_slice(data).ok()
    }

    /// The data of the record.
    pub(super) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
impl RunStarted {
    /// A run with nothing of its own; tests say what differs.
    pub(super) fn plain(run_id: RunId, mode: StartMode) -> Self {
        Self {
            run_id,
            mode,
            cli_session_id: CliSessionId::new(),
            turns: 0,
            base: CliTotals::default(),
            agent: None,
            permission_mode: None,
            restart: None,
            carried: Vec::new(),
            parked: None,
            earlier_session_id: None,
            restores: Vec::new(),
            has_choices: None,
            left_out: Vec::new(),
            resume_at: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::StopIntent;

    #[test]
    fn notes_survive_the_journal() {
        let note = Note::RunExited {
            run_id: RunId::new(),
            exit: RunExit {
                code: Some(1),
                signal: None,
                intent: StopIntent::None,
                killed: false,
                stderr_tail: "no\nway".to_owned(),
                spawn_error: None,
                unwritten_lines: 2,
                stop_steps: Vec::new(),
            },
        };
        let json = note.to_json();
        assert!(!json.contains(&b'\n'));
        let Some(Note::RunExited { exit, .. }) = Note::read(&json) else {
            panic!("not read back: {}", String::from_utf8_lossy(&json));
        };
        assert_eq!((exit.code, exit.unwritten_lines), (Some(1), 2));
    }

    #[test]
    fn notices_are_told_apart_by_their_codes() {
        let missing = Missing::lost(Seq::new(3), Seq::new(7));
        let json = Note::Notice(Notice::Lost(Lost::new(missing))).to_json();
        assert_eq!(
            String::from_utf8_lossy(&json),
            r#"{"type":"notice","code":"records_missing","detail":"records 3 to 7 are missing from the journal","first_seq":3,"last_seq":7}"#
        );
        let Some(Note::Notice(Notice::Lost(lost))) = Note::read(&json) else {
            panic!("not read back: {}", String::from_utf8_lossy(&json));
        };
        assert_eq!(lost.missing(), missing);
        // The keeper's own.
        assert!(Note::read(br#"{"type":"notice","code":"orphaned","detail":"x"}"#).is_none());
    }

    #[test]
    fn a_foreign_note_is_passed_over() {
        assert!(Note::read(br#"{"type":"from_the_future","x":1}"#).is_none());
        assert!(Note::read(b"[]").is_none());
    }
}
