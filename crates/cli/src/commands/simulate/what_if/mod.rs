//! Schedules pods after hypothetical changes to a cluster, or with two configurations, and compares before and after.
//!
//! `args` holds the flags, `change` applies the changes, `summary` measures the cluster, `outcome` groups the pods,
//! `render` prints.

mod args;
mod change;
mod outcome;
mod render;
mod summary;

pub(crate) use args::means_kind;
pub use args::{AddNodes, ChangeArgs, Scale};
pub(crate) use change::Changed;
use outcome::{Noting, Outcome};
use summary::{Elsewhere, Moved, State, Summary};

use crate::cluster::{Cluster, Refused, SourceArgs};
use crate::commands::simulate::NOT_PLACED;
use crate::commands::simulate::args::SimulateArgs;
use crate::commands::simulate::progress::Progress;
use crate::commands::simulate::report::{Reporter, why};
use crate::screen::Output;
use crate::screen::complain;
use crate::screen::plain_json;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use summary::{Constraint, constraints, state};
use supercargo_core::cache::Snapshot;
use supercargo_core::model::intern::{Labels, Symbol, Tables};
use supercargo_core::model::pod::{PodInfo, Uid};
use supercargo_core::model::rng::Seed;
use supercargo_core::model::signature::Signature;
use supercargo_core::scheduler::Profile;
use supercargo_whatif::explain::claims::afresh;
use supercargo_whatif::explain::device_claims::release;
use supercargo_whatif::explain::{Place, why as reasons_why};
use supercargo_whatif::load::files::InputError;
use supercargo_whatif::prepare::owners::{Owner, Owners};
use supercargo_whatif::simulate::decide::Detail;
use supercargo_whatif::simulate::decide::{Decided, Decider, Rules};
use supercargo_whatif::simulate::profiles::profiles;

/// A changed cluster and the pods to schedule.
pub(crate) struct WhatIf {
    decider: Decider,
    /// The pods in scheduling order.
    pub pods: Vec<Arc<PodInfo>>,
    /// Number of pending pods that are not scheduled here.
    waiting: usize,
    from: BTreeMap<Uid, String>,
    /// Uids of the pods that were pending before the changes.
    retried: BTreeSet<Uid>,
    before: State,
    constraints: Vec<(Constraint, Option<i64>)>,
    compared: Option<Vec<Profile>>,
    /// Whether all pods of the cluster are rescheduled.
    is_anew: bool,
    /// Messages about the input for stderr.
    pub notices: Vec<String>,
    /// All pods after the changes, with their owners.
    population: Vec<(Arc<PodInfo>, Option<Owner>)>,
    /// Reasons why pods are pending, cached by signature.
    reasons: HashMap<Signature, Vec<(String, String)>>,
}

/// A pod and its node at the end.
pub(crate) struct Resident {
    pub pod: Arc<PodInfo>,
    pub owner: Option<Owner>,
    pub node: Option<Symbol>,
}

/// The result of scheduling all pods once.
pub(crate) struct Round {
    /// The node of each pod, in the order of [`WhatIf::pods`].
    pub nodes: Vec<Option<Symbol>>,
    /// Number of pods evicted for them that were in the cluster before.
    pub evicted: usize,
}

impl Round {
    pub(crate) fn placed(&self) -> usize {
        self.nodes.iter().flatten().count()
    }
}

/// Applies the changes and removes the pods to schedule from the cluster; returns them in scheduling order.
///
/// If anything changes, the pending pods of the cluster are scheduled again, too.
pub(crate) fn change(cluster: &mut Cluster, changes: &ChangeArgs) -> Result<Changed, InputError> {
    let Changed { mut pods, from } = change::make(cluster, changes)?;
    if !changes.is_empty() {
        let waiting = std::mem::take(&mut cluster.pending).into_iter();
        let (going, mut all): (Vec<_>, Vec<_>) = waiting.partition(|pod| pod.deleting);
        cluster.pending = going;
        all.append(&mut pods);
        pods = all;
        pods.sort_by_key(|pod| Reverse(pod.priority));
    }
    pods.append(&mut cluster.templates);
    Ok(Changed { pods, from })
}

/// The input of a what-if simulation.
pub(crate) struct Question<'a> {
    pub source: &'a SourceArgs,
    pub pods: &'a [PathBuf],
    pub changes: &'a ChangeArgs,
    pub rules: Rules,
    pub compared: Option<&'a Path>,
}

