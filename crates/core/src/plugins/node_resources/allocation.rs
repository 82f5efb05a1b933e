//! The scoring strategies of NodeResourcesFit, computed from each resource's utilization on a node.
//!
//! Upstream: `resource_allocation.go`, `least_allocated.go`, `most_allocated.go`,
//! `requested_to_capacity_ratio.go` of `pkg/scheduler/framework/plugins/noderesources`, and
//! `plugins/helper/shape_score.go`.

use super::super::normalize::percent;
use super::super::shape::{ShapePoint, broken_line};
use super::simd_block::{self, Buffers, Lanes, Mean, Part};
use crate::cache::{Columns, Snapshot};
use crate::framework::simd::with_best_instructions;
use crate::framework::{DependsOn, MAX_NODE_SCORE};
use crate::model::device::DeviceClass;
use crate::model::intern::Symbol;
use crate::model::node::NodeIdx;
use crate::model::node_set::{NodeSet, bits};
use crate::model::resources::{PodResources, Resources};
use std::sync::Arc;

/// A resource that is scored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceSpec {
    /// Its name.
    pub name: Box<str>,
    /// Its weight, from 1 to 100.
    pub weight: i64,
}

impl ResourceSpec {
    /// Upstream's default: cpu and memory with equal weights.
    pub(super) fn defaults() -> Vec<Self> {
        ["cpu", "memory"].map(|name| Self { name: name.into(), weight: 1 }).into()
    }
}

/// A scoring strategy of NodeResourcesFit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ScoringStrategy {
    /// LeastAllocated: prefers nodes with more free resources.
    #[default]
    LeastAllocated,
    /// MostAllocated: prefers nodes with fewer free resources.
    MostAllocated,
    /// RequestedToCapacityRatio: a shape of at least one point.
    RequestedToCapacityRatio(Box<[ShapePoint]>),
}

impl ScoringStrategy {
    /// Scores each node as if the pod were on it.
    pub(super) fn score(
        &self,
        weighing: &Weighing,
        snapshot: Snapshot<'_>,
        nodes: &NodeSet,
        cells: &mut [i64],
    ) {
        let mean_of_two = weighing.mean_of_two();
        match self {
            Self::LeastAllocated => weighing.score_in_lanes(
                snapshot,
                nodes,
                cells,
                least_allocated,
                #[inline(always)]
                |a, b| mean_of_two.of(a, b, Part::free_percent),
            ),
            Self::MostAllocated => weighing.score_in_lanes(
                snapshot,
                nodes,
                cells,
                most_allocated,
                #[inline(always)]
                |a, b| mean_of_two.of(a, b, Part::taken_percent),
            ),
            Self::RequestedToCapacityRatio(shape) => {
                weighing.score(snapshot, nodes, cells, |shares| shaped(shape, shares));
            }
        }
    }
}

#[inline]
fn least_allocated(shares: &[Share]) -> i64 {
    mean(shares, |share| {
        if share.requested > share.allocatable {
            return 0;
        }
        percent(share.allocatable - share.requested, share.allocatable)
    })
}

#[inline]
fn most_allocated(shares: &[Share]) -> i64 {
    mean(shares, |share| percent(share.requested.min(share.allocatable), share.allocatable))
}

/// Returns the weighted mean of utilizations, given as used amount, allocatable amount and weight of each resource.
/// Resources of which nothing is allocatable are left out.
pub(super) fn mean_utilization(shares: impl Iterator<Item = (i64, i64, i64)>) -> i64 {
    let share = |(requested, allocatable, weight)| Share { allocatable, used: 0, requested, weight };
    let shares: Vec<Share> = shares.map(share).filter(|share| share.allocatable != 0).collect();
    most_allocated(&shares)
}

#[inline]
fn mean(shares: &[Share], score: impl Fn(&Share) -> i64) -> i64 {
    let weights: i64 = shares.iter().map(|share| share.weight).sum();
    if weights == 0 {
        return 0;
    }
    let sum: i64 = shares.iter().map(|share| score(share) * share.weight).sum();
    match (u32::try_from(sum), u32::try_from(weights)) {
        // A 32-bit division takes a fraction of the time.
        (Ok(sum), Ok(weights)) => i64::from(sum / weights),
        _ => sum / weights,
    }
}

