//! Owns what every handler can reach.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Instant,
};

use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Console, Finding, HttpConfig, InForce, RestartRequest,
    connections::Connections,
    dto::{Readiness, read_queued},
    examination::{Examinations, Examiner},
    find::Searches,
    guard::HostPolicy,
    idempotency::Running,
    logins::Logins,
    routes::tickets,
    serve::Strangers,
    ws::Waiting,
};
use crate::{
    auth::{Secret, Shown, Tenure, TicketError, Tickets, Tokens},
    store::StoreError,
    supervisor::{Lobby, PromptQueue, Supervisor, Tethers, Webhooks},
};

/// The state of the HTTP side. Cloning is cheap. Only the composition root makes one.
#[derive(Clone)]
pub struct AppState(Arc<Parts>);

struct Parts {
    supervisor: Supervisor,
    lobby: Lobby,
    tethers: Tethers,
    webhooks: Webhooks,
    prompt_queue: PromptQueue,
    tokens: Tokens,
    tickets: Tickets,
    logins: Logins,
    config: HttpConfig,
    hosts: HostPolicy,
    connections: Connections,
    strangers: Strangers,
    first_lines: Waiting,
    running: Running,
    shutdown: CancellationToken,
    tracker: TaskTracker,
    restarts: OnceLock<mpsc::Sender<RestartRequest>>,
    in_force: OnceLock<InForce>,
    examinations: Examinations,
    searches: Searches,
    console: OnceLock<Console>,
}

impl AppState {
    /// Sockets and streams end when `shutdown` is cancelled; `tracker` knows when the last socket is closed.
    pub fn new(
        supervisor: Supervisor,
        tokens: Tokens,
        config: HttpConfig,
        shutdown: CancellationToken,
        tracker: TaskTracker,
    ) -> Self {
        let lobby = Lobby::new(supervisor.clone());
        Self(Arc::new(Parts {
            hosts: HostPolicy::new(&config.allowed_hosts, &config.allowed_origins),
            connections: Connections::new(config.max_connections, config.max_connections_per_session),
            strangers: Strangers::new(config.max_unauthenticated_connections),
            first_lines: Waiting::default(),
            running: Running::default(),
            tickets: Tickets::default(),
            logins: Logins::new(supervisor.store().clone(), tracker.clone()),
            tethers: Tethers::new(supervisor.clone(), shutdown.clone(), tracker.clone()),
            prompt_queue: PromptQueue::new(supervisor.clone(), read_queued),
            webhooks: Webhooks::new(&supervisor, lobby.clone()),
            lobby,
            supervisor,
            tokens,
            config,
            shutdown,
            tracker,
            restarts: OnceLock::new(),
            in_force: OnceLock::new(),
            examinations: Examinations::default(),
            searches: Searches::default(),
            console: OnceLock::new(),
        }))
    }

    /// Says who starts the daemon again.
    #[must_use]
    pub fn restarted_by(self, restarts: mpsc::Sender<RestartRequest>) -> Self {
        // The first one stays.
        let _ = self.0.restarts.set(restarts);
        self
    }

    /// Says what the daemon began with.
    #[must_use]
    pub fn begun_with(self, in_force: InForce) -> Self {
        // The first one stays.
        let _ = self.0.in_force.set(in_force);
        self
    }

    /// Says how the daemon is examined.
    #[must_use]
    pub fn examined_by(self, examiner: Examiner) -> Self {
        self.0.examinations.made_by(examiner);
        self
    }

    /// Says which console is served; without a word the one of this build.
    #[must_use]
    pub fn with_console(self, console: Console) -> Self {
        // The first one stays.
        let _ = self.0.console.set(console);
        self
    }

    pub(super) fn console(&self) -> &Console {
        self.0.console.get_or_init(Console::embedded)
    }

    /// The findings of an examination.
    pub(super) async fn examine(&self) -> Vec<Finding> {
        let ready = Readiness::from(self.supervisor().health().await);
        let ready = serde_json::to_value(ready).unwrap_or_default();
        self.0.examinations.findings(ready).await
    }

    pub(super) fn in_force(&self) -> Option<&InForce> {
        self.0.in_force.get()
    }

    /// Asks for a restart; an error when nobody takes the request any more.
    pub(super) async fn ask_restart(&self, request: RestartRequest) -> Result<(), ()> {
        let restarts = self.0.restarts.get().ok_or(())?;
        restarts.send(request).await.map_err(drop)
    }

    pub(super) fn supervisor(&self) -> &Supervisor {
        &self.0.supervisor
    }

    /// Goes on with the messages that waited when the last daemon ended.
    pub async fn go_on(&self) {
        self.0.prompt_queue.start().await;
    }

    pub(super) fn prompt_queue(&self) -> &PromptQueue {
        &self.0.prompt_queue
    }

    pub(super) fn lobby(&self) -> &Lobby {
        &self.0.lobby
    }

    pub(super) fn tethers(&self) -> &Tethers {
        &self.0.tethers
    }

    pub(super) fn webhooks(&self) -> &Webhooks {
        &self.0.webhooks
    }

    /// Delivers events to webhooks, for ever.
    pub fn deliver(&self) -> impl Future<Output = ()> + Send + use<> {
        self.0.webhooks.clone().run()
    }

    pub(super) fn tokens(&self) -> &Tokens {
        &self.0.tokens
    }

    pub(super) fn tickets(&self) -> &Tickets {
        &self.0.tickets
    }

    /// Takes up the logins of before.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn take_up_logins(&self) -> Result<(), StoreError> {
        self.0.logins.load().await
    }

    /// A ticket for a login of the person at the daemon's terminal, for a quarter of an hour.
    ///
    /// # Errors
    /// There can be none now.
    pub fn ticket_for_the_terminal(&self) -> Result<Secret, TicketError> {
        tickets::for_the_terminal(self)
    }

    pub(super) fn logins(&self) -> &Logins {
        &self.0.logins
    }

    /// How a ticket opens a path. The ticket is used up.
    pub(super) fn redeem(&self, ticket: &str, path: &str) -> Option<Shown> {
        self.0.tickets.redeem(ticket, path, Instant::now())
    }

    /// The access that a token, or a ticket for this path, gives. A ticket is used up.
    pub(super) fn opened_by(&self, credential: &str, path: &str) -> Option<Shown> {
        let tenure = Tenure::default();
        let of_token = self.0.tokens.role_of(credential);
        let of_token = of_token.map(|role| Shown { role, tenure });
        of_token.or_else(|| self.redeem(credential, path))
    }

    pub(super) fn config(&self) -> &HttpConfig {
        &self.0.config
    }

    pub(super) fn hosts(&self) -> &HostPolicy {
        &self.0.hosts
    }

    pub(super) fn connections(&self) -> &Connections {
        &self.0.connections
    }

    pub(super) fn strangers(&self) -> &Strangers {
        &self.0.strangers
    }

    pub(super) fn first_lines(&self) -> &Waiting {
        &self.0.first_lines
    }

    pub(super) fn searches(&self) -> &Searches {
        &self.0.searches
    }

    pub(super) fn running(&self) -> &Running {
        &self.0.running
    }

    pub(super) fn shutdown(&self) -> &CancellationToken {
        &self.0.shutdown
    }

    pub(super) fn tracker(&self) -> &TaskTracker {
        &self.0.tracker
    }
}

impl fmt::Debug for AppState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppState")
            .field("config", &self.0.config)
            .finish_non_exhaustive()
    }
}
