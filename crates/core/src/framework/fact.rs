//! Facts: the numbers and names behind a rejection, for explanations.
//!
//! Decisions do not use them. They are computed after a decision, only for nodes to be explained.

use crate::model::intern::Symbol;
use crate::model::node::Taint;
use crate::model::pod::HostPort;
use crate::model::selector::{Requirement, Selector};

/// A resource of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Pods.
    Pods,
    /// cpu, in thousandths of a core.
    Cpu,
    /// Memory, in bytes.
    Memory,
    /// Ephemeral storage, in bytes.
    EphemeralStorage,
    /// Another resource, in its own unit.
    Scalar(Symbol),
}

/// One cause of the rejection of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A resource is insufficient.
    Short {
        /// The resource.
        of: Measure,
        /// The pod's request.
        wanted: i64,
        /// The sum of the requests of the node's pods.
        taken: i64,
        /// The node's allocatable amount.
        allocatable: i64,
    },
    /// The pod does not tolerate this taint.
    Taint(Taint),
    /// The node's label does not match `spec.nodeSelector`.
    Selector {
        /// The label's key.
        key: Symbol,
        /// The required value.
        wanted: Symbol,
        /// The node's value, if it has the label.
        found: Option<Symbol>,
    },
    /// The node does not match a term of the required node affinity. One matching term would suffice.
    Term {
        /// The index of the term, from 0.
        term: usize,
        /// Whether the term comes from the profile (`addedAffinity`) instead of the pod.
        added: bool,
        /// The requirement that is not met.
        unmet: Requirement,
        /// The node's value of that label, if it has it.
        found: Option<Symbol>,
    },
    /// A requested host port is in use.
    Port(HostPort),
    /// The node's domain would exceed the maximum skew of a spread constraint.
    Skew {
        /// The constraint's topology key.
        key: Symbol,
        /// The node's value of the topology key.
        domain: Symbol,
        /// Matching pods in that domain, without the pod itself.
        here: i64,
        /// 1 if the pod itself matches, else 0.
        itself: i64,
        /// The minimum of matching pods over all counted domains; 0 if there are fewer domains than
        /// `minDomains`.
        lowest: i64,
        /// `maxSkew`.
        max_skew: i32,
        /// Number of counted domains.
        domains: usize,
        /// The selector of counted pods.
        selector: Selector,
    },
    /// The node lacks the topology key of a spread constraint or an affinity term.
    NoKey(Symbol),
    /// The domain has no pod that matches the pod's required affinity.
    NoPeer {
        /// The term's topology key.
        key: Symbol,
        /// The node's value of the topology key.
        domain: Symbol,
        /// The term's pod selector.
        selector: Selector,
    },
    /// The domain has pods that match the pod's required anti-affinity.
    Foes {
        /// The term's topology key.
        key: Symbol,
        /// The node's value of the topology key.
        domain: Symbol,
        /// Number of such pods.
        pods: i64,
        /// The term's pod selector.
        selector: Selector,
    },
    /// The domain has pods whose own required anti-affinity matches the pod.
    FoeOf {
        /// Their term's topology key.
        key: Symbol,
        /// The node's value of the topology key.
        domain: Symbol,
        /// Number of such pods.
        pods: i64,
    },
}
