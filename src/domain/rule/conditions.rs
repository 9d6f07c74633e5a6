//! Owns the conditions of one rule: whether they hold for what is asked, and in which words.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{
    Asked, Input, InvalidRule, Lookup, RuleSpec, held,
    matcher::{Fit, Glob, Test, WhenUncertain, check_path},
};
use crate::domain::ApprovalKind;

/// The field of the input of tools that run a shell command.
const COMMAND: &str = "command";

/// The agent that asks.
#[derive(Clone, Debug)]
enum Agent {
    Main,
    AnySub,
    Sub(Glob),
}

/// The conditions of a rule.
#[derive(Clone, Debug)]
pub(super) struct Conditions {
    kind: Option<ApprovalKind>,
    tool: Option<Glob>,
    input: Vec<(String, Test)>,
    cwd: Option<PathBuf>,
    agent: Option<Agent>,
    mode: Option<Vec<String>>,
    reason_type: Option<Vec<String>>,
}

/// The conditions of a rule that matches.
pub(super) struct Held {
    /// Their names.
    pub(super) why: String,
    /// Whether no command line leaves a doubt.
    pub(super) is_certain: bool,
}

impl Conditions {
    pub(super) fn new(spec: &RuleSpec) -> Result<Self, InvalidRule> {
        let cwd = spec.cwd.as_deref().map(|cwd| {
            check_path("cwd", cwd)?;
            if Path::new(cwd).is_absolute() {
                Ok(PathBuf::from(cwd))
            } else {
                Err(InvalidRule::new("cwd", "must be an absolute path"))
            }
        });
        let agent = spec.agent.as_deref().map(|agent| match agent {
            "main" => Ok(Agent::Main),
            "sub" => Ok(Agent::AnySub),
            glob => Glob::new("agent", glob).map(Agent::Sub),
        });
        let tool = spec.tool.as_deref().map(|tool| Glob::new("tool", tool));
        let input = spec.input.iter().map(|(name, matcher)| {
            let test = Test::new(&format!("input.{name}"), matcher)?;
            Ok((name.clone(), test))
        });
        Ok(Self {
            kind: spec.kind,
            tool: tool.transpose()?,
            input: input.collect::<Result<_, _>>()?,
            cwd: cwd.transpose()?,
            agent: agent.transpose()?,
            mode: spec
                .mode
                .as_ref()
                .map(|modes| modes.iter().map(|mode| of_one_name(mode).to_owned()).collect()),
            reason_type: spec.reason_type.clone(),
        })
    }

    /// The conditions that hold; else the first one that does not.
    pub(super) fn hold(
        &self,
        asked: &Asked,
        when: WhenUncertain,
        lookup: Lookup<'_>,
    ) -> Result<Held, String> {
        let mut held_conditions = Vec::new();
        if let Some(kind) = self.kind {
            if kind != asked.kind {
                return Err(format!("it is no {}", kind.as_str()));
            }
            held_conditions.push("kind");
        }
        if let Some(tool) = &self.tool {
            if tool.matches(&asked.subject) {
                held_conditions.push("tool");
            } else if when == WhenUncertain::NoMatch || !self.is_about_commands_of(asked) {
                return Err("another tool".to_owned());
            }
        }
        if let Some(cwd) = &self.cwd {
            let is_in = match &asked.cwd {
                Some(at) => at.starts_with(cwd),
                None => when == WhenUncertain::Match,
            };
            if !is_in {
                return Err("the session works in another directory".to_owned());
            }
            held_conditions.push("cwd");
        }
        if let Some(agent) = &self.agent {
            let is_who = match (agent, &asked.agent) {
                (Agent::Main, agent) => agent.is_none(),
                (Agent::AnySub, agent) => agent.is_some(),
                (Agent::Sub(glob), Some(agent)) => glob.matches(agent),
                (Agent::Sub(_), None) => false,
            };
            if !is_who {
                return Err("another agent asks".to_owned());
            }
            held_conditions.push("agent");
        }
        if let Some(modes) = &self.mode {
            let is_mode = match asked.mode.as_deref() {
                Some(mode) => modes.iter().any(|known| known == of_one_name(mode)),
                None => when == WhenUncertain::Match,
            };
            if !is_mode {
                return Err("the session is in another permission mode".to_owned());
            }
            held_conditions.push("mode");
        }
        if let Some(reasons) = &self.reason_type {
            if !held::is_one_of(asked, reasons) {
                return Err("it is asked for another reason".to_owned());
            }
            held_conditions.push("reason_type");
        }
        let mut is_certain = true;
        for (name, test) in &self.input {
            match field_fit(name, test, asked, when, lookup)? {
                Fit::No => return Err(format!("input.{name} does not match")),
                Fit::Perhaps => is_certain = false,
                Fit::Yes => {}
            }
        }
        let fields = self.input.iter().map(|(name, _)| format!("input.{name}"));
        let all: Vec<String> = held_conditions
            .into_iter()
            .map(str::to_owned)
            .chain(fields)
            .collect();
        let why = if all.is_empty() {
            "the rule has no conditions".to_owned()
        } else {
            format!("all conditions hold: {}", all.join(", "))
        };
        Ok(Held { why, is_certain })
    }

