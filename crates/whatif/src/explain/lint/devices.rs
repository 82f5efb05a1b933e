//! Rules about devices: claims, classes and templates that do not exist, and selectors that are invalid, too expensive,
//! or select nothing.

use crate::explain::cel::refusal;
use crate::explain::format::count;
use crate::explain::lint::{ClusterIndex, Finding, Linted, Rule};
use std::collections::BTreeMap;
use supercargo_cel::compile;
use supercargo_config::yaml::nearest;
use supercargo_core::cache::Snapshot;
use supercargo_core::model::device::{
    AllocationMode, Device, DeviceRequest, DeviceSelector, PodClaimSource, Reach, RequestKind, ResourceClaim,
};
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::volume::StorageKind;

/// What an object selects: how many devices there are in all, and on the node with most of them.
#[derive(Clone, Copy, Default)]
struct Selected {
    all: usize,
    most: usize,
}

/// Cached results of selectors, since many pods use the same claim template.
#[derive(Default)]
pub(super) struct Selections(BTreeMap<(Symbol, Vec<String>), Selected>);

/// Checks the ResourceClaims of a pod. Without nodes the input is manifests only, and missing objects may exist in the
/// cluster.
pub(super) fn judge(linted: &mut Linted<'_, '_>) {
    let snapshot = linted.snapshot();
    let subject = linted.subject;
    for name in &subject.missing_claim_templates {
        let message = format!(
            "ResourceClaimTemplate {name} does not exist, so its claim is never made and the pods are not scheduled"
        );
        linted.add(Rule::ClaimTemplateMissing, "spec.resourceClaims", message, None);
    }
    for (at, entry) in subject.pod.claims.iter().enumerate() {
        let field = format!("spec.resourceClaims[{at}]");
        let (name, is_named) = match entry.source {
            PodClaimSource::Named(name) => (name, true),
            PodClaimSource::Generated(name) => (name, false),
            _ => continue,
        };
        match snapshot.devices().claim(subject.pod.namespace, name) {
            Some(claim) => judge_claim(linted, &field, claim),
            None if !is_named || snapshot.nodes().is_empty() => {}
            None => {
                let text = snapshot.text(name);
                let keys = snapshot.volumes().keys(StorageKind::ResourceClaim).into_iter();
                let here = keys.filter(|key| key.namespace == Some(subject.pod.namespace));
                let meant = nearest(text, here.map(|key| snapshot.text(key.name))).map(str::to_owned);
                let message = format!(
                    "ResourceClaim {text} does not exist in its namespace, so the pods are not scheduled"
                );
                linted.add(Rule::ResourceClaimMissing, &format!("{field}.resourceClaimName"), message, meant);
            }
        }
    }
}

fn judge_claim(linted: &mut Linted<'_, '_>, field: &str, claim: &ResourceClaim) {
    if claim.allocation.is_some() {
        return;
    }
    for request in &claim.spec.requests {
        let (requests, is_only) = match &request.kind {
            RequestKind::Exactly(exactly) => (std::slice::from_ref(exactly), true),
            // If a request has several alternatives, some may be for other clusters.
            RequestKind::FirstAvailable(alternatives) => (&**alternatives, false),
            RequestKind::Unknown => (&[][..], true),
        };
        for request in requests {
            judge_request(linted, field, request, is_only);
        }
    }
}

fn judge_request(linted: &mut Linted<'_, '_>, field: &str, request: &DeviceRequest, is_only: bool) {
    let snapshot = linted.snapshot();
    let (class, name) = (snapshot.text(request.class), &request.name);
    let mut is_valid = true;
    for (number, selector) in request.selectors.iter().enumerate() {
        if let Some((rule, why)) = selector.as_ref().and_then(|selector| fault(selector.0.text())) {
            let message = format!("the request {name}, selector #{number}: {why}");
            linted.add(rule, field, message, None);
            is_valid = false;
        }
    }
    if snapshot.device_classes().get(request.class).is_none() {
        if !snapshot.nodes().is_empty() {
            let names = snapshot.device_classes().names().map(|name| snapshot.text(name));
            let meant = nearest(class, names).map(str::to_owned);
            let message = format!(
                "the request {name} names the DeviceClass {class}, which does not exist, so the pods are not scheduled"
            );
            linted.add(Rule::DeviceClassMissing, field, message, meant);
        }
        return;
    }
    // A cluster without devices is not a cluster yet.
    if !is_valid || !is_only || snapshot.devices().slices().next().is_none() {
        return;
    }
    let selected = linted.index.selected(request);
    if selected.all == 0 {
        let message = format!(
            "the class {class} and the selectors of the request {name} select none of the devices of any ResourceSlice"
        );
        linted.add(Rule::DeviceSelectorMatchesNothing, field, message, None);
        return;
    }
    let wanted = match request.mode {
        AllocationMode::ExactCount(wanted) => usize::try_from(wanted).unwrap_or(0),
        _ => return,
    };
    // Shared devices can be used more than once, but not by one request.
    if wanted > selected.most && !snapshot.nodes().is_empty() {
        let message = format!(
            "the request {name} wants {}, and the node with most of them has {}",
            count(wanted, "device"),
            selected.most
        );
        linted.add(Rule::DeviceRequestTooLarge, field, message, None);
    }
}

