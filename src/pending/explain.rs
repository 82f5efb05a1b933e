//! What is against a pending pod, as the running server sees it now: counted, and without a word about nodes or other pods.
//!
//! What would help is not looked for here, where pods are waiting to be decided about: `supercargo explain pod` does that beside the server.

use super::report::{PendingPod, moment};
use super::words;
use crate::explain::{Counted, Said, counted};
use serde::Serialize;
use supercargo_core::scheduler::Scheduler;
use supercargo_core::time::Time;

/// What is against a pending pod.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingExplanation {
    /// Always the same of this version.
    pub api_version: &'static str,
    /// Always the same.
    pub kind: &'static str,
    /// When it was looked at, RFC 3339.
    pub time: String,
    /// The pod, and where it waits.
    pub pod: PendingPod,
    /// How many nodes there are.
    pub nodes: usize,
    /// How many of them could take it now.
    pub fits_on: usize,
    /// What is said before any node is looked at.
    pub before_nodes: Vec<Said>,
    /// What is said of nodes.
    pub reasons: Vec<Counted>,
}

/// What is against the pod of this namespace and name; `None` where none of that name waits here. Of one that has a node already nothing is looked for.
pub fn explain(engine: &Scheduler, now: Time, namespace: &str, name: &str) -> Option<PendingExplanation> {
    let (pending, findings) = engine.explain_pending(namespace, name)?;
    let snapshot = engine.snapshot();
    let (before_nodes, reasons) =
        findings.as_ref().map(|found| counted(found, snapshot.tables())).unwrap_or_default();
    Some(PendingExplanation {
        api_version: super::report::API_VERSION,
        kind: "PendingExplanation",
        time: moment(now),
        pod: words::told(engine, &pending),
        nodes: snapshot.nodes().len(),
        fits_on: findings.map_or(0, |found| found.feasible()),
        before_nodes,
        reasons,
    })
}
