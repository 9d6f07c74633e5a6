//! Owns `attach`: a session in the terminal. It follows the records, sends what is typed, and asks what the agent asks.
//!
//! Without a terminal on stdin it only watches.

mod answering;
mod keyboard;
mod render;
mod socket;

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::{
    answering::{Dialog, Reply},
    keyboard::Keyboard,
    render::{Event, Screen},
    socket::{Frame, Socket},
};
use super::{
    CliError, address, approvals,
    args::Common,
    client::Client,
    output::{Output, Tone, note},
    request, view,
};

/// How long a lost daemon is looked for before `attach` gives up.
const RECONNECT_FOR: Duration = Duration::from_secs(60);

/// Pause between two looks.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);

/// Why following ended.
enum Ended {
    /// The person left.
    Left,
    /// The daemon ended the connection for good, with this reason.
    Closed(String),
    /// The connection broke; the session may well live on.
    Lost,
}

/// `attach`
pub(super) async fn run(common: &Common, session: &str, after: Option<u64>) -> Result<(), CliError> {
    let mut terminal = Terminal {
        session: session.to_owned(),
        output: Output::new(false),
        screen: Screen::default(),
        dialog: Dialog::default(),
        keyboard: io::stdin().is_terminal().then(Keyboard::start),
        interrupt: signal(SignalKind::interrupt()).context("cannot take over Ctrl-C")?,
        last_seq: after,
        history: None,
    };
    let mut lost_since: Option<tokio::time::Instant> = None;
    loop {
        let before = terminal.last_seq;
        let ended = match terminal.connect(common).await {
            Ok((client, mut socket)) => {
                let ended = terminal.follow(&client, &mut socket).await?;
                if matches!(ended, Ended::Left) {
                    socket.close().await;
                }
                ended
            }
            Err(error) if lost_since.is_some() && is_temporary(&error) => Ended::Lost,
            Err(error) => return Err(error),
        };
        match ended {
            Ended::Left => return Ok(()),
            Ended::Closed(reason) => {
                note(&format!("the daemon closed the connection: {reason}"));
                return Ok(());
            }
            Ended::Lost => {
                let now = tokio::time::Instant::now();
                if lost_since.is_none() || terminal.last_seq != before {
                    note("connection lost, trying again; Ctrl-C gives up");
                    lost_since = Some(now);
                }
                if lost_since.is_some_and(|since| now - since > RECONNECT_FOR) {
                    return Err(CliError::NotRunning {
                        reason: "it did not come back".into(),
                        hint: "start it with `trunkline serve`, then attach again".into(),
                    });
                }
                tokio::select! {
                    () = tokio::time::sleep(RECONNECT_PAUSE) => {}
                    _ = terminal.interrupt.recv() => return Ok(()),
                }
            }
        }
    }
}

fn is_temporary(error: &CliError) -> bool {
    matches!(error, CliError::NotRunning { .. } | CliError::Other(_))
}

/// One attached terminal.
struct Terminal {
    session: String,
    output: Output,
    screen: Screen,
    dialog: Dialog,
    keyboard: Option<Keyboard>,
    interrupt: Signal,
    last_seq: Option<u64>,
    /// The last record that is history, and what waits for an answer once it was shown.
    history: Option<(u64, Vec<Value>)>,
}

impl Terminal {
    /// The daemon may have come back at another address, so it is looked up each time.
    async fn connect(&self, common: &Common) -> Result<(Client, Socket), CliError> {
        let client = Client::new(&address(common)?)?;
        let socket = Socket::open(&client, &self.session, self.last_seq).await?;
        Ok((client, socket))
    }

    async fn follow(&mut self, client: &Client, socket: &mut Socket) -> Result<Ended, CliError> {
        loop {
            tokio::select! {
                frame = socket.next() => match frame {
                    Frame::Text(text) => self.frame(&text)?,
                    Frame::Closed(reason) => return Ok(Ended::Closed(reason)),
                    Frame::Lost => return Ok(Ended::Lost),
                },
                line = typed(&mut self.keyboard) => match line {
                    Some(line) => self.typed(client, &line).await?,
                    None => return Ok(Ended::Left),
                },
                _ = self.interrupt.recv() => {
                    if self.keyboard.is_none() {
                        return Ok(Ended::Left);
                    }
                    self.interrupt(client).await;
                }
            }
        }
    }