/// Returns what is wrong with an expression, whatever the devices.
fn fault(expression: &str) -> Option<(Rule, String)> {
    let program = match compile(expression) {
        Ok(program) => program,
        Err(error) if error.line() == 0 => {
            return Some((Rule::DeviceSelectorInvalid, error.message().to_owned()));
        }
        Err(error) => {
            let place = format!("line {}, column {}", error.line(), error.column());
            return Some((Rule::DeviceSelectorInvalid, format!("{place}: {}", error.message())));
        }
    };
    let refused = refusal(expression, program.estimated_cost())?;
    Some((Rule::DeviceSelectorTooExpensive, refused))
}

impl ClusterIndex<'_> {
    /// Returns the devices that a class and a request select, whatever their use.
    fn selected(&self, request: &DeviceRequest) -> Selected {
        let texts = request.selectors.iter().flatten().map(|selector| selector.0.text().to_owned()).collect();
        let key = (request.class, texts);
        if let Some(known) = self.selections.borrow().0.get(&key) {
            return *known;
        }
        let class = self.snapshot.device_classes().get(request.class);
        let selectors: Vec<&DeviceSelector> =
            class.iter().flat_map(|class| &class.selectors).chain(&request.selectors).flatten().collect();
        let selected = select(self.snapshot, &selectors);
        self.selections.borrow_mut().0.insert(key, selected);
        selected
    }

    /// Adds findings for the selectors of DeviceClasses.
    pub(super) fn classes(&self, findings: &mut Vec<Finding>) {
        let snapshot = self.snapshot;
        let mut add = |name: Symbol, rule: Rule, field: String, message: String| {
            findings.push(Finding {
                severity: rule.severity(),
                namespace: String::new(),
                kind: "DeviceClass".to_owned(),
                name: snapshot.text(name).to_owned(),
                rule,
                field,
                message,
                did_you_mean: None,
            });
        };
        for name in snapshot.device_classes().names() {
            let Some(class) = snapshot.device_classes().get(name) else { continue };
            let selectors: Vec<&DeviceSelector> = class.selectors.iter().flatten().collect();
            let faults = selectors.iter().enumerate();
            let faults: Vec<_> =
                faults.filter_map(|(number, it)| Some((number, fault(it.0.text())?))).collect();
            let is_valid = faults.is_empty();
            for (number, (rule, why)) in faults {
                add(name, rule, format!("spec.selectors[{number}].cel.expression"), why);
            }
            let has_devices = snapshot.devices().slices().any(|slice| !slice.devices.is_empty());
            if is_valid && has_devices && select(snapshot, &selectors).all == 0 {
                let message = "its selectors select none of the devices of any ResourceSlice".to_owned();
                add(name, Rule::DeviceClassSelectsNothing, "spec.selectors".to_owned(), message);
            }
        }
    }
}

/// Evaluates selectors for all devices: each device once, and the sums by node.
fn select(snapshot: Snapshot<'_>, selectors: &[&DeviceSelector]) -> Selected {
    let is_selected =
        |device: &&Device| selectors.iter().all(|selector| selector.0.matches(&device.facts) == Ok(true));
    let mut by_node: BTreeMap<Symbol, usize> = BTreeMap::new();
    let (mut all, mut everywhere) = (0, 0);
    let mut others = Vec::new();
    for slice in snapshot.devices().slices() {
        let selected: Vec<&Device> = slice.devices.iter().filter(is_selected).collect();
        all += selected.len();
        match &slice.reach {
            Reach::Node(node) => *by_node.entry(*node).or_default() += selected.len(),
            Reach::AllNodes => everywhere += selected.len(),
            Reach::Selector(_) | Reach::PerDevice if !selected.is_empty() => others.push((slice, selected)),
            _ => {}
        }
    }
    let of_node = |node| {
        let (name, labels) = (snapshot.node_info(node).name, snapshot.node_labels(node));
        let is_reached = |reach: &Reach| reach.matches(snapshot.tables(), name, labels) == Ok(true);
        let shared = others.iter().map(|(slice, selected)| match &slice.reach {
            Reach::PerDevice => selected.iter().filter(|device| is_reached(&device.reach)).count(),
            reach if is_reached(reach) => selected.len(),
            _ => 0,
        });
        by_node.get(&name).copied().unwrap_or(0) + everywhere + shared.sum::<usize>()
    };
    let most = snapshot.nodes().iter().map(of_node).max().unwrap_or(0);
    Selected { all, most }
}
