//! Which devices are equal for a search, so that it need not try each of them in the same place.

use super::Search;
use crate::model::device::DeviceSelector;
use crate::plugins::dynamic_resources::constraints::Tracked;
use crate::plugins::dynamic_resources::pools::Candidate;

impl Search<'_> {
    /// Whether two devices are equal in everything that decides whether this search can use them.
    pub(super) fn are_equal(&self, one: usize, other: usize) -> bool {
        if !self.skips_equals {
            return false;
        }
        let (one, other) = (&self.pools.candidates[one], &self.pools.candidates[other]);
        let (a, b) = (one.device, other.device);
        one.pool == other.pool
            && !a.is_shareable
            && !b.is_shareable
            && a.consumes == b.consumes
            && a.capacity == b.capacity
            && a.taints == b.taints
            && one.slice.reach == other.slice.reach
            && a.reach == b.reach
            && self.are_equally_used(one, other)
            && self.have_equal_attributes(one, other)
            && self.have_equal_outcomes(one, other)
    }

    /// Whether other allocations hold both devices or neither, and each claim avoids both or neither. A request with
    /// admin access can take a device that is held, and leave the free one to another request.
    fn are_equally_used(&self, one: &Candidate<'_>, other: &Candidate<'_>) -> bool {
        let mut avoided = self.claims.iter().filter_map(|claim| claim.avoided);
        one.usage.is_some() == other.usage.is_some()
            && avoided.all(|avoided| avoided.contains(&one.id()) == avoided.contains(&other.id()))
    }

    /// Whether all constraints see the same attributes.
    fn have_equal_attributes(&self, one: &Candidate<'_>, other: &Candidate<'_>) -> bool {
        let mut names = self.constraints.iter().flatten().map(Tracked::attribute);
        names.all(|name| {
            let driver = &one.slice.pool.driver;
            one.device.attribute(driver, name) == other.device.attribute(driver, name)
        })
    }

    /// Whether all expressions of the claims select both devices or neither.
    fn have_equal_outcomes(&self, one: &Candidate<'_>, other: &Candidate<'_>) -> bool {
        let selectors = self.prepared.iter().flatten().flatten().flat_map(|prepared| {
            prepared.class.selectors.iter().chain(&prepared.request.selectors).flatten()
        });
        let outcome = |selector: &DeviceSelector, candidate: &Candidate<'_>| {
            selector.0.matches(&candidate.device.facts)
        };
        let mut selectors = selectors;
        selectors.all(|selector| outcome(selector, one) == outcome(selector, other))
    }
}
