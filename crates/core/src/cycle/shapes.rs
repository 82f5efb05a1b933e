//! Decisions remembered by what the pods have in common: a pod of a signature that was decided about before costs what
//! changed since, and one pass over dense numbers.
//!
//! A *shape* keeps, of one signature, which nodes pass each filter that judges nodes one by one, and what each score that
//! does so gives them; both are patched for the nodes touched since. What reads the whole cluster is asked anew. Wherever
//! anything is out of the ordinary (an error, a rejection, no node left, a nomination of its own) there is no answer from
//! here, and the plain path decides: it is what this must equal.

use super::{Decision, Framework, Point, Probe};
use crate::cache::{Overlay, Snapshot};
use crate::framework::{
    CycleError, DependsOn, FilterRule, MAX_NODE_SCORE, Prepared, Reads, Scale, ScoreRule, Verdict,
};
use crate::hash::FixedMap;
use crate::node::NodeIdx;
use crate::node_set::NodeSet;
use crate::pod::PodInfo;
use crate::signature::Signature;
use std::sync::Arc;

/// Signatures remembered at most; the one not used for longest goes first.
const SIGNATURES_MAX: usize = 128;

/// What is remembered of the pods of all profiles: a pod's profile is part of its signature.
#[derive(Default)]
pub struct Shapes {
    known: FixedMap<Signature, Known>,
    /// Ticks with every question.
    clock: u64,
    answers: u64,
}

struct Known {
    used: u64,
    what: What,
}

enum What {
    /// It was met once. A shape is made when it is met again: many signatures never are.
    Once,
    /// Its decisions are none of ours as long as the same nodes exist.
    Never {
        era: u64,
    },
    Shape(Box<Shape>),
}

/// What was found for a pod, equal to what [`Framework::decide`] finds.
#[derive(Debug)]
pub struct Quick {
    /// The nodes that can take the pod, at least one.
    pub feasible: NodeSet,
    /// The total of each, in slot order; `None` where a single node made scoring needless.
    pub totals: Option<Vec<i64>>,
}

impl Quick {
    /// Whether the plain path found the same.
    pub fn is_what(&self, plain: &Result<Decision, CycleError>) -> bool {
        let Ok(Decision::Feasible(plain)) = plain else { return false };
        let totals = plain.scores.as_ref().map(|scores| &scores.totals);
        *plain.filtered.feasible() == self.feasible && totals == self.totals.as_ref()
    }
}

impl Shapes {
    /// How many decisions came from here.
    pub fn answers(&self) -> u64 {
        self.answers
    }

    /// Forgets everything, for what was held may be half changed, or was found by other plugins.
    pub fn clear(&mut self) {
        self.known.clear();
    }

    fn make_room(&mut self) {
        if self.known.len() < SIGNATURES_MAX {
            return;
        }
        // A signature is used at a moment of its own, so that the oldest is one.
        if let Some(oldest) = self.known.values().map(|known| known.used).min() {
            self.known.retain(|_, known| known.used != oldest);
        }
    }
}

impl Framework {
    /// Decides where `pod` can go and how good each place is, from what is remembered of its signature; `None` where
    /// [`Self::decide`] is to be asked.
    pub fn decide_quickly(
        &self,
        shapes: &mut Shapes,
        pod: &Arc<PodInfo>,
        snapshot: Snapshot<'_>,
        probe: &mut dyn Probe,
    ) -> Option<Quick> {
        // A walk looks at other nodes each time, and is never answered from here.
        if self.sampling.is_some() || !pod.volumes.is_empty() || pod.nominated_node.is_some() {
            return None;
        }
        shapes.clock += 1;
        let (now, signature) = (shapes.clock, Signature::of(pod));
        let Some(known) = shapes.known.get_mut(&signature) else {
            shapes.make_room();
            shapes.known.insert(signature, Known { used: now, what: What::Once });
            return None;
        };
        known.used = now;
        let era = snapshot.era();
        let is_ready = match &mut known.what {
            What::Never { era: then } if *then == era => return None,
            What::Shape(shape) => shape.catch_up(snapshot),
            What::Once | What::Never { .. } => false,
        };
        if !is_ready {
            known.what = match Shape::new(self, pod, snapshot) {
                Some(shape) => What::Shape(Box::new(shape)),
                None => What::Never { era },
            };
        }
        let What::Shape(shape) = &known.what else { return None };
        let quick = shape.decide(self, pod, snapshot, probe)?;
        shapes.answers += 1;
        Some(quick)
    }
}

