//! Owns what the end of a process means for its session. Pure.

use nix::sys::signal::Signal;

use crate::{
    claude::facts::ResultFacts,
    domain::{FailReason, RunExit, SessionState, StopIntent, restart},
    keeper::LaunchFailureCause,
};

/// How much of what an error `result` says is kept, in bytes.
const MAX_WORDS: usize = 2_000;

/// The words of the last error `result` of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct SaidError {
    pub(super) words: String,
    /// The status of the model API, when the error is one of its.
    pub(super) api_status: Option<u64>,
}

impl SaidError {
    /// `None` when the result is no error.
    pub(super) fn read(facts: &ResultFacts<'_>) -> Option<Self> {
        if !facts.is_error {
            return None;
        }
        let mut words = facts.errors.join("; ");
        if words.is_empty() {
            words = facts.result.as_deref().unwrap_or_default().to_owned();
        }
        words.truncate(words.floor_char_boundary(MAX_WORDS));
        // Not every version of the CLI has a field for it.
        let in_words = words.split("API Error: ").nth(1).map(|status| status.get(..3));
        let in_words = in_words.flatten().and_then(|status| status.parse().ok());
        Some(Self {
            api_status: facts.api_error_status.or(in_words),
            words,
        })
    }

    /// Whether the model API refuses the conversation as it is.
    pub(super) fn refuses_conversation(&self) -> bool {
        matches!(self.api_status, Some(400 | 413))
    }

    /// Whether the CLI would say the same again.
    fn is_lasting(&self) -> bool {
        match self.api_status {
            Some(408 | 409 | 425 | 429) => false,
            Some(status) => (400..500).contains(&status),
            None => !self.words.contains("API Error"),
        }
    }
}

/// Why a process that could run is not what its session needs.
#[derive(Clone, Debug)]
pub(super) enum Unfit {
    /// It runs in another permission mode than it was asked to.
    Mode(String),
    /// It answered `initialize` with an error.
    Initialize(String),
    /// It opened a conversation of another session.
    Conversation(String),
}

/// The exit of a process whose end nobody saw.
pub(super) fn unseen() -> RunExit {
    RunExit {
        code: None,
        signal: None,
        intent: StopIntent::None,
        killed: false,
        stderr_tail: String::new(),
        spawn_error: None,
        unwritten_lines: 0,
        stop_steps: Vec::new(),
    }
}

/// The exit of a process whose stop is in the journal before it. A host's own signal comes before the keeper's first step, and
/// a process that it ends has ended as it was asked to.
pub(super) fn asked_for(exit: RunExit, stop_asked: bool) -> RunExit {
    const ENDING: [i32; 3] = [
        Signal::SIGHUP as i32,
        Signal::SIGINT as i32,
        Signal::SIGTERM as i32,
    ];
    let by_code = exit
        .code
        .is_some_and(|code| code == 0 || ENDING.contains(&(code - 128)));
    let by_signal = exit.signal.is_some_and(|number| ENDING.contains(&number));
    let intent = match exit.intent {
        StopIntent::None if stop_asked && (by_code || by_signal) => StopIntent::Stop,
        intent => intent,
    };
    RunExit { intent, ..exit }
}

/// The reason's code of a process that was not started.
pub(super) const fn code_of_launch(cause: Option<LaunchFailureCause>) -> &'static str {
    match cause {
        Some(LaunchFailureCause::TooFewProcesses) => FailReason::TOO_FEW_PROCESSES,
        Some(LaunchFailureCause::DiskFull) => FailReason::STORAGE_UNAVAILABLE,
        _ => FailReason::START_FAILED,
    }
}

/// The work of a process at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Nothing was left to do.
    Done,
    /// Background tasks ran, and no turn.
    Background,
    /// A turn or a prompt was open.
    Turn,
}

