//! Converts and validates label selectors and node selectors, with upstream's error messages.
//!
//! Upstream: `apimachinery/pkg/apis/meta/v1/helpers.go#LabelSelectorAsSelector`,
//! `apimachinery/pkg/labels/selector.go#NewRequirement`,
//! `component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go`.

use super::syntax;
use crate::api::core::{NodeSelector as ApiSelector, NodeSelectorTerm as ApiTerm, PreferredSchedulingTerm};
use crate::api::meta::{LabelSelector, SelectorRequirement};
use std::collections::BTreeMap;
use supercargo_core::model::device::{NodeSelector, SelectorRequirement as WrittenRequirement, SelectorTerm};
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_core::model::intern::{Symbol, Tables};
use supercargo_core::model::pod::{Parsed, PreferredNodeTerm};
use supercargo_core::model::selector::{NodeSelectorTerm, Operator, Requirement, Selector, TermDemands};
use supercargo_core::model::volume::VolumeNodeAffinity;

const NODE_NAME_FIELD: &str = "metadata.name";

/// Converts a label selector. An absent selector selects nothing.
///
/// # Errors
/// Upstream's message for the first invalid requirement.
pub(super) fn label_selector(
    tables: &mut Tables,
    selector: Option<&LabelSelector>,
) -> Result<Selector, Box<str>> {
    let Some(selector) = selector else { return Ok(Selector::Nothing) };
    let mut requirements = pairs(tables, &selector.match_labels, true)?;
    for expression in &selector.match_expressions {
        if !matches!(expression.operator.as_str(), "In" | "NotIn" | "Exists" | "DoesNotExist") {
            let operator = syntax::quote(&expression.operator);
            return Err(format!("{operator} is not a valid label selector operator").into());
        }
        // Upstream copies the values, which turns an empty list into an absent one.
        let values = expression.values.as_deref().filter(|values| !values.is_empty());
        let parsed = requirement(tables, &expression.key, &expression.operator, values, "");
        requirements.push(parsed.map_err(|errors| syntax::aggregate(&errors))?);
    }
    Ok(Selector::All(requirements.into()))
}

/// Returns requirements that labels have these pairs.
///
/// # Errors
/// Upstream's message, if `judged` is set and a pair is not a valid label. Upstream does not validate the selectors of
/// Services and ReplicationControllers.
pub(super) fn pairs(
    tables: &mut Tables,
    pairs: &BTreeMap<String, String>,
    judged: bool,
) -> Result<Vec<Requirement>, Box<str>> {
    let mut requirements = Vec::with_capacity(pairs.len());
    for (key, value) in pairs {
        let mut errors = Vec::new();
        if judged {
            key_error(tables, key, "", &mut errors);
            value_error(tables, key, 0, value, "", &mut errors);
        }
        if !errors.is_empty() {
            return Err(syntax::aggregate(&errors));
        }
        let operator = Operator::In([tables.symbol(value)].into());
        requirements.push(Requirement { key: tables.symbol(key), operator });
    }
    Ok(requirements)
}

