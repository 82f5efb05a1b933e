//! Tests of selectors against upstream's results, and of lists with invalid terms.

use super::*;
use crate::api::core::{NodeSelector, PreferredSchedulingTerm};
use crate::api::meta::LabelSelector;
use crate::convert::selectors::{label_selector, preferred_terms, required_terms};
use serde::de::DeserializeOwned;
use serde_json::json;
use supercargo_core::model::intern::{LabelSetId, Symbol};

/// Upstream's results for 1,200 selectors, written by `tests/upstream/selectors`; its nodes are [`nodes`].
const UPSTREAM: &str = include_str!("../../../../../tests/fixtures/selectors.txt");

fn nodes(tables: &mut Tables) -> Vec<(Symbol, LabelSetId)> {
    let nodes: [(&str, &[(&str, &str)]); 5] = [
        ("n1", &[]),
        ("n2", &[("a", "1")]),
        ("n3", &[("a", "05"), ("b", "")]),
        ("n4", &[("a", "x"), ("example.com/b", "2")]),
        ("n5", &[("b", "-3"), ("a", "9223372036854775807")]),
    ];
    let node = |&(name, labels): &(&str, &[(&str, &str)])| {
        let labels = labels.iter().map(|(k, v)| (tables.symbol(k), tables.symbol(v))).collect();
        (tables.symbol(name), tables.label_set(labels))
    };
    nodes.iter().map(node).collect()
}

fn decode<T: DeserializeOwned>(json: &str) -> T {
    serde_json::from_str(json).unwrap()
}

/// Returns the result in the fixture's format.
fn answer(tables: &mut Tables, what: &str, json: &str) -> String {
    let nodes = nodes(tables);
    let failed = |error: Box<str>| format!("!{}", Value::from(&*error));
    let bits = |bits: Vec<bool>| bits.into_iter().map(|bit| if bit { '1' } else { '0' }).collect::<String>();
    match what {
        "label" => match label_selector(tables, Some(&decode::<LabelSelector>(json))) {
            Err(error) => failed(error),
            Ok(s) => bits(nodes.iter().map(|n| s.matches(tables, tables.labels(n.1))).collect()),
        },
        "required" => {
            let terms = required_terms(tables, &decode::<NodeSelector>(json).node_selector_terms);
            let matches =
                |n: &(Symbol, LabelSetId)| terms.iter().any(|t| t.matches(tables, n.0, tables.labels(n.1)));
            bits(nodes.iter().map(matches).collect())
        }
        "preferred" => match preferred_terms(tables, &decode::<Vec<PreferredSchedulingTerm>>(json)) {
            Err(error) => failed(error),
            Ok(terms) => {
                let score = |n: &(Symbol, LabelSetId)| -> i32 {
                    let matching = terms.iter().filter(|t| t.term.matches(tables, n.0, tables.labels(n.1)));
                    matching.map(|t| t.weight).sum()
                };
                let scores: Vec<_> = nodes.iter().map(|n| score(n).to_string()).collect();
                scores.join(" ")
            }
        },
        other => panic!("unknown type of line: {other}"),
    }
}

#[test]
fn selectors_match_and_fail_as_upstream() {
    let mut tables = Tables::new();
    let mut wrong = Vec::new();
    for line in UPSTREAM.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let answer = answer(&mut tables, fields[0], fields[1]);
        // Go writes some characters as equivalent escapes.
        let same = match (fields[2].strip_prefix('!'), answer.strip_prefix('!')) {
            (Some(expected), Some(got)) => decode::<String>(expected) == decode::<String>(got),
            _ => fields[2] == answer,
        };
        if !same {
            wrong.push(format!(
                "{} {}\n  upstream: {}\n  here:     {answer}",
                fields[0], fields[1], fields[2]
            ));
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(UPSTREAM.lines().count(), 1_200);
}

#[test]
fn invalid_term_invalidates_only_its_list() {
    let mut tables = Tables::new();
    let bad = json!({"labelSelector": {"matchExpressions": [{"key": "x", "operator": "Bogus"}]}, "topologyKey": "z"});
    let good = json!({"labelSelector": {}, "topologyKey": "z"});
    let pod = with_spec(
        &mut tables,
        &json!({"affinity": {
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "podAffinityTerm": bad}]},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [good, bad],
                                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": good}]},
        }}),
    );
    let affinity = pod.pod_affinity.clone().unwrap();
    let text = "\"Bogus\" is not a valid label selector operator";
    assert_eq!(affinity.required_affinity.unwrap().len(), 0);
    assert_eq!(&*affinity.required_anti_affinity.unwrap_err(), text);
    assert_eq!(&*affinity.preferred_affinity.unwrap_err(), text);
    assert_eq!(affinity.preferred_anti_affinity.unwrap()[0].weight, 5);
}

#[test]
fn pinned_names_are_shared_by_all_entries_even_invalid_ones() {
    let mut tables = Tables::new();
    let field = |values: Value| json!({"key": "metadata.name", "operator": "In", "values": values});
    let mut pinned = |fields: Value| {
        let pod = with_spec(
            &mut tables,
            &json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchFields": fields}]}}}}),
        );
        let term = pod.node_affinity.terms.as_ref().unwrap()[0].clone();
        let names = term
            .pinned_names
            .map(|names| names.iter().map(|&n| tables.text(n).to_owned()).collect::<Vec<_>>());
        (term.demands.is_some(), names)
    };
    let names = |names: &[&str]| Some(names.iter().map(|&n| n.to_owned()).collect());
    assert_eq!(pinned(json!([field(json!(["a"]))])), (true, names(&["a"])));
    assert_eq!(pinned(json!([field(json!(["a", "b"]))])), (false, names(&["a", "b"])));
    assert_eq!(pinned(json!([field(json!(["a", "b"])), field(json!(["b", "c"]))])), (false, names(&["b"])));
    assert_eq!(pinned(json!([field(json!(["a"])), field(json!(["b"]))])), (true, names(&[])));
    assert_eq!(pinned(json!([{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}])), (true, None));
}