/// Unlike the other means, this one leaves out resources that score 0, and rounds.
fn shaped(shape: &[ShapePoint], shares: &[Share]) -> i64 {
    let (mut sum, mut weights) = (0, 0);
    for share in shares {
        let utilization = if share.requested > share.allocatable {
            MAX_NODE_SCORE
        } else {
            percent(share.requested, share.allocatable)
        };
        let score = broken_line(shape, utilization);
        if score > 0 {
            sum += score * share.weight;
            weights += share.weight;
        }
    }
    if weights == 0 {
        return 0;
    }
    (sum as f64 / weights as f64).round() as i64
}

/// The kind of request sums that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Basis {
    /// With defaults for containers without cpu or memory requests; pod-level requests of the incoming pod
    /// are ignored.
    WithDefaults,
    /// The exact requests.
    Real,
}

#[derive(Clone, Copy)]
enum Kind {
    Cpu,
    Memory,
    EphemeralStorage,
    Scalar(Symbol),
}

struct Item {
    kind: Kind,
    request: i64,
    weight: i64,
    /// The DeviceClass that serves the resource on nodes that do not list it.
    class: Option<Arc<DeviceClass>>,
}

/// One pod's request of each scored resource.
pub(super) struct Weighing {
    basis: Basis,
    items: Vec<Item>,
}

/// One resource of a node, as if the pod were on it.
pub(super) struct Share {
    pub(super) allocatable: i64,
    /// The requests of the node's pods.
    pub(super) used: i64,
    /// The requests with the pod.
    pub(super) requested: i64,
    pub(super) weight: i64,
}

/// One resource of all nodes.
struct Column<'c> {
    allocatable: &'c [i64],
    used: &'c [i64],
    request: i64,
    weight: i64,
}

impl Column<'_> {
    fn share(&self, slot: usize) -> Share {
        let used = self.used[slot];
        let requested = used.saturating_add(self.request);
        Share { allocatable: self.allocatable[slot], used, requested, weight: self.weight }
    }

    /// Loads these nodes into the lanes, and returns whether floats represent all amounts exactly.
    #[inline(always)]
    fn fill(&self, slots: &[usize], lanes: &mut Lanes) -> bool {
        let (first, last) = (slots[0], slots[slots.len() - 1]);
        if slots.len() == simd_block::WIDTH
            && last - first == simd_block::WIDTH - 1
            && let (Some(allocatable), Some(used)) =
                (self.allocatable[first..].first_chunk(), self.used[first..].first_chunk())
        {
            return lanes.fill(allocatable, used, self.request, self.weight);
        }
        let (mut allocatable, mut used) = ([0; simd_block::WIDTH], [0; simd_block::WIDTH]);
        for ((allocatable, used), &slot) in allocatable.iter_mut().zip(&mut used).zip(slots) {
            (*allocatable, *used) = (self.allocatable[slot], self.used[slot]);
        }
        lanes.fill(&allocatable, &used, self.request, self.weight)
    }
}

/// Two resources of all nodes.
struct Pair<'c> {
    first: Column<'c>,
    second: Column<'c>,
}

