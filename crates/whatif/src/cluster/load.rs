//! Loads a cluster from objects and files.

use super::{Cluster, ClusterError};
use crate::explain::device_claims::remove;
use crate::load::files::{Files, Item, Origin};
use crate::load::input::InputLimit;
use crate::prepare::inventory::{self, Given, Inventory};
use crate::prepare::owners::{OwnedPod, Owners};
use crate::prepare::update::Concern;
use crate::simulate::{objects, profiles};
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use supercargo_core::model::emulation::{Compat, EmulatedVersion, GroupGates};
use supercargo_core::scheduler::Trial;

/// How the scheduler of a cluster behaves, and how its objects are read.
#[derive(Clone, Debug)]
pub struct Setup {
    /// A file with a KubeSchedulerConfiguration v1. Without it, the default plugins decide.
    pub config: Option<PathBuf>,
    /// The version of kube-scheduler to behave as; the newest by default.
    pub version: EmulatedVersion,
    /// Whether defects of kube-scheduler are repaired, which is the default.
    pub compat: Compat,
    /// The feature gates of pod groups; all are off by default.
    pub groups: GroupGates,
    /// Reads objects as written, without the defaults and admission of an API server.
    pub as_written: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            config: None,
            version: EmulatedVersion::NEWEST,
            compat: Compat::default(),
            groups: GroupGates::default(),
            as_written: false,
        }
    }
}

impl Setup {
    /// Returns a trial of an empty cluster.
    fn trial(&self) -> Result<Trial, ClusterError> {
        Ok(profiles::trial(self.config.as_deref(), self.version, self.compat, self.groups)?)
    }
}

impl Cluster {
    /// Loads a cluster from API objects in their JSON form, such as the items of lists that an API server returns.
    ///
    /// # Errors
    /// Fails if an object or the configuration is invalid.
    pub fn from_objects(objects: Vec<Value>, setup: &Setup) -> Result<Self, ClusterError> {
        let files = Files::within(InputLimit::default(), |_| ());
        let items = objects.into_iter().map(|value| Item::new(value, Origin::default()));
        Self::load(&files, items.collect(), setup.trial()?, setup.as_written)
    }

    /// Loads a cluster from files with objects in YAML or JSON, as `kubectl get -o yaml` writes them.
    ///
    /// # Errors
    /// Fails if a file, an object or the configuration is invalid; the message names file and line.
    pub fn from_files<P: AsRef<Path>>(paths: &[P], setup: &Setup) -> Result<Self, ClusterError> {
        let mut files = Files::within(InputLimit::default(), |_| ());
        let mut items = Vec::new();
        for path in paths {
            items.extend(files.read(path.as_ref(), &mut io::empty())?);
        }
        Self::load(&files, items, setup.trial()?, setup.as_written)
    }

    /// Loads a cluster from a text with objects in YAML or JSON, such as the output of `kubectl get -o json`. It may be
    /// compressed with gzip, and has at most `limit` bytes without that.
    ///
    /// # Errors
    /// Fails if the text, an object or the configuration is invalid; the message names line or object.
    pub fn from_text(
        mut text: impl io::Read,
        limit: InputLimit,
        setup: &Setup,
    ) -> Result<Self, ClusterError> {
        let mut files = Files::within(limit, |_| ());
        let items = files.read(Path::new("-"), &mut text)?;
        Self::load(&files, items, setup.trial()?, setup.as_written)
    }

    /// Adds objects to a trial of an empty cluster.
    pub(super) fn load(
        files: &Files,
        items: Vec<Item>,
        trial: Trial,
        as_written: bool,
    ) -> Result<Self, ClusterError> {
        Ok(Self::with_manifests(files, items, Vec::new(), trial, as_written)?.0)
    }

    /// Loads a cluster from the objects of `files`, and adds the pods of manifests as pending pods after those of the
    /// cluster. Workloads among the manifests are expanded. Returns notes about the objects, too.
    ///
    /// # Errors
    /// Fails if an object is invalid; the message names file and line.
    pub fn with_manifests(
        files: &Files,
        items: Vec<Item>,
        manifests: Vec<Item>,
        mut trial: Trial,
        as_written: bool,
    ) -> Result<(Self, Vec<String>), ClusterError> {
        let existing = Concern::among(&manifests, items.iter());
        let given = Given { items: manifests, are_templates: false, existing };
        let gathered = inventory::gather(files, items, given, as_written)?;
        let Inventory {
            cluster: items,
            pods: to_come,
            leaving,
            admission,
            whole,
            changes: mut notes,
            skipped,
        } = gathered;
        let (mut owners, mut pods) = (Owners::default(), Vec::new());
        for item in items {
            let origin = item.origin;
            let item = whole.of(item).map_err(|wrong| files.error(origin, &wrong))?;
            let taken = if item.kind() == "Pod" {
                let note = OwnedPod::of(&item);
                objects::pod(&mut trial, item).map(|(pod, has_ended)| {
                    pods.extend((!has_ended).then(|| note(pod)));
                })
            } else {
                owners.keep(&item);
                objects::apply(&mut trial, item)
            };
            taken.map_err(|wrong| files.error(origin, &wrong))?;
        }
        let tables = trial.tables();
        let is_leaving = |owned: &OwnedPod| {
            let namespace = || tables.text(owned.pod.namespace).to_owned();
            !leaving.is_empty() && leaving.contains(&(namespace(), owned.pod.name.to_string()))
        };
        let (removed, mut pods): (Vec<_>, Vec<_>) = pods.into_iter().partition(is_leaving);
        let uids = to_come.iter().map(|item| item.text("/metadata/uid").into()).collect();
        remove(&mut trial, removed.iter().map(|owned| &*owned.pod), &uids);
        for item in to_come {
            let (origin, note) = (item.origin, OwnedPod::of(&item));
            let pod = objects::pod(&mut trial, item).map_err(|wrong| files.error(origin, &wrong))?;
            pods.extend((!pod.1).then(|| note(pod.0)));
        }
        notes.extend(skipped.message());
        let cluster = Self::of(trial, pods, owners.budgets);
        Ok((Self { admission, as_written, ..cluster }, notes))
    }
}
