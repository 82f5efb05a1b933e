//! Runs a workload and measures it.

use super::{Engine, Longest, Stopwatch, Taken, cpu_time, gone};
use crate::workloads::{Activity, Size, Workload, node_name};
use serde_json::Value;
use std::time::{Duration, Instant};
use supercargo_core::model::event::Event;

/// Number of pods created at once.
const BURST: usize = 1_000;

/// Maximum number of times to advance the clock for pods in backoff.
const PAUSES: usize = 1_000;

/// Measurements of a workload.
pub(crate) struct Measured {
    /// Number of placed pods.
    pub(crate) scheduled: usize,
    pub(crate) taken: Taken,
    /// Durations of decisions, sorted; from a pod's arrival to its decision if the workload has other events.
    pub(crate) laps: Vec<Duration>,
    /// Start and duration of each decision in order, if the engine records them.
    pub(crate) spans: Vec<(Instant, Duration)>,
    /// The longest calls, which delay everything else, if requested.
    pub(crate) longest: Longest,
    /// Hash of all decisions, to compare runs.
    pub(crate) digest: u64,
}

/// Runs the workload at this size.
pub(crate) fn measure(workload: &Workload, size: Size, is_longest_wanted: bool) -> Measured {
    if workload.activity == Activity::Start {
        return start(workload, size);
    }
    let mut engine = Engine::with_cluster(workload, size);
    engine.longest.is_wanted = is_longest_wanted;
    measure_on(engine, workload, size)
}

/// Runs the workload on an engine that has its cluster.
pub(crate) fn measure_on(mut engine: Engine, workload: &Workload, size: Size) -> Measured {
    if size.waiting > 0 {
        let waiting = (0..size.waiting).map(|number| (workload.waiting)(1_000_000 + number, &size));
        let events = waiting.map(|pod| engine.event(pod)).collect();
        engine.run(events);
        engine.forget_times();
        engine.pods.clear();
    }
    let numbers: Vec<usize> = (size.existing..size.existing + size.pods).collect();
    let is_alone = workload.activity.is_timed_from_arrival();
    for burst in numbers.chunks(if is_alone { 1 } else { BURST }) {
        let events = burst.iter().flat_map(|&number| engine.happening(workload, number, &size)).collect();
        engine.run(events);
        match workload.activity {
            Activity::Preempting => engine.until_placed(burst[burst.len() - 1] + 1 - size.existing),
            Activity::Gone => {
                let events = burst.iter().map(|&n| engine.goes((workload.pod)(n, &size))).collect();
                engine.run(events);
            }
            _ => {}
        }
    }
    engine.measured(is_alone)
}

impl Activity {
    /// Reports whether pods are timed from their arrival, because other events happen meanwhile.
    pub(crate) fn is_timed_from_arrival(self) -> bool {
        matches!(self, Self::Storm | Self::Gone | Self::Reports | Self::NodeChurn | Self::Start)
    }
}

impl Engine {
    /// Returns the event that an object is gone.
    pub(crate) fn goes(&mut self, object: Value) -> Event {
        gone(self.scheduler.tables(), object)
    }

    /// Returns the arrival of a pod and the other events at that time.
    fn happening(&mut self, workload: &Workload, number: usize, size: &Size) -> Vec<Event> {
        let arrival = self.event((workload.pod)(number, size));
        let turn = number - size.existing;
        match workload.activity {
            Activity::Replaced => vec![self.goes(workload.running(turn, size)), arrival],
            Activity::Storm => {
                let heartbeats = (0..10).map(|beat| (turn * 10 + beat) % size.nodes);
                let mut events = vec![arrival];
                events.extend(heartbeats.map(|of| self.heartbeat(workload, of, turn, size)));
                events
            }
            Activity::Reports => {
                let reporting = (0..50).map(|report| (turn * 50 + report) % size.existing.max(1));
                let mut events = vec![arrival];
                events.extend(reporting.map(|of| {
                    let mut pod = workload.running(of, size);
                    pod["metadata"]["resourceVersion"] = format!("{}", turn + 2).into();
                    self.event(pod)
                }));
                events
            }
            Activity::NodeChurn if turn.is_multiple_of(20) => {
                let nth = turn / 20;
                let mut moved = (workload.node)(size.nodes / 2 + nth % (size.nodes / 2).max(1), size);
                moved["metadata"]["labels"]["topology.kubernetes.io/zone"] = "zone-9".into();
                let came = self.event((workload.node)(size.nodes + nth, size));
                vec![self.goes((workload.node)(nth, size)), came, self.event(moved), arrival]
            }
            _ => vec![arrival],
        }
    }

    /// Returns a node's status update. Every tenth node also changes a label, which may concern pending pods.
    fn heartbeat(&mut self, workload: &Workload, of: usize, turn: usize, size: &Size) -> Event {
        let mut node = (workload.node)(of, size);
        node["metadata"]["resourceVersion"] = format!("{}", turn + 2).into();
        if of.is_multiple_of(10) {
            node["metadata"]["labels"]["seen"] = format!("{turn}").into();
        }
        debug_assert_eq!(node["metadata"]["name"].as_str(), Some(&*node_name(of)));
        self.event(node)
    }

    /// Advances the clock until this many pods have a node.
    fn until_placed(&mut self, wanted: usize) {
        for _ in 0..PAUSES {
            if self.placed >= wanted || !self.wait() {
                return;
            }
            self.run(Vec::new());
        }
    }

    /// Discards measurements so far.
    pub(crate) fn forget_times(&mut self) {
        self.taken = Taken::default();
        self.stopwatch.laps.clear();
        self.stopwatch.begins.iter_mut().for_each(Vec::clear);
        self.waits.clear();
        self.longest.calls = Default::default();
        self.placed = 0;
    }

    fn measured(self, from_arrival: bool) -> Measured {
        let Stopwatch { laps, begins, .. } = self.stopwatch;
        let spans = begins.into_iter().flatten().zip(laps.iter().copied()).collect();
        let mut laps = if from_arrival { self.waits } else { laps };
        laps.sort_unstable();
        let (taken, longest) = (self.taken, self.longest);
        Measured { scheduled: self.placed, taken, laps, spans, longest, digest: self.digest }
    }
}

/// Times from the first byte of the lists to the first placed pod: decoding, conversion, events and decision.
fn start(workload: &Workload, size: Size) -> Measured {
    let mut engine = Engine::new();
    let objects = workload.cluster(size).chain(workload.pods(size));
    let mut lines = objects.map(|object| object.to_string());
    let mut taken = Duration::ZERO;
    loop {
        let some: Vec<String> = lines.by_ref().take(BURST).collect();
        if some.is_empty() {
            break;
        }
        let (began, cpu_began) = (Instant::now(), cpu_time());
        for line in &some {
            let object = serde_json::from_str(line).expect("it was encoded as JSON");
            let event = engine.event(object);
            engine.scheduler.handle(engine.now, event);
        }
        engine.taken.add(began.elapsed(), cpu_time().saturating_sub(cpu_began), began.elapsed());
        taken += began.elapsed();
    }
    let began = Instant::now();
    engine.end_lists();
    engine.run(Vec::new());
    let first = taken + began.elapsed();
    engine.waits = vec![first];
    engine.measured(true)
}
