//! Schedules pods one after another with the engine's own decision; each placed pod counts for the next decision.
//!
//! Upstream: `pkg/scheduler/schedule_one.go`. There is no queue: pods are scheduled in the given order.

use crate::simulate::decision::{Counts, Decision, Nodes, Preemption, Rejected};
use crate::simulate::world::World;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use supercargo_core::cache::{PodState, Snapshot};
use supercargo_core::cycle::{
    Decision as Verdict, Feasible, Filtered, Framework, InfeasibleDecision, NoProbe, Nomination, Options,
    Scores, Walk,
};
use supercargo_core::framework::post_filter::{Candidate, Draws, ExtenderCandidates};
use supercargo_core::framework::{CycleError, Reason};
use supercargo_core::incremental::DecisionCache;
use supercargo_core::intern::Symbol;
use supercargo_core::node::NodeIdx;
use supercargo_core::plugins::scheduling_gates;
use supercargo_core::pod::{PodInfo, Uid};
use supercargo_core::rng::Seed;
use supercargo_core::time::Time;
use supercargo_core::volume::Reservation;

/// Message when the cluster has no nodes (upstream `ErrNoNodesAvailable`).
const NO_NODES: &str = "no nodes available to schedule pods";
/// The attempt number of each decision: every pod is tried once.
const ATTEMPT: u32 = 1;
/// The time of all decisions, after every time in the files. Preemption assumes that a pod without a start time
/// starts now, and the result must not depend on the clock.
const NOW: Time = Time::from_nanos(u64::MAX);

/// How to choose among nodes with the same best score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum TieBreak {
    /// The node whose name sorts first, also among preemption candidates. For comparison with recorded decisions,
    /// this mode also scores a single feasible node and does not try a pod's nominated node first.
    Name,
    /// A random node, drawn from the seed as the scheduler does.
    Seeded,
}

/// What to do when a pod could be scheduled by preempting others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum PreemptionMode {
    /// Report the victims and keep them running. The pod is nominated to the node, so later pods cannot take that
    /// space.
    Report,
    /// Evict the victims and place the pod.
    Apply,
    /// Do not try preemption.
    Off,
}

/// Amount of detail about nodes for each decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Detail {
    /// Every node's filter result and scores; large output on clusters with many nodes.
    Full,
    /// The number of nodes per rejection reason.
    Brief,
    /// No information about nodes.
    None,
}

/// Options for decisions and for the detail of their reports.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How to choose among nodes with the same best score.
    pub tie_break: TieBreak,
    /// The seed of random tie-breaking.
    pub seed: Seed,
    /// What to do when preemption would help.
    pub preemption: PreemptionMode,
    /// The detail about nodes.
    pub detail: Detail,
}

/// Schedules pods in a [`World`].
pub struct Decider {
    world: World,
    /// The profiles by name, in the order of the configuration; at least one.
    profiles: Vec<(String, Framework)>,
    rules: Rules,
    /// Cached decisions, used if the report needs only the node.
    decisions: DecisionCache,
    /// Evicted pods with the nodes and states they had.
    gone: Vec<(Arc<PodInfo>, Symbol, PodState)>,
    /// Uids of reported victims that are not evicted.
    promised: BTreeSet<Uid>,
    /// The pods that the reported victims would make room for; they are nominated meanwhile.
    nominated: Vec<Arc<PodInfo>>,
}

/// A decision with its counts and victims.
pub struct Decided {
    /// The decision.
    pub decision: Decision,
    /// Its counts.
    pub counts: Counts,
    /// Uids of the pods evicted for it.
    pub evicted: Vec<Uid>,
}

impl Decider {
    /// Returns a decider; there is at least one profile.
    pub fn new(world: World, profiles: Vec<(String, Framework)>, rules: Rules) -> Self {
        assert!(!profiles.is_empty(), "a configuration has a profile");
        Self {
            world,
            profiles,
            rules,
            decisions: DecisionCache::default(),
            gone: Vec::new(),
            promised: BTreeSet::new(),
            nominated: Vec::new(),
        }
    }

