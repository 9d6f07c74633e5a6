//! Owns the checks of hooks and of MCP servers outside of the CLI.

use super::{
    Checked, InvalidOption, LaunchOptions, MAX_ITEM_BYTES, entries, few, invalid, name, object, optional,
    short, single_line,
};
use crate::domain::{Seq, SigningKey, WebUrl, WebUrlError};
use crate::{
    claude::{
        answer::check_hook_output,
        hooks::{MAX_TIMEOUT_MS, MIN_TIMEOUT_MS},
        options::{Hook, HookTarget, McpTarget, SdkMcpServer},
    },
    json::{self, JsonObject},
};

/// Longest name of an event, in bytes. The CLI gains events, so unknown ones pass.
const MAX_EVENT_BYTES: usize = 128;
/// Longest secret or header, in bytes.
const MAX_SECRET_BYTES: usize = 8 * 1024;
/// Headers that the transport sets by itself, apart from those that begin with `mcp-`.
const OWN_HEADERS: [&str; 7] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "transfer-encoding",
];
/// Most tries of a webhook.
const MAX_ATTEMPTS: u8 = 10;

impl LaunchOptions {
    /// Checks the outputs of hooks that are the same each time, and the keys of webhooks. Sessions that have others from before go
    /// on with them.
    ///
    /// # Errors
    /// The CLI would drop a part of an output without a word, or a key is not in the form that its prefix promises.
    pub fn check_new_hooks(&self) -> Result<(), InvalidOption> {
        let check = |field: String, event: &str, output: Option<&JsonObject>| {
            optional(output, |output| {
                check_hook_output(event, output.get(), self.may_bypass())
                    .map_err(|error| invalid(field, error.to_string()))
            })
        };
        for (index, hook) in self.hooks.iter().flatten().enumerate() {
            let fallback = format!("hooks[{index}].fallback");
            check(fallback, &hook.event, hook.fallback.as_ref())?;
            match &hook.target {
                HookTarget::Fixed { output } => {
                    let field = format!("hooks[{index}].target.output");
                    check(field, &hook.event, Some(output))?;
                }
                HookTarget::Webhook {
                    secret: Some(secret), ..
                } => {
                    secret.parse::<SigningKey>().map_err(|error| {
                        invalid(format!("hooks[{index}].target.secret"), error.to_string())
                    })?;
                }
                HookTarget::Webhook { .. } | HookTarget::Client { .. } => {}
            }
        }
        Ok(())
    }

    pub(super) fn check_callbacks(&self) -> Checked {
        let hooks = self.hooks.as_deref().unwrap_or_default();
        few("hooks", hooks.len())?;
        for (index, hook) in hooks.iter().enumerate() {
            check_hook(&format!("hooks[{index}]"), hook)?;
        }
        for (server, config) in entries("sdk_mcp_servers", self.sdk_mcp_servers.as_ref())? {
            name("sdk_mcp_servers", server)?;
            let field = format!("sdk_mcp_servers.{server}");
            check_server(&field, config)?;
            if self
                .mcp_servers
                .as_ref()
                .is_some_and(|servers| servers.contains_key(server))
            {
                return Err(invalid(field, "is in mcp_servers too"));
            }
        }
        Ok(())
    }
}

fn check_hook(field: &str, hook: &Hook) -> Checked {
    let event = format!("{field}.event");
    if hook.event.trim().is_empty() {
        return Err(invalid(event, "must not be empty"));
    }
    single_line(&event, &hook.event, MAX_EVENT_BYTES)?;
    optional(hook.matcher.as_deref(), |matcher| {
        short(&format!("{field}.matcher"), matcher, MAX_ITEM_BYTES)
    })?;
    if hook
        .timeout_ms
        .is_some_and(|timeout| !(MIN_TIMEOUT_MS..=MAX_TIMEOUT_MS).contains(&timeout))
    {
        return Err(invalid(
            format!("{field}.timeout_ms"),
            format!("must be from {MIN_TIMEOUT_MS} to {MAX_TIMEOUT_MS}"),
        ));
    }
    object(&format!("{field}.fallback"), hook.fallback.as_ref())?;
    match &hook.target {
        HookTarget::Client { client_id: _ } => Ok(()),
        HookTarget::Webhook {
            url,
            secret,
            attempts,
        } => {
            check_url(&format!("{field}.target.url"), url)?;
            if attempts.is_some_and(|attempts| !(1..=MAX_ATTEMPTS).contains(&attempts)) {
                return Err(invalid(
                    format!("{field}.target.attempts"),
                    format!("must be from 1 to {MAX_ATTEMPTS}"),
                ));
            }
            optional(secret.as_deref(), |secret| {
                let field = format!("{field}.target.secret");
                if secret.is_empty() {
                    return Err(invalid(field, "must not be empty"));
                }
                short(&field, secret, MAX_SECRET_BYTES)
            })
        }
        HookTarget::Fixed { output } => object(&format!("{field}.target.output"), Some(output)),
    }
}

