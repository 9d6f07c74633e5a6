//! Owns what a daemon answers while its database is made again: that it lives, and how far it is. Nothing else is there yet.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
    routing::get,
    serve::Listener,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{
    ApiError, ErrorCode, HttpConfig,
    guard::{HostPolicy, bearer},
    routes::healthz,
};
use crate::{auth::Tokens, supervisor::RebuildProgress};

/// When a client may ask again.
const ASK_AGAIN_MS: u64 = 1_000;
/// The time of a request that is under way when the database is there.
const DRAIN: Duration = Duration::from_secs(1);

/// The parts of which answers are made.
#[derive(Debug)]
pub struct Rebuilding {
    hosts: HostPolicy,
    tokens: Tokens,
    progress: RebuildProgress,
}

impl Rebuilding {
    /// Tells of this progress those who have a token.
    pub fn new(config: &HttpConfig, tokens: Tokens, progress: RebuildProgress) -> Arc<Self> {
        Arc::new(Self {
            hosts: HostPolicy::new(&config.allowed_hosts, &config.allowed_origins),
            tokens,
            progress,
        })
    }

    fn answer(&self, request: &Request) -> Result<ApiError, ApiError> {
        self.hosts.check_host(request.uri(), request.headers())?;
        let error = ApiError::new(ErrorCode::Rebuilding).retry_after_ms(ASK_AGAIN_MS);
        let token = bearer(request.headers());
        if token.and_then(|token| self.tokens.role_of(token)).is_none() {
            // How many sessions there are is data.
            return Ok(error);
        }
        let (done, sessions) = self.progress.counts();
        Ok(error
            .detail(format!("{done} of {sessions} sessions are done"))
            .member("rebuild", json!({ "done": done, "sessions": sessions })))
    }
}

/// Answers on `listener` until `end`.
pub async fn serve_rebuilding<L>(listener: L, rebuilding: Arc<Rebuilding>, end: CancellationToken)
where
    L: Listener,
    L::Addr: std::fmt::Debug,
{
    let router = Router::new()
        .route("/healthz", get(healthz))
        .fallback(rebuilds)
        .with_state(rebuilding)
        .layer(axum::middleware::map_response(last_answer));
    let served = axum::serve(listener, router).with_graceful_shutdown(end.clone().cancelled_owned());
    let ended = async {
        end.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    // Both only wait: what is dropped is a connection that asks for nothing.
    tokio::select! {
        _ = served.into_future() => {}
        () = ended => {}
    }
}

async fn rebuilds(State(rebuilding): State<Arc<Rebuilding>>, request: Request) -> Response {
    rebuilding
        .answer(&request)
        .unwrap_or_else(|refused| refused)
        .into_response()
}

/// The next request of a client is for the daemon that is ready then, and so for a connection of its own.
async fn last_answer(mut response: Response) -> Response {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn clients_hear_how_far_it_is_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::load_or_create(dir.path()).unwrap();
        let token = std::fs::read_to_string(dir.path().join("token")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers = Rebuilding::new(&HttpConfig::default(), tokens, RebuildProgress::default());
        let end = CancellationToken::new();
        let client = reqwest::Client::new();
        let asked = async {
            let ask = async |path: &str, token: Option<&str>| {
                let request = client.get(format!("{url}{path}"));
                let request = token
                    .into_iter()
                    .fold(request, reqwest::RequestBuilder::bearer_auth);
                let answer = request.send().await.unwrap();
                let status = answer.status().as_u16();
                (status, answer.json::<Value>().await.unwrap())
            };
            let (status, ready) = ask("/readyz", Some(token.trim())).await;
            assert_eq!((status, &ready["code"]), (503, &json!("rebuilding")));
            assert_eq!(ready["rebuild"], json!({ "done": 0, "sessions": 0 }), "{ready:#}");
            assert_eq!(ready["retryable"], true);
            let (status, list) = ask("/v1/sessions", Some("wrong")).await;
            assert_eq!((status, &list["rebuild"]), (503, &Value::Null), "{list:#}");
            assert_eq!(ask("/healthz", None).await.0, 200);
            let foreign = client.get(format!("{url}/readyz")).header("host", "evil.example");
            assert_eq!(foreign.send().await.unwrap().status().as_u16(), 421);
            end.cancel();
        };
        tokio::join!(serve_rebuilding(listener, answers, end.clone()), asked);
    }
}
