//! The part of a filter rule that allocates devices. Its results are cached.

use super::node_devices::{NodeDevices, ReadAttributes};
use super::status::CycleError;
use crate::cache::{Judgement, NodeView, Snapshot};
use crate::model::device::{ClaimSpec, ContainerRequest, DeviceSelector, RequestKind};
use crate::model::intern::{Symbol, trace_ids};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What a pod requests of a node's devices. Pods with equal requests get the same verdict from each node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceRequests {
    /// The claims that have no devices yet, in order.
    pub specs: Vec<Arc<ClaimSpec>>,
    /// The requests for extended resources that a DeviceClass may serve.
    pub extended: Box<[ContainerRequest]>,
    /// The names of these resources, in the order of the pod's requests.
    pub resources: Box<[Symbol]>,
    /// Whether the pod has other claims.
    pub has_claims: bool,
}

impl DeviceRequests {
    /// Whether any device has to be allocated.
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty() && self.resources.is_empty()
    }
}

impl Hash for DeviceRequests {
    /// Hashes only fields that distinguish most requests; equality compares all.
    fn hash<H: Hasher>(&self, state: &mut H) {
        for spec in &self.specs {
            (spec.requests.len(), spec.constraints.len(), spec.config.len()).hash(state);
            for request in &spec.requests {
                let alternatives = match &request.kind {
                    RequestKind::Exactly(request) => std::slice::from_ref(request),
                    RequestKind::FirstAvailable(requests) => requests,
                    RequestKind::Unknown => &[],
                };
                for request in alternatives {
                    request.class.hash(state);
                    let selectors = request.selectors.iter().flatten();
                    selectors.for_each(|DeviceSelector(expression)| expression.text().hash(state));
                }
            }
        }
        (&self.resources, self.has_claims).hash(state);
    }
}

trace_ids!(DeviceRequests { specs, extended, resources } but not { has_claims });

/// A rule that allocates devices of the node to a pod.
pub trait DeviceRule {
    /// Returns what the pod requests.
    fn requests(&self) -> DeviceRequests;

    /// Whether the node's devices satisfy the requests, and the raw score of what they would be.
    ///
    /// The result depends on the requests, the node's object, its devices and what of them is allocated.
    ///
    /// # Errors
    /// If the decision fails.
    fn judge(&self, node: &NodeView<'_>) -> Result<Judgement, CycleError>;

    /// Returns the attributes of devices on which the result depends; `None` if they cannot be listed, or if it depends
    /// on more than the devices of the node.
    fn reads(&self, snapshot: Snapshot<'_>) -> Option<ReadAttributes>;

    /// Returns the devices of a node, compared by these attributes. Nodes with equal devices have the same result.
    /// Returns `None` for a node whose result depends on more.
    fn devices(&self, node: &NodeView<'_>, reads: &ReadAttributes) -> Option<NodeDevices>;

    /// Whether the node can use the devices that the pod's other claims have.
    fn has_reachable_claims(&self, node: &NodeView<'_>) -> bool;

    /// Whether any of the pod's claims has devices already.
    fn has_allocated_claims(&self) -> bool;
}
