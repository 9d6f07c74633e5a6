//! Owns what people do: they send prompts and send them again when no answer comes, ask for sessions, decide approvals, and look.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    client::Address,
    plan::{Guest, Prompt},
    support::{rest::Rest, wait::pass},
};

/// How long somebody waits before the next try.
const RETRY: Duration = Duration::from_millis(100);
/// How long one request may take: a frozen daemon does not answer.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// A person who has asked in vain for a session so often tells of it.
const WORTH_TELLING: u32 = 10;
/// Between two looks at all sessions.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The fate of a prompt that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// The session.
    pub(crate) id: String,
    pub(crate) uuid: String,
    pub(crate) text: String,
    /// Whether it was taken.
    pub(crate) taken: bool,
    /// Its record, if the answer told.
    pub(crate) seq: Option<u64>,
}

/// The fate of the wish for a session.
#[derive(Clone, Debug)]
pub(crate) enum Made {
    /// There is one; the answer.
    Yes(Value),
    /// There is none, for this reason.
    No(String),
    /// The daemon died over it, and does not know.
    Unknown,
}

/// Sends a prompt at its time, until it is taken or refused.
pub(crate) async fn send(address: watch::Receiver<Address>, id: String, prompt: Prompt) -> Sent {
    pass(Duration::from_millis(prompt.at_ms)).await;
    let body = json!({ "text": prompt.text, "uuid": prompt.uuid });
    let mut sent = Sent {
        id: id.clone(),
        uuid: prompt.uuid,
        text: prompt.text,
        taken: false,
        seq: None,
    };
    let mut may_resume = prompt.resumes;
    loop {
        let rest = address.borrow().rest.clone();
        match post(&rest, &format!("/v1/sessions/{id}/messages"), &body).await {
            Some((202, reply)) => {
                assert_eq!(reply["uuid"], sent.uuid, "{reply:#}");
                sent.taken = true;
                sent.seq = Some(
                    reply["seq"]
                        .as_u64()
                        .unwrap_or_else(|| panic!("no seq: {reply:#}")),
                );
                return sent;
            }
            Some((status, problem)) if problem["retryable"] != true => match problem["code"].as_str() {
                // It is at rest, and may have been taken out of it by somebody else meanwhile.
                Some("session_not_live") if may_resume => {
                    may_resume = false;
                    ask_for(&address, &id, "resume").await;
                }
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
    let is_told = ["prompt_dropped", "prompt_not_pending", "session_not_live"].contains(&code)
        || (status == 200 && told["turn"]["subtype"] == "interrupted");
    (!is_told).then(|| {
        format!(
            "prompt {} was not answered, and who asks after it gets {status}: {told:#}",
            prompt.uuid
        )
    })
}

/// Asks for `verb` once. A refusal is as good as an answer that does not come.
pub(crate) async fn ask_for(address: &watch::Receiver<Address>, id: &str, verb: &str) {
    let rest = address.borrow().rest.clone();
    post(&rest, &format!("/v1/sessions/{id}/{verb}"), &json!({})).await;
}

/// Asks for a session until there is an answer: the key keeps it from being made twice.
pub(crate) async fn make(
    address: watch::Receiver<Address>,
    path: String,
    mut body: Value,
    guest: Guest,
) -> (Guest, Made) {
    body["title"] = json!(guest.title);
    if let Some((uuid, text)) = &guest.prompt {
        body["prompt"] = json!({ "uuid": uuid, "text": text });
    }
    let mut tries = 0;
    let mut first_losses = None;
    loop {
        let Address { rest, losses, .. } = address.borrow().clone();
        // Another daemon does not know the key any more, so what became of the try that got no answer is not known.
        if *first_losses.get_or_insert(losses) != losses {
            return (guest, Made::Unknown);
        }
        tries += 1;
        let request = rest
            .builder(Method::POST, &path)
            .header("Idempotency-Key", &guest.key);
        let answer = answer(request.json(&body)).await;
        if tries % WORTH_TELLING == 0 {
            println!("try {tries} of {} for {path}: {answer:?}", guest.title);
        }
        let Some((status, reply)) = answer else {
            pass(RETRY).await;
            continue;
        };
        let code = reply["code"].as_str().unwrap_or_default().to_owned();
        match (status, code.as_str()) {
            (201, _) => return (guest, Made::Yes(reply)),
            (_, "outcome_unknown") => return (guest, Made::Unknown),
            (_, "idempotency_in_progress") => {}
            // The answer is kept, so it does not help to ask again.
            _ if reply["side_effect_possible"] == true => return (guest, Made::Unknown),
            _ if reply["retryable"] == true => {}
            _ => return (guest, Made::No(format!("{status} {code}: {}", reply["detail"]))),
        }
        pass(RETRY).await;
    }
}

/// Sends a prompt again that was answered long ago: it is known by its id, and nothing runs.
pub(crate) async fn send_again(rest: &Rest, id: &str, prompt: &Sent, seqs: &[u64]) -> Option<String> {
    let body = json!({ "text": prompt.text, "uuid": prompt.uuid });
    let (status, told) = post(rest, &format!("/v1/sessions/{id}/messages"), &body).await?;
    let is_known = status == 202
        && told["repeated"] == true
        && told["seq"].as_u64().is_some_and(|seq| seqs.contains(&seq));
    (!is_known).then(|| {
        format!(
            "prompt {} is record {seqs:?} and was answered, and who sends it again gets {status}: {told:#}",
            prompt.uuid
        )
    })
}

/// Looks at all sessions, on and on: what waits for a restart says so.
pub(crate) async fn look_at_all(address: watch::Receiver<Address>) {
    loop {
        pass(LOOK_EVERY).await;
        let rest = address.borrow().rest.clone();
        let Some((200, list)) = answer(rest.builder(Method::GET, "/v1/sessions?limit=200")).await else {
            continue;
        };
        for view in list["items"].as_array().into_iter().flatten() {
            let open = view["open_prompts"].as_array().into_iter().flatten();
            let mut unmarked = open.filter(|prompt| prompt["state"] != "queued");
            assert!(
                view["restart"].is_null() || unmarked.next().is_none(),
                "what waits for a restart is not marked as queued: {view:#}"
            );
        }
    }
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
    answer(rest.builder(Method::POST, path).json(body)).await
}

/// The same of any request.
async fn answer(request: RequestBuilder) -> Option<(u16, Value)> {
    let reply = request.timeout(REQUEST_LIMIT).send().await.ok()?;
    let status = reply.status().as_u16();
    Some((status, reply.json().await.ok()?))
}
