//! Owns how long a credential opens anything: as long as the login that stands behind it.

use std::{future::pending, sync::Arc};

use tokio_util::sync::CancellationToken;

use crate::domain::{LoginId, Role, author_of_login};

/// A credential that was accepted.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The role of its holder.
    pub role: Role,
    /// How long all holds that it opens.
    pub tenure: Tenure,
}

/// How long something holds that a credential has opened. By default, and for a token, that is without an end.
#[derive(Clone, Debug, Default)]
pub struct Tenure(Option<OfLogin>);

/// A login that something was opened with.
#[derive(Clone, Debug)]
struct OfLogin {
    id: LoginId,
    name: Option<Arc<str>>,
    ended: CancellationToken,
}

impl Tenure {
    pub(super) fn of(id: LoginId, name: Option<&str>, ended: CancellationToken) -> Self {
        let name = name.map(Arc::from);
        Self(Some(OfLogin { id, name, ended }))
    }

    /// The name of that login.
    pub fn name(&self) -> Option<&str> {
        self.0.as_ref()?.name.as_deref()
    }

    /// The author of what is done with that login, as records name it.
    pub fn author(&self) -> Option<String> {
        let login = self.0.as_ref()?;
        Some(author_of_login(login.id, login.name.as_deref()))
    }

    /// The login that it ends with.
    pub fn login(&self) -> Option<LoginId> {
        self.0.as_ref().map(|login| login.id)
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.0.as_ref().is_some_and(|login| login.ended.is_cancelled())
    }

    /// Waits for its end.
    ///
    /// CANCEL-SAFETY: nothing is lost when the future is dropped.
    pub async fn over(&self) {
        match &self.0 {
            Some(login) => login.ended.cancelled().await,
            None => pending().await,
        }
    }
}
