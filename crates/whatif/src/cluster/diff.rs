//! What the innermost transaction changed so far.

use super::{At, Cluster, Entry, Fork, Record};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The changes of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diff {
    /// The pods that moved, came or went, by `namespace/name`.
    pub pods: BTreeMap<String, Moved>,
    /// The names of nodes that exist now and did not before.
    pub added_nodes: BTreeSet<String>,
    /// The names of nodes that existed before and do not now.
    pub removed_nodes: BTreeSet<String>,
    /// Whether the configuration was replaced.
    pub is_reconfigured: bool,
}

/// Where a pod was and is; `None` means that it does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// The place before the transaction.
    pub from: Option<Place>,
    /// The place now.
    pub to: Option<Place>,
}

/// The place of an unfinished pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Place {
    /// In the queue.
    Pending,
    /// On the node of this name.
    Node(String),
}

impl Cluster {
    /// Returns what the innermost transaction changed so far; nothing if none is open. The cost is that of its changes.
    pub fn diff(&self) -> Diff {
        self.diff_since(self.forks.last())
    }

    /// Returns what all open transactions together changed so far.
    pub fn diff_of_all(&self) -> Diff {
        self.diff_since(self.forks.first())
    }

    fn diff_since(&self, fork: Option<&Fork>) -> Diff {
        let mut diff = Diff::default();
        let Some(Fork { journal, .. }) = fork else { return diff };
        let (mut firsts, mut nodes): (BTreeMap<&str, Option<&Record>>, BTreeMap<_, usize>) =
            Default::default();
        for entry in &self.journal[*journal..] {
            match entry {
                Entry::Pod(key, before) => {
                    firsts.entry(key).or_insert(before.as_deref());
                }
                Entry::Node(name) => *nodes.entry(*name).or_default() += 1,
                Entry::Profiles(_) => diff.is_reconfigured = true,
            }
        }
        for (key, before) in firsts {
            let (from, to) = (self.place_of(before), self.place_of(self.pods.get(key)));
            if from != to {
                diff.pods.insert(key.to_owned(), Moved { from, to });
            }
        }
        // A node that came and went, or the reverse, is as before.
        for (name, _) in nodes.into_iter().filter(|(_, times)| times % 2 == 1) {
            let is_here = self.trial().snapshot().find_node(name).is_some();
            let list = if is_here { &mut diff.added_nodes } else { &mut diff.removed_nodes };
            list.insert(self.trial().tables().text(name).to_owned());
        }
        diff
    }

    fn place_of(&self, record: Option<&Record>) -> Option<Place> {
        Some(match record?.at {
            At::Queue(_) => Place::Pending,
            At::Node(node) => Place::Node(self.trial().tables().text(node).to_owned()),
        })
    }
}
