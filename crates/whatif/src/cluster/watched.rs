//! Keeps a cluster equal to another one that changes: applies objects as a watch shows them, outside of transactions.

use super::{At, Cluster, ClusterError, Record};
use crate::load::files::{Item, Origin};
use crate::prepare::owners::{OwnedPod, budget_state};
use crate::simulate::objects;
use serde_json::Value;
use std::sync::Arc;
use supercargo_core::model::event::{Event, ObjectKey};
use supercargo_core::model::pod::Uid;
use supercargo_objects::api::Object;
use supercargo_objects::convert::Watched as _;
use supercargo_objects::of_any_kind;

impl Cluster {
    /// Adds or replaces an object of the cluster, as an API server shows it: with its defaults. Objects of kinds that
    /// decisions do not read are ignored. A pod that has ended is removed, and so is an object that is invalid.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use supercargo_whatif::cluster::{Cluster, Setup};
    /// let mut cluster = Cluster::from_objects(Vec::new(), &Setup::default())?;
    /// let mut pod = json!({ "apiVersion": "v1", "kind": "Pod",
    ///     "metadata": { "name": "p", "namespace": "default", "uid": "1" }, "spec": { "containers": [] } });
    /// cluster.apply(pod.clone())?;
    /// assert_eq!(cluster.pending().collect::<Vec<_>>(), ["default/p"]);
    /// cluster.apply(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" } }))?;
    /// pod["spec"]["nodeName"] = "n".into();
    /// cluster.apply(pod.clone())?;
    /// assert_eq!(cluster.node_of("default/p"), Some("n"));
    /// cluster.remove(&pod)?;
    /// assert_eq!(cluster.node_of("default/p"), None);
    /// # Ok::<(), supercargo_whatif::cluster::ClusterError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if a transaction is open, or if the object is invalid.
    pub fn apply(&mut self, object: Value) -> Result<(), ClusterError> {
        self.outside_transactions()?;
        let item = Item::new(object, Origin::default());
        let key = item.key();
        let applied = match item.kind() {
            "Pod" => self.apply_pod(&key, item),
            kind => {
                if kind == "PodDisruptionBudget" {
                    self.budgets.insert(key.clone(), budget_state(&item.value));
                }
                let last = item.value.clone();
                let applied = objects::apply(self.trial_mut(), item);
                if applied.is_err() {
                    self.gone(last);
                }
                applied
            }
        };
        self.finished();
        applied.map_err(|wrong| ClusterError::Invalid(wrong.message))
    }

    /// Removes an object of the cluster, given in its last state. Does nothing if it does not exist.
    ///
    /// # Errors
    /// Fails if a transaction is open.
    pub fn remove(&mut self, object: &Value) -> Result<(), ClusterError> {
        self.outside_transactions()?;
        let item = Item::new(object.clone(), Origin::default());
        let key = item.key();
        match item.kind() {
            "Pod" => self.forget_pod(&key),
            "PodDisruptionBudget" => {
                self.budgets.remove(&key);
                self.gone(item.value);
            }
            _ => self.gone(item.value),
        }
        self.finished();
        Ok(())
    }

    /// Sets the objects that the admission of placed pods reads: PriorityClasses, RuntimeClasses, LimitRanges,
    /// ResourceClaimTemplates and StorageClasses.
    pub fn set_admission(&mut self, objects: Vec<Value>) {
        self.admission = objects.into_iter().map(|value| Item::new(value, Origin::default())).collect();
    }

    fn outside_transactions(&self) -> Result<(), ClusterError> {
        if self.forks.is_empty() { Ok(()) } else { Err(ClusterError::InTransaction) }
    }

    fn apply_pod(&mut self, key: &str, item: Item) -> Result<(), crate::load::files::Wrong> {
        let before = self.pods.get(key).cloned();
        if let Some(before) = &before {
            self.trial_mut().nominate(&before.owned.pod, None);
        }
        let note = OwnedPod::of(&item);
        let (pod, has_ended) = match objects::pod(self.trial_mut(), item) {
            Ok(taken) => taken,
            Err(wrong) => {
                self.forget_pod(key);
                return Err(wrong);
            }
        };
        if has_ended {
            self.forget_pod(key);
            return Ok(());
        }
        // Another pod of this name, or one that lost its node, which no API server allows.
        if let Some(Record { owned, at: At::Node(_) }) = &before
            && (owned.pod.uid != pod.uid || pod.node_name.is_none())
        {
            self.pod_gone(&Arc::clone(&owned.pod.uid));
        }
        let node = self.trial().placement(&pod.uid).map(|(_, node)| node);
        match (node, before) {
            (None, Some(Record { at: at @ At::Queue(_), .. })) => {
                self.change(key.to_owned(), Some(Record { owned: note(pod), at }));
            }
            (node, _) => self.note(key.to_owned(), note(pod), node),
        }
        Ok(())
    }

    fn forget_pod(&mut self, key: &str) {
        let Some(Record { owned, .. }) = self.pods.get(key).cloned() else { return };
        self.trial_mut().nominate(&owned.pod, None);
        self.pod_gone(&owned.pod.uid);
        self.change(key.to_owned(), None);
    }

    fn pod_gone(&mut self, uid: &Uid) {
        self.trial_mut().handle(Event::Gone(ObjectKey::Pod(Arc::clone(uid))));
    }

    fn gone(&mut self, last: Value) {
        let Ok(object) = Object::from_value(last) else { return };
        let trial = self.trial_mut();
        let event = of_any_kind!(&object, it => it.gone(trial.tables_mut()));
        trial.handle(event);
    }
}
