//! Label selectors and node selectors: judged here, where the text is, in upstream's words.
//!
//! Upstream: `apimachinery/pkg/apis/meta/v1/helpers.go#LabelSelectorAsSelector`,
//! `apimachinery/pkg/labels/selector.go#NewRequirement`,
//! `component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go`.

use super::syntax;
use crate::api::core::{NodeSelectorTerm as ApiTerm, PreferredSchedulingTerm};
use crate::api::meta::{LabelSelector, SelectorRequirement};
use std::collections::BTreeMap;
use supercargo_core::intern::{Symbol, Tables};
use supercargo_core::pod::{Parsed, PreferredNodeTerm};
use supercargo_core::selector::{NodeSelectorTerm, Operator, Requirement, Selector, TermDemands};
use supercargo_core::volume::VolumeNodeAffinity;

const NODE_NAME_FIELD: &str = "metadata.name";

/// A label selector; one that is absent selects nothing.
///
/// # Errors
/// With upstream's text about the first requirement that is wrong.
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
        // Upstream copies the values, which makes an empty list an absent one.
        let values = expression.values.as_deref().filter(|values| !values.is_empty());
        let parsed = requirement(tables, &expression.key, &expression.operator, values, "");
        requirements.push(parsed.map_err(|errors| syntax::aggregate(&errors))?);
    }
    Ok(Selector::All(requirements.into()))
}

/// Requirements that labels have these pairs.
///
/// # Errors
/// With upstream's text, where `judged` is set and a pair is no valid label. Upstream's selectors of Services and
/// ReplicationControllers are not judged.
pub(super) fn pairs(
    tables: &mut Tables,
    pairs: &BTreeMap<String, String>,
    judged: bool,
) -> Result<Vec<Requirement>, Box<str>> {
    let mut requirements = Vec::with_capacity(pairs.len());
    for (key, value) in pairs {
        let mut errors = Vec::new();
        if judged {
            key_error(key, "", &mut errors);
            value_error(key, 0, value, "", &mut errors);
        }
        if !errors.is_empty() {
            return Err(syntax::aggregate(&errors));
        }
        let operator = Operator::In([tables.symbol(value)].into());
        requirements.push(Requirement { key: tables.symbol(key), operator });
    }
    Ok(requirements)
}

/// Upstream's `NewRequirement`, for the operators the API has.
fn requirement(
    tables: &mut Tables,
    key: &str,
    operator: &str,
    values: Option<&[String]>,
    path: &str,
) -> Result<Requirement, Vec<String>> {
    let mut errors = Vec::new();
    key_error(key, path, &mut errors);
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
        value_error(key, at, value, path, &mut errors);
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut values = || listed.iter().map(|value| tables.symbol(value)).collect();
    let operator = match operator {
        "In" => Operator::In(values()),
        "NotIn" => Operator::NotIn(values()),
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt(bound),
        _ => Operator::Lt(bound),
    };
    Ok(Requirement { key: tables.symbol(key), operator })
}

fn key_error(key: &str, path: &str, errors: &mut Vec<String>) {
    let wrong = syntax::label_key_errors(key);
    if !wrong.is_empty() {
        errors.push(format!("{path}key: Invalid value: {}: {}", syntax::quote(key), wrong.join("; ")));
    }
}

fn value_error(key: &str, at: usize, value: &str, path: &str, errors: &mut Vec<String>) {
    let wrong = syntax::label_value_errors(value);
    if !wrong.is_empty() {
        let value = syntax::quote(value);
        errors.push(format!("{path}values[{at}][{key}]: Invalid value: {value}: {}", wrong.join("; ")));
    }
}

/// The terms of a required node affinity. A malformed term matches no node, and harms no other.
pub(crate) fn required_terms(tables: &mut Tables, terms: &[ApiTerm]) -> Box<[NodeSelectorTerm]> {
    let parsed = |term| NodeSelectorTerm {
        demands: demands(tables, term, "").ok().flatten(),
        pinned_names: pinned_names(tables, term),
    };
    terms.iter().map(parsed).collect()
}

/// The terms of a preferred node affinity. Those without weight or demands are left out unseen.
///
/// # Errors
/// With upstream's text about all terms that are malformed.
pub(crate) fn preferred_terms(
    tables: &mut Tables,
    terms: &[PreferredSchedulingTerm],
) -> Parsed<PreferredNodeTerm> {
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

/// What is wrong with a term whose fields' paths begin with `path`, in upstream's words.
pub(crate) fn term_errors(term: &ApiTerm, path: &str) -> Vec<String> {
    demands(&mut Tables::new(), term, path).err().unwrap_or_default()
}

/// The terms of a volume's required node affinity. Upstream judges them for a node without its name, to which demands on
/// fields do not apply; a malformed term matches no node.
pub(super) fn volume_terms(tables: &mut Tables, terms: &[ApiTerm]) -> VolumeNodeAffinity {
    let parsed = terms.iter().filter_map(|term| parse(tables, term, "").ok().flatten());
    VolumeNodeAffinity { terms: parsed.map(|term| term.labels.into()).collect() }
}

/// The requirement that a label has one of these values, if that can be said of a label.
pub(super) fn one_of(tables: &mut Tables, key: &str, values: &[String]) -> Option<Requirement> {
    requirement(tables, key, "In", Some(values), "").ok()
}

/// What a term demands; `None` for an empty one, and for one whose demands no node can ever fulfil.
fn demands(tables: &mut Tables, term: &ApiTerm, path: &str) -> Result<Option<TermDemands>, Vec<String>> {
    let parsed = parse(tables, term, path)?.filter(|term| !term.impossible);
    Ok(parsed.map(|term| TermDemands { labels: term.labels.into(), names: term.names.into() }))
}

/// A node selector term, parsed.
struct Term {
    labels: Vec<Requirement>,
    names: Vec<(Symbol, bool)>,
    /// Whether it demands of another field than the name what no node has.
    impossible: bool,
}

/// Reads a term; `None` for an empty one.
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
            // A node has no other field, and reads as empty there.
            Ok((value, differs)) => impossible |= value.is_empty() == differs,
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Some(Term { labels, names, impossible }))
}

/// The one value of a field requirement, and whether the field must differ from it.
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

/// The names that all `metadata.name In` entries of a term share; `None` when it has none.
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
