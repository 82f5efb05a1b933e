//! Property tests over small clusters with all kinds of claims and volumes.

use crate::support::run::{rules, sets_equal_verdicts};
use crate::support::{Plugins, TestCluster, storage};
use proptest::prelude::*;
use std::sync::Arc;
use supercargo_core::cache::{Overlay, PodState};
use supercargo_core::framework::Verdict;
use supercargo_core::model::intern::Tables;
use supercargo_core::model::pod::PodInfo;

const PLUGINS: &str = "VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone NodeDeclaredFeatures";

fn all() -> Plugins {
    let mut plugins = Plugins::default();
    PLUGINS.split_whitespace().for_each(|word| crate::plugins(word, &mut Tables::new(), &mut plugins));
    plugins
}

/// Classes, drivers and capacities of every cluster.
const ALWAYS: &[&str] = &[
    "class hand",
    "class fast of=csi.x",
    "class zoned of=csi.x topology=zone=z1",
    "class roomy of=csi.y",
    "class now of=csi.x immediate",
    "class old of=kubernetes.io/aws-ebs",
    "csidriver csi.y tells",
    "capacity k1 class=roomy size=2Gi nodes=zone=z1",
    "capacity k2 class=roomy size=9Gi nodes=host=n1",
    "capacity k3 class=roomy size=9Gi nodes=zone:absent",
];

fn one_of(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(words)
}

/// Returns a subset of `words`.
fn some_of(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::subsequence(words, 0..=words.len().min(3)).prop_map(|words| words.join(" "))
}

fn node() -> impl Strategy<Value = String> {
    some_of(&[
        "zone=z1",
        "zone=z2",
        "label:topology.kubernetes.io/region=r1",
        "label:failure-domain.beta.kubernetes.io/zone=z1",
        "label:topology.ebs.csi.aws.com/zone=z1",
        "declares=F",
    ])
}

fn csi_node() -> impl Strategy<Value = String> {
    some_of(&[
        "csi.x=0",
        "csi.x=1",
        "csi.x=2",
        "ebs.csi.aws.com=1",
        "migrated=kubernetes.io/aws-ebs",
        "csi.y=any",
    ])
}

fn volume() -> impl Strategy<Value = String> {
    let class = one_of(&["class=hand", "class=hand", "class=fast", "class=zoned", ""]);
    let size = one_of(&["size=1Gi", "size=2Gi", "size=5Gi", ""]);
    let source =
        one_of(&["csi=csi.x/h1", "csi=csi.x/h2", "ebs=vol-1", "ebs=vol-1/zone=z1", "ebs=?wrong", ""]);
    let reach = one_of(&["at=zone=z1", "at=zone:in:z1,z2 at=host=n1", "at=!", "at=zone:absent", "", ""]);
    let rest = some_of(&[
        "zone=z1",
        "region=r1",
        "beta-zone=z1__z2",
        "phase=Bound",
        "for=default/c0",
        "for=default/c1/other",
        "deleting",
        "block",
    ]);
    (class, size, source, reach, rest).prop_map(|(a, b, c, d, e)| format!("{a} {b} {c} {d} {e}"))
}

fn claim() -> impl Strategy<Value = String> {
    let class = one_of(&[
        "class=hand",
        "class=hand",
        "class=fast",
        "class=zoned",
        "class=roomy",
        "class=old",
        "class=now",
        "",
    ]);
    let size = one_of(&["size=1Gi", "size=2Gi", "size=3Gi", ""]);
    let state = one_of(&["bound=v0", "bound=v1", "bound=v9", "selected=n0", "selected=n1", "", "", "", ""]);
    let rest =
        one_of(&["modes=RWOP", "block", "select=k=v", "lost", "owner=p0", "owner=x", "", "", "", "", ""]);
    (class, size, state, rest).prop_map(|(a, b, c, d)| format!("{a} {b} {c} {d}"))
}

fn pod() -> impl Strategy<Value = String> {
    some_of(&[
        "claim=c0",
        "claim=c1",
        "claim=c2",
        "claim=c3",
        "ephemeral=e",
        "gce=d",
        "gce=d:ro",
        "ebs=vol-1",
        "ebs=vol-2",
        "iscsi=i",
        "rbd=m/p/i:ro",
        "csi=csi.x",
        "feature=F",
    ])
}

#[derive(Clone, Debug)]
struct Cluster {
    nodes: Vec<(String, Option<String>)>,
    volumes: Vec<String>,
    claims: Vec<String>,
    pods: Vec<(usize, String)>,
    incoming: String,
}

fn cluster() -> impl Strategy<Value = Cluster> {
    (
        prop::collection::vec((node(), prop::option::of(csi_node())), 1..4),
        prop::collection::vec(volume(), 0..5),
        prop::collection::vec(claim(), 2..5),
        prop::collection::vec((0usize..3, pod()), 0..4),
        pod(),
    )
        .prop_map(|(nodes, volumes, claims, pods, incoming)| Cluster {
            nodes,
            volumes,
            claims,
            pods,
            incoming,
        })
}

