//! Owns the counters of the processes that are started in advance. Their one label from outside is the name of a profile of
//! the configuration.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// The fate of a process that was started in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmEnd {
    /// Somebody got it.
    Claimed,
    /// It was too old.
    Aged,
    /// The launch that it was started for had changed.
    Changed,
    /// It stood in the way of somebody's start.
    Room,
    /// It did not get ready.
    Failed,
    /// It ended by itself.
    Died,
    /// The daemon ended.
    Shutdown,
}

impl WarmEnd {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Aged => "aged",
            Self::Changed => "changed",
            Self::Room => "room",
            Self::Failed => "failed",
            Self::Died => "died",
            Self::Shutdown => "shutdown",
        }
    }
}

/// The processes of a profile at a moment.
#[derive(Clone, Debug)]
pub struct WarmLevel {
    /// The profile's name.
    pub profile: String,
    /// How many it is to have.
    pub wanted: usize,
    /// Those that can be claimed.
    pub ready: usize,
    /// Those that are about to be.
    pub starting: usize,
    /// Whether the last one was of no use.
    pub is_failing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProfileLabels {
    profile: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    profile: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabels {
    profile: String,
    end: &'static str,
}

/// Counts the processes that are started in advance.
#[derive(Clone, Debug)]
pub struct WarmMetrics {
    ended: Family<EndLabels, Counter>,
    missed: Family<ProfileLabels, Counter>,
    processes: Family<StateLabels, Gauge>,
    wanted: Family<ProfileLabels, Gauge>,
    failing: Family<ProfileLabels, Gauge>,
}

impl WarmMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            ended: Family::default(),
            missed: Family::default(),
            processes: Family::default(),
            wanted: Family::default(),
            failing: Family::default(),
        };
        registry.register(
            "warm_processes_ended",
            "The fate of processes that were started in advance",
            metrics.ended.clone(),
        );
        registry.register(
            "warm_missed",
            "Sessions that a profile fits and that found no process ready",
            metrics.missed.clone(),
        );
        registry.register(
            "warm_processes",
            "Processes that wait for a session",
            metrics.processes.clone(),
        );
        registry.register(
            "warm_wanted",
            "Processes that are to wait for a session",
            metrics.wanted.clone(),
        );
        registry.register(
            "warm_failing",
            "Whether the last process of the profile was of no use",
            metrics.failing.clone(),
        );
        metrics
    }

    /// A process of the profile has left the pool.
    pub fn ended(&self, profile: &str, end: WarmEnd) {
        let labels = EndLabels {
            profile: profile.to_owned(),
            end: end.as_str(),
        };
        self.ended.get_or_create(&labels).inc();
    }

    /// The profile had none for somebody.
    pub fn missed(&self, profile: &str) {
        self.missed.get_or_create(&of(profile)).inc();
    }

    pub(super) fn set(&self, levels: &[WarmLevel]) {
        for level in levels {
            for (state, count) in [("ready", level.ready), ("starting", level.starting)] {
                let labels = StateLabels {
                    profile: level.profile.clone(),
                    state,
                };
                self.processes.get_or_create(&labels).set(signed(count));
            }
            let labels = of(&level.profile);
            self.wanted.get_or_create(&labels).set(signed(level.wanted));
            self.failing.get_or_create(&labels).set(level.is_failing.into());
        }
    }
}

fn of(profile: &str) -> ProfileLabels {
    ProfileLabels {
        profile: profile.to_owned(),
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
