//! Owns what the rules make of each pending approval: they are looked at when it opens, and again when the rules or the
//! permission mode change. Their answers go the way of a person's, and lose to one that came first.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::mpsc, time::Instant};

use crate::{
    claude::control::CanUseTool,
    domain::{
        Approval, ApprovalId, ApprovalKind, Clock, RuleSet, Timestamp,
        rule::{Asked, Decided, Input, Leads, OnDeadline, RuleAction, Rules, Verdict, is_of_the_looker},
    },
};

use super::{
    actor::{Actor, report_unreadable},
    covered::{Allowances, Granted, Place},
    decisions::DecisionReply,
    handle::Decision,
    large,
};

/// How long a look at the file system may hold up an approval. Later it is shown as if no rule matched, until the look
/// ends.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest sleep towards a deadline, which is a time of day: clocks are set, machines are suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// Links on the way of a path that are followed.
const MOST_LINKS: usize = 64;

/// The verdict of the rules on an approval.
#[derive(Clone, Debug, Default)]
struct Ruled {
    rule: Option<String>,
    deadline: Option<Timestamp>,
    then: Then,
}

/// The consequence of a rule.
#[derive(Clone, Debug, Default)]
enum Then {
    /// Nothing: a person decides.
    #[default]
    Person,
    /// An answer at once.
    Answer(Decision),
    /// The same, by what was allowed already.
    Cover(String),
    /// An answer at the deadline.
    Expire(Decision),
}

/// The outcome of one look: the rules it was made by, what they say, and by what each approval is covered already.
pub(super) type Looked = (u64, Vec<(ApprovalId, Verdict, Option<String>)>);

/// A look that runs.
#[derive(Debug)]
struct Look {
    approvals: Vec<ApprovalId>,
    /// When the approvals are not held up any longer; `None` once that was so.
    until: Option<Instant>,
}

/// The rules of a session, and what they say.
#[derive(Debug)]
pub(super) struct Ruling {
    rules: Rules,
    cwd: PathBuf,
    mode: Option<String>,
    /// Counts the changes of rules and mode. A verdict from before the last change is void.
    generation: u64,
    ruled: HashMap<ApprovalId, (u64, Ruled)>,
    /// Allowances that came while approvals were open that still are.
    granted: Allowances,
    /// Rules that were changed: their deadlines begin anew.
    changed: HashSet<String>,
    look: Option<Look>,
    /// Shown as if no rule matched, as a look takes too long.
    guessed: HashSet<ApprovalId>,
    /// Whose answer was refused, until it is tried again.
    paused: HashSet<ApprovalId>,
    /// When the next rule expires.
    expires_at: Option<Timestamp>,
    looked: mpsc::Sender<Looked>,
}

impl Ruling {
    /// The rules, and where the outcome of each look comes from.
    pub(super) fn new(rules: Rules, cwd: PathBuf) -> (Self, mpsc::Receiver<Looked>) {
        let (looked, outcomes) = mpsc::channel(1);
        let ruling = Self {
            rules,
            cwd,
            mode: None,
            generation: 0,
            ruled: HashMap::new(),
            granted: Allowances::default(),
            changed: HashSet::new(),
            look: None,
            guessed: HashSet::new(),
            paused: HashSet::new(),
            expires_at: None,
            looked,
        };
        (ruling, outcomes)
    }

    /// Puts these in the place of the session's own rules.
    pub(super) fn set(&mut self, session: Arc<RuleSet>) {
        let changed = session
            .iter()
            .filter(|rule| self.rules.session.get(rule.id()) != Some(rule));
        self.changed.extend(changed.map(|rule| rule.id().to_owned()));
        self.rules.session = session;
        self.generation += 1;
    }

    /// The rule and the deadline of an approval, once that is known.
    pub(super) fn of(&self, id: ApprovalId) -> Option<(Option<&String>, Option<Timestamp>)> {
        let ruled = self.fresh(id)?;
        Some((ruled.rule.as_ref(), ruled.deadline))
    }

    /// Where the session works.
    pub(super) fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Something was allowed that may cover what is open.
    pub(super) fn grant(&mut self, granted: Granted) {
        self.granted.add(granted);
        self.generation += 1;
    }

    pub(super) fn forget(&mut self, id: ApprovalId) {
        self.granted.forget(id);
        self.ruled.remove(&id);
        self.guessed.remove(&id);
        self.paused.remove(&id);
    }

    pub(super) fn forget_all(&mut self) {
        self.granted.clear();
        self.ruled.clear();
        self.guessed.clear();
        self.paused.clear();
    }

    /// Leaves an approval alone for a while, whose answer was refused.
    pub(super) fn pause(&mut self, id: ApprovalId) {
        self.paused.insert(id);
    }

