//! Sorts the objects of all files into those that form the cluster and the pods to schedule, in order.

use crate::load::files::{Files, InputError, Item, Origin, Skipped, Wrong};
use crate::prepare::complete::Completer;
use crate::prepare::expand::device_claims::ClaimTemplates;
use crate::prepare::expand::{ephemeral_claims, is_workload};
use crate::prepare::identity::{default_namespace, derived_uid, identify, is_namespaced};
use crate::prepare::update::Updates;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use supercargo_objects::api::Object;

/// Kinds that admission, or a controller that makes claims, reads and the engine does not.
const ADMISSION: [(&str, &str); 4] = [
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("node.k8s.io/v1", "RuntimeClass"),
    ("v1", "LimitRange"),
    ("resource.k8s.io/v1", "ResourceClaimTemplate"),
];
/// A kind that both admission and the engine read.
const STORAGE_CLASS: &str = "StorageClass";

/// The sorted content of the files.
pub struct Inventory {
    /// Objects of the cluster that the engine reads, including pods on nodes.
    pub cluster: Vec<Item>,
    /// The pods to schedule, in order.
    pub pods: Vec<Item>,
    /// Pods that the manifests remove, by namespace and name.
    pub leaving: BTreeSet<(String, String)>,
    /// The objects that admission, and the controller of ResourceClaims, read: those of the cluster, as the manifests
    /// change them.
    pub admission: Vec<Item>,
    /// Messages about existing objects that the manifests change.
    pub changes: Vec<String>,
    /// Objects of kinds that do not affect scheduling.
    pub skipped: Skipped,
    /// Sets the defaults of objects held as text when they are loaded.
    pub whole: Whole,
}

/// Completes objects that are held as text.
#[derive(Default)]
pub struct Whole(Option<Completer>);

impl Whole {
    /// Returns the object as a tree, with the defaults an API server would set.
    pub fn of(&self, item: Item) -> Result<Item, Wrong> {
        if !item.is_packed() {
            return Ok(item);
        }
        let mut item = item.unpacked();
        if let Some(completer) = &self.0 {
            completer.complete(&mut item.value)?;
        }
        Ok(item)
    }
}

/// The pods and workloads to schedule, in addition to a cluster.
#[derive(Default)]
pub struct Given {
    /// The objects as written.
    pub items: Vec<Item>,
    /// Whether they are templates to copy instead of manifests to apply; existing objects then do not change them.
    pub are_templates: bool,
    /// Existing objects that the items may change or depend on; see
    /// [`Concern::among`](crate::prepare::update::Concern::among).
    pub existing: Vec<Item>,
}

/// Sorts objects into an [`Inventory`]; with `as_written`, no defaults are set.
///
/// # Errors
/// Fails if an object has no name, is defined twice, or cannot be expanded or completed.
pub fn gather(
    files: &Files,
    mut of_cluster: Vec<Item>,
    given: Given,
    as_written: bool,
) -> Result<Inventory, InputError> {
    let Given { items, are_templates, mut existing } = given;
    let mut of_pods: Vec<Item> = items.into_iter().map(Item::unpacked).collect();
    let mut kinds = Kinds::default();
    let mut skipped = Skipped::default();
    for (items, may_expand) in [(&mut of_cluster, false), (&mut of_pods, true)] {
        items.retain(|item| {
            let has_a_say = kinds.are_read(item) || (may_expand && is_workload(item));
            if !has_a_say {
                skipped.add(item);
            }
            has_a_say
        });
        for (at, item) in items.iter_mut().enumerate().filter(|(_, item)| !item.is_packed()) {
            if !as_written {
                default_namespace(item);
            }
            identify(item, at).map_err(|wrong| files.error(item.origin, &wrong))?;
        }
    }
    for (at, item) in existing.iter_mut().enumerate() {
        default_namespace(item);
        identify(item, at).map_err(|wrong| files.error(item.origin, &wrong))?;
    }
    let (mut seen, mut seen_given) = (SeenObjects::default(), SeenObjects::default());
    of_cluster.iter().try_for_each(|item| seen.add(files, item))?;
    of_pods.iter().try_for_each(|item| seen_given.add(files, item))?;
    let updates = if are_templates {
        // A template uses existing objects as they are.
        let is_there =
            |item: &Item| existing.iter().any(|it| SeenObjects::key_of(it) == SeenObjects::key_of(item));
        of_pods.retain(|item| item.kind() == "Pod" || is_workload(item) || !is_there(item));
        Updates::default()
    } else {
        Updates::plan(&existing, &mut of_pods)
    };
    existing.iter().chain(&of_pods).for_each(|item| seen.note(item));
    let mut cluster = of_cluster;
    let mut expansion =
        Expansion { files, are_templates, seen: &mut seen, cluster: &mut cluster, existing: &existing };
    let pods = expansion.pods_to_decide(&updates, of_pods)?;
    let Updates { leaving, notices: changes, .. } = updates;
    let whole = Whole::default();
    let admission = of_admission(&cluster, &existing);
    let mut inventory = Inventory { cluster, pods, leaving, admission, changes, skipped, whole };
    if !as_written {
        inventory.add_what_controllers_make(&mut seen);
        inventory.complete(files)?;
    }
    inventory.cluster.retain(|item| !is_admissions(item));
    Ok(inventory)
}

