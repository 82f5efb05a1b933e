//! The real kube-scheduler and ours with the same extender and configuration send equal requests and report equal
//! results and messages.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::server::{Call, Extender, Reply};
use crate::harness::binaries::binary;
use crate::harness::pki::write_private;
use crate::harness::process::Program;
use crate::harness::wait::PATIENCE;
use crate::harness::{Component, ControlPlane, KwokNode, supercargo, wait_for};
use crate::world::{World, play_on, requesting, scheduled_condition};

/// Path prefixes of the extender, and name prefixes of pods, for the two schedulers.
const OURS: &str = "ours";
const THEIRS: &str = "theirs";

/// Configures two extenders for a scheduler: one with nodeCacheCapable, and one without.
fn extenders(port: u16, whose: &str) -> String {
    let url = format!("http://127.0.0.1:{port}/{whose}");
    format!(
        "extenders:\n\
         - {{urlPrefix: '{url}/names', filterVerb: filter, prioritizeVerb: prioritize, preemptVerb: preempt, weight: 3, \
            nodeCacheCapable: true}}\n\
         - {{urlPrefix: '{url}/nodes/', filterVerb: filter, prioritizeVerb: prioritize, preemptVerb: preempt, weight: 1, \
            bindVerb: bind}}\n"
    )
}

