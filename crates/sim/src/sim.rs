//! The main loop of the simulation: one thread, virtual time, one seed. Each step performs the next due action
//! and then runs the scheduler until it is idle.

use crate::Stopwatch;
use crate::agenda::{Agenda, Due, Request};
use crate::check::{Broken, CACHED_EQUALS_FULL, broken};
use crate::draw::Draw;
use crate::extenders;
use crate::fault_rates::{CALM, FaultRates, draw_delay};
use crate::groups::has_groups;
use crate::log::Log;
use crate::process::Process;
use crate::server::Server;
use crate::watch::Watches;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Arguments;
use std::time::Duration;
use supercargo_core::cycle::NoProbe;
use supercargo_core::model::effect::Lane;
use supercargo_core::model::event::{Event, Kind};
use supercargo_core::model::time::Time;
use supercargo_core::report::{Notice, Outcome};
use supercargo_core::scheduler::Step;

/// The time after the last fault until the cluster must have settled: the engine's wait for a lost binding, the
/// longest backoff, and a margin.
pub(crate) const SETTLING: Duration = Duration::from_secs(240);
/// The additional time for pods that only the five-minute flush retries, with a margin.
const FLUSHED: Duration = Duration::from_secs(360);
/// The time after which the scheduler must know that the cluster is empty.
const EMPTYING: Duration = Duration::from_secs(30);
/// The maximum number of engine steps after one action. `IDLE_WAKES_MAX` limits the wake-ups without work
/// within one second.
const STEPS_MAX: u32 = 20_000;
const IDLE_WAKES_MAX: u32 = 5;
/// One in this many idle points is checked thoroughly.
const THOROUGH: u64 = 8;
/// A slice of garbage collection runs after this many idle points, far more often than in production.
const TIDY: u64 = 5;
/// The maximum work of such a slice, in units of about one pod.
const TIDY_WORK: u64 = 32;

/// In one of this many seeds, the number of racks is close to or above the number of domains that the engine
/// tracks individually. Other clusters are small, and thus fast.
pub(crate) const WIDE: u64 = 40;
/// The number of cached decisions compared with full evaluations at each idle point. A pass over all of them
/// takes several idle points.
const COMPARED: u64 = 2;

/// The size of a run's cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) nodes: u64,
    /// The number of values of the label `rack`. Some nodes do not have the label.
    pub(crate) racks: u64,
    pub(crate) pods: u64,
    pub(crate) bind_credits: usize,
    /// The maximum time between two actions of the workload.
    pub(crate) pace: Duration,
}

impl Scale {
    fn draw(seed: u64, draw: &mut Draw) -> Self {
        let (nodes, racks, pods) = if seed.is_multiple_of(WIDE) {
            // Close to 64, the number of domains that the engine tracks individually, with one to three nodes
            // in each domain.
            let (nodes, racks) = draw.pick(&[
                (66, 63),
                (66, 64),
                (70, 65),
                (130, 65),
                (132, 66),
                (134, 66),
                (200, 66),
                (200, 200),
            ]);
            (nodes, racks, draw.pick(&[40, 80]))
        } else {
            let nodes = draw.pick(&[3, 3, 6, 6, 12, 20]);
            (nodes, draw.pick(&[1, 2, 3, 6, nodes]), draw.pick(&[20, 20, 40, 80, 200]))
        };
        Self {
            nodes,
            racks,
            pods,
            bind_credits: draw.pick(&[1, 2, 8, 64]),
            pace: draw.pick(&[Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(10)]),
        }
    }

    /// Whether the number of racks is close to or above the number of domains that the engine tracks
    /// individually.
    pub(crate) fn is_wide(&self) -> bool {
        self.racks > 20
    }
}

