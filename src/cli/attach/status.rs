//! Owns what `attach` knows of its session, for the sign of the prompt and for what a key means now.

use serde_json::Value;
use tokio::time::Instant;

use super::super::view;

/// The last known state of the session.
#[derive(Debug, Default)]
pub(super) struct Status {
    pub(super) state: String,
    pub(super) model: String,
    pub(super) mode: String,
    pub(super) cost: String,
    /// Since when it works.
    pub(super) since: Option<Instant>,
    /// Whether a message was sent whose turn has not ended.
    pub(super) expects: bool,
    /// Whether the cost after a turn is to be told, as there is no sign to tell it.
    pub(super) owes_cost: bool,
}

impl Status {
    pub(super) fn read(&mut self, session: &Value) {
        self.enter(view::text(session, &["state"]));
        view::text(session, &["model"]).clone_into(&mut self.model);
        view::text(session, &["permission_mode"]).clone_into(&mut self.mode);
        self.cost = view::dollars(session.get("cost_usd"));
    }

    pub(super) fn enter(&mut self, state: &str) {
        if !matches!(state, "busy" | "starting") {
            self.since = None;
        } else if self.since.is_none() {
            self.since = Some(Instant::now());
        }
        state.clone_into(&mut self.state);
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state.as_str(), "stopped" | "failed")
    }

    pub(super) fn works(&self) -> bool {
        self.expects || matches!(self.state.as_str(), "busy" | "waiting")
    }
}
