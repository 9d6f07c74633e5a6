//! Owns the catalogue of what is known of the CLI's protocol: types of messages, and what each control request needs.
//!
//! It is no filter: a type that is not listed passes, a subtype that is not listed is sent with the defaults.

use super::options::{self, ThinkingDisplay};
use crate::json;

/// Every `type` of a line on the CLI's stdout that is known. `docs/PARITY.md` says what becomes of each.
pub const MESSAGES: &[&str] = &[
    "system",
    "assistant",
    "user",
    "result",
    "stream_event",
    "tool_progress",
    "tool_use_summary",
    "auth_status",
    "rate_limit_event",
    "prompt_suggestion",
    "conversation_reset",
    "active_goal",
    "control_request",
    "control_response",
    "control_cancel_request",
    "keep_alive",
    "command_lifecycle",
    "transcript_mirror",
    "autocompact_state",
    "attachment",
];

/// Every `subtype` of a `system` line that is known.
pub const SYSTEM_SUBTYPES: &[&str] = &[
    "init",
    "status",
    "session_state_changed",
    "thinking_tokens",
    "task_started",
    "task_progress",
    "task_updated",
    "task_notification",
    "background_tasks_changed",
    "api_retry",
    "commands_changed",
    "compact_boundary",
    "control_request_progress",
    "elicitation_complete",
    "files_persisted",
    "hook_started",
    "hook_progress",
    "hook_response",
    "informational",
    "local_command_output",
    "memory_recall",
    "mirror_error",
    "model_fallback",
    "model_refusal_fallback",
    "model_refusal_no_fallback",
    "notification",
    "permission_denied",
    "plugin_install",
    "post_turn_summary",
    "session_metadata",
    "session_title_changed",
    "session_writes_lost",
    "task_summary",
    "worker_shutting_down",
];

/// Every `subtype` of a `result` line that is known.
pub const RESULT_SUBTYPES: &[&str] = &[
    "success",
    "error_during_execution",
    "error_max_turns",
    "error_max_budget_usd",
    "error_max_structured_output_retries",
];

/// Every `type` of a line on the CLI's stdin that is known.
pub const STDIN_TYPES: &[&str] = &[
    "user",
    "control_request",
    "control_response",
    "control_cancel_request",
    "keep_alive",
    "update_environment_variables",
    "assistant",
    "system",
    "bash_command",
    "session_notice",
];

/// Whether a line of the CLI has a `type` that is known.
pub fn is_known_message(kind: &str) -> bool {
    MESSAGES.contains(&kind)
}

/// Whether a `system` line has a `subtype` that is known.
pub fn is_known_system(subtype: &str) -> bool {
    SYSTEM_SUBTYPES.contains(&subtype)
}

/// Whether the CLI is known to send control requests of this subtype.
pub fn is_known_request_of_cli(subtype: &str) -> bool {
    control(subtype).is_some_and(|control| control.sender != Sender::Host)
}

/// Longest wait for the CLI's answer when nothing else is known, in milliseconds.
pub const DEFAULT_DEADLINE_MS: u64 = 30_000;
/// Longest wait for an answer that takes a model call or a network round, in milliseconds.
pub const SLOW_DEADLINE_MS: u64 = 120_000;
/// Longest wait for the answer to `initialize`: slow MCP servers hold it up.
pub const INITIALIZE_DEADLINE_MS: u64 = 120_000;
/// Longest wait for what needs a person in a browser.
pub const PERSON_DEADLINE_MS: u64 = 600_000;

/// The side that sends a request of this subtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The host (the daemon and its clients).
    Host,
    /// The CLI.
    Cli,
    /// Both.
    Both,
}

/// Which clients may send a request of this subtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// All.
    Open,
    /// None. Says why, and what to do instead.
    Refused(&'static str),
}

/// The facts about one subtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// The `subtype`.
    pub name: &'static str,
    /// The side that sends it.
    pub sender: Sender,
    /// Longest wait for the answer, in milliseconds.
    pub deadline_ms: u64,
    /// Whether it may be sent before `initialize` was answered.
    pub before_initialize: bool,
    /// Which clients may send it.
    pub access: Access,
}

