//! Owns `approvals`, `approve` and `deny`, and the JSON of decisions.

pub(super) mod form;

use std::io::{self, IsTerminal as _};

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use super::{
    CliError, args,
    client::Client,
    output::{Output, Tone, note},
    request::{self, Room},
    resolve, view,
    words::{exact, one_line},
};

/// `approvals`
pub(super) async fn list(client: &Client, output: &Output, list: &args::Approvals) -> Result<(), CliError> {
    let limit = list.limit.to_string();
    let session = match &list.session {
        Some(name) => Some(resolve::session(client, name).await?),
        None => None,
    };
    let mut query = vec![("limit", limit.as_str())];
    if list.state != "all" {
        query.push(("state", list.state.as_str()));
    }
    for (key, value) in [("session", &session), ("kind", &list.kind), ("tool", &list.tool)] {
        query.extend(value.as_deref().map(|value| (key, value)));
    }
    let page = client.get(&["v1", "approvals"], &query).await?;
    if output.is_json() {
        return output.value(&page);
    }
    let approvals = view::list(&page, &["items"]);
    if approvals.is_empty() {
        // The state is one condition, and others may stand beside it.
        let is_filtered = list.state != "pending" || query.len() > 2;
        note(if is_filtered {
            "no request is like that; `trunkline approvals --state all` lists all"
        } else {
            "nothing waits for a person"
        });
        return Ok(());
    }
    let shorts = |key: &str| {
        let ids: Vec<&str> = approvals
            .iter()
            .map(|approval| view::text(approval, &[key]))
            .collect();
        resolve::short_ids(&ids)
    };
    let rows: Vec<Vec<String>> = approvals
        .iter()
        .zip(shorts("session_id").into_iter().zip(shorts("id")))
        .map(|(approval, (session, id))| {
            vec![
                session,
                id,
                view::text(approval, &["kind"]).into(),
                match view::text(approval, &["resolution", "by"]) {
                    "" => view::text(approval, &["state"]).into(),
                    by => format!("{} by {}", view::text(approval, &["state"]), view::by(by)),
                },
                view::ago(view::text(approval, &["requested_at"])),
            ]
        })
        .collect();
    let room = if list.full { Room::ALL } else { Room::LIST };
    let mut is_cut = false;
    let heading = ["SESSION", "APPROVAL", "KIND", "STATE", "ASKED"];
    let mut table = Output::rows(&heading, &rows).into_iter();
    output.text(Tone::Dim, &table.next().unwrap_or_default())?;
    output.line("")?;
    for (row, approval) in table.zip(approvals) {
        output.line(&row)?;
        let session = view::text(approval, &["session_id"]);
        let shown = if list.full {
            request::shown(&request::completed(client, session, approval.clone()).await, room)
        } else {
            request::shown(approval, room)
        };
        output.text(Tone::Plain, &shown.text)?;
        is_cut |= shown.is_cut;
    }
    if is_cut {
        note("not everything is shown; `trunkline approvals --full` shows it");
    }
    Ok(())
}

/// `approve`
pub(super) async fn approve(
    client: &Client,
    output: &Output,
    approve: &args::Approve,
) -> Result<(), CliError> {
    let session = resolve::session(client, &approve.session).await?;
    let approval = resolve::approval(client, &session, approve.approval.as_deref()).await?;
    let decision = approval_of(&approval, approve)?;
    // Without its name, the request may be another than the person has seen.
    let is_seen = approve.yes || approve.approval.is_some() || !io::stdin().is_terminal();
    if !is_seen && !confirmed(&approval)? {
        return Err(CliError::Usage("nothing was decided".into()));
    }
    settle(client, output, &session, &approval, &decision).await
}

/// Shows the whole request and asks. Only what is typed after the request was shown counts.
fn confirmed(approval: &Value) -> Result<bool, CliError> {
    note(request::shown(approval, Room::ALL).text.trim_end());
    let _typed_before = nix::sys::termios::tcflush(io::stdin(), nix::sys::termios::FlushArg::TCIFLUSH);
    note("approve this? y or n:");
    let mut line = String::new();
    io::stdin()
        .read_line(&mut line)
        .context("cannot read the answer")?;
    Ok(matches!(line.as_str(), "y\n" | "Y\n" | "yes\n"))
}

