//! Owns how it is told that the agent CLI does not start or work: in its own words, with what a person can do about them.

use serde_json::Value;

use super::{CliError, view};

/// Where README says how a daemon and a service get a login or a key.
const LOGGING_IN: &str = "docs/OPERATING.md, \"Logging in\", says how, also for a service";

/// An obstacle in the way of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    words: String,
    /// Which restart in a row is due, if one is.
    attempt: Option<u64>,
}

impl Trouble {
    /// The one of a session as the API shows it, or of a record about its state.
    pub(super) fn of(session: &Value) -> Option<Self> {
        let restart = session.get("restart").filter(|restart| !restart.is_null());
        let (holder, attempt) = match (view::text(session, &["state"]), restart) {
            ("failed", _) => (session, None),
            (_, Some(restart)) => (restart, view::number(restart, &["attempt"])),
            _ => return None,
        };
        let words = view::text(holder, &["reason", "detail"]).trim();
        Some(Self {
            words: if words.is_empty() {
                "no reason is known".into()
            } else {
                words.to_owned()
            },
            attempt,
        })
    }

    /// Whether nothing more comes of it by itself.
    pub(super) const fn is_final(&self) -> bool {
        self.attempt.is_none()
    }

    /// The event, in the CLI's words.
    pub(super) fn told(&self) -> String {
        match self.attempt {
            None => format!("the session failed: {}", self.words),
            Some(attempt) => {
                format!("{}; it is started again (restart {attempt} in a row)", self.words)
            }
        }
    }

    /// The way out of it.
    pub(super) fn advice(&self, session: &str) -> String {
        advice(&self.words).unwrap_or_else(|| {
            if self.is_final() {
                format!(
                    "`trunkline doctor` checks the agent CLI; once it starts, `trunkline resume {session}` goes on"
                )
            } else {
                "`trunkline doctor` checks the agent CLI".into()
            }
        })
    }

    /// The end of a command that waited for the session.
    pub(super) fn error(&self, session: &str) -> CliError {
        CliError::Agent {
            message: self.told(),
            hint: Some(self.advice(session)),
        }
    }
}

/// The way out that follows from the words of an agent CLI, where they tell.
pub(super) fn advice(words: &str) -> Option<String> {
    let words = words.to_lowercase();
    let says = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    let advice = if says(&["credit balance"]) {
        "add credit to the account of the key or login, or use another one".to_owned()
    } else if says(&["usage limit", "hit your limit"]) {
        "wait until the limit is over, or log in with another account".to_owned()
    } else if says(&[
        "invalid api key",
        "invalid x-api-key",
        "external api key",
        "api error: 401",
        "authentication_error",
        "authentication_failed",
    ]) {
        format!(
            "the API refuses the key or login that the daemon's sessions have: correct ANTHROPIC_API_KEY where the daemon \
             gets it, or log in anew; {LOGGING_IN}"
        )
    } else if says(&["not logged in", "run /login", "oauth token"]) {
        format!(
            "run `claude` as the user of the daemon and type /login, or give the daemon ANTHROPIC_API_KEY; {LOGGING_IN}"
        )
    } else if says(&["unknown option"]) {
        "this version of the agent CLI does not know that option: `trunkline doctor` tells its version, `claude update` \
         brings the newest"
            .to_owned()
    } else {
        return None;
    };
    Some(advice)
}

/// The words for a model API that fails and is asked again, from the CLI's line.
pub(super) fn retry(data: &Value) -> String {
    let status = view::number(data, &["error_status"]).map(|status| format!("API Error: {status}"));
    let error = view::text(data, &["error"]).to_owned();
    let words = [status, Some(error).filter(|error| !error.is_empty())];
    let words: Vec<String> = words.into_iter().flatten().collect();
    let attempt = match (
        view::number(data, &["attempt"]),
        view::number(data, &["max_retries"]),
    ) {
        (Some(attempt), Some(most)) => format!(" ({attempt} of {most})"),
        _ => String::new(),
    };
    format!("the model API fails, trying again{attempt}: {}", words.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_failed_and_what_is_due_is_told_in_the_clis_words() {
        let reason = json!({"code": "start_failed", "detail": "the CLI exited with code 3 before it was ready: Error: x"});
        let failed = Trouble::of(&json!({"state": "failed", "reason": reason, "restart": null})).unwrap();
        assert!(failed.is_final());
        assert_eq!(
            failed.told(),
            "the session failed: the CLI exited with code 3 before it was ready: Error: x"
        );
        assert!(failed.advice("7").contains("trunkline resume 7"));
        let due = json!({"state": "starting", "restart": {"attempt": 2, "reason": reason}});
        let due = Trouble::of(&due).unwrap();
        assert!(!due.is_final());
        assert!(
            due.told()
                .contains("Error: x; it is started again (restart 2 in a row)")
        );
        for state in ["starting", "idle", "stopped"] {
            assert_eq!(Trouble::of(&json!({"state": state, "restart": null})), None);
        }
    }

    #[test]
    fn each_kind_of_words_has_its_advice() {
        for (words, expected) in [
            ("Not logged in · Please run /login", "type /login"),
            ("Invalid API key · Please run /login", "correct ANTHROPIC_API_KEY"),
            (
                "Failed to authenticate. API Error: 401 {}",
                "correct ANTHROPIC_API_KEY",
            ),
            ("Credit balance is too low", "add credit"),
            ("Claude AI usage limit reached|1760000000", "wait until the limit"),
            ("error: unknown option '--x'", "claude update"),
        ] {
            let advice = advice(words).unwrap_or_default();
            assert!(advice.contains(expected), "{words}: {advice}");
        }
        assert_eq!(advice("Segmentation fault"), None);
    }
}
