//! What is remembered of one signature beside its trunk: the sums of pods by topology domain that affinity and spreading follow from,
//! and which nodes are the same to all that looks at them together.

use super::base_partition::Stems;
use super::node_classes::Classes;
use super::node_evaluation::Trunk;
use super::node_evaluations::Root;
use super::score_table::{Award, Field};
use super::topology_counts::{Counted, Sums};
use super::topology_index::Atlas;
use crate::cache::{NodeView, Overlay, Snapshot, Touch};
use crate::cycle::{Framework, Point, Probe};
use crate::framework::tally::Outdated;
use crate::framework::{FilterRule, MAX_NODE_SCORE, Prepared, Reads, Tallied, Verdict};
use crate::mutation::{self, Mutation};
use crate::node::NodeIdx;
use crate::node_set::NodeSet;
use crate::pod::PodInfo;
use crate::time::Time;

/// What a node that cannot be chosen gets: below everything, and so that two of them can be added.
pub(super) const NEVER: i32 = i32::MIN / 2;
/// Where pods are summed on more than one of so many nodes, looking at all nodes in a row is faster than at those.
const BUSY: usize = 3;

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
    /// What nodes get as the trunk has it, in classes by the trunk's class and what is summed for a node; `None` where nothing is, and
    /// the trunk's own is used.
    own: Option<Field>,
    /// By the last decision; barred are nodes that pass but for the pods that are nominated to them.
    award: Award,
    /// How many nodes passed in the last decision.
    feasible: usize,
    bytes: usize,
    /// When it was made, or last compared with a full evaluation in turn.
    pub(super) checked: Time,
}

/// Whether a decision about the pod is out of the ordinary, and the plain path is to be asked.
pub(super) struct Extraordinary;

/// Rules of one pod.
pub(super) type Rules = Vec<Box<dyn FilterRule>>;

impl From<Outdated> for Extraordinary {
    fn from(_: Outdated) -> Self {
        Self
    }
}

impl Shape {
    /// The shape of the pod's signature, up to date, as its trunk is.
    pub(super) fn new(
        framework: &Framework,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        (atlas, stems): (&mut Atlas, &mut Stems),
        root: &Root<'_>,
    ) -> Result<Self, Extraordinary> {
        let mut shape = Self {
            trunk: root.place,
            seen: snapshot.clock(),
            era: snapshot.era(),
            lookups: snapshot.lookups().changes(),
            sums: Sums::default(),
            silent_filters: Vec::new(),
            silent_scores: Vec::new(),
            own: None,
            award: Award::default(),
            feasible: 0,
            bytes: 0,
            checked: Time::default(),
        };
        if !root.trunk.is_barren() {
            shape.take_tallies(framework, pod, snapshot)?;
            let counted = shape.sums.count(snapshot, atlas)?;
            if shape.sums.len() > 0 {
                shape.own = Some(shape.grown(snapshot, stems, root, counted)?);
            }
        }
        shape.bytes = shape.weighed();
        Ok(shape)
    }

    /// All nodes to this signature, which has counted.
    fn grown(
        &self,
        snapshot: Snapshot<'_>,
        stems: &mut Stems,
        root: &Root<'_>,
        Counted { outlines, busy }: Counted,
    ) -> Result<Field, Extraordinary> {
        let trunk = root.trunk.field();
        if busy.len() <= snapshot.nodes().len() / BUSY
            && let Some(stem) = outlines.and_then(|outlines| stems.field(root, snapshot, outlines))
        {
            let mut field = stem.clone();
            let view = |node, views: &mut [i64]| self.sums.views(node, views);
            let mut busy = busy;
            busy.intersect(snapshot.nodes());
            let is_grown = field.follow(trunk, &busy, self.sums.len(), |_| false, view);
            return is_grown.then_some(field).ok_or(Extraordinary);
        }
        trunk.grown(&self.sums.columns()).ok_or(Extraordinary)
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
        let field = self.own.as_ref().map_or(0, Field::bytes);
        size_of::<Self>() + field + self.sums.bytes()
    }

