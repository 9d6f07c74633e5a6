//! Owns the typed form of the control requests that a host sends: per subtype what it takes, and what the CLI answers.
//!
//! Nothing here is ever written to the CLI or to a client: their own bytes pass. The types say which fields are known,
//! so that a request can be checked and the API can describe both. Fields that are not named here pass unread, and every
//! field of an answer may be absent. Source: the SDK's types, and answers of the real CLI.

mod dialogs;
mod files;
mod info;
mod initialize;
mod mcp;
mod session;
mod settings;
mod tasks;
mod value;

pub use dialogs::*;
pub use files::*;
pub use info::*;
pub use initialize::*;
pub use mcp::*;
pub use session::*;
pub use settings::*;
pub use tasks::*;
pub use value::{AnyPayload, NoFields, NoPayload, Text};

/// Calls a macro with every typed subtype: `"subtype": Request => Response, …`.
///
/// A response of [`NoPayload`] is a success without one, [`AnyPayload`] one whose payload no recording shows.
macro_rules! with_typed_controls {
    ($visit:ident) => {
        $visit! {
            "initialize": InitializeControl => InitializePayload,
            "interrupt": InterruptControl => InterruptPayload,
            "set_model": SetModelControl => SetModelPayload,
            "set_permission_mode": SetPermissionModeControl => SetPermissionModePayload,
            "set_max_thinking_tokens": SetThinkingControl => NoPayload,
            "rename_session": RenameSessionControl => NoPayload,
            "set_color": SetColorControl => AnyPayload,
            "cancel_async_message": CancelMessageControl => CancelMessagePayload,
            "set_has_subscribers": SetHasSubscribersControl => NoPayload,
            "generate_session_title": GenerateTitleControl => GenerateTitlePayload,
            "side_question": SideQuestionControl => SideQuestionPayload,
            "export_conversation": NoFields => ExportConversationPayload,
            "set_prompt_suggestions_paused": SetPausedControl => NoPayload,
            "prompt_draft_activity": NoFields => NoPayload,
            "remote_control": RemoteControlControl => AnyPayload,
            "mcp_status": McpStatusControl => McpStatusPayload,
            "mcp_set_servers": McpSetServersControl => McpSetServersPayload,
            "mcp_reconnect": McpReconnectControl => NoPayload,
            "mcp_toggle": McpToggleControl => NoPayload,
            "mcp_call": McpCallControl => AnyPayload,
            "mcp_message": McpMessageControl => AnyPayload,
            "mcp_read_resource": McpReadResourceControl => McpReadResourcePayload,
            "set_mcp_permission_mode_override": McpModeOverrideControl => McpModeOverridePayload,
            "channel_enable": ChannelEnableControl => AnyPayload,
            "rewind_files": RewindFilesControl => RewindFilesPayload,
            "read_file": ReadFileControl => ReadFilePayload,
            "seed_read_state": SeedReadStateControl => NoPayload,
            "file_suggestions": FileSuggestionsControl => FileSuggestionsPayload,
            "register_repo_root": RegisterRepoRootControl => RegisterRepoRootPayload,
            "get_context_usage": ContextUsageControl => ContextUsagePayload,
            "get_session_cost": NoFields => SessionCostPayload,
            "get_usage": UsageControl => UsagePayload,
            "list_models": NoFields => ListModelsPayload,
            "get_binary_version": NoFields => BinaryVersionPayload,
            "get_status": NoFields => StatusPayload,
            "get_plan": NoFields => PlanPayload,
            "get_settings": NoFields => SettingsPayload,
            "apply_flag_settings": ApplySettingsControl => NoPayload,
            "update_settings": UpdateSettingsControl => EmptyPayload,
            "list_permission_rules": NoFields => PermissionRulesPayload,
            "get_hooks_listing": NoFields => HooksListingPayload,
            "reload_plugins": ReloadPluginsControl => ReloadPluginsPayload,
            "reload_skills": NoFields => ReloadSkillsPayload,
            "reload_output_styles": NoFields => ReloadOutputStylesPayload,
            "background_tasks": BackgroundTasksControl => EmptyPayload,
            "stop_task": TaskControl => EmptyPayload,
            "get_task_output": TaskControl => TaskOutputPayload,
            "get_memory_dialog": NoFields => MemoryDialogPayload,
            "get_skills_dialog": NoFields => SkillsDialogPayload,
            "get_sandbox_dialog": NoFields => SandboxDialogPayload,
            "get_chrome_dialog": NoFields => ChromeDialogPayload,
            "message_rated": MessageRatedControl => EmptyPayload,
        }
    };
}
pub(crate) use with_typed_controls;

/// Subtypes that a host may send and that have no types here, each with the reason. They are relayed as they are.
pub const UNTYPED: &[(&str, &str)] = &[
    ("get_chrome_browsers", NEVER_ANSWERED),
    ("select_chrome_browser", NEVER_ANSWERED),
    ("set_chrome_browser_hints", NEVER_ANSWERED),
    ("submit_feedback", OF_A_SERVICE),
    ("submit_survey_feedback", OF_A_SERVICE),
    ("ultrareview_launch", OF_A_SERVICE),
    ("mcp_authenticate", NEVER_ANSWERED),
    ("mcp_clear_auth", NEVER_ANSWERED),
    ("mcp_oauth_callback_url", NEVER_ANSWERED),
    ("claude_authenticate", OF_A_SERVICE),
    ("claude_oauth_callback", NEVER_ANSWERED),
    ("claude_oauth_wait_for_completion", NEVER_ANSWERED),
];

