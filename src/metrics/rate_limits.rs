//! Owns what is counted of the limits of accounts, as CLIs tell of them.

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};

use super::name::Names;
use crate::domain::RateLimit;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabels {
    kind: String,
    status: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabels {
    kind: String,
}

/// The words of CLIs about limits. Clones count together.
#[derive(Clone, Debug)]
pub struct RateLimitMetrics {
    events: Family<EventLabels, Counter>,
    utilization: Family<LimitLabels, Gauge<f64, AtomicU64>>,
    resets: Family<LimitLabels, Gauge<f64, AtomicU64>>,
    kinds: Names,
    statuses: Names,
}

impl RateLimitMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let limits = Self {
            events: Family::default(),
            utilization: Family::default(),
            resets: Family::default(),
            kinds: Names::default(),
            statuses: Names::default(),
        };
        registry.register(
            "rate_limit_events",
            "Times that a CLI told of a limit of its account, by limit and by status",
            limits.events.clone(),
        );
        registry.register(
            "rate_limit_utilization",
            "The part of a limit of the account that is used, as a CLI said last",
            limits.utilization.clone(),
        );
        registry.register_with_unit(
            "rate_limit_reset_timestamp",
            "When a limit of the account begins anew, in seconds since 1970, as a CLI said last",
            Unit::Seconds,
            limits.resets.clone(),
        );
        limits
    }

    /// Counts what a CLI said about a limit.
    pub fn told(&self, limit: &RateLimit) {
        let kind = self.kind(limit);
        let status = self.statuses.label(&limit.status);
        self.events.get_or_create(&EventLabels { kind, status }).inc();
    }

    /// Sets the levels to what was said last about each limit.
    pub(super) fn set(&self, newest: &[RateLimit]) {
        self.utilization.clear();
        self.resets.clear();
        for limit in newest {
            let labels = LimitLabels {
                kind: self.kind(limit),
            };
            if let Some(utilization) = limit.utilization {
                self.utilization.get_or_create(&labels).set(utilization);
            }
            if let Some(resets_at) = limit.resets_at {
                #[expect(clippy::cast_precision_loss, reason = "exact up to the year 2255")]
                let seconds = resets_at.as_micros() as f64 / 1e6;
                self.resets.get_or_create(&labels).set(seconds);
            }
        }
    }

    fn kind(&self, limit: &RateLimit) -> String {
        self.kinds.label(limit.kind.as_deref().unwrap_or_default())
    }
}
