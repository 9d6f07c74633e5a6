//! Owns the policy of restarts: whether a process that died is started again, when, and what is left when it is not.
//!
//! Pure: what a run is started with and its end decide, so that a daemon that reads both again decides the same.

use serde::{Deserialize, Serialize};

use super::{CliSessionId, FailReason, RunId, Seq, SessionState, Timestamp};

/// A conversation that went on and died within this time, with nothing done, died at once.
const AT_ONCE_MS: u64 = 5_000;

/// When processes that died are started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartPolicy {
    /// Restarts within the window; 0 = never.
    pub max_restarts: u32,
    /// The window.
    pub window_ms: u64,
    /// The longest pause before the first restart in a row; each further one doubles it.
    pub first_delay_ms: u64,
    /// The longest pause before any.
    pub longest_delay_ms: u64,
    /// A process that was ready for this long ends the row.
    pub stable_ms: u64,
}

/// The settings of one session in place of the configuration's policy. A field that is left out stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RestartOverride {
    /// Restarts within the window; 0 = never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = Int64, maximum = 4_294_967_295_i64)]
    pub max_restarts: Option<u32>,
    /// The window.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 9_007_199_254_740_991_i64)]
    pub window_ms: Option<u64>,
    /// The longest pause before the first restart in a row; each further one doubles it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 9_007_199_254_740_991_i64)]
    pub first_delay_ms: Option<u64>,
    /// The longest pause before any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 9_007_199_254_740_991_i64)]
    pub longest_delay_ms: Option<u64>,
    /// A process that was ready for this long ends the row.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 9_007_199_254_740_991_i64)]
    pub stable_ms: Option<u64>,
}

impl RestartOverride {
    /// A member with a number that not every reader of JSON holds exactly.
    pub fn inexact(&self) -> Option<&'static str> {
        let times = [
            ("window_ms", self.window_ms),
            ("first_delay_ms", self.first_delay_ms),
            ("longest_delay_ms", self.longest_delay_ms),
            ("stable_ms", self.stable_ms),
        ];
        let is_large = |ms: Option<u64>| ms.is_some_and(|ms| ms > Seq::MAX.get());
        times
            .into_iter()
            .find(|(_, ms)| is_large(*ms))
            .map(|(name, _)| name)
    }
}

impl RestartPolicy {
    /// Restarts that a policy may allow within its window, as each leaves a trace in the records.
    pub const MOST_RESTARTS: u32 = 100;

    /// This policy with what a session has of its own.
    #[must_use]
    pub fn with(self, own: &RestartOverride) -> Self {
        Self {
            max_restarts: own
                .max_restarts
                .unwrap_or(self.max_restarts)
                .min(Self::MOST_RESTARTS),
            window_ms: own.window_ms.unwrap_or(self.window_ms),
            first_delay_ms: own.first_delay_ms.unwrap_or(self.first_delay_ms),
            longest_delay_ms: own.longest_delay_ms.unwrap_or(self.longest_delay_ms),
            stable_ms: own.stable_ms.unwrap_or(self.stable_ms),
        }
    }

    /// The pause before a restart: it doubles from one to the next, and `chance` (0 to 1) takes up to half of it away, so
    /// that sessions that died together do not start together.
    fn delay_ms(&self, attempt: u32, chance: f64) -> u64 {
        let doubled = 1_u64.checked_shl(attempt.saturating_sub(1)).unwrap_or(u64::MAX);
        let longest = self
            .first_delay_ms
            .saturating_mul(doubled)
            .min(self.longest_delay_ms);
        let half = longest / 2;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a part of a pause; its last bits do not matter"
        )]
        let off = (half as f64 * chance.clamp(0.0, 1.0)) as u64;
        longest - off.min(half)
    }
}

