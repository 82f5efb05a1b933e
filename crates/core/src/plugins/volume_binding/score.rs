//! The score of the storage that a pod's volumes leave on a node.
//!
//! Upstream: `volumebinding/volume_binding.go#Score`, `volumebinding/scorer.go`. Two differences: a pod without claims
//! that wait for its node skips scoring, where upstream scores 0; and a CSIStorageCapacity with `maximumVolumeSize`
//! but no `capacity` counts as full, where upstream panics.

use super::super::shape::{ShapePoint, broken_line};
use super::filter::Filter;
use super::{NAME, claims};
use crate::cache::Snapshot;
use crate::framework::{CycleError, PluginName, Prepared, ScorePlugin, ScoreRule};
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;

const MAX_UTILIZATION: i64 = 100;

/// VolumeBinding's Score.
#[derive(Clone, Debug)]
pub struct StorageScore {
    shape: Box<[ShapePoint]>,
    pre_filters: bool,
    filters: bool,
}

impl StorageScore {
    /// Creates the plugin with its argument `shape`. It also needs to know whether the plugin's PreFilter and Filter
    /// are enabled: it fails without the former, and scores nothing without the latter.
    pub fn new(shape: Box<[ShapePoint]>, pre_filters: bool, filters: bool) -> Self {
        Self { shape, pre_filters, filters }
    }
}

impl ScorePlugin for StorageScore {
    fn name(&self) -> PluginName {
        NAME
    }

    fn prepare(&self, pod: &PodInfo, snapshot: Snapshot<'_>, _feasible: &NodeSet) -> Prepared<dyn ScoreRule> {
        if !snapshot.rules().scores_storage_capacity {
            return Prepared::Skip;
        }
        if !self.pre_filters {
            return Prepared::Failed(CycleError("not found".to_owned()));
        }
        if !self.filters {
            return Prepared::Skip;
        }
        // PreFilter has reported any error.
        let Ok(Some(claims)) = claims::of(pod, snapshot) else { return Prepared::Skip };
        if claims.delayed.is_empty() {
            return Prepared::Skip;
        }
        let filter = Filter::new(claims, snapshot);
        Prepared::Run { rule: Box::new(Rule { filter, shape: self.shape.clone() }), only: None }
    }
}

struct Rule {
    filter: Filter,
    shape: Box<[ShapePoint]>,
}

/// The requested and the available bytes of a storage class on a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClassStorage {
    pub(super) requested: i64,
    pub(super) capacity: i64,
}

impl ScoreRule for Rule {
    fn score(&self, snapshot: Snapshot<'_>, feasible: &NodeSet, raw: &mut [i64]) -> Result<(), CycleError> {
        for (cell, node) in raw.iter_mut().zip(feasible.iter()) {
            *cell = mean_score(&self.shape, self.filter.storage(&snapshot.node(node))?.values());
        }
        Ok(())
    }
}

/// Returns the mean score of the storage classes, rounded half away from zero; 0 if there are none.
fn mean_score<'a>(shape: &[ShapePoint], classes: impl ExactSizeIterator<Item = &'a ClassStorage>) -> i64 {
    let count = classes.len();
    let sum: i64 = classes.map(|class| broken_line(shape, utilization(*class))).sum();
    if count == 0 { 0 } else { (sum as f64 / count as f64).round() as i64 }
}

fn utilization(class: ClassStorage) -> i64 {
    if class.capacity == 0 || class.requested > class.capacity {
        return MAX_UTILIZATION;
    }
    class.requested.wrapping_mul(MAX_UTILIZATION) / class.capacity
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(requested: i64, capacity: i64) -> ClassStorage {
        ClassStorage { requested, capacity }
    }

    #[test]
    fn utilization_is_full_without_enough_capacity() {
        assert_eq!(
            [class(5, 10), class(5, 100), class(1, 3), class(0, 0), class(11, 10), class(10, 10)]
                .map(utilization),
            [50, 5, 33, 100, 100, 100]
        );
    }

    #[test]
    fn score_is_the_mean_of_the_classes() {
        let shape = [(0, 10), (100, 0)].map(|(utilization, score)| ShapePoint { utilization, score });
        let score = |classes: &[ClassStorage]| mean_score(&shape, classes.iter());
        assert_eq!(score(&[]), 0);
        assert_eq!(score(&[class(5, 10)]), 50);
        assert_eq!(score(&[class(5, 100), class(6, 100)]), 95, "94.5 rounds up");
        assert_eq!(score(&[class(5, 10), class(0, 0)]), 25);
    }
}
