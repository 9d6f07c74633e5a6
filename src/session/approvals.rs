//! Owns what an approval is made from: the CLI's request at one end, the answer to it at the other. Pure.

use std::fmt::Write as _;

use serde_json::value::RawValue;

use crate::{
    claude::{
        BadAnswer, ControlRequest, ControlResponse,
        answer::{self, Behavior, ElicitationAction, HookBehavior, HookVerdict},
        control::{CanUseTool, Fields},
        denials::Denial,
        facts::DeferredCall,
    },
    domain::{
        Approval, ApprovalHow, ApprovalId, ApprovalKind, ApprovalState, Resolution, RunId, SessionId,
        Timestamp,
    },
    journal::RecordRef,
    json,
};

use super::{desk::Asked, handle::Decision, large, machine::digest};

/// The kind of approval that the use of a tool needs.
pub fn kind_of_tool(name: &str) -> ApprovalKind {
    match name {
        "AskUserQuestion" => ApprovalKind::Question,
        "ExitPlanMode" => ApprovalKind::Plan,
        _ => ApprovalKind::Tool,
    }
}

/// The approval that a request opens; `None` for a request that needs no person.
pub(super) fn from_request(
    request: &ControlRequest,
    session: SessionId,
    run: RunId,
    record: &RecordRef<'_>,
) -> Option<Approval> {
    let whole = request.request.get();
    let (kind, subject, asked) = match request.subtype.as_str() {
        "can_use_tool" => {
            let tool = request.can_use_tool()?;
            (
                kind_of_tool(&tool.tool_name),
                tool.tool_name.into_owned(),
                tool.input,
            )
        }
        "elicitation" => {
            let server = json::member_text(whole, "mcp_server_name").unwrap_or_default();
            (ApprovalKind::Elicitation, server, whole)
        }
        "request_user_dialog" => {
            let kind = json::member_text(whole, "dialog_kind")?;
            (ApprovalKind::Dialog, kind, whole)
        }
        _ => return None,
    };
    Some(Approval {
        id: ApprovalId::of_record(session, record.seq),
        run_id: run,
        seq: record.seq,
        request_id: request.request_id.clone(),
        kind,
        subject,
        request: request.request.clone(),
        left_out: None,
        input_sha256: Some(sha256(asked)),
        requested_at: record.at,
        deadline: None,
        rule: None,
    })
}

/// The call of a tool that an approval is about.
pub(super) fn call_of(approval: &Approval) -> Option<String> {
    json::member_text(approval.request.get(), "tool_use_id")
}

/// The request id of the approval of a call that was put off. The CLI has none: it asks its hook, under an id of that.
pub(super) fn deferred_id(call: &str) -> String {
    format!("deferred:{call}")
}

/// The request about a call that was put off, in the form of the CLI's own.
pub(super) fn deferred_request(call: &DeferredCall) -> Box<RawValue> {
    let mut request = Fields::new();
    request.set("subtype", "deferred_tool_use");
    request.set("tool_name", &call.name);
    request.set_raw("input", call.input.clone());
    request.set("tool_use_id", &call.id);
    request.to_object().unwrap_or_else(|| call.input.clone())
}

/// The approval of a call that a hook put off.
pub(super) fn of_deferred(
    call: &DeferredCall,
    session: SessionId,
    run: RunId,
    record: &RecordRef<'_>,
) -> Approval {
    Approval {
        id: ApprovalId::of_record(session, record.seq),
        run_id: run,
        seq: record.seq,
        request_id: deferred_id(&call.id),
        kind: ApprovalKind::Deferred,
        subject: call.name.clone(),
        request: deferred_request(call),
        left_out: None,
        input_sha256: Some(sha256(call.input.get())),
        requested_at: record.at,
        deadline: None,
        rule: None,
    }
}

