//! What a pod needs that no plugin of this version judges, each under the plugin of upstream's that would.
//!
//! Empties as those plugins come.

use crate::api::core::{Container, PodSpec, Volume};
use supercargo_core::pod::Unjudged;

const VERSION: &str = "this version of supercargo does not place pods";

/// All such needs of a pod, in the order of its spec.
pub(super) fn needs(spec: &PodSpec) -> Box<[Unjudged]> {
    let mut needs: Vec<Unjudged> = spec.volumes.iter().filter_map(of_volume).collect();
    if let Some(claim) = spec.resource_claims.first() {
        let what = format!("resource claim {:?} is used, and {VERSION} with resource claims", claim.name);
        needs.push(Unjudged { plugin: "DynamicResources", what: what.into() });
    }
    let restarts_all = |container: &&Container| {
        container.restart_policy_rules.iter().any(|rule| rule.action == "RestartAllContainers")
    };
    if let Some(container) = spec.containers.iter().chain(&spec.init_containers).find(restarts_all) {
        let name = &container.name;
        let what = format!("container {name:?} may restart all containers, and {VERSION} that do");
        needs.push(Unjudged { plugin: "NodeDeclaredFeatures", what: what.into() });
    }
    if spec.host_network && spec.host_users == Some(false) {
        let what = format!("hostNetwork is used with hostUsers false, and {VERSION} of that kind");
        needs.push(Unjudged { plugin: "NodeDeclaredFeatures", what: what.into() });
    }
    needs.into()
}

fn of_volume(volume: &Volume) -> Option<Unjudged> {
    let name = &volume.name;
    let disk = |source: &str| {
        let what = format!("volume {name:?} is a disk by {source}, and {VERSION} with such disks");
        Some(Unjudged { plugin: "VolumeRestrictions", what: what.into() })
    };
    let claim = |what: String| {
        let what = format!("{what} is used, and {VERSION} with volume claims");
        Some(Unjudged { plugin: "VolumeBinding", what: what.into() })
    };
    match volume {
        Volume { persistent_volume_claim: Some(source), .. } => {
            claim(format!("persistentvolumeclaim {:?}", source.claim_name))
        }
        Volume { ephemeral: Some(_), .. } => claim(format!("ephemeral volume {name:?}")),
        Volume { gce_persistent_disk: Some(_), .. } => disk("gcePersistentDisk"),
        Volume { aws_elastic_block_store: Some(_), .. } => disk("awsElasticBlockStore"),
        Volume { rbd: Some(_), .. } => disk("rbd"),
        Volume { iscsi: Some(_), .. } => disk("iscsi"),
        _ => None,
    }
}
