//! Converts pod affinity, topology spread constraints, tolerations and required node affinity.
//!
//! Upstream: `kube-scheduler/framework/types.go#GetAffinityTerms`,
//! `pkg/scheduler/framework/plugins/podtopologyspread/common.go#filterTopologySpreadConstraints`.

use super::node::taint_effect;
use super::selectors::{label_selector, required_terms};
use crate::api::core::{
    Affinity, PodAffinity as ApiAffinity, PodAffinityTerm as ApiTerm, PodSpec, Toleration as ApiToleration,
    TopologySpreadConstraint,
};
use std::collections::BTreeMap;
use supercargo_core::model::intern::{Symbol, Tables};
use supercargo_core::model::pod::{
    Parsed, PodAffinity, PodAffinityTerm, SpreadConstraint, Toleration, TolerationOperator,
    WeightedPodAffinityTerm, WhenUnsatisfiable,
};
use supercargo_core::model::selector::{Operator, RequiredNodeAffinity, Requirement, Selector};

/// Converts `spec.nodeSelector` and required node affinity. As upstream, it does not validate the node selector's
/// syntax.
pub(super) fn required_node_affinity(tables: &mut Tables, spec: &PodSpec) -> RequiredNodeAffinity {
    let node_selector = spec
        .node_selector
        .as_ref()
        .map(|pairs| pairs.iter().map(|(key, value)| (tables.symbol(key), tables.symbol(value))).collect());
    let node_affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = node_affinity.and_then(|affinity| affinity.required.as_ref());
    let terms = required.map(|selector| required_terms(tables, &selector.node_selector_terms));
    RequiredNodeAffinity { node_selector, terms }
}

/// Converts pod affinity and anti-affinity; `None` if both are absent.
pub(super) fn pod_affinity(
    tables: &mut Tables,
    affinity: Option<&Affinity>,
    namespace: Symbol,
) -> Option<Box<PodAffinity>> {
    let affinity = affinity?;
    if affinity.pod_affinity.is_none() && affinity.pod_anti_affinity.is_none() {
        return None;
    }
    let none = ApiAffinity::default();
    let attracts = affinity.pod_affinity.as_ref().unwrap_or(&none);
    let repels = affinity.pod_anti_affinity.as_ref().unwrap_or(&none);
    let mut required = |list: &ApiAffinity| -> Parsed<PodAffinityTerm> {
        list.required.iter().map(|term| pod_term(tables, term, namespace)).collect()
    };
    let (required_affinity, required_anti_affinity) = (required(attracts), required(repels));
    let mut preferred = |list: &ApiAffinity| -> Parsed<WeightedPodAffinityTerm> {
        let weighted = list.preferred.iter().map(|weighted| {
            let term = pod_term(tables, &weighted.pod_affinity_term, namespace)?;
            Ok(WeightedPodAffinityTerm { term, weight: weighted.weight })
        });
        weighted.collect()
    };
    let (preferred_affinity, preferred_anti_affinity) = (preferred(attracts), preferred(repels));
    Some(Box::new(PodAffinity {
        required_affinity,
        required_anti_affinity,
        preferred_affinity,
        preferred_anti_affinity,
    }))
}

fn pod_term(tables: &mut Tables, term: &ApiTerm, namespace: Symbol) -> Result<PodAffinityTerm, Box<str>> {
    let selector = label_selector(tables, term.label_selector.as_ref())?;
    let namespace_selector = label_selector(tables, term.namespace_selector.as_ref())?;
    let namespaces = if term.namespaces.is_empty() && term.namespace_selector.is_none() {
        [namespace].into()
    } else {
        let mut named: Vec<_> = term.namespaces.iter().map(|name| tables.symbol(name)).collect();
        named.sort_unstable();
        named.dedup();
        named.into()
    };
    let topology_key = tables.symbol(&term.topology_key);
    Ok(PodAffinityTerm { namespaces, namespace_selector, selector, topology_key })
}

/// Converts a topology spread constraint. The pod's own values of `matchLabelKeys` are added to the selector.
pub(super) fn spread_constraint(
    tables: &mut Tables,
    constraint: &TopologySpreadConstraint,
    labels: &BTreeMap<String, String>,
) -> SpreadConstraint {
    let selector = label_selector(tables, constraint.label_selector.as_ref());
    let own: Vec<Requirement> = constraint
        .match_label_keys
        .iter()
        .filter_map(|key| labels.get_key_value(key))
        .map(|(key, value)| Requirement {
            key: tables.symbol(key),
            operator: Operator::In([tables.symbol(value)].into()),
        })
        .collect();
    SpreadConstraint {
        max_skew: constraint.max_skew,
        topology_key: tables.symbol(&constraint.topology_key),
        when_unsatisfiable: match constraint.when_unsatisfiable.as_str() {
            "DoNotSchedule" => WhenUnsatisfiable::DoNotSchedule,
            "ScheduleAnyway" => WhenUnsatisfiable::ScheduleAnyway,
            _ => WhenUnsatisfiable::Unknown,
        },
        selector: selector.map(|selector: Selector| selector.and(&own)),
        min_domains: constraint.min_domains.unwrap_or(1),
        honor_node_affinity: constraint
            .node_affinity_policy
            .as_deref()
            .is_none_or(|policy| policy == "Honor"),
        honor_node_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
    }
}

/// Converts a toleration.
pub(super) fn toleration(tables: &mut Tables, toleration: &ApiToleration) -> Toleration {
    let given = |text: &str| !text.is_empty();
    Toleration {
        key: given(&toleration.key).then(|| tables.symbol(&toleration.key)),
        operator: match toleration.operator.as_str() {
            "" | "Equal" => TolerationOperator::Equal,
            "Exists" => TolerationOperator::Exists,
            _ => TolerationOperator::Never,
        },
        value: tables.symbol(&toleration.value),
        effect: given(&toleration.effect).then(|| taint_effect(tables, &toleration.effect)),
    }
}
