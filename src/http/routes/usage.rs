//! Owns the routes of turns, runs, tokens and money.

use axum::{Json, extract::State};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde::Deserialize;

use crate::{
    domain::Timestamp,
    http::{
        ApiError, AppState, ErrorCode,
        dto::{ProcessList, RunPage, TurnPage, UsageBy, UsagePage},
        extract::{OfSession, Params, page},
    },
    store::UsageQuery,
};

/// Which part of a list to read.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageParams {
    /// Items per page, 1 to 500. Default: 50.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u64>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// List a session's finished turns.
///
/// Each with its cost, its tokens and the models that it used. First one first.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/turns", operation_id = "list_turns", tag = "usage",
    params(("id" = Uuid, Path, description = "The session"), PageParams),
    responses((status = 200, description = "A page of turns", body = TurnPage)),
)]
pub(super) async fn list_turns(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Params(params): Params<PageParams>,
) -> Result<Json<TurnPage>, ApiError> {
    let page = page(params.limit, params.cursor)?;
    state.supervisor().session(id).await?;
    state.supervisor().settled().await;
    let page = state.supervisor().store().turns(id, page).await?;
    Ok(Json(TurnPage {
        items: page.items.into_iter().map(Into::into).collect(),
        next_cursor: page.next,
    }))
}

/// List a session's CLI processes.
///
/// When each began, and how it ended. First one first.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/runs", operation_id = "list_runs", tag = "sessions",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 200, description = "The runs", body = RunPage)),
)]
pub(super) async fn list_runs(
    State(state): State<AppState>,
    OfSession(id): OfSession,
) -> Result<Json<RunPage>, ApiError> {
    state.supervisor().session(id).await?;
    state.supervisor().settled().await;
    let runs = state.supervisor().store().runs(id).await?;
    Ok(Json(RunPage {
        items: runs.into_iter().map(Into::into).collect(),
        next_cursor: None,
    }))
}

/// List a session's processes.
///
/// The keeper, the CLI and all that it started, with the memory of each. Reading that costs some milliseconds per process.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/processes", operation_id = "list_processes", tag = "sessions",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 200, description = "The processes", body = ProcessList)),
)]
pub(super) async fn list_processes(
    State(state): State<AppState>,
    OfSession(id): OfSession,
) -> Result<Json<ProcessList>, ApiError> {
    let (cli, found) = state.supervisor().processes(id).await?;
    Ok(Json(ProcessList::of(cli, found)))
}

/// What to sum.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UsageParams {
    /// What to sum by. Default: `day`.
    #[serde(default)]
    #[param(inline, required = false)]
    group_by: UsageBy,
    /// Only turns that ended at or after this instant (RFC 3339).
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<String>,
    /// Only turns that ended before this instant (RFC 3339).
    #[param(value_type = Option<String>, format = DateTime)]
    to: Option<String>,
    /// The IANA name of the time zone whose days are meant, such as `Europe/Berlin`. With `group_by=day` only. Default: UTC.
    tz: Option<String>,
    /// Sums per page, 1 to 500. Default: 50.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u64>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Sum costs and tokens.
///
/// Over the finished turns of all sessions that were not deleted. Simulated turns are counted apart.
#[utoipa::path(
    get, path = "/v1/usage", operation_id = "get_usage", tag = "usage",
    params(UsageParams), responses((status = 200, description = "A page of sums", body = UsagePage)),
)]
pub(super) async fn sum(
    State(state): State<AppState>,
    Params(params): Params<UsageParams>,
) -> Result<Json<UsagePage>, ApiError> {
    let page = page(params.limit, params.cursor)?;
    let zone = match &params.tz {
        Some(_) if !matches!(params.group_by, UsageBy::Day) => {
            return Err(ApiError::new(ErrorCode::InvalidQuery).detail("tz is of group_by=day only"));
        }
        Some(name) => Some(time_zone(name)?),
        None => None,
    };
    let query = UsageQuery {
        group_by: params.group_by.into(),
        from: instant("from", params.from.as_deref())?,
        to: instant("to", params.to.as_deref())?,
        zone,
    };
    state.supervisor().settled().await;
    let page = state.supervisor().store().usage(query, page).await?;
    Ok(Json(UsagePage {
        items: page.items.into_iter().map(Into::into).collect(),
        next_cursor: page.next,
    }))
}

/// The time zone of this name, from the database that the program holds: what it knows depends on no machine.
fn time_zone(name: &str) -> Result<TimeZone, ApiError> {
    TimeZoneDatabase::bundled().get(name).map_err(|_| {
        ApiError::new(ErrorCode::UnknownTimeZone)
            .detail(format!("tz: {name:.64} is no name of the IANA database"))
    })
}

fn instant(name: &str, text: Option<&str>) -> Result<Option<Timestamp>, ApiError> {
    text.map(str::parse).transpose().map_err(|_| {
        let detail = format!("{name}: expected an instant such as 2026-01-02T03:04:05Z");
        ApiError::new(ErrorCode::InvalidQuery).detail(detail)
    })
}
