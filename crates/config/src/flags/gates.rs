//! Checks `--feature-gates`. Accepted are gates at their default and gates without effect here; a gate that
//! would change scheduling is an error.
//!
//! Upstream: `component-base/featuregate/feature_gate.go`; error messages equal upstream's.

use super::go;

/// One gate per line: name, default, `locked`, `scheduler` or `elsewhere` (where it takes effect), and the stage.
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

/// A gate and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The name.
    pub name: &'static str,
    /// `ALPHA`, `BETA`, `DEPRECATED`, or empty for a feature that is generally available.
    pub stage: &'static str,
    /// Whether it is on.
    pub is_on: bool,
}

/// Returns all gates, given the values of `--feature-gates`.
pub fn all(values: &[String]) -> Vec<Gate> {
    let gates = TABLE.lines().filter_map(|line| {
        let [name, _, _, stage] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
        let stage = if stage == "GA" { "" } else { stage };
        Some(Gate { name, stage, is_on: is_on(values, name) })
    });
    gates.collect()
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
    let mut has_prefix = None;
    let pairs =
        values.iter().flat_map(|value| value.split(',')).map(str::trim).filter(|pair| !pair.is_empty());
    for pair in pairs {
        let (component, setting) = pair.split_once(':').unwrap_or(("kube", pair));
        if component.trim() != "kube" {
            return Err(format!("component not registered: {}", component.trim()));
        }
        let is_prefixed = pair.contains(':');
        if has_prefix.replace(is_prefixed).is_some_and(|before| before != is_prefixed) {
            let why = "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use";
            return Err(why.to_owned());
        }
        let (name, value) = match setting.split_once('=') {
            Some((name, value)) => (name.trim(), value.trim()),
            None => return Err(format!("missing bool value for {}", setting.trim())),
        };
        let on = go::bool(value).map_err(|error| format!("invalid value of {name}={value}, err: {error}"))?;
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

/// Returns whether a gate is on, given the values of `--feature-gates`, the last of which counts.
pub(super) fn is_on(values: &[String], name: &str) -> bool {
    let default = find(name).is_some_and(|(default, _)| default);
    let settings = values.iter().flat_map(|value| value.split(','));
    let mut given = settings.filter_map(|setting| {
        let (gate, value) = setting.rsplit_once('=')?;
        let gate = gate.rsplit(':').next().unwrap_or_default().trim();
        (gate == name).then(|| go::bool(value.trim()).ok()).flatten()
    });
    given.next_back().unwrap_or(default)
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
            &["kube:SchedulerQueueingHints=true,kube:SchedulerAsyncAPICalls=false"][..],
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
                "MemoryQoS=true,kube:MemoryQoS=true",
                "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
            ),
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
        assert!(TABLE.lines().all(|line| line.split(' ').count() == 4));
        let gates = all(&["MemoryQoS=true".to_owned()]);
        let of =
            |name: &str| gates.iter().find(|gate| gate.name == name).map(|gate| (gate.stage, gate.is_on));
        assert_eq!(
            (gates.len(), of("MemoryQoS"), of("NodeSwap")),
            (241, Some(("ALPHA", true)), Some(("", true)))
        );
    }
}
