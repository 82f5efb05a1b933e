//! Classes that pods and claims refer to, and the fields that admission copies from them: PriorityClass,
//! RuntimeClass, StorageClass.

use crate::load::files::{Wrong, text_at};
use crate::prepare::complete::is_absent;
use crate::prepare::identity::{fields_at, set};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The built-in PriorityClasses (upstream `pkg/apis/scheduling/v1/helpers.go`).
const SYSTEM: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// PriorityClasses by name, with value and optional preemption policy.
pub(super) struct Priorities {
    classes: BTreeMap<String, (Value, Option<String>)>,
    default: Option<String>,
}

impl Priorities {
    pub(super) fn new<'a>(objects: impl Iterator<Item = &'a Value>) -> Self {
        let system = SYSTEM.map(|(name, value)| (name.to_owned(), (value.into(), None)));
        let mut classes = BTreeMap::from(system);
        let mut default: Option<(i64, String)> = None;
        for object in objects {
            let name = text_at(object, "/metadata/name").to_owned();
            let value = object.get("value").cloned().unwrap_or_else(|| 0.into());
            let policy = object.get("preemptionPolicy").and_then(Value::as_str).map(str::to_owned);
            // Upstream uses the lowest of several default classes.
            let of_default = (value.as_i64().unwrap_or(0), name.clone());
            if object.get("globalDefault") == Some(&Value::Bool(true))
                && default.as_ref().is_none_or(|lowest| of_default.0 < lowest.0)
            {
                default = Some(of_default);
            }
            classes.insert(name, (value, policy));
        }
        Self { classes, default: default.map(|(_, name)| name) }
    }

    /// Admission plugin Priority. An explicit `spec.priority` stays.
    pub(super) fn apply(&self, pod: &mut Value) -> Result<(), Wrong> {
        if pod.get("spec").is_none_or(|spec| !spec.is_object()) {
            return Ok(());
        }
        let given = text_at(pod, "/spec/priorityClassName");
        let name = if given.is_empty() { self.default.as_deref().unwrap_or_default() } else { given };
        let class = self.classes.get(name);
        let is_known = class.is_some() || !is_absent(pod, "/spec/priority");
        if !name.is_empty() && !is_known {
            let message = format!(
                "PriorityClass {name:?} is in no file; add it to --cluster or set spec.priority of the pod"
            );
            return Err(Wrong::new("spec.priorityClassName", message));
        }
        let (priority, policy) = class.cloned().unwrap_or_else(|| (0.into(), None));
        if is_absent(pod, "/spec/priority") {
            set(pod, &["spec", "priority"], priority);
        }
        if let Some(policy) = policy.filter(|_| is_absent(pod, "/spec/preemptionPolicy")) {
            set(pod, &["spec", "preemptionPolicy"], policy.into());
        }
        Ok(())
    }
}

/// RuntimeClasses by name.
pub(super) struct RuntimeClasses(BTreeMap<String, Value>);

impl RuntimeClasses {
    pub(super) fn new<'a>(objects: impl Iterator<Item = &'a Value>) -> Self {
        Self(objects.map(|object| (text_at(object, "/metadata/name").to_owned(), object.clone())).collect())
    }

    /// Admission plugin RuntimeClass: adds overhead, node selector and tolerations of the class.
    pub(super) fn apply(&self, pod: &mut Value) -> Result<(), Wrong> {
        let name = text_at(pod, "/spec/runtimeClassName").to_owned();
        if name.is_empty() {
            return Ok(());
        }
        let Some(class) = self.0.get(&name) else {
            // An admitted pod already has the fields of its class.
            let was_admitted =
                !text_at(pod, "/spec/nodeName").is_empty() || !is_absent(pod, "/spec/overhead");
            let message = format!("RuntimeClass {name:?} is in no file; add it to --cluster");
            return if was_admitted { Ok(()) } else { Err(Wrong::new("spec.runtimeClassName", message)) };
        };
        if let Some(overhead) =
            class.pointer("/overhead/podFixed").filter(|_| is_absent(pod, "/spec/overhead"))
        {
            set(pod, &["spec", "overhead"], overhead.clone());
        }
        if let Some(wanted) = class.pointer("/scheduling/nodeSelector").and_then(Value::as_object) {
            merge_node_selector(pod, &name, wanted)?;
        }
        let tolerations = class.pointer("/scheduling/tolerations").and_then(Value::as_array);
        if let (Some(more), Some(spec)) = (tolerations, fields_at(pod, &["spec"])) {
            let own = spec.entry("tolerations").or_insert_with(|| Value::Array(Vec::new()));
            if let Some(own) = own.as_array_mut() {
                let missing: Vec<Value> = more.iter().filter(|it| !own.contains(it)).cloned().collect();
                own.extend(missing);
            }
        }
        Ok(())
    }
}

fn merge_node_selector(pod: &mut Value, class: &str, wanted: &Map<String, Value>) -> Result<(), Wrong> {
    let Some(own) = fields_at(pod, &["spec", "nodeSelector"]) else { return Ok(()) };
    for (key, value) in wanted {
        let so_far = own.entry(key).or_insert_with(|| value.clone());
        if so_far != value {
            let message = format!("conflicts with RuntimeClass {class:?}, which requires {key}: {value}");
            return Err(Wrong::new(format!("spec.nodeSelector[{key}]"), message));
        }
    }
    Ok(())
}

/// Returns the default StorageClass: the newest of those marked as default, then the first by name
/// (upstream `pkg/volume/util/storageclass.go#GetDefaultClass`).
pub(super) fn default_storage_class<'a>(objects: impl Iterator<Item = &'a Value>) -> Option<String> {
    let marked = objects.filter(|object| {
        let annotation = |name: &str| object.pointer(&format!("/metadata/annotations/{name}"));
        let marks = [
            "storageclass.kubernetes.io~1is-default-class",
            "storageclass.beta.kubernetes.io~1is-default-class",
        ];
        marks.into_iter().any(|mark| annotation(mark).is_some_and(|value| value == "true"))
    });
    let mut named: Vec<(&str, &str)> = marked
        .map(|object| (text_at(object, "/metadata/creationTimestamp"), text_at(object, "/metadata/name")))
        .collect();
    named.sort_by(|(created_a, name_a), (created_b, name_b)| {
        created_b.cmp(created_a).then(name_a.cmp(name_b))
    });
    named.first().map(|(_, name)| (*name).to_owned())
}
