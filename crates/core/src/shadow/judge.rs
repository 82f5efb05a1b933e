//! One decision beside another scheduler's: what would be chosen, and how that compares. Knows no order of events.

use super::Agreement;
use crate::cache::Snapshot;
use crate::cycle::{Decision, Failed, Feasible, Framework, NoProbe, Options, Walk};
use crate::framework::post_filter::{Draws, Rooms};
use crate::framework::{CycleError, PluginName};
use crate::intern::Symbol;
use crate::node::NodeIdx;
use crate::pod::PodInfo;
use crate::report::Preemption;
use crate::rng::Seed;
use crate::time::Time;

/// What one plugin gives one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The plugin.
    pub plugin: PluginName,
    /// What it says before normalization.
    pub raw: i64,
    /// 0 to 100.
    pub normalized: i64,
    /// What `normalized` is multiplied by.
    pub weight: i64,
}

/// A node that can take the pod, and what each plugin gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scored {
    /// The node's name.
    pub node: String,
    /// Per plugin that scores, in order.
    pub plugins: Vec<Cell>,
    /// The sum of `normalized` times `weight`.
    pub total: i64,
}

/// What is said of the node the other scheduler chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Theirs {
    /// It found no node.
    None {
        /// In the words of its condition.
        message: String,
    },
    /// It can take the pod.
    Scored(Scored),
    /// It cannot.
    Rejected {
        /// The node's name.
        node: String,
        /// The first plugin that rejects it; `None` where the node is not known.
        plugin: Option<PluginName>,
        /// Why.
        reason: String,
    },
}

/// The two decisions side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The node chosen here, if any can take the pod.
    pub ours: Option<Scored>,
    /// The node chosen there.
    pub theirs: Theirs,
    /// How many nodes can take the pod.
    pub feasible: usize,
}

/// What is decided here.
pub(crate) struct Other {
    /// Where it is another node, or only one side has one.
    pub(crate) comparison: Option<Comparison>,
    /// Who would have to go, where there is none here.
    pub(crate) room: Preemption,
}

/// A verdict on one decision of the other scheduler, in one state of the cluster.
pub(super) struct Verdict {
    pub(super) agreement: Agreement,
    /// Our best total less their node's, where both have one.
    pub(super) regret: Option<i64>,
    /// Where they disagree.
    pub(super) comparison: Option<Comparison>,
}

/// What the other scheduler came to.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    Node(Symbol),
    None { message: String },
}

pub(crate) struct Judge<'f> {
    pub(crate) framework: &'f Framework,
    pub(crate) seed: Seed,
    /// Which attempt it is that draws among equals.
    pub(crate) attempt: u32,
}

