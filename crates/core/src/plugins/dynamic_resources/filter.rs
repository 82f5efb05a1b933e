//! DynamicResources' Filter and Reserve: the devices of a pod on one node.

use super::binding_conditions::{Readiness, readiness};
use super::extended::{ExtendedClaim, OnNode};
use super::pools::{Place, Pools};
use super::search::{Obstacle, Wanted, search};
use super::{DynamicResourcesArgs, claims, compared, result, score};
use crate::cache::{Judgement, NodeView, Snapshot};
use crate::framework::{
    CycleError, DependsOn, DeviceRequests, DeviceRule, FilterRule, NodeDevices, ReadAttributes, Rejection,
    Verdict,
};
use crate::model::device::{Allocation, ClaimSpec, ContainerMapping, RequestKind, ResourceClaim};
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
    /// `namespace/name` of the claims that get devices.
    names: Vec<String>,
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
        snapshot: Snapshot<'_>,
    ) -> Self {
        let new = claims.iter().filter(|claim| claim.allocation.is_none());
        let all = new.chain(extended.iter().map(|extended| &extended.claim));
        let names = all.map(|claim| claims::key(claim, snapshot)).collect();
        Self { pod: Arc::clone(&pod.uid), claims, extended, names, args }
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
        let allocated = self.allocate_new(node)?;
        if self.unavailable_on(node).next().is_some() {
            return Err(Refusal::Rejected(UNAVAILABLE));
        }
        Ok(allocated)
    }

    /// Whether [`Self::allocate`] succeeds.
    fn fits(&self, node: &NodeView<'_>) -> Result<(), Refusal> {
        // What of an extended resource is left to devices depends on the pods of the node, too.
        let known = node.snapshot().device_verdicts().filter(|_| self.extended.is_none());
        match known.and_then(|known| known.of(node.idx())) {
            Some(judgement) => _ = judgement.map_err(Refusal::Rejected)?,
            None => {
                let extended = self.extended_on(node)?;
                self.suffices(node, extended.as_ref())?;
            }
        }
        if self.unavailable_on(node).next().is_some() {
            return Err(Refusal::Rejected(UNAVAILABLE));
        }
        Ok(())
    }

    /// Does the same whether the node can use the claims that have devices or not.
    fn allocate_new(&self, node: &NodeView<'_>) -> Result<Vec<Allocated>, Refusal> {
        let extended = self.extended_on(node)?;
        if extended.is_none() && self.claims.is_empty() {
            return Ok(Vec::new());
        }
        self.search(node, extended.as_ref())
    }

    fn new_claims(&self) -> impl Iterator<Item = &Arc<ResourceClaim>> {
        self.claims.iter().filter(|claim| claim.allocation.is_none())
    }

    fn search(&self, node: &NodeView<'_>, extended: Option<&Made>) -> Result<Vec<Allocated>, Refusal> {
        let place = Place::new(node.snapshot(), node.idx());
        let wanted = self.wanted(extended);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let pools = Pools::of(place).map_err(Refusal::Failed)?;
        let claims = self.requested(&wanted, node.snapshot());
        let solution = search(place, &claims, &pools, node.snapshot().copies_defects());
        let solution = solution.map_err(|obstacle| refusal(obstacle, node, node.snapshot()))?;
        let pairs: Vec<(Wanted<'_>, &ResourceClaim)> =
            claims.iter().zip(&wanted).map(|(it, (claim, _))| (*it, &***claim)).collect();
        let allocations = result::allocations(place, &pools, &pairs, &solution).map_err(Refusal::Failed)?;
        let own = self.new_claims().count();
        let claims = wanted.iter().map(|(claim, _)| Arc::clone(claim)).collect::<Vec<_>>();
        let entries = claims.into_iter().zip(allocations).enumerate();
        Ok(entries
            .map(|(at, (claim, allocation))| Allocated {
                claim,
                allocation,
                made: extended.filter(|_| at >= own).cloned(),
            })
            .collect())
    }

    /// Whether the search succeeds, without its result.
    fn suffices(&self, node: &NodeView<'_>, extended: Option<&Made>) -> Result<(), Refusal> {
        let place = Place::new(node.snapshot(), node.idx());
        let wanted = self.wanted(extended);
        if wanted.is_empty() {
            return Ok(());
        }
        let pools = Pools::of(place).map_err(Refusal::Failed)?;
        let claims = self.requested(&wanted, node.snapshot());
        let solution = search(place, &claims, &pools, node.snapshot().copies_defects());
        let solution = solution.map_err(|obstacle| refusal(obstacle, node, node.snapshot()))?;
        let claims = wanted.iter().map(|(claim, _)| &***claim);
        result::check(place, &pools, claims, &solution).map_err(Refusal::Failed)
    }

    /// Returns the claims that get devices, with their requests.
    fn wanted<'s>(&'s self, extended: Option<&'s Made>) -> Vec<(&'s Arc<ResourceClaim>, &'s Arc<ClaimSpec>)> {
        let made = extended.zip(self.extended.as_ref()).map(|((spec, _), made)| (&made.claim, spec));
        self.new_claims().map(|claim| (claim, &claim.spec)).chain(made).collect()
    }

    fn requested<'s>(
        &'s self,
        wanted: &[(&'s Arc<ResourceClaim>, &'s Arc<ClaimSpec>)],
        snapshot: Snapshot<'s>,
    ) -> Vec<Wanted<'s>> {
        let one = |(at, &(claim, spec)): (usize, &(&'s Arc<ResourceClaim>, &'s Arc<ClaimSpec>))| Wanted {
            name: &self.names[at],
            spec,
            avoided: snapshot.devices().avoided_by(&claim.uid),
        };
        wanted.iter().enumerate().map(one).collect()
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
        match self.fits(node) {
            Ok(()) => Verdict::Fits,
            Err(Refusal::Rejected(why)) => Verdict::Rejected(Rejection::unresolvable(why)),
            Err(Refusal::Failed(why)) => Verdict::Failed(CycleError(why)),
        }
    }

    /// Results are not shared if they depend on more than the requests: on an existing claim for extended resources,
    /// on devices to be avoided, on which alternative a claim already has, or on pools of other nodes.
    fn as_device_rule(&self, snapshot: Snapshot<'_>) -> Option<&dyn DeviceRule> {
        let rules = snapshot.rules().devices;
        let is_avoiding = |claim: &Arc<ResourceClaim>| snapshot.devices().avoided_by(&claim.uid).is_some();
        let has_own = self.extended.as_ref().is_some_and(|it| it.exists || is_avoiding(&it.claim));
        let has_alternative =
            |claim: &&Arc<ResourceClaim>| claim.allocation.is_some() && has_alternatives(&claim.spec);
        let is_shared = !has_own
            && !self.claims.iter().any(is_avoiding)
            && !self.claims.iter().any(|claim| has_alternative(&claim))
            && !(snapshot.copies_defects() && (rules.fails_mixed_scores || !rules.separates_counters));
        if is_shared { Some(self) } else { None }
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

impl DeviceRule for Filter {
    fn requests(&self) -> DeviceRequests {
        let (resources, extended) = self.extended.as_ref().map(ExtendedClaim::wanted).unwrap_or_default();
        DeviceRequests {
            specs: self.new_claims().map(|claim| Arc::clone(&claim.spec)).collect(),
            extended: extended.into(),
            resources: resources.into(),
            has_claims: !self.claims.is_empty(),
        }
    }

    fn judge(&self, node: &NodeView<'_>) -> Result<Judgement, CycleError> {
        let score = match self.claims.iter().any(|claim| has_alternatives(&claim.spec)) {
            true => self.allocate_new(node).map(|allocated| score::of_alternatives(self, &allocated)),
            false => {
                let extended = self.extended_on(node);
                extended.and_then(|extended| self.suffices(node, extended.as_ref())).map(|()| 0)
            }
        };
        match score {
            Ok(score) => Ok(Ok(score)),
            Err(Refusal::Rejected(why)) => Ok(Err(why)),
            Err(Refusal::Failed(why)) => Err(CycleError(why)),
        }
    }

    fn reads(&self, snapshot: Snapshot<'_>) -> Option<ReadAttributes> {
        // What of an extended resource is left to devices depends on the pods of the node, too.
        if self.extended.is_some() {
            return None;
        }
        compared::reads(self.new_claims().map(|claim| &*claim.spec), snapshot)
    }

    fn devices(&self, node: &NodeView<'_>, reads: &ReadAttributes) -> Option<NodeDevices> {
        compared::devices(Place::new(node.snapshot(), node.idx()), reads)
    }

    fn has_reachable_claims(&self, node: &NodeView<'_>) -> bool {
        self.unavailable_on(node).next().is_none()
    }

    fn has_allocated_claims(&self) -> bool {
        self.claims.iter().any(|claim| claim.allocation.is_some())
    }
}

/// Whether any request of a claim has alternatives.
pub(super) fn has_alternatives(spec: &ClaimSpec) -> bool {
    spec.requests.iter().any(|request| matches!(request.kind, RequestKind::FirstAvailable(_)))
}
