//! Owns the taking apart of a byte stream into frames.

use std::io;

use super::HEADER_BYTES;

/// The buffer for small frames.
const BUFFER_BYTES: usize = 16 << 10;

/// A frame that cannot be understood. The connection has no use after it.
#[derive(Debug, thiserror::Error)]
pub(in crate::keeper) enum FrameError {
    #[error("frame of {bytes} bytes is longer than {limit}")]
    TooLong { bytes: usize, limit: usize },
    #[error("frame with tag {tag} is malformed")]
    Malformed { tag: u8 },
}

/// One frame as it came.
pub(in crate::keeper) struct Frame {
    pub(super) tag: u8,
    pub(super) payload: Vec<u8>,
}

/// Takes frames out of a byte stream. Small frames share one buffer; a large one is read straight into its own.
pub(in crate::keeper) struct FrameReader {
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
    pub(in crate::keeper) fn new(limit: usize) -> Self {
        Self {
            limit,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            large: None,
        }
    }

    /// Changes the limit for the frames that come.
    pub(in crate::keeper) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Lets `read` fill the place where the next bytes belong; gives what it gave. Call [`Self::next`] until it gives `None`
    /// before reading again.
    pub(in crate::keeper) fn read_with(
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
    pub(in crate::keeper) fn next(&mut self) -> Result<Option<Frame>, FrameError> {
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
}
