//! `supercargo explain` for pod groups and their members.

use crate::support::{Cluster, Ran, codes, node, plain_node, pod, run};
use serde_json::{Value, json};

pub(crate) const GATES: &str =
    "--feature-gates=GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true";

/// A pod of the group `g`; `more` is merged into its spec.
pub(crate) fn member(name: &str, cpu: &str, more: &Value) -> Value {
    let mut pod = pod(name, cpu, more);
    pod["spec"]["schedulingGroup"] = json!({ "podGroupName": "g" });
    pod
}

pub(crate) fn group(min_count: usize, key: Option<&str>) -> Value {
    let mut spec = json!({ "schedulingPolicy": { "gang": { "minCount": min_count } } });
    if let Some(key) = key {
        spec["schedulingConstraints"] = json!({ "topology": [{ "key": key }] });
    }
    json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": { "name": "g", "namespace": "default", "uid": "g" }, "spec": spec,
    })
}

pub(crate) fn in_rack(name: &str, rack: &str) -> Value {
    node(name, &json!({ "rack": rack }), &json!({}))
}

fn members(number: usize, cpu: &str) -> Vec<Value> {
    (0..number).map(|at| member(&format!("p{at}"), cpu, &json!({}))).collect()
}

fn ask(objects: &[Value], target: &str, more: &[&str]) -> Ran {
    let cluster = Cluster::of(objects);
    let flags = ["explain", target, "--cluster", "cluster", "--emulated-version", "1.36", GATES];
    run(cluster.folder(), &[&flags[..], more].concat())
}

/// Returns the explanation of the group, and the exit code.
fn of_group(objects: &[Value]) -> (Value, Option<i32>) {
    let ran = ask(objects, "podgroup/g", &["-o", "json"]);
    (ran.json("PodGroupExplanation"), ran.code)
}

fn of_pod(objects: &[Value], pod: &str) -> (Value, Option<i32>) {
    let ran = ask(objects, &format!("pod/{pod}"), &["-o", "json"]);
    (ran.json("PodExplanation"), ran.code)
}

fn assert_verdict(objects: &[Value], verdict: &str, code: i32, summary: &str) -> Value {
    let (answer, exit) = of_group(objects);
    assert_eq!((answer["verdict"].as_str(), exit), (Some(verdict), Some(code)), "{answer:#}");
    assert_eq!(answer["summary"], summary, "{answer:#}");
    answer
}

fn with(nodes: &[Value], group: Value, members: Vec<Value>) -> Vec<Value> {
    let mut all = nodes.to_vec();
    all.push(group);
    all.extend(members);
    all
}

#[test]
fn group_that_fits_starts_now_and_later_has_started() {
    let fits = with(&[plain_node("a")], group(2, None), members(2, "1"));
    let summary =
        "2 members of at least 2 fit now. If they stay pending, the scheduler has not processed them yet";
    let answer = assert_verdict(&fits, "startsNow", 0, summary);
    assert_eq!((&answer["waiting"], &answer["fits"], &answer["lacks"]), (&json!(2), &json!(2), &json!(0)));
    assert_eq!(answer["changes"], json!([]));
    let bound: Vec<Value> =
        ["p", "q"].iter().map(|name| member(name, "1", &json!({ "nodeName": "a" }))).collect();
    let answer = assert_verdict(
        &with(&[plain_node("a")], group(2, None), bound),
        "started",
        0,
        "all 2 members have a node",
    );
    assert_eq!((&answer["bound"], &answer["members"]), (&json!(2), &json!(2)));
}

#[test]
fn unschedulable_member_is_named_with_what_it_lacks() {
    let others =
        vec![member("p", "1", &json!({})), member("q", "1", &json!({})), member("r", "3", &json!({}))];
    let objects = with(&[plain_node("a")], group(3, None), others);
    let answer = assert_verdict(
        &objects,
        "neverFits",
        3,
        "even in an empty cluster, only 2 members of at least 3 fit",
    );
    assert_eq!((&answer["fits"], &answer["lacks"]), (&json!(2), &json!(1)), "{answer:#}");
    let short = &answer["short"][0];
    assert_eq!((&short["members"], &short["examples"]), (&json!(1), &json!(["default/r"])), "{answer:#}");
    assert_eq!(short["reasons"][0]["text"], "requests 3 cpu; most free: 2 of 4, on a");
    assert_eq!(codes(&answer), ["LowerRequest", "AddNode", "GrowNode", "LowerMinCount"], "{answer:#}");
}

