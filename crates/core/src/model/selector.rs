//! Label selectors and node selectors over interned labels.
//!
//! Sources: `apimachinery/pkg/labels/selector.go`,
//! `component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go`. Selectors are validated during
//! conversion from API objects; those here are well formed.

use crate::model::intern::{Labels, Marks, Symbol, Tables, TraceIds, trace_ids};

/// One requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The label's key.
    pub key: Symbol,
    /// The condition on the label's value.
    pub operator: Operator,
}

/// Maximum number of values for a linear search, which is faster than a binary search for few values.
const LINEAR_MAX: usize = 16;

/// The values of a requirement: in the given order if few, else sorted by id. A lookup takes O(log n).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Values(Box<[Symbol]>);

impl Values {
    /// Whether `value` is in the set.
    pub fn contains(&self, value: &Symbol) -> bool {
        if self.0.len() <= LINEAR_MAX { self.0.contains(value) } else { self.0.binary_search(value).is_ok() }
    }

    /// The cost of [`Self::contains`] in comparisons: two per halving, because large sets miss the CPU's caches. A
    /// lookup among 120,000 values takes 34 (200 ns).
    fn work(&self) -> u64 {
        if self.0.len() <= LINEAR_MAX { 1 } else { 2 * u64::from(self.0.len().ilog2() + 1) }
    }
}

impl From<Box<[Symbol]>> for Values {
    fn from(mut values: Box<[Symbol]>) -> Self {
        if values.len() > LINEAR_MAX {
            values.sort_unstable();
        }
        Self(values)
    }
}

impl<const N: usize> From<[Symbol; N]> for Values {
    fn from(values: [Symbol; N]) -> Self {
        Box::<[Symbol]>::from(values).into()
    }
}

impl std::ops::Deref for Values {
    type Target = [Symbol];

    fn deref(&self) -> &[Symbol] {
        &self.0
    }
}

/// The condition of a requirement on a label's value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// Present, and one of these.
    In(Values),
    /// Absent, or none of these.
    NotIn(Values),
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
    /// The maximum cost of [`Self::matches`] in comparisons.
    fn work(&self) -> u64 {
        match &self.operator {
            Operator::In(values) | Operator::NotIn(values) => values.work(),
            Operator::Exists | Operator::DoesNotExist | Operator::Gt(_) | Operator::Lt(_) => 1,
        }
    }

    /// Whether labels satisfy the requirement.
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
    /// An absent selector: matches nothing and is not empty.
    Nothing,
    /// All requirements must hold; no requirements (`{}`) match everything.
    All(Box<[Requirement]>),
}

impl Selector {
    /// Whether the selector matches the labels.
    pub fn matches(&self, tables: &Tables, labels: Labels<'_>) -> bool {
        match self {
            Self::Nothing => false,
            Self::All(requirements) => requirements.iter().all(|r| r.matches(tables, labels)),
        }
    }

    /// The number of requirements, and one for the selector itself.
    pub(crate) fn demands(&self) -> u64 {
        match self {
            Self::Nothing => 1,
            Self::All(requirements) => 1 + requirements.len() as u64,
        }
    }

    /// The maximum cost of [`Self::matches`] in comparisons.
    pub(crate) fn work(&self) -> u64 {
        match self {
            Self::Nothing => 1,
            Self::All(requirements) => 1 + requirements.iter().map(Requirement::work).sum::<u64>(),
        }
    }

    /// Whether this is `{}`, which some plugins handle specially.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::All(requirements) if requirements.is_empty())
    }

    /// Returns the conjunction of this selector and `more`.
    #[must_use]
    pub fn and(&self, more: &[Requirement]) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::All(requirements) => Self::All(requirements.iter().chain(more).cloned().collect()),
        }
    }
}

/// One term of a node selector: labels and name must satisfy all its requirements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeSelectorTerm {
    /// The requirements; `None` for a term that never matches because it is malformed or empty.
    pub demands: Option<TermDemands>,
    /// The intersection of all `metadata.name In` entries of `matchFields`, malformed entries included;
    /// `None` if there is no such entry. PreFilter narrows the nodes by it even if the term is malformed.
    pub pinned_names: Option<Box<[Symbol]>>,
}

