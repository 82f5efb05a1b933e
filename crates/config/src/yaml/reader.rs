//! Builds the tree of a document from the events of the YAML parser.
//!
//! Configurations and objects differ in two rules, as their upstream decoders do: see [`Rules`].

use crate::yaml::document::{Document, Entry, Node, NodeId, Slot, Value};
use crate::yaml::field::{Place, Problem, child, item};
use crate::yaml::scalar::resolve;
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Maps up to this number of entries are searched for a repeated key one by one, which is faster than a set.
const SEARCHED_MAX: usize = 16;
/// Number of entries that the merge keys of a text may copy: a limit against texts that expand quadratically.
const COPIED_MAX: usize = 100_000;

/// How repeated keys are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    /// kube-scheduler's strict decoder: all repeated keys are reported, also those that a merge key repeats.
    Configuration,
    /// kubectl's decoder: a key overrides a merged one. Any other repeated key ends the reading.
    Objects,
}

/// Reads the first document of a configuration.
pub(super) fn first(text: &str) -> Result<Document, Vec<Problem>> {
    let mut reader = Reader::new(text, Rules::Configuration);
    let document = reader.document().map_err(|error| vec![error])?;
    if !reader.problems.is_empty() {
        return Err(reader.problems);
    }
    let empty = || Document::new(vec![Slot::Node(Node { place: reader.end, value: Value::Null })], 0, false);
    Ok(document.unwrap_or_else(empty))
}

/// Reads all documents of a text of objects, and converts each before the next.
pub(super) fn all<T>(
    text: &str,
    convert: impl Fn(Document) -> Result<T, Problem>,
) -> Result<Vec<T>, Problem> {
    let mut reader = Reader::new(text, Rules::Objects);
    let mut all = Vec::new();
    while let Some(document) = reader.document()? {
        all.push(convert(document)?);
    }
    Ok(all)
}

struct Reader<'t> {
    events: Parser<'t, StrInput<'t>>,
    rules: Rules,
    slots: Vec<Slot>,
    anchors: BTreeMap<usize, NodeId>,
    path: String,
    problems: Vec<Problem>,
    /// Number of entries that merge keys have copied.
    copied: usize,
    /// The end of the text, once it is reached.
    end: Place,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str, rules: Rules) -> Self {
        Self {
            events: Parser::new_from_str(text),
            rules,
            slots: Vec::new(),
            anchors: BTreeMap::new(),
            path: String::new(),
            problems: Vec::new(),
            copied: 0,
            end: Place { line: 1, column: 1 },
        }
    }

    /// Returns the next document, or `None` at the end of the text.
    fn document(&mut self) -> Result<Option<Document>, Problem> {
        self.anchors.clear();
        loop {
            match self.next()? {
                (Event::StreamEnd, span) => {
                    self.end = place(&span);
                    return Ok(None);
                }
                (Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd, _) => {}
                event => {
                    let root = self.node(event)?;
                    return Ok(Some(Document::new(
                        std::mem::take(&mut self.slots),
                        root,
                        !self.anchors.is_empty(),
                    )));
                }
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
        self.slots.push(Slot::Node(Node { place, value }));
        let id = self.slots.len() - 1;
        if anchor != 0 {
            self.anchors.insert(anchor, id);
        }
        id
    }

    /// Returns the node that an index stands for.
    fn read(&self, id: NodeId) -> &Node {
        match &self.slots[id] {
            Slot::Node(node) => node,
            Slot::Alias(_, id) => self.read(*id),
        }
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
                Some(&id) => {
                    self.slots.push(Slot::Alias(at, id));
                    Ok(self.slots.len() - 1)
                }
                None => Err(self.problem(at, "an alias is inside its own anchor")),
            },
            _ => Err(self.problem(at, "expected a value")),
        }
    }

    fn entries(&mut self) -> Result<Vec<Entry>, Problem> {
        let mut entries = Entries::default();
        let mut merged = Vec::new();
        loop {
            let event = self.next()?;
            if matches!(event.0, Event::MappingEnd) {
                for entry in merged {
                    // The map's own keys override merged ones, and earlier merged ones later ones.
                    entries.enter(entry);
                }
                // Most maps have one or two entries, and Vec makes room for four.
                entries.all.shrink_to_fit();
                return Ok(entries.all);
            }
            let at = place(&event.1);
            let merges = matches!(&event.0, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<");
            let key = self.node(event)?;
            let key = self.key(at, key)?;
            let outer = child(&mut self.path, &key);
            let value = self.next()?;
            let value = self.node(value)?;
            match (merges, self.rules) {
                (false, _) => self.enter(&mut entries, Entry { key, place: at, value })?,
                (true, Rules::Objects) => merged.extend(self.merged(value)?),
                (true, Rules::Configuration) => {
                    for entry in self.merged(value)? {
                        self.enter(&mut entries, entry)?;
                    }
                }
            }
            self.path.truncate(outer);
        }
    }

    /// Adds an entry. A repeated key is a problem.
    fn enter(&mut self, entries: &mut Entries, entry: Entry) -> Result<(), Problem> {
        let Some(Entry { key, place, .. }) = entries.enter(entry) else { return Ok(()) };
        if self.rules == Rules::Objects {
            return Err(self.problem(place, &format!("duplicate mapping key: {key}")));
        }
        let text = format!("strict decoding error: key {key:?} already set in map");
        self.problems.push(self.problem(place, &text));
        Ok(())
    }

    /// Returns the entries that a merge key `<<` copies from a map or from a list of maps. As in Go's decoder, the list
    /// is no alias, and its items are no lists.
    fn merged(&mut self, id: NodeId) -> Result<Vec<Entry>, Problem> {
        let maps = match &self.slots[id] {
            Slot::Node(Node { value: Value::List(maps), .. }) => maps.clone(),
            _ => vec![id],
        };
        let mut copies = Vec::new();
        for map in maps {
            let Node { place, value } = self.read(map);
            let Value::Map(entries) = value else {
                let text = "map merge requires map or sequence of maps as the value";
                return Err(self.problem(*place, text));
            };
            if self.copied + copies.len() + entries.len() > COPIED_MAX {
                let text = format!("the merge keys copy more than {COPIED_MAX} entries; write them out");
                return Err(self.problem(*place, &text));
            }
            copies.extend_from_slice(entries);
        }
        self.copied += copies.len();
        Ok(copies)
    }

    fn key(&self, at: Place, id: NodeId) -> Result<String, Problem> {
        match &self.read(id).value {
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

/// The entries of a map.
#[derive(Default)]
struct Entries {
    all: Vec<Entry>,
    /// The keys, if there are more than [`SEARCHED_MAX`].
    keys: BTreeSet<String>,
}

impl Entries {
    /// Adds an entry, or returns it if its key is there: repeated merges would otherwise multiply entries.
    fn enter(&mut self, entry: Entry) -> Option<Entry> {
        let is_there = match self.all.len() {
            ..=SEARCHED_MAX => self.all.iter().any(|other| other.key == entry.key),
            _ => self.keys.contains(&entry.key),
        };
        if is_there {
            return Some(entry);
        }
        if self.all.len() == SEARCHED_MAX {
            self.keys = self.all.iter().map(|it| it.key.clone()).collect();
        }
        if self.all.len() >= SEARCHED_MAX {
            self.keys.insert(entry.key.clone());
        }
        self.all.push(entry);
        None
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