fn check_server(field: &str, config: &SdkMcpServer) -> Checked {
    if config
        .timeout_ms
        .is_some_and(|timeout| !(1..=Seq::MAX.get()).contains(&timeout))
    {
        let reason = format!("must be from 1 to {}", Seq::MAX);
        return Err(invalid(format!("{field}.timeout_ms"), reason));
    }
    let tools = config.tools.as_deref().unwrap_or_default();
    few(&format!("{field}.tools"), tools.len())?;
    for (index, tool) in tools.iter().enumerate() {
        object(&format!("{field}.tools[{index}]"), Some(tool))?;
    }
    if let Some(manifest) = &config.manifest {
        let field = format!("{field}.manifest");
        object(&field, Some(manifest))?;
        let result = manifest.member("initializeResult");
        if result.is_none_or(|result| !json::is_object(result)) {
            return Err(invalid(format!("{field}.initializeResult"), "must be an object"));
        }
    }
    match &config.target {
        McpTarget::Client { client_id: _ } => Ok(()),
        McpTarget::Url { url, headers } => {
            check_url(&format!("{field}.target.url"), url)?;
            let field = format!("{field}.target.headers");
            for (header, value) in entries(&field, headers.as_ref())? {
                check_header(&field, header, value)?;
            }
            Ok(())
        }
    }
}

fn check_header(field: &str, header: &str, value: &str) -> Checked {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if header.is_empty() || !header.bytes().all(is_token) {
        return Err(invalid(field, "a name must be a header's name"));
    }
    let name = header.to_ascii_lowercase();
    if OWN_HEADERS.contains(&name.as_str()) || name.starts_with("mcp-") {
        return Err(invalid(format!("{field}.{header}"), "is set by the daemon"));
    }
    let field = format!("{field}.{header}");
    let is_text = |byte: u8| byte == b'\t' || (b' '..=b'~').contains(&byte);
    if !value.bytes().all(is_text) {
        return Err(invalid(field, "must be printable ASCII"));
    }
    short(&field, value, MAX_SECRET_BYTES)
}

