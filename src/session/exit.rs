//! Owns what the end of a process means for its session. Pure.

use crate::{
    domain::{FailReason, RunExit, SessionState, StopIntent},
    keeper::LaunchFailureCause,
};

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

/// The state of a session after its process ended. `exit` is `None` when nobody saw the end; `ready` says whether
/// `initialize` was answered; `cut_short` whether a turn or prompt was open.
pub(super) fn rest_after(
    exit: Option<&RunExit>,
    ready: bool,
    cut_short: bool,
    start_errors: &[String],
) -> (SessionState, Option<FailReason>) {
    let Some(exit) = exit else {
        return failed(
            "keeper_lost",
            "the process and its keeper ended while no daemon was looking".to_owned(),
        );
    };
    if let Some(error) = &exit.spawn_error {
        let code = if error.starts_with(&LaunchFailureCause::TooFewProcesses.to_string()) {
            FailReason::TOO_FEW_PROCESSES
        } else {
            "start_failed"
        };
        return failed(code, error.clone());
    }
    if exit.intent != StopIntent::None {
        return (SessionState::Stopped, None);
    }
    if !ready {
        let said = said(exit, start_errors);
        let code = if said.contains("No conversation found") {
            FailReason::CONVERSATION_NOT_FOUND
        } else if said.contains("already in use") {
            "conversation_in_use"
        } else {
            "start_failed"
        };
        return failed(
            code,
            format!("the CLI {} before it was ready{}", how(exit), tail(&said)),
        );
    }
    if exit.code == Some(0) && !cut_short {
        return (SessionState::Stopped, None);
    }
    let code = if exit.signal.is_some() {
        "cli_killed"
    } else {
        "cli_exited"
    };
    let when = if cut_short { " in the middle of a turn" } else { "" };
    failed(
        code,
        format!("the CLI {}{when}{}", how(exit), tail(&exit.stderr_tail)),
    )
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

/// What the CLI says on stderr, in small letters, when a next start would end in the same way: its flags or settings are
/// wrong, nobody is logged in, nothing may be used any more.
const PERMANENT: [&str; 16] = [
    "unknown option",
    "error: option",
    "error: invalid",
    "invalid settings",
    "settings file not found",
    "invalid mcp configuration",
    "cannot be used with root",
    "invalid api key",
    "please run /login",
    "not logged in",
    "authentication_error",
    "oauth token",
    "credit balance is too low",
    "usage limit",
    "expected message role",
    "error parsing streaming input",
];

/// Whether a next start would end in the same way. `reason` is that of the failure.
pub(super) fn is_permanent(reason: &FailReason, exit: Option<&RunExit>) -> bool {
    let is_refused = exit.is_some_and(|exit| exit.spawn_error.is_some());
    let said = reason.detail.to_lowercase();
    is_refused
        || matches!(
            reason.code.as_str(),
            FailReason::CONVERSATION_NOT_FOUND
                | "conversation_in_use"
                | "start_timed_out"
                | "permission_mode_refused"
                | FailReason::CHOICES_NOT_RESTORED
        )
        || (matches!(reason.code.as_str(), "start_failed" | "cli_exited")
            && PERMANENT.iter().any(|words| said.contains(words)))
}

/// The state of a session whose process was stopped because it ran in another permission mode than asked for.
pub(super) fn mode_refused(detail: String) -> (SessionState, Option<FailReason>) {
    failed("permission_mode_refused", detail)
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

fn said(exit: &RunExit, start_errors: &[String]) -> String {
    let mut said = start_errors.join("; ");
    if !exit.stderr_tail.trim().is_empty() {
        if !said.is_empty() {
            said.push_str("; ");
        }
        said.push_str(exit.stderr_tail.trim());
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
        let (found, reason) = rest_after(Some(exit), ready, cut_short, &[]);
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
    fn want_of_room_for_a_process_is_told_apart() {
        for (cause, code) in [
            (LaunchFailureCause::TooFewProcesses, "too_few_processes"),
            (LaunchFailureCause::System, "start_failed"),
        ] {
            let mut exit = exit(None, None, StopIntent::None);
            exit.spawn_error = Some(format!("{cause}: what the system said"));
            let (_, reason) = rest_after(Some(&exit), false, false, &[]);
            assert_eq!(reason.map(|reason| reason.code).as_deref(), Some(code));
        }
    }

    #[test]
    fn a_missing_conversation_is_named() {
        let errors = ["No conversation found with session ID: x".to_owned()];
        let (_, reason) = rest_after(
            Some(&exit(Some(1), None, StopIntent::None)),
            false,
            false,
            &errors,
        );
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
                let (_, reason) = rest_after(Some(&exit), ready, false, &[]);
                assert_eq!(is_permanent(&reason.unwrap(), Some(&exit)), permanent, "{stderr}");
            }
        }
        let missing = RunExit {
            spawn_error: Some("No such file or directory".to_owned()),
            ..unseen()
        };
        let (_, reason) = rest_after(Some(&missing), false, false, &[]);
        assert!(is_permanent(&reason.unwrap(), Some(&missing)));
        let (_, late) = start_timed_out(5, None);
        assert!(is_permanent(&late.unwrap(), None));
        let (_, silent) = silent(5, None);
        assert!(!is_permanent(&silent.unwrap(), None));
    }

    #[test]
    fn an_unseen_end_is_a_failure() {
        let (state, reason) = rest_after(None, true, false, &[]);
        assert_eq!(state, SessionState::Failed);
        assert_eq!(reason.map(|r| r.code).as_deref(), Some("keeper_lost"));
    }
}
