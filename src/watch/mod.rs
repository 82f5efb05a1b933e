//! Watches: the state of the cluster, kind by kind, into the one channel to the driver.
//!
//! Each kind has a task that lists, follows and begins again for ever. Nothing is kept here but the version each has
//! reached; what the objects mean is the engine's business.

mod kind;
mod lines;
mod object;
mod state;
mod trouble;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use supercargo_core::event::Kind;
use tokio::task::JoinSet;

use crate::api::{
    CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass, Namespace, Node, PersistentVolume,
    PersistentVolumeClaim, Pod, PodDisruptionBudget, ReplicaSet, ReplicationController, Service, StatefulSet,
    StorageClass, VolumeAttachment,
};
use crate::driver::Inbox;
use crate::metrics::Metrics;
use object::{Flaws, Object};
use state::KindState;
use trouble::Troubles;

pub use state::{KindHealth, Readiness};

/// Within this time every watch asks something of the API server or reads an answer, whether that works or not. One that does not is
/// stuck.
pub const ATTEMPT_WITHIN: Duration = Duration::from_secs(60);

/// The watches of all kinds. They end when this is dropped.
pub struct Watches {
    /// Aborts its tasks when dropped.
    _tasks: JoinSet<()>,
    readiness: Readiness,
}

impl Watches {
    /// Starts to watch all kinds, on the runtime this is called on.
    pub fn start<E: 'static>(client: &kube::Client, inbox: &Inbox<E>, metrics: &Metrics) -> Self {
        let states: Arc<[_]> = Kind::ALL.map(|kind| Arc::new(KindState::new(kind))).into();
        let mut start = Start {
            client,
            inbox,
            metrics,
            states: &states,
            troubles: Arc::new(Troubles::new()),
            tasks: JoinSet::new(),
        };
        start.kind::<Pod>();
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
        let tasks = start.tasks;
        Self { _tasks: tasks, readiness: Readiness { states } }
    }

    /// Tells whether the engine knows the cluster.
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }
}

struct Start<'a, E> {
    client: &'a kube::Client,
    inbox: &'a Inbox<E>,
    metrics: &'a Metrics,
    states: &'a [Arc<KindState>],
    troubles: Arc<Troubles>,
    tasks: JoinSet<()>,
}

impl<E: 'static> Start<'_, E> {
    fn kind<K: Object>(&mut self) {
        let metrics = self.metrics.watch(K::KIND.as_str());
        let watch = kind::Watch {
            client: self.client.clone(),
            inbox: self.inbox.clone(),
            state: Arc::clone(&self.states[K::KIND as usize]),
            flaws: Arc::new(Flaws::new(metrics.clone())),
            metrics,
            troubles: Arc::clone(&self.troubles),
            streams: true,
            object: PhantomData::<fn() -> K>,
        };
        self.tasks.spawn(watch.run());
    }
}

#[cfg(test)]
mod tests;