const fn host(name: &'static str) -> Control {
    Control {
        name,
        sender: Sender::Host,
        deadline_ms: DEFAULT_DEADLINE_MS,
        before_initialize: false,
        access: Access::Open,
    }
}

const fn refused(name: &'static str, why: &'static str) -> Control {
    Control {
        access: Access::Refused(why),
        ..host(name)
    }
}

const fn slow(name: &'static str) -> Control {
    Control {
        deadline_ms: SLOW_DEADLINE_MS,
        ..host(name)
    }
}

const fn cli(name: &'static str) -> Control {
    Control {
        sender: Sender::Cli,
        deadline_ms: PERSON_DEADLINE_MS,
        access: Access::Refused("only the CLI sends it"),
        ..host(name)
    }
}

/// Every subtype that is known.
pub const CONTROLS: &[Control] = &[
    Control {
        deadline_ms: INITIALIZE_DEADLINE_MS,
        before_initialize: true,
        ..host("initialize")
    },
    Control {
        deadline_ms: 10_000,
        before_initialize: true,
        ..host("interrupt")
    },
    refused(
        "end_session",
        "the CLI would exit by itself, which looks like a crash; use the route 'stop' instead",
    ),
    host("set_model"),
    host("set_permission_mode"),
    host("set_max_thinking_tokens"),
    host("rename_session"),
    host("set_color"),
    host("mcp_status"),
    slow("get_context_usage"),
    host("get_session_cost"),
    slow("list_models"),
    slow("get_usage"),
    host("get_binary_version"),
    Control {
        deadline_ms: PERSON_DEADLINE_MS,
        ..host("mcp_call")
    },
    host("file_suggestions"),
    Control {
        sender: Sender::Both,
        deadline_ms: SLOW_DEADLINE_MS,
        before_initialize: true,
        ..host("mcp_message")
    },
    slow("rewind_files"),
    host("cancel_async_message"),
    host("read_file"),
    host("seed_read_state"),
    slow("mcp_set_servers"),
    slow("register_repo_root"),
    slow("reload_plugins"),
    slow("reload_skills"),
    slow("reload_output_styles"),
    slow("mcp_reconnect"),
    slow("mcp_toggle"),
    host("set_has_subscribers"),
    host("stop_task"),
    host("background_tasks"),
    host("get_task_output"),
    host("apply_flag_settings"),
    host("get_settings"),
    host("get_hooks_listing"),
    host("update_settings"),
    host("list_permission_rules"),
    slow("mcp_read_resource"),
    refused(
        "claim_session",
        "the process would go on as another conversation in another directory than the session's; make a session instead",
    ),
    refused(
        "set_cwd",
        "the session's directory is where it is resumed and what the daemon's limits hold for; make a session there instead",
    ),
    slow("generate_session_title"),
    slow("side_question"),
    host("get_status"),
    host("get_plan"),
    slow("export_conversation"),
    host("get_memory_dialog"),
    host("get_skills_dialog"),
    host("get_sandbox_dialog"),
    host("get_chrome_dialog"),
    host("get_chrome_browsers"),
    host("select_chrome_browser"),
    host("set_chrome_browser_hints"),
    host("set_mcp_permission_mode_override"),
    host("set_prompt_suggestions_paused"),
    host("prompt_draft_activity"),
    host("message_rated"),
    slow("submit_feedback"),
    slow("submit_survey_feedback"),
    slow("ultrareview_launch"),
    slow("remote_control"),
    host("channel_enable"),
    Control {
        deadline_ms: PERSON_DEADLINE_MS,
        ..host("mcp_authenticate")
    },
    slow("mcp_clear_auth"),
    slow("mcp_oauth_callback_url"),
    slow("claude_authenticate"),
    slow("claude_oauth_callback"),
    Control {
        deadline_ms: PERSON_DEADLINE_MS,
        ..host("claude_oauth_wait_for_completion")
    },
    cli("can_use_tool"),
    cli("hook_callback"),
    cli("elicitation"),
    cli("request_user_dialog"),
    cli("oauth_token_refresh"),
    cli("host_auth_token_refresh"),
    cli("remote_control_work_secret"),
    cli("ui_copy"),
    cli("ui_prompt_read"),
    cli("ui_prompt_fill"),
    cli("ui_prompt_paint"),
    cli("ui_prompt_suggest"),
    cli("ui_read_selection"),
    // Named in the SDK's runtime, which leaves them unanswered.
    cli("remote_tool_call"),
    cli("remote_plumbing_call"),
    cli("remote_tools_probe"),
    cli("remote_tools_reannounce"),
];

