//! Owns what the state machine remembers of a control request of ours until the CLI answers it: those whose answers change
//! something here.

use crate::{
    claude::Envelope,
    domain::{CliSessionId, MAX_TITLE_BYTES, Seq},
    json,
    session::{Offers, choices::is_step},
};

/// A control request of ours.
#[derive(Clone, Debug)]
pub(super) enum OwnRequest {
    Initialize,
    SetModel(Option<String>),
    SetMaxThinkingTokens(Option<u32>),
    SetPermissionMode,
    ReloadPlugins,
    ListModels,
    RenameSession(String),
    /// It gives the process what was set.
    Restore,
}

impl OwnRequest {
    /// `conversation` is the one of this session. `None` when the answer changes nothing here.
    pub(super) fn read(line: &Envelope<'_>, conversation: Option<CliSessionId>) -> Option<Self> {
        let request = line.request?;
        if line.request_id.as_deref().is_some_and(is_step) {
            return Some(Self::Restore);
        }
        Some(match line.request_subtype()?.as_str() {
            "initialize" => Self::Initialize,
            "set_model" => Self::SetModel(json::member_text(request, "model")),
            "set_max_thinking_tokens" => {
                let tokens = json::member_count(request, "max_thinking_tokens");
                Self::SetMaxThinkingTokens(tokens.and_then(|tokens| u32::try_from(tokens).ok()))
            }
            "set_permission_mode" => Self::SetPermissionMode,
            "reload_plugins" => Self::ReloadPlugins,
            "list_models" => Self::ListModels,
            "rename_session" => {
                let other = json::member_text(request, "session_id").map(|id| id.parse().ok());
                if other.is_some_and(|other| other != conversation) {
                    return None;
                }
                let mut title = json::member_text(request, "title")?;
                title.truncate(title.floor_char_boundary(MAX_TITLE_BYTES));
                Self::RenameSession(title)
            }
            _ => return None,
        })
    }
}

impl Offers {
    /// Notes that the answer to a request of ours is in this record.
    pub(super) fn see(&mut self, asked: Option<&OwnRequest>, seq: Seq) {
        match asked {
            Some(OwnRequest::Initialize) => {
                [self.commands, self.agents, self.models, self.account] = [Some(seq); 4];
            }
            Some(OwnRequest::ReloadPlugins) => [self.commands, self.agents] = [Some(seq); 2],
            Some(OwnRequest::ListModels) => self.models = Some(seq),
            _ => {}
        }
    }
}
