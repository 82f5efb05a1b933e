//! Questions about pod groups: their members, and why they do not start. They change nothing.

use super::{At, Cluster, ClusterError};
use crate::explain::{GroupExplanation, Place, explain_group};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use supercargo_core::model::group::{GroupKey, GroupPolicy};
use supercargo_core::model::pod::PodInfo;

/// A pod group with its unfinished members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupState {
    /// `namespace/name`.
    pub group: String,
    /// Whether the PodGroup exists.
    pub exists: bool,
    /// The number of members that must have a node together; `None` if there is no such number.
    pub min_count: Option<usize>,
    /// The label whose value all nodes of the group must share; `None` if none.
    pub topology_key: Option<String>,
    /// The number of members, without those that are being deleted.
    pub members: usize,
    /// The number of members with a node among them.
    pub bound: usize,
}

impl Cluster {
    /// Returns the pod groups that exist or that pods name, by namespace and name; none without their feature gates.
    pub fn groups(&self) -> Vec<GroupState> {
        let rules = self.trial().tables().rules().groups;
        if !rules.workloads {
            return Vec::new();
        }
        let lookups = self.trial().snapshot().lookups();
        let mut counts: BTreeMap<GroupKey, (usize, usize)> =
            lookups.group_keys().map(|key| (key, (0, 0))).collect();
        for record in self.pods.values().filter(|record| !record.owned.pod.deleting) {
            let Some(key) = record.owned.pod.group_key() else { continue };
            let (members, bound) = counts.entry(key).or_default();
            *members += 1;
            *bound += usize::from(matches!(record.at, At::Node(_)));
        }
        let tables = self.trial().tables();
        let state = |(key, (members, bound)): (GroupKey, (usize, usize))| {
            let group = lookups.group(key);
            let topology = group.filter(|_| rules.topology).and_then(|it| it.topology.as_ref()?.first());
            GroupState {
                group: self.group_name(key),
                exists: group.is_some(),
                min_count: group.and_then(|group| match group.policy {
                    GroupPolicy::Gang(min) if rules.gangs => Some(min),
                    GroupPolicy::Gang(_) | GroupPolicy::Basic => None,
                }),
                topology_key: topology.map(|&key| tables.text(key).to_owned()),
                members,
                bound,
            }
        };
        let mut all: Vec<GroupState> = counts.into_iter().map(state).collect();
        all.sort_by(|a, b| a.group.cmp(&b.group));
        all
    }

    /// Explains why a pod group, given as `namespace/name`, runs, starts or waits, with changes that would help. The
    /// cluster stays as it is.
    ///
    /// # Errors
    /// Fails if no PodGroup has this name and no pod names it.
    pub fn explain_group(&mut self, group: &str) -> Result<GroupExplanation, ClusterError> {
        let key = self.group_key(group);
        let key = key.ok_or_else(|| ClusterError::Invalid(format!("pod group {group} not found")))?;
        let pending: Vec<Arc<PodInfo>> =
            self.queue.values().filter_map(|pod| self.pod_info(pod)).cloned().collect();
        let mut place = Place { trial: self.trial_mut(), pending: &pending };
        let explained = explain_group(&mut place, key).explanation;
        self.trial_mut().refreshed();
        Ok(explained)
    }

    /// Returns a group that exists or has members.
    fn group_key(&self, group: &str) -> Option<GroupKey> {
        let (namespace, name) = group.split_once('/')?;
        let tables = self.trial().tables();
        let key = GroupKey { namespace: tables.find(namespace)?, name: tables.find(name)? };
        let exists = self.trial().snapshot().lookups().group(key).is_some();
        let is_named = || self.pods.values().any(|record| record.owned.pod.group_key() == Some(key));
        (exists || is_named()).then_some(key)
    }

    fn group_name(&self, key: GroupKey) -> String {
        let tables = self.trial().tables();
        format!("{}/{}", tables.text(key.namespace), tables.text(key.name))
    }
}
