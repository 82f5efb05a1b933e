//! Collects the objects to lint: each workload once by its pod template, and pods without a known workload, grouped
//! by owner and equal spec.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use supercargo_core::cache::Snapshot;
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::pod::PodInfo;
use supercargo_whatif::explain::lint::Subject;
use supercargo_whatif::prepare::owners::{OwnedPod, Owners, Workload};

/// Maximum number of groups per owner. Pods that differ from all of them join the last group.
const DIFFERENT_MAX: usize = 16;

/// Returns the subjects of a cluster, workloads first.
pub(super) fn of(owners: &Owners, snapshot: Snapshot<'_>) -> Vec<Subject> {
    let busy = owners.workloads.iter().filter(|workload| workload.replicas != Some(0));
    let mut subjects: Vec<Subject> = busy.filter_map(of_workload).collect();
    let judged: BTreeSet<(&str, &str, &str)> = owners.workloads.iter().map(place).collect();
    let mut groups: BTreeMap<(Symbol, &str, &str), Vec<Group<'_>>> = BTreeMap::new();
    for noted in owners.pods.iter().filter(|noted| !noted.is_of_its_node()) {
        let namespace = noted.pod.namespace;
        let (kind, name) = match &noted.owner {
            Some(owner) => (&*owner.kind, &*owner.name),
            None => ("Pod", &*noted.pod.name),
        };
        if judged.contains(&(kind, snapshot.text(namespace), name)) {
            continue;
        }
        let groups = groups.entry((namespace, kind, name)).or_default();
        let is_full = groups.len() >= DIFFERENT_MAX;
        let at = groups.iter().position(|group| is_alike(&group.first.pod, &noted.pod));
        match at.or(is_full.then_some(DIFFERENT_MAX - 1)) {
            Some(at) => groups[at].add(noted),
            None => groups.push(Group { first: noted, pods: 1, waits: noted.pod.node_name.is_none() }),
        }
    }
    for ((namespace, kind, name), groups) in groups {
        let namespace = snapshot.text(namespace);
        subjects.extend(groups.into_iter().map(|group| group.subject(namespace, kind, name)));
    }
    subjects
}

fn place(workload: &Workload) -> (&str, &str, &str) {
    (&workload.kind, &workload.namespace, &workload.name)
}

fn of_workload(workload: &Workload) -> Option<Subject> {
    Some(Subject {
        kind: workload.kind.clone(),
        namespace: workload.namespace.clone(),
        name: workload.name.clone(),
        pod: Arc::clone(workload.pod.as_ref()?),
        replicas: workload.replicas,
        surge: workload.surge,
        prefix: workload.prefix,
        is_to_come: true,
        missing_class: workload.missing_class.clone(),
        claim_templates: workload.claim_templates.clone(),
        missing_claim_templates: workload.missing_claim_templates.clone(),
    })
}

struct Group<'c> {
    first: &'c OwnedPod,
    pods: usize,
    waits: bool,
}

impl Group<'_> {
    fn add(&mut self, noted: &OwnedPod) {
        self.pods += 1;
        self.waits |= noted.pod.node_name.is_none();
    }

    fn subject(self, namespace: &str, kind: &str, name: &str) -> Subject {
        Subject {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            pod: Arc::clone(&self.first.pod),
            replicas: Some(self.pods),
            surge: 0,
            prefix: "",
            is_to_come: self.waits,
            missing_class: None,
            claim_templates: Vec::new(),
            missing_claim_templates: Vec::new(),
        }
    }
}

/// Returns whether two pods have the same scheduling requirements.
fn is_alike(a: &PodInfo, b: &PodInfo) -> bool {
    a.node_affinity == b.node_affinity
        && a.preferred_node_affinity == b.preferred_node_affinity
        && a.pod_affinity == b.pod_affinity
        && a.spread == b.spread
        && a.tolerations == b.tolerations
        && a.resources.request == b.resources.request
        && a.volumes == b.volumes
        && a.claims.len() == b.claims.len()
        && a.scheduler_name == b.scheduler_name
        && a.group_key() == b.group_key()
        && (a.group.is_none() || a.priority == b.priority)
}
