//! Generates label selectors and pod labels.

use super::Mix;
use crate::draw::Draw;
use serde_json::{Map, Value, json};

/// Returns a pod's labels, which the selectors below may match.
pub(super) fn pod_labels(draw: &mut Draw, mix: Mix) -> Value {
    let mut labels = Map::new();
    if draw.percent(90) {
        labels.insert("app".into(), draw.pick(&["web", "web", "db"]).into());
    }
    if draw.percent(60) {
        labels.insert("tier".into(), draw.pick(&["fe", "be", ""]).into());
    }
    if draw.percent(40) {
        labels.insert("ver".into(), draw.pick(&["1", "2"]).into());
    }
    if draw.percent(mix.odd) {
        labels.insert(
            draw.pick(&["app", "ver", "-odd-"]).into(),
            draw.pick(&["not valid!", "-x", "ok"]).into(),
        );
    }
    if labels.is_empty() && draw.percent(50) { Value::Null } else { labels.into() }
}

/// Returns a label selector or null.
pub(super) fn label_selector(draw: &mut Draw, mix: Mix) -> Value {
    match draw.below(20) {
        0 => Value::Null,
        1 | 2 => json!({}),
        3..10 => json!({ "matchLabels": match_labels(draw, mix) }),
        10..18 => json!({ "matchExpressions": expressions(draw, mix) }),
        _ => json!({ "matchLabels": match_labels(draw, mix), "matchExpressions": expressions(draw, mix) }),
    }
}

/// Returns `matchLabels` of a selector.
pub(super) fn match_labels(draw: &mut Draw, mix: Mix) -> Value {
    let mut pairs = Map::new();
    for _ in 0..draw.weighted(&[(1, 0), (8, 1), (3, 2)]) {
        let (key, value) = pair(draw);
        pairs.insert(key.into(), value.into());
    }
    if draw.percent(mix.odd) {
        pairs.insert(
            draw.pick(&["", "-odd-", "app", "a/b/c"]).into(),
            draw.pick(&["web", "not valid!"]).into(),
        );
    }
    pairs.into()
}

fn pair(draw: &mut Draw) -> (&'static str, &'static str) {
    let key = draw.weighted(&[(5, "app"), (3, "tier"), (2, "ver"), (1, "none")]);
    let value = match key {
        "app" => draw.pick(&["web", "db", "gone"]),
        "tier" => draw.pick(&["fe", "be", ""]),
        _ => draw.pick(&["1", "2"]),
    };
    (key, value)
}

fn expressions(draw: &mut Draw, mix: Mix) -> Value {
    let count = draw.weighted(&[(1, 0), (8, 1), (3, 2)]);
    let expressions = draw.list(count, |draw| {
        let (key, value) = pair(draw);
        let mut expression = json!({ "key": key });
        match draw.below(10) {
            0..4 => {
                expression["operator"] = "In".into();
                expression["values"] =
                    if draw.percent(40) { json!([value, pair(draw).1]) } else { json!([value]) };
            }
            4..6 => {
                expression["operator"] = "NotIn".into();
                expression["values"] = json!([value]);
            }
            6..8 => expression["operator"] = "Exists".into(),
            _ => expression["operator"] = "DoesNotExist".into(),
        }
        if draw.percent(mix.odd) {
            spoil(draw, &mut expression);
        }
        expression
    });
    expressions.into()
}

/// Makes a label or node requirement invalid; sometimes it stays valid.
pub(super) fn spoil(draw: &mut Draw, requirement: &mut Value) {
    match draw.below(7) {
        0 => requirement["operator"] = draw.pick(&["", "in", "Gt", "Lt", "Equals"]).into(),
        1 => requirement["values"] = json!([]),
        2 => requirement["values"] = json!(["web", "not valid!"]),
        3 => requirement["key"] = draw.pick(&["", "-odd-", "a/b/c", "UPPER.example/x", "x y"]).into(),
        4 => drop(requirement.as_object_mut().map(|fields| fields.remove("values"))),
        5 => requirement["values"] = Value::Null,
        _ => requirement["values"] = json!(["1", "2"]),
    }
}
