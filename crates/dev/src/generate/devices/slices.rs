//! Generates ResourceSlices: pools with generations, devices, counters and taints.

use super::{API, FPGA, GPU, NIC, driver, node_selector};
use crate::draw::Draw;
use serde_json::{Map, Value, json};

/// Who can use the devices of a pool.
#[derive(Clone, Copy, PartialEq)]
enum Reach {
    Node,
    Selector,
    All,
    Device,
    /// An API server rejects a slice that names no node.
    Nothing,
}

/// A pool to be generated.
struct Pool {
    driver: &'static str,
    name: String,
    reach: Reach,
    node: usize,
    nodes: usize,
    has_counters: bool,
    /// Devices may be shared.
    shares: bool,
    waits: bool,
    taints: usize,
}

/// Returns the slices of all pools.
pub(super) fn slices(draw: &mut Draw, nodes: usize) -> Vec<Value> {
    let mut slices = Vec::new();
    for node in 0..nodes.min(5) {
        if draw.percent(70) {
            let pool = pool(draw, Reach::Node, node, nodes);
            pool.generate(draw, &mut slices);
        }
    }
    let count = draw.below(3);
    for at in 0..count {
        let reach = draw.weighted(&[
            (4, Reach::Selector),
            (3, Reach::All),
            (4, Reach::Device),
            (2, Reach::Node),
            (1, Reach::Nothing),
        ]);
        let mut pool = pool(draw, reach, at, nodes);
        pool.name = format!("shared-{}-{at}", &pool.driver[..1]);
        pool.generate(draw, &mut slices);
    }
    slices
}

fn pool(draw: &mut Draw, reach: Reach, node: usize, nodes: usize) -> Pool {
    let driver = driver(draw);
    Pool {
        driver,
        // Counters of two drivers' pools of one name disturb each other upstream (`FIDELITY.md`).
        name: format!("{}-n{node}", &driver[..1]),
        reach,
        node,
        nodes,
        has_counters: draw.percent(25),
        shares: draw.percent(25),
        waits: draw.percent(15),
        taints: if draw.percent(25) { 40 } else { 0 },
    }
}

impl Pool {
    fn generate(&self, draw: &mut Draw, slices: &mut Vec<Value>) {
        let generation = draw.between(1, 3);
        let count = draw.weighted(&[(6, 1), (3, 2), (1, 3)]);
        let mut made: Vec<Value> = Vec::new();
        let mut device = 0;
        for at in 0..count {
            let devices = draw.weighted(&[(1, 0), (2, 1), (4, 2), (4, 3), (4, 4), (1, 6)]);
            let devices: Vec<Value> = (0..devices)
                .map(|_| {
                    device += 1;
                    self.device(draw, device)
                })
                .collect();
            made.push(self.slice(draw, at, generation, count, &json!({ "devices": devices })));
        }
        if self.has_counters {
            let counters = self.counters(draw);
            let mut counters =
                self.slice(draw, count, generation, count, &json!({ "sharedCounters": counters }));
            if self.reach == Reach::Node && draw.percent(15) {
                // Another node's counters: until 1.36 they count for every node.
                counters["spec"]["nodeName"] = format!("n{}", draw.below(self.nodes)).into();
            }
            made.push(counters);
            let count = if draw.percent(95) { count + 1 } else { count };
            made.iter_mut().for_each(|slice| slice["spec"]["pool"]["resourceSliceCount"] = count.into());
        }
        // Slices of an older or a newer generation, and pools that are being updated.
        match draw.below(20) {
            0 => {
                let device = self.device(draw, 1);
                let stale =
                    self.slice(draw, 7, generation.saturating_sub(1), 1, &json!({ "devices": [device] }));
                made.push(stale);
            }
            1 => {
                let device = self.device(draw, 8);
                let mut newer = self.slice(draw, 8, generation + 1, 2, &json!({ "devices": [device] }));
                if self.reach == Reach::Node && draw.percent(60) {
                    newer["spec"]["nodeName"] = format!("n{}", draw.below(self.nodes)).into();
                }
                made.push(newer);
            }
            2 => drop(made.remove(draw.below(made.len()))),
            3 => {
                // Slices of one generation with different numbers are a race upstream (`FIDELITY.md`).
                let (count, at) = (draw.between(1, 3), draw.below(made.len()));
                let only_one = draw.percent(5);
                for (_, slice) in made.iter_mut().enumerate().filter(|(index, _)| !only_one || *index == at) {
                    slice["spec"]["pool"]["resourceSliceCount"] = count.into();
                }
            }
            4 if draw.percent(30) => {
                // The same device twice.
                let device = self.device(draw, 1);
                let at = draw.below(made.len());
                if let Some(devices) = made[at]["spec"]["devices"].as_array_mut() {
                    devices.push(device);
                }
            }
            _ => {}
        }
        slices.extend(made);
    }

