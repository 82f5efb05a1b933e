//! Generates nodes.

use super::{HOST, Mix, REGION, Size, ZONE, amounts, images, taints};
use crate::draw::Draw;
use serde_json::{Map, Value, json};

/// Returns the node with this index.
pub(super) fn node(draw: &mut Draw, mix: Mix, index: usize, size: Size) -> Value {
    let name = format!("n{index}");
    // Many racks are all used, each by about the same number of nodes.
    let rack = if size.racks > 3 {
        Some(format!("k{}", index % size.racks))
    } else {
        draw.percent(60)
            .then(|| format!("k{}", draw.below(size.racks + 1)))
            .map(|rack| rack.replace("k0", ""))
    };
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "uid": format!("uid-{name}"), "labels": labels(draw, &name, rack.as_deref()) },
        "spec": {},
        "status": { "allocatable": amounts::allocatable(draw, mix, size.contest) },
    });
    if draw.percent(mix.taints) {
        node["spec"]["taints"] = taints::taints(draw, mix);
    }
    if draw.percent(mix.taints / 10 + 1) {
        node["spec"]["unschedulable"] = true.into();
    }
    if draw.percent(mix.features * 3) {
        let features =
            &["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "Unknown"];
        let count = draw.between(0, 2);
        let mut declared = draw.list(count, |draw| draw.pick(features));
        if draw.percent(85) {
            declared.sort_unstable();
        }
        node["status"]["declaredFeatures"] = declared.into();
    }
    if draw.percent(mix.images) {
        node["status"]["images"] = images::listed(draw);
    }
    node
}

fn labels(draw: &mut Draw, name: &str, rack: Option<&str>) -> Value {
    let mut labels = Map::new();
    let mut set = |key: &str, value: &str| drop(labels.insert(key.to_owned(), value.into()));
    match draw.below(20) {
        0 => {}
        1 => set(HOST, "shared"),
        _ => set(HOST, name),
    }
    match draw.below(20) {
        0 | 1 => {}
        2 => set(ZONE, ""),
        _ => set(ZONE, draw.pick(&["z1", "z2", "z3"])),
    }
    if draw.percent(80) {
        set(REGION, draw.pick(&["r1", "r2"]));
    }
    if draw.percent(5) {
        set("failure-domain.beta.kubernetes.io/zone", draw.pick(&["z1", "z2"]));
    }
    // Labels set by CSI drivers.
    if draw.percent(20) {
        for driver in ["ebs.csi.aws.com", "gke.io", "cinder.csi.openstack.org"] {
            set(&format!("topology.{driver}/zone"), draw.pick(&["z1", "z2", "l-r-a"]));
        }
    }
    if draw.percent(70) {
        set("disk", draw.pick(&["ssd", "hdd", "nvme"]));
    }
    if let Some(rack) = rack {
        set("rack", rack);
    }
    if draw.percent(60) {
        let numbers = &[
            "0",
            "1",
            "2",
            "05",
            "-3",
            "10",
            "x",
            "",
            "9223372036854775807",
            "9223372036854775808",
            "+1",
            "1.0",
        ];
        set("gen", draw.pick(numbers));
    }
    labels.into()
}
