//! Why no node takes a pod, without a word about any node or any other pod: for whoever may read the pod and perhaps nothing else.
//!
//! Says what the event FailedScheduling says, and besides how many nodes have nothing else against the pod.

use super::answer::Said;
use super::reason::{ReasonCode, of_objection};
use super::{found_on, obstacles};
use serde::Serialize;
use std::collections::BTreeMap;
use supercargo_core::explain::Findings;
use supercargo_core::intern::Tables;

/// A reason, and on how many nodes it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counted {
    /// What sort of reason.
    pub code: ReasonCode,
    /// Whose.
    pub plugin: &'static str,
    /// On how many nodes.
    pub nodes: usize,
    /// On how many of these nothing else stands.
    pub alone_on: usize,
    /// In upstream's words.
    pub text: String,
}

/// What is said of nodes, as far as they were looked at.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    before: Vec<Said>,
    by_reason: BTreeMap<(ReasonCode, &'static str, String), (usize, usize)>,
}

impl Tally {
    /// Enters what is said of some nodes more. What is said before any is the same each time.
    pub fn enter(&mut self, findings: &Findings, tables: &Tables) {
        let before = findings.before.iter().flat_map(|said| of_objection(said, tables));
        self.before =
            before.map(|found| Said { code: found.code, plugin: found.plugin, text: found.words }).collect();
        for of in &findings.nodes {
            let found = found_on(of, tables);
            let is_alone = obstacles(&found) == 1 && found.len() == 1;
            for found in found {
                let counts = self.by_reason.entry((found.code, found.plugin, found.words)).or_default();
                *counts = (counts.0 + 1, counts.1 + usize::from(is_alone));
            }
        }
    }

    /// What is said before any node is looked at, and the reasons by how many nodes have them, those of most first.
    pub fn counted(self) -> (Vec<Said>, Vec<Counted>) {
        let each = self.by_reason.into_iter();
        let each = each.map(|((code, plugin, text), (nodes, alone_on))| Counted {
            code,
            plugin,
            nodes,
            alone_on,
            text,
        });
        let mut counted: Vec<Counted> = each.collect();
        counted.sort_by_key(|counted| (std::cmp::Reverse(counted.nodes), counted.code));
        (self.before, counted)
    }
}
