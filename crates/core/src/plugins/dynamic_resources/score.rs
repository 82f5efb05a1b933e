//! DynamicResources' Score: alternatives of `firstAvailable` that come earlier are better.
//!
//! Upstream: `dynamicresources.go#computeScore`.

use super::filter::{Allocated, Filter, has_alternatives};
use super::{DynamicResourcesArgs, NAME, prepare};
use crate::cache::Snapshot;
use crate::framework::{CycleError, PluginName, Prepared, Scale, ScorePlugin, ScoreRule};
use crate::model::device::{Allocation, RequestKind, ResourceClaim};
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use crate::plugins::normalize::default_normalize_score;

/// The score of the first alternative (`FirstAvailableDeviceRequestMaxSize`). The next one scores one less.
const BEST: i64 = 8;

/// The plugin's Score.
#[derive(Clone, Copy, Debug)]
pub struct DeviceScore {
    args: DynamicResourcesArgs,
}

impl DeviceScore {
    /// Creates the plugin with its arguments.
    pub fn new(args: DynamicResourcesArgs) -> Self {
        Self { args }
    }
}

impl ScorePlugin for DeviceScore {
    fn name(&self) -> PluginName {
        NAME
    }

    fn prepare(&self, pod: &PodInfo, snapshot: Snapshot<'_>, _feasible: &NodeSet) -> Prepared<dyn ScoreRule> {
        // PreFilter has reported any error.
        match prepare(pod, snapshot, self.args) {
            Ok(Some(filter)) => Prepared::Run { rule: Box::new(Rule { filter }), only: None },
            Ok(None) | Err(_) => Prepared::Skip,
        }
    }
}

struct Rule {
    filter: Filter,
}

impl Rule {
    /// Whether any claim has alternatives; otherwise all scores are 0.
    fn has_alternatives(&self) -> bool {
        self.filter.claims.iter().any(|claim| has_alternatives(&claim.spec))
    }

    /// Fails as 1.35 does for a pod with claims that were allocated earlier and claims that are allocated now.
    fn check(&self, allocated: &[Allocated], snapshot: Snapshot<'_>) -> Result<(), CycleError> {
        let fails = snapshot.copies_defects() && snapshot.rules().devices.fails_mixed_scores;
        if !fails || allocated.is_empty() || allocated.len() >= self.filter.claims.len() {
            return Ok(());
        }
        Err(CycleError(format!("number of allocations {} is smaller than number of claims", allocated.len())))
    }
}

/// Returns the raw score of what a pod's claims get on a node: the sum over all alternatives chosen.
pub(super) fn of_alternatives(filter: &Filter, allocated: &[Allocated]) -> i64 {
    if allocated.is_empty() {
        return 0;
    }
    let mut new = allocated.iter();
    let of_claim = |claim: &ResourceClaim| match &claim.allocation {
        Some(allocation) => score(claim, allocation),
        None => new.next().map_or(0, |it| score(claim, &it.allocation)),
    };
    filter.claims.iter().map(|claim| &**claim).map(of_claim).sum()
}

fn score(claim: &ResourceClaim, allocation: &Allocation) -> i64 {
    let mut sum = 0;
    for request in &claim.spec.requests {
        let RequestKind::FirstAvailable(alternatives) = &request.kind else { continue };
        for (at, alternative) in (0..).zip(alternatives) {
            let is_it = |result: &str| result.split_once('/') == Some((&*request.name, &*alternative.name));
            if allocation.results.iter().any(|result| is_it(&result.request)) {
                sum += BEST - at;
            }
        }
    }
    sum
}

impl ScoreRule for Rule {
    fn score(&self, snapshot: Snapshot<'_>, feasible: &NodeSet, raw: &mut [i64]) -> Result<(), CycleError> {
        let fails = snapshot.copies_defects() && snapshot.rules().devices.fails_mixed_scores;
        if self.has_alternatives() || fails {
            for (cell, node) in raw.iter_mut().zip(feasible.iter()) {
                let allocated = self.filter.allocations_on(&snapshot.node(node));
                self.check(&allocated, snapshot)?;
                *cell = of_alternatives(&self.filter, &allocated);
            }
        }
        Ok(())
    }

    fn scores_devices(&self) -> bool {
        true
    }

    fn scale(&self) -> Scale {
        Scale::Relative
    }

    fn normalize(&self, _snapshot: Snapshot<'_>, _feasible: &NodeSet, raw: &mut [i64]) {
        default_normalize_score(raw, false);
    }
}
