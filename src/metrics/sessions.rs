//! Owns what is counted of sessions: records, turns, approvals, control requests, and what is unknown.

use std::{borrow::Cow, sync::atomic::AtomicU64};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::{Registry, Unit},
};

use super::{name::Names, rate_limits::RateLimitMetrics};
use crate::{
    claude::catalogue,
    domain::{ApiRetry, ApprovalHow, ApprovalKind, ParkReason, TurnEnd, Usd},
    journal::{RecordRef, Source},
};

/// The sources, each at the place of its number.
const SOURCES: [Source; 5] = [
    Source::Cli,
    Source::Client,
    Source::Daemon,
    Source::StdoutText,
    Source::Stderr,
];

/// Records of a stretch of the journal, to be counted at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    records: [u64; SOURCES.len()],
    bytes: u64,
}

impl Tally {
    /// Adds a record.
    pub fn add(&mut self, record: &RecordRef<'_>) {
        self.records[record.source as usize] += 1;
        // With its 0x0A.
        self.bytes += record.line.len() as u64 + 1;
    }
}

/// A kind of unknown value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownKind {
    /// The `type` of a line of the CLI.
    Message,
    /// The `subtype` of a `system` line.
    System,
    /// The `subtype` of a control request of the CLI.
    ControlRequest,
}

impl UnknownKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::System => "system",
            Self::ControlRequest => "control_request",
        }
    }
}

/// The outcome of a control request to the CLI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlEnd {
    /// The CLI did it.
    Success,
    /// The CLI refused it.
    Refused,
    /// No answer came in time.
    Deadline,
    /// It was not written: too much waited.
    Unsent,
    /// The process ended before it answered.
    Lost,
}