/// One signature.
struct Shape {
    /// The cache's clock when this was last brought up to date.
    seen: u64,
    era: u64,
    /// In the order of Filter.
    filters: Vec<(usize, Kept)>,
    /// The nodes PreFilter narrowed the search to.
    only: Option<NodeSet>,
    /// Seats of filters that are asked anew.
    fresh_filters: Vec<usize>,
    /// Weight times score of all scores that count as they are, by slot.
    base: Vec<i64>,
    raw: Vec<(i64, Box<dyn ScoreRule>)>,
    relative: Vec<Relative>,
    /// Seats of scores that are asked anew.
    fresh_scores: Vec<usize>,
}

/// A filter that judges each node by itself.
struct Kept {
    rule: Box<dyn FilterRule>,
    passes: NodeSet,
}

/// A score whose normalization looks at all feasible nodes.
struct Relative {
    weight: i64,
    rule: Box<dyn ScoreRule>,
    /// By slot.
    raw: Vec<i64>,
    /// How many of them are not 0.
    non_zero: usize,
}

impl Shape {
    /// The shape of the pod's signature, up to date; `None` where a decision about it is out of the ordinary.
    fn new(framework: &Framework, pod: &PodInfo, snapshot: Snapshot<'_>) -> Option<Self> {
        let mut shape = Self {
            seen: snapshot.clock(),
            era: snapshot.era(),
            filters: Vec::new(),
            only: None,
            fresh_filters: Vec::new(),
            base: Vec::new(),
            raw: Vec::new(),
            relative: Vec::new(),
            fresh_scores: Vec::new(),
        };
        shape.take_filters(framework, pod, snapshot)?;
        shape.take_scores(framework, pod, snapshot)?;
        shape.patch(snapshot, snapshot.nodes()).ok()?;
        Some(shape)
    }

    fn take_filters(&mut self, framework: &Framework, pod: &PodInfo, snapshot: Snapshot<'_>) -> Option<()> {
        for (at, seat) in framework.filters.iter().enumerate() {
            if seat.plugin.reads() == Reads::Cluster {
                self.fresh_filters.push(at);
                continue;
            }
            let rule = if seat.pre_filter {
                match seat.plugin.prepare(pod, snapshot) {
                    Prepared::Skip => None,
                    Prepared::Run { rule, only } => {
                        if let Some(only) = only {
                            self.narrow(only.into_iter().collect());
                        }
                        Some(rule)
                    }
                    Prepared::Rejected(_) | Prepared::Failed(_) => return None,
                }
            } else {
                super::filter::unprepared(seat, pod, snapshot)
            };
            if let Some((place, rule)) = seat.filter.zip(rule) {
                debug_assert_ne!(rule.depends_on(), DependsOn::Cluster, "it judges each node by itself");
                self.filters.push((place.rank, Kept { rule, passes: NodeSet::new() }));
            }
        }
        self.filters.sort_by_key(|&(rank, _)| rank);
        Some(())
    }

    fn take_scores(&mut self, framework: &Framework, pod: &PodInfo, snapshot: Snapshot<'_>) -> Option<()> {
        for (at, seat) in framework.scores.iter().enumerate() {
            // Where upstream's points are enabled one by one the plain path knows what follows.
            if !seat.pre_score && seat.score.is_some_and(|place| place.fails.is_some()) {
                return None;
            }
            if seat.plugin.reads() == Reads::Cluster {
                self.fresh_scores.push(at);
                continue;
            }
            let rule = match seat.plugin.prepare(pod, snapshot, snapshot.nodes()) {
                Prepared::Skip => continue,
                Prepared::Run { rule, .. } => rule,
                Prepared::Rejected(_) | Prepared::Failed(_) => return None,
            };
            if seat.score.is_none() {
                continue;
            }
            match rule.scale() {
                Scale::Raw => self.raw.push((seat.weight, rule)),
                Scale::Relative => {
                    self.relative.push(Relative { weight: seat.weight, rule, raw: Vec::new(), non_zero: 0 });
                }
            }
        }
        Some(())
    }

