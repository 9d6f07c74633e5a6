//! Owns what the daemon counts since its start, and the text that a scraper gets. Every label comes from a closed set, or
//! from a bounded one; none holds an id, a path or a word of what is said.

mod journals;
mod levels;
mod name;
mod rate_limits;
mod requests;
mod sessions;
mod warm;
mod webhooks;

use std::{fmt, sync::Arc};

use prometheus_client::{encoding::text, metrics::info::Info, registry::Registry};

pub use journals::JournalMetrics;
pub use levels::Levels;
pub use rate_limits::RateLimitMetrics;
pub use requests::RequestMetrics;
pub use sessions::{ControlEnd, SessionMetrics, Tally, UnknownKind};
pub use warm::{WarmEnd, WarmLevel, WarmMetrics};
pub use webhooks::WebhookMetrics;

use levels::LevelMetrics;

/// The type of the text: what Prometheus takes.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The first part of every name.
const PREFIX: &str = "trunkline";

/// Everything that is counted. Clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    registry: Registry,
    sessions: SessionMetrics,
    requests: RequestMetrics,
    journals: JournalMetrics,
    levels: LevelMetrics,
    warm: WarmMetrics,
    webhooks: WebhookMetrics,
}

impl Metrics {
    /// Counters at zero. `version` is that of this program.
    pub fn new(version: &'static str) -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let info = Info::new(vec![("version", version)]);
        registry.register("build", "The program that counts", info);
        let shared = Shared {
            levels: LevelMetrics::register(&mut registry),
            sessions: SessionMetrics::register(&mut registry),
            requests: RequestMetrics::register(&mut registry),
            journals: JournalMetrics::register(&mut registry),
            warm: WarmMetrics::register(&mut registry),
            webhooks: WebhookMetrics::register(&mut registry),
            registry,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The counters of sessions.
    pub fn sessions(&self) -> &SessionMetrics {
        &self.shared.sessions
    }

    /// The counters of the HTTP side.
    pub fn requests(&self) -> &RequestMetrics {
        &self.shared.requests
    }

    /// The counts of journals as files.
    pub fn journals(&self) -> &JournalMetrics {
        &self.shared.journals
    }

    /// The counters of processes that are started in advance.
    pub fn warm(&self) -> &WarmMetrics {
        &self.shared.warm
    }

    /// The counts of webhooks.
    pub fn webhooks(&self) -> &WebhookMetrics {
        &self.shared.webhooks
    }

    /// The text for a scraper, with `levels` as they are now.
    ///
    /// # Errors
    /// A metric that cannot be written as text.
    pub fn text(&self, levels: &Levels) -> Result<String, fmt::Error> {
        self.shared.levels.set(levels);
        self.shared.warm.set(&levels.warm);
        self.shared.sessions.rate_limits().set(&levels.rate_limits);
        let mut out = String::new();
        text::encode(&mut out, &self.shared.registry)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{ApprovalHow, ApprovalKind};

    fn text(metrics: &Metrics) -> String {
        metrics.text(&Levels::default()).unwrap()
    }

    #[test]
    fn clones_count_together() {
        let metrics = Metrics::new("1.2.3");
        let sessions = metrics.clone().sessions().clone();
        sessions.approval_ended(ApprovalKind::Tool, ApprovalHow::Person, "rest");
        sessions.approval_ended(ApprovalKind::Tool, ApprovalHow::Person, "rest");
        let text = text(&metrics);
        let counted = r#"trunkline_approvals_ended_total{kind="tool",how="person",by="rest"} 2"#;
        assert!(text.contains(counted), "{text}");
        assert!(
            text.contains(r#"trunkline_build_info{version="1.2.3"} 1"#),
            "{text}"
        );
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn names_from_outside_are_bounded_and_clean() {
        let metrics = Metrics::new("1");
        for number in 0..200 {
            metrics
                .sessions()
                .unknown(UnknownKind::Message, &format!("new_{number}"), 1);
        }
        let long = "x".repeat(1000);
        for name in ["", "a\"} 1\nevil 2", long.as_str()] {
            metrics.sessions().unknown(UnknownKind::System, name, 2);
        }
        let text = text(&metrics);
        let lines: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("trunkline_unknown_messages_total{"))
            .collect();
        assert_eq!(lines.len(), 64 + 2, "{text}");
        assert!(
            lines.contains(&r#"trunkline_unknown_messages_total{kind="message",name="other"} 136"#),
            "{text}"
        );
        assert!(
            lines.contains(&r#"trunkline_unknown_messages_total{kind="system",name="other"} 6"#),
            "{text}"
        );
        assert!(!text.contains("evil"), "{text}");
    }

    #[test]
    fn what_no_client_can_push_out_is_the_name_of_a_known_request() {
        let metrics = Metrics::new("1");
        for number in 0..200 {
            metrics
                .sessions()
                .control_ended(&format!("mine_{number}"), ControlEnd::Refused);
        }
        metrics.sessions().control_ended("set_model", ControlEnd::Success);
        let text = text(&metrics);
        assert!(
            text.contains(r#"trunkline_control_requests_total{subtype="set_model",outcome="success"} 1"#),
            "{text}"
        );
        assert!(
            text.contains(r#"trunkline_control_requests_total{subtype="other",outcome="refused"} 136"#),
            "{text}"
        );
    }
}
