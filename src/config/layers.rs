//! Owns the merge: each layer sets keys and is remembered as their origin.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Config, ConfigError};

/// Prefix of every variable of ours.
const PREFIX: &str = "TRUNKLINE_";

/// Variables with our prefix that are no keys: they belong to the command line, to sessions, to the simulated agent and to a restart.
const NOT_KEYS: &[&str] = &[
    "TRUNKLINE_CONFIG",
    "TRUNKLINE_URL",
    "TRUNKLINE_TOKEN_FILE",
    // The stand-in for the CLI tells itself how deep it is.
    "TRUNKLINE_STAND_IN",
    "TRUNKLINE_DATA_MARK",
    "TRUNKLINE_RUN",
    "TRUNKLINE_SESSION",
    "TRUNKLINE_SIM_DIR",
    "TRUNKLINE_HANDOVER",
];

/// The short name of `server.listen`. `data.dir` and `claude.bin` have theirs by the general rule.
const LISTEN: &str = "TRUNKLINE_LISTEN";

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
    /// A flag of the command line.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// A value that a flag gives.
#[derive(Clone, Debug)]
pub struct FlagValue {
    /// `section.key`.
    pub key: &'static str,
    /// The flag as a person types it.
    pub flag: &'static str,
    /// Its value.
    pub value: Value,
}

/// The places that the layers are read from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file to read; `None` = the usual place, if there is a file.
    pub file: Option<PathBuf>,
    /// The environment. Names and values that are not UTF-8 are not in it.
    pub environment: Vec<(String, String)>,
    /// Values of flags.
    pub flags: Vec<FlagValue>,
    /// The base of relative paths in flags and variables.
    pub current_dir: PathBuf,
}

impl Sources {
    /// The value of a variable; an empty one counts as not set.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        self.environment
            .iter()
            .find(|(known, value)| known == name && !value.is_empty())
            .map(|(_, value)| value.clone())
    }
}

/// All values of a configuration by `section.key`.
pub(super) fn entries(config: &Config) -> Vec<(String, Value)> {
    let Ok(Value::Object(sections)) = serde_json::to_value(config) else {
        return Vec::new();
    };
    let mut entries = Vec::new();
    for (section, keys) in sections {
        if let Value::Object(keys) = keys {
            entries.extend(
                keys.into_iter()
                    .map(|(key, value)| (format!("{section}.{key}"), value)),
            );
        }
    }
    entries
}

/// The values so far, and where they came from.
pub(super) struct Layers {
    values: BTreeMap<String, Value>,
    origins: BTreeMap<String, Origin>,
    home: Option<PathBuf>,
}

impl Layers {
    pub(super) fn new(defaults: &Config) -> Self {
        Self {
            values: entries(defaults).into_iter().collect(),
            origins: BTreeMap::new(),
            home: None,
        }
    }

