//! Counts the reasons why no node is feasible, without details of nodes or other pods, for users who may read only
//! the pod.
//!
//! The result has the content of the FailedScheduling event, and the number of nodes with no other obstacle.

use crate::explain::answer::Rejection;
use crate::explain::reason::{ReasonCode, of_objection};
use crate::explain::{found_on, obstacles};
use serde::Serialize;
use std::collections::BTreeMap;
use supercargo_core::explain::Findings;
use supercargo_core::model::intern::Tables;

/// A reason with its number of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counted {
    /// The reason code.
    pub code: ReasonCode,
    /// The plugin that rejects.
    pub plugin: &'static str,
    /// Number of nodes with this reason.
    pub nodes: usize,
    /// Number of nodes with only this reason.
    pub alone_on: usize,
    /// The plugin's message, as in upstream.
    pub text: String,
}

/// Collects the reasons of the nodes evaluated so far.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    before: Vec<Rejection>,
    by_reason: BTreeMap<(ReasonCode, &'static str, String), (usize, usize)>,
}

impl Tally {
    /// Adds the results of further nodes. Rejections before node evaluation are the same each time and replaced.
    pub fn enter(&mut self, findings: &Findings, tables: &Tables) {
        let before = findings.before.iter().flat_map(|said| of_objection(said, tables));
        self.before = before
            .map(|found| Rejection { code: found.code, plugin: found.plugin, text: found.words })
            .collect();
        for of in &findings.nodes {
            let found = found_on(of, tables);
            let is_alone = obstacles(&found) == 1 && found.len() == 1;
            for found in found {
                let counts = self.by_reason.entry((found.code, found.plugin, found.words)).or_default();
                *counts = (counts.0 + 1, counts.1 + usize::from(is_alone));
            }
        }
    }

    /// Returns the rejections before node evaluation, and the reasons of nodes, those of most nodes first.
    pub fn counted(self) -> (Vec<Rejection>, Vec<Counted>) {
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
