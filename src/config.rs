//! Owns the configuration: typed sections, the layers they are read from and the origin of each value.
//!
//! Order: defaults < file < environment < flags. Every key has two parts, `section.key`, and the environment name
//! `TRUNKLINE_<SECTION>_<KEY>`. Values are checked before anything binds or starts.

mod claude;
mod data;
mod error;
mod journal;
mod layers;
mod limits;
mod liveness;
mod log;
mod park;
mod restart;
mod rules;
mod server;
mod sessions;
mod stop;
mod warm;
mod webhooks;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::RuleSet;

pub use self::{
    claude::Claude,
    data::Data,
    error::{ConfigError, Problem},
    journal::Journal,
    layers::{FlagValue, Origin, Sources},
    limits::Limits,
    liveness::Liveness,
    log::{Log, LogFormat},
    park::Park,
    restart::Restart,
    server::Server,
    sessions::Sessions,
    stop::{OnShutdown, Stop},
    warm::{Warm, WarmProfile},
    webhooks::{WebhookReceiver, Webhooks},
};

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// `[server]`: the listener and its limits.
    pub server: Server,
    /// `[data]`: where files live.
    pub data: Data,
    /// `[claude]`: the agent CLI and its environment.
    pub claude: Claude,
    /// `[sessions]`: limits and policy of sessions.
    pub sessions: Sessions,
    /// `[journal]`: what is kept of journals.
    pub journal: Journal,
    /// `[restart]`: when processes that died are started again.
    pub restart: Restart,
    /// `[liveness]`: what is done about a CLI that is silent.
    pub liveness: Liveness,
    /// `[limits]`: how many processes there may be.
    pub limits: Limits,
    /// `[park]`: when processes of sessions that do nothing are ended.
    pub park: Park,
    /// `[warm]`: what is started before anybody asks for it.
    pub warm: Warm,
    /// `[webhooks]`: programs that are told of what happens.
    pub webhooks: Webhooks,
    /// `[stop]`: how processes and the daemon end.
    pub stop: Stop,
    /// `[log]`: what is logged.
    pub log: Log,
    /// `[[rules]]`: what decides approvals. In the file only.
    #[serde(skip)]
    pub rules: RuleSet,
}

/// A configuration together with where its values came from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The values in force.
    pub config: Config,
    /// The origin of each key that is not at its default, by `section.key`.
    pub origins: BTreeMap<String, Origin>,
    /// The file that was read, if there was one.
    pub file: Option<PathBuf>,
    /// Things that are no errors but that a person should know, one sentence each.
    pub warnings: Vec<String>,
    /// Values that make no sense.
    problems: Vec<(Problem, Origin)>,
}

impl Config {
    /// The defaults for an environment: only the directories depend on it.
    pub fn defaults(environment: &dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            server: Server::default(),
            data: Data::defaults(environment),
            claude: Claude::default(),
            sessions: Sessions::default(),
            journal: Journal::default(),
            restart: Restart::default(),
            liveness: Liveness::default(),
            limits: Limits::default(),
            park: Park::default(),
            warm: Warm::default(),
            webhooks: Webhooks::default(),
            stop: Stop::default(),
            log: Log::default(),
            rules: RuleSet::default(),
        }
    }

    /// Every value by `section.key`, in a stable order. Values of `claude.env` and of launch options are left out, as they
    /// may be secret.
    pub fn entries(&self) -> Vec<(String, Value)> {
        let mut entries = layers::entries(self);
        if !self.rules.is_empty() {
            let rules = serde_json::to_value(self.rules.specs()).unwrap_or_default();
            entries.push(("rules".to_owned(), rules));
        }
        for (key, value) in &mut entries {
            if key == "claude.env" {
                hide_values(value);
            } else if key == "sessions.profiles"
                && let Value::Object(profiles) = value
            {
                profiles.values_mut().for_each(hide_values);
            } else if key == "warm.profiles"
                && let Value::Array(profiles) = value
            {
                let options = profiles
                    .iter_mut()
                    .filter_map(|profile| profile.get_mut("options"));
                options.for_each(hide_values);
            }
        }
        entries
    }

    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        self.server.check(&mut problems);
        self.data.check(&mut problems);
        self.claude.check(&mut problems);
        self.sessions.check(&mut problems);
        self.journal.check(&mut problems);
        self.restart.check(&mut problems);
        self.liveness.check(&mut problems);
        self.limits.check(&mut problems);
        self.park.check(&mut problems);
        self.warm.check(&mut problems);
        self.webhooks.check(&mut problems);
        self.stop.check(&mut problems);
        self.log.check(&mut problems);
        if self.sessions.max_line_bytes < self.server.max_prompt_bytes {
            problems.push(Problem::new(
                "sessions.max_line_bytes",
                "must be at least server.max_prompt_bytes, or the largest prompt could never be sent",
            ));
        }
        problems
    }
}

