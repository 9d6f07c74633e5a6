//! Owns `approve` and `deny`, and the JSON of decisions.

use serde_json::{Map, Value, json};

use super::{
    CliError, args,
    client::Client,
    output::{Output, note},
    resolve, view,
};

/// `approve`
pub(super) async fn approve(
    client: &Client,
    output: &Output,
    approve: &args::Approve,
) -> Result<(), CliError> {
    let session = resolve::session(client, &approve.session).await?;
    let approval = resolve::approval(client, &session, approve.approval.as_deref()).await?;
    let questions = questions(&approval);
    let decision = if !questions.is_empty() {
        if approve.answers.len() != questions.len() {
            return Err(CliError::Usage(format!(
                "there {}; give one --answer for each:\n{}",
                match questions.len() {
                    1 => "is one question".to_owned(),
                    count => format!("are {count} questions"),
                },
                questions
                    .iter()
                    .map(describe_question)
                    .collect::<Vec<_>>()
                    .join("\n")
            )));
        }
        answer(
            questions
                .iter()
                .zip(&approve.answers)
                .map(|(question, text)| (question, text.as_str())),
        )
    } else if approve.answers.is_empty() {
        allow(approve.input.as_deref())?
    } else {
        return Err(CliError::Usage("nothing was asked that takes an --answer".into()));
    };
    settle(client, output, &session, &approval, &decision).await
}

/// `deny`
pub(super) async fn deny(client: &Client, output: &Output, deny: &args::Deny) -> Result<(), CliError> {
    let session = resolve::session(client, &deny.session).await?;
    let approval = resolve::approval(client, &session, deny.approval.as_deref()).await?;
    let mut decision = refuse(deny.message.as_deref());
    if deny.interrupt
        && let Value::Object(fields) = &mut decision
    {
        fields.insert("interrupt".into(), true.into());
    }
    settle(client, output, &session, &approval, &decision).await
}

/// Sends a decision.
pub(super) async fn decide(
    client: &Client,
    session: &str,
    approval: &str,
    decision: &Value,
) -> Result<Value, CliError> {
    client
        .post(&["v1", "sessions", session, "approvals", approval], decision)
        .await
}

async fn settle(
    client: &Client,
    output: &Output,
    session: &str,
    approval: &Value,
    decision: &Value,
) -> Result<(), CliError> {
    let decided = decide(client, session, view::text(approval, &["id"]), decision).await?;
    if output.is_json() {
        return output.value(&decided);
    }
    let word = if view::text(decision, &["decision"]) == "deny" {
        "denied"
    } else {
        "allowed"
    };
    note(&format!("{word}: {}", resolve::describe_approval(approval)));
    Ok(())
}

/// Lets the tool run, with another input if one is given.
pub(super) fn allow(input: Option<&str>) -> Result<Value, CliError> {
    let mut fields = Map::new();
    fields.insert("decision".into(), "allow".into());
    if let Some(input) = input {
        match serde_json::from_str(input) {
            Ok(Value::Object(input)) => fields.insert("updated_input".into(), Value::Object(input)),
            _ => return Err(CliError::Usage("--input takes a JSON object".into())),
        };
    }
    Ok(Value::Object(fields))
}

/// Does not let the tool run; the agent is told why.
pub(super) fn refuse(message: Option<&str>) -> Value {
    match message {
        Some(message) => json!({"decision": "deny", "message": message}),
        None => json!({"decision": "deny"}),
    }
}

/// Answers questions, each with what a person typed.
pub(super) fn answer<'a>(typed: impl Iterator<Item = (&'a Value, &'a str)>) -> Value {
    let answers: Map<String, Value> = typed
        .map(|(question, text)| {
            let key = view::text(question, &["question"]).to_owned();
            (key, Value::from(chosen(question, text)))
        })
        .collect();
    json!({"decision": "answer", "answers": answers})
}

/// The questions that an approval asks; none for a tool or a plan.
pub(super) fn questions(approval: &Value) -> Vec<Value> {
    if view::text(approval, &["kind"]) == "question" {
        view::list(approval, &["request", "input", "questions"]).to_vec()
    } else {
        Vec::new()
    }
}

/// A question with its numbered options.
pub(super) fn describe_question(question: &Value) -> String {
    let mut lines = vec![format!("  {}", view::text(question, &["question"]))];
    for (index, option) in view::list(question, &["options"]).iter().enumerate() {
        let label = view::text(option, &["label"]);
        lines.push(match view::text(option, &["description"]) {
            "" => format!("    {} {label}", index + 1),
            description => format!("    {} {label} - {description}", index + 1),
        });
    }
    lines.join("\n")
}

/// What was typed: numbers of options become their labels, anything else is an answer in the person's own words.
/// Several labels are joined as the agent expects them (PROTOCOL.md, `AskUserQuestion`).
fn chosen(question: &Value, typed: &str) -> String {
    let options = view::list(question, &["options"]);
    let is_multi = view::at(question, &["multiSelect"]).and_then(Value::as_bool) == Some(true);
    let label = |text: &str| {
        let number: usize = text.trim().parse().ok()?;
        let option = options.get(number.checked_sub(1)?)?;
        Some(view::text(option, &["label"]))
    };
    let labels: Option<Vec<&str>> = if is_multi {
        typed.split(',').map(label).collect()
    } else {
        label(typed).map(|label| vec![label])
    };
    labels.map_or_else(|| typed.trim().to_owned(), |labels| labels.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_labels_and_text_stays() {
        let options = json!([{"label": "Red"}, {"label": "Blue"}]);
        let single = json!({"question": "Colour?", "options": options});
        let multi = json!({"question": "Colours?", "options": options, "multiSelect": true});
        for (question, typed, expected) in [
            (&single, "2", "Blue"),
            (&single, "0", "0"),
            (&single, "3", "3"),
            (&single, " green ", "green"),
            (&single, "1,2", "1,2"),
            (&multi, "1, 2", "Red, Blue"),
            (&multi, "2", "Blue"),
            (&multi, "1, green", "1, green"),
        ] {
            assert_eq!(chosen(question, typed), expected, "{typed}");
        }
        assert_eq!(
            answer([(&single, "1")].into_iter()),
            json!({"decision": "answer", "answers": {"Colour?": "Red"}})
        );
    }

    #[test]
    fn changed_input_must_be_an_object() {
        assert_eq!(
            allow(Some(r#"{"command": "ls"}"#)).unwrap(),
            json!({"decision": "allow", "updated_input": {"command": "ls"}})
        );
        assert!(matches!(allow(Some("ls")), Err(CliError::Usage(_))));
    }
}
