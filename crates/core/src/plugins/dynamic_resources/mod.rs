//! DynamicResources allocates devices to the ResourceClaims of a pod.
//!
//! It decides and returns reservations; the scheduler writes them and waits for binding conditions. Upstream:
//! `pkg/scheduler/framework/plugins/dynamicresources`, `dynamic-resource-allocation/structured`.

mod binding_conditions;
mod capacity;
mod claims;
mod compared;
mod constraints;
mod deallocation;
pub mod diagnosis;
mod extended;
mod filter;
mod hint;
mod pools;
mod result;
mod score;
mod search;

pub use binding_conditions::{Readiness, failed_devices, readiness};
pub use deallocation::Deallocation;
pub use score::DeviceScore;

use crate::cache::Snapshot;
use crate::framework::{
    ClusterEvent, CycleError, EventSet, FilterPlugin, FilterRule, Hint, NodeAction, PluginName, Prepared,
    Rejection,
};
use crate::model::intern::Symbol;
use crate::model::pod::PodInfo;
use crate::model::volume::StorageKind;
use extended::ExtendedClaim;
use filter::Filter;
use std::sync::Arc;
use std::time::Duration;

/// The plugin's name.
pub const NAME: PluginName = "DynamicResources";

/// `DynamicResourcesArgs`. The search is bounded by its steps, so `filterTimeout` has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynamicResourcesArgs {
    /// `bindingTimeout`: the time limit for the binding conditions of allocated devices.
    pub binding_timeout: Duration,
}

impl Default for DynamicResourcesArgs {
    fn default() -> Self {
        Self { binding_timeout: Duration::from_secs(600) }
    }
}

/// The plugin.
#[derive(Clone, Copy, Debug, Default)]
pub struct DynamicResources {
    args: DynamicResourcesArgs,
}

impl DynamicResources {
    /// Creates the plugin with its arguments.
    pub fn new(args: DynamicResourcesArgs) -> Self {
        Self { args }
    }
}

/// Whether the pod may need devices: it has claims, or a DeviceClass serves an extended resource that it requests.
pub fn concerns(pod: &PodInfo, snapshot: Snapshot<'_>) -> bool {
    !pod.claims.is_empty() || extended::is_served(pod, snapshot)
}

/// PreEnqueue: returns why the pod is not queued yet, if a claim does not exist or cannot be used.
pub fn pre_enqueue(pod: &PodInfo, snapshot: Snapshot<'_>) -> Option<Rejection> {
    if pod.claims.is_empty() {
        return None;
    }
    claims::of_pod(pod, snapshot).err().map(Rejection::unresolvable)
}

impl FilterPlugin for DynamicResources {
    fn name(&self) -> PluginName {
        NAME
    }

    fn prepare(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        match prepare(pod, snapshot, self.args) {
            Ok(Some(filter)) => Prepared::Run { rule: Box::new(filter), only: None },
            Ok(None) => Prepared::Skip,
            Err(Refusal::Rejected(why)) => Prepared::Rejected(Rejection::unresolvable(why)),
            Err(Refusal::Failed(why)) => Prepared::Failed(CycleError(why)),
        }
    }

    fn events(&self) -> EventSet {
        EventSet::NEW_NODE
            | EventSet::node(NodeAction::UpdateLabel)
            | EventSet::node(NodeAction::UpdateAllocatable)
            | EventSet::DEVICE_CLASS
            | EventSet::storage(StorageKind::ResourceClaim)
            | EventSet::storage(StorageKind::ResourceSlice)
    }

    fn hint(&self, event: &ClusterEvent<'_>, pod: &PodInfo, snapshot: Snapshot<'_>) -> Hint {
        hint::hint(event, pod, snapshot)
    }
}

/// Why a pod cannot be decided node by node.
enum Refusal {
    /// No node can take it.
    Rejected(String),
    /// The decision fails.
    Failed(String),
}

/// PreFilter: returns the state for the nodes, or `None` if the pod needs no devices.
fn prepare(
    pod: &PodInfo,
    snapshot: Snapshot<'_>,
    args: DynamicResourcesArgs,
) -> Result<Option<Filter>, Refusal> {
    let mut claims = claims::of_pod(pod, snapshot).map_err(Refusal::Rejected)?;
    if !snapshot.copies_defects() {
        // Upstream allocates a claim once for each of its names, and then fails to write it.
        let mut seen = Vec::new();
        claims.retain(|claim| {
            let is_new = !seen.contains(&claim.uid);
            seen.push(claim.uid.clone());
            is_new
        });
    }
    let mut extended = ExtendedClaim::of(pod, snapshot);
    let made = snapshot.devices().settled(&pod.uid).filter(|made| made.allocation.is_some());
    if let Some(made) = made.filter(|_| extended.is_some()) {
        // The claim was made for the pod in this very attempt, or in the one that this one repeats.
        claims.push(Arc::clone(made));
        extended = None;
    }
    if claims.is_empty() && extended.is_none() {
        return Ok(None);
    }
    let existing = extended.iter().filter(|extended| extended.exists).map(|extended| &extended.claim);
    for claim in claims.iter().chain(existing) {
        if claim.allocation.is_some() {
            if let Some(Err(why)) = claim.nodes.as_ref().map(|nodes| &nodes.parsed) {
                return Err(Refusal::Failed(why.to_string()));
            }
            continue;
        }
        if snapshot.devices().in_flight(&claim.uid).is_some() {
            let key = claims::key(claim, snapshot);
            return Err(Refusal::Rejected(format!(
                "resource claim {key} is in the process of being allocated"
            )));
        }
        if !claim.is_for_extended_resources || claims.contains(claim) {
            check_classes(claim, snapshot)?;
        }
    }
    Ok(Some(Filter::new(pod, claims, extended, args, snapshot)))
}

/// Checks that all classes of a claim's requests exist.
fn check_classes(claim: &crate::model::device::ResourceClaim, snapshot: Snapshot<'_>) -> Result<(), Refusal> {
    use crate::model::device::RequestKind;
    let check = |class: Symbol, request: &str| match snapshot.text(class) {
        "" => Err(Refusal::Failed(format!("request {request}: unsupported request type"))),
        name if snapshot.device_classes().get(class).is_none() => {
            Err(Refusal::Rejected(format!("request {request}: device class {name} does not exist")))
        }
        _ => Ok(()),
    };
    for request in &claim.spec.requests {
        match &request.kind {
            RequestKind::Exactly(exactly) => check(exactly.class, &request.name)?,
            RequestKind::FirstAvailable(alternatives) => {
                for alternative in alternatives {
                    check(alternative.class, &format!("{}/{}", request.name, alternative.name))?;
                }
            }
            RequestKind::Unknown => {
                let key = claims::key(claim, snapshot);
                let text = format!("resource claim {key}, request {}: unknown request type", request.name);
                return Err(Refusal::Rejected(text));
            }
        }
    }
    Ok(())
}
