//! What is remembered of one signature: for each node whether it passes the filters that judge nodes one by one and what
//! the scores that do so give it, and the sums that the others follow from.

use super::atlas::Atlas;
use super::classes::Classes;
use super::leaders::Leaders;
use super::sums::Sums;
use crate::cache::{Overlay, Snapshot, Touch};
use crate::cycle::{Framework, Point, Probe};
use crate::framework::tally::Outdated;
use crate::framework::{
    DependsOn, FilterRule, MAX_NODE_SCORE, Prepared, Reads, Scale, ScoreRule, Tallied, Verdict,
};
use crate::mutation::{self, Mutation};
use crate::node::NodeIdx;
use crate::node_set::NodeSet;
use crate::pod::PodInfo;

/// What a node that cannot be chosen gets: below everything, and so that two of them can be added.
pub(super) const NEVER: i32 = i32::MIN / 2;
/// Beyond this the points of all scores together would not fit.
const WEIGHTS_MAX: i64 = (i32::MAX / 4) as i64 / MAX_NODE_SCORE;

/// One signature.
pub(super) struct Shape {
    /// The cache's clock when this was last brought up to date.
    seen: u64,
    era: u64,
    /// Of namespaces, Services and controllers.
    lookups: u64,
    /// Those that look at nothing but the node's object.
    object_filters: Vec<Box<dyn FilterRule>>,
    /// Those that look at the pods there, too.
    usage_filters: Vec<Box<dyn FilterRule>>,
    /// The nodes PreFilter narrowed the search to.
    only: Option<NodeSet>,
    /// The nodes that pass but for the pods there.
    fitting: NodeSet,
    raw: Vec<(i64, Box<dyn ScoreRule>)>,
    relative: Vec<(i64, Box<dyn ScoreRule>)>,
    /// Whether all of these look at nothing but the node's object.
    is_relative_to_objects: bool,
    sums: Sums,
    /// Seats of plugins that have nothing to say of the pod as long as they say so themselves.
    silent_filters: Vec<usize>,
    silent_scores: Vec<usize>,
    /// By slot: weight times score of all scores that count as they are; [`NEVER`] where a filter rejects.
    base: Vec<i32>,
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
    /// The shape of the pod's signature, up to date. `kin` is one to which nodes are the same (see
    /// [`NodeSignature`](crate::signature::NodeSignature)), and up to date.
    pub(super) fn new(
        framework: &Framework,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        atlas: &mut Atlas,
        kin: Option<&Self>,
    ) -> Result<Self, Extraordinary> {
        let mut shape = Self {
            seen: snapshot.clock(),
            era: snapshot.era(),
            lookups: snapshot.lookups().changes(),
            object_filters: Vec::new(),
            usage_filters: Vec::new(),
            only: None,
            fitting: NodeSet::new(),
            raw: Vec::new(),
            relative: Vec::new(),
            is_relative_to_objects: true,
            sums: Sums::default(),
            silent_filters: Vec::new(),
            silent_scores: Vec::new(),
            base: Vec::new(),
            classes: Classes::default(),
            leaders: Leaders::default(),
            verdict: Verdicts::default(),
            bytes: 0,
        };
        shape.take_filters(framework, pod, snapshot)?;
        shape.take_scores(framework, pod, snapshot)?;
        shape.sums.count(snapshot, atlas)?;
        match kin {
            Some(kin) => shape.inherit(snapshot, kin)?,
            None => shape.patch(snapshot, snapshot.nodes(), snapshot.nodes(), snapshot.nodes())?,
        }
        shape.bytes = shape.weighed();
        Ok(shape)
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

    fn take_filters(
        &mut self,
        framework: &Framework,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
    ) -> Result<(), Extraordinary> {
        for (at, seat) in framework.filters.iter().enumerate() {
            if seat.plugin.reads() == Reads::Cluster {
                // Where upstream's points are enabled one by one the plain path knows what follows.
                let is_whole = seat.pre_filter && seat.filter.is_some_and(|place| place.fails.is_none());
                match seat.plugin.tally(pod, snapshot) {
                    Tallied::Yes(tally) if is_whole => self.sums.add_filter(tally),
                    Tallied::Silent if is_whole => {}
                    _ => self.silent_filters.push(at),
                }
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
                    Prepared::Rejected(_) | Prepared::Failed(_) => return Err(Extraordinary),
                }
            } else {
                crate::cycle::filter::unprepared(seat, pod, snapshot)
            };
            match rule.filter(|_| seat.filter.is_some()) {
                Some(rule) if rule.depends_on() == DependsOn::NodeSpec => self.object_filters.push(rule),
                Some(rule) => {
                    debug_assert_ne!(rule.depends_on(), DependsOn::Cluster, "it judges each node by itself");
                    self.usage_filters.push(rule);
                }
                None => {}
            }
        }
        Ok(())
    }

