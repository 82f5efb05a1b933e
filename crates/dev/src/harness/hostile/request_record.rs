//! The record of the hostile proxy: requests by type and object with their times, faults, accepted bindings,
//! and requests that ignored a `Retry-After`. The tests compare it with their limits.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Uri};
use serde_json::Value;

use super::fault::{Fault, Verb};

/// The time window in which requests are counted.
pub const WINDOW: Duration = Duration::from_secs(10);

/// The type and object of a request.
#[derive(Clone, Debug)]
pub struct What {
    pub verb: Verb,
    /// Verb and resource without names, such as `POST pods/binding` or `list nodes`. A request for a further
    /// page is not a new list.
    pub sort: String,
    /// The same with the object's name; `None` if the request names no object.
    pub object: Option<String>,
}

impl What {
    pub fn of(method: &Method, uri: &Uri, body: &Bytes) -> Self {
        let (path, query) = (uri.path(), uri.query().unwrap_or_default());
        let mut parts = path.trim_start_matches('/').split('/').peekable();
        // The version of the API, preceded by a group.
        let prefix = if parts.next() == Some("apis") { 2 } else { 1 };
        let mut parts = parts.by_ref().skip(prefix).collect::<Vec<_>>().into_iter().peekable();
        if parts.len() > 2 && parts.next_if_eq(&"namespaces").is_some() {
            parts.next();
        }
        let (resource, name) = (parts.next().unwrap_or_default(), parts.next());
        let subresource = parts.next().map(|name| format!("/{name}")).unwrap_or_default();
        let (verb, word) = match method {
            &Method::GET if name.is_some() => (Verb::Get, "GET"),
            &Method::GET if query.contains("sendInitialEvents=true") => (Verb::List, "list"),
            &Method::GET if query.contains("watch=true") => (Verb::Watch, "watch"),
            &Method::GET if query.contains("continue=") => (Verb::List, "page"),
            // A query of the newest version.
            &Method::GET if query.split('&').any(|part| part == "limit=1") => (Verb::List, "probe"),
            &Method::GET => (Verb::List, "list"),
            other => (Verb::Write, other.as_str()),
        };
        let object = match verb {
            Verb::Watch | Verb::List => Some(path.to_owned()),
            Verb::Get => Some(format!("GET {path}")),
            Verb::Write if name.is_some() => Some(format!("{word} {path}")),
            Verb::Write => name_in(body).map(|name| format!("{word} {path}/{name}")),
        };
        Self { verb, sort: format!("{word} {resource}{subresource}"), object }
    }
}

/// Returns the name of the object in a body.
fn name_in(body: &Bytes) -> Option<String> {
    let object: Value = serde_json::from_slice(body).ok()?;
    object["metadata"]["name"].as_str().map(str::to_owned)
}

/// Recorded requests, faults and bindings.
#[derive(Debug, Default)]
pub struct RequestRecord {
    /// Times of requests by type.
    pub sorts: BTreeMap<String, Vec<Instant>>,
    /// Numbers of requests by verb.
    verbs: BTreeMap<Verb, usize>,
    /// Times of requests by type and object.
    pub objects: BTreeMap<(String, String), Vec<Instant>>,
    /// Numbers of injected faults.
    pub faults: BTreeMap<Fault, usize>,
    /// Numbers of faults by type of request.
    pub hit: BTreeMap<String, usize>,
    /// Numbers of bindings that the API server accepted, by the uids of the pods.
    pub bound: BTreeMap<String, usize>,
    /// The times before which an object must not be requested again, from `Retry-After`.
    not_before: BTreeMap<String, Instant>,
    /// Requests that came too early.
    pub early: Vec<String>,
    /// The number of responses about an object with `Retry-After`.
    pub retry_afters: usize,
}

impl RequestRecord {
    /// Resets the counts of requests.
    pub fn begin(&mut self) {
        self.sorts.clear();
        self.objects.clear();
        self.verbs.clear();
    }

    /// Records a request. Returns its number among those of its type, and among those of its verb.
    pub fn came(&mut self, what: &What, now: Instant) -> (usize, usize) {
        if let Some(object) = &what.object {
            if let Some(at) = self.not_before.remove(object).filter(|at| now < *at) {
                self.early.push(format!("{object} came {:?} early", at - now));
            }
            self.objects.entry((what.sort.clone(), object.clone())).or_default().push(now);
        }
        let times = self.sorts.entry(what.sort.clone()).or_default();
        times.push(now);
        let turn = self.verbs.entry(what.verb).or_default();
        *turn += 1;
        (times.len(), *turn - 1)
    }

    /// Records an injected fault.
    pub fn injected(&mut self, fault: Fault, sort: &str) {
        *self.faults.entry(fault).or_default() += 1;
        *self.hit.entry(sort.to_owned()).or_default() += 1;
    }

    /// Records a `Retry-After` of `pause`.
    pub fn postponed(&mut self, what: &What, pause: Duration) {
        if let Some(object) = &what.object {
            self.retry_afters += 1;
            self.not_before.insert(object.clone(), Instant::now() + pause);
        }
    }

    /// Records a Binding that the API server accepted.
    pub fn accepted(&mut self, binding: &Bytes) {
        let binding: Value = serde_json::from_slice(binding).unwrap_or_default();
        let uid = binding["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        *self.bound.entry(uid).or_default() += 1;
    }

    /// Returns the number of times that a fault was injected.
    pub fn count(&self, fault: Fault) -> usize {
        self.faults.get(&fault).copied().unwrap_or_default()
    }
}

/// Returns the maximum number of requests in any [`WINDOW`].
pub fn busiest(times: &[Instant]) -> usize {
    let mut from = 0;
    let mut most = 0;
    for (to, at) in times.iter().enumerate() {
        while at.duration_since(times[from]) >= WINDOW {
            from += 1;
        }
        most = most.max(to + 1 - from);
    }
    most
}
