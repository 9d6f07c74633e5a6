//! Owns what was set, as the file holds it, and how one request changes it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    path::Path,
};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    claude::{
        LaunchOptions, answer,
        hooks::{self, HookMatcher},
        options::{Settings, Thinking, ThinkingDisplay},
    },
    domain::ClientId,
    journal::replace_beside,
    json,
    session::desk::{CLIENT_PREFIX, minted},
};

use super::{FILE, rules::SessionRules};

/// The newest form of the file.
const VERSION: u32 = 1;
/// Taking back the effort gives the CLI's own default and not that of the launch, so this must be said again.
pub(super) const EFFORT: &str = "effortLevel";
/// The setting of the highest effort.
pub(super) const ULTRACODE: &str = "ultracode";
pub(super) const PERMISSIONS: &str = "permissions";

/// Raw values by their names.
type Raw = BTreeMap<String, Box<RawValue>>;

/// The choices. A file of a newer form is not understood in part: an unknown field may be a `deny`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) thinking: Option<ThinkingChoice>,
    /// The settings that hold above those of the launch.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) settings: Raw,
    /// The MCP servers that were set last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) servers: Option<BTreeMap<String, Server>>,
    /// The MCP servers that were turned off.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) servers_off: BTreeSet<String>,
    /// The permission modes of single MCP servers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) server_modes: BTreeMap<String, String>,
    /// The permission rules and directories that came with decisions.
    #[serde(default, skip_serializing_if = "SessionRules::is_empty")]
    pub(super) rules: SessionRules,
    /// The record of the answer to the newest command `/effort`: those up to it count no second time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effort_through: Option<u64>,
    /// The hooks that named clients registered, as they sent them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    hooks: BTreeMap<String, Box<RawValue>>,
    /// The requests that the CLI has not answered, by their ids.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    asked: BTreeMap<String, Asked>,
}

/// An MCP server.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    pub(super) config: Box<RawValue>,
    /// The client that serves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client: Option<ClientId>,
}

/// A request, and who asked.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    by: String,
    request: Box<RawValue>,
}

/// Names alone: the values may hold secrets.
impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept")
            .field("settings", &self.settings.keys())
            .finish_non_exhaustive()
    }
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            version: VERSION,
            thinking: None,
            settings: Raw::new(),
            servers: None,
            servers_off: BTreeSet::new(),
            server_modes: BTreeMap::new(),
            rules: SessionRules::default(),
            effort_through: None,
            hooks: BTreeMap::new(),
            asked: BTreeMap::new(),
        }
    }
}

/// How much the model thinks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ThinkingChoice {
    /// Most tokens; `None` for the model's default.
    tokens: Option<u32>,
    display: DisplayChoice,
}

/// How thinking is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DisplayChoice {
    /// As at the launch.
    OfLaunch,
    /// As the CLI likes.
    Default,
    /// This way.
    Shown(String),
}

