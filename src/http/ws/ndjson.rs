//! Owns how `ndjson` is spoken: the lines of the CLI as a host at its stdin and stdout has them, and nothing of our own. The
//! official SDK speaks it in a browser.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    pin::Pin,
};

use axum::extract::ws::{Message, Utf8Bytes};
use memchr::memmem;
use serde_json::Value;

use super::{
    client::{Delivery, Inbox},
    close::Close,
    dialect::{BATCH_BYTES, Dialect, Next, Received},
    first_line, frames,
    host::{self, HostSide},
    joiner::{Joiner, TooLong},
};
use crate::{
    auth::Tokens,
    claude::{ControlResponse, Envelope, facts::Lifecycle, scan, stdin},
    domain::{ClientId, Seq, SessionState, is_from_daemon},
    http::ApiError,
    journal::{Chunk, Cursor, Feed, MissingReason, RecordRef, Source},
    json,
    session::{ClientFrame, INITIALIZE_ID, Refused, RefusedLine},
};

/// The sub-protocol.
pub(super) const PROTOCOL: &str = "ndjson";
/// Lines go out together up to about this size.
const FRAME_BYTES: usize = 64 * 1024;
/// The id of an `initialize` that is said for the client. Its answer is not the client's.
const REGREETING_ID: &str = "trunkline-again";

/// The line of a request, if it is for the client; of one that an answer has named, nothing as long as it is open.
type Answer = Pin<Box<dyn Future<Output = Told> + Send>>;

/// A request of the CLI of which it is not known whether it waits for the client.
struct Question {
    request_id: String,
    answer: Answer,
}

/// The outcome of a question.
enum Told {
    /// The request is for the client, which has not heard of it.
    Line(String),
    /// It is not for the client, or the client knows it and it is open.
    Nothing,
    /// It was over when the client heard of it.
    Over,
}

impl Told {
    fn of(line: Option<String>) -> Self {
        line.map_or(Self::Nothing, Self::Line)
    }
}

/// Requests of the CLI that were open when a client came, and that no answer to `initialize` names.
#[derive(Debug)]
pub(super) struct Earlier {
    /// Their ids and records, oldest first.
    pub(super) open: VecDeque<(String, Seq)>,
    /// Where the records are.
    pub(super) feed: Feed,
}

impl Earlier {
    /// The line in a record.
    async fn line(feed: Feed, seq: Seq) -> Option<String> {
        // It may be cold on disk.
        let read = tokio::task::spawn_blocking(move || feed.record(seq)).await;
        let (_, data) = read.ok()?.ok()?;
        String::from_utf8(data).ok()
    }
}

/// The last `initialize` of a client.
pub(super) struct Greeting {
    request_id: String,
    /// Its `request` object.
    request: String,
    is_answered: bool,
}

/// One client that speaks it.
pub(super) struct Relay<I> {
    inbox: I,
    client: ClientId,
    /// The names under which records have the client's lines.
    authors: Vec<String>,
    /// Check a first line that is for authentication, although the upgrade carried a credential. A ticket there is refused.
    tokens: Option<Tokens>,
    /// Joins the pieces of the client's lines.
    joiner: Joiner,
    /// The requests of the CLI that the client knows and that are open, and whether it has answered.
    known: HashMap<String, bool>,
    /// Records that were taken from the cursor and not looked at.
    rest: Option<Chunk>,
    question: Option<Question>,
    /// Requests that an answer has named, until it is known that they are open.
    named: VecDeque<String>,
    /// Requests from before the connection that may be for the client, which hears of them once it has greeted the CLI.
    earlier: Earlier,
    greeting: Option<Greeting>,
    /// The client's id of that `initialize`, as long as the process began with it and has not answered.
    born: Option<String>,
    /// Set for a stand-in of the CLI's program.
    host: Option<HostSide>,
    /// Whether the end of an earlier process may still be told before the client's own one begins.
    may_be_stale: bool,
    /// The greeting of a later process, on its way.
    regreeting: Option<Delivery>,
    /// The end of the process, to be told once all before it is written.
    end: Option<SessionState>,
}

