//! Explains a pending pod from the running scheduler's state: rejection reasons with counts, without names of
//! nodes or other pods.
//!
//! Does not search for possible fixes, which would delay scheduling; `supercargo explain pod` does that
//! outside the scheduler.

use crate::explain::{Counted, Rejection, Tally};
use crate::pending::format;
use crate::pending::report::{API_VERSION, PendingPod, moment};
use serde::{Deserialize, Serialize};
use supercargo_core::model::pod::Uid;
use supercargo_core::model::time::Time;
use supercargo_core::scheduler::{Pending, Scheduler};

/// `kind` of the explanation.
const KIND: &str = "PendingExplanation";
/// Minimum number of nodes evaluated in one step, and maximum number of steps. Each step has a fixed cost.
const PART: usize = 512;
const PARTS_MAX: usize = 16;

/// Explanation of a pending pod.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingExplanation {
    /// API version of this kind.
    pub api_version: &'static str,
    /// Kind of this object.
    pub kind: &'static str,
    /// Time of the evaluation, RFC 3339.
    pub time: String,
    /// The pod, and its place in the scheduler.
    pub pod: PendingPod,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of feasible nodes.
    pub fits_on: usize,
    /// Reasons that apply before node evaluation.
    pub before_nodes: Vec<Rejection>,
    /// Reasons of nodes, with counts.
    pub reasons: Vec<Counted>,
}

/// A [`PendingExplanation`] as its reader decodes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingAnswer {
    /// API version of this kind.
    pub api_version: String,
    /// Kind of this object.
    pub kind: String,
    /// Time of the evaluation, RFC 3339.
    pub time: String,
    /// The pod, and its place in the scheduler.
    pub pod: PendingPod,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of feasible nodes.
    pub fits_on: usize,
    /// Reasons that apply before node evaluation.
    pub before_nodes: Vec<PendingReason>,
    /// Reasons of nodes, with counts.
    pub reasons: Vec<PendingReason>,
}

impl PendingAnswer {
    /// Returns whether kind and API version are those of this program.
    pub fn is_of_this_version(&self) -> bool {
        self.api_version == API_VERSION && self.kind == KIND
    }
}

/// A reason in a [`PendingAnswer`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingReason {
    /// The reason code.
    pub code: String,
    /// The plugin that rejects.
    pub plugin: String,
    /// Number of nodes with this reason; absent if it applies before node evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
    /// Number of nodes with only this reason; absent if it applies before node evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_on: Option<usize>,
    /// The plugin's message, as in upstream.
    pub text: String,
}

/// An explanation under construction. It is computed in steps, so that scheduling is never blocked for long.
pub struct Explaining {
    namespace: String,
    name: String,
    uid: Option<Uid>,
    /// Slot of the next node; `None` when done.
    next: Option<usize>,
    tally: Tally,
    fits_on: usize,
    nodes: usize,
    latest: Option<(Time, PendingPod)>,
}

impl Explaining {
    /// Starts an explanation of the pod with this namespace and name.
    pub fn new(namespace: String, name: String) -> Self {
        let (tally, latest) = (Tally::default(), None);
        Self { namespace, name, uid: None, next: Some(0), tally, fits_on: 0, nodes: 0, latest }
    }

    /// Evaluates some more nodes. Ends without a result if the pod has left, and stops evaluating if it has a
    /// node.
    pub fn go_on(&mut self, engine: &Scheduler, now: Time) {
        let Some(from) = self.next.take() else { return };
        let Some(pending) = self.pod(engine) else {
            self.latest = None;
            return;
        };
        let all = engine.snapshot().nodes().len();
        let part = engine.explain_pending(&pending, from, PART.max(all.div_ceil(PARTS_MAX)));
        (self.latest, self.next) = (Some((now, format::describe(engine, &pending))), part.next);
        let Some(findings) = part.findings else {
            // The pod has a node now, so reasons found earlier no longer apply.
            (self.tally, self.fits_on, self.nodes) = (Tally::default(), 0, all);
            return;
        };
        self.tally.enter(&findings, engine.snapshot().tables());
        self.fits_on += findings.feasible();
        self.nodes += findings.nodes.len();
    }

    /// Returns whether the explanation is complete.
    pub fn is_done(&self) -> bool {
        self.next.is_none()
    }

    /// Returns the result; `None` if no such pod is pending.
    pub fn done(self) -> Option<PendingExplanation> {
        let (now, pod) = self.latest?;
        let (before_nodes, reasons) = self.tally.counted();
        Some(PendingExplanation {
            api_version: API_VERSION,
            kind: KIND,
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
