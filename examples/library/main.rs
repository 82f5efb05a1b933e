//! Asks a cluster which pods the failure of a node leaves pending, and which new nodes place them again.
//!
//! The cluster is made up, and nothing leaves the process. `README.md` beside this file shows the output.

use serde_json::{Value, json};
use std::error::Error;
use std::io::{self, Write};
use supercargo_whatif::cluster::{Cluster, NodeTemplate, Place, ScaleUpPods, ScaleUpTemplate, Setup};

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut io::stdout().lock())
}

/// Asks the questions one after the other, and writes the answers.
pub(crate) fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let nodes = ["a", "b", "c"].map(|zone| node(&format!("node-{zone}"), zone, 4));
    let mut cluster = Cluster::from_objects(nodes.into(), &Setup::default())?;
    cluster.place(&[web()])?;
    writeln!(out, "Six pods are spread over three zones:")?;
    write_nodes(&cluster, out)?;
    let before = cluster.dump();

    // One transaction is the failure, another one within it is the repair.
    cluster.fork();
    cluster.remove_node("node-b")?;
    writeln!(out, "\nIf node-b fails, which of its pods get another node?")?;
    for placement in cluster.place_pending() {
        let answer = placement.node.or(placement.message).unwrap_or_default();
        writeln!(out, "  {}: {answer}", placement.pod)?;
    }

    let small = node("small-b", "b", 2);
    let templates = [
        ScaleUpTemplate { name: "like node-a", node: NodeTemplate::Like("node-a") },
        ScaleUpTemplate { name: "small, in zone b", node: NodeTemplate::Object(&small) },
    ];
    let answer = cluster.scale_up(&templates, ScaleUpPods::Pending, 10)?;
    writeln!(out, "\nHow many new nodes place them again, at most 10?")?;
    for option in &answer.options {
        let (pending, of) = (option.pending, answer.pending_without);
        writeln!(out, "  {}: add {}, {pending} of {of} pods stay pending", option.template, option.count)?;
    }

    cluster.fork();
    for new in &answer.nodes {
        let template = templates.iter().find(|it| it.name == new.template);
        cluster.add_nodes(template.ok_or("the answer names an unknown template")?.node, new.count)?;
    }
    cluster.place_pending();
    let diff = cluster.diff();
    writeln!(out, "\nThe repair adds {} nodes and moves pods:", diff.added_nodes.len())?;
    for (pod, moved) in diff.pods {
        writeln!(out, "  {pod}: {} -> {}", place(moved.from), place(moved.to))?;
    }

    cluster.undo()?;
    cluster.undo()?;
    let is_same = if cluster.dump() == before { "as before" } else { "different" };
    writeln!(out, "\nBoth transactions are undone. The cluster is {is_same}:")?;
    write_nodes(&cluster, out)
}

/// Writes the pods on each node.
fn write_nodes(cluster: &Cluster, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    for node in cluster.nodes() {
        writeln!(out, "  {node}: {}", cluster.pods_on(node)?.join(", "))?;
    }
    Ok(())
}

/// Returns the text of a place.
fn place(place: Option<Place>) -> String {
    match place {
        Some(Place::Node(name)) => name,
        Some(Place::Pending) => "pending".to_owned(),
        None => "does not exist".to_owned(),
    }
}

/// Returns a node with so many CPUs.
fn node(name: &str, zone: &str, cpus: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "topology.kubernetes.io/zone": zone } },
        "status": { "allocatable": { "cpu": cpus.to_string(), "memory": "16Gi", "pods": "110" } },
    })
}

/// Returns a StatefulSet whose numbers of pods per zone differ by at most one. Two of its pods fit on four CPUs.
fn web() -> Value {
    let labels = json!({ "app": "web" });
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "web" },
        "spec": {
            "replicas": 6,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "topologySpreadConstraints": [{
                        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": { "matchLabels": labels },
                    }],
                    "containers": [
                        { "name": "web", "image": "web:1", "resources": { "requests": { "cpu": "1500m" } } },
                    ],
                },
            },
        },
    })
}
