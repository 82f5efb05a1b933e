//! Tests of the reference against the API's documentation.

use super::*;
use crate::objects::{Affinity, Node, NodeChoice, Pod, Reach, Spread, Term, Topology};
use crate::storage::{Claim, Class, Volume, csi_node};

/// A cluster builder: nodes, pods by node name, and the pod to evaluate.
struct Cluster {
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    claims: Vec<Claim>,
    volumes: Vec<Volume>,
    /// The only zone for which classes provision volumes.
    allowed: Option<&'static str>,
    /// The volume limit of node `a`.
    limit: Option<i32>,
}

fn node(name: &str, zone: Option<&'static str>) -> Node {
    Node {
        name: name.to_owned(),
        version: 1,
        zone,
        rack: None,
        cordoned: false,
        taints: Vec::new(),
        cpu_milli: 1_000,
        memory: 1 << 30,
        gpus: 0,
        pods: 3,
        images: Vec::new(),
    }
}

fn pod(uid: &str, on: &str, app: &'static str) -> Pod {
    let node = (!on.is_empty()).then(|| on.to_owned());
    Pod { node, app, ..Pod::plain(uid.to_owned(), "default") }
}

impl Cluster {
    fn new(pods: Vec<Pod>) -> Self {
        let nodes = vec![node("a", Some("z1")), node("b", Some("z1")), node("c", Some("z2"))];
        Self { nodes, pods, claims: Vec::new(), volumes: Vec::new(), allowed: None, limit: None }
    }

    /// Returns the names of the feasible nodes for `pod`, in order.
    fn takes(&self, pod: &Pod) -> String {
        let mut tables = Tables::new();
        let nodes: Vec<NodeInfo> = self.nodes.iter().map(|node| node.info(&mut tables)).collect();
        let pods: Vec<PodInfo> = self.pods.iter().map(|pod| pod.info(&mut tables)).collect();
        let pod = pod.info(&mut tables);
        let team = (tables.symbol("team"), tables.symbol("red"));
        let namespaces = vec![(tables.symbol("other"), tables.label_set(vec![team]))];
        let on = pods.iter().filter_map(|pod| Some((pod, pod.node_name?)));
        let storage = Storage {
            claims: self.claims.iter().map(|it| Arc::new(it.info(&mut tables))).collect(),
            volumes: self.volumes.iter().map(|it| Arc::new(it.info(&mut tables))).collect(),
            classes: Class::ALL.iter().map(|it| Arc::new(it.info(self.allowed, &mut tables))).collect(),
            csi_nodes: vec![Arc::new(csi_node(&mut tables, "a", self.limit))],
        };
        let world = ReferenceCluster::new(&tables, nodes.iter().collect(), on, namespaces);
        let world = world.with_storage(Arc::new(storage));
        let feasible = world.feasible(&pod);
        for node in &nodes {
            let rejection_reason = world.rejection_reason(&pod, node.name);
            assert_eq!(rejection_reason.is_none(), feasible.contains(&node.name), "{rejection_reason:?}");
        }
        feasible.iter().map(|&name| tables.text(name)).collect::<Vec<_>>().join(" ")
    }
}

fn term(app: &'static str, topology: Topology) -> Term {
    Term { app, topology, reach: Reach::Own }
}

#[test]
fn resources_are_cpu_memory_devices_and_pod_count() {
    let mut cluster = Cluster::new(vec![Pod { cpu_milli: 800, ..pod("p", "a", "web") }]);
    cluster.nodes[1].gpus = 1;
    cluster.nodes[2].pods = 0;
    assert_eq!(cluster.takes(&pod("x", "", "web")), "a b");
    assert_eq!(cluster.takes(&Pod { cpu_milli: 200, ..pod("x", "", "web") }), "a b");
    assert_eq!(cluster.takes(&Pod { cpu_milli: 201, ..pod("x", "", "web") }), "b");
    assert_eq!(cluster.takes(&Pod { memory: (1 << 30) + 1, ..pod("x", "", "web") }), "");
    assert_eq!(cluster.takes(&Pod { gpus: 1, ..pod("x", "", "web") }), "b");
}

