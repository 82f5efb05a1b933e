//! Objects of the simulated API server, and their conversion to the engine's model.
//!
//! They consist of plain text and numbers, so that they outlive a scheduler process and its tables. They
//! contain only the fields that the simulation varies; there is no preferred node affinity.

use crate::devices::{PodDevices, TPU};
use crate::storage::is_ephemeral;
use supercargo_core::model::device::{ContainerRequest, PodClaim, PodClaimSource};
use supercargo_core::model::intern::{Symbol, Tables, known};
use supercargo_core::model::node::{NodeInfo, Taint, TaintEffect};
use supercargo_core::model::pod::{
    HostPort, PodAffinity, PodAffinityTerm, PodInfo, PodTemplate, ScheduledCondition, SpreadConstraint,
    Toleration, TolerationOperator, WeightedPodAffinityTerm, WhenUnsatisfiable,
};
use supercargo_core::model::resources::{PodResources, Resources};
use supercargo_core::model::selector::{
    NodeSelectorTerm, Operator, RequiredNodeAffinity, Requirement, Selector, TermDemands,
};
use supercargo_core::model::volume::{PodVolume, VolumeSource};

/// The profile of the scheduler under test.
pub(crate) const OURS: &str = "supercargo";
/// The scheduler name of other pods.
pub(crate) const THEIRS: &str = "default-scheduler";
/// An extended resource.
pub(crate) const GPU: &str = "example.com/gpu";
const DEFAULT_CPU_MILLI: i64 = 100;
const DEFAULT_MEMORY: i64 = 200 << 20;

/// A topology key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    Host,
    Zone,
    Rack,
}

impl Topology {
    pub(crate) const ALL: [Self; 3] = [Self::Host, Self::Zone, Self::Rack];

    fn key(self, tables: &mut Tables) -> Symbol {
        match self {
            Self::Host => known::HOSTNAME,
            Self::Zone => known::ZONE,
            Self::Rack => tables.symbol("rack"),
        }
    }
}

/// The namespaces of an affinity term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Own,
    Everywhere,
    /// Namespaces whose label `team` has this value.
    Team(&'static str),
}

/// A pod affinity term on the label `app`.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) app: &'static str,
    pub(crate) topology: Topology,
    pub(crate) reach: Reach,
}

/// Required and preferred affinity and anti-affinity.
#[derive(Clone, Debug, Default)]
pub(crate) struct Affinity {
    pub(crate) with: Vec<Term>,
    pub(crate) without: Vec<Term>,
    pub(crate) rather_with: Vec<Term>,
    pub(crate) rather_without: Vec<Term>,
}

/// A topology spread constraint on the label `app`.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    pub(crate) app: &'static str,
    pub(crate) topology: Topology,
    pub(crate) max_skew: i32,
    pub(crate) hard: bool,
    pub(crate) min_domains: i32,
    pub(crate) honor_affinity: bool,
    pub(crate) honor_taints: bool,
}

