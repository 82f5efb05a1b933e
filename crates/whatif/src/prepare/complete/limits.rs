//! LimitRanges: default requests and limits of containers.
//!
//! Minimum and maximum are not enforced. Upstream: `plugin/pkg/admission/limitranger`,
//! `pkg/apis/core/v1/defaults.go#SetDefaults_LimitRangeItem`.

use crate::load::files::text_at;
use crate::prepare::complete::pod::{add_missing, containers};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Default amounts by namespace, in the order of the files.
pub(super) struct LimitRanges(BTreeMap<String, Vec<Defaults>>);

/// Amounts for containers that do not set them.
struct Defaults {
    requests: Map<String, Value>,
    limits: Map<String, Value>,
}

impl LimitRanges {
    pub(super) fn new<'a>(objects: impl Iterator<Item = &'a Value>) -> Self {
        let mut by_namespace: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for object in objects {
            let namespace = text_at(object, "/metadata/namespace").to_owned();
            let limits = object.pointer("/spec/limits").and_then(Value::as_array);
            let mut defaults = Defaults { requests: Map::new(), limits: Map::new() };
            for item in limits.into_iter().flatten().filter(|item| text_at(item, "/type") == "Container") {
                let Defaults { requests, limits } = of_item(item);
                defaults.requests.extend(requests);
                defaults.limits.extend(limits);
            }
            by_namespace.entry(namespace).or_default().push(defaults);
        }
        Self(by_namespace)
    }

    /// Admission plugin LimitRanger.
    pub(super) fn apply(&self, pod: &mut Value) {
        let Some(ranges) = self.0.get(text_at(pod, "/metadata/namespace")) else { return };
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
        for container in containers(spec) {
            let resources = container.entry("resources").or_insert_with(|| Value::Object(Map::new()));
            let Some(resources) = resources.as_object_mut() else { continue };
            for Defaults { requests, limits } in ranges {
                add_missing(resources, "limits", limits);
                add_missing(resources, "requests", requests);
            }
        }
    }
}

/// Returns the default amounts: a limit falls back to the maximum, a request to the limit and then to the minimum.
fn of_item(item: &Value) -> Defaults {
    let of = |field: &str| item.get(field).and_then(Value::as_object).cloned().unwrap_or_default();
    let fill = |amounts: &mut Map<String, Value>, from: &Map<String, Value>| {
        for (name, amount) in from {
            amounts.entry(name).or_insert_with(|| amount.clone());
        }
    };
    let (mut requests, mut limits) = (of("defaultRequest"), of("default"));
    fill(&mut limits, &of("max"));
    fill(&mut requests, &limits);
    fill(&mut requests, &of("min"));
    Defaults { requests, limits }
}
