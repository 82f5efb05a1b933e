//! Converts PodGroups of each API version to the engine's one type.

use super::{Watched, uid};
use crate::api::scheduling::{
    GroupCondition, PodGroupStatus, PodGroupV1Alpha2, PodGroupV1Beta1, SchedulingConstraints,
    SchedulingPolicy,
};
use crate::api::{Kind as ApiKind, Malformed, Received};
use supercargo_core::model::event::{Event, Kind, ObjectKey};
use supercargo_core::model::group::{self, DisruptionMode, GroupApi, GroupKey, GroupPolicy, PodGroup};
use supercargo_core::model::intern::{Symbol, Tables};

impl Watched for PodGroupV1Alpha2 {
    const KIND: Kind = Kind::PodGroup;

    fn applied(&self, tables: &mut Tables) -> Result<Event, Malformed> {
        let content = self.content()?;
        let spec = &content.spec;
        let disruption =
            if spec.disruption_mode == "PodGroup" { DisruptionMode::All } else { DisruptionMode::Single };
        Ok(Event::PodGroupApplied(Box::new(PodGroup {
            key: key(self, tables),
            api: GroupApi::V1Alpha2,
            uid: uid(self),
            generation: self.metadata.generation.unwrap_or(0),
            policy: policy(&spec.scheduling_policy),
            topology: topology(spec.scheduling_constraints.as_ref(), tables),
            disruption,
            priority: spec.priority.unwrap_or(0),
            scheduled: scheduled(&content.status, GroupApi::V1Alpha2),
        })))
    }

    fn key(&self, tables: &mut Tables) -> ObjectKey {
        ObjectKey::PodGroup(key(self, tables))
    }
}

impl Watched for PodGroupV1Beta1 {
    const KIND: Kind = Kind::PodGroup;

    fn applied(&self, tables: &mut Tables) -> Result<Event, Malformed> {
        let content = self.content()?;
        let spec = &content.spec;
        let is_whole = spec.disruption_mode.as_ref().is_some_and(|mode| mode.all.is_some());
        let disruption = if is_whole { DisruptionMode::All } else { DisruptionMode::Single };
        Ok(Event::PodGroupApplied(Box::new(PodGroup {
            key: key(self, tables),
            api: GroupApi::V1Beta1,
            uid: uid(self),
            generation: self.metadata.generation.unwrap_or(0),
            policy: policy(&spec.scheduling_policy),
            topology: topology(spec.scheduling_constraints.as_ref(), tables),
            disruption,
            priority: spec.priority.unwrap_or(0),
            scheduled: scheduled(&content.status, GroupApi::V1Beta1),
        })))
    }

    fn key(&self, tables: &mut Tables) -> ObjectKey {
        ObjectKey::PodGroup(key(self, tables))
    }
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
