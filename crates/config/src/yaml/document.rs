//! A YAML or JSON document as a tree with positions. `decode` converts it into types, and `into_json` into JSON.

use crate::yaml::field::{Place, Problem};
use crate::yaml::reader;
use serde_json::{Map, Number};

/// Nesting depth of a JSON tree, with aliases expanded: the parser's limit for what is written.
const DEPTH_MAX: usize = 255;
/// Number of nodes that aliases may add to a JSON tree: a limit against texts that expand exponentially.
const ALIASED_MAX: u64 = 1_000_000;

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

/// Index of a node or of an alias.
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

/// What a [`NodeId`] stands for.
#[derive(Clone, Debug)]
pub(super) enum Slot {
    Node(Node),
    /// The position of an alias, and the node that it repeats.
    Alias(Place, NodeId),
}

/// A document.
#[derive(Clone, Debug)]
pub struct Document {
    /// Children precede their parents, and nodes precede their aliases.
    slots: Vec<Slot>,
    root: NodeId,
    /// Whether the text has anchors: then a node may be needed several times, by aliases and merge keys.
    has_anchors: bool,
}

/// The positions of a field; see [`Document::locate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// The field's key, or the list's item; `None` for the start of the path.
    pub key: Option<Place>,
    /// The field's value.
    pub value: Place,
}

impl Document {
    pub(super) fn new(slots: Vec<Slot>, root: NodeId, has_anchors: bool) -> Self {
        Self { slots, root, has_anchors }
    }

    /// Parses the first document of a configuration, strictly: kube-scheduler ignores the others.
    ///
    /// # Errors
    /// Fails if the text is not YAML, or a map repeats a key.
    pub fn read(text: &str) -> Result<Self, Vec<Problem>> {
        if text.trim_start().starts_with('{') {
            // Upstream parses such a text as JSON only.
            serde_json::from_str::<serde::de::IgnoredAny>(text)
                .map_err(|error| vec![json_problem(&error)])?;
        }
        reader::first(text)
    }

    /// Parses all documents of a text of Kubernetes objects. A key beside a merge key `<<` overrides the merged one.
    ///
    /// # Errors
    /// Fails if the text is not YAML, or a map repeats a key. There is one problem, the first.
    pub fn read_all(text: &str) -> Result<Vec<Self>, Problem> {
        reader::all(text, Ok)
    }

    /// Returns the root node.
    pub fn root(&self) -> NodeId {
        self.root
    }

    /// Returns a node.
    pub fn node(&self, id: NodeId) -> &Node {
        match &self.slots[id] {
            Slot::Node(node) => node,
            Slot::Alias(_, id) => self.node(*id),
        }
    }

    /// Returns the position of a node, or of the alias that stands for it.
    fn place(&self, id: NodeId) -> Place {
        match &self.slots[id] {
            Slot::Node(node) => node.place,
            Slot::Alias(place, _) => *place,
        }
    }

    /// Returns the value of a key, if the node is a map with this key.
    pub fn get(&self, id: NodeId, key: &str) -> Option<&Node> {
        self.child(id, key).map(|id| self.node(id))
    }

    /// Returns the index of the value of a key, if the node is a map with this key.
    pub fn child(&self, id: NodeId, key: &str) -> Option<NodeId> {
        let Value::Map(entries) = &self.node(id).value else { return None };
        entries.iter().find(|entry| entry.key == key).map(|entry| entry.value)
    }

