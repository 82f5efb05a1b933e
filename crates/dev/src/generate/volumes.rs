//! Generates storage: classes, volumes, claims, drivers and pod volumes.
//!
//! Upstream takes the first of the smallest fitting volumes in an undefined order. So no two volumes have the same
//! size or are reserved for the same claim.

use super::{HOST, Mix, ZONE, in_tree};
use crate::draw::Draw;
use serde_json::{Value, json};

const CLASSES: &[&str] = &["late", "local", "now", "zoned", "ebs"];
const CLAIMS: &[&str] = &["c0", "c1", "c2", "c3", "c4", "c5"];
const VOLUMES: &[&str] = &["v0", "v1", "v2", "v3", "v4", "v5"];
const CSI: &str = "csi.example.com";
const STORAGE: &str = "storage.k8s.io/v1";

/// Returns all storage objects.
pub(super) fn objects(draw: &mut Draw, mix: Mix, nodes: usize) -> Vec<Value> {
    let mut objects = classes(draw, mix);
    for name in [CSI, "ebs.csi.aws.com"] {
        if draw.percent(60) {
            let spec =
                if draw.percent(80) { json!({ "storageCapacity": draw.percent(75) }) } else { json!({}) };
            objects.push(json!({ "apiVersion": STORAGE, "kind": "CSIDriver", "metadata": { "name": name }, "spec": spec }));
        }
    }
    for index in 0..draw.below(4) {
        objects.push(capacity(draw, index));
    }
    for index in 0..nodes {
        if draw.percent(70) {
            objects.push(csi_node(draw, index));
        }
    }
    // Each volume gets its own size and a claim that it may be reserved for, in random order.
    let mut sizes = vec![1, 2, 3, 5, 8, 10];
    let mut claims = CLAIMS.to_vec();
    for name in VOLUMES {
        let size = sizes.remove(draw.below(sizes.len()));
        let claim = claims.remove(draw.below(claims.len()));
        if draw.percent(80) {
            objects.push(volume(draw, mix, name, size, claim));
        }
    }
    for name in CLAIMS {
        if draw.percent(90) {
            objects.push(claim(draw, mix, name, None));
        }
    }
    for index in 0..draw.below(3) {
        objects.push(attachment(draw, index, nodes));
    }
    objects
}

fn classes(draw: &mut Draw, mix: Mix) -> Vec<Value> {
    let mut objects = Vec::new();
    for name in CLASSES {
        if draw.percent(6) {
            continue;
        }
        let provisioner = match *name {
            "local" => "kubernetes.io/no-provisioner",
            "ebs" => in_tree::plugin(draw),
            _ => CSI,
        };
        let mode = if *name == "now" { "Immediate" } else { "WaitForFirstConsumer" };
        let mut class = json!({
            "apiVersion": STORAGE, "kind": "StorageClass", "metadata": { "name": name },
            "provisioner": provisioner, "volumeBindingMode": mode,
        });
        if *name == "zoned" || draw.percent(8) {
            let count = draw.weighted(&[(1, 0), (5, 1), (2, 2)]);
            class["allowedTopologies"] = draw.list(count, topology_term).into();
        }
        if draw.percent(mix.odd) {
            drop(class.as_object_mut().map(|fields| fields.remove("volumeBindingMode")));
        }
        if draw.percent(mix.odd) {
            class["provisioner"] = "".into();
        }
        objects.push(class);
    }
    objects
}

fn topology_term(draw: &mut Draw) -> Value {
    let count = draw.weighted(&[(1, 0), (8, 1), (2, 2)]);
    let expressions = draw.list(count, |draw| {
        let values = draw.between(1, 2);
        let key = draw.weighted(&[(5, ZONE), (1, "rack")]);
        json!({ "key": key, "values": draw.list(values, |draw| draw.pick(&["z1", "z2", "k1"])) })
    });
    json!({ "matchLabelExpressions": expressions })
}

