//! Owns webhooks for people's programs: they are made, changed and tested here, and what the store has queued for them is
//! delivered.
//!
//! The store writes an event together with the fact that it tells of, so none is lost with the daemon; it is deleted once the
//! receiver took it, so it may come twice, with one id.

mod attention;
mod sender;

use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{json, value::RawValue};
use tokio::{sync::watch, time::Instant};

use crate::{
    domain::{Clock, DeliveryId, ErrorCode, Secret, SigningKey, Timestamp, WebhookId, WebhookSpec},
    metrics::WebhookMetrics,
    outbound::{Delivery, Outbound, Webhook},
    store::{NewWebhook, Store, StoreError, WebhookPatch, WebhookRow},
    telemetry,
};

use super::{Lobby, Supervisor};

/// How long a receiver may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The event of a test.
const TEST: &str = "test";

/// Why a webhook is not as it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum WebhooksError {
    /// There is none with this id.
    #[error("there is no webhook {0}")]
    NotFound(WebhookId),
    /// The configuration has it.
    #[error("the webhook is {name} of the configuration")]
    Configured {
        /// Its name there.
        name: String,
    },
    /// There are as many as there may be.
    #[error("there are {} webhooks already", crate::domain::MAX_WEBHOOKS)]
    TooMany,
    /// The system has no random numbers for a secret.
    #[error("the system gives no random numbers")]
    NoRandomness(#[source] getrandom::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl WebhooksError {
    /// The code of this error.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::NotFound(_) => ErrorCode::WebhookNotFound,
            Self::Configured { .. } => ErrorCode::WebhookConfigured,
            Self::TooMany => ErrorCode::TooManyWebhooks,
            Self::NoRandomness(_) | Self::Store(_) => ErrorCode::Internal,
        }
    }
}

/// The outcome of a test.
#[derive(Clone, Debug)]
pub struct Tested {
    /// The id under which it was sent.
    pub id: DeliveryId,
    /// The status of the answer.
    pub status: Option<u16>,
    /// Why it was not delivered.
    pub error: Option<String>,
    /// How long the answer took.
    pub took: Duration,
}

/// The webhooks. Clones are handles on the same ones.
#[derive(Clone, Debug)]
pub struct Webhooks {
    store: Store,
    lobby: Lobby,
    outbound: Outbound,
    metrics: WebhookMetrics,
    /// Told when a webhook was made, changed or deleted.
    changed: watch::Sender<()>,
}

impl Webhooks {
    /// The webhooks of this supervisor's store. Nothing is delivered before [`Self::run`].
    pub fn new(supervisor: &Supervisor, lobby: Lobby) -> Self {
        Self {
            store: supervisor.store().clone(),
            metrics: supervisor.metrics().webhooks().clone(),
            lobby,
            outbound: Outbound::new(),
            changed: watch::Sender::new(()),
        }
    }

    /// Delivers what is queued, for ever.
    pub async fn run(self) {
        let attention = attention::run(self.store.clone(), self.lobby.clone(), self.changed.subscribe());
        tokio::join!(attention, sender::run(self.store, self.outbound, self.metrics));
    }

    /// All webhooks, the oldest first.
    ///
    /// # Errors
    /// `Store`.
    pub async fn list(&self) -> Result<Vec<WebhookRow>, WebhooksError> {
        Ok(self.store.webhooks().await?)
    }

    /// The webhook with this id.
    ///
    /// # Errors
    /// `NotFound`, `Store`.
    pub async fn get(&self, id: WebhookId) -> Result<WebhookRow, WebhooksError> {
        self.store.webhook(id).await?.ok_or(WebhooksError::NotFound(id))
    }

