//! Schedules pods one after another with the scheduler's own decisions; each placed pod counts for the next one.
//!
//! There is no queue: pods are scheduled in the given order, the members of a group together.

use crate::explain::device_claims::publish;
use crate::simulate::decision::{Counts, Decision, Nodes, OfGroup, OfPlacement, Preemption, Rejected};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use supercargo_core::cache::Snapshot;
use supercargo_core::cycle::{Decision as Verdict, Evaluation, Feasible, Filtered, NoProbe, Probe, Scores};
use supercargo_core::framework::Reason;
use supercargo_core::framework::post_filter::Deallocated;
use supercargo_core::model::device::ResourceClaim;
use supercargo_core::model::group::GroupKey;
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::{PodInfo, Uid};
use supercargo_core::model::rng::Seed;
use supercargo_core::plugins::scheduling_gates;
use supercargo_core::report::group::GroupOutcome;
use supercargo_core::scheduler::{
    GroupDecision, Profile, Room, Trial, TrialDecision, TrialMark, TrialOptions,
};
use supercargo_objects::convert::allocation::claims_json;

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

/// Schedules pods in a [`Trial`].
pub struct Decider {
    trial: Trial,
    rules: Rules,
    /// The state before the first decision.
    start: TrialMark,
    /// Uids of reported victims that are not evicted.
    promised: BTreeSet<Uid>,
    /// The pods that the reported victims would make room for; they are nominated meanwhile.
    nominated: Vec<Arc<PodInfo>>,
}

/// Pods that are decided together.
#[derive(Clone, Debug)]
pub enum Turn {
    /// A pod, and whether it has ended.
    Pod(Arc<PodInfo>, bool),
    /// The members of a group that have no node.
    Group(GroupKey, Vec<Arc<PodInfo>>),
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
    /// Returns a decider that decides in this cluster.
    pub fn new(mut trial: Trial, rules: Rules) -> Self {
        trial.set_seed(rules.seed);
        let start = trial.mark();
        Self { trial, rules, start, promised: BTreeSet::new(), nominated: Vec::new() }
    }

    /// Returns whether preemption victims are evicted, not only reported.
    pub fn applies_preemption(&self) -> bool {
        self.rules.preemption == PreemptionMode::Apply
    }

    /// Returns the cluster in its current state.
    pub fn trial(&self) -> &Trial {
        &self.trial
    }

    /// Returns the cluster for questions, which revert their changes.
    pub fn trial_mut(&mut self) -> &mut Trial {
        &mut self.trial
    }

    /// Reverts all decisions, so that the pods can be scheduled again with other profiles.
    pub fn begin_again(&mut self, profiles: Vec<Profile>) {
        self.trial.roll_back_to(self.start);
        self.trial.set_profiles(profiles);
        self.promised.clear();
        self.nominated.clear();
    }

    /// Withdraws the nominations of pods whose victims were only reported. Call when all pods are decided.
    pub fn forget_promises(&mut self) {
        self.promised.clear();
        for pod in self.nominated.drain(..) {
            self.trial.nominate(&pod, pod.nominated_node);
        }
    }

    /// Decides about a pod that is in no group, and assumes it on the chosen node.
    fn decide(&mut self, pod: &Arc<PodInfo>, has_ended: bool) -> Decided {
        let nodes = match self.rules.detail {
            Detail::Full => Nodes::default(),
            Detail::Brief => Nodes::Brief { counts: BTreeMap::new() },
            Detail::None => Nodes::Omitted {},
        };
        let key = self.trial.snapshot().pod_key(pod);
        let mut decided = Decided {
            decision: Decision { pod: key, nodes, ..Decision::default() },
            counts: Counts::default(),
            evicted: Vec::new(),
        };
        let decision = &mut decided.decision;
        if let Some(node) = pod.node_name {
            decision.node = Some(self.trial.tables().text(node).to_owned());
            if !has_ended {
                self.trial.place_pod(pod, node);
            }
        } else if pod.deleting {
            let text = format!("skip schedule deleting pod: {}", decision.pod);
            (decision.message, decision.event) = (Some(text.clone()), Some(text));
            self.trial.nominate(pod, None);
        } else if self.trial.framework(pod).gate(pod, self.trial.snapshot()) == Some(scheduling_gates::NAME) {
            let gated = scheduling_gates::pre_enqueue(pod, self.trial.tables());
            decision.message = gated.map(|gated| gated.message());
        } else {
            self.attempt(pod, &mut decided);
        }
        decided
    }