#[test]
fn equal_members_are_short_together_and_as_many_nodes_as_needed_are_added() {
    let busy = pod("busy", "4", &json!({ "nodeName": "b" }));
    let objects = with(&[plain_node("a"), plain_node("b"), busy], group(4, None), members(4, "4"));
    let answer = assert_verdict(
        &objects,
        "neverFits",
        3,
        "even in an empty cluster, only 2 members of at least 4 fit",
    );
    assert_eq!(answer["short"][0]["members"], 3, "{answer:#}");
    let changes = answer["changes"].as_array().expect("a list");
    let add = changes.iter().find(|change| change["codes"] == json!(["AddNode"])).expect("nodes help");
    assert_eq!((&add["text"], &add["fitsOn"]), (&json!("add 3 nodes like a"), &json!(4)), "{answer:#}");
}

#[test]
fn closest_topology_domain_is_named_with_what_it_lacks() {
    let nodes =
        [in_rack("a", "x"), in_rack("b", "y"), in_rack("c", "y"), pod("o", "4", &json!({ "nodeName": "a" }))];
    let busy = pod("busy", "2", &json!({ "nodeName": "b" }));
    let objects = [&nodes[..], &[busy, group(4, Some("rack"))], &members(4, "2")].concat();
    let summary = "3 members of at least 4 fit now in rack=y, the closest of 2 domains; 1 more must fit";
    let answer = assert_verdict(&objects, "blocked", 3, summary);
    assert_eq!((&answer["topologyKey"], &answer["closest"]), (&json!("rack"), &json!("y")));
    let expected = json!([
        { "name": "y", "nodes": 2, "fits": 3, "lacks": 1 }, { "name": "x", "nodes": 1, "fits": 0, "lacks": 4 }
    ]);
    assert_eq!(answer["domains"], expected);
    assert_eq!(answer["short"][0]["reasons"][0]["nodes"], 2, "only nodes of the domain: {answer:#}");
    assert!(codes(&answer).contains(&"AddNode".to_owned()), "{answer:#}");
    assert!(codes(&answer).contains(&"LowerMinCount".to_owned()), "{answer:#}");
}

#[test]
fn dropped_topology_constraint_is_suggested_if_it_helps() {
    let nodes = [in_rack("a", "x"), in_rack("b", "y")];
    let objects = with(&nodes, group(2, Some("rack")), members(2, "4"));
    let summary = "even in an empty cluster, only 1 member of at least 2 fits in one topology domain";
    let answer = assert_verdict(&objects, "neverFits", 3, summary);
    assert!(codes(&answer).contains(&"DropTopologyConstraint".to_owned()), "{answer:#}");
    let unknown = with(&nodes, group(2, Some("zone")), members(2, "1"));
    let answer = of_group(&unknown).0;
    assert!(codes(&answer).contains(&"DropTopologyConstraint".to_owned()), "{answer:#}");
}

#[test]
fn group_with_too_few_members_or_without_podgroup_says_so() {
    let few = with(&[plain_node("a")], group(3, None), members(2, "1"));
    let answer =
        assert_verdict(&few, "tooFewMembers", 3, "it has 2 members of at least 3; 1 more must be created");
    assert_eq!(codes(&answer), ["AddMembers", "LowerMinCount"], "{answer:#}");
    let (answer, code) = of_group(&[vec![plain_node("a")], members(2, "1")].concat());
    assert_eq!((&answer["verdict"], code), (&json!("noGroup"), Some(3)), "{answer:#}");
    assert_eq!(codes(&answer), ["CreatePodGroup"], "{answer:#}");
}

