//! Finds the position of an object or field in a file. Used only for errors, so it parses the file again.

use crate::load::files;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use std::fmt;

/// A line and a column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub line: u64,
    pub column: u64,
}

/// Returns the position of `path`, or of its longest existing prefix, in object `at` (from 0) of a file's text.
pub(super) fn find(text: &str, at: usize, path: &str) -> Option<Place> {
    let (first_line, documents) = documents(text);
    let objects = documents.into_iter().zip(first_line).flat_map(|(document, line)| {
        items(document).into_iter().map(move |object| (object, line)).collect::<Vec<_>>()
    });
    let (object, line) = objects.into_iter().nth(at)?;
    let found = walk(&object, path);
    Some(Place { line: found.line + line, column: found.column })
}

/// Returns the documents of a text, each with the number of lines before it.
fn documents(text: &str) -> (Vec<u64>, Vec<Spanned<Node>>) {
    let parts = files::json_documents(text).unwrap_or_else(|| vec![(0, text)]);
    let mut first_lines = Vec::new();
    let mut documents = Vec::new();
    for (start, part) in parts {
        let before = text[..start].bytes().filter(|&byte| byte == b'\n').count() as u64;
        let read: Vec<Spanned<Node>> =
            serde_saphyr::from_multiple_with_options(part, files::yaml_options()).unwrap_or_default();
        first_lines.extend(read.iter().map(|_| before));
        documents.extend(read);
    }
    (first_lines, documents)
}

/// Returns the items of a list, or the object itself, counted as in `files`.
fn items(document: Spanned<Node>) -> Vec<Spanned<Node>> {
    let Node::Map(fields) = document.value else { return vec![document] };
    if !fields.iter().any(|(key, value)| key == "items" && matches!(value.value, Node::List(_))) {
        return vec![Spanned { value: Node::Map(fields), ..document }];
    }
    fields
        .into_iter()
        .find_map(|(key, value)| match value.value {
            Node::List(items) if key == "items" => Some(items),
            _ => None,
        })
        .unwrap_or_default()
}

/// Follows a path such as `spec.containers[1].resources.requests[cpu]` as far as it exists. Keys may contain dots.
fn walk(object: &Spanned<Node>, path: &str) -> Place {
    let mut here = object;
    let mut rest = path;
    while !rest.is_empty() {
        let step = rest.trim_start_matches('.');
        let next = match &here.value {
            Node::Map(fields) => step_into_map(fields, step),
            Node::List(items) => step_into_list(items, step),
            Node::Leaf => None,
        };
        let Some((node, after)) = next else { break };
        (here, rest) = (node, after);
    }
    Place { line: here.referenced.line(), column: here.referenced.column() }
}

fn step_into_map<'n, 'p>(
    fields: &'n [(String, Spanned<Node>)],
    step: &'p str,
) -> Option<(&'n Spanned<Node>, &'p str)> {
    let ends = |rest: &&str| rest.is_empty() || rest.starts_with(['.', '[', ']']);
    let bare = step.strip_prefix('[').unwrap_or(step);
    let matching = fields.iter().filter_map(|(key, value)| {
        let after = bare.strip_prefix(key.as_str()).filter(ends)?;
        Some((key.len(), value, after.trim_start_matches(']')))
    });
    matching.max_by_key(|&(length, ..)| length).map(|(_, value, after)| (value, after))
}

fn step_into_list<'n, 'p>(items: &'n [Spanned<Node>], step: &'p str) -> Option<(&'n Spanned<Node>, &'p str)> {
    let (index, after) = step.strip_prefix('[')?.split_once(']')?;
    Some((items.get(index.parse::<usize>().ok()?)?, after))
}

/// The structure of a document without its values.
enum Node {
    Leaf,
    List(Vec<Spanned<Node>>),
    Map(Vec<(String, Spanned<Node>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ReadNode)
    }
}

struct ReadNode;

impl<'de> Visitor<'de> for ReadNode {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Node, D::Error> {
        from.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = from.next_entry()? {
            fields.push(field);
        }
        Ok(Node::Map(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, object: usize, path: &str) -> (u64, u64) {
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
