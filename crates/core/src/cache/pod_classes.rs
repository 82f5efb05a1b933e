//! Pod classes: pods on nodes with the same namespace, labels, affinity and deletion state.
//!
//! Affinity and spreading read nothing else of these pods. A term is therefore matched once for each class,
//! however many pods the class has.

use crate::collections::hash::{IdMap, Keyed, KeyedMap};
use crate::model::intern::{LabelSetId, Marks, Symbol, TraceIds, WorkBudget, mark_after, trace_ids};
use crate::model::node::NodeIdx;
use crate::model::pod::{PodFacets, PodInfo};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A lookup of a pod class by id costs less than this many steps of a pass over all classes.
pub(crate) const CLASS_LOOKUP_STEPS: usize = 8;

/// A pod class: pods that no affinity term or spread constraint can tell apart.
pub struct PodClass {
    /// The first pod of the class. It may have been removed since.
    pod: Arc<PodInfo>,
    /// Copied from `pod`: a pass over all classes reads memory in order and follows no pointers.
    namespace: Symbol,
    labels: LabelSetId,
    is_deleting: bool,
    has_affinity: bool,
    nodes: NodeCounts,
}

impl PodClass {
    /// Creates the class of a pod, without nodes.
    fn new(pod: &Arc<PodInfo>) -> Self {
        Self {
            namespace: pod.namespace,
            labels: pod.labels,
            is_deleting: pod.deleting,
            has_affinity: pod.pod_affinity.is_some(),
            nodes: NodeCounts::None,
            pod: Arc::clone(pod),
        }
    }

    /// Returns what terms and constraints read of each pod of this class.
    pub fn facets(&self) -> PodFacets<'_> {
        let affinity = if self.has_affinity { self.pod.pod_affinity.as_deref() } else { None };
        PodFacets { namespace: self.namespace, labels: self.labels, is_deleting: self.is_deleting, affinity }
    }

    /// Whether the pods of this class have required anti-affinity terms.
    pub fn has_required_anti_affinity(&self) -> bool {
        self.has_affinity && self.pod.has_required_anti_affinity()
    }

    /// Returns a pod of this class. Its namespace, labels, affinity and deletion state are those of all pods of
    /// the class.
    pub fn pod(&self) -> &PodInfo {
        &self.pod
    }

    /// Returns the slots with pods of this class and the number of these pods, in arbitrary order. Includes
    /// slots of deleted nodes.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeIdx, i64)> + '_ {
        let (one, several) = match &self.nodes {
            NodeCounts::None => (None, None),
            &NodeCounts::One(node, pods) => (Some((node, pods)), None),
            NodeCounts::Several(nodes) => (None, Some(nodes)),
        };
        let several = several.into_iter().flat_map(|nodes| nodes.iter().map(|(&node, &pods)| (node, pods)));
        one.into_iter().chain(several).map(|(node, pods)| (node, i64::from(pods)))
    }
}

/// Number of pods by node. If a cluster has many pod classes, most are on one node, which takes no allocation.
enum NodeCounts {
    None,
    One(NodeIdx, u32),
    Several(IdMap<NodeIdx, u32>),
}

impl NodeCounts {
    fn add(&mut self, node: NodeIdx) {
        match self {
            Self::None => *self = Self::One(node, 1),
            Self::One(at, pods) if *at == node => *pods += 1,
            &mut Self::One(at, pods) => *self = Self::Several(IdMap::from_iter([(at, pods), (node, 1)])),
            Self::Several(nodes) => *nodes.entry(node).or_default() += 1,
        }
    }

    /// Removes a pod from a node; whether pods are left on any node.
    fn remove(&mut self, node: NodeIdx) -> bool {
        match self {
            Self::None => unreachable!("a class knows the nodes of its pods"),
            Self::One(at, pods) => {
                assert_eq!(*at, node, "a class knows the nodes of its pods");
                *pods -= 1;
                *pods > 0
            }
            Self::Several(nodes) => {
                let pods = nodes.get_mut(&node).expect("a class knows the nodes of its pods");
                *pods -= 1;
                if *pods == 0 {
                    nodes.remove(&node);
                }
                !nodes.is_empty()
            }
        }
    }
}

