//! All pods that have no node yet, or one that the API server does not show yet: where each of them is. Changes nothing.

use super::Scheduler;
use super::binding::Binding;
use super::budget::Size;
use super::extend::Waiting;
use crate::explain::Findings;
use crate::intern::Symbol;
use crate::node::NodeIdx;
use crate::pod::{PodInfo, Uid};
use crate::queue::{Place, QueuedPod};
use crate::time::Time;
use std::collections::BTreeMap;

/// Where a pod is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// In the queue.
    Queued(Place),
    /// Its decision waits for extenders.
    Extenders,
    /// It is so large that it is evaluated in slices, which takes more than one step.
    Evaluation,
    /// It has a node, and its volumes are being bound or made.
    Volumes(Symbol),
    /// It has a node, and its binding is on its way or not shown by the watch yet.
    Binding {
        /// The node.
        node: Symbol,
        /// Whether the answer to the binding was lost, so that its outcome is being asked for.
        is_in_doubt: bool,
    },
}

/// What every filter says of a part of the nodes.
#[derive(Clone, Debug, Default)]
pub struct ExplainedPart {
    /// What they say; `None` where nothing is looked for.
    pub findings: Option<Findings>,
    /// The slot to go on from, if there are more nodes.
    pub next: Option<usize>,
}

/// A pod on its way.
#[derive(Clone, Copy, Debug)]
pub struct Pending<'a> {
    /// What the queue knows of it, wherever it is.
    pub queued: &'a QueuedPod,
    /// Where it is.
    pub at: Whereabouts,
    /// Since when it has been there, as far as that is known.
    pub since: Time,
    /// When it is tried at the latest if nothing happens before; `None` where only an event, or its turn, brings that about.
    pub next_try: Option<Time>,
}

impl Pending<'_> {
    /// The pod.
    pub fn pod(&self) -> &PodInfo {
        &self.queued.pod
    }
}

/// Where a pod is whose decision is laid aside.
fn aside(waiting: &Waiting) -> Whereabouts {
    if waiting.progress.is_some() { Whereabouts::Evaluation } else { Whereabouts::Extenders }
}

impl Scheduler {
    /// All pods on their way to a node, place by place.
    pub fn pending(&self) -> impl Iterator<Item = Pending<'_>> {
        let queued = self.queue.waiting().map(|(place, queued)| Pending {
            queued,
            at: Whereabouts::Queued(place),
            since: queued.timestamp,
            next_try: self.queue.next_try(place, queued),
        });
        let away = |queued, at, since| Pending { queued, at, since, next_try: None };
        let laid_aside =
            self.extending.waiting().map(move |waiting| away(&waiting.queued, aside(waiting), waiting.began));
        let volumes = self
            .pre_binds
            .iter()
            .map(move |(queued, node, since)| away(queued, Whereabouts::Volumes(node), since));
        let bindings: BTreeMap<_, _> = self.bindings.iter().collect();
        let bindings = bindings.into_values().filter_map(Binding::pending);
        let bindings = bindings.map(move |(queued, node, since, is_in_doubt)| {
            away(queued, Whereabouts::Binding { node, is_in_doubt }, since)
        });
        queued.chain(laid_aside).chain(volumes).chain(bindings)
    }

    /// The same of one pod.
    pub fn pending_one(&self, uid: &Uid) -> Option<Pending<'_>> {
        let away = |queued, at, since| Pending { queued, at, since, next_try: None };
        if let Some((place, queued)) = self.queue.place_of(uid) {
            let next_try = self.queue.next_try(place, queued);
            return Some(Pending {
                queued,
                at: Whereabouts::Queued(place),
                since: queued.timestamp,
                next_try,
            });
        }
        if let Some(waiting) = self.extending.waiting_pod(uid) {
            return Some(away(&waiting.queued, aside(waiting), waiting.began));
        }
        if let Some((queued, node, since)) = self.pre_binds.pod(uid) {
            return Some(away(queued, Whereabouts::Volumes(node), since));
        }
        let (queued, node, since, is_in_doubt) = self.bindings.get(uid)?.pending()?;
        Some(away(queued, Whereabouts::Binding { node, is_in_doubt }, since))
    }

    /// What every filter says of a part of the nodes about a pod on its way to one: of at most so many, from the first whose slot is not before `from`. None
    /// where the pod has a node already. And from where to go on, if there are more.
    pub fn explain_pending(&self, pending: &Pending<'_>, from: usize, at_most: usize) -> ExplainedPart {
        let has_node = matches!(pending.at, Whereabouts::Volumes(_) | Whereabouts::Binding { .. });
        // What every filter says of a large pod takes as long as its evaluation, which goes in slices.
        let is_large = !matches!(self.size_of(pending.pod()), Size::Usual);
        let Some(profile) = self.profile_of(pending.pod()).filter(|_| !has_node && !is_large) else {
            return ExplainedPart::default();
        };
        let snapshot = self.snapshot();
        let mut rest = snapshot.nodes().iter().skip_while(|node| node.index() < from);
        let part: Vec<NodeIdx> = rest.by_ref().take(at_most).collect();
        let next = rest.next().map(NodeIdx::index);
        let findings = profile.framework.explain_on(pending.pod(), snapshot, part);
        ExplainedPart { findings: Some(findings), next }
    }

    /// Whether it decides, rather than standing by for another that does.
    pub fn is_leading(&self) -> bool {
        self.leading
    }
}