    /// Returns the order of decisions: pods one by one, and the members of a group together, when the first of them has
    /// its turn. Each pod comes with whether it has ended.
    pub fn turns<'a>(&self, pods: impl IntoIterator<Item = (&'a Arc<PodInfo>, bool)>) -> Vec<Turn> {
        let mut turns = Vec::new();
        let mut at_of: BTreeMap<GroupKey, usize> = BTreeMap::new();
        for (pod, has_ended) in pods {
            match self.group_of(pod, has_ended) {
                None => turns.push(Turn::Pod(Arc::clone(pod), has_ended)),
                Some(key) => {
                    let at = *at_of.entry(key).or_insert_with(|| {
                        turns.push(Turn::Group(key, Vec::new()));
                        turns.len() - 1
                    });
                    if let Turn::Group(_, members) = &mut turns[at] {
                        members.push(Arc::clone(pod));
                    }
                }
            }
        }
        turns
    }

    /// Decides about the pods of a turn, and assumes them on the chosen nodes.
    pub fn decide_turn(&mut self, turn: &Turn) -> Vec<(Arc<PodInfo>, Decided)> {
        match turn {
            Turn::Pod(pod, has_ended) => vec![(Arc::clone(pod), self.decide(pod, *has_ended))],
            Turn::Group(key, pods) => self.decide_group(*key, pods),
        }
    }

    /// Returns the group with whose other members a pod is decided.
    fn group_of(&self, pod: &PodInfo, has_ended: bool) -> Option<GroupKey> {
        let is_tried = pod.node_name.is_none()
            && !has_ended
            && !pod.deleting
            && self.trial.framework(pod).gate(pod, self.trial.snapshot()) != Some(scheduling_gates::NAME);
        pod.group_key().filter(|_| is_tried)
    }

    /// Decides about the members of a group that have no node, and assumes them if the group starts.
    fn decide_group(&mut self, key: GroupKey, pods: &[Arc<PodInfo>]) -> Vec<(Arc<PodInfo>, Decided)> {
        let nodes = self.trial.refreshed().nodes().len();
        let options = self.rules.options();
        let first = self.trial.decide_group(key, pods, options, &mut NoProbe);
        let is_waiting = first.outcome == GroupOutcome::WaitingForPreemption;
        let of_group = self.of_group(key, &first);
        let mut evicted = Vec::new();
        let found = if is_waiting && self.applies_preemption() {
            for uid in &first.victims {
                self.trial.remove_pod(uid);
            }
            evicted = first.victims;
            let options = TrialOptions { preempts: false, is_comparable: false, ..options };
            self.trial.decide_group(key, pods, options, &mut NoProbe)
        } else {
            first
        };
        let victims = found.victims;
        let members = found.members.into_iter().map(|(pod, member)| {
            let mut decided = Decided {
                decision: Decision {
                    pod: self.trial.snapshot().pod_key(&pod),
                    nodes: Nodes::Omitted {},
                    group: Some(of_group.clone()),
                    ..Decision::default()
                },
                counts: Counts { nodes, ..Counts::default() },
                evicted: std::mem::take(&mut evicted),
            };
            self.record(&pod, member, &mut decided);
            (pod, decided)
        });
        let members = members.collect();
        // They make room for this group; the report names them for no later pod.
        if self.rules.tie_break == TieBreak::Seeded {
            self.promised.extend(victims);
        }
        members
    }

    fn of_group(&self, key: GroupKey, found: &GroupDecision) -> OfGroup {
        let tables = self.trial.tables();
        let placements = found.placements.iter().map(|it| OfPlacement {
            name: it.name.clone(),
            nodes: it.nodes,
            members: it.members.len(),
            status: it.status.clone(),
            score: it.total(),
        });
        OfGroup {
            name: format!("{}/{}", tables.text(key.namespace), tables.text(key.name)),
            result: found.outcome.as_str(),
            status: found.status.clone(),
            placement: found.chosen.clone(),
            placements: placements.collect(),
            victims: self.names_of(&found.victims),
        }
    }

    /// Records what was decided about a pod, without preemption by it.
    fn record(&mut self, pod: &Arc<PodInfo>, member: TrialDecision, decided: &mut Decided) {
        let Decided { decision, counts, .. } = decided;
        match member {
            TrialDecision::Placed { node, feasible, score } => {
                counts.feasible = feasible;
                counts.total = score.or(counts.total);
                decision.node = Some(self.trial.tables().text(node).to_owned());
                decision.claims = claims_json(self.trial.tables(), self.trial.reservations_of(&pod.uid));
                // Recorded decisions were each made while the claims of the earlier ones were in flight.
                if self.rules.tie_break == TieBreak::Seeded {
                    publish(&mut self.trial, pod);
                }
            }
            TrialDecision::Unplaced { message, event, room, deallocated } => {
                (decision.message, decision.event) = (Some(message), Some(event));
                self.report_deallocated(deallocated.as_deref(), decision);
                decision.preemption = room.as_ref().map(|room| self.preemption(room));
                if let Some(room) = room.filter(|_| self.rules.tie_break == TieBreak::Seeded) {
                    // `name` is compared with recorded decisions that were each made independently.
                    self.promise(pod, room);
                }
            }
            TrialDecision::Failed(text) => tell_error(decision, text),
        }
    }

    fn attempt(&mut self, pod: &Arc<PodInfo>, decided: &mut Decided) {
        let Decided { decision, counts, .. } = decided;
        counts.nodes = self.trial.refreshed().nodes().len();
        let mut shown = Shown { rules: self.rules, decision, counts };
        let found = self.trial.decide(pod, self.rules.options(), &mut shown);
        match found {
            TrialDecision::Unplaced { message, event, room: Some(room), deallocated }
                if self.applies_preemption() =>
            {
                let unplaced = TrialDecision::Unplaced { message, event, room: None, deallocated };
                self.record(pod, unplaced, decided);
                decided.decision.preemption = Some(self.preemption(&room));
                self.preempt(pod, room, decided);
            }
            other => self.record(pod, other, decided),
        }
    }

    /// Reports the claims that may be freed or deleted.
    fn report_deallocated(&self, deallocated: Option<&Deallocated>, decision: &mut Decision) {
        let Some(Deallocated { candidates, deletes, .. }) = deallocated else { return };
        let tables = self.trial.tables();
        let key = |it: &Arc<ResourceClaim>| format!("{}/{}", tables.text(it.namespace), tables.text(it.name));
        let mut keys: Vec<String> = candidates.iter().map(key).collect();
        keys.sort_unstable();
        if *deletes {
            decision.deletes = keys;
        } else {
            decision.deallocates = keys;
        }
    }

    fn preemption(&self, room: &Room) -> Preemption {
        let nominated_node = self.trial.tables().text(room.node).to_owned();
        Preemption { nominated_node, victims: self.names_of(&room.victims) }
    }

    /// Returns `namespace/name` of the victims, sorted. Pods that are already being evicted are left out (upstream
    /// `pkg/scheduler/framework/preemption/executor.go`).
    fn names_of(&self, victims: &[Uid]) -> Vec<String> {
        let pods = victims.iter().filter_map(|uid| self.trial.placement(uid));
        let pods = pods.filter(|(pod, _)| !pod.deleting && !self.promised.contains(&pod.uid));
        let mut names: Vec<String> = pods.map(|(pod, _)| self.trial.snapshot().pod_key(pod)).collect();
        names.sort_unstable();
        names
    }

    /// Nominates the pod to the node as the scheduler would, so that later pods do not get the space. The victims
    /// stay.
    fn promise(&mut self, pod: &Arc<PodInfo>, room: Room) {
        self.trial.nominate_to_room(pod, &room);
        self.promised.extend(room.victims);
        self.nominated.push(Arc::clone(pod));
    }

    /// Evicts the victims and tries the pod on its node again.
    fn preempt(&mut self, pod: &Arc<PodInfo>, room: Room, decided: &mut Decided) {
        for uid in &room.victims {
            self.trial.remove_pod(uid);
        }
        self.trial.nominate_to_room(pod, &room);
        decided.evicted = room.victims;
        let options = TrialOptions { preempts: false, is_comparable: false, ..self.rules.options() };
        if let TrialDecision::Placed { node, .. } = self.trial.decide(pod, options, &mut NoProbe) {
            decided.decision.node = Some(self.trial.tables().text(node).to_owned());
        }
    }
}