/// The key of a pod class: a pod, compared by the fields that define the class.
#[derive(Clone)]
struct Key(Arc<PodInfo>);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (&*self.0, &*other.0);
        a.labels == b.labels
            && a.namespace == b.namespace
            && a.deleting == b.deleting
            && a.pod_affinity == b.pod_affinity
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0.labels, self.0.namespace, self.0.deleting).hash(state);
        self.0.pod_affinity.hash(state);
    }
}

/// The id of a pod class. Ids ascend and are never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodClassId(u64);

impl PodClassId {
    /// Returns the following id.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// All pod classes with at least one pod on a node.
#[derive(Default)]
pub(super) struct PodClasses {
    ids: KeyedMap<Key, PodClassId>,
    by_id: BTreeMap<PodClassId, PodClass>,
    by_namespace: IdMap<Symbol, BTreeSet<PodClassId>>,
    with_affinity: BTreeSet<PodClassId>,
    with_anti_affinity: BTreeSet<PodClassId>,
    next: u64,
    /// The classes up to this id are marked in the current gc round. New classes have higher ids.
    marked: Option<PodClassId>,
}

impl PodClasses {
    /// Creates an empty collection that uses `hashing`.
    pub(super) fn hashed_by(hashing: Keyed) -> Self {
        Self { ids: KeyedMap::with_hasher(hashing), ..Self::default() }
    }

    pub(super) fn add(&mut self, pod: &Arc<PodInfo>, node: NodeIdx) -> PodClassId {
        let id = self.ids.get(&Key(Arc::clone(pod))).copied().unwrap_or_else(|| self.found(pod));
        let class = self.by_id.get_mut(&id).expect("every id has its class");
        class.nodes.add(node);
        id
    }

    fn found(&mut self, pod: &Arc<PodInfo>) -> PodClassId {
        let id = PodClassId(self.next);
        self.next += 1;
        self.ids.insert(Key(Arc::clone(pod)), id);
        self.by_id.insert(id, PodClass::new(pod));
        self.by_namespace.entry(pod.namespace).or_default().insert(id);
        if pod.pod_affinity.is_some() {
            self.with_affinity.insert(id);
        }
        if pod.has_required_anti_affinity() {
            self.with_anti_affinity.insert(id);
        }
        id
    }

    pub(super) fn remove(&mut self, pod: &Arc<PodInfo>, node: NodeIdx) {
        let key = Key(Arc::clone(pod));
        let id = *self.ids.get(&key).expect("every pod on a node has a class");
        let class = self.by_id.get_mut(&id).expect("every id has its class");
        if class.nodes.remove(node) {
            return;
        }
        self.ids.remove(&key);
        self.by_id.remove(&id);
        self.with_affinity.remove(&id);
        self.with_anti_affinity.remove(&id);
        if let Some(classes) = self.by_namespace.get_mut(&pod.namespace) {
            classes.remove(&id);
            if classes.is_empty() {
                self.by_namespace.remove(&pod.namespace);
            }
        }
    }

    /// Creates an empty collection whose ids continue after those of this one.
    pub(super) fn successor(&self) -> Self {
        Self { next: self.next, ..Self::hashed_by(self.ids.hasher().clone()) }
    }

    /// Starts a gc round: all classes are unmarked.
    pub(super) fn begin_collection(&mut self) {
        self.marked = None;
    }

    /// Marks some of the unmarked classes. Returns whether all are marked.
    pub(super) fn mark_some(&mut self, marks: &mut Marks, work: &mut WorkBudget) -> bool {
        let Self { by_id, marked, .. } = self;
        mark_after(by_id, marked, work, |_, class| class.mark(marks))
    }