impl Judge<'_> {
    /// How it is decided here: the node that is chosen where it is another than the one chosen there, or only one of them chose any; and,
    /// where there is none here, who would be sent away to make room. The pod's nomination counts, and the search goes on where `walk` left
    /// off.
    pub(crate) fn otherwise(
        &self,
        now: Time,
        pod: &PodInfo,
        choice: &Choice,
        snapshot: Snapshot<'_>,
        walk: &mut Walk,
    ) -> Result<Other, CycleError> {
        let options = Options { always_score: true, walk: Some(walk), ..Options::default() };
        let feasible = match self.framework.decide(pod, snapshot, options, &mut NoProbe)? {
            Decision::Feasible(feasible) => feasible,
            Decision::Infeasible(filtered) => {
                let comparison = match choice {
                    Choice::None { .. } => None,
                    Choice::Node(name) => {
                        let theirs = out_of_reach(pod, &filtered, snapshot, *name)?;
                        Some(Comparison { ours: None, theirs, feasible: 0 })
                    }
                };
                let diagnosis = filtered.diagnose(snapshot);
                let failed = Failed { pod, snapshot, filtered: &filtered, diagnosis: &diagnosis };
                let draws = Draws { seed: self.seed, attempt: self.attempt };
                let outcome = self.framework.find_room(failed, (draws, now), Rooms::Free, &mut NoProbe);
                let room = Preemption::of(&outcome, failed, draws);
                return Ok(Other { comparison, room });
            }
        };
        let comparison = self.other_node(pod, choice, snapshot, &feasible)?;
        Ok(Other { comparison, room: Preemption::NotTried })
    }

    /// The node that is chosen here where it is another than the one chosen there, or only one of them chose any.
    fn other_node(
        &self,
        pod: &PodInfo,
        choice: &Choice,
        snapshot: Snapshot<'_>,
        feasible: &Feasible,
    ) -> Result<Option<Comparison>, CycleError> {
        let ours = feasible.choose(self.seed, pod, self.attempt);
        // What a pod needs on a node may be gone from there for all nodes alike.
        let ours = feasible.filtered.reserve(snapshot, ours).is_ok().then_some(ours);
        let name = ours.map(|ours| snapshot.node_info(ours).name);
        let theirs = match choice {
            Choice::None { message } => Theirs::None { message: message.clone() },
            Choice::Node(theirs) if name == Some(*theirs) => return Ok(None),
            Choice::Node(theirs) => {
                let node =
                    snapshot.find_node(*theirs).filter(|&it| feasible.filtered.feasible().contains(it));
                match node {
                    Some(node) => Theirs::Scored(self.scored(pod, snapshot, feasible, node)?),
                    None => rejected(pod, &feasible.filtered, snapshot, *theirs)?,
                }
            }
        };
        let ours = ours.map(|ours| self.scored(pod, snapshot, feasible, ours)).transpose()?;
        if ours.is_none() && matches!(theirs, Theirs::None { .. }) {
            return Ok(None);
        }
        Ok(Some(Comparison { ours, theirs, feasible: feasible.filtered.feasible().len() }))
    }

    pub(super) fn verdict(
        &self,
        pod: &PodInfo,
        choice: &Choice,
        snapshot: Snapshot<'_>,
    ) -> Result<Verdict, CycleError> {
        // A pod that found no place was decided about before it was nominated, if it is.
        let ignore_own_nomination = matches!(choice, Choice::None { .. });
        let options = Options { always_score: true, ignore_own_nomination, walk: None };
        match self.framework.decide(pod, snapshot, options, &mut NoProbe)? {
            Decision::Infeasible(filtered) => {
                let theirs = match choice {
                    Choice::None { .. } => return Ok(agreed(Agreement::NeitherFits, None)),
                    Choice::Node(name) => out_of_reach(pod, &filtered, snapshot, *name)?,
                };
                let comparison = Some(Comparison { ours: None, theirs, feasible: 0 });
                Ok(Verdict { agreement: Agreement::TheyFitWeNot, regret: None, comparison })
            }
            Decision::Feasible(feasible) => self.beside(pod, choice, snapshot, &feasible),
        }
    }

    /// There are nodes that can take the pod.
    fn beside(
        &self,
        pod: &PodInfo,
        choice: &Choice,
        snapshot: Snapshot<'_>,
        feasible: &Feasible,
    ) -> Result<Verdict, CycleError> {
        let winners = feasible.winners();
        let ours = feasible.choose(self.seed, pod, self.attempt);
        let disagreed = |agreement, regret, theirs| {
            let ours = Some(self.scored(pod, snapshot, feasible, ours)?);
            let comparison = Some(Comparison { ours, theirs, feasible: feasible.filtered.feasible().len() });
            Ok(Verdict { agreement, regret, comparison })
        };
        let name = match choice {
            Choice::Node(name) => *name,
            Choice::None { message } => {
                let theirs = Theirs::None { message: message.clone() };
                return disagreed(Agreement::WeFitTheyNot, None, theirs);
            }
        };
        let theirs = snapshot.find_node(name).filter(|&node| feasible.filtered.feasible().contains(node));
        let Some(theirs) = theirs else {
            let theirs = rejected(pod, &feasible.filtered, snapshot, name)?;
            return disagreed(Agreement::TheyFitWeNot, None, theirs);
        };
        if winners.contains(&theirs) {
            let alone = winners.len() == 1;
            return Ok(agreed(if alone { Agreement::Same } else { Agreement::EqualScore }, Some(0)));
        }
        let regret = total(feasible, ours) - total(feasible, theirs);
        let theirs = Theirs::Scored(self.scored(pod, snapshot, feasible, theirs)?);
        disagreed(Agreement::Different, Some(regret), theirs)
    }

    fn scored(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        feasible: &Feasible,
        node: NodeIdx,
    ) -> Result<Scored, CycleError> {
        let at = place(feasible, node);
        let table = self.framework.explain_scores(pod, snapshot, feasible.filtered.feasible())?;
        let cells = table.plugins.iter().map(|scores| Cell {
            plugin: scores.plugin,
            raw: scores.raw[at],
            normalized: scores.normalized[at],
            weight: scores.weight,
        });
        let name = snapshot.node_info(node).name;
        Ok(Scored {
            node: snapshot.text(name).to_owned(),
            plugins: cells.collect(),
            total: total(feasible, node),
        })
    }
}

fn agreed(agreement: Agreement, regret: Option<i64>) -> Verdict {
    Verdict { agreement, regret, comparison: None }
}

/// Which of the feasible nodes it is.
fn place(feasible: &Feasible, node: NodeIdx) -> usize {
    feasible.filtered.feasible().iter().position(|it| it == node).expect("a feasible node is among them")
}

fn total(feasible: &Feasible, node: NodeIdx) -> i64 {
    feasible.scores.as_ref().map_or(0, |scores| scores.totals[place(feasible, node)])
}

/// Why the node named `name` cannot take the pod, as no node can.
fn out_of_reach(
    pod: &PodInfo,
    filtered: &crate::cycle::Filtered,
    snapshot: Snapshot<'_>,
    name: Symbol,
) -> Result<Theirs, CycleError> {
    match filtered.prefilter_rejection() {
        Some((plugin, rejection)) => Ok(Theirs::Rejected {
            node: snapshot.text(name).to_owned(),
            plugin: Some(plugin),
            reason: rejection.message(),
        }),
        None => rejected(pod, filtered, snapshot, name),
    }
}

/// Why the node named `name`, which is not feasible, is not.
fn rejected(
    pod: &PodInfo,
    filtered: &crate::cycle::Filtered,
    snapshot: Snapshot<'_>,
    name: Symbol,
) -> Result<Theirs, CycleError> {
    let node = snapshot.text(name).to_owned();
    let Some(idx) = snapshot.find_node(name) else {
        return Ok(Theirs::Rejected { node, plugin: None, reason: "the node is not known".to_owned() });
    };
    if !filtered.candidates(snapshot).contains(idx) {
        let plugin = filtered.narrowed_by().first().copied();
        let reason = "node(s) didn't satisfy what narrowed the search to others".to_owned();
        return Ok(Theirs::Rejected { node, plugin, reason });
    }
    let (plugin, reason) = match filtered.judge(pod, snapshot, idx)? {
        Some((plugin, rejection)) => (Some(plugin), rejection.message()),
        // It fits, and the pod is nominated to another that does as well: nobody looks further then.
        None => (None, "the pod is nominated to another node, which can take it".to_owned()),
    };
    Ok(Theirs::Rejected { node, plugin, reason })
}