/// The decision that approves; an option that does not go with the kind of request is refused.
fn approval_of(approval: &Value, approve: &args::Approve) -> Result<Value, CliError> {
    let kind = view::text(approval, &["kind"]);
    let given = [
        ("--answer", &["question"][..], !approve.answers.is_empty()),
        ("--input", &["tool", "plan", "deferred"], approve.input.is_some()),
        ("--always", &["tool"], approve.always),
        ("--plan", &["plan"], approve.plan.is_some()),
        ("--next-mode", &["plan"], approve.next_mode.is_some()),
        ("--field", &["elicitation"], !approve.fields.is_empty()),
        ("--content", &["elicitation"], approve.content.is_some()),
        ("--result", &["dialog"], approve.result.is_some()),
    ];
    if let Some((option, ..)) = given
        .iter()
        .find(|(_, kinds, given)| *given && !kinds.contains(&kind))
    {
        return Err(CliError::Usage(format!(
            "nothing was asked that takes {option}: it is a {kind}"
        )));
    }
    match kind {
        "question" => answers(approval, approve),
        "elicitation" => accept(approval, approve),
        "dialog" => match &approve.result {
            Some(result) => Ok(json!({"decision": "complete", "result": parsed("--result", result)?})),
            None => Err(CliError::Usage("a dialog takes a --result".into())),
        },
        _ => {
            let mut decision = match always(approval).filter(|_| approve.always) {
                Some(always) => {
                    note(&format!("always {}", always.words));
                    always.decision
                }
                None if approve.always => {
                    return Err(CliError::Usage(
                        "the agent suggests nothing that it could always do".into(),
                    ));
                }
                None => allow(approve.input.as_deref())?,
            };
            if let Value::Object(fields) = &mut decision {
                if let Some(path) = &approve.plan {
                    let plan = std::fs::read_to_string(path).map_err(|error| {
                        CliError::Usage(format!("cannot read {}: {error}", path.display()))
                    })?;
                    fields.insert("plan".into(), plan.into());
                }
                if let Some(mode) = &approve.next_mode {
                    fields.insert("next_mode".into(), mode.as_str().into());
                }
            }
            Ok(decision)
        }
    }
}

fn answers(approval: &Value, approve: &args::Approve) -> Result<Value, CliError> {
    let questions = questions(approval);
    if approve.answers.len() != questions.len() {
        return Err(CliError::Usage(format!(
            "there {}; give one --answer for each:\n{}",
            match questions.len() {
                1 => "is one question".to_owned(),
                count => format!("are {count} questions"),
            },
            questions
                .iter()
                .flat_map(describe_question)
                .collect::<Vec<_>>()
                .join("\n")
        )));
    }
    let typed = approve.answers.iter().map(String::as_str);
    Ok(answer(questions.iter().zip(typed)))
}

fn accept(approval: &Value, approve: &args::Approve) -> Result<Value, CliError> {
    if let Some(content) = &approve.content {
        return Ok(json!({"decision": "accept", "content": parsed("--content", content)?}));
    }
    let fields = form::fields(approval);
    let mut typed = Vec::new();
    for given in &approve.fields {
        let field = given
            .split_once('=')
            .and_then(|(name, text)| Some((fields.iter().find(|field| field.name == name)?, text)));
        typed.push(field.ok_or_else(|| {
            let known: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
            CliError::Usage(format!(
                "--field takes NAME=VALUE, of the fields: {}",
                known.join(", ")
            ))
        })?);
    }
    if fields.is_empty() {
        return Ok(json!({"decision": "accept"}));
    }
    Ok(json!({"decision": "accept", "content": form::content(typed.into_iter())}))
}

fn parsed(option: &str, text: &str) -> Result<Value, CliError> {
    serde_json::from_str(text).map_err(|_| CliError::Usage(format!("{option} takes JSON")))
}

