//! The workload: random changes of the cluster by users, controllers, kubelets and another scheduler.

use crate::agenda::Due;
use crate::drivers::has_devices;
use crate::groups::has_groups;
use crate::objects::{Affinity, Node, NodeChoice, Pod, Reach, Spread, Term, Topology};
use crate::server::By;
use crate::sim::Sim;
use std::sync::Arc;
use std::time::Duration;
use supercargo_core::model::event::Kind;
use supercargo_core::model::node::TaintEffect;

const APPS: [&str; 3] = ["web", "db", "job"];
pub(crate) const ZONES: [&str; 3] = ["z1", "z2", "z3"];
const TAINTS: [&str; 2] = ["gpu", "spot"];
const TEAMS: [&str; 2] = ["red", "blue"];
const NAMESPACES: [&str; 2] = ["default", "other"];
const GIB: i64 = 1 << 30;

/// The watches that may lose their connection; that of pods is listed more often.
const WATCHED: [Kind; 11] = [
    Kind::Pod,
    Kind::Pod,
    Kind::Pod,
    Kind::Node,
    Kind::Node,
    Kind::Namespace,
    Kind::Service,
    Kind::PersistentVolume,
    Kind::PersistentVolumeClaim,
    Kind::StorageClass,
    Kind::CsiNode,
];

/// The watches of devices.
const WATCHED_DEVICES: [Kind; 4] =
    [Kind::ResourceClaim, Kind::ResourceClaim, Kind::ResourceSlice, Kind::DeviceClass];

#[derive(Clone, Copy, Debug)]
enum Act {
    CreatePod,
    CreateForeignPod,
    DeletePod,
    FinishPod,
    BindElsewhere,
    ReleaseGate,
    RelabelPod,
    TolerateMore,
    ScaleDown,
    Resize,
    Recreate,
    CreateNode,
    DeleteNode,
    ReplaceNode,
    ResizeNode,
    TaintNode,
    Cordon,
    MoveNode,
    RelabelNamespace,
    CreateClaim,
    DeleteClaim,
    CreateVolume,
    DeleteVolume,
    MoveVolume,
    MoveClass,
    LimitVolumes,
}

const ACTS: [(u64, Act); 26] = [
    (40, Act::CreatePod),
    (4, Act::CreateForeignPod),
    (10, Act::DeletePod),
    (20, Act::FinishPod),
    (2, Act::BindElsewhere),
    (6, Act::ReleaseGate),
    (3, Act::RelabelPod),
    (2, Act::TolerateMore),
    (3, Act::ScaleDown),
    (2, Act::Resize),
    (4, Act::Recreate),
    (8, Act::CreateNode),
    (3, Act::DeleteNode),
    (3, Act::ReplaceNode),
    (5, Act::ResizeNode),
    (4, Act::TaintNode),
    (4, Act::Cordon),
    (6, Act::MoveNode),
    (3, Act::RelabelNamespace),
    (4, Act::CreateClaim),
    (2, Act::DeleteClaim),
    (4, Act::CreateVolume),
    (1, Act::DeleteVolume),
    (2, Act::MoveVolume),
    (1, Act::MoveClass),
    (2, Act::LimitVolumes),
];

impl Sim {
    /// Creates the initial objects.
    pub(crate) fn create_initial_objects(&mut self) {
        self.server.put_classes();
        self.create_device_classes();
        for name in NAMESPACES {
            let team = self.draw.pick(&TEAMS);
            self.server.put_namespace(name, team);
        }
        self.server.services = vec![APPS[0]];
        // In clusters with many racks, nearly every rack has a node.
        let nodes = self.scale.nodes;
        let fewest = if self.scale.is_wide() { nodes - 4 } else { 3.max(nodes / 2) };
        for _ in 0..self.draw.between(fewest, nodes) {
            self.create_node();
        }
        for _ in 0..self.draw.between(self.scale.pods / 4, self.scale.pods / 2) {
            let foreign = self.draw.percent(30);
            if foreign { self.create_foreign_pod() } else { self.create_pod() }
        }
    }

