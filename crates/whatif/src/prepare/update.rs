//! Applies manifests to objects that already exist, with the result that `kubectl apply` and the controllers reach.
//!
//! - A workload with an unchanged pod template keeps its pods; only the difference in replicas is added or removed.
//! - A workload with a changed pod template gets new pods, as after a complete rollout.
//! - A Job starts only the pods that it still needs.
//! - A pod on a node stays there.
//! - Any other object is merged with the manifest.
//!
//! Fields that scheduling never reads (environment, commands, probes) are not compared.

use crate::explain::format::count as counted;
use crate::load::files::{Item, Wrong, remove_unread_fields, text_at};
use crate::prepare::compare::{differences, merged};
use crate::prepare::expand::{self, Expanded, is_workload};
use crate::prepare::identity::{controlled_by, generated_name, set};
use crate::prepare::job::{Progress, index_of};
use crate::prepare::owners::Owner;
use serde_json::Value;
use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

const HASH_LABEL: &str = "pod-template-hash";
/// Maximum number of differences in a message.
const NAMED: usize = 3;
/// How many characters of a workload's name its pods' names begin with at least: 58 of `generateName`, without an index
/// of 9 digits and two hyphens.
const NAME_KEPT: usize = 47;

/// Kind, namespace and name.
type Key = (String, String, String);

fn key_of(item: &Item) -> Key {
    (item.kind().to_owned(), namespace(item).to_owned(), item.name().to_owned())
}

/// The changes that manifests make to existing objects.
#[derive(Default)]
pub struct Updates {
    workloads: BTreeMap<Key, Update>,
    /// Pods that the changes remove, by namespace and name.
    pub leaving: BTreeSet<(String, String)>,
    /// Messages about the changes.
    pub notices: Vec<String>,
}

/// The changes to an existing workload.
struct Update {
    /// The pods that stay.
    kept: Vec<Existing>,
    /// The ReplicaSet of a Deployment with an unchanged template: name, uid and hash.
    set: Option<(String, String, String)>,
    /// The numbers of the pods that a Job still starts; `None` for other kinds.
    started: Option<Vec<usize>>,
}

/// An existing pod of a workload.
#[derive(Clone)]
struct Existing {
    name: String,
    /// The node the pod is on, or was created for.
    node: String,
    created: String,
    /// The index of a pod of an indexed Job.
    index: Option<usize>,
}

/// Selects the objects of a cluster that manifests change or depend on.
pub struct Concern {
    keys: BTreeSet<Key>,
    workloads: Vec<(String, String)>,
    /// Whether nodes matter, because a DaemonSet gets one pod per node.
    has_daemons: bool,
}

impl Concern {
    /// Returns the objects of the cluster that the manifests may change or depend on.
    pub fn among(given: &[Item], cluster: impl Iterator<Item = impl Borrow<Item>>) -> Vec<Item> {
        if given.is_empty() {
            return Vec::new();
        }
        let concern = Self::of(given);
        let concerned = cluster.filter(|item| concern.holds(item.borrow()));
        concerned.map(|item| item.borrow().clone().unpacked()).collect()
    }

    fn of(given: &[Item]) -> Self {
        let workloads = given.iter().filter(|item| is_workload(item));
        let name = |item: &Item| (namespace(item).to_owned(), item.name().to_owned());
        Self {
            keys: given.iter().map(key_of).collect(),
            workloads: workloads.map(name).collect(),
            has_daemons: given.iter().any(|item| item.kind() == "DaemonSet"),
        }
    }

    /// Returns whether an object is named by a manifest, or may belong to one of its workloads.
    fn holds(&self, item: &Item) -> bool {
        let is_made_by = |(namespace, name): &(String, String)| {
            crate::prepare::update::namespace(item) == namespace
                && item.name().starts_with(name.get(..NAME_KEPT).unwrap_or(name))
        };
        let is_context = matches!(item.kind(), "Namespace" | "PersistentVolumeClaim" | "StorageClass")
            || (self.has_daemons && item.kind() == "Node");
        is_context
            || self.keys.contains(&key_of(item))
            || (matches!(item.kind(), "Pod" | "ReplicaSet") && self.workloads.iter().any(is_made_by))
    }
}

