//! Owns the bed of these tests: a supervisor on a directory of its own, the router on top, and sessions whose journals
//! the tests write themselves.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Method, Request, StatusCode, header},
};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;
use trunkline::{
    auth::{TOKEN_FILE, Tokens, VIEWER_TOKEN_FILE, read_token},
    claude::Policy,
    domain::{
        CliSessionId, Clock, Liveness, RestartPolicy, SessionId, SessionState, SilenceAction, Timestamp,
    },
    http::{AppState, Console, HttpConfig, router},
    journal::{Source, Writer, WriterOptions},
    keeper::KeeperLimits,
    store::{NewSession, Store},
    supervisor::{DeskTimes, Limits, ParkSettings, Simulator, Supervisor, SupervisorSettings},
};

/// Longest wait for anything that must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Largest prompt in these tests, in bytes.
pub(crate) const MAX_PROMPT_BYTES: usize = 64 * 1024;

pub(crate) struct Bed {
    pub(crate) dir: TempDir,
    pub(crate) store: Store,
    pub(crate) supervisor: Supervisor,
    pub(crate) state: AppState,
    pub(crate) shutdown: CancellationToken,
    pub(crate) tracker: TaskTracker,
    pub(crate) token: String,
    pub(crate) viewer_token: String,
    router: Router,
}

/// An answer, with its body as JSON when it is JSON.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) json: Value,
}

impl Answer {
    pub(crate) fn header(&self, name: impl header::AsHeaderName) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The body of a good answer.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self.json
    }

    /// Checks everything that holds for every problem, and gives it.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, code: &str) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(
            self.header(header::CONTENT_TYPE),
            "application/problem+json",
            "{}",
            self.text
        );
        let problem = &self.json;
        assert_eq!(problem["code"], code, "{problem:#}");
        assert_eq!(problem["status"], status);
        assert_eq!(problem["type"], format!("urn:trunkline:problem:{code}"));
        assert_eq!(
            problem["instance"],
            format!("urn:uuid:{}", self.header("x-request-id"))
        );
        for member in ["title", "detail"] {
            assert!(
                problem[member].as_str().is_some_and(|text| !text.is_empty()),
                "{problem:#}"
            );
        }
        for member in ["retryable", "side_effect_possible"] {
            assert!(problem[member].is_boolean(), "{problem:#}");
        }
        self.json
    }
}

impl Bed {
    pub(crate) async fn start() -> Self {
        Self::with(|_, _| {}).await
    }

    pub(crate) async fn with(adjust: impl FnOnce(&mut HttpConfig, &mut SupervisorSettings)) -> Self {
        Self::made(adjust, Console::embedded()).await
    }

    /// One with this console, whatever the build has.
    pub(crate) async fn with_console(console: Console) -> Self {
        Self::made(|_, _| {}, console).await
    }

