//! Owns `send`: a message to a session, and the wait for its answer.

use std::{
    io::{self, IsTerminal as _, Read as _},
    time::Duration,
};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{
    CliError,
    args::{self, Common},
    client::Client,
    output::{Output, note},
    reach, resolve,
    trouble::{self, Trouble},
    view, waiting,
};
use crate::domain::{RequestId, TurnEnd};

/// How long a command waits for a turn unless it is told.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// `send`
pub(super) async fn send(
    common: &Common,
    client: &Client,
    output: &Output,
    send: &args::Send,
) -> Result<(), CliError> {
    let id = resolve::session(client, &send.session).await?;
    // Without a message, stdin is one.
    let text = read(send.message.as_deref().unwrap_or("-"))?;
    if send.wait {
        let message = Message::new(text);
        return ask(common, output, &id, &message, Duration::from_secs(send.timeout)).await;
    }
    let accepted = post(client, &id, &text).await?;
    if output.is_json() {
        output.value(&accepted)
    } else {
        output.line(view::text(&accepted, &["uuid"]))
    }
}

/// A message with the id by which it is run once, however often it is sent.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) text: String,
    uuid: String,
}

impl Message {
    pub(super) fn new(text: String) -> Self {
        Self {
            text,
            uuid: RequestId::new().to_string(),
        }
    }

    /// As the API takes it.
    pub(super) fn body(&self) -> Value {
        json!({"text": self.text, "uuid": self.uuid})
    }
}

/// The message itself, or stdin for `-`.
pub(super) fn read(message: &str) -> Result<String, CliError> {
    let text = if message == "-" {
        if io::stdin().is_terminal() {
            note("type the message, then Ctrl-D");
        }
        let mut text = String::new();
        io::stdin()
            .lock()
            .read_to_string(&mut text)
            .context("cannot read the message from stdin")?;
        text
    } else {
        message.to_owned()
    };
    if text.trim().is_empty() {
        return Err(CliError::Usage("the message is empty".into()));
    }
    Ok(text)
}

/// Sends a message and does not wait for its answer.
pub(super) async fn post(client: &Client, id: &str, text: &str) -> Result<Value, CliError> {
    client
        .post(&["v1", "sessions", id, "messages"], &json!({"text": text}))
        .await
}

/// Sends a message, waits for the end of its turn and prints the answer.
pub(super) async fn ask(
    common: &Common,
    output: &Output,
    id: &str,
    message: &Message,
    wait: Duration,
) -> Result<(), CliError> {
    let answer = waiting::answer(common, id, message, wait, !output.is_json()).await?;
    if output.is_json() {
        output.value(&answer)?;
    }
    let result = answer.get("result").unwrap_or(&answer);
    if view::at(result, &["is_error"]).and_then(Value::as_bool) == Some(true) {
        let message = turn_error(result);
        let hint = trouble::advice(&message);
        return Err(CliError::Agent { message, hint });
    }
    if view::text(&answer, &["turn", "outcome"]) == "blocked" {
        return Err(CliError::Agent {
            message: blocked(result),
            hint: None,
        });
    }
    let client = Client::new(&reach::address(common).await?)?;
    if view::text(&answer, &["turn", "outcome"]) == TurnEnd::CUT_SHORT {
        return Err(cut_short(&client, id).await);
    }
    if output.is_json() {
        return Ok(());
    }
    output.line(&waiting::said(&client, id, &answer).await)
}

/// The end of a wait for a turn whose process ended first: half an answer is none.
async fn cut_short(client: &Client, id: &str) -> CliError {
    // A session that cannot be asked says nothing of the reason.
    let session = client.get(&["v1", "sessions", id], &[]).await.unwrap_or_default();
    let trouble = Trouble::of(&session);
    let why = match (&trouble, view::text(&session, &["state"])) {
        (Some(trouble), _) => trouble.told(),
        (None, "stopped") => "the session was stopped before the agent was done".to_owned(),
        (None, _) => "the agent CLI ended before it was done".to_owned(),
    };
    let shown = format!("`trunkline attach {id}` shows how far it came");
    CliError::Agent {
        message: format!("the turn was cut short: {why}"),
        hint: Some(trouble.map_or(shown, |trouble| trouble.advice(id))),
    }
}

/// Why nothing was answered, in the agent's words.
fn blocked(result: &Value) -> String {
    match view::text(result, &["result"]).trim() {
        "" => "a hook blocked the message: nothing was answered".into(),
        words => format!("a hook blocked the message: {words}"),
    }
}

/// Why a turn failed, in the agent's words.
pub(super) fn turn_error(result: &Value) -> String {
    let errors: Vec<&str> = view::list(result, &["errors"])
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let reason = view::text(result, &["terminal_reason"]);
    match (view::text(result, &["result"]), errors.as_slice()) {
        ("", _) if reason.starts_with("aborted") => "the turn was interrupted".into(),
        ("", []) => format!("the turn failed: {}", view::text(result, &["subtype"])),
        ("", errors) => format!("the turn failed: {}", errors.join("; ")),
        (text, _) => format!("the turn failed: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_failed_turn_is_told() {
        let aborted =
            json!({"is_error": true, "terminal_reason": "aborted_tools", "errors": ["[ede_diagnostic] x"]});
        assert_eq!(turn_error(&aborted), "the turn was interrupted");
        let limit = json!({"is_error": true, "subtype": "error_max_turns"});
        assert_eq!(turn_error(&limit), "the turn failed: error_max_turns");
        let api = json!({"is_error": true, "result": "API Error: 401"});
        assert_eq!(turn_error(&api), "the turn failed: API Error: 401");
    }

    #[test]
    fn an_empty_message_is_refused_here() {
        assert!(matches!(read(" \n"), Err(CliError::Usage(_))));
        assert_eq!(read("-x").unwrap(), "-x");
    }
}
