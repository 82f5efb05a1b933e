//! Objects that plugins look up by namespace and name, and that occupy no resources of nodes.

use super::device_classes::DeviceClasses;
use crate::collections::hash::IdMap;
use crate::model::group::{GroupKey, PodGroup};
use crate::model::intern::trace_ids;
use crate::model::intern::{LabelSetId, Symbol};
use crate::model::lookup_objects::{DisruptionBudget, Service};
use crate::model::pod::ControllerKind;
use crate::model::selector::Requirement;
use std::collections::BTreeMap;

/// Namespaces, Services, controllers, disruption budgets and DeviceClasses.
#[derive(Default)]
pub struct Lookups {
    namespaces: IdMap<Symbol, LabelSetId>,
    services: IdMap<Symbol, BTreeMap<Symbol, Service>>,
    controllers: BTreeMap<(ControllerKind, Symbol, Symbol), Box<[Requirement]>>,
    budgets: IdMap<Symbol, BTreeMap<Symbol, DisruptionBudget>>,
    device_classes: DeviceClasses,
    groups: BTreeMap<GroupKey, PodGroup>,
    /// The number of changes of namespaces, Services and controllers.
    changes: u64,
    /// The number of changes of namespaces.
    namespace_changes: u64,
    /// The number of changes of disruption budgets.
    budget_changes: u64,
    /// The number of changes of groups that concern preemption by other pods.
    group_changes: u64,
}

impl Lookups {
    /// Adds a namespace or replaces its labels, and returns the previous labels.
    pub fn set_namespace(&mut self, name: Symbol, labels: LabelSetId) -> Option<LabelSetId> {
        let before = self.namespaces.insert(name, labels);
        self.note_namespace(before != Some(labels));
        before
    }

    /// Removes a namespace.
    pub fn remove_namespace(&mut self, name: Symbol) {
        let is_gone = self.namespaces.remove(&name).is_some();
        self.note_namespace(is_gone);
    }

    fn note_namespace(&mut self, is_changed: bool) {
        self.changes += u64::from(is_changed);
        self.namespace_changes += u64::from(is_changed);
    }

    /// Returns the labels of a namespace, or `None` if it is unknown.
    pub fn namespace(&self, name: Symbol) -> Option<LabelSetId> {
        self.namespaces.get(&name).copied()
    }