    /// Performs one action of the world, or a fault of a connection or the process.
    // long because: one arm for each act
    pub(crate) fn act(&mut self) {
        if self.inject_fault() || self.act_on_devices() || self.act_on_groups() {
            return;
        }
        match self.draw.weighted(&ACTS) {
            Act::CreatePod => self.create_pod(),
            Act::CreateForeignPod => self.create_foreign_pod(),
            Act::DeletePod => self.delete_pod(),
            Act::FinishPod => self.finish_pod(),
            Act::BindElsewhere => self.bind_by_another_scheduler(),
            Act::ReleaseGate => self.change_pod("gate removed", |p| p.gated, |p, _| p.gated = false),
            Act::RelabelPod => {
                let app = self.draw.pick(&APPS);
                self.change_pod("relabeled", |_| true, |p, _| p.app = app);
            }
            Act::TolerateMore => {
                let key = self.draw.pick(&TAINTS);
                let lacks = |p: &Pod| p.node.is_none() && !p.tolerates.contains(&key);
                self.change_pod("toleration added", lacks, |p, _| p.tolerates.push(key));
            }
            Act::ScaleDown => self.change_pod(
                "scaled down",
                |p| p.node.is_some() && p.cpu_milli > 1,
                |p, _| {
                    p.cpu_milli /= 2;
                    p.memory /= 2;
                    p.gpus = 0;
                },
            ),
            Act::Resize => {
                let (cpu, memory) = (self.draw.pick(&[100, 1_000, 2_000]), self.draw.pick(&[GIB / 4, GIB]));
                let device_stays = self.draw.percent(50);
                let device_goes = |p: &mut Pod, _: &str| p.gpus = 0;
                if device_stays {
                    self.change_pod("resized", |_| true, |p, _| (p.cpu_milli, p.memory) = (cpu, memory));
                } else {
                    self.change_pod("device request removed", |p| p.gpus > 0, device_goes);
                }
            }
            Act::Recreate => self.recreate_pod(),
            Act::CreateNode => self.create_node(),
            Act::DeleteNode => drop(self.delete_node()),
            Act::ReplaceNode => {
                if let Some(name) = self.delete_node() {
                    self.create_node_named(name);
                }
            }
            Act::ResizeNode => self.resize_node(),
            Act::TaintNode => self.taint_node(),
            Act::Cordon => {
                let cordoned = self.draw.percent(30);
                self.change_node("cordoned or uncordoned", |n| n.cordoned = cordoned);
            }
            Act::MoveNode => {
                if self.draw.percent(50) {
                    let zone = self.draw_zone();
                    self.change_node("moved to another zone", |n| n.zone = zone);
                } else {
                    let rack = self.draw_rack();
                    self.change_node("moved to another rack", |n| n.rack = rack);
                }
            }
            Act::RelabelNamespace => {
                let (name, team) = (self.draw.pick(&NAMESPACES), self.draw.pick(&TEAMS));
                self.say("cluster", name, format_args!("team {team}"));
                self.server.put_namespace(name, team);
            }
            Act::CreateClaim => self.create_missing_claim(),
            Act::DeleteClaim => self.delete_claim(),
            Act::CreateVolume => self.create_volume(),
            Act::DeleteVolume => self.delete_volume(),
            Act::MoveVolume => self.move_volume(),
            Act::MoveClass => self.move_class(),
            Act::LimitVolumes => self.limit_volumes(),
        }
    }

    /// Injects a fault of a connection, the process, the lease or the clock, or none. Returns whether it did.
    fn inject_fault(&mut self) -> bool {
        if self.draw.percent(self.fault_rates.disconnect) {
            let is_of_devices = has_devices(self.seed) && self.draw.percent(30);
            let is_of_groups = has_groups(self.seed) && self.draw.percent(30);
            let kinds = if is_of_devices { &WATCHED_DEVICES[..] } else { &WATCHED };
            let kind = if is_of_groups { Kind::PodGroup } else { self.draw.pick(kinds) };
            self.disconnect(kind);
        } else if self.draw.percent(self.fault_rates.list_again) {
            let kind = if self.draw.percent(50) { Kind::Pod } else { self.draw.pick(&Kind::EVERY) };
            self.list_again(kind);
        } else if self.draw.percent(self.fault_rates.restart) {
            self.restart();
        } else if self.draw.percent(self.fault_rates.lose_lead) {
            self.lose_lead();
        } else if self.draw.below(1_000) < self.fault_rates.clock_jump {
            self.jump();
        } else if !self.process.leads && self.draw.percent(20) {
            // The other leader binds our pods.
            self.bind_by_another_scheduler();
        } else {
            return false;
        }
        true
    }

