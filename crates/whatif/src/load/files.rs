//! Reads files of Kubernetes objects as people and kubectl write them: their objects in order, each with its origin.
//!
//! Checks only that each object has an apiVersion and a kind. The file text is kept, so that a later error can name
//! its line.

use crate::explain::format::count;
use crate::load::input::{InputLimit, Opened, listed};
use crate::load::owner::Owner;
use crate::load::packed::{Held, Packed, name_kind};
use crate::load::schema::{UnknownField, meant_kind, unknown_fields};
use crate::load::stream::Bad;
use crate::load::{json_stream, position};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use supercargo_config::yaml;

/// Maximum number of unknown fields reported per file; a file for a newer Kubernetes version may have many.
const REPORTED: usize = 10;

/// Invalid flags or files, with a message for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InputError(pub String);

/// An invalid object: the field and the problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The path of the field; empty for the object itself.
    pub path: String,
    /// What is wrong and what was expected.
    pub message: String,
}

impl Wrong {
    /// Returns the error about the field at `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

/// The place an object was read from. The default is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    file: usize,
    /// Index of the object in the file.
    at: usize,
    /// Path prefix of this object within that one: `spec.template.` for a pod from a pod template.
    prefix: &'static str,
}

impl Default for Origin {
    fn default() -> Self {
        Self { file: usize::MAX, at: 0, prefix: "" }
    }
}

impl Origin {
    /// Returns the origin of a part of the object, at this path prefix.
    pub fn within(self, prefix: &'static str) -> Self {
        Self { prefix, ..self }
    }
}

/// An object with its origin.
#[derive(Clone, Debug)]
pub struct Item {
    /// The object as a JSON tree; null while it is held as text.
    pub value: Value,
    /// Where it was read.
    pub origin: Origin,
    packed: Option<Box<Packed>>,
}

impl Item {
    /// Returns an object held as a tree.
    pub fn new(value: Value, origin: Origin) -> Self {
        Self { value, origin, packed: None }
    }

    fn held(held: Held, origin: Origin) -> Self {
        match held {
            Held::Tree(value) => Self::new(value, origin),
            Held::Packed(packed) => Self { value: Value::Null, origin, packed: Some(packed) },
        }
    }

    /// Returns whether the object is held as text. Then only its kind, namespace and name can be read.
    pub fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// Returns the fields that its kind does not have.
    fn unknown_fields(&self) -> Vec<UnknownField> {
        self.packed.as_ref().map_or_else(|| unknown_fields(&self.value), |packed| packed.unknown.to_vec())
    }

    /// Returns the object as a tree.
    pub fn unpacked(self) -> Self {
        match self.packed {
            Some(packed) => Self::new(packed.unpacked(), self.origin),
            None => self,
        }
    }

    /// Returns the string at a JSON pointer; empty if there is none.
    pub fn text(&self, path: &str) -> &str {
        self.packed.as_ref().map_or_else(|| text_at(&self.value, path), |packed| packed.text_at(path))
    }

    /// Returns `namespace/name`, or only the name for a cluster-scoped object.
    pub fn key(&self) -> String {
        let (namespace, name) = (self.namespace(), self.name());
        if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
    }

    /// Returns the controller that owns the object.
    pub fn owner(&self) -> Option<Owner> {
        self.packed.as_ref().map_or_else(|| Owner::of(&self.value), |packed| packed.owner.clone())
    }

    /// Returns `kind`.
    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    /// Returns `metadata.name`.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// Returns `metadata.namespace`.
    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }
}

/// Returns the string at a JSON pointer; empty if absent or not a string.
pub fn text_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// All files read so far.
pub struct Files {
    /// File names and texts. The text of a large file is empty; errors then name the object's number instead of its
    /// line.
    files: Vec<(String, String)>,
    limit: InputLimit,
    is_strict: bool,
    /// Prints a warning.
    warn: fn(&str),
}

impl Files {
    /// Reads files up to this size. `warn` prints warnings, one line each.
    pub fn within(limit: InputLimit, warn: fn(&str)) -> Self {
        Self { files: Vec::new(), limit, is_strict: false, warn }
    }

