//! What signatures start from that count the same on the same nodes: all nodes in classes as if no pod were summed anywhere. Of a new signature
//! only the nodes differ from that where something is. Knows nothing of signatures.

use super::domain_counter::Outline;
use super::node_evaluations::Root;
use super::score_table::Field;
use crate::cache::Snapshot;
use crate::node_set::NodeSet;

/// So many are kept: most pods of a cluster spread over the same domains.
const KEPT: usize = 4;

/// Those that were asked for last, the last one last.
#[derive(Default)]
pub(super) struct Stems {
    kept: Vec<Stem>,
}

struct Stem {
    /// The trunk it grows from.
    trunk: u64,
    outlines: Vec<Outline>,
    /// The cache's clock when this was last brought up to date.
    seen: u64,
    field: Field,
}

impl Stems {
    /// All nodes as they are to a trunk, which is up to date, and to counters that have counted nothing; `None` if nobody else grows from the trunk,
    /// or if there are too many classes.
    pub(super) fn field(
        &mut self,
        root: &Root<'_>,
        snapshot: Snapshot<'_>,
        outlines: Vec<Outline>,
    ) -> Option<&Field> {
        if !root.is_shared {
            return None;
        }
        let mut stem = match self.take(root.number, &outlines).map(|stem| stem.caught_up(root, snapshot)) {
            Some(Some(stem)) => stem,
            _ => Stem::of(root, snapshot, outlines)?,
        };
        stem.field.know_best();
        if self.kept.len() == KEPT {
            self.kept.remove(0);
        }
        self.kept.push(stem);
        self.kept.last().map(|stem| &stem.field)
    }

    fn take(&mut self, trunk: u64, outlines: &[Outline]) -> Option<Stem> {
        let is_it = |stem: &Stem| {
            stem.trunk == trunk
                && stem.outlines.len() == outlines.len()
                && stem.outlines.iter().zip(outlines).all(|(one, other)| one.is(other))
        };
        let at = self.kept.iter().position(is_it)?;
        Some(self.kept.remove(at))
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }
}

impl Stem {
    fn of(root: &Root<'_>, snapshot: Snapshot<'_>, outlines: Vec<Outline>) -> Option<Self> {
        let slots = root.trunk.field().base().len();
        let column = |outline: &Outline| (0..slots).map(|slot| outline.view(slot)).collect();
        let columns: Vec<Vec<i64>> = outlines.iter().map(column).collect();
        let field = root.trunk.field().grown(&columns)?;
        Some(Self { trunk: root.number, outlines, seen: snapshot.clock(), field })
    }

    /// Takes over what the trunk says of nodes where pods came or went. No node's object changed, or the outlines were others.
    fn caught_up(mut self, root: &Root<'_>, snapshot: Snapshot<'_>) -> Option<Self> {
        let mut touched: NodeSet = snapshot.touched_since(self.seen)?.map(|(node, _)| node).collect();
        touched.intersect(snapshot.nodes());
        let outlines = &self.outlines;
        let view = |node: crate::node::NodeIdx, views: &mut [i64]| {
            views.iter_mut().zip(outlines).for_each(|(view, outline)| *view = outline.view(node.index()));
        };
        let is_followed = self.field.follow(root.trunk.field(), &touched, outlines.len(), |_| true, view);
        self.seen = snapshot.clock();
        is_followed.then_some(self)
    }
}