impl Pair<'_> {
    /// Scores each node. `of_two` must equal `score` for two shares.
    #[inline(always)]
    fn score(
        &self,
        nodes: &NodeSet,
        mut cells: &mut [i64],
        score: impl Fn(&[Share]) -> i64,
        of_two: impl Fn(&Part, &Part) -> f64,
    ) {
        let mut buffers = Buffers::default();
        let (mut blocks, mut at, mut rest) = (nodes.blocks(), 0, 0);
        let mut slots = [0; simd_block::WIDTH];
        loop {
            let mut taken = 0;
            while taken < simd_block::WIDTH {
                if rest == 0 {
                    let Some(next) = blocks.next() else { break };
                    (at, rest) = next;
                }
                if rest == u64::MAX && taken == 0 {
                    slots.iter_mut().zip(at..).for_each(|(slot, at)| *slot = at);
                    (taken, rest) = (simd_block::WIDTH, 0);
                    break;
                }
                for (slot, bit) in slots[taken..].iter_mut().zip(bits(rest)) {
                    *slot = at + bit;
                    rest &= rest - 1;
                    taken += 1;
                }
            }
            let here = cells.split_off_mut(..taken).expect("a cell for each node");
            let slots = &slots[..taken];
            if taken >= simd_block::PAY_FROM {
                self.score_lanes(slots, &mut buffers, here, &score, &of_two);
            } else {
                here.iter_mut().zip(slots).for_each(|(cell, &slot)| *cell = self.score_of(slot, &score));
            }
            if taken < simd_block::WIDTH {
                return;
            }
        }
    }

    /// Scores the nodes of one block.
    #[inline(always)]
    fn score_lanes(
        &self,
        slots: &[usize],
        Buffers { first, second, scores }: &mut Buffers,
        cells: &mut [i64],
        score: impl Fn(&[Share]) -> i64,
        of_two: impl Fn(&Part, &Part) -> f64,
    ) {
        if self.first.fill(slots, first) && self.second.fill(slots, second) {
            simd_block::score(first, second, of_two, scores);
            cells.copy_from_slice(&scores[..slots.len()]);
        } else {
            cells.fill(simd_block::NONE);
        }
        for (cell, &slot) in cells.iter_mut().zip(slots).filter(|(cell, _)| **cell == simd_block::NONE) {
            *cell = self.score_of(slot, &score);
        }
    }

    /// Scores one node by those of the two resources that it has.
    fn score_of(&self, slot: usize, score: impl Fn(&[Share]) -> i64) -> i64 {
        let (first, second) = (self.first.share(slot), self.second.share(slot));
        match (first.allocatable, second.allocatable) {
            (0, 0) => score(&[]),
            (_, 0) => score(&[first]),
            (0, _) => score(&[second]),
            _ => score(&[first, second]),
        }
    }
}

impl Weighing {
    pub(super) fn new(
        basis: Basis,
        specs: &[ResourceSpec],
        pod: &PodResources,
        snapshot: Snapshot<'_>,
    ) -> Self {
        let request = match basis {
            Basis::WithDefaults => &pod.score,
            // Unlike Filter, upstream reads the status even of a pod without a node.
            Basis::Real => &pod.placed,
        };
        let item = |spec: &ResourceSpec| {
            let kind = match &*spec.name {
                "cpu" => Kind::Cpu,
                "memory" => Kind::Memory,
                "ephemeral-storage" => Kind::EphemeralStorage,
                name => Kind::Scalar(snapshot.tables().find(name)?),
            };
            let request = amount(request, kind);
            // Scalar resources count only if requested; cpu, memory and ephemeral storage always count.
            let counts = request != 0 || !matches!(kind, Kind::Scalar(_));
            let class = match kind {
                Kind::Scalar(name) => snapshot.serving_class(name).cloned(),
                Kind::Cpu | Kind::Memory | Kind::EphemeralStorage => None,
            };
            counts.then_some(Item { kind, request, weight: spec.weight, class })
        };
        Self { basis, items: specs.iter().filter_map(item).collect() }
    }

    /// Returns the weighted mean of the first two resources.
    fn mean_of_two(&self) -> Mean {
        let weight = |at: usize| self.items.get(at).map_or(0, |item| item.weight);
        Mean::new(weight(0), weight(1))
    }

    /// Whether the pod requests none of the resources.
    pub(super) fn is_nothing(&self) -> bool {
        self.items.iter().all(|item| item.request == 0)
    }

    /// Scores each node by those resources that it has, in the order of the configuration.
    pub(super) fn score(
        &self,
        snapshot: Snapshot<'_>,
        nodes: &NodeSet,
        cells: &mut [i64],
        score: impl Fn(&[Share]) -> i64,
    ) {
        let mut shares = Vec::new();
        for (cell, node) in cells.iter_mut().zip(nodes.iter()) {
            self.shares(snapshot, node, &mut shares);
            *cell = score(&shares);
        }
    }

