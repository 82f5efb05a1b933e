//! Reads large files in pieces, so that memory does not grow with the file.
//!
//! One item of a JSON or YAML list is in memory as text at a time. Its irrelevant fields are dropped before the next.
//!
//! YAML is split at lines that begin an item or a document, which works for lists in block style, such as kubectl's
//! output. The caller parses other layouts whole.

use crate::load::files::items;
use crate::load::json_stream;
use crate::load::packed::Held;
use serde_json::{Map, Value};
use std::io::{self, BufRead};
use supercargo_config::yaml::{self, Place, Problem};

/// Why a text has no objects.
#[derive(Debug)]
pub(super) enum Bad {
    /// Reading failed.
    Io(io::Error),
    /// Line, column and message of a syntax error.
    Text(u64, u64, String),
}

impl From<Problem> for Bad {
    fn from(Problem { place, text, .. }: Problem) -> Self {
        let Place { line, column } = place.unwrap_or(Place { line: 1, column: 1 });
        Self::Text(line as u64, column as u64, text)
    }
}

/// Reads the objects of a text, with lists split into their items.
pub(super) fn objects(mut reader: impl BufRead) -> Result<Vec<Held>, Bad> {
    let begin = reader.fill_buf().map_err(Bad::Io)?;
    let first = begin.iter().find(|byte| !byte.is_ascii_whitespace());
    if first == Some(&b'{') { json_stream::objects(reader) } else { Yaml::default().read(reader) }
}

/// The state while YAML is read.
#[derive(Default)]
struct Yaml {
    all: Vec<Held>,
    /// The current document without its items.
    document: Piece,
    /// The items of the current document, if it is a list.
    items: Option<Vec<Held>>,
    /// The current item; `None` outside of `items`.
    item: Option<Piece>,
    /// Number of spaces before the dash of each item, once the first item is read.
    indent: Option<usize>,
}

/// Lines that are parsed together, with their line numbers from 1.
#[derive(Default)]
struct Piece {
    text: String,
    lines: Vec<u64>,
}

impl Piece {
    fn add(&mut self, line: &str, number: u64) {
        self.text.push_str(line);
        self.lines.push(number);
    }

    fn parse(&self) -> Result<Vec<Value>, Bad> {
        yaml::values(&self.text).map_err(|problem| match problem.into() {
            Bad::Text(line, column, what) => {
                let at = (line as usize).clamp(1, self.lines.len().max(1)) - 1;
                Bad::Text(self.lines.get(at).copied().unwrap_or(1), column, what)
            }
            bad @ Bad::Io(_) => bad,
        })
    }
}

/// Returns whether a line is the mark, or begins with the mark and a space.
fn begins(line: &str, mark: &str) -> bool {
    line.strip_prefix(mark).is_some_and(|rest| rest.trim_end().is_empty() || rest.starts_with(' '))
}

impl Yaml {
    fn read(mut self, mut reader: impl BufRead) -> Result<Vec<Held>, Bad> {
        let (mut bytes, mut number) = (Vec::new(), 0);
        loop {
            bytes.clear();
            number += 1;
            if reader.read_until(b'\n', &mut bytes).map_err(Bad::Io)? == 0 {
                self.end_document()?;
                return Ok(self.all);
            }
            let line = std::str::from_utf8(&bytes).map_err(|error| {
                Bad::Text(number, error.valid_up_to() as u64 + 1, "expected UTF-8".to_owned())
            })?;
            self.line(line, number)?;
        }
    }

    fn line(&mut self, line: &str, number: u64) -> Result<(), Bad> {
        let begins = |mark: &str| begins(line, mark);
        let is_inner = line.starts_with([' ', '#', '\n', '\r']);
        if begins("---") || begins("...") {
            self.end_document()?;
            // Text behind the marker belongs to the document.
            self.document.add(line, number);
        } else if self.items.is_none() && line.trim_end() == "items:" {
            self.items = Some(Vec::new());
            self.item = Some(Piece::default());
            self.indent = None;
        } else if self.item.is_some() && self.begins_item(line) {
            self.end_item()?;
            self.item.get_or_insert_default().add(line, number);
        } else if let Some(item) = self.item.as_mut().filter(|_| is_inner) {
            item.add(line, number);
        } else {
            self.end_item()?;
            self.item = None;
            self.document.add(line, number);
        }
        Ok(())
    }

    /// Returns whether a line below `items` begins an item. All items have the indentation of the first.
    fn begins_item(&mut self, line: &str) -> bool {
        let indent = line.len() - line.trim_start_matches(' ').len();
        begins(&line[indent..], "-") && *self.indent.get_or_insert(indent) == indent
    }

    fn end_item(&mut self) -> Result<(), Bad> {
        let Some(item) = &mut self.item else { return Ok(()) };
        let item = std::mem::take(item);
        for value in item.parse()? {
            match value {
                Value::Null => {}
                Value::Array(items) => {
                    self.items.get_or_insert_default().extend(items.into_iter().map(Held::lean));
                }
                _ => {
                    let line = item.lines.first().copied().unwrap_or(1);
                    return Err(Bad::Text(line, 1, "expected a list of objects".to_owned()));
                }
            }
        }
        Ok(())
    }

