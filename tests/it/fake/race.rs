//! Owns the race for a thousand approvals: eight clients answer each of them, over sockets, over REST or over both.

mod audit;

use std::{collections::HashMap, fs};

use futures_util::{StreamExt as _, future::join_all, stream};
use serde_json::{Value, json};

use self::audit::Won;
use crate::{
    fake::bed::{act, session},
    support::{
        chance::Chance,
        daemon::TestDaemon,
        rest::Rest,
        wait::{PATIENCE, wait_until},
        ws::Ws,
    },
};

const SESSIONS: usize = 4;
/// The CLI asks for so many at once, and goes on when all are answered.
const AT_ONCE: usize = 25;
const BATCHES: usize = 10;
/// Answers that a client has under way when it does not wait for each.
const UNDER_WAY: usize = 5;

/// How a client answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Socket,
    Rest,
    /// Each answer over both at once: it can win with one of them only.
    Both,
}

const CLIENTS: [Way; 8] = [
    Way::Socket,
    Way::Socket,
    Way::Socket,
    Way::Both,
    Way::Rest,
    Way::Rest,
    Way::Rest,
    Way::Both,
];

/// An approval that waits.
#[derive(Clone, Debug)]
struct Asked {
    id: String,
    request: String,
}

/// An answer of a client to one approval, and its outcome.
#[derive(Debug)]
struct Tried {
    request: String,
    client: usize,
    by: String,
    /// The answer as the CLI should get it.
    answer: Value,
    outcome: Outcome,
}

#[derive(Debug)]
enum Outcome {
    Won,
    /// The decision that it was shown: state, by whom, and the answer where that is told.
    Lost {
        state: String,
        by: String,
        response: Option<Value>,
    },
}

/// One of the eight, as it attends one session.
struct Client {
    number: usize,
    session: String,
    rest: Rest,
    socket: Option<(Ws, String)>,
    chance: Chance,
}

impl Client {
    async fn attach(daemon: &TestDaemon, session: &str, number: usize, chance: Chance) -> Self {
        let socket = if CLIENTS[number] == Way::Rest {
            None
        } else {
            let mut socket = daemon.attach(session, None).await;
            let snapshot = socket.next().await;
            let connection = snapshot["connection_id"].as_str().unwrap();
            let by = format!("ws:{connection}");
            Some((socket, by))
        };
        Self {
            number,
            session: session.to_owned(),
            rest: daemon.rest(),
            socket,
            chance,
        }
    }

    /// An answer that no other client gives.
    fn answer(&mut self) -> Value {
        let name = format!("client {}", self.number);
        let rule = json!([{ "type": "addRules", "rules": [{ "toolName": "Bash", "ruleContent": name }], "behavior": "allow", "destination": "session" }]);
        match self.chance.below(4) {
            0 => json!({ "behavior": "allow", "updatedInput": { "command": name } }),
            1 => {
                json!({ "behavior": "allow", "updatedInput": { "command": name }, "updatedPermissions": rule })
            }
            2 => json!({ "behavior": "deny", "message": name }),
            _ => json!({ "behavior": "deny", "message": name, "interrupt": false }),
        }
    }

    /// Answers all of a batch, in this order.
    async fn answer_all(&mut self, asked: &[Asked]) -> Vec<Tried> {
        let answers: Vec<(Asked, Value)> = asked.iter().map(|it| (it.clone(), self.answer())).collect();
        let hasty = self.chance.one_in(2);
        match CLIENTS[self.number] {
            Way::Rest => {
                let under_way = if hasty { UNDER_WAY } else { 1 };
                let this = &*self;
                let tries = answers
                    .into_iter()
                    .map(|(asked, answer)| this.over_rest(asked, answer));
                stream::iter(tries).buffered(under_way).collect().await
            }
            Way::Socket if hasty => self.over_socket(&answers).await,
            Way::Socket => {
                let mut tried = Vec::new();
                for one in answers {
                    tried.extend(self.over_socket(&[one]).await);
                }
                tried
            }
            Way::Both => {
                let mut tried = Vec::new();
                for (asked, answer) in answers {
                    // The socket's part needs the client; REST gets by with a copy.
                    let other = Self {
                        number: self.number,
                        session: self.session.clone(),
                        rest: self.rest.clone(),
                        socket: None,
                        chance: self.chance.split(),
                    };
                    let one = [(asked.clone(), answer.clone())];
                    let (mine, others) = tokio::join!(self.over_socket(&one), other.over_rest(asked, answer));
                    tried.extend(mine);
                    tried.push(others);
                }
                tried
            }
        }
    }

