//! Checks `--feature-gates`. Accepted are gates at their default and gates without effect here; a gate that
//! would change scheduling is an error.
//!
//! Upstream: `component-base/featuregate/feature_gate.go`; error messages equal upstream's.

/// One gate per line: name, default, and `locked`, `scheduler` or `elsewhere` (where it takes effect).
/// Recorded from the real kube-scheduler: its metric `kubernetes_feature_enabled`, and its answer to each
/// inverted gate.
const TABLE: &str = include_str!("gates.txt");

/// Gates that change other gates when they are set to any value.
const TURN_OTHERS: &str = "AllBeta";

/// Where a gate takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Locked,
    Scheduler,
    Elsewhere,
}

/// Returns the default and the effect of a gate.
fn find(name: &str) -> Option<(bool, Effect)> {
    TABLE.lines().find_map(|line| {
        let mut words = line.split(' ');
        if words.next() != Some(name) {
            return None;
        }
        let default = words.next() == Some("true");
        let effect = match words.next() {
            Some("locked") => Effect::Locked,
            Some("scheduler") => Effect::Scheduler,
            _ => Effect::Elsewhere,
        };
        Some((default, effect))
    })
}

/// Checks the values of all `--feature-gates`. Returns the changed gates that have no effect here.
///
/// # Errors
/// Returns the message for the first invalid setting.
pub fn judge(values: &[String]) -> Result<Vec<String>, String> {
    let mut elsewhere = Vec::new();
    let pairs =
        values.iter().flat_map(|value| value.split(',')).map(str::trim).filter(|pair| !pair.is_empty());
    for pair in pairs {
        let (component, setting) = pair.split_once(':').unwrap_or(("kube", pair));
        if component.trim() != "kube" {
            return Err(format!("component not registered: {}", component.trim()));
        }
        let (name, value) = match setting.split_once('=') {
            Some((name, value)) => (name.trim(), value.trim()),
            None => return Err(format!("missing bool value for {}", setting.trim())),
        };
        let on = truth(value).ok_or_else(|| {
            format!(
                "invalid value of {name}={value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax"
            )
        })?;
        match find(name) {
            None => return Err(format!("unrecognized feature gate: {name}")),
            Some((default, _)) if default == on && name != TURN_OTHERS => {}
            Some((default, Effect::Locked)) => {
                return Err(format!(
                    "cannot set feature gate {name} to {on}, feature is locked to {default}"
                ));
            }
            Some((_, Effect::Scheduler)) => {
                return Err(format!(
                    "cannot set feature gate {name} to {on}: it changes scheduling, and supercargo always schedules \
                     as kube-scheduler with its default"
                ));
            }
            Some((_, Effect::Elsewhere)) => elsewhere.push(format!("{name}={on}")),
        }
    }
    Ok(elsewhere)
}

/// Parses a boolean as Go's `strconv.ParseBool`.
fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_values(values: &[&str]) -> Result<String, String> {
        judge(&values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>())
            .map(|gates| gates.join(" "))
    }

    #[test]
    fn default_gates_and_gates_of_other_components_are_accepted() {
        for values in [
            &["SchedulerQueueingHints=true,kube:SchedulerAsyncAPICalls=false"][..],
            &["", ",,", "NodeDeclaredFeatures=T"],
            &["AllAlpha=0"],
        ] {
            assert_eq!(check_values(values), Ok(String::new()), "{values:?}");
        }
        assert_eq!(
            check_values(&[" KubeletSeparateDiskGC = false "]),
            Ok("KubeletSeparateDiskGC=false".to_owned())
        );
    }

    #[test]
    fn gate_that_changes_decisions_is_rejected_by_name() {
        for gate in [
            "StorageCapacityScoring=true",
            "NodeDeclaredFeatures=false",
            "AllAlpha=true",
            "AllBeta=false",
            "AllBeta=true",
        ] {
            let error = check_values(&["SchedulerPopFromBackoffQ=true", gate]).expect_err(gate);
            let name = gate.split('=').next().unwrap_or_default();
            assert!(error.starts_with(&format!("cannot set feature gate {name} to ")), "{error}");
        }
    }

    /// Messages recorded from the real kube-scheduler.
    #[test]
    fn invalid_gates_give_upstream_error_messages() {
        for (value, expected) in [
            ("Foo=true", "unrecognized feature gate: Foo"),
            ("kube:Foo=true", "unrecognized feature gate: Foo"),
            ("other:Foo=true", "component not registered: other"),
            ("AllAlpha", "missing bool value for AllAlpha"),
            (
                "AllAlpha=maybe",
                "invalid value of AllAlpha=maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
            (
                "SchedulerQueueingHints=false",
                "cannot set feature gate SchedulerQueueingHints to false, feature is locked to true",
            ),
        ] {
            assert_eq!(check_values(&[value]), Err(expected.to_owned()));
        }
    }

    #[test]
    fn gate_table_has_each_gate_once() {
        let names: std::collections::BTreeSet<&str> =
            TABLE.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
        assert_eq!((names.len(), TABLE.lines().count()), (241, 241));
        assert!(TABLE.lines().all(|line| line.split(' ').count() == 3));
    }
}