/// Returns the namespace of an object, `default` if a namespaced object names none.
fn namespace(item: &Item) -> &str {
    match item.namespace() {
        "" if crate::prepare::identity::is_namespaced(item.kind()) => "default",
        namespace => namespace,
    }
}

impl Updates {
    /// Compares manifests with existing objects. Removes manifests of pods that have a node, since these stay, and
    /// completes the others with the fields of the existing object.
    pub fn plan(all: &[Item], given: &mut Vec<Item>) -> Self {
        let by_key: BTreeMap<Key, &Item> = all.iter().map(|item| (key_of(item), item)).collect();
        let mut updates = Self::default();
        given.retain_mut(|item| {
            let live = by_key.get(&key_of(item)).copied();
            match (item.kind(), live) {
                ("Pod", Some(live)) => updates.pod(item, live),
                ("CronJob", _) => true,
                _ if is_workload(item) => {
                    updates.workload(item, live, all);
                    true
                }
                (_, Some(live)) => {
                    updates.other(item, live);
                    true
                }
                (_, None) => true,
            }
        });
        updates
    }

    /// Handles the manifest of an existing pod; returns whether the pod must be scheduled.
    fn pod(&mut self, item: &mut Item, live: &Item) -> bool {
        let (key, node) = (live.key(), live.text("/spec/nodeName"));
        if has_ended(live) {
            self.leaving.insert((live.namespace().to_owned(), live.name().to_owned()));
            return true;
        }
        if !node.is_empty() {
            self.notices.push(format!("Pod {key} already runs on {node} and stays there"));
            return false;
        }
        let changes = list_of(&differences(&item.value, &live.value, false));
        self.notices.push(format!("Pod {key} already exists and is pending; {changes}"));
        take_over(item, live);
        self.leaving.insert((live.namespace().to_owned(), live.name().to_owned()));
        true
    }

    fn other(&mut self, item: &mut Item, live: &Item) {
        let changes = list_of(&differences(&item.value, &live.value, false));
        self.notices.push(format!("{} {} already exists; {changes}", item.kind(), item.key()));
        take_over(item, live);
    }

    fn workload(&mut self, item: &mut Item, live: Option<&Item>, all: &[Item]) {
        let sets: Vec<&Item> = all.iter().filter(|it| is_replica_set_of(it, item)).collect();
        let owned = all.iter().filter(|it| is_pod_of(it, item, &sets));
        let (pods, others): (Vec<&Item>, Vec<&Item>) = owned.partition(|pod| is_active(pod));
        if item.kind() == "Job" {
            self.job(item, live, &pods, &others);
            return;
        }
        if live.is_none() && pods.is_empty() {
            return;
        }
        if let Some(replicas) = live.and_then(|live| live.value.pointer("/spec/replicas"))
            && item.value.pointer("/spec/replicas").is_none_or(Value::is_null)
        {
            // Without replicas in the manifest, the current number stays.
            let replicas = replicas.clone();
            set(&mut item.value, &["spec", "replicas"], replicas);
        }
        let made = |set: &Item| pods.iter().filter(|pod| is_made_by(pod, set)).count();
        // During a rollout, several ReplicaSets have pods. The one with the most pods counts as the current one.
        let current = sets.iter().filter(|set| made(set) > 0).max_by_key(|set| made(set));
        let changes = changes(item, live, current.copied(), pods.first().copied());
        let mut existing: Vec<Existing> = pods.iter().map(|pod| Existing::of(pod)).collect();
        let stays = |it: &Existing| changes.is_empty() || is_updated_by_hand(item, it);
        let (mut kept, mut gone): (Vec<_>, Vec<_>) = existing.drain(..).partition(stays);
        gone.extend(surplus(item, &mut kept));
        self.add_notice(item, live, &changes, kept.len(), gone.len());
        let namespace = item.namespace().to_owned();
        self.leaving.extend(gone.into_iter().map(|it| (namespace.clone(), it.name)));
        let current = current.filter(|_| changes.is_empty() && item.kind() == "Deployment");
        let set = current.map(|set| {
            let hash = set.value.pointer("/metadata/labels").map(|labels| &labels[HASH_LABEL]);
            let hash = hash.and_then(Value::as_str).unwrap_or_default();
            (set.name().to_owned(), set.text("/metadata/uid").to_owned(), hash.to_owned())
        });
        self.workloads.insert(key_of(item), Update { kept, set, started: None });
    }

