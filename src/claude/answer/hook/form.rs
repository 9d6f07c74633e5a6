//! Owns the form of a hook's output. The CLI drops an output as a whole when one member of it has a value of another form,
//! `null` included, and goes on as if the hook had said nothing.

use crate::{claude::answer::BadAnswer, json};

/// The kind that the value of a member must have.
#[derive(Clone, Copy, Debug)]
enum Form {
    Text,
    Flag,
    Object,
    List,
    OneOf(&'static [&'static str]),
}

use Form::{Flag, List, Object, OneOf, Text};

/// A member, and the form of its value.
type Member = (&'static str, Form);

const OUTPUT: [Member; 8] = [
    ("continue", Flag),
    ("suppressOutput", Flag),
    ("stopReason", Text),
    ("decision", OneOf(&["approve", "block"])),
    ("systemMessage", Text),
    ("terminalSequence", Text),
    ("reason", Text),
    (SPECIFIC, Object),
];

/// The part that goes with the event.
const SPECIFIC: &str = "hookSpecificOutput";
const EVENT: &str = "hookEventName";

/// Members that mean the same at each event that has them.
const ANYWHERE: [Member; 12] = [
    (EVENT, Text),
    ("permissionDecisionReason", Text),
    ("updatedInput", Object),
    ("additionalContext", Text),
    ("classifierContext", Text),
    ("retry", Flag),
    ("sessionTitle", Text),
    ("suppressOriginalPrompt", Flag),
    ("initialUserMessage", Text),
    ("watchPaths", List),
    ("reloadSkills", Flag),
    ("displayContent", Text),
];

const BEFORE_A_CALL: [Member; 1] = [("permissionDecision", OneOf(&["allow", "deny", "ask", "defer"]))];
const BEFORE_A_MODEL: [Member; 1] = [("permissionDecision", OneOf(&["allow", "deny", "ask"]))];
const FOR_A_PERSON: [Member; 1] = [("decision", Object)];
const FOR_A_FORM: [Member; 2] = [
    ("action", OneOf(&["accept", "decline", "cancel"])),
    ("content", Object),
];

/// The members of the decision of a `PermissionRequest` hook.
const DECISION: [Member; 5] = [
    ("behavior", OneOf(&["allow", "deny"])),
    ("updatedInput", Object),
    ("updatedPermissions", List),
    ("message", Text),
    ("interrupt", Flag),
];

impl Form {
    fn fits(self, value: &str) -> bool {
        match self {
            Text => value.starts_with('"'),
            Flag => json::boolean(value).is_some(),
            Object => json::is_object(value),
            List => value.starts_with('['),
            OneOf(known) => json::string(value).is_some_and(|value| known.contains(&value.as_ref())),
        }
    }

    fn words(self) -> String {
        match self {
            Text => "a text".to_owned(),
            Flag => "true or false".to_owned(),
            Object => "an object".to_owned(),
            List => "a list".to_owned(),
            OneOf(known) => format!("one of {}", known.join(", ")),
        }
    }
}

/// Checks an output for this event.
///
/// # Errors
/// The CLI would drop it.
pub(super) fn check(event: &str, output: &str) -> Result<(), BadAnswer> {
    if is_put_off(output) {
        // It says that the hook decides nothing.
        return Ok(());
    }
    check_members(output, &OUTPUT)?;
    let Some([Some(specific)]) = json::members(output, [SPECIFIC]) else {
        return Ok(());
    };
    let names_event = json::members(specific, [EVENT])
        .and_then(|[named]| json::string(named?))
        .is_some_and(|named| named == event);
    if !names_event {
        return Err(BadAnswer::OtherEvent(event.to_owned()));
    }
    check_members(specific, &ANYWHERE)?;
    match event {
        "PreToolUse" | "PreSkillShellCommand" => check_members(specific, &BEFORE_A_CALL),
        "PreModelSwitch" => check_members(specific, &BEFORE_A_MODEL),
        "Elicitation" | "ElicitationResult" => check_members(specific, &FOR_A_FORM),
        "PermissionRequest" => {
            check_members(specific, &FOR_A_PERSON)?;
            match json::members(specific, ["decision"]) {
                Some([Some(decision)]) => check_members(decision, &DECISION),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Whether the hook goes on by itself while the CLI does not wait: such an output decides nothing.
pub(super) fn is_put_off(output: &str) -> bool {
    json::members(output, ["async"]).is_some_and(|[put_off]| put_off == Some("true"))
}

fn check_members(object: &str, known: &[Member]) -> Result<(), BadAnswer> {
    let mut unfit = None;
    json::for_each_member(object, |name, value| {
        let form = known.iter().find(|(known, _)| *known == name);
        if let (None, Some((name, form))) = (&unfit, form)
            && !form.fits(value)
        {
            unfit = Some(BadAnswer::UnfitMember {
                name,
                needs: form.words(),
            });
        }
    });
    unfit.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output with these members for the event.
    fn of(event: &str, members: &str) -> String {
        format!(r#"{{"hookSpecificOutput":{{"hookEventName":"{event}",{members}}}}}"#)
    }

    /// Each was given to the real CLI as the answer to a hook, which ran the call as if nothing had been said.
    #[test]
    fn an_output_that_the_cli_drops_is_refused() {
        let deny = r#""permissionDecision":"deny""#;
        let with = |member: &str| of("PreToolUse", deny).replacen('{', &format!("{{{member},"), 1);
        let mut outputs = vec![
            r#"{"decision":"deny"}"#.to_owned(),
            r#"{"hookSpecificOutput":{"permissionDecision":"deny"}}"#.to_owned(),
            r#"{"decision":"block","hookSpecificOutput":{"additionalContext":"x"}}"#.to_owned(),
            r#"{"hookSpecificOutput":null}"#.to_owned(),
            of("PostToolUse", deny),
            of("PreToolUse", r#""permissionDecision":"allow","updatedInput":"x""#),
        ];
        for value in [r#""Deny""#, r#""denied""#, "null", "true"] {
            outputs.push(of("PreToolUse", &format!(r#""permissionDecision":{value}"#)));
        }
        for member in [
            r#""decision":null"#,
            r#""continue":null"#,
            r#""continue":"no""#,
            r#""systemMessage":5"#,
            r#""reason":null"#,
        ] {
            outputs.push(with(member));
        }
        for member in [
            r#""permissionDecisionReason":null"#,
            r#""permissionDecisionReason":7"#,
            r#""updatedInput":null"#,
        ] {
            outputs.push(of("PreToolUse", &format!("{deny},{member}")));
        }
        for output in outputs {
            assert!(check("PreToolUse", &output).is_err(), "{output}");
        }
        for decision in [
            r#"{"behavior":"Allow"}"#,
            r#"{"behavior":"allow","updatedInput":"x"}"#,
            "null",
        ] {
            let output = of("PermissionRequest", &format!(r#""decision":{decision}"#));
            assert!(check("PermissionRequest", &output).is_err(), "{output}");
        }
        let said = check("PreToolUse", &of("PreToolUse", r#""permissionDecision":"Deny""#)).unwrap_err();
        assert_eq!(
            said.to_string(),
            "permissionDecision must be one of allow, deny, ask, defer"
        );
    }

    #[test]
    fn an_output_that_the_cli_heeds_passes() {
        for (event, output) in [
            ("PreToolUse", "{}".to_owned()),
            (
                "PreToolUse",
                r#"{"decision":"approve","continue":false,"stopReason":"x"}"#.to_owned(),
            ),
            (
                "PreToolUse",
                of("PreToolUse", r#""permissionDecision":"defer","brandNew":null"#),
            ),
            ("PreToolUse", r#"{"async":false,"brandNew":[null]}"#.to_owned()),
            // The CLI does not wait for it, and takes nothing else of it.
            (
                "PreToolUse",
                r#"{"async":true,"asyncTimeout":5,"decision":"deny"}"#.to_owned(),
            ),
            (
                "PermissionRequest",
                of(
                    "PermissionRequest",
                    r#""decision":{"behavior":"deny","message":"no"}"#,
                ),
            ),
            ("Elicitation", of("Elicitation", r#""action":"cancel""#)),
            (
                "UserPromptSubmit",
                of("UserPromptSubmit", r#""additionalContext":"x""#),
            ),
            ("BrandNew", of("BrandNew", r#""decision":"maybe""#)),
        ] {
            assert_eq!(check(event, &output), Ok(()), "{output}");
        }
    }
}
