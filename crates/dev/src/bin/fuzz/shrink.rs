//! Minimizes a scenario while it keeps its mismatch.

use serde_json::Value;

/// Fields that identify an object and are kept.
const KEPT: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "name",
    "namespace",
    "uid",
    "schedulerName",
    "detour",
    "emulatedVersion",
    "objects",
    "pods",
    "changes",
    "before",
    "object",
    "deleted",
    "freed",
    "driver",
    "pool",
    "generation",
    "resourceSliceCount",
];

/// One step of a path into a value.
#[derive(Clone, Debug)]
enum Step {
    Key(String),
    Index(usize),
}

/// Removes pods, objects and fields, large parts first, while `shows` holds.
pub(crate) fn shrink(mut scenario: Value, mut shows: impl FnMut(&Value) -> bool) -> Value {
    loop {
        let mut smaller = false;
        for list in ["detour", "changes", "pods", "objects"] {
            smaller |= halves(&mut scenario, list, &mut shows);
        }
        smaller |= parts(&mut scenario, &mut shows);
        if !smaller {
            return scenario;
        }
    }
}

/// Removes ranges of a list, from half of it down to single items.
fn halves(scenario: &mut Value, list: &str, shows: &mut impl FnMut(&Value) -> bool) -> bool {
    let mut smaller = false;
    let mut stretch = items(scenario, list).len().div_ceil(2);
    while stretch > 0 {
        let mut at = 0;
        while at < items(scenario, list).len() {
            let mut without = scenario.clone();
            let end = (at + stretch).min(items(scenario, list).len());
            without[list].as_array_mut().expect("only a list has items").drain(at..end);
            if shows(&without) {
                *scenario = without;
                smaller = true;
            } else {
                at += stretch;
            }
        }
        stretch /= 2;
    }
    smaller
}

fn items<'a>(scenario: &'a Value, list: &str) -> &'a [Value] {
    scenario[list].as_array().map_or(&[], Vec::as_slice)
}

/// Removes fields and list items at any depth, outer ones first.
fn parts(scenario: &mut Value, shows: &mut impl FnMut(&Value) -> bool) -> bool {
    let mut smaller = false;
    let mut at = 0;
    loop {
        let mut places = Vec::new();
        collect(scenario, &mut Vec::new(), &mut places);
        let Some(place) = places.get(at) else { return smaller };
        let mut without = scenario.clone();
        remove(&mut without, place);
        if shows(&without) {
            *scenario = without;
            smaller = true;
        } else {
            at += 1;
        }
    }
}

fn collect(value: &Value, path: &mut Vec<Step>, places: &mut Vec<Vec<Step>>) {
    let steps: Vec<Step> = match value {
        Value::Object(fields) => fields.keys().cloned().map(Step::Key).collect(),
        Value::Array(items) => (0..items.len()).map(Step::Index).collect(),
        _ => return,
    };
    for step in steps {
        let inner = match &step {
            Step::Key(key) => &value[key],
            Step::Index(index) => &value[index],
        };
        let kept = match &step {
            Step::Key(key) => KEPT.contains(&key.as_str()),
            Step::Index(_) => path.len() == 1, // whole objects are removed elsewhere
        };
        path.push(step);
        if !kept {
            places.push(path.clone());
        }
        collect(inner, path, places);
        path.pop();
    }
}

fn remove(mut value: &mut Value, place: &[Step]) {
    let (last, way) = place.split_last().expect("the whole is never a place");
    for step in way {
        value = match step {
            Step::Key(key) => &mut value[key],
            Step::Index(index) => &mut value[index],
        };
    }
    match (last, value) {
        (Step::Key(key), Value::Object(fields)) => drop(fields.remove(key)),
        (Step::Index(index), Value::Array(items)) => drop(items.remove(*index)),
        _ => unreachable!("the place was found in this value"),
    }
}
