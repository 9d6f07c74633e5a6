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
    "CLAUDE_CODE_ENABLE_TASKS",
    "CLAUDE_CODE_SYNC_PLUGIN_INSTALL",
    "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS",
    "CLAUDE_STREAM_IDLE_TIMEOUT_MS",
    "CLAUDE_ENABLE_STREAM_WATCHDOG",
    "CLAUDE_ASYNC_AGENT_STALL_TIMEOUT_MS",
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
    // The service manager's variables for the daemon: a program that took them for its own would speak in the daemon's
    // name.
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
];

/// Names that pass although [`NEVER`] has them: they say that the host gives fresh credentials when it is asked, which
/// clients do.
const ASKS_FOR_CREDENTIALS: &str = "CLAUDE_CODE_SDK_HAS_*_REFRESH";

/// The name that a host gives itself, in the requests to the model API too. It passes although [`NEVER`] has it.
const CLIENT_APP: &str = "CLAUDE_AGENT_SDK_CLIENT_APP";

/// Variables by which a host tells the CLI what it is and what it can do. They pass from a host that stands for the CLI's
/// program, wherever it is.
pub const OF_HOST: &[&str] = &[
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_CODE_SDK_READS_SESSION_STATE",
    "CLAUDE_CODE_SDK_READS_STARTUP_MARKS",
    "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING",
    "CLAUDE_CODE_QUESTION_PREVIEW_FORMAT",
    "CLAUDE_CODE_QUESTION_EXTENDED",
    "CLAUDE_CODE_QUESTION_OPTIONAL_DESCRIPTIONS",
    "CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS",
    "CLAUDE_CODE_SDK_HAS_OAUTH_REFRESH",
    "CLAUDE_CODE_SDK_HAS_HOST_AUTH_REFRESH",
    "TRACEPARENT",
    "TRACESTATE",
    "BUN_ENABLE_CRASH_REPORTING",
];

