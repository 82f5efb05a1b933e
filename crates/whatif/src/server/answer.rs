//! Answers of the server: a JSON object, or a `metav1.Status` with an error.

use crate::cluster::ClusterError;
use serde::Serialize;
use serde_json::json;

/// An answer to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// JSON; empty for 204.
    pub body: String,
    /// Seconds after which a retry may succeed.
    pub retry_after: Option<u32>,
}

impl Answer {
    pub(super) fn of(status: u16, value: &impl Serialize) -> Self {
        match serde_json::to_string(value) {
            Ok(body) => Self { status, body, retry_after: None },
            Err(error) => Problem::Internal(error.to_string()).into(),
        }
    }

    pub(super) fn empty() -> Self {
        Self { status: 204, body: String::new(), retry_after: None }
    }
}

/// Why a request has no other answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The request or an object in it is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The user lacks a permission.
    #[error("{0}")]
    Forbidden(String),
    /// The path, snapshot or fork does not exist, or belongs to another user.
    #[error("{0}")]
    NotFound(String),
    /// The path exists with another method.
    #[error("the path exists with another method; see openapi.json")]
    Method,
    /// An earlier change of the fork does not apply any more.
    #[error("{0}")]
    Conflict(String),
    /// The body is too large.
    #[error("{0}")]
    TooLarge(String),
    /// A limit of the user or the server is reached, until something is deleted or expires.
    #[error("{0}")]
    Limit(String),
    /// Too many requests wait. A retry may succeed.
    #[error("{0}")]
    Busy(String),
    /// The live cluster is not known or not current.
    #[error("{0}")]
    Later(String),
    /// The answer took too long.
    #[error("{0}")]
    Late(String),
    /// A defect of the server.
    #[error("{0}")]
    Internal(String),
}

impl Problem {
    fn code(&self) -> (u16, &'static str) {
        match self {
            Self::Invalid(_) => (400, "BadRequest"),
            Self::Forbidden(_) => (403, "Forbidden"),
            Self::NotFound(_) => (404, "NotFound"),
            Self::Method => (405, "MethodNotAllowed"),
            Self::Conflict(_) => (409, "Conflict"),
            Self::TooLarge(_) => (413, "RequestEntityTooLarge"),
            Self::Limit(_) | Self::Busy(_) => (429, "TooManyRequests"),
            Self::Internal(_) => (500, "InternalError"),
            Self::Later(_) => (503, "ServiceUnavailable"),
            Self::Late(_) => (504, "Timeout"),
        }
    }
}

impl From<Problem> for Answer {
    fn from(problem: Problem) -> Self {
        let (status, reason) = problem.code();
        let body = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": problem.to_string(), "reason": reason, "code": status });
        let retry_after = matches!(problem, Problem::Busy(_) | Problem::Later(_)).then_some(1);
        Self { status, body: body.to_string(), retry_after }
    }
}

impl From<ClusterError> for Problem {
    fn from(error: ClusterError) -> Self {
        match error {
            // Of an upload, which is read like a file.
            ClusterError::Invalid(text) => Self::Invalid(text.replace("standard input", "the request body")),
            ClusterError::NoNode(_) | ClusterError::NoPod(_) | ClusterError::Pending(_) => {
                Self::Invalid(error.to_string())
            }
            ClusterError::Exists(_) => Self::Invalid(error.to_string()),
            ClusterError::NoTransaction | ClusterError::InTransaction => Self::Internal(error.to_string()),
        }
    }
}