impl WhatIf {
    /// Reads the cluster and applies the changes.
    pub(crate) fn load(question: &Question<'_>) -> Result<Self, Refused> {
        let mut cluster = Cluster::load_with_census(question.source, question.pods, Owners::for_scaling())?;
        let tables = cluster.trial.tables_mut();
        let compared = question.compared.map(|path| profiles(Some(path), tables)).transpose()?;
        let is_anew = compared.is_some() && question.changes.is_empty() && question.pods.is_empty();
        cluster.trial.refreshed();
        let (before, skews) = Self::measure(&cluster);
        let retried = cluster.pending.iter().map(|pod| Arc::clone(&pod.uid)).collect();
        let (pods, waiting, from) = if is_anew {
            let (pods, from) = take_off_all(&mut cluster);
            (pods, 0, from)
        } else {
            let Changed { pods, from } = change(&mut cluster, question.changes)?;
            (pods, cluster.pending.len(), from)
        };
        let notices = std::mem::take(&mut cluster.notices);
        let owners = cluster.owners.take().unwrap_or_default();
        let population = owners.pods.into_iter().chain(owners.to_come);
        let population = population.map(|noted| (noted.pod, noted.owner)).collect();
        let decider = Decider::new(cluster.trial, question.rules);
        let (constraints, reasons) = (skews, HashMap::new());
        Ok(Self {
            decider,
            pods,
            waiting,
            from,
            retried,
            before,
            constraints,
            compared,
            is_anew,
            notices,
            population,
            reasons,
        })
    }

    fn measure(cluster: &Cluster) -> (State, Vec<(Constraint, Option<i64>)>) {
        let snapshot = cluster.trial.snapshot();
        let pods = cluster.owners.iter().flat_map(|owners| &owners.pods).map(|noted| &noted.pod);
        let all = constraints(pods.chain(&cluster.templates), snapshot.tables());
        let all = all.into_iter().map(|of| {
            let skew = of.skew(snapshot);
            (of, skew)
        });
        (state(snapshot, cluster.pending.len()), all.collect())
    }

    /// Schedules every pod in order and calls `each` after each decision.
    pub(crate) fn decide(
        &mut self,
        mut each: impl FnMut(&PodInfo, &Decided) -> io::Result<()>,
    ) -> io::Result<Round> {
        let mut nodes = vec![None; self.pods.len()];
        let at_of: BTreeMap<Uid, usize> =
            self.pods.iter().enumerate().map(|(at, pod)| (Arc::clone(&pod.uid), at)).collect();
        let mut evicted = 0;
        let turns = self.decider.turns(self.pods.iter().map(|pod| (pod, false)));
        for turn in &turns {
            for (pod, decided) in self.decider.decide_turn(turn) {
                let node = decided.decision.node.as_deref();
                nodes[at_of[&pod.uid]] = node.and_then(|node| self.decider.trial().tables().find(node));
                for victim in &decided.evicted {
                    match at_of.get(victim) {
                        Some(&at) => nodes[at] = None,
                        None => evicted += 1,
                    }
                }
                each(&pod, &decided)?;
            }
        }
        self.decider.forget_promises();
        self.decider.trial_mut().refreshed();
        Ok(Round { nodes, evicted })
    }

    /// Returns the state of the cluster after these decisions, and the skew of each constraint.
    fn stands(&mut self, round: &Round) -> (State, Vec<Option<i64>>) {
        let pending = self.waiting + round.evicted + round.nodes.len() - round.placed();
        let snapshot = self.decider.trial_mut().refreshed();
        let skews = self.constraints.iter().map(|(of, _)| of.skew(snapshot)).collect();
        (state(snapshot, pending), skews)
    }

    /// Returns the comparison of before and after. Schedules a second time if a configuration is compared.
    pub(crate) fn summarize(&mut self, round: &Round) -> (Summary, Option<Round>) {
        let (after, skews) = self.stands(round);
        let moved = self.moved(round);
        let compared = self.compared.take().map(|profiles| {
            self.decider.begin_again(profiles);
            let round = self.decide(|_, _| Ok(())).expect("nothing is written");
            let (state, skews) = self.stands(&round);
            (round, state, skews)
        });
        let tables = self.decider.trial().tables();
        let entries = self.constraints.iter().enumerate().map(|(at, (of, before))| {
            let by_other = compared.as_ref().and_then(|(_, _, skews)| skews[at]);
            of.entry(tables, [*before, skews[at], by_other])
        });
        let skews = entries.collect();
        let elsewhere = compared.as_ref().map(|(other, ..)| self.elsewhere(round, other));
        let (compared, other) = match compared {
            Some((round, state, _)) => (Some(state), Some(round)),
            None => (None, None),
        };
        let (outcome, before) = (Outcome::default(), self.before.clone());
        (Summary { outcome, before, after, compared, skews, moved, elsewhere }, other)
    }

