//! Loads the cluster that a recording shows.

use super::{Cluster, ClusterError};
use crate::load::files::{Files, Item, Origin};
use crate::load::input::InputLimit;
use crate::recording::entry::{Bad, Entries, What};
use crate::recording::header::settings;
use crate::simulate::profiles;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::time::Duration;
use supercargo_core::model::event::Kind;

/// Kind, namespace and name.
type Key = (String, String, String);

/// The objects that the watch has shown.
#[derive(Default)]
struct Shown {
    objects: BTreeMap<Key, Value>,
    /// The objects of a list that is not complete yet, by kind.
    lists: BTreeMap<&'static str, BTreeSet<Key>>,
}

impl Shown {
    fn apply(&mut self, object: Value) {
        let key = key(&object);
        if let Some(list) = self.lists.get_mut(&*key.0) {
            list.insert(key.clone());
        }
        self.objects.insert(key, object);
    }

    /// Binds a pod whose binding succeeded, before the watch shows that.
    fn decided(&mut self, line: &str) {
        let Ok(Decided { pod, result, node: Some(node) }) = serde_json::from_str(line) else { return };
        let shown = self.objects.get_mut(&("Pod".to_owned(), pod.namespace, pod.name));
        let same = shown.filter(|shown| result == "bound" && shown["metadata"]["uid"] == *pod.uid);
        if let Some(shown) = same.filter(|shown| shown["spec"]["nodeName"].is_null()) {
            shown["spec"]["nodeName"] = node.into();
        }
    }

    fn list_ended(&mut self, kind: Kind) {
        let Some(list) = self.lists.remove(kind.as_str()) else { return };
        self.objects.retain(|key, _| key.0 != kind.as_str() || list.contains(key));
    }
}

/// A decision about a pod.
#[derive(Deserialize)]
struct Decided {
    pod: DecidedPod,
    result: String,
    node: Option<String>,
}

#[derive(Deserialize)]
struct DecidedPod {
    namespace: String,
    name: String,
    uid: String,
}

fn key(object: &Value) -> Key {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

impl Cluster {
    /// Loads the cluster that a recording of a scheduler or an observer shows at the time `until` after its start; at
    /// its end, without a time. Decisions follow the configuration that was in effect then.
    ///
    /// The objects are as the watch showed them, with the bindings that succeeded. A recording has only the fields that
    /// decisions read, so the owners of pods are unknown.
    ///
    /// # Errors
    /// Fails if the recording is invalid, or if its configuration has extenders, which are never called here.
    pub fn from_recording(from: impl BufRead, until: Option<Duration>) -> Result<Self, ClusterError> {
        let invalid = |bad: Bad| ClusterError::Invalid(bad.to_string());
        let (header, mut entries) = Entries::open(from).map_err(invalid)?;
        let mut version = header.emulated_version().map_err(ClusterError::Invalid)?;
        let mut configuration = header.configuration.clone();
        let mut shown = Shown::default();
        while let Some(entry) = entries.read().map_err(invalid)? {
            if until.is_some_and(|until| Duration::from_nanos(entry.at) > until) {
                break;
            }
            match entry.what {
                What::Applied(object) => shown.apply(object),
                What::Gone(object) | What::Unreadable(object) => drop(shown.objects.remove(&key(&object))),
                What::ListBegan(kind) => drop(shown.lists.insert(kind.as_str(), BTreeSet::new())),
                What::ListEnded(kind) => shown.list_ended(kind),
                What::Configured(changed, emulated) => {
                    configuration = changed;
                    version = emulated.unwrap_or(version);
                }
                What::Decided(decided) => shown.decided(decided.get()),
                What::OtherInput(_) | What::Steps(_) | What::Ends(_) => {}
            }
        }
        let settings = settings(&configuration, version, header.groups());
        let settings = settings.map_err(|error| ClusterError::Invalid(error.to_string()))?;
        let mut tables = header.tables();
        tables.emulate(version);
        let trial = profiles::trial_with(&settings, tables)?;
        let items = shown.objects.into_values().map(|value| Item::new(value, Origin::default())).collect();
        Self::load(&Files::within(InputLimit::default(), |_| ()), items, trial, true)
    }
}
