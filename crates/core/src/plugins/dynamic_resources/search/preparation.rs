//! What is checked before the search: the requests, their classes and selectors, and the devices of requests for all.

use super::{Prepared, Search};
use crate::model::device::{
    AllocationMode, DeviceId, DeviceRequest, DeviceSelector, RESULTS_MAX, Reach, Request, RequestKind,
};
use crate::model::emulation::{Alternatives, CapacityRule, DeviceRules};
use crate::model::quantity::Quantity;
use crate::plugins::dynamic_resources::constraints::Tracked;
use crate::plugins::dynamic_resources::pools::{Candidate, Place, PoolState};

impl<'a> Search<'a> {
    /// Checks all claims before the search.
    pub(super) fn prepare(&mut self) -> Result<(), String> {
        for (at, wanted) in self.claims.iter().enumerate() {
            let mut of_claim = Vec::with_capacity(wanted.spec.requests.len());
            let mut least = 0_i64;
            for request in &wanted.spec.requests {
                let prepared = self.prepare_request(at, request)?;
                let smallest = prepared.iter().map(|it| i64::try_from(it.count).unwrap_or(i64::MAX)).min();
                let smallest = smallest.unwrap_or(0);
                if self.rules.names_excess_request && smallest > RESULTS_MAX as i64 - least {
                    return Err(format!(
                        "claim {}, request {}: adding {smallest} devices exceeds the claim limit of {RESULTS_MAX}, \
                         with {least} already accounted for",
                        wanted.name, request.name
                    ));
                }
                least = least.saturating_add(smallest);
                of_claim.push(prepared);
            }
            if least > RESULTS_MAX as i64 {
                return Err(format!(
                    "claim {}: number of requested devices {least} exceeds the claim limit of {RESULTS_MAX}",
                    wanted.name
                ));
            }
            let mut constraints = Vec::with_capacity(wanted.spec.constraints.len());
            for (number, constraint) in wanted.spec.constraints.iter().enumerate() {
                constraints.push(
                    Tracked::new(constraint, self.rules.distinct, self.copies_defects).ok_or_else(|| {
                        format!(
                            "claim {}, constraint #{number}: empty constraint (unsupported constraint type?)",
                            wanted.name
                        )
                    })?,
                );
            }
            self.skips_equals &= !constraints.iter().any(Tracked::depends_on_history);
            self.solution.alternatives.push(vec![0; of_claim.len()]);
            self.prepared.push(of_claim);
            self.constraints.push(constraints);
        }
        Ok(())
    }

    /// Checks a request, and finds its devices if it is for all.
    fn prepare_request(&mut self, claim: usize, request: &'a Request) -> Result<Vec<Prepared<'a>>, String> {
        let (requests, parent): (&'a [DeviceRequest], _) = match &request.kind {
            RequestKind::Exactly(exactly) => (std::slice::from_ref(exactly), None),
            RequestKind::FirstAvailable(alternatives) => (alternatives, Some(&*request.name)),
            RequestKind::Unknown => (&[], None),
        };
        self.check_gates(claim, &request.name, requests, parent.is_some())?;
        let mixes = self.copies_defects && self.rules.alternatives == Alternatives::Mixed;
        let mut all: Vec<Prepared<'a>> = Vec::with_capacity(requests.len());
        for (at, request) in requests.iter().enumerate() {
            let is_for_all = request.mode == AllocationMode::All;
            let earlier = all.first().filter(|first| mixes && at == 1 && is_for_all && first.all.is_some());
            let matches = match earlier {
                Some(first) => first.matches.clone(),
                None => vec![None; self.pools.candidates.len()],
            };
            all.push(self.prepare_one(claim, request, parent, matches)?);
        }
        Ok(all)
    }

    /// Checks that the feature gates allow a request.
    fn check_gates(
        &self,
        claim: usize,
        name: &str,
        requests: &[DeviceRequest],
        is_prioritized: bool,
    ) -> Result<(), String> {
        let (claim, gates) = (self.claims[claim].name, self.rules.gates);
        if is_prioritized && !gates.prioritized_list {
            return Err(format!(
                "claim {claim}, request {name}: has subrequests, but the DRAPrioritizedList feature is disabled"
            ));
        }
        let asks = |request: &&DeviceRequest| request.has_capacity;
        if let Some(request) = requests.iter().find(asks).filter(|_| self.rules.refuses_capacity) {
            let place = match is_prioritized && self.rules.names_alternative {
                true => format!("subrequest {}", request.name),
                false => format!("request {name}"),
            };
            return Err(format!(
                "claim {claim}, {place}: has capacity requests, but the DRAConsumableCapacity feature is disabled"
            ));
        }
        Ok(())
    }

    fn prepare_one(
        &mut self,
        claim: usize,
        request: &'a DeviceRequest,
        parent: Option<&'a str>,
        matches: Vec<Option<bool>>,
    ) -> Result<Prepared<'a>, String> {
        let place = format!("claim {}, request {}", self.claims[claim].name, request.name);
        if let Some(number) = request.selectors.iter().position(Option::is_none) {
            return Err(format!(
                "{place}, selector #{number}: CEL expression empty (unsupported selector type?)"
            ));
        }
        if request.admin_access && !self.rules.gates.admin_access {
            return Err(format!("{place}: admin access is requested, but the feature is disabled"));
        }
        let snapshot = self.place.snapshot;
        let class_name = snapshot.text(request.class);
        if class_name.is_empty() {
            return Err(format!("{place}: missing device class name (unsupported request type?)"));
        }
        let class = snapshot.device_classes().get(request.class).ok_or_else(|| {
            format!(
                "{place}: could not retrieve device class {class_name}: \
                 deviceclass.resource.k8s.io \"{class_name}\" not found"
            )
        })?;
        let mut prepared = Prepared { request, parent, class, class_name, count: 0, all: None, matches };
        match &request.mode {
            AllocationMode::ExactCount(count) => prepared.count = usize::try_from(*count).unwrap_or(0),
            AllocationMode::All => {
                let all = self.all_devices(claim, &place, &mut prepared)?;
                prepared.count = all.len();
                prepared.all = Some(all);
            }
            AllocationMode::Unknown(mode) => return Err(format!("{place}: unsupported count mode {mode}")),
        }
        Ok(prepared)
    }

