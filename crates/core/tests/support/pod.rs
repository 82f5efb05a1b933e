//! A builder of pods. The default has one container without requests, in namespace `default`.

use std::sync::Arc;
use supercargo_core::model::device::ContainerRequest;
use supercargo_core::model::group::Membership;
use supercargo_core::model::intern::{Symbol, Tables, known};
use supercargo_core::model::node::TaintEffect;
use supercargo_core::model::pod::{
    Controller, ControllerKind, HostPort, PodAffinity, PodAffinityTerm, PodInfo, PodTemplate,
    PreferredNodeTerm, ScheduledCondition, SpreadConstraint, Toleration, TolerationOperator,
    WeightedPodAffinityTerm,
};
use supercargo_core::model::resources::{PodResources, Resources};
use supercargo_core::model::selector::{NodeSelectorTerm, RequiredNodeAffinity};
use supercargo_core::model::time::Time;

const DEFAULT_CPU_MILLI: i64 = 100;
const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;

/// A builder of a pod.
pub(crate) struct PodBuilder<'t> {
    tables: &'t mut Tables,
    pod: PodInfo,
    labels: Vec<(Symbol, Symbol)>,
    cpu: Option<i64>,
    memory: Option<i64>,
    pod_cpu: Option<i64>,
    pod_memory: Option<i64>,
    others: Resources,
}

impl<'t> PodBuilder<'t> {
    pub(crate) fn new(tables: &'t mut Tables, name: &str) -> Self {
        let namespace = tables.symbol("default");
        let scheduler_name = tables.symbol("default-scheduler");
        let labels = tables.label_set(Vec::new());
        let pod = PodInfo {
            uid: name.into(),
            name: name.into(),
            resource_version: "1".into(),
            generation: 1,
            labels,
            deleting: false,
            node_name: None,
            nominated_node: None,
            start_time: None,
            preempted: false,
            node_affinity: RequiredNodeAffinity::default().into(),
            volumes: [].into(),
            claims: [].into(),
            scheduled: None,
            group: None,
            template: PodTemplate::plain(namespace, scheduler_name).into(),
        };
        Self {
            tables,
            pod,
            labels: Vec::new(),
            cpu: None,
            memory: None,
            pod_cpu: None,
            pod_memory: None,
            others: Resources::default(),
        }
    }

    pub(crate) fn tables(&mut self) -> &mut Tables {
        self.tables
    }

