//! Owns the connection of a stand-in to the daemon: the launch, lines both ways, and the way back after a loss.

use std::{collections::VecDeque, path::Path, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};

use super::{environment, pending::Pending};
use crate::{
    claude::stdin,
    cli::{
        CliError,
        args::Common,
        attach::socket::{Frame, Gone, Socket},
        client::{Address, Client},
        continuing::{self, Newest},
        output::note,
        reach, settings, view,
    },
    domain::{ConnectionId, ErrorCode, SessionId},
};

/// The variable by which a host says that it reads the states of its session.
const READS_STATES: &str = "CLAUDE_CODE_SDK_READS_SESSION_STATE";
/// The sub-protocol.
const PROTOCOL: &str = "trunkline.stdio";
/// The beginning of each frame that is no line of the CLI.
const OWN: &str = r#"{"type":"trunkline."#;
/// How long a daemon that is gone is waited for. Its sessions live without it for as long.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// Between two looks for it.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// After this long without a daemon a person is told.
const TOLD_AFTER: Duration = Duration::from_secs(2);
/// How long a host that has told us to end is kept waiting by what does not come, or is not read.
const IMPATIENCE: Duration = Duration::from_secs(2);
/// Lines that the daemon may not have before no more are read.
const MOST_PENDING: usize = 1024;

/// The argument of a host that goes on with the newest conversation of its directory.
const CONTINUE: &str = "--continue";

/// The start of the stand-in.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) argv: Vec<String>,
    pub(super) cwd: String,
    /// The first line of the input.
    pub(super) line: String,
}

impl Launch {
    /// Names the conversation that goes on, if the host asks for the newest one of its directory.
    async fn name_newest(&mut self, address: &Address) -> Result<(), CliError> {
        let Some(asked) = self.argv.iter_mut().find(|arg| *arg == CONTINUE) else {
            return Ok(());
        };
        let client = Client::new(address)?;
        let newest = continuing::newest(&client, Some(Path::new(&self.cwd))).await?;
        let conversation = match &newest {
            Newest::Session(session) => view::text(session, &["cli", "session_id"]),
            Newest::Conversation(id) => id,
        };
        *asked = format!("--resume={conversation}");
        Ok(())
    }
}

/// A piece of an output.
#[derive(Debug)]
pub(super) enum Piece {
    /// Whole lines.
    Lines(String),
    /// A piece of the standard error.
    Errors(String),
}

/// The end of the CLI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Code(u8),
    Signal(i32),
    /// Nobody reads the lines any more.
    ReaderGone,
}

/// The first frame.
#[derive(Serialize)]
#[serde(tag = "type")]
enum First<'a> {
    #[serde(rename = "trunkline.launch")]
    Launch {
        argv: &'a [String],
        cwd: &'a str,
        env: serde_json::Map<String, serde_json::Value>,
        is_whole_env: bool,
        line: &'a str,
        session: SessionId,
        client: ConnectionId,
    },
    #[serde(rename = "trunkline.reattach")]
    Reattach {
        session: &'a str,
        client: &'a str,
        after: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        initialize: Option<&'a str>,
        is_born: bool,
        is_greeted: bool,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_unheard: bool,
        known: &'a std::collections::BTreeMap<String, bool>,
    },
}

/// A frame of the daemon that is no line of the CLI.
#[derive(Deserialize)]
#[serde(tag = "type")]
enum Own {
    #[serde(rename = "trunkline.session")]
    Session {
        session: String,
        client: String,
        after: u64,
        is_born: bool,
    },
    #[serde(rename = "trunkline.cursor")]
    Cursor { seq: u64 },
    #[serde(rename = "trunkline.taken")]
    Taken {
        uuid: Option<String>,
        request_id: Option<String>,
    },
    #[serde(rename = "trunkline.stdout")]
    Stdout { text: String },
    #[serde(rename = "trunkline.stderr")]
    Stderr { text: String },
    #[serde(rename = "trunkline.exit")]
    Exit {
        code: Option<i64>,
        signal: Option<i32>,
        reason: Option<String>,
    },
    #[serde(rename = "trunkline.refused")]
    Refused { code: String, detail: String },
}

/// The session behind the stand-in.
#[derive(Debug)]
struct Session {
    id: String,
    client: String,
    is_born: bool,
    /// The last record before the process.
    after: u64,
}

/// The wait for the next daemon.
struct Wait {
    /// Then it is given up.
    until: Instant,
    pause: Duration,
    /// When a person is told.
    told: Option<Instant>,
    /// When a stand-in that is told to end does so.
    end: Option<Instant>,
}