#[test]
fn host_port_conflicts_on_its_address_or_on_all() {
    let cluster = Cluster::new(vec![
        Pod { port: Some(("10.0.0.1", 80)), ..pod("p", "a", "web") },
        Pod { port: Some(("0.0.0.0", 80)), ..pod("q", "b", "web") },
    ]);
    let wants = |address, port| Pod { port: Some((address, port)), ..pod("x", "", "web") };
    assert_eq!(cluster.takes(&wants("10.0.0.1", 80)), "c");
    assert_eq!(cluster.takes(&wants("10.0.0.2", 80)), "a c");
    assert_eq!(cluster.takes(&wants("0.0.0.0", 80)), "c");
    assert_eq!(cluster.takes(&wants("0.0.0.0", 81)), "a b c");
}

#[test]
fn taints_cordons_and_node_affinity_are_applied() {
    let mut cluster = Cluster::new(Vec::new());
    cluster.nodes[0].taints = vec![("gpu", TaintEffect::NoSchedule)];
    cluster.nodes[1].taints = vec![("gpu", TaintEffect::PreferNoSchedule)];
    cluster.nodes[2].cordoned = true;
    assert_eq!(cluster.takes(&pod("x", "", "web")), "b");
    assert_eq!(cluster.takes(&Pod { tolerates: vec!["gpu"], ..pod("x", "", "web") }), "a b");
    let nodes = vec![node("a", Some("z1")), node("b", None)];
    let cluster = Cluster { nodes, ..Cluster::new(Vec::new()) };
    let with_choice = |node_choice| Pod { node_choice, ..pod("x", "", "web") };
    assert_eq!(cluster.takes(&with_choice(NodeChoice::Zone("z1"))), "a");
    assert_eq!(cluster.takes(&with_choice(NodeChoice::OneOf(vec!["z1", "z2"]))), "a");
    assert_eq!(cluster.takes(&with_choice(NodeChoice::NoneOf(vec!["z1"]))), "b");
}

#[test]
fn anti_affinity_applies_in_both_directions_within_its_namespaces() {
    let anti_affinity_to = |reach| Affinity {
        without: vec![Term { app: "web", topology: Topology::Zone, reach }],
        ..Affinity::default()
    };
    let cluster = Cluster::new(vec![pod("p", "a", "web")]);
    assert_eq!(cluster.takes(&Pod { affinity: anti_affinity_to(Reach::Own), ..pod("x", "", "db") }), "c");
    let excluding = Pod { affinity: anti_affinity_to(Reach::Own), ..pod("p", "a", "db") };
    assert_eq!(Cluster::new(vec![excluding.clone()]).takes(&pod("x", "", "web")), "c");
    let elsewhere = Pod { namespace: "other", ..pod("x", "", "web") };
    assert_eq!(Cluster::new(vec![excluding]).takes(&elsewhere), "a b c");
    for reach in [Reach::Everywhere, Reach::Team("red")] {
        let excluding = Pod { affinity: anti_affinity_to(reach), ..pod("p", "a", "db") };
        assert_eq!(Cluster::new(vec![excluding]).takes(&elsewhere), "c", "{reach:?}");
    }
}

#[test]
fn affinity_needs_a_match_unless_the_pod_is_the_first() {
    let affinity_to = |app, topology| Affinity { with: vec![term(app, topology)], ..Affinity::default() };
    let near = |app, topology| Pod { affinity: affinity_to(app, topology), ..pod("x", "", "web") };
    let cluster = Cluster::new(vec![pod("p", "a", "db")]);
    assert_eq!(cluster.takes(&near("db", Topology::Zone)), "a b");
    assert_eq!(cluster.takes(&near("db", Topology::Host)), "a");
    assert_eq!(cluster.takes(&near("job", Topology::Zone)), "");
    assert_eq!(cluster.takes(&near("web", Topology::Zone)), "a b c");
}

