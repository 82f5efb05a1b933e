//! DynamicResources' PostFilter: frees a claim that no node can use, so that it is allocated again.

use super::filter::{Filter, UNAVAILABLE};
use super::{DynamicResourcesArgs, NAME, concerns, prepare};
use crate::framework::post_filter::{Deallocated, PostFilterPlugin, PostFiltered, Unplaced};
use crate::framework::{CycleError, PluginName};
use crate::model::device::ResourceClaim;
use crate::model::rng::Purpose;
use std::sync::Arc;

/// The plugin's PostFilter.
#[derive(Clone, Copy, Debug)]
pub struct Deallocation {
    args: DynamicResourcesArgs,
}

impl Deallocation {
    /// Creates the plugin with its arguments.
    pub fn new(args: DynamicResourcesArgs) -> Self {
        Self { args }
    }

    /// Returns the claims that can be freed: some node found them unusable, and no other pod uses them.
    fn freeable(&self, unplaced: &Unplaced<'_>, filter: &Filter) -> Vec<Arc<ResourceClaim>> {
        let snapshot = unplaced.snapshot;
        let is_free = |claim: &ResourceClaim| match &*claim.reserved_for {
            // It is deleted instead.
            _ if is_kept(unplaced, claim) => false,
            [] => true,
            [one] => *one == unplaced.pod.uid,
            _ => false,
        };
        let mut found: Vec<Arc<ResourceClaim>> = Vec::new();
        if filter.claims.iter().all(|claim| claim.allocation.is_none() || !is_free(claim)) {
            return found;
        }
        for node in snapshot.nodes().iter().filter(|&node| unplaced.judge.is_candidate(snapshot, node)) {
            let view = snapshot.node(node);
            let rejection = unplaced.judge.reported_rejection(unplaced.pod, snapshot, node);
            let is_unavailable = matches!(
                &rejection,
                Ok(Some((NAME, rejection))) if rejection.reasons.iter().any(|reason| **reason == *UNAVAILABLE)
            );
            if !is_unavailable {
                continue;
            }
            for claim in filter.unavailable_on(&view) {
                let is_own = filter.claims.iter().any(|own| own.uid == claim.uid);
                if is_own && is_free(claim) && !found.iter().any(|known| known.uid == claim.uid) {
                    found.push(Arc::clone(claim));
                }
            }
        }
        found
    }
}

/// Whether the claim was made for the pod's extended resources in an earlier attempt that this one continues.
fn is_kept(unplaced: &Unplaced<'_>, claim: &ResourceClaim) -> bool {
    unplaced.snapshot.devices().settled(&unplaced.pod.uid).is_some_and(|kept| kept.uid == claim.uid)
}

impl PostFilterPlugin for Deallocation {
    fn name(&self) -> PluginName {
        NAME
    }

    /// Fails if an earlier plugin rejected the pod in PreFilter. Upstream's PostFilter then finds no state and returns
    /// this error, so that preemption does not run either.
    fn post_filter<'a>(&self, unplaced: &Unplaced<'a>) -> PostFiltered<'a> {
        if !unplaced.prepared_by.contains(&NAME) {
            return PostFiltered::Failed(CycleError("not found".to_owned()));
        }
        let nothing = |reason: &str, deallocated| PostFiltered::Nothing {
            reason: reason.to_owned(),
            clear_nomination: false,
            preemption_blockers: Default::default(),
            deallocated,
        };
        let reports = unplaced.snapshot.rules().reports_no_claims;
        let without = if reports { "no new claims to deallocate" } else { "" };
        if !concerns(unplaced.pod, unplaced.snapshot) {
            return nothing(without, None);
        }
        // A rejection in PreFilter leaves upstream's state without claims.
        let Ok(Some(filter)) = prepare(unplaced.pod, unplaced.snapshot, self.args) else {
            return nothing(without, None);
        };
        let freeable = self.freeable(unplaced, &filter);
        if !freeable.is_empty() {
            let draws = unplaced.draws;
            let attempt = u64::from(draws.attempt);
            let at = draws.seed.draw(Purpose::Deallocation, &unplaced.pod.uid, attempt, freeable.len());
            let text = "deallocation of ResourceClaim completed";
            return nothing(text, Some(Deallocated { candidates: freeable, chosen: at, deletes: false }));
        }
        let left = filter.extended.iter().filter(|extended| extended.exists).map(|extended| &extended.claim);
        let kept = filter.claims.iter().filter(|claim| is_kept(unplaced, claim));
        match left.chain(kept).next() {
            Some(claim) => {
                let candidates = vec![Arc::clone(claim)];
                let text = "deletion of ResourceClaim completed";
                nothing(text, Some(Deallocated { candidates, chosen: 0, deletes: true }))
            }
            None => nothing(if reports { "still not schedulable" } else { "" }, None),
        }
    }
}