    fn slice(&self, draw: &mut Draw, at: usize, generation: usize, count: usize, content: &Value) -> Value {
        let name = format!("s{}-{}-{}-{at}-{generation}", draw.below(3), &self.driver[..1], self.name);
        let mut slice = json!({
            "apiVersion": API, "kind": "ResourceSlice",
            "metadata": { "name": name, "uid": format!("uid-{name}") },
            "spec": {
                "driver": self.driver,
                "pool": { "name": self.name, "generation": generation, "resourceSliceCount": count },
            },
        });
        let spec = &mut slice["spec"];
        for (key, value) in content.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        match self.reach {
            Reach::Node => spec["nodeName"] = format!("n{}", self.node).into(),
            Reach::Selector => spec["nodeSelector"] = node_selector(draw),
            Reach::All => spec["allNodes"] = true.into(),
            Reach::Device => spec["perDeviceNodeSelection"] = true.into(),
            Reach::Nothing => {}
        }
        slice
    }

    fn counters(&self, draw: &mut Draw) -> Value {
        let mut sets = vec![json!({
            "name": "card",
            "counters": { "memory": { "value": draw.pick(&["40Gi", "20Gi", "60G"]) },
                          "slices": { "value": draw.pick(&["7", "4", "2"]) } },
        })];
        if draw.percent(50) {
            sets.push(
                json!({ "name": "bus", "counters": { "lanes": { "value": draw.pick(&["16", "8"]) } } }),
            );
        }
        if draw.percent(2) {
            sets.push(sets[0].clone());
        }
        sets.into()
    }

    fn device(&self, draw: &mut Draw, number: usize) -> Value {
        let name = if draw.percent(95) { format!("d{number}") } else { format!("x{}", draw.below(3)) };
        let mut device = json!({ "name": name, "attributes": self.attributes(draw, number) });
        let capacity = self.capacity(draw);
        if !capacity.is_empty() {
            device["capacity"] = capacity.into();
        }
        if self.shares && draw.percent(75) {
            device["allowMultipleAllocations"] = true.into();
        }
        if self.reach == Reach::Device {
            match draw.below(6) {
                0 => device["allNodes"] = true.into(),
                1 | 2 => device["nodeSelector"] = node_selector(draw),
                3 if draw.percent(20) => {}
                _ => device["nodeName"] = format!("n{}", draw.below(self.nodes)).into(),
            }
        }
        if self.has_counters && draw.percent(85) {
            device["consumesCounters"] = consumed(draw);
        }
        if draw.percent(self.taints) {
            let count = draw.between(1, 2);
            device["taints"] = draw.list(count, taint).into();
        }
        if self.waits && draw.percent(60) {
            device["bindingConditions"] = json!(["ready"]);
            device["bindingFailureConditions"] = json!(["broken"]);
            if draw.percent(40) {
                device["bindsToNode"] = true.into();
            }
        }
        device
    }

    fn attributes(&self, draw: &mut Draw, number: usize) -> Map<String, Value> {
        let mut attributes = Map::new();
        let mut set = |key: &str, value: Value| drop(attributes.insert(key.to_owned(), value));
        set("index", json!({ "int": number }));
        if draw.percent(97) {
            let models = match self.driver {
                NIC => &["cx6", "cx7"],
                FPGA => &["u250", "u280"],
                _ => &["a100", "h100"],
            };
            set("model", json!({ "string": draw.pick(models) }));
        }
        if draw.percent(93) {
            set("numa", json!({ "int": draw.below(2) }));
        }
        if draw.percent(90) {
            set("healthy", json!({ "bool": draw.percent(80) }));
        }
        if draw.percent(94) {
            let versions = &["1.2.3", "1.10.0", "2.0.0-rc.1", "2.0.0", "2.0.0+build7"];
            set("version", json!({ "version": draw.pick(versions) }));
        }
        if draw.percent(85) {
            set("resource.kubernetes.io/pcieRoot", json!({ "string": draw.pick(&["pci0", "pci1", "pci2"]) }));
        }
        if draw.percent(40) {
            set("uuid", json!({ "string": format!("{}-{}-{number}", self.driver, self.name) }));
        }
        if draw.percent(80) {
            // One attribute of all types, for constraints and comparisons.
            let value = match draw.below(7) {
                0 => json!({ "string": "1" }),
                1 => json!({ "bool": true }),
                2 => json!({ "version": "1.0.0" }),
                3 => json!({ "version": "1.0.0+b" }),
                4 => json!({ "int": 2 }),
                _ => json!({ "int": 1 }),
            };
            set("mixed", value);
        }
        if draw.percent(10) {
            // With both names, expressions upstream see either (`FIDELITY.md`).
            attributes.remove("model");
            let full = format!("{}/model", self.driver);
            attributes.insert(full, json!({ "string": draw.pick(&["a100", "full"]) }));
        }
        attributes
    }