    fn take_scores(
        &mut self,
        framework: &Framework,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
    ) -> Result<(), Extraordinary> {
        let mut weights = 0_i64;
        for (at, seat) in framework.scores.iter().enumerate() {
            if !seat.pre_score && seat.score.is_some_and(|place| place.fails.is_some()) {
                return Err(Extraordinary);
            }
            weights = weights.saturating_add(seat.weight.saturating_abs());
            if seat.plugin.reads() == Reads::Cluster {
                match seat.plugin.tally(pod, snapshot) {
                    Tallied::Yes(tally) if seat.pre_score && seat.score.is_some() => {
                        self.sums.add_score(seat.weight, tally);
                    }
                    Tallied::Silent if seat.pre_score => {}
                    _ => self.silent_scores.push(at),
                }
                continue;
            }
            let rule = match seat.plugin.prepare(pod, snapshot, snapshot.nodes()) {
                Prepared::Skip => continue,
                Prepared::Run { rule, .. } => rule,
                Prepared::Rejected(_) | Prepared::Failed(_) => return Err(Extraordinary),
            };
            if seat.score.is_none() {
                continue;
            }
            match rule.scale() {
                Scale::Raw => self.raw.push((seat.weight, rule)),
                Scale::Relative => {
                    self.is_relative_to_objects &= rule.depends_on() == DependsOn::NodeSpec;
                    self.relative.push((seat.weight, rule));
                }
            }
        }
        if weights > WEIGHTS_MAX { Err(Extraordinary) } else { Ok(()) }
    }

    /// Takes over what nodes are to pods like these, whatever pods are around.
    fn inherit(&mut self, snapshot: Snapshot<'_>, kin: &Self) -> Result<(), Extraordinary> {
        self.fitting = kin.fitting.clone();
        self.base.clone_from(&kin.base);
        let (own, theirs) = (self.sums.len(), kin.sums.len());
        if own == 0 && theirs == 0 {
            self.classes = kin.classes.clone();
            self.leaders = kin.leaders.clone();
            return Ok(());
        }
        self.classes.resize(self.base.len());
        let mut views = Vec::with_capacity(own + self.relative.len());
        for node in snapshot.nodes().iter().filter(|node| self.base[node.index()] != NEVER) {
            views.clear();
            self.sums.views(node, &mut views);
            views.extend_from_slice(&kin.classes.of(node)[theirs..]);
            if !self.classes.put(node, &views) {
                return Err(Extraordinary);
            }
        }
        Ok(())
    }

    fn narrow(&mut self, only: NodeSet) {
        match &mut self.only {
            Some(so_far) => so_far.intersect(&only),
            None => self.only = Some(only),
        }
    }

    /// Brings the shape up to date.
    ///
    /// # Errors
    /// When it has to be made anew.
    pub(super) fn catch_up(&mut self, snapshot: Snapshot<'_>) -> Result<(), Extraordinary> {
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
        self.patch(snapshot, &touched, &objects, &changed)?;
        changed.subtract(&touched);
        self.classify_again(&changed)
    }

    /// Judges and scores these nodes anew, which have been counted; of `objects`, which are among them, the object changed as
    /// well, and `changed` see other sums than before.
    fn patch(
        &mut self,
        snapshot: Snapshot<'_>,
        nodes: &NodeSet,
        objects: &NodeSet,
        changed: &NodeSet,
    ) -> Result<(), Extraordinary> {
        let slots = snapshot.columns().pods.len();
        self.base.resize(slots, NEVER);
        self.classes.resize(slots);
        self.judge_objects(snapshot, objects)?;
        let mut passing = nodes.clone();
        passing.intersect(&self.fitting);
        for rule in &self.usage_filters {
            rule.filter(snapshot, &mut passing).map_err(|_| Extraordinary)?;
        }
        let base = self.score_alone(snapshot, &passing)?;
        let (unknown, relative) = self.score_relative(snapshot, &passing, objects)?;
        let mut views = Vec::with_capacity(self.sums.len() + relative.len());
        let mut passed = passing.iter().zip(base).peekable();
        let mut unknown = unknown.iter().enumerate().peekable();
        for node in nodes.iter() {
            let before = self.standing(node);
            let Some((_, base)) = passed.next_if(|&(passing, _)| passing == node) else {
                self.base[node.index()] = NEVER;
                self.classes.leave(node);
                self.leaders.moved(node, before, self.standing(node));
                continue;
            };
            self.base[node.index()] = i32::try_from(base).map_err(|_| Extraordinary)?;
            let unknown = unknown.next_if(|&(_, unknown)| unknown == node);
            if unknown.is_some() || changed.contains(node) {
                views.clear();
                self.sums.views(node, &mut views);
                match unknown {
                    Some((at, _)) => views.extend(relative.iter().map(|raw| raw[at])),
                    None => views.extend_from_slice(&self.classes.of(node)[self.sums.len()..]),
                }
                if !self.classes.put(node, &views) {
                    return Err(Extraordinary);
                }
            }
            self.leaders.moved(node, before, self.standing(node));
        }
        Ok(())
    }

    /// A node's class and what it gets in it.
    fn standing(&self, node: NodeIdx) -> (u16, i32) {
        (self.classes.by_slot()[node.index()], self.base[node.index()])
    }

