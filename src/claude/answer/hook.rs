//! Owns the checks of a hook's output: what the CLI would drop of it without a word is refused first.

mod form;

use super::{BadAnswer, keys, permissions};
use crate::json;

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

/// The one place of permission updates in an output.
const UPDATES: &str = "hookSpecificOutput.decision.updatedPermissions";

/// Checks the output of a hook for this event, which passes byte for byte. `may_bypass` says whether the session may come into
/// the mode `bypassPermissions`.
///
/// # Errors
/// A key is misspelt, a permission update is one that the CLI would ignore, also for its place, or a value is one for which it would drop all.
pub fn check_hook_output(event: &str, output: &str, may_bypass: bool) -> Result<(), BadAnswer> {
    check_keys(output, may_bypass)?;
    form::check(event, output)
}

fn check_keys(output: &str, may_bypass: bool) -> Result<(), BadAnswer> {
    keys::check(output, &OUTPUT)?;
    refuse_updates(output)?;
    let Some([Some(specific)]) = json::members(output, ["hookSpecificOutput"]) else {
        return Ok(());
    };
    keys::check(specific, &SPECIFIC)?;
    refuse_updates(specific)?;
    let Some([Some(decision)]) = json::members(specific, ["decision"]) else {
        return Ok(());
    };
    if !json::is_object(decision) {
        return Ok(());
    }
    keys::check(decision, &DECISION)?;
    let updates = json::members(decision, ["updatedPermissions"]).and_then(|[updates]| updates);
    permissions::check(given(updates), may_bypass)
}

/// The word of a hook about that which it was asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookBehavior {
    /// It may go on.
    Allow,
    /// It may not.
    Deny,
    /// A form is closed without an answer.
    Cancel,
}

/// The part of a hook's output that decides or changes something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookVerdict<'a> {
    /// The decision; `None`: others decide.
    pub behavior: Option<HookBehavior>,
    /// Members of the hook's input that are replaced: the name, and the new value, byte for byte.
    pub replaced: Vec<(&'static str, &'a str)>,
    /// Whether permission rules or the mode change.
    pub updates_permissions: bool,
}

/// Whether this output of a hook puts the call off.
pub fn puts_off(event: &str, output: &str) -> bool {
    if event != "PreToolUse" || HookVerdict::read(event, output).is_none_or(|it| it.behavior.is_some()) {
        return false;
    }
    let specific = json::members(output, ["hookSpecificOutput"]).and_then(|[specific]| specific);
    let said = specific.and_then(|specific| json::members(specific, ["permissionDecision"])?[0]);
    said.and_then(json::string).as_deref() == Some("defer")
}

/// Whether a hook of this event decides about the call of a tool before it runs.
pub fn decides_call(event: &str) -> bool {
    matches!(event, "PreToolUse" | "PreSkillShellCommand" | "PermissionRequest")
}

/// Whether hooks of this event are all asked before a person is: of their decisions the strictest holds.
pub fn is_before_person(event: &str) -> bool {
    matches!(event, "PreToolUse" | "PreSkillShellCommand")
}

/// Whether a `block` of a hook of this event holds something up. The CLI tells of other events after they have happened.
pub fn can_block(event: &str) -> bool {
    !matches!(
        event,
        "StopFailure"
            | "SessionStart"
            | "SessionEnd"
            | "Setup"
            | "Notification"
            | "MessageDisplay"
            | "SubagentStart"
            | "PermissionDenied"
            | "PostToolUseFailure"
            | "PostCompact"
            | "PostModelSwitch"
            | "InstructionsLoaded"
            | "CwdChanged"
            | "FileChanged"
            | "DirectoryAdded"
            | "WorktreeRemove"
    )
}

/// Whether a `block` of a hook of this event has the agent go on working.
pub fn block_goes_on(event: &str) -> bool {
    matches!(event, "Stop" | "SubagentStop" | "TeammateIdle")
}

