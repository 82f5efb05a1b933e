//! Pods and nodes as the API server wrote them, for extenders that are sent whole objects.
//!
//! The engine's types hold what a decision reads, and an extender is sent everything. So the watches keep the text of what
//! extenders may ask for, and only while there are such extenders: of nodes where one does not cache them, of pods that have
//! no node where one is asked anything, of all pods where one is told whom preemption would send away and does not cache
//! them. Filled before the engine hears of an object, so that it is never older than what the engine asks about.

use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use supercargo_core::event::Kind;
use tokio::sync::Notify;

/// Which pods are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pods {
    /// None.
    #[default]
    None,
    /// Those without a node.
    Pending,
    /// All.
    All,
}

/// What is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Pods.
    pub pods: Pods,
    /// Whether nodes are.
    pub nodes: bool,
}

/// The kept objects. Cheap to clone; the clones share everything.
#[derive(Clone, Debug, Default)]
pub struct Objects(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    wanted: Wanted,
    pods: Held,
    nodes: Held,
}

/// The objects of a kind, by uid or by name.
#[derive(Debug, Default)]
struct Held {
    objects: HashMap<String, (u64, Arc<RawValue>)>,
    /// Counts lists, so that what a list does not name is found.
    list: u64,
    /// What was wanted when the list began that is running.
    listing: Option<Wanted>,
    /// All there are, since a list that began when they were wanted has ended.
    complete: bool,
}

impl Held {
    fn forget(&mut self) {
        self.objects = HashMap::new();
        self.complete = false;
        // A list that runs may have named objects that were not wanted then.
        self.listing = None;
    }
}

impl State {
    fn held(&mut self, kind: Kind) -> Option<&mut Held> {
        match kind {
            Kind::Pod => Some(&mut self.pods),
            Kind::Node => Some(&mut self.nodes),
            _ => None,
        }
    }
}

impl Objects {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on these are kept. The kinds that are to be listed anew, since more of them is wanted than before.
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

    /// A list of the kind begins.
    pub fn list_began(&self, kind: Kind) {
        let mut state = self.state();
        let wanted = state.wanted;
        if let Some(held) = state.held(kind) {
            held.list += 1;
            held.listing = Some(wanted);
        }
    }

    /// The list is complete: what it did not name is gone.
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

    /// The object is as this text has it, unless it is gone.
    pub fn note(&self, kind: Kind, object: &str, is_gone: bool) {
        if !self.wants(kind) {
            return;
        }
        // What cannot be read is told of by the watch.
        let Some(read) = Read::of(kind, object) else { return };
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

    /// Waits until all objects of a kind that are wanted are here.
    pub async fn complete(&self, kind: Kind) {
        loop {
            let changed = self.0.changed.notified();
            let mut changed = std::pin::pin!(changed);
            // Listens from here on, so that nothing is missed in between.
            changed.as_mut().enable();
            if self.state().held(kind).is_none_or(|held| held.complete) {
                return;
            }
            changed.await;
        }
    }

    /// The pod of this uid.
    pub fn pod(&self, uid: &str) -> Option<Arc<RawValue>> {
        self.state().pods.objects.get(uid).map(|(_, object)| Arc::clone(object))
    }

    /// The nodes of these names, as far as they are known, in this order.
    pub fn nodes(&self, names: &[String]) -> Vec<Arc<RawValue>> {
        let state = self.state();
        let known = names.iter().filter_map(|name| state.nodes.objects.get(name));
        known.map(|(_, object)| Arc::clone(object)).collect()
    }

    /// How many objects are kept.
    pub fn len(&self) -> usize {
        let state = self.state();
        state.pods.objects.len() + state.nodes.objects.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

type Fields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// An object as it is kept: what upstream's objects in memory do not have is left out.
struct Read {
    key: String,
    has_node: bool,
    text: Arc<RawValue>,
}

impl Read {
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
        // Upstream's informer of pods drops it (`pkg/scheduler/scheduler.go#NewInformerFactory`), that of nodes does not.
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
