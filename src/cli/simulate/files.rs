//! Files of objects, as people and kubectl write them: what they hold, in order, and whence each object came.
//!
//! Judges no object beyond its having a kind. Texts are kept, so that an error found later can name its line.

use super::input::{InputLimit, Opened, listed};
use super::packed::{Held, Packed};
use super::place;
use super::schema::{UnknownField, unknown_fields};
use crate::cli::cluster::complain;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Read;
use std::path::Path;

/// Unknown fields of one file that are reported one by one; a file of a newer Kubernetes has many of the same.
const REPORTED: usize = 10;

/// Flags or files that cannot be taken, in words for the person who wrote them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InputError(pub String);

/// Something wrong with an object: in which field, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Wrong {
    /// The field's path; empty for the object itself.
    pub(in crate::cli) path: String,
    /// What is wrong, and what was expected.
    pub(in crate::cli) message: String,
}

impl Wrong {
    pub(in crate::cli) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

/// Whence an object came. By default from no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Origin {
    file: usize,
    /// Which object of the file.
    at: usize,
    /// Where in that object the fields of this one stand: for a pod of a template, `spec.template.`.
    prefix: &'static str,
}

impl Default for Origin {
    fn default() -> Self {
        Self { file: usize::MAX, at: 0, prefix: "" }
    }
}

impl Origin {
    /// The origin of something made of a part of the object.
    pub(in crate::cli) fn within(self, prefix: &'static str) -> Self {
        Self { prefix, ..self }
    }
}

/// An object and whence it came.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Item {
    /// As a tree; null where it is held as text.
    pub(in crate::cli) value: Value,
    pub(in crate::cli) origin: Origin,
    packed: Option<Box<Packed>>,
}

impl Item {
    pub(in crate::cli) fn new(value: Value, origin: Origin) -> Self {
        Self { value, origin, packed: None }
    }

    fn held(held: Held, origin: Origin) -> Self {
        match held {
            Held::Tree(value) => Self::new(value, origin),
            Held::Packed(packed) => Self { value: Value::Null, origin, packed: Some(packed) },
        }
    }

    /// Whether it is held as text. Then nothing but who it is can be asked of it.
    pub(in crate::cli) fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// The fields that its kind does not have.
    fn unknown_fields(&self) -> Vec<UnknownField> {
        self.packed.as_ref().map_or_else(|| unknown_fields(&self.value), |packed| packed.unknown.to_vec())
    }

    /// It as a tree.
    pub(in crate::cli) fn unpacked(self) -> Self {
        match self.packed {
            Some(packed) => Self::new(packed.unpacked(), self.origin),
            None => self,
        }
    }

    pub(in crate::cli) fn text(&self, path: &str) -> &str {
        self.packed.as_ref().map_or_else(|| text_at(&self.value, path), |packed| packed.text_at(path))
    }

    /// `namespace/name`, or the name of what is in no namespace.
    pub(in crate::cli) fn key(&self) -> String {
        let (namespace, name) = (self.namespace(), self.name());
        if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
    }

    pub(in crate::cli) fn kind(&self) -> &str {
        self.text("/kind")
    }

    pub(in crate::cli) fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    pub(in crate::cli) fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }
}

/// A text within a value; empty when it is absent or none.
pub(in crate::cli) fn text_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The files read so far.
#[derive(Default)]
pub(in crate::cli) struct Files {
    /// Names and texts; of large files no text, so that of an object that is wrong only its number can be told.
    files: Vec<(String, String)>,
    limit: InputLimit,
    is_strict: bool,
}

impl Files {
    /// Takes no file that is larger.
    pub(in crate::cli) fn within(limit: InputLimit) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Refuses what is otherwise only warned about: files without objects, and fields that a kind does not have.
    pub(in crate::cli) fn strictly(self, is_strict: bool) -> Self {
        Self { is_strict, ..self }
    }

