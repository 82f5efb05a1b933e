//! Raw JSON of pods and nodes, for extenders that receive whole objects.
//!
//! The engine's types hold only what decisions read, but an extender receives the complete object. So the
//! watches keep the JSON of objects while an extender needs them:
//!
//! - nodes, for extenders that filter or prioritize without `nodeCacheCapable`;
//! - pending pods, for extenders with any verb but `bindVerb`;
//! - all pods, for extenders with `preemptVerb` but without `nodeCacheCapable`, which receive whole victims.
//!
//! A watch updates this store before the engine sees the event, so objects are never older than the engine's
//! query.

use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use supercargo_core::model::event::Kind;
use tokio::sync::Notify;

/// A watched object as JSON. The items of a typed list do not name their kind, so it comes beside the text.
#[derive(Clone, Copy, Debug)]
pub struct RawObject<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its `apiVersion`.
    pub api_version: &'a str,
    /// The object.
    pub text: &'a str,
}

/// Receives the JSON of watched objects. The watch calls it before it passes the decoded object on, so calls must be
/// short.
pub trait RawSink: Send + Sync {
    /// Whether objects of the kind are received. They are requested as JSON then.
    fn wants(&self, kind: Kind) -> bool;
    /// A list of the kind begins. An interrupted list is not ended; a new one begins.
    fn list_began(&self, kind: Kind);
    /// An object was added, changed or, with `is_gone`, deleted.
    fn note(&self, object: RawObject<'_>, is_gone: bool);
    /// The list is complete: other objects of the kind are gone.
    fn list_ended(&self, kind: Kind);
}

/// Which pods are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pods {
    /// None.
    #[default]
    None,
    /// Pods without a node.
    Pending,
    /// All.
    All,
}

/// Which objects are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Which pods.
    pub pods: Pods,
    /// Whether nodes are kept.
    pub nodes: bool,
}

/// The kept objects. Cheap to clone; clones share all state.
#[derive(Clone, Debug, Default)]
pub struct RawObjects(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    wanted: Wanted,
    pods: KindStore,
    nodes: KindStore,
}

/// RawObjects of one kind, by uid (pods) or name (nodes).
#[derive(Debug, Default)]
struct KindStore {
    objects: HashMap<String, (u64, Arc<RawValue>)>,
    /// Number of the current list, to find objects that a list no longer contains.
    list: u64,
    /// What was wanted when the running list began.
    listing: Option<Wanted>,
    /// Whether the store is complete: a list that began with the current wishes has ended.
    complete: bool,
}

impl KindStore {
    fn forget(&mut self) {
        self.objects = HashMap::new();
        self.complete = false;
        // A running list may have skipped objects that were not wanted when it began.
        self.listing = None;
    }
}

impl State {
    fn held(&mut self, kind: Kind) -> Option<&mut KindStore> {
        match kind {
            Kind::Pod => Some(&mut self.pods),
            Kind::Node => Some(&mut self.nodes),
            _ => None,
        }
    }
}

impl RawObjects {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what to keep. Returns the kinds that must be relisted, because their wanted set changed.
    pub fn want(&self, wanted: Wanted) -> Vec<Kind> {
        let mut state = self.state();
        let before = std::mem::replace(&mut state.wanted, wanted);
        let mut relist = Vec::new();
        if before.pods != wanted.pods {
            state.pods.forget();
            if wanted.pods != Pods::None {
                relist.push(Kind::Pod);
            }
        }
        if before.nodes != wanted.nodes {
            state.nodes.forget();
            if wanted.nodes {
                relist.push(Kind::Node);
            }
        }
        drop(state);
        self.0.changed.notify_waiters();
        relist
    }

    /// Whether objects of the kind are kept.
    pub fn wants(&self, kind: Kind) -> bool {
        let wanted = self.state().wanted;
        match kind {
            Kind::Pod => wanted.pods != Pods::None,
            Kind::Node => wanted.nodes,
            _ => false,
        }
    }

    /// Records that a list of the kind begins.
    pub fn list_began(&self, kind: Kind) {
        let mut state = self.state();
        let wanted = state.wanted;
        if let Some(held) = state.held(kind) {
            held.list += 1;
            held.listing = Some(wanted);
        }
    }

