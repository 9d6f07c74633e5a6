//! Owns the routes about the daemon itself: its configuration, and that it starts again.

use std::{collections::BTreeMap, path::PathBuf};

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::{
    domain::Timestamp,
    http::{
        ApiError, AppState, ErrorCode, RestartRequest,
        dto::{CollectJournals, Examination, JournalsCollected},
        extract::Body,
    },
};

/// How to start again.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DaemonRestart {
    /// Absolute path of the program that takes the daemon's place. Default: the path of the one that runs.
    program: Option<String>,
}

/// A restart that has begun.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct DaemonRestarting {
    /// The program that takes the daemon's place.
    program: String,
    /// Its version.
    version: String,
    /// When the daemon that now ends was started: the next one says another time in `/readyz`.
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
}

/// The configuration that the daemon runs with.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct DaemonConfiguration {
    /// The file that it read at its start; `null` when there was none.
    file: Option<String>,
    /// Each value by `section.key`.
    values: BTreeMap<String, ConfiguredValue>,
    /// Names of the variables that sessions get from the daemon's environment and configuration. Their values are not shown.
    variables: Vec<String>,
}

/// One value of the configuration.
#[derive(Serialize, utoipa::ToSchema)]
struct ConfiguredValue {
    /// The value. One that may be secret is not shown.
    value: Value,
    /// Its origin, for people: `default`, or the file, the variable or the flag that set it.
    origin: String,
}

/// Show the configuration in force.
///
/// It was read at the daemon's start; a file that was changed since holds from the next start on.
#[utoipa::path(
    get, path = "/v1/daemon/configuration", operation_id = "get_daemon_configuration", tag = "daemon",
    responses((status = 200, description = "The configuration", body = DaemonConfiguration)),
)]
pub(super) async fn configuration(State(state): State<AppState>) -> Json<DaemonConfiguration> {
    let in_force = state.in_force().cloned().unwrap_or_default();
    let values = in_force.values.into_iter();
    Json(DaemonConfiguration {
        file: in_force.file,
        values: values
            .map(|(key, value, origin)| (key, ConfiguredValue { value, origin }))
            .collect(),
        variables: in_force.variables,
    })
}

/// Examine the daemon.
///
/// As `trunkline doctor` does: the configuration, the agent CLI, the directories, the tokens, the sessions that cannot be read.
/// Each finding has a grade, and advice where something is to be done. Nothing is changed. A caller that comes while an
/// examination is under way gets its findings.
#[utoipa::path(
    get, path = "/v1/daemon/doctor", operation_id = "examine_daemon", tag = "daemon",
    responses((status = 200, description = "The findings", body = Examination)),
)]
pub(super) async fn examine(State(state): State<AppState>) -> Json<Examination> {
    Json(Examination {
        items: state.examine().await,
    })
}

/// Compact journals now.
///
/// As the daemon does by itself from time to time, by what `journal` in its configuration says: the pieces of whole messages are
/// taken out of closed files, and the oldest files are removed where that is asked for. A session that has a process is left as it
/// is. With `dry_run` nothing is changed.
#[utoipa::path(
    post, path = "/v1/daemon/gc", operation_id = "collect_journals", tag = "daemon",
    request_body = Option<CollectJournals>,
    responses((status = 200, description = "The outcome", body = JournalsCollected)),
)]
pub(super) async fn collect(
    State(state): State<AppState>,
    request: Option<Body<CollectJournals>>,
) -> Result<Json<JournalsCollected>, ApiError> {
    let request = request.map(|Body(request)| request).unwrap_or_default();
    let done = state.supervisor().collect_journals(request.dry_run).await?;
    Ok(Json(done.into()))
}

/// Start the daemon again.
///
/// The process becomes the program, with the same arguments, environment and sockets; sessions run on, and connections wait.
/// The program is asked first whether it would start, could read the database and talk to the keepers. If not, the
/// answer is `restart_refused`, and nothing has changed. Open sockets and streams are told to come back.
#[utoipa::path(
    post, path = "/v1/daemon/restart", operation_id = "restart_daemon", tag = "daemon",
    request_body = Option<DaemonRestart>,
    responses((status = 202, description = "It has begun", body = DaemonRestarting)),
)]
pub(super) async fn restart(
    State(state): State<AppState>,
    request: Option<Body<DaemonRestart>>,
) -> Result<(StatusCode, Json<DaemonRestarting>), ApiError> {
    let program = request
        .and_then(|Body(request)| request.program)
        .map(PathBuf::from);
    let started_at = state.supervisor().started_at();
    let (reply, answer) = oneshot::channel();
    let asked = state.ask_restart(RestartRequest { program, reply }).await;
    let answer = match asked {
        Ok(()) => answer.await,
        Err(()) => return Err(ErrorCode::ShuttingDown.into()),
    };
    match answer {
        Ok(Ok(successor)) => Ok((
            StatusCode::ACCEPTED,
            Json(DaemonRestarting {
                program: successor.program.display().to_string(),
                version: successor.version,
                started_at,
            }),
        )),
        Ok(Err(why)) => Err(ApiError::new(ErrorCode::RestartRefused).detail(why)),
        Err(_) => Err(ErrorCode::ShuttingDown.into()),
    }
}