/// The terms of a run's restarts. It is in the record of its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartTerms {
    /// The policy in force then.
    pub policy: RestartPolicy,
    /// Which restart in a row this is; 0 for a start that somebody asked for.
    #[serde(default)]
    pub attempt: u32,
    /// When the restarts of the window were.
    #[serde(default)]
    pub recent: Vec<Timestamp>,
    /// How many of the runs in a row before this one went on with the conversation and died at once.
    #[serde(default)]
    pub failed_resumes: u32,
    /// Nothing of the conversation may have been kept; then it begins anew.
    #[serde(default)]
    pub may_begin_anew: bool,
    /// The CLI keeps no conversation: with a turn in it there is nothing to go on from.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_nothing: bool,
}

impl RestartTerms {
    /// The terms of a start that somebody asked for; `None` when the policy is never to restart.
    pub fn asked(policy: RestartPolicy, may_begin_anew: bool) -> Option<Self> {
        (policy.max_restarts > 0).then(|| Self {
            policy,
            attempt: 0,
            recent: Vec::new(),
            failed_resumes: 0,
            may_begin_anew,
            keeps_nothing: false,
        })
    }
}

/// The end of a run that nobody asked for.
#[derive(Clone, Debug)]
pub struct Death {
    /// The run. It decides the part of the pause that is left to chance.
    pub run: RunId,
    /// When.
    pub at: Timestamp,
    /// Why the session fails if it is not restarted.
    pub reason: FailReason,
    /// Whether a next start would end in the same way.
    pub is_permanent: bool,
    /// How long it had been ready; `None` when it never was.
    pub ready_for_ms: Option<u64>,
    /// Whether it was to go on with a conversation.
    pub resumed: bool,
    /// Another id by which the CLI may know that conversation.
    pub earlier_id: Option<CliSessionId>,
    /// Whether the model had said something in it.
    pub has_worked: bool,
    /// Whether a turn had begun in this run or an earlier one.
    pub has_conversation: bool,
}

/// A restart that is due.
#[derive(Clone, Debug, PartialEq)]
pub struct Restart {
    /// Which one in a row, from 1.
    pub attempt: u32,
    /// When.
    pub at: Timestamp,
    /// Why the last process ended.
    pub reason: FailReason,
    /// Whether the conversation begins anew, as nothing of it was kept.
    pub anew: bool,
    /// The id by which the conversation is looked for now, as the CLI does not know it by its newest.
    pub earlier_id: Option<CliSessionId>,
    /// The terms of the next run.
    pub terms: RestartTerms,
}

impl Restart {
    /// How long it is until then. The clock may have been set back since: it is never longer than the pause was to be.
    pub fn pause_from(&self, now: Timestamp) -> u64 {
        let longest = self.terms.policy.delay_ms(self.attempt, 0.0);
        self.at.millis_since(now).min(longest)
    }
}

/// The consequence of a death.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The process is started again.
    Restart(Box<Restart>),
    /// The session fails for this reason.
    Fail(FailReason),
}

