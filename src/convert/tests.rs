//! What objects become, and what is said of those that cannot be judged.

mod pods;
mod requests;
mod selectors;
mod volumes;

use crate::api::{Malformed, Pod};
use serde_json::Value;
use supercargo_core::intern::Tables;
use supercargo_core::pod::PodInfo;

fn convert(tables: &mut Tables, pod: &Value) -> Result<PodInfo, Malformed> {
    let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
    super::pod(tables, &pod)
}

/// A pod named `ns/p` with this spec.
fn with_spec(tables: &mut Tables, spec: &Value) -> PodInfo {
    let pod = serde_json::json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec});
    convert(tables, &pod).unwrap()
}