    async fn over_rest(&self, asked: Asked, answer: Value) -> Tried {
        let decision = if answer["behavior"] == "allow" {
            let mut decision = json!({ "decision": "allow", "updated_input": answer["updatedInput"] });
            if let Some(rules) = answer.get("updatedPermissions") {
                decision["updated_permissions"] = rules.clone();
            }
            decision
        } else {
            json!({ "decision": "deny", "message": answer["message"] })
        };
        let reply = self.rest.decide(&self.session, &asked.id, decision).await;
        let outcome = if reply.status == 200 {
            assert_eq!(reply.body["id"], asked.id, "{:#}", reply.body);
            Outcome::Won
        } else {
            let shown = reply.body["approval"].clone();
            assert_eq!(reply.problem(409), "already_decided");
            assert_eq!(shown["id"], asked.id, "{shown:#}");
            Outcome::Lost {
                state: text(&shown["state"]),
                by: text(&shown["resolution"]["by"]),
                response: Some(shown["resolution"]["response"].clone()),
            }
        };
        Tried {
            request: asked.request,
            client: self.number,
            by: "rest".to_owned(),
            answer,
            outcome,
        }
    }

    /// Sends all, then reads how each went.
    async fn over_socket(&mut self, answers: &[(Asked, Value)]) -> Vec<Tried> {
        let (socket, by) = self.socket.as_mut().unwrap();
        for (asked, answer) in answers {
            let line = json!({ "type": "control_response",
                "response": { "subtype": "success", "request_id": asked.request, "response": answer } });
            socket.send(&line).await;
        }
        let mut outcomes = HashMap::new();
        while outcomes.len() < answers.len() {
            let frame = socket.next().await;
            let outcome = match frame["type"].as_str() {
                // Records, and that the other clients came.
                None | Some("trunkline.clients") => continue,
                Some("trunkline.ack") => Outcome::Won,
                Some("trunkline.error") => {
                    assert_eq!(frame["code"], "already_decided", "{frame:#}");
                    let asked = answers
                        .iter()
                        .find(|(asked, _)| asked.request == frame["request_id"]);
                    assert_eq!(frame["approval_id"], asked.unwrap().0.id, "{frame:#}");
                    Outcome::Lost {
                        state: text(&frame["state"]),
                        by: text(&frame["by"]),
                        response: None,
                    }
                }
                Some(_) => panic!("a frame that nobody asked for: {frame:#}"),
            };
            let before = outcomes.insert(text(&frame["request_id"]), outcome);
            assert!(before.is_none(), "two outcomes of one answer: {frame:#}");
        }
        answers
            .iter()
            .map(|(asked, answer)| Tried {
                request: asked.request.clone(),
                client: self.number,
                by: by.clone(),
                answer: answer.clone(),
                outcome: outcomes.remove(&asked.request).unwrap(),
            })
            .collect()
    }

    /// Goes; nothing more was meant for this client.
    async fn leave(self) {
        let Some((mut socket, _)) = self.socket else {
            return;
        };
        socket.send(&json!({ "type": "trunkline.ping", "id": 1 })).await;
        let frames = socket
            .until("the pong", |frame| frame["type"] == "trunkline.pong")
            .await;
        // The others come and go.
        let is_meant = |frame: &&Value| frame["type"].is_string() && frame["type"] != "trunkline.clients";
        let meant: Vec<_> = frames.iter().filter(is_meant).collect();
        assert_eq!(meant.len(), 1, "{meant:#?}");
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("no text: {value}"))
        .to_owned()
}

