//! Turns decoded objects into engine events. Objects that cannot be converted are logged, counted and
//! ignored.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use kube::Resource;
use serde::de::DeserializeOwned;
use supercargo_core::model::event::Event;

use super::{Convert, WatchObserver};
use supercargo_core::scheduler::panic_text;
use supercargo_objects::api::ToJson;
use supercargo_objects::api::proto::FromProtobuf;
use supercargo_objects::convert::Watched;

/// A kind that can be watched.
pub(super) trait Object:
    Watched + ToJson + Resource<DynamicType = ()> + DeserializeOwned + FromProtobuf + Send + 'static
{
}

impl<T> Object for T where
    T: Watched + ToJson + Resource<DynamicType = ()> + DeserializeOwned + FromProtobuf + Send + 'static
{
}

/// Maximum number of distinct conversion errors remembered, so that a broken object that changes often does
/// not fill the log.
const LOGGED_MAX: usize = 1_024;

/// Logs and counts objects that cannot be converted.
#[derive(Debug)]
pub(super) struct Flaws {
    metrics: Arc<dyn WatchObserver>,
    logged: Mutex<HashSet<String>>,
}

impl Flaws {
    pub(super) fn new(metrics: Arc<dyn WatchObserver>) -> Self {
        Self { metrics, logged: Mutex::default() }
    }

    fn report(&self, flaw: String) {
        self.metrics.malformed();
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.contains(&flaw) {
            return;
        }
        tracing::warn!("{flaw}; ignoring the object until it is corrected");
        if logged.len() == LOGGED_MAX {
            logged.clear();
        }
        logged.insert(flaw);
    }
}

/// Returns the event of an added or modified object.
pub(super) fn applied<K: Object>(object: K, flaws: &Arc<Flaws>) -> Convert {
    let flaws = Arc::clone(flaws);
    Box::new(move |tables| {
        let event = catch_unwind(AssertUnwindSafe(|| object.applied(tables)));
        let flaw = match event {
            Ok(Ok(event)) => return event,
            Ok(Err(malformed)) => malformed.to_string(),
            // Tables only gain entries, so a panic leaves no partial state in them.
            Err(panic) => {
                let meta = object.meta();
                let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
                let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
                let text = panic_text(panic.as_ref());
                format!(
                    "{} {namespace}/{name} cannot be read because of a bug in supercargo: {text}",
                    K::kind(&())
                )
            }
        };
        flaws.report(flaw);
        Event::Unreadable(object.key(tables))
    })
}

/// Returns the event of a deleted object.
pub(super) fn gone<K: Object>(object: K) -> Convert {
    Box::new(move |tables| object.gone(tables))
}

/// Returns the object's resource version; `None` if it is missing, which the API does not allow.
pub(super) fn version<K: Object>(object: &K) -> Option<String> {
    object.meta().resource_version.clone().filter(|version| !version.is_empty())
}

/// Whether `version` is newer than `other`. Resource versions are decimal numbers of any length (KEP-5504);
/// others are only compared for equality.
pub(super) fn is_newer(version: &str, other: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(version) || !is_number(other) {
        return version != other;
    }
    let (version, other) = (version.trim_start_matches('0'), other.trim_start_matches('0'));
    (version.len(), version) > (other.len(), other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_resource_versions_compare_as_numbers() {
        let newer =
            [("10", "9"), ("9", "8"), ("010", "9"), ("18446744073709551616", "9"), ("a", "b"), ("", "1")];
        let not_newer = [("9", "10"), ("9", "9"), ("9", "09"), ("0", "00"), ("a", "a"), ("8", "9")];
        newer.iter().for_each(|(version, other)| assert!(is_newer(version, other), "{version} {other}"));
        not_newer.iter().for_each(|(version, other)| assert!(!is_newer(version, other), "{version} {other}"));
    }
}