    pub(crate) fn namespace(mut self, namespace: &str) -> Self {
        self.pod.namespace = self.tables.symbol(namespace);
        self
    }

    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        let pair = (self.tables.symbol(key), self.tables.symbol(value));
        self.labels.push(pair);
        self
    }

    pub(crate) fn on(mut self, node: &str) -> Self {
        self.pod.node_name = Some(self.tables.symbol(node));
        self
    }

    pub(crate) fn nominated(mut self, node: &str) -> Self {
        self.pod.nominated_node = Some(self.tables.symbol(node));
        self
    }

    pub(crate) fn in_group(mut self, group: &str) -> Self {
        let created = supercargo_core::model::time::Time::default();
        self.pod.group = Some(Box::new(Membership { group: self.tables.symbol(group), created }));
        self
    }

    /// Sets the time of creation, of which only a group has knowledge.
    pub(crate) fn created(mut self, seconds: u64) -> Self {
        let group = self.pod.group.as_mut().expect("the group comes first");
        group.created = supercargo_core::model::time::Time::from_secs(seconds);
        self
    }

    pub(crate) fn priority(mut self, priority: i32) -> Self {
        self.pod.priority = priority;
        self
    }

    pub(crate) fn scheduler(mut self, name: &str) -> Self {
        self.pod.scheduler_name = self.tables.symbol(name);
        self
    }

    /// Sets the condition PodScheduled=False with reason Unschedulable and this message.
    pub(crate) fn said(mut self, message: &str) -> Self {
        self.pod.scheduled = Some(Box::new(ScheduledCondition {
            status: "False".into(),
            reason: "Unschedulable".into(),
            message: message.into(),
            last_transition_time: "2026-01-01T00:00:00Z".into(),
        }));
        self
    }

    pub(crate) fn gate(mut self, name: &str) -> Self {
        let gate = self.tables.symbol(name);
        push(&mut self.pod.gates, gate);
        self
    }

    pub(crate) fn deleting(mut self) -> Self {
        self.pod.deleting = true;
        self
    }

    /// Sets the start time in seconds since 1970.
    pub(crate) fn started(mut self, seconds: u64) -> Self {
        self.pod.start_time = Some(Time::from_secs(seconds));
        self
    }

    pub(crate) fn never_preempts(mut self) -> Self {
        self.pod.never_preempts = true;
        self
    }

    pub(crate) fn preempted(mut self) -> Self {
        self.pod.preempted = true;
        self
    }

    pub(crate) fn owner(mut self, kind: ControllerKind, name: &str) -> Self {
        let name = self.tables.symbol(name);
        self.pod.owner = Some(Controller { kind, name });
        self
    }

    /// Sets the cpu request of the containers, which may be an explicit zero.
    pub(crate) fn cpu(mut self, milli: i64) -> Self {
        self.cpu = Some(milli);
        self
    }

    pub(crate) fn memory(mut self, bytes: i64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Sets the pod-level cpu request.
    pub(crate) fn pod_cpu(mut self, milli: i64) -> Self {
        self.pod_cpu = Some(milli);
        self
    }

    pub(crate) fn pod_memory(mut self, bytes: i64) -> Self {
        self.pod_memory = Some(bytes);
        self
    }

    pub(crate) fn ephemeral_storage(mut self, bytes: i64) -> Self {
        self.others.ephemeral_storage = bytes;
        self
    }

    pub(crate) fn scalar(mut self, name: &str, amount: i64) -> Self {
        let name = self.tables.symbol(name);
        self.others.set_scalar(name, amount);
        self.pod.extended_resources = self.pod.extended_resources.iter().copied().chain([name]).collect();
        self
    }

    /// Sets the number of containers and init containers. Each of them without requests counts with the defaults.
    pub(crate) fn containers(mut self, containers: u32) -> Self {
        self.pod.image_sources = containers;
        self
    }

    /// Adds an image; `name` includes its tag.
    pub(crate) fn image(mut self, name: &str) -> Self {
        let image = self.tables.symbol(name);
        push(&mut self.pod.images, image);
        self
    }

    pub(crate) fn port(mut self, protocol: &str, address: &str, port: i32) -> Self {
        let port =
            HostPort { address: self.tables.symbol(address), protocol: self.tables.symbol(protocol), port };
        push(&mut self.pod.ports, port);
        self
    }

    pub(crate) fn tolerate_everything(mut self) -> Self {
        let all =
            Toleration { key: None, operator: TolerationOperator::Exists, value: known::EMPTY, effect: None };
        push(&mut self.pod.tolerations, all);
        self
    }

    pub(crate) fn tolerate(
        mut self,
        key: &str,
        operator: TolerationOperator,
        value: &str,
        effect: Option<TaintEffect>,
    ) -> Self {
        let key = (!key.is_empty()).then(|| self.tables.symbol(key));
        let value = self.tables.symbol(value);
        push(&mut self.pod.tolerations, Toleration { key, operator, value, effect });
        self
    }

    /// Adds an entry of `spec.nodeSelector`.
    pub(crate) fn select(mut self, key: &str, value: &str) -> Self {
        let pair = (self.tables.symbol(key), self.tables.symbol(value));
        push(self.pod.node_affinity.node_selector.get_or_insert_default(), pair);
        self
    }

    /// Adds a term of required node affinity; `None` requires an empty list of terms.
    pub(crate) fn require(mut self, term: Option<NodeSelectorTerm>) -> Self {
        let terms = self.pod.node_affinity.terms.get_or_insert_default();
        if let Some(term) = term {
            push(terms, term);
        }
        self
    }

    /// Adds a term of preferred node affinity; `None` sets an empty list.
    pub(crate) fn prefer(mut self, term: Option<PreferredNodeTerm>) -> Self {
        let terms = self.pod.preferred_node_affinity.get_or_insert_with(|| Ok([].into()));
        if let (Ok(terms), Some(term)) = (terms, term) {
            *terms = terms.iter().cloned().chain([term]).collect();
        }
        self
    }

    /// Sets preferred node affinity that cannot be parsed.
    pub(crate) fn prefer_broken(mut self, error: &str) -> Self {
        self.pod.preferred_node_affinity = Some(Err(error.into()));
        self
    }

    pub(crate) fn affinity(mut self, term: PodAffinityTerm) -> Self {
        push(parsed(&mut self.pod_affinity().required_affinity), term);
        self
    }

    pub(crate) fn anti_affinity(mut self, term: PodAffinityTerm) -> Self {
        push(parsed(&mut self.pod_affinity().required_anti_affinity), term);
        self
    }

    pub(crate) fn prefer_affinity(mut self, weight: i32, term: PodAffinityTerm) -> Self {
        let term = WeightedPodAffinityTerm { term, weight };
        push(parsed(&mut self.pod_affinity().preferred_affinity), term);
        self
    }

    pub(crate) fn prefer_anti_affinity(mut self, weight: i32, term: PodAffinityTerm) -> Self {
        let term = WeightedPodAffinityTerm { term, weight };
        push(parsed(&mut self.pod_affinity().preferred_anti_affinity), term);
        self
    }

    /// Returns the pod's affinity, whose lists may be replaced by `Err`.
    pub(crate) fn pod_affinity(&mut self) -> &mut PodAffinity {
        self.pod.pod_affinity.get_or_insert_with(|| {
            Box::new(PodAffinity {
                required_affinity: Ok([].into()),
                required_anti_affinity: Ok([].into()),
                preferred_affinity: Ok([].into()),
                preferred_anti_affinity: Ok([].into()),
            })
        })
    }

    pub(crate) fn spread(mut self, constraint: SpreadConstraint) -> Self {
        push(&mut self.pod.spread, constraint);
        self
    }

    /// Returns the current namespace.
    pub(crate) fn current_namespace(&self) -> Symbol {
        self.pod.namespace
    }

    pub(crate) fn build(mut self) -> Arc<PodInfo> {
        self.pod.labels = self.tables.label_set(self.labels);
        let containers = i64::from(self.pod.image_sources);
        let (cpu, memory) = (self.pod_cpu.or(self.cpu), self.pod_memory.or(self.memory));
        let mut request = self.others.clone();
        request.cpu_milli = cpu.unwrap_or(0);
        request.memory = memory.unwrap_or(0);
        let mut score = self.others;
        score.cpu_milli = self.cpu.unwrap_or(DEFAULT_CPU_MILLI * containers);
        score.memory = self.memory.unwrap_or(DEFAULT_MEMORY * containers);
        self.pod.resources = PodResources {
            placed: request.clone(),
            request,
            non_zero_cpu_milli: cpu.unwrap_or(DEFAULT_CPU_MILLI * containers),
            non_zero_memory: memory.unwrap_or(DEFAULT_MEMORY * containers),
            score,
        };
        let mut names: Vec<Symbol> =
            self.pod.resources.request.scalar.iter().map(|&(name, _)| name).collect();
        names.sort_by_key(|&name| self.tables.text(name));
        let requests = (0..).zip(names).filter_map(|(position, resource)| {
            let count = self.pod.resources.request.scalar(resource).filter(|count| *count > 0)?;
            let name = "c".into();
            Some(ContainerRequest { container: 0, name, is_short_lived: false, position, resource, count })
        });
        self.pod.container_requests = requests.collect();
        // Interned as in `crates/objects/src/convert`.
        self.pod.node_affinity = self.tables.node_affinity((*self.pod.node_affinity).clone());
        self.pod.template = self.tables.template((*self.pod.template).clone());
        Arc::new(self.pod)
    }
}

fn parsed<T>(list: &mut Result<Box<[T]>, Box<str>>) -> &mut Box<[T]> {
    list.as_mut().expect("a list that was broken on purpose takes no more terms")
}

fn push<T>(list: &mut Box<[T]>, item: T) {
    let mut items = std::mem::take(list).into_vec();
    items.push(item);
    *list = items.into();
}