/// The state of a session after its process ended. `exit` is `None` when nobody saw the end; `ready` says whether
/// `initialize` was answered; `resumed` whether it was to go on with a conversation; `work` is what the end cut short; `said` is
/// the error that the CLI said last.
pub(super) fn rest_after(
    exit: Option<&RunExit>,
    ready: bool,
    resumed: bool,
    work: Work,
    said_error: Option<&SaidError>,
) -> (SessionState, Option<FailReason>) {
    let Some(exit) = exit else {
        return failed(
            "keeper_lost",
            "the process and its keeper ended while no daemon was looking".to_owned(),
        );
    };
    if let Some(error) = &exit.spawn_error {
        let passing = [LaunchFailureCause::TooFewProcesses, LaunchFailureCause::DiskFull];
        let cause = passing
            .into_iter()
            .find(|cause| error.starts_with(&cause.to_string()));
        return failed(code_of_launch(cause), error.clone());
    }
    if exit.intent != StopIntent::None {
        return (SessionState::Stopped, None);
    }
    let said = said(exit, said_error);
    if !ready {
        let code = if said.contains("No conversation found") {
            FailReason::CONVERSATION_NOT_FOUND
        } else if said.contains("No message found") {
            FailReason::MESSAGE_NOT_FOUND
        } else if said.contains("Resume rejected by --resume-drops-turn") {
            FailReason::RESUME_REJECTED
        } else if said.contains("already in use") {
            FailReason::CONVERSATION_IN_USE
        } else if resumed && said_error.is_some_and(SaidError::refuses_conversation) {
            FailReason::CONVERSATION_UNUSABLE
        } else {
            FailReason::START_FAILED
        };
        let how = if said_error.is_some_and(SaidError::is_lasting) {
            restart::REFUSED_TO_START.to_owned()
        } else {
            format!("the CLI {} before it was ready", how(exit))
        };
        return failed(code, format!("{how}{}", tail(&said)));
    }
    if exit.code == Some(0) && work == Work::Done {
        return (SessionState::Stopped, None);
    }
    let code = if exit.signal.is_some() {
        "cli_killed"
    } else {
        "cli_exited"
    };
    let when = match work {
        Work::Done => "",
        Work::Background => " while background tasks ran",
        Work::Turn => " in the middle of a turn",
    };
    failed(code, format!("the CLI {}{when}{}", how(exit), tail(&said)))
}

/// The state of a session whose process was stopped as it is not what the session needs.
pub(super) fn unfit(unfit: &Unfit) -> (SessionState, Option<FailReason>) {
    match unfit {
        Unfit::Mode(detail) => failed(FailReason::PERMISSION_MODE_REFUSED, detail.clone()),
        Unfit::Conversation(detail) => failed(FailReason::CONVERSATION_TAKEN, detail.clone()),
        Unfit::Initialize(words) => failed(
            FailReason::START_FAILED,
            format!("{}: {words}", restart::REFUSED_TO_START),
        ),
    }
}

/// The state of a session whose process was stopped because it did not get ready in time.
pub(super) fn start_timed_out(ms: u64, exit: Option<&RunExit>) -> (SessionState, Option<FailReason>) {
    let said = exit.map(|exit| tail(&exit.stderr_tail)).unwrap_or_default();
    failed(
        "start_timed_out",
        format!("the CLI was not ready after {ms} ms{said}"),
    )
}

/// The state of a session whose process was stopped because it said nothing.
pub(super) fn silent(ms: u64, exit: Option<&RunExit>) -> (SessionState, Option<FailReason>) {
    let said = exit.map(|exit| tail(&exit.stderr_tail)).unwrap_or_default();
    failed(
        "cli_silent",
        format!("the CLI said nothing for {ms} ms and was stopped{said}"),
    )
}

/// The state of a session whose process was stopped because it had closed its stdout.
pub(super) fn mute(exit: Option<&RunExit>) -> (SessionState, Option<FailReason>) {
    let said = exit.map(|exit| tail(&exit.stderr_tail)).unwrap_or_default();
    failed(
        FailReason::STDOUT_CLOSED,
        format!("the CLI closed its stdout, did not end, and was stopped{said}"),
    )
}

