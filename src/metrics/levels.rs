//! Owns what stands at some height at the moment of a scrape: sessions, processes, clients, queues.

use std::{sync::atomic::Ordering, time::Duration};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};

use super::WarmLevel;
use crate::domain::{ApprovalKind, RateLimit, Role, SessionState};

/// The levels at a moment.
#[derive(Clone, Debug, Default)]
pub struct Levels {
    /// Sessions by state; states that are not here have none.
    pub sessions: Vec<(SessionState, u64)>,
    /// CLI processes that live.
    pub processes: u64,
    /// Open sockets and streams.
    pub clients: u64,
    /// The role of each login that holds.
    pub logins: Vec<Role>,
    /// The kind of each approval that somebody has to decide.
    pub approvals: Vec<ApprovalKind>,
    /// Requests of CLIs that open once others are closed.
    pub requests_waiting: u64,
    /// Projections that wait for the store.
    pub projections: u64,
    /// Writes that wait for the store.
    pub store_writes: u64,
    /// How long the oldest facts that sessions handed over have waited for the store.
    pub store_lag: Duration,
    /// The memory of all sessions' processes, as it was measured last.
    pub memory_bytes: u64,
    /// Log lines that were dropped since the start.
    pub log_lines_dropped: u64,
    /// Processes that were started in advance.
    pub warm: Vec<WarmLevel>,
    /// The last words of CLIs about each limit of an account.
    pub rate_limits: Vec<RateLimit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RoleLabels {
    role: &'static str,
}

/// Gauges that are set before they are read.
#[derive(Debug)]
pub(super) struct LevelMetrics {
    sessions: Family<StateLabels, Gauge>,
    processes: Gauge,
    clients: Gauge,
    logins: Family<RoleLabels, Gauge>,
    approvals: Family<KindLabels, Gauge>,
    requests_waiting: Gauge,
    projections: Gauge,
    store_writes: Gauge,
    store_lag: Gauge<f64, std::sync::atomic::AtomicU64>,
    memory: Gauge,
    log_lines_dropped: Counter,
}

impl LevelMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let levels = Self {
            sessions: Family::default(),
            processes: Gauge::default(),
            clients: Gauge::default(),
            logins: Family::default(),
            approvals: Family::default(),
            requests_waiting: Gauge::default(),
            projections: Gauge::default(),
            store_writes: Gauge::default(),
            store_lag: Gauge::default(),
            memory: Gauge::default(),
            log_lines_dropped: Counter::default(),
        };
        registry.register("sessions", "Sessions by state", levels.sessions.clone());
        registry.register("processes", "CLI processes that live", levels.processes.clone());
        registry.register("clients", "Open WebSockets and streams", levels.clients.clone());
        registry.register("logins", "Browsers that are let in", levels.logins.clone());
        registry.register(
            "approvals_pending",
            "Open approvals that nobody has decided",
            levels.approvals.clone(),
        );
        registry.register(
            "requests_waiting",
            "Approvals and other requests of CLIs that open once others of their session are closed",
            levels.requests_waiting.clone(),
        );
        registry.register(
            "projections_waiting",
            "Batches of facts that wait for the store",
            levels.projections.clone(),
        );
        registry.register(
            "store_writes_waiting",
            "Writes that wait for the store",
            levels.store_writes.clone(),
        );
        registry.register_with_unit(
            "store_lag",
            "How long the oldest facts that are being stored have waited",
            Unit::Seconds,
            levels.store_lag.clone(),
        );
        registry.register_with_unit(
            "session_memory",
            "Memory of the processes of all sessions, measured where park.memory_budget_bytes is set",
            Unit::Bytes,
            levels.memory.clone(),
        );
        registry.register(
            "log_lines_dropped",
            "Log lines that nobody took",
            levels.log_lines_dropped.clone(),
        );
        levels
    }

    pub(super) fn set(&self, now: &Levels) {
        for state in SessionState::ALL {
            let of_state = now.sessions.iter().filter(|(of, _)| *of == state);
            let labels = StateLabels {
                state: state.as_str(),
            };
            self.sessions
                .get_or_create(&labels)
                .set(signed(of_state.map(|(_, count)| count).sum()));
        }
        // A hook's decision is never pending.
        let kinds = ApprovalKind::ALL.into_iter();
        for kind in kinds.filter(|kind| *kind != ApprovalKind::Hook) {
            let of_kind = now.approvals.iter().filter(|of| **of == kind).count();
            let labels = KindLabels { kind: kind.as_str() };
            self.approvals
                .get_or_create(&labels)
                .set(i64::try_from(of_kind).unwrap_or(i64::MAX));
        }
        for role in [Role::Viewer, Role::Operator] {
            let of_role = now.logins.iter().filter(|of| **of == role).count();
            let labels = RoleLabels { role: role.as_str() };
            self.logins.get_or_create(&labels).set(signed(of_role as u64));
        }
        self.requests_waiting.set(signed(now.requests_waiting));
        self.processes.set(signed(now.processes));
        self.clients.set(signed(now.clients));
        self.projections.set(signed(now.projections));
        self.store_writes.set(signed(now.store_writes));
        self.memory.set(signed(now.memory_bytes));
        self.log_lines_dropped
            .inner()
            .store(now.log_lines_dropped, Ordering::Relaxed);
        self.store_lag.set(now.store_lag.as_secs_f64());
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
