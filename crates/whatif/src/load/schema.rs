//! The built-in Kubernetes kinds and their fields, to find unknown fields in an object, and kinds with a wrong version.
//!
//! `tests/simulate/schema.rs` generates the table from upstream's OpenAPI document and checks that it is current.
//! Only field names are checked, not values. Fields of kinds that are not in the table have no findings.

use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use supercargo_config::yaml::nearest;

/// One type per line: its name and its fields, each followed by `:type` if it holds an object, or by `:*type` if it
/// holds a map of objects. Lines that begin with `@` list the kinds of an apiVersion.
const TABLE: &str = include_str!("fields.txt");

/// Kinds that are read and are not in the table.
const WITHOUT_FIELDS: [(&str, &str); 3] = [
    ("resource.k8s.io/v1", "ResourceClaimTemplate"),
    ("scheduling.k8s.io/v1beta1", "PodGroup"),
    ("scheduling.k8s.io/v1alpha2", "PodGroup"),
];
/// API groups of Kubernetes whose names have a dot. The groups of custom resources have one, too.
const DOTTED_GROUPS: [&str; 5] =
    ["networking.k8s.io", "node.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io"];

/// The fields of a type by name, with the type of their content; empty for plain values.
type Fields = BTreeMap<&'static str, &'static str>;

#[derive(Default)]
struct Schema {
    kinds: BTreeMap<&'static str, Vec<&'static str>>,
    types: BTreeMap<&'static str, Fields>,
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let mut schema = Schema::default();
    for line in TABLE.lines() {
        let mut words = line.split(' ');
        let Some(name) = words.next() else { continue };
        if name == "@" {
            schema.kinds.insert(words.next().unwrap_or_default(), words.collect());
        } else {
            let fields = words.map(|word| word.split_once(':').unwrap_or((word, "")));
            schema.types.insert(name, fields.collect());
        }
    }
    schema
});

/// A field that its kind does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// Its path in the object, such as `spec.containers[0].resources.request`.
    pub path: String,
    /// The closest known field name, if any.
    pub meant: Option<&'static str>,
}

/// Returns the fields of an object that its kind does not have, in document order.
pub(super) fn unknown_fields(object: &Value) -> Vec<UnknownField> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let is_known = SCHEMA.kinds.get(api_version).is_some_and(|kinds| kinds.contains(&kind));
    let mut unknown = Vec::new();
    if is_known {
        look(object, kind, &mut String::new(), &mut unknown);
    }
    unknown
}

/// Returns what was probably meant by an apiVersion and a kind that no command reads: one or both of them. `None` if
/// they are read, or name another kind.
///
/// Kinds of Kubernetes that scheduling never reads, and custom kinds, have names of their own or a group of their own.
pub(super) fn meant_kind(api_version: &str, kind: &str) -> Option<String> {
    let of_table =
        SCHEMA.kinds.iter().flat_map(|(version, kinds)| kinds.iter().map(move |kind| (*version, *kind)));
    let known = of_table.chain(WITHOUT_FIELDS).filter(|(_, known)| known.eq_ignore_ascii_case(kind));
    let known: Vec<(&str, &str)> = known.collect();
    let (meant_version, meant_kind) = *known.first()?;
    if known.contains(&(api_version, kind)) {
        return None;
    }
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let is_built_in = !group.contains('.') || DOTTED_GROUPS.iter().any(|it| it.eq_ignore_ascii_case(group));
    is_built_in.then(|| match known.iter().any(|(version, _)| *version == api_version) {
        true => meant_kind.to_owned(),
        false if meant_kind == kind => meant_version.to_owned(),
        false => format!("{meant_version} {meant_kind}"),
    })
}

/// Checks a value of a type recursively; `path` is unchanged afterwards.
fn look(value: &Value, of_type: &str, path: &mut String, unknown: &mut Vec<UnknownField>) {
    let length = path.len();
    match value {
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                path.push_str(&format!("[{at}]"));
                look(item, of_type, path, unknown);
                path.truncate(length);
            }
        }
        Value::Object(fields) => {
            let Some(known) = SCHEMA.types.get(of_type) else { return };
            for (field, value) in fields {
                if length > 0 {
                    path.push('.');
                }
                path.push_str(field);
                match known.get(field.as_str()) {
                    None => {
                        let meant = nearest(field, known.keys().copied());
                        unknown.push(UnknownField { path: path.clone(), meant });
                    }
                    Some(&"") => {}
                    Some(inner) => match inner.strip_prefix('*') {
                        Some(inner) => look_at_values(value, inner, path, unknown),
                        None => look(value, inner, path, unknown),
                    },
                }
                path.truncate(length);
            }
        }
        _ => {}
    }
}