/// A pod's requirement on its node's zone or name.
#[derive(Clone, Debug)]
pub(crate) enum NodeChoice {
    Anything,
    /// `nodeSelector`.
    Zone(&'static str),
    /// Required node affinity.
    OneOf(Vec<&'static str>),
    /// Required node affinity; nodes without a zone match, too.
    NoneOf(Vec<&'static str>),
    /// Required node affinity to nodes of these names, which need not exist.
    Named(Vec<String>),
}

#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) uid: String,
    pub(crate) name: String,
    pub(crate) namespace: &'static str,
    /// `resourceVersion`.
    pub(crate) version: u64,
    /// The label `app`.
    pub(crate) app: &'static str,
    pub(crate) ours: bool,
    pub(crate) node: Option<String>,
    /// The number of the scheduler process that bound it, if it was the one under test.
    pub(crate) bound_by: Option<u32>,
    pub(crate) deleting: bool,
    pub(crate) gated: bool,
    pub(crate) priority: i32,
    /// In millicores; 0 for no request.
    pub(crate) cpu_milli: i64,
    /// In bytes; 0 for no request.
    pub(crate) memory: i64,
    pub(crate) gpus: i64,
    pub(crate) port: Option<(&'static str, i32)>,
    /// Keys of tolerated taints of any effect.
    pub(crate) tolerates: Vec<&'static str>,
    pub(crate) node_choice: NodeChoice,
    pub(crate) affinity: Affinity,
    pub(crate) spread: Vec<Spread>,
    /// The names of its claims.
    pub(crate) claims: Vec<String>,
    /// Its claims of devices.
    pub(crate) devices: Vec<PodDevices>,
    /// The number of devices that it requests as an extended resource, which a class serves.
    pub(crate) tpus: i64,
    /// The name of its group, and its rank among all pods by creation.
    pub(crate) group: Option<(String, u64)>,
    /// `status.nominatedNodeName`.
    pub(crate) nominated: Option<String>,
    /// Whether it has the condition DisruptionTarget with the reason PreemptionByScheduler.
    pub(crate) preempted: bool,
    /// The reason and message of PodScheduled=False.
    pub(crate) condition: Option<(String, String)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) version: u64,
    pub(crate) zone: Option<&'static str>,
    /// The label `rack`.
    pub(crate) rack: Option<u64>,
    pub(crate) cordoned: bool,
    /// Keys and effects of taints.
    pub(crate) taints: Vec<(&'static str, TaintEffect)>,
    pub(crate) cpu_milli: i64,
    pub(crate) memory: i64,
    pub(crate) gpus: i64,
    pub(crate) pods: i64,
    /// Names of images on the node.
    pub(crate) images: Vec<&'static str>,
}

impl Node {
    pub(crate) fn info(&self, tables: &mut Tables) -> NodeInfo {
        let name = tables.symbol(&self.name);
        let mut labels = vec![(known::HOSTNAME, name)];
        if let Some(zone) = self.zone {
            labels.push((known::ZONE, tables.symbol(zone)));
        }
        if let Some(rack) = self.rack {
            labels.push((tables.symbol("rack"), tables.symbol(&format!("r{rack}"))));
        }
        let taint = |&(key, effect): &(&str, TaintEffect), tables: &mut Tables| Taint {
            key: tables.symbol(key),
            value: known::EMPTY,
            effect,
        };
        let taints = self.taints.iter().map(|t| taint(t, tables)).collect();
        let mut images: Vec<_> = self.images.iter().map(|i| (tables.symbol(i), 300 << 20)).collect();
        images.sort_unstable();
        NodeInfo {
            name,
            labels: tables.label_set(labels),
            taints: tables.taint_set(taints),
            unschedulable: self.cordoned,
            allocatable: amounts(tables, self.cpu_milli, self.memory, self.gpus),
            allocatable_pods: self.pods,
            images: images.into(),
            declared_features: [].into(),
        }
    }
}

impl Pod {
    /// Creates a pod of the tested profile without requests or constraints.
    #[cfg(test)]
    pub(crate) fn plain(uid: String, namespace: &'static str) -> Self {
        Self {
            name: uid.clone(),
            uid,
            namespace,
            version: 1,
            app: "app",
            ours: true,
            node: None,
            bound_by: None,
            deleting: false,
            gated: false,
            priority: 0,
            cpu_milli: 0,
            memory: 0,
            gpus: 0,
            port: None,
            tolerates: Vec::new(),
            node_choice: NodeChoice::Anything,
            affinity: Affinity::default(),
            spread: Vec::new(),
            claims: Vec::new(),
            devices: Vec::new(),
            tpus: 0,
            group: None,
            nominated: None,
            preempted: false,
            condition: None,
        }
    }

    /// Creates a new pod with the name and the specification of this one.
    pub(crate) fn successor(&self, uid: String) -> Self {
        let of_new_pod = |it: &PodDevices| match it {
            PodDevices::Template(_) => PodDevices::Template(None),
            named => named.clone(),
        };
        Self {
            uid,
            version: 0,
            devices: self.devices.iter().map(of_new_pod).collect(),
            node: None,
            bound_by: None,
            deleting: false,
            nominated: None,
            preempted: false,
            condition: None,
            ..self.clone()
        }
    }

    pub(crate) fn info(&self, tables: &mut Tables) -> PodInfo {
        let namespace = tables.symbol(self.namespace);
        let app = (tables.symbol("app"), tables.symbol(self.app));
        PodInfo {
            uid: self.uid.as_str().into(),
            name: self.name.as_str().into(),
            resource_version: self.version.to_string().into(),
            generation: 1,
            labels: tables.label_set(vec![app]),
            deleting: self.deleting,
            node_name: self.node.as_deref().map(|node| tables.symbol(node)),
            nominated_node: self.nominated.as_deref().map(|node| tables.symbol(node)),
            start_time: None,
            preempted: self.preempted,
            node_affinity: self.node_choice.node_affinity(tables).into(),
            volumes: self.claims.iter().map(|name| volume(tables, name)).collect(),
            claims: self.devices.iter().enumerate().map(|it| pod_claim(tables, it)).collect(),
            scheduled: self.condition.as_ref().map(|(reason, message)| {
                Box::new(ScheduledCondition {
                    status: "False".into(),
                    reason: reason.as_str().into(),
                    message: message.as_str().into(),
                    last_transition_time: "2026-01-01T00:00:00Z".into(),
                })
            }),
            group: self.membership(tables).map(Box::new),
            template: PodTemplate {
                priority: self.priority,
                gates: if self.gated { [tables.symbol("example.com/gate")].into() } else { [].into() },
                resources: self.resources(tables),
                ports: self.port.iter().map(|&(address, port)| host_port(tables, address, port)).collect(),
                tolerations: self.tolerates.iter().map(|key| toleration(tables, key)).collect(),
                pod_affinity: self.affinity.info(tables, namespace),
                spread: self.spread.iter().map(|s| s.info(tables)).collect(),
                images: [tables.symbol(self.app)].into(),
                extended_resources: self.extended(tables).into_iter().map(|(name, _)| name).collect(),
                container_requests: self.container_requests(tables),
                ..PodTemplate::plain(namespace, tables.symbol(if self.ours { OURS } else { THEIRS }))
            }
            .into(),
        }
    }

    /// Whether claims are written before it is bound.
    pub(crate) fn has_claims(&self) -> bool {
        !self.claims.is_empty() || self.needs_devices()
    }

    /// Whether it has ResourceClaims, or asks for an extended resource that devices serve.
    pub(crate) fn needs_devices(&self) -> bool {
        !self.devices.is_empty() || self.tpus > 0
    }

    /// Returns the extended resources that it requests.
    fn extended(&self, tables: &mut Tables) -> Vec<(Symbol, i64)> {
        let all = [(GPU, self.gpus), (TPU, self.tpus)].into_iter().filter(|&(_, count)| count > 0);
        all.map(|(name, count)| (tables.symbol(name), count)).collect()
    }

    fn container_requests(&self, tables: &mut Tables) -> Box<[ContainerRequest]> {
        let all =
            self.extended(tables).into_iter().enumerate().map(|(at, (resource, count))| ContainerRequest {
                container: 0,
                name: "c".into(),
                is_short_lived: false,
                position: u32::try_from(at).unwrap_or(0),
                resource,
                count,
            });
        all.collect()
    }

    fn resources(&self, tables: &mut Tables) -> PodResources {
        let mut request = amounts(tables, self.cpu_milli, self.memory, self.gpus);
        if self.tpus > 0 {
            request.set_scalar(tables.symbol(TPU), self.tpus);
        }
        let or = |amount: i64, default: i64| if amount == 0 { default } else { amount };
        let mut score = request.clone();
        score.cpu_milli = or(self.cpu_milli, DEFAULT_CPU_MILLI);
        score.memory = or(self.memory, DEFAULT_MEMORY);
        PodResources {
            placed: request.clone(),
            request,
            non_zero_cpu_milli: score.cpu_milli,
            non_zero_memory: score.memory,
            score,
        }
    }
}

fn amounts(tables: &mut Tables, cpu_milli: i64, memory: i64, gpus: i64) -> Resources {
    let mut resources = Resources { cpu_milli, memory, ..Resources::default() };
    if gpus > 0 {
        let gpu = tables.symbol(GPU);
        resources.set_scalar(gpu, gpus);
    }
    resources
}

fn volume(tables: &mut Tables, claim: &str) -> PodVolume {
    let name = tables.symbol(claim);
    let source = if is_ephemeral(claim) { VolumeSource::Ephemeral(name) } else { VolumeSource::Claim(name) };
    PodVolume { name: claim.into(), source }
}

fn pod_claim(tables: &mut Tables, (at, claim): (usize, &PodDevices)) -> PodClaim {
    let source = match claim {
        PodDevices::Named(name) => PodClaimSource::Named(tables.symbol(name)),
        PodDevices::Template(Some(name)) => PodClaimSource::Generated(tables.symbol(name)),
        PodDevices::Template(None) => PodClaimSource::NotCreated,
    };
    PodClaim { name: format!("e{at}").into(), source }
}

fn host_port(tables: &mut Tables, address: &str, port: i32) -> HostPort {
    HostPort { address: tables.symbol(address), protocol: known::TCP, port }
}

fn toleration(tables: &mut Tables, key: &str) -> Toleration {
    Toleration {
        key: Some(tables.symbol(key)),
        operator: TolerationOperator::Exists,
        value: known::EMPTY,
        effect: None,
    }
}

/// Returns the selector `app=<app>`.
pub(crate) fn selects(tables: &mut Tables, app: &str) -> Selector {
    Selector::All([in_one(tables, "app", app)].into())
}

fn in_one(tables: &mut Tables, key: &str, value: &str) -> Requirement {
    Requirement { key: tables.symbol(key), operator: Operator::In([tables.symbol(value)].into()) }
}

impl Term {
    fn info(&self, tables: &mut Tables, own: Symbol) -> PodAffinityTerm {
        let (namespaces, namespace_selector) = match self.reach {
            Reach::Own => ([own].into(), Selector::Nothing),
            Reach::Everywhere => ([].into(), Selector::All([].into())),
            Reach::Team(team) => ([].into(), Selector::All([in_one(tables, "team", team)].into())),
        };
        PodAffinityTerm {
            namespaces,
            namespace_selector,
            selector: selects(tables, self.app),
            topology_key: self.topology.key(tables),
        }
    }
}

impl Affinity {
    /// Whether it has no term.
    pub(crate) fn is_none(&self) -> bool {
        [&self.with, &self.without, &self.rather_with, &self.rather_without]
            .iter()
            .all(|terms| terms.is_empty())
    }

    fn info(&self, tables: &mut Tables, own: Symbol) -> Option<Box<PodAffinity>> {
        if self.is_none() {
            return None;
        }
        let mut required = |terms: &[Term]| Ok(terms.iter().map(|t| t.info(tables, own)).collect());
        let (required_affinity, required_anti_affinity) = (required(&self.with), required(&self.without));
        let mut preferred = |terms: &[Term]| {
            let weighted = |t: &Term| WeightedPodAffinityTerm { term: t.info(tables, own), weight: 10 };
            Ok(terms.iter().map(weighted).collect())
        };
        Some(Box::new(PodAffinity {
            required_affinity,
            required_anti_affinity,
            preferred_affinity: preferred(&self.rather_with),
            preferred_anti_affinity: preferred(&self.rather_without),
        }))
    }
}

impl Spread {
    fn info(&self, tables: &mut Tables) -> SpreadConstraint {
        SpreadConstraint {
            max_skew: self.max_skew,
            topology_key: self.topology.key(tables),
            when_unsatisfiable: if self.hard {
                WhenUnsatisfiable::DoNotSchedule
            } else {
                WhenUnsatisfiable::ScheduleAnyway
            },
            selector: Ok(selects(tables, self.app)),
            min_domains: self.min_domains,
            honor_node_affinity: self.honor_affinity,
            honor_node_taints: self.honor_taints,
        }
    }
}

/// Returns a required node affinity with one term for each name, by which PreFilter narrows the nodes.
fn pinned(names: &[String], tables: &mut Tables) -> RequiredNodeAffinity {
    let term = |name: &String| {
        let name = tables.symbol(name);
        let demands = TermDemands { labels: [].into(), names: [(name, false)].into() };
        NodeSelectorTerm { demands: Some(demands), pinned_names: Some([name].into()) }
    };
    RequiredNodeAffinity { node_selector: None, terms: Some(names.iter().map(term).collect()) }
}

impl NodeChoice {
    fn node_affinity(&self, tables: &mut Tables) -> RequiredNodeAffinity {
        let mut symbols =
            |zones: &[&str]| -> Box<[Symbol]> { zones.iter().map(|z| tables.symbol(z)).collect() };
        let operator = match self {
            Self::Anything => return RequiredNodeAffinity::default(),
            Self::Zone(zone) => {
                let pair = (known::ZONE, symbols(&[zone])[0]);
                return RequiredNodeAffinity { node_selector: Some([pair].into()), terms: None };
            }
            Self::OneOf(zones) => Operator::In(symbols(zones).into()),
            Self::NoneOf(zones) => Operator::NotIn(symbols(zones).into()),
            Self::Named(names) => return pinned(names, tables),
        };
        let labels = [Requirement { key: known::ZONE, operator }].into();
        let term =
            NodeSelectorTerm { demands: Some(TermDemands { labels, names: [].into() }), pinned_names: None };
        RequiredNodeAffinity { node_selector: None, terms: Some([term].into()) }
    }
}