/// Returns the objects that admission reads, in the order of the cluster. A manifest replaces the object that it
/// changes. Those of a live cluster are among the existing objects only, if the engine reads them.
fn of_admission(cluster: &[Item], existing: &[Item]) -> Vec<Item> {
    let is_read =
        |item: &&Item| item.kind() == STORAGE_CLASS || ADMISSION.iter().any(|(_, kind)| *kind == item.kind());
    let mut positions: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut objects: Vec<&Item> = Vec::new();
    let of_cluster = cluster.iter().filter(is_read).map(|item| (item, true));
    let all = of_cluster.chain(existing.iter().filter(is_read).map(|item| (item, false)));
    for (item, replaces) in all {
        match positions.entry(SeenObjects::key_of(item)) {
            Entry::Occupied(at) if replaces => objects[*at.get()] = item,
            Entry::Occupied(_) => {}
            Entry::Vacant(free) => {
                free.insert(objects.len());
                objects.push(item);
            }
        }
    }
    objects.into_iter().map(|item| item.clone().unpacked()).collect()
}

/// Expands workloads into pods and adds their other objects to the cluster.
struct Expansion<'a> {
    files: &'a Files,
    /// Whether the pods may already exist, because they are templates to copy.
    are_templates: bool,
    seen: &'a mut SeenObjects,
    cluster: &'a mut Vec<Item>,
    existing: &'a [Item],
}

impl Expansion<'_> {
    /// Expands the workloads and returns the pods to schedule; all other objects join the cluster.
    fn pods_to_decide(&mut self, updates: &Updates, items: Vec<Item>) -> Result<Vec<Item>, InputError> {
        let nodes = self.nodes(&items);
        let mut pods = Vec::new();
        for item in items {
            if is_workload(&item) {
                let expanded = updates.expand(&item, &nodes);
                let expanded = expanded.map_err(|wrong| self.files.error(item.origin, &wrong))?;
                for pod in expanded.pods {
                    let place = (pod.namespace().to_owned(), pod.name().to_owned());
                    if self.are_templates || updates.leaving.contains(&place) {
                        self.seen.note(&pod);
                    } else {
                        self.seen.add(self.files, &pod)?;
                    }
                    pods.push(pod);
                }
                // Existing claims are reused, as a controller does.
                let objects = expanded.objects.into_iter();
                self.cluster.extend(objects.filter(|object| self.seen.is_new(object)));
            }
            match item.kind() {
                "Pod" => pods.push(item),
                "Deployment" | "DaemonSet" | "Job" | "CronJob" => {}
                _ => self.cluster.push(item),
            }
        }
        Ok(pods)
    }

    /// Returns all nodes in order if a DaemonSet needs them, else none.
    fn nodes(&self, items: &[Item]) -> Vec<Value> {
        if !items.iter().any(|item| item.kind() == "DaemonSet") {
            return Vec::new();
        }
        let is_node = |item: &&Item| item.kind() == "Node";
        let mut names = BTreeSet::new();
        let all = items.iter().chain(self.cluster.iter()).chain(self.existing).filter(is_node);
        let all = all.filter(|node| names.insert(node.name().to_owned()));
        all.map(|node| node.clone().unpacked().value).collect()
    }
}