    async fn made(adjust: impl FnOnce(&mut HttpConfig, &mut SupervisorSettings), console: Console) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().canonicalize().unwrap();
        let mut config = HttpConfig {
            max_prompt_bytes: MAX_PROMPT_BYTES,
            close_timeout_ms: 500,
            ..HttpConfig::default()
        };
        let mut settings = SupervisorSettings {
            rules: std::sync::Arc::default(),
            runtime_dir: data_dir.join("run"),
            keeper_program: PathBuf::from("/nonexistent/keeper"),
            claude_bin: Some(PathBuf::from("/nonexistent/claude")),
            executables: BTreeMap::new(),
            simulator: Simulator::Never,
            env_allow: Vec::new(),
            env_fixed: BTreeMap::new(),
            daemon_env: Vec::new(),
            cwd_roots: Vec::new(),
            policy: Policy::default(),
            max_prompt_bytes: MAX_PROMPT_BYTES,
            start_timeout_ms: 5_000,
            desk: DeskTimes {
                offer_ms: 10_000,
                return_grace_ms: 15_000,
                host_grace_ms: 30_000,
            },
            restart: RestartPolicy {
                max_restarts: 0,
                window_ms: 0,
                first_delay_ms: 0,
                longest_delay_ms: 0,
                stable_ms: 0,
            },
            liveness: Liveness {
                after_ms: 0,
                action: SilenceAction::Report,
            },
            park: ParkSettings {
                idle_ms: 0,
                grace_ms: 0,
                make_room: false,
                memory_budget_bytes: 0,
                measure_ms: 1_000,
            },
            limits: Limits {
                live: 8,
                live_per_cwd: 0,
                starts: 4,
                waiting: 8,
            },
            warm: Default::default(),
            keeper: KeeperLimits::default(),
            journal: trunkline::supervisor::JournalSettings {
                compact_after_ms: 1,
                keep_ms: 0,
                keep_bytes: 0,
                look_every_ms: 3_600_000,
            },
            ring_bytes: 64 * 1024,
            data_dir,
        };
        adjust(&mut config, &mut settings);
        let (shutdown, tracker) = (CancellationToken::new(), TaskTracker::new());
        let store = Store::open(&settings.data_dir.join("trunkline.db"))
            .await
            .unwrap();
        let text =
            |name: &str, dir: &std::path::Path| read_token(&dir.join(name)).unwrap().expose().to_owned();
        let data_dir = settings.data_dir.clone();
        let supervisor = Supervisor::start(settings, store.clone(), tracker.clone())
            .await
            .unwrap();
        let tokens = Tokens::load_or_create(&data_dir).unwrap();
        let state = AppState::new(
            supervisor.clone(),
            tokens,
            config,
            shutdown.clone(),
            tracker.clone(),
        )
        .with_console(console);
        Self {
            dir,
            store,
            supervisor,
            router: router(state.clone()),
            state,
            shutdown,
            tracker,
            token: text(TOKEN_FILE, &data_dir),
            viewer_token: text(VIEWER_TOKEN_FILE, &data_dir),
        }
    }

    /// A request as a well-behaved local client makes it, to be spoiled by the test.
    pub(crate) fn request(&self, method: Method, path: &str) -> axum::http::request::Builder {
        self.request_with(&self.token, method, path)
    }

    /// As [`Bed::request`], with this token.
    pub(crate) fn request_with(
        &self,
        token: &str,
        method: Method,
        path: &str,
    ) -> axum::http::request::Builder {
        Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "127.0.0.1:7433")
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
    }

    /// The router, for requests that run at once.
    pub(crate) fn router(&self) -> Router {
        self.router.clone()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Answer {
            status: parts.status,
            headers: parts.headers,
            json: serde_json::from_str(&text).unwrap_or(Value::Null),
            text,
        }
    }

    /// A request without a body.
    pub(crate) async fn call(&self, method: Method, path: &str) -> Answer {
        self.send(self.request(method, path).body(Body::empty()).unwrap())
            .await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path).await
    }

    /// A request with a JSON body.
    pub(crate) async fn send_json(&self, method: Method, path: &str, body: impl Into<Body>) -> Answer {
        let request = self
            .request(method, path)
            .header(header::CONTENT_TYPE, "application/json");
        self.send(request.body(body.into()).unwrap()).await
    }

    /// A stopped session with these records in its journal.
    pub(crate) async fn session(&self, records: &[(Source, &str)]) -> SessionId {
        let id = SessionId::new();
        let dir = self.dir.path().join("sessions").join(id.to_string());
        let options = WriterOptions {
            segment_bytes: 64 * 1024 * 1024,
            ..WriterOptions::default()
        };
        let (mut writer, _) = Writer::open(&dir, options).unwrap();
        for (number, (source, data)) in records.iter().enumerate() {
            let at = Timestamp::from_micros(1_767_323_045_000_000 + i64::try_from(number).unwrap());
            let by = (*source == Source::Client).then_some("rest");
            writer.push(at, *source, by, data.as_bytes()).unwrap();
        }
        writer.commit().unwrap();
        drop(writer);
        let session = NewSession {
            rules: Vec::new(),
            restart: None,
            id,
            cwd: "/tmp".to_owned(),
            title: Some("bed".to_owned()),
            tag: None,
            labels: BTreeMap::new(),
            options: r#"{"model":"opus","env":{"API_KEY":"planted-secret"}}"#.to_owned(),
            parent: None,
            forked_from: None,
            forked_at: None,
            agent: None,
            cli_session_id: CliSessionId::new(),
            created_at: Clock.now(),
            state: SessionState::Stopped,
        };
        self.store.insert_session(session).await.unwrap();
        id
    }
}