    /// Handles the manifest of a Job with these active pods and other ones, which have ended or are terminating.
    fn job(&mut self, item: &mut Item, live: Option<&Item>, pods: &[&Item], others: &[&Item]) {
        if live.is_none() && pods.is_empty() && others.is_empty() {
            return;
        }
        if let Some(live) = live {
            take_over(item, live);
        }
        let succeeded = others.iter().filter(|pod| pod.text("/status/phase") == "Succeeded");
        let progress = Progress::of(item, &succeeded.copied().collect::<Vec<_>>());
        let mut kept: Vec<Existing> = pods.iter().map(|pod| Existing::of(pod)).collect();
        let mut taken = BTreeSet::new();
        sort_for_deletion(&mut kept, false);
        let (mut kept, mut gone): (Vec<_>, Vec<_>) =
            kept.into_iter().partition(|it| progress.keeps(it.index, &mut taken));
        gone.extend(kept.split_off(progress.wanted(kept.len()).min(kept.len())));
        let taken = kept.iter().filter_map(|it| it.index).collect();
        let started = progress.missing(kept.len(), &taken, pods.len() + others.len());
        self.add_job_notice(item, live, &progress, kept.len(), gone.len());
        let namespace = item.namespace().to_owned();
        self.leaving.extend(gone.into_iter().map(|it| (namespace.clone(), it.name)));
        self.workloads.insert(key_of(item), Update { kept, set: None, started: Some(started) });
    }

    fn add_job_notice(
        &mut self,
        item: &Item,
        live: Option<&Item>,
        progress: &Progress,
        kept: usize,
        gone: usize,
    ) {
        let mut parts = Vec::new();
        for field in ["parallelism", "completions"] {
            let number = |item: &Item| item.value.pointer(&format!("/spec/{field}")).and_then(Value::as_u64);
            if let (Some(old), Some(new)) = (live.and_then(number), number(item)) {
                parts.extend((old != new).then(|| format!("{field} {old} → {new}")));
            }
        }
        let pods = format!("{} kept, {gone} removed", counted(kept, "pod"));
        parts.push(if progress.has_finished {
            format!("it has finished and starts no pods: {pods}")
        } else if progress.is_suspended {
            format!("it is suspended and starts no pods: {pods}")
        } else {
            format!("{} succeeded: {pods}", counted(progress.succeeded, "pod"))
        });
        self.notices.push(format!("Job {} already exists; {}", item.key(), parts.join("; ")));
    }

    fn add_notice(&mut self, item: &Item, live: Option<&Item>, changes: &[String], kept: usize, gone: usize) {
        let (kind, key) = (item.kind(), item.key());
        let mut parts = Vec::new();
        let count = |item: &Item| item.value.pointer("/spec/replicas").and_then(Value::as_u64);
        if let (Some(live), Some(new)) = (live, count(item)) {
            let old = count(live).unwrap_or(1);
            parts.extend((old != new).then(|| format!("replicas {old} → {new}")));
        }
        parts.push(if changes.is_empty() {
            format!("the pod template is unchanged: {} kept, {gone} removed", counted(kept, "pod"))
        } else {
            let replaced =
                format!("{} replaced as after a complete rollout, {kept} kept", counted(gone, "pod"));
            format!("the pod template changes ({}): {replaced}", some(changes))
        });
        self.notices.push(format!("{kind} {key} already exists; {}", parts.join("; ")));
    }

    /// Expands a workload without the pods that the cluster has already; `nodes` are the nodes of the cluster, in
    /// order.
    ///
    /// # Errors
    /// As [`expand::expand`].
    pub fn expand(&self, workload: &Item, nodes: &[Value]) -> Result<Expanded, Wrong> {
        let update = self.workloads.get(&key_of(workload));
        if let Some(numbers) = update.and_then(|update| update.started.as_ref()) {
            return expand::pods_of_job(workload, numbers);
        }
        let mut expanded = expand::expand(workload, nodes)?;
        if let Some(update) = update {
            update.settle(workload, &mut expanded);
        }
        Ok(expanded)
    }
}