    /// Returns whether preemption victims are evicted, not only reported.
    pub fn applies_preemption(&self) -> bool {
        self.rules.preemption == PreemptionMode::Apply
    }

    /// Returns the current world.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Returns the current world for changes.
    pub fn world_mut(&mut self) -> &mut World {
        &mut self.world
    }

    /// Returns the profiles by name.
    pub fn profiles(&self) -> &[(String, Framework)] {
        &self.profiles
    }

    /// Returns the world and the profile for this scheduler name, for questions about a decision.
    pub fn asked(&mut self, scheduler: &str) -> (&mut World, &Framework) {
        (&mut self.world, profile_of(&self.profiles, scheduler))
    }

    /// Reverts the decisions about these pods, so that they can be scheduled again with other profiles.
    pub fn begin_again(&mut self, pods: &[Arc<PodInfo>], profiles: Vec<(String, Framework)>) {
        assert!(!profiles.is_empty(), "a configuration has a profile");
        for pod in pods {
            self.world.cache.remove_pod(&pod.uid);
            self.world.cache.forget_volumes(&pod.uid);
            self.world.cache.nominate(pod, pod.nominated_node);
        }
        for (pod, node, state) in self.gone.drain(..) {
            if !pods.iter().any(|other| other.uid == pod.uid) {
                self.world.cache.place(&pod, node, state);
            }
        }
        (self.profiles, self.decisions) = (profiles, DecisionCache::default());
        self.forget_promises();
    }

    /// Withdraws the nominations of pods whose victims were only reported. Call when all pods are decided.
    pub fn forget_promises(&mut self) {
        self.promised.clear();
        for pod in self.nominated.drain(..) {
            self.world.cache.nominate(&pod, pod.nominated_node);
        }
    }

    /// Decides about a pod and assumes it on the chosen node.
    pub fn decide(&mut self, pod: &Arc<PodInfo>, has_ended: bool) -> Decided {
        let key = format!("{}/{}", self.world.tables.text(pod.namespace), pod.name);
        let nodes = match self.rules.detail {
            Detail::Full => Nodes::default(),
            Detail::Brief => Nodes::Brief { counts: BTreeMap::new() },
            Detail::None => Nodes::Untold {},
        };
        let mut decided = Decided {
            decision: Decision { pod: key, nodes, ..Decision::default() },
            counts: Counts::default(),
            evicted: Vec::new(),
        };
        let decision = &mut decided.decision;
        if let Some(node) = pod.node_name {
            decision.node = Some(self.world.tables.text(node).to_owned());
            if !has_ended {
                self.world.cache.place(pod, node, PodState::Added);
            }
        } else if pod.deleting {
            let text = format!("skip schedule deleting pod: {}", decision.pod);
            (decision.message, decision.event) = (Some(text.clone()), Some(text));
            self.world.cache.forget_nomination(&pod.uid);
        } else if let Some(gated) = scheduling_gates::pre_enqueue(pod, &self.world.tables) {
            decision.message = Some(gated.message());
        } else {
            self.attempt(pod, &mut decided);
        }
        decided
    }