    fn end_document(&mut self) -> Result<(), Bad> {
        self.end_item()?;
        self.item = None;
        let piece = std::mem::take(&mut self.document);
        let mut documents: Vec<Value> = piece.parse()?;
        documents.retain(|document| !document.is_null());
        let Some(listed) = self.items.take() else {
            self.all.extend(documents.into_iter().flat_map(items).map(Held::lean));
            return Ok(());
        };
        let mut list = match (documents.pop(), documents.is_empty()) {
            (None, _) => Map::new(),
            (Some(Value::Object(fields)), true) if !fields.contains_key("items") => fields,
            _ => return Err(Bad::Text(1, 1, "expected the items to belong to a list object".to_owned())),
        };
        if listed.is_empty() {
            // A list with an empty `items` has null there.
            list.insert("items".to_owned(), Value::Null);
            self.all.push(Held::Tree(Value::Object(list)));
        } else {
            self.all.extend(listed.into_iter().map(|item| item.of_list(&list, Held::lean)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::files::{remove_unread_fields, values};

    fn streamed(text: &str) -> Vec<Value> {
        let read = |capacity: usize| {
            let held = objects(io::BufReader::with_capacity(capacity, text.as_bytes()));
            let held = held.unwrap_or_else(|bad| panic!("{bad:?}: {text}"));
            held.into_iter().map(Held::into_tree).collect::<Vec<_>>()
        };
        let all = read(64);
        assert_eq!(read(3), all, "same result for every buffer size");
        all
    }

    #[test]
    fn reading_in_pieces_equals_reading_whole() {
        let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  labels: {a: \"- b\"}\nspec:\n  note: |\n    items:\n    - x\n    ---\n  containers:\n  - name: c\n    command: [a]\n";
        let item = |name: &str| {
            format!(
                "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: {name}\n    managedFields: []\n\n  # a remark\n  spec:\n    containers:\n    - name: c\n      env: []\n"
            )
        };
        let list = format!(
            "apiVersion: v1\nitems:\n{}{}kind: List\nmetadata:\n  resourceVersion: \"\"\n",
            item("a"),
            item("b")
        );
        let typed = "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\n";
        for text in [
            pod.to_owned(),
            list.clone(),
            format!("{list}---\n{pod}---\n---\n{typed}...\n"),
            format!("--- # here\n{pod}"),
            "kind: List\napiVersion: v1\nitems: []\n".to_owned(),
            "kind: List\napiVersion: v1\nitems:\n".to_owned(),
            "kind: List\nitems:\n  - kind: Pod\n    apiVersion: v1\n  - kind: Node\n    apiVersion: v1\napiVersion: v1\n".to_owned(),
            "kind: PodList\napiVersion: v1\nitems:\n\n    # a remark\n    -\n        metadata: {name: a}\n        spec:\n            containers:\n            - name: c\n            -   name: d\n    - metadata:\n        name: b\n---\nkind: List\nitems:\n- kind: Node\n".to_owned(),
            String::new(),
            "# nothing\n".to_owned(),
            r#" {"kind":"List","apiVersion":"v1","items":[{"kind":"Pod","metadata":{"name":"a","managedFields":[1]}},{"kind":"Node"}]}
               {"kind":"Pod","spec":{"containers":[{"name":"c","env":[]}]}} {"kind":"PodList","apiVersion":"v1","items":[{}]} "#.to_owned(),
            r#"{"kind":"List","items":null}"#.to_owned(),
        ] {
            let whole = values(&text).unwrap_or_else(|error| panic!("{error:?}: {text}"));
            let mut whole: Vec<Value> = whole.into_iter().map(Held::into_tree).collect();
            whole.iter_mut().for_each(remove_unread_fields);
            assert_eq!(streamed(&text), whole, "{text}");
        }
    }

    #[test]
    fn syntax_errors_have_the_right_position() {
        let place = |text: &str| match objects(text.as_bytes()) {
            Err(Bad::Text(line, column, _)) => (line, column),
            other => panic!("{other:?}"),
        };
        assert_eq!(place("{\"kind\": \"List\",\n \"items\": [{},\n {\"a\" 1}]}").0, 3);
        assert_eq!(place("kind: List\nitems:\n- a: 1\n- b: [1\n  c: 2\n").0, 5);
        assert_eq!(place("kind: List\nitems:\n  - a: 1\n  - b: [1\n    c: 2\n").0, 5);
        assert_eq!(place("kind: List\nitems:\n- a: 1\nmore: [\n").0, 4);
        assert_eq!(place("{\"items\": 1}"), (1, 12));
        let broken = objects(&b"kind: List\nitems:\n- a: \xff\n"[..]);
        assert!(matches!(broken, Err(Bad::Text(3, 6, _))), "{broken:?}");
    }

    /// The second item is read while the first is still held, since each is a separate piece.
    #[test]
    fn indented_items_are_separate_pieces() {
        let mut yaml = Yaml::default();
        for (at, line) in ["items:\n", "  - x:\n", "    - y\n", "  - z: 1\n"].iter().enumerate() {
            yaml.line(line, at as u64 + 1).expect("the line is YAML");
        }
        assert_eq!(yaml.items.map(|items| items.len()), Some(1));
        assert_eq!(yaml.item.map(|item| item.text), Some("  - z: 1\n".to_owned()));
    }

    #[test]
    fn alias_to_another_item_is_rejected_in_pieces() {
        assert!(objects(&b"kind: List\nitems:\n- &a {x: 1}\n- *a\n"[..]).is_err());
    }
}
