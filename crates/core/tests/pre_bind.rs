//! Property tests of PreBind against a simulated API server that loses answers, delays watch events, and has other
//! writers, who replace claims and give volumes away.
//!
//! Invariants: No pod is bound before all of its claims are bound to volumes that its node can access. No
//! reservations are held for pods that are not in PreBind. When the faults end, every pod gets bound before an attempt
//! times out, except those whose two claims ended on different nodes in an earlier attempt: as upstream, completed
//! writes are not reverted.

mod support;

use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use supercargo_core::cycle::{Framework, NoProbe};
use supercargo_core::model::effect::{Effect, VolumeChange, VolumeWrite};
use supercargo_core::model::event::{BindOutcome, Event, ObjectKey, WriteOutcome};
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::model::volume::StorageKey;
use supercargo_core::queue::QueueConfig;
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};
use support::{arrival, begin};

/// The pods and their claims. Two pods share a claim, and one has two claims.
const PODS: [(&str, &[&str]); 5] =
    [("p", &["c0"]), ("q", &["c1"]), ("r", &["c2"]), ("s", &["c2"]), ("t", &["c3", "c4"])];
/// The claims with their classes. Volumes of `hand` exist, and those of `fast` are provisioned.
const CLAIMS: [(&str, &str); 5] =
    [("c0", "hand"), ("c1", "hand"), ("c2", "fast"), ("c3", "hand"), ("c4", "fast")];
const NODES: [&str; 2] = ["a", "b"];

#[derive(Clone, Debug)]
struct Volume {
    name: String,
    class: &'static str,
    node: String,
    version: u64,
    claim: Option<ClaimId>,
}

/// The number of a claim, and which of the claims with its name it is.
type ClaimId = (usize, u64);

#[derive(Clone, Debug, Default)]
struct Claim {
    version: u64,
    /// How often it was replaced by another claim of its name.
    replaced: u64,
    selected: Option<String>,
    volume: Option<String>,
}

/// The state of the API server, and the watch events that are not delivered yet.
struct Server {
    versions: u64,
    volumes: Vec<Volume>,
    claims: Vec<Claim>,
    volume_events: VecDeque<String>,
    claim_events: VecDeque<String>,
    bound: BTreeSet<String>,
}

/// A claim is replaced at most this often, so that there are volumes for all.
const REPLACEMENTS_MAX: u64 = 2;
/// An attempt that waits for claims in vain times out after ten minutes, which must not be needed.
const SETTLE_MAX: Duration = Duration::from_secs(400);

fn uid((claim, replaced): ClaimId) -> String {
    format!("{}-{replaced}", CLAIMS[claim].0)
}

fn claim_number(name: &str) -> usize {
    CLAIMS.iter().position(|(known, _)| *known == name).expect("a known claim")
}

impl Server {
    fn new() -> Self {
        let mut server = Self {
            versions: 0,
            volumes: Vec::new(),
            claims: vec![Claim::default(); CLAIMS.len()],
            volume_events: VecDeque::new(),
            claim_events: VecDeque::new(),
            bound: BTreeSet::new(),
        };
        for at in 0..12 {
            let (name, node) = (format!("v{at}"), NODES[at % 2].to_owned());
            server.volumes.push(Volume { name, class: "hand", node, version: 0, claim: None });
        }
        (0..server.volumes.len()).for_each(|at| server.put_volume(at));
        (0..CLAIMS.len()).for_each(|at| server.put_claim(at));
        server
    }

    /// Stores a changed volume with a new version, and queues its watch event.
    fn put_volume(&mut self, at: usize) {
        self.versions += 1;
        let volume = &mut self.volumes[at];
        volume.version = self.versions;
        let Volume { name, class, node, version, claim } = volume;
        let state = claim.map_or_else(String::new, |claim| {
            format!(" for=default/{}/{} phase=Bound", CLAIMS[claim.0].0, uid(claim))
        });
        let line = format!("pv {name} class={class} at=host:in:{node} version={version}{state}");
        self.volume_events.push_back(line);
    }

