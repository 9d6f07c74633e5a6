//! Owns the sessions that come and go: forks, visits in the directory for which processes are started in advance, and
//! conversations that outlive their sessions and are gone on with.

use std::{
    collections::BTreeSet,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::time::timeout_at;

use super::{Session, World, options};
use crate::{
    client::Client,
    marks::Marks,
    people::{self, Made, Sent},
    plan::{GUESTS, Guest, SPARES},
    support::wait::{PATIENCE, pass, wait_for},
};

/// The directory of the short-lived sessions, below HOME.
pub(super) const HALL: &str = "hall";

/// How long visits wait until processes were started in advance, as after failures the daemon takes its time; and how long
/// answers are waited for.
const CALM_LIMIT: Duration = Duration::from_secs(3);

/// How a session came.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// It has a place of its own.
    Resident,
    Fork {
        parent: String,
        /// The parent's running total, if it did nothing at that time.
        begins_at: Option<f64>,
    },
    Visit,
    /// It goes on with a conversation.
    Adopted(Left),
}

/// A conversation whose session was deleted.
#[derive(Clone, Debug)]
pub(super) struct Left {
    conversation: String,
    cwd: PathBuf,
    is_fake: bool,
    /// Every running total that is known of it.
    pub(super) totals: Vec<f64>,
}

impl World {
    pub(super) fn fork(&mut self, session: usize, guest: &Guest) -> bool {
        let Some(parent) = self.at(session).map(|session| session.id.clone()) else {
            return false;
        };
        let path = format!("/v1/sessions/{parent}/fork");
        let kind = Kind::Fork {
            parent,
            begins_at: None,
        };
        self.ask_for_guests(kind, &path, &json!({}), std::slice::from_ref(guest))
    }

    /// Forks a session that does nothing: it is known where the fork begins to count.
    pub(super) async fn fork_calmly(&mut self, (place, guest): &(usize, Guest)) {
        let parent = &self.sessions[*place];
        // Nothing is known of one that was just made, or has begun another conversation.
        let Some((total, turns)) = parent.last_total.clone() else {
            return;
        };
        let parent = parent.id.clone();
        let view = self.api().session(&parent).await;
        // A prompt that no process had taken runs in the one that the session has got since it was looked at.
        let does_nothing = view["turns"] == turns && view["state"] != "busy" && view["state"] != "waiting";
        if !does_nothing {
            self.count("ran after rest");
        }
        let path = format!("/v1/sessions/{parent}/fork");
        let kind = Kind::Fork {
            parent,
            begins_at: does_nothing.then_some(total),
        };
        if self.ask_for_guests(kind, &path, &json!({}), std::slice::from_ref(guest)) {
            self.hear_answers().await;
        }
    }

    pub(super) fn invite(&mut self, guests: &[Guest]) -> bool {
        let body = json!({ "cwd": self.daemon.home().join(HALL), "options": options() });
        self.ask_for_guests(Kind::Visit, "/v1/sessions", &body, guests)
    }

    /// In a calm moment, when the processes that are started in advance are there: each of them is given once.
    pub(super) async fn visit(&mut self, guests: &[Guest]) {
        let api = self.api();
        let until = Instant::now() + CALM_LIMIT;
        let ready = loop {
            let ready = api.get("/readyz").await.expect(200)["warm"][0]["ready"].clone();
            if ready == SPARES || Instant::now() >= until {
                break ready;
            }
            pass(Duration::from_millis(20)).await;
        };
        self.story.tell(format!("{ready} processes wait for visits"));
        if self.invite(guests) {
            self.hear_answers().await;
        }
    }

    /// Waits a moment until all who ask have got an answer.
    pub(super) async fn hear_answers(&mut self) {
        let until = tokio::time::Instant::now() + CALM_LIMIT;
        while let Ok(Some(made)) = timeout_at(until, self.makers.join_next()).await {
            let (kind, guest, made) = made.unwrap();
            self.welcome(kind, guest, made);
        }
    }

    pub(super) fn adopt(&mut self, guests: &[Guest]) -> bool {
        let Some(left) = self.left.pop() else {
            return false;
        };
        let mut options = options();
        options["resume"] = json!(left.conversation);
        let body = json!({ "cwd": left.cwd, "options": options });
        self.ask_for_guests(Kind::Adopted(left), "/v1/sessions", &body, guests)
    }

    fn ask_for_guests(&mut self, kind: Kind, path: &str, body: &Value, guests: &[Guest]) -> bool {
        let expected = self.guests.len() + self.makers.len() + self.doubtful.len();
        if expected + guests.len() > GUESTS {
            self.story.tell("there are too many guests");
            return false;
        }
        for guest in guests {
            let made = people::make(
                self.address.subscribe(),
                path.to_owned(),
                body.clone(),
                guest.clone(),
            );
            let kind = kind.clone();
            self.makers.spawn(async move {
                let (guest, made) = made.await;
                (kind, guest, made)
            });
        }
        true
    }

    /// Takes in those who have got an answer by now.
    pub(super) fn welcome_who_came(&mut self) {
        while let Some(made) = self.makers.try_join_next() {
            let (kind, guest, made) = made.unwrap();
            self.welcome(kind, guest, made);
        }
    }

