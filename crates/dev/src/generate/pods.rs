//! Generates pods: running, nominated and pending.

use super::{Mix, NAMESPACES, affinity, amounts, images, lookups, node_name, selectors, spread, taints};
use crate::draw::Draw;
use serde_json::{Value, json};

/// Returns a pod bound to one of the nodes.
pub(super) fn running(draw: &mut Draw, mix: Mix, index: usize, nodes: usize) -> Value {
    let mut pod = pod(draw, mix, &format!("e{index}"));
    pod["spec"]["nodeName"] = node_name(draw, nodes).into();
    pod["status"]["phase"] = draw.weighted(&[(9, "Running"), (1, "Pending"), (1, "Unknown")]).into();
    if draw.percent(mix.leaving) {
        match draw.below(3) {
            0 => pod["status"]["phase"] = draw.pick(&["Succeeded", "Failed"]).into(),
            _ => {
                pod["metadata"]["deletionTimestamp"] = "2024-01-01T00:10:00Z".into();
                pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
            }
        }
    }
    if draw.percent(mix.resources / 2) {
        resize(draw, mix, &mut pod);
    }
    without_fractions(&mut pod);
    pod
}

/// Returns a pod nominated to one of the nodes.
pub(super) fn nominated(draw: &mut Draw, mix: Mix, index: usize, nodes: usize) -> Value {
    let mut pod = pod(draw, mix, &format!("w{index}"));
    pod["status"]["nominatedNodeName"] = node_name(draw, nodes).into();
    pod["spec"]["priority"] = draw.weighted(&[(3, 0), (4, 10), (1, -5)]).into();
    without_fractions(&mut pod);
    pod
}

/// Returns a pod to place.
pub(super) fn incoming(draw: &mut Draw, mix: Mix, index: usize) -> Value {
    let mut pod = pod(draw, mix, &format!("p{index}"));
    if draw.percent(mix.resources / 10) {
        resize(draw, mix, &mut pod);
    }
    without_fractions(&mut pod);
    pod
}

fn pod(draw: &mut Draw, mix: Mix, name: &str) -> Value {
    let namespace = draw.weighted(&[(6, NAMESPACES[0]), (3, NAMESPACES[1]), (2, NAMESPACES[2])]);
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace, "uid": format!("uid-{name}"),
            "creationTimestamp": "2024-01-01T00:00:00Z", "labels": selectors::pod_labels(draw, mix),
        },
        "spec": { "schedulerName": "default-scheduler" },
        "status": {},
    });
    let spec = &mut pod["spec"];
    if draw.percent(50) {
        spec["priority"] = draw.weighted(&[(4, 0), (2, 10), (1, -5)]).into();
    }
    containers(draw, mix, spec);
    if draw.percent(mix.taints) {
        spec["tolerations"] = taints::tolerations(draw, mix);
    }
    if draw.percent(mix.node_affinity) {
        affinity::to_nodes(draw, mix, spec);
    }
    if draw.percent(mix.pod_affinity) {
        affinity::to_pods(draw, mix, spec);
    }
    if draw.percent(mix.spread) {
        spec["topologySpreadConstraints"] = spread::constraints(draw, mix);
    }
    if draw.percent(mix.owners) {
        pod["metadata"]["ownerReferences"] = lookups::owner_references(draw);
    }
    pod
}

