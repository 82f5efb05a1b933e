//! A cluster to ask questions about, from files or as it is: the engine's cache, the pods that wait, and the names of all pods.
//!
//! Makes no decision. Where objects come from a list of an API server, one that cannot be read is left out and told of; in a
//! file somebody wrote it ends the command.

use super::simulate::InputError;
use super::simulate::files::{Files, Item, Wrong};
use super::simulate::inventory::{self, Inventory};
use super::simulate::world::World;
use crate::config::nearest;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use supercargo_core::pod::PodInfo;

/// Names that are offered where one does not exist.
const NEAR_NAMES: usize = 3;

/// A cluster.
#[derive(Default)]
pub(super) struct Cluster {
    pub(super) world: World,
    /// Pods without a node that have not ended, in the order they came.
    pub(super) pending: Vec<Arc<PodInfo>>,
    /// What people should know of what was read.
    pub(super) notices: Vec<String>,
    /// The pod that is asked about, once it has come by, and whether it has ended.
    asked: Option<(Arc<PodInfo>, bool)>,
    wanted: (String, String),
    /// `namespace/name` of all pods.
    names: Vec<(String, String)>,
}

impl Cluster {
    /// An empty one, which looks out for a pod of this namespace and name.
    pub(super) fn looking_for(namespace: &str, name: &str) -> Self {
        Self { wanted: (namespace.to_owned(), name.to_owned()), ..Self::default() }
    }

    /// Reads files; `stdin` is read for `-`.
    ///
    /// # Errors
    /// When one cannot be read or taken, with its place.
    pub(super) fn read(
        &mut self,
        paths: &[PathBuf],
        as_written: bool,
        stdin: &mut dyn Read,
    ) -> Result<(), InputError> {
        let mut files = Files::default();
        let mut items = Vec::new();
        for path in paths {
            items.extend(files.read(path, stdin)?);
        }
        let Inventory { cluster, skipped, .. } = inventory::gather(&files, items, Vec::new(), as_written)?;
        self.notices.extend(skipped.told());
        for item in cluster {
            let origin = item.origin;
            self.add(item).map_err(|wrong| files.error(origin, &wrong))?;
        }
        Ok(())
    }

    /// Takes an object in.
    pub(super) fn add(&mut self, item: Item) -> Result<(), Wrong> {
        if item.kind() != "Pod" {
            return self.world.apply(item);
        }
        let key = (item.namespace().to_owned(), item.name().to_owned());
        let is_asked = key == self.wanted;
        let has_node = !item.text("/spec/nodeName").is_empty();
        self.names.push(key);
        if has_node && !is_asked {
            return self.world.apply(item);
        }
        let again = has_node.then(|| item.clone());
        let (pod, has_ended) = self.world.pod(item)?;
        if let Some(again) = again {
            self.world.apply(again)?;
        } else if !has_ended {
            self.pending.push(Arc::clone(&pod));
        }
        if is_asked {
            self.asked = Some((pod, has_ended));
        }
        Ok(())
    }

    /// The pod that is asked about, and whether it has ended.
    ///
    /// # Errors
    /// When there is none of that name, with those that may have been meant.
    pub(super) fn asked(&self) -> Result<(Arc<PodInfo>, bool), InputError> {
        self.asked.clone().ok_or_else(|| {
            let (namespace, name) = &self.wanted;
            InputError(format!("there is no pod {name} in the namespace {namespace}{}", self.meant()))
        })
    }

    fn meant(&self) -> String {
        let (namespace, name) = &self.wanted;
        let elsewhere: Vec<String> = self
            .names
            .iter()
            .filter(|(_, other)| other == name)
            .take(NEAR_NAMES)
            .map(|(namespace, _)| format!("-n {namespace}"))
            .collect();
        if !elsewhere.is_empty() {
            return format!("; there is one with {}", elsewhere.join(" and with "));
        }
        let here = self.names.iter().filter(|(other, _)| other == namespace).map(|(_, name)| name.as_str());
        let mut near: Vec<&str> =
            here.clone().filter(|other| !name.is_empty() && other.starts_with(name.as_str())).collect();
        near.sort_unstable();
        near.truncate(NEAR_NAMES);
        if near.is_empty() {
            near.extend(nearest(name, here.clone()));
        }
        match (near.is_empty(), here.count()) {
            (false, _) => format!("; did you mean {}?", near.join(" or ")),
            (true, 0) => "; there are no pods in it at all".to_owned(),
            (true, pods) => format!("; it has {pods} of other names"),
        }
    }
}
