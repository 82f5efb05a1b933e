//! Compares one decision of another scheduler with the engine's own, in one state of the cluster.

use crate::cache::Snapshot;
use crate::cycle::{Decision, Feasible, Framework, InfeasibleDecision, NoProbe, Options, Walk};
use crate::framework::post_filter::{Draws, ExtenderCandidates};
use crate::framework::{CycleError, PluginName};
use crate::model::intern::Symbol;
use crate::model::node::NodeIdx;
use crate::model::pod::PodInfo;
use crate::model::rng::Seed;
use crate::model::time::Time;
use crate::report::Preemption;

/// The result of judging a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Agreement {
    /// Both chose the node with the best total.
    Same,
    /// Their node is one of several with the best total (a tie).
    EqualScore,
    /// Both found a node, and theirs has a lower total.
    Different,
    /// They found no node, but a feasible node exists.
    WeFitTheyNot,
    /// Their node is infeasible here.
    TheyFitWeNot,
    /// Neither found a node.
    NeitherFits,
    /// The decisions disagree in the order of arrival here, but agree in another plausible order.
    Raced,
}

impl Agreement {
    /// All variants.
    pub const ALL: [Self; 7] = [
        Self::Same,
        Self::EqualScore,
        Self::Different,
        Self::WeFitTheyNot,
        Self::TheyFitWeNot,
        Self::NeitherFits,
        Self::Raced,
    ];

    /// The name in metrics and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::EqualScore => "equal_score",
            Self::Different => "different",
            Self::WeFitTheyNot => "we_fit_they_not",
            Self::TheyFitWeNot => "they_fit_we_not",
            Self::NeitherFits => "neither_fits",
            Self::Raced => "raced",
        }
    }

    /// Whether the decisions agree without trying other orders.
    pub(crate) fn agrees(self) -> bool {
        matches!(self, Self::Same | Self::EqualScore | Self::NeitherFits)
    }
}

/// One plugin's score of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The plugin.
    pub plugin: PluginName,
    /// The raw score.
    pub raw: i64,
    /// The normalized score, 0 to 100.
    pub normalized: i64,
    /// The weight of `normalized`.
    pub weight: i64,
}

/// A feasible node with the score of each plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scored {
    /// The node's name.
    pub node: String,
    /// The score of each plugin that did not skip, in order.
    pub plugins: Vec<Cell>,
    /// The sum of `normalized` times `weight`.
    pub total: i64,
}

/// The evaluation of the other scheduler's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OtherDecision {
    /// It found no node.
    None {
        /// The message of its PodScheduled condition.
        message: String,
    },
    /// Its node is feasible.
    Scored(Scored),
    /// Its node is infeasible.
    Rejected {
        /// The node's name.
        node: String,
        /// The first plugin that rejects it; `None` if the node is unknown.
        plugin: Option<PluginName>,
        /// The reason.
        reason: String,
    },
}

/// Both decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The engine's node, if any is feasible.
    pub ours: Option<Scored>,
    /// The other scheduler's decision.
    pub theirs: OtherDecision,
    /// Number of feasible nodes.
    pub feasible: usize,
}

/// The engine's own decision.
pub(crate) struct Other {
    /// Set if the nodes differ or only one side found a node.
    pub(crate) comparison: Option<Comparison>,
    /// The preemption result if no node is feasible.
    pub(crate) room: Preemption,
}

/// The result of comparing one decision of the other scheduler, in one state of the cluster.
pub(crate) struct Assessment {
    pub(crate) agreement: Agreement,
    /// Our best total minus the total of their node, if both have one.
    pub(crate) regret: Option<i64>,
    /// Set if the decisions disagree.
    pub(crate) comparison: Option<Comparison>,
}

/// The other scheduler's decision.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    Node(Symbol),
    None { message: String },
}

pub(crate) struct Judge<'f> {
    pub(crate) framework: &'f Framework,
    pub(crate) seed: Seed,
    /// The attempt number, from which the tie-break is drawn.
    pub(crate) attempt: u32,
}