    fn capacity(&self, draw: &mut Draw) -> Map<String, Value> {
        let mut capacity = Map::new();
        if draw.percent(if self.driver == GPU || self.shares { 95 } else { 40 }) {
            let mut memory = json!({ "value": draw.pick(&["80Gi", "40Gi", "10Gi", "24e9", "100G"]) });
            if self.shares && draw.percent(65) {
                memory["requestPolicy"] = memory_policy(draw);
            }
            capacity.insert("memory".to_owned(), memory);
        }
        if draw.percent(35) {
            let mut cores = json!({ "value": draw.pick(&["8", "16", "108"]) });
            if self.shares && draw.percent(40) {
                cores["requestPolicy"] = match draw.below(3) {
                    0 => json!({ "default": "2" }),
                    1 => json!({ "default": "1", "validValues": ["1", "2", "4", "8"] }),
                    _ => json!({ "default": "1", "validRange": { "min": "1", "max": "6" } }),
                };
            }
            capacity.insert("cores".to_owned(), cores);
        }
        capacity
    }
}

fn memory_policy(draw: &mut Draw) -> Value {
    match draw.below(7) {
        0 => json!({ "default": "1Gi" }),
        1 => json!({ "default": "1Gi", "validValues": ["1Gi", "2Gi", "5Gi", "10Gi"] }),
        2 => json!({ "default": "1Gi", "validRange": { "min": "1Gi" } }),
        3 => json!({ "default": "1Gi", "validRange": { "min": "1Gi", "max": "20Gi" } }),
        4 => json!({ "default": "1G", "validRange": { "min": "1G", "step": "1G" } }),
        5 => json!({ "default": "2Gi", "validRange": { "min": "1Gi", "max": "8Gi", "step": "512Mi" } }),
        _ => json!({ "default": "512M", "validRange": { "min": "256M", "step": "256M" } }),
    }
}

fn consumed(draw: &mut Draw) -> Value {
    let mut consumed = vec![json!({
        "counterSet": if draw.percent(97) { "card" } else { "none" },
        "counters": { "memory": { "value": draw.pick(&["5Gi", "10Gi", "20Gi", "40Gi", "1G"]) },
                      "slices": { "value": draw.pick(&["1", "2", "3", "7"]) } },
    })];
    if draw.percent(10) {
        let bus =
            json!({ "counterSet": "bus", "counters": { "lanes": { "value": draw.pick(&["4", "8"]) } } });
        consumed.push(bus);
    }
    if draw.percent(2) {
        consumed[0]["counters"]["unknown"] = json!({ "value": "1" });
    }
    consumed.into()
}

fn taint(draw: &mut Draw) -> Value {
    let mut taint = json!({
        "key": draw.pick(&["example.com/unhealthy", "example.com/soon"]),
        "effect": draw.pick(&["NoSchedule", "NoSchedule", "NoExecute", "None"]),
    });
    if draw.percent(50) {
        taint["value"] = draw.pick(&["x", "y", ""]).into();
    }
    taint
}

/// Returns a changed version of a slice.
pub(super) fn changed(draw: &mut Draw, slice: &Value, nodes: usize) -> Value {
    let mut slice = slice.clone();
    let pool_driver = [GPU, NIC, FPGA].into_iter().find(|name| slice["spec"]["driver"] == *name);
    let reach = if slice["spec"]["perDeviceNodeSelection"].is_null() { Reach::Node } else { Reach::Device };
    let mut pool = pool(draw, reach, 0, nodes);
    pool.driver = pool_driver.unwrap_or(GPU);
    let spec = &mut slice["spec"];
    let Some(devices) = spec["devices"].as_array_mut().filter(|devices| !devices.is_empty()) else {
        spec["pool"]["generation"] = draw.between(1, 4).into();
        return slice;
    };
    let at = draw.below(devices.len());
    let counters = devices[at]["consumesCounters"].clone();
    match draw.below(7) {
        0 => drop(devices.remove(at)),
        1 => devices[at]["taints"] = json!([taint(draw)]),
        2 => drop(devices[at].as_object_mut().map(|device| device.remove("taints"))),
        3 => {
            let number = draw.between(5, 6);
            devices.push(pool.device(draw, number));
        }
        4 => spec["pool"]["generation"] = draw.between(1, 4).into(),
        _ => {
            let number = draw.between(1, 4);
            let name = devices[at]["name"].clone();
            devices[at] = pool.device(draw, number);
            devices[at]["name"] = name;
        }
    }
    let devices = slice["spec"]["devices"].as_array_mut().into_iter().flatten();
    for device in devices {
        // Only a pool with counters has them.
        if counters.is_null() {
            device.as_object_mut().map(|device| device.remove("consumesCounters"));
        }
    }
    slice
}