/// The parsed requirements of a node selector term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TermDemands {
    /// Requirements on the node's labels (`matchExpressions`).
    pub labels: Box<[Requirement]>,
    /// Requirements on the node's name (`matchFields`): the name, and whether the node's name must differ
    /// from it.
    pub names: Box<[(Symbol, bool)]>,
}

impl NodeSelectorTerm {
    /// The number of requirements, and one for the term itself.
    pub(crate) fn demands(&self) -> u64 {
        1 + self.demands.as_ref().map_or(0, |demands| demands.labels.len() + demands.names.len()) as u64
    }

    /// The maximum cost of [`Self::matches`] in comparisons.
    pub(crate) fn work(&self) -> u64 {
        let of = |demands: &TermDemands| {
            demands.labels.iter().map(Requirement::work).sum::<u64>() + demands.names.len() as u64
        };
        1 + self.demands.as_ref().map_or(0, of)
    }

    /// Whether a node with this name and these labels matches the term.
    pub fn matches(&self, tables: &Tables, name: Symbol, labels: Labels<'_>) -> bool {
        self.demands.as_ref().is_some_and(|demands| {
            demands.labels.iter().all(|r| r.matches(tables, labels))
                && demands.names.iter().all(|&(wanted, differs)| (wanted == name) != differs)
        })
    }
}

/// A pod's required node constraints: `spec.nodeSelector` and required node affinity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequiredNodeAffinity {
    /// `spec.nodeSelector`: all pairs must be equal. `None` if the field is absent.
    pub node_selector: Option<Box<[(Symbol, Symbol)]>>,
    /// `requiredDuringSchedulingIgnoredDuringExecution`: one term must match. `None` if the field is absent.
    pub terms: Option<Box<[NodeSelectorTerm]>>,
}

impl RequiredNodeAffinity {
    /// The number of requirements, and one for each term.
    pub(crate) fn demands(&self) -> u64 {
        self.pairs() + self.terms.iter().flatten().map(NodeSelectorTerm::demands).sum::<u64>()
    }

    /// The maximum cost of [`Self::matches`] in comparisons.
    pub(crate) fn work(&self) -> u64 {
        self.pairs() + self.terms.iter().flatten().map(NodeSelectorTerm::work).sum::<u64>()
    }

    fn pairs(&self) -> u64 {
        self.node_selector.as_ref().map_or(0, |pairs| pairs.len() as u64)
    }

    /// Whether there are no requirements.
    pub fn is_absent(&self) -> bool {
        self.node_selector.is_none() && self.terms.is_none()
    }

    /// Whether a node with this name and these labels satisfies both.
    pub fn matches(&self, tables: &Tables, name: Symbol, labels: Labels<'_>) -> bool {
        let pairs = self.node_selector.iter().flatten();
        let selected = pairs.copied().all(|(key, value)| labels.get(key) == Some(value));
        selected
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|t| t.matches(tables, name, labels)))
    }
}

trace_ids!(Requirement { key, operator });
trace_ids!(TermDemands { labels, names });
trace_ids!(NodeSelectorTerm { demands, pinned_names });
trace_ids!(RequiredNodeAffinity { node_selector, terms });

impl TraceIds for Operator {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::In(values) | Self::NotIn(values) => values.mark(marks),
            Self::Exists | Self::DoesNotExist | Self::Gt(_) | Self::Lt(_) => {}
        }
    }
}

impl TraceIds for Selector {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::Nothing => {}
            Self::All(requirements) => requirements.mark(marks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_selector_matches_nothing_and_empty_matches_all() {
        let mut tables = Tables::new();
        let none = tables.label_set(vec![]);
        assert!(!Selector::Nothing.matches(&tables, tables.labels(none)));
        assert!(Selector::All([].into()).matches(&tables, tables.labels(none)));
        assert!(!Selector::Nothing.is_empty());
    }

    #[test]
    fn selector_with_many_values_ignores_their_order() {
        let mut tables = Tables::new();
        let ids: Vec<Symbol> = (0..200).map(|at| tables.symbol(&at.to_string())).collect();
        for count in [1, LINEAR_MAX, LINEAR_MAX + 1, 100] {
            let given: Box<[Symbol]> = ids[..count].iter().rev().copied().collect();
            let values = Values::from(given);
            assert!(ids.iter().enumerate().all(|(at, id)| values.contains(id) == (at < count)), "{count}");
        }
    }

    #[test]
    fn each_operator_handles_present_absent_and_numeric_values() {
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