    // --- pods

    fn create_pod(&mut self) {
        if self.server.pods.len() as u64 >= self.scale.pods {
            return self.delete_pod();
        }
        let pod = self.draw_pod(true);
        let (cpu, priority, claims) = (pod.cpu_milli, pod.priority, pod.claims.join(" "));
        self.say(
            "cluster",
            &pod.uid,
            format_args!("created, cpu {cpu}, priority {priority}, claims [{claims}]"),
        );
        self.server.put_pod(pod, By::Others);
    }

    fn create_foreign_pod(&mut self) {
        let mut pod = self.draw_pod(false);
        pod.gated = false;
        let nodes: Vec<_> = self.server.nodes.keys().cloned().collect();
        if !nodes.is_empty() && self.draw.percent(80) {
            pod.node = Some(nodes[self.draw.below(nodes.len() as u64) as usize].clone());
        }
        let node = pod.node.clone().unwrap_or_default();
        self.say("cluster", &pod.uid, format_args!("created on {node} for another scheduler"));
        self.server.put_pod(pod, By::Others);
    }

    pub(crate) fn draw_pod(&mut self, ours: bool) -> Pod {
        self.created += 1;
        let namespace = self.draw.pick(&NAMESPACES);
        let claims = self.draw_claims(namespace);
        let (devices, tpus) = self.draw_pod_devices(namespace);
        let draw = &mut self.draw;
        let app = draw.pick(&APPS);
        let port = [("0.0.0.0", 80), ("10.0.0.1", 80), ("10.0.0.2", 80), ("0.0.0.0", 443)];
        Pod {
            uid: format!("p{}", self.created),
            name: format!("p{}", self.created),
            namespace,
            version: 0,
            app,
            ours,
            node: None,
            bound_by: None,
            deleting: false,
            gated: draw.percent(8),
            priority: draw.pick(&[0, 0, 0, 10, -5]),
            cpu_milli: draw.pick(&[0, 100, 500, 1_000, 1_500, 3_000]),
            memory: draw.pick(&[0, GIB / 4, GIB, 2 * GIB]),
            gpus: if draw.percent(10) { 1 } else { 0 },
            port: draw.percent(15).then(|| draw.pick(&port)),
            tolerates: if draw.percent(25) { vec![draw.pick(&TAINTS)] } else { Vec::new() },
            node_choice: self.draw_node_choice(),
            affinity: self.draw_affinity(),
            spread: self.draw_spread(app),
            claims,
            devices,
            tpus,
            group: None,
            nominated: None,
            preempted: false,
            condition: None,
        }
    }

    fn draw_node_choice(&mut self) -> NodeChoice {
        let draw = &mut self.draw;
        match draw.below(10) {
            0 => NodeChoice::Zone(draw.pick(&ZONES)),
            1 => NodeChoice::OneOf(vec![draw.pick(&ZONES), draw.pick(&ZONES)]),
            2 => NodeChoice::NoneOf(vec![draw.pick(&ZONES)]),
            3 if draw.percent(50) => {
                let mut name = || format!("n{}", draw.between(1, self.scale.nodes + 1));
                NodeChoice::Named(vec![name(), name()])
            }
            _ => NodeChoice::Anything,
        }
    }

    fn draw_affinity(&mut self) -> Affinity {
        let draw = &mut self.draw;
        let mut terms = |percent| {
            let mut terms = Vec::new();
            while draw.percent(percent) && terms.len() < 2 {
                terms.push(Term {
                    app: draw.pick(&APPS),
                    topology: draw.pick(&Topology::ALL),
                    reach: draw.pick(&[Reach::Own, Reach::Own, Reach::Everywhere, Reach::Team(TEAMS[0])]),
                });
            }
            terms
        };
        Affinity { with: terms(10), without: terms(15), rather_with: terms(10), rather_without: terms(10) }
    }

