//! Owns what a stretch of the journal adds to the daemon's counters. The fold finds it; it is told to the counters only for
//! what this daemon saw happen, and not for what it reads again.

use crate::{
    domain::{ApiRetry, ApprovalHow, ApprovalKind, RateLimit, Resolution, kind_of_decider},
    metrics::{SessionMetrics, Tally, UnknownKind},
};

/// The events to be counted.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub(super) tally: Tally,
    unknown: Vec<(UnknownKind, String, u64)>,
    approvals: Vec<(ApprovalKind, ApprovalHow, &'static str)>,
    fallbacks: Vec<(String, &'static str)>,
    rate_limits: Vec<RateLimit>,
    api_retries: Vec<ApiRetry>,
}

impl Counted {
    pub(super) fn unknown(&mut self, kind: UnknownKind, name: &str) {
        // A CLI often repeats a new kind of line many times.
        match self.unknown.last_mut() {
            Some((last_kind, last_name, count)) if *last_kind == kind && last_name == name => *count += 1,
            _ => self.unknown.push((kind, name.to_owned(), 1)),
        }
    }

    pub(super) fn approval_ended(&mut self, kind: ApprovalKind, end: &Resolution) {
        self.approvals.push((kind, end.how, kind_of_decider(&end.by)));
    }

    pub(super) fn fallback(&mut self, subtype: String, reason: &'static str) {
        self.fallbacks.push((subtype, reason));
    }

    pub(super) fn rate_limit(&mut self, limit: &RateLimit) {
        self.rate_limits.push(limit.clone());
    }

    pub(super) fn api_retry(&mut self, retry: &ApiRetry) {
        self.api_retries.push(retry.clone());
    }

    /// Adds all to the counters.
    pub(super) fn tell(&self, metrics: &SessionMetrics) {
        metrics.journaled(&self.tally);
        for (kind, name, count) in &self.unknown {
            metrics.unknown(*kind, name, *count);
        }
        for (kind, how, by) in &self.approvals {
            metrics.approval_ended(*kind, *how, by);
        }
        for (subtype, reason) in &self.fallbacks {
            metrics.fallback(subtype, reason);
        }
        for limit in &self.rate_limits {
            metrics.rate_limits().told(limit);
        }
        for retry in &self.api_retries {
            metrics.api_retried(retry);
        }
    }
}
