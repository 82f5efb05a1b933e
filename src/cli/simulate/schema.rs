//! The fields that Kubernetes' own kinds have, and fields of an object that are none of them.
//!
//! The table is made of upstream's OpenAPI document by `tests/simulate/schema.rs`, which also shows that it is what upstream has. Judges names of
//! fields and no values. Of kinds that are not in it nothing is known, and nothing is reported.

use crate::config::nearest;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A line per type: its name and its fields, each with the type of what it holds where that has fields of its own. The lines that begin with
/// `@` name an apiVersion and the kinds of it.
const TABLE: &str = include_str!("fields.txt");

/// A type's fields by name; the type of what a field holds is empty for plain values.
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
pub(super) struct UnknownField {
    /// Its path in the object, such as `spec.containers[0].resources.request`.
    pub(super) path: String,
    /// The field of that name's closest kin.
    pub(super) meant: Option<&'static str>,
}

/// The fields of an object that its kind does not have, in the order in which they stand in their objects.
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

/// Looks into a value of a type; `path` is as it was afterwards.
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
                    Some(inner) => look(value, inner, path, unknown),
                }
                path.truncate(length);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(object: &Value) -> Vec<(String, Option<&'static str>)> {
        unknown_fields(object).into_iter().map(|it| (it.path, it.meant)).collect()
    }

    #[test]
    fn unknown_fields_are_found_at_any_depth_with_the_closest_known_one() {
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
        let mut found = told(&object);
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
    fn of_other_kinds_and_values_without_fields_nothing_is_said() {
        for object in [
            json!({"apiVersion": "example.com/v1", "kind": "Pod", "anything": 1}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "anything": 1}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"managedFields": [{"fieldsV1": {"f:x": {}}}],
                "creationTimestamp": null}, "spec": "wrong in another way"}),
            json!({"apiVersion": "v1", "kind": "Pod", "spec": {"overhead": {"cpu": "1"}, "containers": null}}),
            json!([]),
        ] {
            assert_eq!(told(&object), [], "{object}");
        }
    }
}
