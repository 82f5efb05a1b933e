//! Builds the report of a cluster: records each state, places pods in between, and finally explains pending
//! pods and decisions.

use crate::cluster::{Cluster, is_ours};
use crate::commands::report::args::ReportArgs;
use crate::commands::report::columns::{
    Counted, Makers, Numbers, Order, People, PodsByUid, Register, nodes, pods_by_uid,
};
use crate::commands::report::model::{
    API_VERSION, KIND, Report, Rest, Row, Scored, Simulated, Skew, Step, Waiting,
};
use crate::commands::report::planned::PlannedMove;
use crate::commands::report::skew::{self, Found};
use crate::commands::simulate::progress::Progress;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use supercargo_core::collections::hash::FixedMap;
use supercargo_core::model::group::GroupKey;
use supercargo_core::model::pod::{PodInfo, Uid};
use supercargo_core::model::rng::Seed;
use supercargo_core::model::signature::Signature;
use supercargo_core::scheduler::Trial;
use supercargo_whatif::explain::{
    ExplainedGroup, Explanation, GroupExplanation, NodeScores, Place, Question, Scores, explain,
    explain_group,
};
use supercargo_whatif::load::files::InputError;
use supercargo_whatif::simulate::decide::Detail;
use supercargo_whatif::simulate::decide::TieBreak;
use supercargo_whatif::simulate::decide::{Decider, Rules};

/// Recorded states of a cluster.
pub(super) struct States {
    counted: Counted,
    order: Order,
    found: Vec<Found>,
    makers: Makers,
    pods_by_state: Vec<PodsByUid>,
    registers: Vec<Register>,
    skews: Vec<Vec<Skew>>,
}

impl States {
    /// Records the current state of a cluster.
    pub(super) fn of(cluster: &mut Cluster) -> Self {
        let snapshot = cluster.trial.refreshed();
        let counted = Counted::of(snapshot);
        let pods = cluster.owners.iter().flat_map(|owners| owners.pods.iter().chain(&owners.to_come));
        let found = skew::find(pods.map(|noted| &noted.pod), snapshot);
        let mut states = Self {
            counted,
            order: Order::default(),
            found,
            makers: Makers::new(),
            pods_by_state: Vec::new(),
            registers: Vec::new(),
            skews: Vec::new(),
        };
        states.note_owners(cluster);
        states.note(&mut cluster.trial, &cluster.pending);
        states
    }

    /// Records the owners of all pods, including those to be placed.
    pub(super) fn note_owners(&mut self, cluster: &Cluster) {
        let pods = cluster.owners.iter().flat_map(|owners| owners.pods.iter().chain(&owners.to_come));
        let owned = pods.filter_map(|noted| Some((Arc::clone(&noted.pod.uid), noted.owner.clone()?)));
        self.makers.extend(owned);
    }

    /// Records the current state.
    fn note(&mut self, trial: &mut Trial, waiting: &[Arc<PodInfo>]) {
        self.pods_by_state.push(pods_by_uid(trial, waiting));
        let snapshot = trial.refreshed();
        self.registers.push(self.counted.nodes(snapshot));
        self.order = Order::of(self.registers.iter().flat_map(BTreeMap::keys));
        self.skews.push(self.found.iter().map(|found| skew::skew(found, snapshot)).collect());
    }

    fn last(&self) -> &PodsByUid {
        self.pods_by_state.last().expect("a state was noted")
    }
}

/// A report under construction.
pub(super) struct ReportBuilder<'a> {
    args: &'a ReportArgs,
    decider: Decider,
    states: States,
    notices: Vec<String>,
    /// Pending pods.
    waiting: Vec<Arc<PodInfo>>,
    plugins: Numbers<&'static str>,
    /// Decisions with pod, explanation, score table, and whether the simulation made them.
    decisions: Vec<(Uid, Explanation, Scores, bool)>,
    pending: Vec<(Vec<Arc<PodInfo>>, Explanation)>,
    unexplained: Vec<Arc<PodInfo>>,
    /// Groups with a pending member.
    groups: BTreeMap<GroupKey, ExplainedGroup>,
    simulated: Option<Simulated>,
    /// The steps of the plan, with the uids of their pods.
    moves: Vec<(Uid, PlannedMove)>,
}

