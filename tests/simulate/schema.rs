//! Tests that the table of fields (`crates/whatif/src/load/fields.txt`) equals upstream's OpenAPI document. `make
//! fields` regenerates it.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The kinds that any command reads, by apiVersion.
const KINDS: [(&str, &str); 8] = [
    (
        "v1",
        "LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod PodTemplate ReplicationController Service",
    ),
    ("apps/v1", "DaemonSet Deployment ReplicaSet StatefulSet"),
    ("batch/v1", "CronJob Job"),
    ("node.k8s.io/v1", "RuntimeClass"),
    ("policy/v1", "PodDisruptionBudget"),
    ("resource.k8s.io/v1", "DeviceClass ResourceClaim ResourceSlice"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("storage.k8s.io/v1", "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns upstream's document in the version that `tests/upstream/go.mod` pins.
fn document() -> Value {
    let list = ["list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes"];
    let output = Command::new("go").args(list).current_dir(root().join("tests/upstream")).output();
    let output = output.expect("go runs");
    assert!(
        output.status.success(),
        "run `make upstream` first: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let folder = PathBuf::from(String::from_utf8(output.stdout).expect("the path is UTF-8").trim());
    let file = folder.join("api/openapi-spec/swagger.json");
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("run `make upstream` first: {}: {error}", file.display()));
    serde_json::from_str(&text).expect("the text is valid JSON")
}

/// Returns the definition that a property refers to, directly or for its items or values.
fn referred(property: &Value) -> Option<&str> {
    if let Some(name) = property["$ref"].as_str() {
        return name.rsplit('/').next();
    }
    ["items", "additionalProperties"].into_iter().find_map(|part| property.get(part).and_then(referred))
}

fn short(name: &str) -> &str {
    // Part of a container, and not the kind of this name.
    if name == "io.k8s.api.core.v1.ResourceClaim" {
        return "core.ResourceClaim";
    }
    name.rsplit('.').next().unwrap_or(name)
}

fn table(document: &Value) -> String {
    let definitions = document["definitions"].as_object().expect("definitions");
    let has_fields = |name: &str| definitions[name]["properties"].is_object();
    let mut table = String::new();
    let mut todo: Vec<&str> = Vec::new();
    for (api_version, kinds) in KINDS {
        writeln!(table, "@ {api_version} {kinds}").expect("writing to a string succeeds");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        for kind in kinds.split(' ') {
            let is_it = |it: &&Value| it["group"] == group && it["version"] == version && it["kind"] == kind;
            let of = |definition: &Value| {
                let named = definition["x-kubernetes-group-version-kind"].as_array();
                named.is_some_and(|named| named.iter().filter(is_it).count() > 0)
            };
            let found = definitions.iter().find(|(_, definition)| of(definition));
            todo.push(found.unwrap_or_else(|| panic!("upstream has no {api_version} {kind}")).0);
        }
    }
    let mut types: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    while let Some(name) = todo.pop() {
        let former = names.insert(short(name), name);
        assert!(former.is_none_or(|former| former == name), "{name} and {former:?} have one short name");
        if former.is_some() {
            continue;
        }
        let mut fields = BTreeSet::new();
        for (field, property) in definitions[name]["properties"].as_object().expect("properties") {
            let inner = referred(property).filter(|inner| has_fields(inner));
            let map = if property.get("additionalProperties").is_some() { "*" } else { "" };
            todo.extend(inner);
            fields.insert(
                inner.map_or_else(|| field.clone(), |inner| format!("{field}:{map}{}", short(inner))),
            );
        }
        types.insert(short(name), fields);
    }
    for (name, fields) in types {
        let fields: Vec<String> = fields.into_iter().collect();
        writeln!(table, "{name} {}", fields.join(" ")).expect("writing to a string succeeds");
    }
    table
}

#[test]
fn field_table_equals_upstream_openapi() {
    let (file, made) = (root().join("crates/whatif/src/load/fields.txt"), table(&document()));
    if std::env::var_os("WRITE_FIELDS").is_some() {
        std::fs::write(&file, &made).expect("the table is written");
    }
    let kept = std::fs::read_to_string(&file).expect("the table exists");
    let difference = kept.lines().zip(made.lines()).find(|(kept, made)| kept != made);
    assert!(
        kept == made,
        "the table differs from upstream's; run `make fields` to regenerate it: {difference:?}"
    );
}