const NEVER_ANSWERED: &str =
    "known from the SDK's code by its name; no CLI was seen to answer it with success";
const OF_A_SERVICE: &str = "known from the SDK's code by its name; it needs a service of the vendor's, and what it answers with one was never seen";

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::de::DeserializeOwned;

    use super::*;
    use crate::claude::{
        Envelope,
        catalogue::{Access, CONTROLS, Sender},
        control::ControlResponse,
        recordings::{envelopes, recording},
    };

    macro_rules! names {
        ($($name:literal: $request:ty => $response:ty,)*) => {
            const TYPED: &[&str] = &[$($name),*];

            fn read_request(subtype: &str, json: &str) -> Option<Result<(), String>> {
                match subtype { $($name => Some(read::<$request>(json)),)* _ => None }
            }

            fn read_payload(subtype: &str, json: &str) -> Option<Result<(), String>> {
                match subtype { $($name => Some(read::<$response>(json)),)* _ => None }
            }
        };
    }
    with_typed_controls!(names);

    fn read<T: DeserializeOwned>(json: &str) -> Result<(), String> {
        let mut json = serde_json::Deserializer::from_str(json);
        serde_path_to_error::deserialize::<_, T>(&mut json)
            .map(drop)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn each_subtype_of_a_host_is_typed_or_says_why_not() {
        for control in CONTROLS {
            let typed = TYPED.contains(&control.name);
            let untyped = UNTYPED.iter().any(|(name, _)| *name == control.name);
            let may_be_sent = control.sender != Sender::Cli && control.access == Access::Open;
            assert_eq!(
                (typed || untyped, typed && untyped),
                (may_be_sent, false),
                "{}",
                control.name
            );
        }
        for name in TYPED.iter().chain(UNTYPED.iter().map(|(name, _)| name)) {
            assert!(CONTROLS.iter().any(|control| control.name == *name), "{name}");
        }
    }

    /// The requests sent to the real CLI, and its answers, fit the types.
    #[test]
    fn recorded_requests_and_answers_fit() {
        let mut seen = BTreeMap::new();
        for (sent, printed) in [
            (recording!("18-controls.stdin"), recording!("18-controls")),
            (recording!("49-rewind-files.stdin"), recording!("49-rewind-files")),
            (recording!("44-stop-task.stdin"), recording!("44-stop-task")),
            (
                recording!("23b-interrupt-cancel-queued.stdin"),
                recording!("23b-interrupt-cancel-queued"),
            ),
        ] {
            let asked = envelopes(sent);
            let asked: BTreeMap<_, _> = asked.iter().filter_map(question).collect();
            for answer in envelopes(printed).iter().filter_map(ControlResponse::read) {
                let Some((subtype, request)) = asked.get(&answer.request_id) else {
                    continue;
                };
                let Some(request) = read_request(subtype, request) else {
                    continue;
                };
                assert_eq!(request, Ok(()), "{subtype}");
                if let Ok(payload) = &answer.outcome {
                    let payload = payload.as_deref().map_or("null", |payload| payload.get());
                    let fits = read_payload(subtype, payload).unwrap();
                    assert_eq!(fits, Ok(()), "{subtype}: {payload}");
                    *seen.entry(subtype.clone()).or_insert(0) += 1;
                }
            }
        }
        assert!(seen.len() >= 36, "{seen:?}");
    }

    fn question(line: &Envelope<'_>) -> Option<(String, (String, String))> {
        let id = line.request_id.as_deref()?.to_owned();
        let request = line.request?.to_owned();
        Some((id, (line.request_subtype()?, request)))
    }

    #[test]
    fn known_fields_are_checked_and_unknown_ones_pass() {
        let good = [
            (
                "mcp_toggle",
                r#"{"serverName":"\ud83d","enabled":true,"new":[1]}"#,
            ),
            ("set_model", r#"{}"#),
            ("set_model", r#"{"model":null}"#),
            ("mcp_set_servers", r#"{"servers":{"\udc00":{"command":"x"}}}"#),
            ("get_status", r#"{"x":{}}"#),
        ];
        for (subtype, request) in good {
            assert_eq!(read_request(subtype, request), Some(Ok(())), "{request}");
        }
        for (subtype, request, field) in [
            ("mcp_toggle", r#"{"serverName":1,"enabled":true}"#, "serverName"),
            ("mcp_toggle", r#"{"serverName":"x","enabled":"yes"}"#, "enabled"),
            ("mcp_toggle", r#"{"serverName":"x"}"#, "enabled"),
            ("mcp_set_servers", r#"{"servers":[]}"#, "servers"),
            (
                "reload_plugins",
                r#"{"add_plugins":[{"type":"local","path":7}]}"#,
                "add_plugins[0].path",
            ),
        ] {
            let error = read_request(subtype, request).unwrap().unwrap_err();
            assert!(error.contains(field), "{request}: {error}");
        }
    }
}
