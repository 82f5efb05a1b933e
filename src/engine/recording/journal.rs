//! Receives what happens on the scheduling thread: decisions for the ring buffer and the log, inputs for the
//! recording.

use crate::engine::recording::sink::Line;
use crate::engine::recording::{Ring, Sink};
use crate::engine::{Input, InputRecorder};
use std::sync::Arc;
use supercargo_core::model::time::Time;
use supercargo_core::report::Report;
use supercargo_whatif::recording::decision::Decision;
use supercargo_whatif::recording::input::OtherInput as Written;

/// Maximum number of steps in a line.
const STEPS_MAX: usize = 256;

/// Passes inputs and decisions to the enabled outputs.
#[derive(Debug, Default)]
pub struct Journal {
    inputs: u64,
    ring: Option<Arc<Ring>>,
    log: Option<Sink>,
    recording: Option<Recording>,
}

/// A recording in progress.
#[derive(Debug)]
struct Recording {
    sink: Sink,
    began: Time,
    /// Whether steps and decisions are recorded, not only inputs.
    has_steps: bool,
    steps: Vec<u64>,
    /// Decisions of these steps.
    came: Vec<Arc<Decision>>,
}

impl Journal {
    /// Adds a ring buffer for decisions.
    #[must_use]
    pub fn with_ring(mut self, ring: Arc<Ring>) -> Self {
        self.ring = Some(ring);
        self
    }

    /// Adds a decision log.
    #[must_use]
    pub fn with_log(mut self, sink: Sink) -> Self {
        self.log = Some(sink);
        self
    }

    /// Adds a recording. Times are relative to `began`, when the engine was created.
    #[must_use]
    pub fn with_recording(mut self, sink: Sink, began: Time) -> Self {
        self.recording =
            Some(Recording { sink, began, has_steps: true, steps: Vec::new(), came: Vec::new() });
        self
    }

    /// Adds a recording of inputs only, for an engine that makes no decisions.
    #[must_use]
    pub fn with_input(mut self, sink: Sink, began: Time) -> Self {
        self.recording =
            Some(Recording { sink, began, has_steps: false, steps: Vec::new(), came: Vec::new() });
        self
    }

    /// Returns whether no output is enabled.
    pub fn is_idle(&self) -> bool {
        self.ring.is_none() && self.log.is_none() && self.recording.is_none()
    }
}

impl InputRecorder for Journal {
    fn wants_text(&self) -> bool {
        self.recording.is_some()
    }

    fn received(&mut self, at: Time, what: Input<'_>) {
        self.inputs += 1;
        let Some(recording) = &mut self.recording else { return };
        let text = match what {
            Input::Written(text) => text,
            Input::Event(event) => Written::of(event).map(|input| {
                let json = serde_json::to_string(&input).expect("texts and numbers are JSON");
                format!("\"told\":{json}").into()
            }),
        };
        recording.flush();
        match text {
            Some(text) => recording.hand(Line::Input(recording.nanos(at), text)),
            // An input without a text cannot be replayed, so the recording must end.
            None => recording.sink.overrun(),
        }
    }

    fn stepped(&mut self, at: Time, is_idle: bool) {
        let Some(recording) = self.recording.as_mut().filter(|it| it.has_steps) else { return };
        // All decisions of these steps have been reported by now.
        if recording.steps.len() >= STEPS_MAX {
            recording.flush();
        }
        recording.steps.push(recording.nanos(at));
        if is_idle {
            recording.flush();
        }
    }

    fn reported(&mut self, report: Box<Report>) {
        let decision = Arc::new(Decision { report, input: self.inputs });
        if let Some(recording) = &mut self.recording {
            recording.came.push(Arc::clone(&decision));
        }
        if !decision.is_of_its_own() {
            return;
        }
        if let Some(log) = &self.log {
            log.hand(Line::Logged(Arc::clone(&decision)));
        }
        if let Some(ring) = &self.ring {
            ring.enter(decision);
        }
    }
}

impl Recording {
    fn nanos(&self, at: Time) -> u64 {
        at.as_nanos().saturating_sub(self.began.as_nanos())
    }

    /// Writes steps, then their decisions, so that both precede the next input.
    fn flush(&mut self) {
        if !self.steps.is_empty() {
            let steps = std::mem::take(&mut self.steps);
            self.hand(Line::Steps(steps));
        }
        for decision in std::mem::take(&mut self.came) {
            self.hand(Line::Came(decision));
        }
    }

    fn hand(&self, line: Line) {
        if self.sink.is_open() && !self.sink.hand(line) {
            self.sink.overrun();
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.flush();
    }
}
