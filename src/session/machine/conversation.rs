//! Owns which conversation of the CLI a session has, the id to go back to when the CLI does not know its newest one, and
//! whether the model takes the conversation.
//!
//! Some versions of the CLI report another id at a resume than the one they were asked for, and keep the conversation under
//! either. So the old id is kept until the CLI has gone on with the new one.

use crate::{
    domain::{CliSessionId, Fact, FailReason, SessionId, Timestamp, fact::CliTotals},
    session::{
        Conversations,
        exit::{SaidError, Unfit},
        notes::{Told, ToldCode},
    },
};

use super::{Effect, Machine, Outcome, Run};

/// Turns in a row that the model API refused, after which that is the conversation's fault.
const REFUSED_TURNS: u32 = 2;

/// The conversation of a session.
#[derive(Clone, Debug)]
pub(super) struct Conversation {
    pub(super) id: Option<CliSessionId>,
    /// The id that the conversation had before the CLI reported another, until that one has proved itself.
    pub(super) earlier: Option<CliSessionId>,
    /// Turns in a row that the model API refused.
    refused_turns: u32,
    /// Those of all sessions.
    all: Conversations,
}

impl Conversation {
    pub(super) fn of(id: Option<CliSessionId>, session: SessionId, all: Conversations) -> Self {
        if let Some(id) = id {
            all.claim(id, session);
        }
        Self {
            id,
            earlier: None,
            refused_turns: 0,
            all,
        }
    }

    /// It is not what it was: the model may take it.
    pub(super) fn on_changed(&mut self) {
        self.refused_turns = 0;
    }
}

impl Machine {
    /// The id to go back to if the CLI does not know this one.
    pub(in crate::session) fn earlier_id_of(&self, id: CliSessionId) -> Option<CliSessionId> {
        let conversation = &self.conversation;
        conversation.earlier.filter(|_| conversation.id == Some(id))
    }

    /// The CLI's last known running totals of this conversation, if it is the session's.
    pub(in crate::session) fn totals_of(&self, id: CliSessionId) -> Option<&CliTotals> {
        (self.conversation.id == Some(id)).then(|| self.ledger.totals())
    }

    /// Whether the CLI is in a conversation of another session. Then nothing that it says concerns this one.
    pub(in crate::session) fn is_elsewhere(&self) -> bool {
        let unfit = self.run.as_ref().and_then(|run| run.unfit.as_ref());
        matches!(unfit, Some(Unfit::Conversation(_)))
    }

    /// Looks at the id that a turn of the CLI begins with. One of a conversation of another session ends the process.
    pub(super) fn check_id(&mut self, id: Option<CliSessionId>, out: &mut Outcome) {
        let is_new = |id: &CliSessionId| self.conversation.id != Some(*id) && !self.is_elsewhere();
        let Some(id) = id.filter(is_new) else {
            return;
        };
        let Some(owner) = self.conversation.all.other_owner(id, self.session) else {
            return;
        };
        let detail = format!("the CLI opened conversation {id}, which session {owner} has");
        let told = Told::taken(detail.clone(), self.conversation.id, id);
        out.effects.push(Effect::Notice(told));
        if let Some(run) = &mut self.run {
            run.unfit = Some(Unfit::Conversation(detail));
        }
    }

    /// The journal says that the CLI was in a conversation of another session, which may be gone since.
    pub(super) fn on_told(&mut self, told: Told, at: Timestamp, out: &mut Outcome) {
        out.effects.push(Effect::NoticeRead(told.clone()));
        if told.code != ToldCode::Taken || self.is_elsewhere() {
            return;
        }
        if let Some(own) = told.from {
            self.set_cli_session(own, at, out);
        }
        if let Some(run) = &mut self.run {
            run.unfit = Some(Unfit::Conversation(told.detail));
        }
    }

    /// The CLI says which conversation it is in.
    pub(super) fn on_reported_id(&mut self, id: CliSessionId, at: Timestamp, out: &mut Outcome) {
        let resumed = self.run.as_ref().and_then(|run| run.resumes);
        if resumed.is_some_and(|resumed| resumed != id && self.conversation.id == Some(resumed)) {
            self.conversation.earlier = resumed;
        }
        if let Some(from) = self.conversation.id.filter(|from| *from != id) {
            let told = Told::changed(from, id);
            out.effects.push(Effect::Notice(told));
        }
        self.set_cli_session(id, at, out);
    }

    /// The CLI began another conversation in the place of this one: that is no other name for it.
    pub(super) fn on_conversation_left(&mut self, at: Timestamp, out: &mut Outcome) {
        self.withdraw_deferred(|_| true, at, out);
        self.conversation.earlier = None;
        self.conversation.on_changed();
        if let Some(run) = &mut self.run {
            run.resumes = None;
        }
    }

    /// The CLI found the conversation that it was asked to go on with.
    pub(super) fn on_conversation_found(&mut self) {
        let resumed = self.run.as_ref().and_then(|run| run.resumes);
        if resumed.is_some() && self.conversation.id == resumed {
            self.conversation.earlier = None;
        }
    }

    pub(super) fn set_cli_session(&mut self, id: CliSessionId, at: Timestamp, out: &mut Outcome) {
        if self.conversation.id != Some(id) {
            self.conversation.id = Some(id);
            self.conversation.all.claim(id, self.session);
            out.facts.push(Fact::CliSession { id, at });
        }
    }

    /// The model said something.
    pub(super) fn on_output(&mut self) {
        self.conversation.on_changed();
        if let Some(run) = &mut self.run {
            run.has_worked = true;
        }
    }

    /// A turn began: what the last one said of its error is over.
    pub(super) fn forget_error(&mut self) {
        if let Some(run) = &mut self.run {
            run.said_error = None;
            run.is_interrupted = false;
        }
    }

    /// A turn ended, perhaps with an error.
    pub(super) fn on_said(&mut self, error: Option<SaidError>, out: &mut Outcome) {
        let refuses = error.as_ref().is_some_and(SaidError::refuses_conversation);
        if let Some(run) = &mut self.run {
            run.said_error = error;
        }
        if refuses {
            self.conversation.refused_turns = self.conversation.refused_turns.saturating_add(1);
            if self.conversation.refused_turns == REFUSED_TURNS
                && let Some(FailReason { detail, .. }) = self.unusable(self.run.as_ref())
            {
                out.effects.push(Effect::Notice(Told::unusable(detail)));
            }
        }
    }

    /// Whether the model API refuses the conversation again and again.
    pub(super) fn unusable(&self, run: Option<&Run>) -> Option<FailReason> {
        let refused = self.conversation.refused_turns;
        let words = run.and_then(|run| run.said_error.as_ref());
        let words = words
            .map(|error| format!(": {}", error.words))
            .unwrap_or_default();
        (refused >= REFUSED_TURNS).then(|| FailReason {
            code: FailReason::CONVERSATION_UNUSABLE.to_owned(),
            detail: format!("the model API refused {refused} turns of this conversation in a row{words}"),
        })
    }

    /// The same, while a process can be asked.
    pub(super) fn unusable_now(&self) -> Option<FailReason> {
        self.unusable(self.run.as_ref()).filter(|_| self.is_ready())
    }
}
