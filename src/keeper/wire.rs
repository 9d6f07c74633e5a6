//! Owns the frames between a keeper and its daemon: `[u32 little-endian payload length][u8 tag][payload]`.
//!
//! The first frame each way is a hello. Its form never changes, so that any two versions can refuse each other politely.
//! Frames with an unknown tag are skipped. Everything but a line or a note is JSON.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    domain::{RunExit, RunId, Seq, SessionId},
    journal::Head,
};

/// The version of this protocol.
pub(super) const VERSION: u32 = 1;

/// Length and tag.
const HEADER_BYTES: usize = 5;

/// What a frame may carry beside one line: its id and the name of its writer.
const PREFIX_BYTES: usize = 4 << 10;

/// The buffer for small frames.
const BUFFER_BYTES: usize = 16 << 10;

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

    pub(super) const REFUSED: u8 = 65;
    pub(super) const ACK: u8 = 66;
    pub(super) const REFUSAL: u8 = 67;
    pub(super) const HEAD: u8 = 68;
    pub(super) const EXITED: u8 = 69;
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
    /// The version of the link's protocol.
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
    /// Close stdin first and wait for `eof_grace_ms`. Of use only when no turn runs: the end of input does not stop one.
    pub close_stdin_first: bool,
    /// From the close of stdin to SIGTERM, in milliseconds.
    pub eof_grace_ms: u64,
    /// From SIGTERM to SIGKILL, in milliseconds.
    pub term_grace_ms: u64,
}

