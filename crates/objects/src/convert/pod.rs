//! Converts pods.

use super::affinity::{pod_affinity, required_node_affinity, spread_constraint, toleration};
use super::selectors::preferred_terms;
use super::{devices, given, label_set, requests, uid, volumes};
use crate::api::core::{Container, PodCondition, PodSpec, PodStatus, Requests};
use crate::api::{Malformed, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time as ApiTime};
use std::collections::BTreeMap;
use supercargo_core::model::emulation::ImageVolumes;
use supercargo_core::model::group::Membership;
use supercargo_core::model::intern::{Symbol, Tables, known};
use supercargo_core::model::pod::{
    Controller, ControllerKind, HostPort, PodInfo, PodTemplate, ScheduledCondition,
};
use supercargo_core::model::time::Time;

/// Converts a pod.
///
/// # Errors
/// If upstream's decoder would reject the object.
pub fn pod(tables: &mut Tables, pod: &Pod) -> Result<PodInfo, Malformed> {
    let content = pod.content()?;
    let (meta, spec, status) = (&pod.metadata, &content.spec, &content.status);
    let template = template(tables, pod, spec, status).map_err(|reason| pod.malformed(reason))?;
    let node_affinity = required_node_affinity(tables, spec);
    Ok(PodInfo {
        uid: uid(pod),
        name: pod.name().into(),
        resource_version: meta.resource_version.as_deref().unwrap_or_default().into(),
        generation: meta.generation.unwrap_or(0),
        labels: label_set(tables, meta),
        deleting: meta.deletion_timestamp.is_some(),
        preempted: preempted(&status.conditions),
        node_name: given(tables, &spec.node_name),
        nominated_node: given(tables, &status.nominated_node_name),
        start_time: status.start_time.as_ref().map(time),
        node_affinity: tables.node_affinity(node_affinity),
        volumes: volumes::of_pod(tables, pod.name(), spec).into(),
        claims: devices::claims_of_pod(tables, spec, status).into(),
        scheduled: scheduled(&status.conditions),
        group: membership(tables, pod, spec).map(Box::new),
        template: tables.template(template),
    })
}

/// Returns the group that a pod names, if groups are enabled.
fn membership(tables: &mut Tables, pod: &Pod, spec: &PodSpec) -> Option<Membership> {
    if !tables.rules().groups.workloads {
        return None;
    }
    let name = &spec.scheduling_group.as_ref()?.pod_group_name;
    let created = pod.metadata.creation_timestamp.as_ref().map(time).unwrap_or_default();
    Some(Membership { group: tables.symbol(name), created })
}

/// Returns the part of a pod that it shares with pods of the same template.
fn template(
    tables: &mut Tables,
    pod: &Pod,
    spec: &PodSpec,
    status: &PodStatus,
) -> Result<PodTemplate, String> {
    let meta = &pod.metadata;
    let namespace = tables.symbol(pod.namespace());
    let preferred = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let preferred = preferred.and_then(|affinity| affinity.preferred.as_deref());
    let no_labels = BTreeMap::new();
    let labels = meta.labels.as_ref().unwrap_or(&no_labels);
    let spread = spec.topology_spread_constraints.iter();
    Ok(PodTemplate {
        namespace,
        owner: meta.owner_references.iter().flatten().find_map(|owner| controller(tables, owner)),
        scheduler_name: tables.symbol(&spec.scheduler_name),
        priority: spec.priority.unwrap_or(0),
        never_preempts: spec.preemption_policy == "Never",
        gates: spec.scheduling_gates.iter().map(|gate| tables.symbol(&gate.name)).collect(),
        resources: requests::pod_resources(tables, spec, status)?,
        ports: host_ports(tables, spec),
        tolerations: spec.tolerations.iter().map(|t| toleration(tables, t)).collect(),
        preferred_node_affinity: preferred.map(|terms| preferred_terms(tables, terms).map(Into::into)),
        pod_affinity: pod_affinity(tables, spec.affinity.as_ref(), namespace),
        spread: spread.map(|constraint| spread_constraint(tables, constraint, labels)).collect(),
        images: images(tables, spec),
        image_sources: image_sources(tables.rules().image_volumes, spec),
        required_features: required_features(tables, spec),
        extended_resources: extended_resources(tables, spec),
        container_requests: devices::container_requests(tables, spec),
    })
}

/// Returns the owner if it controls the pod and is of a kind that default spreading looks up. Group, version and kind
/// must match exactly.
fn controller(tables: &mut Tables, owner: &OwnerReference) -> Option<Controller> {
    let kind = match (owner.api_version.as_str(), owner.kind.as_str()) {
        ("v1", "ReplicationController") => ControllerKind::ReplicationController,
        ("apps/v1", "ReplicaSet") => ControllerKind::ReplicaSet,
        ("apps/v1", "StatefulSet") => ControllerKind::StatefulSet,
        _ => return None,
    };
    (owner.controller == Some(true)).then(|| Controller { kind, name: tables.symbol(&owner.name) })
}

