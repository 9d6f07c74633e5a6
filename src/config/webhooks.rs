//! Owns `[webhooks]`.

use std::collections::HashSet;

use serde::{Deserialize, Serialize, Serializer};

use super::Problem;
use crate::domain::{
    MAX_WEBHOOKS, Secret, SessionState, SigningKey, WebUrl, WebhookEvent, WebhookFilter, WebhookSpec,
};

/// Programs that are told of what happens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhooks {
    /// They; none by default. More can be made over HTTP.
    pub receivers: Vec<WebhookReceiver>,
}

/// A program that is told of what happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookReceiver {
    /// Its name, by which it is known over restarts.
    pub name: String,
    /// Its address.
    #[serde(serialize_with = "without_query")]
    pub url: WebUrl,
    /// The key of the signatures.
    #[serde(serialize_with = "hidden")]
    pub secret: Secret,
    /// The events; none stands for all.
    #[serde(default)]
    pub events: Vec<WebhookEvent>,
    /// Only of sessions in this state.
    #[serde(default)]
    pub state: Option<SessionState>,
    /// Only of sessions in exactly this directory.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Only of sessions with this tag.
    #[serde(default)]
    pub tag: Option<String>,
    /// Only of sessions with this label, as `key=value`.
    #[serde(default)]
    pub label: Option<String>,
    /// Whether it is told texts too.
    #[serde(default)]
    pub content: bool,
}

fn without_query<S: Serializer>(url: &WebUrl, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{url}"))
}

fn hidden<S: Serializer>(_: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str("(not shown)")
}

impl WebhookReceiver {
    /// The specification of what it is told.
    pub fn spec(&self) -> WebhookSpec {
        WebhookSpec {
            url: self.url.clone(),
            events: self.events.clone(),
            filter: WebhookFilter {
                state: self.state,
                cwd: self.cwd.clone(),
                tag: self.tag.clone(),
                label: self.label.clone(),
            },
            content: self.content,
        }
    }
}

impl Webhooks {
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        const KEY: &str = "webhooks.receivers";
        let mut names = HashSet::new();
        if self.receivers.len() > MAX_WEBHOOKS {
            problems.push(Problem::new(KEY, format!("are more than {MAX_WEBHOOKS}")));
        }
        for receiver in &self.receivers {
            let name = receiver.name.as_str();
            let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            if name.is_empty() || name.len() > 64 || !name.chars().all(is_name) {
                let reason =
                    format!("{name:?} is no name: letters, digits, \".\", \"_\" and \"-\", at most 64");
                problems.push(Problem::new(KEY, reason));
            } else if !names.insert(name) {
                problems.push(Problem::new(KEY, format!("two are named {name}")));
            }
            if let Some(fault) = secret_fault(&receiver.secret) {
                problems.push(Problem::new(KEY, format!("the secret of {name} {fault}")));
            }
            if let Some(fault) = receiver.spec().filter.fault() {
                problems.push(Problem::new(KEY, format!("{name}: {fault}")));
            }
        }
    }
}

/// The fault of a secret that the libraries of Standard Webhooks would not take.
fn secret_fault(secret: &Secret) -> Option<String> {
    SigningKey::standard(secret.expose())
        .err()
        .map(|error| error.to_string())
}