impl Default for StopRequest {
    /// SIGTERM at once, SIGKILL after 5 s.
    fn default() -> Self {
        Self {
            close_stdin_first: false,
            eof_grace_ms: 0,
            term_grace_ms: 5_000,
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

/// What the daemon says.
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
}

impl Submission {
    pub(super) fn new(id: u64, by: Option<String>, data: Vec<u8>) -> Self {
        Self {
            id,
            by,
            buffer: data,
            start: 0,
        }
    }

    /// The JSON text.
    pub(super) fn data(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// The buffer and where the JSON text begins in it.
    pub(super) fn into_parts(self) -> (Vec<u8>, usize) {
        (self.buffer, self.start)
    }
}

/// What a keeper says.
pub(super) enum ToDaemon {
    Hello(Box<KeeperHello>),
    Refused(HelloRefusal),
    Ack(Answer<Seq>),
    Refusal(Answer<Refusal>),
    Head(Head),
    Exited(RunExit),
}

/// A frame that cannot be understood. The connection has no use after it.
#[derive(Debug, thiserror::Error)]
pub(super) enum FrameError {
    #[error("frame of {bytes} bytes is longer than {limit}")]
    TooLong { bytes: usize, limit: usize },
    #[error("frame with tag {tag} is malformed")]
    Malformed { tag: u8 },
}

/// One frame as it came.
pub(super) struct Frame {
    tag: u8,
    payload: Vec<u8>,
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

/// The head of a frame whose last `data_bytes` bytes are sent by the caller.
fn submission_head(tag: u8, id: u64, by: &str, data_bytes: usize) -> io::Result<Bytes> {
    let by_bytes = u16::try_from(by.len())
        .ok()
        .filter(|_| by.len() + 10 <= PREFIX_BYTES)
        .ok_or_else(|| io::Error::other("name of the writer is too long"))?;
    let mut head = BytesMut::with_capacity(HEADER_BYTES + 10 + by.len());
    head.put_u32_le(length_field(10 + by.len() + data_bytes)?);
    head.put_u8(tag);
    head.put_u64_le(id);
    head.put_u16_le(by_bytes);
    head.put_slice(by.as_bytes());
    Ok(head.freeze())
}

pub(super) fn hello(hello: &DaemonHello) -> io::Result<Bytes> {
    json_frame(tag::HELLO, hello)
}

pub(super) fn write_head(id: u64, by: Option<&str>, line_bytes: usize) -> io::Result<Bytes> {
    submission_head(tag::WRITE, id, by.unwrap_or_default(), line_bytes)
}

pub(super) fn note_head(id: u64, data_bytes: usize) -> io::Result<Bytes> {
    submission_head(tag::NOTE, id, "", data_bytes)
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
        Ok(Submission {
            id: u64::from_le_bytes(*id),
            by: (!by.is_empty()).then(|| by.to_owned()),
            start: 10 + by_bytes,
            buffer: self.payload,
        })
    }

    /// As said by a daemon; `None` for a tag of a later version.
    pub(super) fn parse_for_keeper(self) -> Result<Option<ToKeeper>, FrameError> {
        Ok(Some(match self.tag {
            tag::HELLO => ToKeeper::Hello(self.json()?),
            tag::WRITE => ToKeeper::Write(self.submission()?),
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
            _ => return Ok(None),
        }))
    }
}

/// Takes frames out of a byte stream. Small frames share one buffer; a large one is read straight into its own.
pub(super) struct FrameReader {
    limit: usize,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    large: Option<Large>,
}

struct Large {
    tag: u8,
    payload: Vec<u8>,
    have: usize,
}

impl FrameReader {
    /// Refuses frames with a payload of more than `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            large: None,
        }
    }

    /// Changes the limit for the frames that come.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Lets `read` fill the place where the next bytes belong; gives what it gave. Call [`Self::next`] until it gives `None`
    /// before reading again.
    pub(super) fn read_with(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if let Some(large) = &mut self.large {
            let bytes = read(large.payload.get_mut(large.have..).unwrap_or_default())?;
            large.have += bytes;
            return Ok(bytes);
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let bytes = read(self.buffer.get_mut(self.end..).unwrap_or_default())?;
        self.end += bytes;
        Ok(bytes)
    }

    /// The next whole frame, if its last byte is there.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        if let Some(large) = self.large.take() {
            if large.have == large.payload.len() {
                return Ok(Some(Frame {
                    tag: large.tag,
                    payload: large.payload,
                }));
            }
            self.large = Some(large);
            return Ok(None);
        }
        let ready = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some((&[a, b, c, d, tag], rest)) = ready.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > self.limit {
            return Err(FrameError::TooLong {
                bytes: length,
                limit: self.limit,
            });
        }
        if let Some(payload) = rest.get(..length) {
            let payload = payload.to_vec();
            self.start += HEADER_BYTES + length;
            return Ok(Some(Frame { tag, payload }));
        }
        if HEADER_BYTES + length > self.buffer.len() {
            let mut payload = vec![0; length];
            let have = rest.len();
            if let Some(place) = payload.get_mut(..have) {
                place.copy_from_slice(rest);
            }
            self.start = 0;
            self.end = 0;
            self.large = Some(Large { tag, payload, have });
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_all(bytes: &[u8], chunk: usize, limit: usize) -> Result<Vec<(u8, Vec<u8>)>, FrameError> {
        let mut reader = FrameReader::new(limit);
        let mut rest = bytes;
        let mut frames = Vec::new();
        while !rest.is_empty() {
            reader
                .read_with(|place| {
                    let bytes = chunk.min(place.len()).min(rest.len());
                    place[..bytes].copy_from_slice(&rest[..bytes]);
                    rest = &rest[bytes..];
                    Ok(bytes)
                })
                .unwrap();
            while let Some(frame) = reader.next()? {
                frames.push((frame.tag, frame.payload));
            }
        }
        Ok(frames)
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_frames(
            sizes in prop::collection::vec(prop_oneof![0usize..40, 16_370usize..16_390, 40_000usize..40_010], 1..8),
            chunk in 1usize..50_000,
        ) {
            let mut bytes = Vec::new();
            let mut expected = Vec::new();
            for (index, size) in sizes.into_iter().enumerate() {
                let tag = u8::try_from(index).unwrap();
                let payload = vec![tag; size];
                bytes.extend_from_slice(&u32::try_from(size).unwrap().to_le_bytes());
                bytes.push(tag);
                bytes.extend_from_slice(&payload);
                expected.push((tag, payload));
            }
            prop_assert_eq!(read_all(&bytes, chunk, 1 << 20).unwrap(), expected);
        }
    }

    #[test]
    fn a_frame_over_the_limit_is_refused_before_it_is_read() {
        let mut bytes = 1_000u32.to_le_bytes().to_vec();
        bytes.push(2);
        assert!(matches!(
            read_all(&bytes, 64, 999),
            Err(FrameError::TooLong {
                bytes: 1_000,
                limit: 999
            })
        ));
    }

    #[test]
    fn a_line_comes_back_with_its_writer() {
        let line = br#"{"type":"user"}"#;
        let mut bytes = write_head(7, Some("phone"), line.len()).unwrap().to_vec();
        bytes.extend_from_slice(line);
        let (tag, payload) = read_all(&bytes, 3, 100).unwrap().remove(0);
        let Some(ToKeeper::Write(submission)) = (Frame { tag, payload }).parse_for_keeper().unwrap() else {
            panic!("not a write");
        };
        assert_eq!(submission.id, 7);
        assert_eq!(submission.by.as_deref(), Some("phone"));
        assert_eq!(submission.data(), line);
    }

    #[test]
    fn a_cut_submission_is_malformed_and_an_unknown_tag_is_skipped() {
        let cut = Frame {
            tag: tag::WRITE,
            payload: vec![0; 9],
        };
        assert!(matches!(
            cut.parse_for_keeper(),
            Err(FrameError::Malformed { .. })
        ));
        let later = Frame {
            tag: 200,
            payload: vec![],
        };
        assert!(later.parse_for_daemon().unwrap().is_none());
        assert!(later.parse_for_keeper().unwrap().is_none());
    }
}
