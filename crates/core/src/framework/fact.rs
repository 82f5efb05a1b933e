//! The numbers and names behind a rejection: what a person needs beside its text to do something about it.
//!
//! Nobody decides by them. They are asked for after a decision, of the nodes somebody wants explained.

use crate::intern::Symbol;
use crate::node::Taint;
use crate::pod::HostPort;
use crate::selector::{Requirement, Selector};

/// What is counted on a node.
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
    /// Another resource, in units of its own.
    Scalar(Symbol),
}

/// One thing that stands behind a rejection of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// There is too little of something.
    Short {
        /// Of what.
        of: Measure,
        /// What the pod asks for.
        wanted: i64,
        /// What the node's pods take of it.
        taken: i64,
        /// What the node has for pods in all.
        allocatable: i64,
    },
    /// The pod does not tolerate this taint.
    Taint(Taint),
    /// The node's label is not what `spec.nodeSelector` asks for.
    Selector {
        /// The label's key.
        key: Symbol,
        /// The value asked for.
        wanted: Symbol,
        /// The node's value, if it has the label.
        found: Option<Symbol>,
    },
    /// A term of the required node affinity asks for something else than the node's labels; one term would be enough.
    Term {
        /// The term, from 0.
        term: usize,
        /// Whether the profile asks it of all its pods (`addedAffinity`), and not the pod.
        added: bool,
        /// What is not fulfilled.
        unmet: Requirement,
        /// The node's value of that label, if it has it.
        found: Option<Symbol>,
    },
    /// A host port the pod asks for is in use.
    Port(HostPort),
    /// A domain would have too many matching pods, by a spread constraint.
    Skew {
        /// The constraint's topology key.
        key: Symbol,
        /// The node's value of it.
        domain: Symbol,
        /// Matching pods in that domain, without the pod itself.
        here: i64,
        /// 1 where the pod itself matches, else 0.
        itself: i64,
        /// Matching pods in the emptiest domain, as the constraint counts it: 0 where there are fewer domains than `minDomains`.
        lowest: i64,
        /// `maxSkew`.
        max_skew: i32,
        /// How many domains are counted.
        domains: usize,
        /// What counts.
        selector: Selector,
    },
    /// The node lacks the label that a spread constraint or an affinity term goes by.
    NoKey(Symbol),
    /// The domain has no pod that the pod's required affinity asks for.
    NoPeer {
        /// The term's topology key.
        key: Symbol,
        /// The node's value of it.
        domain: Symbol,
        /// Whom the term means.
        selector: Selector,
    },
    /// The domain has pods that the pod's required anti-affinity names.
    Foes {
        /// The term's topology key.
        key: Symbol,
        /// The node's value of it.
        domain: Symbol,
        /// How many there are.
        pods: i64,
        /// Whom the term means.
        selector: Selector,
    },
    /// The domain has pods whose own required anti-affinity names the pod.
    FoeOf {
        /// Their term's topology key.
        key: Symbol,
        /// The node's value of it.
        domain: Symbol,
        /// How many there are.
        pods: i64,
    },
}