    pub(super) fn add_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.into(),
            source,
        })?;
        let table: toml::Table = toml::from_str(&text).map_err(|source| ConfigError::Syntax {
            path: path.into(),
            source: Box::new(source),
        })?;
        let mut unknown = Vec::new();
        for (section, keys) in table {
            // Read by themselves.
            if section == super::rules::KEY {
                continue;
            }
            let toml::Value::Table(keys) = keys else {
                unknown.push(section);
                continue;
            };
            let is_section = self.values.keys().any(|key| in_section(key, &section));
            if !is_section {
                unknown.push(section);
                continue;
            }
            for (key, value) in keys {
                let key = format!("{section}.{key}");
                if self.values.contains_key(&key) {
                    let value = serde_json::to_value(&value).map_err(|error| ConfigError::Value {
                        key: key.clone(),
                        origin: Origin::File(path.into()),
                        reason: error.to_string(),
                    })?;
                    self.set(key, value, Origin::File(path.into()));
                } else {
                    unknown.push(key);
                }
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        Err(ConfigError::UnknownKeys {
            path: path.into(),
            keys: unknown
                .into_iter()
                .map(|key| {
                    let known = self.resembling(&key);
                    (key, known)
                })
                .collect(),
        })
    }

    /// Returns a sentence for each variable that looks like ours and is not.
    pub(super) fn add_environment(&mut self, sources: &Sources) -> Result<Vec<String>, ConfigError> {
        self.home = sources.variable("HOME").map(PathBuf::from);
        let by_name: BTreeMap<String, String> = self
            .values
            .keys()
            .map(|key| (variable_name(key), key.clone()))
            .collect();
        let mut warnings = Vec::new();
        let mut short_listen = None;
        for (name, text) in &sources.environment {
            if !name.starts_with(PREFIX) || text.is_empty() || NOT_KEYS.contains(&name.as_str()) {
                continue;
            }
            if name == LISTEN {
                short_listen = Some(text);
            } else if let Some(key) = by_name.get(name) {
                let value = self.parse(key, name, text, &sources.current_dir)?;
                self.set(key.clone(), value, Origin::Environment(name.clone()));
            } else {
                let hint = closest(name, by_name.keys())
                    .map_or_else(String::new, |known| format!("; did you mean {known}?"));
                warnings.push(format!("{name} is set and is no key of the configuration{hint}"));
            }
        }
        if let Some(text) = short_listen {
            self.set(
                "server.listen".into(),
                Value::from(text.as_str()),
                Origin::Environment(LISTEN.into()),
            );
        }
        Ok(warnings)
    }

    pub(super) fn add_flags(&mut self, sources: &Sources) {
        for flag in &sources.flags {
            let value = match &flag.value {
                Value::String(text) if is_path(flag.key) => self.path(flag.key, text, &sources.current_dir),
                other => other.clone(),
            };
            self.set(flag.key.into(), value, Origin::Flag(flag.flag));
        }
    }

    pub(super) fn finish(mut self) -> Result<(Config, BTreeMap<String, Origin>), ConfigError> {
        for (key, value) in &mut self.values {
            if is_path(key) {
                expand_home(value, self.home.as_deref());
            } else if let ("claude.executables", Value::Object(programs)) = (key.as_str(), &mut *value) {
                programs
                    .values_mut()
                    .for_each(|path| expand_home(path, self.home.as_deref()));
            } else if key == "warm.profiles"
                && let Value::Array(profiles) = value
            {
                for cwd in profiles.iter_mut().filter_map(|profile| profile.get_mut("cwd")) {
                    expand_home(cwd, self.home.as_deref());
                }
            }
        }
        let mut tree = Map::new();
        for (key, value) in self.values {
            if let Some((section, name)) = key.split_once('.')
                && let Value::Object(keys) = tree.entry(section).or_insert_with(|| Value::Object(Map::new()))
            {
                keys.insert(name.into(), value);
            }
        }
        let mut track = serde_path_to_error::Track::new();
        let deserializer = Value::Object(tree);
        let result = Config::deserialize(serde_path_to_error::Deserializer::new(deserializer, &mut track));
        match result {
            Ok(config) => Ok((config, self.origins)),
            Err(error) => {
                let path = track.path().to_string();
                let key = self
                    .origins
                    .keys()
                    .filter(|key| path.starts_with(key.as_str()))
                    .max_by_key(|key| key.len())
                    .cloned()
                    .unwrap_or(path);
                Err(ConfigError::Value {
                    origin: self.origins.get(&key).cloned().unwrap_or(Origin::Default),
                    key,
                    reason: error.to_string(),
                })
            }
        }
    }

    fn set(&mut self, key: String, value: Value, origin: Origin) {
        self.values.insert(key.clone(), value);
        self.origins.insert(key, origin);
    }

    /// Reads a variable's text as the kind of value that the key has by default.
    fn parse(&self, key: &str, name: &str, text: &str, current_dir: &Path) -> Result<Value, ConfigError> {
        let wrong = |reason: String| ConfigError::Value {
            key: key.into(),
            origin: Origin::Environment(name.into()),
            reason,
        };
        match self.values.get(key) {
            Some(Value::Bool(_)) => match text {
                "true" | "1" | "yes" | "on" => Ok(Value::Bool(true)),
                "false" | "0" | "no" | "off" => Ok(Value::Bool(false)),
                _ => Err(wrong(format!("{text:?} is neither true nor false"))),
            },
            Some(Value::Number(_)) => text
                .replace('_', "")
                .parse::<u64>()
                .map(Value::from)
                .map_err(|_| wrong(format!("{text:?} is not a whole number"))),
            Some(Value::Array(_)) if !text.trim_start().starts_with('[') => Ok(text
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(Value::from)
                .collect()),
            Some(Value::Array(_) | Value::Object(_)) => inline_toml(text).map_err(wrong),
            _ if is_path(key) => Ok(self.path(key, text, current_dir)),
            _ => Ok(Value::from(text)),
        }
    }

    fn path(&self, key: &str, text: &str, current_dir: &Path) -> Value {
        // A bare name of a program means one on PATH, as in a shell.
        if key == "claude.bin" && !text.contains('/') && text != "~" {
            return Value::from(text);
        }
        let mut value = Value::from(text);
        expand_home(&mut value, self.home.as_deref());
        let joined = current_dir.join(value.as_str().unwrap_or(text));
        Value::from(joined.to_string_lossy().into_owned())
    }

    fn resembling(&self, key: &str) -> Option<String> {
        closest(key, self.values.keys())
    }
}

/// The environment name of a key.
pub(super) fn variable_name(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}

fn in_section(key: &str, section: &str) -> bool {
    key.strip_prefix(section)
        .is_some_and(|rest| rest.starts_with('.'))
}

fn is_path(key: &str) -> bool {
    matches!(
        key,
        "data.dir" | "data.runtime_dir" | "claude.bin" | "claude.path_extra" | "sessions.cwd_roots"
    )
}

fn expand_home(value: &mut Value, home: Option<&Path>) {
    match value {
        Value::String(text) => {
            if let (Some(rest), Some(home)) = (text.strip_prefix("~/"), home) {
                *text = home.join(rest).to_string_lossy().into_owned();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| expand_home(item, home)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
    }
}

fn inline_toml(text: &str) -> Result<Value, String> {
    let table: toml::Table =
        toml::from_str(&format!("value = {text}")).map_err(|error| error.message().to_owned())?;
    let value = table.get("value").ok_or("it is empty")?;
    serde_json::to_value(value).map_err(|error| error.to_string())
}

/// The known name that differs least, if it differs little.
fn closest<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> Option<String> {
    known
        .map(|candidate| (distance(name, candidate), candidate))
        .min()
        .filter(|(distance, _)| *distance <= 1 + name.len() / 4)
        .map(|(_, candidate)| candidate.clone())
}

/// Levenshtein distance over bytes.
fn distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut diagonal = i;
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
        for (j, b) in right.bytes().enumerate() {
            let cost = if a == b { diagonal } else { diagonal + 1 };
            diagonal = row[j + 1];
            row[j + 1] = cost.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}