impl Update {
    /// Removes the pods that the cluster has already from the expanded pods of a workload. If a Deployment keeps its
    /// template, its new pods join the current ReplicaSet.
    fn settle(&self, workload: &Item, expanded: &mut Expanded) {
        let kept = &self.kept;
        match workload.kind() {
            "StatefulSet" => expanded.pods.retain(|pod| !kept.iter().any(|it| it.name == pod.name())),
            "DaemonSet" => expanded.pods.retain(|pod| {
                let node = node_of(&pod.value);
                !kept.iter().any(|it| it.node == node)
            }),
            _ => expanded.pods.truncate(expanded.pods.len().saturating_sub(kept.len())),
        }
        let Some((name, uid, hash)) = &self.set else { return };
        expanded.objects.retain(|object| object.kind() != "ReplicaSet");
        for (at, pod) in expanded.pods.iter_mut().enumerate() {
            let new = generated_name(&format!("{name}-"), "ReplicaSet", pod.namespace(), kept.len() + at);
            set(&mut pod.value, &["metadata", "name"], new.into());
            set(&mut pod.value, &["metadata", "labels", HASH_LABEL], hash.as_str().into());
            let owner = controlled_by("apps/v1", "ReplicaSet", name, uid);
            set(&mut pod.value, &["metadata", "ownerReferences"], owner);
        }
    }
}

impl Existing {
    fn of(pod: &Item) -> Self {
        let text = |path: &str| pod.text(path).to_owned();
        Self {
            name: pod.name().to_owned(),
            node: node_of(&pod.value),
            created: text("/metadata/creationTimestamp"),
            index: index_of(pod),
        }
    }

    fn ordinal(&self) -> Option<usize> {
        self.name.rsplit('-').next()?.parse().ok()
    }
}

/// Completes the manifest with the fields and the uid of the existing object.
fn take_over(item: &mut Item, live: &Item) {
    item.value = merged(&live.value, &item.value);
    let uid = live.text("/metadata/uid");
    if !uid.is_empty() {
        set(&mut item.value, &["metadata", "uid"], uid.into());
    }
}

fn some(changes: &[String]) -> String {
    let named = changes[..changes.len().min(NAMED)].join(", ");
    let more = changes.len().saturating_sub(NAMED);
    if more == 0 { named } else { format!("{named} and {more} more") }
}

fn list_of(changes: &[String]) -> String {
    if changes.is_empty() { "no changes".to_owned() } else { format!("changes: {}", some(changes)) }
}

/// Returns how the pod template differs from the existing one; if that is unknown, from an existing pod.
fn changes(item: &Item, live: Option<&Item>, set: Option<&Item>, pod: Option<&Item>) -> Vec<String> {
    // The template of a Job is immutable, and a paused Deployment creates no pods.
    let is_paused = item.value.pointer("/spec/paused") == Some(&Value::Bool(true));
    if item.kind() == "Job" || is_paused {
        return Vec::new();
    }
    let lean = |template: &Value| {
        let mut template = template.clone();
        remove_unread_fields(&mut template);
        template
    };
    let Some(new) = item.value.pointer("/spec/template").map(lean) else { return Vec::new() };
    let template = |item: &Item| item.value.pointer("/spec/template").map(lean);
    match (live.and_then(template).or_else(|| set.and_then(template)), pod) {
        (Some(old), _) => differences(&new, &old, true),
        (None, Some(pod)) => {
            let spec = |of: &Value| of.get("spec").cloned().unwrap_or_default();
            differences(&spec(&new), &spec(&lean(&pod.value)), false)
        }
        (None, None) => Vec::new(),
    }
}

