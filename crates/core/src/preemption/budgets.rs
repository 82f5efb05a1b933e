//! Splits victims by whether their eviction violates a PodDisruptionBudget.

use crate::cache::Snapshot;
use crate::model::intern::Symbol;
use crate::model::lookup_objects::DisruptionBudget;
use crate::model::pod::PodInfo;
use std::collections::BTreeMap;

/// Splits `pods`, in order, into those whose eviction violates a budget after the preceding ones, and the
/// others (upstream `filterPodsWithPDBViolation`).
///
/// Up to 1.36, each matching budget is charged for a pod, even if another one is exhausted. From 1.37 on, the
/// first exhausted one ends the search; upstream's order of budgets is random there, ours is by name. A disruption
/// that a budget's status already lists is not charged again.
pub(super) fn split<'a>(
    pods: &[&'a PodInfo],
    snapshot: Snapshot<'_>,
) -> (Vec<&'a PodInfo>, Vec<&'a PodInfo>) {
    if snapshot.lookups().disruption_budget_keys().next().is_none() {
        return (Vec::new(), pods.to_vec());
    }
    let mut charges =
        BudgetCharges { charges_all: snapshot.rules().charges_all_budgets, ..Default::default() };
    pods.iter().copied().partition(|pod| charges.violates(pod, snapshot))
}

/// What is left of each budget while victims are charged. By default, the first exhausted budget ends the search, as
/// for the victims of a group (upstream `filterVictimsWithPDBViolation`).
#[derive(Default)]
pub(crate) struct BudgetCharges<'s> {
    left: BTreeMap<Symbol, Vec<(&'s DisruptionBudget, i64)>>,
    charges_all: bool,
}

impl<'s> BudgetCharges<'s> {
    /// Charges the budgets of a pod, and returns whether its eviction violates one.
    pub(crate) fn violates(&mut self, pod: &PodInfo, snapshot: Snapshot<'s>) -> bool {
        let budgets = self.left.entry(pod.namespace).or_insert_with(|| {
            let budgets = snapshot.lookups().disruption_budgets(pod.namespace);
            budgets.map(|budget| (budget, i64::from(budget.disruptions_allowed))).collect()
        });
        let mut broken = false;
        for (_, left) in budgets.iter_mut().filter(|(budget, _)| pays_for(budget, pod, snapshot)) {
            *left -= 1;
            broken |= *left < 0;
            if broken && !self.charges_all {
                break;
            }
        }
        broken
    }
}

/// Whether the budget is charged for the pod. Unlike in the eviction API, an empty selector matches no pods
/// here, and pods without labels match no budget.
fn pays_for(budget: &DisruptionBudget, pod: &PodInfo, snapshot: Snapshot<'_>) -> bool {
    let labels = snapshot.labels(pod.labels);
    !labels.is_empty()
        && !budget.selector.is_empty()
        && budget.selector.matches(snapshot.tables(), labels)
        && budget.disrupted_pods.binary_search(&pod.name).is_err()
}