pub(crate) struct Sim {
    pub(crate) now: Time,
    pub(crate) seed: u64,
    /// Whether there is an extender.
    pub(crate) extended: bool,
    /// Whether reports name the members in each placement.
    names_members: bool,
    pub(crate) draw: Draw,
    pub(crate) log: Log,
    pub(crate) agenda: Agenda,
    pub(crate) server: Server,
    pub(crate) watches: Watches,
    pub(crate) process: Process,
    pub(crate) fault_rates: FaultRates,
    pub(crate) scale: Scale,
    /// Bindings that may still be carried out, by request id.
    pub(crate) in_air: BTreeMap<u64, Request>,
    pub(crate) requests: u64,
    pub(crate) last_patch: Time,
    /// Pods whose last status patch was lost, so that their conditions are outdated.
    pub(crate) lost_patches: BTreeSet<String>,
    /// How many patches of each group were lost in a row.
    pub(crate) lost_group_patches: BTreeMap<String, usize>,
    /// The number of steps.
    pub(crate) happened: u64,
    pub(crate) created: u64,
    pub(crate) claims_made: u64,
    pub(crate) volumes_made: u64,
    pub(crate) groups_made: u64,
    /// Cycles of groups by result.
    pub(crate) group_cycles: BTreeMap<&'static str, u64>,
    /// Whether an action of the volume controllers is due.
    pub(crate) controllers_called: bool,
    /// Whether an action of the driver of devices or the resource-claim controller is due.
    pub(crate) device_controllers_called: bool,
    /// The number of times that the scheduler started or lost the lease. The lease covers every write of a claim, so
    /// that none arrives later.
    pub(crate) fence: u64,
    /// Pods of which a write of a claim has no answer, so that a reservation may be left.
    pub(crate) lost_writes: BTreeSet<String>,
    pub(crate) placed: u64,
    /// Comparisons of cached decisions with full evaluations by earlier scheduler processes.
    pub(crate) compared: u64,
    /// Writes checked against the server's state: by the node's own rules, and by all rules.
    pub(crate) server_checks: [u64; 2],
    /// Faults so far by kind.
    pub(crate) faults: BTreeMap<&'static str, u64>,
    stopwatch: Option<Box<dyn Stopwatch>>,
    rests: u64,
    settling: bool,
}

impl Sim {
    pub(crate) fn new(
        seed: u64,
        (extended, names_members): (bool, bool),
        log: Log,
        stopwatch: Option<Box<dyn Stopwatch>>,
    ) -> Self {
        let mut draw = Draw::new(seed);
        let now = Time::from_nanos(100_200_000_000);
        let scale = Scale::draw(seed, &mut draw);
        let mut sim = Self {
            now,
            seed,
            extended,
            names_members,
            draw,
            log,
            agenda: Agenda::default(),
            server: Server::default(),
            watches: Watches::default(),
            process: Process::new(seed, 0, now),
            fault_rates: CALM,
            scale,
            in_air: BTreeMap::new(),
            requests: 0,
            last_patch: now,
            lost_patches: BTreeSet::new(),
            lost_group_patches: BTreeMap::new(),
            happened: 0,
            created: 0,
            claims_made: 0,
            volumes_made: 0,
            groups_made: 0,
            group_cycles: BTreeMap::new(),
            controllers_called: false,
            device_controllers_called: false,
            fence: 0,
            lost_writes: BTreeSet::new(),
            placed: 0,
            compared: 0,
            server_checks: [0; 2],
            faults: BTreeMap::new(),
            stopwatch,
            rests: 0,
            settling: false,
        };
        sim.create_initial_objects();
        sim.start();
        sim.agenda.write(now, Due::Workload);
        sim.agenda.write(now, Due::FaultRates);
        sim
    }

    /// Logs a change of state.
    pub(crate) fn say(&mut self, who: &str, whom: &str, what: Arguments<'_>) {
        self.log.line(self.now, who, whom, what);
    }

    /// Counts a fault.
    pub(crate) fn fault(&mut self, kind: &'static str) {
        *self.faults.entry(kind).or_default() += 1;
    }

