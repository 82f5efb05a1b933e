//! Checks pod groups and the workloads that name them: missing groups, too few or unequal members, unknown topology
//! keys, and groups that could not start even in an empty cluster.

use super::{Finding, Rule, Severity, Subject};
use crate::explain::fit::copy;
use crate::explain::format::count;
use crate::explain::groups::{decide, most};
use crate::explain::place::Place;
use crate::explain::suggest::{Vocabulary, of_key};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use supercargo_config::yaml::nearest;
use supercargo_core::model::group::{GroupApi, GroupKey, GroupPolicy, PodGroup};
use supercargo_core::model::pod::PodInfo;
use supercargo_core::report::group::GroupOutcome;

/// Maximum number of members of a group that are decided. In a cluster of 5,000 nodes each takes about a millisecond,
/// in each topology domain.
const MEMBERS_MAX: usize = 1_000;

/// Returns the findings about groups, if their feature gate is on. `earlier` are the findings about the workloads
/// themselves: a group is not decided if one of its members can never be scheduled alone. The cache is the same
/// afterwards.
pub fn lint_groups(place: &mut Place<'_>, subjects: &[Subject], earlier: &[Finding]) -> Vec<Finding> {
    let mut named: BTreeMap<GroupKey, Vec<&Subject>> = BTreeMap::new();
    for subject in subjects {
        if let Some(key) = subject.pod.group_key() {
            named.entry(key).or_default().push(subject);
        }
    }
    let groups: BTreeMap<GroupKey, PodGroup> = {
        let lookups = place.snapshot().lookups();
        let each = lookups.group_keys().filter_map(|key| Some((key, lookups.group(key)?.clone())));
        each.collect()
    };
    let mut findings = Vec::new();
    for (key, subjects) in &named {
        match groups.get(key) {
            Some(group) => members(place, group, subjects, earlier, &mut findings),
            None => missing(place, *key, subjects, &groups, &mut findings),
        }
        scheduler_names(place, subjects, &mut findings);
    }
    for (key, group) in &groups {
        topology_key(place, group, &mut findings);
        if !named.contains_key(key) {
            let message = "no pod and no workload names this group".to_owned();
            findings.push(of_group(place, group, Rule::PodGroupNamedByNoPod, "metadata.name", message, None));
        }
    }
    findings
}

fn of_group(
    place: &Place<'_>,
    group: &PodGroup,
    rule: Rule,
    field: &str,
    message: String,
    did_you_mean: Option<String>,
) -> Finding {
    Finding {
        severity: rule.severity(),
        namespace: place.tables().text(group.key.namespace).to_owned(),
        kind: "PodGroup".to_owned(),
        name: place.tables().text(group.key.name).to_owned(),
        rule,
        field: field.to_owned(),
        message,
        did_you_mean,
    }
}

fn of_subject(subject: &Subject, rule: Rule, field: &str, message: String) -> Finding {
    let severity = rule.severity();
    Finding {
        severity: if subject.is_to_come { severity } else { severity.max(Severity::Warning) },
        namespace: subject.namespace.clone(),
        kind: subject.kind.clone(),
        name: subject.name.clone(),
        rule,
        field: format!("{}{field}", subject.prefix),
        message,
        did_you_mean: None,
    }
}

/// Reports subjects that name a group which does not exist. Without nodes, the files are not a whole cluster.
fn missing(
    place: &Place<'_>,
    key: GroupKey,
    subjects: &[&Subject],
    groups: &BTreeMap<GroupKey, PodGroup>,
    findings: &mut Vec<Finding>,
) {
    if place.snapshot().nodes().is_empty() {
        return;
    }
    let tables = place.tables();
    let name = tables.text(key.name);
    let others = groups.keys().filter(|other| other.namespace == key.namespace);
    let meant = nearest(name, others.map(|other| tables.text(other.name))).map(str::to_owned);
    for subject in subjects {
        let message = format!("PodGroup {name} does not exist in the namespace, and its members wait for it");
        let field = "spec.schedulingGroup.podGroupName";
        let finding = of_subject(subject, Rule::PodGroupMissing, field, message);
        findings.push(Finding { did_you_mean: meant.clone(), ..finding });
    }
}

/// Checks that all members have the same scheduler, since a group with several is refused.
fn scheduler_names(place: &Place<'_>, subjects: &[&Subject], findings: &mut Vec<Finding>) {
    let tables = place.tables();
    let names: BTreeSet<&str> =
        subjects.iter().map(|subject| tables.text(subject.pod.scheduler_name)).collect();
    if names.len() < 2 {
        return;
    }
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    for subject in subjects {
        let message =
            format!("the members of its pod group have different schedulers ({names}): none is scheduled");
        findings.push(of_subject(subject, Rule::PodGroupSchedulersDiffer, "spec.schedulerName", message));
    }
}