    /// Reads a file, those of a directory, or what `stdin` gives for `-`, and takes their objects apart.
    pub(in crate::cli) fn read(
        &mut self,
        path: &Path,
        stdin: &mut dyn Read,
    ) -> Result<Vec<Item>, InputError> {
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
            return Err(InputError("-: standard input can be read once only; name it once".to_owned()));
        }
        let opened =
            Opened::of(path, stdin, self.limit).map_err(|why| InputError(format!("{name}: {why}")))?;
        let bytes = match opened {
            Opened::Small(bytes) => bytes,
            Opened::Large(values) => return self.keep(name, String::new(), values),
        };
        let text = String::from_utf8(bytes).map_err(|error| {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + good.iter().filter(|&&byte| byte == b'\n').count();
            let column = 1 + good.iter().rev().take_while(|&&byte| byte != b'\n').count();
            InputError(format!("{name}:{line}:{column}: expected YAML or JSON in UTF-8"))
        })?;
        let values = values(&text).map_err(|(line, column, what)| {
            InputError(format!("{name}:{line}:{column}: expected YAML or JSON: {what}"))
        })?;
        self.keep(name, text, values.into_iter().map(Held::Tree).collect())
    }

    /// Keeps the text, which is empty where the file was too large for that, and gives each object its origin.
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
        self.judge_fields(&items)?;
        Ok(items)
    }

    /// Reports the fields that no object of that kind has: an API server drops them, and so does every command.
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
            complain(&format!("warning: and {} more unknown fields", unknown - REPORTED));
        }
        Ok(())
    }

    /// Something that was hardly meant: an error where that is wanted, else a line on standard error.
    fn doubt(&self, text: String) -> Result<(), InputError> {
        if self.is_strict {
            return Err(InputError(text));
        }
        complain(&format!("warning: {text}"));
        Ok(())
    }

    /// Whether an object came from one of them.
    pub(in crate::cli) fn has(&self, origin: Origin) -> bool {
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
                let message = format!("expected {field} to be a text, {example}");
                return Err(self.error(item.origin, &Wrong::new(field, message)));
            }
        }
        Ok(())
    }

    /// The error with the place it is at.
    pub(in crate::cli) fn error(&self, origin: Origin, wrong: &Wrong) -> InputError {
        let field =
            if wrong.path.is_empty() { String::new() } else { format!("{}{}", origin.prefix, wrong.path) };
        InputError(format!("{}: {}", self.place(origin, &field), wrong.message))
    }

    /// `file:line:column` of a field of an object.
    pub(in crate::cli) fn place(&self, origin: Origin, path: &str) -> String {
        // What an API server listed is in no file.
        let Some((name, text)) = self.files.get(origin.file) else { return "the cluster".to_owned() };
        match place::find(text, origin.at, path) {
            Some(place) => format!("{name}:{}:{}", place.line, place.column),
            None => format!("{name}: object {}", origin.at + 1),
        }
    }
}

/// Counts of what was skipped, to tell of them at once.
#[derive(Default)]
pub(in crate::cli) struct Skipped(BTreeMap<String, usize>);

impl Skipped {
    pub(in crate::cli) fn add(&mut self, item: &Item) {
        *self.0.entry(format!("{} {}", item.text("/apiVersion"), item.kind())).or_default() += 1;
    }

    /// One line for people; none when nothing was skipped.
    pub(in crate::cli) fn told(&self) -> Option<String> {
        let total: usize = self.0.values().sum();
        let kinds: Vec<String> = self.0.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let objects = if total == 1 { "object" } else { "objects" };
        (total > 0)
            .then(|| format!("skipped {total} {objects} of kinds that have no say: {}", kinds.join(", ")))
    }
}

/// The objects of a text, items of lists for themselves; or line, column and what is wrong there.
pub(super) fn values(text: &str) -> Result<Vec<Value>, (u64, u64, String)> {
    if let Some(listed) = json_list(text) {
        return Ok(listed);
    }
    let documents: Vec<Value> = if is_json(text) {
        let read: Result<_, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
        read.map_err(|error| {
            (error.line() as u64, error.column() as u64, without_place(&error, " at line "))
        })?
    } else {
        serde_saphyr::from_multiple_with_options(text, yaml_options()).map_err(|error| {
            let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
            (line, column, without_place(error.without_snippet(), " at line "))
        })?
    };
    Ok(documents.into_iter().filter(|document| !document.is_null()).flat_map(items).collect())
}