impl Wait {
    fn new(is_told_to_end: bool) -> Self {
        let now = Instant::now();
        Self {
            until: now + PATIENCE,
            pause: PAUSES.0,
            told: Some(now + TOLD_AFTER),
            end: is_told_to_end.then(|| now + IMPATIENCE),
        }
    }
}

/// The state that outlives a connection.
struct Relay<'a> {
    common: &'a Common,
    launch: Launch,
    pending: Pending,
    session: Option<Session>,
    /// The ids of the session and of this client. A launch that is said again, as its answer was lost, is known by them.
    ids: (SessionId, ConnectionId),
    /// Whether a daemon may know of the launch.
    has_launched: bool,
    /// The last record that was told whole.
    cursor: u64,
    has_input: bool,
    /// The signals that the daemon may not have heard of.
    signals: Vec<i32>,
    pieces: mpsc::Sender<Piece>,
    /// The pieces that are to be printed, and that the printer has no room for.
    unprinted: VecDeque<Piece>,
    end: Option<End>,
}

/// Relays until the CLI has ended. Says also whether it was told to end.
pub(super) async fn run(
    common: &Common,
    mut launch: Launch,
    mut lines: mpsc::Receiver<String>,
    mut signals: mpsc::Receiver<i32>,
    pieces: mpsc::Sender<Piece>,
) -> Result<(End, bool), CliError> {
    let mut pending = Pending::of_host(std::env::var_os(READS_STATES).is_some());
    launch.line = pending.said(launch.line);
    // A daemon that is not there at the start is not waited for: the host would not know why nothing happens.
    let mut address = reach::address(common).await?;
    launch.name_newest(&address).await?;
    let mut relay = Relay {
        common,
        launch,
        pending,
        session: None,
        ids: (SessionId::new(), ConnectionId::new()),
        has_launched: false,
        cursor: 0,
        has_input: true,
        signals: Vec::new(),
        pieces,
        unprinted: VecDeque::new(),
        end: None,
    };
    let mut wait = None;
    loop {
        let mut socket = match relay.connect(&address).await {
            Ok(socket) => {
                wait = None;
                socket
            }
            Err(error) if !relay.has_launched => return Err(error),
            Err(_) => match relay.wait_for_daemon(&mut signals, &mut wait).await? {
                Some(found) => {
                    address = found;
                    continue;
                }
                None => return Ok((relay.end_by_signal(), true)),
            },
        };
        relay.has_launched = true;
        if relay.serve(&mut socket, &mut lines, &mut signals).await? {
            socket.close().await;
            relay.print_rest(&mut signals).await;
            return Ok((relay.end.unwrap_or(End::Code(1)), !relay.signals.is_empty()));
        }
        for id in relay.pending.take_once() {
            let line = stdin::control_error(
                &id,
                "the daemon ended, and nobody knows whether this was done",
                None,
            );
            let line = String::from_utf8_lossy(&line).into_owned() + "\n";
            relay.unprinted.push_back(Piece::Lines(line));
        }
        match relay.wait_for_daemon(&mut signals, &mut wait).await? {
            Some(found) => address = found,
            None => return Ok((relay.end_by_signal(), true)),
        }
    }
}