/// Why no client may send this request (the whole `request` object), if none may.
pub fn refusal(subtype: &str, request: &str) -> Option<&'static str> {
    if subtype == "remote_control" && !turns_off(request) {
        return Some(
            "others would steer the session past the daemon, its rules and its limits; only `enabled: false` passes",
        );
    }
    match control(subtype)?.access {
        Access::Refused(why) => Some(why),
        Access::Open => unlaunchable(subtype, request),
    }
}

/// Why a later process could not be started with what this request sets, if that is so. The CLI takes some values in a request that
/// it does not take as a flag.
fn unlaunchable(subtype: &str, request: &str) -> Option<&'static str> {
    match subtype {
        "set_model" => {
            let model = json::member_text(request, "model")?;
            (!options::is_name(&model)).then_some(
                "no process could be started with this model later: its name must be one line of 1 to 1024 characters",
            )
        }
        "set_max_thinking_tokens" => {
            let display = json::member_text(request, "thinking_display")?;
            ThinkingDisplay::of_name(&display).is_none().then_some(
                "no process could be started with this thinking_display later: it must be summarized, omitted or highlights",
            )
        }
        _ => None,
    }
}

/// Members of `initialize` by which somebody registers what the CLI asks back.
const ASKED_BACK: [&str; 4] = [
    "hooks",
    "sdkMcpServers",
    "sdkMcpServerManifests",
    "sdkMcpServerConfigs",
];

/// Why a client that is on no socket may not send this request, if it may not.
pub fn refusal_off_socket(subtype: &str, request: &str) -> Option<&'static str> {
    let registers = || {
        json::members(request, ASKED_BACK)
            .is_some_and(|given| given.into_iter().flatten().any(|value| value != "null"))
    };
    if subtype == "initialize" && registers() {
        return Some("it registers hooks or servers, and only a client on a socket can be asked back");
    }
    refusal(subtype, request)
}

fn turns_off(request: &str) -> bool {
    let enabled = json::members(request, ["enabled"]).and_then(|[enabled]| enabled);
    enabled.and_then(json::boolean) == Some(false)
}

/// Whether a request of this subtype may be written before `initialize` was answered.
pub fn goes_first(subtype: &str) -> bool {
    control(subtype).is_some_and(|control| control.before_initialize)
}

/// Requests that only look, or are about what a process without a turn does not have. None is worth a process of its own.
const NEVER_WAKE: [&str; 11] = [
    "background_tasks",
    "cancel_async_message",
    "file_suggestions",
    "mcp_status",
    "message_rated",
    "prompt_draft_activity",
    "read_file",
    "select_chrome_browser",
    "set_has_subscribers",
    "set_prompt_suggestions_paused",
    "stop_task",
];

/// Whether a request of this subtype starts no process for a session that is parked.
pub fn never_wakes(subtype: &str) -> bool {
    let looks = subtype.starts_with("get_") || subtype.starts_with("list_");
    looks || NEVER_WAKE.contains(&subtype)
}

/// Whether a request of this subtype may be written before a prompt that came earlier, as it changes nothing for that.
pub fn may_overtake(subtype: &str) -> bool {
    // The earlier prompt may be the message that this one cancels.
    never_wakes(subtype) && subtype != "cancel_async_message"
}

/// The facts about a subtype; the defaults for one that a host sends and nobody knows.
pub fn control(name: &str) -> Option<&'static Control> {
    CONTROLS.iter().find(|control| control.name == name)
}

