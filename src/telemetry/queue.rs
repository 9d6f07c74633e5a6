//! Owns the way of log lines to stderr: a bounded queue, and a thread that writes. A stderr that nobody reads holds up
//! this thread and nobody else; what does not fit into the queue is counted.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait.
const MOST_LINES: usize = 16_384;
/// Bytes that may wait.
const MOST_BYTES: usize = 4 << 20;
/// How long the end of the program waits for lines that wait.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Lines that were dropped since the program began. There is one log in a program.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// How many log lines were dropped because nobody took them.
pub fn dropped_lines() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

enum Item {
    Line(Vec<u8>),
    /// Says when all before it is written.
    Flush(SyncSender<()>),
}

/// The end of the queue that lines go into.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    items: SyncSender<Item>,
    /// The size of the lines that wait.
    bytes: Arc<AtomicUsize>,
    dropped: &'static AtomicU64,
}

impl Queue {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Self> {
        Self::to(io::stderr(), &DROPPED)
    }

    fn to(out: impl io::Write + Send + 'static, dropped: &'static AtomicU64) -> io::Result<Self> {
        let (items, waiting) = sync_channel(MOST_LINES);
        let queue = Self {
            items,
            bytes: Arc::default(),
            dropped,
        };
        let bytes = Arc::clone(&queue.bytes);
        // Nobody waits for its end: it may be held up for ever.
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write_all(out, &waiting, &bytes, dropped))?;
        Ok(queue)
    }

    /// Waits for a while until what waits is written.
    pub(super) fn flush(&self) {
        let (written, done) = sync_channel(1);
        // A queue without room is not about to be written.
        if self.items.try_send(Item::Flush(written)).is_ok() {
            done.recv_timeout(LAST_LINES).ok();
        }
    }

    fn push(&self, line: &[u8]) {
        let waiting = self.bytes.fetch_add(line.len(), Ordering::Relaxed);
        let has_room = waiting.saturating_add(line.len()) <= MOST_BYTES;
        if !has_room || self.items.try_send(Item::Line(line.to_vec())).is_err() {
            self.bytes.fetch_sub(line.len(), Ordering::Relaxed);
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Ends with the last sender.
fn write_all(mut out: impl io::Write, waiting: &Receiver<Item>, bytes: &AtomicUsize, dropped: &AtomicU64) {
    let mut told = 0;
    while let Ok(item) = waiting.recv() {
        match item {
            Item::Line(line) => {
                // A reader that has left takes nothing: there is nobody to tell.
                let _nobody_to_tell = out.write_all(&line);
                bytes.fetch_sub(line.len(), Ordering::Relaxed);
            }
            Item::Flush(written) => {
                let _nobody_to_tell = out.flush();
                // The one that asked may have given up.
                written.try_send(()).ok();
            }
        }
        let now = dropped.load(Ordering::Relaxed);
        if now > told {
            let lines = now - told;
            told = now;
            tracing::warn!(lines, "log lines were dropped, as stderr did not take them");
        }
    }
}

impl<'a> MakeWriter<'a> for Queue {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line {
            queue: self,
            text: Vec::new(),
        }
    }
}

/// One line, which goes into the queue at its end.
#[derive(Debug)]
pub(super) struct Line<'a> {
    queue: &'a Queue,
    text: Vec<u8>,
}

impl io::Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if !self.text.is_empty() {
            self.queue.push(&self.text);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write as _,
        sync::{Mutex, PoisonError, mpsc::channel},
    };

    use super::*;

    static NONE_DROPPED: AtomicU64 = AtomicU64::new(0);
    static SOME_DROPPED: AtomicU64 = AtomicU64::new(0);

    /// Takes nothing before it is told to.
    struct Stuck {
        gate: Option<Receiver<()>>,
        taken: Arc<Mutex<Vec<u8>>>,
    }

    impl io::Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if let Some(gate) = self.gate.take() {
                gate.recv().ok();
            }
            let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            taken.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_arrive_whole_and_in_order() {
        let taken = Arc::default();
        let out = Stuck {
            gate: None,
            taken: Arc::clone(&taken),
        };
        let queue = Queue::to(out, &NONE_DROPPED).unwrap();
        for number in 0..100 {
            let mut line = queue.make_writer();
            write!(line, "line ").unwrap();
            writeln!(line, "{number}").unwrap();
        }
        queue.flush();
        let expected: String = (0..100).map(|number| format!("line {number}\n")).collect();
        assert_eq!(String::from_utf8_lossy(&taken.lock().unwrap()), expected);
        assert_eq!(NONE_DROPPED.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let taken = Arc::default();
        let (open, gate) = channel();
        let out = Stuck {
            gate: Some(gate),
            taken: Arc::clone(&taken),
        };
        let queue = Queue::to(out, &SOME_DROPPED).unwrap();
        let (lines, bytes) = (100, 64 << 10);
        for _ in 0..lines {
            queue.push(&vec![b'x'; bytes]);
        }
        let fit = u64::try_from(MOST_BYTES / bytes).unwrap();
        assert_eq!(SOME_DROPPED.load(Ordering::Relaxed), lines - fit);
        open.send(()).unwrap();
        queue.flush();
        assert_eq!(taken.lock().unwrap().len(), MOST_BYTES);
    }
}
