//! The invariants of storage: the cache equals the watched objects, volumes are reserved only for pods between
//! decision and binding, and claims are bound before their pods.

use super::{Broken, broken};
use crate::objects::Pod;
use crate::sim::Sim;
use crate::storage::{claim_key, is_ephemeral};
use std::collections::{BTreeMap, BTreeSet};
use supercargo_core::model::volume::StorageKind;

impl Sim {
    /// Checks that the claims of a pod whose binding is sent are bound in the server's state, unless they were
    /// deleted.
    pub(crate) fn check_claims(&self, uid: &str) -> Result<(), Broken> {
        let Some(pod) = self.process.pods.get(uid) else { return Ok(()) };
        for name in &pod.claims {
            let key = claim_key(pod.namespace, name);
            let (seen, there) = (self.process.claims.get(&key), self.server.claims.get(&key));
            if let (Some(seen), Some(there)) = (seen, there)
                && seen.uid == there.uid
                && there.volume.is_none()
            {
                return Err(broken("no pod is bound before its claims", format!("{uid} with {key}")));
            }
        }
        Ok(())
    }

    /// Whether an error is that of NodeVolumeLimits about another pod, which does not own the claim of its ephemeral
    /// volume. While such a pod is on a node, upstream fails every attempt of a pod with claims, too.
    pub(crate) fn is_of_foreign_claim(&self, uid: &str, message: &str) -> bool {
        let has_foreign_claim = |pod: &Pod| {
            let claims = pod.claims.iter().filter(|name| is_ephemeral(name));
            let mut claims =
                claims.filter_map(|name| self.process.claims.get(&claim_key(pod.namespace, name)));
            claims.any(|claim| claim.owner.as_deref() != Some(&pod.uid))
        };
        message.ends_with("(pod is not owner)")
            && self.process.pods.values().any(|pod| pod.uid != uid && has_foreign_claim(pod))
    }

    /// Checks that the cache contains the watched claims and volumes in their versions. Volumes may be reserved
    /// only for pods between decision and binding.
    pub(crate) fn check_storage(&self) -> Result<(), Broken> {
        let process = &self.process;
        let snapshot = process.scheduler.snapshot();
        let objects = snapshot.volumes();
        let keys = |kind| objects.keys(kind).into_iter();
        let known = keys(StorageKind::PersistentVolume).chain(keys(StorageKind::PersistentVolumeClaim));
        let known: BTreeMap<String, u64> = known
            .map(|key| {
                let name = snapshot.text(key.name);
                let name = key.namespace.map_or(name.to_owned(), |ns| claim_key(snapshot.text(ns), name));
                (name, objects.version(key).and_then(|version| version.parse().ok()).unwrap_or_default())
            })
            .collect();
        let claims = process.claims.iter().map(|(key, claim)| (key.clone(), claim.version));
        let volumes = process.volumes.iter().map(|(name, volume)| (name.clone(), volume.version));
        let reported: BTreeMap<String, u64> = claims.chain(volumes).collect();
        if known != reported {
            let detail = format!("{known:?}, and the watches reported {reported:?}");
            return Err(broken("the cache contains the watched claims and volumes", detail));
        }
        let waiting: BTreeSet<&str> =
            process.scheduler.waiting_for_volumes().map(|(queued, ..)| &*queued.pod.uid).collect();
        for uid in process.pods.keys() {
            let is_on_its_way = waiting.contains(uid.as_str()) || process.decided.contains_key(uid);
            if !is_on_its_way && !objects.reservations_of(uid).is_empty() {
                let detail = format!("{uid} has {:?}", objects.reservations_of(uid));
                return Err(broken("volumes are reserved only between decision and binding", detail));
            }
        }
        Ok(())
    }
}
