//! What a PodGroup asks of supercargo beyond its API: annotations of our own, parsed and validated.
//!
//! Kubernetes' API has no words for these wishes yet. An annotation with an error keeps the group from being scheduled,
//! and the group's condition quotes the error.

use super::group::GroupPolicy;
use super::intern::{Symbol, Tables, trace_ids};
use super::pod::PodInfo;
use std::collections::BTreeSet;
use std::time::Duration;

/// How replacements of members start: `one-by-one` or `together`.
pub const REPLACEMENTS: &str = "supercargo.dev/replacements";
/// Keys of node labels, outermost first: the group is placed in the narrowest domain that takes most members.
pub const PREFERRED_TOPOLOGY: &str = "supercargo.dev/preferred-topology";
/// The key of the pod label with a member's rank, a number. Members are decided in this order.
pub const RANK_LABEL: &str = "supercargo.dev/rank-label";
/// The key of the pod label with a member's role.
pub const ROLE_LABEL: &str = "supercargo.dev/role-label";
/// The number of members of each role that must have a node when the group starts: `leader=1,worker=8`.
pub const MIN_PER_ROLE: &str = "supercargo.dev/min-per-role";
/// How long the group may wait for its start, from the creation of its oldest pod on: `10m`.
pub const START_WITHIN: &str = "supercargo.dev/start-within";
/// The reason of the condition of a group that was given up, because it did not start within that time.
pub const START_DEADLINE_EXCEEDED: &str = "StartDeadlineExceeded";

/// Returns the message of that condition.
pub(crate) fn start_deadline_message(limit: Duration) -> String {
    format!(
        "the pod group did not start within {} s; change annotation {START_WITHIN}, \
         or create its pods again",
        limit.as_secs()
    )
}

/// Whether the group keeps the nodes that its members find, if it waits longest: `true` or `false`.
pub const RESERVE: &str = "supercargo.dev/reserve";
/// All annotations.
pub const ALL: [&str; 7] =
    [REPLACEMENTS, PREFERRED_TOPOLOGY, RANK_LABEL, ROLE_LABEL, MIN_PER_ROLE, START_WITHIN, RESERVE];

/// Maximum number of preferred keys: block, rack and host, and one more. Each adds a run over all members in each of
/// its domains.
const PREFERRED_MAX: usize = 4;
/// Maximum number of roles: far more than a workload has, and few enough to count one by one.
const ROLES_MAX: usize = 16;

/// What a group asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupOptions {
    /// [`REPLACEMENTS`].
    pub replacements: Replacements,
    /// [`PREFERRED_TOPOLOGY`].
    pub preferred: Box<[Symbol]>,
    /// [`RANK_LABEL`].
    pub rank: Option<Symbol>,
    /// [`ROLE_LABEL`] and [`MIN_PER_ROLE`].
    pub roles: Option<Roles>,
    /// [`START_WITHIN`].
    pub start_within: Option<Duration>,
    /// [`RESERVE`].
    pub reserves: bool,
}

/// How replacements of members start once the group was scheduled and still has a member with a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replacements {
    /// Each one on its own (`one-by-one`).
    #[default]
    OneByOne,
    /// Only if at least `minCount` members have a node, as in kube-scheduler (`together`).
    Together,
}

/// The roles of members that a group cannot start without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// The key of the label with the role.
    pub label: Symbol,
    /// Values of the label, each with the number of members that must have a node.
    pub minimums: Box<[(Symbol, usize)]>,
}

impl Roles {
    /// Returns the position of the pod's role among those with a minimum.
    pub fn of(&self, pod: &PodInfo, tables: &Tables) -> Option<usize> {
        let role = tables.labels(pod.labels).get(self.label)?;
        self.minimums.iter().position(|&(of, _)| of == role)
    }
}

impl GroupOptions {
    /// Reads the annotations of a group. `get` returns the value of one.
    ///
    /// # Errors
    /// If a value is invalid, with a text that names the annotation and says what to write instead.
    pub fn parse<'a>(
        get: impl Fn(&str) -> Option<&'a str>,
        policy: GroupPolicy,
        tables: &mut Tables,
    ) -> Result<Self, Box<str>> {
        Ok(Self {
            replacements: replacements(get(REPLACEMENTS))?,
            preferred: preferred(get(PREFERRED_TOPOLOGY), tables)?,
            rank: get(RANK_LABEL).map(|key| label_key(RANK_LABEL, key, tables)).transpose()?,
            roles: roles(get(ROLE_LABEL), get(MIN_PER_ROLE), policy, tables)?,
            start_within: get(START_WITHIN).map(duration).transpose()?,
            reserves: reserves(get(RESERVE))?,
        })
    }
}