impl Relay<'_> {
    async fn connect(&self, address: &Address) -> Result<Socket, CliError> {
        let client = Client::new(address)?;
        let mut socket = Socket::open_at(&client, &["v1", "stdio"], &[], PROTOCOL).await?;
        // A connection that is lost at once is seen by the next read.
        let _ = self.begin(&mut socket, is_local(&address.url)).await;
        Ok(socket)
    }

    /// Says what the daemon has to know first, and what it may not have.
    async fn begin(&self, socket: &mut Socket, is_local: bool) -> Result<(), Gone> {
        let greeting = self.pending.greeting();
        let first = match &self.session {
            None => First::Launch {
                argv: &self.launch.argv,
                cwd: &self.launch.cwd,
                env: environment(is_local)
                    .into_iter()
                    .map(|(name, value)| (name, value.into()))
                    .collect(),
                is_whole_env: is_local,
                line: &self.launch.line,
                session: self.ids.0,
                client: self.ids.1,
            },
            Some(session) => First::Reattach {
                session: &session.id,
                client: &session.client,
                after: self.cursor,
                initialize: greeting.map(|greeting| greeting.line.as_str()),
                is_born: session.is_born,
                is_greeted: greeting.is_some_and(|greeting| greeting.is_greeted),
                is_unheard: self.is_unheard(),
                known: self.pending.known(),
            },
        };
        let first = serde_json::to_string(&first).unwrap_or_default();
        socket.send(first + "\n").await?;
        let is_born = self.session.as_ref().is_some_and(|session| session.is_born);
        for line in self.pending.lines(is_born) {
            // The first line goes with the launch.
            if self.session.is_some() || line != self.launch.line {
                socket.send(format!("{line}\n")).await?;
            }
        }
        if !self.has_input {
            socket.send(end_of_input()).await?;
        }
        for number in &self.signals {
            socket.send(signal(*number)).await?;
        }
        Ok(())
    }

    /// Relays until the CLI has ended, or the connection is lost. Says whether it has ended.
    async fn serve(
        &mut self,
        socket: &mut Socket,
        lines: &mut mpsc::Receiver<String>,
        signals: &mut mpsc::Receiver<i32>,
    ) -> Result<bool, CliError> {
        // When a host that has told us to end, and takes nothing, is waited for no longer.
        let mut stuck = (!self.signals.is_empty()).then(|| Instant::now() + IMPATIENCE);
        loop {
            let may_read = self.has_input && self.pending.len() < MOST_PENDING;
            let is_printing = !self.unprinted.is_empty();
            // All branches are cancel-safe.
            let sent = tokio::select! {
                room = self.pieces.clone().reserve_owned(), if is_printing => {
                    match (room, self.unprinted.pop_front()) {
                        (Ok(room), Some(piece)) => {
                            drop(room.send(piece));
                            stuck = stuck.map(|_| Instant::now() + IMPATIENCE);
                        }
                        _ => {
                            self.end = Some(End::ReaderGone);
                            return Ok(true);
                        }
                    }
                    continue;
                }
                () = sleep_until(stuck.unwrap_or_else(Instant::now)), if is_printing && stuck.is_some() => {
                    self.end = Some(self.end_by_signal());
                    // Nobody takes these either.
                    self.unprinted.clear();
                    return Ok(true);
                }
                // A host that reads nothing is given no more.
                frame = socket.next(), if !is_printing => match frame {
                    Frame::Text(text) => {
                        self.take(&text)?;
                        stuck = stuck.map(|_| Instant::now() + IMPATIENCE);
                        if self.end.is_some() {
                            return Ok(true);
                        }
                        if self.session.is_none() {
                            return Ok(false);
                        }
                        continue;
                    }
                    Frame::Lost => return Ok(false),
                    Frame::Closed(reason) => {
                        return Err(CliError::Agent {
                            message: format!("the daemon goes on with this no further: {reason}"),
                            hint: None,
                        });
                    }
                },
                line = lines.recv(), if may_read => match line {
                    Some(line) => {
                        let line = self.pending.said(line);
                        socket.send(line + "\n").await
                    }
                    None => {
                        self.has_input = false;
                        socket.send(end_of_input()).await
                    }
                },
                Some(number) = signals.recv() => {
                    self.signals.push(number);
                    stuck.get_or_insert(Instant::now() + IMPATIENCE);
                    socket.send(signal(number)).await
                }
            };
            if sent == Err(Gone) {
                return Ok(false);
            }
        }
    }

    /// Takes a frame of the daemon: all of it, or nothing.
    fn take(&mut self, text: &str) -> Result<(), CliError> {
        let mut lines = String::new();
        for line in text.lines() {
            if !line.starts_with(OWN) {
                if self.pending.heard(line) {
                    lines.push_str(line);
                    lines.push('\n');
                }
                continue;
            }
            // A later version may have more to say.
            let Ok(own) = serde_json::from_str(line) else {
                continue;
            };
            match own {
                Own::Session {
                    session,
                    client,
                    after,
                    is_born,
                } => {
                    self.cursor = after;
                    self.session = Some(Session {
                        id: session,
                        client,
                        is_born,
                        after,
                    });
                }
                Own::Cursor { seq } => self.cursor = seq,
                Own::Taken { uuid, request_id } => {
                    if let Some(uuid) = uuid {
                        self.pending.sent(&uuid);
                    }
                    if let Some(request_id) = request_id {
                        self.pending.answered(&request_id);
                    }
                }
                Own::Stdout { text } => {
                    lines.push_str(&text);
                    lines.push('\n');
                }
                Own::Stderr { text } => {
                    self.print(Piece::Lines(std::mem::take(&mut lines)));
                    self.print(Piece::Errors(text));
                }
                Own::Exit { code, signal, reason } => {
                    if let Some(reason) = reason {
                        self.print(Piece::Errors(format!("trunkline: {reason}\n")));
                    }
                    let code = code.map(|code| u8::try_from(code).unwrap_or(1));
                    self.end = Some(match (code, signal) {
                        (Some(code), _) => End::Code(code),
                        (None, Some(number)) => End::Signal(number),
                        (None, None) => End::Code(1),
                    });
                }
                // The daemon died before it had a process: it is asked for again.
                Own::Refused { code, .. }
                    if code == ErrorCode::SessionNotLive.as_str() && self.is_unheard() =>
                {
                    self.session = None;
                }
                Own::Refused { detail, .. } => {
                    return Err(CliError::Agent {
                        message: detail,
                        hint: None,
                    });
                }
            }
        }
        self.print(Piece::Lines(lines));
        Ok(())
    }

    /// Whether nothing was heard of the process that was to be started.
    fn is_unheard(&self) -> bool {
        let session = self.session.as_ref();
        session.is_some_and(|session| session.is_born && self.cursor <= session.after)
    }

    fn print(&mut self, piece: Piece) {
        let (Piece::Lines(text) | Piece::Errors(text)) = &piece;
        if !text.is_empty() {
            self.unprinted.push_back(piece);
        }
    }

    /// Gives the printer what is left; a host that has told us to end, and reads nothing, not for long.
    async fn print_rest(&mut self, signals: &mut mpsc::Receiver<i32>) {
        let mut until = (!self.signals.is_empty()).then(|| Instant::now() + IMPATIENCE);
        while let Some(piece) = self.unprinted.pop_front() {
            tokio::select! {
                sent = self.pieces.send(piece) => if sent.is_err() {
                    return;
                },
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => return,
                Some(number) = signals.recv() => {
                    self.signals.push(number);
                    until = Some(Instant::now() + IMPATIENCE);
                }
            }
        }
    }

    fn end_by_signal(&self) -> End {
        self.signals
            .first()
            .map_or(End::Code(1), |number| End::Signal(*number))
    }

    /// Waits for an address at which a daemon may be again; `None` when the stand-in is told to end first. The next daemon ends
    /// the session then. One that was killed leaves its address behind, so `wait` is kept until a daemon has answered.
    async fn wait_for_daemon(
        &mut self,
        signals: &mut mpsc::Receiver<i32>,
        wait: &mut Option<Wait>,
    ) -> Result<Option<Address>, CliError> {
        let wait = wait.get_or_insert_with(|| Wait::new(!self.signals.is_empty()));
        loop {
            tokio::select! {
                () = sleep(wait.pause) => {}
                Some(number) = signals.recv() => {
                    self.signals.push(number);
                    wait.end.get_or_insert(Instant::now() + IMPATIENCE);
                }
            }
            if wait.end.is_some_and(|at| at <= Instant::now()) {
                return Ok(None);
            }
            if wait.told.take_if(|at| *at <= Instant::now()).is_some() {
                note("the daemon is gone; waiting for the next one");
            }
            wait.pause = PAUSES.1.min(wait.pause * 2);
            match find(self.common) {
                Ok(_) if Instant::now() >= wait.until => {
                    return Err(CliError::Agent {
                        message: "the daemon does not come back".to_owned(),
                        hint: None,
                    });
                }
                Ok(address) => return Ok(Some(address)),
                Err(error) if Instant::now() >= wait.until => return Err(error),
                Err(_) => {}
            }
        }
    }
}

/// Where the daemon says that it is.
fn find(common: &Common) -> Result<Address, CliError> {
    let loaded = settings::load(common, Vec::new())?;
    let token_file = common.token_file.as_deref();
    Address::find(&loaded.config.data.dir, common.url.as_deref(), token_file)
}

/// Whether a daemon at this URL is on this machine, where only its user can have its token.
fn is_local(url: &str) -> bool {
    let url = reqwest::Url::parse(url).ok();
    let host = url.and_then(|url| Some(url.host_str()?.trim_matches(['[', ']']).to_owned()));
    host.is_some_and(|host| {
        host == "localhost"
            || host
                .parse()
                .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback() || ip.is_unspecified())
    })
}

fn end_of_input() -> String {
    format!("{OWN}end_of_input\"}}\n")
}

fn signal(number: i32) -> String {
    format!("{OWN}signal\",\"number\":{number}}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_daemon_on_this_machine_gets_the_environment() {
        for local in ["http://127.0.0.1:1", "http://[::1]:1/", "http://localhost:7433"] {
            assert!(is_local(local), "{local}");
        }
        for other in ["http://10.0.0.1:1", "http://example.org", "nonsense"] {
            assert!(!is_local(other), "{other}");
        }
    }
}