    pub(super) fn welcome(&mut self, kind: Kind, guest: Guest, made: Made) {
        self.story
            .tell(format!("{} as {kind:?}: {}", guest.title, told(&made)));
        match made {
            Made::Yes(view) => self.take_in(kind, guest, &view, true),
            Made::Unknown => self.doubtful.push((kind, guest)),
            Made::No(why) => {
                let is_expected = match &kind {
                    Kind::Resident | Kind::Visit => false,
                    Kind::Fork { .. } => why.contains("conversation_not_started"),
                    // Two ask for the same. The real agent does not go on with a conversation of which it has kept too little.
                    Kind::Adopted(left) => {
                        why.contains("conversation_taken")
                            || (!left.is_fake && why.contains("conversation_not_found"))
                    }
                };
                assert!(is_expected, "{kind:?} is refused: {why}");
                self.count("guests refused");
            }
        }
    }

    /// Sessions whose makers got no answer, and only those, may be there without being known.
    pub(super) async fn find_who_came_unheard(&mut self) {
        let api = self.api();
        // After a full disk the store has to catch up.
        let list = wait_for("the list of sessions", PATIENCE, async || {
            let reply = api.get("/v1/sessions?limit=500").await;
            (reply.body["code"] != "storage_unavailable").then(|| reply.expect(200))
        })
        .await;
        let views = list["items"].as_array().unwrap();
        let known: BTreeSet<_> = self.all().map(|session| session.id.clone()).collect();
        for view in views.iter().filter(|view| !known.contains(id_of(view))) {
            let mut asked = self.doubtful.iter();
            let place = asked.position(|(_, guest)| view["title"] == guest.title.as_str());
            let Some(place) = place else {
                panic!("a session that nobody asked for, or that was made twice: {view:#}");
            };
            let (kind, guest) = self.doubtful.remove(place);
            self.story.tell(format!("{} is there", guest.title));
            self.take_in(kind, guest, view, false);
        }
        self.doubtful.clear();
        let listed: BTreeSet<_> = views.iter().map(id_of).collect();
        let mut conversations = BTreeSet::new();
        for session in self.all() {
            assert!(listed.contains(session.id.as_str()), "{} is lost", session.id);
        }
        for view in views {
            let conversation = view["cli"]["session_id"].as_str().unwrap();
            assert!(
                conversations.insert(conversation),
                "a conversation belongs to two sessions: {view:#}"
            );
        }
    }

    fn take_in(&mut self, kind: Kind, guest: Guest, view: &Value, is_told: bool) {
        let id = id_of(view).to_owned();
        assert!(
            self.all().all(|session| session.id != id),
            "two have got the same session: {view:#}"
        );
        let is_fake = match &kind {
            Kind::Resident | Kind::Visit => true,
            Kind::Fork { parent, .. } => {
                assert_eq!(view["parent_id"], parent.as_str(), "{view:#}");
                let mut parents = self.all().filter(|session| session.id == *parent);
                parents.next().expect("it was not deleted").is_fake
            }
            Kind::Adopted(left) => left.is_fake,
        };
        // The settings of a start that failed are not taken.
        let taken = is_told && view["state"] != "failed";
        let sent = guest.prompt.map(|(uuid, text)| Sent {
            id: id.clone(),
            uuid,
            text,
            taken,
            seq: None,
        });
        self.count(match &kind {
            Kind::Resident => "sessions",
            Kind::Fork { .. } => "forked",
            Kind::Visit => "visited",
            Kind::Adopted(_) => "adopted",
        });
        let clients = vec![Client::start(self.address.subscribe(), &id, usize::MAX)];
        let marks = match &kind {
            Kind::Fork { .. } => Marks::unknown(),
            Kind::Resident | Kind::Visit | Kind::Adopted(_) => Marks::none(),
        };
        self.guests.push(Session {
            marks,
            id,
            kind,
            is_fake,
            rounds: 0,
            clients,
            sent: sent.into_iter().collect(),
            cost: 0.0,
            totals: Vec::new(),
            last_total: None,
            has_run: false,
            stops: 0,
        });
    }

    /// Deletes the guests whose time is over: visits at the end of their round, if they have had a process, and others after
    /// another one.
    pub(super) async fn send_home(&mut self) {
        let guests = std::mem::take(&mut self.guests);
        for mut guest in guests {
            guest.rounds += 1;
            if (matches!(guest.kind, Kind::Visit) && guest.has_run) || guest.rounds > 1 {
                guest.clients.clear();
                self.delete(guest.id, guest.totals).await;
            } else {
                self.guests.push(guest);
            }
        }
    }

    /// Remembers the conversation of a session that is about to be deleted, if the agent has kept it.
    pub(super) fn remember(&mut self, view: &Value, totals: Vec<f64>) {
        let conversation = view["cli"]["session_id"].as_str().unwrap().to_owned();
        let cwd = PathBuf::from(view["cwd"].as_str().unwrap());
        let home = self.daemon.home();
        let file = format!("{conversation}.jsonl");
        let is_fake = home.join(".claude-fake").join(&file).exists();
        let projects = fs::read_dir(home.join(".claude/projects")).into_iter().flatten();
        let is_real = projects
            .flatten()
            .any(|project| project.path().join(&file).exists());
        if is_fake || is_real {
            self.left.push(Left {
                conversation,
                cwd,
                is_fake,
                totals,
            });
        }
    }

    /// The sessions that nobody has asked for yet, as the daemon marks them for the next one.
    pub(super) fn spares(&self) -> BTreeSet<String> {
        let files = fs::read_dir(self.daemon.data_dir().join("warm"))
            .into_iter()
            .flatten();
        files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

fn id_of(view: &Value) -> &str {
    view["id"].as_str().unwrap_or_else(|| panic!("no id: {view:#}"))
}

fn told(made: &Made) -> String {
    match made {
        Made::Yes(view) => format!("{} ({})", view["id"], view["state"]),
        Made::No(why) => why.clone(),
        Made::Unknown => "nobody knows".to_owned(),
    }
}