impl<'a> ReportBuilder<'a> {
    /// Starts a report of a cluster whose first state is recorded.
    pub(super) fn new(args: &'a ReportArgs, cluster: Cluster, states: States) -> Self {
        let Cluster { trial, pending, notices, .. } = cluster;
        // Scores are computed separately for selected decisions, so the decisions themselves need no details.
        let rules = Rules {
            tie_break: TieBreak::Seeded,
            seed: Seed(args.seed),
            preemption: args.preemption,
            detail: Detail::None,
        };
        Self {
            args,
            decider: Decider::new(trial, rules),
            states,
            notices,
            waiting: pending,
            plugins: Numbers::default(),
            decisions: Vec::new(),
            pending: Vec::new(),
            unexplained: Vec::new(),
            groups: BTreeMap::new(),
            simulated: None,
            moves: Vec::new(),
        }
    }

    /// Moves pods as a plan says, and records the new state. A replacement takes the place of its pod.
    ///
    /// # Errors
    /// Fails if the plan does not match the cluster.
    pub(super) fn carry_out(&mut self, moves: Vec<PlannedMove>) -> Result<(), InputError> {
        let trial = self.decider.trial_mut();
        let mut pods: BTreeMap<String, Arc<PodInfo>> = BTreeMap::new();
        for (pod, _) in self.states.last().values() {
            pods.insert(trial.snapshot().pod_key(pod), Arc::clone(pod));
        }
        for step in moves {
            let wrong = |why: String| {
                InputError(format!("the plan does not match the cluster: step {}: {why}", step.step))
            };
            let pod = pods.get(&step.pod).ok_or_else(|| wrong(format!("there is no pod {}", step.pod)))?;
            let on = trial.placement(&pod.uid).map(|(_, node)| trial.tables().text(node).to_owned());
            if on.as_deref() != Some(&step.from) {
                let on = on.unwrap_or_else(|| "no node".to_owned());
                return Err(wrong(format!("the pod {} is on {on}, and not on {}", step.pod, step.from)));
            }
            let to = trial.tables().find(&step.to).filter(|&to| trial.snapshot().find_node(to).is_some());
            let to = to.ok_or_else(|| wrong(format!("there is no node {}", step.to)))?;
            trial.remove_pod(&pod.uid);
            trial.place_pod(pod, to);
            self.moves.push((Arc::clone(&pod.uid), step));
        }
        self.states.note(self.decider.trial_mut(), &self.waiting);
        Ok(())
    }

    /// Places pods one after another and records the new state.
    pub(super) fn place(&mut self, pods: &[Arc<PodInfo>]) {
        let shown = self.chosen(pods);
        let mut progress = Progress::new(pods.len());
        let mut placed: BTreeMap<Uid, Arc<PodInfo>> = BTreeMap::new();
        let mut evicted = 0;
        let turns = self.decider.turns(pods.iter().map(|pod| (pod, false)));
        for turn in &turns {
            for (pod, decided) in self.decider.decide_turn(turn) {
                let pod = &pod;
                for victim in &decided.evicted {
                    match placed.remove(victim) {
                        // The controller of an evicted pod recreates it, so it becomes pending.
                        Some(pod) => self.waiting.push(pod),
                        None => evicted += 1,
                    }
                }
                match decided.decision.node {
                    Some(node) => {
                        placed.insert(Arc::clone(&pod.uid), Arc::clone(pod));
                        if shown.contains(&pod.uid) {
                            self.score(pod, &node, pod.node_name.is_none());
                        }
                    }
                    None => self.waiting.push(Arc::clone(pod)),
                }
                progress.step();
            }
        }
        progress.clear();
        self.decider.forget_promises();
        self.states.note(self.decider.trial_mut(), &self.waiting);
        let after = self.states.last();
        let nodes: BTreeSet<_> = placed.keys().filter_map(|uid| after.get(uid)?.1).collect();
        let (pods, placed, nodes) = (pods.len(), placed.len(), nodes.len());
        self.simulated = Some(Simulated { pods, placed, evicted, nodes });
    }

