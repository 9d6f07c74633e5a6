//! Owns the logins of the daemon: in memory, where every request is compared with them, and in the store, so that they outlast
//! the daemon.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::{
    auth::{self, Entered, NewLogin, TokenError},
    domain::{Clock, LOGIN_LIFE_MS, Login, LoginId, Role, Timestamp},
    store::{Store, StoreError},
    telemetry,
};

/// The logins. Clones are handles on the same ones.
#[derive(Clone, Debug)]
pub(super) struct Logins {
    held: Arc<auth::Logins>,
    store: Store,
    tracker: TaskTracker,
}

/// Why there is no login.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum LoginError {
    /// It could not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operating system gives no random bytes.
    #[error(transparent)]
    Random(#[from] TokenError),
    /// The daemon ends.
    #[error("the daemon ends")]
    Ending,
}

impl Logins {
    /// None as yet: [`Self::load`] brings those of before.
    pub(super) fn new(store: Store, tracker: TaskTracker) -> Self {
        Self {
            held: Arc::default(),
            store,
            tracker,
        }
    }

    /// Takes up the logins that the store has.
    pub(super) async fn load(&self) -> Result<(), StoreError> {
        let life = i64::try_from(LOGIN_LIFE_MS * 1_000).unwrap_or(i64::MAX);
        let from = Timestamp::from_micros(Clock.now().as_micros().saturating_sub(life));
        for row in self.store.logins(from).await? {
            let made_room = self.held.add(row);
            self.forget(made_room).await?;
        }
        Ok(())
    }

    /// Lets a request in that shows both halves of a login.
    pub(super) fn enter(&self, cookies: &[&str], key: &str) -> Option<Entered> {
        let now = Clock.now();
        let entered = self.held.enter(cookies, key, now)?;
        if entered.renewed.is_some() {
            let (store, login) = (self.store.clone(), entered.login);
            drop(self.tracker.spawn(async move {
                if let Err(error) = store.login_used(login, now).await {
                    let error = telemetry::chain(&error);
                    tracing::warn!(error, login.id = %login, "the use of a login was not noted");
                }
            }));
        }
        Some(entered)
    }

    /// Makes a login. It is made whole, also for a client that goes away meanwhile.
    pub(super) async fn make(&self, role: Role, name: Option<String>) -> Result<NewLogin, LoginError> {
        let made = NewLogin::make(role, name, Clock.now())?;
        let (logins, row) = (self.clone(), made.row.clone());
        let stored = self.tracker.spawn(async move {
            logins.store.insert_login(row.clone()).await?;
            tracing::info!(login.id = %row.login.id, role = role.as_str(), "a login was made");
            let made_room = logins.held.add(row);
            logins.forget(made_room).await
        });
        stored.await.map_err(|_| LoginError::Ending)??;
        Ok(made)
    }

    /// The logins that hold, the oldest first.
    pub(super) fn list(&self) -> Vec<Login> {
        self.held.list(Clock.now())
    }

    /// Ends a login with all that it has opened, at once; `false` when there was none.
    ///
    /// # Errors
    /// The store still has it: it holds no longer, and would come back with the next daemon.
    pub(super) async fn end(&self, id: LoginId) -> Result<bool, StoreError> {
        let held = self.held.end(id);
        // One that could not be deleted before is deleted now.
        let stored = self.store.delete_login(id).await?;
        if held || stored {
            tracing::info!(login.id = %id, "a login was ended");
        }
        Ok(held || stored)
    }

    /// Those that made room have ended already.
    async fn forget(&self, made_room: Vec<LoginId>) -> Result<(), StoreError> {
        for id in made_room {
            self.store.delete_login(id).await?;
        }
        Ok(())
    }
}
