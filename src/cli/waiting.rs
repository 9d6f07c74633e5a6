//! Owns the wait for the answer to a message: also over a restart of the daemon, and with a person whom the agent asks
//! something meanwhile.

use std::{
    io::{self, IsTerminal as _},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use serde_json::Value;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::Instant,
};

use super::{
    CliError, approvals,
    args::Common,
    attach::{
        answering::{Dialog, Reply},
        board::{Board, Key, Typed},
        keyboard::Keyboard,
    },
    client::Client,
    messages::Message,
    output::note,
    reach,
    request::{self, Room},
    trouble::{self, Trouble},
    view,
};
use crate::domain::ErrorCode;

/// How often it is looked whether the agent waits for a person.
const LOOK: Duration = Duration::from_millis(500);

/// Longest time for a look; a daemon that hangs is asked again.
const LONGEST_LOOK: Duration = Duration::from_secs(5);

/// How long a daemon that is away is waited for.
const AWAY_FOR: Duration = Duration::from_secs(60);

/// Records asked for in one page.
const PAGE: &str = "1000";

/// Sends a message and waits for the end of its turn. The daemon's answer.
pub(super) async fn answer(
    common: &Common,
    session: &str,
    message: &Message,
    wait: Duration,
    can_ask: bool,
) -> Result<Value, CliError> {
    let until = Instant::now() + wait;
    let body = message.body();
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot take over Ctrl-C")?;
    let mut person = Person::new(session, can_ask);
    let mut away_since: Option<Instant> = None;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let answered = match reach::address(common)
            .await
            .and_then(|address| Client::new(&address))
        {
            Ok(client) => {
                let answered = tokio::select! {
                    answered = post(&client, session, &body, left) => answered,
                    failed = person.attend(&client) => failed,
                    _ = interrupt.recv() => return Err(goes_on(session, "you do not wait any more")),
                };
                match answered {
                    // The session knows best why it took no message, or dropped it.
                    Err(error @ CliError::Refused { .. }) => Err(person.explain(&client, error).await),
                    answered => answered,
                }
            }
            Err(error) => Err(error),
        };
        match answered {
            Ok(answer) => return Ok(answer),
            Err(error) if error.is_away() => {
                let since = *away_since.get_or_insert_with(|| {
                    note("the daemon is away; waiting for it to come back");
                    Instant::now()
                });
                if since.elapsed() > AWAY_FOR || Instant::now() > until {
                    return Err(error);
                }
                tokio::time::sleep(LOOK).await;
            }
            // A daemon that shuts down ends all waits.
            Err(error) if error.code() == Some(ErrorCode::WaitTimeout) && until > Instant::now() => {
                tokio::time::sleep(LOOK).await;
            }
            // The process that was to take it has just died, and the next one gets it.
            Err(error)
                if error.code() == Some(ErrorCode::InputBlocked)
                    && person.sees_restart
                    && until > Instant::now() =>
            {
                tokio::time::sleep(LOOK).await;
            }
            Err(error) if error.code() == Some(ErrorCode::WaitTimeout) => {
                return Err(goes_on(
                    session,
                    &format!("no answer within {} s", wait.as_secs()),
                ));
            }
            Err(error) => return Err(error),
        }
    }
}

async fn post(client: &Client, session: &str, body: &Value, left: Duration) -> Result<Value, CliError> {
    let timeout = left.as_millis().max(1).to_string();
    let query = [("wait", "result"), ("timeout_ms", timeout.as_str())];
    let path = ["v1", "sessions", session, "messages"];
    client.post_and_wait(&path, &query, body, left).await
}

fn goes_on(session: &str, why: &str) -> CliError {
    CliError::Other(anyhow::anyhow!(
        "{why}; the turn goes on: `trunkline attach {session}` shows it"
    ))
}

