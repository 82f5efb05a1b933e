//! A file that a dedicated thread writes. Senders never wait: if too many bytes are pending, a line is
//! rejected.
//!
//! The file contains data of the whole cluster, so only its owner may read it (mode 0600).

use crate::telemetry::metrics::RecordLines;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::JoinHandle;
use supercargo_whatif::recording::decision::Decision;
use supercargo_whatif::recording::replay::STOPPED;

/// Maximum number of pending bytes: a few seconds of the first lists of a large cluster.
const WAITING_MAX: usize = 64 << 20;

/// Behavior when the file has reached its maximum size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Stop, with a last line that says so. A recording is useless after a gap.
    Ends,
    /// Rename the file to `FILE.1`, replacing an older one, and start a new one.
    Rotates,
}

/// Options of a file.
#[derive(Clone, Debug)]
pub struct SinkOptions {
    /// Path of the file.
    pub path: PathBuf,
    /// Maximum size in bytes.
    pub bytes_max: u64,
    /// Behavior at the maximum size.
    pub when_full: WhenFull,
    /// First line.
    pub header: Option<String>,
}

/// A line to be written.
#[derive(Debug)]
pub(super) enum Line {
    /// An input: nanoseconds since the start, and a member of a JSON object.
    Input(u64, Box<str>),
    /// Times of steps of the engine.
    Steps(Vec<u64>),
    /// A decision in a recording.
    Came(Arc<Decision>),
    /// A decision in the decision log.
    Logged(Arc<Decision>),
}

impl Line {
    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Input(_, text) => text.len(),
                Self::Steps(times) => times.len() * size_of::<u64>(),
                Self::Came(decision) | Self::Logged(decision) => decision.bytes(),
            }
    }

    fn write(&self, to: &mut String) {
        use std::fmt::Write as _;
        to.clear();
        // Writing to a String cannot fail.
        let _ = match self {
            Self::Input(at, text) => writeln!(to, "{{\"at\":{at},{text}}}"),
            Self::Steps(times) => {
                let first = times.first().copied().unwrap_or_default();
                let after: Vec<u64> = times.iter().map(|time| time.saturating_sub(first)).collect();
                let after = serde_json::to_string(&after).expect("numbers are JSON");
                writeln!(to, "{{\"at\":{first},\"steps\":{after}}}")
            }
            Self::Came(decision) => writeln!(to, "{{\"decided\":{}}}", decision.to_json()),
            Self::Logged(decision) => writeln!(to, "{}", decision.to_json()),
        };
    }
}

/// State that the sender and the writer share.
#[derive(Debug)]
struct Shared {
    waiting: AtomicUsize,
    is_open: AtomicBool,
    is_overrun: AtomicBool,
    metrics: RecordLines,
}

/// The sending end. Dropping it closes the file.
#[derive(Debug)]
pub struct Sink {
    sender: Sender<Line>,
    shared: Arc<Shared>,
    waiting_max: usize,
}

impl Sink {
    /// Opens the file and starts the writer thread. Join the thread after dropping the sink.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn open(options: SinkOptions, metrics: RecordLines) -> io::Result<(Self, JoinHandle<()>)> {
        let (sender, lines) = mpsc::channel();
        let shared = Arc::new(Shared {
            waiting: AtomicUsize::new(0),
            is_open: AtomicBool::new(true),
            is_overrun: AtomicBool::new(false),
            metrics,
        });
        let writer = Writer::open(options, Arc::clone(&shared))?;
        let thread = std::thread::Builder::new().name("records".to_owned());
        let thread = thread.spawn(move || writer.run(&lines))?;
        Ok((Self { sender, shared, waiting_max: WAITING_MAX }, thread))
    }

    /// Returns a handle to observe the state.
    pub fn state(&self) -> SinkState {
        SinkState(Arc::clone(&self.shared))
    }

    #[cfg(test)]
    pub(super) fn with_room(mut self, waiting_max: usize) -> Self {
        self.waiting_max = waiting_max;
        self
    }

    /// Sends a line. Returns whether it was accepted.
    pub(super) fn hand(&self, line: Line) -> bool {
        if !self.is_open() {
            return false;
        }
        let bytes = line.bytes();
        if self.shared.waiting.fetch_add(bytes, Ordering::Relaxed) + bytes > self.waiting_max {
            self.shared.waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.shared.metrics.dropped();
            return false;
        }
        // If the writer has ended, `is_open` is false from the next line on.
        let _ = self.sender.send(line);
        true
    }

    /// Closes the file after a rejected line, since later lines are useless without it.
    pub(super) fn overrun(&self) {
        self.shared.is_overrun.store(true, Ordering::Relaxed);
        self.shared.is_open.store(false, Ordering::Relaxed);
    }

    /// Returns whether lines are accepted.
    pub(super) fn is_open(&self) -> bool {
        self.shared.is_open.load(Ordering::Relaxed)
    }
}