    pub(super) fn go_on(&mut self, id: ApprovalId) {
        self.paused.remove(&id);
    }

    fn fresh(&self, id: ApprovalId) -> Option<&Ruled> {
        let (generation, ruled) = self.ruled.get(&id)?;
        (*generation == self.generation).then_some(ruled)
    }

    fn says(&mut self, id: ApprovalId, ruled: Ruled) {
        self.ruled.insert(id, (self.generation, ruled));
    }

    /// Turns a verdict into its consequence. A deadline that runs goes on running while its rule stays as it is.
    fn read(&self, approval: &Approval, verdict: Verdict, covered: Option<String>, now: Timestamp) -> Ruled {
        let Some(decided) = verdict.decided else {
            return Ruled {
                then: covered.map_or(Then::Person, Then::Cover),
                ..Ruled::default()
            };
        };
        let then = follow(approval.kind, &decided);
        let before = match self.ruled.get(&approval.id) {
            Some((_, ruled)) => (ruled.rule.as_ref(), ruled.deadline),
            None => (approval.rule.as_ref(), approval.deadline),
        };
        let deadline = decided.rule.deadline_ms.map(|ms| match before {
            (Some(rule), Some(deadline)) if *rule == decided.id && !self.changed.contains(rule) => deadline,
            _ => now.plus_millis(ms),
        });
        Ruled {
            rule: Some(decided.id),
            deadline,
            then,
        }
    }
}

impl Actor {
    /// Lets the rules look at the approvals that they have not seen as they are now.
    pub(super) fn consult_rules(&mut self) {
        if self.ruling.mode.as_deref() != self.machine.permission_mode() {
            self.ruling.mode = self.machine.permission_mode().map(str::to_owned);
            self.ruling.generation += 1;
        }
        let unseen: Vec<Arc<Approval>> = self
            .machine
            .open_approvals()
            .iter()
            .filter(|approval| self.ruling.fresh(approval.id).is_none())
            .cloned()
            .collect();
        if unseen.is_empty() {
            return;
        }
        if self.ruling.rules.is_empty() && self.ruling.granted.is_empty() {
            for approval in unseen {
                self.rule_on(approval.id, Ruled::default());
            }
            return;
        }
        match &self.ruling.look {
            None => self.look(unseen),
            // It hangs: nothing is held up by it.
            Some(Look { until: None, .. }) => self.guess(unseen.iter().map(|approval| approval.id).collect()),
            Some(_) => {}
        }
    }

    fn look(&mut self, approvals: Vec<Arc<Approval>>) {
        let (rules, generation) = (self.ruling.rules.clone(), self.ruling.generation);
        let (cwd, mode) = (self.ruling.cwd.clone(), self.ruling.mode.clone());
        let granted = self.ruling.granted.clone();
        let outcome = self.ruling.looked.clone();
        let (feed, session) = (self.feed.clone(), self.id);
        self.ruling.expires_at = rules.next_expiry(Clock.now());
        self.ruling.look = Some(Look {
            approvals: approvals.iter().map(|approval| approval.id).collect(),
            until: Some(Instant::now() + PATIENCE),
        });
        self.tracker.spawn_blocking(move || {
            let now = Clock.now();
            let verdicts = approvals
                .iter()
                .map(|held| {
                    let whole = match large::whole_approval(held, &feed) {
                        Ok(whole) => whole,
                        Err(error) => {
                            // A rule that has not seen all of it decides nothing.
                            report_unreadable(session, &error);
                            let verdict = Verdict {
                                decided: None,
                                passed: Vec::new(),
                            };
                            return (held.id, verdict, None);
                        }
                    };
                    let approval = &whole;
                    let asked = asked(approval, cwd.clone(), mode.clone());
                    let verdict = rules.decide(&asked, now, &where_it_leads);
                    let place = Place {
                        cwd: &cwd,
                        mode: mode.as_deref(),
                        lookup: &where_it_leads,
                    };
                    (approval.id, verdict, granted.cover(approval, &place))
                })
                .collect();
            // There is one look at a time, and an actor that is gone needs no answer.
            outcome.try_send((generation, verdicts)).ok();
        });
    }

    fn guess(&mut self, approvals: Vec<ApprovalId>) {
        for id in approvals {
            self.ruling.guessed.insert(id);
            self.rule_on(id, Ruled::default());
        }
    }

