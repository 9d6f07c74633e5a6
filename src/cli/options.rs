//! Owns `options`: the launch options of a session, shown and changed.

use serde_json::{Map, Value, json};

use super::{
    args,
    client::Client,
    error::CliError,
    output::{Output, note},
    resolve, view,
};

/// `options`: shows the launch options, or changes them.
pub(super) async fn options(
    client: &Client,
    output: &Output,
    options: &args::Options,
) -> Result<(), CliError> {
    let changes = changes(&options.changes)?;
    let id = resolve::session(client, &options.session).await?;
    let path = ["v1", "sessions", &id];
    if changes.is_empty() {
        let session = client.get(&path, &[]).await?;
        return show(output, session.get("options"));
    }
    let session = client.patch(&path, &json!({ "options": changes })).await?;
    show(output, session.get("options"))?;
    let missing = view::list(&session, &["needs_restart"]).iter();
    let missing: Vec<&str> = missing.filter_map(Value::as_str).collect();
    if !missing.is_empty() {
        note(&format!(
            "the process that runs does not have {}: the next one will",
            missing.join(", ")
        ));
    }
    Ok(())
}

fn show(output: &Output, options: Option<&Value>) -> Result<(), CliError> {
    let none = json!({});
    let options = options.unwrap_or(&none);
    if output.is_json() {
        return output.value(options);
    }
    for (name, value) in options.as_object().into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        output.line(&format!("{name} = {text}"))?;
    }
    Ok(())
}

/// The change of options that these words ask for.
fn changes(words: &[String]) -> Result<Map<String, Value>, CliError> {
    let mut changes = Map::new();
    for word in words {
        let Some((name, value)) = word.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(CliError::Usage(format!(
                "{word:?} is no change: NAME=VALUE, such as effort=low, is"
            )));
        };
        let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
        changes.insert(name.to_owned(), value);
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_json_or_a_text() {
        let words = [
            "effort=low",
            "max_budget_usd=20",
            "env={\"A\":null}",
            "model=null",
        ]
        .map(str::to_owned);
        let expected = json!({"effort": "low", "max_budget_usd": 20, "env": {"A": null}, "model": null});
        assert_eq!(Value::Object(changes(&words).unwrap()), expected);
        for wrong in ["effort", "=low"] {
            assert!(changes(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
