//! Generates ResourceClaims, and pods that name them or request extended resources.

use super::{API, EXTENDED, FPGA, GPU, NIC, driver, expressions, node_selector, selector};
use crate::draw::Draw;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The claims of a scenario, and the devices that can be allocated.
pub(super) struct Claims {
    pub(super) made: Vec<Value>,
    /// Whether a pod names a claim twice.
    pub(super) has_twins: bool,
    /// Claims that pods to be placed name.
    named: BTreeSet<String>,
    /// Driver, pool and device, and the device.
    devices: Vec<(Value, Value)>,
    /// How often, in percent, a request asks for capacity.
    capacity: usize,
    /// How often a claim has constraints.
    constraints: usize,
}

fn key(claim: &Value) -> String {
    let text = |field: &str| claim["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

impl Claims {
    pub(super) fn new(draw: &mut Draw, objects: &[Value]) -> Self {
        let mut devices = Vec::new();
        for slice in objects.iter().filter(|object| object["kind"] == "ResourceSlice") {
            for device in slice["spec"]["devices"].as_array().into_iter().flatten() {
                let id = json!({
                    "driver": slice["spec"]["driver"], "pool": slice["spec"]["pool"]["name"],
                    "device": device["name"],
                });
                devices.push((id, device.clone()));
            }
        }
        let shares = devices.iter().any(|(_, device)| device["allowMultipleAllocations"] == true);
        Self {
            made: Vec::new(),
            has_twins: false,
            named: BTreeSet::new(),
            devices,
            capacity: if shares { 45 } else { 4 },
            constraints: draw.weighted(&[(3, 5), (2, 30), (1, 60)]),
        }
    }

    /// Whether no pod to be placed names the claim.
    pub(super) fn is_foreign(&self, claim: &Value) -> bool {
        !self.named.contains(&key(claim))
    }

    /// Makes a pod ask for devices.
    pub(super) fn ask(&mut self, draw: &mut Draw, pod: &mut Value) {
        if draw.percent(8) {
            return;
        }
        if draw.percent(18) {
            request_extended(draw, pod);
            if draw.percent(75) {
                return;
            }
        }
        let count = draw.weighted(&[(12, 1), (4, 2), (1, 3)]);
        for at in 0..count {
            self.name_one(draw, pod, at);
        }
    }

    fn name_one(&mut self, draw: &mut Draw, pod: &mut Value, at: usize) {
        let name = format!("c{at}");
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let pod_name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let entry = match draw.below(20) {
            // A shared claim, perhaps one that is already allocated.
            0..=4 => {
                let shared = format!("shared{}", draw.below(2));
                let full = format!("{namespace}/{shared}");
                if self.named.insert(full) {
                    let claim = self.claim(draw, &namespace, &shared);
                    self.made.push(claim);
                }
                let mut named = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
                self.has_twins |= named.any(|other| other["resourceClaimName"] == *shared);
                json!({ "name": name, "resourceClaimName": shared })
            }
            // A claim that a template is for.
            5..=9 => {
                let made = format!("{pod_name}-{name}-x7k2");
                let mut entry = json!({ "name": name, "resourceClaimTemplateName": "t" });
                self.named.insert(format!("{namespace}/{made}"));
                let mut claim = self.claim(draw, &namespace, &made);
                claim["metadata"]["annotations"] = json!({ "resource.kubernetes.io/pod-claim-name": name });
                let owner = if draw.percent(96) { &pod["metadata"]["uid"] } else { &json!("uid-else") };
                claim["metadata"]["ownerReferences"] = json!([{
                    "apiVersion": "v1", "kind": "Pod", "name": pod_name, "uid": owner,
                    "controller": draw.percent(97), "blockOwnerDeletion": true,
                }]);
                self.made.push(claim);
                match draw.below(30) {
                    0 => {}
                    1 => add_to(&mut pod["status"]["resourceClaimStatuses"], json!({ "name": name })),
                    2 => entry = json!({ "name": name }),
                    _ => add_to(
                        &mut pod["status"]["resourceClaimStatuses"],
                        json!({ "name": name, "resourceClaimName": made }),
                    ),
                }
                entry
            }
            _ => {
                let own = format!("{pod_name}-{name}");
                self.named.insert(format!("{namespace}/{own}"));
                if draw.percent(98) {
                    let claim = self.claim(draw, &namespace, &own);
                    self.made.push(claim);
                }
                json!({ "name": name, "resourceClaimName": own })
            }
        };
        add_to(&mut pod["spec"]["resourceClaims"], entry);
    }

    /// Adds allocated claims of other pods.
    pub(super) fn run(&mut self, draw: &mut Draw, nodes: usize) {
        let count = draw.below(5);
        for at in 0..count {
            let mut claim = self.claim(draw, "default", &format!("run{at}"));
            if !self.devices.is_empty() && claim["status"]["allocation"].is_null() {
                self.allocate(draw, &mut claim, nodes);
            }
            self.made.push(claim);
        }
    }

    fn claim(&mut self, draw: &mut Draw, namespace: &str, name: &str) -> Value {
        let mut claim = json!({
            "apiVersion": API, "kind": "ResourceClaim",
            "metadata": { "name": name, "namespace": namespace, "uid": format!("uid-{namespace}-{name}") },
            "spec": { "devices": self.spec(draw) },
            "status": {},
        });
        if draw.percent(8) && !self.devices.is_empty() {
            self.allocate(draw, &mut claim, 4);
        }
        if draw.percent(2) {
            claim["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z".into();
            claim["metadata"]["finalizers"] = json!(["resource.kubernetes.io/delete-protection"]);
        }
        claim
    }

    fn spec(&self, draw: &mut Draw) -> Value {
        let about = self.some_driver(draw);
        let count = draw.weighted(&[(1, 0), (50, 1), (20, 2), (6, 3)]);
        let requests: Vec<Value> = (0..count)
            .map(|at| {
                let mut request = json!({ "name": format!("r{at}") });
                if draw.percent(22) {
                    let count = draw.weighted(&[(1, 1), (4, 2), (2, 3)]);
                    let alternatives: Vec<Value> = (0..count)
                        .map(|index| {
                            let mut alternative = self.request(draw, about, false);
                            alternative["name"] = format!("s{index}").into();
                            alternative
                        })
                        .collect();
                    request["firstAvailable"] = alternatives.into();
                } else {
                    request["exactly"] = self.request(draw, about, true);
                }
                request
            })
            .collect();
        let mut spec = json!({ "requests": requests });
        if draw.percent(self.constraints) {
            let count = draw.weighted(&[(4, 1), (1, 2)]);
            spec["constraints"] = draw.list(count, |draw| constraint(draw, about, &requests)).into();
        }
        if draw.percent(12) {
            let count = draw.between(1, 2);
            spec["config"] = draw
                .list(count, |draw| {
                    let mut config =
                        json!({ "opaque": { "driver": about, "parameters": { "x": draw.below(3) } } });
                    if draw.percent(60) {
                        config["requests"] = some_requests(draw, &requests);
                    }
                    config
                })
                .into();
        }
        spec
    }

    /// Returns a driver, most often one that has devices.
    fn some_driver(&self, draw: &mut Draw) -> &'static str {
        let drawn = driver(draw);
        if self.devices.is_empty() || draw.percent(12) {
            return drawn;
        }
        let (id, _) = &self.devices[draw.below(self.devices.len())];
        [GPU, NIC, FPGA].into_iter().find(|name| id["driver"] == *name).unwrap_or(drawn)
    }

    fn request(&self, draw: &mut Draw, about: &'static str, exactly: bool) -> Value {
        let class = match about {
            NIC => draw.weighted(&[(6, "nic"), (2, "any")]),
            FPGA => "any",
            _ => draw.weighted(&[(6, "gpu"), (2, "big"), (2, "any")]),
        };
        let class = if draw.percent(1) { "ghost" } else { class };
        let mut request = json!({ "deviceClassName": class });
        match draw.below(40) {
            0..=5 => request["allocationMode"] = "All".into(),
            6 if draw.percent(25) => {} // as an API server never stores it
            7 if draw.percent(20) => request["allocationMode"] = "Some".into(),
            _ => {
                request["allocationMode"] = "ExactCount".into();
                request["count"] = draw.weighted(&[(14, 1), (6, 2), (2, 3), (1, 0)]).into();
                if draw.percent(1) {
                    request["count"] = draw.weighted(&[(1, 20), (1, 33)]).into();
                }
            }
        }
        if draw.percent(40) {
            let count = draw.weighted(&[(5, 1), (1, 2)]);
            let selectors = draw.list(count, |draw| selector(&expressions::expression(draw, about)));
            request["selectors"] = selectors.into();
        }
        if exactly && draw.percent(6) {
            request["adminAccess"] = draw.percent(80).into();
        }
        if draw.percent(18) {
            let count = draw.between(1, 2);
            request["tolerations"] = draw.list(count, toleration).into();
        }
        if draw.percent(self.capacity) {
            let mut amounts = Map::new();
            if draw.percent(80) {
                let wanted = &["1Gi", "2Gi", "1500M", "5Gi", "10Gi", "30Gi", "0.5G", "1"];
                amounts.insert("memory".to_owned(), draw.pick(wanted).into());
            }
            if draw.percent(30) {
                amounts.insert("cores".to_owned(), draw.pick(&["1", "2", "3", "500m", "8"]).into());
            }
            if draw.percent(3) {
                amounts.insert("none".to_owned(), "1".into());
            }
            request["capacity"] = json!({ "requests": amounts });
        }
        request
    }

    /// Returns a device of an allocation. Its driver may report its conditions.
    fn result(&self, draw: &mut Draw, reports: &mut Vec<Value>) -> Value {
        let (id, device) = &self.devices[draw.below(self.devices.len())];
        let mut result = id.clone();
        result["request"] = "r0".into();
        if draw.percent(6) {
            result["adminAccess"] = true.into();
        }
        if device["allowMultipleAllocations"] == true && draw.percent(85) {
            let share = format!("0000000{}-0000-4000-8000-{:012}", draw.below(10), draw.below(1_000_000));
            result["shareID"] = share.into();
            let amounts = device["capacity"].as_object().into_iter().flatten();
            let amounts: Map<String, Value> = amounts
                .map(|(name, _)| {
                    let amount = if name == "memory" { draw.pick(&["1Gi", "5Gi", "10Gi"]) } else { "1" };
                    (name.clone(), amount.into())
                })
                .collect();
            if !amounts.is_empty() {
                result["consumedCapacity"] = amounts.into();
            }
        }
        if !device["bindingConditions"].is_null() {
            result["bindingConditions"] = device["bindingConditions"].clone();
            result["bindingFailureConditions"] = device["bindingFailureConditions"].clone();
            if draw.percent(70) {
                let mut report = id.clone();
                let kind = draw.pick(&["ready", "ready", "broken", "other"]);
                let status = draw.pick(&["True", "True", "False"]);
                report["conditions"] = json!([{
                    "type": kind, "status": status, "reason": "Report", "message": "",
                    "lastTransitionTime": "2024-01-01T00:00:00Z",
                }]);
                reports.push(report);
            }
        }
        result
    }

    /// Gives a claim devices, which may be gone or in use.
    fn allocate(&mut self, draw: &mut Draw, claim: &mut Value, nodes: usize) {
        let count = draw.weighted(&[(6, 1), (3, 2), (1, 0)]);
        let mut reports = Vec::new();
        let results = draw.list(count, |draw| self.result(draw, &mut reports));
        let mut allocation = json!({ "devices": { "results": results } });
        match draw.below(10) {
            0 | 1 => {}
            2 | 3 => allocation["nodeSelector"] = node_selector(draw),
            _ => {
                let name = format!("n{}", draw.below(nodes.min(6)));
                allocation["nodeSelector"] = json!({ "nodeSelectorTerms": [{
                    "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [name] }],
                }] });
            }
        }
        if draw.percent(60) {
            // Long ago, or long after any time of the comparison.
            let at = draw.pick(&["2024-01-01T00:00:00Z", "2240-01-01T00:00:00Z"]);
            allocation["allocationTimestamp"] = at.into();
        }
        let status = &mut claim["status"];
        status["allocation"] = allocation;
        if !reports.is_empty() {
            status["devices"] = reports.into();
        }
        let consumers = draw.weighted(&[(5, 0), (6, 1), (2, 2), (1, 256)]);
        if consumers > 0 {
            // The first consumer may be a pod to be placed.
            let name = |at: usize| if at == 0 { "p0".to_owned() } else { format!("e{at}") };
            let consumer =
                |at| json!({ "resource": "pods", "name": name(at), "uid": format!("uid-{}", name(at)) });
            let first = draw.below(2);
            status["reservedFor"] = (first..first + consumers).map(consumer).collect();
        }
    }
}

fn add_to(list: &mut Value, item: Value) {
    if let Some(items) = list.as_array_mut() {
        items.push(item);
    } else {
        *list = json!([item]);
    }
}

fn toleration(draw: &mut Draw) -> Value {
    let mut toleration = json!({});
    if draw.percent(75) {
        toleration["key"] = draw.pick(&["example.com/unhealthy", "example.com/soon"]).into();
    }
    match draw.below(4) {
        0 | 1 => toleration["operator"] = "Exists".into(),
        2 => toleration["operator"] = "Equal".into(),
        _ => {}
    }
    if toleration["operator"] != "Exists" && draw.percent(60) {
        toleration["value"] = draw.pick(&["x", "y"]).into();
    }
    if draw.percent(40) {
        toleration["effect"] = draw.pick(&["NoSchedule", "NoExecute"]).into();
    }
    toleration
}

/// Returns names of requests and alternatives.
fn some_requests(draw: &mut Draw, requests: &[Value]) -> Value {
    let mut names = Vec::new();
    for request in requests {
        let name = request["name"].as_str().unwrap_or_default();
        if draw.percent(60) {
            names.push(name.to_owned());
        } else if !request["firstAvailable"].is_null() && draw.percent(60) {
            names.push(format!("{name}/s{}", draw.below(2)));
        }
    }
    names.into()
}

fn constraint(draw: &mut Draw, about: &str, requests: &[Value]) -> Value {
    let id = draw.pick(&["model", "numa", "healthy", "version", "mixed", "mixed", "index"]);
    let attribute = match draw.below(12) {
        0..=3 => "resource.kubernetes.io/pcieRoot".to_owned(),
        4 => format!("{}/{id}", draw.pick(&[GPU, NIC])),
        5 if draw.percent(30) => id.to_owned(),
        _ => format!("{about}/{id}"),
    };
    let way = draw.pick(&["matchAttribute", "matchAttribute", "distinctAttribute"]);
    let mut constraint = json!({ way: attribute });
    if draw.percent(35) {
        constraint["requests"] = some_requests(draw, requests);
    }
    constraint
}

/// Makes containers request extended resources that a class may serve.
fn request_extended(draw: &mut Draw, pod: &mut Value) {
    let name = if draw.percent(70) {
        draw.pick(EXTENDED).to_owned()
    } else {
        format!("deviceclass.resource.kubernetes.io/{}", draw.pick(&["gpu", "big", "any"]))
    };
    let mut amount = |container: &mut Value| {
        let amount = draw.weighted(&[(8, 1), (4, 2), (1, 3), (1, 0)]);
        container["resources"]["requests"][&name] = amount.to_string().into();
        if draw.percent(15) {
            let other = draw.pick(EXTENDED);
            container["resources"]["requests"][other] = "1".into();
        }
        container["resources"].as_object_mut().map(|resources| resources.remove("limits"));
    };
    let containers = pod["spec"]["containers"].as_array_mut().into_iter().flatten();
    for (at, container) in containers.enumerate() {
        if at == 0 || at == 2 {
            amount(container);
        }
    }
    let init = pod["spec"]["initContainers"].as_array_mut().into_iter().flatten();
    init.for_each(amount);
}
