//! Owns the decoder of event streams (`text/event-stream`, WHATWG HTML section 9.2): bytes in any chunks become the data of events.

use std::time::Duration;

use http::HeaderValue;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An event has more bytes than is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Reads one stream, over as many connections as it takes.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The most bytes of a line, and of the data of an event.
    limit_bytes: usize,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed right after it ends no other line.
    after_return: bool,
    /// No line of this connection has ended yet; the first may begin with a byte order mark.
    at_start: bool,
    event: Draft,
    last_event_id: Option<HeaderValue>,
    retry: Option<Duration>,
}

/// The event that has not ended yet.
#[derive(Debug, Default)]
struct Draft {
    data: Vec<u8>,
    /// Whether its type is another than `message`.
    is_other: bool,
    /// Its id. The inner `None` takes back the one before, or can't be sent.
    id: Option<Option<HeaderValue>>,
}

impl Decoder {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            line: Vec::new(),
            after_return: false,
            at_start: true,
            event: Draft::default(),
            last_event_id: None,
            retry: None,
        }
    }

    /// A new connection goes on with the stream: what had not ended is void.
    pub(super) fn reconnected(&mut self) {
        self.line.clear();
        self.after_return = false;
        self.at_start = true;
        self.event = Draft::default();
    }

    /// Where the stream goes on: the id of the last event that ended.
    pub(super) const fn last_event_id(&self) -> Option<&HeaderValue> {
        self.last_event_id.as_ref()
    }

    /// How long the server asks to wait before the next connection.
    pub(super) const fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Takes the next bytes. Returns the data of the `message` events that ended in them; one that only sets an id has none.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<Vec<u8>>, TooLarge> {
        let mut ended = Vec::new();
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_return) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
                self.extend_line(bytes)?;
                break;
            };
            self.extend_line(&bytes[..end])?;
            self.after_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            ended.extend(self.end_line()?);
        }
        Ok(ended)
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        if self.line.len() + bytes.len() > self.limit_bytes {
            return Err(TooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<Vec<u8>>, TooLarge> {
        let line = std::mem::take(&mut self.line);
        let mut text = line.as_slice();
        if std::mem::take(&mut self.at_start) {
            text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        }
        let ended = if text.is_empty() {
            self.end_event()
        } else {
            self.field(text)?;
            None
        };
        // The next line may use the memory of this one.
        self.line = line;
        self.line.clear();
        Ok(ended)
    }

    fn field(&mut self, line: &[u8]) -> Result<(), TooLarge> {
        let (name, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[..0]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                let data = &mut self.event.data;
                if data.len() + value.len() > self.limit_bytes {
                    return Err(TooLarge);
                }
                data.extend_from_slice(value);
                data.push(b'\n');
            }
            b"event" => self.event.is_other = !value.is_empty() && value != b"message",
            b"id" if !value.contains(&0) => {
                let id = HeaderValue::from_bytes(value).ok();
                self.event.id = Some(id.filter(|id| !id.is_empty()));
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let millis = str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                self.retry = millis.map(Duration::from_millis).or(self.retry);
            }
            // Comments have no name; fields that nobody knows are left out.
            _ => {}
        }
        Ok(())
    }

    fn end_event(&mut self) -> Option<Vec<u8>> {
        let mut event = std::mem::take(&mut self.event);
        if let Some(id) = event.id {
            self.last_event_id = id;
        }
        // Each line of the data has ended with a line feed.
        event.data.pop();
        (!event.is_other && !event.data.is_empty()).then_some(event.data)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(chunks: &[&[u8]]) -> (Vec<String>, Decoder) {
        let mut decoder = Decoder::new(1024);
        let events = chunks
            .iter()
            .flat_map(|chunk| decoder.push(chunk).unwrap())
            .map(|data| String::from_utf8(data).unwrap())
            .collect();
        (events, decoder)
    }

    #[test]
    fn events_end_with_an_empty_line_of_any_kind() {
        for stream in [
            "data: 1\n\ndata:2\n\n",
            "data: 1\r\n\r\ndata:2\r\n\r\n",
            "data: 1\r\rdata:2\r\r",
        ] {
            assert_eq!(decode(&[stream.as_bytes()]).0, ["1", "2"], "{stream:?}");
        }
        assert_eq!(decode(&[b"data: never ended\n"]).0, [""; 0]);
    }

    #[test]
    fn lines_of_data_are_joined_and_one_space_is_no_data() {
        let stream = b"\xef\xbb\xbf: comment\ndata: {\ndata:  \"a\": 1\ndata\ndata: }\nwhatever: x\n\n";
        assert_eq!(decode(&[stream]).0, ["{\n \"a\": 1\n\n}"]);
    }

    #[test]
    fn only_messages_are_events() {
        let stream = b"event: ping\ndata: 1\n\nevent: message\ndata: 2\n\ndata: 3\n\ndata:\n\n";
        assert_eq!(decode(&[stream]).0, ["2", "3"]);
    }

    #[test]
    fn the_place_moves_when_an_event_ends() {
        let (events, mut decoder) = decode(&[b"id: 1\nretry: 250\ndata:\n\nid: 2\nretry: soon\ndata: half"]);
        assert_eq!(events, [""; 0]);
        assert_eq!(decoder.last_event_id().unwrap(), "1");
        assert_eq!(decoder.retry(), Some(Duration::from_millis(250)));

        decoder.reconnected();
        assert_eq!(decoder.push(b"data: whole\n\n").unwrap(), [b"whole"]);
        assert_eq!(decoder.last_event_id().unwrap(), "1");

        decoder.push(b"id: a\0b\n\n").unwrap();
        assert_eq!(decoder.last_event_id().unwrap(), "1");
        decoder.push(b"id\n\n").unwrap();
        assert_eq!(decoder.last_event_id(), None);
    }

    #[test]
    fn an_event_is_bounded_as_a_line_and_as_a_whole() {
        let mut decoder = Decoder::new(16);
        assert_eq!(decoder.push(b"data: 0123456789ab"), Err(TooLarge));
        let mut decoder = Decoder::new(16);
        assert_eq!(decoder.push(b"data: 12345678\ndata: 12345678\n"), Err(TooLarge));
        let mut decoder = Decoder::new(16);
        for _ in 0..100 {
            assert_eq!(decoder.push(b"data: 12345678\n\n").unwrap().len(), 1);
        }
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(stream in "(data: ?|id: ?|event: ?|message|x|ä|:|\u{feff}|\r|\n|\r\n|\n\n){0,40}", cuts in prop::collection::vec(0_usize..200, 0..8)) {
            let bytes = stream.as_bytes();
            let (whole, one) = decode(&[bytes]);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            let (pieces, other) = decode(&chunks);
            prop_assert_eq!(whole, pieces);
            prop_assert_eq!(one.last_event_id(), other.last_event_id());
        }
    }
}
