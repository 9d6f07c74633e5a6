//! Owns what a CLI says that it offers and what runs in the background, as its journal has it. Nobody is asked for it, so
//! that it can be had of a session at rest too.

use serde_json::value::RawValue;

use crate::{
    claude::scan,
    domain::{Seq, SessionId},
    session::Offers,
};

use super::{Supervisor, SupervisorError};

/// A list that the CLI gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The slash commands.
    Commands,
    /// The kinds of sub-agents.
    Agents,
    /// The models.
    Models,
    /// The account; no list.
    Account,
    /// The background tasks that run.
    Tasks,
}

impl Offer {
    const fn member(self) -> &'static str {
        match self {
            Self::Commands => "commands",
            Self::Agents => "agents",
            Self::Models => "models",
            Self::Account => "account",
            Self::Tasks => "tasks",
        }
    }

    const fn record(self, offers: Offers) -> Option<Seq> {
        match self {
            Self::Commands => offers.commands,
            Self::Agents => offers.agents,
            Self::Models => offers.models,
            Self::Account => offers.account,
            Self::Tasks => offers.tasks,
        }
    }
}

/// A record of the CLI about itself.
#[derive(Clone, Debug)]
pub struct Offered {
    /// The record that says it.
    pub seq: Seq,
    /// Its words, byte for byte; `None` when it does not know such a thing.
    pub value: Option<Box<RawValue>>,
}

impl Supervisor {
    /// The words of the last run's CLI about itself. There are none about background tasks as long as there were no
    /// tasks.
    ///
    /// # Errors
    /// `SessionNotFound`; `NotInitialized` when it has not said anything yet; `Read` when the record is gone.
    pub async fn offered(&self, id: SessionId, offer: Offer) -> Result<Option<Offered>, SupervisorError> {
        let session = self.handle(id).await?;
        let Some(seq) = offer.record(session.view().offers) else {
            return match offer {
                Offer::Tasks => Ok(None),
                _ => Err(SupervisorError::NotInitialized),
            };
        };
        let before = Seq::new(seq.get().saturating_sub(1));
        let chunk = self.page(id, before, 1).await?;
        let record = chunk.as_ref().and_then(|chunk| chunk.records().next());
        let line = record.and_then(|record| scan(record.data));
        let value = line.and_then(|line| line.said(offer.member()));
        let value = value.and_then(|value| RawValue::from_string(value.to_owned()).ok());
        Ok(Some(Offered { seq, value }))
    }
}