fn wrong(annotation: &str, value: &str, should: &str) -> Box<str> {
    format!("annotation {annotation} of the pod group is {value:?}, it should be {should}").into()
}

fn replacements(value: Option<&str>) -> Result<Replacements, Box<str>> {
    match value {
        None | Some("one-by-one") => Ok(Replacements::OneByOne),
        Some("together") => Ok(Replacements::Together),
        Some(value) => Err(wrong(REPLACEMENTS, value, "\"one-by-one\" or \"together\"")),
    }
}

fn reserves(value: Option<&str>) -> Result<bool, Box<str>> {
    match value {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(value) => Err(wrong(RESERVE, value, "\"true\" or \"false\"")),
    }
}

fn label_key(annotation: &str, key: &str, tables: &mut Tables) -> Result<Symbol, Box<str>> {
    let name = key.rsplit('/').next().unwrap_or_default();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_valid = !name.is_empty() && name.chars().all(is_name) && key.matches('/').count() <= 1;
    let is_valid = is_valid && key.chars().all(|c| is_name(c) || c == '/');
    if is_valid { Ok(tables.symbol(key)) } else { Err(wrong(annotation, key, "the key of a label")) }
}

fn preferred(value: Option<&str>, tables: &mut Tables) -> Result<Box<[Symbol]>, Box<str>> {
    let Some(value) = value else { return Ok(Box::default()) };
    let keys: Vec<&str> = value.split(',').map(str::trim).collect();
    let is_distinct = keys.iter().collect::<BTreeSet<_>>().len() == keys.len();
    if keys.len() > PREFERRED_MAX || !is_distinct {
        let should = format!("at most {PREFERRED_MAX} different keys of node labels, outermost first");
        return Err(wrong(PREFERRED_TOPOLOGY, value, &should));
    }
    keys.into_iter().map(|key| label_key(PREFERRED_TOPOLOGY, key, tables)).collect()
}

fn roles(
    label: Option<&str>,
    minimums: Option<&str>,
    policy: GroupPolicy,
    tables: &mut Tables,
) -> Result<Option<Roles>, Box<str>> {
    let (label, value) = match (label, minimums) {
        (None, None) => return Ok(None),
        (Some(label), Some(minimums)) => (label, minimums),
        (Some(_), None) => return Err(alone(ROLE_LABEL, MIN_PER_ROLE)),
        (None, Some(_)) => return Err(alone(MIN_PER_ROLE, ROLE_LABEL)),
    };
    if policy == GroupPolicy::Basic {
        let text = format!("annotation {MIN_PER_ROLE} of the pod group needs spec.schedulingPolicy.gang");
        return Err(text.into());
    }
    let should =
        || wrong(MIN_PER_ROLE, value, "at most 16 different roles with numbers, as \"leader=1,worker=8\"");
    let (mut seen, mut read) = (BTreeSet::new(), Vec::new());
    for part in value.split(',') {
        let (role, number) = part.trim().split_once('=').ok_or_else(should)?;
        let number: usize = number.parse().map_err(|_| should())?;
        if role.is_empty() || !seen.insert(role) {
            return Err(should());
        }
        read.push((tables.symbol(role), number));
    }
    if read.len() > ROLES_MAX {
        return Err(should());
    }
    Ok(Some(Roles { label: label_key(ROLE_LABEL, label, tables)?, minimums: read.into() }))
}

/// Reads a duration as Go writes it, in hours, minutes and seconds.
fn duration(value: &str) -> Result<Duration, Box<str>> {
    let wrong =
        || wrong(START_WITHIN, value, "a time of at least a second, as \"90s\", \"10m\" or \"1h30m\"");
    let (mut rest, mut seconds) = (value, 0_u64);
    while !rest.is_empty() {
        let unit = rest.find(['h', 'm', 's']).ok_or_else(wrong)?;
        let number: u64 = rest[..unit].parse().map_err(|_| wrong())?;
        let factor = match &rest[unit..=unit] {
            "h" => 3600,
            "m" => 60,
            _ => 1,
        };
        let part = number.checked_mul(factor).filter(|_| number <= u64::from(u32::MAX));
        seconds = part.and_then(|part| seconds.checked_add(part)).ok_or_else(wrong)?;
        rest = &rest[unit + 1..];
    }
    if seconds == 0 { Err(wrong()) } else { Ok(Duration::from_secs(seconds)) }
}

