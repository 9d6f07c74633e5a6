//! Owns the acceptance of a plan (`ExitPlanMode`), perhaps edited, perhaps with the mode to go on in.

use serde_json::value::RawValue;

use super::{BadAnswer, permissions::NO_BYPASS, quoted};
use crate::{
    claude::{
        control::{CanUseTool, raw_value},
        options::PermissionMode,
    },
    json,
};

/// The answer that lets the plan be carried out.
///
/// An edited `plan` takes the place of the one that was asked about, which the CLI writes back to its file. Without
/// `next_mode` the CLI goes back to the mode from before the plan.
///
/// # Errors
/// `request` is about no tool, or the session was not made for the mode.
pub fn accept_plan(
    request: &RawValue,
    plan: Option<&str>,
    next_mode: Option<PermissionMode>,
    may_bypass: bool,
) -> Result<Box<RawValue>, BadAnswer> {
    if next_mode == Some(PermissionMode::BypassPermissions) && !may_bypass {
        return Err(BadAnswer::BadPermission {
            place: 0,
            needs: NO_BYPASS,
        });
    }
    let tool = CanUseTool::read(request.get()).ok_or(BadAnswer::NotATool)?;
    let input = match plan {
        Some(plan) => with_plan(tool.input, plan).ok_or(BadAnswer::BadInput)?,
        None => tool.input.to_owned(),
    };
    let permissions = next_mode.map_or_else(String::new, |mode| {
        format!(
            r#","updatedPermissions":[{{"type":"setMode","mode":"{}","destination":"session"}}]"#,
            mode.as_str()
        )
    });
    raw_value(&format!(
        r#"{{"behavior":"allow","updatedInput":{input}{permissions}}}"#
    ))
    .ok_or(BadAnswer::BadInput)
}

/// The input with another plan; all else byte for byte.
fn with_plan(input: &str, plan: &str) -> Option<String> {
    let mut members = Vec::new();
    json::for_each_member(input, |name, value| {
        if name != "plan" {
            members.push(format!("{}:{value}", quoted(name)));
        }
    })?;
    members.push(format!(r#""plan":{}"#, quoted(plan)));
    Some(format!("{{{}}}", members.join(",")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn accepted(input: &str, plan: Option<&str>, mode: Option<PermissionMode>) -> Value {
        let request = format!(r#"{{"subtype":"can_use_tool","tool_name":"ExitPlanMode","input":{input}}}"#);
        let answer = accept_plan(&RawValue::from_string(request).unwrap(), plan, mode, false).unwrap();
        serde_json::from_str(answer.get()).unwrap()
    }

    #[test]
    fn an_edited_plan_takes_the_place_of_the_old_one() {
        let input = r#"{"plan":"old","planFilePath":"/p.md","n":1.50}"#;
        assert_eq!(
            accepted(input, None, None),
            json!({"behavior": "allow", "updatedInput": {"plan": "old", "planFilePath": "/p.md", "n": 1.5}})
        );
        let edited = accepted(input, Some("new \"one\""), Some(PermissionMode::AcceptEdits));
        assert_eq!(
            edited["updatedInput"],
            json!({"planFilePath": "/p.md", "n": 1.5, "plan": "new \"one\""})
        );
        assert_eq!(
            edited["updatedPermissions"],
            json!([{"type": "setMode", "mode": "acceptEdits", "destination": "session"}])
        );
        assert_eq!(
            accepted("{}", Some("x"), None)["updatedInput"],
            json!({"plan": "x"})
        );
    }

    #[test]
    fn what_is_not_the_plan_keeps_its_bytes() {
        let edited = with_plan(r#"{"n":1.50,"plan":"old","x":"\ud800"}"#, "new").unwrap();
        assert_eq!(edited, r#"{"n":1.50,"x":"\ud800","plan":"new"}"#);
    }
}