    /// Explains pending pods, once per group of identical pods.
    pub(super) fn explain_waiting(&mut self) {
        let mut groups: FixedMap<(Signature, Option<GroupKey>), Vec<Arc<PodInfo>>> = FixedMap::default();
        for pod in &self.waiting {
            groups.entry((Signature::of(pod), pod.group_key())).or_default().push(Arc::clone(pod));
        }
        let mut groups: Vec<Vec<Arc<PodInfo>>> = groups.into_values().collect();
        groups.iter_mut().for_each(|group| group.sort_by(|a, b| a.name.cmp(&b.name)));
        let tables = self.decider.trial().tables();
        let key = |group: &Vec<Arc<PodInfo>>| {
            (Reverse(group.len()), tables.text(group[0].namespace).to_owned(), group[0].name.clone())
        };
        groups.sort_by_cached_key(key);
        let rest = groups.split_off(groups.len().min(self.args.explanations));
        self.unexplained = rest.into_iter().flatten().collect();
        let mut progress = Progress::new(groups.len());
        for group in groups {
            let mut explanation = self.ask(&group[0]);
            self.ask_group(&group[0], &mut explanation);
            if let Some(scores) = explanation.scores.take() {
                self.decisions.push((Arc::clone(&group[0].uid), explanation.clone(), scores, false));
            }
            self.pending.push((group, explanation));
            progress.step();
        }
        progress.clear();
    }

    /// Computes scores for some of the pods that are already placed.
    pub(super) fn score_placed(&mut self) {
        let done: BTreeSet<&str> = self.decisions.iter().map(|(uid, ..)| &**uid).collect();
        let placed = self.states.last().values();
        let placed = placed.filter(|(pod, node)| node.is_some() && !done.contains(&*pod.uid));
        let placed: Vec<Arc<PodInfo>> = placed.map(|(pod, _)| Arc::clone(pod)).collect();
        let shown = self.chosen(&placed);
        let mut progress = Progress::new(shown.len());
        for pod in placed.iter().filter(|pod| shown.contains(&pod.uid)) {
            let trial = self.decider.trial();
            let node = trial.placement(&pod.uid).map(|(_, node)| trial.tables().text(node).to_owned());
            self.score(pod, &node.unwrap_or_default(), false);
            progress.step();
        }
        progress.clear();
    }

    /// Selects the pods to show with scores: one of each owner, owners of most pods first, then others.
    fn chosen(&self, pods: &[Arc<PodInfo>]) -> BTreeSet<Uid> {
        let room = self.args.score_tables.saturating_sub(self.decisions.len());
        let mut by_owner: BTreeMap<_, Vec<&Arc<PodInfo>>> = BTreeMap::new();
        for pod in pods {
            // A pod without owner forms a group of its own.
            let owner = self.states.makers.get(&pod.uid).ok_or(&pod.uid);
            by_owner.entry((pod.namespace, owner)).or_default().push(pod);
        }
        let mut owners: Vec<Vec<&Arc<PodInfo>>> = by_owner.into_values().collect();
        owners.sort_by_key(|pods| Reverse(pods.len()));
        let firsts = owners.iter().map(|pods| pods[0]);
        let others = owners.iter().flat_map(|pods| &pods[1..]).copied();
        firsts.chain(others).take(room).map(|pod| Arc::clone(&pod.uid)).collect()
    }

    /// Explains a pod in the current state.
    fn ask(&mut self, pod: &Arc<PodInfo>) -> Explanation {
        let trial = self.decider.trial_mut();
        let is_ours = is_ours(&self.args.source, trial, trial.tables().text(pod.scheduler_name));
        let owner = self.states.makers.get(&pod.uid).into();
        let question = Question { is_ours, scores: true, owner, ..Question::default() };
        let mut place = Place { trial, pending: &self.waiting };
        explain(&mut place, pod, question)
    }

    /// Explains the group of a pending pod, once, and words the pod's state accordingly.
    fn ask_group(&mut self, pod: &PodInfo, explanation: &mut Explanation) {
        let Some(key) = pod.group_key() else { return };
        let mut place = Place { trial: self.decider.trial_mut(), pending: &self.waiting };
        let group = self.groups.entry(key).or_insert_with(|| explain_group(&mut place, key));
        group.apply_to(pod, explanation);
    }

