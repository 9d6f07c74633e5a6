//! Owns the line editor of `attach`: a thread that reads keys with reedline, and the way above its prompt for what is
//! printed meanwhile.
//!
//! reedline is the editor of nushell and is kept well. It has what a first hour needs: bracketed paste, several lines,
//! history, completion, text above the prompt. Its known faults are met here: it wants to know where the cursor is, so a
//! terminal that does not say so gets plain lines ([`knows_cursor`]); and the text above comes in whole lines, so streamed
//! text is broken at the edge of the screen before it comes here (`page.rs`).

use std::{
    borrow::Cow,
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{SyncSender, TrySendError},
    },
    thread::JoinHandle,
    time::Duration,
};

use nix::sys::termios::{FlushArg, tcflush};
use reedline::{
    ColumnarMenu, Completer, CompletionResult, EditCommand, EditMode, Emacs, ExternalPrinter,
    FileBackedHistory, History, HistoryItem, HistoryItemId, HistorySessionId, KeyCode, KeyModifiers,
    MenuBuilder as _, Prompt, PromptEditMode, PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu,
    ReedlineRawEvent, SearchQuery, Signal, Span, Suggestion, default_emacs_keybindings,
};
use tokio::sync::mpsc;

use super::board::{Board, Key, Typed};
use crate::{cli::words, files};

/// Lines typed ahead before the reader waits.
const TYPED_AHEAD: usize = 64;

/// Messages that the history keeps.
const REMEMBERED: usize = 1_000;

/// A longer message is pasted, and is not kept.
const LONGEST_REMEMBERED: usize = 10_000;

/// How often the editor looks for text to print and for another question.
const LOOK: Duration = Duration::from_millis(30);

/// How long the editor may take to end.
const ENDING: Duration = Duration::from_secs(1);

const MENU: &str = "words";

/// The host command of Ctrl-C.
const INTERRUPT: &str = "interrupt";

/// Whether the terminal answers where its cursor is, which the editor must know. It asks and waits for 2 s at most.
pub(super) fn knows_cursor() -> bool {
    if crossterm::terminal::enable_raw_mode().is_err() {
        return false;
    }
    let answers = crossterm::cursor::position().is_ok();
    let _was_raw = crossterm::terminal::disable_raw_mode();
    answers
}

/// A line editor at the bottom of what was printed.
#[derive(Debug)]
pub(super) struct Editor {
    typed: mpsc::Receiver<Typed>,
    board: Arc<Board>,
    breaks: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
    repaint: Repaint,
    printer: SyncSender<String>,
    pending: String,
    thread: JoinHandle<()>,
}

/// Has the prompt painted again.
struct Repaint(Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Repaint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Repaint")
    }
}

