//! Owns the way of a process that was started in advance to the one who asks for a session like it.

use std::path::Path;

use bytes::Bytes;

use crate::{
    claude::{LaunchOptions, Start},
    metrics::WarmEnd,
    session::Claim,
    store::NewSession,
    telemetry,
};

use super::{
    super::{SessionView, Supervisor, SupervisorError, messages::CheckedPrompt},
    pool::WarmProcess,
    refill::why_of_no_use,
    spare_row,
};

impl Supervisor {
    /// Makes a session of a process that was started in advance; `None` when none is ready that is what would be launched.
    pub(in super::super) async fn create_warm(
        &self,
        new: &NewSession,
        options: &LaunchOptions,
        prompt: Option<&CheckedPrompt>,
        by: &str,
    ) -> Result<Option<SessionView>, SupervisorError> {
        let (settings, pool) = (&self.shared.settings.warm, &self.shared.warm);
        if settings.profiles.is_empty() {
            return Ok(None);
        }
        self.refuse_when_closing()?;
        let executable = options.executable.as_deref();
        let cli = self
            .shared
            .cli
            .look(&self.shared.settings, None, executable)
            .await?;
        // The start of a process reports the fault.
        let Ok(key) = self.launch_key(&cli, Path::new(&new.cwd), options).await else {
            return Ok(None);
        };
        loop {
            // Before it is taken from the pool: the end of the daemon finds it there, or waits for what becomes of it.
            let under_way = self.begin_start()?;
            let Some(process) = pool.claim(&key, settings.max_age()) else {
                break;
            };
            let id = process.session.id();
            let new = NewSession {
                id,
                cli_session_id: process.cli_session,
                ..new.clone()
            };
            let (supervisor, prompt, by) = (self.clone(), prompt.cloned(), by.to_owned());
            let claimed = self
                .run_uncancelled(async move {
                    let claimed = supervisor.claim(process, new, prompt, &by).await;
                    drop(under_way);
                    claimed
                })
                .await?;
            if claimed {
                return self.session(id).await.map(Some);
            }
        }
        for profile in &settings.profiles {
            if self.key_of(&cli, profile).await.is_ok_and(|it| it == key) {
                self.shared.metrics.warm().missed(&profile.name);
                break;
            }
        }
        Ok(None)
    }

    /// `false` when the process was of no use; then nothing is left of it.
    async fn claim(
        &self,
        process: WarmProcess,
        new: NewSession,
        prompt: Option<CheckedPrompt>,
        by: &str,
    ) -> Result<bool, SupervisorError> {
        let (id, number) = (new.id, process.profile);
        let session = process.session.clone();
        let name = self
            .shared
            .settings
            .warm
            .profiles
            .get(number)
            .map(|profile| profile.name.clone())
            .unwrap_or_default();
        let taken = async {
            let start = Start::New {
                id: process.cli_session,
            };
            let restart = self.terms(&spare_row(&new), &start, None).await?;
            if !new.rules.is_empty() {
                let rules = self.check_rules(new.rules.clone()).await?;
                session.set_rules(rules.into()).await?;
            }
            let profile = name.clone();
            session.claim(Claim { profile, restart }).await?;
            Ok::<(), SupervisorError>(())
        };
        if let Err(error) = taken.await {
            let reason = why_of_no_use(&session.view(), &telemetry::chain(&error));
            self.profile_failed(number, reason);
            self.discard_soon(self.shared.warm.reject(process), WarmEnd::Died);
            return Ok(false);
        }
        if let Err(closing) = self.refuse_when_closing() {
            // It was asked for too late, and is nobody's.
            self.discard_soon(self.shared.warm.reject(process), WarmEnd::Shutdown);
            return Err(closing);
        }
        {
            // Once it can be listed it can be asked for, and two actors on one journal must never be.
            let _exclusive = self.shared.registry.exclusive(id).await;
            if let Err(error) = self.shared.store.insert_session(new).await {
                self.discard_soon(self.shared.warm.reject(process), WarmEnd::Died);
                return Err(error.into());
            }
            self.shared.registry.insert(session.clone());
            session.start_projecting().await?;
        }
        self.forget_warm(id).await;
        self.shared.metrics.warm().ended(&name, WarmEnd::Claimed);
        self.shared.warm.was_useful(number);
        drop(process);
        let Some(prompt) = prompt else {
            return Ok(true);
        };
        match session.send(prompt.uuid, Bytes::from(prompt.line), by).await {
            Ok(_) => Ok(true),
            // It died just now, and who asks knows nothing of it yet.
            Err(_) => {
                self.remove(id, by).await?;
                Ok(false)
            }
        }
    }
}