/// Whether a next start would end in the same way. `reason` is that of the failure.
pub(super) fn is_permanent(reason: &FailReason, exit: Option<&RunExit>) -> bool {
    let is_passing = matches!(
        reason.code.as_str(),
        FailReason::TOO_FEW_PROCESSES | FailReason::STORAGE_UNAVAILABLE
    );
    let was_started = exit.is_none_or(|exit| exit.spawn_error.is_none());
    !is_passing && (!was_started || restart::is_lasting(reason))
}

/// The state of a session whose process was stopped because it did not take what had been set.
pub(super) fn choices_refused(detail: String) -> (SessionState, Option<FailReason>) {
    failed(FailReason::CHOICES_NOT_RESTORED, detail)
}

fn failed(code: &str, detail: String) -> (SessionState, Option<FailReason>) {
    let reason = FailReason {
        code: code.to_owned(),
        detail,
    };
    (SessionState::Failed, Some(reason))
}

fn how(exit: &RunExit) -> String {
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

fn said(exit: &RunExit, error: Option<&SaidError>) -> String {
    let mut said = error.map(|error| error.words.clone()).unwrap_or_default();
    let stderr = exit.stderr_tail.trim();
    // The CLI often says it twice.
    if !stderr.is_empty() && stderr != said.trim() {
        if !said.is_empty() {
            said.push_str("; ");
        }
        said.push_str(stderr);
    }
    said
}

fn tail(said: &str) -> String {
    match said.trim() {
        "" => String::new(),
        said => format!(": {said}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(code: Option<i32>, signal: Option<i32>, intent: StopIntent) -> RunExit {
        RunExit {
            code,
            signal,
            intent,
            stderr_tail: "last words\n".to_owned(),
            ..unseen()
        }
    }

    fn check(exit: &RunExit, ready: bool, cut_short: bool, state: SessionState, code: Option<&str>) {
        let work = if cut_short { Work::Turn } else { Work::Done };
        let (found, reason) = rest_after(Some(exit), ready, false, work, None);
        assert_eq!(
            (found, reason.as_ref().map(|r| r.code.as_str())),
            (state, code),
            "{exit:?}"
        );
        if let Some(reason) = reason {
            assert!(reason.detail.contains("last words"), "{}", reason.detail);
        }
    }

    #[test]
    fn the_end_decides_the_state() {
        use SessionState::{Failed, Stopped};
        use StopIntent::{None as Nobody, Orphaned, Stop};
        check(&exit(Some(143), None, Stop), true, true, Stopped, None);
        check(&exit(Some(1), None, Stop), false, false, Stopped, None);
        check(&exit(Some(0), None, Orphaned), true, false, Stopped, None);
        check(&exit(Some(0), None, Nobody), true, false, Stopped, None);
        check(
            &exit(Some(0), None, Nobody),
            true,
            true,
            Failed,
            Some("cli_exited"),
        );
        check(
            &exit(Some(1), None, Nobody),
            true,
            false,
            Failed,
            Some("cli_exited"),
        );
        check(
            &exit(None, Some(9), Nobody),
            true,
            true,
            Failed,
            Some("cli_killed"),
        );
        check(
            &exit(Some(1), None, Nobody),
            false,
            false,
            Failed,
            Some("start_failed"),
        );
        check(
            &exit(Some(0), None, Nobody),
            false,
            false,
            Failed,
            Some("start_failed"),
        );
    }

    #[test]
    fn want_of_processes_and_of_room_is_told_apart() {
        for (cause, code) in [
            (LaunchFailureCause::TooFewProcesses, "too_few_processes"),
            (LaunchFailureCause::DiskFull, "storage_unavailable"),
            (LaunchFailureCause::System, "start_failed"),
        ] {
            let mut exit = exit(None, None, StopIntent::None);
            exit.spawn_error = Some(format!("{cause}: what the system said"));
            let (_, reason) = rest_after(Some(&exit), false, false, Work::Done, None);
            assert_eq!(reason.map(|reason| reason.code).as_deref(), Some(code));
        }
    }

    #[test]
    fn a_missing_conversation_is_named() {
        let error = SaidError {
            words: "No conversation found with session ID: x".to_owned(),
            api_status: None,
        };
        let exit = exit(Some(1), None, StopIntent::None);
        let (_, reason) = rest_after(Some(&exit), false, true, Work::Done, Some(&error));
        assert_eq!(reason.map(|r| r.code).as_deref(), Some("conversation_not_found"));
    }

    #[test]
    fn what_would_come_again_is_permanent() {
        for (stderr, permanent) in [
            ("error: unknown option '--nonsense'", true),
            ("Error: Invalid JSON provided to --settings", true),
            ("Invalid API key · Please run /login", true),
            ("Claude AI usage limit reached|1760000000", true),
            ("Segmentation fault", false),
            ("", false),
        ] {
            for ready in [false, true] {
                let exit = RunExit {
                    stderr_tail: stderr.to_owned(),
                    ..exit(Some(1), None, StopIntent::None)
                };
                let (_, reason) = rest_after(Some(&exit), ready, false, Work::Done, None);
                assert_eq!(is_permanent(&reason.unwrap(), Some(&exit)), permanent, "{stderr}");
            }
        }
        let missing = RunExit {
            spawn_error: Some("No such file or directory".to_owned()),
            ..unseen()
        };
        let (_, reason) = rest_after(Some(&missing), false, false, Work::Done, None);
        assert!(is_permanent(&reason.unwrap(), Some(&missing)));
        let (_, late) = start_timed_out(5, None);
        assert!(is_permanent(&late.unwrap(), None));
        let (_, silent) = silent(5, None);
        assert!(!is_permanent(&silent.unwrap(), None));
    }

    #[test]
    fn an_unseen_end_is_a_failure() {
        let (state, reason) = rest_after(None, true, false, Work::Done, None);
        assert_eq!(state, SessionState::Failed);
        assert_eq!(reason.map(|r| r.code).as_deref(), Some("keeper_lost"));
    }

    #[test]
    fn an_orderly_refusal_is_said_and_permanent() {
        let refused = |words: &str, api_status, stderr: &str, resumed| {
            let exit = RunExit {
                stderr_tail: stderr.to_owned(),
                ..exit(Some(1), None, StopIntent::None)
            };
            let error = (!words.is_empty()).then(|| SaidError {
                words: words.to_owned(),
                api_status,
            });
            let (_, reason) = rest_after(Some(&exit), false, resumed, Work::Done, error.as_ref());
            let reason = reason.unwrap();
            assert!(reason.detail.contains(words) && reason.detail.contains(stderr.trim()));
            (reason.code.clone(), is_permanent(&reason, Some(&exit)))
        };
        let start = |is_permanent| ("start_failed".to_owned(), is_permanent);
        assert_eq!(refused("Sandbox is not available", None, "", false), start(true));
        assert_eq!(
            refused("", None, "Error: File not found: /x\n", false),
            start(true)
        );
        assert_eq!(
            refused("", None, "Error: x\n    at main (cli.js:1)\n", false),
            start(false)
        );
        assert_eq!(
            refused("", None, "Error: EMFILE: too many open files\n", false),
            start(false)
        );
        assert_eq!(
            refused("API Error: 529 overloaded", Some(529), "", true),
            start(false)
        );
        assert_eq!(refused("API Error: 400 bad", Some(400), "", false), start(true));
        let unusable = ("conversation_unusable".to_owned(), true);
        assert_eq!(refused("API Error: 400 bad", Some(400), "", true), unusable);
        let unknown = ("message_not_found".to_owned(), true);
        assert_eq!(
            refused("No message found with message.uuid of: x", None, "", true),
            unknown
        );
    }
}