fn capacity(draw: &mut Draw, index: usize) -> Value {
    let mut capacity = json!({
        "apiVersion": STORAGE, "kind": "CSIStorageCapacity",
        "metadata": { "name": format!("k{index}"), "namespace": "default" },
        "storageClassName": draw.pick(&["late", "zoned", "ebs"]),
    });
    if draw.percent(90) {
        capacity["capacity"] = draw.pick(&["1Gi", "5Gi", "100Gi", "0"]).into();
    }
    if draw.percent(25) {
        capacity["maximumVolumeSize"] = draw.pick(&["1Gi", "2Gi", "100Gi"]).into();
    }
    if draw.percent(85) {
        let zone = draw.pick(&["z1", "z2", "z3"]);
        capacity["nodeTopology"] =
            if draw.percent(20) { json!({}) } else { json!({ "matchLabels": { ZONE: zone } }) };
        if draw.percent(4) {
            capacity["nodeTopology"]["matchExpressions"] = json!([{ "key": ZONE, "operator": "Near" }]);
        }
    }
    capacity
}

fn csi_node(draw: &mut Draw, index: usize) -> Value {
    let name = format!("n{index}");
    let mut drivers = Vec::new();
    for driver in [CSI, in_tree::driver(draw)] {
        if draw.percent(75) {
            let mut entry = json!({ "name": driver, "nodeID": name, "topologyKeys": [] });
            if draw.percent(75) {
                let count = draw.weighted(&[(1, 0), (3, 1), (3, 2), (2, 3), (2, 30)]);
                entry["allocatable"] = if draw.percent(95) { json!({ "count": count }) } else { json!({}) };
            }
            drivers.push(entry);
        }
    }
    let mut node = json!({
        "apiVersion": STORAGE, "kind": "CSINode", "metadata": { "name": name }, "spec": { "drivers": drivers },
    });
    if draw.percent(40) {
        let count = draw.below(4);
        let plugins = draw.list(count, in_tree::plugin).join(",");
        node["metadata"]["annotations"] = json!({ "storage.alpha.kubernetes.io/migrated-plugins": plugins });
    }
    node
}

fn volume(draw: &mut Draw, mix: Mix, name: &str, size: usize, claim: &str) -> Value {
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": { "name": name, "uid": format!("uid-{name}") },
        "spec": {
            "capacity": { "storage": format!("{size}Gi") },
            "accessModes": access_modes(draw),
            "storageClassName": draw.weighted(&[(4, "local"), (3, "late"), (2, "ebs"), (1, "now"), (1, "")]),
        },
        "status": { "phase": draw.weighted(&[(8, "Available"), (1, "Bound"), (1, "Released"), (1, "")]) },
    });
    let spec = &mut volume["spec"];
    match draw.below(6) {
        0..3 => spec["csi"] = json!({ "driver": CSI, "volumeHandle": name }),
        3 | 4 => in_tree::source(draw, name, spec),
        _ => spec["local"] = json!({ "path": "/mnt" }),
    }
    if draw.percent(45) {
        spec["nodeAffinity"] = json!({ "required": { "nodeSelectorTerms": [affinity_term(draw, mix)] } });
    }
    if draw.percent(12) {
        spec["volumeMode"] = draw.pick(&["Block", "Filesystem"]).into();
    }
    if draw.percent(6) {
        spec["volumeAttributesClassName"] = draw.pick(&["gold", ""]).into();
    }
    if draw.percent(35) {
        spec["claimRef"] = json!({ "namespace": "default", "name": claim });
        if draw.percent(60) {
            let uid =
                if draw.percent(85) { format!("uid-claim-{claim}") } else { "uid-of-another".to_owned() };
            spec["claimRef"]["uid"] = uid.into();
        }
    }
    mark_volume(draw, &mut volume["metadata"]);
    volume
}