    /// Adds the scores of a pod that is on this node.
    fn score(&mut self, pod: &Arc<PodInfo>, node: &str, is_made: bool) {
        let node_name = Some(self.decider.trial_mut().tables_mut().symbol(node));
        let mut explanation = self.ask(&Arc::new(PodInfo { node_name, ..PodInfo::clone(pod) }));
        if let Some(scores) = explanation.scores.take() {
            self.decisions.push((Arc::clone(&pod.uid), explanation, scores, is_made));
        }
    }

    /// Returns the report.
    pub(super) fn finish(self, source: String, made_at: String) -> Report {
        let States { counted, order, mut found, makers, pods_by_state, registers, skews } = self.states;
        let snapshot = self.decider.trial().snapshot();
        let people = People::of(&counted, &order, snapshot.tables(), &pods_by_state, &makers);
        let (nodes, zones) = nodes(&counted, &order, &registers);
        let (mut spread, spread_left_out) = skew::entries(&mut found, &people, snapshot);
        for (at, spread) in spread.iter_mut().enumerate() {
            spread.states = skews.iter().map(|skews| skews[at].clone()).collect();
        }
        let numbers = |pods: &[Arc<PodInfo>]| pods.iter().filter_map(|pod| people.number(&pod.uid)).collect();
        let pending = self.pending.into_iter();
        let pending =
            pending.map(|(pods, explanation)| Waiting { pods: numbers(&pods), explanation }).collect();
        let mut groups: Vec<GroupExplanation> =
            self.groups.into_values().map(|group| group.explanation).collect();
        groups.sort_by(|a, b| a.group.cmp(&b.group));
        let mut plugins = self.plugins;
        let mut decisions: Vec<Scored> = Vec::with_capacity(self.decisions.len());
        for (uid, explanation, scores, is_made) in self.decisions {
            let pod = people.number(&uid);
            decisions.extend(pod.map(|pod| scored(pod, &explanation, scores, is_made, &order, &mut plugins)));
        }
        decisions.sort_by_key(|scored| scored.pod);
        let step = |(uid, step): (Uid, PlannedMove)| {
            let (from, to) = (order.number(&step.from)?, order.number(&step.to)?);
            Some(Step { step: step.step, pod: people.number(&uid)?, from, to, why: step.why })
        };
        let moves = self.moves.into_iter().filter_map(step).collect();
        Report {
            api_version: API_VERSION,
            kind: KIND,
            made_by: format!("supercargo {}", env!("CARGO_PKG_VERSION")),
            made_at,
            source,
            notices: self.notices,
            states: if pods_by_state.len() == 1 { vec!["now"] } else { vec!["before", "after"] },
            resources: counted.resources,
            zones,
            nodes,
            unexplained: numbers(&self.unexplained),
            namespaces: people.namespaces,
            owners: people.owners,
            requests: people.requests,
            pods: people.pods,
            spread,
            spread_left_out,
            pending,
            groups,
            simulated: self.simulated,
            moves,
            plugins: plugins.into_list(),
            decisions,
        }
    }
}

/// Converts a decision into its form in the report.
fn scored(
    pod: u32,
    explanation: &Explanation,
    scores: Scores,
    is_made: bool,
    order: &Order,
    known: &mut Numbers<&'static str>,
) -> Scored {
    let Scores { nodes, left_out, winners, margin, decided_by, .. } = scores;
    let plugins = nodes.first().map_or(&[][..], |node| &node.plugins);
    let row = |node: &NodeScores| {
        Some(Row {
            node: order.number(&node.node)?,
            total: node.total,
            raw: node.plugins.iter().map(|of| of.raw).collect(),
            normalized: node.plugins.iter().map(|of| of.normalized).collect(),
        })
    };
    let reasons = explanation.reasons.iter();
    Scored {
        pod,
        node: explanation.node.as_ref().and_then(|node| order.number(node)),
        is_made,
        fits_on: explanation.fits_on,
        winners: winners.len(),
        margin,
        decided_by,
        left_out,
        plugins: plugins.iter().map(|of| known.of(of.plugin)).collect(),
        weights: plugins.iter().map(|of| of.weight).collect(),
        nodes: nodes.iter().filter_map(row).collect(),
        reasons: reasons
            .map(|group| Rest { code: group.code, nodes: group.nodes, text: group.text.clone() })
            .collect(),
    }
}