impl Editor {
    /// Starts the editor. The history is in a file that only its owner reads, if there is a place for it.
    pub(super) fn start(board: &Arc<Board>, history: Option<&Path>, has_colour: bool) -> Self {
        let (sender, typed) = mpsc::channel(TYPED_AHEAD);
        let breaks = Arc::new(AtomicBool::new(false));
        let ends = Arc::new(AtomicBool::new(false));
        // One message is taken at a time, so that a next one that is taken says that the last was printed.
        let printer = ExternalPrinter::new(1);
        let print = printer.sender();
        let mut keys = default_emacs_keybindings();
        let complete = vec![ReedlineEvent::Menu(MENU.into()), ReedlineEvent::MenuNext];
        keys.add_binding(
            KeyModifiers::NONE,
            KeyCode::Tab,
            ReedlineEvent::UntilFound(complete),
        );
        for with in [KeyModifiers::ALT, KeyModifiers::SHIFT] {
            let line = ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
            keys.add_binding(with, KeyCode::Enter, line);
        }
        let escape = ReedlineEvent::ExecuteHostCommand(String::new());
        keys.add_binding(KeyModifiers::NONE, KeyCode::Esc, escape);
        // By itself the editor leaves the sign as it was, and goes on below.
        let interrupt = ReedlineEvent::ExecuteHostCommand(INTERRUPT.into());
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('c'), interrupt);
        let menu = Box::new(ColumnarMenu::default().with_name(MENU));
        let mut editor = Reedline::create()
            .with_edit_mode(Box::new(Seen(Emacs::new(keys))))
            .with_menu(ReedlineMenu::EngineCompleter(menu))
            .with_completer(Box::new(Words(Arc::clone(board))))
            .with_quick_completions(true)
            .with_partial_completions(true)
            .with_ansi_colors(has_colour)
            .with_poll_interval(LOOK)
            .with_break_signal(Arc::clone(&breaks))
            .with_external_printer(printer)
            .with_transient_prompt(Box::new(Plain))
            .use_bracketed_paste(true);
        let answers = Arc::new(AtomicBool::new(false));
        let kept = history.and_then(|path| Remembered::open(path, Arc::clone(&answers)).ok());
        if let Some(kept) = kept {
            editor = editor.with_history(Box::new(kept));
        }
        let signal = editor.repaint_signal();
        let reader = Reader {
            editor,
            board: Arc::clone(board),
            typed: sender,
            answers,
            ends: Arc::clone(&ends),
        };
        Self {
            typed,
            board: Arc::clone(board),
            breaks,
            ends,
            repaint: Repaint(Box::new(move || signal.request_repaint())),
            printer: print,
            pending: String::new(),
            thread: std::thread::spawn(move || reader.run()),
        }
    }

    /// The next input. An editor that is gone has failed.
    ///
    /// CANCEL-SAFETY: nothing is lost.
    pub(super) async fn typed(&mut self) -> Typed {
        self.typed.recv().await.unwrap_or_else(|| Typed {
            asked: None,
            key: Key::Failed("it ended by itself".into()),
        })
    }

    /// Another question is on the board, or none: what is half typed is no answer to it.
    pub(super) fn turn_over(&self) {
        self.breaks.store(true, Ordering::SeqCst);
    }

    /// The sign of the prompt has changed.
    pub(super) fn repaint(&self) {
        (self.repaint.0)();
    }

    /// Prints a line above the prompt.
    pub(super) fn print(&mut self, line: &str) {
        self.pending.push_str(line);
        self.pending.push('\n');
        self.pump();
    }

    /// Bytes that were not yet taken.
    pub(super) const fn backlog(&self) -> usize {
        self.pending.len()
    }

    /// Hands on what is to be printed, when the editor takes it.
    pub(super) fn pump(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        match self.printer.try_send(std::mem::take(&mut self.pending)) {
            Ok(()) => {}
            Err(TrySendError::Full(text)) => self.pending = text,
            Err(TrySendError::Disconnected(text)) => print_directly(&text),
        }
    }

    /// Ends the editor, once all was printed, and gives the terminal back.
    pub(super) async fn end(&mut self) {
        let until = tokio::time::Instant::now() + ENDING;
        while tokio::time::Instant::now() < until && !self.thread.is_finished() {
            self.pump();
            // Nothing is printed for an empty text; that it is taken says that the last one was.
            if self.pending.is_empty() && self.printer.try_send(String::new()).is_ok() {
                self.ends.store(true, Ordering::SeqCst);
                self.breaks.store(true, Ordering::SeqCst);
                break;
            }
            tokio::time::sleep(LOOK / 3).await;
        }
        self.ends.store(true, Ordering::SeqCst);
        while tokio::time::Instant::now() < until && !self.thread.is_finished() {
            self.breaks.store(true, Ordering::SeqCst);
            tokio::time::sleep(LOOK / 3).await;
        }
        let _was_raw = crossterm::terminal::disable_raw_mode();
        print_directly(&std::mem::take(&mut self.pending));
        self.board.set_asked(None);
    }
}

fn print_directly(text: &str) {
    let mut out = io::stdout().lock();
    let _nobody_to_tell = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// The thread that reads keys.
struct Reader {
    editor: Reedline,
    board: Arc<Board>,
    typed: mpsc::Sender<Typed>,
    /// Whether the line that is read answers a question.
    answers: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
}

impl Reader {
    fn run(mut self) {
        let prompt = Sign(Arc::clone(&self.board));
        // A message that is half written when a question comes up.
        let mut draft = String::new();
        loop {
            let asked = self.board.asked();
            if asked.is_none() && !draft.is_empty() {
                let text = std::mem::take(&mut draft);
                self.editor.run_edit_commands(&[EditCommand::InsertString(text)]);
            }
            self.answers.store(asked.is_some(), Ordering::SeqCst);
            let key = match self.editor.read_line(&prompt) {
                Ok(Signal::Success(text)) => Key::Line(text),
                Ok(Signal::HostCommand(command)) if command == INTERRUPT => {
                    self.editor.run_edit_commands(&[EditCommand::Clear]);
                    Key::Interrupt
                }
                Ok(Signal::HostCommand(_)) => Key::Escape,
                Ok(Signal::CtrlC) => Key::Interrupt,
                Ok(Signal::CtrlD) => Key::Leave,
                Ok(Signal::ExternalBreak(text)) => {
                    if asked.is_none() {
                        draft = text;
                    }
                    self.clear();
                    if self.ends.load(Ordering::SeqCst) {
                        return;
                    }
                    continue;
                }
                // No other way to end is known.
                Ok(_) => continue,
                Err(error) => Key::Failed(error.to_string()),
            };
            let is_last = matches!(key, Key::Leave | Key::Failed(_));
            if self.typed.blocking_send(Typed { asked, key }).is_err() || is_last {
                return;
            }
        }
    }

    /// Takes away what is half typed: on the screen, in the editor and in the terminal.
    fn clear(&mut self) {
        self.editor.run_edit_commands(&[EditCommand::Clear]);
        let _nothing_typed = tcflush(io::stdin(), FlushArg::TCIFLUSH);
        print_directly("\r\x1b[J");
    }
}

/// The prompt: what the board says.
struct Sign(Arc<Board>);

impl Prompt for Sign {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Owned(self.0.sign())
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("| ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("search {}: ", search.term))
    }
}

/// The prompt of a line that was sent.
struct Plain;

impl Prompt for Plain {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("| ")
    }

    fn render_prompt_history_search_indicator(&self, _search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Borrowed("")
    }
}