    /// Returns all namespaces, in arbitrary order.
    pub fn namespaces(&self) -> impl Iterator<Item = (Symbol, LabelSetId)> + '_ {
        self.namespaces.iter().map(|(&name, &labels)| (name, labels))
    }

    /// Adds or replaces a Service.
    pub fn set_service(&mut self, namespace: Symbol, name: Symbol, service: Service) {
        let services = self.services.entry(namespace).or_default();
        if services.get(&name) != Some(&service) {
            self.changes += 1;
            services.insert(name, service);
        }
    }

    /// Removes a Service.
    pub fn remove_service(&mut self, namespace: Symbol, name: Symbol) {
        if let Some(services) = self.services.get_mut(&namespace) {
            self.changes += u64::from(services.remove(&name).is_some());
            if services.is_empty() {
                self.services.remove(&namespace);
            }
        }
    }

    /// Returns the Services of a namespace.
    pub fn services(&self, namespace: Symbol) -> impl Iterator<Item = &Service> {
        self.services.get(&namespace).into_iter().flat_map(BTreeMap::values)
    }

    /// Returns the namespaces and names of all Services.
    pub fn service_keys(&self) -> impl Iterator<Item = (Symbol, Symbol)> + '_ {
        self.services.iter().flat_map(|(&namespace, names)| names.keys().map(move |&name| (namespace, name)))
    }

    /// Adds or replaces a PodDisruptionBudget.
    pub fn set_disruption_budget(&mut self, namespace: Symbol, name: Symbol, budget: DisruptionBudget) {
        let budgets = self.budgets.entry(namespace).or_default();
        if budgets.get(&name) != Some(&budget) {
            self.budget_changes += 1;
            budgets.insert(name, budget);
        }
    }

    /// Removes a PodDisruptionBudget.
    pub fn remove_disruption_budget(&mut self, namespace: Symbol, name: Symbol) {
        if let Some(budgets) = self.budgets.get_mut(&namespace) {
            self.budget_changes += u64::from(budgets.remove(&name).is_some());
            if budgets.is_empty() {
                self.budgets.remove(&namespace);
            }
        }
    }

    /// Returns the PodDisruptionBudgets of a namespace.
    pub fn disruption_budgets(&self, namespace: Symbol) -> impl Iterator<Item = &DisruptionBudget> {
        self.budgets.get(&namespace).into_iter().flat_map(BTreeMap::values)
    }

    /// Returns the namespaces and names of all PodDisruptionBudgets.
    pub fn disruption_budget_keys(&self) -> impl Iterator<Item = (Symbol, Symbol)> + '_ {
        self.budgets.iter().flat_map(|(&namespace, names)| names.keys().map(move |&name| (namespace, name)))
    }

    /// Adds or replaces a PodGroup and returns its previous state.
    pub fn set_group(&mut self, group: PodGroup) -> Option<PodGroup> {
        let rank = (group.priority, group.disruption);
        let old = self.groups.insert(group.key, group);
        let is_same = old.as_ref().is_some_and(|old| (old.priority, old.disruption) == rank);
        self.group_changes += u64::from(!is_same);
        old
    }

    /// Removes a PodGroup.
    pub fn remove_group(&mut self, key: GroupKey) -> Option<PodGroup> {
        let group = self.groups.remove(&key)?;
        self.group_changes += 1;
        Some(group)
    }

    /// Returns a PodGroup.
    pub fn group(&self, key: GroupKey) -> Option<&PodGroup> {
        self.groups.get(&key)
    }

    /// Returns all PodGroups.
    pub fn groups(&self) -> impl Iterator<Item = &PodGroup> + '_ {
        self.groups.values()
    }

    /// Returns the keys of all PodGroups.
    pub fn group_keys(&self) -> impl Iterator<Item = GroupKey> + '_ {
        self.groups.keys().copied()
    }

    /// Returns the number of changes of namespaces, Services and controllers.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the number of changes of namespaces.
    pub fn namespace_changes(&self) -> u64 {
        self.namespace_changes
    }

    /// Returns the number of changes of groups that concern preemption by other pods.
    pub fn group_changes(&self) -> u64 {
        self.group_changes
    }

    /// Returns the number of changes of disruption budgets.
    pub fn budget_changes(&self) -> u64 {
        self.budget_changes
    }

    /// Returns all DeviceClasses.
    pub fn device_classes(&self) -> &DeviceClasses {
        &self.device_classes
    }

    /// Borrows all DeviceClasses mutably.
    pub fn device_classes_mut(&mut self) -> &mut DeviceClasses {
        &mut self.device_classes
    }

    /// Adds or replaces a controller's selector requirements. An absent or invalid selector has no
    /// requirements.
    pub fn set_controller(
        &mut self,
        kind: ControllerKind,
        namespace: Symbol,
        name: Symbol,
        demands: Box<[Requirement]>,
    ) {
        let key = (kind, namespace, name);
        if self.controllers.get(&key) != Some(&demands) {
            self.changes += 1;
            self.controllers.insert(key, demands);
        }
    }

    /// Removes a controller.
    pub fn remove_controller(&mut self, kind: ControllerKind, namespace: Symbol, name: Symbol) {
        self.changes += u64::from(self.controllers.remove(&(kind, namespace, name)).is_some());
    }

    /// Returns the requirements of a controller's selector, or `None` if the controller is unknown.
    pub fn controller(
        &self,
        kind: ControllerKind,
        namespace: Symbol,
        name: Symbol,
    ) -> Option<&[Requirement]> {
        self.controllers.get(&(kind, namespace, name)).map(AsRef::as_ref)
    }

    /// Returns the namespaces and names of all controllers of a kind.
    pub fn controller_keys(&self, kind: ControllerKind) -> impl Iterator<Item = (Symbol, Symbol)> + '_ {
        self.controllers
            .keys()
            .filter(move |(k, _, _)| *k == kind)
            .map(|&(_, namespace, name)| (namespace, name))
    }
}

trace_ids!(Lookups { namespaces, services, controllers, budgets, device_classes, groups } but not { changes, namespace_changes, budget_changes, group_changes });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::group::{DisruptionMode, GroupApi, GroupPolicy};
    use crate::model::group_options::GroupOptions;
    use crate::model::intern::Tables;

    #[test]
    fn only_priority_disruption_and_existence_of_a_group_concern_preemption() {
        let name = Tables::new().symbol("g");
        let group = |priority, disruption, generation| PodGroup {
            key: GroupKey { namespace: name, name },
            api: GroupApi::V1Beta1,
            uid: "g".into(),
            generation,
            policy: GroupPolicy::Basic,
            topology: None,
            disruption,
            priority,
            options: Ok(GroupOptions::default()),
            scheduled: None,
        };
        let mut lookups = Lookups::default();
        let mut changes_by = |change: &dyn Fn(&mut Lookups)| {
            let before = lookups.group_changes();
            change(&mut lookups);
            lookups.group_changes() - before
        };
        let (single, all) = (DisruptionMode::Single, DisruptionMode::All);
        assert_eq!(changes_by(&|it| drop(it.set_group(group(1, single, 1)))), 1);
        assert_eq!(changes_by(&|it| drop(it.set_group(group(1, single, 2)))), 0);
        assert_eq!(changes_by(&|it| drop(it.set_group(group(2, single, 2)))), 1);
        assert_eq!(changes_by(&|it| drop(it.set_group(group(2, all, 2)))), 1);
        assert_eq!(changes_by(&|it| drop(it.remove_group(group(2, all, 2).key))), 1);
        assert_eq!(changes_by(&|it| drop(it.remove_group(group(2, all, 2).key))), 0);
    }
}
