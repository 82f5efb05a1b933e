//! Clocks: how long decisions take on the wall, and how much processor time that is.

use nix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};
use supercargo_core::cycle::Probe;

/// Processor time of this process so far.
pub(super) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("Linux has a clock of processor time");
    Duration::from(time)
}

/// Times each attempt from the moment its pod has left the queue until it is counted on its node.
#[derive(Default)]
pub(super) struct Stopwatch {
    began: Option<Instant>,
    /// Of each attempt.
    pub(super) laps: Vec<Duration>,
    /// When each began.
    pub(super) begins: Vec<Instant>,
    /// Of those since it was last asked.
    decided: Duration,
}

impl Stopwatch {
    pub(super) fn take_decided(&mut self) -> Duration {
        std::mem::take(&mut self.decided)
    }
}

impl Probe for Stopwatch {
    fn attempt_begins(&mut self) {
        self.began = Some(Instant::now());
    }

    fn attempt_decided(&mut self) {
        if let Some(began) = self.began.take() {
            let lap = began.elapsed();
            self.laps.push(lap);
            self.begins.push(began);
            self.decided += lap;
        }
    }
}

/// What it took.
///
/// The clock of processor time costs as much as a fast decision, so it is read around many; of it, decisions get the share
/// that they have on the wall. A pause of the machine falls on either part as often as that part is long, so the share is
/// right in the mean however busy the machine is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// Processor time of all that was done: taking events in, the queue, decisions, bindings and their confirmation.
    pub(crate) cpu: Duration,
    /// The part of it in which pods were decided about and counted on their nodes.
    pub(crate) cpu_decided: Duration,
    /// Time on the wall of that part.
    pub(crate) decided: Duration,
}

impl Taken {
    pub(super) fn add(&mut self, wall: Duration, cpu: Duration, decided: Duration) {
        let share = decided.as_secs_f64() / wall.as_secs_f64().max(1e-9);
        self.cpu += cpu;
        self.cpu_decided += cpu.mul_f64(share.min(1.0));
        self.decided += decided;
    }
}
