//! Owns the objects about webhooks for people's programs.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::{
    domain::{
        DeliveryId, Secret, SigningKey, Timestamp, WebUrl, WebhookEvent, WebhookFilter, WebhookId,
        WebhookSpec,
    },
    http::{ApiError, ErrorCode},
    store::{WebhookPatch, WebhookRow},
    supervisor::Tested,
};

/// A webhook to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"url": "https://ops.example/trunkline", "events": ["approval_opened", "session_failed"], "filter": {"tag": "night"}}))]
pub(in crate::http) struct WebhookRequest {
    /// Its address.
    url: WebUrl,
    /// The events that it is told of. Default: all.
    #[serde(default)]
    events: Vec<WebhookEvent>,
    /// The sessions that it is told of. Default: all.
    #[serde(default, deserialize_with = "super::session::object")]
    filter: WebhookFilter,
    /// Whether it is told texts too: title, directory, tag, labels, prompt, what an approval asks, error output. Default: ids, kinds, counts and costs alone.
    #[serde(default)]
    content: bool,
    /// Whether it is told anything. Default: yes.
    #[serde(default = "yes")]
    enabled: bool,
    /// The key of its signatures: `whsec_` and 24 to 64 bytes in base64. Default: a new one, which the answer has.
    #[schema(value_type = Option<String>, pattern = "^whsec_(([A-Za-z0-9+/]{4}){8,20}[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=|([A-Za-z0-9+/]{4}){8,21}([A-Za-z0-9+/][AQgw]==)?)$")]
    secret: Option<Secret>,
}

const fn yes() -> bool {
    true
}

/// A change of a webhook. A field that is left out stays.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"events": ["turn_ended"], "enabled": true}))]
pub(in crate::http) struct WebhookUpdate {
    /// Its new address.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    url: Option<WebUrl>,
    /// The events, in place of those before; none stands for all.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    events: Option<Vec<WebhookEvent>>,
    /// The filter, in place of the one before.
    #[serde(default, deserialize_with = "given_object")]
    #[schema(nullable = false)]
    filter: Option<WebhookFilter>,
    /// Whether it is told texts too.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    content: Option<bool>,
    /// Whether it is told anything. One that is not loses what waits for it.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    enabled: Option<bool>,
    /// The new key of its signatures.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, nullable = false, pattern = "^whsec_(([A-Za-z0-9+/]{4}){8,20}[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=|([A-Za-z0-9+/]{4}){8,21}([A-Za-z0-9+/][AQgw]==)?)$")]
    secret: Option<Secret>,
}

/// A field that is there has a value.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// As [`given`], and an object only.
fn given_object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    super::session::object(deserializer).map(Some)
}

impl WebhookRequest {
    /// The parts of the webhook that is made.
    pub(in crate::http) fn into_parts(self) -> Result<(WebhookSpec, Option<Secret>, bool), ApiError> {
        check(&self.filter, self.secret.as_ref())?;
        let spec = WebhookSpec {
            url: self.url,
            events: self.events,
            filter: self.filter,
            content: self.content,
        };
        Ok((spec, self.secret, self.enabled))
    }
}

impl WebhookUpdate {
    /// The change of a webhook that is told this now.
    pub(in crate::http) fn into_patch(self, now: WebhookSpec) -> Result<WebhookPatch, ApiError> {
        let spec = WebhookSpec {
            url: self.url.unwrap_or(now.url),
            events: self.events.unwrap_or(now.events),
            filter: self.filter.unwrap_or(now.filter),
            content: self.content.unwrap_or(now.content),
        };
        check(&spec.filter, self.secret.as_ref())?;
        Ok(WebhookPatch {
            spec: Some(spec),
            secret: self.secret,
            enabled: self.enabled,
        })
    }
}

fn check(filter: &WebhookFilter, secret: Option<&Secret>) -> Result<(), ApiError> {
    let refused = |field: &str, fault: &str| {
        ApiError::new(ErrorCode::InvalidField)
            .detail(format!("{field}: {fault}"))
            .member("field", field)
    };
    if let Some(fault) = filter.fault() {
        return Err(refused("filter", fault));
    }
    match secret.map(|secret| SigningKey::standard(secret.expose())) {
        Some(Err(error)) => Err(refused("secret", &error.to_string())),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// A webhook, with what became of its deliveries.
#[derive(Serialize, ToSchema)]
pub(in crate::http) struct Webhook {
    /// Its id.
    id: WebhookId,
    /// Its name in the configuration; `null` when it was made over HTTP.
    name: Option<String>,
    /// Its address, without the query.
    url: String,
    /// The events that it is told of; none stands for all.
    events: Vec<WebhookEvent>,
    /// The sessions that it is told of.
    filter: WebhookFilter,
    /// Whether it is told texts too.
    content: bool,
    /// Whether it is told anything. An answer with the status 410 disables it.
    enabled: bool,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The status of its last answer; `null` before the first, and when there was none.
    last_status: Option<u64>,
    /// Why the last attempt failed; `null` when it did not.
    last_error: Option<String>,
    /// When it was tried last.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_attempt_at: Option<Timestamp>,
    /// Events that wait to be sent, or sent again.
    pending: u64,
    /// Events that it took.
    delivered: u64,
    /// Events that were sent as often as one is, and not taken.
    given_up: u64,
    /// Events that were dropped: too many waited, their session was deleted, or it was disabled.
    dropped: u64,
}

impl From<WebhookRow> for Webhook {
    fn from(row: WebhookRow) -> Self {
        Self {
            id: row.id,
            name: row.name,
            url: row.spec.url.to_string(),
            events: row.spec.events,
            filter: row.spec.filter,
            content: row.spec.content,
            enabled: row.enabled,
            created_at: row.created_at,
            last_status: row.last_status,
            last_error: row.last_error,
            last_attempt_at: row.last_attempt_at,
            pending: row.pending,
            delivered: row.delivered,
            given_up: row.given_up,
            dropped: row.dropped,
        }
    }
}

/// All webhooks, the oldest first.
#[derive(Serialize, ToSchema)]
pub(in crate::http) struct WebhookList {
    /// The webhooks; there are at most 32.
    pub(in crate::http) items: Vec<Webhook>,
}

/// A webhook that was made.
#[derive(Serialize, ToSchema)]
pub(in crate::http) struct MadeWebhook {
    /// The webhook.
    webhook: Webhook,
    /// The key of its signatures. It is said this once.
    secret: String,
}

impl From<WebhookRow> for MadeWebhook {
    fn from(row: WebhookRow) -> Self {
        Self {
            secret: row.secret.expose().to_owned(),
            webhook: row.into(),
        }
    }
}

/// The outcome of a test.
#[derive(Serialize, ToSchema)]
pub(in crate::http) struct WebhookTest {
    /// The `webhook-id` under which it was sent.
    id: DeliveryId,
    /// Whether the webhook took it.
    delivered: bool,
    /// The status of its answer; `null` when there was none.
    status: Option<u16>,
    /// Why it was not delivered.
    error: Option<String>,
    /// How long the answer took.
    duration_ms: u64,
}

impl From<Tested> for WebhookTest {
    fn from(tested: Tested) -> Self {
        Self {
            id: tested.id,
            delivered: tested.error.is_none(),
            status: tested.status,
            error: tested.error,
            duration_ms: u64::try_from(tested.took.as_millis()).unwrap_or(u64::MAX),
        }
    }
}
