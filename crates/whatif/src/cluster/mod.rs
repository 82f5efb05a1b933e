//! A cluster to ask "what if": changes, decisions of the scheduler, and nested transactions with undo.
//!
//! A [`Cluster`] holds the objects of a cluster in the scheduler's own engine. Every decision about a pod is the one
//! that the scheduler makes with the same KubeSchedulerConfiguration. Nothing leaves the process.
//!
//! [`Cluster::fork`] opens a transaction, [`Cluster::undo`] reverts it and [`Cluster::commit`] keeps it. Transactions
//! nest. Both ends cost what changed in between, not the size of the cluster.
//!
//! ```
//! use serde_json::json;
//! use supercargo_whatif::cluster::{Cluster, Setup};
//!
//! let node = |name: &str, cpu: &str| json!({
//!     "apiVersion": "v1", "kind": "Node",
//!     "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
//!     "status": { "allocatable": { "cpu": cpu, "memory": "8Gi", "pods": "110" } },
//! });
//! let web = json!({
//!     "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" },
//!     "spec": { "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": "3" } } }] },
//! });
//!
//! let mut cluster = Cluster::from_objects(vec![node("small", "2"), node("large", "4")], &Setup::default())?;
//! let placed = cluster.place(&[web])?;
//! assert_eq!(placed[0].node.as_deref(), Some("large"));
//!
//! // Would its pod fit elsewhere if the node failed?
//! cluster.fork();
//! let displaced = cluster.remove_node("large")?;
//! assert_eq!(displaced, ["default/web"]);
//! assert_eq!(cluster.place_pending()[0].node, None);
//! cluster.undo()?;
//! assert_eq!(cluster.node_of("default/web"), Some("large"));
//! # Ok::<(), supercargo_whatif::cluster::ClusterError>(())
//! ```

mod ask;
mod changes;
mod diff;
mod dump;
mod edits;
mod error;
mod given;
mod groups;
mod interrupt;
mod load;
mod packing;
mod questions;
mod recorded;
mod scale_up;
#[cfg(test)]
pub(crate) mod tests;
mod watched;

pub use ask::{NodeState, PodState, WorkloadState};
pub use changes::{NodeTemplate, Placement};
pub use diff::{Diff, Moved, Place};
pub use dump::{Dump, NodeDump};
pub use error::ClusterError;
pub use given::Fit;
pub use groups::GroupState;
pub use interrupt::Interrupt;
pub use load::Setup;
pub use questions::{FeasibleNodes, RejectedNode};
pub use scale_up::{ScaleUp, ScaleUpNodes, ScaleUpOption, ScaleUpPods, ScaleUpTemplate};

use crate::explain::BudgetStates;
use crate::load::files::Item;
use crate::prepare::owners::OwnedPod;
use crate::simulate::decide::{Decider, Detail, PreemptionMode, Rules, TieBreak};
use std::collections::BTreeMap;
use std::sync::Arc;
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::rng::Seed;
use supercargo_core::scheduler::{Profile, Trial, TrialMark};

/// A fixed seed, so that the same questions have the same answers.
const SEED: Seed = Seed(0);

/// A cluster with changes and decisions that can be undone.
pub struct Cluster {
    decider: Decider,
    /// The unfinished pods by `namespace/name`.
    pods: BTreeMap<String, Record>,
    /// The pending pods by their order of arrival.
    queue: BTreeMap<u64, String>,
    /// The number of arrivals in the queue so far.
    arrivals: u64,
    /// The objects that the admission of pods reads.
    admission: Vec<Item>,
    /// Whether objects are taken as written, without defaults and admission.
    as_written: bool,
    budgets: BudgetStates,
    interrupt: Interrupt,
    forks: Vec<Fork>,
    /// What undoes the changes of this type's own fields since the first open transaction.
    journal: Vec<Entry>,
}

/// An unfinished pod.
#[derive(Clone, Debug)]
struct Record {
    owned: OwnedPod,
    at: At,
}

/// Where a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Pending, with this number in the queue.
    Queue(u64),
    Node(Symbol),
}

