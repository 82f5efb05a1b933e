//! Finds the position of an object or field in a file. Used only for errors, so it parses the file again.

use crate::load::files;
use supercargo_config::yaml::{Document, NodeId, Place, Value};

/// Returns the position of `path`, or of its longest existing prefix, in object `at` (from 0) of a file's text.
pub(super) fn find(text: &str, at: usize, path: &str) -> Option<Place> {
    let mut left = at;
    for (start, part) in files::json_documents(text).unwrap_or_else(|| vec![(0, text)]) {
        for document in Document::read_all(part).unwrap_or_default() {
            let objects = objects(&document);
            let Some(&object) = objects.get(left) else {
                left -= objects.len();
                continue;
            };
            let found = document.locate(object, path).value;
            let lines_before = text[..start].bytes().filter(|&byte| byte == b'\n').count();
            return Some(Place { line: found.line + lines_before, ..found });
        }
    }
    None
}

/// Returns the items of a list, or the object itself, counted as in `files`.
fn objects(document: &Document) -> Vec<NodeId> {
    let root = document.root();
    if document.node(root).value == Value::Null {
        return Vec::new();
    }
    let items = document.child(root, "items").map(|items| &document.node(items).value);
    if let Some(Value::List(items)) = items { items.clone() } else { vec![root] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, object: usize, path: &str) -> (usize, usize) {
        let place = find(text, object, path).expect("the object exists");
        (place.line, place.column)
    }

    const YAML: &str = "\
# two documents, the second a list
kind: Node
spec: {taints: [{key: a}, {key: b}]}
---
items:
- kind: Pod
  spec:
    containers:
    - resources:
        requests:
          nvidia.com/gpu: x
";

    #[test]
    fn fields_have_positions_in_documents_and_lists() {
        assert_eq!(at(YAML, 0, ""), (2, 1));
        assert_eq!(at(YAML, 0, "spec.taints[1].key"), (3, 33));
        assert_eq!(at(YAML, 1, ""), (6, 3));
        assert_eq!(at(YAML, 1, "spec.containers[0].resources.requests[nvidia.com/gpu]"), (11, 27));
        assert_eq!(at(YAML, 1, "spec.containers[0].resources.requests.nvidia.com/gpu"), (11, 27));
    }

    #[test]
    fn missing_path_reports_its_longest_existing_prefix() {
        assert_eq!(at(YAML, 1, "spec.containers[4].name"), (9, 7));
        assert_eq!(at(YAML, 0, "status.images"), (2, 1));
        assert_eq!(find(YAML, 2, ""), None);
    }

    #[test]
    fn json_stream_objects_are_numbered_like_documents() {
        let json = "{\"kind\": \"A\"}\n\t{\n\t\t\"items\": [\n\t\t\t{\"kind\": \"B\"},\n\t\t\t{\"x\":\n\t\t\t\t\"\\u00e9\"}]}";
        assert_eq!(at(json, 0, "kind"), (1, 10));
        assert_eq!(at(json, 1, "kind").0, 4);
        assert_eq!(at(json, 2, "x").0, 6);
    }
}
