//! The constraints of a claim during a search: whether one more device may join those chosen so far.
//!
//! Upstream: `allocator_incubating.go#matchAttributeConstraint` and `constraint.go#distinctAttributeConstraint`.

use super::pools::Candidate;
use crate::model::device::{Attribute, Constraint, ConstraintKind, DeviceRequest};
use crate::model::emulation::Distinct;
use std::sync::Arc;

/// The request that a device is chosen for.
#[derive(Clone, Copy)]
pub(super) struct RequestName<'a> {
    pub(super) request: &'a str,
    /// The alternative of `firstAvailable`.
    pub(super) alternative: Option<&'a str>,
}

impl<'a> RequestName<'a> {
    /// Returns the name of a request, or of an alternative of the request `parent`.
    pub(super) fn of(request: &'a DeviceRequest, parent: Option<&'a str>) -> Self {
        Self { request: parent.unwrap_or(&request.name), alternative: parent.map(|_| &*request.name) }
    }
}

/// A constraint and the attributes of the devices chosen so far.
pub(super) struct Tracked<'a> {
    requests: &'a [Arc<str>],
    rule: Rule<'a>,
}

enum Rule<'a> {
    Match {
        attribute: &'a str,
        value: Option<&'a Attribute>,
        count: usize,
    },
    Distinct {
        attribute: &'a str,
        /// The values of the chosen devices, in order of choice.
        values: Vec<&'a Attribute>,
    },
    /// The form of 1.34: no values are equal.
    Present {
        attribute: &'a str,
        count: usize,
    },
    /// The form of 1.36: one value for each request, the latest, which is forgotten with any device of
    /// the request.
    DistinctByRequest {
        attribute: &'a str,
        latest: Latest,
    },
}

/// The latest value of each request, and the number of chosen devices.
#[derive(Clone, Debug, Default)]
pub(super) struct Latest {
    values: Vec<(Box<str>, Attribute)>,
    count: usize,
}

impl<'a> Tracked<'a> {
    /// Returns a constraint without devices; `None` if it is of an unknown kind.
    pub(super) fn new(constraint: &'a Constraint, distinct: Distinct, copies_defects: bool) -> Option<Self> {
        let rule = match &constraint.kind {
            ConstraintKind::Match(attribute) => Rule::Match { attribute, value: None, count: 0 },
            ConstraintKind::Distinct(attribute) => match distinct {
                Distinct::Unknown => return None,
                Distinct::Presence if copies_defects => Rule::Present { attribute, count: 0 },
                Distinct::Latest if copies_defects => {
                    Rule::DistinctByRequest { attribute, latest: Latest::default() }
                }
                Distinct::Presence | Distinct::Latest | Distinct::All => {
                    Rule::Distinct { attribute, values: Vec::new() }
                }
            },
            ConstraintKind::Unknown => return None,
        };
        Some(Self { requests: &constraint.requests, rule })
    }

    /// Whether what a device may join depends on devices that were tried before and given back.
    pub(super) fn depends_on_history(&self) -> bool {
        matches!(self.rule, Rule::DistinctByRequest { .. })
    }

    /// Returns what a constraint that depends on the history knows.
    pub(super) fn history(&self) -> Option<Latest> {
        match &self.rule {
            Rule::DistinctByRequest { latest, .. } => Some(latest.clone()),
            _ => None,
        }
    }

    /// Returns to what [`Self::history`] returned.
    pub(super) fn return_to(&mut self, history: &Latest) {
        if let Rule::DistinctByRequest { latest, .. } = &mut self.rule {
            latest.clone_from(history);
        }
    }

    /// Returns the attribute that the constraint compares.
    pub(super) fn attribute(&self) -> &'a str {
        match self.rule {
            Rule::Match { attribute, .. }
            | Rule::Distinct { attribute, .. }
            | Rule::Present { attribute, .. }
            | Rule::DistinctByRequest { attribute, .. } => attribute,
        }
    }

    fn concerns(&self, name: RequestName<'_>) -> bool {
        is_in_scope(self.requests, name)
    }

    /// Adds a device, or returns false if it must not join the others.
    pub(super) fn add(&mut self, name: RequestName<'a>, candidate: &Candidate<'a>) -> bool {
        if !self.concerns(name) {
            return true;
        }
        let find = |attribute| candidate.device.attribute(&candidate.slice.pool.driver, attribute);
        let Some(found) = find(self.attribute()) else { return false };
        match &mut self.rule {
            Rule::Match { value, count, .. } => {
                if *count > 0 && (*value != Some(found) || *found == Attribute::Other) {
                    return false;
                }
                if *count == 0 {
                    *value = Some(found);
                }
                *count += 1;
            }
            Rule::Distinct { values, .. } => {
                if values.contains(&found) || (!values.is_empty() && *found == Attribute::Other) {
                    return false;
                }
                values.push(found);
            }
            Rule::Present { count, .. } => {
                if *count > 0 && *found == Attribute::Other {
                    return false;
                }
                *count += 1;
            }
            Rule::DistinctByRequest { latest: Latest { values, count }, .. } => {
                let is_other = *found == Attribute::Other && !values.is_empty();
                if *count > 0 && (is_other || values.iter().any(|(_, value)| value == found)) {
                    return false;
                }
                values.retain(|(request, _)| **request != *name.request);
                values.push((name.request.into(), found.clone()));
                *count += 1;
            }
        }
        true
    }

    /// Gives back the device that was added last.
    pub(super) fn remove(&mut self, name: RequestName<'_>) {
        if !self.concerns(name) {
            return;
        }
        match &mut self.rule {
            Rule::Match { count, .. } | Rule::Present { count, .. } => *count -= 1,
            Rule::Distinct { values, .. } => drop(values.pop()),
            Rule::DistinctByRequest { latest: Latest { values, count }, .. } => {
                values.retain(|(request, _)| **request != *name.request);
                *count -= 1;
            }
        }
    }
}

impl Constraint {
    /// Whether a request is in the scope of the constraint.
    pub(super) fn concerns(&self, name: RequestName<'_>) -> bool {
        is_in_scope(&self.requests, name)
    }
}

/// Whether one of the entries names the request or its alternative. No entries mean all requests.
fn is_in_scope(requests: &[Arc<str>], name: RequestName<'_>) -> bool {
    let is_named = |request: &Arc<str>| {
        **request == *name.request
            || name
                .alternative
                .is_some_and(|alternative| request.split_once('/') == Some((name.request, alternative)))
    };
    requests.is_empty() || requests.iter().any(is_named)
}