    /// Sets whether empty files, unknown fields and unknown versions of known kinds are errors instead of warnings.
    pub fn strictly(self, is_strict: bool) -> Self {
        Self { is_strict, ..self }
    }

    /// Reads the objects of a file, of the files in a directory, or of `stdin` for `-`.
    ///
    /// # Errors
    /// Fails if a file cannot be read, is too large, or is not YAML or JSON with objects.
    pub fn read(&mut self, path: &Path, stdin: &mut dyn Read) -> Result<Vec<Item>, InputError> {
        let mut all = Vec::new();
        for path in listed(path).map_err(|why| InputError(format!("{}: {why}", path.display())))? {
            all.extend(self.read_file(&path, stdin)?);
        }
        Ok(all)
    }

    fn read_file(&mut self, path: &Path, stdin: &mut dyn Read) -> Result<Vec<Item>, InputError> {
        let is_stdin = path.as_os_str() == "-";
        let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
        if is_stdin && self.files.iter().any(|(other, _)| *other == name) {
            return Err(InputError("-: standard input can be read only once; pass it only once".to_owned()));
        }
        let opened = Opened::of(path, stdin, self.limit);
        self.take(name, opened)
    }

    /// Reads the objects of a stream, which messages call `name`. A large stream is read in pieces.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_from(&mut self, name: &str, from: &mut dyn Read) -> Result<Vec<Item>, InputError> {
        let opened = Opened::of_reader(from, self.limit);
        self.take(name.to_owned(), opened)
    }

    fn take(&mut self, name: String, opened: Result<Opened, String>) -> Result<Vec<Item>, InputError> {
        let bytes = match opened.map_err(|why| InputError(format!("{name}: {why}")))? {
            Opened::Small(bytes) => bytes,
            Opened::Large(values) => return self.keep(name, String::new(), values),
        };
        let text = String::from_utf8(bytes).map_err(|error| {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + good.iter().filter(|&&byte| byte == b'\n').count();
            let column = 1 + good.iter().rev().take_while(|&&byte| byte != b'\n').count();
            InputError(format!("{name}:{line}:{column}: expected YAML or JSON in UTF-8"))
        })?;
        let values = values(&text).map_err(|bad| match bad {
            Bad::Text(line, column, what) => {
                InputError(format!("{name}:{line}:{column}: expected YAML or JSON: {what}"))
            }
            Bad::Io(error) => InputError(format!("{name}: cannot be read: {error}; check the path")),
        })?;
        self.keep(name, text, values)
    }

    /// Stores the text, which is empty for large files, and gives each object its origin.
    fn keep(&mut self, name: String, text: String, values: Vec<Held>) -> Result<Vec<Item>, InputError> {
        if values.is_empty() && is_blank(&text) {
            self.doubt(format!("{name}: the file is empty; expected objects in YAML or JSON"))?;
        }
        let file = self.files.len();
        self.files.push((name, text));
        let items = values.into_iter().enumerate().map(|(at, held)| {
            let item = Item::held(held, Origin { file, at, prefix: "" });
            self.has_kind(&item)?;
            Ok(item)
        });
        let items: Vec<Item> = items.collect::<Result<_, _>>()?;
        self.judge_kinds(&items)?;
        self.judge_fields(&items)?;
        Ok(items)
    }

    /// Reports kinds that no command reads, but under another apiVersion or in another case: each once, at its first
    /// object.
    fn judge_kinds(&self, items: &[Item]) -> Result<(), InputError> {
        let mut seen: BTreeMap<(&str, &str), (Origin, usize)> = BTreeMap::new();
        // Only objects of known kinds are packed.
        for item in items.iter().filter(|item| !item.is_packed()) {
            let kind = (item.text("/apiVersion"), item.kind());
            seen.entry(kind).or_insert((item.origin, 0)).1 += 1;
        }
        let mut seen: Vec<_> = seen.into_iter().collect();
        seen.sort_by_key(|(_, (origin, _))| origin.at);
        for ((api_version, kind), (origin, number)) in seen {
            let Some(meant) = meant_kind(api_version, kind) else { continue };
            let field = if meant.eq_ignore_ascii_case(kind) { "kind" } else { "apiVersion" };
            let place = self.place(origin, field);
            let objects =
                if number == 1 { "this object is".to_owned() } else { format!("{number} objects are") };
            self.doubt(format!(
                "{place}: kind {kind} of {api_version} is not read, so {objects} ignored; did you mean {meant}?"
            ))?;
        }
        Ok(())
    }

    /// Reports fields that no object of the kind has. The API server drops them, and so does every command.
    fn judge_fields(&self, items: &[Item]) -> Result<(), InputError> {
        let mut unknown = 0;
        for item in items {
            for UnknownField { path, meant } in item.unknown_fields() {
                unknown += 1;
                if unknown > REPORTED {
                    continue;
                }
                let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
                let place = self.place(item.origin, &path);
                self.doubt(format!("{place}: {} has no field {path}, which is ignored{meant}", item.kind()))?;
            }
        }
        if unknown > REPORTED {
            (self.warn)(&format!("warning: and {} more unknown fields", unknown - REPORTED));
        }
        Ok(())
    }

    /// Reports a probable mistake: an error in strict mode, else a warning.
    fn doubt(&self, text: String) -> Result<(), InputError> {
        if self.is_strict {
            return Err(InputError(text));
        }
        (self.warn)(&format!("warning: {text}"));
        Ok(())
    }

    /// Returns whether an object came from one of these files.
    pub fn has(&self, origin: Origin) -> bool {
        origin.file < self.files.len()
    }

    fn has_kind(&self, item: &Item) -> Result<(), InputError> {
        let example = "for example \"apiVersion: v1\" and \"kind: Pod\"";
        if !item.is_packed() && !item.value.is_object() {
            let message = format!("expected an object with apiVersion and kind, {example}");
            return Err(self.error(item.origin, &Wrong::new("", message)));
        }
        for field in ["apiVersion", "kind"] {
            if item.text(&format!("/{field}")).is_empty() {
                let message = format!("expected {field} to be a string, {example}");
                return Err(self.error(item.origin, &Wrong::new(field, message)));
            }
        }
        Ok(())
    }

    /// Returns the error with the position of its field.
    pub fn error(&self, origin: Origin, wrong: &Wrong) -> InputError {
        let field =
            if wrong.path.is_empty() { String::new() } else { format!("{}{}", origin.prefix, wrong.path) };
        InputError(format!("{}: {}", self.place(origin, &field), wrong.message))
    }

    /// Returns `file:line:column` of a field of an object, or `the cluster` for an object from an API server.
    pub fn place(&self, origin: Origin, path: &str) -> String {
        // Objects listed by an API server have no file.
        let Some((name, text)) = self.files.get(origin.file) else { return "the cluster".to_owned() };
        match position::find(text, origin.at, path) {
            Some(place) => format!("{name}:{}:{}", place.line, place.column),
            None => format!("{name}: object {}", origin.at + 1),
        }
    }
}

