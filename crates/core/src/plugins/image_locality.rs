//! ImageLocality scores nodes by the amount of the pod's image data that they already have.
//!
//! Image names are normalized. An image on few nodes counts less, so that pods do not concentrate there.
//! Upstream: `pkg/scheduler/framework/plugins/imagelocality/image_locality.go`.

use crate::cache::{ImageState, Snapshot};
use crate::collections::hash::IdMap;
use crate::framework::{CycleError, MAX_NODE_SCORE, NodeScorePlugin, PluginName, Prepared, ScoreRule};
use crate::model::intern::Symbol;
use crate::model::node::NodeIdx;
use crate::model::node_pod::NodePod;
use crate::model::node_set::NodeSet;

const MIB: i64 = 1024 * 1024;
/// The minimum amount in bytes for a score above 0.
const LEAST: i64 = 23 * MIB;
/// The maximum amount that counts, in bytes per container.
const MOST_PER_CONTAINER: i64 = 1000 * MIB;

/// Maximum number of images looked up one by one; with more, the images of each node, which are fewer, are
/// looked up.
const FEW: usize = 50;

/// The plugin.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImageLocality;

impl NodeScorePlugin for ImageLocality {
    fn name(&self) -> PluginName {
        "ImageLocality"
    }

    fn prepare(&self, pod: NodePod<'_>, _snapshot: Snapshot<'_>) -> Prepared<dyn ScoreRule> {
        let most = MOST_PER_CONTAINER * i64::from(*pod.image_sources());
        let mut times = IdMap::<Symbol, i64>::default();
        if pod.images().len() > FEW {
            pod.images().iter().for_each(|&image| *times.entry(image).or_default() += 1);
        }
        Prepared::Run { rule: Box::new(Rule { images: pod.images().into(), times, most }), only: None }
    }
}

struct Rule {
    images: Box<[Symbol]>,
    /// The number of times that the pod has each image, if it has more than a few.
    times: IdMap<Symbol, i64>,
    most: i64,
}

impl Rule {
    fn score_of(&self, snapshot: Snapshot<'_>, node: NodeIdx, nodes: usize) -> i64 {
        let sum = if self.times.is_empty() {
            let present = self.images.iter().filter_map(|&image| snapshot.image(node, image));
            present.map(|state| spread_size(state, nodes)).fold(0i64, i64::saturating_add)
        } else {
            let size = |&(image, state): &(Symbol, ImageState)| {
                self.times.get(&image).map_or(0, |times| spread_size(state, nodes).saturating_mul(*times))
            };
            snapshot.images(node).iter().map(size).fold(0i64, i64::saturating_add)
        };
        let counted = if sum < LEAST { LEAST } else { sum.min(self.most) };
        MAX_NODE_SCORE * (counted - LEAST) / (self.most - LEAST)
    }
}

fn spread_size(image: ImageState, nodes: usize) -> i64 {
    let share = image.nodes as f64 / nodes as f64;
    (image.size as f64 * share) as i64
}

impl ScoreRule for Rule {
    fn score(&self, snapshot: Snapshot<'_>, feasible: &NodeSet, raw: &mut [i64]) -> Result<(), CycleError> {
        if self.images.is_empty() {
            raw.fill(0);
            return Ok(());
        }
        let nodes = snapshot.node_count();
        for (cell, node) in raw.iter_mut().zip(feasible.iter()) {
            *cell = self.score_of(snapshot, node, nodes);
        }
        Ok(())
    }
}
