//! Collects the parts of the device that an expression can read.

use std::collections::BTreeSet;

use super::attribute::{Attribute, Key, Root};
use super::plan::Node;
use crate::Value;

/// The parts of the device that an expression can read. Other parts cannot change its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reads {
    /// `device.driver`.
    pub driver: bool,
    /// `device.allowMultipleAllocations`.
    pub allow_multiple_allocations: bool,
    /// `device.attributes`.
    pub attributes: Parts,
    /// `device.capacity`.
    pub capacity: Parts,
}

/// None, some or all of the attributes, or capacities, of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parts {
    /// None of them.
    None,
    /// The attributes or capacities with these domains and ids, sorted and without duplicates.
    Some(Vec<(String, String)>),
    /// Any of them: the expression uses a computed name or a whole map.
    All,
}

impl Reads {
    pub(super) fn of(root: &Node) -> Self {
        let mut collected = Collected::default();
        collected.node(root);
        Self {
            driver: collected.driver,
            allow_multiple_allocations: collected.allow_multiple_allocations,
            attributes: collected.attributes.finish(),
            capacity: collected.capacity.finish(),
        }
    }
}

#[derive(Default)]
struct Collected {
    driver: bool,
    allow_multiple_allocations: bool,
    attributes: Names,
    capacity: Names,
}

#[derive(Default)]
struct Names {
    names: BTreeSet<(String, String)>,
    all: bool,
}

impl Names {
    fn add(&mut self, path: &[Option<&str>]) {
        match path {
            [Some(domain), Some(id), ..] => drop(self.names.insert(((*domain).to_owned(), (*id).to_owned()))),
            _ => self.all = true,
        }
    }

    fn finish(self) -> Parts {
        match (self.all, self.names.is_empty()) {
            (true, _) => Parts::All,
            (false, true) => Parts::None,
            (false, false) => Parts::Some(self.names.into_iter().collect()),
        }
    }
}

impl Collected {
    fn node(&mut self, node: &Node) {
        crate::deep(|| self.node_inner(node));
    }

    fn node_inner(&mut self, node: &Node) {
        match node {
            Node::Const(_) => {}
            Node::Attribute(attribute) | Node::Test(attribute) => self.attribute(attribute),
            Node::And(sides)
            | Node::Or(sides)
            | Node::Equal { sides, .. }
            | Node::OptionalOr { sides, .. } => {
                sides.iter().for_each(|side| self.node(side));
            }
            Node::Member { element, .. } => self.node(element),
            Node::Call(call) => call.args.iter().for_each(|arg| self.node(arg)),
            Node::List { elements, .. } => elements.iter().for_each(|element| self.node(element)),
            Node::Map(entries) => entries.iter().for_each(|entry| {
                self.node(&entry.key);
                self.node(&entry.value);
            }),
            Node::Fold(fold) => [&fold.range, &fold.start, &fold.condition, &fold.step, &fold.result]
                .into_iter()
                .for_each(|part| self.node(part)),
        }
    }

    fn attribute(&mut self, attribute: &Attribute) {
        match &attribute.root {
            Root::Slot(_) => {}
            Root::Operand(node) => self.node(node),
            Root::Conditional { condition, branches } => {
                self.node(condition);
                crate::deep(|| branches.iter().for_each(|branch| self.attribute(branch)));
            }
            Root::Device => self.device(attribute),
        }
        for qualifier in &attribute.qualifiers {
            match &qualifier.key {
                Key::Const(_) => {}
                Key::Attribute(attribute) => crate::deep(|| self.attribute(attribute)),
                Key::Node(node) => self.node(node),
            }
        }
    }

    /// Adds a path from the device. A step with a computed name is `None`.
    fn device(&mut self, attribute: &Attribute) {
        let step = |key: &Key| match key {
            Key::Const(Value::String(name)) => Some(name.to_string()),
            _ => None,
        };
        let path: Vec<Option<String>> =
            attribute.qualifiers.iter().map(|qualifier| step(&qualifier.key)).collect();
        let path: Vec<Option<&str>> = path.iter().map(Option::as_deref).collect();
        match path.split_first() {
            Some((Some("driver"), _)) => self.driver = true,
            Some((Some("allowMultipleAllocations"), _)) => self.allow_multiple_allocations = true,
            Some((Some("attributes"), rest)) => self.attributes.add(rest),
            Some((Some("capacity"), rest)) => self.capacity.add(rest),
            _ => {
                (self.driver, self.allow_multiple_allocations) = (true, true);
                (self.attributes.all, self.capacity.all) = (true, true);
            }
        }
    }
}