/// Upstream's `NewRequirement`, for the operators of the API.
fn requirement(
    tables: &mut Tables,
    key: &str,
    operator: &str,
    values: Option<&[String]>,
    path: &str,
) -> Result<Requirement, Vec<String>> {
    let mut errors = Vec::new();
    key_error(tables, key, path, &mut errors);
    let listed = values.unwrap_or_default();
    let mut wrong_values = |rule: &str| {
        errors.push(format!("{path}values: Invalid value: {}: {rule}", syntax::json_list(values)));
    };
    match operator {
        "In" | "NotIn" if listed.is_empty() => {
            wrong_values("for 'in', 'notin' operators, values set can't be empty");
        }
        "Exists" | "DoesNotExist" if !listed.is_empty() => {
            wrong_values("values set must be empty for exists and does not exist");
        }
        "Gt" | "Lt" if listed.len() != 1 => {
            wrong_values("for 'Gt', 'Lt' operators, exactly one value is required");
        }
        _ => {}
    }
    let mut bound = 0;
    if matches!(operator, "Gt" | "Lt") {
        for (at, value) in listed.iter().enumerate() {
            match value.parse() {
                Ok(number) => bound = number,
                Err(_) => errors.push(format!(
                    "{path}values[{at}]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
                    syntax::quote(value)
                )),
            }
        }
    }
    for (at, value) in listed.iter().enumerate() {
        value_error(tables, key, at, value, path, &mut errors);
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut values = || listed.iter().map(|value| tables.symbol(value)).collect::<Box<[_]>>();
    let operator = match operator {
        "In" => Operator::In(values().into()),
        "NotIn" => Operator::NotIn(values().into()),
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt(bound),
        _ => Operator::Lt(bound),
    };
    Ok(Requirement { key: tables.symbol(key), operator })
}

fn key_error(tables: &Tables, key: &str, path: &str, errors: &mut Vec<String>) {
    let wrong = syntax::label_key_errors(key);
    if !wrong.is_empty() {
        let wrong = syntax::as_version(wrong, tables.rules());
        errors.push(format!("{path}key: Invalid value: {}: {}", syntax::quote(key), wrong.join("; ")));
    }
}

fn value_error(tables: &Tables, key: &str, at: usize, value: &str, path: &str, errors: &mut Vec<String>) {
    let wrong = syntax::label_value_errors(value);
    if !wrong.is_empty() {
        let wrong = syntax::as_version(wrong, tables.rules());
        let value = syntax::quote(value);
        errors.push(format!("{path}values[{at}][{key}]: Invalid value: {value}: {}", wrong.join("; ")));
    }
}

/// Converts the terms of a required node affinity. An invalid term matches no node and does not affect other terms.
pub fn required_terms(tables: &mut Tables, terms: &[ApiTerm]) -> Box<[NodeSelectorTerm]> {
    let parsed = |term| NodeSelectorTerm {
        demands: demands(tables, term, "").ok().flatten(),
        pinned_names: pinned_names(tables, term),
    };
    terms.iter().map(parsed).collect()
}

/// Converts the terms of a preferred node affinity. Terms without weight or requirements are skipped.
///
/// # Errors
/// Upstream's message about all invalid terms.
pub fn preferred_terms(tables: &mut Tables, terms: &[PreferredSchedulingTerm]) -> Parsed<PreferredNodeTerm> {
    let (mut parsed, mut errors) = (Vec::new(), Vec::new());
    for (at, PreferredSchedulingTerm { weight, preference }) in terms.iter().enumerate() {
        if *weight == 0 {
            continue;
        }
        match demands(tables, preference, &format!("[{at}].")) {
            Ok(None) => {}
            Ok(Some(demands)) => parsed.push(PreferredNodeTerm {
                weight: *weight,
                term: NodeSelectorTerm {
                    demands: Some(demands),
                    pinned_names: pinned_names(tables, preference),
                },
            }),
            Err(mut wrong) => errors.append(&mut wrong),
        }
    }
    if errors.is_empty() { Ok(parsed.into()) } else { Err(syntax::aggregate(&errors)) }
}

/// Converts a node selector whose errors upstream reports as a whole (`NewNodeSelector`).
pub(super) fn node_selector(tables: &mut Tables, selector: &ApiSelector) -> NodeSelector {
    let (mut terms, mut errors) = (Vec::new(), Vec::new());
    for (at, term) in selector.node_selector_terms.iter().enumerate() {
        match demands(tables, term, &format!("nodeSelectorTerms[{at}].")) {
            Ok(demands) => terms.push(NodeSelectorTerm { demands, pinned_names: pinned_names(tables, term) }),
            Err(mut wrong) => errors.append(&mut wrong),
        }
    }
    NodeSelector {
        parsed: if errors.is_empty() { Ok(terms.into()) } else { Err((*syntax::aggregate(&errors)).into()) },
        terms: as_written(selector),
    }
}

/// Returns the terms of a node selector without parsing them.
pub(super) fn as_written(selector: &ApiSelector) -> Box<[SelectorTerm]> {
    let requirements = |list: &[SelectorRequirement]| {
        let each = list.iter().map(|it| WrittenRequirement {
            key: it.key.as_str().into(),
            operator: it.operator.as_str().into(),
            values: it.values.iter().flatten().map(|value| value.as_str().into()).collect(),
        });
        each.collect()
    };
    let term = |term: &ApiTerm| SelectorTerm {
        expressions: requirements(&term.match_expressions),
        fields: requirements(&term.match_fields),
    };
    selector.node_selector_terms.iter().map(term).collect()
}

/// Returns the errors of a version for a term; the paths of its fields begin with `path`.
pub fn term_errors(term: &ApiTerm, path: &str, version: EmulatedVersion) -> Vec<String> {
    let mut tables = Tables::new();
    tables.emulate(version);
    demands(&mut tables, term, path).err().unwrap_or_default()
}

/// Converts the terms of a volume's required node affinity. Upstream matches them without the node's name, so
/// `matchFields` is ignored. An invalid term matches no node.
pub(super) fn volume_terms(tables: &mut Tables, terms: &[ApiTerm]) -> VolumeNodeAffinity {
    let parsed = terms.iter().filter_map(|term| parse(tables, term, "").ok().flatten());
    VolumeNodeAffinity { terms: parsed.map(|term| term.labels.into()).collect() }
}

/// Returns the requirement that a label has one of these values, if it is valid for a label.
pub(super) fn one_of(tables: &mut Tables, key: &str, values: &[String]) -> Option<Requirement> {
    requirement(tables, key, "In", Some(values), "").ok()
}

/// Returns a term's requirements; `None` for an empty term and for one that no node can match.
fn demands(tables: &mut Tables, term: &ApiTerm, path: &str) -> Result<Option<TermDemands>, Vec<String>> {
    let parsed = parse(tables, term, path)?.filter(|term| !term.impossible);
    Ok(parsed.map(|term| TermDemands { labels: term.labels.into(), names: term.names.into() }))
}

/// A parsed node selector term.
struct Term {
    labels: Vec<Requirement>,
    names: Vec<(Symbol, bool)>,
    /// Whether it requires a value of a field that no node has.
    impossible: bool,
}

/// Parses a term; `None` for an empty one.
fn parse(tables: &mut Tables, term: &ApiTerm, path: &str) -> Result<Option<Term>, Vec<String>> {
    if term.match_expressions.is_empty() && term.match_fields.is_empty() {
        return Ok(None);
    }
    let (mut labels, mut errors) = (Vec::new(), Vec::new());
    for (at, expression) in term.match_expressions.iter().enumerate() {
        let path = format!("{path}matchExpressions[{at}].");
        let SelectorRequirement { key, operator, values } = expression;
        if !matches!(operator.as_str(), "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt") {
            let supported = r#""In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt""#;
            errors.push(unsupported_operator(&path, operator, supported));
            continue;
        }
        match requirement(tables, key, operator, values.as_deref(), &path) {
            Ok(requirement) => labels.push(requirement),
            Err(mut wrong) => errors.append(&mut wrong),
        }
    }
    let (mut names, mut impossible) = (Vec::new(), false);
    for (at, field) in term.match_fields.iter().enumerate() {
        match name_demand(field, &format!("{path}matchFields[{at}].")) {
            Ok((value, differs)) if field.key == NODE_NAME_FIELD => {
                names.push((tables.symbol(value), differs));
            }
            // Other fields read as empty on every node.
            Ok((value, differs)) => impossible |= value.is_empty() == differs,
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Some(Term { labels, names, impossible }))
}

/// Returns the single value of a field requirement, and whether the field must differ from it.
fn name_demand<'a>(field: &'a SelectorRequirement, path: &str) -> Result<(&'a str, bool), String> {
    let SelectorRequirement { operator, values, .. } = field;
    if !matches!(operator.as_str(), "In" | "NotIn") {
        return Err(unsupported_operator(path, operator, r#""In", "NotIn""#));
    }
    match values.as_deref() {
        Some([value]) => Ok((value, operator == "NotIn")),
        values => {
            Err(format!("{path}values: Invalid value: {}: must have one element", syntax::json_list(values)))
        }
    }
}

fn unsupported_operator(path: &str, operator: &str, supported: &str) -> String {
    format!("{path}operator: Unsupported value: {}: supported values: {supported}", syntax::json(operator))
}

/// Returns the names shared by all `metadata.name In` entries of a term; `None` without such entries.
fn pinned_names(tables: &mut Tables, term: &ApiTerm) -> Option<Box<[Symbol]>> {
    let mut entries = term.match_fields.iter().filter(|f| f.key == NODE_NAME_FIELD && f.operator == "In");
    let values = |field: &SelectorRequirement| field.values.clone().unwrap_or_default();
    let mut shared = values(entries.next()?);
    for entry in entries {
        let others = values(entry);
        shared.retain(|name| others.contains(name));
    }
    shared.sort_unstable();
    shared.dedup();
    Some(shared.iter().map(|name| tables.symbol(name)).collect())
}
