//! Line counters of the decision log and the input recording. All series exist from the start.

use crate::telemetry::metrics::{Metrics, families};
use prometheus::{IntCounter, IntCounterVec, Registry};

/// The file that a line belongs to (label `record`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The decision log (`--decision-log`).
    Decisions,
    /// The recording of the engine's inputs (`--record-to`).
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

    /// Counts a written line.
    pub fn written(&self) {
        self.written.inc();
    }

    /// Counts a line dropped because too many were queued.
    pub fn dropped(&self) {
        self.dropped.inc();
    }

    /// Counts a line that could not be written. Nothing more is written to the file after that.
    pub fn failed(&self) {
        self.failed.inc();
    }
}

/// The series of both files.
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
    /// Returns the line counters of one file.
    pub fn record_lines(&self, record: Record) -> RecordLines {
        RecordLines::new(&self.records.0, record)
    }
}