/// All that the agent said in the turn of an answer.
pub(super) async fn said(client: &Client, session: &str, answer: &Value) -> String {
    let result = view::text(answer, &["result", "result"]);
    let first = view::number(answer, &["turn", "first_seq"]).unwrap_or(0);
    let last = view::number(answer, &["turn", "last_seq"]).unwrap_or(0);
    let mut texts: Vec<String> = Vec::new();
    let mut after = first.saturating_sub(1);
    while after < last {
        let from = after.to_string();
        let query = [("after", from.as_str()), ("limit", PAGE)];
        let Ok(page) = client.get(&["v1", "sessions", session, "events"], &query).await else {
            break;
        };
        for record in view::list(&page, &["items"]) {
            let seq = view::number(record, &["seq"]).unwrap_or(u64::MAX);
            let data = record.get("data").unwrap_or(&Value::Null);
            let is_agent = view::text(record, &["src"]) == "cli"
                && view::text(data, &["type"]) == "assistant"
                && view::text(data, &["parent_tool_use_id"]).is_empty();
            if is_agent && seq <= last {
                let content = view::at(data, &["message", "content"]).unwrap_or(&Value::Null);
                texts.extend(Some(view::content_text(content)).filter(|text| !text.is_empty()));
            }
        }
        match view::number(&page, &["next_after"]) {
            Some(next) if next > after => after = next,
            _ => break,
        }
    }
    if !texts.iter().any(|text| text.contains(result.trim())) {
        texts.push(result.to_owned());
    }
    texts.join("\n\n")
}

/// The person who is told what the agent asks, and asked on a terminal.
struct Person {
    session: String,
    can_ask: bool,
    told: Vec<String>,
    dialog: Dialog,
    board: Arc<Board>,
    keyboard: Option<Keyboard>,
    questions: u64,
    /// The trouble that was told last.
    trouble: Option<Trouble>,
    sees_restart: bool,
    /// Records up to here were looked at.
    seen: Option<u64>,
    is_told_of_retry: bool,
}

impl Person {
    fn new(session: &str, can_ask: bool) -> Self {
        Self {
            session: session.to_owned(),
            can_ask: can_ask && io::stdin().is_terminal() && io::stderr().is_terminal(),
            told: Vec::new(),
            dialog: Dialog::default(),
            board: Arc::new(Board::default()),
            keyboard: None,
            questions: 0,
            trouble: None,
            sees_restart: false,
            seen: None,
            is_told_of_retry: false,
        }
    }