    fn attempt(&mut self, pod: &Arc<PodInfo>, decided: &mut Decided) {
        self.world.cache.refresh();
        let snapshot = self.world.cache.snapshot(&self.world.tables);
        decided.counts.nodes = snapshot.nodes().len();
        if snapshot.nodes().is_empty() {
            let text = || Some(NO_NODES.to_owned());
            (decided.decision.message, decided.decision.event) = (text(), text());
            return;
        }
        let told = Told { snapshot, rules: self.rules };
        let framework = profile_of(&self.profiles, snapshot.text(pod.scheduler_name));
        if self.rules.is_quick()
            && let Some(mut quick) = framework.decide_cached(&mut self.decisions, pod, snapshot, &mut NoProbe)
        {
            let node = quick.choose(self.rules.seed, pod, ATTEMPT);
            if let Some(reservations) = quick.reserve(snapshot, node) {
                decided.counts.feasible = quick.len();
                let choice = Choice { node: snapshot.node_info(node).name, reservations };
                return self.place(pod, choice, decided);
            }
        }
        let options = self.rules.options(&mut self.world.walk);
        match framework.decide(pod, snapshot, options, &mut NoProbe) {
            Err(error) => tell_error(&mut decided.decision, &error),
            Ok(Verdict::Feasible(mut feasible)) => {
                self.rules.score_single(framework, pod, snapshot, &mut feasible);
                told.feasible(&feasible, decided);
                let node = told.winner(&feasible, pod);
                decided.counts.total = total_of(&feasible, node);
                match told.choice(&feasible, node) {
                    Ok(choice) => self.place(pod, choice, decided),
                    Err(text) => {
                        (decided.decision.message, decided.decision.event) = (Some(text.clone()), Some(text));
                    }
                }
            }
            Ok(Verdict::Infeasible(filtered)) => {
                told.filters(&filtered, &mut decided.decision);
                let diagnosis = filtered.diagnose(snapshot);
                let mut event = diagnosis.message.clone();
                let mut way = None;
                if self.rules.preemption != PreemptionMode::Off {
                    let failed =
                        InfeasibleDecision { pod, snapshot, filtered: &filtered, diagnosis: &diagnosis };
                    let draws = self.rules.draws();
                    // `name` is compared with recorded decisions of upstream, whose dry run ignores host ports.
                    let outcome = match self.rules.tie_break {
                        TieBreak::Name => framework.post_filter(failed, draws, NOW, &mut NoProbe),
                        TieBreak::Seeded => {
                            framework.find_room(failed, (draws, NOW), ExtenderCandidates::Free, &mut NoProbe)
                        }
                    };
                    event = outcome.complete(&diagnosis.message);
                    way = told.way_out(&outcome.nomination, pod, &self.promised);
                }
                decided.decision.message = Some(diagnosis.message);
                decided.decision.event = Some(event);
                decided.decision.preemption = way.as_ref().map(|way| way.told.clone());
                match way {
                    Some(way) if self.rules.preemption == PreemptionMode::Apply => {
                        self.preempt(pod, way, decided);
                    }
                    // `name` is compared with recorded decisions that were each made independently.
                    Some(way) if self.rules.tie_break == TieBreak::Seeded => self.promise(pod, way),
                    _ => {}
                }
            }
        }
    }

    fn place(&mut self, pod: &Arc<PodInfo>, choice: Choice, decided: &mut Decided) {
        decided.decision.node = Some(self.world.tables.text(choice.node).to_owned());
        // `name` is compared with recorded decisions that keep the nomination of a placed pod.
        if self.rules.tie_break == TieBreak::Seeded {
            self.world.cache.forget_nomination(&pod.uid);
        }
        self.world.cache.place(pod, choice.node, PodState::Assumed);
        self.world.cache.assume_volumes(&pod.uid, choice.reservations);
    }

    /// Nominates the pod to the node as the scheduler would, so that later pods do not get the space. The victims
    /// stay.
    fn promise(&mut self, pod: &Arc<PodInfo>, way: WayOut) {
        for uid in &way.overtaken {
            self.world.cache.forget_nomination(uid);
        }
        self.promised.extend(way.victims);
        let nominated = Arc::new(PodInfo { nominated_node: Some(way.node), ..PodInfo::clone(pod) });
        self.world.cache.nominate(&nominated, nominated.nominated_node);
        self.nominated.push(Arc::clone(pod));
    }