impl<I: Inbox> Relay<I> {
    /// A client of this name whose lines records have under these `authors`. With `tokens` its first line may be for authentication.
    pub(super) fn new(
        inbox: I,
        client: ClientId,
        authors: Vec<String>,
        tokens: Option<Tokens>,
        earlier: Earlier,
        max_line_bytes: usize,
    ) -> Self {
        Self {
            inbox,
            client,
            authors,
            tokens,
            joiner: Joiner::new(max_line_bytes),
            known: HashMap::new(),
            rest: None,
            question: None,
            named: VecDeque::new(),
            earlier,
            greeting: None,
            born: None,
            host: None,
            may_be_stale: false,
            regreeting: None,
            end: None,
        }
    }

    /// The client has said this `initialize`; with `is_born` the process began with it.
    pub(super) fn greeted_by(mut self, greeting: Greeting, is_born: bool) -> Self {
        self.born = (is_born && !greeting.is_answered).then(|| greeting.request_id.clone());
        self.greeting = Some(greeting);
        self
    }

    /// The client comes to a process that is started for it in the place of an earlier one.
    pub(super) fn of_next_process(mut self) -> Self {
        self.may_be_stale = true;
        self
    }

    /// The client stands in for the CLI's program. It knows these requests of the CLI, and has answered some.
    pub(super) fn for_host(
        mut self,
        host: HostSide,
        known: impl IntoIterator<Item = (String, bool)>,
    ) -> Self {
        self.host = Some(host);
        self.known.extend(known);
        self
    }

    /// Takes the lines of a chunk, up to a request of which it must be asked whose it is.
    fn take(&mut self, chunk: Chunk) -> Result<Lines, Close> {
        if chunk
            .missing
            .is_some_and(|missing| missing.reason != MissingReason::Compacted)
        {
            // It cannot be said here that lines are missing.
            return Err(Close::Journal);
        }
        let mut lines = Lines::default();
        let mut asked_at = None;
        for record in chunk.records() {
            match record.source {
                Source::Cli => self.on_cli(&record, &mut lines)?,
                Source::Client => self.on_client(&record, &mut lines),
                Source::Daemon => self.on_daemon(&record, &mut lines),
                Source::StdoutText => self.on_output("stdout", &record, &mut lines),
                Source::Stderr => self.on_output("stderr", &record, &mut lines),
            }
            if self.host.as_ref().is_some_and(|host| !host.is_ending()) {
                lines.at = Some(record.seq);
            }
            if self.question.is_some() || self.regreeting.is_some() || self.end.is_some() {
                asked_at = Some(record.seq);
                break;
            }
        }
        if let Some(seq) = asked_at
            && seq < chunk.last
        {
            self.rest = Some(chunk.after(seq));
        }
        Ok(lines)
    }

    /// The CLI printed a line.
    fn on_cli(&mut self, record: &RecordRef<'_>, lines: &mut Lines) -> Result<(), Close> {
        let line = std::str::from_utf8(record.data).map_err(|_| Close::Journal)?;
        let control = if memmem::find(record.data, b"\"control_").is_some() {
            scan(record.data)
        } else {
            None
        };
        let Some(control) = control else {
            if !is_receipt_for_daemon(record.data) {
                lines.push(line);
            }
            return Ok(());
        };
        match (control.kind.as_deref(), control.request_id.as_deref()) {
            // Its own ones come with the client's own ids.
            (Some("control_response"), _) => {
                if self.born.is_some()
                    && let Some(answer) =
                        ControlResponse::read(&control).filter(|it| it.request_id == INITIALIZE_ID)
                    && let Some(request_id) = self.born.take()
                {
                    self.redelivered(&answer);
                    if let Some(greeting) = &mut self.greeting {
                        greeting.is_answered = true;
                    }
                    lines.push(&frames::response(&request_id, &answer));
                }
            }
            // A stand-in that has come back knows it.
            (Some("control_request"), Some(request_id))
                if self.host.is_some() && self.known.contains_key(request_id) => {}
            (Some("control_request"), Some(request_id)) => {
                let is_asked = self.inbox.is_asked(request_id.to_owned());
                let line = own_callback(line, control.request, &self.client);
                self.question = Some(Question {
                    request_id: request_id.to_owned(),
                    answer: Box::pin(async move { Told::of(is_asked.await.then_some(line)) }),
                });
            }
            (Some("control_cancel_request"), Some(request_id)) => {
                if self.known.remove(request_id).is_some() {
                    lines.push(line);
                }
            }
            _ => lines.push(line),
        }
        Ok(())
    }

