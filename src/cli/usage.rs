//! Owns `usage`: what was spent, added up.

use super::{
    CliError, args,
    client::Client,
    output::{Output, note},
    resolve, view,
};

/// `usage`
pub(super) async fn usage(client: &Client, output: &Output, usage: &args::Usage) -> Result<(), CliError> {
    if let (Some(from), Some(to)) = (usage.from, usage.to)
        && from >= to
    {
        return Err(CliError::Usage("--from must be earlier than --to".into()));
    }
    let mut query = vec![("group_by", usage.by.as_str())];
    let (from, to) = (
        usage.from.map(|from| from.to_string()),
        usage.to.map(|to| to.to_string()),
    );
    query.extend(from.as_deref().map(|from| ("from", from)));
    query.extend(to.as_deref().map(|to| ("to", to)));
    let page = client.get(&["v1", "usage"], &query).await?;
    if output.is_json() {
        return output.value(&page);
    }
    let simulated: u64 = view::list(&page, &["items"])
        .iter()
        .filter_map(|row| view::number(row, &["simulated_turns"]))
        .sum();
    let mut keys: Vec<String> = view::list(&page, &["items"])
        .iter()
        .map(|row| view::text(row, &["key"]).to_owned())
        .collect();
    if usage.by.as_str() == "session" {
        let ids: Vec<&str> = keys.iter().map(String::as_str).collect();
        keys = resolve::short_ids(&ids);
    }
    let rows: Vec<Vec<String>> = view::list(&page, &["items"])
        .iter()
        .zip(keys)
        .map(|(row, key)| {
            let tokens = |class: &str| {
                view::number(row, &["usage", class])
                    .or_else(|| view::number(row, &[class]))
                    .unwrap_or(0)
                    .to_string()
            };
            vec![
                key,
                view::number(row, &["turns"]).unwrap_or(0).to_string(),
                view::dollars(row.get("cost_usd")),
                tokens("input_tokens"),
                tokens("output_tokens"),
                tokens("cache_read_input_tokens"),
                tokens("cache_creation_input_tokens"),
            ]
        })
        .collect();
    let heading = usage.by.as_str().to_uppercase();
    output.table(
        &[
            &heading,
            "TURNS",
            "COST",
            "INPUT",
            "OUTPUT",
            "CACHE READ",
            "CACHE WRITE",
        ],
        &rows,
    )?;
    if rows.is_empty() {
        note("no turn ended in that time");
    }
    if simulated > 0 {
        note(&format!(
            "simulated turns, which cost nothing and are not counted: {simulated}"
        ));
    }
    Ok(())
}
