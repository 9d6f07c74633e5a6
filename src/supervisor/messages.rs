//! Owns what is said to a session: prompts, control requests, decisions, and the waits for what comes of them.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::{
    claude::{
        ControlResponse, LaunchOptions,
        control::Fields,
        stdin::{self, UserMessage},
    },
    domain::{ApprovalId, PromptUuid, Seq, SessionId, TurnEnd, prompt_uuid_from_daemon},
    journal::Source,
    session::{Decision, SessionError, TurnOutcome},
    store::ApprovalRow,
};

use super::{Accepted, Content, NewMessage, SessionView, Supervisor, SupervisorError};

/// A prompt that was checked, as the CLI takes it.
#[derive(Clone)]
pub(super) struct CheckedPrompt {
    pub(super) uuid: PromptUuid,
    pub(super) line: Vec<u8>,
}

impl Supervisor {
    /// Sends a user message. Returns once it is in the journal.
    ///
    /// # Errors
    /// `SessionNotFound`, `EmptyPrompt`, `PromptTooLarge`, `PromptConflict`, `Session`.
    pub async fn send(
        &self,
        id: SessionId,
        message: NewMessage,
        by: &str,
    ) -> Result<Accepted, SupervisorError> {
        let row = self.row(id).await?;
        let options = read_options(&row.options)?;
        let prompt = self.check_prompt(&message, &options)?;
        let uuid = prompt.uuid;
        let session = self.handle(id).await?;
        match session.send(uuid, Bytes::from(prompt.line), by).await {
            Ok(sent) => Ok(Accepted {
                uuid,
                seq: sent.seq,
                repeated: sent.repeated,
            }),
            Err(SessionError::PromptConflict(uuid)) => Err(SupervisorError::PromptConflict { uuid }),
            Err(error) => Err(error.into()),
        }
    }