    /// A line was written to the CLI: another one's answer takes the request back from this client.
    fn on_client(&mut self, record: &RecordRef<'_>, lines: &mut Lines) {
        if self.known.is_empty() || memmem::find(record.data, b"\"control_response\"").is_none() {
            return;
        }
        let answer = scan(record.data).and_then(|line| ControlResponse::read(&line));
        let Some(answer) = answer else {
            return;
        };
        if let Some(has_answered) = self.known.remove(&answer.request_id) {
            let is_by_us = |by: &str| self.authors.iter().any(|author| author == by);
            let is_own = has_answered && record.by.is_some_and(is_by_us);
            if !is_own {
                lines.push_bytes(&stdin::control_cancel_request(&answer.request_id));
            }
        }
    }

    /// The daemon noted something. A process that is over for good is the end of its lines; another one that takes its place
    /// is told what the client told the one before it.
    fn on_daemon(&mut self, record: &RecordRef<'_>, lines: &mut Lines) {
        let Ok(note) = std::str::from_utf8(record.data) else {
            return;
        };
        match json::member_text(note, "type").as_deref() {
            Some("state") => {
                let state = json::member_text(note, "state");
                let state = state.as_deref().and_then(SessionState::parse);
                if state.is_some_and(is_over) && std::mem::take(&mut self.may_be_stale) {
                    return;
                }
                self.end = state.filter(|state| is_over(*state));
                if let (Some(_), Some(host)) = (self.end, &mut self.host) {
                    lines.push(&host.farewell(note));
                }
            }
            Some("run_exited") => {
                if let Some(host) = &mut self.host {
                    host.exited(note);
                }
            }
            // Nothing is stale behind it.
            Some("stop_requested") => self.may_be_stale = false,
            Some("run_started") => {
                self.may_be_stale = false;
                self.known.clear();
                self.earlier.open.clear();
                if let Some(host) = &mut self.host {
                    host.started();
                }
                if let Some(greeting) = self.greeting.as_ref().filter(|it| it.is_answered) {
                    let line = stdin::relayed_request(REGREETING_ID, &greeting.request);
                    let inbox = self.inbox.clone();
                    self.regreeting = Some(Box::pin(async move { inbox.line(line.into()).await }));
                }
            }
            _ => {}
        }
    }

    /// The process printed something that is no line, which a stand-in prints too.
    fn on_output(&self, name: &str, record: &RecordRef<'_>, lines: &mut Lines) {
        if self.host.is_some()
            && let Some(frame) = std::str::from_utf8(record.data)
                .ok()
                .and_then(|it| host::output(name, it))
        {
            lines.push(&frame);
        }
    }

    /// Asks whether the next request that an answer has named is open still: its end may have been read before the answer.
    fn ask_of_named(&mut self) -> bool {
        let Some(request_id) = self.named.pop_front() else {
            return false;
        };
        let is_asked = self.inbox.is_asked(request_id.clone());
        let answer = async move { if is_asked.await { Told::Nothing } else { Told::Over } };
        self.question = Some(Question {
            request_id,
            answer: Box::pin(answer),
        });
        true
    }

