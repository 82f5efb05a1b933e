//! A file that lines are written to by a thread of its own. Who hands lines over never waits: where too many bytes wait, it is told so.
//!
//! What is in the file is everybody's cluster: it may be read by its owner alone.

use super::Decision;
use super::replay::STOPPED;
use crate::metrics::RecordLines;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::JoinHandle;

/// Bytes that may wait to be written: some seconds of the first lists of a large cluster.
const WAITING_MAX: usize = 64 << 20;

/// What a file that has reached its size does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It ends, and says so: what comes later means nothing without what came before.
    Ends,
    /// It becomes `FILE.1`, whose place it takes, and begins anew.
    Rotates,
}

/// Where lines go, and how many.
#[derive(Clone, Debug)]
pub struct SinkOptions {
    /// The file.
    pub path: PathBuf,
    /// The bytes it may have.
    pub bytes_max: u64,
    /// And then?
    pub when_full: WhenFull,
    /// Its first line.
    pub header: Option<String>,
}

/// A line to be.
#[derive(Debug)]
pub(super) enum Line {
    /// Something the engine was told, so many nanoseconds after the beginning, as a member of an object.
    Told(u64, Box<str>),
    /// Times at which the engine did a piece of work.
    Steps(Vec<u64>),
    /// What came of it, in a recording.
    Came(Arc<Decision>),
    /// The same in a log, where it stands alone.
    Logged(Arc<Decision>),
}

impl Line {
    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Told(_, text) => text.len(),
                Self::Steps(times) => times.len() * size_of::<u64>(),
                Self::Came(decision) | Self::Logged(decision) => decision.bytes(),
            }
    }

    fn write(&self, to: &mut String) {
        use std::fmt::Write as _;
        to.clear();
        // Writing to a text cannot fail.
        let _ = match self {
            Self::Told(at, text) => writeln!(to, "{{\"at\":{at},{text}}}"),
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

/// What the one who hands over and the one who writes share.
#[derive(Debug)]
struct Shared {
    waiting: AtomicUsize,
    is_open: AtomicBool,
    is_overrun: AtomicBool,
    metrics: RecordLines,
}

/// The handing end. Its file ends when it is dropped.
#[derive(Debug)]
pub struct Sink {
    sender: Sender<Line>,
    shared: Arc<Shared>,
    waiting_max: usize,
}

impl Sink {
    /// Opens the file and starts its thread, which is to be joined once the sink is dropped.
    ///
    /// # Errors
    /// When the file cannot be written.
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

    /// What can be asked when the sink is somebody else's.
    pub fn state(&self) -> SinkState {
        SinkState(Arc::clone(&self.shared))
    }

    #[cfg(test)]
    pub(super) fn with_room(mut self, waiting_max: usize) -> Self {
        self.waiting_max = waiting_max;
        self
    }

    /// Hands a line over; whether there was room for it.
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
        // Without a writer the file is closed, which the next line finds.
        let _ = self.sender.send(line);
        true
    }

    /// There was no room for a line the rest makes no sense without: nothing more is taken.
    pub(super) fn overrun(&self) {
        self.shared.is_overrun.store(true, Ordering::Relaxed);
        self.shared.is_open.store(false, Ordering::Relaxed);
    }

    /// Whether lines are taken.
    pub(super) fn is_open(&self) -> bool {
        self.shared.is_open.load(Ordering::Relaxed)
    }
}

/// Whether a file still takes lines.
#[derive(Clone, Debug)]
pub struct SinkState(Arc<Shared>);

impl SinkState {
    /// Whether it does.
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
            // What a process that ended left behind is worth the most now.
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
                tracing::warn!(path, "the recording ends: the disk did not keep up");
                self.end("overrun");
            }
            Ok(Some(())) => {
                tracing::warn!(
                    path,
                    bytes = self.written,
                    "the recording ends: the file has reached its size"
                );
                self.end("full");
            }
            Err(error) => {
                self.shared.metrics.failed();
                tracing::error!(path, %error, "cannot write; nothing more is kept there");
            }
        }
        // Whoever still hands lines over is told by `is_open`.
        while lines.recv().is_ok() {}
    }

    /// Writes until there is nobody left who could send, or the file is full, which is told.
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
            tracing::error!(path = %self.options.path.display(), %error, "cannot write the end");
        }
    }
}

/// Where a file goes whose place is taken.
fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}
