//! Users, and what they ask to access.

use std::collections::BTreeMap;

/// The user of a request, as a TokenReview reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    /// User name.
    pub name: String,
    /// Unique id; may be empty.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Further attributes from the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// A request to a path, for a SubjectAccessReview.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// The user.
    pub user: User,
    /// The HTTP method in lower case, such as `get`.
    pub verb: String,
    /// The path without the query.
    pub path: String,
}

/// A kind of object, for a SubjectAccessReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The name in request paths, such as `pods`.
    pub name: &'static str,
}

/// A request to read objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceAccess {
    /// The user.
    pub user: User,
    /// `get` or `list`.
    pub verb: &'static str,
    /// The kind.
    pub resource: Resource,
    /// The namespace; empty for all.
    pub namespace: String,
}

/// Result of a SubjectAccessReview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed.
    Allowed,
    /// The request is denied.
    Denied {
        /// The authorizer's reason; often empty.
        reason: String,
    },
}
