//! Owns which members an answer always has: a member without a value is `null`, and only the few that are named here are
//! left out.

use utoipa::openapi::{Components, RefOr, Schema};

/// The schemas of answers, and the members of each that may be left out.
const ANSWERS: [(&str, &[&str]); 49] = [
    ("Account", &[]),
    ("AccountRateLimit", &[]),
    ("Activity", &[]),
    ("ApiRetry", &[]),
    ("Approval", &[]),
    ("ApprovalPage", &[]),
    ("ApprovalSummary", &[]),
    ("AttentionState", &[]),
    ("Cli", &[]),
    ("CliStatus", &[]),
    (
        "ConversationItem",
        &["copied", "message_id", "parent_tool_use_id", "synthetic"],
    ),
    ("ConversationPage", &["next_before"]),
    ("DaemonConfiguration", &[]),
    ("EventPage", &["missing", "next_before"]),
    ("FileBefore", &[]),
    ("FindHit", &["parent_tool_use_id"]),
    ("FindPage", &["missing"]),
    ("Finding", &[]),
    ("LastLine", &[]),
    ("ModelUsage", &[]),
    ("PutOff", &[]),
    ("QueuedPrompt", &[]),
    ("RateLimit", &[]),
    ("RateLimitList", &[]),
    ("Readiness", &[]),
    ("Resolution", &[]),
    ("RuleVerdict", &[]),
    ("Run", &[]),
    ("RunExit", &["spawn_error", "stop_steps"]),
    ("RunPage", &[]),
    ("SendReply", &["result", "turn"]),
    ("Session", &["outcome", "prompt_uuid"]),
    ("SessionPage", &[]),
    ("SubAgent", &[]),
    ("Task", &[]),
    ("TaskList", &[]),
    ("TaskUsage", &[]),
    ("TodoEntry", &[]),
    ("TodoList", &[]),
    ("TokenUsage", &[]),
    ("Turn", &[]),
    ("TurnPage", &[]),
    ("TurnResult", &[]),
    ("Usage", &[]),
    ("UsagePage", &[]),
    ("WarmStatus", &[]),
    ("MadeWebhook", &[]),
    ("Webhook", &[]),
    ("WebhookTest", &[]),
];

/// Says of each member of an answer that it is there, also where it may be `null`.
pub(super) fn require(components: &mut Components) {
    for (name, left_out) in ANSWERS {
        if let Some(RefOr::T(Schema::Object(object))) = components.schemas.get_mut(name) {
            let members = object.properties.keys();
            let always = members.filter(|member| !left_out.contains(&member.as_str()));
            object.required = always.cloned().collect();
        }
    }
}
