//! Checks `--feature-gates` against the gates of the version to behave as. Accepted are gates at their default and
//! gates without effect on decisions, and the gates of pod groups; another gate that would change scheduling is an
//! error.
//!
//! Upstream: `component-base/featuregate/feature_gate.go`; error messages equal upstream's.

use super::go;
use supercargo_core::model::emulation::{EmulatedVersion, GroupGates};

/// One gate per line: name, effect, and a cell for each version, such as `BETA:on`, `GA:on!` if it is locked, or `-` if
/// the version does not know it. `tests/fixtures/flags/gates.sh` records it from the real kube-schedulers.
const TABLE: &str = include_str!("gates.txt");

/// Gates that change other gates when they are set to any value.
const TURN_OTHERS: &str = "AllBeta";

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

/// A gate that the version in force does not accept as set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The setting, such as `GangScheduling=true`.
    pub setting: String,
    /// Whether the version does not know the gate.
    pub is_unknown: bool,
    /// Upstream's message, where it has one.
    pub why: String,
}

/// Where a gate takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// In decisions: only the default is accepted.
    Scheduler,
    /// Here, as in kube-scheduler.
    Here,
    /// In decisions about pod groups, whose API is read from 1.36 on.
    Groups,
    /// In other components, or nowhere.
    Elsewhere,
}

/// A gate in one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    stage: &'static str,
    default: bool,
    is_locked: bool,
}

/// A line of the table.
#[derive(Clone, Copy, Debug)]
struct Row(&'static str);

impl Row {
    fn all() -> impl Iterator<Item = Self> {
        TABLE.lines().filter(|line| !line.starts_with('#')).map(Self)
    }

    fn of(name: &str) -> Option<Self> {
        Self::all().find(|row| row.name() == name)
    }

    fn word(self, at: usize) -> &'static str {
        self.0.split(' ').nth(at).unwrap_or_default()
    }

    fn name(self) -> &'static str {
        self.word(0)
    }

    fn effect(self) -> Effect {
        match self.word(1) {
            "scheduler" => Effect::Scheduler,
            "here" => Effect::Here,
            "groups" => Effect::Groups,
            _ => Effect::Elsewhere,
        }
    }

    /// Returns the gate in a version that knows it.
    fn state(self, version: EmulatedVersion) -> Option<State> {
        let (stage, value) = self.word(2 + version as usize).split_once(':')?;
        Some(State { stage, default: value.starts_with("on"), is_locked: value.ends_with('!') })
    }
}

/// Returns all gates of a version, given the values of `--feature-gates`.
pub fn all(values: &[String], version: EmulatedVersion) -> Vec<Gate> {
    let gates = Row::all().filter_map(|row| {
        let (name, state) = (row.name(), row.state(version)?);
        let stage = if state.stage == "GA" { "" } else { state.stage };
        Some(Gate { name, stage, is_on: is_on(values, name, Some(version)) })
    });
    gates.collect()
}

/// Checks the values of all `--feature-gates`. Returns the changed gates that have no effect here. Without a version,
/// a gate's value is accepted if any version accepts it.
///
/// # Errors
/// Returns a message for each gate that is refused, or for the first value that is malformed.
pub fn judge(values: &[String], version: Option<EmulatedVersion>) -> Result<Vec<String>, Vec<String>> {
    let (mut elsewhere, mut refused) = (Vec::new(), Vec::new());
    for (name, on) in settings(values).map_err(|why| vec![why])? {
        match judge_one(values, name, on, version) {
            Ok(true) => elsewhere.push(format!("{name}={on}")),
            Ok(false) => {}
            Err(why) => refused.push(why),
        }
    }
    if refused.is_empty() { Ok(elsewhere) } else { Err(refused) }
}

/// Returns whether a gate is changed without effect here, in some version that accepts its value.
fn judge_one(
    values: &[String],
    name: &str,
    on: bool,
    version: Option<EmulatedVersion>,
) -> Result<bool, String> {
    let row = Row::of(name).ok_or_else(|| unknown(name))?;
    let versions = EmulatedVersion::ALL.into_iter().rev().filter(|one| version.is_none_or(|it| it == *one));
    let verdicts = versions.filter_map(|version| Some(check(values, row, row.state(version)?, on, version)));
    let (accepted, refused): (Vec<_>, Vec<_>) = verdicts.partition(Result::is_ok);
    match accepted.into_iter().filter_map(Result::ok).max() {
        Some(is_elsewhere) => Ok(is_elsewhere),
        None => refused.into_iter().next().unwrap_or_else(|| Err(unknown(name))),
    }
}

/// Returns the settings that a version does not accept, given values that some version accepts.
pub fn misfits(values: &[String], version: EmulatedVersion) -> Vec<Misfit> {
    let misfits = settings(values).unwrap_or_default().into_iter().filter_map(|(name, on)| {
        let setting = format!("{name}={on}");
        let row = Row::of(name)?;
        match row.state(version) {
            None => Some(Misfit { setting, is_unknown: true, why: unknown(name) }),
            Some(state) => {
                let checked = check(values, row, state, on, version);
                checked.err().map(|why| Misfit { setting, is_unknown: false, why })
            }
        }
    });
    misfits.collect()
}

