//! Extended resources that devices serve: the claim that the scheduler makes for them.
//!
//! Upstream: `dynamicresources/extendeddynamicresources.go`.

use crate::cache::{NodeView, Snapshot};
use crate::model::device::{
    AllocationMode, ClaimSpec, ContainerMapping, ContainerRequest, DeviceRequest, Request, RequestKind,
    ResourceClaim, planned_uid,
};
use crate::model::intern::{Symbol, Tables, known};
use crate::model::pod::PodInfo;
use crate::model::resources::is_extended_resource;
use std::sync::Arc;

/// The part before the slash of the resource that every DeviceClass serves by its name
/// (`ResourceDeviceClassPrefix` of `resource.k8s.io/v1`).
const IMPLICIT: &str = "deviceclass.resource.kubernetes.io/";

/// The claim of a pod for extended resources that a DeviceClass serves.
pub(super) struct ExtendedClaim {
    /// The claim. If it exists already, it is left from an earlier attempt.
    pub(super) claim: Arc<ResourceClaim>,
    /// Whether it exists in the API.
    pub(super) exists: bool,
    /// The extended resources that the pod requests.
    resources: Box<[Symbol]>,
    containers: Box<[ContainerRequest]>,
}

/// What a node leaves to the claim.
pub(super) enum OnNode {
    /// The node cannot serve a resource, for this reason.
    Rejected(&'static str),
    /// The node serves all resources by device plugins.
    Nothing,
    /// The claim has these requests; there may be none.
    Requests(Arc<ClaimSpec>, Arc<[ContainerMapping]>),
}

/// Whether a DeviceClass serves an extended resource that the pod requests.
pub(super) fn is_served(pod: &PodInfo, snapshot: Snapshot<'_>) -> bool {
    wanted(pod, snapshot.tables()).any(|name| snapshot.is_served_by_class(name))
}

fn wanted<'a>(pod: &'a PodInfo, tables: &'a Tables) -> impl Iterator<Item = Symbol> + 'a {
    let asked = pod.resources.request.scalar.iter().filter(|(_, amount)| *amount != 0);
    asked.map(|&(name, _)| name).filter(|&name| is_extended(name, tables))
}

/// Upstream's `IsDRAExtendedResourceName`, for a tracked resource name.
fn is_extended(name: Symbol, tables: &Tables) -> bool {
    let name = tables.text(name);
    is_extended_resource(name) || name.starts_with(IMPLICIT)
}

impl ExtendedClaim {
    /// Returns the claim for the pod's extended resources, if a DeviceClass serves one of them.
    pub(super) fn of(pod: &PodInfo, snapshot: Snapshot<'_>) -> Option<Self> {
        if !is_served(pod, snapshot) {
            return None;
        }
        let existing = snapshot.devices().made_for(&pod.name, &pod.uid).next().cloned();
        Some(Self {
            exists: existing.is_some(),
            claim: existing.unwrap_or_else(|| planned(pod)),
            resources: wanted(pod, snapshot.tables()).collect(),
            containers: pod.container_requests.clone(),
        })
    }

    /// Returns the resources and the requests of containers that decide what a node leaves to the claim.
    pub(super) fn wanted(&self) -> (&[Symbol], &[ContainerRequest]) {
        (&self.resources, &self.containers)
    }

    /// Returns what the node leaves to the claim. `has_others` tells whether the pod has other claims.
    pub(super) fn on_node(&self, node: &NodeView<'_>, has_others: bool) -> OnNode {
        if !self.claim.spec.requests.is_empty() {
            return OnNode::Rejected("cannot schedule extended resource claim");
        }
        let snapshot = node.snapshot();
        let allocatable = &node.info().allocatable;
        let mut by_class: Vec<Symbol> = Vec::new();
        for &name in &self.resources {
            let offered = allocatable.scalar(name);
            if snapshot.is_served_by_class(name) && offered.unwrap_or(0) == 0 {
                by_class.push(name);
            } else if offered.is_none() {
                return OnNode::Rejected("cannot fit resource");
            }
        }
        if by_class.is_empty() && !has_others || self.claim.allocation.is_some() {
            return OnNode::Nothing;
        }
        by_class.sort_by_key(|&name| snapshot.text(name));
        let (requests, mappings) = self.requests(&by_class, snapshot);
        let spec = ClaimSpec { requests: requests.into(), ..ClaimSpec::default() };
        OnNode::Requests(spec.into(), mappings.into())
    }

