//! Owns what the agent's program holds back for a person, and whether a rule says that it decides that too.

use serde_json::Value;

use super::{Asked, Input};
use crate::domain::ApprovalKind;

/// The reason of a request that would change how the agent itself is held: settings, hooks, shell profiles.
const SAFETY_CHECK: &str = "safetyCheck";
/// The reason of a command that is to run outside of the sandbox.
const SANDBOX_OVERRIDE: &str = "sandboxOverride";
/// The field of a command's input that asks for that.
const DISABLES_SANDBOX: &str = "dangerouslyDisableSandbox";

/// The reasons for which a request is a person's, unless a rule names them.
pub(super) fn reasons(asked: &Asked) -> Vec<&'static str> {
    if asked.kind != ApprovalKind::Tool {
        return Vec::new();
    }
    let is = |reason| asked.reason_type.as_deref() == Some(reason);
    let safety = (is(SAFETY_CHECK) || asked.has_safety_check).then_some(SAFETY_CHECK);
    let sandbox = (is(SANDBOX_OVERRIDE) || leaves_sandbox(&asked.input)).then_some(SANDBOX_OVERRIDE);
    safety.into_iter().chain(sandbox).collect()
}

/// Whether one of the named reasons is a reason of the request.
pub(super) fn is_one_of(asked: &Asked, named: &[String]) -> bool {
    let is_named = |reason: &str| named.iter().any(|name| name == reason);
    asked.reason_type.as_deref().is_some_and(is_named) || reasons(asked).into_iter().any(is_named)
}

/// The first reason that makes the request a person's and that is not among the named ones.
pub(super) fn unnamed(asked: &Asked, named: Option<&[String]>) -> Option<&'static str> {
    let is_named = |reason: &str| named.is_some_and(|named| named.iter().any(|name| name == reason));
    reasons(asked).into_iter().find(|reason| !is_named(reason))
}

fn leaves_sandbox(input: &Input) -> bool {
    let Input::Fields(fields) = input else {
        return input.may_have(DISABLES_SANDBOX);
    };
    let is_set = |value: &Value| !matches!(value, Value::Bool(false) | Value::Null);
    fields
        .iter()
        .any(|(name, value)| name == DISABLES_SANDBOX && is_set(value))
}
