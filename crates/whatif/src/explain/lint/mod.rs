//! Finds parts of pods and workloads that match nothing in the cluster or can never be satisfied, without scheduling.
//!
//! Only what is written is checked, not how full the nodes are, so findings stay valid over time. In doubt a rule
//! reports nothing.

mod devices;
mod groups;
mod nodes;
mod pods;
mod rule;
mod spread;
mod volumes;

pub use groups::lint_groups;
pub use rule::{Rule, Severity};

use crate::explain::answer::{API_VERSION, Hint};
use crate::explain::suggest::{Vocabulary, of_requirement};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use supercargo_core::cache::Snapshot;
use supercargo_core::collections::shared::Shared;
use supercargo_core::model::intern::{LabelSetId, Symbol, Tables};
use supercargo_core::model::node::{NodeIdx, Taint};
use supercargo_core::model::pod::{PodAffinityTerm, PodInfo, Toleration};
use supercargo_core::model::resources::Resources;
use supercargo_core::model::selector::{RequiredNodeAffinity, Requirement, Selector};

/// `kind` of the report.
const KIND: &str = "LintReport";
/// Key prefix of taints that come and go with a node's state.
const PASSING_TAINTS: &str = "node.kubernetes.io/";

/// The findings.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LintReport {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// `LintReport`.
    pub kind: &'static str,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of workloads, and of pods without a workload, that were checked.
    pub judged: usize,
    /// The findings, most severe first, then by object.
    pub findings: Vec<Finding>,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The object's namespace.
    pub namespace: String,
    /// The object's kind.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// The rule.
    pub rule: Rule,
    /// The field.
    pub field: String,
    /// The problem and its consequence.
    pub message: String,
    /// An existing name that was probably meant.
    pub did_you_mean: Option<String>,
}

impl Finding {
    /// `Kind namespace/name`, or `Kind name` for an object without namespace.
    pub fn object(&self) -> String {
        match self.namespace.as_str() {
            "" => format!("{} {}", self.kind, self.name),
            namespace => format!("{} {namespace}/{}", self.kind, self.name),
        }
    }
}

/// A workload, or a group of equal pods without one.
#[derive(Clone, Debug)]
pub struct Subject {
    /// `Deployment`, `Pod`, ...
    pub kind: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// One of its pods, or a pod from its template.
    pub pod: Arc<PodInfo>,
    /// Number of replicas; `None` if unspecified or one per node.
    pub replicas: Option<usize>,
    /// Number of surplus pods during a rollout; 0 if it removes old pods first.
    pub surge: usize,
    /// Path prefix of the pod in the object: `spec.template.`, or empty for a pod.
    pub prefix: &'static str,
    /// Whether pods must still be scheduled. If all run already, errors are reported as warnings.
    pub is_to_come: bool,
    /// A PriorityClass that the subject names and that does not exist.
    pub missing_class: Option<String>,
    /// Name and StorageClass of each claim template of a StatefulSet; the class is empty if not set.
    pub claim_templates: Vec<(String, String)>,
    /// ResourceClaimTemplates that the subject names and that do not exist.
    pub missing_claim_templates: Vec<String>,
}

/// Checks `subjects`, and the disruption budgets of the cluster. `pending` are the cluster's pending pods, and
/// `schedulers` the names of known schedulers.
pub fn lint(
    snapshot: Snapshot<'_>,
    pending: &[Arc<PodInfo>],
    subjects: &[Subject],
    schedulers: &[String],
) -> LintReport {
    let index = ClusterIndex::new(snapshot, pending, subjects);
    let mut findings = Vec::new();
    for subject in subjects {
        let mut linted = Linted { index: &index, subject, findings: &mut findings };
        nodes::judge(&mut linted);
        pods::judge(&mut linted);
        spread::judge(&mut linted);
        volumes::judge(&mut linted);
        devices::judge(&mut linted);
        class(&mut linted);
        scheduler(&mut linted, schedulers);
    }
    index.budgets(&mut findings);
    index.classes(&mut findings);
    findings.sort();
    findings.dedup();
    LintReport {
        api_version: API_VERSION,
        kind: KIND,
        nodes: snapshot.nodes().len(),
        judged: subjects.len(),
        findings,
    }
}

