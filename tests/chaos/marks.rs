//! Owns changes of options, each of which is known by its mark: one that was answered is there afterwards, and one that got no answer is
//! there wholly or not at all.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
    time::Duration,
};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{client::Address, processes::Agent, support::proc};

/// Longer than anything that a daemon is held up by.
const PATCH_LIMIT: Duration = Duration::from_secs(20);
/// The label and the variable that have the mark.
pub(crate) const NAME: &str = "CHAOS_MARK";

/// The outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Made,
    /// Nothing was changed.
    Refused,
    /// The daemon died over it.
    Unknown,
    /// It may yet be made.
    Late,
}

/// Marks that a session may have now; `None` is none.
#[derive(Debug)]
pub(crate) struct Marks {
    may_be: BTreeSet<Option<String>>,
    /// Those of changes that may come late.
    late: BTreeSet<Option<String>>,
    /// Whether it may have any other.
    is_unknown: bool,
}

impl Marks {
    /// Those of a session that nobody has changed.
    pub(crate) fn none() -> Self {
        Self {
            may_be: BTreeSet::from([None]),
            late: BTreeSet::new(),
            is_unknown: false,
        }
    }

    /// Those of a fork: its parent had one of them at some moment.
    pub(crate) fn unknown() -> Self {
        Self {
            may_be: BTreeSet::new(),
            late: BTreeSet::new(),
            is_unknown: true,
        }
    }

    /// A change that was asked for after all others had their answers, or had none.
    pub(crate) fn push(&mut self, mark: String, outcome: Outcome) {
        let mark = Some(mark);
        match outcome {
            Outcome::Made => {
                self.is_unknown = false;
                self.may_be.clone_from(&self.late);
                self.may_be.insert(mark);
            }
            Outcome::Refused => {}
            Outcome::Unknown => {
                self.may_be.insert(mark);
            }
            Outcome::Late => {
                self.late.insert(mark.clone());
                self.may_be.insert(mark);
            }
        }
    }

    /// Says what is wrong with what is there. From now on the session has that mark.
    pub(crate) fn settle(&mut self, stored: &Stored) -> Vec<String> {
        let mut faults = Vec::new();
        let there: BTreeSet<_> = stored.places.values().cloned().collect();
        if there.len() != 1 {
            faults.push(format!("a change is there in parts: {:#?}", stored.places));
        }
        let other = there.iter().find(|mark| !self.may_be.contains(*mark));
        if let Some(mark) = other.filter(|_| !self.is_unknown) {
            faults.push(format!(
                "it has the mark {mark:?}, and by the answers one of {:?}: {:#?}",
                self.may_be, stored.places
            ));
        }
        if let Some((process, true)) = &stored.process
            && !there.contains(process)
        {
            faults.push(format!(
                "its process has the mark {process:?} and is said to need no restart: {:#?}",
                stored.places
            ));
        }
        *self = Self {
            may_be: there,
            late: BTreeSet::new(),
            is_unknown: false,
        };
        faults
    }
}

/// The mark of a session in all places that have it.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    /// By their names.
    places: BTreeMap<&'static str, Option<String>>,
    /// The mark of its process, and whether nothing says that it needs another one.
    process: Option<(Option<String>, bool)>,
}

impl Stored {
    /// Looks everywhere. `rows` is what [`rows`] gave.
    pub(crate) fn find(view: &Value, folder: &Path, rows: &Value, agent: Option<&Agent>) -> Self {
        let file = fs::read(folder.join("session.json")).unwrap_or_default();
        let file: Value = serde_json::from_slice(&file).unwrap_or_default();
        let row = &rows[view["id"].as_str().unwrap_or_default()];
        let options = row["options"].as_str().unwrap_or_default();
        let options: Value = serde_json::from_str(options).unwrap_or_default();
        let mark = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let text = |options: &Value| mark(&options["plan_mode_instructions"]);
        let variable = |options: &Value| mark(&options["env"][NAME]);
        let places = BTreeMap::from([
            ("instructions in the answer", text(&view["options"])),
            ("label in the answer", mark(&view["labels"][NAME])),
            ("instructions in session.json", text(&file["options"])),
            ("variable in session.json", variable(&file["options"])),
            ("label in session.json", mark(&file["labels"][NAME])),
            ("instructions in the database", text(&options)),
            ("variable in the database", variable(&options)),
            ("label in the database", mark(&row["label"])),
        ]);
        let process = agent.and_then(|agent| proc::read(agent.pid)).map(|process| {
            let needs = view["needs_restart"].as_array();
            (process.env(NAME), needs.is_some_and(Vec::is_empty))
        });
        Self { places, process }
    }
}

