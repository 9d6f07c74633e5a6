//! Owns which choices give way to launch options that come after them: the write that came last wins.

use crate::claude::{LaunchOptions, control::Fields, options::OptionsPatch};

use super::{
    Kept,
    kept::{EFFORT, PERMISSIONS, ULTRACODE, raw_members},
};

const DEFAULT_MODE: &str = "defaultMode";

/// The parts of the launch options that were said anew.
#[derive(Clone, Debug, Default)]
pub struct SaidAnew {
    model: bool,
    effort: bool,
    thinking: bool,
    mode: bool,
    /// The settings.
    settings: Vec<String>,
    /// The MCP servers.
    servers: Vec<String>,
}

impl SaidAnew {
    /// A host goes on with these options, which say nothing of what they leave out.
    pub fn of_host(options: &LaunchOptions) -> Self {
        Self {
            model: options.model.is_some(),
            effort: options.effort.is_some(),
            thinking: options.thinking.is_some() || options.max_thinking_tokens.is_some(),
            mode: options.permission_mode.is_some(),
            ..Self::default()
        }
    }

    /// Somebody changed options: one that is taken away was said anew, too.
    pub fn of_patch(patch: &OptionsPatch) -> Self {
        // A text is the path of a file.
        let members = |option| {
            let members = raw_members(patch.value(option).map(serde_json::value::RawValue::get));
            members.into_iter().map(|(name, _)| name).collect()
        };
        Self {
            model: patch.names("model"),
            effort: patch.names("effort"),
            thinking: patch.names_any(&["thinking", "max_thinking_tokens"]),
            mode: patch.names("permission_mode"),
            settings: members("settings"),
            servers: members("mcp_servers"),
        }
    }

    /// Whether the permission mode is among them.
    pub const fn has_mode(&self) -> bool {
        self.mode
    }
}

impl Kept {
    /// Forgets what was set about the parts of the launch options that were said anew.
    pub fn give_way(&mut self, said: &SaidAnew) {
        if said.model {
            self.settings.remove("model");
        }
        if said.effort {
            self.settings.remove(EFFORT);
            self.settings.remove(ULTRACODE);
        }
        if said.thinking {
            self.thinking = None;
        }
        if said.mode
            && let Some(permissions) = self.settings.remove(PERMISSIONS)
            && let Some(mut others) = Fields::of_object(permissions.get())
        {
            others.remove(DEFAULT_MODE);
            if !others.is_empty()
                && let Some(others) = others.to_object()
            {
                self.settings.insert(PERMISSIONS.to_owned(), others);
            }
        }
        for name in &said.settings {
            self.settings.remove(name);
        }
        if let Some(servers) = &mut self.servers {
            servers.retain(|name, _| !said.servers.contains(name));
            if servers.is_empty() && !said.servers.is_empty() {
                self.servers = None;
            }
        }
    }
}
