//! Owns the frames between a keeper and its daemon: `[u32 little-endian payload length][u8 tag][payload]`.
//!
//! The first frame each way is a hello. Its form never changes, so that any two versions can refuse each other politely.
//! Frames with an unknown tag are skipped. Everything but a line or a note is JSON, whose unknown members are skipped too. A
//! feature that was added without a new version is named in the keeper's hello, and never sent to one that does not name it.
//!
//! Versions: each program speaks [`OLDEST`] to [`VERSION`]. The daemon asks for the newest version that it speaks and that
//! the keeper's identity file does not rule out; the keeper takes it or refuses it with its own newest, and then the daemon
//! asks for that, if it speaks it. `tests::golden` keeps what each version says, byte for byte.
//!
//! | version | what came with it |
//! | --- | --- |
//! | 1 | everything but what follows |
//! | 2 | the keeper tells each step of a stop when it takes it |

mod frame;

use std::{io, ops::Range};

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

pub(super) use self::frame::{Frame, FrameError, FrameReader};
use crate::{
    domain::{RunExit, RunId, Seq, SessionId, StopStep},
    journal::Head,
};

/// The newest version of this protocol that this program speaks.
pub const VERSION: u32 = 2;

/// The oldest version of this protocol that this program speaks.
pub const OLDEST: u32 = 1;

/// From this version on a keeper tells the steps of a stop.
pub(super) const WITH_STEPS: u32 = 2;

/// Whether this program speaks that version.
pub(super) const fn speaks(version: u32) -> bool {
    OLDEST <= version && version <= VERSION
}

/// Length and tag.
const HEADER_BYTES: usize = 5;

/// The room of a frame beside one line and its journal version: its id and the name of its writer.
const PREFIX_BYTES: usize = 4 << 10;

/// The id and the length of the name.
const FIXED_BYTES: usize = 10;

/// The length of what the journal gets.
const RECORD_LENGTH_BYTES: usize = 4;

const LONGEST_FIXED_BYTES: usize = FIXED_BYTES + RECORD_LENGTH_BYTES;

/// The longest payload before the hello is accepted.
pub(super) const HELLO_LIMIT_BYTES: usize = 4 << 10;

mod tag {
    pub(super) const HELLO: u8 = 1;
    pub(super) const WRITE: u8 = 2;
    pub(super) const NOTE: u8 = 3;
    pub(super) const SIGNAL: u8 = 4;
    pub(super) const STOP: u8 = 5;
    pub(super) const CLOSE_STDIN: u8 = 6;
    pub(super) const DETACH: u8 = 7;
    /// A line and what the journal gets in its place. Only for a keeper whose hello has `journal_as`: another one would
    /// skip it without an answer.
    pub(super) const WRITE_AS: u8 = 8;

    pub(super) const REFUSED: u8 = 65;
    pub(super) const ACK: u8 = 66;
    pub(super) const REFUSAL: u8 = 67;
    pub(super) const HEAD: u8 = 68;
    pub(super) const EXITED: u8 = 69;
    /// A step of a stop was taken. From version 2 on.
    pub(super) const STEP: u8 = 70;
}

/// How the daemon introduces itself.
#[derive(Serialize, Deserialize)]
pub(super) struct DaemonHello {
    pub(super) protocol: u32,
    pub(super) secret: String,
}

/// How a keeper introduces itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeeperHello {
    /// The version of the link's protocol that is spoken from here on.
    pub protocol: u32,
    /// The version of the program that runs as keeper.
    pub program_version: String,
    /// The session it keeps.
    pub session: SessionId,
    /// The run it keeps.
    pub run: RunId,
    /// The pid of the process it keeps; also the id of that process's group.
    pub child_pid: i32,
    /// The kernel start time of that process, in clock ticks since boot; 0 where the system does not tell.
    pub child_start_time: u64,
    /// The newest record of the journal.
    pub head: Head,
    /// The end of the process, if it ended already.
    pub exited: Option<RunExit>,
    /// The longest line it takes.
    pub max_line_bytes: usize,
    /// Whether it can journal something else than the line that it writes.
    #[serde(default)]
    pub journal_as: bool,
}

/// Why a keeper does not talk to who connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum HelloRefusal {
    Secret,
    Version(u32),
}