    /// Interrupts the turn. Interrupting what does not run is no error.
    ///
    /// # Errors
    /// `SessionNotFound`, `Session`.
    pub async fn interrupt(
        &self,
        id: SessionId,
        cancel_queued: bool,
        by: &str,
    ) -> Result<Option<ControlResponse>, SupervisorError> {
        let mut fields = Fields::new();
        if cancel_queued {
            fields.set("cancel_queued", &true);
        }
        match self.control(id, "interrupt", &fields, by).await {
            Ok(answer) => Ok(Some(answer)),
            Err(SupervisorError::Session(error)) if error.is_of_no_process() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a control request and waits for the CLI's answer, which may be a refusal.
    ///
    /// # Errors
    /// `SessionNotFound`, `Session`.
    pub async fn control(
        &self,
        id: SessionId,
        subtype: &str,
        fields: &Fields,
        by: &str,
    ) -> Result<ControlResponse, SupervisorError> {
        let request = stdin::request_object(subtype, fields);
        self.relay(id, subtype, Bytes::from(request), by).await
    }

    /// As [`Self::control`], with the whole `request` object, which reaches the CLI byte for byte.
    ///
    /// # Errors
    /// As [`Self::control`].
    pub async fn relay(
        &self,
        id: SessionId,
        subtype: &str,
        request: Bytes,
        by: &str,
    ) -> Result<ControlResponse, SupervisorError> {
        let session = self.handle(id).await?;
        Ok(session.control(subtype, request, by).await?)
    }

    /// Decides an approval. The first valid decision wins; the row that is returned says how it ended.
    ///
    /// # Errors
    /// `ApprovalNotFound`, `AlreadyDecided`, `Session` (`InvalidDecision`: it stays pending).
    pub async fn decide(
        &self,
        id: SessionId,
        approval: ApprovalId,
        decision: Decision,
        by: &str,
    ) -> Result<ApprovalRow, SupervisorError> {
        let session = self.handle(id).await?;
        let open = self.open_approval(id, approval);
        let outcome = session.decide(approval, decision, by).await;
        self.settled().await;
        let stored = self.shared.store.approval(approval).await;
        let stored = stored.map(|row| row.filter(|row| row.session == id));
        match outcome {
            // The record of the answer is what counts, whatever the store says of it.
            Ok(resolution) => match (stored, open) {
                (Ok(Some(row)), _) if row.resolution.is_some() => Ok(row),
                (Ok(Some(row)), _) | (_, Some(row)) => Ok(ApprovalRow {
                    resolution: Some(resolution),
                    ..row
                }),
                (Ok(None), None) => Err(SupervisorError::ApprovalNotFound(approval)),
                (Err(error), None) => Err(error.into()),
            },
            Err(error @ (SessionError::AlreadyDecided(_) | SessionError::ApprovalNotPending(_))) => {
                Err(match stored? {
                    Some(row) if row.resolution.is_some() => SupervisorError::AlreadyDecided(Box::new(row)),
                    None if matches!(error, SessionError::ApprovalNotPending(_)) => {
                        SupervisorError::ApprovalNotFound(approval)
                    }
                    // The store does not know yet how.
                    Some(_) | None => error.into(),
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until a session is ready, or came to rest instead.
    ///
    /// # Errors
    /// `SessionNotFound`, `WaitTimeout`; `StartFailed` when it failed.
    pub async fn wait_ready(
        &self,
        id: SessionId,
        deadline: Duration,
    ) -> Result<SessionView, SupervisorError> {
        let session = self.handle(id).await?;
        let view = tokio::time::timeout(deadline, session.wait_started())
            .await
            .map_err(|_| SupervisorError::WaitTimeout)??;
        // One that runs may have a reason too: it is ready all the same.
        match view.reason.clone().filter(|_| !view.state.is_live()) {
            Some(reason) => Err(SupervisorError::StartFailed(reason)),
            None => self.session(id).await,
        }
    }

    /// Waits for the turn that answers a prompt.
    ///
    /// # Errors
    /// `SessionNotFound`, `WaitTimeout`, `Session`.
    pub async fn wait_turn(
        &self,
        id: SessionId,
        prompt: PromptUuid,
        deadline: Duration,
    ) -> Result<Arc<TurnOutcome>, SupervisorError> {
        let session = self.handle(id).await?;
        let outcome = tokio::time::timeout(deadline, session.wait_turn(prompt)).await;
        let outcome = outcome.map_err(|_| SupervisorError::WaitTimeout)?;
        match outcome {
            // Its turn may have ended long ago, perhaps under an earlier daemon.
            Err(SessionError::PromptNotOpen(_)) => {
                self.settled().await;
                self.past_turn(id, prompt).await.map(Arc::new)
            }
            outcome => Ok(outcome?),
        }
    }

    /// The turn that answered a prompt which is not open any more.
    async fn past_turn(&self, id: SessionId, prompt: PromptUuid) -> Result<TurnOutcome, SupervisorError> {
        let Some(turn) = self.shared.store.turn_of_prompt(id, prompt).await? else {
            let known = self.shared.store.prompt(id, prompt).await?;
            return Err(match known {
                Some(known) if known.state.is_final() => SessionError::PromptDropped { state: known.state },
                _ => SessionError::PromptNotOpen(prompt),
            }
            .into());
        };
        self.with_result(id, turn).await
    }

    /// A finished turn with the CLI's result, which the journal keeps.
    ///
    /// # Errors
    /// `SessionNotFound`, `TurnNotFound`, `Store`, `Read`.
    pub async fn ended_turn(&self, id: SessionId, number: u64) -> Result<TurnOutcome, SupervisorError> {
        self.session(id).await?;
        self.settled().await;
        match self.shared.store.turn(id, number).await? {
            Some(turn) => self.with_result(id, turn).await,
            None => Err(SupervisorError::TurnNotFound(number)),
        }
    }

    async fn with_result(&self, id: SessionId, turn: TurnEnd) -> Result<TurnOutcome, SupervisorError> {
        let before = Seq::new(turn.last_seq.get().saturating_sub(1));
        // The result of a turn that is no longer kept went with it; what the tables say of the turn stays.
        let chunk = self.kept_page(id, before, 1).await?;
        let end = chunk.as_ref().and_then(|chunk| chunk.records().next());
        let result = end
            .filter(|record| record.seq == turn.last_seq && record.source == Source::Cli)
            .and_then(|record| RawValue::from_string(String::from_utf8_lossy(record.data).into_owned()).ok());
        Ok(TurnOutcome { turn, result })
    }

    /// Refuses a message that could not be sent to a session.
    pub(super) async fn check_message(
        &self,
        id: SessionId,
        message: &NewMessage,
    ) -> Result<(), SupervisorError> {
        let options = read_options(&self.row(id).await?.options)?;
        self.check_prompt(message, &options).map(drop)
    }

    pub(super) fn check_prompt(
        &self,
        message: &NewMessage,
        options: &LaunchOptions,
    ) -> Result<CheckedPrompt, SupervisorError> {
        let limit = self.shared.settings.max_prompt_bytes;
        let content = match &message.content {
            Content::Text(text) if text.trim().is_empty() => return Err(SupervisorError::EmptyPrompt),
            Content::Text(text) => stdin::Content::Text(text),
            Content::Blocks(blocks) => {
                let list: Vec<&RawValue> =
                    serde_json::from_str(blocks.get()).map_err(|_| SupervisorError::InvalidContent)?;
                if list.iter().any(|block| !block.get().starts_with('{')) {
                    return Err(SupervisorError::InvalidContent);
                }
                if stdin::is_blank(blocks.get()) {
                    return Err(SupervisorError::EmptyPrompt);
                }
                stdin::Content::Blocks(blocks)
            }
        };
        let bytes = match &message.content {
            Content::Text(text) => text.len(),
            Content::Blocks(blocks) => blocks.get().len(),
        };
        if bytes > limit {
            return Err(SupervisorError::PromptTooLarge { bytes, limit });
        }
        let uuid = message.uuid.unwrap_or_else(prompt_uuid_from_daemon);
        let line = stdin::user_message(&UserMessage {
            content,
            uuid,
            priority: message.priority,
            should_query: message.should_query,
            client_composed: message
                .about
                .client_composed
                .or(options.verbatim_prompts)
                .unwrap_or(false),
            more: &message.about.members(),
        });
        Ok(CheckedPrompt { uuid, line })
    }
}

/// Launch options as the store keeps them.
pub(super) fn read_options(text: &str) -> Result<LaunchOptions, SupervisorError> {
    serde_json::from_str(text).map_err(|_| SupervisorError::StoredOptions)
}