    /// As [`Self::score`]. `of_two` must equal `score` for two shares.
    pub(super) fn score_in_lanes(
        &self,
        snapshot: Snapshot<'_>,
        nodes: &NodeSet,
        cells: &mut [i64],
        score: impl Fn(&[Share]) -> i64,
        of_two: impl Fn(&Part, &Part) -> f64,
    ) {
        // Nearly all configurations use cpu and memory, and most of the scoring time is spent here.
        match self.pair(snapshot.columns()) {
            [Some(first), Some(second)] => {
                let pair = Pair { first, second };
                // Most calls have only a few nodes, which need no buffers.
                if cells.len() < simd_block::PAY_FROM {
                    let each = cells.iter_mut().zip(nodes.iter());
                    return each.for_each(|(cell, node)| *cell = pair.score_of(node.index(), &score));
                }
                with_best_instructions(
                    #[inline(always)]
                    || pair.score(nodes, cells, score, of_two),
                );
            }
            _ => self.score(snapshot, nodes, cells, score),
        }
    }

    /// Returns the columns of the resources, if there are exactly two and both have columns.
    fn pair<'c>(&self, columns: &'c Columns) -> [Option<Column<'c>>; 2] {
        let [first, second] = &self.items[..] else { return [None, None] };
        [first, second].map(|item| {
            let (allocatable, used) = self.columns_of(item.kind, columns)?;
            Some(Column { allocatable, used, request: item.request, weight: item.weight })
        })
    }

    /// Returns the columns with the allocatable and the requested amounts of a resource.
    fn columns_of<'c>(&self, kind: Kind, columns: &'c Columns) -> Option<(&'c [i64], &'c [i64])> {
        Some(match (kind, self.basis) {
            (Kind::Cpu, Basis::WithDefaults) => (&columns.allocatable_cpu_milli, &columns.non_zero_cpu_milli),
            (Kind::Cpu, Basis::Real) => (&columns.allocatable_cpu_milli, &columns.requested_cpu_milli),
            (Kind::Memory, Basis::WithDefaults) => (&columns.allocatable_memory, &columns.non_zero_memory),
            (Kind::Memory, Basis::Real) => (&columns.allocatable_memory, &columns.requested_memory),
            (Kind::EphemeralStorage, _) => {
                (&columns.allocatable_ephemeral_storage, &columns.requested_ephemeral_storage)
            }
            (Kind::Scalar(_), _) => return None,
        })
    }

    /// Returns the state on which scores depend: devices may be common to several nodes.
    pub(super) fn depends_on(&self) -> DependsOn {
        let counts_devices = self.items.iter().any(|item| item.class.is_some());
        if counts_devices { DependsOn::Cluster } else { DependsOn::NodeUsage }
    }

    /// Fills `shares` with the resources that the node has, in the order of the configuration.
    fn shares(&self, snapshot: Snapshot<'_>, node: NodeIdx, shares: &mut Vec<Share>) {
        shares.clear();
        let (columns, at) = (snapshot.columns(), node.index());
        for item in &self.items {
            let (mut allocatable, mut used) = match self.columns_of(item.kind, columns) {
                Some((allocatable, used)) => (allocatable[at], used[at]),
                None => (
                    amount(&snapshot.node_info(node).allocatable, item.kind),
                    amount(snapshot.requested(node), item.kind),
                ),
            };
            if let Some(class) = item.class.as_ref().filter(|_| allocatable == 0) {
                let (devices, allocated) = snapshot.count_devices(node, class);
                if devices > 0 {
                    (allocatable, used) = (devices, allocated);
                }
            }
            if allocatable != 0 {
                let requested = used.saturating_add(item.request);
                shares.push(Share { allocatable, used, requested, weight: item.weight });
            }
        }
    }
}

fn amount(resources: &Resources, kind: Kind) -> i64 {
    match kind {
        Kind::Cpu => resources.cpu_milli,
        Kind::Memory => resources.memory,
        Kind::EphemeralStorage => resources.ephemeral_storage,
        Kind::Scalar(name) => resources.scalar(name).unwrap_or(0),
    }
}