/// The child's environment, sorted by name.
///
/// `daemon` is filtered by the patterns of `allow`. The client's variables (`session`) replace it, and those of the
/// protocol (`fixed`) replace both. Names of [`NEVER`] are dropped from the first two.
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
    let is_for_hosts = name == CLIENT_APP || matches(ASKS_FOR_CREDENTIALS, name);
    NEVER.iter().any(|pattern| matches(pattern, name)) && !is_for_hosts
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &[(&str, &str)]) -> Vec<(String, String)> {
        text.iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn names(environment: &[(String, String)]) -> Vec<&str> {
        environment.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The daemon was started inside a session of the CLI, with secrets of its own.
    #[test]
    fn what_the_cli_documents_passes_by_default() {
        for name in [
            "CLAUDE_STREAM_IDLE_TIMEOUT_MS",
            "CLAUDE_ENABLE_STREAM_WATCHDOG",
            "CLAUDE_ASYNC_AGENT_STALL_TIMEOUT_MS",
            "CLAUDE_CODE_ENABLE_TASKS",
            "CLAUDE_CODE_SYNC_PLUGIN_INSTALL",
            "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS",
        ] {
            let daemon = [(name.to_owned(), "1".to_owned())];
            let built = child(&default_allow(), daemon.clone(), &[], &BTreeMap::new());
            assert_eq!(built, daemon, "{name}");
        }
    }

    #[test]
    fn a_child_of_a_daemon_inside_a_session_starts_clean() {
        let daemon = pairs(&[
            ("PATH", "/bin"),
            ("HOME", "/home/user"),
            ("LC_ALL", "C.UTF-8"),
            ("XDG_RUNTIME_DIR", "/run/user/1"),
            ("ANTHROPIC_API_KEY", "k"),
            ("CLAUDE_CODE_USE_BEDROCK", "1"),
            ("CLAUDE_CODE_SKIP_BEDROCK_AUTH", "1"),
            ("AWS_PROFILE", "p"),
            ("https_proxy", "http://p"),
            ("CLAUDECODE", "1"),
            ("CLAUDE_CODE_SESSION_ID", "x"),
            ("CLAUDE_CODE_PARENT_SESSION", "x"),
            ("CLAUDE_CODE_ENTRYPOINT", "cli"),
            ("CLAUDE_CODE_SSE_PORT", "1"),
            ("NODE_OPTIONS", "--require x"),
            ("LD_PRELOAD", "x.so"),
            ("TRUNKLINE_TOKEN", "secret"),
            ("GITHUB_TOKEN", "secret"),
            ("DATABASE_URL", "secret"),
        ]);
        let fixed = pairs(&[("CLAUDE_CODE_ENTRYPOINT", "trunkline")]);
        let child = child(&default_allow(), daemon, &fixed, &BTreeMap::new());
        assert_eq!(
            names(&child),
            [
                "ANTHROPIC_API_KEY",
                "AWS_PROFILE",
                "CLAUDE_CODE_ENTRYPOINT",
                "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
                "CLAUDE_CODE_USE_BEDROCK",
                "HOME",
                "LC_ALL",
                "PATH",
                "XDG_RUNTIME_DIR",
                "https_proxy",
            ]
        );
        assert!(child.contains(&("CLAUDE_CODE_ENTRYPOINT".to_owned(), "trunkline".to_owned())));
    }

    #[test]
    fn no_list_and_no_client_brings_back_what_never_passes() {
        let secret = pairs(&[
            ("CLAUDECODE", "1"),
            ("TRUNKLINE_TOKEN", "s"),
            ("NODE_OPTIONS", "x"),
            ("NOTIFY_SOCKET", "/run/s"),
            ("WATCHDOG_USEC", "1"),
            ("WATCHDOG_PID", "1"),
            ("LISTEN_FDS", "1"),
            ("LISTEN_PID", "1"),
            ("LISTEN_FDNAMES", "x"),
            ("FREE", "1"),
        ]);
        let session: BTreeMap<_, _> = pairs(&[("LD_PRELOAD", "x"), ("CLAUDE_CODE_SESSION_ID", "y")])
            .into_iter()
            .collect();
        let child = child(&["*".to_owned()], secret, &[], &session);
        assert_eq!(names(&child), ["FREE"]);
    }

    #[test]
    fn a_client_may_name_itself_and_the_page_lists_what_it_may_not_set() {
        let asked: BTreeMap<_, _> = pairs(&[(CLIENT_APP, "editor/1.2")]).into_iter().collect();
        assert_eq!(child(&[], [], &[], &asked).len(), 1);
        let page = include_str!("../../docs/protocol/sessions.md");
        for name in NEVER {
            assert!(
                page.contains(&format!("`{name}`")),
                "{name} is not in docs/protocol/sessions.md"
            );
        }
    }

    #[test]
    fn a_client_may_say_that_it_gives_fresh_credentials() {
        let names = [
            "CLAUDE_CODE_SDK_HAS_OAUTH_REFRESH",
            "CLAUDE_CODE_SDK_HAS_SESSIONS_OAUTH_REFRESH",
            "CLAUDE_CODE_SDK_HAS_HOST_AUTH_REFRESH",
        ];
        let asked: BTreeMap<_, _> = names.map(|name| (name.to_owned(), "1".to_owned())).into();
        let passed = child(&default_allow(), asked.clone(), &[], &BTreeMap::new());
        assert!(passed.is_empty(), "the daemon's own say nothing: {passed:?}");
        assert_eq!(child(&[], [], &[], &asked).len(), names.len());
        assert!(is_never_passed("CLAUDE_CODE_SDK_READS_SESSION_STATE"));
    }

    #[test]
    fn a_client_replaces_the_daemons_value_and_the_protocol_replaces_both() {
        let session: BTreeMap<_, _> =
            pairs(&[("ANTHROPIC_API_KEY", "theirs"), ("P", "theirs"), ("NEW", "1")])
                .into_iter()
                .collect();
        let child = child(
            &["ANTHROPIC_*".to_owned()],
            pairs(&[
                ("ANTHROPIC_API_KEY", "ours"),
                ("ANTHROPIC_MODEL", "m"),
                ("OTHER", "1"),
            ]),
            &pairs(&[("P", "protocol")]),
            &session,
        );
        let wanted = pairs(&[
            ("ANTHROPIC_API_KEY", "theirs"),
            ("ANTHROPIC_MODEL", "m"),
            ("NEW", "1"),
            ("P", "protocol"),
        ]);
        assert_eq!(child, wanted);
    }

    #[test]
    fn what_the_system_would_refuse_is_left_out() {
        let odd = pairs(&[
            ("A=B", "1"),
            ("", "1"),
            ("1A", "1"),
            ("N", "a\0b"),
            ("GOOD_1", "a\nb"),
        ]);
        assert_eq!(
            names(&child(&["*".to_owned()], odd, &[], &BTreeMap::new())),
            ["GOOD_1"]
        );
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, fits) in [
            ("PATH", "PATH", true),
            ("PATH", "PATHEXT", false),
            ("PATH", "MYPATH", false),
            ("LC_*", "LC_ALL", true),
            ("LC_*", "LC_", true),
            ("LC_*", "LANG", false),
            ("A_*SESSION*", "A_SESSION", true),
            ("A_*SESSION*", "A_MY_SESSION_ID", true),
            ("A_*SESSION*", "A_SESS", false),
            ("A_*_Z", "A_b_Z", true),
            ("A_*_Z", "A_Z", false),
            ("*", "ANY", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