/// Checks the PriorityClass. If it does not exist, the API server rejects the pods.
fn class(linted: &mut Linted<'_, '_>) {
    if let Some(name) = &linted.subject.missing_class {
        let message =
            format!("PriorityClass {name} does not exist: the API server rejects pods that name it");
        linted.add(Rule::PriorityClassMissing, "spec.priorityClassName", message, None);
    }
}

/// Checks the scheduler name. Running schedulers are unknown, so only names close to a known one are reported.
fn scheduler(linted: &mut Linted<'_, '_>, known: &[String]) {
    let name = linted.index.snapshot.text(linted.subject.pod.scheduler_name);
    if name.is_empty() || known.iter().any(|other| other == name) {
        return;
    }
    if let Some(meant) = supercargo_config::yaml::nearest(name, known.iter().map(String::as_str)) {
        let message = format!(
            "no scheduled pod uses the scheduler {name}: it may not exist, and these pods stay pending"
        );
        let meant = Some(meant.to_owned());
        linted.add(Rule::SchedulerNameMisspelt, "spec.schedulerName", message, meant);
    }
}

/// Collects the findings about one subject.
struct Linted<'h, 's> {
    index: &'h ClusterIndex<'s>,
    subject: &'h Subject,
    findings: &'h mut Vec<Finding>,
}

impl<'s> Linted<'_, 's> {
    /// Adds a finding about a field of the pod.
    fn add(&mut self, rule: Rule, field: &str, message: String, did_you_mean: Option<String>) {
        self.add_as(rule, rule.severity(), field, message, did_you_mean);
    }

    /// Adds a finding with another severity than the rule's default.
    fn add_as(
        &mut self,
        rule: Rule,
        severity: Severity,
        field: &str,
        message: String,
        did_you_mean: Option<String>,
    ) {
        let field = format!("{}{field}", self.subject.prefix);
        self.add_to_object(rule, severity, field, message, did_you_mean);
    }

    /// Adds a finding about a field of the object.
    fn add_to_object(
        &mut self,
        rule: Rule,
        severity: Severity,
        field: String,
        message: String,
        did_you_mean: Option<String>,
    ) {
        let severity = if self.subject.is_to_come { severity } else { severity.max(Severity::Warning) };
        self.findings.push(Finding {
            severity,
            namespace: self.subject.namespace.clone(),
            kind: self.subject.kind.clone(),
            name: self.subject.name.clone(),
            rule,
            field,
            message,
            did_you_mean,
        });
    }

    fn snapshot(&self) -> Snapshot<'s> {
        self.index.snapshot
    }

    fn tables(&self) -> &'s Tables {
        self.index.snapshot.tables()
    }
}

/// The content of the cluster: nodes, pods and their labels, with cached answers.
struct ClusterIndex<'s> {
    snapshot: Snapshot<'s>,
    nodes: Vocabulary,
    pods: Vocabulary,
    /// Labels of all existing and future pods, by namespace.
    labels: BTreeMap<Symbol, BTreeSet<LabelSetId>>,
    /// All taints of all nodes.
    taints: Vec<Taint>,
    allowed: Known<RequiredNodeAffinity, Rc<[NodeIdx]>>,
    open: Known<Demands, Rc<[NodeIdx]>>,
    homes: Known<(Demands, Resources), Rc<[NodeIdx]>>,
    matched: Known<(Symbol, PodAffinityTerm), bool>,
    hints: Known<(bool, Requirement), Option<Hint>>,
    selections: RefCell<devices::Selections>,
}

/// A cache of answers.
type Known<K, V> = RefCell<HashMap<K, V>>;
/// The constant requirements of a pod on nodes: required affinity and tolerations.
type Demands = (Shared<RequiredNodeAffinity>, Box<[Toleration]>);

