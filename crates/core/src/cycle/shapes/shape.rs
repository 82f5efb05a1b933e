//! What is remembered of one signature beside its trunk: the sums of pods by topology domain that affinity and spreading follow from,
//! and which nodes are the same to all that looks at them together.

use super::atlas::Atlas;
use super::classes::Classes;
use super::leaders::Leaders;
use super::sums::Sums;
use super::trunk::Trunk;
use crate::cache::{Overlay, Snapshot, Touch};
use crate::cycle::{Framework, Point, Probe};
use crate::framework::tally::Outdated;
use crate::framework::{MAX_NODE_SCORE, Prepared, Reads, Tallied};
use crate::mutation::{self, Mutation};
use crate::node::NodeIdx;
use crate::node_set::NodeSet;
use crate::pod::PodInfo;

/// What a node that cannot be chosen gets: below everything, and so that two of them can be added.
pub(super) const NEVER: i32 = i32::MIN / 2;
/// One signature.
pub(super) struct Shape {
    /// Where its trunk stands.
    trunk: usize,
    /// The cache's clock when this was last brought up to date.
    seen: u64,
    era: u64,
    /// Of namespaces, Services and controllers.
    lookups: u64,
    sums: Sums,
    /// Seats of plugins that have nothing to say of the pod as long as they say so themselves.
    silent_filters: Vec<usize>,
    silent_scores: Vec<usize>,
    /// As the trunk has it.
    base: Vec<i32>,
    /// By the trunk's class and what is summed for a node; where nothing is, the trunk's own.
    classes: Classes,
    leaders: Leaders,
    verdict: Verdicts,
    bytes: usize,
}

/// The last decision, by class.
#[derive(Default)]
struct Verdicts {
    /// What the nodes of a class get beside their base; [`NEVER`] where they do not pass.
    points: Vec<i32>,
    /// How many nodes pass.
    feasible: usize,
    /// Nodes that pass but for the pods that are nominated to them.
    barred: Vec<NodeIdx>,
    /// Room for the totals of all slots.
    totals: Vec<i32>,
}

/// Whether a decision about the pod is out of the ordinary, and the plain path is to be asked.
pub(super) struct Extraordinary;

impl From<Outdated> for Extraordinary {
    fn from(_: Outdated) -> Self {
        Self
    }
}

impl Shape {
    /// The shape of the pod's signature, up to date, as its trunk is, which stands at `place`.
    pub(super) fn new(
        framework: &Framework,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        atlas: &mut Atlas,
        (place, trunk): (usize, &Trunk),
    ) -> Result<Self, Extraordinary> {
        let mut shape = Self {
            trunk: place,
            seen: snapshot.clock(),
            era: snapshot.era(),
            lookups: snapshot.lookups().changes(),
            sums: Sums::default(),
            silent_filters: Vec::new(),
            silent_scores: Vec::new(),
            base: trunk.base().to_vec(),
            classes: Classes::default(),
            leaders: Leaders::default(),
            verdict: Verdicts::default(),
            bytes: 0,
        };
        shape.take_tallies(framework, pod, snapshot)?;
        shape.sums.count(snapshot, atlas)?;
        if shape.sums.len() == 0 {
            shape.classes = trunk.classes().mirrored();
        } else {
            shape.classes.resize(shape.base.len());
            shape.classify(trunk, snapshot.nodes())?;
        }
        shape.bytes = shape.weighed();
        Ok(shape)
    }

    /// Where its trunk stands.
    pub(super) fn trunk(&self) -> usize {
        self.trunk
    }