    /// Returns the number of nodes with all aliases expanded.
    pub fn weight(&self) -> u64 {
        let mut weights: Vec<u64> = Vec::with_capacity(self.slots.len());
        for slot in &self.slots {
            let of = |&id: &NodeId| weights.get(id).copied().unwrap_or(1);
            let weight = match slot {
                Slot::Alias(_, id) => of(id),
                Slot::Node(Node { value: Value::List(items), .. }) => {
                    items.iter().map(of).fold(1, u64::saturating_add)
                }
                Slot::Node(Node { value: Value::Map(entries), .. }) => {
                    entries.iter().map(|it| of(&it.value)).fold(1, u64::saturating_add)
                }
                Slot::Node(_) => 1,
            };
            weights.push(weight);
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

    /// Returns the position of the key of a field. If the path leads beyond the document, returns the position of the
    /// last existing part.
    pub fn find(&self, path: &str) -> Option<Place> {
        self.locate(self.root, path).key
    }

    /// Follows a path such as `spec.containers[1].resources.requests[cpu]` from a node, as far as it exists. Keys may
    /// contain dots.
    pub fn locate(&self, from: NodeId, path: &str) -> Located {
        let mut found = Located { key: None, value: self.place(from) };
        let (mut here, mut rest) = (from, path);
        while !rest.is_empty() {
            let step = rest.trim_start_matches('.');
            let next = match &self.node(here).value {
                Value::Map(entries) => step_into_map(entries, step),
                Value::List(items) => {
                    step_into_list(items, step).map(|(id, rest)| (self.place(id), id, rest))
                }
                _ => None,
            };
            let Some((key, id, after)) = next else { break };
            found = Located { key: Some(key), value: self.place(id) };
            (here, rest) = (id, after);
        }
        found
    }

    /// Converts the document into JSON.
    ///
    /// # Errors
    /// Fails if it has a number that JSON lacks, or becomes too large or too deep when its aliases are expanded.
    pub fn into_json(mut self) -> Result<serde_json::Value, Problem> {
        if self.weight().saturating_sub(self.slots.len() as u64) > ALIASED_MAX {
            let text = format!("the aliases repeat more than {ALIASED_MAX} values; write them out");
            return Err(Problem::new("", text).at(self.place(self.root)));
        }
        self.json(self.root, 0)
    }

    fn json(&mut self, id: NodeId, depth: usize) -> Result<serde_json::Value, Problem> {
        let place = self.place(id);
        let problem = |text: String| Problem::new("", text).at(place);
        if depth > DEPTH_MAX {
            return Err(problem(format!("nested more than {DEPTH_MAX} levels deep")));
        }
        Ok(match self.take(id) {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => value.into(),
            Value::Int(number) => Number::from_i128(number).map_or(serde_json::Value::Null, Into::into),
            // As kubectl converts it: 1e3 is the integer 1000.
            Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => (number as i64).into(),
            Value::Float(number) => {
                let json = Number::from_f64(number);
                json.ok_or_else(|| problem(format!("{number} is not a number in JSON")))?.into()
            }
            Value::Text(text) => text.into(),
            Value::List(items) => {
                let items = items.into_iter().map(|id| self.json(id, depth + 1));
                items.collect::<Result<Vec<_>, _>>()?.into()
            }
            Value::Map(entries) => {
                let fields = entries.into_iter().map(|it| Ok((it.key, self.json(it.value, depth + 1)?)));
                fields.collect::<Result<Map<_, _>, Problem>>()?.into()
            }
        })
    }

    /// Returns a value for conversion. Texts are moved if each node is needed once, which halves the memory.
    fn take(&mut self, id: NodeId) -> Value {
        match &mut self.slots[id] {
            Slot::Node(node) if self.has_anchors => node.value.clone(),
            Slot::Node(node) => std::mem::replace(&mut node.value, Value::Null),
            &mut Slot::Alias(_, id) => self.take(id),
        }
    }
}

fn step_into_map<'p>(entries: &[Entry], step: &'p str) -> Option<(Place, NodeId, &'p str)> {
    let ends = |rest: &&str| rest.is_empty() || rest.starts_with(['.', '[', ']']);
    let bare = step.strip_prefix('[').unwrap_or(step);
    let matching = entries.iter().filter_map(|entry| {
        let after = bare.strip_prefix(entry.key.as_str()).filter(ends)?;
        Some((entry, after.trim_start_matches(']')))
    });
    let (entry, after) = matching.max_by_key(|(entry, _)| entry.key.len())?;
    Some((entry.place, entry.value, after))
}

fn step_into_list<'p>(items: &[NodeId], step: &'p str) -> Option<(NodeId, &'p str)> {
    let (index, after) = step.strip_prefix('[')?.split_once(']')?;
    Some((*items.get(index.parse::<usize>().ok()?)?, after))
}