impl Kept {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let kept: Self = serde_json::from_slice(bytes).map_err(|error| {
            // The words of the error may repeat a value.
            format!(
                "line {}, column {} is not as it was written",
                error.line(),
                error.column()
            )
        })?;
        if kept.version == VERSION {
            Ok(kept)
        } else {
            Err(format!(
                "its version is {}, this program knows {VERSION}",
                kept.version
            ))
        }
    }

    /// Nothing is set, and the journal up to this record counts no second time.
    pub(super) fn since(seq: u64) -> Self {
        Self {
            rules: SessionRules::since(seq),
            effort_through: Some(seq).filter(|seq| *seq > 0),
            ..Self::default()
        }
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.thinking.is_none()
            && self.settings.is_empty()
            && self.servers.is_none()
            && self.servers_off.is_empty()
            && self.server_modes.is_empty()
            && self.rules.is_empty()
            && self.effort_through.is_none()
            && self.hooks.is_empty()
            && self.asked.is_empty()
    }

    /// Gives a new session what another one has set whose copy it is.
    ///
    /// # Errors
    /// The file in its folder cannot be written.
    pub fn copy_to(mut self, dir: &Path) -> io::Result<()> {
        self.forget_unanswered();
        self.rules = self.rules.of_copy();
        self.effort_through = None;
        // Clients of the one session are none of the other.
        self.hooks.clear();
        if self.is_empty() {
            return Ok(());
        }
        replace_beside(dir, FILE, &self.to_json())
    }

    pub(super) fn ask(&mut self, id: &str, request: Box<RawValue>, by: &str) {
        let by = by.to_owned();
        self.asked.insert(id.to_owned(), Asked { by, request });
    }

    pub(super) fn answered(&mut self, id: &str, is_done: bool) {
        if let Some(Asked { by, request }) = self.asked.remove(id).filter(|_| is_done) {
            self.set(request.get(), &by);
        }
    }

    pub(super) fn forget_unanswered(&mut self) {
        self.asked.clear();
    }

    /// The CLI answered the command `/effort`, which does the same as these settings.
    pub(super) fn effort_answered(&mut self, seq: u64, settings: Vec<(&str, String)>) {
        if settings.is_empty() || Some(seq) <= self.effort_through {
            return;
        }
        self.effort_through = Some(seq);
        for (name, value) in settings {
            if let Ok(value) = RawValue::from_string(value) {
                self.settings.insert(name.to_owned(), value);
            }
        }
    }

    /// The hooks that named clients registered, as the CLI gets them.
    pub fn hooks(&self) -> Vec<HookMatcher> {
        let mut all = Vec::new();
        for (name, own) in &self.hooks {
            let (Ok(client), Some(mut own)) = (name.parse(), hooks::read(own.get())) else {
                continue;
            };
            for callback in own.iter_mut().flat_map(|matcher| &mut matcher.callback_ids) {
                *callback = minted(&client, callback);
            }
            all.append(&mut own);
        }
        all
    }

    /// The CLI did what a request asks for.
    pub(super) fn set(&mut self, request: &str, by: &str) {
        match json::member_text(request, "subtype").as_deref() {
            Some("apply_flag_settings") => {
                // As in the CLI: a setting is replaced as a whole, and `null` takes it back.
                for (name, value) in raw_members(json::member(request, "settings")) {
                    if value.get() == "null" && name != EFFORT {
                        self.settings.remove(&name);
                    } else {
                        self.settings.insert(name, value);
                    }
                }
            }
            Some("mcp_set_servers") => self.set_servers(json::member(request, "servers"), by),
            Some("mcp_toggle") => {
                if let Some(name) = json::member_text(request, "serverName") {
                    match json::member_bool(request, "enabled") {
                        Some(false) => drop(self.servers_off.insert(name)),
                        _ => drop(self.servers_off.remove(&name)),
                    }
                }
            }
            Some("set_mcp_permission_mode_override") => {
                if let Some(name) = json::member_text(request, "serverName") {
                    match json::member_text(request, "mode") {
                        Some(mode) => drop(self.server_modes.insert(name, mode)),
                        None => drop(self.server_modes.remove(&name)),
                    }
                }
            }
            Some("initialize") => {
                let own = json::member(request, "hooks").filter(|own| *own != "null");
                let (Some(client), Some(own)) = (by.strip_prefix(CLIENT_PREFIX), own) else {
                    return;
                };
                let is_none = hooks::read(own).is_none_or(|own| own.is_empty());
                match RawValue::from_string(own.to_owned()) {
                    Ok(own) if !is_none => drop(self.hooks.insert(client.to_owned(), own)),
                    _ => drop(self.hooks.remove(client)),
                }
            }
            // The newer one holds.
            Some("set_model") => drop(self.settings.remove("model")),
            Some("set_max_thinking_tokens") => {
                let tokens = json::member_count(request, "max_thinking_tokens");
                let display = match json::member(request, "thinking_display") {
                    None => self
                        .thinking
                        .take()
                        .map_or(DisplayChoice::OfLaunch, |old| old.display),
                    Some(raw) => json::string(raw)
                        .map_or(DisplayChoice::Default, |it| DisplayChoice::Shown(it.into_owned())),
                };
                self.thinking = Some(ThinkingChoice {
                    tokens: tokens.and_then(|tokens| u32::try_from(tokens).ok()),
                    display,
                });
            }
            _ => {}
        }
    }

    /// The servers are replaced as a whole. One that a client serves stays with it unless another client names it.
    fn set_servers(&mut self, given: Option<&str>, by: &str) {
        let asker: Option<ClientId> = by.strip_prefix(CLIENT_PREFIX).and_then(|name| name.parse().ok());
        let mut known = self.servers.take().unwrap_or_default();
        let mut servers = BTreeMap::new();
        for (name, config) in raw_members(given) {
            let client = is_in_process(&config).then(|| {
                let owner = known.remove(&name).and_then(|server| server.client);
                asker.clone().or(owner)
            });
            let client = client.flatten();
            servers.insert(name, Server { config, client });
        }
        self.servers = Some(servers);
    }

    /// The file of settings that must be read before [`Self::shape`], as rules that no flag can say join them.
    pub fn settings_to_read<'o>(&self, options: &'o LaunchOptions) -> Option<&'o str> {
        match &options.settings {
            Some(Settings::Path(path)) if self.rules.need_settings() => Some(path),
            Some(Settings::Path(_) | Settings::Inline(_)) | None => None,
        }
    }

    /// The directories that the settings add which were set.
    pub fn directories_of_settings(&self) -> Vec<String> {
        let permissions = self.settings.get(PERMISSIONS);
        permissions.map_or_else(Vec::new, |it| answer::directories_of_permissions(it.get()))
    }

    /// The name of what no process starts with: older versions kept any display of thinking.
    pub fn unlaunchable(&self) -> Option<&'static str> {
        let DisplayChoice::Shown(display) = &self.thinking.as_ref()?.display else {
            return None;
        };
        ThinkingDisplay::of_name(display)
            .is_none()
            .then_some("display of thinking")
    }

    /// Makes what goes by flags part of the launch options, save what no process starts with.
    pub fn shape(&self, options: &mut LaunchOptions) {
        self.rules.shape(options);
        if let Some(choice) = &self.thinking {
            let of_launch = match options.thinking.take() {
                Some(Thinking::Adaptive { display } | Thinking::Enabled { display, .. }) => {
                    display.map(|display| display.as_str().to_owned())
                }
                Some(Thinking::Disabled {}) | None => None,
            };
            options.max_thinking_tokens = choice.tokens;
            let display = match &choice.display {
                DisplayChoice::OfLaunch => of_launch,
                DisplayChoice::Default => None,
                DisplayChoice::Shown(display) => {
                    ThinkingDisplay::of_name(display).map(|display| display.as_str().to_owned())
                }
            };
            if let Some(display) = display.filter(|_| choice.tokens != Some(0)) {
                // A flag of its own, as it goes with any number of tokens.
                let extra = options.extra_args.get_or_insert_default();
                extra.insert("thinking-display".to_owned(), Some(display));
            }
        }
    }
}

/// Whether the CLI reaches a server through its host.
pub(super) fn is_in_process(config: &RawValue) -> bool {
    json::member_text(config.get(), "type").as_deref() == Some("sdk")
}

/// The members of a raw object; none when it is no object.
pub(super) fn raw_members(object: Option<&str>) -> Vec<(String, Box<RawValue>)> {
    let mut members = Vec::new();
    // Only an object has members.
    let _ = json::for_each_member(object.unwrap_or("{}"), |name, value| {
        if let Ok(value) = RawValue::from_string(value.to_owned()) {
            members.push((name.to_owned(), value));
        }
    });
    members
}