/// Adds zone labels and annotations to a volume.
fn mark_volume(draw: &mut Draw, metadata: &mut Value) {
    if draw.percent(25) {
        let key = draw.weighted(&[
            (4, ZONE),
            (2, "failure-domain.beta.kubernetes.io/zone"),
            (2, "topology.kubernetes.io/region"),
            (1, "failure-domain.beta.kubernetes.io/region"),
        ]);
        metadata["labels"] = json!({ key: in_tree::zones(draw) });
    }
    if draw.percent(20) {
        metadata["labels"]["kind"] = draw.pick(&["fast", "slow"]).into();
    }
    if draw.percent(3) {
        metadata["deletionTimestamp"] = "2024-01-01T00:10:00Z".into();
    }
    if draw.percent(3) {
        metadata["annotations"] = json!({ "volume.beta.kubernetes.io/storage-class": draw.pick(CLASSES) });
    }
}

fn affinity_term(draw: &mut Draw, mix: Mix) -> Value {
    if draw.percent(10) {
        return super::affinity::node_term(draw, mix, 30);
    }
    let (key, values) =
        draw.weighted(&[(4, (HOST, ["n0", "n1"])), (4, (ZONE, ["z1", "z2"])), (1, (ZONE, ["z3", "z1"]))]);
    json!({ "matchExpressions": [{ "key": key, "operator": "In", "values": values }] })
}

fn access_modes(draw: &mut Draw) -> Value {
    match draw.below(8) {
        0..4 => json!(["ReadWriteOnce"]),
        4 => json!(["ReadWriteOnce", "ReadOnlyMany"]),
        5 => json!(["ReadWriteOncePod"]),
        6 => json!(["ReadWriteOnce", "ReadWriteOncePod"]),
        _ => json!(["ReadWriteMany"]),
    }
}

/// Returns a claim; with an owner, that of a pod's ephemeral volume.
fn claim(draw: &mut Draw, mix: Mix, name: &str, owner: Option<&str>) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": name, "namespace": "default", "uid": format!("uid-claim-{name}"), "annotations": {} },
        "spec": { "accessModes": access_modes(draw) },
        "status": { "phase": "Pending" },
    });
    if draw.percent(95) {
        let class = draw.weighted(&[
            (5, "late"),
            (5, "local"),
            (3, "zoned"),
            (2, "ebs"),
            (1, "now"),
            (1, "gone"),
            (1, ""),
        ]);
        claim["spec"]["storageClassName"] = class.into();
    }
    if draw.percent(95) {
        let size = draw.pick(&["1Gi", "2Gi", "4Gi", "6Gi", "500Mi", "0"]);
        claim["spec"]["resources"] = json!({ "requests": { "storage": size } });
    }
    if draw.percent(45) {
        claim["spec"]["volumeName"] =
            if draw.percent(93) { draw.pick(VOLUMES).into() } else { "gone".into() };
        if draw.percent(85) {
            claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes".into();
            claim["status"]["phase"] = draw.weighted(&[(20, "Bound"), (1, "Lost")]).into();
        }
    } else if draw.percent(12) {
        let node = draw.pick(&["n0", "n1", "n2"]);
        claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = node.into();
    }
    vary_claim(draw, mix, &mut claim);
    if let Some(pod) = owner {
        let uid = if draw.percent(90) { format!("uid-{pod}") } else { "uid-of-another".to_owned() };
        let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": true });
        claim["metadata"]["ownerReferences"] = json!([owner]);
    }
    claim
}

