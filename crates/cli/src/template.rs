//! The objects of the files beside the cluster: manifests to apply, or one pod to copy with what it needs.
//!
//! Copies nothing itself, and does not add the objects to the cluster.

use serde_json::{Map, Value, json};
use supercargo_whatif::load::files::{Files, InputError, Item, Wrong};
use supercargo_whatif::prepare::expand::is_workload;
use supercargo_whatif::prepare::identity::is_namespaced;
use supercargo_whatif::prepare::inventory::Given;

/// Returns the objects with those that `existing` finds for them in the cluster. If they are templates, their one pod
/// or workload asks for one pod.
///
/// # Errors
/// Fails if there are several pods or workloads to copy, or the workload is a DaemonSet.
pub(crate) fn given(
    (files, notices): (&Files, &mut Vec<String>),
    items: Vec<Item>,
    are_templates: bool,
    existing: impl FnOnce(&[Item]) -> Vec<Item>,
) -> Result<Given, InputError> {
    let mut items = items;
    let existing = existing(&items);
    if are_templates {
        items = items.into_iter().map(Item::unpacked).collect();
        ask_for_one_pod(files, &mut items)?;
        notices.extend(items.iter().filter_map(|item| unused(files, item, &existing)));
    }
    Ok(Given { items, are_templates, existing })
}

fn is_copied(item: &Item) -> bool {
    is_workload(item) || (item.text("/apiVersion"), item.kind()) == ("v1", "Pod")
}

/// Makes the workload ask for one pod, whatever number it has now: a paused, suspended or empty one has none to copy.
fn ask_for_one_pod(files: &Files, items: &mut [Item]) -> Result<(), InputError> {
    let mut copied = items.iter_mut().filter(|item| is_copied(item));
    let Some(item) = copied.next() else { return Ok(()) };
    if item.kind() == "DaemonSet" {
        let message = format!(
            "DaemonSet {} has one pod per node, so there is no number of copies; use `supercargo simulate --pods` to place its pods",
            item.name()
        );
        return Err(files.error(item.origin, &Wrong::new("", message)));
    }
    if let Some(second) = copied.next() {
        let names = [&*item, &*second].map(|item| format!("{} {}", item.kind(), item.name()));
        let [first, other] = names;
        let message = format!("{other} follows {first}, but only one is copied; give one pod or workload");
        return Err(files.error(second.origin, &Wrong::new("", message)));
    }
    if let Some(spec) = spec(&mut item.value, "/spec") {
        start(spec);
    }
    if let Some(spec) = spec(&mut item.value, "/spec/jobTemplate/spec") {
        start(spec);
    }
    Ok(())
}

fn spec<'a>(object: &'a mut Value, path: &str) -> Option<&'a mut Map<String, Value>> {
    object.pointer_mut(path).and_then(Value::as_object_mut)
}

/// Makes the spec of a workload ask for one pod now.
fn start(spec: &mut Map<String, Value>) {
    for field in ["paused", "suspend"] {
        spec.remove(field);
    }
    for field in ["replicas", "parallelism", "completions"] {
        // An invalid count is an error later.
        if let Some(number) = spec.get_mut(field).filter(|number| number.is_u64()) {
            *number = json!(1);
        }
    }
}

/// Returns the message that an object of the file is not used, because the cluster has one of its name.
fn unused(files: &Files, item: &Item, existing: &[Item]) -> Option<String> {
    fn key(item: &Item) -> (&str, &str, &str) {
        let namespace = match item.namespace() {
            "" if is_namespaced(item.kind()) => "default",
            namespace => namespace,
        };
        (item.kind(), namespace, item.name())
    }
    let is_used = is_copied(item) || !existing.iter().any(|other| key(other) == key(item));
    (!is_used).then(|| {
        let (place, kind, name) = (files.place(item.origin, ""), item.kind(), item.key());
        format!("ignoring {kind} {name} of {place}: the cluster has one of this name, which is used")
    })
}
