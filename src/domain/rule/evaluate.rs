//! Owns the decision: the first rule that matches, and why those before it did not.

use std::{fmt, marker::PhantomData, path::PathBuf, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use super::{Lookup, OnDeadline, Rule, RuleAction, RuleSet, RuleSpec, held, matcher::WhenUncertain};
use crate::domain::{ApprovalKind, Timestamp};

/// A question to somebody, as far as rules look at it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The kind of approval.
    pub kind: ApprovalKind,
    /// The tool; the MCP server of an elicitation, the kind of a dialog.
    pub subject: String,
    /// Whether only a person may answer.
    pub needs_person: bool,
    /// The input.
    pub input: Input,
    /// Where the session works.
    pub cwd: Option<PathBuf>,
    /// The sub-agent that asks; `None` for the main one.
    pub agent: Option<String>,
    /// The session's permission mode, if it is known.
    pub mode: Option<String>,
    /// Why the CLI asks, in its own words: `rule`, `mode`, `safetyCheck`, …
    pub reason_type: Option<String>,
    /// Whether a part of what is asked failed a safety check, whatever the reason of the whole is.
    pub has_safety_check: bool,
}

/// The fields of an input.
#[derive(Clone, Debug)]
pub enum Input {
    /// In their order; the same name may come twice.
    Fields(Vec<(String, Value)>),
    /// It is no object, or holds text that cannot be decoded. The names of its fields, if at least these can be read.
    Unreadable(Option<Vec<String>>),
}

impl Input {
    /// Reads the text of a JSON object.
    pub fn read(json: &str) -> Self {
        match serde_json::from_str::<Fields<Value>>(json) {
            Ok(fields) => Self::Fields(fields.0),
            Err(_) => Self::Unreadable(
                serde_json::from_str::<Fields<&RawValue>>(json)
                    .ok()
                    .map(|fields| fields.0.into_iter().map(|(name, _)| name).collect()),
            ),
        }
    }

    /// Whether it has a field of this name, or may have one.
    pub(super) fn may_have(&self, name: &str) -> bool {
        match self {
            Self::Fields(fields) => fields.iter().any(|(known, _)| known == name),
            Self::Unreadable(names) => names
                .as_ref()
                .is_none_or(|names| names.iter().any(|known| known == name)),
        }
    }
}

struct Fields<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Fields<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Pairs<T> {
            type Value = Fields<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<T>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(Pairs(PhantomData))
    }
}

/// Where a rule stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleSource {
    /// Among the session's own.
    Session,
    /// In the configuration.
    Config,
}

/// The rules of a session: its own come first.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Its own.
    pub session: Arc<RuleSet>,
    /// Those of the configuration.
    pub config: Arc<RuleSet>,
}

/// The verdict of the rules.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The rule that decides; `None` when a person is asked because no rule matches.
    pub decided: Option<Decided>,
    /// The rules before it, and why each did not match.
    pub passed: Vec<Passed>,
}

/// The rule that decides.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The rule.
    pub rule: RuleSpec,
    /// Its id.
    pub id: String,
    /// Where it stands.
    pub source: RuleSource,
    /// Its action here: a rule that denies a command asks about a line that only may run it.
    pub action: RuleAction,
    /// Which conditions hold.
    pub why: String,
    /// The action at its deadline: an allowance only where its conditions certainly hold.
    pub on_deadline: OnDeadline,
}

/// A rule that did not match.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct Passed {
    /// Its id.
    pub id: String,
    /// Where it stands.
    pub source: RuleSource,
    /// The condition that does not hold.
    pub why_not: String,
}

impl Rules {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.session.is_empty() && self.config.is_empty()
    }

    /// When the next rule expires.
    pub fn next_expiry(&self, now: Timestamp) -> Option<Timestamp> {
        let rules = self.session.iter().chain(self.config.iter());
        rules
            .filter_map(|rule| rule.spec.expires_at)
            .filter(|at| *at > now)
            .min()
    }

    /// The first rule that matches decides. One that denies a command asks where it does not
    /// understand the line, unless the next certain one denies too.
    pub fn decide(&self, asked: &Asked, now: Timestamp, lookup: Lookup<'_>) -> Verdict {
        let session = self.session.iter().map(|rule| (RuleSource::Session, rule));
        let config = self.config.iter().map(|rule| (RuleSource::Config, rule));
        let mut passed = Vec::new();
        let mut found: Option<Decided> = None;
        for (source, rule) in session.chain(config) {
            match rule.matches(asked, now, lookup) {
                Ok((action, why, on_deadline)) => {
                    let decided = Decided {
                        rule: rule.spec.clone(),
                        id: rule.id.clone(),
                        source,
                        action,
                        why,
                        on_deadline,
                    };
                    let is_certain = action == rule.spec.action;
                    if is_certain && (found.is_none() || action == RuleAction::Deny) {
                        found = Some(decided);
                        break;
                    }
                    if is_certain {
                        break;
                    }
                    found.get_or_insert(decided);
                }
                Err(why_not) if found.is_none() => passed.push(Passed {
                    id: rule.id.clone(),
                    source,
                    why_not,
                }),
                Err(_) => {}
            }
        }
        Verdict {
            decided: found,
            passed,
        }
    }
}

impl Rule {
    /// The rule's action, why it matches and what its deadline brings; or why it does not match.
    fn matches(
        &self,
        asked: &Asked,
        now: Timestamp,
        lookup: Lookup<'_>,
    ) -> Result<(RuleAction, String, OnDeadline), String> {
        if self.is_expired(now) {
            return Err("it has expired".to_owned());
        }
        if asked.needs_person && (self.spec.action != RuleAction::Ask || self.spec.kind != Some(asked.kind)) {
            return Err("only a person may answer this, and the rule does not ask for this kind".to_owned());
        }
        let when = match self.spec.action {
            RuleAction::Allow => WhenUncertain::NoMatch,
            RuleAction::Deny | RuleAction::Ask => WhenUncertain::Match,
        };
        let held_back = held::unnamed(asked, self.spec.reason_type.as_deref());
        if let (RuleAction::Allow, Some(reason)) = (self.spec.action, held_back) {
            return Err(format!(
                "the reason is {reason}, which is for a person, and reason_type does not name it"
            ));
        }
        let held = self.conditions.hold(asked, when, lookup)?;
        let may_allow = self.spec.on_deadline == Some(OnDeadline::Allow)
            && !asked.needs_person
            && held_back.is_none()
            && self
                .conditions
                .hold(asked, WhenUncertain::NoMatch, lookup)
                .is_ok();
        let on_deadline = if may_allow {
            OnDeadline::Allow
        } else {
            OnDeadline::Deny
        };
        if self.spec.action == RuleAction::Deny && !held.is_certain {
            let why = "the command line is not fully understood, and may run what the rule denies: a person decides";
            return Ok((RuleAction::Ask, why.to_owned(), on_deadline));
        }
        Ok((self.spec.action, held.why, on_deadline))
    }
}