/// Returns whether a change of the template leaves the pod alone: with `OnDelete`, or below the partition.
fn is_updated_by_hand(item: &Item, pod: &Existing) -> bool {
    let partition = item.value.pointer("/spec/updateStrategy/rollingUpdate/partition");
    let partition = partition.and_then(Value::as_u64).and_then(|it| usize::try_from(it).ok()).unwrap_or(0);
    item.text("/spec/updateStrategy/type") == "OnDelete"
        || (item.kind() == "StatefulSet" && pod.ordinal().is_some_and(|ordinal| ordinal < partition))
}

/// Removes the surplus pods from `kept` and returns them.
fn surplus(item: &Item, kept: &mut Vec<Existing>) -> Vec<Existing> {
    let number = |path: &str| item.value.pointer(path).and_then(Value::as_u64);
    let number = |path: &str| number(path).and_then(|it| usize::try_from(it).ok());
    let replicas = match item.kind() {
        "DaemonSet" => return Vec::new(),
        _ => number("/spec/replicas").unwrap_or(1),
    };
    if item.kind() == "StatefulSet" {
        let first = number("/spec/ordinals/start").unwrap_or(0);
        let is_wanted = |it: &Existing| {
            it.ordinal().is_some_and(|ordinal| (first..first.saturating_add(replicas)).contains(&ordinal))
        };
        let (wanted, gone) = kept.drain(..).partition(is_wanted);
        *kept = wanted;
        return gone;
    }
    sort_for_deletion(kept, true);
    let rest = kept.split_off(kept.len().min(replicas));
    kept.sort_by_key(|it| Reverse(it.created.clone()));
    rest
}

/// Sorts pods so that the controller deletes the last ones first: pods without a node, then, with `spreads`, those on
/// the node with the most pods of the workload, then the newest.
fn sort_for_deletion(pods: &mut [Existing], spreads: bool) {
    let mut on: BTreeMap<String, usize> = BTreeMap::new();
    for it in pods.iter().filter(|_| spreads) {
        *on.entry(it.node.clone()).or_default() += 1;
    }
    pods.sort_by_cached_key(|it| {
        (it.node.is_empty(), on.get(&it.node).copied(), it.created.clone(), it.name.clone())
    });
}

fn has_ended(pod: &Item) -> bool {
    matches!(pod.text("/status/phase"), "Succeeded" | "Failed")
}

/// Returns the node of a pod, or the node for which a DaemonSet created it.
fn node_of(pod: &Value) -> String {
    let terms =
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0";
    let made_for = format!("{terms}/matchFields/0/values/0");
    let on = text_at(pod, "/spec/nodeName");
    if on.is_empty() { text_at(pod, &made_for) } else { on }.to_owned()
}

/// Returns kind and name of the controller.
fn controller(item: &Item) -> Option<(&str, &str)> {
    let owners = item.value.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let owner = owners.into_iter().flatten().find(|owner| owner["controller"] == true)?;
    Some((owner["kind"].as_str()?, owner["name"].as_str()?))
}

fn is_made_by(pod: &Item, set: &Item) -> bool {
    controller(pod) == Some((set.kind(), set.name()))
}

fn is_replica_set_of(set: &Item, deployment: &Item) -> bool {
    set.kind() == "ReplicaSet"
        && deployment.kind() == "Deployment"
        && set.namespace() == deployment.namespace()
        && controller(set) == Some(("Deployment", deployment.name()))
}

/// Returns whether a pod is running or pending, and not terminating.
fn is_active(pod: &Item) -> bool {
    !has_ended(pod) && text_at(&pod.value, "/metadata/deletionTimestamp").is_empty()
}

/// Returns whether a pod belongs to the workload.
fn is_pod_of(pod: &Item, workload: &Item, sets: &[&Item]) -> bool {
    if pod.kind() != "Pod" || pod.namespace() != workload.namespace() {
        return false;
    }
    let Some(owner) = Owner::of(&pod.value) else {
        // A StatefulSet adopts a pod with a matching name.
        let ordinal = pod.name().strip_prefix(workload.name()).and_then(|rest| rest.strip_prefix('-'));
        return workload.kind() == "StatefulSet" && ordinal.is_some_and(|it| it.parse::<usize>().is_ok());
    };
    (*owner.kind == *workload.kind() && *owner.name == *workload.name())
        || sets.iter().any(|set| is_made_by(pod, set))
}