/// Decides about a death.
pub fn decide(terms: &RestartTerms, death: Death) -> Verdict {
    let policy = terms.policy;
    let is_lost = death.reason.code == FailReason::CONVERSATION_NOT_FOUND;
    if is_lost && (death.earlier_id.is_some() || terms.may_begin_anew) {
        // Not a failure of its own: the CLI may know the conversation by its earlier id, or the last failure came before it
        // had kept anything. Each is tried once.
        return Verdict::Restart(Box::new(Restart {
            attempt: terms.attempt.max(1),
            at: death.at,
            reason: death.reason,
            anew: death.earlier_id.is_none(),
            earlier_id: death.earlier_id,
            terms: RestartTerms {
                may_begin_anew: false,
                ..terms.clone()
            },
        }));
    }
    if death.is_permanent || policy.max_restarts == 0 {
        return Verdict::Fail(death.reason);
    }
    if terms.keeps_nothing && death.has_conversation {
        return Verdict::Fail(not_kept(&death.reason));
    }
    let was_stable = death.ready_for_ms.is_some_and(|ms| ms >= policy.stable_ms);
    let died_at_once = !death.has_worked && death.ready_for_ms.is_none_or(|ms| ms < AT_ONCE_MS);
    let (attempt, mut recent, failed_resumes) = if was_stable {
        (0, Vec::new(), 0)
    } else {
        let failed = if death.resumed && died_at_once {
            terms.failed_resumes + 1
        } else {
            0
        };
        (terms.attempt, terms.recent.clone(), failed)
    };
    recent.retain(|then| death.at.millis_since(*then) < policy.window_ms);
    if recent.len() >= policy.max_restarts as usize {
        return Verdict::Fail(given_up(recent.len(), attempt, failed_resumes, death.reason));
    }
    recent.push(death.at);
    let next = attempt.saturating_add(1);
    Verdict::Restart(Box::new(Restart {
        attempt: next,
        at: death.at.plus_millis(policy.delay_ms(next, chance(death.run))),
        reason: death.reason,
        anew: false,
        earlier_id: None,
        terms: RestartTerms {
            policy,
            attempt: next,
            recent,
            failed_resumes,
            may_begin_anew: false,
            keeps_nothing: terms.keeps_nothing,
        },
    }))
}

fn given_up(restarts: usize, attempt: u32, failed_resumes: u32, last: FailReason) -> FailReason {
    let (code, what) = if attempt > 0 && failed_resumes >= attempt {
        (FailReason::CONVERSATION_UNUSABLE, DIED_EACH_TIME)
    } else {
        (FailReason::CRASH_LOOP, "the CLI died again and again")
    };
    FailReason {
        code: code.to_owned(),
        detail: format!(
            "{what}; {restarts} restarts were tried. The last end ({}): {}",
            last.code, last.detail
        ),
    }
}

fn not_kept(last: &FailReason) -> FailReason {
    FailReason {
        code: FailReason::CONVERSATION_NOT_KEPT.to_owned(),
        detail: format!(
            "the session keeps no conversation (persist_session is false), so there is nothing to go on from. \
             The process ended ({}): {}",
            last.code, last.detail
        ),
    }
}

/// A number from 0 to 1 that is as good as any, and the same for a run each time.
fn chance(run: RunId) -> f64 {
    // The last bytes of the id are random.
    let [.., high, low] = run.as_uuid().into_bytes();
    f64::from(u16::from_be_bytes([high, low])) / f64::from(u16::MAX)
}

/// A way for a person to go on from a failed session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WayOut {
    /// A new session that begins as a copy of this one's conversation, perhaps up to an earlier message.
    Fork,
    /// The same session and settings with a new conversation: a resume with `fresh`.
    FreshStart,
    /// The conversation goes on: a resume.
    Resume,
    /// The launch options are changed, by a `PATCH` of the session, and then it is resumed.
    ChangeOptions,
}