    /// Evicts the victims, withdraws nominations of pods with lower priority, and tries the pod on its node again.
    fn preempt(&mut self, pod: &Arc<PodInfo>, way: WayOut, decided: &mut Decided) {
        for uid in &way.victims {
            self.gone.extend(self.world.cache.remove_pod(uid));
        }
        for uid in &way.overtaken {
            self.world.cache.forget_nomination(uid);
        }
        decided.evicted = way.victims;
        let nominated = Arc::new(PodInfo { nominated_node: Some(way.node), ..PodInfo::clone(pod) });
        self.world.cache.nominate(&nominated, nominated.nominated_node);
        self.world.cache.refresh();
        let snapshot = self.world.cache.snapshot(&self.world.tables);
        let framework = profile_of(&self.profiles, snapshot.text(pod.scheduler_name));
        let options = Options { walk: Some(&mut self.world.walk), ..Options::default() };
        let again = framework.decide(&nominated, snapshot, options, &mut NoProbe);
        if let Ok(Verdict::Feasible(feasible)) = again {
            let told = Told { snapshot, rules: self.rules };
            if let Ok(choice) = told.choice(&feasible, told.winner(&feasible, &nominated)) {
                self.world.cache.forget_nomination(&pod.uid);
                self.place(pod, choice, decided);
            }
        }
    }
}

impl Rules {
    fn options(self, walk: &mut Walk) -> Options<'_> {
        Options {
            // `name` is compared with recorded decisions that also score a single feasible node.
            always_score: self.tie_break == TieBreak::Name,
            ignore_own_nomination: self.tie_break == TieBreak::Name,
            walk: Some(walk),
        }
    }

    /// Scores a single feasible node, for display only. The scheduler skips scoring there, so an error of a plugin is
    /// ignored.
    fn score_single(
        self,
        framework: &Framework,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        feasible: &mut Feasible,
    ) {
        if self.detail == Detail::Full && feasible.scores.is_none() {
            let nodes = feasible.filtered.feasible();
            feasible.scores = framework.score(pod, snapshot, nodes, &mut NoProbe).ok();
        }
    }

    /// Returns whether the report needs only the node, so that cached decisions suffice.
    fn is_quick(self) -> bool {
        self.detail == Detail::None && self.tie_break == TieBreak::Seeded
    }

    fn draws(self) -> Draws {
        Draws { seed: self.seed, attempt: ATTEMPT }
    }
}

/// Returns the profile with this name, else `default-scheduler`, else the first.
pub fn profile_of<'a>(profiles: &'a [(String, Framework)], name: &str) -> &'a Framework {
    let named = |name: &str| profiles.iter().find(|(own, _)| own == name);
    let (_, framework) = named(name).or_else(|| named("default-scheduler")).unwrap_or(&profiles[0]);
    framework
}

/// The chosen node and the volumes to reserve there.
struct Choice {
    node: Symbol,
    reservations: Vec<Reservation>,
}

/// A way to place a pod by preemption.
struct WayOut {
    told: Preemption,
    node: Symbol,
    victims: Vec<Uid>,
    /// Uids of pods with lower priority that are nominated to the node.
    overtaken: Vec<Uid>,
}

/// Converts results of the engine into report entries.
#[derive(Clone, Copy)]
struct Told<'a> {
    snapshot: Snapshot<'a>,
    rules: Rules,
}