/// The gates of pod groups that need another gate, each with it (upstream
/// `pkg/features/kube_features.go#defaultKubernetesFeatureGateDependencies`).
const NEEDS: [(&str, &str); 3] = [
    ("GangScheduling", "GenericWorkload"),
    ("TopologyAwareWorkloadScheduling", "GenericWorkload"),
    ("WorkloadAwarePreemption", "GangScheduling"),
];

/// Returns the error about a gate that is on if the one that it needs is off, in a version that knows both.
fn unmet_need(values: &[String], name: &str, version: EmulatedVersion) -> Option<String> {
    let (_, need) = NEEDS.into_iter().find(|(gate, _)| *gate == name)?;
    let is_known = |name: &str| Row::of(name).is_some_and(|row| row.state(version).is_some());
    let is_unmet = is_known(name) && is_known(need) && !is_on(values, need, Some(version));
    is_unmet.then(|| format!("{name} is enabled, but depends on features that are disabled: [{need}]"))
}

fn unknown(name: &str) -> String {
    format!("unrecognized feature gate: {name}")
}

/// Checks the value of a gate that a version knows. Returns whether it is changed without effect here.
fn check(
    values: &[String],
    row: Row,
    state: State,
    on: bool,
    version: EmulatedVersion,
) -> Result<bool, String> {
    let (name, default) = (row.name(), state.default);
    match row.effect() {
        _ if default == on && name != TURN_OTHERS => Ok(false),
        _ if state.is_locked => {
            Err(format!("cannot set feature gate {name} to {on}, feature is locked to {default}"))
        }
        Effect::Scheduler => Err(format!(
            "cannot set feature gate {name} to {on}: it changes scheduling, and supercargo always schedules as \
             kube-scheduler with its default"
        )),
        Effect::Groups if version < EmulatedVersion::V1_36 => Err(format!(
            "cannot set feature gate {name} to {on}: supercargo schedules pod groups from Kubernetes 1.36 on"
        )),
        Effect::Groups => unmet_need(values, name, version).filter(|_| on).map_or(Ok(false), Err),
        Effect::Here => Ok(false),
        Effect::Elsewhere => Ok(true),
    }
}

/// Returns the settings as pairs of name and value.
fn settings(values: &[String]) -> Result<Vec<(&str, bool)>, String> {
    let mut settings = Vec::new();
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
        settings.push((name, on));
    }
    Ok(settings)
}

/// Returns the gates of pod groups, given the values of `--feature-gates`.
pub fn groups(values: &[String]) -> GroupGates {
    let mut gates = GroupGates::OFF;
    for (name, on) in settings(values).unwrap_or_default() {
        gates.set(name, on);
    }
    gates
}

/// Returns whether a gate is on, given the values of `--feature-gates`, the last of which counts. Without a version,
/// it is on by default if it is in any version.
pub fn is_on(values: &[String], name: &str, version: Option<EmulatedVersion>) -> bool {
    let given = settings(values).unwrap_or_default().into_iter().rfind(|(gate, _)| *gate == name);
    given.map_or_else(|| Row::of(name).is_some_and(|row| default(row, version)), |(_, on)| on)
}

fn default(row: Row, version: Option<EmulatedVersion>) -> bool {
    let mut versions = EmulatedVersion::ALL.into_iter().filter(|one| version.is_none_or(|it| it == *one));
    versions.any(|version| row.state(version).is_some_and(|state| state.default))
}

#[cfg(test)]
mod tests {
    use super::*;
    use EmulatedVersion::{V1_34, V1_35, V1_36, V1_37};

    fn check_values(values: &[&str], version: impl Into<Option<EmulatedVersion>>) -> Result<String, String> {
        let values: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
        judge(&values, version.into()).map(|gates| gates.join(" ")).map_err(|wrong| wrong.join("; "))
    }

    #[test]
    fn default_gates_and_gates_of_other_components_are_accepted() {
        for values in [
            &["kube:SchedulerQueueingHints=true,kube:SchedulerAsyncAPICalls=false"][..],
            &["", ",,", "NodeDeclaredFeatures=T"],
            &["AllAlpha=0"],
        ] {
            assert_eq!(check_values(values, V1_36), Ok(String::new()), "{values:?}");
        }
        assert_eq!(
            check_values(&[" KubeletSeparateDiskGC = false "], V1_36),
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
            let error = check_values(&["SchedulerPopFromBackoffQ=true", gate], V1_36).expect_err(gate);
            let name = gate.split('=').next().unwrap_or_default();
            assert!(error.starts_with(&format!("cannot set feature gate {name} to ")), "{error}");
        }
    }

    /// Messages recorded from the real kube-scheduler.
    #[test]
    fn invalid_gates_give_upstream_error_messages() {
        for (value, expected) in [
            ("Foo=true", "unrecognized feature gate: Foo"),
            ("Foo=true,Bar=false", "unrecognized feature gate: Foo; unrecognized feature gate: Bar"),
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
            assert_eq!(check_values(&[value], V1_36), Err(expected.to_owned()));
            assert_eq!(check_values(&[value], None), Err(expected.to_owned()));
        }
    }

