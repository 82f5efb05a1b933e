//! Clocks for decisions: wall time and CPU time.

use nix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};
use supercargo_core::cycle::Probe;

/// Returns the CPU time of this process.
pub(super) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("Linux has a clock of CPU time");
    Duration::from(time)
}

/// Returns the CPU time of this thread.
pub(super) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has a clock of a thread's time");
    Duration::from(time)
}

/// Kinds of calls to the engine, which run one at a time.
#[derive(Clone, Copy)]
pub(super) enum Call {
    Handle,
    Step,
    Tidy,
}

/// Longest CPU time of a call per kind; CPU time excludes preemption by other processes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Longest {
    /// Off unless requested, because reading the clock costs as much as many a call.
    pub(crate) is_wanted: bool,
    /// Longest times of `handle`, `step` and `tidy`.
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

/// Times each attempt from the pod's removal from the queue until it is assumed on its node.
#[derive(Default)]
pub(super) struct Stopwatch {
    began: Option<Instant>,
    /// Durations of all attempts.
    pub(super) laps: Vec<Duration>,
    /// Start times of the attempts, if requested.
    pub(super) begins: Option<Vec<Instant>>,
    /// Sum of durations since the last `take_decided`.
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

/// Total times.
///
/// Reading the CPU clock costs as much as a fast decision, so it is read around many decisions. Their share of CPU
/// time is taken from their share of wall time. A pause of the machine affects each part in proportion to its length,
/// so the share is right on average however busy the machine is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// CPU time of everything: adding events, the queue, decisions, bindings and their confirmation.
    pub(crate) cpu: Duration,
    /// The part of it for deciding and assuming pods.
    pub(crate) cpu_decided: Duration,
    /// Wall time of that part.
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
