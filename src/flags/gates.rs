//! `--feature-gates`: one at its default is taken, one that would change what the scheduler does is refused, and all others of
//! kube-scheduler change nothing here.
//!
//! Upstream: `component-base/featuregate/feature_gate.go`; words are theirs.

/// One gate a line: its name, its default, and whether it is locked, is the scheduler's, or has its effect elsewhere. As the
/// real kube-scheduler shows them (`kubernetes_feature_enabled`) and answers when each is turned round.
const TABLE: &str = include_str!("gates.txt");

/// Gates whose very mention turns others round, whatever they are set to.
const TURN_OTHERS: &str = "AllBeta";

/// Where a gate has its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Locked,
    Scheduler,
    Elsewhere,
}

/// The default and the effect of a gate.
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

/// Judges the values of all `--feature-gates`; the gates that were turned round, and change nothing here.
///
/// # Errors
/// With what is wrong first.
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
                    "cannot set feature gate {name} to {on}: it changes what the scheduler does, and supercargo does \
                     what kube-scheduler does with its default"
                ));
            }
            Some((_, Effect::Elsewhere)) => elsewhere.push(format!("{name}={on}")),
        }
    }
    Ok(elsewhere)
}

/// As Go reads it.
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

    fn told(values: &[&str]) -> Result<String, String> {
        judge(&values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>())
            .map(|gates| gates.join(" "))
    }

    #[test]
    fn a_gate_at_its_default_is_taken_and_one_of_other_components_changes_nothing() {
        for values in [
            &["SchedulerQueueingHints=true,kube:SchedulerAsyncAPICalls=false"][..],
            &["", ",,", "NodeDeclaredFeatures=T"],
            &["AllAlpha=0"],
        ] {
            assert_eq!(told(values), Ok(String::new()), "{values:?}");
        }
        assert_eq!(told(&[" KubeletSeparateDiskGC = false "]), Ok("KubeletSeparateDiskGC=false".to_owned()));
    }

    #[test]
    fn a_gate_that_would_change_decisions_is_refused_by_name() {
        for gate in [
            "StorageCapacityScoring=true",
            "NodeDeclaredFeatures=false",
            "AllAlpha=true",
            "AllBeta=false",
            "AllBeta=true",
        ] {
            let error = told(&["SchedulerPopFromBackoffQ=true", gate]).expect_err(gate);
            let name = gate.split('=').next().unwrap_or_default();
            assert!(error.starts_with(&format!("cannot set feature gate {name} to ")), "{error}");
        }
    }

    /// As the real kube-scheduler answers.
    #[test]
    fn what_is_wrong_is_told_in_upstreams_words() {
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
            assert_eq!(told(&[value]), Err(expected.to_owned()));
        }
    }

    #[test]
    fn the_table_has_every_gate_once() {
        let names: std::collections::BTreeSet<&str> =
            TABLE.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
        assert_eq!((names.len(), TABLE.lines().count()), (241, 241));
        assert!(TABLE.lines().all(|line| line.split(' ').count() == 3));
    }
}