/// The call that a hook's answer puts off, and what the log says of it if the CLI drops it.
pub(super) fn of_put_off(
    asked: &Asked,
    answer: &ControlResponse,
    session: SessionId,
    run: RunId,
) -> Option<(String, Approval)> {
    let output = answer.outcome.as_ref().ok()?.as_deref()?;
    if !answer::puts_off(asked.about.hook_event()?, output.get()) {
        return None;
    }
    let id = asked.about.call()?;
    let given = json::member(asked.request.request.get(), "input")?;
    let name = json::member_text(given, "tool_name")?;
    let input = json::member(given, "tool_input").unwrap_or("{}");
    let mut request = Fields::new();
    request.set("subtype", "deferred_tool_use");
    request.set("tool_name", &name);
    if input.len() <= large::MOST_BYTES {
        request.set_raw("input", RawValue::from_string(input.to_owned()).ok()?);
    }
    request.set("tool_use_id", id);
    let approval = Approval {
        // The hook may have changed the call as well, and that entry has the id of the record.
        id: ApprovalId::of_part(session, asked.seq, 0),
        run_id: run,
        seq: asked.seq,
        request_id: deferred_id(id),
        kind: ApprovalKind::Deferred,
        subject: name,
        request: request.to_object()?,
        left_out: None,
        input_sha256: Some(sha256(input)),
        requested_at: asked.at,
        deadline: None,
        rule: None,
    };
    Some((id.to_owned(), approval))
}

/// The hook's answer to a call that it is asked about again, for the person who decided.
fn deferred_output(approval: &Approval, decision: &Decision) -> Result<Box<RawValue>, BadAnswer> {
    let wrong = || BadAnswer::WrongKind("allow, with updated_input, or deny");
    // The checks of any other tool hold for this one.
    let answer = match decision {
        Decision::Allow {
            updated_permissions: Some(_),
            ..
        } => return Err(wrong()),
        Decision::Allow { updated_input, .. } => {
            answer::allow(&approval.request, updated_input.as_deref(), None, false)?
        }
        Decision::Deny { message, interrupt } => answer::deny(message.as_deref(), *interrupt)?,
        Decision::Raw(raw) => answer::complete_answer(&approval.request, raw, false)?,
        Decision::Fail(message) => answer::deny(Some(message), false)?,
        _ => return Err(wrong()),
    };
    let of = |name: &str| {
        json::member(answer.get(), name).and_then(|raw| RawValue::from_string(raw.to_owned()).ok())
    };
    let mut output = Fields::new();
    output.set("hookEventName", "PreToolUse");
    match answer::behavior(&answer) {
        Some(Behavior::Allow) => {
            output.set("permissionDecision", "allow");
            if let Some(input) = of("updatedInput") {
                output.set_raw("updatedInput", input);
            }
        }
        Some(Behavior::Deny) | None => {
            output.set("permissionDecision", "deny");
            if let Some(message) = of("message") {
                output.set_raw("permissionDecisionReason", message);
            }
        }
    }
    let mut hook = Fields::new();
    if json::member_bool(answer.get(), "interrupt") == Some(true) {
        hook.set("continue", &false);
    }
    hook.set_raw("hookSpecificOutput", output.to_object().ok_or_else(wrong)?);
    hook.to_object().ok_or_else(wrong)
}

