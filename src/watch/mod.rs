//! Watches: the state of the cluster, kind by kind, into the one channel to the driver.
//!
//! Each kind has a task that lists, follows and begins again for ever. Nothing is kept here but the version each has
//! reached; what the objects mean is the engine's business.

mod backoff;
mod first;
mod kind;
mod lines;
mod object;
mod state;
mod trouble;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use supercargo_core::event::Kind;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::api::{
    CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass, Encoding, Namespace, Node, PersistentVolume,
    PersistentVolumeClaim, Pod, PodDisruptionBudget, ReplicaSet, ReplicationController, Service, StatefulSet,
    StorageClass, VolumeAttachment,
};
use crate::driver::{Inbox, Intake};
use crate::extender::Objects;
use crate::metrics::Metrics;
use backoff::Budget;
use first::FirstLists;
use object::{Flaws, Object};
use state::KindState;
use trouble::Troubles;

pub use state::{KindHealth, Readiness};

/// Within this time, not counting its backoff, every watch asks something of the API server or reads an answer, whether that works or
/// not. One that does not is stuck.
pub const ATTEMPT_WITHIN: Duration = Duration::from_secs(60);

/// How long a watch may fail before the process is not ready: what it knows is older than that. Longer than the longest pause between two
/// attempts, so that no single failure counts.
pub const FAILING_MAX: Duration = Duration::from_secs(120);

/// The watches of all kinds. They end when this is dropped.
pub struct Watches {
    /// Aborts its tasks when dropped.
    _tasks: JoinSet<()>,
    readiness: Readiness,
    relist_pods: Relist,
    relist_nodes: Relist,
}

/// Sees the objects of one kind go by, on the task that watches them: whatever it does delays them.
pub trait Onlooker<K>: Send + Sync {
    /// A list begins; what it does not name is gone when it ends. One that breaks off never ends, and another begins.
    fn list_began(&self);
    /// An object as it is now.
    fn applied(&self, object: &K);
    /// An object as it was when it went.
    fn gone(&self, object: &K);
    /// The list is whole.
    fn list_ended(&self);
}

/// Asks the watch of a kind to list anew, though it knows no reason to.
#[derive(Clone, Debug, Default)]
pub struct Relist(Arc<Notify>);

impl Relist {
    /// It does so as soon as it can, once for however many requests.
    pub fn request(&self) {
        self.0.notify_one();
    }

    /// Waits for a request.
    pub(crate) async fn requested(&self) {
        self.0.notified().await;
    }
}

impl Watches {
    /// Starts to watch all kinds, on the runtime this is called on, in `encoding` where the API server has it. `pods` sees the
    /// pods as well.
    ///
    /// Objects that extenders are sent are kept in `objects`, as they were written; they come in JSON.
    pub fn start<E: 'static>(
        client: &kube::Client,
        inbox: &Inbox<E>,
        metrics: &Metrics,
        encoding: Encoding,
        pods: Option<Arc<dyn Onlooker<Pod>>>,
        objects: &Objects,
    ) -> Self {
        let states: Arc<[_]> = Kind::ALL.map(|kind| Arc::new(KindState::new(kind))).into();
        let mut start = Start {
            client,
            inbox: Arc::new(inbox.clone()),
            metrics,
            encoding,
            states: &states,
            troubles: Arc::new(Troubles::new()),
            first: Arc::new(FirstLists::begin()),
            budget: Arc::new(Budget::new()),
            tasks: JoinSet::new(),
            relist_pods: Relist::default(),
            relist_nodes: Relist::default(),
            objects,
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
        let Start { tasks, relist_pods, relist_nodes, .. } = start;
        Self { _tasks: tasks, readiness: Readiness { states }, relist_pods, relist_nodes }
    }

    /// Asks for a list of the nodes.
    pub fn relist_nodes(&self) -> Relist {
        self.relist_nodes.clone()
    }

    /// Asks for a list of the pods.
    pub fn relist_pods(&self) -> Relist {
        self.relist_pods.clone()
    }

    /// Tells whether the engine knows the cluster.
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }
}

struct Start<'a> {
    client: &'a kube::Client,
    inbox: Arc<dyn Intake>,
    metrics: &'a Metrics,
    encoding: Encoding,
    states: &'a [Arc<KindState>],
    troubles: Arc<Troubles>,
    first: Arc<FirstLists>,
    budget: Arc<Budget>,
    tasks: JoinSet<()>,
    relist_pods: Relist,
    relist_nodes: Relist,
    objects: &'a Objects,
}

impl Start<'_> {
    fn kind<K: Object>(&mut self) {
        self.kind_seen_by::<K>(None);
    }

    fn kind_seen_by<K: Object>(&mut self, onlooker: Option<Arc<dyn Onlooker<K>>>) {
        let metrics = self.metrics.watch(K::KIND.as_str());
        let watch = kind::Watch {
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
            objects: self.objects.clone(),
            object: PhantomData::<fn() -> K>,
        };
        self.tasks.spawn(watch.run());
    }
}

#[cfg(test)]
mod tests;
