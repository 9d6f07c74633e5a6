//! Owns rules: what decides an approval without a person.
//!
//! A rule is written as a [`RuleSpec`], and checked once and for all when it becomes a [`Rule`]. Nothing here touches a file system: who evaluates says where a path leads.

mod conditions;
mod evaluate;
mod held;
mod matcher;
mod path;
mod shell;
mod spec;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

pub use self::{
    evaluate::{Asked, Decided, Input, Passed, RuleSource, Rules, Verdict},
    path::{Leads, Lookup, is_certainly_below, is_of_the_looker},
    spec::{InvalidRule, Matcher, OnDeadline, RuleAction, RuleSpec},
};

use self::conditions::Conditions;
use super::{Timestamp, ids};

/// Rules in one list.
pub const MAX_RULES: usize = 256;

/// A rule that was checked: its patterns are valid and bounded, and it asks for nothing that no rule may do.
#[derive(Clone, Debug)]
pub struct Rule {
    id: String,
    spec: RuleSpec,
    conditions: Conditions,
}

impl Rule {
    /// Checks a rule. One without an id gets a new one.
    ///
    /// # Errors
    /// A pattern that is not valid or too large, or members that do not go together.
    pub fn new(mut spec: RuleSpec) -> Result<Self, InvalidRule> {
        spec.check()?;
        let conditions = Conditions::new(&spec)?;
        let id = spec.id.get_or_insert_with(ids::mint_rule_id).clone();
        Ok(Self { id, spec, conditions })
    }

    /// Its name within its list.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// As it was written, with its id.
    pub const fn spec(&self) -> &RuleSpec {
        &self.spec
    }

    fn is_expired(&self, now: Timestamp) -> bool {
        self.spec.expires_at.is_some_and(|at| at <= now)
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.spec == other.spec
    }
}

impl Eq for Rule {}

/// Rules in their order; the first that matches decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet(Vec<Rule>);

impl RuleSet {
    /// Checks a whole list.
    ///
    /// # Errors
    /// The first rule that is invalid, an id that comes twice, or too many rules; the place in the list is part of the error.
    pub fn new(specs: Vec<RuleSpec>) -> Result<Self, InvalidRule> {
        if specs.len() > MAX_RULES {
            return Err(InvalidRule::new(
                "",
                format!("a list holds at most {MAX_RULES} rules"),
            ));
        }
        matcher::check_all(specs.iter().flat_map(|spec| spec.input.values()))?;
        let mut ids = HashSet::new();
        let mut rules = Vec::with_capacity(specs.len());
        for (place, spec) in specs.into_iter().enumerate() {
            let rule = Rule::new(spec).map_err(|error| error.at(place))?;
            if !ids.insert(rule.id.clone()) {
                return Err(InvalidRule::new("id", "is the id of an earlier rule too").at(place));
            }
            rules.push(rule);
        }
        Ok(Self(rules))
    }

    /// The rules.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rule with this id.
    pub fn get(&self, id: &str) -> Option<&Rule> {
        self.0.iter().find(|rule| rule.id == id)
    }

    /// The rules as they were written.
    pub fn specs(&self) -> Vec<RuleSpec> {
        self.0.iter().map(|rule| rule.spec.clone()).collect()
    }
}
