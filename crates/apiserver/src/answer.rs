//! Validates responses: only a response of the API server about the requested object counts.
//!
//! A proxy, load balancer or captive portal may answer in the API server's place: with an error page, an
//! empty or truncated body, or the response to another request. Such a response is *foreign*: whatever its
//! status line, it leaves open whether the request was carried out.

use http::StatusCode;
use serde::Deserialize;
use supercargo_core::model::pod::Uid;

/// Texts of kube-apiserver's 429 responses that carry no Status object (`apiserver/pkg/server/filters`:
/// `priority-and-fairness.go`, `maxinflight.go`, `with_retry_after.go`). The server sends all of them before
/// it handles the request.
const NOT_NOW: [&str; 3] = [
    "Too many requests, please try again later.",
    "The apiserver is shutting down, please try again later.",
    "The apiserver hasn't been fully initialized yet, please try again later.",
];

/// The object of a request, as the API server's responses name it.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The object's `apiVersion`.
    pub api_version: &'static str,
    /// The object's `kind`.
    pub kind: &'static str,
    /// Plural resource name, as in paths and Status objects.
    pub resource: &'static str,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid, if the request applies to this uid only.
    pub uid: Option<Uid>,
    /// Body of a successful response.
    pub success: Success,
}

/// Body of a successful response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Success {
    /// The object.
    Object,
    /// A Status object, as for bindings.
    Status,
    /// Either, as for deletions.
    ObjectOrStatus,
    /// The object, under a name that the API server generated and that begins with the subject's.
    Generated,
}

/// Classification of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Classification {
    /// The API server carried the request out.
    Done,
    /// The API server refused the request, or failed to carry it out.
    Failed(Failure),
    /// The response is not the API server's about this object, for the given reason.
    Foreign(String),
}

/// A failure as the API server reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The reason, such as `NotFound`.
    pub reason: String,
    /// The message; may be empty.
    pub message: String,
    /// Whether the API server has no object of this name.
    pub is_gone: bool,
}

impl Subject {
    /// Returns the subject of a request about a pod, of any uid.
    pub fn pod(namespace: &str, name: &str) -> Self {
        Self {
            api_version: "v1",
            kind: "Pod",
            resource: "pods",
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: None,
            success: Success::Object,
        }
    }

    fn group(&self) -> &'static str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// Returns `<resource>.<group>`, as client-go's messages have it.
    pub fn qualified(&self) -> String {
        match self.group() {
            "" => self.resource.to_owned(),
            group => format!("{}.{group}", self.resource),
        }
    }

    /// Classifies a response by its status code and body.
    pub fn judge(&self, code: StatusCode, body: &[u8]) -> Classification {
        let judged = if code.is_success() { self.success(code, body) } else { self.failure(code, body) };
        judged.unwrap_or_else(|why| Classification::Foreign(why.to_owned()))
    }

