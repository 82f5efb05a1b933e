//! Converts the objects that default spreading and preemption look up: namespaces, Services, controllers and
//! disruption budgets.
//!
//! Upstream: `pkg/scheduler/framework/plugins/helper/spread.go`, `pkg/scheduler/framework/preemption/preemption.go`.

use super::label_set;
use super::selectors::{label_selector, pairs};
use crate::api::core::MapSelector;
use crate::api::meta::LabelSelector;
use crate::api::{
    Malformed, Namespace, PodDisruptionBudget, ReplicaSet, ReplicationController, Service, StatefulSet,
};
use supercargo_core::model::intern::{LabelSetId, Symbol, Tables};
use supercargo_core::model::lookup_objects;
use supercargo_core::model::selector::{Requirement, Selector};

/// Returns a namespace's name and labels.
///
/// # Errors
/// If upstream's decoder would reject the object.
pub fn namespace(tables: &mut Tables, namespace: &Namespace) -> Result<(Symbol, LabelSetId), Malformed> {
    namespace.content()?;
    Ok((tables.symbol(namespace.name()), label_set(tables, &namespace.metadata)))
}

/// Converts a Service.
///
/// # Errors
/// If upstream's decoder would reject the object.
pub fn service(tables: &mut Tables, service: &Service) -> Result<lookup_objects::Service, Malformed> {
    let MapSelector { selector } = &service.content()?.spec;
    let selector = selector
        .as_ref()
        .map(|pairs| pairs.iter().map(|(key, value)| (tables.symbol(key), tables.symbol(value))).collect());
    Ok(lookup_objects::Service { selector })
}

/// Returns the requirements of a ReplicationController's selector, whose syntax is not validated.
///
/// # Errors
/// If upstream's decoder would reject the object.
pub fn replication_controller(
    tables: &mut Tables,
    controller: &ReplicationController,
) -> Result<Box<[Requirement]>, Malformed> {
    let MapSelector { selector } = &controller.content()?.spec;
    let demands = selector.as_ref().map(|selector| pairs(tables, selector, false));
    Ok(demands.and_then(Result::ok).unwrap_or_default().into())
}

/// Returns the requirements of a ReplicaSet's selector.
///
/// # Errors
/// If upstream's decoder would reject the object.
pub fn replica_set(tables: &mut Tables, set: &ReplicaSet) -> Result<Box<[Requirement]>, Malformed> {
    Ok(demands(tables, set.content()?.spec.selector.as_ref()))
}

/// Returns the requirements of a StatefulSet's selector.
///
/// # Errors
/// If upstream's decoder would reject the object.
pub fn stateful_set(tables: &mut Tables, set: &StatefulSet) -> Result<Box<[Requirement]>, Malformed> {
    Ok(demands(tables, set.content()?.spec.selector.as_ref()))
}

/// Converts a PodDisruptionBudget. An invalid selector protects no pod, because upstream skips such a budget.
///
/// # Errors
/// If upstream's decoder would reject the object.
pub fn disruption_budget(
    tables: &mut Tables,
    budget: &PodDisruptionBudget,
) -> Result<lookup_objects::DisruptionBudget, Malformed> {
    let content = budget.content()?;
    let selector = label_selector(tables, content.spec.selector.as_ref());
    Ok(lookup_objects::DisruptionBudget {
        selector: selector.unwrap_or(Selector::Nothing),
        disruptions_allowed: content.status.disruptions_allowed,
        disrupted_pods: content.status.disrupted_pods.keys().map(|name| name.as_str().into()).collect(),
    })
}

/// Returns the requirements of a selector; none if it is absent or invalid, as upstream then adds nothing.
fn demands(tables: &mut Tables, selector: Option<&LabelSelector>) -> Box<[Requirement]> {
    match label_selector(tables, selector) {
        Ok(Selector::All(requirements)) => requirements,
        Ok(Selector::Nothing) | Err(_) => Box::default(),
    }
}
