//! DynamicResources' Filter and Reserve: the devices of a pod on one node.

use super::binding_conditions::{Readiness, readiness};
use super::extended::{ExtendedClaim, OnNode};
use super::pools::{Place, Pools};
use super::search::{Obstacle, Wanted, search};
use super::{DynamicResourcesArgs, claims, result};
use crate::cache::{NodeView, Snapshot};
use crate::framework::{CycleError, DependsOn, FilterRule, Rejection, Verdict};
use crate::model::device::{Allocation, ClaimSpec, ContainerMapping, ResourceClaim};
use crate::model::pod::{PodInfo, Uid};
use crate::model::volume::Reservation;
use std::sync::Arc;

/// The reason of a node on which an allocated claim cannot be used.
pub(super) const UNAVAILABLE: &str = "resourceclaim not available on the node";

/// The claims of a pod.
pub(super) struct Filter {
    pod: Uid,
    pub(super) claims: Vec<Arc<ResourceClaim>>,
    pub(super) extended: Option<ExtendedClaim>,
    args: DynamicResourcesArgs,
}

/// A claim that gets devices.
pub(super) struct Allocated {
    pub(super) claim: Arc<ResourceClaim>,
    pub(super) allocation: Arc<Allocation>,
    /// The requests of a claim for extended resources, and the containers that they are for.
    made: Option<(Arc<ClaimSpec>, Arc<[ContainerMapping]>)>,
}

/// Why a node cannot take the pod.
enum Refusal {
    Rejected(&'static str),
    Failed(String),
}

impl Filter {
    pub(super) fn new(
        pod: &PodInfo,
        claims: Vec<Arc<ResourceClaim>>,
        extended: Option<ExtendedClaim>,
        args: DynamicResourcesArgs,
    ) -> Self {
        Self { pod: Arc::clone(&pod.uid), claims, extended, args }
    }

    /// Returns the claims that cannot be used on the node although they are allocated.
    pub(super) fn unavailable_on<'s>(
        &'s self,
        node: &'s NodeView<'_>,
    ) -> impl Iterator<Item = &'s Arc<ResourceClaim>> {
        let existing = self.extended.iter().filter(|it| it.exists).map(|it| &it.claim);
        self.claims.iter().chain(existing).filter(|claim| self.is_unavailable(claim, node))
    }

    /// Whether devices of an allocated claim must become ready.
    fn waits(&self, claim: &ResourceClaim, node: &NodeView<'_>) -> bool {
        self.readiness(claim, node.snapshot()) != Readiness::Ready
    }

    fn readiness(&self, claim: &ResourceClaim, snapshot: Snapshot<'_>) -> Readiness {
        match snapshot.rules().waits_for_devices() {
            true => readiness(claim, self.args.binding_timeout, snapshot.now()),
            false => Readiness::Ready,
        }
    }

    fn is_unavailable(&self, claim: &ResourceClaim, node: &NodeView<'_>) -> bool {
        if claim.allocation.is_none() {
            return false;
        }
        let snapshot = node.snapshot();
        let reaches = claim
            .nodes
            .as_ref()
            .is_none_or(|nodes| nodes.matches(snapshot.tables(), node.name(), node.labels()) == Ok(true));
        !reaches || matches!(self.readiness(claim, snapshot), Readiness::Failed { .. } | Readiness::TimedOut)
    }

    /// Returns the part of the claim for extended resources that the node leaves to devices.
    fn extended_on(&self, node: &NodeView<'_>) -> Result<Option<Made>, Refusal> {
        let Some(extended) = &self.extended else { return Ok(None) };
        match extended.on_node(node, !self.claims.is_empty()) {
            OnNode::Rejected(why) => Err(Refusal::Rejected(why)),
            OnNode::Nothing => Ok(None),
            // Upstream makes a claim without requests, and then fails to name it in the pod's status.
            OnNode::Requests(spec, _) if spec.requests.is_empty() && !node.snapshot().copies_defects() => {
                Ok(None)
            }
            OnNode::Requests(spec, mappings) => Ok(Some((spec, mappings))),
        }
    }

    /// Returns the devices that the pod's claims get on a node.
    fn allocate(&self, node: &NodeView<'_>) -> Result<Vec<Allocated>, Refusal> {
        let extended = self.extended_on(node)?;
        if extended.is_none() && self.claims.is_empty() {
            return Ok(Vec::new());
        }
        let allocated = self.search(node, extended.as_ref())?;
        if self.unavailable_on(node).next().is_some() {
            return Err(Refusal::Rejected(UNAVAILABLE));
        }
        Ok(allocated)
    }

    fn search(&self, node: &NodeView<'_>, extended: Option<&Made>) -> Result<Vec<Allocated>, Refusal> {
        let snapshot = node.snapshot();
        let mut wanted: Vec<(String, &Arc<ResourceClaim>, &Arc<ClaimSpec>)> = Vec::new();
        for claim in self.claims.iter().filter(|claim| claim.allocation.is_none()) {
            wanted.push((claims::key(claim, snapshot), claim, &claim.spec));
        }
        if let (Some((spec, _)), Some(made)) = (extended, &self.extended) {
            wanted.push((claims::key(&made.claim, snapshot), &made.claim, spec));
        }
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let place = Place::new(snapshot, node.idx());
        let pools = Pools::of(place).map_err(Refusal::Failed)?;
        let avoided = |claim: &ResourceClaim| snapshot.devices().avoided_by(&claim.uid);
        let claims = wanted.iter().map(|(name, claim, spec)| Wanted { name, spec, avoided: avoided(claim) });
        let claims: Vec<Wanted<'_>> = claims.collect();
        let solution = search(place, &claims, &pools, snapshot.copies_defects());
        let solution = solution.map_err(|obstacle| refusal(obstacle, node, snapshot))?;
        let pairs: Vec<(Wanted<'_>, &ResourceClaim)> =
            claims.iter().zip(&wanted).map(|(it, (_, claim, _))| (*it, &***claim)).collect();
        let allocations = result::allocations(place, &pools, &pairs, &solution).map_err(Refusal::Failed)?;
        let own = self.claims.iter().filter(|claim| claim.allocation.is_none()).count();
        let claims = wanted.iter().map(|(_, claim, _)| Arc::clone(claim)).collect::<Vec<_>>();
        let entries = claims.into_iter().zip(allocations).enumerate();
        Ok(entries
            .map(|(at, (claim, allocation))| Allocated {
                claim,
                allocation,
                made: extended.filter(|_| at >= own).cloned(),
            })
            .collect())
    }

    /// Returns the devices that the pod's claims get on a node that passes.
    pub(super) fn allocations_on(&self, node: &NodeView<'_>) -> Vec<Allocated> {
        self.allocate(node).unwrap_or_default()
    }
}

