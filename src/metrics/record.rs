//! What becomes of lines that are kept of decisions and of what the engine is told; all series are there from the start.

use super::{Metrics, families};
use prometheus::{IntCounter, IntCounterVec, Registry};

/// What is kept (label `record`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The log of decisions.
    Decisions,
    /// The recording of all that the engine is told.
    Input,
}

impl Record {
    const ALL: [Self; 2] = [Self::Decisions, Self::Input];

    fn as_str(self) -> &'static str {
        match self {
            Self::Decisions => "decisions",
            Self::Input => "input",
        }
    }
}

/// Counts the lines of one file. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RecordLines {
    written: IntCounter,
    dropped: IntCounter,
    failed: IntCounter,
}

impl RecordLines {
    fn new(lines: &IntCounterVec, record: Record) -> Self {
        let of = |result| lines.with_label_values(&[record.as_str(), result]);
        Self { written: of("written"), dropped: of("dropped"), failed: of("failed") }
    }

    /// A line was written.
    pub fn written(&self) {
        self.written.inc();
    }

    /// One was lost, since too many waited.
    pub fn dropped(&self) {
        self.dropped.inc();
    }

    /// One could not be written, and nothing is from then on.
    pub fn failed(&self) {
        self.failed.inc();
    }
}

/// The series of all files.
#[derive(Debug)]
pub(super) struct RecordMetrics(IntCounterVec);

impl RecordMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let lines = families::RECORD_LINES.counter_vec(registry);
        for record in Record::ALL {
            RecordLines::new(&lines, record);
        }
        Self(lines)
    }
}

impl Metrics {
    /// Where the lines of a file are counted.
    pub fn record_lines(&self, record: Record) -> RecordLines {
        RecordLines::new(&self.records.0, record)
    }
}
