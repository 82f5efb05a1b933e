//! Parses YAML or JSON into a tree with positions.
//!
//! Reads only the first document, as kube-scheduler does. `decode` converts the tree into types.

use crate::yaml::field::{Place, Problem, child, item};
use crate::yaml::scalar::resolve;
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Value of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`, or nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A signed or unsigned 64-bit integer.
    Int(i128),
    /// Any other number.
    Float(f64),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<NodeId>),
    /// A map, in the order of the text.
    Map(Vec<Entry>),
}

/// Index of a node. An alias has the index of its anchor's node.
pub type NodeId = usize;

/// A key of a map with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Position of the key.
    pub place: Place,
    /// The value.
    pub value: NodeId,
}

/// A node and its position.
#[derive(Clone, Debug)]
pub struct Node {
    /// Position.
    pub place: Place,
    /// Value.
    pub value: Value,
}

/// A document.
#[derive(Clone, Debug)]
pub struct Document {
    nodes: Vec<Node>,
    root: NodeId,
}

impl Document {
    /// Parses a text.
    ///
    /// # Errors
    /// Fails if the text is not YAML, or a map repeats a key.
    pub fn read(text: &str) -> Result<Self, Vec<Problem>> {
        if text.trim_start().starts_with('{') {
            // Upstream parses such a text as JSON only.
            serde_json::from_str::<serde::de::IgnoredAny>(text)
                .map_err(|error| vec![json_problem(&error)])?;
        }
        let mut reader = Reader::new(text);
        let root = reader.document().map_err(|error| vec![error])?;
        if reader.problems.is_empty() { Ok(Self { nodes: reader.nodes, root }) } else { Err(reader.problems) }
    }

    /// Returns the root node.
    pub fn root(&self) -> NodeId {
        self.root
    }

    /// Returns a node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    /// Returns the value of a key, if the node is a map with this key.
    pub fn get(&self, id: NodeId, key: &str) -> Option<&Node> {
        match &self.node(id).value {
            Value::Map(entries) => {
                entries.iter().find(|entry| entry.key == key).map(|entry| self.node(entry.value))
            }
            _ => None,
        }
    }

    /// Returns the number of nodes with all aliases expanded.
    pub fn weight(&self) -> u64 {
        // Children precede their parents in the list.
        let mut weights: Vec<u64> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let of = |&id: &NodeId| weights.get(id).copied().unwrap_or(1);
            let held = match &node.value {
                Value::List(items) => items.iter().map(of).fold(0, u64::saturating_add),
                Value::Map(entries) => entries.iter().map(|it| of(&it.value)).fold(0, u64::saturating_add),
                _ => 0,
            };
            weights.push(held.saturating_add(1));
        }
        weights.get(self.root).copied().unwrap_or_default()
    }

    /// Returns a field of the root, if it is a string.
    pub fn text(&self, key: &str) -> Option<&str> {
        match &self.get(self.root, key)?.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the position of a field. If the path leads beyond the document, returns the position of the
    /// last existing part.
    pub fn find(&self, path: &str) -> Option<Place> {
        let (mut id, mut place) = (self.root, None);
        for step in path.split(['.', '[']) {
            let next = match (&self.node(id).value, step.strip_suffix(']')) {
                (Value::List(items), Some(index)) => index
                    .parse()
                    .ok()
                    .and_then(|at: usize| items.get(at))
                    .map(|&id| (id, self.node(id).place)),
                (Value::Map(entries), None) => {
                    entries.iter().find(|entry| entry.key == step).map(|entry| (entry.value, entry.place))
                }
                _ => None,
            };
            let Some((found, at)) = next else { break };
            (id, place) = (found, Some(at));
        }
        place
    }
}

struct Reader<'t> {
    events: Parser<'t, serde_saphyr::granit_parser::StrInput<'t>>,
    nodes: Vec<Node>,
    anchors: BTreeMap<usize, NodeId>,
    path: String,
    problems: Vec<Problem>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            events: Parser::new_from_str(text),
            nodes: Vec::new(),
            anchors: BTreeMap::new(),
            path: String::new(),
            problems: Vec::new(),
        }
    }

    fn document(&mut self) -> Result<NodeId, Problem> {
        loop {
            match self.next()? {
                (Event::StreamEnd, span) => return Ok(self.push(place(&span), Value::Null, 0)),
                (Event::StreamStart | Event::DocumentStart(..), _) => {}
                event => return self.node(event),
            }
        }
    }

    /// Returns the next event that is not a comment.
    fn next(&mut self) -> Result<(Event<'t>, Span), Problem> {
        loop {
            let end = || Problem::new("", "unexpected end of the text");
            let (event, span) = self.events.next().ok_or_else(end)?.map_err(|error| scan_problem(&error))?;
            if !matches!(event, Event::Comment(..)) {
                return Ok((event, span));
            }
        }
    }

    fn push(&mut self, place: Place, value: Value, anchor: usize) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(Node { place, value });
        if anchor != 0 {
            self.anchors.insert(anchor, id);
        }
        id
    }

    fn node(&mut self, (event, span): (Event<'t>, Span)) -> Result<NodeId, Problem> {
        let at = place(&span);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = self.scalar(at, text, style, tag.as_deref())?;
                Ok(self.push(at, value, anchor))
            }
            Event::SequenceStart(_, anchor, _) => {
                let mut items = Vec::new();
                loop {
                    let event = self.next()?;
                    if matches!(event.0, Event::SequenceEnd) {
                        return Ok(self.push(at, Value::List(items), anchor));
                    }
                    let outer = item(&mut self.path, items.len());
                    items.push(self.node(event)?);
                    self.path.truncate(outer);
                }
            }
            Event::MappingStart(_, anchor, _) => {
                let entries = self.entries()?;
                Ok(self.push(at, Value::Map(entries), anchor))
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(&id) => Ok(id),
                None => Err(self.problem(at, "an alias is inside its own anchor")),
            },
            _ => Err(self.problem(at, "expected a value")),
        }
    }

    fn entries(&mut self) -> Result<Vec<Entry>, Problem> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let event = self.next()?;
            if matches!(event.0, Event::MappingEnd) {
                return Ok(entries);
            }
            let at = place(&event.1);
            let merges = matches!(&event.0, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<");
            let key = self.node(event)?;
            let key = self.key(at, key)?;
            let outer = child(&mut self.path, &key);
            let value = self.next()?;
            let value = self.node(value)?;
            if merges {
                for entry in self.merged(value)? {
                    self.enter(&mut entries, entry);
                }
            } else {
                self.enter(&mut entries, Entry { key, place: at, value });
            }
            self.path.truncate(outer);
        }
    }

    fn enter(&mut self, entries: &mut Vec<Entry>, entry: Entry) {
        if entries.iter().any(|other| other.key == entry.key) {
            let text = format!("strict decoding error: key {:?} already set in map", entry.key);
            let problem = self.problem(entry.place, &text);
            self.problems.push(problem);
            // Drop the entry: repeated merges would otherwise multiply entries.
            return;
        }
        entries.push(entry);
    }

    /// Returns the entries that a merge key `<<` copies from one or several maps.
    fn merged(&self, id: NodeId) -> Result<Vec<Entry>, Problem> {
        let node = &self.nodes[id];
        match &node.value {
            Value::Map(entries) => Ok(entries.clone()),
            Value::List(maps) => {
                let maps: Result<Vec<_>, _> = maps.iter().map(|&map| self.merged(map)).collect();
                Ok(maps?.concat())
            }
            _ => Err(self.problem(node.place, "map merge requires map or sequence of maps as the value")),
        }
    }

    fn key(&self, at: Place, id: NodeId) -> Result<String, Problem> {
        match &self.nodes[id].value {
            Value::Text(text) => Ok(text.clone()),
            Value::Bool(value) => Ok(value.to_string()),
            Value::Int(value) => Ok(value.to_string()),
            Value::Float(value) => Ok(value.to_string()),
            Value::Null | Value::List(_) | Value::Map(_) => Err(self.problem(at, "a key must be a string")),
        }
    }

    fn scalar(
        &self,
        at: Place,
        text: Cow<'_, str>,
        style: ScalarStyle,
        tag: Option<&Tag>,
    ) -> Result<Value, Problem> {
        let tag = tag.map(ToString::to_string);
        let Some(tag) = tag.as_deref() else {
            return Ok(if style == ScalarStyle::Plain { resolve(&text) } else { Value::Text(text.into()) });
        };
        let name = tag.trim_start_matches("tag:yaml.org,2002:").trim_start_matches("!!");
        let value = match (name, resolve(&text)) {
            ("bool", value @ Value::Bool(_))
            | ("null", value @ Value::Null)
            | ("int", value @ Value::Int(_))
            | ("float", value @ Value::Float(_)) => value,
            ("float", Value::Int(value)) => Value::Float(value as f64),
            ("bool" | "null" | "int" | "float", _) => {
                return Err(self.problem(at, &format!("cannot decode `{text}` as a !!{name}")));
            }
            _ => Value::Text(text.into()),
        };
        Ok(value)
    }

    fn problem(&self, at: Place, text: &str) -> Problem {
        Problem::new(self.path.clone(), text).at(at)
    }
}

fn place(span: &Span) -> Place {
    Place { line: span.start.line(), column: span.start.col() + 1 }
}

fn scan_problem(error: &ScanError) -> Problem {
    let at = error.marker();
    let place = Place { line: at.line(), column: at.col() + 1 };
    Problem::new("", error.info()).at(place)
}

fn json_problem(error: &serde_json::Error) -> Problem {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or(&text);
    let place = Place { line: error.line(), column: error.column().max(1) };
    Problem::new("", format!("a text that begins with a brace is parsed as JSON: {text}")).at(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_a_position() {
        let document = Document::read("a: 1\nb:\n- {c: x}\n- {c: y, d: {e: 2}}\n").expect("it is YAML");
        let at = |path: &str| document.find(path).map(|place| (place.line, place.column));
        assert_eq!(at("a"), Some((1, 1)));
        assert_eq!(at("b[1].d.e"), Some((4, 14)));
        assert_eq!(at("b[1].missing.field"), Some((4, 3)), "the last existing part");
        assert_eq!(at("nothing"), None);
    }

    #[test]
    fn duplicate_key_is_reported_with_path_and_position() {
        let problems = Document::read("a:\n  b: 1\n  c: 2\n  b: 3\nd: 1\nd: 2\n").expect_err("twice twice");
        let messages: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "4:3: a.b: strict decoding error: key \"b\" already set in map",
                "6:1: d: strict decoding error: key \"d\" already set in map",
            ]
        );
    }

    #[test]
    fn aliases_and_merge_keys_are_resolved() {
        let document =
            Document::read("base: &b {x: 1, w: 2}\nuse: {<<: *b, z: 3}\nagain: *b\n").expect("it is YAML");
        let value = |map: &str, key: &str| match &document.node(document.root()).value {
            Value::Map(entries) => {
                let map = entries.iter().find(|e| e.key == map).expect("the map is there");
                document.get(map.value, key).map(|node| node.value.clone())
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(value("use", "w"), Some(Value::Int(2)));
        assert_eq!(value("use", "z"), Some(Value::Int(3)));
        assert_eq!(value("again", "x"), Some(Value::Int(1)));
    }

    #[test]
    fn exponential_aliases_are_weighed_without_copying() {
        let bomb = |first: &str, of: &dyn Fn(usize) -> String| {
            let levels: Vec<String> = (1..20).map(of).collect();
            format!("a0: &a0 {first}\n{}", levels.concat())
        };
        let lists = bomb("[x]", &|at| {
            let before = format!("*a{}", at - 1);
            format!("a{at}: &a{at} [{}]\n", [before.as_str(); 10].join(", "))
        });
        let document = Document::read(&lists).expect("it is YAML");
        assert!(document.weight() > 10_u64.pow(18) && document.nodes.len() < 1_000);
        let merges = bomb("{x: 1}", &|at| {
            let before = format!("*a{}", at - 1);
            format!("a{at}: &a{at} {{<<: [{}]}}\n", [before.as_str(); 10].join(", "))
        });
        let problems = Document::read(&merges).expect_err("keys stand twice");
        assert!(problems.len() < 1_000, "{}", problems.len());
    }

    #[test]
    fn text_that_begins_with_a_brace_must_be_json() {
        assert!(Document::read("{\"a\": [1, true]}").is_ok());
        let problem = Document::read("{a: 1}").expect_err("YAML in braces").remove(0);
        assert!(problem.to_string().starts_with("1:2: a text that begins with a brace"), "{problem}");
    }

    #[test]
    fn empty_text_is_null() {
        for text in ["", "# a comment\n", "---\n"] {
            let document = Document::read(text).expect("it is YAML");
            assert_eq!(document.node(document.root()).value, Value::Null, "{text:?}");
        }
    }
}
