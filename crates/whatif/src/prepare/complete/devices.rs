//! Defaults of ResourceClaims (upstream `pkg/apis/resource/v1/defaults.go`).

use crate::load::files::text_at;
use crate::prepare::complete::is_absent;
use serde_json::Value;

/// Sets the defaults of all requests of a claim.
pub(super) fn default_requests(claim: &mut Value) {
    let requests = claim.pointer_mut("/spec/devices/requests").and_then(Value::as_array_mut);
    for request in requests.into_iter().flatten() {
        if let Some(exactly) = request.get_mut("exactly") {
            default_request(exactly);
        }
        let alternatives = request.get_mut("firstAvailable").and_then(Value::as_array_mut);
        alternatives.into_iter().flatten().for_each(default_request);
    }
}

fn default_request(request: &mut Value) {
    let Some(fields) = request.as_object_mut() else { return };
    let mode = fields.entry("allocationMode").or_insert(Value::Null);
    if mode.is_null() || mode == "" {
        *mode = "ExactCount".into();
    }
    let has_count = fields.get("count").is_some_and(|count| !count.is_null() && count != 0);
    if !has_count && fields["allocationMode"] == "ExactCount" {
        fields.insert("count".to_owned(), 1.into());
    }
    let tolerations = request.get_mut("tolerations").and_then(Value::as_array_mut);
    for toleration in tolerations.into_iter().flatten() {
        if is_absent(toleration, "/operator") || text_at(toleration, "/operator").is_empty() {
            toleration["operator"] = "Equal".into();
        }
    }
}
