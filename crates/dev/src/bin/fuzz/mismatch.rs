//! Finds differences between our decisions on a scenario and the oracle's.

use crate::explain;
use serde_json::{Value, json};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use supercargo_core::model::emulation::Compat;
use supercargo_dev::golden::compare::{Vector, compare_in};
use supercargo_dev::golden::world::World;

thread_local! {
    static DECIDING: Cell<bool> = const { Cell::new(false) };
}

/// Silences panics in our decisions, because each is reported as a mismatch.
pub(crate) fn keep_panics_quiet() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !DECIDING.get() {
            tell(panic);
        }
    }));
}

fn caught<T>(decide: impl FnOnce() -> T) -> std::thread::Result<T> {
    DECIDING.set(true);
    let result = catch_unwind(AssertUnwindSafe(decide));
    DECIDING.set(false);
    result
}

/// A difference.
pub(crate) struct Mismatch {
    /// The place in a decision, without what varies between scenarios: `rejected/*/plugin`.
    pub(crate) kind: String,
    /// Pod, place, expected and actual value.
    pub(crate) text: String,
}

/// The result of a comparison.
pub(crate) struct Compared {
    /// The differences that nothing explains.
    pub(crate) mismatches: Vec<Mismatch>,
    /// The row of `FIDELITY.md` that explains the others.
    pub(crate) explained: Option<&'static str>,
}

/// Compares our decisions with an answer of the oracle: with upstream's defects, and without them. A panic of ours
/// counts as a difference.
pub(crate) fn of(answer: &Value) -> Compared {
    let vector: Vector = serde_json::from_value(answer.clone()).expect("an answer is a vector");
    let mismatches = differences(&vector, Compat::Upstream);
    if !mismatches.is_empty() {
        let explained = explain::of_upstream(answer);
        return Compared { mismatches: if explained.is_none() { mismatches } else { Vec::new() }, explained };
    }
    if !explain::has_devices(answer) {
        return Compared { mismatches, explained: None };
    }
    let mut mismatches = differences(&vector, Compat::Repaired);
    let explained = if mismatches.is_empty() { None } else { explain::of_repaired(answer) };
    if explained.is_some() {
        mismatches.clear();
    }
    mismatches.iter_mut().for_each(|mismatch| mismatch.kind.insert_str(0, "repaired: "));
    Compared { mismatches, explained }
}

fn differences(vector: &Vector, compat: Compat) -> Vec<Mismatch> {
    let compared = caught(|| {
        let mut texts = Vec::new();
        compare_in(World::with(&vector.scenario, compat), vector, &mut texts);
        texts
    });
    match compared {
        Ok(texts) => texts.into_iter().map(|text| Mismatch { kind: kind(&text), text }).collect(),
        Err(cause) => {
            let cause = cause.downcast_ref::<String>().map(String::as_str).or(cause.downcast_ref().copied());
            let cause = cause.unwrap_or("of unknown cause");
            vec![Mismatch { kind: "panic".to_owned(), text: format!("panic: {cause}") }]
        }
    }
}

fn kind(text: &str) -> String {
    let place = text.split(": ").next().unwrap_or_default();
    let steps = place.split(" / ").skip(1).map(|step| match step.strip_prefix('n') {
        Some(number) if number.parse::<u8>().is_ok() => "*",
        _ => step,
    });
    steps.collect::<Vec<_>>().join("/")
}

/// Returns our decisions on the pods of a scenario.
pub(crate) fn ours(scenario: &Value) -> Value {
    let vector = json!({ "scenario": scenario, "decisions": [] });
    let vector: Vector = serde_json::from_value(vector).expect("it has a scenario's parts");
    let decided = caught(|| {
        let mut world = World::new(&vector.scenario);
        vector.scenario.pods.iter().map(|pod| world.decide(pod)).collect()
    });
    decided.unwrap_or_else(|_| "a panic".into())
}