/// How to stop the process. Each rung of the ladder has its own time; see [`crate::keeper`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRequest {
    /// Close stdin first and wait for `eof_grace_ms`. This is of use only when no turn runs: the end of input does not
    /// stop one.
    pub close_stdin_first: bool,
    /// From the close of stdin to SIGTERM, in milliseconds.
    pub eof_grace_ms: u64,
    /// From SIGTERM to SIGKILL, in milliseconds.
    pub term_grace_ms: u64,
    /// Send SIGINT before stdin is closed, and wait this many milliseconds with stdin open: the process may ask something
    /// before it ends. 0 = not. An older keeper knows nothing of it and closes stdin at once.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub interrupt_grace_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Default for StopRequest {
    /// SIGTERM at once, SIGKILL after 5 s.
    fn default() -> Self {
        Self {
            close_stdin_first: false,
            eof_grace_ms: 0,
            term_grace_ms: 5_000,
            interrupt_grace_ms: 0,
        }
    }
}

/// Why a line or note was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Refusal {
    Busy,
    Closed,
    Exited,
    Invalid,
}

/// The answer to one line or note.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Answer<T> {
    pub(super) id: u64,
    pub(super) value: T,
}

/// A frame of the daemon.
pub(super) enum ToKeeper {
    Hello(DaemonHello),
    Write(Submission),
    Note(Submission),
    Signal(i32),
    Stop(StopRequest),
    CloseStdin,
    Detach,
}

/// A line or a note, still in the buffer that it arrived in.
pub(super) struct Submission {
    pub(super) id: u64,
    pub(super) by: Option<String>,
    buffer: Vec<u8>,
    start: usize,
    record: Range<usize>,
}

impl Submission {
    pub(super) fn new(id: u64, by: Option<String>, data: Vec<u8>) -> Self {
        Self {
            id,
            by,
            record: 0..data.len(),
            buffer: data,
            start: 0,
        }
    }

    /// The JSON text.
    pub(super) fn data(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// The journal's version of it.
    pub(super) fn record(&self) -> &[u8] {
        self.buffer.get(self.record.clone()).unwrap_or_default()
    }

    /// The buffer, where the JSON text begins in it, and where in it is what the journal gets.
    pub(super) fn into_parts(self) -> (Vec<u8>, usize, Range<usize>) {
        (self.buffer, self.start, self.record)
    }
}

/// A frame of a keeper.
pub(super) enum ToDaemon {
    Hello(Box<KeeperHello>),
    Refused(HelloRefusal),
    Ack(Answer<Seq>),
    Refusal(Answer<Refusal>),
    Head(Head),
    Exited(RunExit),
    Step(StopStep),
}

/// The longest payload of a connection whose lines may have `max_line_bytes`.
pub(super) fn frame_limit(max_line_bytes: usize) -> usize {
    max_line_bytes.saturating_add(PREFIX_BYTES)
}

fn json_frame(tag: u8, message: &impl Serialize) -> io::Result<Bytes> {
    let mut frame = BytesMut::new();
    frame.put_u32_le(0);
    frame.put_u8(tag);
    let mut writer = frame.writer();
    serde_json::to_writer(&mut writer, message)?;
    let mut frame = writer.into_inner();
    let length = length_field(frame.len() - HEADER_BYTES)?;
    if let Some(field) = frame.get_mut(..4) {
        field.copy_from_slice(&length.to_le_bytes());
    }
    Ok(frame.freeze())
}

fn length_field(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(|_| io::Error::other("frame longer than 4 GiB"))
}

/// The head of a frame whose last `data_bytes` bytes are sent by the caller, and `record` if the journal gets that.
fn submission_head(
    tag: u8,
    id: u64,
    by: &str,
    record: Option<&[u8]>,
    data_bytes: usize,
) -> io::Result<Bytes> {
    let by_bytes = u16::try_from(by.len())
        .ok()
        .filter(|_| by.len() + LONGEST_FIXED_BYTES <= PREFIX_BYTES)
        .ok_or_else(|| io::Error::other("name of the writer is too long"))?;
    let record_bytes = record.map_or(0, |record| RECORD_LENGTH_BYTES + record.len());
    let prefix_bytes = FIXED_BYTES + by.len() + record_bytes;
    let mut head = BytesMut::with_capacity(HEADER_BYTES + prefix_bytes);
    head.put_u32_le(length_field(prefix_bytes + data_bytes)?);
    head.put_u8(tag);
    head.put_u64_le(id);
    head.put_u16_le(by_bytes);
    head.put_slice(by.as_bytes());
    if let Some(record) = record {
        head.put_u32_le(length_field(record.len())?);
        head.put_slice(record);
    }
    Ok(head.freeze())
}

pub(super) fn hello(hello: &DaemonHello) -> io::Result<Bytes> {
    json_frame(tag::HELLO, hello)
}

pub(super) fn write_head(id: u64, by: Option<&str>, line_bytes: usize) -> io::Result<Bytes> {
    submission_head(tag::WRITE, id, by.unwrap_or_default(), None, line_bytes)
}

/// As [`write_head`], for a line of which the journal gets `record`.
pub(super) fn write_as_head(
    id: u64,
    by: Option<&str>,
    record: &[u8],
    line_bytes: usize,
) -> io::Result<Bytes> {
    submission_head(
        tag::WRITE_AS,
        id,
        by.unwrap_or_default(),
        Some(record),
        line_bytes,
    )
}

pub(super) fn note_head(id: u64, data_bytes: usize) -> io::Result<Bytes> {
    submission_head(tag::NOTE, id, "", None, data_bytes)
}

pub(super) fn signal(number: i32) -> io::Result<Bytes> {
    json_frame(tag::SIGNAL, &number)
}

pub(super) fn stop(request: &StopRequest) -> io::Result<Bytes> {
    json_frame(tag::STOP, request)
}

pub(super) fn close_stdin() -> io::Result<Bytes> {
    json_frame(tag::CLOSE_STDIN, &())
}

pub(super) fn detach() -> io::Result<Bytes> {
    json_frame(tag::DETACH, &())
}

impl ToDaemon {
    /// The bytes of the frame.
    pub(super) fn encode(&self) -> io::Result<Bytes> {
        match self {
            Self::Hello(hello) => json_frame(tag::HELLO, hello),
            Self::Refused(refusal) => json_frame(tag::REFUSED, refusal),
            Self::Ack(answer) => json_frame(tag::ACK, answer),
            Self::Refusal(answer) => json_frame(tag::REFUSAL, answer),
            Self::Head(head) => json_frame(tag::HEAD, head),
            Self::Exited(exit) => json_frame(tag::EXITED, exit),
            Self::Step(step) => json_frame(tag::STEP, step),
        }
    }
}

impl Frame {
    fn json<T: DeserializeOwned>(&self) -> Result<T, FrameError> {
        serde_json::from_slice(&self.payload).map_err(|_| FrameError::Malformed { tag: self.tag })
    }