fn alone(has: &str, lacks: &str) -> Box<str> {
    format!("annotation {has} of the pod group needs annotation {lacks}").into()
}

trace_ids!(GroupOptions { preferred, rank, roles } but not { replacements, start_within, reserves });
trace_ids!(Roles { label, minimums });

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(annotations: &[(&str, &str)], policy: GroupPolicy) -> Result<GroupOptions, Box<str>> {
        let get = |key: &str| annotations.iter().find(|(of, _)| *of == key).map(|&(_, value)| value);
        GroupOptions::parse(get, policy, &mut Tables::new())
    }

    #[test]
    fn annotations_are_read() {
        let annotations = [
            (REPLACEMENTS, "together"),
            (PREFERRED_TOPOLOGY, "example.com/block, example.com/rack"),
            (RANK_LABEL, "batch.kubernetes.io/job-completion-index"),
            (ROLE_LABEL, "role"),
            (MIN_PER_ROLE, "leader=1, worker=8"),
        ];
        let options = parse(&annotations, GroupPolicy::Gang(9)).expect("the annotations are valid");
        assert_eq!((options.replacements, options.preferred.len()), (Replacements::Together, 2));
        assert!(options.rank.is_some());
        let numbers: Option<Vec<usize>> =
            options.roles.map(|roles| roles.minimums.iter().map(|&(_, number)| number).collect());
        assert_eq!(numbers, Some(vec![1, 8]));
        assert_eq!(parse(&[], GroupPolicy::Basic), Ok(GroupOptions::default()));
    }

    #[test]
    fn errors_name_the_annotation_and_what_it_should_be() {
        let gang = GroupPolicy::Gang(2);
        let error = |annotations: &[(&str, &str)]| match parse(annotations, gang) {
            Ok(options) => panic!("{options:?}"),
            Err(text) => text.to_string(),
        };
        let text = "annotation supercargo.dev/replacements of the pod group is \"never\", it should be \
                    \"one-by-one\" or \"together\"";
        assert_eq!(error(&[(REPLACEMENTS, "never")]), text);
        for keys in ["", "a,,b", "a b", "a,a", "a/b/c", "a,b,c,d,e"] {
            assert!(error(&[(PREFERRED_TOPOLOGY, keys)]).contains(PREFERRED_TOPOLOGY), "{keys}");
        }
        assert!(error(&[(RANK_LABEL, "")]).contains("the key of a label"));
        assert!(error(&[(ROLE_LABEL, "role")]).ends_with("needs annotation supercargo.dev/min-per-role"));
        assert!(error(&[(MIN_PER_ROLE, "a=1")]).ends_with("needs annotation supercargo.dev/role-label"));
        for minimums in ["leader", "leader=x", "=1", "a=1,a=2", ""] {
            let text = error(&[(ROLE_LABEL, "role"), (MIN_PER_ROLE, minimums)]);
            assert!(text.contains("leader=1,worker=8"), "{text}");
        }
    }

    #[test]
    fn time_limit_is_read_in_hours_minutes_and_seconds() {
        let limit = |value| parse(&[(START_WITHIN, value)], GroupPolicy::Basic).map(|it| it.start_within);
        assert_eq!(limit("1h30m"), Ok(Some(Duration::from_secs(5400))));
        assert_eq!(limit("90s"), Ok(Some(Duration::from_secs(90))));
        for wrong in ["", "0s", "10", "m", "-5m", "5 m", "99999999999h", "1d"] {
            let text = limit(wrong).expect_err("the value is invalid");
            assert!(text.contains("10m"), "{text}");
        }
    }

    #[test]
    fn sixteen_roles_may_have_a_minimum() {
        let roles = |number: usize| {
            let minimums: Vec<String> = (0..number).map(|at| format!("role-{at}=1")).collect();
            let minimums = minimums.join(",");
            let annotations = [(ROLE_LABEL, "role"), (MIN_PER_ROLE, minimums.as_str())];
            parse(&annotations, GroupPolicy::Gang(1)).map(|it| it.roles.map(|roles| roles.minimums.len()))
        };
        assert_eq!(roles(16), Ok(Some(16)));
        assert!(roles(17).expect_err("too many").contains("at most 16 different roles"));
    }

    #[test]
    fn roles_need_a_gang() {
        let roles = [(ROLE_LABEL, "role"), (MIN_PER_ROLE, "leader=1")];
        let text = parse(&roles, GroupPolicy::Basic).expect_err("a basic group has no minimum");
        assert!(text.contains("schedulingPolicy.gang"), "{text}");
    }
}
