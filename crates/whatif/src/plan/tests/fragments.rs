//! Plans that gather what is free of a resource.

use super::*;
use supercargo_core::model::node::NodeIdx;

const GPU: &str = "example.com/gpu";

fn gpu_node(name: &str, gpus: u32) -> Value {
    let mut node = node(name, "z1");
    node["status"]["allocatable"][GPU] = json!(gpus.to_string());
    node
}

fn gpu_pod(name: &str, gpus: u32, on: &str) -> Value {
    let mut pod = pod(name, "train", "100m", on);
    let count = json!(gpus.to_string());
    pod["spec"]["containers"][0]["resources"]["requests"][GPU] = count.clone();
    pod["spec"]["containers"][0]["resources"]["limits"] = json!({ GPU: count });
    pod
}

fn fragments_below(percent: u32) -> Bounds {
    Bounds { fragmented: Some((GPU.to_owned(), percent)), ..Bounds::default() }
}

#[test]
fn free_devices_are_gathered_on_whole_nodes() {
    let nodes = || vec![gpu_node("a", 8), gpu_node("b", 8), gpu_node("c", 8), node("d", "z1")];
    let mut objects = nodes();
    objects.extend([gpu_pod("a1", 2, "a"), gpu_pod("b1", 2, "b"), gpu_pod("b2", 2, "b")]);
    // It uses no devices, and stays.
    objects.push(pod("a2", "web", "500m", "a"));
    let mut fragmented = cluster(objects);
    let before = fragmented.dump();
    let plan =
        rebalance(&mut fragmented, &fragments_below(20), Accepted::default()).expect("there are devices");
    assert_eq!(fragmented.dump(), before);
    let text = "55 % of the free amount, 10 of 18, on nodes with pods that use it";
    assert_eq!(plan.before[0].text, text, "{plan:#?}");
    assert!(plan.is_balanced && plan.after.is_empty(), "{plan:#?}");
    assert_eq!(plan.cordoned, ["a", "c"], "{plan:#?}");
    let moved: Vec<_> = plan.moves.iter().map(|it| (it.pod.as_str(), it.to.as_str())).collect();
    assert_eq!(moved, [("default/a1", "b")], "{plan:#?}");

    // One of two pods cannot leave, so neither does.
    let mut objects = nodes();
    let mut alone = gpu_pod("a1", 1, "a");
    alone["metadata"]["ownerReferences"] = json!([]);
    objects.extend([alone, gpu_pod("a2", 1, "a"), gpu_pod("b1", 7, "b")]);
    let mut kept = cluster(objects);
    let plan = rebalance(&mut kept, &fragments_below(20), Accepted::default()).expect("there are devices");
    assert!(!plan.is_balanced && plan.moves.is_empty() && plan.cordoned.is_empty(), "{plan:#?}");
}

#[test]
fn replayed_plans_against_fragments_lower_them() {
    let (mut lowered, mut refused) = (0, 0);
    for seed in 0..60 {
        let mut random = Random(seed);
        let names = ["a", "b", "c", "d", "e"];
        let mut objects: Vec<Value> = names.iter().map(|name| gpu_node(name, 4)).collect();
        let mut free = [4; 5];
        for at in 0..random.below(8) {
            let (node, gpus) = (random.below(5), 1 + random.below(2));
            if free[node] >= gpus {
                free[node] -= gpus;
                objects.push(gpu_pod(&format!("p{at}"), gpus as u32, names[node]));
            }
        }
        let fragments = |free: &[usize; 5]| free.iter().filter(|&&it| it < 4).sum::<usize>();
        let before = fragments(&free);
        let mut cluster = cluster(objects);
        let plan =
            rebalance(&mut cluster, &fragments_below(0), Accepted::default()).expect("there are devices");
        let place = |name: &str| names.iter().position(|it| *it == name).expect("it is a node");
        for node in &plan.cordoned {
            cordon(cluster.trial_mut(), node);
        }
        for step in &plan.moves {
            let pod =
                cluster.owned_pods().find(|(key, _)| *key == step.pod).expect("it exists").1.pod.clone();
            let gpus = pod.resources.placed.scalar[0].1 as usize;
            free[place(&step.from)] += gpus;
            free[place(&step.to)] -= gpus;
            let trial = cluster.trial_mut();
            trial.remove_pod(&pod.uid);
            let again = Arc::new(afresh(&pod));
            let best = trial.best_nodes(&again, None).expect("a node is feasible");
            let snapshot = trial.snapshot();
            let name = |node: &NodeIdx| snapshot.text(snapshot.node_info(*node).name).to_owned();
            let mut ties: Vec<String> = best.nodes.iter().map(name).collect();
            ties.sort_unstable();
            assert_eq!(ties, step.ties, "seed {seed}: {plan:#?}");
            let to = trial.tables().find(&step.to).expect("it is a node");
            let to = trial.snapshot().find_node(to).expect("it is a node");
            assert!(trial.assume_on(&again, to), "seed {seed}");
        }
        let after = fragments(&free);
        match plan.moves.is_empty() {
            true => assert_eq!(after, before),
            false => assert!(after < before, "seed {seed}: {before} {after} {plan:#?}"),
        }
        lowered += usize::from(after < before);
        refused += usize::from(after > 0 && after == before);
        assert_eq!(plan.is_balanced, after == 0, "seed {seed}: {plan:#?}");
    }
    assert!(lowered > 20 && refused > 0, "{lowered} {refused}");
}