    fn submission(self) -> Result<Submission, FrameError> {
        let malformed = FrameError::Malformed { tag: self.tag };
        let Some((id, rest)) = self.payload.split_first_chunk::<8>() else {
            return Err(malformed);
        };
        let Some((by_bytes, rest)) = rest.split_first_chunk::<2>() else {
            return Err(malformed);
        };
        let by_bytes = usize::from(u16::from_le_bytes(*by_bytes));
        let Some(Ok(by)) = rest.get(..by_bytes).map(std::str::from_utf8) else {
            return Err(malformed);
        };
        let mut start = FIXED_BYTES + by_bytes;
        let mut record = start..self.payload.len();
        if self.tag == tag::WRITE_AS {
            let Some((record_bytes, rest)) = rest
                .get(by_bytes..)
                .and_then(|rest| rest.split_first_chunk::<RECORD_LENGTH_BYTES>())
            else {
                return Err(malformed);
            };
            let record_bytes = u32::from_le_bytes(*record_bytes) as usize;
            if record_bytes > rest.len() {
                return Err(malformed);
            }
            let record_start = start + RECORD_LENGTH_BYTES;
            start = record_start + record_bytes;
            record = record_start..start;
        }
        Ok(Submission {
            id: u64::from_le_bytes(*id),
            by: (!by.is_empty()).then(|| by.to_owned()),
            start,
            record,
            buffer: self.payload,
        })
    }

    /// As said by a daemon; `None` for a tag of a later version.
    pub(super) fn parse_for_keeper(self) -> Result<Option<ToKeeper>, FrameError> {
        Ok(Some(match self.tag {
            tag::HELLO => ToKeeper::Hello(self.json()?),
            tag::WRITE | tag::WRITE_AS => ToKeeper::Write(self.submission()?),
            tag::NOTE => ToKeeper::Note(self.submission()?),
            tag::SIGNAL => ToKeeper::Signal(self.json()?),
            tag::STOP => ToKeeper::Stop(self.json()?),
            tag::CLOSE_STDIN => ToKeeper::CloseStdin,
            tag::DETACH => ToKeeper::Detach,
            _ => return Ok(None),
        }))
    }

    /// As said by a keeper; `None` for a tag of a later version.
    pub(super) fn parse_for_daemon(&self) -> Result<Option<ToDaemon>, FrameError> {
        Ok(Some(match self.tag {
            tag::HELLO => ToDaemon::Hello(self.json()?),
            tag::REFUSED => ToDaemon::Refused(self.json()?),
            tag::ACK => ToDaemon::Ack(self.json()?),
            tag::REFUSAL => ToDaemon::Refusal(self.json()?),
            tag::HEAD => ToDaemon::Head(self.json()?),
            tag::EXITED => ToDaemon::Exited(self.json()?),
            tag::STEP => ToDaemon::Step(self.json()?),
            _ => return Ok(None),
        }))
    }
}

#[cfg(test)]
mod tests;
