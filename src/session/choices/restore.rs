//! Owns how a process is given what was set: one request after the other, each after the answer to the one before it.

use serde_json::value::RawValue;

use crate::{
    claude::{
        answer,
        control::{Fields, replaced},
        stdin,
    },
    domain::{ClientId, PromptUuid, RunId},
};

use super::{Kept, line::secret_line};

/// The beginning of the id of such a request.
const PREFIX: &str = "trunkline-restore-";
const SETTINGS: &str = "settings";
const SERVERS: &str = "servers";
const SERVER_OFF: &str = "off/";
const SERVER_MODE: &str = "mode/";

/// A request that gives the process something back.
#[derive(Debug)]
pub(in crate::session) struct Step {
    /// The line for the CLI.
    pub(in crate::session) line: Vec<u8>,
    /// The journal's line in its place, if it may hold secrets.
    pub(in crate::session) record: Option<Vec<u8>>,
    /// The servers that are left out, as the clients that serve them are not here.
    pub(in crate::session) left_out: Vec<String>,
}

/// A choice that is to be given back is not there any more.
#[derive(Debug, thiserror::Error)]
#[error("the choice that is to be given back is not there any more")]
pub(in crate::session) struct RestoreFailure;

/// Which request is under way.
#[derive(Debug, Default)]
pub(in crate::session) struct Restoring {
    sent: Option<(RunId, String)>,
    /// The prompt of the last run that is on its way to this one.
    prompt: Option<(RunId, PromptUuid)>,
}

impl Restoring {
    /// Notes that a request is sent; `false` when it was sent before.
    pub(super) fn begin(&mut self, run: RunId, id: &str) -> bool {
        let is_new = self
            .sent
            .as_ref()
            .is_none_or(|(of, sent)| (*of, sent.as_str()) != (run, id));
        if is_new {
            self.sent = Some((run, id.to_owned()));
        }
        is_new
    }

    /// The request that is under way was not taken: it is sent again.
    pub(in crate::session) fn unsent(&mut self) {
        self.sent = None;
    }

    /// Notes that a run is given a prompt of the last one; `false` while that prompt is on its way.
    pub(in crate::session) fn begin_prompt(&mut self, run: RunId, prompt: PromptUuid) -> bool {
        self.prompt.replace((run, prompt)) != Some((run, prompt))
    }

    /// The prompt that is on its way was not taken: it is written again.
    pub(in crate::session) fn prompt_unsent(&mut self) {
        self.prompt = None;
    }
}

impl Kept {
    /// The ids of the requests that give the next process what flags cannot, in their order.
    pub fn steps(&self) -> Vec<String> {
        let mut steps = Vec::new();
        if !self.settings.is_empty() {
            steps.push(format!("{PREFIX}{SETTINGS}"));
        }
        if self.servers.is_some() {
            steps.push(format!("{PREFIX}{SERVERS}"));
        }
        let off = self.servers_off.iter();
        steps.extend(off.map(|name| format!("{PREFIX}{SERVER_OFF}{name}")));
        let modes = self.server_modes.keys();
        steps.extend(modes.map(|name| format!("{PREFIX}{SERVER_MODE}{name}")));
        steps
    }
}

/// The request with this id, without the directories that are `outside`. `is_here` says whether a client can serve.
pub(super) fn step(
    kept: &Kept,
    id: &str,
    outside: &[String],
    is_here: impl Fn(&ClientId) -> bool,
) -> Option<Step> {
    let what = id.strip_prefix(PREFIX)?;
    let mut left_out = Vec::new();
    let mut owners = Fields::new();
    let mut fields = Fields::new();
    let subtype = if what == SETTINGS {
        let mut settings = Fields::new();
        for (name, value) in &kept.settings {
            let mut value = value.clone();
            if name == "permissions" {
                value = without_directories(value.get(), outside).unwrap_or(value);
                value = kept.rules.merge(value.get()).unwrap_or(value);
            }
            settings.set_raw(name, value);
        }
        fields.set_raw("settings", settings.to_object()?);
        "apply_flag_settings"
    } else if what == SERVERS {
        let mut servers = Fields::new();
        for (name, server) in kept.servers.as_ref()? {
            match &server.client {
                Some(client) if !is_here(client) => left_out.push(name.clone()),
                client => {
                    servers.set_raw(name, server.config.clone());
                    if let Some(client) = client {
                        owners.set(name, &client.to_string());
                    }
                }
            }
        }
        fields.set_raw("servers", servers.to_object()?);
        "mcp_set_servers"
    } else if let Some(name) = what.strip_prefix(SERVER_OFF) {
        fields.set("serverName", name);
        fields.set("enabled", &false);
        "mcp_toggle"
    } else {
        let name = what.strip_prefix(SERVER_MODE)?;
        fields.set("serverName", name);
        fields.set("mode", kept.server_modes.get(name)?);
        "set_mcp_permission_mode_override"
    };
    let request = stdin::request_object(subtype, &fields);
    let record = std::str::from_utf8(&request)
        .ok()
        .and_then(|request| secret_line(id, subtype, request, &owners));
    Some(Step {
        line: stdin::control_request(id, subtype, &fields),
        record,
        left_out,
    })
}

/// The permissions without these directories; `None` when they list none of them.
fn without_directories(permissions: &str, outside: &[String]) -> Option<Box<RawValue>> {
    let all = answer::directories_of_permissions(permissions);
    let left: Vec<&String> = all
        .iter()
        .filter(|directory| !outside.contains(directory))
        .collect();
    if left.len() == all.len() {
        return None;
    }
    let left = serde_json::value::to_raw_value(&left).ok()?;
    replaced(permissions, "additionalDirectories", left)
}

/// Whether a request of ours gives the process something back.
pub(in crate::session) fn is_step(id: &str) -> bool {
    id.starts_with(PREFIX)
}

/// Whether a process may go on without this: the CLI does not know what it is about, so nothing is at stake.
pub(in crate::session) fn tolerates(id: &str, error: &str) -> bool {
    let is_off = id
        .strip_prefix(PREFIX)
        .is_some_and(|what| what.starts_with(SERVER_OFF));
    is_off && error.starts_with("Server not found")
}
