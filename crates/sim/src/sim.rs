//! The loop: one thread, virtual time, one seed. What is due happens, then the scheduler runs until it is idle.

use crate::agenda::{Agenda, Due, Request};
use crate::check::{Broken, broken};
use crate::draw::Draw;
use crate::log::Log;
use crate::process::Process;
use crate::server::{Change, Server};
use crate::watch::Watches;
use crate::weather::{CALM, Weather, wait};
use std::collections::BTreeMap;
use std::fmt::Arguments;
use std::time::Duration;
use supercargo_core::cycle::NoProbe;
use supercargo_core::effect::Lane;
use supercargo_core::event::{Event, Kind};
use supercargo_core::report::Outcome;
use supercargo_core::scheduler::Step;
use supercargo_core::time::Time;

/// How long after the last fault everything must have come right: the engine's patience with a lost binding, the
/// longest backoff, and some more.
pub(crate) const SETTLING: Duration = Duration::from_secs(180);
/// Steps of the engine that may follow one event, and wake-ups in one second that may come to nothing.
const STEPS_MAX: u32 = 20_000;
const IDLE_WAKES_MAX: u32 = 5;
/// Of so many moments of rest, one is looked at thoroughly.
const THOROUGH: u64 = 8;

/// How large a run's cluster gets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) nodes: u64,
    pub(crate) pods: u64,
    pub(crate) bind_credits: usize,
    /// The longest time between two things the world does.
    pub(crate) pace: Duration,
}

pub(crate) struct Sim {
    pub(crate) now: Time,
    pub(crate) seed: u64,
    pub(crate) draw: Draw,
    pub(crate) log: Log,
    pub(crate) agenda: Agenda,
    pub(crate) server: Server,
    pub(crate) watches: Watches,
    pub(crate) process: Process,
    pub(crate) weather: Weather,
    pub(crate) scale: Scale,
    /// Bindings that may still be carried out.
    pub(crate) in_air: BTreeMap<u64, Request>,
    pub(crate) requests: u64,
    pub(crate) last_patch: Time,
    pub(crate) created: u64,
    pub(crate) placed: u64,
    /// Writes checked against the server's truth: by the node's own rules, by all.
    pub(crate) truths: [u64; 2],
    rests: u64,
    settling: bool,
}

impl Sim {
    pub(crate) fn new(seed: u64, log: Log) -> Self {
        let mut draw = Draw::new(seed);
        let now = Time::from_nanos(100_200_000_000);
        let scale = Scale {
            nodes: draw.pick(&[1, 3, 6, 6, 12]),
            pods: draw.pick(&[4, 12, 30, 60]),
            bind_credits: draw.pick(&[1, 2, 8, 64]),
            pace: draw.pick(&[Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(10)]),
        };
        let mut sim = Self {
            now,
            seed,
            draw,
            log,
            agenda: Agenda::default(),
            server: Server::default(),
            watches: Watches::default(),
            process: Process::new(seed, 0, now),
            weather: CALM,
            scale,
            in_air: BTreeMap::new(),
            requests: 0,
            last_patch: now,
            created: 0,
            placed: 0,
            truths: [0; 2],
            rests: 0,
            settling: false,
        };
        sim.furnish();
        sim.start();
        sim.agenda.write(now, Due::World);
        sim.agenda.write(now, Due::Weather);
        sim
    }

    /// Notes a change of state.
    pub(crate) fn say(&mut self, who: &str, whom: &str, what: Arguments<'_>) {
        self.log.line(self.now, who, whom, what);
    }

    /// Starts a life of the scheduler: it knows nothing, lists everything, and is granted credits.
    fn start(&mut self) {
        let life = self.process.life + 1;
        self.say("process", &format!("life {life}"), format_args!("starts"));
        self.process = Process::new(self.seed, life, self.now);
        let life_goes_on = |due: &Due| match due {
            Due::Question { life: l, .. } | Due::Answer { life: l, .. } => *l == life,
            Due::Patch { life: l, .. } | Due::Credit { life: l, .. } => *l == life,
            Due::Wake => false,
            _ => true,
        };
        self.agenda.retain(life_goes_on);
        for kind in Kind::ALL {
            self.watches.of(kind).forget();
            let connection = self.watches.of(kind).connection;
            let delay = wait(&mut self.draw, self.weather.watch_delay);
            self.agenda.write(self.now + delay, Due::Reconnect(kind, connection));
        }
        let credits =
            [(Lane::Bind, self.scale.bind_credits), (Lane::Evict, 2), (Lane::Status, 4), (Lane::Record, 8)];
        for (lane, count) in credits {
            self.grant(lane, count);
        }
    }

    pub(crate) fn restart(&mut self) {
        self.start();
    }