/// An open transaction: the state that [`Cluster::undo`] returns to.
struct Fork {
    mark: TrialMark,
    journal: usize,
    arrivals: u64,
}

enum Entry {
    /// The previous state of a pod.
    Pod(String, Option<Box<Record>>),
    /// A node that was added, or removed.
    Node(Symbol),
    /// The previous profiles.
    Profiles(Vec<Profile>),
}

impl Cluster {
    /// Creates a cluster from a trial that holds its objects, and its unfinished pods in their order.
    pub fn of(trial: Trial, pods: Vec<OwnedPod>, budgets: BudgetStates) -> Self {
        let rules = Rules {
            tie_break: TieBreak::Seeded,
            seed: SEED,
            preemption: PreemptionMode::Report,
            detail: Detail::None,
        };
        let mut cluster = Self {
            decider: Decider::new(trial, rules),
            pods: BTreeMap::new(),
            queue: BTreeMap::new(),
            arrivals: 0,
            admission: Vec::new(),
            as_written: false,
            budgets,
            interrupt: Interrupt::default(),
            forks: Vec::new(),
            journal: Vec::new(),
        };
        cluster.trial_mut().refreshed();
        for owned in pods {
            let key = cluster.trial().snapshot().pod_key(&owned.pod);
            let node = cluster.trial().placement(&owned.pod.uid).map(|(_, node)| node);
            cluster.note(key, owned, node);
        }
        cluster.trial_mut().keep_changes();
        cluster
    }

    /// Opens a transaction. Its cost does not depend on the size of the cluster.
    pub fn fork(&mut self) {
        // Changes before the transaction must not be refreshed within it.
        self.trial_mut().refreshed();
        let (mark, journal, arrivals) = (self.trial().mark(), self.journal.len(), self.arrivals);
        self.forks.push(Fork { mark, journal, arrivals });
    }

    /// Closes the innermost transaction and keeps its changes. They are part of the enclosing transaction, if any.
    ///
    /// # Errors
    /// Fails if no transaction is open.
    pub fn commit(&mut self) -> Result<(), ClusterError> {
        self.forks.pop().ok_or(ClusterError::NoTransaction)?;
        self.forget_if_outermost();
        Ok(())
    }

    /// Closes the innermost transaction and reverts its changes, decisions included. Returns the number of steps that
    /// this took, which is proportional to the number of changes.
    ///
    /// # Errors
    /// Fails if no transaction is open.
    pub fn undo(&mut self) -> Result<usize, ClusterError> {
        let Fork { mark, journal, arrivals } = self.forks.pop().ok_or(ClusterError::NoTransaction)?;
        let steps = self.trial().changes_since(mark) + self.journal.len() - journal;
        for entry in self.journal.split_off(journal).into_iter().rev() {
            match entry {
                Entry::Pod(key, before) => drop(self.replace(key, before.map(|record| *record))),
                Entry::Node(_) => {}
                Entry::Profiles(before) => self.trial_mut().set_profiles(before),
            }
        }
        self.trial_mut().roll_back_to(mark);
        self.arrivals = arrivals;
        self.trial_mut().refreshed();
        Ok(steps)
    }

    /// Returns the number of open transactions.
    pub fn depth(&self) -> usize {
        self.forks.len()
    }

    /// Returns the names of all nodes, sorted.
    pub fn nodes(&self) -> Vec<&str> {
        let snapshot = self.trial().snapshot();
        let names = snapshot.nodes().iter().map(|node| snapshot.text(snapshot.node_info(node).name));
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names
    }

    /// Returns the node of a pod, which is given as `namespace/name`; `None` if it is pending or does not exist.
    pub fn node_of(&self, pod: &str) -> Option<&str> {
        match self.pods.get(pod)?.at {
            At::Queue(_) => None,
            At::Node(node) => Some(self.trial().tables().text(node)),
        }
    }

    /// Returns the number of ids: distinct texts, label sets and templates that the cluster or any question had. They
    /// are kept when their objects are gone, about 150 bytes each.
    pub fn ids(&self) -> usize {
        let sizes = self.trial().tables().sizes();
        sizes.symbols + sizes.label_sets + sizes.taint_sets + sizes.shared
    }

