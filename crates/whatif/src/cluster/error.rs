//! What can go wrong with a change of a cluster.

use crate::load::files::InputError;

/// Why a change was not made. The cluster is as it was before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// An object or a configuration file is invalid; the message names the object and the field.
    #[error("{0}")]
    Invalid(String),
    /// No node has this name.
    #[error("node {0} not found")]
    NoNode(String),
    /// No unfinished pod has this namespace and name.
    #[error("pod {0} not found")]
    NoPod(String),
    /// The pod is on no node.
    #[error("pod {0} is pending, so it cannot be evicted")]
    Pending(String),
    /// A pod of this namespace and name exists.
    #[error("pod {0} exists already; give the new pod another name")]
    Exists(String),
    /// No transaction is open.
    #[error("no transaction is open; call fork first")]
    NoTransaction,
    /// A transaction is open.
    #[error("a transaction is open; commit or undo it first")]
    InTransaction,
}

impl From<InputError> for ClusterError {
    fn from(error: InputError) -> Self {
        Self::Invalid(error.0)
    }
}
