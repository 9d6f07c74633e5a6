//! Owns the checks of a hook's output: what the CLI would drop of it without a word is refused first.

use super::{BadAnswer, Behavior, keys, permissions};
use crate::claude::json;

/// The keys of an output.
const OUTPUT: [&str; 10] = [
    "continue",
    "suppressOutput",
    "stopReason",
    "decision",
    "systemMessage",
    "terminalSequence",
    "reason",
    "hookSpecificOutput",
    "async",
    "asyncTimeout",
];

/// The keys of the part that goes with an event, of all events.
const SPECIFIC: [&str; 20] = [
    "hookEventName",
    "permissionDecision",
    "permissionDecisionReason",
    "updatedInput",
    "updatedPermissions",
    "additionalContext",
    "classifierContext",
    "updatedToolOutput",
    "updatedMCPToolOutput",
    "decision",
    "retry",
    "sessionTitle",
    "suppressOriginalPrompt",
    "initialUserMessage",
    "watchPaths",
    "reloadSkills",
    "action",
    "content",
    "displayContent",
    "worktreePath",
];

/// The keys of the decision of a `PermissionRequest` hook.
const DECISION: [&str; 5] = [
    "behavior",
    "updatedInput",
    "updatedPermissions",
    "message",
    "interrupt",
];

/// Checks the output of a hook, which passes byte for byte. `may_bypass` says whether the session may come into the mode
/// `bypassPermissions`.
///
/// # Errors
/// A key is misspelt, or a permission update is one that the CLI would ignore.
pub fn check_hook_output(output: &str, may_bypass: bool) -> Result<(), BadAnswer> {
    keys::check(output, &OUTPUT)?;
    let Some([Some(specific)]) = json::members(output, ["hookSpecificOutput"]) else {
        return Ok(());
    };
    keys::check(specific, &SPECIFIC)?;
    let Some([decision, updates]) = json::members(specific, ["decision", "updatedPermissions"]) else {
        return Ok(());
    };
    permissions::check(given(updates), may_bypass)?;
    let Some(decision) = decision.filter(|decision| json::is_object(decision)) else {
        return Ok(());
    };
    keys::check(decision, &DECISION)?;
    let updates = json::members(decision, ["updatedPermissions"]).and_then(|[updates]| updates);
    permissions::check(given(updates), may_bypass)
}

/// The decision of a hook's output about the call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookVerdict<'a> {
    /// Whether the tool may run; `None`: the CLI decides, or asks.
    pub behavior: Option<Behavior>,
    /// The input that the tool is given instead, byte for byte.
    pub updated_input: Option<&'a str>,
    /// Whether permission rules or the mode change.
    pub updates_permissions: bool,
}

impl<'a> HookVerdict<'a> {
    /// Reads an output; `None` for an event that decides about no call.
    pub fn read(event: &str, output: &'a str) -> Option<Self> {
        let [specific, decision, goes_on] =
            json::members(output, ["hookSpecificOutput", "decision", "continue"])?;
        let specific = specific
            .filter(|specific| json::is_object(specific))
            .unwrap_or("{}");
        let stops = (goes_on == Some("false")).then_some(Behavior::Deny);
        match event {
            "PreToolUse" => {
                let [said, updated] = json::members(specific, ["permissionDecision", "updatedInput"])?;
                let said = said.or(decision).and_then(json::string);
                Some(Self {
                    behavior: stops.or(match said.as_deref() {
                        Some("allow" | "approve") => Some(Behavior::Allow),
                        Some("deny" | "block") => Some(Behavior::Deny),
                        _ => None,
                    }),
                    updated_input: given(updated),
                    updates_permissions: false,
                })
            }
            "PermissionRequest" => {
                let [decision] = json::members(specific, ["decision"])?;
                let decision = decision
                    .filter(|decision| json::is_object(decision))
                    .unwrap_or("{}");
                let [behavior, updated, updates] =
                    json::members(decision, ["behavior", "updatedInput", "updatedPermissions"])?;
                Some(Self {
                    behavior: match behavior.and_then(json::string).as_deref() {
                        Some("allow") => Some(Behavior::Allow),
                        Some("deny") => Some(Behavior::Deny),
                        _ => stops,
                    },
                    updated_input: given(updated),
                    updates_permissions: updates
                        .and_then(json::items)
                        .is_some_and(|updates| !updates.is_empty()),
                })
            }
            _ => None,
        }
    }
}

fn given(raw: Option<&str>) -> Option<&str> {
    raw.filter(|raw| *raw != "null")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cli_takes_passes_and_so_does_what_is_new() {
        for output in [
            "{}",
            r#"{"continue":false,"stopReason":"x","brandNew":1}"#,
            r#"{"decision":"block","reason":"x"}"#,
            r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"updated_input":1}}}"#,
            r#"{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow","updatedPermissions":[{"type":"setMode","mode":"acceptEdits","destination":"session"}]}}}"#,
            r#"{"hookSpecificOutput":{"hookEventName":"Elicitation","action":"accept","content":{"a":1}}}"#,
        ] {
            assert_eq!(check_hook_output(output, false), Ok(()), "{output}");
        }
    }

    #[test]
    fn what_a_hook_decides_is_read() {
        use Behavior::{Allow, Deny};
        for (event, output, behavior, updated) in [
            ("PreToolUse", "{}", None, None),
            ("PreToolUse", r#"{"decision":"block"}"#, Some(Deny), None),
            ("PreToolUse", r#"{"continue":false}"#, Some(Deny), None),
            (
                "PreToolUse",
                r#"{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"a":1.0}}}"#,
                Some(Allow),
                Some(r#"{"a":1.0}"#),
            ),
            (
                "PreToolUse",
                r#"{"hookSpecificOutput":{"permissionDecision":"ask","updatedInput":{}}}"#,
                None,
                Some("{}"),
            ),
            (
                "PermissionRequest",
                r#"{"hookSpecificOutput":{"decision":{"behavior":"deny"}}}"#,
                Some(Deny),
                None,
            ),
        ] {
            let verdict = HookVerdict::read(event, output).unwrap();
            assert_eq!(
                (verdict.behavior, verdict.updated_input),
                (behavior, updated),
                "{output}"
            );
        }
        assert!(HookVerdict::read("Stop", r#"{"decision":"block"}"#).is_none());
    }

    #[test]
    fn what_the_cli_would_drop_of_an_output_is_refused() {
        let bypass = r#"{"hookSpecificOutput":{"decision":{"behavior":"allow","updatedPermissions":[{"type":"setMode","mode":"bypassPermissions","destination":"session"}]}}}"#;
        for output in [
            r#"{"hook_specific_output":{}}"#,
            r#"{"stop_reason":"x"}"#,
            r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permission_decision":"deny"}}"#,
            r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","updated_input":{"command":"ls"}}}"#,
            r#"{"hookSpecificOutput":{"decision":{"behavior":"allow","updatedinput":{}}}}"#,
            r#"{"hookSpecificOutput":{"decision":{"behavior":"allow","updatedPermissions":[{"type":"addRule"}]}}}"#,
            r#"{"hookSpecificOutput":{"updatedPermissions":[{"type":"setMode","mode":"weird","destination":"session"}]}}"#,
            bypass,
        ] {
            assert!(check_hook_output(output, false).is_err(), "{output}");
        }
        assert_eq!(check_hook_output(bypass, true), Ok(()));
    }
}