/// Builds the cluster, and returns it with the bound pods.
fn build(cluster: &Cluster) -> (TestCluster, Vec<Arc<PodInfo>>) {
    let mut world = TestCluster::new();
    let Cluster { nodes, volumes, claims, pods, .. } = cluster;
    let mut lines: Vec<String> = ALWAYS.iter().map(|&line| line.to_owned()).collect();
    lines.extend(volumes.iter().enumerate().map(|(at, words)| format!("pv v{at} {words}")));
    lines.extend(claims.iter().enumerate().map(|(at, words)| format!("pvc c{at} {words}")));
    lines.push("pvc x-e class=fast owner=x".to_owned());
    lines.push("pvc p0-e class=fast owner=p0".to_owned());
    for (at, (words, csi_node)) in nodes.iter().enumerate() {
        let node = world.node_from(&format!("n{at} {words}"));
        world.add_node(&node);
        lines.extend(csi_node.iter().map(|words| format!("csinode n{at} {words}")));
    }
    for line in &lines {
        assert!(storage::apply(&mut world, line), "{line}");
    }
    let placed = pods.iter().enumerate().map(|(at, (node, words))| {
        let pod = world.pod_from(&format!("p{at} on=n{} {words}", node % nodes.len()));
        world.place(&pod);
        pod
    });
    let placed = placed.collect();
    (world, placed)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1024) })]

    #[test]
    fn filter_equals_check(cluster in cluster()) {
        let (mut world, _) = build(&cluster);
        let pod = world.pod_from(&format!("x {}", cluster.incoming));
        sets_equal_verdicts(world.snapshot(), &rules(&world, &all(), &pod));
        world.cache.refresh();
        sets_equal_verdicts(world.snapshot(), &rules(&world, &all(), &pod));
    }

    /// A node with an overlay is evaluated like a node where the overlay is applied.
    ///
    /// VolumeRestrictions with ReadWriteOncePod claims is excluded: upstream counts a claim of two pods once on a node,
    /// but twice in an overlay.
    #[test]
    fn overlay_equals_the_changed_node(cluster in cluster(), gone in any::<u8>(), come in pod()) {
        let (mut world, placed) = build(&cluster);
        let pod = world.pod_from(&format!("x {}", cluster.incoming));
        let come = world.pod_from(&format!("y on=n0 {come}"));
        let on_first = |p: &&Arc<PodInfo>| p.node_name == come.node_name;
        let gone: Vec<_> = placed.iter().filter(on_first).enumerate()
            .filter(|(at, _)| gone & (1 << at) != 0).map(|(_, p)| p).collect();
        let rules = rules(&world, &all(), &pod);
        let is_for_one = |name: &str| name == "VolumeRestrictions" && cluster.claims.iter().any(|c| c.contains("RWOP"));
        let judged = || rules.iter().filter(|(name, _)| !is_for_one(name));

        let mut overlay = Overlay::new();
        gone.iter().for_each(|p| overlay.remove(p));
        overlay.add(&come);
        let thought: Vec<(&str, Verdict)> = {
            let view = world.snapshot().node(world.idx("n0")).with(&overlay);
            judged().map(|(name, rule)| (*name, rule.check(&view))).collect()
        };
        for p in &gone {
            world.cache.remove_pod(&p.uid);
        }
        world.place(&come);
        let view = world.snapshot().node(world.idx("n0"));
        let done: Vec<(&str, Verdict)> = judged().map(|(name, rule)| (*name, rule.check(&view))).collect();
        prop_assert_eq!(thought, done);
    }

    /// With its reservations, a pod gets the same node again. All of them are released together.
    #[test]
    fn reserved_volumes_keep_the_pod_on_its_node_until_released(cluster in cluster()) {
        let (mut world, _) = build(&cluster);
        let pod = world.pod_from(&format!("x {}", cluster.incoming));
        let plugins = all();
        let verdicts = |world: &TestCluster| {
            let snapshot = world.snapshot();
            let rules = rules(world, &plugins, &pod);
            let binding: Vec<_> = rules.iter().filter(|(name, _)| *name == "VolumeBinding").collect();
            let of = |idx| binding.iter().map(|(_, rule)| rule.check(&snapshot.node(idx))).collect::<Vec<_>>();
            snapshot.nodes().iter().map(|idx| (idx, of(idx))).collect::<Vec<_>>()
        };
        let before = verdicts(&world);
        let Some(&(node, _)) = before.iter().find(|(_, v)| *v == [Verdict::Fits]) else { return Ok(()) };
        let reserved: Vec<_> = rules(&world, &plugins, &pod).iter()
            .flat_map(|(_, rule)| rule.reserve(&world.snapshot().node(node)).expect("the node fits")).collect();
        let name = world.snapshot().node_info(node).name;
        world.cache.place(&pod, name, PodState::Assumed);
        world.cache.assume_volumes(&world.tables, &pod.uid, reserved.clone());
        let now = verdicts(&world);
        let here = now.iter().find(|(idx, _)| *idx == node).expect("the node still exists");
        prop_assert_eq!(&here.1, &vec![Verdict::Fits], "{:?}", reserved);
        world.cache.remove_pod(&pod.uid);
        prop_assert_eq!(verdicts(&world), before);
        prop_assert!(world.cache.volumes().reservations_of(&pod.uid).is_empty());
    }
}