    fn draw_spread(&mut self, app: &'static str) -> Vec<Spread> {
        let draw = &mut self.draw;
        let mut constraints = Vec::new();
        while draw.percent(20) && constraints.len() < 2 {
            let hard = draw.percent(70);
            constraints.push(Spread {
                app: if draw.percent(80) { app } else { draw.pick(&APPS) },
                topology: draw.pick(&Topology::ALL),
                max_skew: draw.pick(&[1, 1, 2]),
                hard,
                min_domains: if hard { draw.pick(&[1, 1, 1, 3]) } else { 1 },
                honor_affinity: draw.percent(80),
                honor_taints: draw.percent(30),
            });
        }
        constraints
    }

    /// Returns a random pod for which `fits` returns true.
    pub(crate) fn some_pod(&mut self, fits: impl Fn(&Pod) -> bool) -> Option<Arc<Pod>> {
        let found: Vec<_> = self.server.pods.values().filter(|pod| fits(pod)).cloned().collect();
        if found.is_empty() {
            return None;
        }
        Some(Arc::clone(&found[self.draw.below(found.len() as u64) as usize]))
    }

    fn change_pod(&mut self, what: &str, fits: impl Fn(&Pod) -> bool, change: impl FnOnce(&mut Pod, &str)) {
        let Some(pod) = self.some_pod(|pod| !pod.deleting && fits(pod)) else { return };
        let mut changed = Pod::clone(&pod);
        change(&mut changed, what);
        self.say("cluster", &pod.uid, format_args!("{what}"));
        self.server.put_pod(changed, By::Others);
    }

    fn delete_pod(&mut self) {
        let Some(pod) = self.some_pod(|pod| !pod.deleting) else { return };
        // A pod that is not on a node is removed at once, unless a finalizer holds it.
        if pod.node.is_none() && self.draw.percent(70) {
            self.say("cluster", &pod.uid, format_args!("deleted at once"));
            return self.server.remove_pod(&pod.uid);
        }
        self.say("cluster", &pod.uid, format_args!("terminating"));
        self.server.put_pod(Pod { deleting: true, ..Pod::clone(&pod) }, By::Others);
        self.delete_later(pod.uid.clone(), 30);
    }

    /// Deletes a pod and creates another one with the same name: often an equal one, as a StatefulSet does.
    fn recreate_pod(&mut self) {
        let Some(pod) = self.some_pod(|pod| pod.ours) else { return };
        self.server.remove_pod(&pod.uid);
        let drawn = self.draw_pod(true);
        let again = if self.draw.percent(60) {
            pod.successor(drawn.uid)
        } else {
            let (name, namespace, claims) = (pod.name.clone(), pod.namespace, pod.claims.clone());
            let of_devices = pod.successor(drawn.uid.clone());
            Pod { name, namespace, claims, devices: of_devices.devices, tpus: of_devices.tpus, ..drawn }
        };
        self.say("cluster", &pod.uid, format_args!("deleted, recreated as {}", again.uid));
        self.server.put_pod(again, By::Others);
    }

    fn delete_later(&mut self, uid: String, seconds: u64) {
        let after = Duration::from_millis(self.draw.below(seconds * 1_000));
        self.agenda.write(self.now + after, Due::Gone(uid));
    }

    fn finish_pod(&mut self) {
        let Some(pod) = self.some_pod(|pod| pod.node.is_some()) else { return };
        self.say("cluster", &pod.uid, format_args!("finished"));
        self.server.remove_pod(&pod.uid);
    }

    /// Another scheduler or a user binds one of our pods.
    fn bind_by_another_scheduler(&mut self) {
        let free = |pod: &Pod| pod.ours && pod.node.is_none() && !pod.gated && !pod.deleting;
        if let Some(pod) = self.some_pod(free) {
            self.bind_elsewhere(&pod);
        }
    }

    /// Binds a pending pod in the name of another client.
    pub(crate) fn bind_elsewhere(&mut self, pod: &Pod) {
        let nodes: Vec<_> = self.server.nodes.keys().cloned().collect();
        if nodes.is_empty() || pod.gated || pod.deleting {
            return;
        }
        let drawn = &nodes[self.draw.below(nodes.len() as u64) as usize];
        // Often to the node that was chosen for it here, while its volumes or devices are bound.
        let chosen = self.process.counts_on(pod).map(str::to_owned).filter(|node| nodes.contains(node));
        let node = chosen.as_ref().filter(|_| pod.uid.len().is_multiple_of(2)).unwrap_or(drawn);
        self.say("cluster", &pod.uid, format_args!("bound to {node} by another scheduler"));
        let bound = self.server.bind(&pod.uid, node, By::Others, None);
        debug_assert!(bound.is_ok(), "a pending pod can be bound: {bound:?}");
    }

