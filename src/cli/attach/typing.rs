//! Owns what becomes of what is typed, an answer, a message or a command, and of how each request ended.

use serde_json::json;

use super::{
    super::{CliError, output::Tone, view},
    Ended, MOST_TRIES, Terminal,
    answering::Reply,
    board::{Key, Typed},
    is_temporary,
    sending::Outcome,
    status::Status,
    words::{self, Command},
};
use crate::domain::ErrorCode;

/// A message to a session that has to be resumed first.
#[derive(Debug)]
pub(super) struct Held {
    /// The number of the question whether to do so; `None` once the session is being resumed for it.
    question: Option<u64>,
    text: String,
}

impl Terminal {
    pub(super) fn typed(&mut self, typed: Typed) -> Result<Option<Ended>, CliError> {
        match typed.key {
            Key::Failed(reason) => {
                let error = anyhow::anyhow!("the line editor failed: {reason}; --plain does without it");
                return Err(CliError::Other(error));
            }
            Key::Leave => return Ok(Some(Ended::Left)),
            Key::Interrupt => self.interrupt(false)?,
            Key::Escape => self.interrupt(true)?,
            Key::Line(text) => match typed.asked {
                None => return self.message(&text),
                asked if asked == self.board.asked() => self.answer(&text)?,
                Some(_) => self.say("that question is not open any more: nothing was sent")?,
            },
        }
        Ok(None)
    }

    fn answer(&mut self, line: &str) -> Result<(), CliError> {
        let is_for_held = |held: &mut Held| held.question == Some(self.questions);
        if let Some(held) = self.held.take_if(is_for_held) {
            return self.answer_held(line.trim(), held.text);
        }
        match self.dialog.reply(line) {
            Reply::Again(question) => self.ask(Some(&question)),
            Reply::Decided { approval, decision } => {
                self.ask(None)?;
                if let Some(sending) = &self.sending {
                    sending.decide(&approval, decision);
                }
                Ok(())
            }
            Reply::NotAsked => {
                self.ask(None)?;
                self.ask_held_again()
            }
        }
    }

    /// The answer to whether a session is to be resumed for a message.
    fn answer_held(&mut self, line: &str, text: String) -> Result<(), CliError> {
        match line {
            // Somebody was faster.
            "y" | "Y" | "yes" if !self.status.is_over() => {
                self.ask(None)?;
                self.send(&text)
            }
            "y" | "Y" | "yes" => {
                self.ask(None)?;
                self.held = Some(Held { question: None, text });
                if let Some(sending) = &self.sending {
                    sending.resume();
                }
                Ok(())
            }
            "n" | "N" | "no" => {
                self.ask(None)?;
                self.say("the message was not sent")
            }
            _ => self.hold(text),
        }
    }

    /// Asks whether the session is to be resumed, so that a message is not lost.
    fn hold(&mut self, text: String) -> Result<(), CliError> {
        self.ask(Some(
            "\n? the session has no process; resume it and send the message?\n  y does both, n does not send it: ",
        ))?;
        self.held = Some(Held {
            question: Some(self.questions),
            text,
        });
        Ok(())
    }

    /// Asks about a message again whose question made room for another one.
    pub(super) fn ask_held_again(&mut self) -> Result<(), CliError> {
        let is_asked = |held: &mut Held| held.question.is_some();
        if self.board.asked().is_none()
            && let Some(held) = self.held.take_if(is_asked)
        {
            return self.hold(held.text);
        }
        Ok(())
    }

    fn message(&mut self, text: &str) -> Result<Option<Ended>, CliError> {
        let line = text.trim();
        if line.is_empty() {
            return Ok(None);
        }
        if let Some(command) = words::command(text) {
            return self.command(command);
        }
        let doubted = self.doubted.take();
        if matches!(line, "y" | "n" | "yes" | "no" | "a" | "v") && doubted.as_deref() != Some(line) {
            self.doubted = Some(line.to_owned());
            self.say(&format!(
                "nothing is asked now, so `{line}` was not sent; the same again sends it"
            ))?;
            return Ok(None);
        }
        if self.status.is_over() {
            self.hold(text.to_owned())?;
            return Ok(None);
        }
        self.send(text)?;
        Ok(None)
    }

    fn send(&mut self, text: &str) -> Result<(), CliError> {
        match self.sending.as_mut().and_then(|sending| sending.message(text)) {
            Some(uuid) => {
                self.screen.sent(&uuid);
                self.status.expects = true;
                Ok(())
            }
            None => self.say("not sent: too many messages wait for the daemon"),
        }
    }