/// `deny`
pub(super) async fn deny(client: &Client, output: &Output, deny: &args::Deny) -> Result<(), CliError> {
    let session = resolve::session(client, &deny.session).await?;
    let approval = resolve::approval(client, &session, deny.approval.as_deref()).await?;
    let kind = view::text(&approval, &["kind"]);
    let says_why = deny.message.is_some() || deny.interrupt;
    let decision = match kind {
        "elicitation" | "dialog" if says_why => {
            return Err(CliError::Usage(format!(
                "--message and --interrupt do not go with this: it is a {kind}"
            )));
        }
        "elicitation" if !deny.cancel => json!({"decision": "decline"}),
        "elicitation" | "dialog" => json!({"decision": "cancel"}),
        _ if deny.cancel => {
            return Err(CliError::Usage(format!(
                "--cancel goes with forms and dialogs: it is a {kind}"
            )));
        }
        _ => {
            let mut decision = refuse(deny.message.as_deref());
            if deny.interrupt
                && let Value::Object(fields) = &mut decision
            {
                fields.insert("interrupt".into(), true.into());
            }
            decision
        }
    };
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
    let word = view::text(&decided, &["state"]);
    note(&format!("{word}: {}", one_line(&request::in_a_line(approval))));
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

/// The updates that an agent suggests so that it need not ask again.
#[derive(Debug)]
pub(super) struct Always {
    /// The decision that takes the suggestion.
    pub(super) decision: Value,
    /// The suggestion in words.
    pub(super) words: String,
}

/// The suggestion of a request, if it makes one that a person can be told.
pub(super) fn always(approval: &Value) -> Option<Always> {
    if view::at(approval, &["request", "suppress_always_allow_rule"]).and_then(Value::as_bool) == Some(true) {
        return None;
    }
    let suggestions = view::list(approval, &["request", "permission_suggestions"]);
    let words: Option<Vec<String>> = suggestions.iter().map(suggestion).collect();
    let words = words.filter(|words| !words.is_empty())?.join("; ");
    Some(Always {
        decision: json!({"decision": "allow", "updated_permissions": suggestions}),
        words,
    })
}

/// A permission update in words; one of an unknown kind is not offered.
fn suggestion(update: &Value) -> Option<String> {
    let one = |text: &str| exact(text).join(" ");
    let what = match view::text(update, &["type"]) {
        "addRules" | "replaceRules" => {
            let rules: Vec<String> = view::list(update, &["rules"])
                .iter()
                .map(|rule| match view::text(rule, &["ruleContent"]) {
                    "" => format!("everything with {}", one(view::text(rule, &["toolName"]))),
                    content => one(&format!("{}({content})", view::text(rule, &["toolName"]))),
                })
                .collect();
            match view::text(update, &["behavior"]) {
                "allow" => rules.join(", "),
                behavior => format!("{behavior} {}", rules.join(", ")),
            }
        }
        "addDirectories" => {
            let dirs: Vec<String> = view::list(update, &["directories"])
                .iter()
                .filter_map(Value::as_str)
                .map(one)
                .collect();
            format!("works in {}", dirs.join(", "))
        }
        "setMode" => format!("goes on in the mode {}", one(view::text(update, &["mode"]))),
        _ => return None,
    };
    let how_long = match view::text(update, &["destination"]) {
        "session" => "for this session",
        "localSettings" => "here, for you",
        "projectSettings" => "here, for everybody",
        "userSettings" => "everywhere, for you",
        _ => return None,
    };
    Some(format!("{what}, {how_long}"))
}

/// The questions that an approval asks; none for a tool or a plan.
pub(super) fn questions(approval: &Value) -> Vec<Value> {
    if view::text(approval, &["kind"]) == "question" {
        view::list(approval, &["request", "input", "questions"]).to_vec()
    } else {
        Vec::new()
    }
}

/// A question with its numbered options, as lines.
pub(super) fn describe_question(question: &Value) -> Vec<String> {
    let mut lines: Vec<String> = exact(view::text(question, &["question"]))
        .into_iter()
        .map(|line| format!("  {line}"))
        .collect();
    for (index, option) in view::list(question, &["options"]).iter().enumerate() {
        let label = exact(view::text(option, &["label"])).join(" ");
        lines.push(match exact(view::text(option, &["description"])).join(" ") {
            description if description.is_empty() => format!("    {} {label}", index + 1),
            description => format!("    {} {label} - {description}", index + 1),
        });
        let preview = exact(view::text(option, &["preview"]));
        lines.extend(preview.into_iter().map(|line| format!("        | {line}")));
    }
    lines
}

/// The answer in a typed text: numbers of options become their labels, anything else is an answer in the person's own
/// words. Several labels are joined as the agent expects them (its tool `AskUserQuestion`).
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