    fn take_tallies(
        &mut self,
        framework: &Framework,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
    ) -> Result<(), Extraordinary> {
        for (at, seat) in framework.filters.iter().enumerate() {
            if seat.plugin.reads() == Reads::Pod {
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
            if seat.plugin.reads() == Reads::Pod {
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
        if trunk.is_barren() {
            self.seen = snapshot.clock();
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
        let Some(own) = &mut self.own else { return Ok(()) };
        own.resize(trunk.field().base().len());
        self.patch(trunk, &touched, &objects, &changed)?;
        changed.subtract(&touched);
        self.patch(trunk, &changed, &NodeSet::new(), &changed)
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
        let Self { own: Some(own), sums, .. } = self else { return Ok(()) };
        let stands = |node| !changed.contains(node) && !objects.contains(node);
        let view = |node, views: &mut [i64]| sums.views(node, views);
        let is_followed = own.follow(trunk.field(), nodes, sums.len(), stands, view);
        if is_followed { Ok(()) } else { Err(Extraordinary) }
    }

    /// What nodes get, and in which classes.
    fn field<'a>(&'a self, trunk: &'a Trunk) -> &'a Field {
        self.own.as_ref().unwrap_or(trunk.field())
    }

    /// Decides; afterwards nodes can be asked for.
    pub(super) fn decide(
        &mut self,
        framework: &Framework,
        trunk: &Trunk,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        probe: &mut dyn Probe,
    ) -> Result<Rules, Extraordinary> {
        probe.enter(Point::PreFilter);
        let rules = self.rules_of_its_own(framework, pod, snapshot);
        probe.leave(Point::PreFilter, "Success");
        let rules = rules?;
        probe.enter(Point::Filter);
        let nodes = self.filter(trunk, pod, snapshot, &rules);
        probe.leave(Point::Filter, "Success");
        let nodes = nodes?;
        if self.feasible == 1 {
            return Ok(rules);
        }
        // The preparation is part of it: what scores are made of is there already.
        probe.enter(Point::PreScore);
        probe.leave(Point::PreScore, "Success");
        probe.enter(Point::Score);
        let scored = self.score(trunk, snapshot, &nodes);
        probe.leave(Point::Score, "Success");
        scored.map(|()| rules)
    }

    /// The rules of the pod itself, which is no other's: what those say of its volumes that read nothing else. All others have to be silent.
    fn rules_of_its_own(
        &self,
        framework: &Framework,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
    ) -> Result<Rules, Extraordinary> {
        let mut rules = Rules::new();
        for seat in self.silent_filters.iter().map(|&at| &framework.filters[at]) {
            let rule = if seat.pre_filter {
                match seat.plugin.prepare(pod, snapshot) {
                    Prepared::Skip => None,
                    Prepared::Run { rule, only: None } => Some(rule),
                    _ => return Err(Extraordinary),
                }
            } else {
                crate::cycle::unprepared(seat, pod, snapshot)
            };
            let Some(rule) = rule else { continue };
            // Nodes that the others reject are not looked at, as they are where one of them comes later.
            if seat.plugin.reads() != Reads::Volumes || seat.filter.is_none() || !rule.is_safe(snapshot) {
                return Err(Extraordinary);
            }
            rules.push(rule);
        }
        for seat in self.silent_scores.iter().map(|&at| &framework.scores[at]) {
            if !matches!(seat.plugin.prepare(pod, snapshot, snapshot.nodes()), Prepared::Skip) {
                return Err(Extraordinary);
            }
        }
        Ok(rules)
    }

    /// How many nodes of each class pass. At least one does.
    fn filter(
        &mut self,
        trunk: &Trunk,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        rules: &Rules,
    ) -> Result<Vec<u32>, Extraordinary> {
        if trunk.is_barren() {
            return Err(Extraordinary);
        }
        let field = self.field(trunk);
        let (classes, mut nodes) = (field.classes(), field.classes().nodes().to_vec());
        self.sums.filter(|class| self.sums_of(classes, class), &mut nodes);
        let mut barred = if rules.is_empty() {
            NodeSet::new()
        } else {
            barred_by(rules, snapshot, field.passing(&nodes))?
        };
        for node in snapshot.nodes_with_nominations() {
            let class = usize::from(classes.by_slot()[node.index()]);
            if nodes[class] > 0 && !self.passes_with_nominated(trunk, pod, snapshot, node, rules)? {
                barred.insert(node);
            }
        }
        barred.iter().for_each(|node| nodes[usize::from(classes.by_slot()[node.index()])] -= 1);
        let Self { award, feasible, .. } = self;
        award.barred = barred;
        award.points.clear();
        award.points.extend(nodes.iter().map(|&nodes| if nodes > 0 { 0 } else { NEVER }));
        *feasible = nodes.iter().map(|&nodes| nodes as usize).sum();
        if *feasible == 0 { Err(Extraordinary) } else { Ok(nodes) }
    }

    /// What is summed for the nodes of a class, as they see it.
    fn sums_of<'a>(&self, classes: &'a Classes, class: usize) -> &'a [i64] {
        if self.own.is_some() { &classes.views(class)[1..] } else { &[] }
    }

    /// Whether a node passes with the pods that are nominated to it and matter as much.
    fn passes_with_nominated(
        &self,
        trunk: &Trunk,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
        rules: &Rules,
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
        Ok(trunk.passes(&view)? && all_pass(rules.iter(), &view)?)
    }

    /// What the nodes of each class get beside their base.
    fn score(&mut self, trunk: &Trunk, snapshot: Snapshot<'_>, nodes: &[u32]) -> Result<(), Extraordinary> {
        let mut points = std::mem::take(&mut self.award.points);
        let mut are_scores = true;
        let mut give = |class: usize, weight: i64, score: i64| {
            are_scores &= (0..=MAX_NODE_SCORE).contains(&score);
            // The weights were looked at when the trunk was made.
            points[class] += (weight * score.clamp(0, MAX_NODE_SCORE)) as i32;
        };
        let classes = self.field(trunk).classes();
        self.sums.score(|class| self.sums_of(classes, class), nodes, &mut give);
        let passing: Vec<usize> = (0..nodes.len()).filter(|&class| nodes[class] > 0).collect();
        for (at, (weight, rule)) in trunk.relative().iter().enumerate() {
            let root = |class: usize| match &self.own {
                Some(own) => usize::try_from(own.classes().views(class)[0]).expect("a class of the trunk"),
                None => class,
            };
            let raw = |&class: &usize| trunk.field().classes().views(root(class))[at];
            let mut cells: Vec<i64> = passing.iter().map(raw).collect();
            // It looks at scores alone, and what holds for all of them holds for one of each.
            rule.normalize(snapshot, &NodeSet::new(), &mut cells);
            for (&class, &score) in passing.iter().zip(&cells) {
                give(class, *weight, score);
            }
        }
        self.award.points = points;
        if are_scores { Ok(()) } else { Err(Extraordinary) }
    }

    /// Whether a node is of the class that the sums put it into, as they are by now: it was passed over otherwise when they changed.
    pub(super) fn stands(&self, node: NodeIdx) -> bool {
        let Some(own) = &self.own else { return true };
        let mut views = vec![0; self.sums.len()];
        self.sums.views(node, &mut views);
        own.classes().views(usize::from(own.classes().by_slot()[node.index()]))[1..] == views
    }

    /// How many nodes can take the pod, by the last decision.
    pub(super) fn feasible(&self) -> usize {
        self.feasible
    }

    /// The feasible nodes with their totals by the last decision, in slot order.
    pub(super) fn scored<'a>(&'a self, trunk: &'a Trunk) -> impl Iterator<Item = (NodeIdx, i64)> + 'a {
        self.field(trunk).scored(&self.award)
    }

    /// The total of a feasible node by the last decision.
    pub(super) fn total(&self, trunk: &Trunk, node: NodeIdx) -> i64 {
        self.field(trunk).total(&self.award, node)
    }

    /// Of the nodes with the highest total, in slot order, the one that `draw` picks of so many.
    pub(super) fn best(&mut self, trunk: &mut Trunk, draw: impl FnOnce(usize) -> usize) -> NodeIdx {
        self.own.as_mut().unwrap_or(trunk.field_mut()).best(&self.award, draw)
    }
}

/// Of these nodes those that the rules reject.
fn barred_by(rules: &Rules, snapshot: Snapshot<'_>, nodes: NodeSet) -> Result<NodeSet, Extraordinary> {
    let (mut passing, mut barred) = (nodes.clone(), nodes);
    for rule in rules {
        rule.filter(snapshot, &mut passing).map_err(|_| Extraordinary)?;
    }
    barred.subtract(&passing);
    Ok(barred)
}

/// Whether a node as it is in `view` passes.
pub(super) fn all_pass<'r>(
    rules: impl Iterator<Item = &'r Box<dyn FilterRule>>,
    view: &NodeView<'_>,
) -> Result<bool, Extraordinary> {
    for rule in rules {
        match rule.check(view) {
            Verdict::Fits => {}
            Verdict::Rejected(_) => return Ok(false),
            Verdict::Failed(_) => return Err(Extraordinary),
        }
    }
    Ok(true)
}
