//! Owns the routes of turns, runs, tokens and money.

use axum::{Json, extract::State};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde::Deserialize;

use crate::{
    domain::Timestamp,
    http::{
        ApiError, AppState, ErrorCode, cursor,
        dto::{ProcessList, RateLimitList, RunPage, TurnPage, TurnResult, UsageBy, UsagePage},
        extract::{OfNamed, OfSession, Params, Whole, page},
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
    let page = page(params.limit, cursor::taken(id, params.cursor)?)?;
    state.supervisor().session(id).await?;
    state.supervisor().settled().await;
    let page = state.supervisor().store().turns(id, page).await?;
    Ok(Json(TurnPage {
        items: page.items.into_iter().map(Into::into).collect(),
        next_cursor: cursor::given(id, page.next),
    }))
}

/// Read a finished turn.
///
/// The turn and the CLI's result, byte for byte, as a client gets them that waits for the turn: the text, `structured_output`, `errors`,
/// `permission_denials`, `stop_reason`, `origin` and all else that the CLI said at its end.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/turns/{number}", operation_id = "get_turn", tag = "usage",
    params(("id" = Uuid, Path, description = "The session"),
        ("number" = u64, Path, description = "The number of the turn, from 1", minimum = 1, maximum = 9_007_199_254_740_991_i64)),
    responses((status = 200, description = "The turn", body = TurnResult)),
)]
pub(super) async fn get_turn(
    State(state): State<AppState>,
    OfNamed(id, number): OfNamed,
) -> Result<Json<TurnResult>, ApiError> {
    let number = number.parse::<u64>().ok().filter(|number| *number > 0);
    let number = number.and_then(|number| Whole::try_from(number).ok());
    let number = number
        .ok_or_else(|| ApiError::new(ErrorCode::InvalidId).detail("number: expected a number from 1 on"))?;
    let outcome = state.supervisor().ended_turn(id, number.get()).await?;
    Ok(Json((&outcome).into()))
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

/// The query of a sum.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UsageParams {
    /// The key to sum by. Default: `day`.
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

/// List the limits of the account.
///
/// The last words of CLIs about each limit, when, and in which session; nobody is asked. They speak of limits when they
/// use a subscription, and after an answer of the model. A session that is deleted takes along what its CLI said.
#[utoipa::path(
    get, path = "/v1/rate-limits", operation_id = "list_rate_limits", tag = "usage",
    responses((status = 200, description = "The limits", body = RateLimitList)),
)]
pub(super) async fn list_rate_limits(State(state): State<AppState>) -> Result<Json<RateLimitList>, ApiError> {
    state.supervisor().settled().await;
    let limits = state.supervisor().store().rate_limits().await?;
    Ok(Json(RateLimitList {
        items: limits.into_iter().map(Into::into).collect(),
        next_cursor: None,
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
