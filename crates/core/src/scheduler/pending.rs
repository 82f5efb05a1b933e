//! All pods that have no node yet, or one that the API server does not show yet: where each of them is. Changes nothing.

use super::Scheduler;
use super::binding::Binding;
use crate::explain::Findings;
use crate::intern::Symbol;
use crate::pod::PodInfo;
use crate::queue::{Place, QueuedPod};
use crate::time::Time;

/// Where a pod is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// In the queue.
    Queued(Place),
    /// Its decision waits for extenders.
    Extenders,
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
        let asking =
            self.extending.waiting().map(move |(queued, since)| away(queued, Whereabouts::Extenders, since));
        let volumes = self
            .pre_binds
            .iter()
            .map(move |(queued, node, since)| away(queued, Whereabouts::Volumes(node), since));
        let bindings = self.bindings.values().filter_map(Binding::pending);
        let bindings = bindings.map(move |(queued, node, since, is_in_doubt)| {
            away(queued, Whereabouts::Binding { node, is_in_doubt }, since)
        });
        queued.chain(asking).chain(volumes).chain(bindings)
    }

    /// The pod of this namespace and name, if it is on its way to a node, and what every filter says of every node, if it has none yet.
    pub fn explain_pending(&self, namespace: &str, name: &str) -> Option<(Pending<'_>, Option<Findings>)> {
        let snapshot = self.snapshot();
        let is_it = |pod: &PodInfo| *pod.name == *name && snapshot.text(pod.namespace) == namespace;
        let pending = self.pending().find(|pending| is_it(pending.pod()))?;
        let has_node = matches!(pending.at, Whereabouts::Volumes(_) | Whereabouts::Binding { .. });
        let profile = self.profile_of(pending.pod()).filter(|_| !has_node);
        let findings = profile.map(|profile| profile.framework.explain(pending.pod(), snapshot));
        Some((pending, findings))
    }

    /// Whether it decides, rather than standing by for another that does.
    pub fn is_leading(&self) -> bool {
        self.leading
    }
}
