//! Asks the checks of the search about single devices, for explanations. Decisions do not use it.

use super::counters::{available_counters, consumed_counters};
use super::{At, Candidate, Place, Pools, Search, Wanted, capacity, untolerated};
use crate::model::device::{DeviceId, DeviceRequest, DeviceSelector, Reach};
use crate::model::quantity::Quantity;
use crate::plugins::dynamic_resources::diagnosis::Hindrance;
use std::cmp::Ordering;
use std::sync::Arc;

/// The claims of a search that has chosen nothing yet.
pub(in crate::plugins::dynamic_resources) struct Judge<'a>(Search<'a>);

impl<'a> Judge<'a> {
    /// Prepares the search.
    ///
    /// # Errors
    /// The error that ends every search for the claims on this node.
    pub(in crate::plugins::dynamic_resources) fn new(
        place: Place<'a>,
        claims: &'a [Wanted<'a>],
        pools: &'a Pools<'a>,
        copies_defects: bool,
    ) -> Result<Self, String> {
        let mut search = Search::new(place, claims, pools, copies_defects);
        search.prepare()?;
        Ok(Self(search))
    }

    /// Returns the positions of all requests of the first claim, and of their alternatives.
    pub(in crate::plugins::dynamic_resources) fn requests(&self) -> Vec<(usize, usize)> {
        let requests = self.0.prepared.first().into_iter().flatten().enumerate();
        requests
            .flat_map(|(request, all)| (0..all.len()).map(move |alternative| (request, alternative)))
            .collect()
    }

    /// Returns a request, and the name of the one that it is an alternative of.
    pub(in crate::plugins::dynamic_resources) fn asked(
        &self,
        request: usize,
        alternative: usize,
    ) -> (&'a DeviceRequest, Option<&'a str>) {
        let prepared = &self.0.prepared[0][request][alternative];
        (prepared.request, prepared.parent)
    }

    /// Returns the number of devices wanted; `None` for all that match.
    pub(in crate::plugins::dynamic_resources) fn wanted(
        &self,
        request: usize,
        alternative: usize,
    ) -> Option<usize> {
        let prepared = &self.0.prepared[0][request][alternative];
        prepared.all.is_none().then_some(prepared.count)
    }

    /// Returns what keeps a request from each device, in the order of the search.
    pub(in crate::plugins::dynamic_resources) fn devices(
        &mut self,
        request: usize,
        alternative: usize,
    ) -> Vec<(DeviceId, Option<Hindrance>)> {
        let at = At { claim: 0, request, alternative, device: 0, is_alternative: true };
        let all = 0..self.0.pools.candidates.len();
        all.map(|candidate| (self.0.pools.candidates[candidate].id(), self.hindrance(at, candidate)))
            .collect()
    }

    /// Returns the first check that fails.
    fn hindrance(&mut self, at: At, candidate: usize) -> Option<Hindrance> {
        let search = &mut self.0;
        let request = search.prepared[at.claim][at.request][at.alternative].request;
        let is_in_use = search.is_in_use(candidate, request.admin_access, at.claim);
        // The search does not evaluate selectors for a device in use. Here, that it would not match either is of more
        // interest; that an expression would fail is not.
        match search.matches(at, candidate) {
            Ok(true) => {}
            Ok(false) => return Some(self.mismatch(at, candidate)),
            Err(super::Obstacle::Error(error)) if !is_in_use => {
                return Some(Hindrance::SelectorFailed(error));
            }
            Err(_) => {}
        }
        if search.is_avoided(candidate, at.claim) {
            return Some(Hindrance::Avoided);
        }
        if is_in_use {
            return Some(Hindrance::InUse);
        }
        match search.has_capacity(at, request, candidate) {
            Ok(true) => {}
            Ok(false) | Err(_) => return self.short_capacity(request, candidate),
        }
        let device = search.pools.candidates[candidate].device;
        let is_shared = search.is_shareable(device) && search.is_partly_consumed(candidate);
        if !is_shared && !device.consumes.is_empty() {
            if !search.take_counters(candidate) {
                return self.short_counter(candidate);
            }
            // Each device is judged alone.
            search.taken_counters.clear();
        }
        if search.rules.gates.taints
            && let Some(taint) = untolerated(device, request)
        {
            return Some(Hindrance::Taint(taint.clone()));
        }
        let parent = search.prepared[at.claim][at.request][at.alternative].parent;
        let name = super::RequestName {
            request: parent.unwrap_or(&request.name),
            alternative: parent.map(|_| &*request.name),
        };
        let candidate = &search.pools.candidates[candidate];
        for constraint in &mut search.constraints[at.claim] {
            // Alone, a device violates a constraint only without the attribute.
            if !constraint.add(name, candidate) {
                return Some(Hindrance::NoAttribute(constraint.attribute().into()));
            }
            constraint.remove(name);
        }
        None
    }

    /// Returns the first selector that is false, or that the device is for other nodes.
    fn mismatch(&self, at: At, candidate: usize) -> Hindrance {
        let prepared = &self.0.prepared[at.claim][at.request][at.alternative];
        let device = self.0.pools.candidates[candidate].device;
        for (of_class, selectors) in [(true, &prepared.class.selectors), (false, &prepared.request.selectors)]
        {
            for (number, selector) in selectors.iter().enumerate() {
                let Some(DeviceSelector(expression)) = selector else { continue };
                if expression.matches(&device.facts) == Ok(false) {
                    return Hindrance::Selector { of_class, number, expression: expression.text().into() };
                }
            }
        }
        debug_assert_eq!(self.0.pools.candidates[candidate].slice.reach, Reach::PerDevice);
        Hindrance::OtherNode
    }

    fn short_capacity(&self, request: &DeviceRequest, candidate: usize) -> Option<Hindrance> {
        let Candidate { device, usage, .. } = &self.0.pools.candidates[candidate];
        let is_known = |name: &str| device.capacity.iter().any(|(known, _)| **known == *name);
        if let Some((name, _)) = request.capacity.iter().find(|(name, _)| !is_known(name)) {
            return Some(Hindrance::NoCapacity(Arc::clone(name)));
        }
        // The capacity that would still be too small if it were the only one.
        device.capacity.iter().zip(capacity::all_consumed(request, device, self.0.rules.capacity)).find_map(
            |((name, capacity), (_, wanted))| {
                let used = usage.and_then(|usage| usage.consumed(name)).unwrap_or_default();
                let (total, wanted_amount) = (capacity.value.quantity, wanted.quantity);
                let is_short = used.plus(wanted_amount).compare(total) == Ordering::Greater
                    || capacity::violates(&wanted, capacity.policy.as_ref());
                is_short.then(|| Hindrance::Capacity {
                    name: Arc::clone(name),
                    wanted: wanted_amount,
                    free: total.minus(used),
                    total,
                })
            },
        )
    }

    fn short_counter(&self, candidate: usize) -> Option<Hindrance> {
        let Candidate { pool, device, .. } = self.0.pools.candidates[candidate];
        let pool = &self.0.pools.pools[pool];
        let available = available_counters(self.0.place, pool);
        let wanted_of = |key: (&str, &str)| -> Quantity {
            consumed_counters(device)
                .find(|(counter, _)| *counter == key)
                .map(|(_, amount)| amount)
                .unwrap_or_default()
        };
        available.iter().find_map(|(&(set, name), &free)| {
            let wanted = wanted_of((set, name));
            (free.compare(wanted) == Ordering::Less).then(|| Hindrance::Counter {
                set: set.into(),
                name: name.into(),
                wanted,
                free,
                total: pool.counters.get(&(set, name)).copied().unwrap_or_default(),
            })
        })
    }
}
