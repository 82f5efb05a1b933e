//! What the hostile proxy has seen and done: requests by sort and by object with their times, faults, bindings that the API server accepted, and
//! requests that came before the time a `Retry-After` named. Judges nothing else; the limits are the tests' business.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Uri};
use serde_json::Value;

use super::fault::{Fault, Verb};

/// The span of time in which requests are counted.
pub(crate) const WINDOW: Duration = Duration::from_secs(10);

/// What a request asks for.
#[derive(Clone, Debug)]
pub(crate) struct What {
    pub(crate) verb: Verb,
    /// Verb and resource without names, such as `POST pods/binding` or `list nodes`; a further page is no new list.
    pub(crate) sort: String,
    /// The same of one object; nothing where the request does not name one.
    pub(crate) object: Option<String>,
}

impl What {
    pub(crate) fn of(method: &Method, uri: &Uri, body: &Bytes) -> Self {
        let (path, query) = (uri.path(), uri.query().unwrap_or_default());
        let mut parts = path.trim_start_matches('/').split('/').peekable();
        // The group's version, and a group before it.
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

/// The name of the object in a body.
fn name_in(body: &Bytes) -> Option<String> {
    let object: Value = serde_json::from_slice(body).ok()?;
    object["metadata"]["name"].as_str().map(str::to_owned)
}

/// The accounts.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Times of requests by sort.
    pub(crate) sorts: BTreeMap<String, Vec<Instant>>,
    /// How many requests of each verb came.
    verbs: BTreeMap<Verb, usize>,
    /// Times of requests by sort and object.
    pub(crate) objects: BTreeMap<(String, String), Vec<Instant>>,
    /// Faults that were carried out.
    pub(crate) faults: BTreeMap<Fault, usize>,
    /// The same by the sort of the request.
    pub(crate) hit: BTreeMap<String, usize>,
    /// Bindings that the API server accepted, by the pods' uids.
    pub(crate) bound: BTreeMap<String, usize>,
    /// When an object may be asked for again.
    not_before: BTreeMap<String, Instant>,
    /// Requests that came too early.
    pub(crate) early: Vec<String>,
    /// How often a `Retry-After` was sent about an object.
    pub(crate) retry_afters: usize,
}

impl Ledger {
    /// Counts requests anew.
    pub(crate) fn begin(&mut self) {
        self.sorts.clear();
        self.objects.clear();
        self.verbs.clear();
    }

    /// A request has come; its number among those of its sort, and among those of its verb.
    pub(crate) fn came(&mut self, what: &What, now: Instant) -> (usize, usize) {
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

    /// A fault was carried out.
    pub(crate) fn injected(&mut self, fault: Fault, sort: &str) {
        *self.faults.entry(fault).or_default() += 1;
        *self.hit.entry(sort.to_owned()).or_default() += 1;
    }

    /// The client is told to come back after `pause`.
    pub(crate) fn told_to_wait(&mut self, what: &What, pause: Duration) {
        if let Some(object) = &what.object {
            self.retry_afters += 1;
            self.not_before.insert(object.clone(), Instant::now() + pause);
        }
    }

    /// The API server accepted this Binding.
    pub(crate) fn accepted(&mut self, binding: &Bytes) {
        let binding: Value = serde_json::from_slice(binding).unwrap_or_default();
        let uid = binding["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        *self.bound.entry(uid).or_default() += 1;
    }

    /// How often a fault was carried out.
    pub(crate) fn count(&self, fault: Fault) -> usize {
        self.faults.get(&fault).copied().unwrap_or_default()
    }
}

/// The most requests in any [`WINDOW`].
pub(crate) fn busiest(times: &[Instant]) -> usize {
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