    fn put_claim(&mut self, at: usize) {
        self.versions += 1;
        let ((name, class), claim) = (CLAIMS[at], &mut self.claims[at]);
        claim.version = self.versions;
        let uid = uid((at, claim.replaced));
        let mut line = format!("pvc {name} class={class} uid={uid} version={} annotated", claim.version);
        if let Some(node) = &claim.selected {
            let _ = write!(line, " selected={node}");
        }
        if let Some(volume) = &claim.volume {
            let _ = write!(line, " bound={volume}");
        }
        self.claim_events.push_back(line);
    }

    fn claim_id(&self, at: usize) -> ClaimId {
        (at, self.claims[at].replaced)
    }

    /// Deletes a claim, and creates another one of the same name.
    fn replace_claim(&mut self, at: usize) {
        let replaced = self.claims[at].replaced + 1;
        if replaced <= REPLACEMENTS_MAX {
            self.claim_events.push_back(format!("gone {}", CLAIMS[at].0));
            self.claims[at] = Claim { replaced, ..Claim::default() };
            self.put_claim(at);
        }
    }

    /// Reserves a volume for another claim, if the claim it is reserved for is not bound to it.
    fn give_away(&mut self, at: usize, claim: usize) {
        let volume = &self.volumes[at];
        let is_bound = self.claims.iter().any(|claim| claim.volume.as_ref() == Some(&volume.name));
        if !is_bound && CLAIMS[claim].1 == volume.class {
            self.volumes[at].claim = Some(self.claim_id(claim));
            self.put_volume(at);
        }
    }

    /// Carries out a write, unless the object has another version.
    fn write(&mut self, change: &VolumeChange) -> WriteOutcome {
        let refused = || WriteOutcome::Refused { message: "the object has been modified".to_owned() };
        match change {
            VolumeChange::Bind { volume, version, claim, .. } => {
                let at = self.volumes.iter().position(|it| it.name == *volume).expect("a known volume");
                if self.volumes[at].version.to_string() != *version {
                    return refused();
                }
                let replaced = claim.uid.rsplit_once('-').expect("a uid of this test").1;
                self.volumes[at].claim =
                    Some((claim_number(&claim.name), replaced.parse().expect("a number")));
                self.put_volume(at);
            }
            VolumeChange::SelectNode { name, version, node, .. } => {
                let at = claim_number(name);
                if self.claims[at].version.to_string() != *version {
                    return refused();
                }
                self.claims[at].selected = Some(node.clone());
                self.put_claim(at);
            }
            other => unreachable!("no pod has claims: {other:?}"),
        }
        WriteOutcome::Done
    }

    /// Simulates the controller manager: binds claims to the volumes reserved for them, and releases volumes that are
    /// reserved for a claim with another volume.
    fn control(&mut self) {
        for at in 0..self.volumes.len() {
            let Some((claim, replaced)) = self.volumes[at].claim else { continue };
            let name = self.volumes[at].name.clone();
            match &self.claims[claim].volume {
                _ if replaced != self.claims[claim].replaced => {
                    self.volumes[at].claim = None;
                    self.put_volume(at);
                }
                None => {
                    self.claims[claim].volume = Some(name);
                    self.put_claim(claim);
                }
                Some(other) if *other != name => {
                    self.volumes[at].claim = None;
                    self.put_volume(at);
                }
                Some(_) => {}
            }
        }
    }

    /// Provisions all requested volumes, or fails all of these requests.
    fn provision(&mut self, can: bool) {
        for (at, (_, class)) in CLAIMS.into_iter().enumerate() {
            let claim = &self.claims[at];
            let Some(node) = claim.selected.clone().filter(|_| claim.volume.is_none()) else { continue };
            if !can {
                self.claims[at].selected = None;
                self.put_claim(at);
            } else if !self.volumes.iter().any(|volume| volume.claim == Some(self.claim_id(at))) {
                let name = format!("made-{}", self.volumes.len());
                let claim = Some(self.claim_id(at));
                self.volumes.push(Volume { name, class, node, version: 0, claim });
                self.put_volume(self.volumes.len() - 1);
            }
        }
    }
}