/// The answer that the CLI gets. `may_bypass` says whether the session may come into the mode `bypassPermissions`.
pub(super) fn complete(
    approval: &Approval,
    decision: &Decision,
    may_bypass: bool,
) -> Result<Box<RawValue>, BadAnswer> {
    use ApprovalKind as Kind;
    let request = &approval.request;
    match (approval.kind, decision) {
        (Kind::Tool | Kind::Question | Kind::Plan, Decision::Raw(raw)) => {
            answer::complete_answer(request, raw, may_bypass)
        }
        (Kind::Elicitation, Decision::Raw(raw)) => answer::complete_elicitation(request, raw),
        (Kind::Dialog, Decision::Raw(raw)) => answer::complete_dialog_answer(raw),
        (
            Kind::Tool | Kind::Question | Kind::Plan,
            Decision::Allow {
                updated_input,
                updated_permissions,
            },
        ) => answer::allow(
            request,
            updated_input.as_deref(),
            updated_permissions.as_deref(),
            may_bypass,
        ),
        (Kind::Tool | Kind::Question | Kind::Plan, Decision::Deny { message, interrupt }) => {
            answer::deny(message.as_deref(), *interrupt)
        }
        (Kind::Plan, Decision::Plan { plan, next_mode }) => {
            answer::accept_plan(request, plan.as_deref(), *next_mode, may_bypass)
        }
        (Kind::Question, Decision::Answers(answers)) => answer::answer_questions(request, answers),
        (Kind::Elicitation, Decision::Accept(content)) => {
            answer::answer_elicitation(request, ElicitationAction::Accept, content.as_deref())
        }
        (Kind::Tool | Kind::Question | Kind::Plan, Decision::Fail(message)) => {
            answer::deny(Some(message), false)
        }
        (Kind::Dialog, Decision::Fail(_)) => answer::cancel_dialog(),
        (Kind::Elicitation, Decision::Fail(_) | Decision::Decline) => {
            answer::answer_elicitation(request, ElicitationAction::Decline, None)
        }
        (Kind::Elicitation, Decision::Cancel) => {
            answer::answer_elicitation(request, ElicitationAction::Cancel, None)
        }
        (Kind::Dialog, Decision::Complete(result)) => answer::complete_dialog(result),
        (Kind::Dialog, Decision::Cancel) => answer::cancel_dialog(),
        (Kind::Deferred, decision) => deferred_output(approval, decision),
        (kind, _) => Err(BadAnswer::WrongKind(match kind {
            Kind::Tool | Kind::Deferred => "allow or deny",
            Kind::Question => "answer, allow or deny",
            Kind::Plan => "allow, with plan and next_mode, or deny",
            Kind::Elicitation => "accept, decline or cancel",
            Kind::Dialog => "complete or cancel",
            Kind::Hook => "no decision",
        })),
    }
}

/// How an approval ended, by the answer that was written to the CLI.
pub(super) fn resolution_of(
    approval: &Approval,
    answer: ControlResponse,
    by: &str,
    at: Timestamp,
) -> Resolution {
    let response = answer.outcome.ok().flatten();
    let given = response.as_deref();
    let state = match approval.kind {
        ApprovalKind::Tool | ApprovalKind::Question | ApprovalKind::Plan | ApprovalKind::Deferred => {
            match given.and_then(answer::behavior) {
                Some(Behavior::Allow) => ApprovalState::Allowed,
                Some(Behavior::Deny) | None => ApprovalState::Denied,
            }
        }
        ApprovalKind::Elicitation => match given.and_then(ElicitationAction::of) {
            Some(ElicitationAction::Accept) => ApprovalState::Allowed,
            Some(ElicitationAction::Decline) => ApprovalState::Denied,
            Some(ElicitationAction::Cancel) | None => ApprovalState::Cancelled,
        },
        ApprovalKind::Dialog | ApprovalKind::Hook => {
            let behavior = given.and_then(|payload| json::member_text(payload.get(), "behavior"));
            if behavior.as_deref() == Some("completed") {
                ApprovalState::Allowed
            } else {
                ApprovalState::Cancelled
            }
        }
    };
    let allowed_tool = given.zip(CanUseTool::read(approval.request.get()));
    let allowed_tool = allowed_tool.filter(|_| state == ApprovalState::Allowed);
    Resolution {
        state,
        how: ApprovalHow::of_answer(by),
        by: by.to_owned(),
        input_changed: allowed_tool
            .as_ref()
            .and_then(|(given, tool)| Some((json::member(given.get(), "updatedInput")?, tool.input)))
            .is_some_and(|(given, asked)| {
                let (left_out, sha256) = (approval.left_out.as_deref(), approval.input_sha256.as_deref());
                large::is_other_input(asked, left_out, sha256, given)
            }),
        ran_sha256: allowed_tool.as_ref().map(|(given, tool)| {
            match (json::member(given.get(), "updatedInput"), &approval.input_sha256) {
                (Some(given), _) => sha256(given),
                (None, Some(asked)) => asked.clone(),
                (None, None) => sha256(tool.input),
            }
        }),
        permissions_updated: allowed_tool.is_some_and(|(given, _)| answer::updates_permissions(given)),
        response,
        at,
    }
}