    /// Takes the outcome of a look, unless rules or mode have changed since.
    pub(super) fn on_looked(&mut self, (generation, verdicts): Looked) {
        self.ruling.look = None;
        for id in std::mem::take(&mut self.ruling.guessed) {
            self.ruling.ruled.remove(&id);
        }
        if generation != self.ruling.generation {
            return;
        }
        let now = Clock.now();
        for (id, verdict, covered) in verdicts {
            let approval = self.machine.approvals().iter().find(|approval| approval.id == id);
            if let Some(approval) = approval.cloned() {
                let ruled = self.ruling.read(&approval, verdict, covered, now);
                self.rule_on(id, ruled);
            }
        }
        self.ruling.changed.clear();
    }

    fn rule_on(&mut self, id: ApprovalId, ruled: Ruled) {
        self.ruling.says(id, ruled);
        // A record that says otherwise may be on its way.
        self.announced.remove(&(id, false));
    }

    /// Gives the answers that are due.
    pub(super) fn answer_by_rules(&mut self) {
        let now = Clock.now();
        let due: Vec<(ApprovalId, String, Decision)> = self
            .machine
            .open_approvals()
            .iter()
            .filter(|approval| {
                !self.deciding.is_decided(approval.id) && !self.ruling.paused.contains(&approval.id)
            })
            .filter_map(|approval| {
                let ruled = self.ruling.fresh(approval.id)?;
                let rule = ruled.rule.as_deref().unwrap_or_default();
                match &ruled.then {
                    Then::Answer(decision) => Some((approval.id, format!("rule:{rule}"), decision.clone())),
                    Then::Cover(by) => Some((approval.id, format!("covered:{by}"), allowance())),
                    Then::Expire(decision) if ruled.deadline.is_some_and(|at| at <= now) => {
                        Some((approval.id, format!("expiry:{rule}"), decision.clone()))
                    }
                    Then::Expire(_) | Then::Person => None,
                }
            })
            .collect();
        for (id, by, decision) in due {
            self.decide(id, &decision, by, DecisionReply::Rule);
        }
    }

    /// An answer of a rule that the CLI would not take: a person decides.
    pub(super) fn drop_rule(&mut self, id: ApprovalId) {
        tracing::error!(session.id = %self.id, approval.id = %id, "the answer of a rule does not fit");
        if let Some((_, ruled)) = self.ruling.ruled.get_mut(&id) {
            ruled.then = Then::Person;
        }
    }

    /// When to look again: at the next deadline of an approval, or when a look has taken too long.
    pub(super) fn next_ruling(&self) -> Option<Instant> {
        let now = Clock.now();
        let expiries = self
            .machine
            .open_approvals()
            .iter()
            .filter(|approval| {
                !self.deciding.is_decided(approval.id) && !self.ruling.paused.contains(&approval.id)
            })
            .filter_map(|approval| {
                let ruled = self.ruling.fresh(approval.id)?;
                matches!(ruled.then, Then::Expire(_)).then_some(ruled.deadline?)
            });
        let has_pending = !self.machine.approvals().is_empty();
        let rule_ends = self.ruling.expires_at.filter(|_| has_pending);
        let next = expiries.chain(rule_ends).min();
        let expiry = next.map(|at| {
            let left = Duration::from_millis(at.millis_since(now)) + Duration::from_millis(1);
            Instant::now() + left.min(LONGEST_SLEEP)
        });
        let patience = self.ruling.look.as_ref().and_then(|look| look.until);
        expiry.into_iter().chain(patience).min()
    }

    /// Looks again when a rule has expired, and stops waiting for a look that takes too long.
    pub(super) fn on_ruling_deadline(&mut self) {
        if self.ruling.expires_at.take_if(|at| *at <= Clock.now()).is_some() {
            self.ruling.generation += 1;
        }
        let now = Instant::now();
        if let Some(look) = &mut self.ruling.look
            && look.until.take_if(|until| *until <= now).is_some()
        {
            tracing::warn!(session.id = %self.id, "the paths in an approval cannot be looked at in time");
            let held = std::mem::take(&mut look.approvals);
            let pending = |id: &ApprovalId| self.machine.approvals().iter().any(|it| it.id == *id);
            let held = held.into_iter().filter(pending).collect();
            self.guess(held);
        }
    }
}

/// The answer that allows what is asked, and no more.
const fn allowance() -> Decision {
    Decision::Allow {
        updated_input: None,
        updated_permissions: None,
    }
}

