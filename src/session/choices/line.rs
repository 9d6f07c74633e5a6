//! Owns which control requests set something, and what the journal gets of those that may hold secrets.

use serde_json::value::RawValue;

use crate::{
    claude::{control::Fields, stdin},
    domain::ConnectionId,
    json,
    session::desk::CLIENT_PREFIX,
};

/// Longest name of a kind of server that the journal gets.
const KIND_BYTES: usize = 32;

/// The part of a request that later processes are to get, as the CLI forgets it at its end. Only hooks of a client
/// that has a name, and can come back by it.
pub(in crate::session) fn choice_of(
    subtype: &str,
    request: &str,
    is_named_client: bool,
) -> Option<Box<RawValue>> {
    let choice = match subtype {
        "apply_flag_settings"
        | "mcp_set_servers"
        | "mcp_toggle"
        | "set_max_thinking_tokens"
        | "set_mcp_permission_mode_override"
        | "set_model" => request.to_owned(),
        "initialize" if is_named_client => {
            let hooks = json::member(request, "hooks").filter(|hooks| *hooks != "null")?;
            let mut fields = Fields::new();
            fields.set_raw("hooks", RawValue::from_string(hooks.to_owned()).ok()?);
            String::from_utf8(stdin::request_object(subtype, &fields)).ok()?
        }
        _ => return None,
    };
    RawValue::from_string(choice).ok()
}

/// Whether a record is by a client that gave itself its name; others have that of their connection.
pub(in crate::session) fn is_named_client(by: Option<&str>) -> bool {
    let name = by.and_then(|by| by.strip_prefix(CLIENT_PREFIX));
    name.is_some_and(|name| name.parse::<ConnectionId>().is_err())
}

/// The journal's line in the place of a request that may hold secrets; `None` for all others.
/// `owners` are the clients that serve servers, when the daemon sets these by itself.
pub(in crate::session) fn secret_line(
    id: &str,
    subtype: &str,
    request: &str,
    owners: &Fields,
) -> Option<Vec<u8>> {
    let mut shown = Fields::new();
    match subtype {
        "apply_flag_settings" => {
            let mut settings = Fields::new();
            let given = json::member(request, "settings").unwrap_or("{}");
            json::for_each_member(given, |name, _| settings.set(name, "redacted"));
            shown.set_raw("settings", settings.to_object()?);
        }
        "mcp_set_servers" => {
            let mut servers = Fields::new();
            let given = json::member(request, "servers").unwrap_or("{}");
            json::for_each_member(given, |name, config| {
                if let Some(server) = kind_of(config) {
                    servers.set_raw(name, server);
                }
            });
            shown.set_raw("servers", servers.to_object()?);
            if !owners.is_empty() {
                shown.set_raw("owners", owners.to_object()?);
            }
        }
        _ => return None,
    }
    shown.set("redacted", &true);
    Some(stdin::control_request(id, subtype, &shown))
}

/// The journal's part of a server: how it is reached.
fn kind_of(config: &str) -> Option<Box<RawValue>> {
    let mut shown = Fields::new();
    if let Some(kind) = json::member_text(config, "type").filter(|kind| kind.len() <= KIND_BYTES) {
        shown.set("type", &kind);
    }
    shown.to_object()
}