/// The race for the approvals of one session: who won which request, and with what.
async fn race(daemon: &TestDaemon, id: &str, mut chance: Chance) -> HashMap<String, Won> {
    let rest = daemon.rest();
    let mut clients = Vec::new();
    for number in 0..CLIENTS.len() {
        clients.push(Client::attach(daemon, id, number, chance.split()).await);
    }
    let mut viewer = daemon.attach(id, None).await;
    // The ids are the same in every session.
    let batches = (0..BATCHES).map(|batch| {
        let ids: Vec<String> = (0..AT_ONCE).map(|n| format!("q-{batch}-{n}")).collect();
        json!({ "ask": { "ids": ids } })
    });
    act(&rest, id, batches.collect()).await;
    let mut winners = HashMap::new();
    for _ in 0..BATCHES {
        let mut asked = asked(&mut viewer).await;
        chance.shuffle(&mut asked);
        // All in the same order, so that they meet at each; or each client in its own.
        let same_order = chance.one_in(2);
        let tries = clients.iter_mut().map(|client| {
            let mut mine = asked.clone();
            if !same_order {
                client.chance.shuffle(&mut mine);
            }
            async move { client.answer_all(&mine).await }
        });
        let tries = join_all(tries).await.into_iter().flatten();
        decide_winners(tries.collect(), &asked, &mut winners);
    }
    viewer.cli_line("result").await;
    rest.in_state(id, &["idle"]).await;
    // The words about the last ones are records that come after the answers themselves.
    wait_until("each decision is told", PATIENCE, || {
        let told = daemon
            .journal(id)
            .matches(r#""data":{"type":"decision","#)
            .count();
        told >= BATCHES * AT_ONCE
    })
    .await;
    for client in clients {
        client.leave().await;
    }
    winners
}

/// The next batch that is announced.
async fn asked(viewer: &mut Ws) -> Vec<Asked> {
    let mut asked = Vec::new();
    while asked.len() < AT_ONCE {
        let frames = viewer
            .until("an approval", |frame| frame["data"]["type"] == "approval")
            .await;
        let note = &frames.last().unwrap()["data"];
        asked.push(Asked {
            id: text(&note["approval_id"]),
            request: text(&note["request_id"]),
        });
    }
    asked
}

/// Asserts that one of all answers to a request won, and that the others were shown it.
fn decide_winners(tries: Vec<Tried>, asked: &[Asked], winners: &mut HashMap<String, Won>) {
    let answers = CLIENTS.map(|way| if way == Way::Both { 2 } else { 1 });
    let mut by_request: HashMap<String, Vec<Tried>> = HashMap::new();
    for tried in tries {
        by_request.entry(tried.request.clone()).or_default().push(tried);
    }
    for Asked { id, request } in asked {
        let tries = by_request.remove(request).unwrap();
        assert_eq!(tries.len(), answers.iter().sum::<usize>(), "{request}");
        let (won, lost): (Vec<_>, Vec<_>) = tries
            .into_iter()
            .partition(|tried| matches!(tried.outcome, Outcome::Won));
        assert_eq!(won.len(), 1, "{request}: {won:#?}");
        let won = won.into_iter().next().unwrap();
        let won = Won::new(id.clone(), won.client, won.by, won.answer);
        for tried in lost {
            let Outcome::Lost { state, by, response } = &tried.outcome else {
                continue;
            };
            assert_eq!((state, by), (&won.state, &won.by), "{request}: {tried:#?}");
            if let Some(response) = response {
                assert!(won.is_answer(response), "{request}: {response:#}");
            }
        }
        winners.insert(request.clone(), won);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_approvals_are_decided_once_each_by_eight_racing_clients() {
    let mut chance = Chance::new();
    let daemon = TestDaemon::with_fake().start().await;
    let mut sessions = Vec::new();
    for number in 0..SESSIONS {
        let stdin = daemon.home().join(format!("stdin-{number}"));
        let settings = json!({ "record_stdin": stdin });
        let id = session(&daemon, &format!("s{number}"), settings).await;
        sessions.push((id, stdin, chance.split()));
    }
    let daemon = &daemon;
    let races = sessions.into_iter().map(|(id, stdin, chance)| async move {
        let winners = race(daemon, &id, chance).await;
        (id, fs::read_to_string(stdin).unwrap(), winners)
    });
    let ended = join_all(races).await;
    let mut wins = [0; CLIENTS.len()];
    let mut decided = 0;
    let exported = audit::export(&daemon.rest(), "/v1/approvals").await;
    for (id, stdin, winners) in &ended {
        decided += winners.len();
        for won in winners.values() {
            wins[won.client] += 1;
        }
        let journal = daemon.journal(id);
        let own = audit::export(&daemon.rest(), &format!("/v1/sessions/{id}/approvals")).await;
        audit::check(id, &journal, stdin, winners, &own);
        let of_all: Vec<&String> = exported
            .iter()
            .filter(|line| line.contains(id.as_str()))
            .collect();
        assert_eq!(
            of_all,
            own.iter().collect::<Vec<_>>(),
            "the log of all says the same"
        );
    }
    assert_eq!(decided, SESSIONS * BATCHES * AT_ONCE);
    assert_eq!(exported.len(), decided);
    println!("wins: {wins:?}");
    let by_socket = wins[..3].iter().sum::<i32>();
    let by_rest = wins[4..7].iter().sum::<i32>();
    assert!(by_socket > 0 && by_rest > 0, "it was no race: {wins:?}");
    let inbox = daemon.rest().get("/v1/approvals?state=pending").await.expect(200);
    assert_eq!(inbox["items"], json!([]));
}