    /// Records that the list is complete, and drops objects it did not contain.
    pub fn list_ended(&self, kind: Kind) {
        let wants = self.wants(kind);
        let mut state = self.state();
        let wanted = state.wanted;
        let Some(held) = state.held(kind) else { return };
        if held.listing.take() == Some(wanted) && wants {
            let list = held.list;
            held.objects.retain(|_, (named, _)| *named == list);
            held.complete = true;
        }
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// Stores or removes an object, given its JSON.
    pub fn note(&self, kind: Kind, object: &str, is_gone: bool) {
        if !self.wants(kind) {
            return;
        }
        // The watch reports objects that cannot be decoded.
        let Some(read) = DecodedObject::of(kind, object) else { return };
        let mut state = self.state();
        let keeps = match (kind, state.wanted.pods) {
            (Kind::Pod, Pods::Pending) => !read.has_node,
            _ => true,
        };
        let Some(held) = state.held(kind) else { return };
        if is_gone || !keeps {
            held.objects.remove(&read.key);
        } else {
            let list = held.list;
            held.objects.insert(read.key, (list, read.text));
        }
    }

    /// Waits until all wanted objects of a kind are present.
    pub async fn complete(&self, kind: Kind) {
        loop {
            let changed = self.0.changed.notified();
            let mut changed = std::pin::pin!(changed);
            // Registers now, so that no notification is missed in between.
            changed.as_mut().enable();
            if self.state().held(kind).is_none_or(|held| held.complete) {
                return;
            }
            changed.await;
        }
    }

    /// Returns the pod with this uid.
    pub fn pod(&self, uid: &str) -> Option<Arc<RawValue>> {
        self.state().pods.objects.get(uid).map(|(_, object)| Arc::clone(object))
    }

    /// Returns the known nodes of these names, in this order.
    pub fn nodes(&self, names: &[String]) -> Vec<Arc<RawValue>> {
        let state = self.state();
        let known = names.iter().filter_map(|name| state.nodes.objects.get(name));
        known.map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Returns the number of kept objects.
    pub fn len(&self) -> usize {
        let state = self.state();
        state.pods.objects.len() + state.nodes.objects.len()
    }

    /// Whether no object is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl RawSink for RawObjects {
    fn wants(&self, kind: Kind) -> bool {
        Self::wants(self, kind)
    }

    fn list_began(&self, kind: Kind) {
        Self::list_began(self, kind);
    }

    fn note(&self, object: RawObject<'_>, is_gone: bool) {
        Self::note(self, object.kind, object.text, is_gone);
    }

    fn list_ended(&self, kind: Kind) {
        Self::list_ended(self, kind);
    }
}

type Fields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// A decoded object, without the fields that upstream's in-memory objects lack.
struct DecodedObject {
    key: String,
    has_node: bool,
    text: Arc<RawValue>,
}

impl DecodedObject {
    fn of(kind: Kind, object: &str) -> Option<Self> {
        let mut fields: Fields<'_> = serde_json::from_str(object).ok()?;
        let mut metadata: Fields<'_> = serde_json::from_str(fields.get("metadata")?.get()).ok()?;
        let text =
            |fields: &Fields<'_>, name: &str| serde_json::from_str::<String>(fields.get(name)?.get()).ok();
        let key = text(&metadata, if kind == Kind::Pod { "uid" } else { "name" })?;
        fields.remove("kind");
        fields.remove("apiVersion");
        let spec = fields.get("spec").and_then(|spec| serde_json::from_str::<Fields<'_>>(spec.get()).ok());
        let has_node = spec.and_then(|spec| text(&spec, "nodeName")).is_some_and(|node| !node.is_empty());
        // Upstream's pod informer drops managedFields (`pkg/scheduler/scheduler.go#NewInformerFactory`), its
        // node informer does not.
        let trimmed = (kind == Kind::Pod && metadata.remove("managedFields").is_some())
            .then(|| to_raw_value(&metadata))
            .transpose()
            .ok()?;
        if let Some(trimmed) = &trimmed {
            fields.insert("metadata".into(), trimmed);
        }
        Some(Self { key, has_node, text: to_raw_value(&fields).ok()?.into() })
    }
}
