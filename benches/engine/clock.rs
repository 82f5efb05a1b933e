//! Clocks: how long decisions take on the wall, and how much processor time that is.

use nix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};
use supercargo_core::cycle::Probe;

/// Processor time of this process so far.
pub(super) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("Linux has a clock of processor time");
    Duration::from(time)
}

/// Processor time of this thread so far.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has a clock of a thread's time");
    Duration::from(time)
}

/// What the engine is called for, one call after the other: nothing else is done meanwhile.
#[derive(Clone, Copy)]
pub(super) enum Call {
    Handle,
    Step,
    Tidy,
}

/// How much processor time the longest call of each kind took, so that it is nobody else's time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Longest {
    /// To read the clock costs as much as many a call does, so that is done on request.
    pub(crate) is_wanted: bool,
    /// Of `handle`, `step` and `tidy`.
    pub(crate) calls: [Duration; 3],
}

impl Longest {
    pub(super) fn time<T>(&mut self, call: Call, work: impl FnOnce() -> T) -> T {
        if !self.is_wanted {
            return work();
        }
        let began = thread_time();
        let done = work();
        let longest = &mut self.calls[call as usize];
        *longest = (*longest).max(thread_time().saturating_sub(began));
        done
    }
}

/// Times each attempt from the moment its pod has left the queue until it is counted on its node.
#[derive(Default)]
pub(super) struct Stopwatch {
    began: Option<Instant>,
    /// Of each attempt.
    pub(super) laps: Vec<Duration>,
    /// When each began, for who asked.
    pub(super) begins: Option<Vec<Instant>>,
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
            if let Some(begins) = &mut self.begins {
                begins.push(began);
            }
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