impl<'s> ClusterIndex<'s> {
    fn new(snapshot: Snapshot<'s>, pending: &[Arc<PodInfo>], subjects: &[Subject]) -> Self {
        let mut to_come: Vec<Arc<PodInfo>> = pending.to_vec();
        to_come.extend(subjects.iter().map(|subject| Arc::clone(&subject.pod)));
        let mut labels: BTreeMap<Symbol, BTreeSet<LabelSetId>> = BTreeMap::new();
        let kinds = snapshot.pod_classes().map(|kind| kind.pod());
        for pod in kinds.chain(to_come.iter().map(AsRef::as_ref)) {
            labels.entry(pod.namespace).or_default().insert(pod.labels);
        }
        let taints: BTreeSet<_> =
            snapshot.nodes().iter().map(|node| snapshot.node_info(node).taints).collect();
        Self {
            snapshot,
            nodes: Vocabulary::of_nodes(snapshot),
            pods: Vocabulary::of_pods(snapshot, &to_come),
            labels,
            taints: taints.into_iter().flat_map(|set| snapshot.tables().taints(set)).copied().collect(),
            allowed: RefCell::default(),
            open: RefCell::default(),
            homes: RefCell::default(),
            matched: RefCell::default(),
            hints: RefCell::default(),
            selections: RefCell::default(),
        }
    }

    /// Returns a hint if a requirement matches the labels of no node.
    fn node_hint(&self, of: &Requirement) -> Option<Hint> {
        self.hint(true, of)
    }

    /// Returns a hint if a requirement matches the labels of no pod.
    fn pod_hint(&self, of: &Requirement) -> Option<Hint> {
        self.hint(false, of)
    }

    fn hint(&self, is_of_nodes: bool, of: &Requirement) -> Option<Hint> {
        let key = (is_of_nodes, of.clone());
        if let Some(known) = self.hints.borrow().get(&key) {
            return known.clone();
        }
        let (whose, known) = if is_of_nodes { ("node", &self.nodes) } else { ("pod", &self.pods) };
        let hint = of_requirement("", whose, of, self.snapshot.tables(), known);
        self.hints.borrow_mut().insert(key, hint.clone());
        hint
    }

    /// Returns the nodes that match a required node affinity.
    fn allowed(&self, by: &RequiredNodeAffinity) -> Rc<[NodeIdx]> {
        if let Some(known) = self.allowed.borrow().get(by) {
            return Rc::clone(known);
        }
        let (snapshot, tables) = (self.snapshot, self.snapshot.tables());
        let matches =
            |&node: &NodeIdx| by.matches(tables, snapshot.node_info(node).name, snapshot.node_labels(node));
        let nodes: Rc<[NodeIdx]> = snapshot.nodes().iter().filter(matches).collect();
        self.allowed.borrow_mut().insert(by.clone(), Rc::clone(&nodes));
        nodes
    }