impl ControlEnd {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Refused => "refused",
            Self::Deadline => "deadline",
            Self::Unsent => "unsent",
            Self::Lost => "lost",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabels {
    source: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UnknownLabels {
    kind: &'static str,
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ApprovalLabels {
    kind: &'static str,
    how: &'static str,
    by: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControlLabels {
    subtype: Cow<'static, str>,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FallbackLabels {
    subtype: Cow<'static, str>,
    reason: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ParkLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RetryLabels {
    error: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TurnLabels {
    outcome: Cow<'static, str>,
}

/// The counters of sessions. Clones count together. They count events that this daemon saw happen, neither those that
/// happened while no daemon ran nor those that are read again at a start.
#[derive(Clone, Debug)]
pub struct SessionMetrics {
    records: [Counter; SOURCES.len()],
    bytes: Counter,
    unknown: Family<UnknownLabels, Counter>,
    unknown_names: Names,
    approvals: Family<ApprovalLabels, Counter>,
    controls: Family<ControlLabels, Counter>,
    fallbacks: Family<FallbackLabels, Counter>,
    subtypes: Names,
    turns: Family<TurnLabels, Counter>,
    outcomes: Names,
    cost: Counter<f64, AtomicU64>,
    strays: Counter,
    missing: Counter,
    parks: Family<ParkLabels, Counter>,
    wakes: Counter,
    rate_limits: RateLimitMetrics,
    api_retries: Family<RetryLabels, Counter>,
    api_errors: Names,
}

impl SessionMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let by_source = Family::<SourceLabels, Counter>::default();
        let counter_of = |source: Source| {
            let source = source.as_str();
            by_source.get_or_create_owned(&SourceLabels { source })
        };
        let sessions = Self {
            records: SOURCES.map(counter_of),
            bytes: Counter::default(),
            unknown: Family::default(),
            unknown_names: Names::default(),
            approvals: Family::default(),
            controls: Family::default(),
            fallbacks: Family::default(),
            subtypes: Names::default(),
            turns: Family::default(),
            outcomes: Names::default(),
            cost: Counter::default(),
            strays: Counter::default(),
            missing: Counter::default(),
            parks: Family::default(),
            wakes: Counter::default(),
            rate_limits: RateLimitMetrics::register(registry),
            api_retries: Family::default(),
            api_errors: Names::default(),
        };
        registry.register("records", "Records of journals by source", by_source);
        registry.register_with_unit(
            "journaled",
            "Size of these records",
            Unit::Bytes,
            sessions.bytes.clone(),
        );
        registry.register(
            "unknown_messages",
            "Lines of the CLI whose type or subtype this program does not know; they pass all the same",
            sessions.unknown.clone(),
        );
        registry.register(
            "approvals_ended",
            "Approvals that ended and decisions that nobody was asked for: by kind, by what, and by whom",
            sessions.approvals.clone(),
        );
        registry.register(
            "control_requests",
            "Control requests of clients by what came of them",
            sessions.controls.clone(),
        );
        registry.register(
            "fallbacks",
            "Requests of the CLI that got a stated answer because no client could give one",
            sessions.fallbacks.clone(),
        );
        registry.register("turns", "Turns that ended, by outcome", sessions.turns.clone());
        registry.register(
            "api_retries",
            "Times that a CLI asked the model API again, by the CLI's word for the error",
            sessions.api_retries.clone(),
        );
        registry.register_with_unit(
            "cost",
            "Cost of these turns, where it is known",
            Unit::Other("usd".to_owned()),
            sessions.cost.clone(),
        );
        registry.register(
            "strays_killed",
            "Processes of sessions that outlived their keeper and were killed",
            sessions.strays.clone(),
        );
        registry.register(
            "records_missing",
            "Records that journals were found to lack",
            sessions.missing.clone(),
        );
        registry.register(
            "parks",
            "Sessions that were parked, by reason",
            sessions.parks.clone(),
        );
        registry.register(
            "wakes",
            "Processes that were started for parked sessions",
            sessions.wakes.clone(),
        );
        sessions
    }

    /// Counts records that were journaled.
    pub fn journaled(&self, tally: &Tally) {
        for (counter, count) in self.records.iter().zip(tally.records) {
            if count > 0 {
                counter.inc_by(count);
            }
        }
        self.bytes.inc_by(tally.bytes);
    }

    /// Counts lines of a type or subtype that is not known.
    pub fn unknown(&self, kind: UnknownKind, name: &str, count: u64) {
        let labels = UnknownLabels {
            kind: kind.as_str(),
            name: self.unknown_names.label(name),
        };
        self.unknown.get_or_create(&labels).inc_by(count);
    }

    /// Counts an approval that ended, or another decision; `by` is the kind of who decided.
    pub fn approval_ended(&self, kind: ApprovalKind, how: ApprovalHow, by: &'static str) {
        let (kind, how) = (kind.as_str(), how.as_str());
        let labels = ApprovalLabels { kind, how, by };
        self.approvals.get_or_create(&labels).inc();
    }

    /// Counts a control request of a client that ended.
    pub fn control_ended(&self, subtype: &str, end: ControlEnd) {
        let labels = ControlLabels {
            subtype: self.subtype(subtype),
            outcome: end.as_str(),
        };
        self.controls.get_or_create(&labels).inc();
    }

    /// Counts a stated answer to a request of the CLI, and why it was given.
    pub fn fallback(&self, subtype: &str, reason: &'static str) {
        let labels = FallbackLabels {
            subtype: self.subtype(subtype),
            reason,
        };
        self.fallbacks.get_or_create(&labels).inc();
    }

    /// Counts a turn that ended.
    pub fn turn_ended(&self, turn: &TurnEnd) {
        let own = [
            "failed",
            TurnEnd::INTERRUPTED,
            TurnEnd::BLOCKED,
            TurnEnd::CUT_SHORT,
        ];
        let mut known = catalogue::RESULT_SUBTYPES.iter().chain(&own);
        let outcome = match known.find(|it| **it == turn.outcome) {
            Some(known) => (*known).into(),
            None => self.outcomes.label(&turn.outcome).into(),
        };
        self.turns.get_or_create(&TurnLabels { outcome }).inc();
        if let Some(cost) = turn.cost_usd.filter(|cost| *cost > Usd::ZERO) {
            self.cost.inc_by(cost.as_dollars());
        }
    }

    /// The counts of what CLIs say about the limits of their account.
    pub fn rate_limits(&self) -> &RateLimitMetrics {
        &self.rate_limits
    }

    /// Counts a request to the model API that is made again.
    pub fn api_retried(&self, retry: &ApiRetry) {
        let error = self.api_errors.label(retry.error.as_deref().unwrap_or("unknown"));
        self.api_retries.get_or_create(&RetryLabels { error }).inc();
    }

    /// Counts processes that outlived their keeper and were killed.
    pub fn strays_killed(&self, count: usize) {
        self.strays.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// Counts records that a journal was found to lack.
    pub fn records_missing(&self, count: u64) {
        self.missing.inc_by(count);
    }

    /// Counts a session that was parked.
    pub fn parked(&self, reason: ParkReason) {
        let reason = reason.as_str();
        self.parks.get_or_create(&ParkLabels { reason }).inc();
    }

    /// Counts a process that was started for a parked session.
    pub fn woken(&self) {
        self.wakes.inc();
    }

    /// A known subtype counts under its name, however many unknown ones there were.
    fn subtype(&self, subtype: &str) -> Cow<'static, str> {
        match catalogue::control(subtype) {
            Some(control) => control.name.into(),
            None => self.subtypes.label(subtype).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_is_at_the_place_of_its_number() {
        for (place, source) in SOURCES.into_iter().enumerate() {
            assert_eq!(source as usize, place);
        }
    }
}