/// An address that can be asked.
fn check_url(field: &str, url: &str) -> Checked {
    // With what it is called by: an address that is taken here can be asked later.
    match url.parse::<WebUrl>() {
        Ok(_) => Ok(()),
        Err(error) => Err(invalid(
            field,
            match error {
                WebUrlError::NotAUrl => "must be an http:// or https:// URL",
                WebUrlError::TooLong => "must have at most 8 KiB",
                WebUrlError::Scheme => "must begin with http:// or https://",
                WebUrlError::NoHost => "must name a host",
                WebUrlError::Port => "must have a port from 0 to 65535",
                WebUrlError::UserInfo => "must not hold a user name or password",
            },
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::claude::{LaunchOptions, Policy};

    fn refused(options: &Value) -> String {
        let options: LaunchOptions = serde_json::from_str(&options.to_string()).unwrap();
        options.check(&Policy::default()).unwrap_err().field
    }

    fn hook(with: &Value) -> Value {
        let mut hook = json!({"event": "PreToolUse", "target": {"type": "client", "client_id": "x"}});
        for (name, value) in with.as_object().unwrap() {
            hook[name] = value.clone();
        }
        json!({ "hooks": [hook] })
    }

    #[test]
    fn hooks_and_servers_that_can_be_used_pass_and_are_read_back() {
        let options = json!({
            "hooks": [
                {"event": "PreToolUse", "matcher": "Bash", "timeout_ms": 1000, "on_failure": "block",
                 "target": {"type": "client", "client_id": "x"}, "fallback": {"continue": 1.0}},
                {"event": "FromTheFuture", "target": {"type": "webhook", "url": "https://h.example/x?y", "secret": "s", "attempts": 2}},
                {"event": "Stop", "target": {"type": "fixed", "output": {"a": 1.50}}},
            ],
            "sdk_mcp_servers": {
                "calc": {"target": {"type": "client", "client_id": "x"}, "manifest": {"initializeResult": {}}, "timeout_ms": 5, "tools": [{"name": "a"}]},
                "web": {"target": {"type": "url", "url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer s"}}},
            },
        });
        let text = options.to_string();
        let read: LaunchOptions = serde_json::from_str(&text).unwrap();
        read.check(&Policy::default()).unwrap();
        let again: Value = serde_json::from_str(&serde_json::to_string(&read).unwrap()).unwrap();
        assert_eq!(again, options);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let webhook = |target: Value| {
            let mut target = target;
            target["type"] = json!("webhook");
            json!({ "target": target })
        };
        for (with, field) in [
            (json!({"event": ""}), "hooks[0].event"),
            (json!({"event": "x".repeat(200)}), "hooks[0].event"),
            (json!({"timeout_ms": 999}), "hooks[0].timeout_ms"),
            (json!({"timeout_ms": 3_600_001}), "hooks[0].timeout_ms"),
            (webhook(json!({"url": "ftp://x"})), "hooks[0].target.url"),
            (webhook(json!({"url": "http://"})), "hooks[0].target.url"),
            (webhook(json!({"url": "http://a:b@c/"})), "hooks[0].target.url"),
            (webhook(json!({"url": "http://a b/"})), "hooks[0].target.url"),
            (webhook(json!({"url": "http://[::1"})), "hooks[0].target.url"),
            (webhook(json!({"url": "http://a:99999/"})), "hooks[0].target.url"),
            (webhook(json!({"url": "http://a:b/"})), "hooks[0].target.url"),
            (
                webhook(json!({"url": "http://a", "attempts": 0})),
                "hooks[0].target.attempts",
            ),
            (
                webhook(json!({"url": "http://a", "secret": ""})),
                "hooks[0].target.secret",
            ),
        ] {
            assert_eq!(refused(&hook(&with)), field, "{with}");
        }
        let server = |config: Value| json!({"sdk_mcp_servers": {"s": config}});
        let target = json!({"type": "client", "client_id": "x"});
        for (options, field) in [
            (
                server(json!({"target": target, "timeout_ms": 0})),
                "sdk_mcp_servers.s.timeout_ms",
            ),
            (
                server(json!({"target": target, "manifest": {}})),
                "sdk_mcp_servers.s.manifest.initializeResult",
            ),
            (
                server(json!({"target": {"type": "url", "url": "x"}})),
                "sdk_mcp_servers.s.target.url",
            ),
            (
                server(json!({"target": {"type": "url", "url": "http://x", "headers": {"a b": "c"}}})),
                "sdk_mcp_servers.s.target.headers",
            ),
            (
                server(json!({"target": {"type": "url", "url": "http://x", "headers": {"a": "b\nc"}}})),
                "sdk_mcp_servers.s.target.headers.a",
            ),
            (
                server(
                    json!({"target": {"type": "url", "url": "http://x", "headers": {"Mcp-Session-Id": "b"}}}),
                ),
                "sdk_mcp_servers.s.target.headers.Mcp-Session-Id",
            ),
            (
                json!({"sdk_mcp_servers": {"": {"target": target}}}),
                "sdk_mcp_servers",
            ),
            (
                json!({"sdk_mcp_servers": {"s": {"target": target}}, "mcp_servers": {"s": {"command": "x"}}}),
                "sdk_mcp_servers.s",
            ),
        ] {
            assert_eq!(refused(&options), field, "{options}");
        }
        for target in [
            json!({"type": "client"}),
            json!({"type": "client", "client_id": "a/b"}),
            json!({"type": "client", "client_id": "trunkline"}),
            json!({"type": "client", "client_id": "x", "url": "http://x"}),
            json!({"type": "fixed", "output": []}),
            json!({"type": "url", "url": "http://x"}),
            json!({"type": "brand_new"}),
        ] {
            let options = hook(&json!({ "target": target })).to_string();
            assert!(
                serde_json::from_str::<LaunchOptions>(&options).is_err(),
                "{options}"
            );
        }
    }
}