struct TestCluster {
    scheduler: Scheduler,
    server: Server,
    now: Time,
    pending: VecDeque<VolumeWrite>,
    /// Writes that are carried out after their answers were lost.
    late: VecDeque<VolumeWrite>,
    history: String,
}

impl TestCluster {
    fn new() -> Self {
        let now = Time::from_secs(1_000);
        let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
        let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
        let mut cluster = Self {
            scheduler: Scheduler::new(config, now),
            server: Server::new(),
            now,
            pending: VecDeque::new(),
            late: VecDeque::new(),
            history: String::new(),
        };
        begin(&mut cluster.scheduler, now, 1_000_000);
        NODES.iter().for_each(|node| cluster.line(&format!("node {node} cpu=64")));
        cluster.line("class hand");
        cluster.line("class fast of=csi.example.com");
        while cluster.deliver_volume() || cluster.deliver_claim() {}
        for (pod, claims) in PODS {
            let claims: Vec<String> = claims.iter().map(|claim| format!("claim={claim}")).collect();
            cluster.line(&format!("pod {pod} cpu=1 {}", claims.join(" ")));
        }
        cluster
    }

    fn handle(&mut self, event: Event) {
        self.scheduler.handle(self.now, event);
    }

    fn line(&mut self, line: &str) {
        let _ = writeln!(self.history, "{line}");
        let event = match line.strip_prefix("gone ") {
            Some(claim) => {
                let tables = self.scheduler.tables();
                let key = StorageKey::of_claim(tables.symbol("default"), tables.symbol(claim));
                Event::Gone(ObjectKey::Storage(key))
            }
            None => arrival(self.scheduler.tables(), line),
        };
        self.handle(event);
    }

    fn deliver_volume(&mut self) -> bool {
        let event = self.server.volume_events.pop_front();
        event.inspect(|line| self.line(line)).is_some()
    }

    fn deliver_claim(&mut self) -> bool {
        let event = self.server.claim_events.pop_front();
        event.inspect(|line| self.line(line)).is_some()
    }

    fn answer(&mut self, write: &VolumeWrite, outcome: WriteOutcome) {
        let _ = writeln!(self.history, "  answer to {}: {outcome:?}", write.write);
        let uid = Arc::clone(&write.pod.uid);
        self.handle(Event::VolumeWritten { uid, write: write.write, outcome });
    }

    /// Carries out the oldest write, or loses it.
    fn answer_next(&mut self, arrives: bool, answered: bool) -> bool {
        let Some(write) = self.pending.pop_front() else { return false };
        let lost = WriteOutcome::Unknown { message: "context deadline exceeded".to_owned() };
        if arrives {
            let outcome = self.server.write(&write.change);
            self.answer(&write, if answered { outcome } else { lost });
        } else {
            self.answer(&write, lost);
            self.late.push_back(write);
        }
        true
    }

    fn advance(&mut self, choice: u8) {
        let other = usize::from(choice / 18);
        match choice % 18 {
            0 | 1 => drop(self.deliver_volume()),
            2 | 3 => drop(self.deliver_claim()),
            4 | 5 => drop(self.answer_next(true, true)),
            6 => drop(self.answer_next(true, false)),
            7 => drop(self.answer_next(false, false)),
            8 => {
                let late = self.late.pop_front();
                late.inspect(|write| drop(self.server.write(&write.change)));
            }
            9 => self.server.control(),
            10 => self.server.provision(true),
            11 => self.server.provision(false),
            12 => self.now = self.now + Duration::from_secs(1),
            13 => self.now = self.now + Duration::from_secs(40),
            14 => {
                // Another client changes a field that is not read here.
                self.server.put_volume(other % 4);
                self.server.put_claim(other % CLAIMS.len());
            }
            15 => self.server.replace_claim(other % CLAIMS.len()),
            16 => self.server.give_away(other % 4, [0, 1, 3][other % 3]),
            _ if choice < 128 => {
                self.handle(Event::Leading(false));
                self.handle(Event::Leading(true));
            }
            _ => {
                let node = NODES[other % 2];
                let key = ObjectKey::Node(self.scheduler.tables().symbol(node));
                self.handle(Event::Gone(key));
                self.run();
                self.line(&format!("node {node} cpu=64"));
            }
        }
        self.run();
    }