    /// The line for the outcome of a question, if the client is to know it.
    fn answered(&mut self, request_id: String, told: Told) -> Option<Lines> {
        let mut lines = Lines::default();
        match told {
            Told::Line(line) => {
                self.known.insert(request_id, false);
                lines.push(&line);
            }
            // The client's own answer may be on its way.
            Told::Over if self.known.get(&request_id) == Some(&false) => {
                self.known.remove(&request_id);
                lines.push_bytes(&stdin::control_cancel_request(&request_id));
            }
            Told::Over | Told::Nothing => return None,
        }
        Some(lines)
    }

    /// Asks whether the next request from before the connection is for the client. Says whether there is one.
    fn ask_of_earlier(&mut self) -> bool {
        let may_hear = match &self.greeting {
            Some(greeting) => greeting.is_answered,
            // Not every host greets the CLI.
            None => self.host.is_some(),
        };
        if !may_hear {
            return false;
        }
        let Some((request_id, seq)) = self.earlier.open.pop_front() else {
            return false;
        };
        let is_asked = self.inbox.is_asked(request_id.clone());
        let (feed, client) = (self.earlier.feed.clone(), self.client.clone());
        let line = async move {
            if !is_asked.await {
                return None;
            }
            let line = Earlier::line(feed, seq).await?;
            let request = scan(line.as_bytes())?.request;
            Some(own_callback(&line, request, &client))
        };
        self.question = Some(Question {
            request_id,
            answer: Box::pin(async move { Told::of(line.await) }),
        });
        true
    }

    /// A line of the client is on its way to the session.
    fn note_line(&mut self, line: &str) {
        let is_control = memmem::find(line.as_bytes(), b"\"control_re").is_some();
        let Some(control) = is_control.then(|| scan(line.as_bytes())).flatten() else {
            return;
        };
        if let Some(answer) = ControlResponse::read(&control) {
            if let Some(has_answered) = self.known.get_mut(&answer.request_id) {
                *has_answered = true;
            }
        } else if let Some(greeting) = greeting_of(&control) {
            self.greeting = Some(greeting);
        }
    }

    /// The CLI's answer to a request of the client may name requests that are open.
    fn redelivered(&mut self, answer: &ControlResponse) {
        for (name, open) in answer.beside.iter() {
            if name.starts_with("pending_") && name.ends_with("_requests") {
                for request in json::items(open.get()).unwrap_or_default() {
                    if let Some(id) = json::member_text(request, "request_id") {
                        self.known.entry(id.clone()).or_insert(false);
                        self.named.push_back(id);
                    }
                }
            }
        }
    }
}

/// The `initialize` in a line of a client.
pub(super) fn greeting_in(line: &str) -> Option<Greeting> {
    greeting_of(&scan(line.as_bytes())?)
}

impl Greeting {
    /// The request, as the client says it.
    pub(super) fn request(&self) -> &str {
        &self.request
    }

    /// The same, answered or not.
    pub(super) fn answered(self, is_answered: bool) -> Self {
        Self { is_answered, ..self }
    }
}

/// Whether the CLI confirms a prompt that had no id of its own. It says nothing of such a prompt to a host that gives it none.
fn is_receipt_for_daemon(line: &[u8]) -> bool {
    let may_be = memmem::find(line, b"\"command_lifecycle\"").is_some();
    let receipt = may_be.then(|| scan(line)).flatten();
    receipt
        .and_then(|line| Lifecycle::read(&line))
        .is_some_and(|receipt| is_from_daemon(receipt.command_uuid))
}

fn greeting_of(control: &Envelope<'_>) -> Option<Greeting> {
    let (request, request_id) = (control.request?, control.request_id.as_deref()?);
    (control.is("control_request") && control.request_subtype()? == "initialize").then(|| Greeting {
        request_id: request_id.to_owned(),
        request: request.to_owned(),
        is_answered: false,
    })
}