    fn grant(&mut self, lane: Lane, count: usize) {
        let at = Lane::ALL.iter().position(|&l| l == lane).expect("all lanes are listed");
        self.process.credits[at] += count;
        self.process.scheduler.handle(self.now, Event::Credits { lane, count });
    }

    /// Lets the next thing happen.
    pub(crate) fn step(&mut self) -> Result<(), Broken> {
        let Some((time, due)) = self.agenda.next() else { return Ok(()) };
        self.now = time;
        let woken = matches!(due, Due::Wake);
        if woken && self.process.wake != Some(time) {
            // It has since asked for another time.
            return Ok(());
        }
        self.happen(due)?;
        self.spread_news();
        let worked = self.run()?;
        self.check_wakes(woken, worked)
    }

    fn happen(&mut self, due: Due) -> Result<(), Broken> {
        match due {
            Due::World if !self.settling => {
                self.act();
                let pause = wait(&mut self.draw, self.scale.pace);
                self.agenda.write(self.now + pause, Due::World);
            }
            Due::Weather if !self.settling => {
                self.weather = Weather::draw(&mut self.draw);
                let name = self.weather.name;
                self.say("weather", name, format_args!("begins"));
                let lasts = self.weather.lasts(&mut self.draw);
                self.agenda.write(self.now + lasts, Due::Weather);
            }
            Due::World | Due::Weather => {}
            Due::Watch(kind, connection) => self.deliver(kind, connection),
            Due::Reconnect(kind, connection) => self.reconnect(kind, connection),
            Due::Bind(request) => self.bind_arrives(&request)?,
            Due::Question { life, uid } => self.question_arrives(life, uid),
            Due::Answer { answer, .. } => self.answer_arrives(answer),
            Due::Evict { life, uid } => self.eviction_arrives(life, uid),
            Due::Patch { patch, .. } => self.patch_arrives(&patch),
            Due::Credit { lane, .. } => self.grant(lane, 1),
            Due::Gone(uid) => {
                self.say("world", &uid, format_args!("gone"));
                self.server.remove_pod(&uid);
            }
            Due::Wake => self.process.wake = None,
        }
        Ok(())
    }

    // --- watches

    /// Puts the server's changes on their way.
    fn spread_news(&mut self) {
        for (kind, change, version) in self.server.take_news() {
            if self.watches.of(kind).connected {
                let copies = 1 + u64::from(self.draw.percent(self.weather.duplicate));
                for _ in 0..copies {
                    self.put_on_watch(kind, change.clone(), version);
                }
            }
        }
    }

    fn put_on_watch(&mut self, kind: Kind, change: Change, version: u64) {
        let due = self.now + wait(&mut self.draw, self.weather.watch_delay);
        let watch = self.watches.of(kind);
        let due = watch.push(change, version, due);
        self.agenda.write(due, Due::Watch(kind, watch.connection));
    }

    fn deliver(&mut self, kind: Kind, connection: u32) {
        let watch = self.watches.of(kind);
        if watch.connection != connection {
            return;
        }
        let Some(change) = watch.deliver() else { return };
        let (whom, what) = describe(&change);
        self.say("watch", &whom, format_args!("{} {what}", kind.as_str()));
        self.process.tell(self.now, kind, &change);
    }

    pub(crate) fn disconnect(&mut self, kind: Kind) {
        self.watches.of(kind).disconnect();
        self.say("watch", kind.as_str(), format_args!("connection lost"));
        let connection = self.watches.of(kind).connection;
        let down = wait(&mut self.draw, Duration::from_secs(30));
        self.agenda.write(self.now + down, Due::Reconnect(kind, connection));
    }

    fn reconnect(&mut self, kind: Kind, connection: u32) {
        let watch = self.watches.of(kind);
        if watch.connection != connection || watch.connected {
            return;
        }
        watch.connected = true;
        // A list is known when it is complete, as of the version it was taken at.
        self.put_on_watch(kind, Change::ListBegan, 0);
        for object in self.server.list(kind) {
            self.put_on_watch(kind, object, 0);
        }
        let version = self.server.version();
        self.put_on_watch(kind, Change::ListEnded(version), version);
    }

    // --- the scheduler

