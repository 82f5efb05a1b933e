//! Made-up workloads to time decisions with. Each node and pod depends on its number alone, so that another scheduler can
//! be given the very same ones.

use crate::objects::{Node, Pod, selects};
use std::fmt;
use supercargo_core::intern::{Symbol, Tables, known};
use supercargo_core::node::NodeInfo;
use supercargo_core::pod::{
    PodAffinity, PodAffinityTerm, PodInfo, SpreadConstraint, WeightedPodAffinityTerm, WhenUnsatisfiable,
};
use supercargo_core::selector::{NodeSelectorTerm, Operator, Requirement, Selector, TermDemands};

/// The namespace of all pods.
pub const NAMESPACE: &str = "load";

/// What the pods of a workload ask for beside their resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Nothing.
    Basic,
    /// Rather no other pod of the same app on the node.
    SoftAnti,
    /// No other pod of the same app on the node.
    HardAnti,
    /// A pod of the same app in the zone.
    ZoneAffinity,
    /// Even spreading over zones, and rather over nodes.
    Spread,
    /// Rather even spreading over zones and nodes.
    SoftSpread,
    /// A node with a certain label, as every second has.
    NodeAffinity,
}

impl Workload {
    /// All workloads.
    pub const ALL: [Self; 7] = [
        Self::Basic,
        Self::SoftAnti,
        Self::HardAnti,
        Self::ZoneAffinity,
        Self::Spread,
        Self::SoftSpread,
        Self::NodeAffinity,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::SoftAnti => "soft-anti",
            Self::HardAnti => "hard-anti",
            Self::ZoneAffinity => "zone-affinity",
            Self::Spread => "spread",
            Self::SoftSpread => "soft-spread",
            Self::NodeAffinity => "node-affinity",
        }
    }

    /// The pod of this number: one of 50 apps, 100m of cpu and 500Mi of memory.
    pub fn pod(self, tables: &mut Tables, number: usize) -> PodInfo {
        let app = format!("app-{}", number % 50);
        let plain = Pod::plain(format!("{self}-{number:06}"), NAMESPACE);
        let mut pod = Pod { cpu_milli: 100, memory: 500 << 20, ..plain }.info(tables);
        pod.scheduler_name = tables.symbol("default-scheduler");
        pod.labels = labels(tables, &[("app", &app), ("w", self.as_str())]);
        pod.images = [tables.symbol("registry.k8s.io/pause:3.10")].into();
        let selector = selects(tables, &app);
        let term = |topology_key: Symbol| PodAffinityTerm {
            namespaces: [pod.namespace].into(),
            namespace_selector: Selector::Nothing,
            selector: selector.clone(),
            topology_key,
        };
        match self {
            Self::Basic => {}
            Self::SoftAnti => {
                let weighted = WeightedPodAffinityTerm { term: term(known::HOSTNAME), weight: 100 };
                pod.pod_affinity = affinity(|a| a.preferred_anti_affinity = Ok([weighted].into()));
            }
            Self::HardAnti => {
                let host = term(known::HOSTNAME);
                pod.pod_affinity = affinity(|a| a.required_anti_affinity = Ok([host].into()));
            }
            Self::ZoneAffinity => {
                let zone = term(known::ZONE);
                pod.pod_affinity = affinity(|a| a.required_affinity = Ok([zone].into()));
            }
            Self::Spread => pod.spread = spread(&selector, WhenUnsatisfiable::DoNotSchedule),
            Self::SoftSpread => pod.spread = spread(&selector, WhenUnsatisfiable::ScheduleAnyway),
            Self::NodeAffinity => pod.node_affinity.terms = Some([on_ssd(tables)].into()),
        }
        pod
    }

    /// The pod of this number as one that is there already, spread over `nodes` nodes by its number.
    pub fn existing_pod(self, tables: &mut Tables, number: usize, nodes: usize) -> PodInfo {
        let mut pod = self.pod(tables, number);
        pod.name = format!("e-{}", pod.name).into();
        pod.uid = format!("{}e", pod.uid).into();
        pod.node_name = Some(tables.symbol(&node_name(number % nodes)));
        pod
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The node of this number: 32 cores, 256Gi, 110 pods, in one of three zones, with a fast or a slow disk.
pub fn node(tables: &mut Tables, number: usize) -> NodeInfo {
    let name = node_name(number);
    let zone = format!("zone-{}", number % 3);
    let plain = Node {
        name: name.clone(),
        version: 1,
        zone: None,
        cordoned: false,
        taints: Vec::new(),
        cpu_milli: 32_000,
        memory: 256 << 30,
        gpus: 0,
        pods: 110,
        images: Vec::new(),
    };
    let mut node = plain.info(tables);
    node.allocatable.ephemeral_storage = 500 << 30;
    let disk = ["ssd", "hdd"][number % 2];
    let region = "topology.kubernetes.io/region";
    let (host, zone_key) = (tables.text(known::HOSTNAME).to_owned(), tables.text(known::ZONE).to_owned());
    node.labels = labels(tables, &[(&host, &name), (&zone_key, &zone), (region, "r1"), ("disk", disk)]);
    node
}

fn node_name(number: usize) -> String {
    format!("node-{number:05}")
}

fn labels(tables: &mut Tables, pairs: &[(&str, &str)]) -> supercargo_core::intern::LabelSetId {
    let pairs = pairs.iter().map(|(key, value)| (tables.symbol(key), tables.symbol(value))).collect();
    tables.label_set(pairs)
}

fn affinity(fill: impl FnOnce(&mut PodAffinity)) -> Option<Box<PodAffinity>> {
    let mut affinity = PodAffinity {
        required_affinity: Ok([].into()),
        required_anti_affinity: Ok([].into()),
        preferred_affinity: Ok([].into()),
        preferred_anti_affinity: Ok([].into()),
    };
    fill(&mut affinity);
    Some(Box::new(affinity))
}

fn spread(selector: &Selector, over_zones: WhenUnsatisfiable) -> Box<[SpreadConstraint]> {
    let over = |topology_key, when_unsatisfiable| SpreadConstraint {
        max_skew: 1,
        topology_key,
        when_unsatisfiable,
        selector: Ok(selector.clone()),
        min_domains: 1,
        honor_node_affinity: true,
        honor_node_taints: false,
    };
    [over(known::ZONE, over_zones), over(known::HOSTNAME, WhenUnsatisfiable::ScheduleAnyway)].into()
}

fn on_ssd(tables: &mut Tables) -> NodeSelectorTerm {
    let operator = Operator::In([tables.symbol("ssd")].into());
    let labels = [Requirement { key: tables.symbol("disk"), operator }].into();
    NodeSelectorTerm { demands: Some(TermDemands { labels, names: [].into() }), pinned_names: None }
}
