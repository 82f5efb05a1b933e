//! Sets names, namespaces and uids that the API server would set. The values are deterministic.
//!
//! Where the API server draws a random suffix, this module derives it from kind, namespace and name.

use crate::load::files::{Item, Wrong, text_at};
use serde_json::{Map, Value, json};

/// Cluster-scoped kinds.
const CLUSTER_SCOPED: [&str; 10] = [
    "Node",
    "Namespace",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "VolumeAttachment",
    "DeviceClass",
    "ResourceSlice",
    "PriorityClass",
];
const RUNTIME_CLASS: &str = "RuntimeClass";

/// Letters of generated names, without vowels so that they form no words (upstream `apimachinery/pkg/util/rand`).
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// How many characters of `generateName` are kept, so that the name is a valid label (upstream
/// `MaxGeneratedNameLength`).
const GENERATED_BASE: usize = 58;
const SUFFIX: u32 = 5;

/// Returns whether objects of the kind are namespaced.
pub fn is_namespaced(kind: &str) -> bool {
    !CLUSTER_SCOPED.contains(&kind) && kind != RUNTIME_CLASS
}

/// Sets the namespace `default` if a namespaced object names none, as kubectl does.
pub fn default_namespace(item: &mut Item) {
    if is_namespaced(item.kind()) && item.namespace().is_empty() {
        set(&mut item.value, &["metadata", "namespace"], "default".into());
    }
}

/// Sets missing names and uids. `at` distinguishes objects with the same `generateName`.
///
/// # Errors
/// Fails if the object has neither a name nor a `generateName`.
pub fn identify(item: &mut Item, at: usize) -> Result<(), Wrong> {
    if item.name().is_empty() {
        let base = item.text("/metadata/generateName").to_owned();
        if base.is_empty() {
            return Err(Wrong::new("metadata", "expected metadata.name to be a string"));
        }
        let name = generated_name(&base, item.kind(), item.namespace(), at);
        set(&mut item.value, &["metadata", "name"], name.into());
    }
    if item.text("/metadata/uid").is_empty() {
        let uid = derived_uid(item.kind(), item.namespace(), item.name());
        set(&mut item.value, &["metadata", "uid"], uid.into());
    }
    Ok(())
}

/// Returns a UUID derived from kind, namespace and name.
pub fn derived_uid(kind: &str, namespace: &str, name: &str) -> String {
    let text = format!("{kind}/{namespace}/{name}");
    let (high, low) = (fnv64(0, &text), fnv64(1, &text));
    format!(
        "{:08x}-{:04x}-8{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | ((low >> 48) & 0x3fff),
        low & 0xffff_ffff_ffff
    )
}

/// Returns the name that the API server would create from `generateName`, for object number `at` of its owner or
/// file. Numbers below 27^5 give distinct names.
pub fn generated_name(base: &str, kind: &str, namespace: &str, at: usize) -> String {
    let names = 27_u64.pow(SUFFIX);
    // The step is coprime to 27^5 (not a multiple of 3), so all suffixes appear before one repeats.
    let start = fnv64(2, &format!("{kind}/{namespace}/{base}")) % names;
    let mut number = (start + at as u64 % names * 5_555_555) % names;
    let mut name: String = base.chars().take(GENERATED_BASE).collect();
    for _ in 0..SUFFIX {
        name.push(char::from(ALPHABET[(number % 27) as usize]));
        number /= 27;
    }
    name
}

/// Returns the hash of a pod template, for `pod-template-hash` and `controller-revision-hash`.
///
/// Upstream hashes the memory layout of Go types; this hashes the JSON, so the letters differ. Equal templates have
/// equal hashes in both.
pub fn template_hash(template: &Value) -> String {
    let mut hash: u32 = 0x811c_9dc5;
    for byte in template.to_string().bytes() {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    let digits = hash.to_string();
    digits.bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

/// Returns the owner references of an object with this controller.
pub fn controlled_by(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!([{
        "apiVersion": api_version, "kind": kind, "name": name, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    }])
}

/// Sets a field and creates missing parent objects; does nothing if a parent is not an object.
pub fn set(value: &mut Value, path: &[&str], to: Value) {
    let Some((last, way)) = path.split_last() else { return };
    if let Some(fields) = fields_at(value, way) {
        fields.insert((*last).to_owned(), to);
    }
}

/// Returns the object at a path, created if absent or null; `None` if something on the path is not an object.
pub fn fields_at<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    let mut here = value;
    for step in path {
        here = here.as_object_mut()?.entry(*step).or_insert(Value::Null);
        if here.is_null() {
            *here = Value::Object(Map::new());
        }
    }
    here.as_object_mut()
}

/// Returns `namespace/name`, or only the name for a cluster-scoped object.
pub fn key(value: &Value) -> String {
    let (namespace, name) = (text_at(value, "/metadata/namespace"), text_at(value, "/metadata/name"));
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// FNV-1a with a seed, and a final mix so that similar texts get distant hashes.
fn fnv64(begin: u64, text: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ begin.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn derived_uids_are_uuids_distinct_by_kind_namespace_and_name() {
        let uids: BTreeSet<String> =
            [("Pod", "a", "b"), ("Pod", "a", "c"), ("Pod", "b", "b"), ("Job", "a", "b")]
                .map(|(kind, namespace, name)| derived_uid(kind, namespace, name))
                .into();
        assert_eq!(uids.len(), 4);
        for uid in &uids {
            let parts: Vec<usize> = uid.split('-').map(str::len).collect();
            assert_eq!(parts, [8, 4, 4, 4, 12], "{uid}");
        }
        assert_eq!(derived_uid("Pod", "a", "b"), derived_uid("Pod", "a", "b"));
    }

    #[test]
    fn generated_names_are_distinct_and_valid_labels() {
        let base = "a-name-that-is-far-too-long-for-a-label-and-so-is-cut-to-fit-it-";
        let names: BTreeSet<String> = (0..5_000).map(|at| generated_name(base, "Job", "ns", at)).collect();
        assert_eq!(names.len(), 5_000);
        assert!(names.iter().all(|name| name.len() == 63));
    }
}