    // --- nodes

    fn draw_zone(&mut self) -> Option<&'static str> {
        (!self.draw.percent(10)).then(|| self.draw.pick(&ZONES))
    }

    fn draw_rack(&mut self) -> Option<u64> {
        (!self.draw.percent(5)).then(|| self.draw.below(self.scale.racks))
    }

    fn create_node(&mut self) {
        let free: Vec<_> = (1..=self.scale.nodes)
            .map(|i| format!("n{i}"))
            .filter(|name| !self.server.nodes.contains_key(name))
            .collect();
        if free.is_empty() {
            return;
        }
        let name = free[self.draw.below(free.len() as u64) as usize].clone();
        self.create_node_named(name);
    }

    fn create_node_named(&mut self, name: String) {
        let zone = self.draw_zone();
        // Racks are assigned to nodes in turn, so that each rack has some.
        let number = name[1..].parse::<u64>().expect("a node's name is n and a number");
        let rack = if self.draw.percent(90) { Some(number % self.scale.racks) } else { self.draw_rack() };
        if self.draw.percent(40) {
            self.put_csi_node(&name);
        }
        let draw = &mut self.draw;
        let node = Node {
            name,
            version: 0,
            zone,
            rack,
            cordoned: false,
            taints: if draw.percent(20) {
                vec![(draw.pick(&TAINTS), TaintEffect::NoSchedule)]
            } else {
                Vec::new()
            },
            cpu_milli: draw.pick(&[1_000, 4_000, 8_000, 16_000]),
            memory: draw.pick(&[2, 16, 64]) * GIB,
            gpus: draw.pick(&[0, 2, 4]),
            pods: draw.pick(&[3, 10, 20]),
            images: if draw.percent(50) { vec![draw.pick(&APPS)] } else { Vec::new() },
        };
        let (cpu, pods) = (node.cpu_milli, node.pods);
        let what = format_args!("created, cpu {cpu}, pods {pods}, zone {zone:?}, rack {rack:?}");
        self.say("cluster", &node.name, what);
        self.server.put_node(node);
    }

    pub(crate) fn some_node(&mut self) -> Option<Arc<Node>> {
        let found: Vec<_> = self.server.nodes.values().cloned().collect();
        if found.is_empty() {
            return None;
        }
        Some(Arc::clone(&found[self.draw.below(found.len() as u64) as usize]))
    }

    fn change_node(&mut self, what: &str, change: impl FnOnce(&mut Node)) {
        let Some(node) = self.some_node() else { return };
        let mut changed = Node::clone(&node);
        change(&mut changed);
        self.say("cluster", &node.name, format_args!("{what}"));
        self.server.put_node(changed);
    }

    /// Deletes a random node, with or without its pods, and returns its name.
    fn delete_node(&mut self) -> Option<String> {
        let node = self.some_node()?;
        self.say("cluster", &node.name, format_args!("deleted"));
        self.server.remove_node(&node.name);
        self.server.remove_csi_node(&node.name);
        // The pod garbage collector is delayed.
        let here = |pod: &&Arc<Pod>| pod.node.as_ref() == Some(&node.name);
        let orphans: Vec<_> = self.server.pods.values().filter(here).map(|pod| pod.uid.clone()).collect();
        for uid in orphans {
            if self.draw.percent(70) {
                self.delete_later(uid, 60);
            }
        }
        Some(node.name.clone())
    }

    fn resize_node(&mut self) {
        let (cpu, pods) = (self.draw.pick(&[500, 4_000, 8_000, 16_000]), self.draw.pick(&[1, 8, 20]));
        self.change_node("resized", |node| {
            node.cpu_milli = cpu;
            node.pods = pods;
        });
    }

    fn taint_node(&mut self) {
        let key = self.draw.pick(&TAINTS);
        let effects = [TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule, TaintEffect::NoExecute];
        let effect = self.draw.pick(&effects);
        let tainted = self.draw.percent(40);
        self.change_node("tainted or untainted", |node| {
            node.taints.retain(|(k, _)| *k != key);
            if tainted {
                node.taints.push((key, effect));
            }
        });
    }
}
