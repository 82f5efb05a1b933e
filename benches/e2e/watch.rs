//! Watches pods and records when each was observed to be bound.

use anyhow::Result;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::harness::Access;

type BindTimes = Arc<Mutex<HashMap<String, Instant>>>;

/// Watches pods with a node until it is dropped.
pub(crate) struct Bound {
    seen: BindTimes,
    count: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Bound {
    /// Starts watching, and waits until the existing pods were seen.
    pub(crate) async fn follow(access: &Access, running: usize) -> Result<Self> {
        let pods = Api::<PartialObjectMeta<Pod>>::all(access.client().await?);
        let seen = BindTimes::default();
        let (sender, count) = watch::channel(0);
        let into = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let bound = watcher::Config::default().fields("spec.nodeName!=");
            let mut pods = watcher(pods, bound).default_backoff().applied_objects().boxed();
            while let Ok(Some(pod)) = pods.try_next().await {
                let now = Instant::now();
                let mut seen = into.lock().unwrap_or_else(PoisonError::into_inner);
                seen.entry(pod.name_any()).or_insert(now);
                sender.send_replace(seen.len());
            }
        });
        let bound = Self { seen, count, task };
        bound.until(running, Duration::from_secs(120)).await;
        Ok(bound)
    }

    /// Waits up to `patience` until `wanted` pods are bound. Returns their number.
    pub(crate) async fn until(&self, wanted: usize, patience: Duration) -> usize {
        let mut count = self.count.clone();
        let enough = count.wait_for(|count| *count >= wanted);
        let _ = tokio::time::timeout(patience, enough).await;
        *self.count.borrow()
    }

    /// Returns when the pod was first observed to be bound.
    pub(crate) fn when(&self, pod: &str) -> Option<Instant> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(pod).copied()
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.task.abort();
    }
}