fn vary_claim(draw: &mut Draw, mix: Mix, claim: &mut Value) {
    if draw.percent(8) {
        claim["spec"]["volumeMode"] = draw.pick(&["Block", "Filesystem"]).into();
    }
    if draw.percent(8) {
        claim["spec"]["selector"] = json!({ "matchLabels": { "kind": draw.pick(&["fast", "slow"]) } });
    }
    if draw.percent(mix.odd) {
        let operator = draw.pick(&["Near", "NotIn", "Exists"]);
        claim["spec"]["selector"] = json!({ "matchExpressions": [{ "key": "kind", "operator": operator }] });
    }
    if draw.percent(4) {
        claim["spec"]["volumeAttributesClassName"] = draw.pick(&["gold", ""]).into();
    }
    if draw.percent(2 + mix.odd) {
        claim["metadata"]["deletionTimestamp"] = "2024-01-01T00:10:00Z".into();
    }
    if draw.percent(3) {
        claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"] =
            draw.pick(CLASSES).into();
    }
}

fn attachment(draw: &mut Draw, index: usize, nodes: usize) -> Value {
    json!({
        "apiVersion": STORAGE, "kind": "VolumeAttachment", "metadata": { "name": format!("a{index}") },
        "spec": {
            "attacher": draw.weighted(&[(5, CSI), (1, "ebs.csi.aws.com"), (1, "")]),
            "nodeName": super::node_name(draw, nodes),
            "source": { "persistentVolumeName": draw.pick(VOLUMES) },
        },
        "status": { "attached": draw.percent(80) },
    })
}

/// Adds volumes to a pod, and returns the claims of its ephemeral volumes.
pub(super) fn mount(draw: &mut Draw, mix: Mix, pod: &mut Value) -> Vec<Value> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let count = draw.weighted(&[(6, 1), (3, 2), (1, 3)]);
    let mut claims = Vec::new();
    let mut index = 0;
    // All claims are in this namespace; elsewhere they are missing.
    if draw.percent(93) {
        pod["metadata"]["namespace"] = "default".into();
    }
    pod["spec"]["volumes"] = draw
        .list(count, |draw| {
            index += 1;
            let mut volume = json!({ "name": format!("m{index}") });
            match draw.below(20) {
                0..13 => {
                    let claim =
                        draw.weighted(&[(3, "c0"), (3, "c1"), (3, "c2"), (2, "c3"), (2, "c4"), (1, "c5")]);
                    volume["persistentVolumeClaim"] = json!({ "claimName": claim });
                }
                13 | 14 => {
                    volume["ephemeral"] =
                        json!({ "volumeClaimTemplate": { "spec": { "accessModes": ["ReadWriteOnce"] } } });
                    if draw.percent(85) {
                        claims.push(claim(draw, mix, &format!("{name}-m{index}"), Some(&name)));
                    }
                }
                15 => volume["emptyDir"] = json!({}),
                _ => disk(draw, &mut volume),
            }
            volume
        })
        .into();
    claims
}

/// Adds a disk source to a pod's volume.
fn disk(draw: &mut Draw, volume: &mut Value) {
    let read_only = draw.percent(40);
    match draw.below(5) {
        0 => {
            volume["gcePersistentDisk"] =
                json!({ "pdName": draw.pick(&["d0", "d1"]), "readOnly": read_only });
        }
        1 => {
            volume["awsElasticBlockStore"] =
                json!({ "volumeID": draw.pick(&["d0", "d1"]), "readOnly": read_only });
        }
        2 => {
            let portal = draw.pick(&["10.0.0.1", "10.0.0.2"]);
            volume["iscsi"] = json!({ "targetPortal": portal, "iqn": draw.pick(&["q0", "q1"]), "lun": draw.below(2), "readOnly": read_only });
        }
        3 => {
            let monitors = draw.list(2, |draw| draw.pick(&["m0", "m1", "m2"]));
            volume["rbd"] =
                json!({ "monitors": monitors, "image": draw.pick(&["i0", "i1"]), "readOnly": read_only });
            if draw.percent(60) {
                volume["rbd"]["pool"] = draw.pick(&["rbd", "other"]).into();
            }
        }
        _ => {
            let name = draw.pick(&["d0", "d1", "d2"]);
            in_tree::source(draw, name, volume);
        }
    }
}
