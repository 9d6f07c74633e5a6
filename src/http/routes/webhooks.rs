//! Owns the routes of webhooks for people's programs.

use axum::{Json, extract::State, http::StatusCode};

use crate::{
    http::{
        ApiError, AppState,
        dto::{MadeWebhook, Webhook, WebhookList, WebhookRequest, WebhookTest, WebhookUpdate},
        extract::{Body, OfWebhook},
    },
    supervisor::WebhooksError,
};

/// Where webhooks are listed and made.
pub(in crate::http) const PATH: &str = "/v1/webhooks";

impl From<WebhooksError> for ApiError {
    fn from(error: WebhooksError) -> Self {
        match error {
            WebhooksError::Store(error) => error.into(),
            WebhooksError::Configured { ref name } => Self::new(error.code()).member("name", name.clone()),
            error @ WebhooksError::NoRandomness(_) => Self::new(error.code()).caused_by(error),
            error => Self::new(error.code()),
        }
    }
}

/// List the webhooks.
///
/// Those of the configuration too, with what became of their deliveries. Secrets are not shown.
#[utoipa::path(
    get, path = "/v1/webhooks", operation_id = "list_webhooks", tag = "webhooks",
    responses((status = 200, description = "The webhooks", body = WebhookList)),
)]
pub(super) async fn list(State(state): State<AppState>) -> Result<Json<WebhookList>, ApiError> {
    let rows = state.webhooks().list().await?;
    let items = rows.into_iter().map(Webhook::from).collect();
    Ok(Json(WebhookList { items }))
}

/// Make a webhook.
///
/// A program that is told when a turn ended, an approval opened, a session failed or has spent its budget, or needs a person:
/// by a POST, signed as Standard Webhooks has it. Events are stored with the facts that they tell of, and sent until the
/// program answers with a status of success, up to 30 times within a day. The answer has the secret, this once.
/// Idempotency keys are ignored here, as no answer is kept.
#[utoipa::path(
    post, path = "/v1/webhooks", operation_id = "create_webhook", tag = "webhooks", request_body = WebhookRequest,
    responses((status = 201, description = "The webhook, and its secret", body = MadeWebhook)),
)]
pub(super) async fn create(
    State(state): State<AppState>,
    Body(request): Body<WebhookRequest>,
) -> Result<(StatusCode, Json<MadeWebhook>), ApiError> {
    let (spec, secret, enabled) = request.into_parts()?;
    let made = state.webhooks().create(spec, secret, enabled).await?;
    Ok((StatusCode::CREATED, Json(made.into())))
}

/// Show a webhook.
///
/// With the last answer, and how many events wait, were taken, given up and dropped.
#[utoipa::path(
    get, path = "/v1/webhooks/{webhook_id}", operation_id = "get_webhook", tag = "webhooks",
    params(("webhook_id" = Uuid, Path, description = "The webhook")),
    responses((status = 200, description = "The webhook", body = Webhook)),
)]
pub(super) async fn get(
    State(state): State<AppState>,
    OfWebhook(id): OfWebhook,
) -> Result<Json<Webhook>, ApiError> {
    Ok(Json(state.webhooks().get(id).await?.into()))
}

/// Change a webhook.
///
/// Events that were queued before are sent as they are, to the new address. Webhooks of the configuration are changed
/// there.
#[utoipa::path(
    patch, path = "/v1/webhooks/{webhook_id}", operation_id = "update_webhook", tag = "webhooks",
    params(("webhook_id" = Uuid, Path, description = "The webhook")), request_body = WebhookUpdate,
    responses((status = 200, description = "The webhook", body = Webhook)),
)]
pub(super) async fn update(
    State(state): State<AppState>,
    OfWebhook(id): OfWebhook,
    Body(request): Body<WebhookUpdate>,
) -> Result<Json<Webhook>, ApiError> {
    let webhooks = state.webhooks();
    let patch = request.into_patch(webhooks.get(id).await?.spec)?;
    Ok(Json(webhooks.change(id, patch).await?.into()))
}

/// Delete a webhook.
///
/// Events that wait for it are dropped. Webhooks of the configuration are deleted there.
#[utoipa::path(
    delete, path = "/v1/webhooks/{webhook_id}", operation_id = "delete_webhook", tag = "webhooks",
    params(("webhook_id" = Uuid, Path, description = "The webhook")),
    responses((status = 204, description = "The webhook is gone")),
)]
pub(super) async fn delete(
    State(state): State<AppState>,
    OfWebhook(id): OfWebhook,
) -> Result<StatusCode, ApiError> {
    state.webhooks().delete(id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Send a test event.
///
/// An event `test` without data is sent at once, and once, also to a webhook that is disabled. The answer says what came of it.
#[utoipa::path(
    post, path = "/v1/webhooks/{webhook_id}/test", operation_id = "test_webhook", tag = "webhooks",
    params(("webhook_id" = Uuid, Path, description = "The webhook")),
    responses((status = 200, description = "The outcome", body = WebhookTest)),
)]
pub(super) async fn test(
    State(state): State<AppState>,
    OfWebhook(id): OfWebhook,
) -> Result<Json<WebhookTest>, ApiError> {
    Ok(Json(state.webhooks().test(id).await?.into()))
}