    fn requests(
        &self,
        resources: &[Symbol],
        snapshot: Snapshot<'_>,
    ) -> (Vec<Request>, Vec<ContainerMapping>) {
        let (mut requests, mut mappings) = (Vec::new(), Vec::new());
        for &resource in resources {
            let Some((class, _)) = snapshot.device_classes().serving(resource) else { continue };
            let of_resource = self.containers.iter().filter(|it| it.resource == resource);
            let mut long_lived: Vec<(&ContainerRequest, Arc<str>)> = Vec::new();
            for it in of_resource.clone().filter(|it| !it.is_short_lived) {
                let name = request_name(it);
                requests.push(exact(&name, class, it.count));
                mappings.push(mapping(it, &name));
                long_lived.push((it, name));
            }
            let short_lived: Vec<_> = of_resource.filter(|it| it.is_short_lived).collect();
            let largest = add_short_lived(&short_lived, &long_lived, &mut mappings);
            requests.extend(largest.map(|(name, count)| exact(&name, class, count)));
        }
        requests.sort_by(|a: &Request, b: &Request| a.name.cmp(&b.name));
        (requests, mappings)
    }
}

/// Adds the mappings of init containers, which run one after the other and reuse the devices of containers that start
/// later. Returns the name and number of the largest request for devices that they lack.
fn add_short_lived(
    containers: &[&ContainerRequest],
    long_lived: &[(&ContainerRequest, Arc<str>)],
    mappings: &mut Vec<ContainerMapping>,
) -> Option<(Arc<str>, i64)> {
    let mut largest: Option<(Arc<str>, i64)> = None;
    let mut own_names = Vec::new();
    let first = mappings.len();
    for it in containers {
        let mut covered = 0_i64;
        for (other, name) in long_lived.iter().filter(|(other, _)| other.container >= it.container) {
            if covered >= it.count {
                break;
            }
            covered = covered.saturating_add(other.count);
            mappings.push(mapping(it, name));
        }
        if covered >= it.count {
            continue;
        }
        let (name, missing) = (request_name(it), it.count - covered);
        mappings.push(mapping(it, &name));
        own_names.push(Arc::clone(&name));
        if largest.as_ref().is_none_or(|(_, count)| *count < missing) {
            largest = Some((name, missing));
        }
    }
    if let Some((largest, _)) = &largest {
        for mapping in &mut mappings[first..] {
            if own_names.contains(&mapping.request) {
                mapping.request = Arc::clone(largest);
            }
        }
    }
    largest
}

fn request_name(it: &ContainerRequest) -> Arc<str> {
    format!("container-{}-request-{}", it.container, it.position).into()
}

fn mapping(it: &ContainerRequest, request: &Arc<str>) -> ContainerMapping {
    ContainerMapping { container: it.name.clone(), resource: it.resource, request: Arc::clone(request) }
}

fn exact(name: &Arc<str>, class: Symbol, count: i64) -> Request {
    let request = DeviceRequest {
        name: Arc::clone(name),
        class,
        selectors: [].into(),
        mode: AllocationMode::ExactCount(count),
        admin_access: false,
        tolerations: [].into(),
        has_capacity: false,
        capacity: [].into(),
    };
    Request { name: Arc::clone(name), kind: RequestKind::Exactly(request) }
}

/// Returns the claim that would be made for a pod. Its uid identifies the allocation until the claim exists.
fn planned(pod: &PodInfo) -> Arc<ResourceClaim> {
    ResourceClaim {
        namespace: pod.namespace,
        name: known::EXTENDED_RESOURCES,
        uid: planned_uid(&pod.uid),
        resource_version: "".into(),
        controller: Some(((&*pod.name).into(), Arc::clone(&pod.uid))),
        deleting: false,
        is_for_extended_resources: true,
        is_protected: true,
        spec: Arc::default(),
        allocation: None,
        nodes: None,
        reserved_for: [].into(),
        devices: [].into(),
    }
    .into()
}
