//! The feature gates of pod groups, for decisions without an API server. They are those of `--feature-gates`.

use crate::load::files::InputError;
use supercargo_config::flags::gates;
use supercargo_core::model::emulation::{EmulatedVersion, GroupGates};

/// All gates of pod groups, those first that others need.
const NAMES: [&str; 4] =
    ["GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption"];

/// Returns the gates of pod groups that a value of `--feature-gates` sets; blank text leaves all of them off.
///
/// # Errors
/// Fails if the text is malformed, or if the version refuses a gate.
pub fn of_text(text: &str, version: EmulatedVersion) -> Result<GroupGates, InputError> {
    let values = [text.to_owned()];
    gates::judge(&values, Some(version)).map_err(|wrong| {
        InputError(format!(
            "feature gates: {}; those of pod groups are {}",
            wrong.join("; "),
            NAMES.join(", ")
        ))
    })?;
    Ok(gates::groups(&values))
}

/// Returns the value of `--feature-gates` that switches on every gate of pod groups of a version; `None` for a version
/// whose pod groups are not scheduled.
pub fn all_of(version: EmulatedVersion) -> Option<String> {
    let known = gates::all(&[], version);
    let known = NAMES.iter().filter(|name| known.iter().any(|gate| gate.name == **name));
    let text = known.map(|name| format!("{name}=true")).collect::<Vec<_>>().join(",");
    of_text(&text, version).is_ok_and(|gates| gates.workloads).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use EmulatedVersion::{V1_35, V1_36, V1_37};

    #[test]
    fn all_gates_of_a_version_are_those_that_it_accepts() {
        let every = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true,\
            WorkloadAwarePreemption=true";
        let of_new = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true";
        assert_eq!(all_of(V1_36).as_deref(), Some(every));
        assert_eq!(all_of(V1_37).as_deref(), Some(of_new));
        assert_eq!(all_of(V1_35), None);
        assert_eq!(of_text(" ", V1_36), Ok(GroupGates::OFF));
        let wrong = of_text("GangScheduling=true", V1_36).expect_err("it needs another gate");
        assert!(wrong.0.contains("depends on features that are disabled: [GenericWorkload]"), "{wrong}");
    }
}