    /// Makes a webhook; without a secret it gets a new one.
    ///
    /// # Errors
    /// `TooMany`, `NoRandomness`, `Store`.
    pub async fn create(
        &self,
        spec: WebhookSpec,
        secret: Option<Secret>,
        enabled: bool,
    ) -> Result<WebhookRow, WebhooksError> {
        let secret = secret.map_or_else(new_secret, Ok)?;
        let webhook = NewWebhook {
            id: WebhookId::new(),
            name: None,
            spec,
            secret,
            enabled,
            created_at: Clock.now(),
        };
        let id = webhook.id;
        if !self.store.insert_webhook(webhook).await? {
            return Err(WebhooksError::TooMany);
        }
        self.changed.send_replace(());
        self.get(id).await
    }

    /// Changes a webhook. One that is disabled loses what waits for it.
    ///
    /// # Errors
    /// `NotFound`, `Configured`, `Store`.
    pub async fn change(&self, id: WebhookId, patch: WebhookPatch) -> Result<WebhookRow, WebhooksError> {
        refuse_configured(self.get(id).await?)?;
        if !self.store.change_webhook(id, patch).await? {
            return Err(WebhooksError::NotFound(id));
        }
        self.changed.send_replace(());
        self.get(id).await
    }

    /// Deletes a webhook with what waits for it.
    ///
    /// # Errors
    /// `NotFound`, `Configured`, `Store`.
    pub async fn delete(&self, id: WebhookId) -> Result<(), WebhooksError> {
        refuse_configured(self.get(id).await?)?;
        if !self.store.delete_webhook(id).await? {
            return Err(WebhooksError::NotFound(id));
        }
        self.changed.send_replace(());
        Ok(())
    }

    /// Sends a test event at once, and once, also to a webhook that is disabled.
    ///
    /// # Errors
    /// `NotFound`, `Store`.
    pub async fn test(&self, id: WebhookId) -> Result<Tested, WebhooksError> {
        let webhook = self.get(id).await?;
        let (delivery, body) = (DeliveryId::new(), test_body(Clock.now()));
        let began = Instant::now();
        let sent = self
            .outbound
            .notify(
                &target(&webhook.spec, &webhook.secret),
                Delivery {
                    id: *delivery.as_uuid(),
                    session: None,
                    event: TEST,
                    body: &body,
                },
                1,
                began + TIMEOUT,
            )
            .await;
        let (status, error) = match &sent {
            Ok(status) => (Some(status.as_u16()), None),
            Err(untold) => (untold.status(), Some(telemetry::chain(&untold.error))),
        };
        self.metrics
            .attempted(TEST, if error.is_none() { "delivered" } else { "failed" });
        Ok(Tested {
            id: delivery,
            status,
            error,
            took: began.elapsed(),
        })
    }
}

/// Makes the webhooks of the configuration those of the store.
///
/// # Errors
/// Those of the store.
pub async fn configure(
    store: &Store,
    webhooks: impl IntoIterator<Item = (String, WebhookSpec, Secret)> + Send,
) -> Result<(), StoreError> {
    let now = Clock.now();
    let webhooks = webhooks.into_iter().map(|(name, spec, secret)| NewWebhook {
        id: WebhookId::new(),
        name: Some(name),
        spec,
        secret,
        enabled: true,
        created_at: now,
    });
    store.configure_webhooks(webhooks.collect()).await
}

fn refuse_configured(webhook: WebhookRow) -> Result<(), WebhooksError> {
    webhook
        .name
        .map_or(Ok(()), |name| Err(WebhooksError::Configured { name }))
}

/// The receiver, for one attempt.
fn target(spec: &WebhookSpec, secret: &Secret) -> Webhook {
    Webhook {
        url: spec.url.clone(),
        key: Some(SigningKey::of_stored(secret.expose())),
        attempts: 1,
    }
}

fn new_secret() -> Result<Secret, WebhooksError> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(WebhooksError::NoRandomness)?;
    Ok(Secret::new(format!("whsec_{}", BASE64_STANDARD.encode(key))))
}

fn test_body(at: Timestamp) -> Box<RawValue> {
    let body = json!({"type": TEST, "timestamp": at, "data": {}});
    // Plain data always has a JSON form.
    serde_json::value::to_raw_value(&body).unwrap_or_default()
}
