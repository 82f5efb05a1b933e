//! Changes of a cluster that people make with kubectl: taints, and replicas of workloads.

use super::{At, Cluster, ClusterError, Entry};
use crate::explain::claims::{afresh, with_own_claims};
use crate::explain::device_claims::release;
use crate::prepare::owners::OwnedPod;
use crate::prepare::scale::{in_deletion_order, new_names};
use crate::simulate::profiles::profiles_of_text;
use std::sync::Arc;
use supercargo_core::model::intern::Tables;
use supercargo_core::model::node::{NodeInfo, Taint, TaintEffect};
use supercargo_core::model::pod::PodInfo;

/// The most pods of a workload.
const REPLICAS_MAX: usize = 100_000;

impl Cluster {
    /// Replaces the KubeSchedulerConfiguration by a text, which messages call `name`. A blank text means the defaults.
    /// Placed pods stay where they are.
    ///
    /// # Errors
    /// Fails if the configuration is invalid or names extenders.
    pub fn set_config_text(&mut self, name: &str, text: &str) -> Result<(), ClusterError> {
        let profiles = profiles_of_text(name, text, self.trial_mut().tables_mut())?;
        let before = self.trial_mut().replace_profiles(profiles);
        if !self.forks.is_empty() {
            self.journal.push(Entry::Profiles(before));
        }
        Ok(())
    }

    /// Adds a taint, as `KEY[=VALUE]:EFFECT`, to a node. A taint of the same key and effect is replaced. Placed pods
    /// stay where they are.
    ///
    /// # Errors
    /// Fails if there is no such node, or if the text is no taint.
    pub fn taint(&mut self, node: &str, taint: &str) -> Result<(), ClusterError> {
        self.retaint(node, taint, |old, new| !(old.key == new.key && old.effect == new.effect), true)
    }

    /// Removes a taint, as `KEY[=VALUE]:EFFECT`, from a node.
    ///
    /// # Errors
    /// Fails if there is no such node, if the text is no taint, or if the node does not have it.
    pub fn untaint(&mut self, node: &str, taint: &str) -> Result<(), ClusterError> {
        self.retaint(node, taint, |old, new| old != new, false)
    }

    fn retaint(
        &mut self,
        name: &str,
        taint: &str,
        is_kept: fn(&Taint, &Taint) -> bool,
        is_added: bool,
    ) -> Result<(), ClusterError> {
        let symbol = self.node(name)?;
        let wanted = parse(taint, self.trial_mut().tables_mut())?;
        let trial = self.trial_mut();
        let node = trial.snapshot().find_node(symbol).expect("the node was found by this name");
        let mut info = NodeInfo::clone(trial.snapshot().node_info(node));
        let before = trial.tables().taints(info.taints);
        let mut taints: Vec<Taint> = before.iter().filter(|old| is_kept(old, &wanted)).copied().collect();
        if !is_added && taints.len() == before.len() {
            return Err(ClusterError::Invalid(format!("node {name} does not have the taint {taint}")));
        }
        taints.extend(is_added.then_some(wanted));
        info.taints = trial.tables_mut().taint_set(taints);
        trial.set_node(&Arc::new(info));
        self.finished();
        Ok(())
    }

    /// Sets the number of pods of a workload that has at least one. New pods are like one of them and pending; a
    /// smaller number removes those that its controller would delete first.
    ///
    /// # Errors
    /// Fails if the workload has no pods, if it is a DaemonSet, or if the number exceeds 100,000.
    pub fn scale(
        &mut self,
        kind: &str,
        namespace: &str,
        name: &str,
        replicas: usize,
    ) -> Result<(), ClusterError> {
        let invalid = |text: &str| ClusterError::Invalid(format!("{kind} {namespace}/{name}: {text}"));
        if kind == "DaemonSet" {
            return Err(invalid("a DaemonSet runs one pod per node; add or remove nodes instead"));
        }
        if replicas > REPLICAS_MAX {
            return Err(invalid(&format!("{replicas} replicas exceed the maximum of {REPLICAS_MAX}")));
        }
        let text = |owned: &OwnedPod| self.trial().tables().text(owned.pod.namespace) == namespace;
        let is_own = |owned: &&OwnedPod| {
            owned.owner.as_ref().is_some_and(|owner| &*owner.kind == kind && &*owner.name == name)
                && text(owned)
        };
        let own = self.owned_pods().map(|(_, owned)| owned).filter(is_own);
        let mut pods: Vec<OwnedPod> =
            own.filter(|owned| !owned.pod.deleting).map(|owned| self.where_it_is(owned)).collect();
        let like = pods.first().cloned().ok_or_else(|| invalid("has no pods to copy or to remove"))?;
        if pods.len() > replicas {
            in_deletion_order(&mut pods, kind);
            pods.truncate(pods.len() - replicas);
            pods.iter().for_each(|owned| self.delete(owned));
            self.finished();
            return Ok(());
        }
        self.atomically(|cluster| {
            let mut new = Vec::new();
            for name in new_names(&pods, (kind, name), replicas, 0) {
                let uid = format!("{kind}/{namespace}/{name}").into();
                let pod = PodInfo { uid, name: name.into(), ..afresh(&like.pod) };
                let pod = Arc::new(with_own_claims(cluster.trial_mut(), &like.pod, pod));
                new.push(OwnedPod { pod, created: "~".into(), ..like.clone() });
            }
            cluster.enqueue(new)?;
            cluster.finished();
            Ok(())
        })
    }

    /// Returns a pod with the node it is on now.
    pub(super) fn where_it_is(&self, owned: &OwnedPod) -> OwnedPod {
        let key = self.trial().snapshot().pod_key(&owned.pod);
        let node = match self.pods.get(&key).map(|record| record.at) {
            Some(At::Node(node)) => Some(node),
            Some(At::Queue(_)) | None => None,
        };
        let pod = Arc::new(PodInfo { node_name: node, ..PodInfo::clone(&owned.pod) });
        OwnedPod { pod, ..owned.clone() }
    }

    /// Removes a pod that no controller creates again.
    fn delete(&mut self, owned: &OwnedPod) {
        let trial = self.trial_mut();
        if owned.pod.node_name.is_some() {
            trial.remove_pod(&owned.pod.uid);
            release(trial, &owned.pod);
        } else if owned.pod.nominated_node.is_some() {
            trial.nominate(&owned.pod, None);
        }
        let key = self.trial().snapshot().pod_key(&owned.pod);
        self.change(key, None);
    }
}

/// Reads `KEY[=VALUE]:EFFECT`, as kubectl writes a taint.
fn parse(text: &str, tables: &mut Tables) -> Result<Taint, ClusterError> {
    let wrong = || {
        let expected =
            "expected KEY[=VALUE]:EFFECT with the effect NoSchedule, PreferNoSchedule or NoExecute";
        ClusterError::Invalid(format!("taint {text:?}: {expected}"))
    };
    let (pair, effect) = text.trim().rsplit_once(':').ok_or_else(wrong)?;
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    let effect = match effect {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        _ => return Err(wrong()),
    };
    let is_word = |word: &str| !word.contains(|c: char| c.is_whitespace() || c.is_control() || c == ':');
    if key.is_empty() || !is_word(key) || !is_word(value) {
        return Err(wrong());
    }
    Ok(Taint { key: tables.symbol(key), value: tables.symbol(value), effect })
}