/// The extender's behavior for a pod is given by the pod's name.
fn conduct(call: &Call) -> Reply {
    let (_, plan) = call.pod().split_once('-').unwrap_or_default();
    let names = call.path.contains("/names/");
    let verb = call.path.rsplit('/').next().unwrap_or_default();
    let passed = |nodes: &[&str]| match names {
        true => json!({"NodeNames": nodes}),
        false => {
            // Unmodified, because upstream scores and forwards the nodes an extender returns.
            let items = call.body["Nodes"]["items"].as_array().into_iter().flatten();
            let items = items.filter(|node| nodes.iter().any(|name| node["metadata"]["name"] == *name));
            json!({"Nodes": {"items": items.collect::<Vec<_>>()}})
        }
    };
    match (verb, plan) {
        ("bind", _) => Reply::Binds,
        ("filter", "chosen") => {
            let mut answer = passed(if names { &["b", "c"] } else { &["b"] });
            answer["FailedNodes"] = json!({"a": "no licence"});
            Reply::Json(answer)
        }
        ("filter", "reasons") if names => {
            let mut answer = passed(&["c"]);
            answer["FailedNodes"] = json!({"a": "no licence", "b": "none", "ghost": "what is that"});
            answer["FailedAndUnresolvableNodes"] = json!({"b": "never"});
            Reply::Json(answer)
        }
        ("filter", "reasons") => Reply::Json(json!({"FailedNodes": {"c": "no licence"}})),
        ("filter", "silent") => Reply::Json(json!({})),
        ("filter", "down") => Reply::Code(500),
        ("filter", "error") => Reply::Json(json!({"Error": "no slot left"})),
        ("filter", "invented") => Reply::Json(json!({"NodeNames": ["a", "ghost"]})),
        ("preempt", "none") => Reply::Json(json!({"NodeNameToMetaVictims": {}})),
        ("preempt", "stranger") => {
            Reply::Json(json!({"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "x"}]}}}))
        }
        ("preempt", "nowhere") => {
            Reply::Json(json!({"NodeNameToMetaVictims": {"ghost": {"Pods": [{"UID": "x"}]}}}))
        }
        ("preempt", "empty") => Reply::Json(json!({"NodeNameToMetaVictims": {"a": {"Pods": []}}})),
        ("preempt", "failing") => Reply::Code(500),
        ("preempt", "narrowed") => {
            let of = |list: &str| call.body[list]["b"]["Pods"].clone();
            let uid =
                |pod: &Value| pod["UID"].as_str().or(pod["metadata"]["uid"].as_str()).map(str::to_owned);
            let whole = of("NodeNameToVictims");
            let pods = if whole.is_array() { whole } else { of("NodeNameToMetaVictims") };
            let uids = pods.as_array().into_iter().flatten().filter_map(uid);
            let pods: Vec<Value> = uids.map(|uid| json!({"UID": uid})).collect();
            Reply::Json(json!({"NodeNameToMetaVictims": {"b": {"Pods": pods}}}))
        }
        ("prioritize", "unscored") if names => Reply::Code(500),
        ("prioritize", "scored" | "unscored") => {
            let best = if names { "c" } else { "b" };
            let score = |node: &String| json!({"Host": node, "Score": if node == best { 10 } else { 0 }});
            Reply::Json(call.nodes().iter().map(score).collect())
        }
        ("prioritize", _) => Reply::Json(json!([])),
        (_, _) => Reply::Json(passed(&call.nodes().iter().map(String::as_str).collect::<Vec<_>>())),
    }
}

/// Normalizes a request: removes what identifies the scheduler, and sorts what upstream sends in random order.
fn comparable(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let own = ["uid", "UID", "PodUID", "resourceVersion", "creationTimestamp", "schedulerName"];
            let timed = ["time", "lastHeartbeatTime", "lastTransitionTime"];
            let is_own = |key: &str| own.contains(&key) || timed.contains(&key);
            // Up to 1.35, kube-scheduler keeps them; here they are dropped when an object is decoded.
            let fields = fields.iter().filter(|(key, _)| *key != "managedFields");
            let each = fields.map(|(key, value)| {
                (key.clone(), if is_own(key) { json!("own") } else { comparable(value) })
            });
            Value::Object(each.collect())
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(comparable).collect();
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        Value::String(text) => json!(neutral(text)),
        other => other.clone(),
    }
}

/// Removes the scheduler's name from a text.
fn neutral(text: &str) -> String {
    text.replace(THEIRS, "whose").replace(OURS, "whose")
}

/// Returns reason and message of a pod's condition, and its node.
async fn condition_and_node(
    world: &World<'_>,
    name: &str,
) -> Result<(Option<String>, Option<String>, Option<String>)> {
    let pods = world.pods();
    wait_for(&format!("{name} to be placed or have a condition"), PATIENCE, || async {
        let pod: Pod = pods.get(name).await?;
        let condition = scheduled_condition(&pod).context("it has no condition")?;
        let message = condition.message.as_deref().map(neutral);
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        Ok((condition.reason.clone(), message, node))
    })
    .await
}

#[tokio::test]
async fn extender_requests_and_results_equal_kube_schedulers() -> Result<()> {
    let plane = ControlPlane::builder().with([Component::ControllerManager, Component::Kwok]).start().await?;
    supercargo::install(&plane).await?;
    play_on(&plane, "extended", async |world| {
        for name in ["a", "b", "c"] {
            KwokNode::new(name).allocatable("cpu", "4").create(&world.client).await?;
        }
        let extender = Extender::start(&world.client, 0, None, conduct).await?;
        let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                    leaderElection:\n  leaderElect: false\n";
        let admin = plane.admin();
        let theirs = plane.folder().join("theirs.yaml");
        let client = format!("clientConnection:\n  kubeconfig: {}\n", admin.kubeconfig().display());
        write_private(&theirs, &format!("{head}{client}{}", extenders(extender.port, THEIRS)))?;
        let _theirs = plane.launch(
            &Program::new("kube-scheduler-extended", binary("kube-scheduler")?)
                .arg(format!("--config={}", theirs.display()))
                .arg("--secure-port=0"),
        )?;
        let profiles = format!("profiles:\n- schedulerName: {}\n", world.name);
        let ours = format!("{head}{profiles}{}", extenders(extender.port, OURS));
        crate::reload::reconfigure(world, &ours)?;
        world.counted(&crate::reload::reloads("applied"), 1.0).await?;

        for plan in ["chosen", "scored", "unscored", "reasons", "silent", "down", "error", "invented"] {
            compare(world, &extender, plan, &requesting(&json!({"cpu": "100m"}))).await?;
        }
        // From here on, the nodes are full of pods of lower priority.
        let classes =
            "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 100\n";
        admin.apply(classes).await?;
        for (number, node) in ["a", "b", "c"].into_iter().enumerate() {
            let mut full = requesting(&json!({"cpu": "3500m"}));
            full["nodeName"] = json!(node);
            world.create(&format!("victim{number}"), &full).await?;
        }
        let mut high = requesting(&json!({"cpu": "3"}));
        high["priorityClassName"] = json!("high");
        for plan in ["none", "stranger", "nowhere", "empty", "failing"] {
            compare(world, &extender, plan, &high).await?;
        }
        let asked =
            [preempt(world, &extender, THEIRS, &high).await?, preempt(world, &extender, OURS, &high).await?];
        ensure!(asked[0] == asked[1], "requests\n{:#?}\nand of kube-scheduler\n{:#?}", asked[1], asked[0]);
        Ok(())
    })
    .await
}

/// Lets one scheduler preempt on node b, the only candidate the extender keeps, then replaces the victim. Returns its
/// requests.
async fn preempt(
    world: &World<'_>,
    extender: &Extender,
    whose: &str,
    spec: &Value,
) -> Result<BTreeMap<String, Value>> {
    let name = format!("{whose}-narrowed");
    let mut spec = spec.clone();
    spec["automountServiceAccountToken"] = json!(false);
    if whose == THEIRS {
        spec["schedulerName"] = json!("default-scheduler");
    }
    let pod = crate::harness::objects::pod(&name, &world.name, &spec)?;
    world.pods().create(&PostParams::default(), &pod).await?;
    let node = world.bound(&name).await?;
    ensure!(node == "b", "{name} is on {node}");
    for (victim, is_there) in [("victim0", true), ("victim1", false), ("victim2", true)] {
        ensure!(world.pods().get_opt(victim).await?.is_some() == is_there, "{name}: {victim}");
    }
    world.delete(&name).await?;
    let mut full = requesting(&json!({"cpu": "3500m"}));
    full["nodeName"] = json!("b");
    world.create("victim1", &full).await?;
    // The number of calls depends on when the victim is gone.
    let mut calls = BTreeMap::new();
    for call in extender.calls_about(&name) {
        calls.entry(neutral(&call.path)).or_insert_with(|| without_names(comparable(&call.body)));
    }
    Ok(calls)
}

/// Removes what differs between instances of a victim, and the pod's status, which depends on timing.
fn without_names(mut body: Value) -> Value {
    body["Pod"]["status"] = json!("as it was");
    for node in body["NodeNameToVictims"].as_object_mut().into_iter().flat_map(|rooms| rooms.values_mut()) {
        for pod in node["Pods"].as_array_mut().into_iter().flatten() {
            pod["spec"]["volumes"] = json!("drawn");
            pod["spec"]["containers"][0]["volumeMounts"] = json!("drawn");
            pod["status"] = json!("as it was");
        }
    }
    body
}

/// Lets both schedulers place a pod of this plan, one after the other, and compares requests and results.
async fn compare(world: &World<'_>, extender: &Extender, plan: &str, spec: &Value) -> Result<()> {
    let mut found = BTreeMap::new();
    for whose in [THEIRS, OURS] {
        let name = format!("{whose}-{plan}");
        let mut spec = spec.clone();
        // The token volume would have a generated name.
        spec["automountServiceAccountToken"] = json!(false);
        if whose == THEIRS {
            spec["schedulerName"] = json!("default-scheduler");
        }
        let pod = crate::harness::objects::pod(&name, &world.name, &spec)?;
        world.pods().create(&PostParams::default(), &pod).await?;
        let result = condition_and_node(world, &name).await?;
        // Later attempts repeat the calls, as often as time allows.
        let mut calls: BTreeMap<String, Value> = BTreeMap::new();
        for call in extender.calls_about(&name) {
            calls.entry(neutral(&call.path)).or_insert_with(|| comparable(&call.body));
        }
        world.delete(&name).await?;
        found.insert(whose, (result, calls));
    }
    let (theirs, ours) = (&found[THEIRS], &found[OURS]);
    ensure!(ours.0 == theirs.0, "{plan}: condition\n{:?}\nand of kube-scheduler\n{:?}", ours.0, theirs.0);
    ensure!(!theirs.1.is_empty(), "{plan}: kube-scheduler made no calls");
    let paths = |calls: &BTreeMap<String, Value>| calls.keys().cloned().collect::<Vec<_>>();
    ensure!(paths(&ours.1) == paths(&theirs.1), "{plan}: {:?} and {:?}", paths(&ours.1), paths(&theirs.1));
    for (path, body) in &theirs.1 {
        ensure!(
            ours.1[path] == *body,
            "{plan}, {path}: request\n{}\nand of kube-scheduler\n{body}",
            ours.1[path]
        );
    }
    Ok(())
}