/// Parses all documents of a text of Kubernetes objects and converts them into JSON.
///
/// # Errors
/// See [`Document::read_all`] and [`Document::into_json`].
pub fn values(text: &str) -> Result<Vec<serde_json::Value>, Problem> {
    reader::all(text, Document::into_json)
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
        assert!(document.weight() > 10_u64.pow(18) && document.slots.len() < 1_000);
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

    #[test]
    fn all_documents_of_objects_convert_to_json_as_kubectl_does() {
        let text = "a: 010\nb: 1e3\nc: 1.5\nd: off\ne: 2024-01-01\n1: x\n---\n--- [~, 1_000, \"1\"]\n...\n---\n{f: 18446744073709551615}\n";
        let expected = [
            serde_json::json!({"a": 8, "b": 1000, "c": 1.5, "d": false, "e": "2024-01-01", "1": "x"}),
            serde_json::Value::Null,
            serde_json::json!([null, 1000, "1"]),
            serde_json::json!({"f": u64::MAX}),
        ];
        assert_eq!(values(text).expect("it is YAML"), expected);
        assert_eq!(values("# a comment\n").expect("it is YAML"), [] as [serde_json::Value; 0]);
    }

    #[test]
    fn key_of_an_object_overrides_a_merged_one_and_no_other() {
        let text = "- &a {x: 1, y y: 2}\n- &b {x: 3, z: 4}\n- {<<: [*a, *b], z: 5}\n- {z: 6, <<: *b}\n";
        let expected = serde_json::json!([{"x": 1, "y y": 2}, {"x": 3, "z": 4}, {"x": 1, "y y": 2, "z": 5}, {"x": 3, "z": 6}]);
        assert_eq!(values(text).expect("it is YAML"), [expected]);
        let many: String = (0..100).map(|at| format!("k{at}: 1\n")).collect();
        for repeated in ["k3", "k16", "k17", "k99"] {
            let problem = values(&format!("{many}{repeated}: 2\n")).expect_err("it is repeated");
            assert_eq!(problem.to_string(), format!("101:1: {repeated}: duplicate mapping key: {repeated}"));
        }
    }

    /// As Go's decoder has it. Nested lists would multiply the entries at each level.
    #[test]
    fn only_maps_are_merged_and_only_so_many() {
        let wrong = "map merge requires map or sequence of maps as the value";
        for text in [
            "a: &a {x: 1}\nb: {<<: [[*a]]}\n",
            "a: &a [{x: 1}]\nb: {<<: *a}\n",
            "a: &a [{x: 1}]\nb: {<<: [*a]}\n",
            "b: {<<: 1}\n",
        ] {
            let problem = values(text).expect_err("it is no map").to_string();
            assert!(problem.ends_with(wrong), "{text}: {problem}");
            assert!(
                Document::read(text).expect_err("it is no map")[0].to_string().ends_with(wrong),
                "{text}"
            );
        }
        let keys: String = (0..1_000).map(|at| format!("  k{at}: 1\n")).collect();
        let merging = |times: usize| format!("a: &a\n{keys}b: {{<<: [{}]}}\n", vec!["*a"; times].join(", "));
        assert_eq!(values(&merging(100)).expect("it is at the limit")[0]["b"]["k7"], 1);
        let problem = values(&merging(101)).expect_err("it is above the limit").to_string();
        assert!(
            problem.ends_with("the merge keys copy more than 100000 entries; write them out"),
            "{problem}"
        );
        let own = |at: usize| format!("m{at}: {{<<: *a}}\n");
        let maps: String = (0..101).map(own).collect();
        values(&format!("a: &a\n{keys}{maps}")).expect_err("the limit is that of the text");
        Document::read(&format!("a: &a\n{keys}{maps}")).expect_err("the limit is that of the text");
    }

    #[test]
    fn problem_of_any_document_has_its_position() {
        for (text, expected) in [
            ("a: 1\n---\nb: [\n", "3:4: unclosed bracket '['"),
            ("a: 1\n---\nb: *x\n", "3:4: while parsing node, found unknown anchor"),
            ("a: 1\n---\nb: .inf\n", "3:4: inf is not a number in JSON"),
            ("&a x: 1\n---\nb: *a\n", "3:4: while parsing node, found unknown anchor"),
        ] {
            assert_eq!(values(text).expect_err("it is wrong").to_string(), expected, "{text}");
        }
    }

    #[test]
    fn aliases_that_expand_too_far_or_too_deep_are_rejected() {
        let levels = |last: usize, of: &dyn Fn(usize) -> String| -> String {
            std::iter::once("a0: &a0 [x]\n".to_owned()).chain((1..last).map(of)).collect()
        };
        let wide =
            levels(20, &|at| format!("a{at}: &a{at} [{}]\n", vec![format!("*a{}", at - 1); 10].join(", ")));
        let problem = values(&wide).expect_err("it is exponential").to_string();
        assert_eq!(problem, "1:1: the aliases repeat more than 1000000 values; write them out");
        let deep = levels(1_000, &|at| format!("a{at}: &a{at} [*a{}]\n", at - 1));
        let problem = values(&deep).expect_err("it is a chain").to_string();
        assert!(problem.ends_with(": nested more than 255 levels deep"), "{problem}");
        assert!(values(&levels(200, &|at| format!("a{at}: &a{at} [*a{}]\n", at - 1))).is_ok());
    }

    #[test]
    fn located_alias_has_its_own_position() {
        let document = Document::read("a: &x {k: 1}\nb: [*x]\nc.d: 2\n").expect("it is YAML");
        let at = |path: &str| {
            let Located { key, value } = document.locate(document.root(), path);
            (key.map(|key| (key.line, key.column)), (value.line, value.column))
        };
        assert_eq!(at("b[0]"), (Some((2, 5)), (2, 5)));
        assert_eq!(at("b[0].k"), (Some((1, 8)), (1, 11)));
        assert_eq!(at("c.d"), (Some((3, 1)), (3, 6)));
        assert_eq!(at("[c.d]"), at("c.d"));
        assert_eq!(at("missing"), (None, (1, 1)));
    }
}
