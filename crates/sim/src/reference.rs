//! The reference: feasible nodes by the definitions of the Kubernetes API, regardless of cost.
//!
//! It shares no code with the engine's plugins, not even the matching of selectors, so that it can judge them.
//! It knows only the hard rules: no scores, no nominations, no reasons in upstream's words.

use std::sync::Arc;
use supercargo_core::cache::Snapshot;
use supercargo_core::model::intern::{LabelSetId, Symbol, Tables, known};
use supercargo_core::model::node::{NodeInfo, Taint, TaintEffect};
use supercargo_core::model::pod::{
    HostPort, PodAffinityTerm, PodInfo, SpreadConstraint, Toleration, TolerationOperator, WhenUnsatisfiable,
};
use supercargo_core::model::selector::{NodeSelectorTerm, Operator, Requirement, Selector};

mod devices;
mod storage;
#[cfg(test)]
mod tests;

pub use devices::{Devices, Taken};
pub use storage::Storage;

/// A view of the cluster at one moment.
pub struct ReferenceCluster<'a> {
    tables: &'a Tables,
    nodes: Vec<&'a NodeInfo>,
    /// Pods with the nodes on which they count. All these nodes exist.
    pods: Vec<(&'a PodInfo, &'a NodeInfo)>,
    namespaces: Vec<(Symbol, LabelSetId)>,
    storage: Arc<Storage>,
    devices: Arc<Devices>,
}

impl<'a> ReferenceCluster<'a> {
    /// Creates the view that an engine has.
    pub fn seen_by(snapshot: Snapshot<'a>) -> Self {
        let nodes: Vec<_> = snapshot.nodes().iter().collect();
        let pods = nodes
            .iter()
            .flat_map(|&idx| snapshot.pods_on(idx).map(move |pod| (pod, snapshot.node_info(idx))));
        Self {
            tables: snapshot.tables(),
            pods: pods.collect(),
            nodes: nodes.iter().map(|&idx| snapshot.node_info(idx)).collect(),
            namespaces: snapshot.lookups().namespaces().collect(),
            storage: Arc::default(),
            devices: Arc::default(),
        }
    }