/// The ways out of a state, best first; the first of them works, a change of options once it is the right one.
///
/// Only a failed session needs one, and one whose conversation the model refuses. `is_kept` says whether the CLI keeps the
/// conversation, `can_be_copied` whether it has kept some of it, `is_mended` whether options were changed since.
pub fn ways_out(
    state: SessionState,
    reason: Option<&FailReason>,
    turns: u64,
    is_kept: bool,
    can_be_copied: bool,
    is_mended: bool,
) -> Vec<WayOut> {
    use WayOut::{ChangeOptions, Fork, FreshStart, Resume};
    let code = reason.map(|reason| reason.code.as_str()).unwrap_or_default();
    let ways: &[WayOut] = match (state, code) {
        (SessionState::Failed, FailReason::CONVERSATION_NOT_FOUND) => &[FreshStart],
        // With a turn in it, it goes on at its end.
        (SessionState::Failed, FailReason::MESSAGE_NOT_FOUND) if turns == 0 => &[FreshStart],
        // A fork has the limit anew. A conversation that is not kept cannot be forked.
        (SessionState::Failed, FailReason::BUDGET_SPENT) if !is_mended && is_kept => &[ChangeOptions, Fork],
        (SessionState::Failed, FailReason::BUDGET_SPENT) if !is_mended => &[ChangeOptions],
        // No start works before somebody mends what the reason names: an option, or something beside the session.
        (SessionState::Failed, FailReason::START_FAILED | FailReason::PERMISSION_MODE_REFUSED)
            if !is_mended && reason.is_some_and(is_lasting) =>
        {
            &[ChangeOptions]
        }
        (SessionState::Failed, _) if !is_kept && turns > 0 => &[FreshStart],
        // A process that forks it begins by going on with it.
        (SessionState::Failed, FailReason::CONVERSATION_UNUSABLE)
            if reason.is_some_and(kills_its_process) =>
        {
            &[FreshStart, Fork, Resume]
        }
        // A fork would be given the same, and so is a resume until the CLI takes it, or somebody mends the file.
        (
            SessionState::Failed,
            FailReason::CHOICES_NOT_RESTORED | FailReason::CHOICES_DAMAGED | FailReason::CHOICES_MISSING,
        ) => &[FreshStart, Resume],
        (SessionState::Failed, FailReason::CONVERSATION_UNUSABLE) => &[Fork, FreshStart, Resume],
        // The CLI may open the other one again.
        (SessionState::Failed, FailReason::CONVERSATION_TAKEN) => &[FreshStart, Resume, Fork],
        // It runs, and a restart of it may be fresh too.
        (state, FailReason::CONVERSATION_UNUSABLE) if state.is_live() => &[Fork, FreshStart],
        (SessionState::Failed, _) => &[Resume, Fork, FreshStart],
        _ => &[],
    };
    let can_be_taken = |way: &WayOut| can_be_copied || *way != Fork;
    ways.iter().copied().filter(can_be_taken).collect()
}

/// How the reason begins of a conversation with which no process lives on.
const DIED_EACH_TIME: &str = "the CLI died each time it went on with this conversation";

fn kills_its_process(reason: &FailReason) -> bool {
    reason.detail.starts_with(DIED_EACH_TIME)
}

/// How the reason of a start begins that the CLI refused in order: it would say the same again.
pub const REFUSED_TO_START: &str = "the CLI refused to start";