    /// Returns all unfinished pods as `namespace/name`.
    pub fn pods(&self) -> impl Iterator<Item = &str> {
        self.pods.keys().map(String::as_str)
    }

    /// Returns the pods on a node as `namespace/name`.
    ///
    /// # Errors
    /// Fails if there is no such node.
    pub fn pods_on(&self, node: &str) -> Result<Vec<String>, ClusterError> {
        let snapshot = self.trial().snapshot();
        let node = snapshot.find_node(self.node(node)?).expect("the node was found by this name");
        Ok(snapshot.pods_on(node).map(|pod| snapshot.pod_key(pod)).collect())
    }

    /// Returns the pending pods as `namespace/name`, in the order of their arrival.
    pub fn pending(&self) -> impl Iterator<Item = &str> {
        self.queue.values().map(String::as_str)
    }

    /// Sets what ends the following questions early. A question that ended early has no valid answer, and a change that
    /// did is incomplete: undo it if [`Interrupt::was_over`].
    pub fn set_interrupt(&mut self, interrupt: Interrupt) {
        self.interrupt = interrupt;
    }

    /// Returns what ends questions early.
    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Returns the disruption budgets' state that only the eviction API reads.
    pub(crate) fn budgets(&self) -> &BudgetStates {
        &self.budgets
    }

    /// Returns the unfinished pods, by `namespace/name`.
    pub(crate) fn owned_pods(&self) -> impl Iterator<Item = (&str, &OwnedPod)> {
        self.pods.iter().map(|(key, record)| (key.as_str(), &record.owned))
    }

    /// Returns the engine.
    pub(crate) fn trial(&self) -> &Trial {
        self.decider.trial()
    }

    /// Returns the engine for changes. A caller that moves pods with it must undo that before this type is used again.
    pub(crate) fn trial_mut(&mut self) -> &mut Trial {
        self.decider.trial_mut()
    }

    /// Ends a change: later questions see it, and it is kept if no transaction is open.
    fn finished(&mut self) {
        self.trial_mut().refreshed();
        self.forget_if_outermost();
    }

    /// Drops what only a transaction needs, if none is open.
    fn forget_if_outermost(&mut self) {
        if self.forks.is_empty() {
            self.journal.clear();
            self.trial_mut().keep_changes();
        }
    }

    /// Records a pod; without a node it joins the queue.
    fn note(&mut self, key: String, owned: OwnedPod, node: Option<Symbol>) {
        let at = node.map_or_else(
            || {
                self.arrivals += 1;
                At::Queue(self.arrivals)
            },
            At::Node,
        );
        self.change(key, Some(Record { owned, at }));
    }

    /// Replaces the record of a pod, so that it can be undone.
    fn change(&mut self, key: String, record: Option<Record>) {
        let before = self.replace(key.clone(), record);
        if !self.forks.is_empty() {
            self.journal.push(Entry::Pod(key, before.map(Box::new)));
        }
    }

    fn replace(&mut self, key: String, record: Option<Record>) -> Option<Record> {
        if let Some(Record { at: At::Queue(number), .. }) = &record {
            self.queue.insert(*number, key.clone());
        }
        let now = record.as_ref().map(|record| record.at);
        let before = match record {
            Some(record) => self.pods.insert(key, record),
            None => self.pods.remove(&key),
        };
        if let Some(Record { at: at @ At::Queue(number), .. }) = &before
            && now != Some(*at)
        {
            self.queue.remove(number);
        }
        before
    }

    /// Makes changes as a whole: if one fails, the earlier ones are reverted.
    fn atomically<T>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T, ClusterError>,
    ) -> Result<T, ClusterError> {
        self.fork();
        let done = change(self);
        if done.is_ok() {
            self.commit()?;
        } else {
            self.undo()?;
        }
        done
    }

    /// Returns a pod on its node or in the queue.
    fn pod_info(&self, key: &str) -> Option<&Arc<PodInfo>> {
        self.pods.get(key).map(|record| &record.owned.pod)
    }
}