/// Whether a session in this state has no process, and gets none by itself.
pub(super) const fn is_over(state: SessionState) -> bool {
    matches!(state, SessionState::Stopped | SessionState::Failed)
}

impl<I: Inbox> Dialect for Relay<I> {
    fn first(&mut self) -> Option<String> {
        None
    }

    async fn next(&mut self, cursor: &mut Cursor) -> Next {
        loop {
            if let Some(state) = self.end {
                return Next::Close(match self.host {
                    Some(_) => Close::Exited,
                    None => Close::NotLive(state),
                });
            }
            if let Some(question) = &mut self.question {
                let told = question.answer.as_mut().await;
                let question = self.question.take();
                if let Some(lines) = question.and_then(|it| self.answered(it.request_id, told)) {
                    return lines.into_frames();
                }
            }
            if let Some(regreeting) = &mut self.regreeting {
                // A session that is gone is seen below.
                let _ = regreeting.as_mut().await;
                self.regreeting = None;
            }
            if self.ask_of_named() || self.ask_of_earlier() {
                continue;
            }
            let chunk = match self.rest.take() {
                Some(chunk) => chunk,
                None => match cursor.next(BATCH_BYTES).await {
                    Ok(Some(chunk)) => chunk,
                    Ok(None) => return Next::End,
                    Err(error) => return Next::Failed(error),
                },
            };
            match self.take(chunk) {
                Ok(lines) if lines.is_empty() => {}
                Ok(lines) => return lines.into_frames(),
                Err(close) => return Next::Close(close),
            }
        }
    }

    fn received(&mut self, text: Utf8Bytes, _head: Seq) -> Result<Received, Close> {
        let mut received = Received::default();
        let lines = self.joiner.feed(&text).map_err(|TooLong| Close::TooBig)?;
        for line in lines {
            if let Some(tokens) = self.tokens.take()
                && first_line::is_auth(line.as_bytes())
            {
                // The role stays the one with which the socket was opened.
                let role = first_line::credential(&line).and_then(|token| tokens.role_of(&token));
                role.ok_or(Close::Unproven)?;
                continue;
            }
            if let Some(host) = &self.host
                && host.takes(&line)?
            {
                continue;
            }
            self.note_line(&line);
            received.lines.push(line.into());
        }
        Ok(received)
    }

    fn forbidden(&mut self, line: &[u8]) -> Result<Option<String>, Close> {
        let says_nothing = scan(line).is_some_and(|line| line.is("keep_alive"));
        says_nothing.then_some(None).ok_or(Close::Forbidden)
    }

    fn direct(&mut self, frame: ClientFrame) -> Result<Option<String>, Close> {
        match frame {
            ClientFrame::Response { request_id, answer } => {
                self.redelivered(&answer);
                if request_id == REGREETING_ID {
                    return Ok(None);
                }
                if let Some(greeting) = self.greeting.as_mut().filter(|it| it.request_id == request_id) {
                    greeting.is_answered = true;
                }
                Ok(Some(frames::response(&request_id, &answer) + "\n"))
            }
            ClientFrame::Refused(refused) => {
                let answered = match &refused.line {
                    RefusedLine::Answer { request_id, .. } => Some(request_id.clone()),
                    _ => None,
                };
                let told = refusal(*refused)?;
                // One that came too late is not waited for again.
                Ok(told.or_else(|| self.taken("request_id", &answered?)))
            }
            // The CLI says nothing of these to its host. A stand-in may lose its connection.
            ClientFrame::Prompted { uuid, .. } => Ok(self.taken("uuid", &uuid.to_string())),
            ClientFrame::Answered { request_id } => Ok(self.taken("request_id", &request_id)),
            ClientFrame::Queue(_) | ClientFrame::Clients(_) => Ok(None),
            ClientFrame::Late(late) => Ok(self.taken("request_id", &late.request_id)),
        }
    }

