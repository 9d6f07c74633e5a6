//! Owns the words of webhooks for people's programs: the events, whom they are about, and what a receiver asks for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ErrorCode, SessionState, WebUrl};

/// The most webhooks, those of the configuration included.
pub const MAX_WEBHOOKS: usize = 32;

/// Something that a webhook can be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WebhookEvent {
    /// A turn ended.
    TurnEnded,
    /// An approval opened that no rule decided at once.
    ApprovalOpened,
    /// A session failed, and no restart is due.
    SessionFailed,
    /// A session has cost what it may cost.
    BudgetSpent,
    /// A reason began for which a session needs a person, as the lobby has them.
    NeedsAttention,
}

impl WebhookEvent {
    /// The JSON name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TurnEnded => "turn_ended",
            Self::ApprovalOpened => "approval_opened",
            Self::SessionFailed => "session_failed",
            // One word for the fault and for the news of it.
            Self::BudgetSpent => ErrorCode::BudgetSpent.as_str(),
            Self::NeedsAttention => "needs_attention",
        }
    }
}

/// The sessions that a webhook is told of: those that match every member that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookFilter {
    /// In this state once the event is stored.
    #[serde(default)]
    pub state: Option<SessionState>,
    /// In exactly this working directory.
    #[serde(default)]
    pub cwd: Option<String>,
    /// With exactly this tag.
    #[serde(default)]
    pub tag: Option<String>,
    /// With this label, as `key=value`.
    #[serde(default)]
    #[schema(pattern = "=")]
    pub label: Option<String>,
}

impl WebhookFilter {
    /// Whether a session matches.
    pub fn matches(
        &self,
        state: SessionState,
        cwd: &str,
        tag: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> bool {
        let has = |label: &String| {
            label
                .split_once('=')
                .is_some_and(|(key, value)| labels.get(key).is_some_and(|known| known == value))
        };
        self.state.is_none_or(|wanted| wanted == state)
            && self.cwd.as_ref().is_none_or(|wanted| wanted == cwd)
            && self.tag.as_ref().is_none_or(|wanted| tag == Some(wanted))
            && self.label.as_ref().is_none_or(has)
    }

    /// The fault of a filter that can match nothing.
    pub fn fault(&self) -> Option<&'static str> {
        let label = self.label.as_ref()?;
        (!label.contains('=')).then_some("label: expected key=value")
    }
}

/// Where a webhook is, and what it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookSpec {
    /// Its address.
    pub url: WebUrl,
    /// The events; none stands for all.
    pub events: Vec<WebhookEvent>,
    /// The sessions.
    pub filter: WebhookFilter,
    /// Whether it is told texts too.
    pub content: bool,
}

impl WebhookSpec {
    /// Whether it is told of such events.
    pub fn wants(&self, event: WebhookEvent) -> bool {
        self.events.is_empty() || self.events.contains(&event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_matches_by_every_member_that_is_set() {
        let labels = BTreeMap::from([("team".to_owned(), "a=b".to_owned())]);
        let matches = |filter: WebhookFilter| filter.matches(SessionState::Idle, "/w", Some("x"), &labels);
        let none = WebhookFilter::default;
        assert!(matches(none()));
        let label = |text: &str| WebhookFilter {
            label: Some(text.to_owned()),
            ..none()
        };
        assert!(matches(label("team=a=b")));
        assert!(!matches(label("team=a")));
        assert!(!matches(label("team")) && label("team").fault().is_some());
        let tag = |tag: &str, cwd: &str| WebhookFilter {
            tag: Some(tag.to_owned()),
            cwd: Some(cwd.to_owned()),
            state: Some(SessionState::Idle),
            ..none()
        };
        assert!(matches(tag("x", "/w")));
        assert!(!matches(tag("y", "/w")) && !matches(tag("x", "/w/below")));
        assert!(!matches(WebhookFilter {
            state: Some(SessionState::Failed),
            ..none()
        }));
    }
}