    /// Creates a view from nodes and from pods with the names of their nodes. Pods on missing nodes do not
    /// count.
    pub fn new(
        tables: &'a Tables,
        nodes: Vec<&'a NodeInfo>,
        pods: impl IntoIterator<Item = (&'a PodInfo, Symbol)>,
        namespaces: Vec<(Symbol, LabelSetId)>,
    ) -> Self {
        let on = |(pod, name)| Some((pod, *nodes.iter().find(|node| node.name == name)?));
        let pods = pods.into_iter().filter_map(on).collect();
        Self { tables, nodes, pods, namespaces, storage: Arc::default(), devices: Arc::default() }
    }

    /// Adds these claims and volumes; without this call there are none.
    #[must_use]
    pub fn with_storage(mut self, storage: Arc<Storage>) -> Self {
        self.storage = storage;
        self
    }

    /// Adds these claims of devices and slices; without this call there are none.
    #[must_use]
    pub fn with_devices(mut self, devices: Arc<Devices>) -> Self {
        self.devices = devices;
        self
    }

    /// Removes one pod.
    #[must_use]
    pub fn without(mut self, uid: &str) -> Self {
        self.pods.retain(|(pod, _)| *pod.uid != *uid);
        self
    }

    /// Adds a pod on the node of this name, if the node exists.
    #[must_use]
    pub fn with(mut self, pod: &'a PodInfo, node: Symbol) -> Self {
        self.pods.extend(self.nodes.iter().find(|n| n.name == node).map(|&node| (pod, node)));
        self
    }

    /// Removes the pods on one node for which `go` returns true.
    #[must_use]
    pub fn without_on(mut self, node: Symbol, go: impl Fn(&PodInfo) -> bool) -> Self {
        self.pods.retain(|(pod, on)| on.name != node || !go(pod));
        self
    }

    /// Returns the names of all nodes.
    pub fn node_names(&self) -> Vec<Symbol> {
        self.nodes.iter().map(|node| node.name).collect()
    }

    /// Returns the names of the feasible nodes for `pod`. The view must not contain the pod.
    pub fn feasible(&self, pod: &PodInfo) -> Vec<Symbol> {
        let spread = self.spread_counts(pod);
        let takes = |node: &&&NodeInfo| self.rejection_reason_with(pod, node, &spread).is_none();
        self.nodes.iter().filter(takes).map(|node| node.name).collect()
    }

    /// Returns why the node is infeasible for `pod`, or `None` if it is feasible. The view must not contain the
    /// pod.
    pub fn rejection_reason(&self, pod: &PodInfo, node: Symbol) -> Option<String> {
        let Some(node) = self.nodes.iter().find(|n| n.name == node) else {
            return Some("node not found".to_owned());
        };
        self.rejection_reason_with(pod, node, &self.spread_counts(pod))
    }

    /// Like [`Self::rejection_reason`], for the rules that read only the node and its pods.
    pub fn local_rejection_reason(&self, pod: &PodInfo, node: Symbol) -> Option<String> {
        let Some(node) = self.nodes.iter().find(|n| n.name == node) else {
            return Some("node not found".to_owned());
        };
        self.of_node(pod, node).or_else(|| self.of_room(pod, node)).or_else(|| self.of_ports(pod, node))
    }

    /// Like [`Self::rejection_reason`], for the rules about the pod's claims.
    pub fn storage_rejection_reason(&self, pod: &PodInfo, node: Symbol) -> Option<String> {
        let node = self.nodes.iter().find(|n| n.name == node)?;
        self.of_storage(pod, node)
    }

    fn rejection_reason_with(&self, pod: &PodInfo, node: &NodeInfo, spread: &[Domains]) -> Option<String> {
        self.of_node(pod, node)
            .or_else(|| self.of_room(pod, node))
            .or_else(|| self.of_ports(pod, node))
            .or_else(|| self.of_affinity(pod, node))
            .or_else(|| self.of_spread(pod, node, spread))
            .or_else(|| self.of_storage(pod, node))
            .or_else(|| self.of_limits(pod, node))
            .or_else(|| self.of_devices(pod, node))
    }

    fn label(&self, labels: LabelSetId, key: Symbol) -> Option<Symbol> {
        self.tables.labels(labels).iter().find(|&(k, _)| k == key).map(|(_, value)| value)
    }

    // --- rules about the node alone

    fn of_node(&self, pod: &PodInfo, node: &NodeInfo) -> Option<String> {
        let cordon =
            Taint { key: known::UNSCHEDULABLE, value: known::EMPTY, effect: TaintEffect::NoSchedule };
        if node.unschedulable && !tolerated(&cordon, &pod.tolerations) {
            return Some("cordoned".to_owned());
        }
        if self.repels(pod, node) {
            return Some("untolerated taint".to_owned());
        }
        (!self.affinity_allows(pod, node)).then(|| "node affinity does not match".to_owned())
    }

    fn repels(&self, pod: &PodInfo, node: &NodeInfo) -> bool {
        self.tables.taints(node.taints).iter().any(|taint| {
            matches!(taint.effect, TaintEffect::NoSchedule | TaintEffect::NoExecute)
                && !tolerated(taint, &pod.tolerations)
        })
    }

    fn affinity_allows(&self, pod: &PodInfo, node: &NodeInfo) -> bool {
        let wanted = &pod.node_affinity;
        let selected = wanted.node_selector.as_deref().unwrap_or_default();
        selected.iter().all(|&(key, value)| self.label(node.labels, key) == Some(value))
            && wanted.terms.as_deref().is_none_or(|terms| terms.iter().any(|t| self.term_allows(t, node)))
    }

    fn term_allows(&self, term: &NodeSelectorTerm, node: &NodeInfo) -> bool {
        term.demands.as_ref().is_some_and(|demands| {
            demands.labels.iter().all(|r| self.requirement_holds(r, node.labels))
                && demands.names.iter().all(|&(name, differs)| (name == node.name) != differs)
        })
    }

    fn requirement_holds(&self, requirement: &Requirement, labels: LabelSetId) -> bool {
        let value = self.label(labels, requirement.key);
        let number = || value.and_then(|v| self.tables.text(v).parse::<i64>().ok());
        match &requirement.operator {
            Operator::In(values) => value.is_some_and(|v| values.contains(&v)),
            Operator::NotIn(values) => !value.is_some_and(|v| values.contains(&v)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt(bound) => number().is_some_and(|n| n > *bound),
            Operator::Lt(bound) => number().is_some_and(|n| n < *bound),
        }
    }

    fn selects(&self, selector: &Selector, labels: LabelSetId) -> bool {
        match selector {
            Selector::Nothing => false,
            Selector::All(requirements) => requirements.iter().all(|r| self.requirement_holds(r, labels)),
        }
    }

    // --- resources and host ports in use

    fn pods_on(&self, node: &NodeInfo) -> impl Iterator<Item = &'a PodInfo> {
        let name = node.name;
        self.pods.iter().filter(move |(_, on)| on.name == name).map(|&(pod, _)| pod)
    }

    fn of_room(&self, pod: &PodInfo, node: &NodeInfo) -> Option<String> {
        let (wanted, has) = (&pod.resources.request, &node.allocatable);
        let count = self.pods_on(node).count() as i64;
        if count + 1 > node.allocatable_pods {
            return Some(format!("{count} pods are there and {} may be", node.allocatable_pods));
        }
        let short = |what: &str, wanted: i64, has: i64, amount: &dyn Fn(&PodInfo) -> i64| {
            let taken: i64 = self.pods_on(node).map(amount).sum();
            (wanted > 0 && taken + wanted > has)
                .then(|| format!("{what}: {taken} of {has} is taken and {wanted} is wanted"))
        };
        short("cpu", wanted.cpu_milli, has.cpu_milli, &|p| p.resources.placed.cpu_milli)
            .or_else(|| short("memory", wanted.memory, has.memory, &|p| p.resources.placed.memory))
            .or_else(|| {
                let amount = |p: &PodInfo| p.resources.placed.ephemeral_storage;
                short("ephemeral storage", wanted.ephemeral_storage, has.ephemeral_storage, &amount)
            })
            .or_else(|| {
                wanted.scalar.iter().filter(|&&(name, _)| !self.is_of_class(name)).find_map(
                    |&(name, wanted)| {
                        let amount = |p: &PodInfo| p.resources.placed.scalar(name).unwrap_or(0);
                        short(self.tables.text(name), wanted, has.scalar(name).unwrap_or(0), &amount)
                    },
                )
            })
    }

    fn of_ports(&self, pod: &PodInfo, node: &NodeInfo) -> Option<String> {
        let taken = |port: &HostPort| {
            self.pods_on(node).any(|other| other.ports.iter().any(|used| collide(port, used)))
        };
        pod.ports.iter().find(|port| taken(port)).map(|port| format!("host port {} is in use", port.port))
    }

    // --- affinity between pods

    /// Whether a pod's term matches `other`.
    fn means(&self, term: &PodAffinityTerm, other: &PodInfo) -> bool {
        let by_selector = || {
            let labels = self.namespaces.iter().find(|&&(name, _)| name == other.namespace);
            match (&term.namespace_selector, labels) {
                (selector, Some(&(_, labels))) => self.selects(selector, labels),
                (Selector::All(requirements), None) => requirements.is_empty(),
                (Selector::Nothing, None) => false,
            }
        };
        (term.namespaces.contains(&other.namespace) || by_selector())
            && self.selects(&term.selector, other.labels)
    }

    fn same_domain(&self, key: Symbol, a: &NodeInfo, b: &NodeInfo) -> bool {
        let value = self.label(a.labels, key);
        value.is_some() && value == self.label(b.labels, key)
    }

    fn of_affinity(&self, pod: &PodInfo, node: &NodeInfo) -> Option<String> {
        for &(other, on) in &self.pods {
            let near = |term: &&PodAffinityTerm| self.same_domain(term.topology_key, node, on);
            if anti_affinity(pod).iter().filter(near).any(|term| self.means(term, other)) {
                return Some(format!("anti-affinity with {}", other.uid));
            }
            if anti_affinity(other).iter().filter(near).any(|term| self.means(term, pod)) {
                return Some(format!("{} keeps it away", other.uid));
            }
        }
        let terms = affinity(pod);
        if terms.is_empty() {
            return None;
        }
        if terms.iter().any(|term| self.label(node.labels, term.topology_key).is_none()) {
            return Some("the node has no domain of a required affinity term".to_owned());
        }
        let all_mean = |other: &PodInfo| terms.iter().all(|term| self.means(term, other));
        let peers: Vec<_> = self.pods.iter().filter(|(other, _)| all_mean(other)).collect();
        let met = |term: &PodAffinityTerm| {
            peers.iter().any(|(_, on)| self.same_domain(term.topology_key, node, on))
        };
        // A peer counts if its node has the topology key of any term.
        let in_a_domain =
            |on: &NodeInfo| terms.iter().any(|term| self.label(on.labels, term.topology_key).is_some());
        let first_of_its_kind = all_mean(pod) && !peers.iter().any(|(_, on)| in_a_domain(on));
        (!terms.iter().all(met) && !first_of_its_kind)
            .then(|| "no pod matches required affinity in the domain".to_owned())
    }

    // --- spreading

    fn spread_counts(&self, pod: &PodInfo) -> Vec<Domains> {
        let constraints: Vec<_> = hard_constraints(pod).collect();
        let has_all_keys = |node: &NodeInfo| {
            constraints.iter().all(|(c, _)| self.label(node.labels, c.topology_key).is_some())
        };
        let count = |constraint: &SpreadConstraint, selector: &Selector| {
            let mut domains = Domains::default();
            for node in self.nodes.iter().filter(|node| has_all_keys(node)) {
                let excluded = constraint.honor_node_affinity && !self.affinity_allows(pod, node)
                    || constraint.honor_node_taints && self.repels(pod, node);
                if excluded {
                    continue;
                }
                let counts = |other: &&PodInfo| {
                    other.namespace == pod.namespace
                        && !other.deleting
                        && self.selects(selector, other.labels)
                };
                let here = self.pods_on(node).filter(counts).count();
                let domain = self.label(node.labels, constraint.topology_key);
                domains.add(domain.expect("the node has the keys of all constraints"), here);
            }
            domains
        };
        constraints.iter().map(|(constraint, selector)| count(constraint, selector)).collect()
    }

    fn of_spread(&self, pod: &PodInfo, node: &NodeInfo, counts: &[Domains]) -> Option<String> {
        for ((constraint, selector), domains) in hard_constraints(pod).zip(counts) {
            let Some(domain) = self.label(node.labels, constraint.topology_key) else {
                return Some("the node lacks a topology key of a spread constraint".to_owned());
            };
            let itself = i64::from(self.selects(selector, pod.labels));
            let enough = domains.0.len() as i64 >= i64::from(constraint.min_domains);
            let lowest = if enough { domains.lowest() } else { 0 };
            let skew = domains.of(domain) + itself - lowest;
            if skew > i64::from(constraint.max_skew) {
                return Some(format!("skew {skew} exceeds {}", constraint.max_skew));
            }
        }
        None
    }
}

/// The number of matching pods by domain.
#[derive(Default)]
struct Domains(Vec<(Symbol, i64)>);

impl Domains {
    fn add(&mut self, domain: Symbol, pods: usize) {
        match self.0.iter_mut().find(|(known, _)| *known == domain) {
            Some((_, count)) => *count += pods as i64,
            None => self.0.push((domain, pods as i64)),
        }
    }