impl Rules {
    fn options(self) -> TrialOptions {
        TrialOptions {
            // A report without nodes needs no full evaluation.
            uses_caches: self.detail == Detail::None,
            preempts: self.preemption != PreemptionMode::Off,
            is_comparable: self.tie_break == TieBreak::Name,
        }
    }
}

/// Copies the full evaluation of a decision into its report.
struct Shown<'a> {
    rules: Rules,
    decision: &'a mut Decision,
    counts: &'a mut Counts,
}

impl Probe for Shown<'_> {
    fn evaluated(&mut self, evaluation: &Evaluation<'_>) {
        let builder = EntryBuilder { snapshot: evaluation.snapshot };
        match evaluation.decision {
            Verdict::Feasible(feasible) => {
                builder.filters(&feasible.filtered, self.decision);
                self.counts.feasible = feasible.filtered.feasible().len();
                match (&feasible.scores, self.rules.detail) {
                    (Some(scores), _) => builder.scores(feasible, scores, self.decision),
                    // The scheduler does not score a single feasible node. It is scored for display only, so an error
                    // of a plugin is ignored.
                    (None, Detail::Full) => {
                        let Evaluation { framework, pod, snapshot, .. } = *evaluation;
                        let nodes = feasible.filtered.feasible();
                        if let Ok(scores) = framework.score(pod, snapshot, nodes, &mut NoProbe) {
                            builder.scores(feasible, &scores, self.decision);
                            self.counts.total = scores.totals.first().copied();
                        }
                    }
                    (None, Detail::Brief | Detail::None) => {}
                }
            }
            Verdict::Infeasible(filtered) => builder.filters(filtered, self.decision),
        }
    }
}

