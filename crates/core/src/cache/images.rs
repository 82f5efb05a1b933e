//! Which images are on how many nodes (upstream `pkg/scheduler/backend/cache/cache.go`, `imageStates`).

use crate::hash::IdMap;
use crate::intern::Symbol;
use crate::intern::holds_ids;
use crate::node::NodeInfo;

/// An image as one node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageState {
    /// Its size in bytes, as the first node reported it that had it.
    pub size: i64,
    /// On how many nodes it was when this node last changed.
    pub nodes: usize,
}

#[derive(Default)]
pub(super) struct Images {
    states: IdMap<Symbol, ImageState>,
}

impl Images {
    pub(super) fn replace(&mut self, old: Option<&NodeInfo>, new: Option<&NodeInfo>) {
        // Names that stay are counted up before they are counted down, so that their first size survives.
        for &(name, size) in distinct(new) {
            self.states.entry(name).or_insert(ImageState { size, nodes: 0 }).nodes += 1;
        }
        for &(name, _) in distinct(old) {
            if let Some(state) = self.states.get_mut(&name) {
                state.nodes -= 1;
                if state.nodes == 0 {
                    self.states.remove(&name);
                }
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    pub(super) fn view(&self, node: &NodeInfo) -> Vec<(Symbol, ImageState)> {
        let mut view: Vec<_> =
            distinct(Some(node)).filter_map(|(name, _)| self.states.get(name).map(|&s| (*name, s))).collect();
        view.sort_by_key(|&(name, _)| name);
        view
    }
}

/// The node's images, each name once: the first entry with that name.
fn distinct(node: Option<&NodeInfo>) -> impl Iterator<Item = &(Symbol, i64)> {
    let images: &[(Symbol, i64)] = node.map_or(&[], |n| &n.images);
    images
        .iter()
        .enumerate()
        .filter(|(at, (name, _))| images[..*at].iter().all(|(n, _)| n != name))
        .map(|(_, i)| i)
}

holds_ids!(Images { states });