    fn undelivered(&mut self, _reason: &str) -> Result<Option<String>, Close> {
        Err(Close::Deleted)
    }

    fn shutdown(&self, _reconnect_after_ms: u64) -> (Option<String>, Close) {
        (None, Close::CutShort)
    }

    fn counts(&self) -> bool {
        false
    }
}

/// A refusal in the CLI's own words where it has some. For all else the connection ends: the client would wait for ever.
fn refusal(refused: Refused) -> Result<Option<String>, Close> {
    let is_late = refused.error.is_late_answer();
    let error = ApiError::from(refused.error);
    match refused.line {
        RefusedLine::Request(request_id) if request_id != REGREETING_ID => {
            let line = stdin::control_error(&request_id, error.words(), Some(error.code().as_str()));
            Ok(Some(String::from_utf8_lossy(&line).into_owned() + "\n"))
        }
        RefusedLine::Answer { .. } if is_late => Ok(None),
        RefusedLine::Request(_)
        | RefusedLine::Answer { .. }
        | RefusedLine::Prompt(_)
        | RefusedLine::Nameless => Err(Close::Refused(error.into())),
    }
}

/// The request with the callback id that the client gave, if it is about a hook of the client.
fn own_callback(line: &str, request: Option<&str>, client: &ClientId) -> String {
    let callback = request.and_then(|request| json::member(request, "callback_id"));
    let own = callback.and_then(|raw| {
        let id: String = serde_json::from_str(raw).ok()?;
        let id = id.strip_prefix(&format!("{client}/"))?.to_owned();
        let start = raw.as_ptr().addr() - line.as_ptr().addr();
        Some((start, raw.len(), Value::from(id).to_string()))
    });
    match own {
        Some((start, length, id)) => [&line[..start], &id, &line[start + length..]].concat(),
        None => line.to_owned(),
    }
}

impl<I> Relay<I> {
    /// Tells a stand-in that a line is in the journal.
    fn taken(&self, member: &str, id: &str) -> Option<String> {
        self.host.as_ref().map(|_| host::taken(member, id) + "\n")
    }
}

/// Lines on their way out.
#[derive(Debug, Default)]
struct Lines {
    whole: Vec<String>,
    /// The frame that is being filled.
    last: String,
    /// The last record whose lines are all in these frames, for a client that is told.
    at: Option<Seq>,
}

impl Lines {
    fn push(&mut self, line: &str) {
        if !self.last.is_empty() && self.last.len() + line.len() >= FRAME_BYTES {
            self.seal();
        }
        self.last.push_str(line);
        self.last.push('\n');
    }

    /// Ends a frame. The client has all of it or nothing.
    fn seal(&mut self) {
        if let Some(at) = self.at {
            self.last.push_str(&host::cursor(at));
            self.last.push('\n');
        }
        self.whole.push(std::mem::take(&mut self.last));
    }

    fn push_bytes(&mut self, line: &[u8]) {
        self.push(&String::from_utf8_lossy(line));
    }

    fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    fn into_frames(mut self) -> Next {
        self.seal();
        let frames = self.whole.into_iter();
        Next::Frames(frames.map(|text| Message::Text(text.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use futures_util::FutureExt as _;

    use super::*;
    use crate::{
        domain::prompt_uuid_from_daemon,
        journal::{Writer, WriterOptions},
    };

    /// A session in which every request is open, or none.
    #[derive(Clone)]
    struct Session {
        is_asked: bool,
    }

    impl Inbox for Session {
        async fn line(&self, _line: Bytes) -> Result<(), String> {
            Ok(())
        }

        fn is_asked(&self, _request_id: String) -> impl Future<Output = bool> + Send + use<> {
            std::future::ready(self.is_asked)
        }
    }

    /// The step after the news that a request is open, when the client has answered it meanwhile or has not.
    fn told_after_news(is_asked: bool, has_answered: bool) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let (_writer, recovery) = Writer::open(dir.path(), WriterOptions::default()).unwrap();
        let feed = Feed::new(dir.path(), recovery.head, 1024);
        let mut cursor = feed.cursor(Seq::ZERO).unwrap();
        let open = VecDeque::new();
        let earlier = Earlier { open, feed };
        let client: ClientId = "sdk".parse().unwrap();
        let mut relay = Relay::new(
            Session { is_asked },
            client,
            vec!["ws:sdk".to_owned()],
            None,
            earlier,
            1024,
        );
        let line = br#"{"type":"control_response","response":{"subtype":"success","request_id":"1","response":{},"pending_permission_requests":[{"type":"control_request","request_id":"x","request":{"subtype":"can_use_tool"}}]}}"#;
        let answer = ControlResponse::read(&scan(line).unwrap()).unwrap();
        let request_id = "1".to_owned();
        let answer = Box::new(answer);
        let news = relay.direct(ClientFrame::Response { request_id, answer });
        assert!(news.unwrap().unwrap().contains(r#""request_id":"x""#));
        if has_answered {
            let line = r#"{"type":"control_response","response":{"subtype":"success","request_id":"x","response":{}}}"#;
            relay.received(format!("{line}\n").into(), Seq::ZERO).unwrap();
        }
        match relay.next(&mut cursor).now_or_never()? {
            Next::Frames(frames) => Some(frames[0].to_text().unwrap().to_owned()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_that_was_over_when_it_was_named_is_taken_back() {
        assert_eq!(told_after_news(true, false), None, "it is open");
        let taken_back = "{\"type\":\"control_cancel_request\",\"request_id\":\"x\"}\n";
        assert_eq!(told_after_news(false, false).as_deref(), Some(taken_back));
        assert_eq!(told_after_news(false, true), None, "the client has decided");
    }

    #[test]
    fn a_prompt_without_an_id_is_not_confirmed() {
        let line = |uuid: uuid::Uuid| {
            format!(r#"{{"type":"command_lifecycle","command_uuid":"{uuid}","state":"queued","uuid":"x"}}"#)
        };
        assert!(is_receipt_for_daemon(line(prompt_uuid_from_daemon()).as_bytes()));
        let ours = prompt_uuid_from_daemon();
        let turned =
            format!(r#"{{"command_uuid":"{ours}","state":"started","type":"command_lifecycle","uuid":"x"}}"#);
        assert!(
            is_receipt_for_daemon(turned.as_bytes()),
            "the order of members is the CLI's"
        );
        assert!(!is_receipt_for_daemon(
            line(*crate::domain::RunId::new().as_uuid()).as_bytes()
        ));
        let quoted = br#"{"type":"assistant","message":{"content":"\"command_lifecycle\""}}"#;
        assert!(!is_receipt_for_daemon(quoted));
    }

    #[test]
    fn a_hook_of_the_client_has_the_id_that_the_client_gave() {
        let client: ClientId = "sdk".parse().unwrap();
        let told = |line: &str| own_callback(line, scan(line.as_bytes()).unwrap().request, &client);
        let line = |id: &str| {
            format!(
                r#"{{"type":"control_request","request_id":"sdk/hook_0","request":{{"input":{{"callback_id":"sdk/x"}}, "callback_id": "{id}"}}}}"#
            )
        };
        assert_eq!(told(&line("sdk/hook_0")), line("hook_0"));
        assert_eq!(told(&line(r#"sdk/a\"b"#)), line(r#"a\"b"#));
        for other in ["trunkline/0", "sdk2/hook_0", "hook_0"] {
            assert_eq!(told(&line(other)), line(other));
        }
        let permission =
            r#"{"type":"control_request","request_id":"1","request":{"subtype":"can_use_tool"}}"#;
        assert_eq!(told(permission), permission);
    }
}