    /// The intern tables, to resolve ids into names.
    pub(crate) fn tables(&self) -> &Tables {
        self.decider.trial().tables()
    }

    fn snapshot(&self) -> Snapshot<'_> {
        self.decider.trial().snapshot()
    }

    /// Returns the names of all nodes after the changes.
    pub(crate) fn node_names(&self) -> impl Iterator<Item = Symbol> + '_ {
        let snapshot = self.snapshot();
        snapshot.nodes().iter().map(move |node| snapshot.node_info(node).name)
    }

    /// Returns the labels of a node, or `None` if no node has this name.
    pub(crate) fn node_labels(&self, name: Symbol) -> Option<Labels<'_>> {
        let snapshot = self.snapshot();
        snapshot.find_node(name).map(|node| snapshot.node_labels(node))
    }

    /// Returns all pods with their current nodes.
    pub(crate) fn residents(&self) -> Vec<Resident> {
        let of = |(pod, owner): &(Arc<PodInfo>, Option<Owner>)| Resident {
            node: self.decider.trial().placement(&pod.uid).map(|(_, node)| node),
            pod: Arc::clone(pod),
            owner: owner.clone(),
        };
        self.population.iter().map(of).collect()
    }

    /// Returns why a pod is pending after scheduling: reason codes with their texts.
    pub(crate) fn reasons(&mut self, pod: &Arc<PodInfo>) -> Vec<(String, String)> {
        let signature = Signature::of(pod);
        if let Some(known) = self.reasons.get(&signature) {
            return known.clone();
        }
        let trial = self.decider.trial_mut();
        trial.refreshed();
        let place = Place { trial, pending: &[] };
        let reasons = reasons_why(&place, pod).into_iter();
        let reasons: Vec<_> = reasons.map(|(code, text)| (format!("{code:?}"), text)).collect();
        self.reasons.insert(signature, reasons.clone());
        reasons
    }

    fn name(&self, node: Option<Symbol>) -> Option<String> {
        node.map(|node| self.decider.trial().tables().text(node).to_owned())
    }

    fn key(&self, pod: &PodInfo) -> String {
        format!("{}/{}", self.decider.trial().tables().text(pod.namespace), pod.name)
    }

    fn moved(&self, round: &Round) -> Vec<Moved> {
        let mut moved: Vec<Moved> = Vec::new();
        for (pod, &node) in self.pods.iter().zip(&round.nodes) {
            let (from, to) = (self.from.get(&pod.uid), self.name(node));
            if let Some(from) = from.filter(|&from| to.as_ref() != Some(from)).cloned() {
                moved.push(Moved { pod: self.key(pod), from, to });
            }
        }
        moved.sort_by(|a, b| a.pod.cmp(&b.pod));
        moved
    }

    fn elsewhere(&self, round: &Round, other: &Round) -> Vec<Elsewhere> {
        let pairs = self.pods.iter().zip(round.nodes.iter().zip(&other.nodes));
        let differ = pairs.filter(|(_, (node, compared))| node != compared);
        let mut all: Vec<Elsewhere> = differ
            .map(|(pod, (&node, &compared))| Elsewhere {
                pod: self.key(pod),
                node: self.name(node),
                compared: self.name(compared),
            })
            .collect();
        all.sort_by(|a, b| a.pod.cmp(&b.pod));
        all
    }

    fn widths(&self) -> (usize, usize) {
        let pods = self.pods.iter().map(|pod| self.key(pod).len()).max();
        let nodes = self.node_names().map(|name| self.tables().text(name).len()).max();
        (pods.unwrap_or(0), nodes.unwrap_or(0))
    }
}

/// Removes all movable pods from their nodes, and returns them with the nodes they were on.
///
/// Movable pods are all but DaemonSet pods, static pods and pods being deleted. They are sorted by priority, highest
/// first, then by age, oldest first.
fn take_off_all(cluster: &mut Cluster) -> (Vec<Arc<PodInfo>>, BTreeMap<Uid, String>) {
    let Some(owners) = &cluster.owners else { return Default::default() };
    let movable = owners.pods.iter().filter(|noted| !noted.is_of_its_node() && !noted.pod.deleting);
    let mut all: Vec<_> = movable.cloned().collect();
    let trial = &mut cluster.trial;
    all.sort_by_cached_key(|noted| {
        let namespace = trial.tables().text(noted.pod.namespace).to_owned();
        (Reverse(noted.pod.priority), noted.created.clone(), namespace, noted.pod.name.clone())
    });
    let mut from = BTreeMap::new();
    for noted in &all {
        if let Some((_, node)) = trial.placement(&noted.pod.uid) {
            from.insert(Arc::clone(&noted.pod.uid), trial.tables().text(node).to_owned());
            trial.remove_pod(&noted.pod.uid);
            release(trial, &noted.pod);
        }
    }
    (all.iter().map(|noted| Arc::new(afresh(&noted.pod))).collect(), from)
}