fn containers(draw: &mut Draw, mix: Mix, spec: &mut Value) {
    let count = draw.weighted(&[(8, 1), (3, 2), (1, 3)]);
    let count = if draw.percent(mix.odd) { 0 } else { count };
    spec["containers"] = (0..count).map(|index| container(draw, mix, &format!("c{index}"))).collect();
    if draw.percent(mix.resources / 2) {
        let count = draw.between(1, 3);
        let init = (0..count).map(|index| {
            let mut container = container(draw, mix, &format!("i{index}"));
            if draw.percent(50) {
                container["restartPolicy"] = draw.weighted(&[(6, "Always"), (1, "Never")]).into();
            }
            container
        });
        spec["initContainers"] = init.collect();
    }
    if draw.percent(mix.odd) {
        spec["initContainers"] = json!([container(draw, mix, "c0")]);
    }
    if draw.percent(mix.resources / 4) {
        spec["overhead"] = amounts::requests(draw, mix);
    }
    if draw.percent(mix.resources / 4) {
        spec["resources"] = json!({ "requests": amounts::requests(draw, mix) });
    }
    if draw.percent(mix.images / 6) {
        spec["volumes"] = json!([{ "name": "v", "image": { "reference": images::name(draw) } }]);
    }
    if draw.percent(mix.ports / 4 + mix.features) {
        spec["hostNetwork"] = true.into();
        if draw.percent(mix.features * 5) {
            spec["hostUsers"] = draw.percent(20).into();
        }
    }
}

fn container(draw: &mut Draw, mix: Mix, name: &str) -> Value {
    let image = if draw.percent(mix.images) { images::name(draw) } else { "other:v1" };
    let mut container = json!({ "name": name, "image": image });
    if draw.percent(75) {
        container["resources"] = json!({ "requests": amounts::requests(draw, mix) });
    } else if draw.percent(30) {
        container["resources"] = json!({ "limits": amounts::requests(draw, mix) });
    }
    if draw.percent(mix.features) {
        let action = draw.pick(&["RestartAllContainers", "Restart"]);
        container["restartPolicyRules"] =
            json!([{ "action": action, "exitCodes": { "operator": "In", "values": [1] } }]);
    }
    if draw.percent(mix.ports) {
        let count = draw.between(1, 2);
        container["ports"] = draw.list(count, port).into();
    }
    container
}

fn port(draw: &mut Draw) -> Value {
    let mut port = json!({ "containerPort": 80 });
    if draw.percent(90) {
        port["hostPort"] = draw.weighted(&[(1, 0), (5, 80), (5, 443), (2, 8080)]).into();
    }
    if draw.percent(60) {
        port["hostIP"] = draw.pick(&["", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::", "::1"]).into();
    }
    if draw.percent(60) {
        port["protocol"] = draw.pick(&["TCP", "TCP", "UDP", "SCTP", ""]).into();
    }
    port
}

/// Gives the pod a status that affects its requests.
fn resize(draw: &mut Draw, mix: Mix, pod: &mut Value) {
    let mut status_of = |list: &str| -> Value {
        let names = pod["spec"][list].as_array().into_iter().flatten();
        let names = names.filter_map(|container| container["name"].as_str().map(str::to_owned));
        let names: Vec<String> = names.collect();
        let reported = names.iter().filter(|_| draw.percent(85)).cloned().collect::<Vec<_>>();
        reported.iter().map(|name| amounts::container_status(draw, mix, name)).collect()
    };
    let (containers, init) = (status_of("containers"), status_of("initContainers"));
    let status = &mut pod["status"];
    status["containerStatuses"] = containers;
    status["initContainerStatuses"] = init;
    status["conditions"] = amounts::resize_conditions(draw);
    if draw.percent(40) {
        status["resources"] = json!({ "requests": amounts::requests(draw, mix) });
    }
    if draw.percent(40) {
        status["allocatedResources"] = amounts::requests(draw, mix);
    }
}

/// Removes binary fractions from pod-level requests of pods with overhead. Upstream adds the overhead to such an
/// amount each time it sums up the pod (`FIDELITY.md`). No API server stores one.
fn without_fractions(pod: &mut Value) {
    if pod["spec"]["overhead"].is_null() {
        return;
    }
    for list in ["/spec/resources/requests", "/status/resources/requests", "/status/allocatedResources"] {
        for amount in
            pod.pointer_mut(list).and_then(Value::as_object_mut).into_iter().flat_map(|a| a.values_mut())
        {
            if *amount == "1.5Gi" {
                *amount = "1536Mi".into();
            }
        }
    }
}