/// Longest wait for the answer to a request of this subtype, in milliseconds.
pub fn deadline_ms(name: &str) -> u64 {
    control(name).map_or(DEFAULT_DEADLINE_MS, |control| control.deadline_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subtype_is_listed_once() {
        for (index, control) in CONTROLS.iter().enumerate() {
            let twice = CONTROLS[index + 1..]
                .iter()
                .any(|other| other.name == control.name);
            assert!(!twice, "{}", control.name);
            assert!(control.deadline_ms >= 1_000, "{}", control.name);
        }
    }

    #[test]
    fn each_type_is_listed_once() {
        for list in [MESSAGES, SYSTEM_SUBTYPES, RESULT_SUBTYPES, STDIN_TYPES] {
            let names: std::collections::BTreeSet<_> = list.iter().collect();
            assert_eq!(names.len(), list.len(), "{list:?}");
        }
        assert!(is_known_message("command_lifecycle") && !is_known_message("brand_new_thing"));
        assert!(is_known_system("init") && !is_known_system("assistant"));
        assert!(is_known_request_of_cli("mcp_message") && !is_known_request_of_cli("set_model"));
    }

    #[test]
    fn a_choice_that_no_launch_takes_is_refused() {
        let long = format!(r#"{{"model":"{}"}}"#, "x".repeat(1025));
        for (subtype, request, is_refused) in [
            ("set_model", r#"{"model":"opus"}"#, false),
            ("set_model", r#"{"model":null}"#, false),
            ("set_model", "{}", false),
            ("set_model", r#"{"model":" "}"#, true),
            ("set_model", r#"{"model":"a\nb"}"#, true),
            ("set_model", &long, true),
            (
                "set_max_thinking_tokens",
                r#"{"thinking_display":"omitted"}"#,
                false,
            ),
            ("set_max_thinking_tokens", r#"{"thinking_display":null}"#, false),
            ("set_max_thinking_tokens", r#"{"thinking_display":"weird"}"#, true),
        ] {
            assert_eq!(refusal(subtype, request).is_some(), is_refused, "{request}");
        }
    }

    #[test]
    fn an_interrupt_waits_for_nothing() {
        let interrupt = control("interrupt").unwrap();
        assert!(interrupt.before_initialize);
        assert!(interrupt.deadline_ms < DEFAULT_DEADLINE_MS);
        assert!(!control("set_model").unwrap().before_initialize);
        assert_eq!(control("can_use_tool").unwrap().sender, Sender::Cli);
    }

    #[test]
    fn what_would_mislead_the_daemon_is_refused() {
        for name in [
            "end_session",
            "set_cwd",
            "claim_session",
            "can_use_tool",
            "ui_copy",
        ] {
            assert!(refusal(name, "{}").is_some(), "{name}");
        }
        assert!(refusal("initialize", "{}").is_none());
        assert!(refusal_off_socket("initialize", r#"{"hooks":null}"#).is_none());
        assert!(refusal_off_socket("initialize", r#"{"hooks":{}}"#).is_some());
        assert!(refusal_off_socket("initialize", r#"{"sdkMcpServers":["a"]}"#).is_some());
        assert!(refusal_off_socket("set_cwd", "{}").is_some());
        assert!(refusal("remote_control", r#"{"enabled":true}"#).is_some());
        assert!(refusal("remote_control", "{}").is_some());
        assert!(refusal("remote_control", r#"{"enabled":true,"enabled":false}"#).is_none());
        assert!(refusal_off_socket("brand_new_thing", "{}").is_none());
    }

    #[test]
    fn looking_wakes_nobody_and_what_is_to_change_something_does() {
        for name in NEVER_WAKE {
            assert!(control(name).is_some(), "{name}");
        }
        for name in ["get_context_usage", "list_models", "mcp_status", "stop_task"] {
            assert!(never_wakes(name), "{name}");
        }
        for name in [
            "set_model",
            "apply_flag_settings",
            "mcp_set_servers",
            "brand_new_thing",
        ] {
            assert!(!never_wakes(name) && !may_overtake(name), "{name}");
        }
        assert!(may_overtake("mcp_status") && !may_overtake("cancel_async_message"));
    }

    #[test]
    fn an_unknown_subtype_has_the_default_deadline() {
        assert_eq!(control("brand_new_thing"), None);
        assert_eq!(deadline_ms("brand_new_thing"), DEFAULT_DEADLINE_MS);
        assert_eq!(deadline_ms("initialize"), INITIALIZE_DEADLINE_MS);
    }
}
