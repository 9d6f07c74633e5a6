//! Owns the counters of what is done so that journals do not grow for ever.

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::{Registry, Unit},
};

/// Counts what is taken out of journals. Clones count together.
#[derive(Clone, Debug)]
pub struct JournalMetrics {
    size: Gauge,
    compacted: Counter,
    removed: Counter,
}

impl JournalMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            size: Gauge::default(),
            compacted: Counter::default(),
            removed: Counter::default(),
        };
        registry.register_with_unit(
            "journals",
            "Size of all journals at the last look",
            Unit::Bytes,
            metrics.size.clone(),
        );
        registry.register_with_unit(
            "journals_compacted",
            "Size of the records that compactions took out",
            Unit::Bytes,
            metrics.compacted.clone(),
        );
        registry.register_with_unit(
            "journals_removed",
            "Size of the files of journals that were removed for their age or size",
            Unit::Bytes,
            metrics.removed.clone(),
        );
        metrics
    }

    /// A look is over: so large are all journals now, and so much went.
    pub fn collected(&self, size: u64, compacted: u64, removed: u64) {
        self.size.set(i64::try_from(size).unwrap_or(i64::MAX));
        self.compacted.inc_by(compacted);
        self.removed.inc_by(removed);
    }
}
