//! Why the devices of a node do not satisfy a pod's claims. Read-only, for explanations; decisions do not use it.
//!
//! Each request is judged alone, by the checks of the search in their order. If every request alone has enough devices,
//! the claims' constraints or the requests' competition for devices is the reason.

use super::constraints::RequestName;
use super::extended::OnNode;
use super::filter::Filter;
use super::pools::{Place, PoolState, Pools};
use super::search::{Judge, Wanted};
use super::{DynamicResourcesArgs, prepare};
use crate::cache::Snapshot;
use crate::model::device::{Constraint, DeviceId, DeviceTaint, PoolId, ResourceClaim};
use crate::model::intern::Symbol;
use crate::model::node::NodeIdx;
use crate::model::pod::PodInfo;
use crate::model::quantity::Quantity;
use std::sync::Arc;

/// What a node offers to the claims of a pod.
#[derive(Clone, Debug, Default)]
pub struct Diagnosis {
    /// Allocated claims that cannot be used on the node, and whether the reason is the node, not their readiness.
    pub unavailable: Vec<(Arc<ResourceClaim>, bool)>,
    /// Pools whose devices cannot be allocated, and whether not all of their slices are published.
    pub unusable_pools: Vec<(PoolId, bool)>,
    /// The requests of the claims that get devices, and of their alternatives.
    pub requests: Vec<RequestDiagnosis>,
    /// The error that ends every search on this node, if any.
    pub error: Option<String>,
}

/// What a node offers to one request.
#[derive(Clone, Debug)]
pub struct RequestDiagnosis {
    /// The claim; one for extended resources may not exist yet.
    pub claim: Arc<ResourceClaim>,
    /// The name of the request.
    pub request: Arc<str>,
    /// The alternative of `firstAvailable`.
    pub alternative: Option<Arc<str>>,
    /// The class.
    pub class: Symbol,
    /// The number of devices wanted; `None` for all that match.
    pub wanted: Option<usize>,
    /// The devices of the node, in the order of the search, each with what keeps the request from it.
    pub devices: Vec<(DeviceId, Option<Hindrance>)>,
    /// The constraints in whose scope the request is, by their position in the claim.
    pub constraints: Vec<(usize, Constraint)>,
}

/// What keeps a request from a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// Its binding conditions failed for this claim, which gets other devices while others fit.
    Avoided,
    /// Another allocation holds the device.
    InUse,
    /// A selector of the class, or else of the request, is false.
    Selector {
        /// Whether the class has it.
        of_class: bool,
        /// The position of the selector.
        number: usize,
        /// The expression.
        expression: Arc<str>,
    },
    /// A selector fails, which ends the decision for the pod.
    SelectorFailed(String),
    /// The device is for other nodes.
    OtherNode,
    /// The device lacks a requested capacity.
    NoCapacity(Arc<str>),
    /// Too little of a capacity is left, or its policy forbids the amount.
    Capacity {
        /// The capacity.
        name: Arc<str>,
        /// The amount wanted, after the rounding of the policy.
        wanted: Quantity,
        /// The amount left.
        free: Quantity,
        /// The amount of the device.
        total: Quantity,
    },
    /// Too little of a counter is left in the pool.
    Counter {
        /// The counter set.
        set: Arc<str>,
        /// The counter.
        name: Arc<str>,
        /// The amount wanted.
        wanted: Quantity,
        /// The amount left.
        free: Quantity,
        /// The amount of the pool.
        total: Quantity,
    },
    /// A taint that the request does not tolerate.
    Taint(DeviceTaint),
    /// The device lacks the attribute that a constraint compares.
    NoAttribute(Arc<str>),
}

/// Returns what a node offers to the claims of a pod; `None` if the pod needs no devices, or is rejected before nodes
/// are considered.
pub fn diagnose(pod: &PodInfo, snapshot: Snapshot<'_>, node: NodeIdx) -> Option<Diagnosis> {
    let filter = prepare(pod, snapshot, DynamicResourcesArgs::default()).ok().flatten()?;
    let mut diagnosis = Diagnosis::default();
    let view = snapshot.node(node);
    for claim in filter.unavailable_on(&view) {
        let reaches = claim
            .nodes
            .as_ref()
            .is_none_or(|nodes| nodes.matches(snapshot.tables(), view.name(), view.labels()) == Ok(true));
        diagnosis.unavailable.push((Arc::clone(claim), !reaches));
    }
    let place = Place::new(snapshot, node);
    let pools = match Pools::of(place) {
        Ok(pools) => pools,
        Err(error) => return Some(Diagnosis { error: Some(error), ..diagnosis }),
    };
    for pool in pools.pools.iter().filter(|pool| pool.state != PoolState::Usable) {
        diagnosis.unusable_pools.push((pool.id.clone(), pool.state == PoolState::Incomplete));
    }
    for (claim, spec) in wanted(&filter, snapshot, node) {
        let name = super::claims::key(&claim, snapshot);
        let avoided = snapshot.devices().avoided_by(&claim.uid);
        let wanted = [Wanted { name: &name, spec: &spec, avoided }];
        match Judge::new(place, &wanted, &pools, snapshot.copies_defects()) {
            Ok(mut judge) => add_requests(&mut judge, &claim, &mut diagnosis),
            Err(error) => diagnosis.error = diagnosis.error.or(Some(error)),
        }
    }
    Some(diagnosis)
}

/// Returns the claims that get devices, with the requests that a node leaves to a claim for extended resources.
fn wanted(
    filter: &Filter,
    snapshot: Snapshot<'_>,
    node: NodeIdx,
) -> Vec<(Arc<ResourceClaim>, Arc<crate::model::device::ClaimSpec>)> {
    let own = filter.claims.iter().filter(|claim| claim.allocation.is_none());
    let mut wanted: Vec<_> = own.map(|claim| (Arc::clone(claim), Arc::clone(&claim.spec))).collect();
    if let Some(extended) = &filter.extended
        && let OnNode::Requests(spec, _) = extended.on_node(&snapshot.node(node), !filter.claims.is_empty())
    {
        wanted.push((Arc::clone(&extended.claim), spec));
    }
    wanted
}

fn add_requests(judge: &mut Judge<'_>, claim: &Arc<ResourceClaim>, diagnosis: &mut Diagnosis) {
    for (request, alternative) in judge.requests() {
        let (asked, parent) = judge.asked(request, alternative);
        let name =
            RequestName { request: parent.unwrap_or(&asked.name), alternative: parent.map(|_| &*asked.name) };
        let in_scope = claim.spec.constraints.iter().enumerate().filter(|(_, it)| it.concerns(name));
        diagnosis.requests.push(RequestDiagnosis {
            claim: Arc::clone(claim),
            request: name.request.into(),
            alternative: name.alternative.map(Into::into),
            class: asked.class,
            wanted: judge.wanted(request, alternative),
            devices: judge.devices(request, alternative),
            constraints: in_scope.map(|(at, it)| (at, it.clone())).collect(),
        });
    }
}
