//! The plan of a report: the moves that lead from one state to the next.

use serde::Deserialize;
use std::path::Path;
use supercargo_whatif::explain::API_VERSION;
use supercargo_whatif::load::files::InputError;

/// Kinds of plans.
const KINDS: [&str; 3] = ["FreeNodesPlan", "MakeRoomPlan", "RebalancePlan"];

/// A plan, as `supercargo plan -o json` prints it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Plan {
    api_version: String,
    kind: String,
    #[serde(default)]
    moves: Vec<PlannedMove>,
}

/// A step of a plan.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PlannedMove {
    /// The number of the step.
    pub(super) step: usize,
    /// `namespace/name`.
    pub(super) pod: String,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) why: String,
}

/// Reads the moves of a plan.
///
/// # Errors
/// Fails if the file cannot be read or is no plan.
pub(super) fn read(path: &Path) -> Result<Vec<PlannedMove>, InputError> {
    let file = path.display();
    let wrong = |why: String| InputError(format!("{file}: {why}"));
    let text = std::fs::read_to_string(path)
        .map_err(|error| wrong(format!("cannot be read: {error}; check the path")))?;
    moves(&text).map_err(wrong)
}

fn moves(text: &str) -> Result<Vec<PlannedMove>, String> {
    let expected = "expected a plan, as `supercargo plan free-nodes -o json` prints it";
    let plan: Plan = serde_json::from_str(text).map_err(|error| format!("{error}; {expected}"))?;
    if plan.api_version != API_VERSION || !KINDS.contains(&plan.kind.as_str()) {
        return Err(format!("it is a {} of {}; {expected}", plan.kind, plan.api_version));
    }
    Ok(plan.moves)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_is_no_plan_is_refused_with_what_it_is() {
        let applied = r#"{"apiVersion": "supercargo.dev/v1alpha1", "kind": "AppliedPlan", "moves": []}"#;
        let error = moves(applied).unwrap_err();
        assert!(
            error.starts_with("it is a AppliedPlan of supercargo.dev/v1alpha1; expected a plan"),
            "{error}"
        );
        let error = moves("[]").unwrap_err();
        assert!(error.contains("expected a plan"), "{error}");
    }

    #[test]
    fn moves_of_each_kind_of_plan_are_read() {
        for kind in KINDS {
            let step =
                r#"{"step": 1, "pod": "shop/web", "from": "a", "to": "b", "ties": ["b"], "why": "it fits"}"#;
            let text = format!(
                r#"{{"apiVersion": "{API_VERSION}", "kind": "{kind}", "moves": [{step}], "more": 1}}"#
            );
            let read = moves(&text).expect("it is a plan");
            assert_eq!((read.len(), &*read[0].pod, &*read[0].to), (1, "shop/web", "b"));
        }
    }
}