/// Runs the command on the process's own streams.
pub(crate) fn main(args: &SimulateArgs) -> ExitCode {
    let source = SourceArgs {
        input_limit: args.input_limit,
        strict: args.strict,
        cluster: args.cluster.clone(),
        live: args.connection.clone(),
        config: args.config.clone(),
        emulation: args.emulation.clone(),
        as_written: args.as_written,
    };
    // Table rows show no node details.
    let detail = if args.output == Output::Table { Detail::None } else { args.detail };
    let rules =
        Rules { tie_break: args.tie_break, seed: Seed(args.seed), preemption: args.preemption, detail };
    let question = Question {
        source: &source,
        pods: &args.pods,
        changes: &args.changes,
        rules,
        compared: args.compare_config.as_deref(),
    };
    let what_if = match WhatIf::load(&question) {
        Ok(what_if) => what_if,
        Err(refused) => return refused.report(),
    };
    what_if.notices.iter().for_each(|notice| complain(notice));
    match run(what_if, args.output, BufWriter::new(io::stdout().lock())) {
        Ok((placed, pods, is_well)) => {
            complain(&crate::commands::simulate::Summary { pods, placed }.to_string());
            ExitCode::from(if is_well { 0 } else { NOT_PLACED })
        }
        Err(error) => {
            // The reader of the report may have closed the pipe.
            if error.kind() != io::ErrorKind::BrokenPipe {
                complain(&format!("error: cannot write the report: {error}"));
            }
            ExitCode::FAILURE
        }
    }
}

/// Schedules and writes the report. Returns the number of placed pods, of all pods, and whether every configuration
/// placed all pods.
fn run(mut what_if: WhatIf, form: Output, mut out: impl Write) -> io::Result<(usize, usize, bool)> {
    let mut noting = Noting::of(&what_if);
    let from = std::mem::take(&mut what_if.from);
    let (pods, nodes) = what_if.widths();
    let is_for_people = matches!(form, Output::Table | Output::Wide);
    // People read the summary first; rows for each pod follow in the wide format.
    let mut rows = Vec::new();
    let sink: &mut dyn Write = if is_for_people { &mut rows } else { &mut out };
    let mut reporter = Reporter::new(sink, form, pods, nodes);
    let mut progress = Progress::new(what_if.pods.len());
    reporter.begin()?;
    let round = what_if.decide(|pod, decided| {
        noting.add(pod, from.get(&pod.uid), &decided.decision, why(&decided.decision));
        decided.evicted.iter().for_each(|victim| noting.evicted(victim));
        progress.make_way();
        if form != Output::Table {
            reporter.add(&decided.decision, decided.counts)?;
        }
        progress.step();
        Ok(())
    })?;
    progress.clear();
    what_if.from = from;
    let (mut summary, other) = what_if.summarize(&round);
    summary.outcome = noting.outcome();
    let text = match form {
        Output::Table | Output::Wide => {
            let is_wide = form == Output::Wide;
            let shown_notices = (!what_if.is_anew || is_wide).then_some(&noting);
            out.write_all(render::answer(&summary, shown_notices.filter(|_| !is_wide)).as_bytes())?;
            let rows = if is_wide { rows.as_slice() } else { &[] };
            out.write_all(if is_wide { b"\n" } else { b"" })?;
            out.write_all(rows)?;
            out.write_all(b"\n")?;
            out.write_all(render::text(&summary, is_wide).as_bytes())?;
            out.flush()?;
            let placed = round.placed();
            let pods = what_if.pods.len();
            return Ok((placed, pods, placed == pods && other.is_none_or(|other| other.placed() == pods)));
        }
        Output::Json => plain_json(serde_json::to_string(&summary)?),
        Output::Yaml => {
            let value = serde_json::to_value(&summary)?;
            serde_saphyr::to_string(&value).map_err(io::Error::other)?
        }
    };
    reporter.end_with(&text)?;
    let pods = what_if.pods.len();
    let is_well = round.placed() == pods && other.is_none_or(|other| other.placed() == pods);
    Ok((round.placed(), pods, is_well))
}

/// Returns whether the flags need more than scheduling pods from files.
pub(crate) fn is_asked(args: &SimulateArgs) -> bool {
    args.live || args.compare_config.is_some() || !args.changes.is_empty()
}