    /// Tells what the agent asks and takes answers, for as long as somebody waits. Comes back only with a failure.
    async fn attend(&mut self, client: &Client) -> Result<Value, CliError> {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = looks.tick() => {
                    let look = tokio::time::timeout(LONGEST_LOOK, look(client, &self.session));
                    // A look that fails is made again; the request that waits says what is wrong.
                    if let Ok(Ok((session, mut pending))) = look.await {
                        self.trouble(&session)?;
                        self.retries(client, &session).await;
                        for approval in &mut pending {
                            self.complete(client, approval).await;
                        }
                        self.look(pending);
                    }
                }
                typed = typed(&mut self.keyboard) => self.typed(client, typed).await?,
            }
        }
    }

    /// Tells at once that the agent CLI died, and ends the wait when no other is to come.
    fn trouble(&mut self, session: &Value) -> Result<(), CliError> {
        let trouble = Trouble::of(session);
        self.sees_restart = trouble.as_ref().is_some_and(|trouble| !trouble.is_final());
        match trouble {
            Some(trouble) if trouble.is_final() => return Err(trouble.error(&self.session)),
            Some(trouble) if self.trouble.as_ref() != Some(&trouble) => {
                note(&trouble.told());
                if self.trouble.is_none() {
                    note(&format!("hint: {}", trouble.advice(&self.session)));
                }
                self.trouble = Some(trouble);
            }
            _ => {}
        }
        Ok(())
    }

    /// Tells that the model API fails: the CLI tries for minutes, also with a key that is wrong.
    async fn retries(&mut self, client: &Client, session: &Value) {
        let head = view::number(session, &["head_seq"]).unwrap_or(0);
        let after = *self.seen.get_or_insert(head);
        if self.is_told_of_retry || after >= head {
            return;
        }
        let from = after.to_string();
        let query = [("after", from.as_str()), ("limit", PAGE)];
        let path = ["v1", "sessions", &self.session, "events"];
        let asked = tokio::time::timeout(LONGEST_LOOK, client.get(&path, &query));
        let Ok(Ok(page)) = asked.await else { return };
        self.seen = view::number(&page, &["next_after"]).or(self.seen);
        let mut retries = view::list(&page, &["items"]).iter().filter_map(|record| {
            let data = record.get("data")?;
            let is_retry =
                view::text(record, &["src"]) == "cli" && view::text(data, &["subtype"]) == "api_retry";
            is_retry.then_some(data)
        });
        if let Some(data) = retries.next() {
            self.is_told_of_retry = true;
            let words = trouble::retry(data);
            note(&words);
            if let Some(advice) = trouble::advice(&words) {
                note(&format!("hint: {advice}"));
            }
        }
    }

    /// A refusal with what is known of the session that refused.
    async fn explain(&mut self, client: &Client, error: CliError) -> CliError {
        use ErrorCode as C;
        let tells_of_an_end = matches!(
            error.code(),
            Some(C::SessionNotLive | C::InputBlocked | C::PromptDropped | C::PromptNotPending)
        );
        if !tells_of_an_end {
            return error;
        }
        let Ok(session) = client.get(&["v1", "sessions", &self.session], &[]).await else {
            return error;
        };
        self.trouble(&session).err().unwrap_or(error)
    }

    /// Has all of a large request that is news.
    async fn complete(&self, client: &Client, approval: &mut Value) {
        let is_news = !self.told.iter().any(|told| told == view::text(approval, &["id"]));
        if is_news && request::is_part(approval) {
            *approval = request::completed(client, &self.session, approval.take()).await;
        }
    }

    fn look(&mut self, pending: Vec<Value>) {
        let ids: Vec<&str> = pending
            .iter()
            .map(|approval| view::text(approval, &["id"]))
            .collect();
        let gone: Vec<String> = self
            .told
            .iter()
            .filter(|id| !ids.contains(&id.as_str()))
            .cloned()
            .collect();
        for id in gone {
            self.settled(&id);
        }
        for approval in pending {
            let id = view::text(&approval, &["id"]).to_owned();
            if self.told.contains(&id) {
                continue;
            }
            self.told.push(id.clone());
            if self.can_ask {
                if let Some(question) = self.dialog.asked(approval) {
                    self.show(Some(&question));
                }
                continue;
            }
            let session = &self.session;
            note(&format!(
                "the agent waits for a person:\n{}  answer with `trunkline approve {session} {id}` or `trunkline deny \
                 {session} {id}`",
                request::shown(&approval, Room::SCREEN).text
            ));
        }
    }

    /// Puts a question on the screen; what was typed before is no answer to it.
    fn show(&mut self, question: Option<&str>) {
        let asked = question.map(|_| {
            self.questions += 1;
            self.questions
        });
        self.board.set_asked(asked);
        let Some(question) = question else { return };
        let board = &self.board;
        self.keyboard
            .get_or_insert_with(|| Keyboard::start(board))
            .turn_over();
        note(question);
    }

    fn settled(&mut self, id: &str) {
        self.told.retain(|told| told != id);
        let is_open = self.dialog.is_asking(id);
        let next = self.dialog.settled(id);
        if is_open {
            self.show(next.as_deref());
        }
    }

    async fn typed(&mut self, client: &Client, typed: Typed) -> Result<(), CliError> {
        let line = match typed.key {
            Key::Line(line) if typed.asked.is_some() && typed.asked == self.board.asked() => line,
            Key::Line(_) => {
                note("nothing is asked now; the answer is still to come");
                return Ok(());
            }
            _ => return Err(goes_on(&self.session, "you do not wait any more")),
        };
        match self.dialog.reply(&line) {
            Reply::Again(question) => self.show(Some(&question)),
            Reply::NotAsked => {}
            Reply::Decided { approval, decision } => {
                self.show(None);
                match approvals::decide(client, &self.session, &approval, &decision).await {
                    Ok(_) => self.settled(&approval),
                    Err(error) => {
                        note(&error.chain());
                        let question = self.dialog.refused(&approval);
                        self.show(question.as_deref());
                    }
                }
            }
        }
        Ok(())
    }
}

/// The session, and what it asks a person.
async fn look(client: &Client, session: &str) -> Result<(Value, Vec<Value>), CliError> {
    let found = client.get(&["v1", "sessions", session], &[]).await?;
    Ok((found, pending(client, session).await?))
}

async fn pending(client: &Client, session: &str) -> Result<Vec<Value>, CliError> {
    let path = ["v1", "sessions", session, "approvals"];
    let page = client.get(&path, &[("state", "pending")]).await?;
    Ok(view::list(&page, &["items"]).to_vec())
}

/// The next input; waits for ever when nothing was asked yet.
async fn typed(keyboard: &mut Option<Keyboard>) -> Typed {
    match keyboard {
        Some(keyboard) => keyboard.typed().await,
        None => std::future::pending().await,
    }
}