    /// Returns all devices that match a request, used or not.
    fn all_devices(
        &mut self,
        claim: usize,
        place: &str,
        prepared: &mut Prepared<'a>,
    ) -> Result<Vec<usize>, String> {
        let mut all = Vec::new();
        for pool in &self.pools.pools {
            let name = || format!("{}/{}", pool.id.driver, pool.id.name);
            let why = match pool.state {
                PoolState::Usable => None,
                PoolState::Incomplete => Some("is currently being updated"),
                PoolState::Invalid => Some("is currently invalid"),
            };
            if let Some(why) = why {
                return Err(format!("{place}: asks for all devices, but resource pool {} {why}", name()));
            }
            for at in pool.candidates.clone() {
                self.steps += 1;
                let candidate = &self.pools.candidates[at];
                let claim = self.claims[claim].name;
                let is_match = match prepared.matches[at] {
                    Some(known) => known,
                    None => is_match(self.place, claim, prepared, candidate)?,
                };
                prepared.matches[at] = Some(is_match);
                let in_use = |name: &str| match self.rules.capacity {
                    CapacityRule::Wrapping => self.in_use(at, name),
                    CapacityRule::Checked => Quantity::default(),
                };
                let name = || candidate.device.name.to_string();
                if is_match && self.suffices(claim, prepared.request, at, in_use, name)? {
                    all.push(at);
                }
            }
        }
        Ok(all)
    }
}

/// Whether a device satisfies the selectors of class and request, and its own node selection.
pub(super) fn is_match(
    place: Place<'_>,
    claim: &str,
    prepared: &Prepared<'_>,
    candidate: &Candidate<'_>,
) -> Result<bool, String> {
    let rules = place.snapshot.rules();
    if !rules.waits_for_devices()
        && candidate.device.binding_conditions.as_ref().is_some_and(|it| !it.is_empty())
    {
        return Ok(false);
    }
    let class = || format!("class {}", prepared.class_name);
    let claim = || format!("claim {claim}");
    if !are_selected(&prepared.class.selectors, candidate, rules.devices, class)?
        || !are_selected(&prepared.request.selectors, candidate, rules.devices, claim)?
    {
        return Ok(false);
    }
    if candidate.slice.reach != Reach::PerDevice {
        return Ok(true);
    }
    place.is_reached_by(&candidate.device.reach).map_err(|error| error.to_string())
}

fn are_selected(
    selectors: &[Option<DeviceSelector>],
    candidate: &Candidate<'_>,
    rules: DeviceRules,
    owner: impl Fn() -> String,
) -> Result<bool, String> {
    for (number, selector) in selectors.iter().enumerate() {
        // Upstream dereferences the missing expression of a class, which the API server refuses.
        let Some(DeviceSelector(expression)) = selector else { continue };
        if !rules.has_includes && expression.text().contains(".includes(") {
            let why = "CEL compile error: undeclared reference to 'includes'";
            return Err(format!("{}: selector #{number}: {why}", owner()));
        }
        let outcome = match rules.shows_sharing {
            true => expression.matches(&candidate.device.facts),
            false => expression.matches_unshared(&candidate.device.facts),
        };
        match outcome {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => {
                let error = match rules.explains_expressions && error.starts_with("CEL runtime error: ") {
                    true => explained(&error, &candidate.id()),
                    false => format!(": {error}"),
                };
                return Err(format!("{}: selector #{number}{error}", owner()));
            }
        }
    }
    Ok(true)
}

/// Returns an error of an expression with the device, and advice if the device lacks what is read.
fn explained(error: &str, device: &DeviceId) -> String {
    let advice = match error.contains("no such key:") {
        true => {
            ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for \
             optional fields"
        }
        false => "",
    };
    format!(" on device {device}: {error}{advice}")
}
