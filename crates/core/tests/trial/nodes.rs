//! The nodes and pods of a trial.

use super::{pod, trial};
use supercargo_core::cycle::{Framework, Sampling};
use supercargo_core::model::node_set::NodeSet;
use supercargo_core::scheduler::Profile;

#[test]
fn largest_product_of_resources_and_nodes_is_evaluated_and_a_larger_one_is_not() {
    let lines: Vec<String> = (0..5_000).map(|number| format!("node n{number} cpu=4")).collect();
    let mut trial = trial(&lines);
    let mut message = |count: usize| {
        let requests: String = (0..count).map(|number| format!(" res:example.com/r{number}=1")).collect();
        let pod = pod(&mut trial, &format!("p{requests}"));
        trial.best_nodes(&pod, None).expect_err("no node has such resources")
    };
    assert!(message(600).starts_with("0/5000 nodes are available: 5000 Insufficient example.com/r"));
    assert!(message(601).contains("601 resources"), "{}", message(601));
}

#[test]
fn node_that_may_not_be_chosen_is_no_best_node() {
    let mut trial = trial(&["node a cpu=4".to_owned(), "node b cpu=4 label:disk=ssd".to_owned()]);
    let pod = pod(&mut trial, "p cpu=1 select:disk=ssd");
    let name = trial.tables_mut().symbol("a");
    let a: NodeSet = trial.snapshot().find_node(name).into_iter().collect();
    assert!(trial.best_nodes(&pod, Some(&a)).is_err());
    assert_eq!(trial.best_nodes(&pod, None).map(|found| found.feasible), Ok(1));
}

#[test]
fn searches_for_best_nodes_take_turns_with_sampling() {
    let lines: Vec<String> = (0..200).map(|number| format!("node n{number} cpu=4")).collect();
    let mut trial = trial(&lines);
    let framework = Framework::default().with_sampling(Some(Sampling::new(50)));
    trial.set_profiles(vec![Profile { name: "default-scheduler".to_owned(), framework }]);
    let mut nodes = |name| {
        let pod = pod(&mut trial, name);
        trial.best_nodes(&pod, None).expect("all nodes are equal").nodes
    };
    let (first, second) = (nodes("p"), nodes("q"));
    assert!(first.iter().all(|node| !second.contains(node)), "each looks at 100 other nodes");
}

#[test]
fn placed_pods_are_those_on_nodes() {
    let mut trial = trial(&["node a cpu=4".to_owned(), "pod p on=a cpu=1".to_owned()]);
    pod(&mut trial, "waiting cpu=1");
    let placed: Vec<_> =
        trial.placed_pods().map(|(pod, node)| (&*pod.name, trial.tables().text(node))).collect();
    assert_eq!(placed, [("p", "a")]);
}
