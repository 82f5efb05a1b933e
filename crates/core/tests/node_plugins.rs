//! The plugins that judge a node by itself: tables, hints and laws.

mod support;

use support::World;

#[test]
fn the_language_says_what_the_builders_say() {
    let mut world = World::new();
    let told = world.node_from("a zone=z1 cpu=4 mem=8Gi res:example.com/gpu=2 taint=k=v:NoSchedule");
    let built = world
        .node("a")
        .zone("z1")
        .cpu(4000)
        .memory(8 << 30)
        .scalar("example.com/gpu", 2)
        .taint("k", "v", supercargo_core::node::TaintEffect::NoSchedule)
        .build();
    assert_eq!(told, built);
    let told = world.pod_from("p label:app=web cpu=500m port=UDP/10.0.0.1:53 select:zone=z1");
    let built = world
        .pod("p")
        .label("app", "web")
        .cpu(500)
        .port("UDP", "10.0.0.1", 53)
        .select("topology.kubernetes.io/zone", "z1")
        .build();
    assert_eq!(told, built);
}
