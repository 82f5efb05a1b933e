//! Converts PodGroups of each API version to the engine's one type.

use super::volumes::annotated;
use super::{Watched, uid};
use crate::api::scheduling::{
    GroupCondition, PodGroupStatus, PodGroupV1Alpha2, PodGroupV1Beta1, SchedulingConstraints,
    SchedulingPolicy,
};
use crate::api::{Kind as ApiKind, Malformed, Received};
use supercargo_core::model::event::{Event, Kind, ObjectKey};
use supercargo_core::model::group::{self, DisruptionMode, GroupApi, GroupKey, GroupPolicy, PodGroup};
use supercargo_core::model::group_options::GroupOptions;
use supercargo_core::model::intern::{Symbol, Tables};

impl Watched for PodGroupV1Alpha2 {
    const KIND: Kind = Kind::PodGroup;

    fn applied(&self, tables: &mut Tables) -> Result<Event, Malformed> {
        let content = self.content()?;
        let spec = Spec {
            parent: "",
            policy: &content.spec.scheduling_policy,
            constraints: content.spec.scheduling_constraints.as_ref(),
            is_evicted_whole: content.spec.disruption_mode == "PodGroup",
            priority: content.spec.priority,
        };
        Ok(applied(self, GroupApi::V1Alpha2, &spec, &content.status, tables))
    }

    fn key(&self, tables: &mut Tables) -> ObjectKey {
        ObjectKey::PodGroup(key(self, tables))
    }
}

impl Watched for PodGroupV1Beta1 {
    const KIND: Kind = Kind::PodGroup;

    fn applied(&self, tables: &mut Tables) -> Result<Event, Malformed> {
        let content = self.content()?;
        let mode = content.spec.disruption_mode.as_ref();
        let spec = Spec {
            parent: &content.spec.parent_composite_pod_group_name,
            policy: &content.spec.scheduling_policy,
            constraints: content.spec.scheduling_constraints.as_ref(),
            is_evicted_whole: mode.is_some_and(|mode| mode.all.is_some()),
            priority: content.spec.priority,
        };
        Ok(applied(self, GroupApi::V1Beta1, &spec, &content.status, tables))
    }

    fn key(&self, tables: &mut Tables) -> ObjectKey {
        ObjectKey::PodGroup(key(self, tables))
    }
}

/// What the specs of all versions say.
struct Spec<'a> {
    /// The composite group that it is part of; empty for none.
    parent: &'a str,
    policy: &'a SchedulingPolicy,
    constraints: Option<&'a SchedulingConstraints>,
    is_evicted_whole: bool,
    priority: Option<i32>,
}

fn applied<K: ApiKind>(
    group: &Received<K>,
    api: GroupApi,
    spec: &Spec<'_>,
    status: &PodGroupStatus,
    tables: &mut Tables,
) -> Event {
    let policy = policy(spec.policy);
    Event::PodGroupApplied(Box::new(PodGroup {
        key: key(group, tables),
        api,
        uid: uid(group),
        generation: group.metadata.generation.unwrap_or(0),
        policy,
        topology: topology(spec.constraints, tables),
        disruption: if spec.is_evicted_whole { DisruptionMode::All } else { DisruptionMode::Single },
        priority: spec.priority.unwrap_or(0),
        options: match spec.parent {
            "" => GroupOptions::parse(|key| annotated(group, key), policy, tables),
            parent => Err(has_parent(parent)),
        },
        scheduled: scheduled(status, api),
    }))
}

/// Alone, the group would start without the rest of the composite group.
fn has_parent(name: &str) -> Box<str> {
    format!(
        "spec.parentCompositePodGroupName of the pod group is {name:?}, but composite groups are not scheduled; \
         create the pod group without it to schedule it alone"
    )
    .into()
}

fn key<K: ApiKind>(group: &Received<K>, tables: &mut Tables) -> GroupKey {
    GroupKey { namespace: tables.symbol(group.namespace()), name: tables.symbol(group.name()) }
}

/// A group without a valid policy is basic, as upstream only asks whether there is a gang policy.
fn policy(policy: &SchedulingPolicy) -> GroupPolicy {
    match &policy.gang {
        Some(gang) => GroupPolicy::Gang(usize::try_from(gang.min_count).unwrap_or(0)),
        None => GroupPolicy::Basic,
    }
}

fn topology(constraints: Option<&SchedulingConstraints>, tables: &mut Tables) -> Option<Box<[Symbol]>> {
    Some(constraints?.topology.iter().map(|constraint| tables.symbol(&constraint.key)).collect())
}

fn scheduled(status: &PodGroupStatus, api: GroupApi) -> Option<group::GroupCondition> {
    let is_it = |condition: &&GroupCondition| condition.kind == api.condition_type();
    let condition = status.conditions.iter().find(is_it)?;
    Some(group::GroupCondition {
        is_true: condition.status == "True",
        reason: condition.reason.as_str().into(),
        message: condition.message.as_str().into(),
        observed_generation: condition.observed_generation,
    })
}