    /// Returns the first permanent taint of a node that rejects new pods and is not tolerated.
    fn repelled(&self, node: NodeIdx, pod: &PodInfo) -> Option<&'s Taint> {
        let tables = self.snapshot.tables();
        let taints = tables.taints(self.snapshot.node_info(node).taints);
        taints.iter().find(|taint| {
            taint.keeps_out(&pod.tolerations) && !tables.text(taint.key).starts_with(PASSING_TAINTS)
        })
    }

    /// Returns the nodes that selectors and permanent taints allow for a pod.
    fn open_to(&self, pod: &PodInfo) -> Rc<[NodeIdx]> {
        let key = (pod.node_affinity.clone(), pod.tolerations.clone());
        if let Some(known) = self.open.borrow().get(&key) {
            return Rc::clone(known);
        }
        let allowed = self.allowed(&pod.node_affinity);
        let open = allowed.iter().copied().filter(|&node| self.repelled(node, pod).is_none());
        let open: Rc<[NodeIdx]> = open.collect();
        self.open.borrow_mut().insert(key, Rc::clone(&open));
        open
    }

    /// Returns the nodes of [`Self::open_to`] that are large enough for one pod.
    fn homes_of(&self, pod: &PodInfo) -> Rc<[NodeIdx]> {
        let demands = (pod.node_affinity.clone(), pod.tolerations.clone());
        let key = (demands, pod.resources.request.clone());
        if let Some(known) = self.homes.borrow().get(&key) {
            return Rc::clone(known);
        }
        let open = self.open_to(pod);
        let large = |&node: &NodeIdx| nodes::is_large_enough(self.snapshot, node, pod);
        let homes: Rc<[NodeIdx]> = open.iter().copied().filter(large).collect();
        self.homes.borrow_mut().insert(key, Rc::clone(&homes));
        homes
    }

    /// Returns whether a term selects pods with this namespace and labels.
    fn means(&self, term: &PodAffinityTerm, namespace: Symbol, labels: LabelSetId) -> bool {
        self.covers(term, namespace)
            && term.selector.matches(self.snapshot.tables(), self.snapshot.labels(labels))
    }

    fn covers(&self, term: &PodAffinityTerm, namespace: Symbol) -> bool {
        let by_labels = || {
            let labels = self.snapshot.namespace_labels(namespace);
            match labels {
                Some(labels) => term.namespace_selector.matches(self.snapshot.tables(), labels),
                None => term.namespace_selector.is_empty(),
            }
        };
        term.namespaces.contains(&namespace) || by_labels()
    }

    /// Returns whether a term of a pod selects any existing or future pod, including the pod itself.
    fn has_any(&self, term: &PodAffinityTerm, pod: &PodInfo) -> bool {
        if self.means(term, pod.namespace, pod.labels) {
            return true;
        }
        let key = (pod.namespace, term.clone());
        if let Some(&known) = self.matched.borrow().get(&key) {
            return known;
        }
        let tables = self.snapshot.tables();
        let of = |sets: &BTreeSet<LabelSetId>| {
            sets.iter().any(|&set| term.selector.matches(tables, self.snapshot.labels(set)))
        };
        let any = self.labels.iter().any(|(&namespace, sets)| self.covers(term, namespace) && of(sets));
        self.matched.borrow_mut().insert(key, any);
        any
    }

    /// Returns whether a selector selects any pod of a namespace.
    fn has_any_in(&self, namespace: Symbol, selector: &Selector) -> bool {
        let sets = self.labels.get(&namespace).into_iter().flatten();
        let tables = self.snapshot.tables();
        sets.into_iter().any(|&set| selector.matches(tables, self.snapshot.labels(set)))
    }

    /// Adds findings for disruption budgets that select no pod.
    fn budgets(&self, findings: &mut Vec<Finding>) {
        let (tables, lookups) = (self.snapshot.tables(), self.snapshot.lookups());
        let namespaces: BTreeSet<Symbol> = lookups.disruption_budget_keys().map(|(of, _)| of).collect();
        for namespace in namespaces {
            let names = lookups.disruption_budget_keys().filter(|&(of, _)| of == namespace);
            for ((_, name), budget) in names.zip(lookups.disruption_budgets(namespace)) {
                if self.has_any_in(namespace, &budget.selector) {
                    continue;
                }
                let selector = crate::explain::format::selector(tables, &budget.selector);
                findings.push(Finding {
                    severity: Rule::BudgetSelectsNoPod.severity(),
                    namespace: tables.text(namespace).to_owned(),
                    kind: "PodDisruptionBudget".to_owned(),
                    name: tables.text(name).to_owned(),
                    rule: Rule::BudgetSelectsNoPod,
                    field: "spec.selector".to_owned(),
                    message: format!("no pod in the namespace has {selector}: the budget protects no pod"),
                    did_you_mean: pods::meant(self, &budget.selector),
                });
            }
        }
    }
}
