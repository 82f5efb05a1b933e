//! Claims, volumes and attachable limits; the n-th claim is for the n-th pod.

use super::Size;
use super::objects::node_name;
use serde_json::{Value, json};

const DRIVER: &str = "ebs.csi.aws.com";
const LATE: &str = "late";

fn claim_name(number: usize) -> String {
    format!("claim-{number:07}")
}

/// Returns `spec.volumes` of a pod.
pub(super) fn of_pod(number: usize) -> Value {
    json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim_name(number)}}])
}

/// Returns a volume and the claim bound to it.
fn pair(claim: &str, class: &str) -> [Value; 2] {
    let (volume_name, modes) = (format!("volume-of-{claim}"), json!(["ReadWriteOnce"]));
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": volume_name, "uid": volume_name, "resourceVersion": "2"},
        "spec": {
            "accessModes": modes, "capacity": {"storage": "1Gi"}, "storageClassName": class,
            "csi": {"driver": DRIVER, "volumeHandle": volume_name},
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "load", "name": claim, "uid": claim},
        },
        "status": {"phase": "Bound"},
    });
    let mut bound = open(claim, class);
    bound["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    bound["metadata"]["resourceVersion"] = "2".into();
    bound["spec"]["volumeName"] = volume_name.into();
    bound["status"] = json!({"phase": "Bound"});
    [volume, bound]
}

fn open(claim: &str, class: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim, "namespace": "load", "uid": claim, "resourceVersion": "1"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": class,
        },
        "status": {"phase": "Pending"},
    })
}

/// Returns the claim of this name after provisioning, with its volume.
pub(crate) fn provisioned(claim: &str) -> [Value; 2] {
    pair(claim, LATE)
}

fn attachable(size: &Size) -> impl Iterator<Item = Value> {
    (0..size.nodes).map(|number| {
        let name = node_name(number);
        let driver =
            json!({"name": DRIVER, "nodeID": name, "topologyKeys": [], "allocatable": {"count": 39}});
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name},
            "spec": {"drivers": [driver]},
        })
    })
}

/// Returns a bound claim for every pod.
pub(super) fn bound(size: &Size) -> Vec<Value> {
    let claims = (0..size.existing + size.pods).flat_map(|number| pair(&claim_name(number), ""));
    attachable(size).chain(claims).collect()
}

/// Returns a claim for every pod whose volume is provisioned after the decision.
pub(super) fn unbound(size: &Size) -> Vec<Value> {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": LATE},
        "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer",
    });
    let claims = (0..size.existing + size.pods).map(|number| open(&claim_name(number), LATE));
    attachable(size).chain([class]).chain(claims).collect()
}
