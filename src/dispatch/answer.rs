//! Which answers count: only those of the API server about the object that was asked for.
//!
//! A proxy, a load balancer or a captive portal may answer in the API server's place: with an error page, an empty body, a body that breaks off, or
//! the answer to somebody else's request. Such an answer is *foreign*. It leaves open whether the request was carried out, whatever its status line says.
//! Sends nothing, and decides nothing about what follows.

use http::StatusCode;
use serde::Deserialize;
use supercargo_core::pod::Uid;

/// The texts of kube-apiserver's 429 that bring no Status object (`apiserver/pkg/server/filters`: `priority-and-fairness.go`,
/// `maxinflight.go`, `with_retry_after.go`). All are written before the request is looked at.
const NOT_NOW: [&str; 3] = [
    "Too many requests, please try again later.",
    "The apiserver is shutting down, please try again later.",
    "The apiserver hasn't been fully initialized yet, please try again later.",
];

/// The object a request is about, as the API server's answers name it.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// The object's `apiVersion`.
    pub(crate) api_version: &'static str,
    /// The object's `kind`.
    pub(crate) kind: &'static str,
    /// The resource, as paths and Status objects name it.
    pub(crate) resource: &'static str,
    /// The namespace; empty for objects without one.
    pub(crate) namespace: String,
    /// The name.
    pub(crate) name: String,
    /// The uid, where the request is carried out for no other.
    pub(crate) uid: Option<Uid>,
    /// What a success brings.
    pub(crate) success: Success,
}

/// What the API server answers when it has carried out a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Success {
    /// The object.
    Object,
    /// A Status object; so do bindings.
    Status,
    /// Either; so do deletions.
    ObjectOrStatus,
}

/// What an answer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The API server carried the request out.
    Done,
    /// The API server refused the request, or failed.
    Failed(Failure),
    /// The answer is not the API server's about this object; why.
    Foreign(String),
}

/// A failure in the API server's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The reason, such as `NotFound`.
    pub(crate) reason: String,
    /// The text; may be empty.
    pub(crate) message: String,
    /// The API server has no object of this name.
    pub(crate) is_gone: bool,
}

impl Subject {
    /// The subject of requests about a pod, whatever its uid is.
    pub(crate) fn pod(namespace: &str, name: &str) -> Self {
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

    /// The resource with its group, as client-go's texts have it.
    pub(crate) fn qualified(&self) -> String {
        match self.group() {
            "" => self.resource.to_owned(),
            group => format!("{}.{group}", self.resource),
        }
    }

    /// Says what the answer `body` with this status line is.
    pub(crate) fn judge(&self, code: StatusCode, body: &[u8]) -> Verdict {
        let judged = if code.is_success() { self.success(code, body) } else { self.failure(code, body) };
        judged.unwrap_or_else(|why| Verdict::Foreign(why.to_owned()))
    }

    fn success(&self, code: StatusCode, body: &[u8]) -> Result<Verdict, &'static str> {
        let Kind { api_version, kind } = read(body)?;
        let is_status = (&*api_version, &*kind) == ("v1", "Status");
        let may_be = match self.success {
            Success::Object => !is_status,
            Success::Status => is_status,
            Success::ObjectOrStatus => true,
        };
        if !may_be {
            return Err("its body is of another kind");
        }
        if is_status {
            let status: Status = read(body)?;
            let details = status.details.unwrap_or_default();
            if status.status != "Success" || status.code.is_some_and(|told| told != code.as_u16()) {
                return Err("its body and its status line say different things");
            }
            // A deletion's Status names what was deleted; a binding's names nothing.
            let is_named = self.success == Success::Status || details.name == self.name;
            if !is_named || self.is_another(&details) {
                return Err("it is about another object");
            }
            return Ok(Verdict::Done);
        }
        if (&*api_version, &*kind) != (self.api_version, self.kind) {
            return Err("its body is of another kind");
        }
        let Object { metadata } = read(body)?;
        let is_of_uid = self.uid.as_deref().is_none_or(|uid| *uid == *metadata.uid);
        if (&metadata.namespace, &metadata.name) != (&self.namespace, &self.name) || !is_of_uid {
            return Err("it is about another object");
        }
        Ok(Verdict::Done)
    }

    fn failure(&self, code: StatusCode, body: &[u8]) -> Result<Verdict, &'static str> {
        if code == StatusCode::TOO_MANY_REQUESTS
            && std::str::from_utf8(body).is_ok_and(|text| NOT_NOW.contains(&text.trim()))
        {
            let reason = "TooManyRequests".to_owned();
            return Ok(Verdict::Failed(Failure { reason, ..Failure::default() }));
        }
        let Kind { api_version, kind } = read(body)?;
        if (&*api_version, &*kind) != ("v1", "Status") {
            return Err("its body is no Status object");
        }
        let Status { status, reason, message, code: told, details } = read(body)?;
        let details = details.unwrap_or_default();
        if status != "Failure" || told != Some(code.as_u16()) {
            return Err("its body and its status line say different things");
        }
        if self.is_another(&details) {
            return Err("it is about another object");
        }
        let is_gone = code == StatusCode::NOT_FOUND && reason == "NotFound" && self.is_this(&details);
        Ok(Verdict::Failed(Failure { reason, message, is_gone }))
    }

    fn is_this(&self, details: &Details) -> bool {
        (&*details.group, &*details.kind, &*details.name) == (self.group(), self.resource, &*self.name)
    }

    /// Whether a Status names something else than this object or its namespace: then it is the answer to another request.
    fn is_another(&self, details: &Details) -> bool {
        if details.name.is_empty() || details.kind.is_empty() {
            return false;
        }
        let (resource, _) = details.kind.split_once('/').unwrap_or((&details.kind, ""));
        let name = match resource {
            "namespaces" => &self.namespace,
            _ if resource == self.resource || resource == self.kind => &self.name,
            // What an error about a binding may call itself.
            "Binding" if self.success == Success::Status => &self.name,
            _ => return true,
        };
        details.name != *name
    }
}

fn read<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, &'static str> {
    serde_json::from_slice(body).map_err(|error| match error.classify() {
        serde_json::error::Category::Eof if body.is_empty() => "its body is empty",
        serde_json::error::Category::Eof => "its body breaks off",
        _ => "its body is no API object",
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