/// Returns the host ports of long-running containers (upstream `pkg/scheduler/util/utils.go#GetHostPorts`).
fn host_ports(tables: &mut Tables, spec: &PodSpec) -> Box<[HostPort]> {
    let sidecars = spec.init_containers.iter().filter(|container| container.is_restartable());
    let ports = sidecars.chain(&spec.containers).flat_map(|container| &container.ports);
    let ports = ports.filter(|port| port.host_port > 0).map(|port| HostPort {
        address: given(tables, &port.host_ip).unwrap_or(known::ANY_ADDRESS),
        protocol: given(tables, &port.protocol).unwrap_or(known::TCP),
        port: port.host_port,
    });
    ports.collect()
}

/// Returns the kubelet features that the pod requires (those of `component-helpers/nodedeclaredfeatures/features`
/// that affect scheduling).
fn required_features(tables: &mut Tables, spec: &PodSpec) -> Box<[Symbol]> {
    let mut containers = spec.containers.iter().chain(&spec.init_containers);
    let restarts_all = containers.any(|container| {
        container.restart_policy_rules.iter().any(|rule| rule.action == "RestartAllContainers")
    });
    let maps_users_of_the_host = spec.host_network && spec.host_users == Some(false);
    let features = [
        (restarts_all, "RestartAllContainersOnContainerExits"),
        (maps_users_of_the_host, "UserNamespacesHostNetworkSupport"),
    ];
    features.iter().filter(|(is_required, _)| *is_required).map(|(_, name)| tables.symbol(name)).collect()
}

/// Returns the distinct extended resources that containers name.
fn extended_resources(tables: &mut Tables, spec: &PodSpec) -> Box<[Symbol]> {
    let mut names: Vec<Symbol> = Vec::new();
    for container in spec.init_containers.iter().chain(&spec.containers) {
        let Requests { requests, limits } = &container.resources;
        for name in requests.keys().chain(limits.keys()).filter(|name| name.contains('/')) {
            let name = tables.symbol(name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names.into()
}

/// Returns the images of init containers, containers and image volumes, with repetitions.
fn images(tables: &mut Tables, spec: &PodSpec) -> Box<[Symbol]> {
    let containers =
        |list: &'_ [Container]| list.iter().map(|container| container.image.clone()).collect::<Vec<_>>();
    let mut names = containers(&spec.init_containers);
    names.extend(containers(&spec.containers));
    if tables.rules().image_volumes != ImageVolumes::Ignored {
        let volumes = spec.volumes.iter().filter_map(|volume| volume.image.as_ref());
        names.extend(volumes.map(|image| image.reference.clone()));
    }
    names.into_iter().map(|name| tables.symbol(&normalized_image(name))).collect()
}

fn image_sources(rule: ImageVolumes, spec: &PodSpec) -> u32 {
    let containers = spec.init_containers.len() + spec.containers.len();
    let volumes = spec.volumes.iter().filter(|volume| volume.image.is_some());
    let counted = if rule == ImageVolumes::InSumAndLimit { volumes.count() } else { 0 };
    u32::try_from(containers + counted).unwrap_or(u32::MAX)
}

/// Returns the name under which nodes list an image, with `:latest` if it has no tag (upstream
/// `pkg/scheduler/framework/plugins/imagelocality/image_locality.go#normalizedImageName`).
fn normalized_image(mut name: String) -> String {
    if name.rfind(':') <= name.rfind('/') {
        name.push_str(":latest");
    }
    name
}

/// Converts a time of the API. A time before 1970 becomes the start of 1970, and a time after 2554 the latest time
/// that [`Time`] can hold.
pub(super) fn time(time: &ApiTime) -> Time {
    let nanos = time.0.as_nanosecond().max(0);
    Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Reports whether the scheduler has marked the pod as a preemption victim (upstream
/// `defaultpreemption/default_preemption.go#podTerminatingByPreemption`).
fn preempted(conditions: &[PodCondition]) -> bool {
    let condition = conditions.iter().find(|condition| condition.kind == "DisruptionTarget");
    condition.is_some_and(|it| it.status == "True" && it.reason == "PreemptionByScheduler")
}

fn scheduled(conditions: &[PodCondition]) -> Option<Box<ScheduledCondition>> {
    let condition = conditions.iter().find(|condition| condition.kind == "PodScheduled")?;
    Some(Box::new(ScheduledCondition {
        status: condition.status.as_str().into(),
        reason: condition.reason.as_str().into(),
        message: condition.message.as_str().into(),
        last_transition_time: condition.last_transition_time.as_str().into(),
    }))
}