    fn narrow(&mut self, only: NodeSet) {
        match &mut self.only {
            Some(so_far) => so_far.intersect(&only),
            None => self.only = Some(only),
        }
    }

    /// Brings the shape up to date; whether that was possible.
    fn catch_up(&mut self, snapshot: Snapshot<'_>) -> bool {
        if self.era != snapshot.era() {
            return false;
        }
        let Some(touched) = snapshot.touched_since(self.seen) else { return false };
        let mut touched: NodeSet = touched.collect();
        touched.intersect(snapshot.nodes());
        self.seen = snapshot.clock();
        touched.is_empty() || self.patch(snapshot, &touched).is_ok()
    }

    /// Judges and scores these nodes anew.
    fn patch(&mut self, snapshot: Snapshot<'_>, nodes: &NodeSet) -> Result<(), CycleError> {
        for (_, kept) in &mut self.filters {
            let mut passes = nodes.clone();
            kept.rule.filter(snapshot, &mut passes)?;
            kept.passes.subtract(nodes);
            kept.passes.unite(&passes);
        }
        let slots = snapshot.columns().pods.len();
        let mut cells = vec![0; nodes.len()];
        self.base.resize(slots, 0);
        for node in nodes.iter() {
            self.base[node.index()] = 0;
        }
        for (weight, rule) in &self.raw {
            rule.score(snapshot, nodes, &mut cells)?;
            for (node, &score) in nodes.iter().zip(&cells) {
                if !(0..=MAX_NODE_SCORE).contains(&score) {
                    return Err(CycleError("the plain path says what is wrong with it".to_owned()));
                }
                self.base[node.index()] += weight * score;
            }
        }
        for it in &mut self.relative {
            it.raw.resize(slots, 0);
            it.rule.score(snapshot, nodes, &mut cells)?;
            for (node, &score) in nodes.iter().zip(&cells) {
                let cell = &mut it.raw[node.index()];
                it.non_zero = it.non_zero + usize::from(score != 0) - usize::from(*cell != 0);
                *cell = score;
            }
        }
        Ok(())
    }

    fn decide(
        &self,
        framework: &Framework,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        probe: &mut dyn Probe,
    ) -> Option<Quick> {
        probe.enter(Point::PreFilter);
        let fresh = self.fresh_rules(framework, pod, snapshot);
        probe.leave(Point::PreFilter, "Success");
        let (fresh, only) = fresh?;
        probe.enter(Point::Filter);
        let feasible = self.filter(pod, snapshot, &fresh, only.as_ref());
        probe.leave(Point::Filter, "Success");
        let feasible = feasible?;
        if feasible.len() == 1 {
            return Some(Quick { feasible, totals: None });
        }
        probe.enter(Point::PreScore);
        let fresh = self.fresh_scores(framework, pod, snapshot, &feasible);
        probe.leave(Point::PreScore, "Success");
        let fresh = fresh?;
        probe.enter(Point::Score);
        let totals = self.totals(snapshot, &feasible, &fresh);
        probe.leave(Point::Score, "Success");
        Some(Quick { totals: Some(totals?), feasible })
    }

    /// The rules that are asked anew, in the order of Filter, and the nodes they narrow the search to.
    fn fresh_rules(
        &self,
        framework: &Framework,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
    ) -> Option<(FreshRules, Option<NodeSet>)> {
        let (mut rules, mut narrowed) = (Vec::new(), None::<NodeSet>);
        for seat in self.fresh_filters.iter().map(|&at| &framework.filters[at]) {
            let rule = if seat.pre_filter {
                match seat.plugin.prepare(pod, snapshot) {
                    Prepared::Skip => None,
                    Prepared::Run { rule, only } => {
                        if let Some(only) = only {
                            let only: NodeSet = only.into_iter().collect();
                            match &mut narrowed {
                                Some(so_far) => so_far.intersect(&only),
                                None => narrowed = Some(only),
                            }
                        }
                        Some(rule)
                    }
                    Prepared::Rejected(_) | Prepared::Failed(_) => return None,
                }
            } else {
                super::filter::unprepared(seat, pod, snapshot)
            };
            rules.extend(seat.filter.zip(rule).map(|(place, rule)| (place.rank, rule)));
        }
        rules.sort_by_key(|&(rank, _)| rank);
        Some((rules, narrowed))
    }

