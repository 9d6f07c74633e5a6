//! Owns how the command line reads the configuration, and `config`, which prints it.

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use super::{
    CliError,
    args::Common,
    output::{Output, note},
};
use crate::config::{self, FlagValue, Loaded, Sources};

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
        current_dir: std::env::current_dir().context("cannot find the current directory")?,
    })
}

/// `config`
pub(super) fn print(common: &Common, output: &Output) -> Result<(), CliError> {
    let loaded = load(common, Vec::new())?;
    let entries = loaded.config.entries();
    if output.is_json() {
        let values: Map<String, Value> = entries
            .into_iter()
            .map(|(key, value)| {
                let origin = loaded.origin(&key).to_string();
                (key, json!({"value": value, "origin": origin}))
            })
            .collect();
        output.value(&json!({"file": loaded.file, "values": values}))?;
    } else {
        let lines: Vec<(String, String)> = entries
            .iter()
            .map(|(key, value)| {
                let value = if value.is_null() {
                    "(not set)".into()
                } else {
                    value.to_string()
                };
                (format!("{key} = {value}"), loaded.origin(key).to_string())
            })
            .collect();
        let width = lines
            .iter()
            .map(|(line, _)| line.chars().count())
            .max()
            .unwrap_or(0);
        for (line, origin) in lines {
            output.line(&format!("{line:width$}  # {origin}"))?;
        }
    }
    loaded.check()?;
    Ok(())
}