#[test]
fn skew_counts_eligible_domains_and_non_terminating_pods() {
    let spread = Spread {
        app: "web",
        topology: Topology::Zone,
        max_skew: 1,
        hard: true,
        min_domains: 1,
        honor_affinity: true,
        honor_taints: false,
    };
    let spreads = |spread: &Spread| Pod { spread: vec![spread.clone()], ..pod("x", "", "web") };
    let mut cluster = Cluster::new(vec![pod("p", "a", "web")]);
    assert_eq!(cluster.takes(&spreads(&spread)), "c");
    assert_eq!(cluster.takes(&spreads(&Spread { max_skew: 2, ..spread })), "a b c");
    assert_eq!(cluster.takes(&spreads(&Spread { hard: false, ..spread })), "a b c");
    let in_one_zone = Pod { node_choice: NodeChoice::Zone("z1"), ..spreads(&spread) };
    assert_eq!(cluster.takes(&in_one_zone), "a b", "no other zone is counted");
    cluster.pods[0].deleting = true;
    assert_eq!(cluster.takes(&spreads(&spread)), "a b c");
    cluster.pods[0].deleting = false;
    cluster.pods.push(pod("q", "c", "web"));
    assert_eq!(cluster.takes(&spreads(&spread)), "a b c");
    assert_eq!(cluster.takes(&spreads(&Spread { min_domains: 3, ..spread })), "", "as if a third were empty");
}

#[test]
fn nodes_without_the_label_have_no_domain() {
    let nodes = vec![node("a", None), node("b", Some("z1"))];
    let cluster = Cluster { nodes, ..Cluster::new(vec![pod("p", "a", "web"), pod("q", "b", "web")]) };
    let affinity = Affinity { without: vec![term("web", Topology::Zone)], ..Affinity::default() };
    assert_eq!(cluster.takes(&Pod { affinity, ..pod("x", "", "db") }), "a");
    let affinity = Affinity { with: vec![term("web", Topology::Zone)], ..Affinity::default() };
    assert_eq!(cluster.takes(&Pod { affinity, ..pod("x", "", "db") }), "b");
}

fn claim(name: &str, class: Class) -> Claim {
    let (uid, name) = (format!("u-{name}"), name.to_owned());
    Claim { uid, namespace: "default", name, version: 1, owner: None, class, volume: None, selected: None }
}

fn with_claim(mut pod: Pod, name: &str) -> Pod {
    pod.claims.push(name.to_owned());
    pod
}

#[test]
fn class_provisions_volumes_in_its_allowed_zone() {
    let mut cluster = Cluster::new(Vec::new());
    cluster.claims = vec![claim("c", Class::Later)];
    let pod = with_claim(pod("p", "", "web"), "c");
    assert_eq!(cluster.takes(&pod), "a b c");
    cluster.allowed = Some("z1");
    assert_eq!(cluster.takes(&pod), "a b");
    // An existing volume need not be provisioned.
    let (name, zone) = ("v".to_owned(), Some("z2"));
    cluster.volumes = vec![Volume { name, version: 1, class: Class::Later, zone, claim: None, made: false }];
    assert_eq!(cluster.takes(&pod), "a b c");
    cluster.claims[0].selected = Some("c".to_owned());
    assert_eq!(cluster.takes(&pod), "");
}

#[test]
fn node_accepts_volumes_up_to_its_driver_limit() {
    let there = || with_claim(pod("there", "a", "web"), "c");
    let mut cluster = Cluster::new(vec![there()]);
    cluster.claims = vec![claim("c", Class::Later), claim("d", Class::Later), claim("e", Class::Local)];
    let new = with_claim(pod("p", "", "web"), "d");
    for (limit, nodes) in [(None, "a b c"), (Some(2), "a b c"), (Some(1), "b c"), (Some(0), "b c")] {
        cluster.limit = limit;
        assert_eq!(cluster.takes(&new), nodes, "{limit:?}");
    }
    // A volume that is already attached does not count again.
    cluster.limit = Some(1);
    assert_eq!(cluster.takes(&with_claim(pod("p", "", "web"), "c")), "a b c");
    assert_eq!(cluster.takes(&pod("p", "", "web")), "a b c");
}
