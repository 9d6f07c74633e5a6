//! Owns the rules of sessions: they are stored first, then the session is told. And the dry run, which asks nobody.

use std::sync::Arc;

use crate::{
    domain::{
        Clock, Rule, RuleSet, RuleSpec, SessionId,
        rule::{Asked, InvalidRule, Rules, Verdict},
    },
    session::where_it_leads,
};

use super::{Supervisor, SupervisorError};

/// A question to try the rules with. A part that is left out is as in the session.
#[derive(Clone, Debug)]
pub struct RuleTest {
    /// The question.
    pub asked: Asked,
    /// The session whose rules are tried as well; only those of the configuration without it.
    pub session: Option<SessionId>,
}

impl Supervisor {
    /// The rules of the configuration.
    pub fn config_rules(&self) -> &RuleSet {
        &self.shared.settings.rules
    }

    /// The rules of a session, in their order.
    ///
    /// # Errors
    /// `SessionNotFound`, `Store`.
    pub async fn rules(&self, id: SessionId) -> Result<Vec<RuleSpec>, SupervisorError> {
        self.row(id).await?;
        Ok(self.shared.store.rules(id).await?)
    }

    /// Puts these in the place of all rules of a session. The rules look at pending approvals again.
    ///
    /// # Errors
    /// `SessionNotFound`, `InvalidRule`, `Store`.
    pub async fn set_rules(
        &self,
        id: SessionId,
        rules: Vec<RuleSpec>,
    ) -> Result<Vec<RuleSpec>, SupervisorError> {
        self.change_rules(id, move |known| {
            *known = rules;
            Ok(())
        })
        .await
    }

    /// Adds a rule to a session, at the end or at a place from 0 on. The rule is returned with its id.
    ///
    /// # Errors
    /// `SessionNotFound`, `InvalidRule`, `Store`.
    pub async fn add_rule(
        &self,
        id: SessionId,
        rule: RuleSpec,
        position: Option<usize>,
    ) -> Result<RuleSpec, SupervisorError> {
        let rule = self.off_worker(move || Rule::new(rule)).await??.spec().clone();
        let added = rule.clone();
        self.change_rules(id, move |known| {
            if known.iter().any(|other| other.id == rule.id) {
                return Err(SupervisorError::RuleExists(rule.id.clone().unwrap_or_default()));
            }
            let place = position.unwrap_or(known.len()).min(known.len());
            known.insert(place, rule);
            Ok(())
        })
        .await?;
        Ok(added)
    }

    /// Removes a rule of a session.
    ///
    /// # Errors
    /// `SessionNotFound`, `RuleNotFound`, `Store`.
    pub async fn remove_rule(&self, id: SessionId, rule: &str) -> Result<(), SupervisorError> {
        let rule = rule.to_owned();
        self.change_rules(id, move |known| {
            let before = known.len();
            known.retain(|other| other.id.as_deref() != Some(rule.as_str()));
            if known.len() == before {
                return Err(SupervisorError::RuleNotFound(rule));
            }
            Ok(())
        })
        .await?;
        Ok(())
    }

    /// Tells which rule would decide. Nothing is decided.
    ///
    /// # Errors
    /// `SessionNotFound`, `Store`.
    pub async fn test_rules(&self, test: RuleTest) -> Result<Verdict, SupervisorError> {
        let RuleTest { mut asked, session } = test;
        let mut rules = Rules {
            session: Arc::default(),
            config: Arc::clone(&self.shared.settings.rules),
        };
        if let Some(id) = session {
            let view = self.session(id).await?;
            asked.cwd.get_or_insert_with(|| view.row.cwd.into());
            asked.mode = asked
                .mode
                .or(view.live.permission_mode)
                .or(view.row.permission_mode);
            rules = self.rules_of(id).await?;
        }
        self.off_worker(move || rules.decide(&asked, Clock.now(), &where_it_leads))
            .await
    }

    /// The rules by which a session decides.
    pub(super) async fn rules_of(&self, id: SessionId) -> Result<Rules, SupervisorError> {
        let stored = self.shared.store.rules(id).await?;
        let session = self.check_rules(stored).await.map_err(of_stored)?;
        Ok(Rules {
            session: Arc::new(session),
            config: Arc::clone(&self.shared.settings.rules),
        })
    }

    /// Checks a list of rules. To compile their patterns may take a while.
    ///
    /// # Errors
    /// `InvalidRule`, `ShuttingDown`.
    pub(super) async fn check_rules(&self, specs: Vec<RuleSpec>) -> Result<RuleSet, SupervisorError> {
        if specs.is_empty() {
            return Ok(RuleSet::default());
        }
        Ok(self.off_worker(move || RuleSet::new(specs)).await??)
    }

    async fn off_worker<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, SupervisorError> {
        match self.shared.tracker.spawn_blocking(work).await {
            Ok(done) => Ok(done),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime is shutting down.
            Err(_) => Err(SupervisorError::ShuttingDown),
        }
    }

    /// Changes the rules of a session to the end, also when the caller leaves: who reads them sees what holds.
    async fn change_rules(
        &self,
        id: SessionId,
        change: impl FnOnce(&mut Vec<RuleSpec>) -> Result<(), SupervisorError> + Send + 'static,
    ) -> Result<Vec<RuleSpec>, SupervisorError> {
        let supervisor = self.clone();
        self.run_uncancelled(async move {
            // One change after the other, so that the session hears of the last one last.
            let _one = supervisor.shared.rules_lock.lock().await;
            let mut rules = supervisor.rules(id).await?;
            change(&mut rules)?;
            let checked = supervisor.check_rules(rules).await?;
            // A rule without an id has one now.
            let rules = checked.specs();
            supervisor.shared.store.set_rules(id, rules.clone()).await?;
            // After the store: a session that is opened meanwhile may have read what was there before.
            let session = supervisor.handle(id).await?;
            session.set_rules(Arc::new(checked)).await?;
            Ok(rules)
        })
        .await
    }
}

/// A caller is not to blame for a fault in rules that were accepted earlier.
fn of_stored(error: SupervisorError) -> SupervisorError {
    match error {
        SupervisorError::InvalidRule(error) => SupervisorError::StoredRules(error),
        error => error,
    }
}

impl From<InvalidRule> for SupervisorError {
    fn from(error: InvalidRule) -> Self {
        Self::InvalidRule(error)
    }
}
