//! Owns how the command line reads the configuration, and `config`, which prints it.

use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use super::{
    CliError,
    args::{self, Common},
    client::Client,
    output::{Output, note},
    reach, view,
};
use crate::config::{self, FlagValue, Loaded, Sources};

/// The working directory of a process whose own was deleted: nothing is below it.
const GONE: &str = "/proc/self/cwd";

/// Reads the configuration with the flags on top. Warnings are printed.
pub(super) fn load(common: &Common, flags: Vec<FlagValue>) -> Result<Loaded, CliError> {
    let loaded = config::load(&sources(common, flags)?)?;
    for warning in &loaded.warnings {
        note(&format!("warning: {warning}"));
    }
    Ok(loaded)
}

fn sources(common: &Common, mut flags: Vec<FlagValue>) -> Result<Sources, CliError> {
    if let Some(dir) = &common.data_dir {
        flags.push(FlagValue {
            key: "data.dir",
            flag: "--data-dir",
            value: Value::from(dir.to_string_lossy()),
        });
    }
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    Ok(Sources {
        file: common.config.clone(),
        environment,
        flags,
        // One that was deleted matters to relative paths only, which do not exist then.
        current_dir: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(GONE)),
    })
}

/// `config`
pub(super) fn print(common: &Common, output: &Output, asked: &args::Config) -> Result<(), CliError> {
    let loaded = load(common, Vec::new())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let of_daemon = if asked.here {
        None
    } else {
        runtime.block_on(of_daemon(common, &loaded))?
    };
    let is_of_daemon = of_daemon.is_some();
    let (told, mut shown) = match of_daemon {
        Some(found) => found,
        None if asked.here => (
            "a daemon that this shell starts would use:".to_owned(),
            here(&loaded),
        ),
        None => (
            "no daemon runs; one that this shell starts would use:".to_owned(),
            here(&loaded),
        ),
    };
    if output.is_json() {
        shown["in_force"] = Value::Bool(is_of_daemon);
        output.value(&shown)?;
    } else {
        note(&told);
        let values = shown["values"].as_object().into_iter().flatten();
        let lines: Vec<(String, &str)> = values
            .map(|(key, entry)| {
                let value = match &entry["value"] {
                    Value::Null => "(not set)".into(),
                    value => value.to_string(),
                };
                (format!("{key} = {value}"), view::text(entry, &["origin"]))
            })
            .collect();
        let widths = lines.iter().map(|(line, _)| line.chars().count());
        let width = widths.max().unwrap_or(0);
        for (line, origin) in &lines {
            output.line(&format!("{line:width$}  # {origin}"))?;
        }
    }
    if !is_of_daemon {
        loaded.check()?;
    }
    Ok(())
}

/// The configuration of the daemon that runs, and whose it is.
async fn of_daemon(common: &Common, loaded: &Loaded) -> Result<Option<(String, Value)>, CliError> {
    let address = match reach::locate(common, &loaded.config, reach::FIRST_ANSWER).await {
        Ok(address) => address,
        Err(error) if error.is_away() && common.url.is_none() => return Ok(None),
        Err(error) => return Err(error),
    };
    let client = match Client::new(&address) {
        Ok(client) => client,
        // The file of a daemon that is gone, without its token.
        Err(_) if common.url.is_none() => return Ok(None),
        Err(error) => return Err(error),
    };
    match client.get(&["v1", "daemon", "configuration"], &[]).await {
        Ok(shown) => Ok(Some((
            format!("in force in the daemon at {}:", address.url),
            shown,
        ))),
        // A daemon that ended without tidying up left its file.
        Err(error) if error.is_away() && common.url.is_none() => Ok(None),
        Err(CliError::NotFound { .. }) => Err(CliError::Other(anyhow::anyhow!(
            "the daemon at {} is older and does not tell its configuration; `trunkline config --here` tells this shell's",
            address.url
        ))),
        Err(error) => Err(error),
    }
}

/// The configuration as this shell has it, in the form of the API.
fn here(loaded: &Loaded) -> Value {
    let entries = loaded.config.entries().into_iter();
    let values: Map<String, Value> = entries
        .map(|(key, value)| {
            let origin = loaded.origin(&key).to_string();
            (key, json!({"value": value, "origin": origin}))
        })
        .collect();
    json!({"file": loaded.file, "values": values})
}
