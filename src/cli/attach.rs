//! Owns `attach`: a session in the terminal. It follows the records, sends what is typed, and asks what the agent asks.
//!
//! On a terminal that can be painted on there is a line editor at the bottom (`editor.rs`); on others lines are read as
//! they come (`keyboard.rs`); without a terminal it only watches. Nothing here waits for the daemon but for its records, so
//! keys are always heard.

pub(super) mod answering;
pub(super) mod board;
mod editor;
pub(super) mod keyboard;
mod page;
pub(super) mod render;
mod sending;
pub(super) mod socket;
mod status;
mod typing;
mod words;

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use serde_json::Value;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::Instant,
};

use self::{
    answering::Dialog,
    board::{Board, Key, Typed},
    editor::Editor,
    keyboard::Keyboard,
    page::Page,
    render::{Event, Screen},
    sending::{Outcome, Sending},
    socket::{Frame, Socket},
    status::Status,
    typing::Held,
    words::Signs,
};
use super::{
    CliError,
    args::Common,
    client::Client,
    output::{Output, Tone, note},
    reach, request, settings, view,
};
use crate::domain::ErrorCode;

/// How long a lost daemon is looked for before `attach` gives up.
const RECONNECT_FOR: Duration = Duration::from_secs(60);

/// Pause between two looks.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);

/// How long what is under way may take once the person leaves.
const GOODBYE: Duration = Duration::from_millis(1_500);

/// Records before the newest that the last screen is made of.
const LOOK_BACK: u64 = 500;

/// How often a message is sent again that the daemon does not answer.
const MOST_TRIES: u32 = 5;

/// Why following ended.
enum Ended {
    /// The person left.
    Left,
    /// The person goes to another session.
    Other(String),
    /// The daemon ended the connection for good, with this reason.
    Closed(String),
    /// The connection broke; the session may well live on.
    Lost,
}

/// `attach`
pub(super) async fn run(
    common: &Common,
    session: &str,
    after: Option<u64>,
    is_plain: bool,
) -> Result<(), CliError> {
    let has_keys = io::stdin().is_terminal();
    let can_paint = has_keys
        && io::stdout().is_terminal()
        && std::env::var("TERM").is_ok_and(|term| !matches!(term.as_str(), "" | "dumb"));
    if !has_keys && io::stdout().is_terminal() {
        note("nothing can be typed here, as the input is no terminal: watching; Ctrl-C leaves");
    }
    let output = Output::new(false);
    let has_colour = output.has_colour();
    let mut terminal = Terminal {
        session: session.to_owned(),
        page: Page::new(output, has_colour),
        screen: Screen::default(),
        dialog: Dialog::default(),
        board: Arc::new(Board::default()),
        editor: None,
        keyboard: None,
        sending: None,
        interrupt: signal(SignalKind::interrupt()).context("cannot take over Ctrl-C")?,
        terminate: signal(SignalKind::terminate()).context("cannot take over SIGTERM")?,
        hang_up: signal(SignalKind::hangup()).context("cannot take over SIGHUP")?,
        last_seq: after,
        is_joining: after.is_none() && has_keys,
        history: None,
        status: Status::default(),
        questions: 0,
        held: None,
        doubted: None,
        tries: 0,
    };
    let history = settings::load(common, Vec::new())?
        .config
        .data
        .dir
        .join("history");
    let keys = Keys {
        has_keys,
        can_paint: can_paint && !is_plain,
        history,
        has_colour,
    };
    let result = terminal.stay(common, &keys).await;
    terminal.end().await;
    result
}

/// How keys are read.
struct Keys {
    has_keys: bool,
    can_paint: bool,
    history: PathBuf,
    has_colour: bool,
}

/// One attached terminal.
struct Terminal {
    session: String,
    page: Page,
    screen: Screen,
    dialog: Dialog,
    board: Arc<Board>,
    editor: Option<Editor>,
    keyboard: Option<Keyboard>,
    sending: Option<Sending>,
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    last_seq: Option<u64>,
    /// Whether the last screen is to be shown first.
    is_joining: bool,
    /// The last record that is history, and what waits for an answer once it was shown.
    history: Option<(u64, Vec<Value>)>,
    status: Status,
    /// How many questions were asked.
    questions: u64,
    /// A message to a session that has to be resumed first.
    held: Option<Held>,
    /// A lone `y` or `n` that was not sent, as nothing was asked.
    doubted: Option<String>,
    /// How often the oldest message was tried.
    tries: u32,
}

