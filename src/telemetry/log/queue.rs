//! The bounded queue between log calls and stderr, drained by a thread of its own.
//!
//! Logging never blocks and never fails. Lines that find no room or cannot be written are dropped and counted, and
//! the log reports the loss once writing works again.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// Capacity of the queue in bytes: ten seconds of 200-byte lines at 2,000 decisions a second. A line is accepted
/// while less than this is queued, so a single long line, such as a cache dump, always fits.
const WAITING_MAX: usize = 4 * 1024 * 1024;

/// Delay before a write that would block is retried. Happens only if another process made stderr non-blocking.
const BLOCKED_PAUSE: Duration = Duration::from_millis(20);

/// The queue of log lines. Cheap to clone.
#[derive(Clone)]
pub struct LogLines(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    waiting_max: usize,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    /// Total bytes of `lines`.
    bytes: usize,
    /// Whether the writer holds a line that is neither written nor dropped.
    is_writing: bool,
    /// Lines dropped since the process started.
    lost: u64,
    /// How many of these the log has reported.
    reported: u64,
    /// The last write error, or empty if lines were dropped only for lack of room.
    error: String,
    /// The writer thread. Its own lines, which report losses, are always accepted; there is one at a time.
    writer: Option<ThreadId>,
}

impl std::fmt::Debug for LogLines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LogLines(..)")
    }
}

/// A loss to be reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    /// Lines dropped since the last report.
    pub(super) lines: u64,
    /// The last write error, or empty if there was no room.
    pub(super) error: String,
}

impl LogLines {
    /// Starts the thread that writes lines to `to`. After a loss, once writing works again, it calls `report`, which
    /// may log.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(super) fn start(
        to: impl Write + Send + 'static,
        report: impl Fn(Loss) + Send + 'static,
    ) -> io::Result<Self> {
        Self::with_room(WAITING_MAX, to, report)
    }

    fn with_room(
        waiting_max: usize,
        to: impl Write + Send + 'static,
        report: impl Fn(Loss) + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Shared { state: Mutex::default(), changed: Condvar::new(), waiting_max };
        let lines = Self(Arc::new(shared));
        let ours = lines.clone();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || ours.write_all_to(to, &report))?;
        Ok(lines)
    }

    /// Queues a line, or drops it if the queue is full. Blocks only for the short time another thread holds the lock.
    pub(super) fn push(&self, line: Vec<u8>) {
        let mut state = self.lock();
        if state.bytes >= self.0.waiting_max && state.writer != Some(std::thread::current().id()) {
            state.lost += 1;
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line);
        drop(state);
        self.0.changed.notify_all();
    }

    /// Returns the number of lines dropped since the process started.
    pub fn lost(&self) -> u64 {
        self.lock().lost
    }

    /// Waits up to `within` until all queued lines are written or dropped. Returns whether they are.
    pub fn flush(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        let mut state = self.lock();
        while state.is_writing || !state.lines.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.0.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the writer thread for the life of the process.
    fn write_all_to(&self, mut to: impl Write, report: &impl Fn(Loss)) {
        self.lock().writer = Some(std::thread::current().id());
        // Whether the last line was only partly written. The next line then starts with a line break.
        let mut is_torn = false;
        loop {
            let line = self.next();
            let torn = if is_torn { write(&mut to, b"\n") } else { Ok(()) };
            let outcome = match torn {
                Ok(()) => write(&mut to, &line),
                Err((_, error)) => Err((true, error)),
            };
            is_torn = matches!(outcome, Err((true, _)));
            if let Some(loss) = self.done(outcome.map_err(|(_, error)| error)) {
                report(loss);
            }
        }
    }

    fn next(&self) -> Vec<u8> {
        let mut state = self.lock();
        state.is_writing = false;
        loop {
            if let Some(line) = state.lines.pop_front() {
                state.bytes -= line.len();
                state.is_writing = true;
                return line;
            }
            self.0.changed.notify_all();
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Records the outcome of a write, and returns a loss to report now. While the queue is more than half full, more
    /// lines may be lost, so the report waits until the queue has drained.
    fn done(&self, outcome: io::Result<()>) -> Option<Loss> {
        let mut state = self.lock();
        match outcome {
            Ok(()) if state.lost > state.reported && state.bytes <= self.0.waiting_max / 2 => {
                let lines = state.lost - state.reported;
                state.reported = state.lost;
                Some(Loss { lines, error: std::mem::take(&mut state.error) })
            }
            Ok(()) => None,
            Err(error) => {
                state.lost += 1;
                state.error = error.to_string();
                None
            }
        }
    }
}

/// Writes all bytes. An error says whether some were written.
fn write(to: &mut impl Write, mut bytes: &[u8]) -> Result<(), (bool, io::Error)> {
    let all = bytes.len();
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err((bytes.len() < all, io::ErrorKind::WriteZero.into())),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(BLOCKED_PAUSE),
            Err(error) => return Err((bytes.len() < all, error)),
        }
    }
    Ok(())
}

/// Each write call holds one log entry.
impl Write for LogLines {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        self.push(entry.to_vec());
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Timeout against a hanging test; no duration is measured with it.
    const HANG: Duration = Duration::from_secs(30);

    /// A stand-in for stderr whose writes the test answers one by one.
    struct Stderr {
        calls: Sender<Vec<u8>>,
        answers: Receiver<io::Result<usize>>,
    }

