//! Objects that are given with a question: pods and workloads to place, with their claims and groups.

use super::{Cluster, ClusterError, Placement};
use crate::load::files::{Files, InputError, Item, Origin, Wrong, text_at};
use crate::load::input::InputLimit;
use crate::prepare::inventory::{self, Given, Inventory};
use crate::prepare::owners::OwnedPod;
use crate::simulate::objects;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use supercargo_core::model::event::Event;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::volume::StorageObject;
use supercargo_objects::api::Object;

/// Whether pods fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fit {
    /// Whether each pod gets a node.
    pub fits: bool,
    /// What was decided about each pod.
    pub placements: Vec<Placement>,
}

impl Cluster {
    /// Returns whether these pods would get nodes now, all of them together. The objects are those that
    /// [`Self::place`] takes; a PodGroup among them is decided as a whole. The cluster stays as it is.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use supercargo_whatif::cluster::{Cluster, Setup};
    /// # let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "a" },
    /// #     "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "110" } } });
    /// let mut cluster = Cluster::from_objects(vec![node], &Setup::default())?;
    /// let workers = |replicas: u32| json!({
    ///     "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "worker" },
    ///     "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": "worker" } },
    ///         "template": { "metadata": { "labels": { "app": "worker" } }, "spec": { "containers": [
    ///             { "name": "c", "image": "i", "resources": { "requests": { "cpu": "1" } } },
    ///         ] } } },
    /// });
    /// assert!(cluster.fits(&[workers(4)])?.fits);
    /// assert!(!cluster.fits(&[workers(5)])?.fits);
    /// assert_eq!(cluster.pending().count(), 0);
    /// # Ok::<(), supercargo_whatif::cluster::ClusterError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::place`].
    pub fn fits(&mut self, objects: &[Value]) -> Result<Fit, ClusterError> {
        self.fork();
        let placed = self.place(objects);
        self.undo()?;
        let placements = placed?;
        Ok(Fit { fits: placements.iter().all(|it| it.node.is_some()), placements })
    }

    /// Returns pods that join nothing, with what belongs to them in the cluster, within an open transaction.
    pub(crate) fn given_pods(&mut self, objects: &[Value]) -> Result<Vec<Arc<PodInfo>>, ClusterError> {
        Ok(self.given(objects)?.into_iter().map(|owned| owned.pod).collect())
    }

    /// Completes objects and adds what belongs to the pods among them. Returns the pods, which join nothing yet.
    pub(super) fn given(&mut self, objects: &[Value]) -> Result<Vec<OwnedPod>, ClusterError> {
        let gathered = self.gathered(objects).map_err(|error| self.named(objects, &error))?;
        if let Some(skipped) = gathered.skipped.message() {
            return Err(ClusterError::Invalid(skipped));
        }
        let Inventory { cluster, pods, .. } = gathered;
        for item in cluster {
            let key = format!("{} {}", item.kind(), item.key());
            self.add(item).map_err(|wrong| ClusterError::Invalid(format!("{key}: {}", wrong.message)))?;
        }
        let mut owned = Vec::with_capacity(pods.len());
        for item in pods {
            let (key, note) = (item.key(), OwnedPod::of(&item));
            if self.pod_info(&key).is_some() {
                return Err(ClusterError::Exists(key));
            }
            let pod = objects::template(self.trial_mut(), item)
                .map_err(|wrong| ClusterError::Invalid(format!("pod {key}: {}", wrong.message)))?;
            owned.push(note(pod));
        }
        Ok(owned)
    }

    fn gathered(&self, objects: &[Value]) -> Result<Inventory, InputError> {
        let files = Files::within(InputLimit::default(), |_| ());
        let items = objects.iter().map(|value| Item::new(value.clone(), Origin::default())).collect();
        let given = Given { items, are_templates: true, existing: self.admission.clone() };
        inventory::gather(&files, Vec::new(), given, self.as_written)
    }

    /// Adds the kind and name of the invalid object to an error.
    fn named(&self, objects: &[Value], error: &InputError) -> ClusterError {
        let text = error.0.strip_prefix("the cluster: ").unwrap_or(&error.0);
        let is_invalid = |object: &&Value| self.gathered(std::slice::from_ref(*object)).is_err();
        ClusterError::Invalid(match objects.iter().find(is_invalid) {
            Some(object) => {
                let (kind, name) = (text_at(object, "/kind"), text_at(object, "/metadata/name"));
                format!("{kind} {name}: {text}")
            }
            None => text.to_owned(),
        })
    }

    /// Adds an object that pods need. Existing claims and namespaces stay as they are.
    fn add(&mut self, item: Item) -> Result<(), Wrong> {
        let kind = item.kind().to_owned();
        let trial = self.trial_mut();
        let Ok(object) = Object::from_value(item.value) else { return Ok(()) };
        let event =
            objects::event(&object, trial.tables_mut()).map_err(|malformed| objects::wrong(&malformed))?;
        let lookups = trial.snapshot().lookups();
        match event {
            Event::NamespaceApplied { name, labels } => {
                if lookups.namespace(name).is_none() {
                    trial.set_namespace(name, labels);
                }
            }
            Event::ControllerApplied { kind, namespace, name, demands } => {
                trial.set_controller(kind, namespace, name, demands);
            }
            Event::PodGroupApplied(group) => {
                if lookups.group(group.key).is_some() {
                    return Err(Wrong::new("metadata.name", "a group of this name exists already"));
                }
                trial.replace_group(group.key, Some(*group));
            }
            Event::StorageApplied(object @ (StorageObject::Claim(_) | StorageObject::ResourceClaim(_))) => {
                if trial.snapshot().volumes().get(object.key()).is_none() {
                    trial.set_storage(object);
                }
            }
            _ => {
                let text = format!("a {kind} is no part of what is placed; load it with the cluster");
                return Err(Wrong::new("kind", text));
            }
        }
        Ok(())
    }

    /// Lets pods join the queue, and returns their keys.
    pub(super) fn enqueue(&mut self, pods: Vec<OwnedPod>) -> Result<Vec<String>, ClusterError> {
        let mut keys = Vec::with_capacity(pods.len());
        for owned in pods {
            let key = self.trial().snapshot().pod_key(&owned.pod);
            if self.pod_info(&key).is_some() {
                return Err(ClusterError::Exists(key));
            }
            let pod = Arc::clone(&owned.pod);
            self.note(key.clone(), owned, None);
            if let Some(node) = pod.nominated_node {
                self.trial_mut().nominate(&pod, Some(node));
            }
            keys.push(key);
        }
        Ok(keys)
    }
}