impl Inventory {
    /// Adds the claims of ephemeral volumes and of ResourceClaimTemplates, and the namespaces that objects name but no
    /// file defines.
    fn add_what_controllers_make(&mut self, seen: &mut SeenObjects) {
        let templates = ClaimTemplates::of(&self.admission);
        let is_pending = |item: &&mut Item| {
            item.kind() == "Pod" && !item.is_packed() && item.text("/spec/nodeName").is_empty()
        };
        let pods = self.pods.iter_mut().chain(&mut self.cluster).filter(is_pending);
        let claims: Vec<Item> = pods.flat_map(|pod| templates.claims_for(pod)).collect();
        self.cluster.extend(claims.into_iter().filter(|claim| seen.is_new(claim)));
        let pending = self.pods.iter().filter(|pod| pod.text("/spec/nodeName").is_empty());
        let claims: Vec<Item> =
            pending.flat_map(ephemeral_claims).filter(|claim| seen.is_new(claim)).collect();
        self.cluster.extend(claims);
        let mut named: BTreeMap<String, Origin> = BTreeMap::new();
        for item in self.cluster.iter().chain(&self.pods).filter(|item| is_namespaced(item.kind())) {
            named.entry(item.namespace().to_owned()).or_insert(item.origin);
        }
        for (name, origin) in named {
            let uid = derived_uid("Namespace", "", &name);
            let value =
                json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "uid": uid } });
            let namespace = Item::new(value, origin);
            if seen.is_new(&namespace) {
                self.cluster.push(namespace);
            }
        }
    }

    fn complete(&mut self, files: &Files) -> Result<(), InputError> {
        let completer = Completer::new(&self.admission);
        let trees = self.cluster.iter_mut().chain(&mut self.pods).filter(|item| !item.is_packed());
        for item in trees {
            completer.complete(&mut item.value).map_err(|wrong| files.error(item.origin, &wrong))?;
        }
        self.whole = Whole(Some(completer));
        Ok(())
    }
}

/// Caches which kinds affect scheduling.
#[derive(Default)]
struct Kinds {
    read: BTreeMap<(String, String), bool>,
}

impl Kinds {
    /// Returns whether the engine or admission reads objects of this kind.
    fn are_read(&mut self, item: &Item) -> bool {
        let kind = (item.text("/apiVersion").to_owned(), item.kind().to_owned());
        *self.read.entry(kind).or_insert_with_key(|(api_version, kind)| {
            let empty = json!({ "apiVersion": api_version, "kind": kind });
            is_admissions(item) || Object::from_value(empty).is_ok()
        })
    }
}

fn is_admissions(item: &Item) -> bool {
    ADMISSION.contains(&(item.text("/apiVersion"), item.kind()))
}

/// The objects seen so far, with their origins.
#[derive(Default)]
struct SeenObjects {
    by_key: BTreeMap<(String, String), Origin>,
    made: BTreeSet<(String, String)>,
}

impl SeenObjects {
    fn key_of(item: &Item) -> (String, String) {
        (item.kind().to_owned(), item.key())
    }

    fn add(&mut self, files: &Files, item: &Item) -> Result<(), InputError> {
        let Some(first) = self.by_key.insert(Self::key_of(item), item.origin) else { return Ok(()) };
        let (kind, key) = Self::key_of(item);
        let (here, there) = (files.place(item.origin, "metadata.name"), files.place(first, "metadata.name"));
        Err(InputError(format!(
            "{here}: {kind} {key} is defined twice, first at {there}; define each object once"
        )))
    }

    /// Records that such an object exists.
    fn note(&mut self, item: &Item) {
        self.by_key.entry(Self::key_of(item)).or_insert(item.origin);
    }

    /// Returns whether a controller would have to create this object; records it as created.
    fn is_new(&mut self, item: &Item) -> bool {
        let key = Self::key_of(item);
        !self.by_key.contains_key(&key) && self.made.insert(key)
    }
}