    impl Write for Stderr {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // After the test has ended, writes succeed at once.
            if self.calls.send(bytes.to_vec()).is_err() {
                return Ok(bytes.len());
            }
            self.answers.recv().unwrap_or(Ok(bytes.len()))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Reader {
        calls: Receiver<Vec<u8>>,
        answers: Sender<io::Result<usize>>,
        losses: Receiver<Loss>,
    }

    impl Reader {
        /// Accepts the next write and returns its bytes. `take` is the number of bytes written, or a negative error
        /// code.
        fn call(&self, take: i32) -> String {
            let bytes = self.calls.recv_timeout(HANG).unwrap();
            let answer = usize::try_from(take).map_err(|_| io::Error::from_raw_os_error(-take));
            self.answers.send(answer.map(|most| most.min(bytes.len()))).unwrap();
            String::from_utf8(bytes).unwrap()
        }
    }

    const ALL: i32 = i32::MAX;
    const NO_SPACE: i32 = -28;
    const BLOCKS: i32 = -11;

    fn start(waiting_max: usize) -> (LogLines, Reader) {
        let ((call, calls), (answer, answers), (sender, losses)) = (channel(), channel(), channel());
        let stderr = Stderr { calls: call, answers };
        let lines = LogLines::with_room(waiting_max, stderr, move |loss| drop(sender.send(loss))).unwrap();
        (lines, Reader { calls, answers: answer, losses })
    }

    fn push(lines: &LogLines, text: &str) {
        lines.push(text.as_bytes().to_vec());
    }

    #[test]
    fn blocked_stderr_never_blocks_logging_and_loss_is_reported_later() {
        let (lines, reader) = start(100);
        push(&lines, "first\n");
        let first = reader.calls.recv_timeout(HANG).unwrap();
        assert_eq!(first, b"first\n", "the writer is blocked in this write");
        for at in 0..1000 {
            push(&lines, &format!("{at:09}\n"));
        }
        assert_eq!(lines.lost(), 990, "100 bytes have room");
        assert!(!lines.flush(Duration::ZERO), "a flush ends at its deadline");

        reader.answers.send(Ok(first.len())).unwrap();
        for at in 0..10 {
            assert_eq!(reader.call(ALL), format!("{at:09}\n"));
        }
        let loss = reader.losses.recv_timeout(HANG).unwrap();
        assert_eq!(loss, Loss { lines: 990, error: String::new() });
        assert!(lines.flush(HANG));
        assert!(reader.losses.try_recv().is_err(), "one report of one loss");
    }

    #[test]
    fn unwritable_line_is_counted_and_later_lines_are_tried() {
        let (lines, reader) = start(100);
        for text in ["a\n", "b\n", "c\n", "d\n"] {
            push(&lines, text);
        }
        assert_eq!(reader.call(NO_SPACE), "a\n");
        assert_eq!(reader.call(NO_SPACE), "b\n");
        assert_eq!(reader.call(ALL), "c\n");
        let loss = reader.losses.recv_timeout(HANG).unwrap();
        assert_eq!(loss, Loss { lines: 2, error: io::Error::from_raw_os_error(28).to_string() });
        assert_eq!(reader.call(ALL), "d\n");
        assert!(lines.flush(HANG));
        assert_eq!(lines.lost(), 2);
    }

    #[test]
    fn line_after_a_partial_write_starts_on_a_new_line() {
        let (lines, reader) = start(100);
        push(&lines, "half\n");
        push(&lines, "lost\n");
        push(&lines, "whole\n");
        assert_eq!(reader.call(2), "half\n");
        assert_eq!(reader.call(NO_SPACE), "lf\n");
        assert_eq!(reader.call(NO_SPACE), "\n", "the line break of the unfinished line");
        assert_eq!(reader.call(ALL), "\n");
        assert_eq!(reader.call(ALL), "whole\n");
        assert_eq!(reader.losses.recv_timeout(HANG).unwrap().lines, 2);
    }

    #[test]
    fn write_that_would_block_is_retried_without_loss() {
        let (lines, reader) = start(100);
        push(&lines, "a\n");
        assert_eq!(reader.call(BLOCKS), "a\n");
        assert_eq!(reader.call(ALL), "a\n");
        assert!(lines.flush(HANG));
        assert_eq!(lines.lost(), 0);
    }

    #[test]
    fn line_longer_than_the_queue_is_written_if_queue_is_empty() {
        let (lines, reader) = start(10);
        let long = "x".repeat(1000);
        push(&lines, &long);
        assert_eq!(reader.call(ALL), long);
        assert!(lines.flush(HANG));
        assert_eq!(lines.lost(), 0);
    }

    #[test]
    fn loss_report_is_accepted_by_a_full_queue() {
        let lines = LogLines(Arc::new(Shared {
            state: Mutex::new(State {
                bytes: 10,
                writer: Some(std::thread::current().id()),
                ..State::default()
            }),
            changed: Condvar::new(),
            waiting_max: 10,
        }));
        push(&lines, "report\n");
        assert_eq!(lines.lost(), 0);
        let other = lines.clone();
        std::thread::spawn(move || push(&other, "line\n")).join().unwrap();
        assert_eq!(lines.lost(), 1);
    }
}