impl<'a> HookVerdict<'a> {
    /// Reads an output; `None` for one that is no object, or of which the CLI takes nothing.
    pub fn read(event: &str, output: &'a str) -> Option<Self> {
        use HookBehavior::{Allow, Cancel, Deny};
        if form::is_put_off(output) || form::check(event, output).is_err() {
            return None;
        }
        let [specific, decision, goes_on] =
            json::members(output, ["hookSpecificOutput", "decision", "continue"])?;
        let specific = specific
            .filter(|specific| json::is_object(specific))
            .unwrap_or("{}");
        let decision = decision.and_then(json::string);
        let blocks = decision.as_deref() == Some("block") && can_block(event);
        let stops = goes_on == Some("false");
        let ends = if block_goes_on(event) { Allow } else { Deny };
        let general = if stops { Some(ends) } else { blocks.then_some(Deny) };
        let said = |name| json::members(specific, [name]).and_then(|[said]| said.and_then(json::string));
        let value = |name| json::members(specific, [name]).and_then(|[value]| given(value));
        let verdict = match event {
            "PreToolUse" | "PreSkillShellCommand" | "PreModelSwitch" => {
                let said = said("permissionDecision").or(decision);
                let said = match said.as_deref() {
                    Some("allow" | "approve") => Some(Allow),
                    Some("deny") => Some(Deny),
                    _ => None,
                };
                // The CLI runs the call, and ends the turn behind it.
                let stops = stops && event != "PreToolUse";
                Self {
                    behavior: (blocks || stops).then_some(Deny).or(said),
                    replaced: replaced(&[("tool_input", value("updatedInput"))]),
                    updates_permissions: false,
                }
            }
            "PermissionRequest" => {
                let [decision] = json::members(specific, ["decision"])?;
                let decision = decision
                    .filter(|decision| json::is_object(decision))
                    .unwrap_or("{}");
                let [behavior, updated, updates] =
                    json::members(decision, ["behavior", "updatedInput", "updatedPermissions"])?;
                Self {
                    behavior: match behavior.and_then(json::string).as_deref() {
                        Some("allow") => Some(Allow),
                        Some("deny") => Some(Deny),
                        _ => None,
                    },
                    replaced: replaced(&[("tool_input", given(updated))]),
                    updates_permissions: updates
                        .and_then(json::items)
                        .is_some_and(|updates| !updates.is_empty()),
                }
            }
            "Elicitation" | "ElicitationResult" => {
                let said = match said("action").as_deref() {
                    Some("accept") => Some(Allow),
                    Some("decline") => Some(Deny),
                    Some("cancel") => Some(Cancel),
                    _ => None,
                };
                Self {
                    behavior: said.or(general),
                    replaced: replaced(&[("content", value("content"))]),
                    updates_permissions: false,
                }
            }
            _ => {
                let retries = event == "PermissionDenied" && value("retry") == Some("true");
                Self {
                    behavior: general.or(retries.then_some(Allow)),
                    replaced: match event {
                        "PostToolUse" => replaced(&[
                            ("tool_response", value("updatedToolOutput")),
                            ("tool_response", value("updatedMCPToolOutput")),
                        ]),
                        "MessageDisplay" => replaced(&[("delta", value("displayContent"))]),
                        "WorktreeCreate" => replaced(&[("worktree_path", value("worktreePath"))]),
                        "SessionStart" | "UserPromptSubmit" => replaced(&[
                            ("session_title", value("sessionTitle")),
                            ("initial_user_message", value("initialUserMessage")),
                        ]),
                        _ => Vec::new(),
                    },
                    updates_permissions: false,
                }
            }
        };
        Some(verdict)
    }
}

fn replaced<'a>(members: &[(&'static str, Option<&'a str>)]) -> Vec<(&'static str, &'a str)> {
    let members = members.iter();
    members
        .filter_map(|(name, value)| Some((*name, (*value)?)))
        .collect()
}