/// Converts results of the engine into report entries.
#[derive(Clone, Copy)]
struct EntryBuilder<'a> {
    snapshot: Snapshot<'a>,
}

impl<'a> EntryBuilder<'a> {
    fn name(self, node: NodeIdx) -> &'a str {
        self.snapshot.text(self.snapshot.node_info(node).name)
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
                    let rejection = rejected(verdict.plugin, verdict.code.as_str(), &verdict.reasons);
                    by_node.insert(self.name(verdict.node).to_owned(), rejection);
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
            Nodes::Omitted {} => {}
        }
    }

    fn scores(self, feasible: &Feasible, of: &Scores, decision: &mut Decision) {
        let Nodes::Full { scores, totals, .. } = &mut decision.nodes else { return };
        for (at, node) in feasible.filtered.feasible().iter().enumerate() {
            let by_plugin = of.plugins.iter().map(|it| (it.plugin, it.normalized[at] * it.weight));
            scores.insert(self.name(node).to_owned(), by_plugin.collect());
            totals.insert(self.name(node).to_owned(), of.totals[at]);
        }
    }
}

fn rejected(plugin: &str, code: &'static str, reasons: &[Reason]) -> Rejected {
    let mut reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    reasons.sort_unstable();
    Rejected { plugin: plugin.to_owned(), code, reasons }
}

/// Reports an error: for a PreFilter plugin with the plugin's own entry, for a Filter plugin as text only.
fn tell_error(decision: &mut Decision, text: String) {
    let plugin = text.strip_prefix("running PreFilter plugin \"").and_then(|rest| rest.split_once('"'));
    decision.pre_filter = plugin.map(|(plugin, _)| Rejected {
        plugin: plugin.to_owned(),
        code: "Error",
        reasons: vec![text.clone()],
    });
    (decision.message, decision.event) = (Some(text.clone()), Some(text));
}
