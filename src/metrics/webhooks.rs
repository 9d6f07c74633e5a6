//! Owns the counters of webhooks for people's programs.

use std::sync::atomic::Ordering;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    event: String,
    outcome: &'static str,
}

/// Counts what is sent to webhooks. Clones count together.
#[derive(Clone, Debug)]
pub struct WebhookMetrics {
    attempts: Family<AttemptLabels, Counter>,
    waiting: Gauge,
    dropped: Counter,
}

impl WebhookMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            attempts: Family::default(),
            waiting: Gauge::default(),
            dropped: Counter::default(),
        };
        registry.register(
            "webhook_attempts",
            "Attempts to deliver an event to a webhook",
            metrics.attempts.clone(),
        );
        registry.register(
            "webhook_deliveries_waiting",
            "Events that wait for a webhook",
            metrics.waiting.clone(),
        );
        registry.register(
            "webhook_deliveries_dropped",
            "Events that no webhook is told",
            metrics.dropped.clone(),
        );
        metrics
    }

    /// An attempt ended. Both words are of closed sets.
    pub fn attempted(&self, event: &str, outcome: &'static str) {
        let labels = AttemptLabels {
            event: event.to_owned(),
            outcome,
        };
        self.attempts.get_or_create(&labels).inc();
    }

    /// So many events wait.
    pub fn set_waiting(&self, count: u64) {
        self.waiting.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// So many events were dropped since the start.
    pub fn set_dropped(&self, count: u64) {
        self.dropped.inner().store(count, Ordering::Relaxed);
    }
}
