//! Tests of conversion and of the errors for invalid objects.

mod devices;
mod groups;
mod pods;
mod requests;
mod selectors;
mod volumes;

use crate::api::{Malformed, Pod};
use serde_json::Value;
use supercargo_core::model::intern::Tables;
use supercargo_core::model::pod::PodInfo;

fn convert(tables: &mut Tables, pod: &Value) -> Result<PodInfo, Malformed> {
    let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
    super::pod(tables, &pod)
}

/// Converts a pod named `ns/p` with this spec.
fn with_spec(tables: &mut Tables, spec: &Value) -> PodInfo {
    let pod = serde_json::json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec});
    convert(tables, &pod).unwrap()
}
