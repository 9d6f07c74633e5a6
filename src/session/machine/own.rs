//! Owns what the state machine remembers of a control request of ours until the CLI answers it.

use crate::{
    claude::{Envelope, glance},
    domain::Seq,
    session::Offers,
};

/// A control request of ours.
#[derive(Debug)]
pub(super) enum OwnRequest {
    Initialize,
    SetModel(Option<String>),
    SetMaxThinkingTokens(Option<u32>),
    SetPermissionMode,
    ReloadPlugins,
    ListModels,
    /// Its answer changes nothing here.
    Other,
}

impl OwnRequest {
    pub(super) fn read(line: &Envelope<'_>) -> Self {
        match glance::request_subtype(line).as_deref() {
            Some("initialize") => Self::Initialize,
            Some("set_model") => Self::SetModel(
                line.request
                    .and_then(|request| glance::member_text(request, "model")),
            ),
            Some("set_max_thinking_tokens") => Self::SetMaxThinkingTokens(
                line.request
                    .and_then(|request| glance::member_count(request, "max_thinking_tokens"))
                    .and_then(|tokens| u32::try_from(tokens).ok()),
            ),
            Some("set_permission_mode") => Self::SetPermissionMode,
            Some("reload_plugins") => Self::ReloadPlugins,
            Some("list_models") => Self::ListModels,
            _ => Self::Other,
        }
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