    /// The nodes that pass; `None` where there are none, or a rule fails.
    fn filter(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        fresh: &FreshRules,
        only: Option<&NodeSet>,
    ) -> Option<NodeSet> {
        let mut feasible = snapshot.nodes().clone();
        for only in self.only.iter().chain(only) {
            feasible.intersect(only);
        }
        let mut kept = self.filters.iter().peekable();
        // In the order of the plain path, so that no rule is asked about a node it would not be asked about there.
        for (rank, rule) in fresh {
            while let Some((_, earlier)) = kept.next_if(|(kept, _)| kept < rank) {
                feasible.intersect(&earlier.passes);
            }
            rule.filter(snapshot, &mut feasible).ok()?;
        }
        for (_, later) in kept {
            feasible.intersect(&later.passes);
        }
        for node in snapshot.nodes_with_nominations() {
            if feasible.contains(node) && !self.passes_with_nominated(pod, snapshot, fresh, node)? {
                feasible.remove(node);
            }
        }
        (!feasible.is_empty()).then_some(feasible)
    }

    /// Whether a node passes with the pods that are nominated to it and matter as much; `None` where a rule fails.
    fn passes_with_nominated(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        fresh: &FreshRules,
        node: NodeIdx,
    ) -> Option<bool> {
        let mut overlay = Overlay::new();
        let nominated = snapshot.nominated_on(node).iter();
        for other in nominated.filter(|other| other.priority >= pod.priority && other.uid != pod.uid) {
            overlay.add(other);
        }
        if overlay.is_empty() {
            return Some(true);
        }
        let view = snapshot.node(node).with(&overlay);
        let kept = self.filters.iter().map(|(_, kept)| &kept.rule);
        for rule in kept.chain(fresh.iter().map(|(_, rule)| rule)) {
            match rule.check(&view) {
                Verdict::Fits => {}
                Verdict::Rejected(_) => return Some(false),
                Verdict::Failed(_) => return None,
            }
        }
        Some(true)
    }

    /// The scores that are asked anew, with their weights; `None` where one fails.
    fn fresh_scores(
        &self,
        framework: &Framework,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        feasible: &NodeSet,
    ) -> Option<Vec<(i64, Box<dyn ScoreRule>)>> {
        let mut rules = Vec::new();
        for seat in self.fresh_scores.iter().map(|&at| &framework.scores[at]) {
            match seat.plugin.prepare(pod, snapshot, feasible) {
                Prepared::Skip => {}
                Prepared::Run { rule, .. } => rules.extend(seat.score.map(|_| (seat.weight, rule))),
                Prepared::Rejected(_) | Prepared::Failed(_) => return None,
            }
        }
        Some(rules)
    }

    /// The total of each feasible node; `None` where a rule fails.
    fn totals(
        &self,
        snapshot: Snapshot<'_>,
        feasible: &NodeSet,
        fresh: &[(i64, Box<dyn ScoreRule>)],
    ) -> Option<Vec<i64>> {
        let mut totals: Vec<i64> = feasible.iter().map(|node| self.base[node.index()]).collect();
        let mut cells = Vec::new();
        for it in &self.relative {
            if it.non_zero == 0 {
                let mut same = [0];
                it.rule.normalize(snapshot, feasible, &mut same);
                if same[0] != 0 {
                    add(&mut totals, it.weight, same.iter().cycle())?;
                }
                continue;
            }
            cells.clear();
            cells.extend(feasible.iter().map(|node| it.raw[node.index()]));
            it.rule.normalize(snapshot, feasible, &mut cells);
            add(&mut totals, it.weight, cells.iter())?;
        }
        for (weight, rule) in fresh {
            cells.clear();
            cells.resize(totals.len(), 0);
            rule.score(snapshot, feasible, &mut cells).ok()?;
            rule.normalize(snapshot, feasible, &mut cells);
            add(&mut totals, *weight, cells.iter())?;
        }
        Some(totals)
    }
}

type FreshRules = Vec<(usize, Box<dyn FilterRule>)>;

/// Adds weighted scores; `None` where one is none.
fn add<'a>(totals: &mut [i64], weight: i64, scores: impl Iterator<Item = &'a i64>) -> Option<()> {
    for (total, &score) in totals.iter_mut().zip(scores) {
        if !(0..=MAX_NODE_SCORE).contains(&score) {
            return None;
        }
        *total += weight * score;
    }
    Some(())
}