#[test]
fn group_that_waits_for_a_claim_may_fit_later() {
    let volumes =
        json!({ "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "missing" } }] });
    let others = vec![member("p", "1", &json!({})), member("q", "1", &volumes)];
    let summary = "1 member of at least 2 fits now; 1 more must fit";
    let answer = assert_verdict(&with(&[plain_node("a")], group(2, None), others), "blocked", 3, summary);
    assert_eq!(answer["short"][0]["reasons"][0]["code"], "ClaimNotReady", "{answer:#}");
}

#[test]
fn min_count_is_changed_in_place_only_where_the_api_allows_it() {
    let how = |api: &str| {
        let mut group = group(3, None);
        group["apiVersion"] = json!(format!("scheduling.k8s.io/{api}"));
        let answer = of_group(&with(&[plain_node("a")], group, members(3, "2"))).0;
        let changes = answer["changes"].as_array().expect("a list").clone();
        let lower = changes.into_iter().find(|change| change["codes"] == json!(["LowerMinCount"]));
        lower.unwrap_or_else(|| panic!("{answer:#}"))["how"].as_str().expect("a text").to_owned()
    };
    assert_eq!(how("v1alpha2"), "delete the PodGroup and create it again: v1alpha2 cannot change minCount");
    let patch = r#"kubectl patch podgroup g --namespace default --type merge --patch '{"spec":{"schedulingPolicy":{"gang":{"minCount":2}}}}'"#;
    assert_eq!(how("v1beta1"), patch);
}

#[test]
fn members_of_different_schedulers_fail_together() {
    let other = member("q", "1", &json!({ "schedulerName": "supercargo" }));
    let objects = with(&[plain_node("a")], group(2, None), vec![member("p", "1", &json!({})), other]);
    let (answer, code) = of_group(&objects);
    assert_eq!((&answer["verdict"], code), (&json!("failed"), Some(3)), "{answer:#}");
    let summary = answer["summary"].as_str().expect("a text");
    assert!(summary.contains("should have the same .spec.schedulerName set"), "{summary}");
}

#[test]
fn gated_members_hold_back_the_group() {
    let gated = member("gated", "1", &json!({ "schedulingGates": [{ "name": "wait" }] }));
    let objects = with(&[plain_node("a"), gated], group(3, None), members(2, "1"));
    let summary = "1 member is gated or being deleted, so only 2 of at least 3 may be scheduled";
    let answer = assert_verdict(&objects, "blocked", 3, summary);
    assert!(codes(&answer).contains(&"RemoveSchedulingGates".to_owned()), "{answer:#}");
    assert_eq!((&answer["gated"], &answer["waiting"]), (&json!(1), &json!(2)));
}

#[test]
fn pod_that_fits_alone_waits_for_its_group() {
    let objects = with(&[plain_node("a")], group(3, None), members(3, "2"));
    let (answer, code) = of_pod(&objects, "p0");
    assert_eq!((&answer["verdict"], code), (&json!("waitsForGroup"), Some(3)), "{answer:#}");
    let summary = answer["summary"].as_str().expect("a text");
    assert!(summary.starts_with("it waits for its group default/g: even in an empty cluster"), "{summary}");
    assert!(summary.ends_with("Alone, the pod would fit on 1 node"), "{summary}");
    let event = answer["event"].as_str().expect("a text");
    assert!(event.starts_with("pod group is unschedulable"), "{event}");
    assert_eq!(answer["group"]["short"][0]["examples"], json!(["default/p2"]), "{answer:#}");
    // The same pod with a smaller group fits, and is no member without the gates.
    let (answer, code) = of_pod(&with(&[plain_node("a")], group(2, None), members(2, "2")), "p0");
    assert_eq!(
        (&answer["verdict"], &answer["group"]["verdict"], code),
        (&json!("fitsNow"), &json!("startsNow"), Some(0))
    );
    let (answer, code) = Cluster::of(&objects).answer("p0", &[]);
    assert_eq!((&answer["verdict"], &answer["group"], code), (&json!("fitsNow"), &Value::Null, Some(0)));
}

#[test]
fn started_group_that_lost_members_says_so() {
    let mut shown = group(2, None);
    shown["status"] =
        json!({ "conditions": [{ "type": "PodGroupScheduled", "status": "True", "reason": "Scheduled" }] });
    let left = member("p", "1", &json!({ "nodeName": "a" }));
    let summary =
        "it has 1 member of at least 2; 1 more must be created; it was scheduled once, and 1 has a node now";
    let answer = assert_verdict(&[plain_node("a"), shown, left], "tooFewMembers", 3, summary);
    assert_eq!(answer["wasScheduled"], true);
}

#[test]
fn replacement_of_a_started_group_starts_now_and_terminating_members_do_not_count() {
    let mut shown = group(3, None);
    shown["status"] =
        json!({ "conditions": [{ "type": "PodGroupScheduled", "status": "True", "reason": "Scheduled" }] });
    let left = member("p", "1", &json!({ "nodeName": "a" }));
    let mut leaving = member("q", "1", &json!({ "nodeName": "a" }));
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let new = member("r", "1", &json!({}));
    let summary = "2 members of at least 3 fit now. If they stay pending, the scheduler has not processed them \
                   yet; it was scheduled once, and 1 has a node now";
    let answer = assert_verdict(&[plain_node("a"), shown, left, leaving, new], "startsNow", 0, summary);
    assert_eq!(
        (&answer["bound"], &answer["waiting"], &answer["deleting"]),
        (&json!(1), &json!(1), &json!(1))
    );
}

#[test]
fn victims_of_a_group_are_named() {
    let victim = pod("victim", "4", &json!({ "nodeName": "a", "priority": 0 }));
    let members =
        vec![member("p", "2", &json!({ "priority": 10 })), member("q", "2", &json!({ "priority": 10 }))];
    let objects = with(&[plain_node("a"), victim], group(2, None), members);
    let summary =
        "it starts once 1 lower-priority pod is gone; the scheduler preempts and waits for termination";
    let answer = assert_verdict(&objects, "waitsForPreemption", 3, summary);
    assert_eq!(answer["victims"], json!(["default/victim"]), "{answer:#}");
}

#[test]
fn groups_that_are_off_or_unknown_are_refused() {
    let cluster = Cluster::of(&with(&[plain_node("a")], group(2, None), members(2, "1")));
    let off = run(cluster.folder(), &["explain", "podgroup", "g", "--cluster", "cluster"]);
    assert!(off.refused().starts_with("pod groups are off; pass --feature-gates"), "{}", off.refused());
    let objects = with(&[plain_node("a")], group(2, None), members(2, "1"));
    let unknown = ask(&objects, "podgroup/gg", &[]);
    assert_eq!(unknown.refused(), "pod group gg not found in namespace default; did you mean g?");
}

#[test]
fn drain_names_groups_that_fall_below_min_count() {
    let bound = |name: &str, node: &str| member(name, "2", &json!({ "nodeName": node }));
    let drained = |min: usize, nodes: &[Value]| {
        let members = vec![bound("p", "a"), bound("q", "a"), bound("r", "b")];
        let cluster = Cluster::of(&with(nodes, group(min, None), members));
        let flags =
            ["drain-check", "a", "--cluster", "cluster", "--emulated-version", "1.36", GATES, "-o", "json"];
        run(cluster.folder(), &flags).json("DrainCheck")
    };
    let two = [plain_node("a"), plain_node("b")];
    let answer = drained(3, &two);
    let expected = json!([{
        "group": "default/g", "minCount": 3, "bound": 3, "evicted": 2, "placedAgain": 1, "recovers": false,
    }]);
    // The group has started, so one of the two fits beside `r` without the other.
    assert_eq!(answer["groups"], expected, "{answer:#}");
    assert_eq!(answer["withoutPlace"], 1);
    let three = [plain_node("a"), plain_node("b"), plain_node("c")];
    let answer = drained(3, &three);
    assert_eq!(
        (&answer["groups"][0]["placedAgain"], &answer["groups"][0]["recovers"]),
        (&json!(2), &json!(true))
    );
    // One member is left, and the group needs no more.
    assert_eq!(drained(1, &two)["groups"], Value::Null);
}

#[test]
fn fit_counts_the_groups_that_can_start() {
    let fit = |key: Option<&str>, more: &[&str]| {
        let nodes = [in_rack("a", "x"), in_rack("b", "y"), in_rack("c", "y"), group(3, key)];
        let cluster = Cluster::of(&nodes);
        cluster.write("template", &member("p", "2", &json!({})).to_string());
        let flags =
            ["fit", "-f", "template", "--cluster", "cluster", "--emulated-version", "1.36", "-o", "json"];
        run(cluster.folder(), &[&flags[..], more].concat()).json("FitCheck")
    };
    // Six pods fit; in the racks, there is room for two and for four.
    let expected =
        |starts: usize| json!({ "group": "default/g", "minCount": 3, "starts": starts, "atLimit": false });
    let answer = fit(None, &[GATES]);
    assert_eq!((&answer["fits"], &answer["groups"]), (&json!(6), &expected(2)), "{answer:#}");
    let answer = fit(Some("rack"), &[GATES]);
    assert_eq!((&answer["fits"], &answer["groups"]), (&json!(6), &expected(1)), "{answer:#}");
    assert_eq!(fit(None, &[])["groups"], Value::Null);
}

#[test]
fn group_that_was_given_up_says_so_until_its_time_limit_changes() {
    let message = "the pod group did not start within 90 s; change annotation \
                   supercargo.dev/start-within, or create its pods again";
    let with_limit = |limit: &str| {
        let mut group = group(2, None);
        group["metadata"]["annotations"] = json!({ "supercargo.dev/start-within": limit });
        group["status"]["conditions"] = json!([{
            "type": "PodGroupScheduled", "status": "False", "reason": "StartDeadlineExceeded", "message": message,
        }]);
        with(&[plain_node("a")], group, members(2, "1"))
    };
    let answer = assert_verdict(&with_limit("90s"), "givenUp", 3, message);
    assert_eq!((&answer["changes"], &answer["status"]), (&json!([]), &json!(message)), "{answer:#}");
    let fits =
        "2 members of at least 2 fit now. If they stay pending, the scheduler has not processed them yet";
    assert_verdict(&with_limit("10m"), "startsNow", 0, fits);
}
