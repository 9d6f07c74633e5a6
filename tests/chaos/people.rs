//! Owns what people do: they send prompts and send them again when no answer comes, and they decide approvals.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    client::Address,
    plan::Prompt,
    support::{rest::Rest, wait::pass},
};

/// How long somebody waits before the next try.
const RETRY: Duration = Duration::from_millis(100);
/// How long one request may take: a frozen daemon does not answer.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// What became of a prompt that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) session: usize,
    pub(crate) uuid: String,
    pub(crate) text: String,
    /// Its record, if it was taken.
    pub(crate) seq: Option<u64>,
}

/// Sends a prompt at its time, until it is taken or refused.
pub(crate) async fn send(address: watch::Receiver<Address>, id: String, prompt: Prompt) -> Sent {
    pass(Duration::from_millis(prompt.at_ms)).await;
    let body = json!({ "text": prompt.text, "uuid": prompt.uuid });
    let mut sent = Sent {
        session: prompt.session,
        uuid: prompt.uuid,
        text: prompt.text,
        seq: None,
    };
    loop {
        let rest = address.borrow().rest.clone();
        match post(&rest, &format!("/v1/sessions/{id}/messages"), &body).await {
            Some((202, reply)) => {
                assert_eq!(reply["uuid"], sent.uuid, "{reply:#}");
                sent.seq = Some(
                    reply["seq"]
                        .as_u64()
                        .unwrap_or_else(|| panic!("no seq: {reply:#}")),
                );
                return sent;
            }
            Some((status, problem)) if problem["retryable"] != true => match problem["code"].as_str() {
                // It is at rest.
                Some("session_not_live") => return sent,
                // It ended meanwhile, and what became of the prompt is not known.
                Some("session_ended") => {}
                _ => panic!("a prompt gets {status}: {problem:#}"),
            },
            Some(_) | None => {}
        }
        pass(RETRY).await;
    }
}

/// Asks what became of a prompt that has no answer; says what is wrong if that cannot be learned.
pub(crate) async fn ask_after(rest: &Rest, id: &str, prompt: &Sent) -> Option<String> {
    let path = format!("/v1/sessions/{id}/messages?wait=result&timeout_ms=2000");
    let body = json!({ "text": prompt.text, "uuid": prompt.uuid });
    let (status, told) = post(rest, &path, &body).await?;
    let code = told["code"].as_str().unwrap_or_default();
    let is_told = ["prompt_dropped", "prompt_not_open", "session_not_live"].contains(&code)
        || (status == 200 && told["turn"]["subtype"] == "interrupted");
    (!is_told).then(|| {
        format!(
            "prompt {} was not answered, and who asks after it gets {status}: {told:#}",
            prompt.uuid
        )
    })
}

/// Has a session parked, if it can be.
pub(crate) async fn park(address: watch::Receiver<Address>, id: String) {
    let rest = address.borrow().rest.clone();
    // A refusal is as good as an answer that does not come.
    post(&rest, &format!("/v1/sessions/{id}/park"), &json!({})).await;
}

/// Decides all approvals, on and on. How is a function of what is asked.
pub(crate) async fn decide_all(address: watch::Receiver<Address>) {
    loop {
        pass(RETRY).await;
        let rest = address.borrow().rest.clone();
        let list = rest.builder(Method::GET, "/v1/approvals?state=pending");
        let Ok(reply) = list.timeout(REQUEST_LIMIT).send().await else {
            continue;
        };
        let Ok(list) = reply.json::<Value>().await else {
            continue;
        };
        for approval in list["items"].as_array().into_iter().flatten() {
            let (Some(session), Some(id)) = (approval["session_id"].as_str(), approval["id"].as_str()) else {
                panic!("an approval without ids: {approval:#}");
            };
            let asked = approval["request"]["input"].to_string();
            let sum: u32 = asked.bytes().map(u32::from).sum();
            let decision = if sum.is_multiple_of(4) {
                json!({ "decision": "deny", "message": "Not now." })
            } else {
                json!({ "decision": "allow" })
            };
            let path = format!("/v1/sessions/{session}/approvals/{id}");
            match post(&rest, &path, &decision).await {
                Some((status, problem)) if status >= 400 && problem["retryable"] != true => {
                    let code = problem["code"].as_str().unwrap_or_default();
                    // Its process ended, or an answer that got lost had arrived.
                    let is_late = [
                        "already_decided",
                        "approval_not_pending",
                        "session_ended",
                        "session_not_live",
                    ];
                    assert!(is_late.contains(&code), "a decision gets {status}: {problem:#}");
                }
                _ => {}
            }
        }
    }
}

/// Status and body, or nothing when no answer came.
async fn post(rest: &Rest, path: &str, body: &Value) -> Option<(u16, Value)> {
    let request = rest.builder(Method::POST, path).json(body).timeout(REQUEST_LIMIT);
    let reply = request.send().await.ok()?;
    let status = reply.status().as_u16();
    Some((status, reply.json().await.ok()?))
}
