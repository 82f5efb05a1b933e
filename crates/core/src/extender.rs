//! HTTP extenders as the engine knows them: which pods each has a say about, in what, and how much it counts.
//!
//! Where they are and how they are asked is the shell's. Upstream: `pkg/scheduler/extender.go`,
//! `kube-scheduler/extender/v1/types.go`.

use crate::intern::Symbol;
use crate::pod::{PodInfo, Uid};

/// The name that stands for extenders among the plugins that rejected a pod (upstream `framework.ExtenderName`).
pub const NAME: &str = "Extender";

/// What a point of an extender's scale of 0..=10 is on the scale of plugins (upstream `MaxNodeScore/MaxExtenderPriority`).
pub const SCORE_FACTOR: i64 = 10;

/// Tells an extender from all others there are or were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtenderId(pub u64);

/// An extender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extender {
    /// Its identity.
    pub id: ExtenderId,
    /// `urlPrefix` as written: its name in texts.
    pub url: Box<str>,
    /// Whether it has a `filterVerb`.
    pub filters: bool,
    /// Whether it has a `prioritizeVerb`.
    pub prioritizes: bool,
    /// Whether it has a `preemptVerb`.
    pub preempts: bool,
    /// Whether it has a `bindVerb`.
    pub binds: bool,
    /// What its scores are multiplied by.
    pub weight: i64,
    /// Whether scheduling goes on without it where it fails.
    pub ignorable: bool,
    /// `managedResources`: only pods that name one of them are its business; with none, all are.
    pub managed: Box<[Symbol]>,
}

impl Extender {
    /// Whether the pod is its business (upstream `IsInterested`).
    pub fn is_interested(&self, pod: &PodInfo) -> bool {
        self.managed.is_empty() || pod.extended_resources.iter().any(|name| self.managed.contains(name))
    }

    /// Whether a decision about a pod asks it anything.
    pub fn decides(&self) -> bool {
        self.filters || self.prioritizes || self.preempts
    }
}

/// Upstream's order: those that must answer first, each group as written (`pkg/scheduler/scheduler.go#buildExtenders`).
pub fn in_order(mut extenders: Vec<Extender>) -> Vec<Extender> {
    extenders.sort_by_key(|extender| extender.ignorable);
    extenders
}

/// What an extender says of nodes it was asked to filter, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterAnswer {
    /// The nodes that pass.
    pub passed: Vec<String>,
    /// Nodes that do not, and why; that other pods go may help there.
    pub failed: Vec<(String, String)>,
    /// Nodes that do not, and why; nothing helps there. They come before `failed`.
    pub unresolvable: Vec<(String, String)>,
}

/// A node that could take a pod if some others went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// The node.
    pub node: Symbol,
    /// The pods that would have to go.
    pub victims: Vec<Uid>,
    /// How many of them a disruption budget protects.
    pub violations: usize,
}

/// A node that an extender leaves in question for preemption, and who would have to go there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomAnswer {
    /// The node's name.
    pub node: String,
    /// The uids of the pods.
    pub victims: Vec<String>,
    /// How many of them a disruption budget protects.
    pub violations: i64,
}

/// What an extender said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Which nodes pass.
    Filtered(FilterAnswer),
    /// Scores of nodes by name, on its own scale.
    Scored(Vec<(String, i64)>),
    /// Where room could be made.
    Rooms(Vec<RoomAnswer>),
}