/// Number of skipped objects by kind, for one summary message.
#[derive(Default)]
pub struct Skipped(BTreeMap<String, usize>);

impl Skipped {
    /// Counts a skipped object.
    pub fn add(&mut self, item: &Item) {
        *self.0.entry(format!("{} {}", item.text("/apiVersion"), item.kind())).or_default() += 1;
    }

    /// Returns the message, or `None` if nothing was skipped.
    pub fn message(&self) -> Option<String> {
        self.message_about("irrelevant to scheduling")
    }

    /// Returns the message, which says what the skipped objects are.
    pub fn message_about(&self, what: &str) -> Option<String> {
        let total: usize = self.0.values().sum();
        let kinds: Vec<String> = self.0.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
        let objects = count(total, "object");
        (total > 0).then(|| format!("skipped {objects} {what}: {}", kinds.join(", ")))
    }
}

/// Parses the objects of a small text, with lists split into their items.
///
/// # Errors
/// Line, column and message of the first syntax error.
pub(super) fn values(text: &str) -> Result<Vec<Held>, Bad> {
    if is_json(text) {
        return json_stream::trees(text);
    }
    let documents = yaml::values(text)?.into_iter().filter(|document| !document.is_null());
    Ok(documents.flat_map(items).map(Held::Tree).collect())
}