    /// The heap it took when it was made, and will take by its decisions; what changes later is little.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn weighed(&self) -> usize {
        let Self { base, classes, sums, .. } = self;
        // One number more for each slot, where totals have to be written down.
        let numbers = 2 * base.capacity() * size_of::<i32>();
        size_of::<Self>() + numbers + classes.bytes() + Leaders::bytes(base.len()) + sums.bytes()
    }

    fn take_tallies(
        &mut self,
        framework: &Framework,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
    ) -> Result<(), Extraordinary> {
        for (at, seat) in framework.filters.iter().enumerate() {
            if seat.plugin.reads() != Reads::Cluster {
                continue;
            }
            // Where upstream's points are enabled one by one the plain path knows what follows.
            let is_whole = seat.pre_filter && seat.filter.is_some_and(|place| place.fails.is_none());
            match seat.plugin.tally(pod, snapshot) {
                Tallied::Yes(tally) if is_whole => self.sums.add_filter(tally),
                Tallied::Silent if is_whole => {}
                _ => self.silent_filters.push(at),
            }
        }
        for (at, seat) in framework.scores.iter().enumerate() {
            if !seat.pre_score && seat.score.is_some_and(|place| place.fails.is_some()) {
                return Err(Extraordinary);
            }
            if seat.plugin.reads() != Reads::Cluster {
                continue;
            }
            match seat.plugin.tally(pod, snapshot) {
                Tallied::Yes(tally) if seat.pre_score && seat.score.is_some() => {
                    self.sums.add_score(seat.weight, tally);
                }
                Tallied::Silent if seat.pre_score => {}
                _ => self.silent_scores.push(at),
            }
        }
        Ok(())
    }

    /// Brings the shape up to date, as its trunk is.
    ///
    /// # Errors
    /// When it has to be made anew.
    pub(super) fn catch_up(&mut self, trunk: &Trunk, snapshot: Snapshot<'_>) -> Result<(), Extraordinary> {
        if self.era != snapshot.era() || self.lookups != snapshot.lookups().changes() {
            return Err(Extraordinary);
        }
        if self.seen == snapshot.clock() || mutation::is_on(Mutation::ShapesStand) {
            return Ok(());
        }
        let touches = || snapshot.touched_since(self.seen).ok_or(Extraordinary);
        let (mut touched, mut objects, mut changed) = (NodeSet::new(), NodeSet::new(), NodeSet::new());
        for (node, touch) in touches()? {
            touched.insert(node);
            if touch == Touch::Object {
                objects.insert(node);
            }
        }
        touched.intersect(snapshot.nodes());
        objects.intersect(snapshot.nodes());
        self.sums.recount(snapshot, touches()?, &objects, &mut changed)?;
        self.seen = snapshot.clock();
        self.base.resize(trunk.base().len(), NEVER);
        self.classes.resize(trunk.base().len());
        self.patch(trunk, &touched, &objects, &changed)?;
        changed.subtract(&touched);
        self.classify(trunk, &changed)
    }

    /// Takes over what the trunk says of these nodes, which have been counted; of `objects`, which are among them, the object
    /// changed as well, and `changed` see other sums than before.
    fn patch(
        &mut self,
        trunk: &Trunk,
        nodes: &NodeSet,
        objects: &NodeSet,
        changed: &NodeSet,
    ) -> Result<(), Extraordinary> {
        let mut views = vec![0; self.sums.len() + 1];
        for node in nodes.iter() {
            let (before, base) = (self.standing(node), trunk.base()[node.index()]);
            self.base[node.index()] = base;
            if base == NEVER {
                self.classes.leave(node);
            } else {
                let root = i64::from(trunk.classes().by_slot()[node.index()]);
                let is_known = self.classes.views(usize::from(before.0)).first() == Some(&root);
                if !is_known || changed.contains(node) || objects.contains(node) {
                    self.put(trunk, node, &mut views)?;
                }
            }
            self.leaders.moved(node, before, self.standing(node));
        }
        Ok(())
    }

    /// Puts nodes that pass into their classes by what is summed by now.
    fn classify(&mut self, trunk: &Trunk, nodes: &NodeSet) -> Result<(), Extraordinary> {
        let mut views = vec![0; self.sums.len() + 1];
        for node in nodes.iter().filter(|node| trunk.base()[node.index()] != NEVER) {
            let before = self.standing(node);
            self.put(trunk, node, &mut views)?;
            self.leaders.moved(node, before, self.standing(node));
        }
        Ok(())
    }

    fn put(&mut self, trunk: &Trunk, node: NodeIdx, views: &mut [i64]) -> Result<(), Extraordinary> {
        let class = trunk.classes().by_slot()[node.index()];
        let (first, rest) = views.split_first_mut().expect("there is room for the class");
        *first = i64::from(class);
        self.sums.views(node, rest);
        if self.classes.put(node, views) { Ok(()) } else { Err(Extraordinary) }
    }

    /// A node's class and what it gets in it.
    fn standing(&self, node: NodeIdx) -> (u16, i32) {
        (self.classes.by_slot()[node.index()], self.base[node.index()])
    }

    /// Decides; afterwards nodes can be asked for.
    pub(super) fn decide(
        &mut self,
        framework: &Framework,
        trunk: &Trunk,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        probe: &mut dyn Probe,
    ) -> Result<(), Extraordinary> {
        probe.enter(Point::PreFilter);
        let silent = self.is_silent(framework, pod, snapshot);
        probe.leave(Point::PreFilter, "Success");
        silent?;
        probe.enter(Point::Filter);
        let nodes = self.filter(trunk, pod, snapshot);
        probe.leave(Point::Filter, "Success");
        let nodes = nodes?;
        if self.verdict.feasible == 1 {
            return Ok(());
        }
        // The preparation is part of it: what scores are made of is there already.
        probe.enter(Point::PreScore);
        probe.leave(Point::PreScore, "Success");
        probe.enter(Point::Score);
        let scored = self.score(trunk, snapshot, &nodes);
        probe.leave(Point::Score, "Success");
        scored
    }

    fn is_silent(
        &self,
        framework: &Framework,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
    ) -> Result<(), Extraordinary> {
        for seat in self.silent_filters.iter().map(|&at| &framework.filters[at]) {
            if seat.pre_filter {
                if !matches!(seat.plugin.prepare(pod, snapshot), Prepared::Skip) {
                    return Err(Extraordinary);
                }
            } else if seat.filter.is_some() && crate::cycle::filter::unprepared(seat, pod, snapshot).is_some()
            {
                return Err(Extraordinary);
            }
        }
        for seat in self.silent_scores.iter().map(|&at| &framework.scores[at]) {
            if !matches!(seat.plugin.prepare(pod, snapshot, snapshot.nodes()), Prepared::Skip) {
                return Err(Extraordinary);
            }
        }
        Ok(())
    }

    /// How many nodes of each class pass. At least one does.
    fn filter(
        &mut self,
        trunk: &Trunk,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
    ) -> Result<Vec<u32>, Extraordinary> {
        let mut nodes = self.classes.nodes().to_vec();
        self.sums.filter(|class| &self.classes.views(class)[1..], &mut nodes);
        self.verdict.barred.clear();
        for node in snapshot.nodes_with_nominations() {
            let class = usize::from(self.classes.by_slot()[node.index()]);
            if nodes[class] > 0 && !self.passes_with_nominated(trunk, pod, snapshot, node)? {
                nodes[class] -= 1;
                self.verdict.barred.push(node);
            }
        }
        self.verdict.points.clear();
        self.verdict.points.extend(nodes.iter().map(|&nodes| if nodes > 0 { 0 } else { NEVER }));
        self.verdict.feasible = nodes.iter().map(|&nodes| nodes as usize).sum();
        if self.verdict.feasible == 0 { Err(Extraordinary) } else { Ok(nodes) }
    }

    /// Whether a node passes with the pods that are nominated to it and matter as much.
    fn passes_with_nominated(
        &self,
        trunk: &Trunk,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
    ) -> Result<bool, Extraordinary> {
        let mut overlay = Overlay::new();
        let nominated = snapshot.nominated_on(node).iter();
        for other in nominated.filter(|other| other.priority >= pod.priority && other.uid != pod.uid) {
            overlay.add(other);
        }
        if overlay.is_empty() {
            return Ok(true);
        }
        if self.sums.filters_count() {
            return Err(Extraordinary);
        }
        trunk.passes(&snapshot.node(node).with(&overlay))
    }

    /// What the nodes of each class get beside their base.
    fn score(&mut self, trunk: &Trunk, snapshot: Snapshot<'_>, nodes: &[u32]) -> Result<(), Extraordinary> {
        let Self { classes, sums, verdict: Verdicts { points, .. }, .. } = self;
        let mut are_scores = true;
        let mut give = |class: usize, weight: i64, score: i64| {
            are_scores &= (0..=MAX_NODE_SCORE).contains(&score);
            // The weights were looked at when the trunk was made.
            points[class] += (weight * score.clamp(0, MAX_NODE_SCORE)) as i32;
        };
        sums.score(|class| &classes.views(class)[1..], nodes, &mut give);
        let passing: Vec<usize> = (0..nodes.len()).filter(|&class| nodes[class] > 0).collect();
        for (at, (weight, rule)) in trunk.relative().iter().enumerate() {
            let root = |class: usize| usize::try_from(classes.views(class)[0]).expect("a class of the trunk");
            let raw = |&class: &usize| trunk.classes().views(root(class))[at];
            let mut cells: Vec<i64> = passing.iter().map(raw).collect();
            // It looks at scores alone, and what holds for all of them holds for one of each.
            rule.normalize(snapshot, &NodeSet::new(), &mut cells);
            for (&class, &score) in passing.iter().zip(&cells) {
                give(class, *weight, score);
            }
        }
        if are_scores { Ok(()) } else { Err(Extraordinary) }
    }

    /// How many nodes can take the pod, by the last decision.
    pub(super) fn feasible(&self) -> usize {
        self.verdict.feasible
    }

    /// The total of each slot by the last decision; far below zero where the node cannot take the pod.
    fn totals(&self) -> impl Iterator<Item = (NodeIdx, i32)> + '_ {
        let points = &self.verdict.points;
        let slots = self.base.iter().zip(self.classes.by_slot());
        (0..).map(NodeIdx).zip(slots).map(|(node, (base, class))| {
            let is_barred = !self.verdict.barred.is_empty() && self.verdict.barred.contains(&node);
            (node, if is_barred { NEVER } else { base + points[usize::from(*class)] })
        })
    }

    /// The feasible nodes with their totals by the last decision, in slot order.
    pub(super) fn scored(&self) -> impl Iterator<Item = (NodeIdx, i64)> + '_ {
        self.totals().filter(|&(_, total)| total > NEVER / 2).map(|(node, total)| (node, i64::from(total)))
    }

    /// The total of a feasible node by the last decision.
    pub(super) fn total(&self, node: NodeIdx) -> i64 {
        let class = self.classes.by_slot()[node.index()];
        i64::from(self.base[node.index()] + self.verdict.points[usize::from(class)])
    }

    /// Of the nodes with the highest total, in slot order, the one that `draw` picks of so many.
    pub(super) fn best(&mut self, draw: impl FnOnce(usize) -> usize) -> NodeIdx {
        let Self { base, classes, leaders, verdict: Verdicts { points, barred, totals, .. }, .. } = self;
        if leaders.catch_up(base, classes.by_slot(), classes.nodes()) && barred.is_empty() {
            return leaders.best(base, classes.by_slot(), points, draw);
        }
        let slots = base.iter().zip(classes.by_slot());
        totals.clear();
        totals.extend(slots.map(|(base, class)| base + points[usize::from(*class)]));
        barred.iter().for_each(|node| totals[node.index()] = NEVER);
        let best = totals.iter().copied().max().unwrap_or(NEVER);
        let ties = totals.iter().filter(|&&total| total == best).count();
        let at = draw(ties);
        let mut tied = (0..).zip(totals).filter(|&(_, &mut total)| total == best);
        NodeIdx(tied.nth(at).expect("a draw is below the number it is drawn of").0)
    }
}
