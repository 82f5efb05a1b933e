//! Devices: what simulations show of ResourceSlices that are at odds.

use crate::support::{Files, list, node, pod};
use serde_json::{Value, json};

pub(crate) fn slice(name: &str, device: &str, of: i64) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": name, "uid": name },
        "spec": {
            "driver": "gpu.example.com", "nodeName": "a",
            "pool": { "name": "p", "generation": 1, "resourceSliceCount": of },
            "devices": [{ "name": device }],
        },
    })
}

/// Returns the message of a pod that claims a device of these slices; `None` if it is placed.
fn message(slices: [Value; 2]) -> Option<String> {
    let class = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": "gpu", "uid": "gpu" } });
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": { "name": "c", "namespace": "default", "uid": "c" },
        "spec": { "devices": { "requests": [{ "name": "r", "exactly": { "deviceClassName": "gpu" } }] } },
    });
    let [first, second] = slices;
    let cluster = list(&[node("a", 1), class, claim, first, second]);
    let claims = json!({ "resourceClaims": [{ "name": "c", "resourceClaimName": "c" }] });
    let ran = Files::with(&cluster, &list(&[pod("p", 1, &claims)])).simulate(&["-o", "json"]);
    ran.decisions()[0]["message"].as_str().map(str::to_owned)
}

/// The pool is complete if the first slice by name says that there are two.
#[test]
fn slices_that_disagree_are_read_by_name() {
    let complete = || [slice("s1", "d1", 2), slice("s2", "d2", 3)];
    let incomplete = || [slice("s1", "d1", 3), slice("s2", "d2", 2)];
    let reversed = |[first, second]: [Value; 2]| [second, first];
    for slices in [complete(), reversed(complete())] {
        assert_eq!(message(slices), None);
    }
    for slices in [incomplete(), reversed(incomplete())] {
        let text = message(slices).expect("an incomplete pool offers no device");
        assert!(text.contains("cannot allocate all claims"), "{text}");
    }
}