    /// What the filters that look at nodes' objects alone say of these nodes.
    fn judge_objects(&mut self, snapshot: Snapshot<'_>, changed: &NodeSet) -> Result<(), Extraordinary> {
        if changed.is_empty() {
            return Ok(());
        }
        let mut fitting = changed.clone();
        if let Some(only) = &self.only {
            fitting.intersect(only);
        }
        for rule in &self.object_filters {
            rule.filter(snapshot, &mut fitting).map_err(|_| Extraordinary)?;
        }
        self.fitting.subtract(changed);
        self.fitting.unite(&fitting);
        Ok(())
    }

    /// What the scores that count as they are give each of these nodes together.
    fn score_alone(&self, snapshot: Snapshot<'_>, nodes: &NodeSet) -> Result<Vec<i64>, Extraordinary> {
        let mut base = vec![0_i64; nodes.len()];
        let mut cells = base.clone();
        for (weight, rule) in &self.raw {
            rule.score(snapshot, nodes, &mut cells).map_err(|_| Extraordinary)?;
            for (base, score) in base.iter_mut().zip(&cells) {
                if !(0..=MAX_NODE_SCORE).contains(score) {
                    // The plain path says what is wrong with it.
                    return Err(Extraordinary);
                }
                *base += weight * score;
            }
        }
        Ok(base)
    }

    /// Those of the nodes whose raw scores are not known from before, and by score what they are.
    fn score_relative(
        &self,
        snapshot: Snapshot<'_>,
        nodes: &NodeSet,
        changed: &NodeSet,
    ) -> Result<(NodeSet, Vec<Vec<i64>>), Extraordinary> {
        let mut unknown = nodes.clone();
        if self.is_relative_to_objects {
            unknown.retain(|node| changed.contains(node) || !self.classes.has(node));
        }
        let mut relative = Vec::with_capacity(self.relative.len());
        for (_, rule) in &self.relative {
            let mut cells = vec![0; unknown.len()];
            rule.score(snapshot, &unknown, &mut cells).map_err(|_| Extraordinary)?;
            relative.push(cells);
        }
        Ok((unknown, relative))
    }

    /// Puts nodes into their classes by what is summed by now.
    fn classify_again(&mut self, nodes: &NodeSet) -> Result<(), Extraordinary> {
        let mut views = Vec::new();
        for node in nodes.iter().filter(|node| self.base[node.index()] != NEVER) {
            let before = self.standing(node);
            views.clear();
            self.sums.views(node, &mut views);
            views.extend_from_slice(&self.classes.of(node)[self.sums.len()..]);
            if !self.classes.put(node, &views) {
                return Err(Extraordinary);
            }
            self.leaders.moved(node, before, self.standing(node));
        }
        Ok(())
    }

    /// Decides; afterwards nodes can be asked for.
    pub(super) fn decide(
        &mut self,
        framework: &Framework,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        probe: &mut dyn Probe,
    ) -> Result<(), Extraordinary> {
        probe.enter(Point::PreFilter);
        let silent = self.is_silent(framework, pod, snapshot);
        probe.leave(Point::PreFilter, "Success");
        silent?;
        probe.enter(Point::Filter);
        let nodes = self.filter(pod, snapshot);
        probe.leave(Point::Filter, "Success");
        let nodes = nodes?;
        if self.verdict.feasible == 1 {
            return Ok(());
        }
        // The preparation is part of it: what scores are made of is there already.
        probe.enter(Point::PreScore);
        probe.leave(Point::PreScore, "Success");
        probe.enter(Point::Score);
        let scored = self.score(snapshot, &nodes);
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
    fn filter(&mut self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Result<Vec<u32>, Extraordinary> {
        let mut nodes = self.classes.nodes().to_vec();
        self.sums.filter(|class| self.classes.views(class), &mut nodes);
        self.verdict.barred.clear();
        for node in snapshot.nodes_with_nominations() {
            let class = usize::from(self.classes.by_slot()[node.index()]);
            if nodes[class] > 0 && !self.passes_with_nominated(pod, snapshot, node)? {
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
        let view = snapshot.node(node).with(&overlay);
        for rule in self.object_filters.iter().chain(&self.usage_filters) {
            match rule.check(&view) {
                Verdict::Fits => {}
                Verdict::Rejected(_) => return Ok(false),
                Verdict::Failed(_) => return Err(Extraordinary),
            }
        }
        Ok(true)
    }

    /// What the nodes of each class get beside their base.
    fn score(&mut self, snapshot: Snapshot<'_>, nodes: &[u32]) -> Result<(), Extraordinary> {
        let Self { classes, sums, relative, verdict: Verdicts { points, .. }, .. } = self;
        let mut are_scores = true;
        let mut give = |class: usize, weight: i64, score: i64| {
            are_scores &= (0..=MAX_NODE_SCORE).contains(&score);
            // The weights were looked at when the shape was made.
            points[class] += (weight * score.clamp(0, MAX_NODE_SCORE)) as i32;
        };
        sums.score(|class| classes.views(class), nodes, &mut give);
        let passing: Vec<usize> = (0..nodes.len()).filter(|&class| nodes[class] > 0).collect();
        for (at, (weight, rule)) in relative.iter().enumerate() {
            let raw = |&class: &usize| classes.views(class)[sums.len() + at];
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
