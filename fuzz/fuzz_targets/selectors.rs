//! Node selectors, affinity terms and spread constraints: a pod whose `spec` is the input.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use supercargo_core::model::intern::Tables;
use supercargo_objects::api::Object;
use supercargo_objects::convert::Watched;
use supercargo_objects::of_any_kind;

fuzz_target!(|data: &[u8]| {
    let Ok(part) = serde_json::from_slice::<Value>(data) else { return };
    let spec = json!({
        "containers": [{"name": "c", "image": "i"}],
        "nodeSelector": part["labels"],
        "affinity": part["affinity"],
        "topologySpreadConstraints": part["spread"],
        "tolerations": part["tolerations"],
    });
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": part["labels"]}, "spec": spec});
    let Ok(object) = Object::from_value(pod) else { return };
    let mut tables = Tables::new();
    of_any_kind!(&object, it => drop(it.applied(&mut tables)));
});
