//! How much work one attempt may be. A pod may carry as many terms as fit into an object, and each is weighed against
//! every domain: without a bound, one pod could keep all others waiting.

use super::Scheduler;
use crate::pod::PodInfo;

/// Terms times domains that one attempt may weigh: ten thousand terms on five thousand nodes. What people write by hand
/// has some ten.
const WORK_MAX: u64 = 50_000_000;

impl Scheduler {
    /// Why the pod is too much work for one attempt, if it is.
    pub(super) fn too_much_work(&self, pod: &PodInfo) -> Option<String> {
        let terms = terms(pod);
        // A domain has a node at least.
        let domains = self.snapshot().nodes().len();
        let work = (terms as u64).saturating_mul(domains as u64);
        (work > WORK_MAX).then(|| {
            format!(
                "the pod's {terms} affinity terms and topology spread constraints, each weighed on {domains} nodes, are more \
                 than one attempt may weigh ({work} of at most {WORK_MAX}): give it fewer"
            )
        })
    }
}

/// The terms of a pod that are weighed against domains.
fn terms(pod: &PodInfo) -> usize {
    fn count<T>(terms: &Result<Box<[T]>, Box<str>>) -> usize {
        terms.as_ref().map_or(0, |terms| terms.len())
    }
    let of_pods = pod.pod_affinity.as_ref().map_or(0, |affinity| {
        count(&affinity.required_affinity)
            + count(&affinity.required_anti_affinity)
            + count(&affinity.preferred_affinity)
            + count(&affinity.preferred_anti_affinity)
    });
    of_pods + pod.preferred_node_affinity.as_ref().map_or(0, count) + pod.spread.len()
}
