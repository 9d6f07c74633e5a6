//! Owns `rules`: the rules that hold, and the dry run.

use serde_json::{Value, json};

use super::{
    CliError,
    args::{self, RulesChange},
    client::Client,
    output::{Output, note},
    resolve, view,
    words::{not_json, one_line},
};

/// `rules`
pub(super) async fn rules(client: &Client, output: &Output, rules: &args::Rules) -> Result<(), CliError> {
    match &rules.change {
        Some(RulesChange::Add(add)) => return self::add(client, output, add).await,
        Some(RulesChange::Rm(rm)) => return remove(client, rm).await,
        None => {}
    }
    let session = match &rules.session {
        Some(name) => Some(resolve::session(client, name).await?),
        None => None,
    };
    match &rules.test {
        Some(tool) => test(client, output, session.as_deref(), tool, rules).await,
        None => list(client, output, session.as_deref()).await,
    }
}

async fn add(client: &Client, output: &Output, add: &args::RulesAdd) -> Result<(), CliError> {
    let id = resolve::session(client, &add.session).await?;
    let tools = [("allow", &add.allow), ("deny", &add.deny), ("ask", &add.ask)];
    let rule = match (&add.rule, tools.iter().find(|(_, tool)| tool.is_some())) {
        (Some(rule), _) => serde_json::from_str(rule)
            .map_err(|error| CliError::Usage(format!("the rule {}", not_json(&error))))?,
        (None, Some((action, tool))) => json!({"action": action, "tool": tool}),
        (None, None) => {
            return Err(CliError::Usage(
                "give a rule as JSON, or --allow, --deny or --ask with a tool".into(),
            ));
        }
    };
    let added = client.post(&["v1", "sessions", &id, "rules"], &rule).await?;
    if output.is_json() {
        return output.value(&added);
    }
    output.line(view::text(&added, &["id"]))
}

async fn remove(client: &Client, rm: &args::RulesRm) -> Result<(), CliError> {
    let id = resolve::session(client, &rm.session).await?;
    client.delete(&["v1", "sessions", &id, "rules", &rm.rule]).await?;
    note(&format!("removed the rule {}", rm.rule));
    Ok(())
}

async fn list(client: &Client, output: &Output, session: Option<&str>) -> Result<(), CliError> {
    let own = match session {
        Some(id) => client.get(&["v1", "sessions", id, "rules"], &[]).await?,
        None => json!({ "items": [] }),
    };
    let config = client.get(&["v1", "rules"], &[]).await?;
    if output.is_json() {
        return output.value(&json!({ "session": own["items"], "config": config["items"] }));
    }
    let rows: Vec<Vec<String>> = [("session", &own), ("config", &config)]
        .into_iter()
        .flat_map(|(source, page)| {
            let rules = view::list(page, &["items"]);
            rules.iter().map(move |rule| {
                vec![
                    view::text(rule, &["id"]).into(),
                    source.into(),
                    view::text(rule, &["action"]).into(),
                    conditions(rule),
                ]
            })
        })
        .collect();
    if rows.is_empty() {
        note("there are no rules: a person is asked for everything");
        return Ok(());
    }
    output.table(&["RULE", "OF", "ACTION", "CONDITIONS"], &rows)
}

/// All members but those that have a column of their own.
fn conditions(rule: &Value) -> String {
    let members = rule.as_object().into_iter().flatten();
    let shown: Vec<String> = members
        .filter(|(name, _)| !matches!(name.as_str(), "id" | "action"))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    one_line(&shown.join(" "))
}

async fn test(
    client: &Client,
    output: &Output,
    session: Option<&str>,
    tool: &str,
    rules: &args::Rules,
) -> Result<(), CliError> {
    let mut query = json!({ "tool": tool });
    if let Some(input) = &rules.input {
        query["input"] = serde_json::from_str(input)
            .map_err(|error| CliError::Usage(format!("--input {}", not_json(&error))))?;
    }
    if let Some(agent) = &rules.agent {
        query["agent"] = agent.as_str().into();
    }
    if let Some(reason) = &rules.reason_type {
        query["reason_type"] = reason.as_str().into();
    }
    let verdict = match session {
        Some(id) => {
            client
                .post(&["v1", "sessions", id, "rules", "test"], &query)
                .await?
        }
        None => client.post(&["v1", "rules", "test"], &query).await?,
    };
    if output.is_json() {
        return output.value(&verdict);
    }
    let rule = match view::text(&verdict, &["rule", "id"]) {
        "" => String::new(),
        id => format!(" by {} ({})", id, view::text(&verdict, &["source"])),
    };
    let (decision, why) = (
        view::text(&verdict, &["decision"]),
        view::text(&verdict, &["why"]),
    );
    output.line(&format!("{decision}{rule}: {why}"))?;
    for passed in view::list(&verdict, &["passed"]) {
        let (id, why_not) = (view::text(passed, &["id"]), view::text(passed, &["why_not"]));
        output.line(&format!("  not {id}: {why_not}"))?;
    }
    Ok(())
}
