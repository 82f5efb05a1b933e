//! Label selectors and node selectors over interned labels.
//!
//! Sources: `apimachinery/pkg/labels/selector.go`, `component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go`.
//! Syntax is judged in the shell's `convert`, where the text is; what arrives here is well formed.

use crate::intern::{Labels, Symbol, Tables};

/// One requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The label's key.
    pub key: Symbol,
    /// What must hold of its value.
    pub operator: Operator,
}

/// What a requirement demands of a label's value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// Present, and one of these.
    In(Box<[Symbol]>),
    /// Absent, or none of these.
    NotIn(Box<[Symbol]>),
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// Present, an integer, and greater.
    Gt(i64),
    /// Present, an integer, and less.
    Lt(i64),
}

impl Requirement {
    /// Whether labels fulfil this.
    pub fn matches(&self, tables: &Tables, labels: Labels<'_>) -> bool {
        let value = labels.get(self.key);
        match &self.operator {
            Operator::In(values) => value.is_some_and(|v| values.contains(&v)),
            Operator::NotIn(values) => value.is_none_or(|v| !values.contains(&v)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt(bound) => value.and_then(|v| tables.number(v)).is_some_and(|n| n > *bound),
            Operator::Lt(bound) => value.and_then(|v| tables.number(v)).is_some_and(|n| n < *bound),
        }
    }
}

/// A label selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Selector {
    /// From a selector that was not given: matches nothing, and is not empty.
    Nothing,
    /// All requirements must hold; none at all (`{}`) matches everything.
    All(Box<[Requirement]>),
}

impl Selector {
    /// Whether labels are selected.
    pub fn matches(&self, tables: &Tables, labels: Labels<'_>) -> bool {
        match self {
            Self::Nothing => false,
            Self::All(requirements) => requirements.iter().all(|r| r.matches(tables, labels)),
        }
    }

    /// Whether this is `{}`, which some plugins treat differently from other selectors.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::All(requirements) if requirements.is_empty())
    }

    /// The selector that demands what both demand.
    #[must_use]
    pub fn and(&self, more: &[Requirement]) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::All(requirements) => Self::All(requirements.iter().chain(more).cloned().collect()),
        }
    }
}

/// One term of a node selector: labels and name must fulfil all of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeSelectorTerm {
    /// What makes the term match; `None` for a term that never does, since it cannot be parsed or is empty.
    pub demands: Option<TermDemands>,
    /// The names that all `metadata.name In` entries of `matchFields` share, malformed entries included;
    /// `None` when there is no such entry. PreFilter narrows the nodes by it even where the term is malformed.
    pub pinned_names: Option<Box<[Symbol]>>,
}

/// The parsed demands of a node selector term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TermDemands {
    /// Requirements on the node's labels (`matchExpressions`).
    pub labels: Box<[Requirement]>,
    /// Requirements on the node's name (`matchFields`): the name, and whether it must differ instead.
    pub names: Box<[(Symbol, bool)]>,
}

impl NodeSelectorTerm {
    /// Whether a node of this name and these labels fulfils the term.
    pub fn matches(&self, tables: &Tables, name: Symbol, labels: Labels<'_>) -> bool {
        self.demands.as_ref().is_some_and(|demands| {
            demands.labels.iter().all(|r| r.matches(tables, labels))
                && demands.names.iter().all(|&(wanted, differs)| (wanted == name) != differs)
        })
    }
}

/// What a pod requires of its node's labels and name: `spec.nodeSelector` and required node affinity together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequiredNodeAffinity {
    /// `spec.nodeSelector`: exact pairs, all of them. `None` when the field is absent.
    pub node_selector: Option<Box<[(Symbol, Symbol)]>>,
    /// `requiredDuringSchedulingIgnoredDuringExecution`: one term must match. `None` when the field is absent.
    pub terms: Option<Box<[NodeSelectorTerm]>>,
}

impl RequiredNodeAffinity {
    /// Whether nothing is required.
    pub fn is_absent(&self) -> bool {
        self.node_selector.is_none() && self.terms.is_none()
    }

    /// Whether a node of this name and these labels fulfils both.
    pub fn matches(&self, tables: &Tables, name: Symbol, labels: Labels<'_>) -> bool {
        let pairs = self.node_selector.iter().flatten();
        let selected = pairs.copied().all(|(key, value)| labels.get(key) == Some(value));
        selected
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|t| t.matches(tables, name, labels)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_selector_matches_nothing_and_an_empty_one_everything() {
        let mut tables = Tables::new();
        let none = tables.label_set(vec![]);
        assert!(!Selector::Nothing.matches(&tables, tables.labels(none)));
        assert!(Selector::All([].into()).matches(&tables, tables.labels(none)));
        assert!(!Selector::Nothing.is_empty());
    }

    #[test]
    fn each_operator_judges_present_absent_and_numeric_values() {
        let mut tables = Tables::new();
        let [key, five, x] = ["key", "5", "x"].map(|t| tables.symbol(t));
        let sets = [vec![], vec![(key, five)], vec![(key, x)]].map(|pairs| tables.label_set(pairs));
        let judged = |operator: Operator| {
            let requirement = Requirement { key, operator };
            sets.map(|set| requirement.matches(&tables, tables.labels(set)))
        };
        assert_eq!(judged(Operator::In([five].into())), [false, true, false]);
        assert_eq!(judged(Operator::NotIn([five].into())), [true, false, true]);
        assert_eq!(judged(Operator::Exists), [false, true, true]);
        assert_eq!(judged(Operator::DoesNotExist), [true, false, false]);
        assert_eq!(judged(Operator::Gt(4)), [false, true, false]);
        assert_eq!(judged(Operator::Gt(5)), [false, false, false]);
        assert_eq!(judged(Operator::Lt(6)), [false, true, false]);
    }
}