impl Terminal {
    async fn stay(&mut self, common: &Common, keys: &Keys) -> Result<(), CliError> {
        let mut lost_since: Option<Instant> = None;
        loop {
            let before = self.last_seq;
            let session = self.session.clone();
            let (after, is_joining) = (self.last_seq, self.is_joining);
            let connected = tokio::select! {
                connected = connect(common, &session, after, is_joining) => connected,
                // A daemon that hangs is not waited for.
                () = self.leaves() => return Ok(()),
            };
            let ended = match connected {
                Ok((client, mut socket)) => {
                    self.connected(client, keys, lost_since.is_some());
                    let ended = self.follow(&mut socket).await?;
                    if matches!(ended, Ended::Left) {
                        self.say_goodbye(socket).await;
                    }
                    ended
                }
                Err(error) if lost_since.is_some() && is_temporary(&error) => Ended::Lost,
                Err(error) => return Err(error),
            };
            match ended {
                Ended::Left => return Ok(()),
                Ended::Other(session) => {
                    self.go_to(session)?;
                    lost_since = None;
                }
                Ended::Closed(reason) => {
                    self.say(&format!("the daemon closed the connection: {reason}"))?;
                    return Ok(());
                }
                Ended::Lost => {
                    let now = Instant::now();
                    if lost_since.is_none() || self.last_seq != before {
                        self.say("connection lost, trying again; Ctrl-D gives up")?;
                        lost_since = Some(now);
                        self.status.enter("away");
                        self.show_sign();
                    }
                    if lost_since.is_some_and(|since| now - since > RECONNECT_FOR) {
                        return Err(CliError::NotRunning {
                            reason: "it did not come back".into(),
                            hint: "start it with `trunkline serve`, then attach again".into(),
                        });
                    }
                    tokio::select! {
                        () = tokio::time::sleep(RECONNECT_PAUSE) => {}
                        () = self.leaves() => return Ok(()),
                    }
                }
            }
        }
    }