fn topology_key(place: &Place<'_>, group: &PodGroup, findings: &mut Vec<Finding>) {
    let snapshot = place.snapshot();
    let key = group.topology.as_ref().and_then(|keys| keys.first().copied());
    let Some(key) = key.filter(|_| place.tables().rules().groups.topology) else { return };
    let field = "spec.schedulingConstraints.topology";
    let hint = of_key(field, key, place.tables(), &Vocabulary::of_nodes(snapshot));
    if let Some(hint) = hint.filter(|_| !snapshot.nodes().is_empty()) {
        let message = format!("{}, so the group has no topology domain", hint.text);
        findings.push(of_group(place, group, Rule::TopologyKeyUnknown, field, message, hint.did_you_mean));
    }
}

/// Checks the number of the members, their priorities, and whether enough of them fit in an empty cluster.
fn members(
    place: &mut Place<'_>,
    group: &PodGroup,
    subjects: &[&Subject],
    earlier: &[Finding],
    findings: &mut Vec<Finding>,
) {
    priorities(place, group, subjects, findings);
    let GroupPolicy::Gang(min) = group.policy else { return };
    // The pods of other controllers may come later.
    let is_complete = |subject: &&Subject| !subject.prefix.is_empty() || subject.kind == "Pod";
    let replicas: Option<usize> = subjects.iter().map(|subject| subject.replicas).sum();
    let Some(replicas) = replicas.filter(|_| subjects.iter().all(is_complete)) else { return };
    let field = "spec.schedulingPolicy.gang.minCount";
    if replicas < min {
        let members = count(replicas, "member");
        let message = format!(
            "minCount is {min}, and the pods and workloads that name the group make {members}: it never starts"
        );
        findings.push(of_group(place, group, Rule::PodGroupTooFewMembers, field, message, None));
        return;
    }
    let is_hopeless = |subject: &&Subject| {
        let of = (&subject.kind, &subject.namespace, &subject.name);
        earlier.iter().any(|it| it.severity == Severity::Error && (&it.kind, &it.namespace, &it.name) == of)
    };
    let is_unclear = |subject: &&Subject| is_hopeless(subject) || needs_others(&subject.pod);
    let has_nodes = !place.snapshot().nodes().is_empty();
    if subjects.iter().any(is_unclear) || replicas > MEMBERS_MAX || !has_nodes {
        return;
    }
    if let Some(fits) = fits_at_most(place, group, subjects).filter(|&fits| fits < min) {
        let one = match group.topology.as_ref().filter(|_| place.tables().rules().groups.topology) {
            Some(_) => " in one topology domain",
            None => "",
        };
        let members = count(fits, "member");
        let message = format!(
            "minCount is {min}, and even in an empty cluster only {members} fit{one}: it never starts"
        );
        findings.push(of_group(place, group, Rule::PodGroupNeverFits, field, message, None));
    }
}

/// Returns whether a pod needs objects or pods that an empty cluster may lack.
fn needs_others(pod: &PodInfo) -> bool {
    let terms = pod.pod_affinity.as_ref().map(|affinity| &affinity.required_affinity);
    let has_affinity = terms.is_some_and(|terms| terms.as_ref().map_or(true, |terms| !terms.is_empty()));
    has_affinity || !pod.volumes.is_empty() || !pod.claims.is_empty()
}

/// Returns the number of members that fit in the empty cluster; `None` if enough of them do, or if the decision fails.
fn fits_at_most(place: &mut Place<'_>, group: &PodGroup, subjects: &[&Subject]) -> Option<usize> {
    let mut all: Vec<Arc<PodInfo>> = Vec::new();
    for subject in subjects {
        for number in 0..subject.replicas.unwrap_or_default() {
            let mut member = copy(place, &subject.pod, number, 0);
            member.gates = Box::default();
            all.push(Arc::new(member));
        }
    }
    place.when_empty(|place| {
        let decided = decide(place, group.key, &all, false);
        (decided.outcome == GroupOutcome::Unschedulable).then(|| most(&decided))
    })
}

/// Checks the priorities of the members. From 1.37 on, they must be that of the group; before, the group's priority
/// counts as soon as preemption judges them.
fn priorities(place: &Place<'_>, group: &PodGroup, subjects: &[&Subject], findings: &mut Vec<Finding>) {
    let mut all: BTreeSet<i32> = subjects.iter().map(|subject| subject.pod.priority).collect();
    // 0 may be the priority of a class that the API server has not looked up yet.
    if group.priority != 0 {
        all.insert(group.priority);
    }
    if all.len() < 2 {
        return;
    }
    let listed = all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let (severity, effect) = match group.api {
        GroupApi::V1Alpha2 => (Severity::Warning, "kube-scheduler 1.37 refuses such groups"),
        GroupApi::V1Beta1 => (Severity::Error, "kube-scheduler refuses the group"),
    };
    let message = format!("the group and its members have different priorities ({listed}): {effect}");
    let finding = of_group(place, group, Rule::PodGroupPrioritiesDiffer, "spec.priority", message, None);
    findings.push(Finding { severity, ..finding });
}