/// Whether a text holds nothing but blank lines, remarks and marks between documents.
fn is_blank(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .all(|line| line.is_empty() || line.starts_with('#') || matches!(line, "---" | "..."))
}

fn without_place(error: &dyn Display, from: &str) -> String {
    let text = error.to_string();
    text.rsplit_once(from).map_or(text.as_str(), |(text, _)| text).to_owned()
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// Start and text of each document of a JSON stream; `None` for a text that is none.
pub(in crate::cli) fn json_documents(text: &str) -> Option<Vec<(usize, &str)>> {
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

/// A list as kubectl prints it in JSON, as far as it is a list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonList<'t> {
    kind: Option<String>,
    api_version: Option<String>,
    #[serde(borrow)]
    items: Vec<&'t RawValue>,
}

/// The objects of a text that is one list in JSON, read one by one: a dump of a whole cluster is many times as large as what is read of it.
/// `None` for any other text, and for one with something wrong, which is told by whoever reads it whole.
fn json_list(text: &str) -> Option<Vec<Value>> {
    let list: JsonList<'_> = serde_json::from_str(text).ok().filter(|_| is_json(text))?;
    let each = list.items.iter().map(|raw| {
        let mut value: Value = serde_json::from_str(raw.get()).ok()?;
        leave_out_what_nobody_reads(&mut value);
        Some(value)
    });
    let values: Vec<Value> = each.collect::<Option<_>>()?;
    let mut document = Map::new();
    document.extend(list.kind.map(|kind| ("kind".to_owned(), kind.into())));
    document.extend(list.api_version.map(|version| ("apiVersion".to_owned(), version.into())));
    document.insert("items".to_owned(), Value::Array(values));
    Some(items(Value::Object(document)))
}

/// Fields of containers that only a kubelet reads.
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

/// Sorts of volumes that a kubelet mounts and no decision asks for; that a pod has one may be of interest, what is in it is not.
const MOUNTED: [&str; 6] = ["projected", "configMap", "secret", "downwardAPI", "emptyDir", "hostPath"];
/// Fields of the status of containers that are read: what a container has while it is resized.
const OF_STATUSES: [&str; 3] = ["name", "resources", "allocatedResources"];

/// Conditions that are read, all of them of pods.
const CONDITIONS: [&str; 3] = ["DisruptionTarget", "PodScheduled", "PodResizePending"];

/// Drops what is large, and read neither by the scheduler nor by admission.
pub(in crate::cli) fn leave_out_what_nobody_reads(object: &mut Value) {
    let mut without = |place: &str, unread: &[&str]| {
        let fields = object.pointer_mut(place).and_then(Value::as_object_mut);
        fields.into_iter().for_each(|fields| fields.retain(|field, _| !unread.contains(&field.as_str())));
    };
    without("/metadata", &["managedFields"]);
    without("/status", &["addresses", "nodeInfo", "volumesInUse", "volumesAttached", "hostIPs", "podIPs"]);
    // Of others, some ask whether they have ended.
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

/// The items of a list (`v1 List`, `v1 PodList`, ...) or the object itself.
pub(in crate::cli) fn items(document: Value) -> Vec<Value> {
    let Value::Object(mut fields) = document else { return vec![document] };
    if !fields.get("items").is_some_and(Value::is_array) {
        return vec![Value::Object(fields)];
    }
    let kind = fields.get("kind").and_then(Value::as_str).and_then(|kind| kind.strip_suffix("List"));
    let kind = kind.filter(|kind| !kind.is_empty()).map(str::to_owned);
    let api_version = fields.get("apiVersion").cloned();
    let Some(Value::Array(mut items)) = fields.remove("items") else { return Vec::new() };
    // The API server names the kind of the items of a typed list only once, at the list.
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        if let (Some(kind), Some(api_version)) = (&kind, &api_version) {
            item.entry("kind").or_insert_with(|| kind.as_str().into());
            item.entry("apiVersion").or_insert_with(|| api_version.clone());
        }
    }
    items
}

/// The YAML reader's limits guard against hostile documents; a file of a whole cluster is large and the operator's own.
/// Limits on aliases stay.
pub(in crate::cli) fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: usize::MAX,
            max_nodes: usize::MAX,
            max_events: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
        },
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
    }
}