    /// Returns the id of the next new class.
    pub(super) fn next(&self) -> PodClassId {
        PodClassId(self.next)
    }

    /// Returns the classes with this id and higher ones.
    pub(super) fn since(&self, id: PodClassId) -> impl Iterator<Item = (PodClassId, &PodClass)> {
        self.by_id.range(id..).map(|(&id, class)| (id, class))
    }

    pub(super) fn get(&self, id: PodClassId) -> Option<&PodClass> {
        self.by_id.get(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &PodClass> {
        self.by_id.values()
    }

    fn of<'a>(&'a self, ids: impl IntoIterator<Item = &'a PodClassId>) -> impl Iterator<Item = &'a PodClass> {
        ids.into_iter().filter_map(|id| self.by_id.get(id))
    }

    pub(super) fn ids_in(&self, namespace: Symbol) -> impl Iterator<Item = PodClassId> + '_ {
        self.by_namespace.get(&namespace).into_iter().flatten().copied()
    }

    pub(super) fn in_namespace(&self, namespace: Symbol) -> impl Iterator<Item = &PodClass> {
        self.of(self.by_namespace.get(&namespace).into_iter().flatten())
    }

    /// Returns the classes with this id and later ones that have affinity.
    pub(super) fn with_affinity_since(
        &self,
        id: PodClassId,
    ) -> impl Iterator<Item = (PodClassId, &PodClass)> {
        self.with_affinity.range(id..).filter_map(|id| Some((*id, self.by_id.get(id)?)))
    }

    pub(super) fn with_affinity(&self) -> impl Iterator<Item = &PodClass> {
        self.of(&self.with_affinity)
    }

    pub(super) fn with_anti_affinity(&self) -> impl Iterator<Item = &PodClass> {
        self.of(&self.with_anti_affinity)
    }
}

// The copied ids are those of `pod`.
trace_ids!(PodClass { pod } but not { namespace, labels, is_deleting, has_affinity, nodes });

// The other maps refer to classes whose pods hold all ids that occur in them.
impl TraceIds for PodClasses {
    fn mark(&self, marks: &mut Marks) {
        let Self {
            by_id,
            ids: _,
            by_namespace: _,
            with_affinity: _,
            with_anti_affinity: _,
            next: _,
            marked: _,
        } = self;
        by_id.values().for_each(|class| class.mark(marks));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Cache, PodState};
    use crate::model::intern::Tables;
    use crate::scheduler::test_pod;
    use std::hash::BuildHasher;

    /// Returns two pods with different labels.
    fn pods(tables: &mut Tables) -> [Arc<PodInfo>; 2] {
        ["p", "q"].map(|name| {
            let mut pod = test_pod(tables, name, 1, None);
            let label = tables.symbol(name);
            pod.labels = tables.label_set(vec![(label, label)]);
            pod.into()
        })
    }

    /// Otherwise each lookup would compare a pod with all classes.
    #[test]
    fn pods_of_different_classes_have_different_hashes() {
        let [p, q] = pods(&mut Tables::new()).map(|pod| Keyed::default().hash_one(Key(pod)));
        assert_ne!(p, q);
    }

    #[test]
    fn class_of_a_pod_is_known_while_the_pod_is_on_a_node() {
        let (mut tables, mut cache) = (Tables::new(), Cache::default());
        let (node, [p, q]) = (tables.symbol("n"), pods(&mut tables));
        for pod in [&p, &q] {
            cache.place(pod, node, PodState::Added);
        }
        let class_of = |cache: &Cache, pod: &Arc<PodInfo>| cache.snapshot(&tables).pod_class_of(pod);
        let [of_p, of_q] = [&p, &q].map(|pod| class_of(&cache, pod));
        assert!(of_p.is_some() && of_q.is_some() && of_p != of_q);
        // The other pod moves to its position in the node's list.
        cache.remove_pod("p");
        assert_eq!([&p, &q].map(|pod| class_of(&cache, pod)), [None, of_q]);
    }
}