    fn frame(&mut self, text: &str) -> Result<(), CliError> {
        let Ok(frame) = request::parse(text.as_bytes()) else {
            return Ok(());
        };
        let seq = frame.get("seq").and_then(Value::as_u64);
        if seq.is_some() {
            self.last_seq = seq;
        }
        for event in self.screen.frame(&self.session, &frame) {
            match event {
                Event::Text(tone, text) => self.output.text(tone, &text)?,
                Event::Snapshot { head, after, pending } => {
                    self.last_seq.get_or_insert(after);
                    self.dialog = Dialog::default();
                    self.history = Some((head, pending));
                }
                // What history asked is settled, or the snapshot names it.
                Event::Asked(_) if self.history.is_some() => {}
                Event::Asked(approval) => {
                    let question = self.dialog.asked(approval);
                    self.ask(question.as_deref())?;
                }
                Event::Settled(approval) => {
                    self.settled(&approval)?;
                }
            }
        }
        if let Some((_, pending)) = self.history.take_if(|(head, _)| self.last_seq >= Some(*head)) {
            for approval in pending {
                let question = self.dialog.asked(approval);
                self.ask(question.as_deref())?;
            }
        }
        Ok(())
    }

    fn ask(&self, question: Option<&str>) -> Result<(), CliError> {
        let Some(question) = question else { return Ok(()) };
        if let Some(keyboard) = &self.keyboard {
            keyboard.forget();
        }
        self.output.text(Tone::Strong, question)?;
        if self.keyboard.is_none() {
            self.output
                .line("(answer with `trunkline approve` or `trunkline deny`)")?;
        }
        Ok(())
    }

    /// A question is answered, by us or by somebody else: what is half typed for it dies with it.
    fn settled(&mut self, approval: &str) -> Result<(), CliError> {
        if self.dialog.is_asking(approval)
            && let Some(keyboard) = &self.keyboard
        {
            keyboard.forget();
        }
        let next = self.dialog.settled(approval);
        self.ask(next.as_deref())
    }

    async fn typed(&mut self, client: &Client, line: &str) -> Result<(), CliError> {
        match self.dialog.reply(line) {
            Reply::Again(question) => self.ask(Some(&question)),
            Reply::Decided { approval, decision } => {
                match approvals::decide(client, &self.session, &approval, &decision).await {
                    // Its record may come later than the next line is typed, which is no answer to it any more.
                    Ok(_) => self.settled(&approval),
                    // It may fit no field of a form: it is asked again. When somebody else was faster, the records say so.
                    Err(error) => {
                        note(&error.chain());
                        self.ask(self.dialog.question().as_deref())
                    }
                }
            }
            Reply::NotAsked => {
                if !line.trim().is_empty() {
                    self.send(client, line).await;
                }
                Ok(())
            }
        }
    }

    async fn send(&mut self, client: &Client, text: &str) {
        // The socket is not read meanwhile, so the id is known before the record comes.
        let path = ["v1", "sessions", &self.session, "messages"];
        match client.post(&path, &json!({"text": text})).await {
            Ok(accepted) => self.screen.sent(view::text(&accepted, &["uuid"])),
            Err(error) => {
                note(&format!("not sent: {}", error.chain()));
                if let Some(hint) = error.hint() {
                    note(&format!("hint: {hint}"));
                }
            }
        }
    }

    async fn interrupt(&self, client: &Client) {
        let path = ["v1", "sessions", &self.session, "interrupt"];
        match client.post(&path, &json!({})).await {
            Ok(_) => note("interrupted; Ctrl-D leaves"),
            Err(error) => note(&format!("cannot interrupt: {}", error.chain())),
        }
    }
}

/// The next typed line; waits for ever when nothing can be typed.
async fn typed(keyboard: &mut Option<Keyboard>) -> Option<String> {
    match keyboard {
        Some(keyboard) => keyboard.line().await,
        None => std::future::pending().await,
    }
}