/// The requests of a claim for extended resources, and the containers that they are for.
type Made = (Arc<ClaimSpec>, Arc<[ContainerMapping]>);

fn refusal(obstacle: Obstacle, node: &NodeView<'_>, snapshot: Snapshot<'_>) -> Refusal {
    match obstacle {
        Obstacle::NotHere(why) => Refusal::Rejected(why),
        Obstacle::Error(why) => Refusal::Failed(why),
        Obstacle::TooLong => Refusal::Failed(format!(
            "node {}: too many steps trying to allocate devices",
            snapshot.text(node.name())
        )),
    }
}

impl FilterRule for Filter {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn check(&self, node: &NodeView<'_>) -> Verdict {
        match self.allocate(node) {
            Ok(_) => Verdict::Fits,
            Err(Refusal::Rejected(why)) => Verdict::Rejected(Rejection::unresolvable(why)),
            Err(Refusal::Failed(why)) => Verdict::Failed(CycleError(why)),
        }
    }

    fn reserve(&self, node: &NodeView<'_>) -> Result<Vec<Reservation>, Rejection> {
        let allocated = match self.allocate(node) {
            Ok(allocated) => allocated,
            Err(Refusal::Rejected(why)) => return Err(Rejection::unresolvable(why)),
            Err(Refusal::Failed(why)) => return Err(Rejection::unresolvable(why)),
        };
        let devices = node.snapshot().devices();
        let shared = self
            .claims
            .iter()
            .filter(|claim| claim.allocation.is_some())
            .filter(|claim| !devices.is_reserved(claim, &self.pod) || self.waits(claim, node))
            .map(|claim| Reservation::Share { claim: Arc::clone(claim) });
        let new = allocated.into_iter().map(|Allocated { claim, allocation, made }| match made {
            None => Reservation::Allocate { claim, allocation },
            Some((spec, mappings)) => Reservation::Create {
                claim: ResourceClaim { spec, ..ResourceClaim::clone(&claim) }.into(),
                allocation,
                mappings,
            },
        });
        Ok(shared.chain(new).collect())
    }
}