impl<'a> Told<'a> {
    fn name(self, node: NodeIdx) -> &'a str {
        self.snapshot.text(self.snapshot.node_info(node).name)
    }

    fn winner(self, feasible: &Feasible, pod: &PodInfo) -> NodeIdx {
        match self.rules.tie_break {
            TieBreak::Seeded => feasible.choose(self.rules.seed, pod, ATTEMPT),
            TieBreak::Name => {
                let winners = feasible.winners().into_iter();
                winners.min_by_key(|&node| self.name(node)).expect("a feasible pod has a best node")
            }
        }
    }

    /// Returns the reservations for the node, or the message that says why they fail.
    fn choice(self, feasible: &Feasible, node: NodeIdx) -> Result<Choice, String> {
        let reserved = feasible.filtered.reserve(self.snapshot, node);
        let reservations = reserved.map_err(|(_, rejection)| {
            format!("0/{} nodes are available: 1 {}.", self.snapshot.nodes().len(), rejection.message())
        })?;
        Ok(Choice { node: self.snapshot.node_info(node).name, reservations })
    }

    fn way_out(self, nomination: &Nomination<'_>, pod: &PodInfo, promised: &BTreeSet<Uid>) -> Option<WayOut> {
        let Candidate { node, victims, .. } = match (self.rules.tie_break, nomination) {
            (TieBreak::Name, Nomination::To(candidates)) => {
                candidates.iter().min_by_key(|candidate| self.name(candidate.node))
            }
            _ => nomination.choose(pod, self.rules.draws()),
        }?;
        let overtaken = self.snapshot.nominated_on(*node).iter();
        let overtaken = overtaken.filter(|other| other.priority < pod.priority);
        // Pods that are already being evicted are not reported as victims (upstream
        // `pkg/scheduler/framework/preemption/executor.go`).
        let told = victims.iter().filter(|victim| !victim.deleting && !promised.contains(&victim.uid));
        let mut keys: Vec<String> = told.map(|victim| self.snapshot.pod_key(victim)).collect();
        keys.sort_unstable();
        Some(WayOut {
            told: Preemption { nominated_node: self.name(*node).to_owned(), victims: keys },
            node: self.snapshot.node_info(*node).name,
            victims: victims.iter().map(|victim| Arc::clone(&victim.uid)).collect(),
            overtaken: overtaken.map(|other| Arc::clone(&other.uid)).collect(),
        })
    }

    fn filters(self, filtered: &Filtered, decision: &mut Decision) {
        if let Some((plugin, rejection)) = filtered.prefilter_rejection() {
            decision.pre_filter = Some(rejected(plugin, rejection.code.as_str(), &rejection.reasons));
            return;
        }
        let verdicts = filtered.verdicts(self.snapshot);
        match &mut decision.nodes {
            Nodes::Full { rejected: by_node, feasible, .. } => {
                for verdict in verdicts {
                    let told = rejected(verdict.plugin, verdict.code.as_str(), &verdict.reasons);
                    by_node.insert(self.name(verdict.node).to_owned(), told);
                }
                feasible.extend(filtered.feasible().iter().map(|node| self.name(node).to_owned()));
                feasible.sort_unstable();
            }
            Nodes::Brief { counts } => {
                for reason in verdicts.iter().flat_map(|verdict| &verdict.reasons) {
                    match counts.get_mut(reason.as_ref()) {
                        Some(count) => *count += 1,
                        None => drop(counts.insert(reason.to_string(), 1)),
                    }
                }
            }
            Nodes::Untold {} => {}
        }
    }

    fn feasible(self, feasible: &Feasible, decided: &mut Decided) {
        self.filters(&feasible.filtered, &mut decided.decision);
        decided.counts.feasible = feasible.filtered.feasible().len();
        let Nodes::Full { scores, totals, .. } = &mut decided.decision.nodes else { return };
        let Some(Scores { plugins, totals: sums }) = &feasible.scores else { return };
        for (at, node) in feasible.filtered.feasible().iter().enumerate() {
            let by_plugin = plugins.iter().map(|it| (it.plugin, it.normalized[at] * it.weight));
            scores.insert(self.name(node).to_owned(), by_plugin.collect());
            totals.insert(self.name(node).to_owned(), sums[at]);
        }
    }
}

fn rejected(plugin: &str, code: &'static str, reasons: &[Reason]) -> Rejected {
    let mut reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    reasons.sort_unstable();
    Rejected { plugin: plugin.to_owned(), code, reasons }
}

fn total_of(feasible: &Feasible, node: NodeIdx) -> Option<i64> {
    let at = feasible.filtered.feasible().iter().position(|other| other == node)?;
    feasible.scores.as_ref().map(|scores| scores.totals[at])
}

/// Reports an error: for a PreFilter plugin with the plugin's own entry, for a Filter plugin as text only.
fn tell_error(decision: &mut Decision, CycleError(text): &CycleError) {
    let plugin = text.strip_prefix("running PreFilter plugin \"").and_then(|rest| rest.split_once('"'));
    decision.pre_filter = plugin.map(|(plugin, _)| Rejected {
        plugin: plugin.to_owned(),
        code: "Error",
        reasons: vec![text.clone()],
    });
    (decision.message, decision.event) = (Some(text.clone()), Some(text.clone()));
}
