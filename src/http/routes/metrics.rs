//! Owns the route of the scraper.

use axum::{
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};

use crate::{
    http::{ApiError, AppState, ErrorCode},
    metrics::{CONTENT_TYPE, Levels},
};

/// Show what the daemon counts.
///
/// For Prometheus. Counters count since the start of the daemon. No label holds an id, a path or a word of what is said.
#[utoipa::path(
    get, path = "/metrics", operation_id = "get_metrics", tag = "daemon",
    responses((
        status = 200, description = "The metrics, in the OpenMetrics text form", body = String,
        content_type = "application/openmetrics-text",
    )),
)]
pub(super) async fn metrics(State(state): State<AppState>) -> Result<Response, ApiError> {
    let supervisor = state.supervisor();
    let levels = Levels {
        clients: state.connections().total() as u64,
        logins: state
            .logins()
            .list()
            .into_iter()
            .map(|login| login.role)
            .collect(),
        ..supervisor.levels().await
    };
    // A store that cannot be read says so elsewhere.
    if let Ok(waiting) = supervisor.store().deliveries_waiting().await {
        supervisor.metrics().webhooks().set_waiting(waiting);
    }
    let dropped = supervisor.store().deliveries_dropped();
    supervisor.metrics().webhooks().set_dropped(dropped);
    let text = supervisor
        .metrics()
        .text(&levels)
        .map_err(|error| ApiError::new(ErrorCode::Internal).caused_by(error))?;
    let content_type = (header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    Ok(([content_type], text).into_response())
}