/// Checks the values of a map.
fn look_at_values(map: &Value, of_type: &str, path: &mut String, unknown: &mut Vec<UnknownField>) {
    let length = path.len();
    for (key, value) in map.as_object().into_iter().flatten() {
        path.push_str(&format!(".{key}"));
        look(value, of_type, path, unknown);
        path.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn unknown_paths(object: &Value) -> Vec<(String, Option<&'static str>)> {
        unknown_fields(object).into_iter().map(|it| (it.path, it.meant)).collect()
    }

    #[test]
    fn fields_in_the_values_of_a_map_are_checked() {
        let device =
            json!({"name": "d", "attributes": {"a": {"strng": "x"}}, "capacity": {"value": {"value": "1"}}});
        let slice = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "spec": {"devices": [device]}});
        let expected = ("spec.devices[0].attributes.a.strng".to_owned(), Some("string"));
        assert_eq!(unknown_paths(&slice), [expected]);
    }

    #[test]
    fn unknown_fields_at_any_depth_name_the_closest_known_field() {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "Metadata": {},
            "metadata": {"name": "d", "labels": {"containrs": "x"}, "annotations": {"a": "b"}},
            "spec": {"replicas": 1, "template": {
                "metadata": {"lables": {}},
                "spec": {
                    "nodeSelector": {"anything": "goes"},
                    "containrs": [],
                    "containers": [
                        {"name": "a", "resources": {"requests": {"cpu": 1}}},
                        {"name": "b", "resources": {"request": {"cpu": 1}}},
                    ],
                    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                        {"nodeSelectorTerms": [{"matchExpression": []}]}}},
                    "xyzzy": 1,
                },
            }},
        });
        let mut found = unknown_paths(&object);
        found.sort();
        let template = "spec.template";
        let affinity =
            "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]";
        let mut expected = [
            ("Metadata".to_owned(), Some("metadata")),
            (format!("{template}.metadata.lables"), Some("labels")),
            (format!("{template}.spec.{affinity}.matchExpression"), Some("matchExpressions")),
            (format!("{template}.spec.containers[1].resources.request"), Some("requests")),
            (format!("{template}.spec.containrs"), Some("containers")),
            (format!("{template}.spec.xyzzy"), None),
        ];
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn wrong_version_or_case_of_a_kind_names_what_was_meant() {
        for (api_version, kind, meant) in [
            ("v1", "Deployment", "apps/v1"),
            ("apps", "Deployment", "apps/v1"),
            ("apps/v1beta1", "Deployment", "apps/v1"),
            ("extensions/v1beta1", "DaemonSet", "apps/v1"),
            ("Apps/v1", "StatefulSet", "apps/v1"),
            ("apps/v1", "deployment", "Deployment"),
            ("extensions/v1beta1", "deployment", "apps/v1 Deployment"),
            ("apps/v1", "Pod", "v1"),
            ("networking.k8s.io/v1", "Service", "v1"),
            ("batch/v1beta1", "CronJob", "batch/v1"),
            ("policy/v1beta1", "PodDisruptionBudget", "policy/v1"),
            ("storage.k8s.io/v1beta1", "CSIStorageCapacity", "storage.k8s.io/v1"),
            ("resource.k8s.io/v1beta2", "ResourceClaimTemplate", "resource.k8s.io/v1"),
            ("scheduling.k8s.io/v1alpha3", "PodGroup", "scheduling.k8s.io/v1beta1"),
            ("scheduling.k8s.io/v1beta1", "Podgroup", "PodGroup"),
        ] {
            assert_eq!(meant_kind(api_version, kind).as_deref(), Some(meant), "{api_version} {kind}");
        }
    }

    #[test]
    fn read_kinds_and_kinds_of_other_groups_mean_themselves() {
        let of_table =
            SCHEMA.kinds.iter().flat_map(|(version, kinds)| kinds.iter().map(|kind| (*version, *kind)));
        let others = [
            ("v1", "ConfigMap"),
            ("apps/v1", "ControllerRevision"),
            ("storage.k8s.io/v1", "VolumeAttributesClass"),
            ("scheduling.k8s.io/v1alpha2", "Workload"),
            ("metrics.k8s.io/v1beta1", "PodMetrics"),
            ("batch.volcano.sh/v1alpha1", "Job"),
            ("apps.kruise.io/v1beta1", "StatefulSet"),
            ("serving.knative.dev/v1", "Service"),
            ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
        ];
        for (api_version, kind) in of_table.chain(WITHOUT_FIELDS).chain(others) {
            assert_eq!(meant_kind(api_version, kind), None, "{api_version} {kind}");
        }
    }

    #[test]
    fn custom_kinds_and_plain_values_have_no_unknown_fields() {
        for object in [
            json!({"apiVersion": "example.com/v1", "kind": "Pod", "anything": 1}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "anything": 1}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"managedFields": [{"fieldsV1": {"f:x": {}}}],
                "creationTimestamp": null}, "spec": "wrong in another way"}),
            json!({"apiVersion": "v1", "kind": "Pod", "spec": {"overhead": {"cpu": "1"}, "containers": null}}),
            json!([]),
        ] {
            assert_eq!(unknown_paths(&object), [], "{object}");
        }
    }
}
