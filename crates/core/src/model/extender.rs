//! HTTP extenders in the engine's model: the pods they select, their verbs and their weights.
//!
//! Their addresses and requests are handled outside the engine. Upstream: `pkg/scheduler/extender.go`,
//! `kube-scheduler/extender/v1/types.go`.

use crate::model::intern::{Symbol, holds_no_ids, trace_ids};
use crate::model::pod::{PodInfo, Uid};

/// The name for extenders among the plugins that rejected a pod (upstream `framework.ExtenderName`).
pub const NAME: &str = "Extender";

/// The factor from an extender's scores (0..=10) to plugins' scores (upstream
/// `MaxNodeScore/MaxExtenderPriority`).
pub const SCORE_FACTOR: i64 = 10;

/// The identity of an extender, unique among current and former ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtenderId(pub u64);

/// The configuration of an extender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extender {
    /// Its identity.
    pub id: ExtenderId,
    /// `urlPrefix` as configured: its name in messages.
    pub url: Box<str>,
    /// Whether it has a `filterVerb`.
    pub filters: bool,
    /// Whether it has a `prioritizeVerb`.
    pub prioritizes: bool,
    /// Whether it has a `preemptVerb`.
    pub preempts: bool,
    /// Whether it has a `bindVerb`.
    pub binds: bool,
    /// The factor of its scores.
    pub weight: i64,
    /// Whether scheduling continues without it after a failure.
    pub ignorable: bool,
    /// `managedResources`: only pods that name one of them are sent to it; if empty, all pods are.
    pub managed: Box<[Symbol]>,
}

impl Extender {
    /// Whether the extender handles the pod (upstream `IsInterested`).
    pub fn is_interested(&self, pod: &PodInfo) -> bool {
        self.managed.is_empty() || pod.extended_resources.iter().any(|name| self.managed.contains(name))
    }

    /// Whether an attempt calls the extender to filter, prioritize or preempt.
    pub fn decides(&self) -> bool {
        self.filters || self.prioritizes || self.preempts
    }
}

/// Sorts extenders in upstream's order: non-ignorable ones first, else as configured
/// (`pkg/scheduler/scheduler.go#buildExtenders`).
pub fn in_order(mut extenders: Vec<Extender>) -> Vec<Extender> {
    extenders.sort_by_key(|extender| extender.ignorable);
    extenders
}

/// An extender's answer to a filter request, with nodes by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterAnswer {
    /// The nodes that passed.
    pub passed: Vec<String>,
    /// Nodes that failed, with reasons; preemption may help there.
    pub failed: Vec<(String, String)>,
    /// Nodes that failed, with reasons; preemption cannot help there. They take precedence over `failed`.
    pub unresolvable: Vec<(String, String)>,
}

/// A preemption candidate: a node and its victims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtenderCandidate {
    /// The node.
    pub node: Symbol,
    /// The victims.
    pub victims: Vec<Uid>,
    /// Number of victims whose eviction violates a disruption budget.
    pub violations: usize,
}

/// A preemption candidate that an extender left, with its victims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateAnswer {
    /// The node's name.
    pub node: String,
    /// The uids of the victims.
    pub victims: Vec<String>,
    /// Number of victims whose eviction violates a disruption budget.
    pub violations: i64,
}

/// An extender's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The answer to a filter request.
    Filtered(FilterAnswer),
    /// Scores of nodes by name, on its own scale.
    Scored(Vec<(String, i64)>),
    /// The remaining preemption candidates.
    Candidates(Vec<CandidateAnswer>),
}

trace_ids!(Extender { managed } but not { id, url, filters, prioritizes, preempts, binds, weight, ignorable });
trace_ids!(ExtenderCandidate { node } but not { victims, violations });
holds_no_ids!(ExtenderId);