impl Judge<'_> {
    /// Decides for the pod and compares the result with the other scheduler's choice.
    ///
    /// The comparison is set if the nodes differ or only one side found a node. If no node is feasible, the
    /// result contains the preemption candidate's victims. The pod's nomination counts, and the search
    /// continues where `walk` left off.
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
                let failed = InfeasibleDecision { pod, snapshot, filtered: &filtered, diagnosis: &diagnosis };
                let draws = Draws { seed: self.seed, attempt: self.attempt };
                let outcome =
                    self.framework.find_room(failed, (draws, now), ExtenderCandidates::Free, &mut NoProbe);
                let room = Preemption::of(&outcome, failed, draws);
                return Ok(Other { comparison, room });
            }
        };
        let comparison = self.other_node(pod, choice, snapshot, &feasible)?;
        Ok(Other { comparison, room: Preemption::NotTried })
    }

    /// Returns the comparison if the nodes differ or only one side found a node.
    fn other_node(
        &self,
        pod: &PodInfo,
        choice: &Choice,
        snapshot: Snapshot<'_>,
        feasible: &Feasible,
    ) -> Result<Option<Comparison>, CycleError> {
        let ours = feasible.choose(self.seed, pod, self.attempt);
        // What the pod would reserve may be unavailable on every node by now.
        let ours = feasible.filtered.reserve(snapshot, ours).is_ok().then_some(ours);
        let name = ours.map(|ours| snapshot.node_info(ours).name);
        let theirs = match choice {
            Choice::None { message } => OtherDecision::None { message: message.clone() },
            Choice::Node(theirs) if name == Some(*theirs) => return Ok(None),
            Choice::Node(theirs) => {
                let node =
                    snapshot.find_node(*theirs).filter(|&it| feasible.filtered.feasible().contains(it));
                match node {
                    Some(node) => OtherDecision::Scored(self.scored(pod, snapshot, feasible, node)?),
                    None => rejected(pod, &feasible.filtered, snapshot, *theirs)?,
                }
            }
        };
        let ours = ours.map(|ours| self.scored(pod, snapshot, feasible, ours)).transpose()?;
        if ours.is_none() && matches!(theirs, OtherDecision::None { .. }) {
            return Ok(None);
        }
        Ok(Some(Comparison { ours, theirs, feasible: feasible.filtered.feasible().len() }))
    }

    pub(crate) fn verdict(
        &self,
        pod: &PodInfo,
        choice: &Choice,
        snapshot: Snapshot<'_>,
    ) -> Result<Assessment, CycleError> {
        // If the other scheduler found no node, it decided before the nomination existed.
        let ignore_own_nomination = matches!(choice, Choice::None { .. });
        let options = Options { always_score: true, ignore_own_nomination, walk: None, within: None };
        match self.framework.decide(pod, snapshot, options, &mut NoProbe)? {
            Decision::Infeasible(filtered) => {
                let theirs = match choice {
                    Choice::None { .. } => return Ok(agreed(Agreement::NeitherFits, None)),
                    Choice::Node(name) => out_of_reach(pod, &filtered, snapshot, *name)?,
                };
                let comparison = Some(Comparison { ours: None, theirs, feasible: 0 });
                Ok(Assessment { agreement: Agreement::TheyFitWeNot, regret: None, comparison })
            }
            Decision::Feasible(feasible) => self.beside(pod, choice, snapshot, &feasible),
        }
    }

    /// Compares the choices if there are feasible nodes.
    fn beside(
        &self,
        pod: &PodInfo,
        choice: &Choice,
        snapshot: Snapshot<'_>,
        feasible: &Feasible,
    ) -> Result<Assessment, CycleError> {
        let winners = feasible.winners();
        let ours = feasible.choose(self.seed, pod, self.attempt);
        let disagreed = |agreement, regret, theirs| {
            let ours = Some(self.scored(pod, snapshot, feasible, ours)?);
            let comparison = Some(Comparison { ours, theirs, feasible: feasible.filtered.feasible().len() });
            Ok(Assessment { agreement, regret, comparison })
        };
        let name = match choice {
            Choice::Node(name) => *name,
            Choice::None { message } => {
                let theirs = OtherDecision::None { message: message.clone() };
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
        let theirs = OtherDecision::Scored(self.scored(pod, snapshot, feasible, theirs)?);
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

fn agreed(agreement: Agreement, regret: Option<i64>) -> Assessment {
    Assessment { agreement, regret, comparison: None }
}

/// Returns the position of the node among the feasible ones.
fn place(feasible: &Feasible, node: NodeIdx) -> usize {
    feasible.filtered.feasible().iter().position(|it| it == node).expect("a feasible node is among them")
}

fn total(feasible: &Feasible, node: NodeIdx) -> i64 {
    feasible.scores.as_ref().map_or(0, |scores| scores.totals[place(feasible, node)])
}

/// Returns why the node `name` is infeasible if no node is feasible.
fn out_of_reach(
    pod: &PodInfo,
    filtered: &crate::cycle::Filtered,
    snapshot: Snapshot<'_>,
    name: Symbol,
) -> Result<OtherDecision, CycleError> {
    match filtered.prefilter_rejection() {
        Some((plugin, rejection)) => Ok(OtherDecision::Rejected {
            node: snapshot.text(name).to_owned(),
            plugin: Some(plugin),
            reason: rejection.message(),
        }),
        None => rejected(pod, filtered, snapshot, name),
    }
}

/// Returns why the node `name` is not among the feasible nodes.
fn rejected(
    pod: &PodInfo,
    filtered: &crate::cycle::Filtered,
    snapshot: Snapshot<'_>,
    name: Symbol,
) -> Result<OtherDecision, CycleError> {
    let node = snapshot.text(name).to_owned();
    let Some(idx) = snapshot.find_node(name) else {
        return Ok(OtherDecision::Rejected {
            node,
            plugin: None,
            reason: "the node is not known".to_owned(),
        });
    };
    if !filtered.candidates(snapshot).contains(idx) {
        let plugin = filtered.narrowed_by().first().copied();
        let reason = "node(s) didn't satisfy what narrowed the search to others".to_owned();
        return Ok(OtherDecision::Rejected { node, plugin, reason });
    }
    let (plugin, reason) = match filtered.judge(pod, snapshot, idx)? {
        Some((plugin, rejection)) => (Some(plugin), rejection.message()),
        // The node passes, but the nominated node passes as well, so no other node is evaluated.
        None => (None, "the pod is nominated to another node, which can take it".to_owned()),
    };
    Ok(OtherDecision::Rejected { node, plugin, reason })
}