    /// Comes back when the person leaves while there is no connection. Messages wait for the daemon.
    ///
    /// CANCEL-SAFETY: each line is handled in the moment in which it is taken.
    async fn leaves(&mut self) {
        loop {
            if let Some(editor) = &mut self.editor {
                editor.pump();
            }
            let pause = self.pause();
            tokio::select! {
                typed = typed(&mut self.editor, &mut self.keyboard) => match typed.key {
                    Key::Leave | Key::Failed(_) | Key::Interrupt => return,
                    Key::Escape => {}
                    Key::Line(text) => {
                        let is_message = typed.asked.is_none() && words::command(&text).is_none();
                        let uuid = match &mut self.sending {
                            Some(sending) if is_message && !text.trim().is_empty() => sending.message(&text),
                            _ => None,
                        };
                        let told = match uuid {
                            Some(uuid) => {
                                self.screen.sent(&uuid);
                                self.say("the daemon is away; the message is sent when it is back")
                            }
                            None => self.say("the daemon is away; nothing was done"),
                        };
                        if told.is_err() {
                            return;
                        }
                    }
                },
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => return,
                _ = self.hang_up.recv() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn connected(&mut self, client: Client, keys: &Keys, is_again: bool) {
        if keys.has_keys && self.editor.is_none() && self.keyboard.is_none() {
            let can_paint = keys.can_paint && editor::knows_cursor();
            if keys.can_paint && !can_paint {
                note("this terminal does not say where its cursor is: lines are read as they come");
            }
            if can_paint {
                let dir = keys.history.parent().filter(|dir| dir.is_dir());
                let history = dir.is_some().then_some(keys.history.as_path());
                self.screen = Screen::joining();
                self.board
                    .add_words(words::COMMANDS.iter().map(ToString::to_string));
                self.board
                    .add_words(words::MODES.iter().map(|mode| format!("/mode {mode}")));
                self.editor = Some(Editor::start(&self.board, history, keys.has_colour));
            } else {
                self.keyboard = Some(Keyboard::start(&self.board));
            }
        }
        match &mut self.sending {
            Some(sending) => sending.reconnected(client),
            none => *none = Some(Sending::new(client, &self.session)),
        }
        if is_again {
            let _reader_gone = self.say("connected again");
        }
        if let Some(sending) = self.sending.as_ref().filter(|_| self.editor.is_some()) {
            sending.list();
        }
    }

    async fn follow(&mut self, socket: &mut Socket) -> Result<Ended, CliError> {
        loop {
            let has_room = Page::has_room(self.editor.as_ref());
            let pause = self.pause();
            let ended = tokio::select! {
                frame = socket.next(), if has_room => match frame {
                    Frame::Text(text) => {
                        self.frame(&text)?;
                        None
                    }
                    Frame::Closed(reason) => Some(Ended::Closed(reason)),
                    Frame::Lost => Some(Ended::Lost),
                },
                typed = typed(&mut self.editor, &mut self.keyboard) => self.typed(typed)?,
                outcome = outcome(&mut self.sending) => self.outcome(outcome)?,
                _ = self.interrupt.recv() => match self.keyboard {
                    Some(_) => {
                        self.interrupt(false)?;
                        None
                    }
                    None => Some(Ended::Left),
                },
                _ = self.terminate.recv() => Some(Ended::Left),
                _ = self.hang_up.recv() => Some(Ended::Left),
                () = tokio::time::sleep(pause) => {
                    if self.tries > 0 && let Some(sending) = &mut self.sending {
                        sending.pump();
                    }
                    None
                }
            };
            if let Some(ended) = ended {
                return Ok(ended);
            }
            if let Some(editor) = &mut self.editor {
                editor.pump();
            }
            self.show_sign();
        }
    }

    /// Until something has to be looked at again, though nothing happened.
    fn pause(&self) -> Duration {
        match &self.editor {
            Some(editor) if editor.backlog() > 0 => Duration::from_millis(20),
            _ => Duration::from_secs(1),
        }
    }

    fn show_sign(&mut self) {
        let Some(editor) = &self.editor else { return };
        let width = crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns));
        let sign = if self.board.asked().is_some() {
            "answer ".to_owned()
        } else {
            words::sign(
                &Signs {
                    state: &self.status.state,
                    working: self.status.since.map(|since| since.elapsed()),
                    tool: self.screen.running(),
                    model: &self.status.model,
                    mode: &self.status.mode,
                    cost: &self.status.cost,
                },
                width,
            )
        };
        if self.board.set_sign(sign) {
            editor.repaint();
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
            self.event(event)?;
        }
        if let Some((_, pending)) = self.history.take_if(|(head, _)| self.last_seq >= Some(*head)) {
            self.page.show_collected(&mut self.editor)?;
            if self.status.is_over() && (self.editor.is_some() || self.keyboard.is_some()) {
                self.say(&format!(
                    "the session is {}; a message, or /resume, starts it again",
                    self.status.state
                ))?;
            }
            for approval in pending {
                match &self.sending {
                    Some(sending) if request::is_part(&approval) => sending.complete(approval),
                    _ => self.asked(approval)?,
                }
            }
            self.ask_held_again()?;
        }
        Ok(())
    }

    fn event(&mut self, event: Event) -> Result<(), CliError> {
        match event {
            Event::Text(tone, text) => self.page.text(&mut self.editor, tone, &text)?,
            Event::Snapshot {
                head,
                after,
                pending,
                session,
            } => {
                self.last_seq.get_or_insert(after);
                self.dialog = Dialog::default();
                self.ask(None)?;
                self.status.read(&session);
                self.history = Some((head, pending));
                if std::mem::take(&mut self.is_joining) {
                    self.page.collect();
                }
            }
            // A question of history is settled, or the snapshot names it.
            Event::Asked(_) | Event::State(_) | Event::Turned if self.history.is_some() => {}
            Event::Asked(approval) => self.asked(approval)?,
            Event::Settled(approval) => self.settled(&approval)?,
            Event::State(state) => {
                self.status.enter(&state);
                self.look();
            }
            Event::Turned => {
                self.status.expects = false;
                self.status.owes_cost = self.editor.is_none();
                self.look();
            }
            Event::Commands(names) => self.board.add_words(names),
        }
        Ok(())
    }

    fn asked(&mut self, approval: Value) -> Result<(), CliError> {
        match self.dialog.asked(approval) {
            Some(question) => self.ask(Some(&question)),
            None => Ok(()),
        }
    }

    /// Has the sign brought up to date, or the cost told where there is none.
    fn look(&mut self) {
        let is_wanted = self.editor.is_some() || self.status.owes_cost;
        if let Some(sending) = self.sending.as_mut().filter(|_| is_wanted) {
            sending.look();
        }
    }

    fn looked(&mut self, session: &Value) -> Result<(), CliError> {
        self.status.read(session);
        let is_over = session.get("turn").is_none_or(Value::is_null);
        if self.status.owes_cost && is_over {
            self.status.owes_cost = false;
            let line = format!("- session so far {}\n", self.status.cost);
            if self.screen.breaks_line() {
                self.page.text(&mut self.editor, Tone::Plain, "\n")?;
            }
            self.page.text(&mut self.editor, Tone::Dim, &line)?;
        }
        Ok(())
    }

    /// Says something of our own.
    fn say(&mut self, text: &str) -> Result<(), CliError> {
        if self.editor.is_none() {
            if self.screen.breaks_line() {
                self.page.text(&mut self.editor, Tone::Plain, "\n")?;
            }
            note(text);
            return Ok(());
        }
        self.page.end_line(&mut self.editor)?;
        self.page
            .text(&mut self.editor, Tone::Strong, &format!("- {text}\n"))
    }

    /// Opens a question, or goes back to messages. A half typed answer dies with its question.
    fn ask(&mut self, question: Option<&str>) -> Result<(), CliError> {
        let asked = question.map(|_| {
            self.questions += 1;
            self.questions
        });
        // Before it is shown: from here on nothing that was typed earlier is an answer.
        if self.board.set_asked(asked) {
            if let Some(editor) = &self.editor {
                editor.turn_over();
            }
            if let Some(keyboard) = &self.keyboard {
                keyboard.turn_over();
            }
        }
        let Some(question) = question else { return Ok(()) };
        if self.editor.is_some() {
            self.page.end_line(&mut self.editor)?;
            let lines = question.trim_start_matches('\n').trim_end_matches([':', ' ']);
            return self
                .page
                .text(&mut self.editor, Tone::Strong, &format!("{lines}\n"));
        }
        self.page.text(&mut self.editor, Tone::Strong, question)?;
        if self.keyboard.is_none() {
            let how = "(answer with `trunkline approve` or `trunkline deny`)\n";
            self.page.text(&mut self.editor, Tone::Plain, how)?;
        }
        Ok(())
    }

    /// A question is answered, by us or by somebody else.
    fn settled(&mut self, approval: &str) -> Result<(), CliError> {
        let is_open = self.dialog.is_asking(approval);
        let next = self.dialog.settled(approval);
        if is_open {
            self.ask(next.as_deref())?;
            self.ask_held_again()?;
        }
        Ok(())
    }

    fn go_to(&mut self, session: String) -> Result<(), CliError> {
        self.ask(None)?;
        self.session = session;
        self.screen = if self.editor.is_some() {
            Screen::joining()
        } else {
            Screen::default()
        };
        self.dialog = Dialog::default();
        self.sending = None;
        self.last_seq = None;
        self.is_joining = true;
        self.history = None;
        self.status = Status::default();
        self.held = None;
        Ok(())
    }

    /// Lets messages that are under way arrive, for a moment.
    async fn say_goodbye(&mut self, socket: Socket) {
        let goodbye = async {
            while self.sending.as_ref().is_some_and(|sending| sending.waiting() > 0) {
                if let Outcome::NotSent(_) = outcome(&mut self.sending).await {
                    break;
                }
            }
            socket.close().await;
        };
        let _gone_anyway = tokio::time::timeout(GOODBYE, goodbye).await;
        if self.sending.as_ref().is_some_and(|sending| sending.waiting() > 0) {
            note("the daemon has not answered: the last message may not have arrived");
        }
    }

    /// Gives the terminal back.
    async fn end(&mut self) {
        let _reader_gone = self.page.end_line(&mut self.editor);
        if let Some(mut editor) = self.editor.take() {
            editor.end().await;
        }
    }
}

/// The daemon may have come back at another address, so it is looked up each time.
async fn connect(
    common: &Common,
    session: &str,
    after: Option<u64>,
    is_joining: bool,
) -> Result<(Client, Socket), CliError> {
    let client = Client::new(&reach::address(common).await?)?.quiet();
    let after = match after {
        None if is_joining => {
            let found = client.get(&["v1", "sessions", session], &[]).await?;
            let head = view::number(&found, &["head_seq"]).unwrap_or(0);
            Some(head.saturating_sub(LOOK_BACK))
        }
        after => after,
    };
    let socket = Socket::open(&client, session, after).await?;
    Ok((client, socket))
}

fn is_temporary(error: &CliError) -> bool {
    matches!(error, CliError::NotRunning { .. } | CliError::Other(_))
        || error.code() == Some(ErrorCode::InputBlocked)
}

/// The next input; waits for ever when there can be none.
async fn typed(editor: &mut Option<Editor>, keyboard: &mut Option<Keyboard>) -> Typed {
    match (editor, keyboard) {
        (Some(editor), _) => editor.typed().await,
        (None, Some(keyboard)) => keyboard.typed().await,
        (None, None) => std::future::pending().await,
    }
}

/// How a request ended; waits for ever when there is no connection.
async fn outcome(sending: &mut Option<Sending>) -> Outcome {
    match sending {
        Some(sending) => sending.outcome().await,
        None => std::future::pending().await,
    }
}