/// Refuses updates where the CLI overlooks them.
fn refuse_updates(object: &str) -> Result<(), BadAnswer> {
    let name = "updatedPermissions";
    let updates = json::members(object, [name]).and_then(|[updates]| given(updates));
    match updates {
        None => Ok(()),
        Some(_) => Err(BadAnswer::MisspeltKey {
            given: name.to_owned(),
            known: UPDATES,
        }),
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
            assert_eq!(check_keys(output, false), Ok(()), "{output}");
        }
    }

    #[test]
    fn what_a_hook_decides_is_read() {
        use HookBehavior::{Allow, Cancel, Deny};
        let specific = |members: &str| format!(r#"{{"hookSpecificOutput":{{{members}}}}}"#);
        let block = r#"{"decision":"block","reason":"x"}"#;
        let stop = r#"{"continue":false}"#;
        let input = r#""updatedInput":{"a":1.0}"#;
        for (event, output, behavior, updated) in [
            ("PreToolUse", "{}".to_owned(), None, None),
            ("PreToolUse", block.to_owned(), Some(Deny), None),
            ("PreToolUse", stop.to_owned(), None, None),
            ("PermissionRequest", stop.to_owned(), None, None),
            (
                "PreToolUse",
                specific(&format!(r#""permissionDecision":"allow",{input}"#)),
                Some(Allow),
                Some(("tool_input", r#"{"a":1.0}"#)),
            ),
            (
                "PreSkillShellCommand",
                specific(&format!(r#""permissionDecision":"ask",{input}"#)),
                None,
                Some(("tool_input", r#"{"a":1.0}"#)),
            ),
            (
                "PreToolUse",
                specific(r#""permissionDecision":"defer""#),
                None,
                None,
            ),
            (
                "PreModelSwitch",
                specific(r#""permissionDecision":"deny""#),
                Some(Deny),
                None,
            ),
            (
                "PermissionRequest",
                specific(r#""decision":{"behavior":"deny"}"#),
                Some(Deny),
                None,
            ),
            ("UserPromptSubmit", block.to_owned(), Some(Deny), None),
            (
                "UserPromptSubmit",
                specific(r#""additionalContext":"x""#),
                None,
                None,
            ),
            (
                "UserPromptSubmit",
                specific(r#""sessionTitle":"x""#),
                None,
                Some(("session_title", r#""x""#)),
            ),
            ("Stop", block.to_owned(), Some(Deny), None),
            ("SubagentStop", stop.to_owned(), Some(Allow), None),
            ("PreCompact", block.to_owned(), Some(Deny), None),
            ("ConfigChange", block.to_owned(), Some(Deny), None),
            ("Notification", block.to_owned(), None, None),
            ("SessionStart", stop.to_owned(), Some(Deny), None),
            (
                "PostToolUse",
                specific(r#""updatedMCPToolOutput":[1]"#),
                None,
                Some(("tool_response", "[1]")),
            ),
            ("PermissionDenied", specific(r#""retry":true"#), Some(Allow), None),
            (
                "Elicitation",
                specific(r#""action":"cancel""#),
                Some(Cancel),
                None,
            ),
            (
                "WorktreeCreate",
                specific(r#""worktreePath":"/a""#),
                None,
                Some(("worktree_path", r#""/a""#)),
            ),
            ("SomethingNew", block.to_owned(), Some(Deny), None),
        ] {
            let named = format!(r#""hookSpecificOutput":{{"hookEventName":"{event}","#);
            let output = output.replace(r#""hookSpecificOutput":{"#, &named);
            let verdict = HookVerdict::read(event, &output).unwrap();
            let expected: Vec<_> = updated.into_iter().collect();
            assert_eq!(
                (verdict.behavior, verdict.replaced),
                (behavior, expected),
                "{event} {output}"
            );
        }
    }

    /// The real CLI ran the call after each of these.
    #[test]
    fn an_output_of_which_the_cli_takes_nothing_decides_nothing() {
        for output in [
            r#"{"decision":"deny"}"#,
            r#"{"hookSpecificOutput":{"permissionDecision":"deny"}}"#,
            r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"Deny"}}"#,
            r#"{"async":true,"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny"}}"#,
        ] {
            assert_eq!(HookVerdict::read("PreToolUse", output), None, "{output}");
        }
        let both = r#"{"decision":"block","hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}"#;
        let behavior = HookVerdict::read("PreToolUse", both).unwrap().behavior;
        assert_eq!(
            behavior,
            Some(HookBehavior::Deny),
            "the block outweighs the allowance"
        );
    }

    #[test]
    fn what_the_cli_would_drop_of_an_output_is_refused() {
        let bypass = r#"{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow","updatedPermissions":[{"type":"setMode","mode":"bypassPermissions","destination":"session"}]}}}"#;
        for output in [
            r#"{"hook_specific_output":{}}"#,
            r#"{"stop_reason":"x"}"#,
            r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permission_decision":"deny"}}"#,
            r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","updated_input":{"command":"ls"}}}"#,
            r#"{"hookSpecificOutput":{"decision":{"behavior":"allow","updatedinput":{}}}}"#,
            r#"{"hookSpecificOutput":{"decision":{"behavior":"allow","updatedPermissions":[{"type":"addRule"}]}}}"#,
            r#"{"hookSpecificOutput":{"decision":{"updatedPermissions":[{"type":"setMode","mode":"weird","destination":"session"}]}}}"#,
            r#"{"hookSpecificOutput":{"decision":{"behavior":"allow"},"updatedPermissions":[]}}"#,
            r#"{"updatedPermissions":[{"type":"setMode","mode":"acceptEdits","destination":"session"}]}"#,
            bypass,
        ] {
            assert!(check_keys(output, false).is_err(), "{output}");
        }
        assert_eq!(check_hook_output("PermissionRequest", bypass, true), Ok(()));
    }
}
