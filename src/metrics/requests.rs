//! Owns what is counted of HTTP requests.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::{Registry, Unit},
};

/// From an answer out of memory to a wait for a turn.
const BUCKETS_SECONDS: [f64; 9] = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0, 600.0];

/// The methods of routes; what else a client may invent is `OTHER`.
const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    route: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    method: &'static str,
    route: String,
    status: u16,
}

/// The counters of the HTTP side. Clones count together.
#[derive(Clone, Debug)]
pub struct RequestMetrics {
    answers: Family<AnswerLabels, Counter>,
    durations: Family<RouteLabels, Histogram, fn() -> Histogram>,
}

impl RequestMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let requests = Self {
            answers: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(BUCKETS_SECONDS)),
        };
        registry.register(
            "http_requests",
            "Requests by route and status; a stream or a socket counts when it begins",
            requests.answers.clone(),
        );
        registry.register_with_unit(
            "http_request_duration",
            "From a request to the head of its answer",
            Unit::Seconds,
            requests.durations.clone(),
        );
        requests
    }

    /// Counts an answer. `route` is the template of the path, never the path itself.
    pub fn answered(&self, method: &str, route: &str, status: u16, took: Duration) {
        let method = METHODS
            .into_iter()
            .find(|known| *known == method)
            .unwrap_or("OTHER");
        let route = route.to_owned();
        let labels = AnswerLabels {
            method,
            route: route.clone(),
            status,
        };
        self.answers.get_or_create(&labels).inc();
        self.durations
            .get_or_create(&RouteLabels { method, route })
            .observe(took.as_secs_f64());
    }
}
