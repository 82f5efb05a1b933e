//! The objects of a live cluster as its watches show them, and which of them have changed since they were last taken.
//!
//! Watches write, the thread with the engine reads. Changes of one object in between count once, so the list of changes
//! is never longer than the list of objects.

use crate::load::files::remove_unread_fields;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use supercargo_core::model::event::Kind;

/// Kind, namespace and name.
type Key = (Kind, Box<str>, Box<str>);

/// The objects, each as JSON text without the fields that decisions and plans never read.
#[derive(Debug, Default)]
pub struct Store {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<Key, Held>,
    /// The changed objects; with their last state if they are gone.
    changed: BTreeMap<Key, Option<Box<str>>>,
    /// The number of each kind's current list.
    lists: HashMap<Kind, u64>,
    bytes: usize,
    /// New objects that admission reads, until they are taken.
    admission: Option<Vec<Value>>,
}

#[derive(Debug)]
struct Held {
    text: Box<str>,
    /// The number of the list, or of the last list before the event, that showed it.
    list: u64,
}

/// A change of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Changed {
    /// It was added or changed.
    Applied(Value),
    /// It is gone; with its last state.
    Gone(Value),
}

impl Store {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a list of the kind begins.
    pub fn list_began(&self, kind: Kind) {
        *self.state().lists.entry(kind).or_default() += 1;
    }

    /// Notes that the list is complete: objects that it did not show are gone.
    pub fn list_ended(&self, kind: Kind) {
        let mut state = self.state();
        let list = state.lists.get(&kind).copied().unwrap_or_default();
        let is_gone = |(key, held): (&Key, &Held)| (key.0 == kind && held.list != list).then(|| key.clone());
        let gone: Vec<Key> = state.objects.iter().filter_map(is_gone).collect();
        gone.into_iter().for_each(|key| state.remove(key));
    }

    /// Notes an object that was added or changed, or is gone. Items of typed lists do not name their kind; it is added.
    /// Does nothing if the text is not an object with a name, which the watch reports.
    pub fn note(&self, kind: Kind, api_version: &str, text: &str, is_gone: bool) {
        // Parsed before the lock is taken.
        let Ok(mut value @ Value::Object(_)) = serde_json::from_str::<Value>(text) else { return };
        remove_unread_fields(&mut value);
        value["apiVersion"] = api_version.into();
        value["kind"] = kind.as_str().into();
        let name = |field: &str| value["metadata"][field].as_str().unwrap_or_default().into();
        let key: Key = (kind, name("namespace"), name("name"));
        if key.2.is_empty() {
            return;
        }
        let mut state = self.state();
        match is_gone {
            true => state.remove(key),
            false => state.insert(key, value.to_string().into()),
        }
    }

    /// Replaces the objects that admission reads.
    pub fn set_admission(&self, objects: Vec<Value>) {
        self.state().admission = Some(objects);
    }

    /// Takes the objects that admission reads, if they were replaced since.
    pub(super) fn take_admission(&self) -> Option<Vec<Value>> {
        self.state().admission.take()
    }

    /// Takes at most `max` changes. Nodes come in the order of their names, and so do pods.
    pub fn take(&self, max: usize) -> Vec<Changed> {
        let mut state = self.state();
        let mut taken = Vec::new();
        while taken.len() < max
            && let Some((key, gone)) = state.changed.pop_first()
        {
            match (gone, state.objects.get(&key)) {
                (Some(text), _) => taken.push((text, true)),
                (None, Some(held)) => taken.push((held.text.clone(), false)),
                (None, None) => {}
            }
        }
        drop(state);
        let parsed = |text: &str| serde_json::from_str(text).expect("text serialized as JSON parses");
        let change = |(text, is_gone): (Box<str>, bool)| match is_gone {
            true => Changed::Gone(parsed(&text)),
            false => Changed::Applied(parsed(&text)),
        };
        taken.into_iter().map(change).collect()
    }

    /// Counts all objects as changed, for a new cluster.
    pub(super) fn begin_again(&self) {
        let mut state = self.state();
        state.changed = state.objects.keys().map(|key| (key.clone(), None)).collect();
    }

    /// Returns the number of changed objects.
    pub(super) fn changes(&self) -> usize {
        self.state().changed.len()
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.state().objects.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the size of all objects in bytes.
    pub fn bytes(&self) -> usize {
        self.state().bytes
    }
}

impl State {
    fn insert(&mut self, key: Key, text: Box<str>) {
        let list = self.lists.get(&key.0).copied().unwrap_or_default();
        self.bytes += text.len();
        if let Some(before) = self.objects.get_mut(&key) {
            self.bytes -= before.text.len();
            before.list = list;
            if before.text == text {
                return;
            }
            before.text = text;
        } else {
            self.objects.insert(key.clone(), Held { text, list });
        }
        self.changed.insert(key, None);
    }

    fn remove(&mut self, key: Key) {
        if let Some(held) = self.objects.remove(&key) {
            self.bytes -= held.text.len();
            self.changed.insert(key, Some(held.text));
        }
    }
}