    /// Runs the engine until idle. Bindings are carried out and shown by the watch at once.
    fn run(&mut self) {
        loop {
            match self.scheduler.step(self.now, &mut NoProbe) {
                Step::Idle { .. } => break,
                Step::Effect(Effect::WriteVolume(write)) => {
                    let _ = writeln!(
                        self.history,
                        "  write {} for {}: {:?}",
                        write.write, write.pod.name, write.change
                    );
                    self.pending.push_back(write);
                }
                Step::Effect(Effect::Bind { pod, node }) => self.bind(&pod.name, &node),
                Step::Effect(_) | Step::Report(_) => {}
                Step::GroupReport(_) => {}
                Step::Notice(notice) => panic!("{}: {}\n{}", notice.object, notice.text, self.history),
            }
        }
        self.check();
    }

    fn bind(&mut self, pod: &str, node: &str) {
        let _ = writeln!(self.history, "  bind {pod} to {node}");
        let (_, claims) = PODS.iter().find(|(name, _)| *name == pod).expect("a known pod");
        for claim in *claims {
            if self.server.claim_events.contains(&format!("gone {claim}")) {
                // The engine cannot know yet.
                continue;
            }
            let bound = self.server.claims[claim_number(claim)].volume.as_ref();
            let volume = bound.and_then(|name| self.server.volumes.iter().find(|it| it.name == *name));
            let reaches = volume.is_some_and(|volume| volume.node == node);
            assert!(reaches, "{pod} is bound to {node}, and {claim} has {volume:?}:\n{}", self.history);
        }
        assert!(self.server.bound.insert(pod.to_owned()), "{pod} is bound twice:\n{}", self.history);
        let names: Vec<String> = claims.iter().map(|claim| format!("claim={claim}")).collect();
        self.line(&format!("pod {pod} cpu=1 {} on={node}", names.join(" ")));
        self.handle(Event::BindFinished { uid: pod.into(), outcome: BindOutcome::Accepted });
    }

    fn check(&self) {
        let stats = self.scheduler.stats();
        let on_their_way: BTreeSet<&str> =
            self.scheduler.waiting_for_volumes().map(|(queued, ..)| &*queued.pod.name).collect();
        assert_eq!(
            stats.cache.assumed_pods,
            on_their_way.len(),
            "who is assumed is on its way:\n{}",
            self.history
        );
        for (pod, _) in PODS {
            let held = self.scheduler.snapshot().volumes().reservations_of(pod);
            assert_eq!(
                !held.is_empty(),
                on_their_way.contains(pod),
                "{pod} holds {held:?}:\n{}",
                self.history
            );
        }
    }

    /// Whether the claims are bound to volumes of different nodes.
    fn is_torn(&self, claims: &[&str]) -> bool {
        let volumes = claims.iter().map(|claim| {
            let bound = self.server.claims[claim_number(claim)].volume.as_ref()?;
            self.server.volumes.iter().find(|volume| volume.name == *bound)
        });
        let nodes: Option<BTreeSet<&str>> = volumes.map(|volume| volume.map(|it| &*it.node)).collect();
        nodes.is_some_and(|nodes| nodes.len() > 1)
    }

    /// Ends all faults: writes are carried out, answered and shown. Returns whether every pod is then bound, or torn.
    fn settle(&mut self) -> bool {
        let end = self.now + SETTLE_MAX;
        while self.now < end {
            while self.answer_next(true, true) || self.deliver_volume() || self.deliver_claim() {
                self.run();
            }
            self.server.control();
            self.server.provision(true);
            self.now = self.now + Duration::from_secs(1);
            self.run();
            if PODS.iter().all(|(pod, claims)| self.server.bound.contains(*pod) || self.is_torn(claims)) {
                return true;
            }
        }
        false
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_pod_is_bound_eventually_and_after_its_volumes(
        moves in prop::collection::vec(any::<u8>(), 0..150),
    ) {
        let mut cluster = TestCluster::new();
        cluster.run();
        for choice in moves {
            cluster.advance(choice);
        }
        prop_assert!(cluster.settle(), "{}", cluster.history);
    }
}