/// Checks on random nodes that the two forms of a score are equal.
#[cfg(test)]
pub(super) fn check_lanes(
    weights: [i64; 2],
    score: impl Fn(&[Share]) -> i64,
    of_two: impl Fn(&Part, &Part) -> f64,
) {
    const SLOTS: usize = 5 * simd_block::WIDTH + 7;
    let mut random = 1_u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as i64
    };
    let (mut in_lanes, mut asked) = (0, 0);
    for turn in 0..2_000 {
        // In every tenth turn some amounts exceed what floats represent, and in another one nodes lack resources.
        let mut amount = |small: i64| match (turn % 10, next() % 50) {
            (0, 0) => [i64::MAX, (1 << 46) - 1, 1 << 46, 1 << 53, i64::MAX / 200][next() as usize % 5],
            (1, 0) => 0,
            _ => (next() % small) << (next() % 14),
        };
        let mut column = |small: i64| -> Vec<i64> { (0..SLOTS).map(|_| amount(small)).collect() };
        let (has, used) = ([column(64_000), column(1 << 31)], [column(30_000), column(1 << 30)]);
        let request = [amount(30_000), amount(1 << 30)];
        let of = |at: usize| Column {
            allocatable: &has[at],
            used: &used[at],
            request: request[at],
            weight: weights[at],
        };
        let pair = Pair { first: of(0), second: of(1) };
        let share = [1, 2, 7, 64][next() as usize % 4];
        let nodes: NodeSet = (0..SLOTS as u32).map(NodeIdx).filter(|_| next() % share == 0).collect();
        let expected: Vec<i64> = nodes.iter().map(|node| pair.score_of(node.index(), &score)).collect();
        let mut cells = vec![-7; nodes.len()];
        pair.score(&nodes, &mut cells, &score, &of_two);
        assert_eq!(cells, expected, "in turn {turn}");
        cells.fill(-7);
        with_best_instructions(
            #[inline(always)]
            || pair.score(&nodes, &mut cells, &score, &of_two),
        );
        assert_eq!(cells, expected, "in turn {turn}, with the widest registers");
        asked += cells.len();
        in_lanes +=
            nodes.blocks().filter(|(_, slots)| slots.count_ones() as usize >= simd_block::PAY_FROM).count();
    }
    assert!(asked > 100_000 && in_lanes > 1_000, "{asked} scores, {in_lanes} blocks");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(points: &[(i64, i64)]) -> Vec<ShapePoint> {
        points.iter().map(|&(utilization, score)| ShapePoint { utilization, score }).collect()
    }

    #[test]
    fn shape_interpolates_between_points_and_is_flat_outside() {
        // Upstream's `buildBrokenLinearFunction`, on the scale to 100.
        let rising = shape(&[(10, 1), (90, 9)]);
        let at = |p| broken_line(&rising, p);
        assert_eq!([0, 10, 15, 19, 20, 89, 90, 110].map(at), [10, 10, 15, 19, 20, 89, 90, 90]);
        let roof = shape(&[(0, 2), (40, 10), (100, 0)]);
        assert_eq!([0, 20, 30, 40, 70, 110].map(|p| broken_line(&roof, p)), [20, 60, 80, 100, 50, 0]);
    }

    #[test]
    fn falling_shape_truncates_towards_zero() {
        let falling = shape(&[(0, 10), (30, 0)]);
        assert_eq!(broken_line(&falling, 1), 97);
    }

    #[test]
    fn block_scores_equal_single_node_scores() {
        for [a, b] in [[1, 1], [1, 3], [100, 7]] {
            let mean_of_two = Mean::new(a, b);
            check_lanes([a, b], least_allocated, |a, b| mean_of_two.of(a, b, Part::free_percent));
            check_lanes([a, b], most_allocated, |a, b| mean_of_two.of(a, b, Part::taken_percent));
        }
    }

    #[test]
    fn amounts_near_the_integer_limit_are_scored() {
        let share = Share { allocatable: i64::MAX, used: 0, requested: i64::MAX / 4, weight: 100 };
        assert_eq!(least_allocated(&[share]), 75);
    }
}
