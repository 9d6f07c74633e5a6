//! Owns what an approval is made from: the CLI's request at one end, the answer to it at the other. Pure.

use serde_json::value::RawValue;

use crate::{
    claude::{ControlRequest, ControlResponse, glance},
    domain::{Approval, ApprovalId, ApprovalKind, ApprovalState, Resolution, RunId, SessionId, Timestamp},
    journal::RecordRef,
};

/// The approval that a request opens; `None` for a request that needs no person.
pub(super) fn from_request(
    request: &ControlRequest,
    session: SessionId,
    run: RunId,
    record: &RecordRef<'_>,
) -> Option<Approval> {
    let tool = request.can_use_tool()?;
    let kind = match tool.tool_name.as_ref() {
        "AskUserQuestion" => ApprovalKind::Question,
        "ExitPlanMode" => ApprovalKind::Plan,
        _ => ApprovalKind::Tool,
    };
    Some(Approval {
        id: ApprovalId::of_record(session, record.seq),
        run_id: run,
        seq: record.seq,
        request_id: request.request_id.clone(),
        kind,
        tool_name: tool.tool_name.into_owned(),
        request: request.request.clone(),
        requested_at: record.at,
    })
}

/// How an approval ended, by the answer that was written to the CLI.
pub(super) fn resolution_of(answer: ControlResponse, by: &str, at: Timestamp) -> Resolution {
    let response = answer.outcome.ok().flatten();
    let allowed = response
        .as_deref()
        .and_then(|payload: &RawValue| glance::member_text(payload.get(), "behavior"))
        .is_some_and(|behavior| behavior == "allow");
    Resolution {
        state: if allowed {
            ApprovalState::Allowed
        } else {
            ApprovalState::Denied
        },
        by: by.to_owned(),
        response,
        at,
    }
}