/// Returns whether a text has only blank lines, comments and document markers.
fn is_blank(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .all(|line| line.is_empty() || line.starts_with('#') || matches!(line, "---" | "..."))
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// Returns the start and text of each document of a JSON stream, or `None` if the text is not JSON.
pub fn json_documents(text: &str) -> Option<Vec<(usize, &str)>> {
    if !is_json(text) {
        return None;
    }
    let mut documents = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<&serde_json::value::RawValue>();
    while let Some(Ok(raw)) = stream.next() {
        let end = stream.byte_offset();
        documents.push((end - raw.get().len(), raw.get()));
    }
    Some(documents)
}

/// Container fields that only the kubelet reads.
const OF_CONTAINERS: [&str; 10] = [
    "env",
    "envFrom",
    "command",
    "args",
    "volumeMounts",
    "volumeDevices",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "securityContext",
];

/// Volume types that the kubelet mounts. Their presence may matter to scheduling; their content does not.
const MOUNTED: [&str; 6] = ["projected", "configMap", "secret", "downwardAPI", "emptyDir", "hostPath"];
/// Container status fields that are kept: the resources during an in-place resize.
const OF_STATUSES: [&str; 3] = ["name", "resources", "allocatedResources"];

/// Pod conditions that are kept.
const CONDITIONS: [&str; 4] = ["DisruptionTarget", "PodScheduled", "PodResizePending", "Ready"];

/// Removes large fields that neither the scheduler nor admission reads.
pub fn remove_unread_fields(object: &mut Value) {
    let mut without = |place: &str, unread: &[&str]| {
        let fields = object.pointer_mut(place).and_then(Value::as_object_mut);
        fields.into_iter().for_each(|fields| fields.retain(|field, _| !unread.contains(&field.as_str())));
    };
    without("/metadata", &["managedFields"]);
    without("/status", &["addresses", "nodeInfo", "volumesInUse", "volumesAttached", "hostIPs", "podIPs"]);
    // Conditions of other kinds, for example Jobs, say whether the object has finished.
    let is_pod_or_node =
        ["/spec/containers", "/status/allocatable"].iter().any(|part| object.pointer(part).is_some());
    let conditions = object.pointer_mut("/status/conditions").filter(|_| is_pod_or_node);
    if let Some(conditions) = conditions.and_then(Value::as_array_mut) {
        conditions.retain(|condition| CONDITIONS.contains(&text_at(condition, "/type")));
    }
    for list in ["/status/containerStatuses", "/status/initContainerStatuses"] {
        let statuses = object.pointer_mut(list).and_then(Value::as_array_mut);
        for status in statuses.into_iter().flatten().filter_map(Value::as_object_mut) {
            status.retain(|field, _| OF_STATUSES.contains(&field.as_str()));
        }
    }
    let volumes = object.pointer_mut("/spec/volumes").and_then(Value::as_array_mut);
    for volume in volumes.into_iter().flatten().filter_map(Value::as_object_mut) {
        for (_, content) in volume.iter_mut().filter(|(sort, _)| MOUNTED.contains(&sort.as_str())) {
            if content.is_object() {
                *content = Value::Object(Map::new());
            }
        }
    }
    for list in ["/spec/containers", "/spec/initContainers"] {
        let containers = object.pointer_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            container.retain(|field, _| !OF_CONTAINERS.contains(&field.as_str()));
        }
    }
}

/// Returns the items of a list (`v1 List`, `v1 PodList`, ...), or the object itself.
pub fn items(document: Value) -> Vec<Value> {
    let Value::Object(mut fields) = document else { return vec![document] };
    if !fields.get("items").is_some_and(Value::is_array) {
        return vec![Value::Object(fields)];
    }
    let Some(Value::Array(mut items)) = fields.remove("items") else { return Vec::new() };
    items.iter_mut().for_each(|item| name_kind(item, &fields));
    items
}