    fn of(&self, domain: Symbol) -> i64 {
        self.0.iter().find(|(known, _)| *known == domain).map_or(0, |&(_, count)| count)
    }

    fn lowest(&self) -> i64 {
        self.0.iter().map(|&(_, count)| count).min().unwrap_or(0)
    }
}

fn hard_constraints(pod: &PodInfo) -> impl Iterator<Item = (&SpreadConstraint, &Selector)> {
    let hard = |c: &&SpreadConstraint| c.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
    pod.spread.iter().filter(hard).filter_map(|c| Some((c, c.selector.as_ref().ok()?)))
}

/// Whether additional pods on nodes may make a node feasible for `pod`, and not only infeasible.
pub fn may_be_helped_by_pods(pod: &PodInfo) -> bool {
    !affinity(pod).is_empty() || hard_constraints(pod).next().is_some()
}

/// Whether others' places may help a pod whose volumes are counted: one that is attached already is no new one.
pub fn may_share_volumes(pod: &PodInfo) -> bool {
    pod.volumes.iter().any(|volume| volume.claim().is_some())
}

fn affinity(pod: &PodInfo) -> &[PodAffinityTerm] {
    pod.pod_affinity.as_deref().and_then(|a| a.required_affinity.as_deref().ok()).unwrap_or_default()
}

fn anti_affinity(pod: &PodInfo) -> &[PodAffinityTerm] {
    pod.pod_affinity.as_deref().and_then(|a| a.required_anti_affinity.as_deref().ok()).unwrap_or_default()
}

fn tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|t| {
        let operator = match t.operator {
            TolerationOperator::Equal => t.value == taint.value,
            TolerationOperator::Exists => true,
            TolerationOperator::Never => false,
        };
        operator && t.key.is_none_or(|key| key == taint.key) && t.effect.is_none_or(|e| e == taint.effect)
    })
}

fn collide(a: &HostPort, b: &HostPort) -> bool {
    let everywhere = a.address == known::ANY_ADDRESS || b.address == known::ANY_ADDRESS;
    a.port == b.port && a.protocol == b.protocol && (everywhere || a.address == b.address)
}