    fn command(&mut self, command: Command) -> Result<Option<Ended>, CliError> {
        let Some(sending) = &mut self.sending else {
            return Ok(None);
        };
        match command {
            Command::Keys => {
                let keys = format!("{}\n", words::KEYS);
                self.page.end_line(&mut self.editor)?;
                self.page.text(&mut self.editor, Tone::Dim, &keys)?;
            }
            Command::Leave => return Ok(Some(Ended::Left)),
            Command::Status => {
                let Status {
                    state,
                    model,
                    mode,
                    cost,
                    ..
                } = &self.status;
                let line = format!("session {} is {state}, {model}, {mode}, {cost}", self.session);
                self.say(&line)?;
            }
            Command::Resume => sending.resume(),
            Command::Stop if self.status.is_over() => {
                self.say(&format!("the session is {} already", self.status.state))?;
            }
            Command::Stop => sending.stop(),
            Command::Model(model) => sending.set("model", json!({"model": model}), "changed"),
            Command::Mode(mode) => sending.set("permission_mode", json!({"mode": mode}), "changed"),
            Command::Attach(name) => sending.find(name),
            Command::Incomplete(how) => self.say(how)?,
        }
        Ok(None)
    }

    pub(super) fn outcome(&mut self, outcome: Outcome) -> Result<Option<Ended>, CliError> {
        match outcome {
            Outcome::Sent => self.tries = 0,
            Outcome::NotSent(error) => self.not_sent(&error)?,
            Outcome::Decided(approval, None) => self.settled(&approval)?,
            Outcome::Decided(approval, Some(error)) => {
                // It may fit no field of a form: it is asked again. When somebody else was faster, the records say so.
                self.say(&error.chain())?;
                let question = self.dialog.refused(&approval);
                self.ask(question.as_deref())?;
            }
            Outcome::Completed(approval) if view::text(&approval, &["state"]) == "pending" => {
                self.asked(approval)?
            }
            // Somebody was faster.
            Outcome::Completed(_) => {}
            Outcome::Looked(session) => self.looked(&session)?,
            Outcome::Resumed(None) => {
                self.status.enter("starting");
                self.say("the session was started again")?;
                let waits_for_this = |held: &mut Held| held.question.is_none();
                if let Some(held) = self.held.take_if(waits_for_this) {
                    self.send(&held.text)?;
                }
            }
            Outcome::Resumed(Some(error)) => {
                self.say(&format!("not resumed: {}", error.chain()))?;
                if let Some(held) = self.held.take() {
                    self.hold(held.text)?;
                }
            }
            // Its record is told.
            Outcome::Done("stopped", Ok(_)) => self.look(),
            Outcome::Done("interrupted", Ok(_)) => self.say("interrupted; Ctrl-D leaves")?,
            Outcome::Done(done, Ok(_)) => {
                self.say(done)?;
                self.look();
            }
            Outcome::Done(done, Err(error)) => self.say(&format!("not {done}: {}", error.chain()))?,
            Outcome::Meant(Ok(session)) => return Ok(Some(Ended::Other(session))),
            Outcome::Meant(Err(error)) => self.say(&error.chain())?,
            Outcome::Listed(page) => {
                let ids = view::list(&page, &["items"]).iter();
                let words = ids.map(|session| format!("/attach {}", view::text(session, &["id"])));
                self.board.add_words(words);
            }
            Outcome::Nothing => {}
        }
        Ok(None)
    }

    fn not_sent(&mut self, error: &CliError) -> Result<(), CliError> {
        let Some(sending) = &mut self.sending else {
            return Ok(());
        };
        // The process that was to take it has just died; the records tell why, and the next one gets it.
        let comes_back = error.code() == Some(ErrorCode::InputBlocked) && self.status.state == "starting";
        if comes_back {
            self.tries = self.tries.max(1);
            return Ok(());
        }
        if is_temporary(error) && self.tries < MOST_TRIES {
            // By its id it is run once, however often it is sent.
            self.tries += 1;
            if self.tries == 1 {
                return self.say("the daemon does not answer; the message waits for it");
            }
            return Ok(());
        }
        self.tries = 0;
        let text = sending.take_back().unwrap_or_default();
        sending.pump();
        if error.is_not_live() {
            return self.hold(text);
        }
        self.say(&format!("not sent: {}", error.chain()))
    }

    pub(super) fn interrupt(&mut self, is_quiet: bool) -> Result<(), CliError> {
        if !self.status.works() {
            return if is_quiet {
                Ok(())
            } else {
                self.say("nothing runs; Ctrl-D leaves")
            };
        }
        if let Some(sending) = &self.sending {
            sending.interrupt();
        }
        Ok(())
    }
}
