//! Owns the lobby as clients see it: which sessions they ask for, and the frames that they get, on a stream or on a socket.

use serde::Deserialize;

use super::{ApiError, AppState, ErrorCode, dto::LobbyFrame, extract::label};
use crate::{
    domain::SessionState,
    supervisor::{EventId, LobbyFilter, LobbyNews, LobbyWatch},
};

/// Sessions in a snapshot when the client does not say.
const DEFAULT_LIMIT: usize = 500;
/// Most sessions in a snapshot.
const MAX_LIMIT: usize = 10_000;

/// Which sessions to watch: those that match every filter.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
#[derive(Debug)]
pub(super) struct WatchParams {
    /// Only sessions in this state.
    state: Option<SessionState>,
    /// Only sessions in this working directory. It may be named through a link.
    cwd: Option<String>,
    /// Only sessions with exactly this tag.
    tag: Option<String>,
    /// Only sessions with this label, as `key=value`.
    #[param(pattern = "=")]
    label: Option<String>,
    /// Only sessions that need a person, or only those that need nobody.
    needs_person: Option<bool>,
    /// Most sessions in a snapshot, 1 to 10000: those with the newest activity. Default: 500. Changes come of all that match.
    #[param(minimum = 1, maximum = 10_000)]
    limit: Option<usize>,
    /// The `event_id` that was seen last, for clients that cannot set the header `Last-Event-ID`, which wins.
    pub(super) last_event_id: Option<String>,
}

/// The lobby, for one client.
pub(super) struct LobbyView {
    watch: LobbyWatch,
    limit: usize,
}

impl LobbyView {
    /// Opens it.
    ///
    /// # Errors
    /// `InvalidQuery` for a limit or a label that cannot be; those of the store.
    pub(super) async fn open(state: &AppState, params: WatchParams) -> Result<Self, ApiError> {
        let limit = params.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            let detail = format!("limit is outside 1 to {MAX_LIMIT}");
            return Err(ApiError::new(ErrorCode::InvalidQuery).detail(detail));
        }
        // A place that cannot be read is one that is not known: all sessions come anew.
        let seen = params.last_event_id.and_then(|text| text.parse().ok());
        let cwd = match params.cwd {
            Some(cwd) => Some(state.supervisor().resolved_cwd(cwd).await),
            None => None,
        };
        let filter = LobbyFilter {
            state: params.state,
            cwd,
            tag: params.tag,
            label: params.label.as_deref().map(label).transpose()?,
            needs_person: params.needs_person,
        };
        let watch = state.lobby().watch(filter, seen).await?;
        Ok(Self { watch, limit })
    }

    /// The next frames, each with its id.
    ///
    /// CANCEL-SAFETY: nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> Vec<(EventId, LobbyFrame)> {
        match self.watch.next().await {
            LobbyNews::Snapshot(id, sessions) => {
                vec![(id, LobbyFrame::snapshot(id, &sessions, self.limit))]
            }
            LobbyNews::Events(events) => events
                .iter()
                .map(|(id, change)| (*id, LobbyFrame::change(*id, change)))
                .collect(),
        }
    }
}