/// Changes a session once.
pub(crate) async fn patch(address: watch::Receiver<Address>, id: String, mark: String) -> Outcome {
    let rest = address.borrow().rest.clone();
    let body = json!({
        "labels": { NAME: mark },
        "options": { "plan_mode_instructions": mark, "env": { NAME: mark } },
    });
    let request = rest.builder(Method::PATCH, &format!("/v1/sessions/{id}"));
    let (status, body) = match request.timeout(PATCH_LIMIT).json(&body).send().await {
        Ok(reply) => (
            reply.status().as_u16(),
            reply.json::<Value>().await.unwrap_or_default(),
        ),
        Err(error) if error.is_connect() => return Outcome::Refused,
        Err(error) if error.is_timeout() => return Outcome::Late,
        Err(_) => return Outcome::Unknown,
    };
    match status {
        200 => Outcome::Made,
        _ if body["side_effect_possible"] == true => Outcome::Late,
        _ => {
            assert!(body["retryable"] == true, "a change gets {status}: {body:#}");
            Outcome::Refused
        }
    }
}

/// The options and labels of all sessions, as the database has them.
#[expect(clippy::disallowed_methods, reason = "another program reads the database")]
pub(crate) fn rows(database: &Path) -> Value {
    let script = format!(
        "import json, sqlite3, sys
db = sqlite3.connect('file:' + sys.argv[1] + '?mode=ro', uri=True, timeout=30)
query = \"SELECT id, options, (SELECT value FROM session_labels WHERE session_id = id AND key = '{NAME}') FROM sessions\"
print(json.dumps({{id: {{'options': options, 'label': label}} for id, options, label in db.execute(query)}}))"
    );
    let output = Command::new("python3")
        .args(["-c", &script])
        .arg(database)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn stored(marks: [Option<&str>; 2]) -> Stored {
    let mark = |mark: Option<&str>| mark.map(ToOwned::to_owned);
    Stored {
        places: BTreeMap::from([("a", mark(marks[0])), ("b", mark(marks[1]))]),
        process: None,
    }
}

/// Marks of a session with these changes.
fn after(changes: &[(&str, Outcome)]) -> Marks {
    let mut marks = Marks::none();
    for (mark, outcome) in changes {
        marks.push((*mark).to_owned(), *outcome);
    }
    marks
}

#[test]
fn a_change_is_there_wholly_if_it_was_answered() {
    use Outcome::{Late, Made, Refused, Unknown};
    let (a, b) = (Some("a"), Some("b"));
    for (changes, there, is_fine) in [
        (&[][..], [None, None], true),
        (&[("a", Made)], [a, a], true),
        (&[("a", Made)], [a, None], false),
        (&[("a", Made)], [None, None], false),
        (&[("a", Refused)], [a, a], false),
        (&[("a", Unknown)], [a, a], true),
        (&[("a", Unknown)], [None, None], true),
        (&[("a", Unknown)], [None, a], false),
        (&[("a", Unknown), ("b", Made)], [a, a], false),
        (&[("a", Late), ("b", Made)], [a, a], true),
        (&[("a", Made), ("b", Unknown)], [b, b], true),
        (&[("a", Made), ("b", Unknown)], [None, None], false),
    ] {
        let faults = after(changes).settle(&stored(there));
        assert_eq!(faults.is_empty(), is_fine, "{changes:?} {there:?}: {faults:?}");
    }
}

#[test]
fn a_change_that_was_seen_is_there_or_not_for_good() {
    let mut marks = after(&[("a", Outcome::Unknown)]);
    assert!(marks.settle(&stored([None, None])).is_empty());
    assert!(!marks.settle(&stored([Some("a"), Some("a")])).is_empty());
}

#[test]
fn a_process_that_needs_no_restart_has_the_mark() {
    let mut found = stored([Some("a"), Some("a")]);
    found.process = Some((None, false));
    assert!(after(&[("a", Outcome::Made)]).settle(&found).is_empty());
    found.process = Some((None, true));
    assert!(!after(&[("a", Outcome::Made)]).settle(&found).is_empty());
}