/// The entry of a call that the CLI denied by itself, at this place among those of its record.
pub(super) fn of_denial(
    denial: Denial,
    session: SessionId,
    run: RunId,
    record: &RecordRef<'_>,
    place: usize,
) -> (Approval, Resolution) {
    let approval = Approval {
        id: ApprovalId::of_part(session, record.seq, place),
        run_id: run,
        seq: record.seq,
        request_id: denial.tool_use_id,
        kind: kind_of_tool(&denial.tool),
        subject: denial.tool,
        input_sha256: denial.input.map(|input| sha256(input.get())),
        request: denial.said,
        left_out: None,
        requested_at: record.at,
        deadline: None,
        rule: None,
    };
    let resolution = unanswered(ApprovalState::Denied, ApprovalHow::Cli, "cli", record.at);
    (approval, resolution)
}

/// The entry of a hook that decided or changed something; `None` for one without an opinion.
pub(super) fn of_hook(
    asked: &Asked,
    answer: &ControlResponse,
    session: SessionId,
    run: RunId,
    record: &RecordRef<'_>,
) -> Option<(Approval, Resolution)> {
    let event = asked.about.hook_event()?;
    let output = answer.outcome.as_ref().ok()?.as_deref()?;
    let verdict = HookVerdict::read(event, output.get())?;
    let request = &asked.request;
    let whole = request.request.get();
    let input = json::member(whole, "input")?;
    let changed = verdict.replaced.iter().find(|(member, updated)| {
        json::member(input, member).is_none_or(|given| answer::is_other_input(given, updated))
    });
    let state = match verdict.behavior {
        Some(HookBehavior::Allow) => ApprovalState::Allowed,
        Some(HookBehavior::Deny) => ApprovalState::Denied,
        Some(HookBehavior::Cancel) => ApprovalState::Cancelled,
        None if changed.is_some() => ApprovalState::Changed,
        None => return None,
    };
    let goes_on = matches!(state, ApprovalState::Allowed | ApprovalState::Changed);
    let member = |name| json::member(input, name);
    // Calls and their results are compared by themselves; all else by the whole request.
    let (kind, subject, of) = if answer::decides_call(event) {
        let tool = json::member_text(input, "tool_name")?;
        (
            kind_of_tool(&tool),
            tool,
            Some(member("tool_input").unwrap_or("{}")),
        )
    } else if let Some(server) = json::member_text(input, "mcp_server_name") {
        (ApprovalKind::Elicitation, server, None)
    } else {
        (ApprovalKind::Hook, event.to_owned(), member("tool_response"))
    };
    let updated = verdict.replaced.first().map(|(_, updated)| *updated);
    let ran = of.filter(|_| goes_on).map(|of| sha256(updated.unwrap_or(of)));
    let approval = Approval {
        id: ApprovalId::of_record(session, asked.seq),
        run_id: run,
        seq: asked.seq,
        request_id: request.request_id.clone(),
        kind,
        subject,
        request: request.request.clone(),
        left_out: None,
        input_sha256: Some(sha256(of.unwrap_or(whole))),
        requested_at: asked.at,
        deadline: None,
        rule: None,
    };
    let resolution = Resolution {
        state,
        how: ApprovalHow::Hook,
        by: record.by.unwrap_or("daemon").to_owned(),
        response: Some(output.to_owned()),
        input_changed: changed.is_some_and(|(member, _)| *member == "tool_input") && goes_on,
        permissions_updated: verdict.updates_permissions,
        ran_sha256: ran,
        at: record.at,
    };
    Some((approval, resolution))
}

/// The end of an approval that the CLI took back.
pub(super) fn withdrawn(at: Timestamp) -> Resolution {
    unanswered(ApprovalState::Withdrawn, ApprovalHow::Withdrawal, "cli", at)
}

/// The end of an approval whose process ended.
pub(super) fn abandoned(at: Timestamp) -> Resolution {
    unanswered(ApprovalState::Abandoned, ApprovalHow::Abandonment, "daemon", at)
}

fn unanswered(state: ApprovalState, how: ApprovalHow, by: &str, at: Timestamp) -> Resolution {
    Resolution {
        state,
        how,
        by: by.to_owned(),
        response: None,
        input_changed: false,
        permissions_updated: false,
        ran_sha256: None,
        at,
    }
}

pub(super) fn sha256(text: &str) -> String {
    hex(&digest(text.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