    /// Whether the rule is about commands and the tool takes one: there are many shells, and more to come.
    fn is_about_commands_of(&self, asked: &Asked) -> bool {
        asked.kind == ApprovalKind::Tool
            && self.input.iter().any(|(name, _)| name == COMMAND)
            && asked.input.may_have(COMMAND)
    }
}

/// Whether a field of the input is as the test wants it; an error where it is not there.
fn field_fit(
    name: &str,
    test: &Test,
    asked: &Asked,
    when: WhenUncertain,
    lookup: Lookup<'_>,
) -> Result<Fit, String> {
    let Input::Fields(fields) = &asked.input else {
        return match when {
            WhenUncertain::NoMatch => Err("the input cannot be read".to_owned()),
            WhenUncertain::Match => Ok(Fit::Yes),
        };
    };
    let values: Vec<&Value> = fields
        .iter()
        .filter(|(known, _)| known == name)
        .map(|(_, value)| value)
        .collect();
    if let Test::IsSet(is_set) = test {
        return Ok(set_holds(&values, *is_set, when).into());
    }
    if values.is_empty() {
        return Err(format!("input.{name} is missing"));
    }
    let fit = |text: &str| test.fit(text, when, asked.cwd.as_deref(), lookup);
    let is_fit = |item: &Value| item.as_str().is_some_and(|text| fit(text) == Fit::Yes);
    Ok(match (when, values.as_slice()) {
        // Nobody knows which of two fields with one name counts.
        (WhenUncertain::NoMatch, [Value::Array(items)]) => {
            (!items.is_empty() && items.iter().all(is_fit)).into()
        }
        (WhenUncertain::NoMatch, [value]) => is_fit(value).into(),
        (WhenUncertain::NoMatch, _) => Fit::No,
        (WhenUncertain::Match, values) => best(values.iter().map(|value| any_text(value, &fit))),
    })
}

/// Whether a field is set, or is not, by its values: it may come several times, or not at all.
fn set_holds(values: &[&Value], is_set: bool, when: WhenUncertain) -> bool {
    let is_off = |value: &&Value| **value == Value::Bool(false);
    match (when, is_set, values) {
        (_, false, []) => true,
        (_, true, []) => false,
        (WhenUncertain::NoMatch, false, [value]) => is_off(value),
        (WhenUncertain::NoMatch, true, [value]) => !is_off(value) && !value.is_null(),
        (WhenUncertain::NoMatch, _, _) => false,
        (WhenUncertain::Match, false, values) => values.iter().any(|value| is_off(value) || value.is_null()),
        (WhenUncertain::Match, true, values) => !values.iter().all(is_off),
    }
}

/// The best fit of the texts anywhere in the value.
fn any_text(value: &Value, fit: &dyn Fn(&str) -> Fit) -> Fit {
    match value {
        Value::String(text) => fit(text),
        Value::Array(items) => best(items.iter().map(|item| any_text(item, fit))),
        Value::Object(fields) => best(fields.values().map(|field| any_text(field, fit))),
        Value::Bool(_) | Value::Number(_) => fit(&value.to_string()),
        Value::Null => Fit::No,
    }
}

fn best(fits: impl Iterator<Item = Fit>) -> Fit {
    fits.max().unwrap_or(Fit::No)
}

/// The default mode has two names.
fn of_one_name(mode: &str) -> &str {
    if mode == "manual" { "default" } else { mode }
}