    fn success(&self, code: StatusCode, body: &[u8]) -> Result<Classification, &'static str> {
        let Kind { api_version, kind } = read(body)?;
        let is_status = (&*api_version, &*kind) == ("v1", "Status");
        let may_be = match self.success {
            Success::Object | Success::Generated => !is_status,
            Success::Status => is_status,
            Success::ObjectOrStatus => true,
        };
        if !may_be {
            return Err("its body has an unexpected kind");
        }
        if is_status {
            let status: Status = read(body)?;
            let details = status.details.unwrap_or_default();
            if status.status != "Success" || status.code.is_some_and(|reported| reported != code.as_u16()) {
                return Err("its body contradicts its status line");
            }
            // A deletion's Status names the deleted object; a binding's names nothing.
            let is_named = self.success == Success::Status || details.name == self.name;
            if !is_named || self.is_another(&details) {
                return Err("it names another object");
            }
            return Ok(Classification::Done);
        }
        if (&*api_version, &*kind) != (self.api_version, self.kind) {
            return Err("its body has an unexpected kind");
        }
        let Object { metadata } = read(body)?;
        let is_of_uid = self.uid.as_deref().is_none_or(|uid| *uid == *metadata.uid);
        if metadata.namespace != self.namespace || !self.is_name(&metadata.name) || !is_of_uid {
            return Err("it names another object");
        }
        Ok(Classification::Done)
    }

    fn failure(&self, code: StatusCode, body: &[u8]) -> Result<Classification, &'static str> {
        if let Some(failure) = not_now(code, body) {
            return Ok(Classification::Failed(failure));
        }
        let Status { reason, message, details, .. } = failure_status(code, body)?;
        let details = details.unwrap_or_default();
        if self.is_another(&details) {
            return Err("it names another object");
        }
        if code == StatusCode::NOT_FOUND && !self.is_named(&details) {
            return Err("it does not name what was not found");
        }
        let is_gone = code == StatusCode::NOT_FOUND && reason == "NotFound" && self.is_this(&details);
        Ok(Classification::Failed(Failure { reason, message, is_gone }))
    }

    /// Whether the object of the request can have this name.
    fn is_name(&self, name: &str) -> bool {
        if self.success != Success::Generated {
            return *name == *self.name;
        }
        // The API server cuts off a longer prefix (`apiserver/pkg/storage/names/generate.go#MaxGeneratedNameLength`).
        let prefix = self.name.get(..58).unwrap_or(&self.name);
        name.starts_with(prefix)
    }

    fn is_this(&self, details: &Details) -> bool {
        (&*details.group, &*details.kind, &*details.name) == (self.group(), self.resource, &*self.name)
    }

    /// Whether a Status that does not name another object names this one or its namespace.
    ///
    /// The API server's 404 for a missing object does (`apimachinery/pkg/api/errors/errors.go#NewNotFound`). If an
    /// admission webhook denies a request with status 404, the response does not, and is taken for foreign.
    fn is_named(&self, details: &Details) -> bool {
        let is_of_group = details.kind == "namespaces" || details.group == self.group();
        is_of_group && !details.kind.is_empty() && !details.name.is_empty()
    }

    /// Whether a Status names neither this object nor its namespace, and so answers another request.
    fn is_another(&self, details: &Details) -> bool {
        if details.name.is_empty() || details.kind.is_empty() {
            return false;
        }
        let (resource, _) = details.kind.split_once('/').unwrap_or((&details.kind, ""));
        let name = match resource {
            "namespaces" => &self.namespace,
            _ if resource == self.resource || resource == self.kind => return !self.is_name(&details.name),
            // Errors about a binding may use this kind.
            "Binding" if self.success == Success::Status => &self.name,
            _ => return true,
        };
        details.name != *name
    }
}

/// Reads the failure of a request that names no object, such as a list or a review.
///
/// # Errors
/// Why the response is not the API server's.
pub(crate) fn refusal(code: StatusCode, body: &[u8]) -> Result<Failure, &'static str> {
    if let Some(failure) = not_now(code, body) {
        return Ok(failure);
    }
    let Status { reason, message, .. } = failure_status(code, body)?;
    Ok(Failure { reason, message, is_gone: false })
}

/// Returns the failure of a 429 response that carries no Status object.
fn not_now(code: StatusCode, body: &[u8]) -> Option<Failure> {
    let is_known = std::str::from_utf8(body).is_ok_and(|text| NOT_NOW.contains(&text.trim()));
    let reason = || "TooManyRequests".to_owned();
    (code == StatusCode::TOO_MANY_REQUESTS && is_known)
        .then(|| Failure { reason: reason(), ..Failure::default() })
}

/// Reads the Status object of a failure.
fn failure_status(code: StatusCode, body: &[u8]) -> Result<Status, &'static str> {
    if !is_of_kind(body, "v1", "Status")? {
        return Err("its body is not a Status object");
    }
    let status: Status = read(body)?;
    if status.status != "Failure" || status.code != Some(code.as_u16()) {
        return Err("its body contradicts its status line");
    }
    Ok(status)
}

/// Returns whether a body is an object of this kind.
///
/// # Errors
/// Why it is not an API object.
pub(crate) fn is_of_kind(body: &[u8], api_version: &str, kind: &str) -> Result<bool, &'static str> {
    let read: Kind = read(body)?;
    Ok((&*read.api_version, &*read.kind) == (api_version, kind))
}

/// Decodes a body. The error does not quote it.
pub(crate) fn read<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, &'static str> {
    serde_json::from_slice(body).map_err(|error| match error.classify() {
        serde_json::error::Category::Eof if body.is_empty() => "its body is empty",
        serde_json::error::Category::Eof => "its body is truncated",
        _ => "its body is not an API object",
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kind {
    api_version: String,
    kind: String,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    namespace: String,
    name: String,
    uid: String,
}

#[derive(Deserialize)]
struct Status {
    status: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    code: Option<u16>,
    details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    name: String,
    group: String,
    kind: String,
}
