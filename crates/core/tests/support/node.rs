//! A builder of nodes. The default has a hostname label, and capacity for 110 pods but no other resources.

use std::sync::Arc;
use supercargo_core::model::intern::{Symbol, Tables, known};
use supercargo_core::model::node::{NodeInfo, Taint, TaintEffect};
use supercargo_core::model::resources::Resources;

/// A builder of a node.
pub(crate) struct NodeBuilder<'t> {
    tables: &'t mut Tables,
    name: Symbol,
    labels: Vec<(Symbol, Symbol)>,
    taints: Vec<Taint>,
    unschedulable: bool,
    allocatable: Resources,
    pods: i64,
    images: Vec<(Symbol, i64)>,
    declared_features: Vec<Symbol>,
}

impl<'t> NodeBuilder<'t> {
    pub(crate) fn new(tables: &'t mut Tables, name: &str) -> Self {
        let name = tables.symbol(name);
        Self {
            tables,
            name,
            labels: vec![(known::HOSTNAME, name)],
            taints: Vec::new(),
            unschedulable: false,
            allocatable: Resources::default(),
            pods: 110,
            images: Vec::new(),
            declared_features: Vec::new(),
        }
    }

    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        let pair = (self.tables.symbol(key), self.tables.symbol(value));
        self.labels.push(pair);
        self
    }

    pub(crate) fn zone(mut self, zone: &str) -> Self {
        let zone = self.tables.symbol(zone);
        self.labels.push((known::ZONE, zone));
        self
    }

    /// Removes the hostname label.
    pub(crate) fn without_hostname(mut self) -> Self {
        self.labels.retain(|&(key, _)| key != known::HOSTNAME);
        self
    }

    pub(crate) fn taint(mut self, key: &str, value: &str, effect: TaintEffect) -> Self {
        let (key, value) = (self.tables.symbol(key), self.tables.symbol(value));
        self.taints.push(Taint { key, value, effect });
        self
    }

    pub(crate) fn unschedulable(mut self) -> Self {
        self.unschedulable = true;
        self
    }

    pub(crate) fn cpu(mut self, milli: i64) -> Self {
        self.allocatable.cpu_milli = milli;
        self
    }

    pub(crate) fn memory(mut self, bytes: i64) -> Self {
        self.allocatable.memory = bytes;
        self
    }

    pub(crate) fn ephemeral_storage(mut self, bytes: i64) -> Self {
        self.allocatable.ephemeral_storage = bytes;
        self
    }

    pub(crate) fn scalar(mut self, name: &str, amount: i64) -> Self {
        let name = self.tables.symbol(name);
        self.allocatable.set_scalar(name, amount);
        self
    }

    pub(crate) fn pods(mut self, pods: i64) -> Self {
        self.pods = pods;
        self
    }

    pub(crate) fn declares(mut self, feature: &str) -> Self {
        let feature = self.tables.symbol(feature);
        self.declared_features.push(feature);
        self
    }

    /// Adds an image; `name` includes its tag, as nodes report it.
    pub(crate) fn image(mut self, name: &str, bytes: i64) -> Self {
        let name = self.tables.symbol(name);
        self.images.push((name, bytes));
        self
    }

    pub(crate) fn tables(&mut self) -> &mut Tables {
        self.tables
    }

    pub(crate) fn build(self) -> Arc<NodeInfo> {
        Arc::new(NodeInfo {
            name: self.name,
            labels: self.tables.label_set(self.labels),
            taints: self.tables.taint_set(self.taints),
            unschedulable: self.unschedulable,
            allocatable: self.allocatable,
            allocatable_pods: self.pods,
            images: self.images.into(),
            declared_features: self.declared_features.into(),
        })
    }
}
