//! All objects of all files, sorted out: which make the cluster, and which pods are to be decided, in order.

use super::complete::Completer;
use super::expand::{self, ephemeral_claims, is_workload};
use super::files::{Files, InputError, Item, Origin, Skipped, Wrong};
use super::identity::{default_namespace, derived_uid, identify, is_namespaced};
use crate::api::Object;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Kinds that the engine does not read and admission does.
const ADMISSION: [(&str, &str); 3] =
    [("scheduling.k8s.io/v1", "PriorityClass"), ("node.k8s.io/v1", "RuntimeClass"), ("v1", "LimitRange")];

/// What the files hold.
pub(in crate::cli) struct Inventory {
    /// What the engine reads of the cluster, pods on nodes included.
    pub(in crate::cli) cluster: Vec<Item>,
    /// The pods to decide about, in order.
    pub(in crate::cli) pods: Vec<Item>,
    /// Objects that have no say.
    pub(in crate::cli) skipped: Skipped,
    /// Completes what is held as text of the cluster, as it is taken in.
    pub(in crate::cli) whole: Whole,
}

/// What makes an object whole that was held as text.
#[derive(Default)]
pub(in crate::cli) struct Whole(Option<Completer>);

impl Whole {
    /// The object as a tree, with what an API server would add.
    pub(in crate::cli) fn of(&self, item: Item) -> Result<Item, Wrong> {
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

/// Sorts out objects; `as_written` keeps them as they are.
pub(in crate::cli) fn gather(
    files: &Files,
    mut of_cluster: Vec<Item>,
    of_pods: Vec<Item>,
    as_written: bool,
) -> Result<Inventory, InputError> {
    let mut of_pods: Vec<Item> = of_pods.into_iter().map(Item::unpacked).collect();
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
    let mut seen = Seen::default();
    for item in of_cluster.iter().chain(&of_pods) {
        seen.add(files, item)?;
    }
    let mut cluster = of_cluster;
    let pods = pods_to_decide(files, &mut seen, &mut cluster, of_pods)?;
    let mut inventory = Inventory { cluster, pods, skipped, whole: Whole::default() };
    if !as_written {
        inventory.add_what_controllers_make(&mut seen);
        inventory.complete(files)?;
    }
    inventory.cluster.retain(|item| !is_admissions(item));
    Ok(inventory)
}

/// Takes workloads apart; what is no pod joins the cluster.
fn pods_to_decide(
    files: &Files,
    seen: &mut Seen,
    cluster: &mut Vec<Item>,
    items: Vec<Item>,
) -> Result<Vec<Item>, InputError> {
    // Who has a pod for each node asks for them, and nobody else does.
    let asks = items.iter().any(|item| item.kind() == "DaemonSet");
    let is_node = |item: &&Item| asks && item.kind() == "Node";
    let nodes: Vec<Value> =
        cluster.iter().chain(&items).filter(is_node).map(|node| node.clone().unpacked().value).collect();
    let mut pods = Vec::new();
    for item in items {
        if is_workload(&item) {
            let expanded = expand::expand(&item, &nodes).map_err(|wrong| files.error(item.origin, &wrong))?;
            for pod in expanded.pods {
                seen.add(files, &pod)?;
                pods.push(pod);
            }
            // A claim that is there already is used; a controller does not make it twice.
            cluster.extend(expanded.objects.into_iter().filter(|object| seen.is_new(object)));
        }
        match item.kind() {
            "Pod" => pods.push(item),
            "Deployment" | "DaemonSet" | "Job" | "CronJob" => {}
            _ => cluster.push(item),
        }
    }
    Ok(pods)
}

impl Inventory {
    /// Claims of ephemeral volumes, and namespaces that are only ever named.
    fn add_what_controllers_make(&mut self, seen: &mut Seen) {
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
        let completer = Completer::new(&self.cluster);
        let trees = self.cluster.iter_mut().chain(&mut self.pods).filter(|item| !item.is_packed());
        for item in trees {
            completer.complete(&mut item.value).map_err(|wrong| files.error(item.origin, &wrong))?;
        }
        self.whole = Whole(Some(completer));
        Ok(())
    }
}

/// Which kinds have a say.
#[derive(Default)]
struct Kinds {
    read: BTreeMap<(String, String), bool>,
}

impl Kinds {
    /// Whether the engine or admission reads objects of this kind.
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

/// The objects that were seen, with where.
#[derive(Default)]
struct Seen {
    by_key: BTreeMap<(String, String), Origin>,
    made: BTreeSet<(String, String)>,
}

impl Seen {
    fn key_of(item: &Item) -> (String, String) {
        (item.kind().to_owned(), item.key())
    }

    fn add(&mut self, files: &Files, item: &Item) -> Result<(), InputError> {
        let Some(first) = self.by_key.insert(Self::key_of(item), item.origin) else { return Ok(()) };
        let (kind, key) = Self::key_of(item);
        let (here, there) = (files.place(item.origin, "metadata.name"), files.place(first, "metadata.name"));
        Err(InputError(format!(
            "{here}: {kind} {key} is given twice, first at {there}; expected each object once"
        )))
    }

    /// Whether an object that a controller would make is not there yet; it is from now on.
    fn is_new(&mut self, item: &Item) -> bool {
        let key = Self::key_of(item);
        !self.by_key.contains_key(&key) && self.made.insert(key)
    }
}