/// The keys of the editor. It paints what it holds as it is, so characters that drive the terminal or change how others look
/// come in as escapes: the message that is sent is the one on the screen.
struct Seen(Emacs);

impl EditMode for Seen {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        match self.0.parse_event(event) {
            ReedlineEvent::Edit(commands) => ReedlineEvent::Edit(commands.into_iter().map(seen).collect()),
            other => other,
        }
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.0.edit_mode()
    }
}

fn seen(command: EditCommand) -> EditCommand {
    match command {
        EditCommand::InsertString(text) => EditCommand::InsertString(words::escaped(&text)),
        EditCommand::InsertChar(c) => {
            let text = words::escaped(&String::from(c));
            if text.starts_with(c) {
                EditCommand::InsertChar(c)
            } else {
                EditCommand::InsertString(text)
            }
        }
        other => other,
    }
}

/// Completes commands and ids.
struct Words(Arc<Board>);

impl Completer for Words {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let begun = line.get(..pos).unwrap_or(line);
        let found: Vec<Suggestion> = self
            .0
            .words(begun)
            .into_iter()
            .map(|value| Suggestion {
                value,
                span: Span::new(0, pos),
                ..Suggestion::default()
            })
            .collect();
        CompletionResult::fresh(found)
    }
}

/// The messages of earlier days. Answers to questions are not among them.
struct Remembered {
    inner: FileBackedHistory,
    answers: Arc<AtomicBool>,
}

impl Remembered {
    fn open(path: &Path, answers: Arc<AtomicBool>) -> io::Result<Self> {
        let file = files::open_own(path, OpenOptions::new().create(true).append(true).mode(0o600))?;
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        let inner = FileBackedHistory::with_file(REMEMBERED, path.to_owned()).map_err(io::Error::other)?;
        Ok(Self { inner, answers })
    }
}

/// A message of an earlier version may have been kept as it was pasted.
fn seen_item(mut item: HistoryItem) -> HistoryItem {
    item.command_line = words::escaped(&item.command_line);
    item
}

impl History for Remembered {
    fn save(&mut self, item: HistoryItem) -> reedline::Result<HistoryItem> {
        if self.answers.load(Ordering::SeqCst) || item.command_line.len() > LONGEST_REMEMBERED {
            return Ok(item);
        }
        let saved = self.inner.save(item)?;
        // Each at once: a terminal that is closed says no goodbye.
        let _stays_in_memory = self.inner.sync();
        Ok(saved)
    }

    fn load(&self, id: HistoryItemId) -> reedline::Result<HistoryItem> {
        self.inner.load(id).map(seen_item)
    }

    fn count(&self, query: SearchQuery) -> reedline::Result<i64> {
        self.inner.count(query)
    }

    fn search(&self, query: SearchQuery) -> reedline::Result<Vec<HistoryItem>> {
        let found = self.inner.search(query)?;
        Ok(found.into_iter().map(seen_item).collect())
    }

    fn update(
        &mut self,
        id: HistoryItemId,
        updater: &dyn Fn(HistoryItem) -> HistoryItem,
    ) -> reedline::Result<()> {
        self.inner.update(id, updater)
    }

    fn clear(&mut self) -> reedline::Result<()> {
        self.inner.clear()
    }

    fn delete(&mut self, id: HistoryItemId) -> reedline::Result<()> {
        self.inner.delete(id)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.inner.sync()
    }

    fn session(&self) -> Option<HistorySessionId> {
        self.inner.session()
    }
}