/// A handle to observe whether a file accepts lines.
#[derive(Clone, Debug)]
pub struct SinkState(Arc<Shared>);

impl SinkState {
    /// Returns whether lines are accepted.
    pub fn is_open(&self) -> bool {
        self.0.is_open.load(Ordering::Relaxed)
    }
}

struct Writer {
    options: SinkOptions,
    file: BufWriter<File>,
    written: u64,
    shared: Arc<Shared>,
}

impl Writer {
    fn open(options: SinkOptions, shared: Arc<Shared>) -> io::Result<Self> {
        let is_there = || fs::symlink_metadata(&options.path).is_ok_and(|it| it.is_file() && it.len() > 0);
        if options.when_full == WhenFull::Ends && is_there() {
            // Keep the file of the previous process: after a crash it is needed for analysis.
            fs::rename(&options.path, aside(&options.path))?;
        }
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&options.path)?;
        let written = file.metadata()?.len();
        let mut writer = Self { file: BufWriter::new(file), written, options, shared };
        if let Some(header) = writer.options.header.take() {
            writer.file.write_all(header.as_bytes())?;
            writer.written += header.len() as u64;
            writer.file.flush()?;
        }
        Ok(writer)
    }

    fn run(mut self, lines: &Receiver<Line>) {
        let outcome = self.write_all(lines);
        let was_open = self.shared.is_open.swap(false, Ordering::Relaxed);
        let path = self.options.path.display().to_string();
        match outcome {
            Ok(None) if was_open || self.options.when_full == WhenFull::Rotates => self.end(STOPPED),
            Ok(None) => {
                tracing::warn!(path, "recording stopped: the disk is too slow");
                self.end("overrun");
            }
            Ok(Some(())) => {
                tracing::warn!(
                    path,
                    bytes = self.written,
                    "recording stopped: the file has reached its maximum size"
                );
                self.end("full");
            }
            Err(error) => {
                self.shared.metrics.failed();
                tracing::error!(path, %error, "writing to the file failed; no more lines are written");
            }
        }
        // Receive and drop the remaining lines; senders see that the file is closed.
        while lines.recv().is_ok() {}
    }

    /// Writes lines until all senders are gone (`None`) or the file is full (`Some`).
    fn write_all(&mut self, lines: &Receiver<Line>) -> io::Result<Option<()>> {
        let mut text = String::new();
        loop {
            let line = match lines.try_recv() {
                Ok(line) => line,
                Err(TryRecvError::Disconnected) => return Ok(None),
                Err(TryRecvError::Empty) => {
                    if self.shared.is_overrun.load(Ordering::Relaxed) {
                        return Ok(None);
                    }
                    self.file.flush()?;
                    match lines.recv() {
                        Ok(line) => line,
                        Err(_) => return Ok(None),
                    }
                }
            };
            line.write(&mut text);
            if self.written + text.len() as u64 > self.options.bytes_max {
                match self.options.when_full {
                    WhenFull::Ends => return Ok(Some(())),
                    WhenFull::Rotates => self.rotate()?,
                }
            }
            self.file.write_all(text.as_bytes())?;
            self.written += text.len() as u64;
            self.shared.metrics.written();
            self.shared.waiting.fetch_sub(line.bytes(), Ordering::Relaxed);
        }
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file.flush()?;
        fs::rename(&self.options.path, aside(&self.options.path))?;
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.options.path)?;
        (self.file, self.written) = (BufWriter::new(file), 0);
        Ok(())
    }

    fn end(&mut self, because: &str) {
        let last = match self.options.when_full {
            WhenFull::Ends => self.file.write_all(format!("{{\"ends\":\"{because}\"}}\n").as_bytes()),
            WhenFull::Rotates => Ok(()),
        };
        if let Err(error) = last.and_then(|()| self.file.flush()) {
            self.shared.metrics.failed();
            tracing::error!(path = %self.options.path.display(), %error, "cannot write the last line");
        }
    }
}

/// Returns the name that a replaced file gets.
fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}
