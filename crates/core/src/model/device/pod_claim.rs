//! What a pod says of devices: its claims, and requests for extended resources that a DeviceClass may serve.

use crate::model::intern::Symbol;
use crate::model::pod::Uid;
use std::sync::Arc;

/// An entry of a pod's `spec.resourceClaims`, with the claim's name from the pod's status.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodClaim {
    /// `name`.
    pub name: Box<str>,
    /// The claim.
    pub source: PodClaimSource,
}

impl PodClaim {
    /// Returns the name of the claim, if it is known.
    pub fn name(&self) -> Option<Symbol> {
        match self.source {
            PodClaimSource::Named(name) | PodClaimSource::Generated(name) => Some(name),
            PodClaimSource::NotNeeded | PodClaimSource::NotCreated | PodClaimSource::Unknown => None,
        }
    }
}

/// The claim of an entry of `spec.resourceClaims`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PodClaimSource {
    /// `resourceClaimName`.
    Named(Symbol),
    /// `resourceClaimTemplateName`, and the claim made from it.
    Generated(Symbol),
    /// `resourceClaimTemplateName`; the pod's status says that no claim is needed.
    NotNeeded,
    /// `resourceClaimTemplateName`; the pod's status does not name the claim yet.
    NotCreated,
    /// Neither field is set.
    Unknown,
}

/// Returns the uid under which the devices of a claim are counted that is to be made for a pod.
pub fn planned_uid(pod: &Uid) -> Uid {
    format!("{pod}<extended-resources>").into()
}

/// The requests of a pod's containers for one extended resource, by which claims for it are made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContainerRequest {
    /// The position of the container among init containers and containers.
    pub container: u32,
    /// The container's name.
    pub name: Box<str>,
    /// Whether it is an init container that ends before the next one starts.
    pub is_short_lived: bool,
    /// The position of the resource among the sorted names of all that the container requests.
    pub position: u32,
    /// The resource.
    pub resource: Symbol,
    /// The requested number.
    pub count: i64,
}

/// A request of a claim for extended resources, as the pod's status names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerMapping {
    /// `containerName`.
    pub container: Box<str>,
    /// `resourceName`.
    pub resource: Symbol,
    /// `requestName`.
    pub request: Arc<str>,
}