    /// Starts a new scheduler process. It has no state, lists all kinds, and receives credits.
    fn start(&mut self) {
        self.compared += self.process.scheduler.stats().verified[0];
        self.cut_off();
        let incarnation = self.process.incarnation + 1;
        self.say("process", &format!("incarnation {incarnation}"), format_args!("starts"));
        self.process = Process::new(self.seed, incarnation, self.now);
        if self.extended {
            extenders::install(self.seed, &mut self.process.scheduler);
        }
        if self.names_members {
            self.process.scheduler.report_members_of_placements();
        }
        let is_current_or_shared = |due: &Due| match due {
            Due::Question { incarnation: l, .. } | Due::Answer { incarnation: l, .. } => *l == incarnation,
            Due::Patch { incarnation: l, .. }
            | Due::GroupPatch { incarnation: l, .. }
            | Due::Credit { incarnation: l, .. }
            | Due::Lead { incarnation: l } => *l == incarnation,
            Due::Wake => false,
            _ => true,
        };
        self.agenda.retain(is_current_or_shared);
        for kind in Kind::watched(has_groups(self.seed)) {
            self.watches.of(kind).forget(self.server.version());
            let connection = self.watches.of(kind).connection;
            let delay = draw_delay(&mut self.draw, self.fault_rates.watch_delay);
            self.agenda.write(self.now + delay, Due::Reconnect(kind, connection));
        }
        let credits = [
            (Lane::Bind, self.scale.bind_credits),
            (Lane::Volume, 2),
            (Lane::Evict, 2),
            (Lane::Status, 4),
            (Lane::Record, 8),
            (Lane::Extend, 4),
        ];
        for (lane, count) in credits {
            self.grant(lane, count);
        }
    }

    /// Whether the faults have stopped.
    pub(crate) fn is_settling(&self) -> bool {
        self.settling
    }

    pub(crate) fn restart(&mut self) {
        self.fault("process killed");
        self.start();
    }

    /// Takes the lease away; another replica holds it for a while.
    pub(crate) fn lose_lead(&mut self) {
        if !self.process.leads {
            return;
        }
        self.fault("lease lost");
        self.cut_off();
        self.lead(false);
        let without = draw_delay(&mut self.draw, Duration::from_secs(60));
        self.agenda.write(self.now + without, Due::Lead { incarnation: self.process.incarnation });
    }

    /// Ends the writes of claims that are on their way.
    fn cut_off(&mut self) {
        self.fence += 1;
        let pods = self.server.pods.values().filter(|pod| pod.needs_devices());
        self.lost_writes.extend(pods.map(|pod| pod.uid.clone()));
    }

    fn lead(&mut self, leads: bool) {
        let incarnation = self.process.incarnation;
        let what = if leads { "leads" } else { "lost the lease" };
        self.say("process", &format!("incarnation {incarnation}"), format_args!("{what}"));
        self.process.leads = leads;
        if !leads {
            // The conditions that were on their way are dropped.
            self.process.chosen_by_leader.clear();
        }
        self.process.scheduler.handle(self.now, Event::Leading(leads));
    }

    /// Simulates a long pause of the process or the machine.
    pub(crate) fn jump(&mut self) {
        self.fault("clock jump");
        let seconds = self.draw.pick(&[10, 70, 400, 3_600, 7_200]);
        self.now = self.now + Duration::from_secs(self.draw.between(seconds / 2, seconds));
        self.say("clock", "jump", format_args!("up to {seconds} s"));
    }

    fn grant(&mut self, lane: Lane, count: usize) {
        let at = Lane::ALL.iter().position(|&l| l == lane).expect("all lanes are listed");
        self.process.credits[at] += count;
        self.process.scheduler.handle(self.now, Event::Credits { lane, count });
    }

