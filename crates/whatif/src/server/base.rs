//! A cluster with the changes of the fork that was asked last.
//!
//! Each change is a transaction of its own. The next question first undoes the changes that its fork does not share,
//! and then makes those that are missing, so that consecutive questions about one fork make no change twice.

use super::answer::Problem;
use super::configuration;
use super::messages::{AddNodesRequest, Added, Configured, Displaced, Placements, Pods};
use crate::cluster::{Cluster, ClusterError, Interrupt};
use serde_json::{Value, json};
use std::sync::Arc;

/// A change of a fork.
#[derive(Debug)]
pub(super) struct Change {
    /// Distinguishes it from all other changes of the server.
    pub(super) serial: u64,
    pub(super) action: Action,
    /// The size of the request's body.
    pub(super) bytes: usize,
    /// Number of pods and nodes that it added.
    pub(super) added: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    Place(Pods),
    Evict(Vec<String>),
    RemoveNodes(Vec<String>),
    AddNodes(AddNodesRequest),
    /// The text of a KubeSchedulerConfiguration.
    SetConfig(String),
}

impl Action {
    /// Returns the name of the request.
    fn name(&self) -> &'static str {
        match self {
            Self::Place(_) => "place",
            Self::Evict(_) => "evict",
            Self::RemoveNodes(_) => "removeNodes",
            Self::AddNodes(_) => "addNodes",
            Self::SetConfig(_) => "setConfig",
        }
    }

    /// Makes the change. Returns the answer, and the number of pods and nodes that it added.
    fn make(&self, cluster: &mut Cluster) -> Result<(Value, usize), ClusterError> {
        match self {
            Self::Place(pods) => {
                let placements = match pods {
                    Pods::Objects(objects) => cluster.place(objects)?,
                    Pods::Copies(template, count) => cluster.place_copies(template, *count)?,
                    Pods::Pending => cluster.place_pending(),
                };
                let added = if matches!(pods, Pods::Pending) { 0 } else { placements.len() };
                Ok((json!(Placements { placements }), added))
            }
            Self::Evict(pods) => {
                let mut displaced = Displaced::default();
                for pod in pods {
                    let is_pending = cluster.evict(pod)?;
                    (if is_pending { &mut displaced.pending } else { &mut displaced.gone }).push(pod.clone());
                }
                Ok((json!(displaced), 0))
            }
            Self::RemoveNodes(nodes) => {
                let mut displaced = Displaced::default();
                for node in nodes {
                    let here = cluster.pods_on(node)?;
                    let pending = cluster.remove_node(node)?;
                    displaced.gone.extend(here.into_iter().filter(|pod| !pending.contains(pod)));
                    displaced.pending.extend(pending);
                }
                Ok((json!(displaced), 0))
            }
            Self::AddNodes(request) => {
                let nodes = cluster.add_nodes(request.template()?, request.count)?;
                let added = nodes.len();
                Ok((json!(Added { nodes }), added))
            }
            Self::SetConfig(text) => {
                cluster.set_config_text(configuration::FIELD, text)?;
                let profiles = cluster.trial().profile_names().map(str::to_owned).collect();
                Ok((json!(Configured { profiles }), 0))
            }
        }
    }
}

pub(super) struct Base {
    pub(super) cluster: Cluster,
    /// The serial numbers of the changes that are made, one open transaction for each.
    open: Vec<u64>,
    /// The number of ids that the cluster had at first.
    ids: usize,
}

impl Base {
    pub(super) fn new(cluster: Cluster) -> Self {
        let ids = cluster.ids();
        Self { cluster, open: Vec::new(), ids }
    }

    /// Whether questions and changes have left so many ids that the cluster must be loaded again.
    pub(super) fn is_worn(&self, ids_max: usize) -> bool {
        self.cluster.ids() > self.ids + ids_max
    }

    /// Undoes all changes.
    pub(super) fn close(&mut self) {
        self.close_to(0);
    }

    fn close_to(&mut self, depth: usize) {
        while self.open.len() > depth {
            self.open.pop();
            self.cluster.undo().expect("each change is an open transaction");
        }
    }

    /// Makes the cluster that of a fork with these changes.
    pub(super) fn bring(&mut self, changes: &[Arc<Change>], interrupt: &Interrupt) -> Result<(), Problem> {
        let shared =
            self.open.iter().zip(changes).take_while(|(open, change)| **open == change.serial).count();
        self.close_to(shared);
        for (at, change) in changes.iter().enumerate().skip(shared) {
            let name = change.action.name();
            self.make(&change.action, interrupt).map_err(|problem| match problem {
                Problem::Invalid(why) => Problem::Conflict(format!(
                    "change {} of the fork ({name}) does not apply any more: {why}; undo it, or make a new fork",
                    at + 1
                )),
                other => other,
            })?;
            self.open.push(change.serial);
        }
        Ok(())
    }

    /// Makes a change in a transaction of its own.
    fn make(&mut self, action: &Action, interrupt: &Interrupt) -> Result<(Value, usize), Problem> {
        if interrupt.is_over() {
            return Err(late());
        }
        self.cluster.set_interrupt(interrupt.clone());
        self.cluster.fork();
        let made = action.make(&mut self.cluster).map_err(Problem::from);
        let made = if interrupt.was_over() { Err(late()) } else { made };
        if made.is_err() {
            self.cluster.undo().expect("the transaction was opened above");
        }
        made
    }

    /// Makes a new change, with this serial number. Returns the answer, and the number of pods and nodes that it added,
    /// which are at most `added_max`.
    pub(super) fn change(
        &mut self,
        (action, serial): (&Action, u64),
        added_max: usize,
        interrupt: &Interrupt,
    ) -> Result<(Value, usize), Problem> {
        let (answer, added) = self.make(action, interrupt)?;
        if added > added_max {
            self.cluster.undo().expect("the change is an open transaction");
            return Err(too_many(added_max));
        }
        self.open.push(serial);
        Ok((answer, added))
    }
}

pub(super) fn late() -> Problem {
    Problem::Late("the answer took too long; ask about less, or raise --deadline".to_owned())
}

pub(super) fn too_many(added_max: usize) -> Problem {
    Problem::Limit(format!("the fork may get at most {added_max} more pods and nodes; make a smaller change"))
}