    /// Runs the scheduler until it is idle; whether it did anything.
    fn run(&mut self) -> Result<bool, Broken> {
        for steps in 0..STEPS_MAX {
            match self.process.scheduler.step(self.now, &mut NoProbe) {
                Step::Effect(effect) => self.carry_out(effect)?,
                Step::Notice(notice) => {
                    return Err(broken("no object is poison", format!("{}: {}", notice.object, notice.text)));
                }
                Step::Report(report) => {
                    let what = tell_outcome(&report.outcome);
                    self.say("report", &report.pod.uid, format_args!("{what}"));
                    self.placed += u64::from(matches!(report.outcome, Outcome::Placed { .. }));
                    self.check_report(&report)?;
                }
                Step::Idle { wake_at } => {
                    self.rest(wake_at)?;
                    return Ok(steps > 0);
                }
            }
        }
        Err(broken("the scheduler comes to rest", format!("not after {STEPS_MAX} steps")))
    }

    fn rest(&mut self, wake_at: Option<Time>) -> Result<(), Broken> {
        if let Some(wake_at) = wake_at.filter(|&time| time <= self.now) {
            let detail = format!("idle at {:?} until {wake_at:?}", self.now);
            return Err(broken("an idle scheduler does not ask to be woken at once", detail));
        }
        if self.process.wake != wake_at {
            self.process.wake = wake_at;
            if let Some(wake_at) = wake_at {
                self.agenda.write(wake_at, Due::Wake);
            }
        }
        self.rests += 1;
        self.check_places()?;
        if self.rests.is_multiple_of(THOROUGH) {
            self.check_cache()?;
            self.check_hints()?;
        }
        Ok(())
    }

    /// A scheduler that is woken again and again and does nothing burns a processor.
    fn check_wakes(&mut self, woken: bool, worked: bool) -> Result<(), Broken> {
        let (count, since) = self.process.idle_wakes;
        self.process.idle_wakes = match (woken, worked) {
            (_, true) => (0, self.now),
            (true, false) if self.now.since(since) < Duration::from_secs(1) => (count + 1, since),
            (true, false) => (1, self.now),
            (false, false) => (count, since),
        };
        // For each binding in doubt it may wake once, and find no credit to ask with.
        let bindings = u32::try_from(self.process.scheduler.stats().bindings).unwrap_or(u32::MAX);
        if self.process.idle_wakes.0 > IDLE_WAKES_MAX.saturating_add(bindings) {
            let detail = format!("{count} times since {since:?}");
            return Err(broken("a scheduler is not woken for nothing", detail));
        }
        Ok(())
    }

    // --- the end

    /// Stops the faults, and waits for everything to come right.
    pub(crate) fn settle(&mut self) -> Result<(), Broken> {
        self.settling = true;
        self.weather = CALM;
        self.say("weather", "calm", format_args!("for good"));
        let end = self.now + SETTLING;
        while self.agenda.next_time().is_some_and(|time| time <= end) {
            self.step()?;
        }
        self.now = end;
        // Pods that nothing can help, for want of nodes, are tried for ever: look where nothing is under way.
        let last_try = end + Duration::from_secs(10);
        loop {
            match self.check_end() {
                Ok(()) => return Ok(()),
                Err(broken) if self.agenda.next_time().is_none_or(|time| time > last_try) => {
                    return Err(broken);
                }
                Err(_) => self.step()?,
            }
        }
    }
}

fn describe(change: &Change) -> (String, String) {
    match change {
        Change::ListBegan => ("list".to_owned(), "begins".to_owned()),
        Change::ListEnded(version) => ("list".to_owned(), format!("ends at {version}")),
        Change::Pod(pod) => {
            let node = pod.node.as_deref().unwrap_or("-");
            let flags = [(pod.deleting, " deleting"), (pod.gated, " gated")];
            let flags: String = flags.iter().filter(|(set, _)| *set).map(|(_, flag)| *flag).collect();
            (pod.uid.clone(), format!("version {} on {node}{flags}", pod.version))
        }
        Change::PodGone(uid) => (uid.clone(), "gone".to_owned()),
        Change::Node(node) => (node.name.clone(), format!("version {}", node.version)),
        Change::NodeGone(name) => (name.clone(), "gone".to_owned()),
        Change::Namespace(name, team) => ((*name).to_owned(), format!("of team {team}")),
        Change::Service(app) => ((*app).to_owned(), "listed".to_owned()),
    }
}

fn tell_outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Placed { node, nodes, feasible } => {
            format!("placed on {node}, {feasible} of {nodes} feasible")
        }
        Outcome::Unschedulable { message, rejectors, .. } => {
            format!("unschedulable {rejectors:?}: {message}")
        }
        Outcome::Error { message } => format!("error: {message}"),
        Outcome::Skipped => "skipped".to_owned(),
        Outcome::PreBound { succeeded, .. } => format!("volumes bound: {succeeded}"),
        Outcome::Bound { node } => format!("bound to {node}"),
        Outcome::PreemptionEnded { node, error } => format!("preempted on {node}: {error:?}"),
        Outcome::BindFailed { message } => format!("binding failed: {message}"),
    }
}