    /// Performs the next due action.
    pub(crate) fn step(&mut self) -> Result<(), Broken> {
        let Some((time, due)) = self.agenda.next() else { return Ok(()) };
        self.happened += 1;
        // After a clock jump, due times may be in the past.
        self.now = self.now.max(time);
        let woken = matches!(due, Due::Wake);
        if woken && self.process.wake != Some(time) {
            // The scheduler has requested another wake-up time since.
            return Ok(());
        }
        self.happen(due)?;
        self.publish_changes();
        self.call_controllers();
        self.call_device_controllers();
        let worked = self.run()?;
        self.check_wakes(woken, worked)
    }

    fn happen(&mut self, due: Due) -> Result<(), Broken> {
        match due {
            Due::Workload if !self.settling => {
                self.act();
                let pause = draw_delay(&mut self.draw, self.scale.pace);
                self.agenda.write(self.now + pause, Due::Workload);
            }
            Due::FaultRates if !self.settling => {
                self.fault_rates = FaultRates::draw(&mut self.draw);
                let name = self.fault_rates.name;
                self.say("faults", name, format_args!("begins"));
                let lasts = self.fault_rates.lasts(&mut self.draw);
                self.agenda.write(self.now + lasts, Due::FaultRates);
            }
            Due::Workload | Due::FaultRates => {}
            Due::Watch(kind, connection) => self.deliver(kind, connection)?,
            Due::Reconnect(kind, connection) => self.reconnect(kind, connection),
            Due::Bind(request) => self.bind_arrives(&request)?,
            Due::Question { incarnation, uid } => self.question_arrives(incarnation, uid),
            // A request of an earlier process may be carried out, but its answer is dropped.
            Due::Answer { incarnation, .. } if incarnation != self.process.incarnation => {}
            Due::Answer { answer, .. } => self.answer_arrives(answer),
            Due::Evict { incarnation, uid } => self.eviction_arrives(incarnation, uid),
            Due::LateEviction(uid) => self.evict(&uid),
            Due::VolumeWrite { incarnation, write, fate, fence, is_late } => {
                self.write_arrives(incarnation, &write, fate, (fence, is_late))?;
            }
            Due::Controllers => self.controllers_work()?,
            Due::DeviceControllers => self.device_controllers_work(),
            Due::Patch { patch, .. } => self.patch_arrives(&patch),
            Due::GroupPatch { incarnation, patch } => self.group_patch_arrives(incarnation, &patch),
            Due::Credit { lane, .. } => self.grant(lane, 1),
            Due::Gone(uid) => {
                self.say("cluster", &uid, format_args!("gone"));
                self.server.remove_pod(&uid);
            }
            Due::Lead { .. } => self.lead(true),
            Due::Wake => self.process.wake = None,
        }
        Ok(())
    }

    // --- the scheduler

    /// Runs the scheduler until it is idle. Returns whether it did anything.
    fn run(&mut self) -> Result<bool, Broken> {
        self.process.held_places = self.process.nominations();
        for steps in 0..STEPS_MAX {
            self.stopwatch.iter_mut().for_each(|watch| watch.begin());
            let avoided = self.process.scheduler.snapshot().devices().all_avoided().clone();
            self.process.avoided = avoided;
            let step = self.process.scheduler.step(self.now, &mut NoProbe);
            self.stopwatch.iter_mut().for_each(|watch| watch.end());
            match step {
                Step::Effect(effect) => self.carry_out(effect)?,
                Step::GroupReport(report) => {
                    let (key, what) = (format!("{}/{}", report.namespace, report.name), report.outcome);
                    self.say("report", &key, format_args!("{what:?} {}", report.status));
                    *self.group_cycles.entry(report.outcome.as_str()).or_default() += 1;
                    self.check_group_report(&report)?;
                }
                Step::Notice(notice) => return Err(self.noticed(&notice)),
                Step::Report(report) => {
                    let what = describe_outcome(&report.outcome);
                    self.say("report", &report.pod.uid, format_args!("{what}"));
                    self.placed += u64::from(matches!(report.outcome, Outcome::Placed { .. }));
                    self.check_report(&report)?;
                }
                Step::Idle { wake_at } => {
                    // Let time pass between two slices of a large pod, so that events occur between them.
                    let is_slicing = self.process.scheduler.stats().sliced > 0;
                    if !is_slicing {
                        self.check_stays_idle()?;
                    } else if self.process.scheduler.pods_in_slices().any(|pod| pod.group.is_some()) {
                        *self.group_cycles.entry("interrupted").or_default() += 1;
                    }
                    let soon = self.now + Duration::from_millis(1);
                    let wake_at = if is_slicing { wake_at.map(|at| at.max(soon)) } else { wake_at };
                    self.rest(wake_at)?;
                    return Ok(steps > 0 || is_slicing);
                }
            }
        }
        Err(broken("the scheduler becomes idle", format!("not after {STEPS_MAX} steps")))
    }

