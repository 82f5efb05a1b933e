//! What is against a pending pod, as the running server sees it now: counted, and without a word about nodes or other pods.
//!
//! What would help is not looked for here, where pods are waiting to be decided about: `supercargo explain pod` does that beside the server.

use super::report::{PendingPod, moment};
use super::words;
use crate::explain::{Counted, Said, Tally};
use serde::Serialize;
use supercargo_core::pod::Uid;
use supercargo_core::scheduler::{Pending, Scheduler};
use supercargo_core::time::Time;

/// Nodes that are looked at in one go at least, and the parts there are at most: beginning costs something, too.
const PART: usize = 512;
const PARTS_MAX: usize = 16;

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

/// An explanation in the making, part by part, so that nobody waits for all of it at once.
pub struct Explaining {
    namespace: String,
    name: String,
    uid: Option<Uid>,
    /// From which slot it goes on; `None` when it is done.
    next: Option<usize>,
    tally: Tally,
    fits_on: usize,
    nodes: usize,
    told: Option<(Time, PendingPod)>,
}

impl Explaining {
    /// Nothing was looked at yet of what is against the pod of this namespace and name.
    pub fn new(namespace: String, name: String) -> Self {
        let (tally, told) = (Tally::default(), None);
        Self { namespace, name, uid: None, next: Some(0), tally, fits_on: 0, nodes: 0, told }
    }

    /// Looks at some nodes more. Of a pod that has left meanwhile nothing is told, and nothing is looked for of one that has a node.
    pub fn go_on(&mut self, engine: &Scheduler, now: Time) {
        let Some(from) = self.next.take() else { return };
        let Some(pending) = self.pod(engine) else {
            self.told = None;
            return;
        };
        let all = engine.snapshot().nodes().len();
        let part = engine.explain_pending(&pending, from, PART.max(all.div_ceil(PARTS_MAX)));
        (self.told, self.next) = (Some((now, words::told(engine, &pending))), part.next);
        let Some(findings) = part.findings else {
            // It has a node by now: what was said of others is of no interest any more.
            (self.tally, self.fits_on, self.nodes) = (Tally::default(), 0, all);
            return;
        };
        self.tally.enter(&findings, engine.snapshot().tables());
        self.fits_on += findings.feasible();
        self.nodes += findings.nodes.len();
    }

    /// Whether there is nothing left to look at.
    pub fn is_done(&self) -> bool {
        self.next.is_none()
    }

    /// What was found; `None` where no pod of that name waits.
    pub fn done(self) -> Option<PendingExplanation> {
        let (now, pod) = self.told?;
        let (before_nodes, reasons) = self.tally.counted();
        Some(PendingExplanation {
            api_version: super::report::API_VERSION,
            kind: "PendingExplanation",
            time: moment(now),
            pod,
            nodes: self.nodes,
            fits_on: self.fits_on,
            before_nodes,
            reasons,
        })
    }

    fn pod<'e>(&mut self, engine: &'e Scheduler) -> Option<Pending<'e>> {
        if let Some(uid) = &self.uid {
            return engine.pending_one(uid);
        }
        let snapshot = engine.snapshot();
        let found = engine.pending().find(|pending| {
            let pod = pending.pod();
            *pod.name == *self.name && snapshot.text(pod.namespace) == self.namespace
        })?;
        self.uid = Some(Uid::clone(&found.pod().uid));
        Some(found)
    }
}