/// The outcome of the rule that matched.
fn follow(kind: ApprovalKind, decided: &Decided) -> Then {
    let deny = |message: String| match kind {
        ApprovalKind::Tool | ApprovalKind::Question | ApprovalKind::Plan | ApprovalKind::Deferred => {
            Decision::Deny {
                message: Some(message),
                interrupt: false,
            }
        }
        ApprovalKind::Elicitation | ApprovalKind::Dialog | ApprovalKind::Hook => Decision::Cancel,
    };
    let (id, message) = (&decided.id, decided.rule.message.as_deref());
    match decided.action {
        RuleAction::Allow => Then::Answer(allowance()),
        RuleAction::Deny => Then::Answer(deny(
            message.map_or_else(|| format!("The rule {id} denies this."), str::to_owned),
        )),
        RuleAction::Ask if decided.rule.deadline_ms.is_none() => Then::Person,
        RuleAction::Ask => Then::Expire(match decided.on_deadline {
            OnDeadline::Allow => allowance(),
            OnDeadline::Deny => {
                let message = message.map(|text| format!(" {text}")).unwrap_or_default();
                deny(format!(
                    "Nobody decided before the deadline of the rule {id}.{message}"
                ))
            }
        }),
    }
}

/// The parts of an approval that rules look at.
fn asked(approval: &Approval, cwd: PathBuf, mode: Option<String>) -> Asked {
    let request = approval.request.get();
    let tool = match approval.kind {
        ApprovalKind::Tool | ApprovalKind::Question | ApprovalKind::Plan | ApprovalKind::Deferred => {
            CanUseTool::read(request)
        }
        ApprovalKind::Elicitation | ApprovalKind::Dialog | ApprovalKind::Hook => None,
    };
    let needs_person = approval.kind != ApprovalKind::Tool
        || tool.as_ref().is_none_or(|tool| tool.requires_user_interaction);
    Asked {
        kind: approval.kind,
        subject: approval.subject.clone(),
        needs_person,
        input: Input::read(tool.as_ref().map_or(request, |tool| tool.input)),
        cwd: Some(cwd),
        reason_type: tool
            .as_ref()
            .and_then(|tool| tool.reason_type.as_deref().map(str::to_owned)),
        has_safety_check: tool.as_ref().is_some_and(|tool| tool.has_safety_check),
        agent: tool.and_then(|tool| tool.agent_id.map(std::borrow::Cow::into_owned)),
        mode,
    }
}

/// Asks the file system where a path leads. Blocks. A way through a name that stands for the process that looks leads
/// elsewhere for the CLI, so that is not known.
pub fn where_it_leads(path: &Path) -> Leads {
    if leads_by_the_looker(path) {
        return Leads::Unknown;
    }
    match path.canonicalize() {
        Ok(real) => Leads::To(real),
        Err(error) if error.kind() == ErrorKind::NotFound => match path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => Leads::Nowhere,
            // A link to nothing, or something that came just now.
            Ok(_) | Err(_) => Leads::Unknown,
        },
        Err(_) => Leads::Unknown,
    }
}

/// Follows links one by one; too many of them lead nobody knows where.
fn leads_by_the_looker(path: &Path) -> bool {
    let mut at = PathBuf::from("/");
    let mut left: Vec<OsString> = path.iter().rev().map(ToOwned::to_owned).collect();
    let mut links = 0;
    while let Some(part) = left.pop() {
        match part.to_str() {
            Some("/") => at = PathBuf::from("/"),
            Some("..") => drop(at.pop()),
            Some(".") => {}
            _ => at.push(&part),
        }
        if is_of_the_looker(&at) {
            return true;
        }
        if let Ok(target) = at.read_link() {
            links += 1;
            if links > MOST_LINKS {
                return true;
            }
            at.pop();
            left.extend(target.iter().rev().map(ToOwned::to_owned));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn links_are_followed_before_a_path_is_allowed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("in")).unwrap();
        std::fs::create_dir(root.join("out")).unwrap();
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(root.join(to), root.join("in").join(name)).unwrap();
        };
        link("out", "way-out");
        link("out/nothing", "dead");
        link("in/b", "a");
        link("in/a", "b");
        std::os::unix::fs::symlink("/proc/self/cwd", root.join("in/mine")).unwrap();
        let rule = json!([{ "action": "allow", "input": { "p": { "path_prefix": "." } } }]);
        let rules = Rules {
            session: Arc::new(RuleSet::new(serde_json::from_value(rule).unwrap()).unwrap()),
            config: Arc::default(),
        };
        for (name, expected) in [
            ("file", true),
            ("new/file", true),
            ("way-out/file", false),
            ("way-out/../file", false),
            ("dead", false),
            ("dead/file", false),
            ("a", false),
            ("mine/file", false),
        ] {
            let asked = Asked {
                kind: ApprovalKind::Tool,
                subject: "Write".to_owned(),
                needs_person: false,
                input: Input::read(&json!({ "p": name }).to_string()),
                cwd: Some(root.join("in")),
                agent: None,
                mode: None,
                reason_type: None,
                has_safety_check: false,
            };
            let verdict = rules.decide(&asked, Clock.now(), &where_it_leads);
            assert_eq!(verdict.decided.is_some(), expected, "{name}");
        }
    }
}