    /// What a step queues goes out before the scheduler becomes idle, since no event would wake it for that.
    fn check_stays_idle(&mut self) -> Result<(), Broken> {
        match self.process.scheduler.step(self.now, &mut NoProbe) {
            Step::Idle { .. } => Ok(()),
            step => Err(broken("an idle scheduler has nothing to do", format!("it went on with {step:?}"))),
        }
    }

    fn rest(&mut self, wake_at: Option<Time>) -> Result<(), Broken> {
        if let Some(wake_at) = wake_at.filter(|&time| time <= self.now) {
            let detail = format!("idle at {:?} until {wake_at:?}", self.now);
            return Err(broken("an idle scheduler requests a later wake-up", detail));
        }
        if self.process.wake != wake_at {
            self.process.wake = wake_at;
            if let Some(wake_at) = wake_at {
                self.agenda.write(wake_at, Due::Wake);
            }
        }
        self.rests += 1;
        let flushed = self.process.scheduler.queue().waiting().filter(|(_, queued)| queued.was_flushed);
        let flushed = flushed.map(|(_, queued)| &queued.pod.uid);
        // The attempts of these began before. Whether a flush caused them is known only once they are decided.
        let suspended = self.process.suspended_evaluations().map(|pod| &pod.uid);
        self.process.flushed = flushed.chain(suspended).map(|uid| uid.to_string()).collect();
        self.note_running_groups();
        self.check_places()?;
        self.compare_some();
        if self.rests.is_multiple_of(TIDY) {
            // The slices are small, so that many events occur during garbage collection.
            self.process.collect_ids_by(1 + (self.rests / TIDY % TIDY_WORK) as usize);
        }
        if self.rests.is_multiple_of(THOROUGH) {
            self.check_cache()?;
            self.check_hints()?;
        }
        Ok(())
    }

    /// Compares some cached decisions with full evaluations. The next engine step reports a difference as a
    /// notice.
    fn compare_some(&mut self) {
        for _ in 0..COMPARED {
            if !self.process.compare_next(self.now) {
                return;
            }
        }
    }

    /// Returns the invariant that a notice of the engine breaks.
    fn noticed(&self, notice: &Notice) -> Broken {
        let stats = self.process.scheduler.stats();
        let invariant = if stats.lost_pods_repaired > 0 {
            "the engine's audit repairs no lost pod"
        } else if stats.verified[1] > 0 {
            CACHED_EQUALS_FULL
        } else {
            "no object is quarantined"
        };
        broken(invariant, format!("{}: {}", notice.object, notice.text))
    }