/// The CLI's words, in small letters, when a next start would end in the same way: its flags or settings are wrong, nobody
/// is logged in, nothing may be used any more.
const LASTING: [&str; 16] = [
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

/// Errors of the system that name what is missing, and not what is scarce for a while.
const MISSING: [&str; 4] = ["ENOENT", "EACCES", "EISDIR", "ENOTDIR"];

/// Whether a next start would end for the same reason.
pub fn is_lasting(reason: &FailReason) -> bool {
    let said = || reason.detail.to_lowercase();
    let has_words = || LASTING.iter().any(|words| said().contains(words));
    match reason.code.as_str() {
        FailReason::CONVERSATION_NOT_FOUND
        | FailReason::CONVERSATION_TAKEN
        | FailReason::CONVERSATION_UNUSABLE
        | FailReason::MESSAGE_NOT_FOUND
        | FailReason::RESUME_REJECTED
        | FailReason::CONVERSATION_IN_USE
        | FailReason::CHOICES_NOT_RESTORED
        | "start_timed_out"
        | FailReason::PERMISSION_MODE_REFUSED => true,
        FailReason::START_FAILED => {
            reason.detail.starts_with(REFUSED_TO_START) || has_words() || is_orderly_error(&reason.detail)
        }
        "cli_exited" => has_words(),
        _ => false,
    }
}

/// Whether a program said what is wrong and ended, rather than broke: a stack below the error, or an error of the system that
/// may pass, is a crash.
fn is_orderly_error(said: &str) -> bool {
    let is_stack = |line: &str| line.trim_start().starts_with("at ") && line.starts_with(' ');
    if said.lines().any(is_stack) {
        return false;
    }
    said.match_indices("Error: ").any(|(at, begin)| {
        // An error of the model API says nothing of the start.
        let is_word = !said[..at].ends_with(char::is_alphanumeric) && !said[..at].ends_with("API ");
        let code = said[at + begin.len()..]
            .split([':', ' ', '\n'])
            .next()
            .unwrap_or_default();
        let is_of_system =
            code.len() > 3 && code.starts_with('E') && code.bytes().all(|byte| byte.is_ascii_uppercase());
        is_word && (!is_of_system || MISSING.contains(&code))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POLICY: RestartPolicy = RestartPolicy {
        max_restarts: 3,
        window_ms: 600_000,
        first_delay_ms: 1_000,
        longest_delay_ms: 3_000,
        stable_ms: 60_000,
    };

    fn asked() -> RestartTerms {
        RestartTerms::asked(POLICY, false).unwrap()
    }

    fn death(at_ms: i64) -> Death {
        Death {
            run: RunId::new(),
            at: Timestamp::from_micros(at_ms * 1_000),
            reason: reason("cli_killed"),
            is_permanent: false,
            ready_for_ms: Some(1_000),
            resumed: true,
            earlier_id: None,
            has_worked: true,
            has_conversation: true,
        }
    }

    fn reason(code: &str) -> FailReason {
        FailReason {
            code: code.to_owned(),
            detail: "last words".to_owned(),
        }
    }

    #[track_caller]
    fn restart(verdict: Verdict) -> Restart {
        match verdict {
            Verdict::Restart(restart) => *restart,
            Verdict::Fail(reason) => panic!("{reason:?}"),
        }
    }

    #[track_caller]
    fn failure(verdict: Verdict) -> FailReason {
        match verdict {
            Verdict::Fail(reason) => reason,
            Verdict::Restart(restart) => panic!("{restart:?}"),
        }
    }

    /// Dies so often in a row as is allowed.
    fn used_up(each: impl Fn(i64) -> Death) -> RestartTerms {
        let mut terms = asked();
        for n in 0..3 {
            terms = restart(decide(&terms, each(n * 10_000))).terms;
        }
        terms
    }

    #[test]
    fn the_cap_holds_although_each_start_succeeds() {
        let terms = used_up(death);
        let given_up = failure(decide(&terms, death(30_000)));
        assert_eq!(given_up.code, "crash_loop");
        assert!(given_up.detail.contains("cli_killed") && given_up.detail.contains("last words"));
    }

    #[test]
    fn a_stable_time_or_a_long_window_begins_a_new_row() {
        let terms = used_up(death);
        let stable = Death {
            ready_for_ms: Some(POLICY.stable_ms),
            ..death(90_000)
        };
        let next = restart(decide(&terms, stable));
        assert_eq!((next.attempt, next.terms.recent.len()), (1, 1));
        let later = death(600_000 + 20_000);
        let next = restart(decide(&terms, later));
        assert_eq!(next.attempt, 4, "it waits long, as nothing was stable");
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_pause_longer() {
        let first = restart(decide(&asked(), death(7_200_000)));
        let planned = first.pause_from(Timestamp::from_micros(7_200_000_000));
        assert!((500..=1_000).contains(&planned), "{planned}");
        for (now_ms, expected) in [(0, 1_000), (7_200_000 + 2_000, 0)] {
            assert_eq!(first.pause_from(Timestamp::from_micros(now_ms * 1_000)), expected);
        }
    }

    #[test]
    fn permanent_causes_are_not_retried() {
        let permanent = Death {
            is_permanent: true,
            ..death(0)
        };
        assert_eq!(failure(decide(&asked(), permanent)).code, "cli_killed");
        assert_eq!(
            RestartTerms::asked(
                RestartPolicy {
                    max_restarts: 0,
                    ..POLICY
                },
                true
            ),
            None
        );
    }

    #[test]
    fn a_conversation_that_dies_at_each_resume_is_named() {
        let at_once = |ready| {
            move |at| Death {
                ready_for_ms: ready,
                has_worked: false,
                ..death(at)
            }
        };
        for ready in [None, Some(20)] {
            let terms = used_up(at_once(ready));
            let given_up = failure(decide(&terms, at_once(ready)(30_000)));
            assert_eq!(given_up.code, "conversation_unusable");
        }
        // The first of these had worked, so the conversation can be used.
        let terms = restart(decide(&asked(), death(0))).terms;
        let terms = restart(decide(&terms, at_once(None)(10))).terms;
        let terms = restart(decide(&terms, death(20))).terms;
        assert_eq!(failure(decide(&terms, at_once(None)(30))).code, "crash_loop");
        // A first start has no conversation yet.
        let new = |at| Death {
            resumed: false,
            ..at_once(None)(at)
        };
        assert_eq!(failure(decide(&used_up(new), new(30_000))).code, "crash_loop");
    }

    #[test]
    fn what_was_not_kept_begins_anew_once() {
        let terms = RestartTerms::asked(POLICY, true).unwrap();
        let not_found = Death {
            reason: reason(FailReason::CONVERSATION_NOT_FOUND),
            is_permanent: true,
            ..death(5)
        };
        let next = restart(decide(&terms, not_found.clone()));
        assert!(next.anew);
        assert_eq!(next.at, not_found.at);
        assert_eq!(
            failure(decide(&next.terms, not_found)).code,
            FailReason::CONVERSATION_NOT_FOUND
        );
    }

    #[test]
    fn a_conversation_that_is_not_found_is_looked_for_by_its_earlier_id_once() {
        let earlier = CliSessionId::new();
        let not_found = Death {
            reason: reason(FailReason::CONVERSATION_NOT_FOUND),
            is_permanent: true,
            earlier_id: Some(earlier),
            ..death(5)
        };
        for may_begin_anew in [false, true] {
            let terms = RestartTerms::asked(POLICY, may_begin_anew).unwrap();
            let next = restart(decide(&terms, not_found.clone()));
            assert_eq!(
                (next.earlier_id, next.anew, next.at),
                (Some(earlier), false, not_found.at)
            );
            assert!(next.terms.recent.is_empty(), "it takes none of the restarts");
            let again = Death {
                earlier_id: None,
                ..not_found.clone()
            };
            assert_eq!(
                failure(decide(&next.terms, again)).code,
                FailReason::CONVERSATION_NOT_FOUND
            );
        }
        // Any other death says nothing about ids.
        let other = Death {
            earlier_id: Some(earlier),
            ..death(5)
        };
        assert_eq!(restart(decide(&asked(), other)).earlier_id, None);
    }

    #[test]
    fn ways_out_fit_the_failure() {
        use WayOut::{ChangeOptions, Fork, FreshStart, Resume};
        let ways = |code, turns| {
            ways_out(
                SessionState::Failed,
                Some(&reason(code)),
                turns,
                true,
                turns > 0,
                false,
            )
        };
        let ways_of_unkept = |code, turns| {
            ways_out(
                SessionState::Failed,
                Some(&reason(code)),
                turns,
                false,
                false,
                false,
            )
        };
        assert_eq!(ways("conversation_unusable", 2), [Fork, FreshStart, Resume]);
        let deadly = given_up(2, 2, 2, reason("cli_exited"));
        assert_eq!(
            ways_out(SessionState::Failed, Some(&deadly), 2, true, true, false),
            [FreshStart, Fork, Resume]
        );
        assert_eq!(ways("crash_loop", 2), [Resume, Fork, FreshStart]);
        for code in ["choices_not_restored", "choices_damaged", "choices_missing"] {
            assert_eq!(ways(code, 2), [FreshStart, Resume]);
        }
        assert_eq!(ways("start_failed", 0), [Resume, FreshStart]);
        assert_eq!(ways("conversation_not_found", 2), [FreshStart]);
        assert_eq!(ways("message_not_found", 0), [FreshStart]);
        // Each start asks for the same.
        assert_eq!(ways("permission_mode_refused", 2), [ChangeOptions]);
        assert_eq!(ways("budget_spent", 2), [ChangeOptions, Fork]);
        assert_eq!(ways_of_unkept("budget_spent", 2), [ChangeOptions]);
        let mended = |code| ways_out(SessionState::Failed, Some(&reason(code)), 2, true, true, true);
        for code in ["permission_mode_refused", "budget_spent"] {
            assert_eq!(mended(code), [Resume, Fork, FreshStart]);
        }
        assert_eq!(ways_of_unkept("conversation_not_kept", 2), [FreshStart]);
        assert_eq!(ways_of_unkept("cli_killed", 2), [FreshStart]);
        assert_eq!(ways_of_unkept("start_failed", 0), [Resume, FreshStart]);
        assert!(ways_out(SessionState::Stopped, None, 2, true, true, false).is_empty());
        let unusable = reason("conversation_unusable");
        assert_eq!(
            ways_out(SessionState::Idle, Some(&unusable), 2, true, true, false),
            [Fork, FreshStart]
        );
        let refused = FailReason {
            code: "start_failed".to_owned(),
            detail: format!("{REFUSED_TO_START}: no sandbox"),
        };
        assert_eq!(
            ways_out(SessionState::Failed, Some(&refused), 2, true, true, false),
            [ChangeOptions]
        );
    }

    #[test]
    fn a_conversation_that_is_not_kept_is_not_gone_on_with() {
        let terms = RestartTerms {
            keeps_nothing: true,
            ..asked()
        };
        let given_up = failure(decide(&terms, death(0)));
        assert_eq!(given_up.code, FailReason::CONVERSATION_NOT_KEPT);
        assert!(given_up.detail.contains("cli_killed"), "{}", given_up.detail);
        // Without a turn the next process begins as the first one did.
        let before_a_turn = Death {
            has_worked: false,
            has_conversation: false,
            ..death(0)
        };
        assert!(restart(decide(&terms, before_a_turn)).terms.keeps_nothing);
    }

    proptest! {
        #[test]
        fn pauses_grow_within_their_bounds(attempt in 1_u32..200, chance in 0.0_f64..=1.0, first in 0_u64..100_000) {
            let policy = RestartPolicy { first_delay_ms: first, longest_delay_ms: 60_000, ..POLICY };
            let pause = policy.delay_ms(attempt, chance);
            let full = policy.delay_ms(attempt, 0.0);
            prop_assert!(pause <= full && full <= 60_000);
            prop_assert!(pause >= full / 2);
            prop_assert!(policy.delay_ms(attempt + 1, 0.0) >= full);
        }

        #[test]
        fn no_window_has_more_restarts_than_allowed(
            gaps in proptest::collection::vec((0_i64..400_000, any::<bool>()), 1..60),
        ) {
            let mut terms = asked();
            let (mut now, mut row) = (0, Vec::new());
            for (gap, is_stable) in gaps {
                now += gap;
                let ready_for_ms = Some(if is_stable { POLICY.stable_ms } else { 10 });
                if is_stable {
                    row.clear();
                }
                match decide(&terms, Death { ready_for_ms, ..death(now) }) {
                    Verdict::Restart(restart) => {
                        row.push(now);
                        prop_assert!(restart.at.as_micros() >= now * 1_000);
                        prop_assert_eq!(restart.attempt, restart.terms.attempt);
                        terms = restart.terms;
                    }
                    Verdict::Fail(_) => terms = asked(),
                }
                row.retain(|then| now - then < 600_000);
                if terms.attempt == 0 {
                    row.clear();
                }
                prop_assert!(row.len() <= 3, "{:?}", row);
            }
        }
    }
}
