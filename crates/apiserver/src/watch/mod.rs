//! Watches of all kinds of objects, which feed the channel to the scheduling thread.
//!
//! One task per kind lists, watches and restarts forever. The watches keep only the resource version they
//! have reached; the engine interprets the objects.

mod absent;
mod backoff;
mod first;
mod groups;
mod intake;
mod kind;
mod lines;
mod object;
mod observer;
mod raw_objects;
mod state;
mod trouble;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use supercargo_core::model::event::Kind;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use backoff::Budget;
use first::FirstLists;
use object::{Flaws, Object};
use state::KindState;
use supercargo_objects::api::{
    CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass, Encoding, Namespace, Node, PersistentVolume,
    PersistentVolumeClaim, Pod, PodDisruptionBudget, ReplicaSet, ReplicationController, ResourceClaim,
    ResourceSlice, Service, StatefulSet, StorageClass, VolumeAttachment,
};
use trouble::Troubles;

pub use intake::{Convert, Ended, Intake, Written};
pub use observer::WatchObserver;
pub use raw_objects::{Pods, RawObject, RawObjects, RawSink, Wanted};
pub use state::{KindHealth, Readiness};

/// Time within which a healthy watch sends a request or receives data, backoff excluded. A watch beyond it is
/// stuck.
pub const ATTEMPT_WITHIN: Duration = Duration::from_secs(60);

/// How long a watch may fail before `/readyz` fails, because its state is that old. Longer than the longest
/// backoff, so that a single failure does not count.
pub const FAILING_MAX: Duration = Duration::from_secs(120);

/// What to watch, and how.
#[derive(Clone, Copy, Debug)]
pub struct Watching {
    /// The encoding to ask for where the API server supports it.
    pub encoding: Encoding,
    /// Whether PodGroups are watched.
    pub groups: bool,
}

/// The watches of all kinds; dropping it stops them.
pub struct Watches {
    /// Aborts its tasks on drop.
    _tasks: JoinSet<()>,
    readiness: Readiness,
    relist_pods: Relist,
    relist_nodes: Relist,
}

/// Observer of the objects of one kind. It runs on the watch task, so its work delays the watch.
pub trait Onlooker<K>: Send + Sync {
    /// A list begins. Objects it does not contain are gone when it ends. An interrupted list is not ended; a
    /// new one begins.
    fn list_began(&self);
    /// An object was added or modified.
    fn applied(&self, object: &K);
    /// An object was deleted; holds its last state.
    fn gone(&self, object: &K);
    /// The list is complete.
    fn list_ended(&self);
}

/// Requests a relist of one kind.
#[derive(Clone, Debug, Default)]
pub struct Relist(Arc<Notify>);

impl Relist {
    /// Requests a relist. Requests made before it starts are merged.
    pub fn request(&self) {
        self.0.notify_one();
    }

    /// Waits for a request.
    pub async fn requested(&self) {
        self.0.notified().await;
    }
}

impl Watches {
    /// Starts the watches on the current runtime. `observer` returns the observer of a kind's watch, and `pods`
    /// observes the pods.
    ///
    /// `objects` receives the raw JSON of the kinds it wants.
    pub fn start(
        client: &kube::Client,
        intake: Arc<dyn Intake>,
        observer: &dyn Fn(Kind) -> Arc<dyn WatchObserver>,
        Watching { encoding, groups }: Watching,
        pods: Option<Arc<dyn Onlooker<Pod>>>,
        objects: &(impl RawSink + Clone + 'static),
    ) -> Self {
        let states: Arc<[_]> = Kind::watched(groups).map(|kind| Arc::new(KindState::new(kind))).collect();
        let mut start = Start {
            client,
            inbox: intake,
            observer,
            encoding,
            states: &states,
            troubles: Arc::new(Troubles::new()),
            first: Arc::new(FirstLists::begin(states.len())),
            budget: Arc::new(Budget::new()),
            tasks: JoinSet::new(),
            relist_pods: Relist::default(),
            relist_nodes: Relist::default(),
            objects: Arc::new(objects.clone()),
        };
        start.kind_seen_by::<Pod>(pods);
        start.kind::<Node>();
        start.kind::<Namespace>();
        start.kind::<Service>();
        start.kind::<ReplicationController>();
        start.kind::<ReplicaSet>();
        start.kind::<StatefulSet>();
        start.kind::<PodDisruptionBudget>();
        start.kind::<PersistentVolume>();
        start.kind::<PersistentVolumeClaim>();
        start.kind::<StorageClass>();
        start.kind::<CsiNode>();
        start.kind::<CsiDriver>();
        start.kind::<CsiStorageCapacity>();
        start.kind::<VolumeAttachment>();
        start.kind::<DeviceClass>();
        start.kind::<ResourceClaim>();
        start.kind::<ResourceSlice>();
        if groups {
            start.groups();
        }
        let Start { tasks, relist_pods, relist_nodes, .. } = start;
        Self { _tasks: tasks, readiness: Readiness { states }, relist_pods, relist_nodes }
    }

    /// Returns the handle that requests a relist of nodes.
    pub fn relist_nodes(&self) -> Relist {
        self.relist_nodes.clone()
    }

    /// Returns the handle that requests a relist of pods.
    pub fn relist_pods(&self) -> Relist {
        self.relist_pods.clone()
    }

    /// Returns the readiness of the watches.
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }
}

struct Start<'a> {
    client: &'a kube::Client,
    inbox: Arc<dyn Intake>,
    observer: &'a dyn Fn(Kind) -> Arc<dyn WatchObserver>,
    encoding: Encoding,
    states: &'a [Arc<KindState>],
    troubles: Arc<Troubles>,
    first: Arc<FirstLists>,
    budget: Arc<Budget>,
    tasks: JoinSet<()>,
    relist_pods: Relist,
    relist_nodes: Relist,
    objects: Arc<dyn RawSink>,
}

impl Start<'_> {
    fn kind<K: Object>(&mut self) {
        self.kind_seen_by::<K>(None);
    }

    fn kind_seen_by<K: Object>(&mut self, onlooker: Option<Arc<dyn Onlooker<K>>>) {
        let watch = self.watch::<K>(onlooker);
        self.tasks.spawn(watch.run());
    }

    fn groups(&mut self) {
        let (newer, older) = (self.watch(None), self.watch(None));
        self.tasks.spawn(groups::run(newer, older));
    }

    fn watch<K: Object>(&self, onlooker: Option<Arc<dyn Onlooker<K>>>) -> kind::Watch<K> {
        let metrics = (self.observer)(K::KIND);
        kind::Watch {
            client: self.client.clone(),
            inbox: Arc::clone(&self.inbox),
            state: Arc::clone(&self.states[K::KIND as usize]),
            flaws: Arc::new(Flaws::new(metrics.clone())),
            metrics,
            troubles: Arc::clone(&self.troubles),
            first: Arc::clone(&self.first),
            budget: Arc::clone(&self.budget),
            encoding: self.encoding,
            streams: true,
            page: kind::PAGE,
            relist: match K::KIND {
                Kind::Pod => self.relist_pods.clone(),
                Kind::Node => self.relist_nodes.clone(),
                _ => Relist::default(),
            },
            onlooker,
            objects: Arc::clone(&self.objects),
            object: PhantomData::<fn() -> K>,
        }
    }
}

#[cfg(test)]
mod tests;