    /// Fails if the scheduler is woken repeatedly without doing anything, which would waste CPU time.
    fn check_wakes(&mut self, woken: bool, worked: bool) -> Result<(), Broken> {
        let (count, since) = self.process.idle_wakes;
        self.process.idle_wakes = match (woken, worked) {
            (_, true) => (0, self.now),
            (true, false) if self.now.since(since) < Duration::from_secs(1) => (count + 1, since),
            (true, false) => (1, self.now),
            (false, false) => (count, since),
        };
        // Each binding with an unknown outcome may cause one wake-up that finds no credit for the query.
        let bindings = u32::try_from(self.process.scheduler.stats().bindings).unwrap_or(u32::MAX);
        if self.process.idle_wakes.0 > IDLE_WAKES_MAX.saturating_add(bindings) {
            let detail = format!("{count} idle wake-ups since {since:?}");
            return Err(broken("wake-ups are not wasted", detail));
        }
        Ok(())
    }

    // --- the end of a run

    /// Deletes all objects and checks that the scheduler keeps no state about them.
    fn empty(&mut self) -> Result<(), Broken> {
        let pods: Vec<_> = self.server.pods.keys().cloned().collect();
        let nodes: Vec<_> = self.server.nodes.keys().cloned().collect();
        pods.iter().for_each(|uid| self.server.remove_pod(uid));
        nodes.iter().for_each(|name| self.server.remove_node(name));
        let claims: Vec<_> = self.server.claims.keys().cloned().collect();
        let volumes: Vec<_> = self.server.volumes.keys().cloned().collect();
        let csi_nodes: Vec<_> = self.server.csi_nodes.keys().cloned().collect();
        claims.iter().for_each(|key| self.server.remove_claim(key));
        csi_nodes.iter().for_each(|name| self.server.remove_csi_node(name));
        volumes.iter().for_each(|name| self.server.remove_volume(name));
        let device_claims: Vec<_> = self.server.device_claims.keys().cloned().collect();
        let slices: Vec<_> = self.server.slices.keys().cloned().collect();
        device_claims.iter().for_each(|key| self.server.remove_device_claim(key));
        slices.iter().for_each(|name| self.server.remove_slice(name));
        let groups: Vec<_> = self.server.groups.keys().cloned().collect();
        groups.iter().for_each(|key| self.server.remove_group(key));
        self.say("cluster", "all", format_args!("gone"));
        self.publish_changes();
        let end = self.now + EMPTYING;
        while self.agenda.next_time().is_some_and(|time| time <= end) {
            self.step()?;
        }
        self.now = end;
        self.check_empty()
    }

    /// Stops the faults and waits until the cluster settles.
    pub(crate) fn settle(&mut self) -> Result<(), Broken> {
        self.settling = true;
        self.fault_rates = CALM;
        self.say("faults", "calm", format_args!("until the end"));
        // Any event retries a pod that an extender rejected; without events, only the five-minute flush does.
        let end = self.now + if self.extended { SETTLING + FLUSHED } else { SETTLING };
        while self.agenda.next_time().is_some_and(|time| time <= end) {
            self.step()?;
        }
        self.now = end;
        // Unschedulable pods are retried forever, so the state is checked at a moment when no request is in
        // flight.
        let last_try = end + Duration::from_secs(10);
        loop {
            match self.check_end() {
                Ok(()) => return self.empty(),
                Err(broken) if self.agenda.next_time().is_none_or(|time| time > last_try) => {
                    return Err(broken);
                }
                Err(_) => self.step()?,
            }
        }
    }
}

fn describe_outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Placed { node, nodes, feasible, .. } => {
            format!("placed on {node}, {feasible} of {nodes} feasible")
        }
        Outcome::Unschedulable { message, rejectors, .. } => {
            let message = message.split(". ").next().unwrap_or_default();
            format!("unschedulable {rejectors:?}: {message}")
        }
        Outcome::Error { message } => format!("error: {message}"),
        Outcome::Skipped => "skipped".to_owned(),
        Outcome::PreBound { succeeded, .. } => format!("volumes bound: {succeeded}"),
        Outcome::Bound { node, .. } => format!("bound to {node}"),
        Outcome::PreemptionEnded { node, error } => format!("preempted on {node}: {error:?}"),
        Outcome::BindFailed { message } => format!("binding failed: {message}"),
    }
}