    #[test]
    fn gates_and_defaults_are_those_of_the_version() {
        let unknown = |gate: &str| Err(format!("unrecognized feature gate: {gate}"));
        assert_eq!(check_values(&["SchedulerQueueingHints=true"], V1_37), unknown("SchedulerQueueingHints"));
        assert_eq!(check_values(&["NodeDeclaredFeatures=false"], V1_34), unknown("NodeDeclaredFeatures"));
        assert_eq!(check_values(&["NodeDeclaredFeatures=false"], V1_35), Ok(String::new()));
        for version in [V1_34, V1_35, V1_36] {
            let error = check_values(&["StorageCapacityScoring=true"], version).expect_err("off by default");
            assert!(error.contains("it changes scheduling"), "{version}: {error}");
        }
        assert_eq!(check_values(&["StorageCapacityScoring=true"], V1_37), Ok(String::new()));
    }

    #[test]
    fn without_a_version_what_any_version_accepts_is_accepted() {
        let values =
            ["SchedulerQueueingHints=true,StorageCapacityScoring=true,SchedulerPreQueueingHints=false"];
        assert_eq!(check_values(&values, None), Ok(String::new()));
        let all: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
        let misfits_of = |version| {
            let misfits = misfits(&all, version).into_iter();
            misfits.map(|Misfit { setting, is_unknown, .. }| (setting, is_unknown)).collect::<Vec<_>>()
        };
        assert_eq!(misfits_of(V1_37), [("SchedulerQueueingHints=true".to_owned(), true)]);
        assert_eq!(
            misfits_of(V1_36),
            [
                ("StorageCapacityScoring=true".to_owned(), false),
                ("SchedulerPreQueueingHints=false".to_owned(), true)
            ]
        );
    }

    /// Messages recorded from the real kube-scheduler 1.36.3.
    #[test]
    fn gates_of_groups_need_each_other_and_version_1_36() {
        let unmet = |gate: &str, need: &str| {
            Err(format!("{gate} is enabled, but depends on features that are disabled: [{need}]"))
        };
        let accepted = || Ok(String::new());
        for (values, at_1_36) in [
            ("GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true", accepted()),
            ("GenericWorkload=true,TopologyAwareWorkloadScheduling=true", accepted()),
            ("GangScheduling=true", unmet("GangScheduling", "GenericWorkload")),
            ("GangScheduling=true,GenericWorkload=false", unmet("GangScheduling", "GenericWorkload")),
            (
                "GenericWorkload=true,WorkloadAwarePreemption=true",
                unmet("WorkloadAwarePreemption", "GangScheduling"),
            ),
            (
                "TopologyAwareWorkloadScheduling=true",
                unmet("TopologyAwareWorkloadScheduling", "GenericWorkload"),
            ),
        ] {
            assert_eq!(check_values(&[values], V1_36), at_1_36, "{values}");
            assert_eq!(check_values(&[values], None), at_1_36, "{values}");
        }
        assert_eq!(check_values(&["GenericWorkload=true"], V1_37), accepted());
        let error = check_values(&["GenericWorkload=true"], V1_35).expect_err("another API");
        assert!(error.ends_with("supercargo schedules pod groups from Kubernetes 1.36 on"), "{error}");
        let misfits = misfits(&["GenericWorkload=true,WorkloadAwarePreemption=true".to_owned()], V1_36);
        assert_eq!(misfits.len(), 1, "{misfits:?}");
    }

    #[test]
    fn gate_table_has_each_gate_once_with_a_cell_per_version() {
        let versions = EmulatedVersion::ALL.map(EmulatedVersion::as_str).join(" ");
        assert_eq!(TABLE.lines().next(), Some(format!("# gate effect {versions}").as_str()));
        let names: std::collections::BTreeSet<&str> = Row::all().map(Row::name).collect();
        assert_eq!(names.len(), Row::all().count());
        let stages = ["ALPHA", "BETA", "GA", "DEPRECATED"];
        for Row(line) in Row::all() {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(words.len(), 2 + EmulatedVersion::ALL.len(), "{line}");
            assert!(["scheduler", "here", "groups", "elsewhere"].contains(&words[1]), "{line}");
            let is_cell = |cell: &&str| {
                let (stage, value) = cell.split_once(':').unwrap_or_default();
                *cell == "-" || stages.contains(&stage) && ["on", "off", "on!", "off!"].contains(&value)
            };
            assert!(words[2..].iter().all(is_cell), "{line}");
        }
        let gates = all(&["MemoryQoS=true".to_owned()], V1_36);
        let of =
            |name: &str| gates.iter().find(|gate| gate.name == name).map(|gate| (gate.stage, gate.is_on));
        assert_eq!(
            (gates.len(), of("MemoryQoS"), of("NodeSwap"), of("SchedulerPreQueueingHints")),
            (241, Some(("ALPHA", true)), Some(("", true)), None)
        );
    }
}