impl Loaded {
    /// Whether the values make sense. A command that only reads the data directory need not ask.
    ///
    /// # Errors
    /// All values that make no sense.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.problems.is_empty() {
            Ok(())
        } else {
            Err(ConfigError::Invalid(self.problems.clone()))
        }
    }

    /// The origin of a key.
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::Default)
    }
}

/// Reads all layers. Whether the values make sense is told by [`Loaded::check`].
///
/// # Errors
/// A file that cannot be read or parsed, unknown keys in it, or a value of the wrong type.
pub fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
    let environment = |name: &str| sources.variable(name);
    let defaults = Config::defaults(&environment);
    let mut layers = layers::Layers::new(&defaults);

    let file = sources.file.clone().or_else(|| default_file(&environment));
    let file = file.filter(|path| sources.file.is_some() || path.exists());
    if let Some(path) = &file {
        layers.add_file(path)?;
    }
    let warnings = layers.add_environment(sources)?;
    layers.add_flags(sources);

    let (mut config, mut origins) = layers.finish()?;
    config.warm.name_all();
    if let Some(path) = &file {
        config.rules = rules::read(path)?;
        if !config.rules.is_empty() {
            origins.insert("rules".to_owned(), Origin::File(path.clone()));
        }
    }
    let problems = config
        .problems()
        .into_iter()
        .map(|problem| {
            let origin = origins.get(problem.key).cloned().unwrap_or(Origin::Default);
            (problem, origin)
        })
        .collect();
    Ok(Loaded {
        config,
        origins,
        file,
        warnings,
        problems,
    })
}

/// `$XDG_CONFIG_HOME/trunkline/config.toml`, by default `~/.config/trunkline/config.toml`.
fn default_file(environment: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    base_dir(environment, "XDG_CONFIG_HOME", ".config").map(|dir| dir.join("trunkline/config.toml"))
}

/// A base directory of the XDG specification: the variable if it holds an absolute path, else a folder in the home
/// directory.
fn base_dir(environment: &dyn Fn(&str) -> Option<String>, variable: &str, in_home: &str) -> Option<PathBuf> {
    let absolute = |text: String| Some(PathBuf::from(text)).filter(|path| path.is_absolute());
    environment(variable).and_then(absolute).or_else(|| {
        environment("HOME")
            .and_then(absolute)
            .map(|home| home.join(in_home))
    })
}

/// Leaves the names of what may be secret.
fn hide_values(object: &mut Value) {
    if let Value::Object(members) = object {
        for content in members.values_mut() {
            *content = Value::from("(not shown)");
        }
    }
}

/// Whether a list item could be meant: not empty, no control characters.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

fn check_absolute(problems: &mut Vec<Problem>, key: &'static str, path: &Path) {
    if !path.is_absolute() {
        problems.push(Problem::new(
            key,
            "must be an absolute path, or begin with ~/ where HOME is set",
        ));
    }
}

#[cfg(test)]
mod tests;
