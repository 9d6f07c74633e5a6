//! Owns what environment a CLI process gets: it is built from an allow-list and never inherited.

use std::collections::BTreeMap;

/// Variables of the daemon's own environment that pass by default: what a program needs to run at all, and what the CLI
/// needs to log in. A trailing `*` stands for any ending.
pub const DEFAULT_ALLOW: &[&str] = &[
    // The user and the terminal.
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TERM",
    "COLORTERM",
    "TZ",
    "TMPDIR",
    "XDG_*",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_TTY",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "DBUS_SESSION_BUS_ADDRESS",
    "IS_SANDBOX",
    // The network.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    // The CLI's own settings and ways to log in.
    "ANTHROPIC_*",
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_CODE_USE_*",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_API_KEY_HELPER_TTL_MS",
    "CLAUDE_CODE_SKIP_*_AUTH",
    "CLAUDE_CODE_CLIENT_CERT",
    "CLAUDE_CODE_CLIENT_KEY",
    "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "CLAUDE_CODE_MAX_RETRIES",
    "CLAUDE_CODE_DISABLE_*",
    "CLAUDE_CODE_ENABLE_TELEMETRY",
    "DISABLE_*",
    "API_TIMEOUT_MS",
    "MCP_*",
    "BASH_*_TIMEOUT_MS",
    "AWS_*",
    "GOOGLE_*",
    "GCLOUD_PROJECT",
    "CLOUD_ML_REGION",
    "VERTEX_REGION_*",
    "AZURE_*",
];

/// Variables that never pass, whatever a list or a client says.
///
/// They would make the CLI think that it runs inside another session, change what the daemon relies on, load code into
/// the process, or give away the daemon's secrets.
pub const NEVER: &[&str] = &[
    "CLAUDECODE",
    "CLAUDE_CODE_*SESSION*",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_REMOTE*",
    "CLAUDE_CODE_SDK_*",
    "CLAUDE_AGENT_SDK_*",
    "CLAUDE_PID",
    "TRUNKLINE_*",
    "NODE_OPTIONS",
    "BUN_OPTIONS",
    "BUN_INSPECT*",
    "BUN_ENABLE_CRASH_REPORTING",
    "LD_*",
    "DYLD_*",
    "BASH_ENV",
];

/// The child's environment, sorted by name.
///
/// `daemon` is filtered by the patterns of `allow`. What the client asked for (`session`) replaces it, and what the
/// protocol needs (`fixed`) replaces both. Names of [`NEVER`] are dropped from the first two.
pub fn child(
    allow: &[String],
    daemon: impl IntoIterator<Item = (String, String)>,
    fixed: &[(String, String)],
    session: &BTreeMap<String, String>,
) -> Vec<(String, String)> {
    let mut built: BTreeMap<String, String> = daemon
        .into_iter()
        .filter(|(name, _)| allow.iter().any(|pattern| matches(pattern, name)))
        .chain(session.iter().map(|(name, value)| (name.clone(), value.clone())))
        .filter(|(name, value)| is_valid_name(name) && !is_never_passed(name) && !value.contains('\0'))
        .collect();
    built.extend(fixed.iter().cloned());
    built.into_iter().collect()
}

/// [`DEFAULT_ALLOW`] as a configuration holds it.
pub fn default_allow() -> Vec<String> {
    DEFAULT_ALLOW
        .iter()
        .map(|pattern| (*pattern).to_owned())
        .collect()
}

/// Whether a variable of this name never reaches a child.
pub fn is_never_passed(name: &str) -> bool {
    NEVER.iter().any(|pattern| matches(pattern, name))
}

/// Whether `name` is a portable name of a variable: letters, digits and underscores, the first no digit.
pub fn is_valid_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether `name` fits `pattern`, in which each `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(head) else {
        return false;
    };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return name.ends_with(part);
        }
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    true
}
