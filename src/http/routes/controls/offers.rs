//! Owns the routes that tell what the CLI offers, and what fills its context.

use axum::{Json, extract::State};
use serde::Deserialize;

use super::{ask, field};
use crate::{
    claude::control::Fields,
    http::{
        ApiError, AppState,
        dto::{
            Account, AgentList, CommandList, Detail, ModelList, RawAccount, RawList, RawReply, documented,
        },
        extract::{OfSession, Params},
    },
    supervisor::Offer,
};

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http::routes) struct DetailParams {
    /// How much is said; the CLI decides when it is absent.
    #[param(inline)]
    detail: Option<Detail>,
}

/// Show what fills the context.
///
/// The CLI counts the tokens of the prompt, tools, memory files and messages. The session must have a
/// process.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/context_usage", operation_id = "get_context_usage", tag = "controls",
    params(("id" = Uuid, Path, description = "The session"), DetailParams),
    responses((status = 200, description = "The CLI's answer", body = documented::ContextUsageReply)),
)]
pub(in crate::http::routes) async fn context_usage(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Params(params): Params<DetailParams>,
) -> Result<Json<RawReply>, ApiError> {
    let fields = match params.detail {
        Some(detail) => field("detail", &detail),
        None => Fields::new(),
    };
    ask(&state, id, "get_context_usage", &fields).await
}

/// List the slash commands and skills.
///
/// As the CLI of the last run told them; also of a session without a process.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/commands", operation_id = "list_commands", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 200, description = "The commands", body = CommandList)),
)]
pub(in crate::http::routes) async fn commands(
    State(state): State<AppState>,
    OfSession(id): OfSession,
) -> Result<Json<RawList>, ApiError> {
    Ok(Json(
        state.supervisor().offered(id, Offer::Commands).await?.into(),
    ))
}

/// List the models.
///
/// As the CLI of the last run told them; also of a session without a process.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/models", operation_id = "list_models", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 200, description = "The models", body = ModelList)),
)]
pub(in crate::http::routes) async fn models(
    State(state): State<AppState>,
    OfSession(id): OfSession,
) -> Result<Json<RawList>, ApiError> {
    Ok(Json(state.supervisor().offered(id, Offer::Models).await?.into()))
}

/// List the kinds of sub-agents.
///
/// As the CLI of the last run told them; also of a session without a process.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/agents", operation_id = "list_agents", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 200, description = "The agents", body = AgentList)),
)]
pub(in crate::http::routes) async fn agents(
    State(state): State<AppState>,
    OfSession(id): OfSession,
) -> Result<Json<RawList>, ApiError> {
    Ok(Json(state.supervisor().offered(id, Offer::Agents).await?.into()))
}

/// Show the account that the CLI uses.
///
/// As the CLI of the last run told it; also of a session without a process.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/account", operation_id = "get_account", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 200, description = "The account", body = Account)),
)]
pub(in crate::http::routes) async fn account(
    State(state): State<AppState>,
    OfSession(id): OfSession,
) -> Result<Json<RawAccount>, ApiError> {
    let offered = state.supervisor().offered(id, Offer::Account).await?;
    let (account, seq) = offered.map(|offered| (offered.value, offered.seq)).unzip();
    let account = account.flatten();
    Ok(Json(RawAccount { account, seq }))
}
