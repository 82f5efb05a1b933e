//! `supercargo lint`: each rule with a hit and a near miss, and output formats, flags and exit codes.

use crate::offline::merge;
use crate::support::{Cluster, Ran, node, plain_node, pod, root, run};
use serde_json::{Value, json};

fn lint(cluster: &Cluster, more: &[&str]) -> Ran {
    let mut args = vec!["lint", "--cluster", "cluster"];
    args.extend(more);
    run(cluster.folder(), &args)
}

/// Returns rule, severity and suggestion of all findings.
fn found(objects: &[Value]) -> Vec<(String, String, Option<String>)> {
    let ran = lint(&Cluster::of(objects), &["-o", "json"]);
    let report = ran.json("LintReport");
    let findings = report["findings"].as_array().expect("a list").clone();
    let is_grave = findings.iter().any(|it| it["severity"] == "error");
    assert_eq!(ran.code, Some(if is_grave { 3 } else { 0 }), "{report:#}");
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let each = findings.iter().map(|it| {
        (text(&it["rule"]).expect("a name"), text(&it["severity"]).expect("a name"), text(&it["didYouMean"]))
    });
    each.collect()
}

/// Asserts exactly one finding with this rule, severity and suggestion in `hit`, and none in `near_miss`.
fn finds(rule: &str, severity: &str, meant: Option<&str>, hit: &[Value], near_miss: &[Value]) {
    let expected = vec![(rule.to_owned(), severity.to_owned(), meant.map(str::to_owned))];
    assert_eq!(found(hit), expected);
    assert_eq!(found(near_miss), [], "nearly {rule}");
}

#[test]
fn unknown_namespace_is_an_error() {
    let team = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "team-a" } });
    let cluster = Cluster::of(&[plain_node("a"), pod("p", "1", &json!({})), team]);
    assert_eq!(
        lint(&cluster, &["-n", "taem-a"]).refused(),
        "namespace taem-a not found; did you mean team-a?"
    );
    for there in ["team-a", "default"] {
        assert_eq!(lint(&cluster, &["-n", there]).code, Some(0), "{there}");
    }
}

fn ssd(name: &str) -> Value {
    node(name, &json!({ "disk": "ssd", "zone": name }), &json!({}))
}

fn tainted(name: &str, key: &str) -> Value {
    let taints = json!({ "taints": [{ "key": key, "value": "yes", "effect": "NoSchedule" }] });
    node(name, &json!({ "zone": name }), &taints)
}

/// A Deployment with this many pods labeled `app=NAME`.
fn deployment(name: &str, replicas: u32, spec: &Value) -> Value {
    let mut pod = pod(name, "1", spec);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } }, "spec": pod["spec"].take() },
        },
    })
}

fn term(app: &str, key: &str) -> Value {
    json!({ "labelSelector": { "matchLabels": { "app": app } }, "topologyKey": key })
}

fn required(whose: &str, term: &Value) -> Value {
    json!({ "affinity": { whose: { "requiredDuringSchedulingIgnoredDuringExecution": [term] } } })
}

fn node_terms(of: &[(&str, &str)]) -> Value {
    let term = |&(key, value): &(&str, &str)| json!({ "matchExpressions": [{ "key": key, "operator": "In", "values": [value] }] });
    let terms: Vec<Value> = of.iter().map(term).collect();
    json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } } })
}

fn spread(app: &str, key: &str, more: &Value) -> Value {
    let mut of = json!({
        "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": app } },
    });
    of.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
    json!({ "topologySpreadConstraints": [of] })
}

#[test]
fn node_selector_without_match_is_found_with_a_suggestion() {
    let of = |label: &Value| [ssd("a"), pod("p", "1", &json!({ "nodeSelector": label }))];
    let (hit, near) = (of(&json!({ "dsik": "ssd" })), of(&json!({ "disk": "ssd" })));
    finds("NodeSelectorMatchesNothing", "error", Some("disk=ssd"), &hit, &near);
    let terms = |value: &str| [ssd("a"), pod("p", "1", &node_terms(&[("disk", value)]))];
    finds("NodeSelectorMatchesNothing", "error", Some("disk=ssd"), &terms("sdd"), &terms("ssd"));
    // Each label exists, but on different nodes.
    let both = json!({ "nodeSelector": { "disk": "ssd", "zone": "b" } });
    let hit = [ssd("a"), node("b", &json!({ "zone": "b" }), &json!({})), pod("p", "1", &both)];
    finds("NodeSelectorMatchesNothing", "error", None, &hit, &[ssd("b"), pod("p", "1", &both)]);
}

#[test]
fn running_pods_lower_errors_to_warnings() {
    let placed = json!({ "nodeName": "a", "nodeSelector": { "disk": "hdd" } });
    let found = found(&[ssd("a"), pod("p", "1", &placed)]);
    assert_eq!(found, [("NodeSelectorMatchesNothing".to_owned(), "warning".to_owned(), None)]);
}

#[test]
fn unmatched_term_among_others_is_an_info() {
    let of = |other: &str| [ssd("a"), pod("p", "1", &node_terms(&[("disk", "ssd"), ("zone", other)]))];
    finds("NodeTermMatchesNothing", "info", None, &of("nowhere"), &of("a"));
}

#[test]
fn permanent_taints_are_found_and_condition_taints_are_not() {
    let tolerates = json!({ "tolerations": [{ "key": "gpu", "operator": "Exists" }] });
    let hit = [tainted("a", "gpu"), pod("p", "1", &json!({}))];
    finds("TaintsKeepAllAway", "error", None, &hit, &[tainted("a", "gpu"), pod("p", "1", &tolerates)]);
    let passing = [tainted("a", "node.kubernetes.io/memory-pressure"), pod("p", "1", &json!({}))];
    assert_eq!(found(&passing), []);
}

#[test]
fn toleration_without_taint_is_an_info() {
    let of = |key: &str| {
        let tolerates = json!({ "tolerations": [{ "key": key, "operator": "Exists" }] });
        [plain_node("b"), tainted("a", "gpu"), pod("p", "1", &tolerates)]
    };
    finds("TolerationMatchesNoTaint", "info", Some("gpu=yes:NoSchedule"), &of("gpus"), &of("gpu"));
    assert_eq!(found(&of("node.kubernetes.io/not-ready")), []);
}

#[test]
fn requests_larger_than_any_node_are_errors() {
    let of = |cpu: &str| [plain_node("a"), tainted("b", "gpu"), pod("p", cpu, &json!({}))];
    finds("RequestTooLarge", "error", None, &of("4001m"), &of("4"));
    let gpu = |name: &str| {
        let mut node = plain_node("a");
        node["status"]["allocatable"]["example.com/gpu"] = json!("1");
        let mut pod = pod("p", "1", &json!({}));
        pod["spec"]["containers"][0]["resources"]["requests"][name] = json!("1");
        [node, pod]
    };
    finds(
        "RequestTooLarge",
        "error",
        Some("example.com/gpu"),
        &gpu("example.com/gpus"),
        &gpu("example.com/gpu"),
    );
    // One node has enough cpu, another enough memory.
    let (mut small, mut large) = (plain_node("a"), plain_node("b"));
    small["status"]["allocatable"]["memory"] = json!("1Gi");
    large["status"]["allocatable"]["cpu"] = json!("1");
    let mut asks = pod("p", "4", &json!({}));
    asks["spec"]["containers"][0]["resources"]["requests"]["memory"] = json!("8Gi");
    finds("RequestTooLarge", "error", None, &[small, large, asks.clone()], &[plain_node("a"), asks]);
}

#[test]
fn affinity_without_match_is_found_unless_to_itself_or_future_pods() {
    let host = "kubernetes.io/hostname";
    let near = |app: &str| pod("p", "1", &required("podAffinity", &term(app, host)));
    let hit = [plain_node("a"), near("wbe"), deployment("web", 1, &json!({}))];
    let miss = [plain_node("a"), near("web"), deployment("web", 1, &json!({}))];
    finds("AffinityMatchesNoPod", "error", Some("app=web"), &hit, &miss);
    assert_eq!(found(&[plain_node("a"), near("p")]), []);
    let mut elsewhere = near("web");
    elsewhere["metadata"]["namespace"] = json!("other");
    let found = found(&[plain_node("a"), elsewhere, deployment("web", 1, &json!({}))]);
    assert_eq!(found, [("AffinityMatchesNoPod".to_owned(), "error".to_owned(), None)]);
}

#[test]
fn labels_added_by_controllers_are_known_before_the_pods() {
    let by = |key: &str, value: &str| {
        let term = json!({ "labelSelector": { "matchLabels": { key: value } }, "topologyKey": "kubernetes.io/hostname" });
        pod("p", "1", &required("podAffinity", &term))
    };
    let of = |kind: &str| {
        let mut of = deployment("db", 1, &json!({}));
        (of["kind"], of["apiVersion"]) =
            (json!(kind), json!(if kind == "Job" { "batch/v1" } else { "apps/v1" }));
        of
    };
    assert_eq!(found(&[plain_node("a"), by("job-name", "db"), of("Job")]), []);
    assert_eq!(
        found(&[plain_node("a"), by("statefulset.kubernetes.io/pod-name", "db-0"), of("StatefulSet")]),
        []
    );
    let hit = found(&[plain_node("a"), by("job-name", "db"), of("Deployment")]);
    assert_eq!(hit[0].0, "AffinityMatchesNoPod");
}

#[test]
fn anti_affinity_without_match_is_found() {
    let away = |app: &str| [ssd("a"), pod("p", "1", &required("podAntiAffinity", &term(app, "zone")))];
    finds("AntiAffinityMatchesNoPod", "warning", Some("app=p"), &away("pp"), &away("p"));
}

#[test]
fn replicas_beyond_domains_are_found_unless_a_node_has_no_domain() {
    let apart = |replicas: u32, more: &[Value]| {
        let mut objects = vec![ssd("a"), ssd("b"), tainted("c", "gpu")];
        let mut of = deployment("web", replicas, &required("podAntiAffinity", &term("web", "zone")));
        of["spec"]["strategy"] = json!({ "type": "Recreate" });
        objects.push(of);
        objects.extend(more.iter().cloned());
        objects
    };
    finds("AntiAffinityTooWide", "error", None, &apart(3, &[]), &apart(2, &[]));
    assert_eq!(found(&apart(3, &[plain_node("without-zone")])), []);
    // Two pods of one owner; the owner is not in the file.
    let owned = |name: &str| {
        let mut pod = pod(name, "1", &required("podAntiAffinity", &term("s", "zone")));
        pod["metadata"]["labels"] = json!({ "app": "s" });
        pod["metadata"]["ownerReferences"] =
            json!([{ "apiVersion": "x/v1", "kind": "Set", "name": "s", "uid": "s", "controller": true }]);
        pod
    };
    finds("AntiAffinityTooWide", "error", None, &[ssd("a"), owned("p"), owned("q")], &[ssd("a"), owned("p")]);
}

#[test]
fn blocked_rollout_is_found() {
    let of = |strategy: Value, replicas: u32| {
        let mut web = deployment("web", replicas, &required("podAntiAffinity", &term("web", "zone")));
        web["spec"]["strategy"] = strategy;
        [ssd("a"), ssd("b"), web]
    };
    let takes_away =
        json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1, "maxSurge": 0 } });
    finds("AntiAffinityBlocksRollout", "warning", None, &of(Value::Null, 2), &of(takes_away, 2));
    assert_eq!(found(&of(Value::Null, 1)), []);
}

#[test]
fn spread_limited_by_a_closed_domain_is_found() {
    let of = |replicas: u32, more: &Value| {
        [ssd("a"), ssd("b"), tainted("c", "gpu"), deployment("web", replicas, &spread("web", "zone", more))]
    };
    finds("SpreadCannotBeMet", "error", None, &of(3, &json!({})), &of(2, &json!({})));
    assert_eq!(found(&of(3, &json!({ "nodeTaintsPolicy": "Honor" }))), []);
    assert_eq!(found(&of(3, &json!({ "whenUnsatisfiable": "ScheduleAnyway" }))), []);
    // A pod that already runs in the closed domain lets the other domains grow.
    let there = pod("web", "1", &json!({ "nodeName": "c" }));
    let mut objects = of(4, &json!({})).to_vec();
    objects.push(there);
    assert_eq!(found(&objects), []);
}

#[test]
fn min_domains_above_the_number_of_domains_is_found() {
    let of = |least: u32, replicas: u32| {
        [
            ssd("a"),
            ssd("b"),
            deployment("web", replicas, &spread("web", "zone", &json!({ "minDomains": least }))),
        ]
    };
    finds("SpreadCannotBeMet", "error", None, &of(3, 3), &of(2, 3));
    assert_eq!(found(&of(3, 2)), []);
}

#[test]
fn spread_without_its_own_pods_is_found() {
    let of = |app: &str| [ssd("a"), deployment("web", 1, &spread(app, "zone", &json!({})))];
    finds("SpreadMatchesNoPod", "warning", Some("app=web"), &of("wbe"), &of("web"));
    let mut objects = of("other").to_vec();
    objects.push(deployment("other", 1, &json!({})));
    assert_eq!(found(&objects), [("SpreadIgnoresOwnPods".to_owned(), "warning".to_owned(), None)]);
}

#[test]
fn unknown_topology_key_has_the_severity_of_its_use() {
    let key = |spec: &Value| vec![ssd("a"), pod("p", "1", spec)];
    let hard = |name: &str| key(&spread("p", name, &json!({})));
    finds("TopologyKeyUnknown", "error", Some("zone"), &hard("zoen"), &hard("zone"));
    let soft = |name: &str| key(&spread("p", name, &json!({ "whenUnsatisfiable": "ScheduleAnyway" })));
    finds("TopologyKeyUnknown", "info", Some("zone"), &soft("zoen"), &soft("zone"));
    let away = |name: &str| key(&required("podAntiAffinity", &term("p", name)));
    finds("TopologyKeyUnknown", "warning", Some("zone"), &away("zoen"), &away("zone"));
    let near = |name: &str| key(&required("podAffinity", &term("p", name)));
    finds("TopologyKeyUnknown", "error", Some("zone"), &near("zoen"), &near("zone"));
}

#[test]
fn preferences_without_match_are_infos() {
    let by_node = |value: &str| {
        let term = json!({ "matchExpressions": [{ "key": "disk", "operator": "In", "values": [value] }] });
        let all = json!([{ "weight": 1, "preference": term }]);
        let spec = json!({ "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": all } } });
        [ssd("a"), pod("p", "1", &spec)]
    };
    finds("PreferenceMatchesNothing", "info", Some("disk=ssd"), &by_node("sdd"), &by_node("ssd"));
    let by_pod = |app: &str| {
        let all = json!([{ "weight": 1, "podAffinityTerm": term(app, "zone") }]);
        let spec = json!({ "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": all } } });
        [ssd("a"), pod("pod", "1", &spec)]
    };
    finds("PreferenceMatchesNothing", "info", Some("app=pod"), &by_pod("pdo"), &by_pod("pod"));
}

#[test]
fn budget_without_pods_is_found() {
    let of = |app: &str| {
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "b" },
            "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": app } } },
        });
        [ssd("a"), deployment("web", 1, &json!({})), budget]
    };
    finds("BudgetSelectsNoPod", "warning", Some("app=web"), &of("wbe"), &of("web"));
}

#[test]
fn missing_priority_class_is_found_if_classes_are_known() {
    let of = |class: &str, known: bool| {
        let there = json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "gold" }, "value": 7 });
        let web = deployment("web", 1, &json!({ "priorityClassName": class, "runtimeClassName": "kata" }));
        let mut objects = vec![ssd("a"), web];
        objects.extend(known.then_some(there));
        objects
    };
    finds("PriorityClassMissing", "error", None, &of("silver", true), &of("gold", true));
    assert_eq!(found(&of("silver", false)), []);
    assert_eq!(found(&of("system-node-critical", true)), []);
}

#[test]
fn misspelt_scheduler_name_is_found_and_an_unknown_one_is_not() {
    let of = |name: &str| [ssd("a"), pod("p", "1", &json!({ "schedulerName": name }))];
    let meant = Some("default-scheduler");
    finds("SchedulerNameMisspelt", "warning", meant, &of("default-schedular"), &of("default-scheduler"));
    assert_eq!(found(&of("volcano")), []);
}

#[test]
fn workload_is_checked_once_without_its_pods() {
    let selector = json!({ "nodeSelector": { "disk": "hdd" } });
    let mut of = pod("web-7f46-x", "1", &selector);
    of["metadata"]["labels"] = json!({ "app": "web", "pod-template-hash": "7f46" });
    of["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7f46", "uid": "r", "controller": true }]);
    let mut idle = deployment("idle", 0, &selector);
    idle["kind"] = json!("StatefulSet");
    let cluster = Cluster::of(&[ssd("a"), of, deployment("web", 2, &selector), idle]);
    let ran = lint(&cluster, &["-o", "json"]);
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(
        (&report["judged"], report["findings"].as_array().map(Vec::len)),
        (&json!(1), Some(1)),
        "{report:#}"
    );
    let finding = &report["findings"][0];
    assert_eq!((&finding["kind"], &finding["name"]), (&json!("Deployment"), &json!("web")));
    assert_eq!(finding["field"], "spec.template.spec.nodeSelector");
}

#[test]
fn flags_select_findings_and_exit_code() {
    let cluster = Cluster::of(&[
        ssd("a"),
        pod("p", "1", &json!({ "tolerations": [{ "key": "k", "operator": "Exists" }] })),
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "other" } }),
    ]);
    let code = |more: &[&str]| lint(&cluster, more).code;
    assert_eq!(
        [code(&[]), code(&["--fail-on", "warning"]), code(&["--fail-on", "info"])],
        [Some(0), Some(0), Some(3)]
    );
    assert_eq!(code(&["--fail-on", "never"]), Some(0));
    let ignored =
        lint(&cluster, &["--fail-on", "info", "--ignore", "TolerationMatchesNoTaint,RequestTooLarge"]);
    assert_eq!((ignored.code, ignored.stdout.as_str()), (Some(0), "1 workload on 1 node: no findings\n"));
    let elsewhere = lint(&cluster, &["--fail-on", "info", "-n", "other"]);
    assert_eq!(
        (elsewhere.code, elsewhere.stdout.as_str()),
        (Some(0), "0 workloads on 1 node: no findings\n")
    );
    let unknown = lint(&cluster, &["--ignore", "TolerationMatchNoTaint"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("'TolerationMatchesNoTaint'"), "{}", unknown.stderr);
}

#[test]
fn cluster_without_nodes_and_missing_files_are_reported() {
    let ran = lint(&Cluster::of(&[pod("p", "1", &json!({ "nodeSelector": { "a": "b" } }))]), &[]);
    assert_eq!(ran.code, Some(0));
    assert_eq!(ran.stderr, "the cluster has no nodes: node requirements of pods are not checked\n");
    let broken =
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d" }, "spec": {} });
    let ran = lint(&Cluster::of(&[plain_node("a"), broken]), &[]);
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.stderr.starts_with("error: cluster:1:") && ran.stderr.contains("pod template"),
        "{}",
        ran.stderr
    );
}

fn claim(name: &str, class: &str, more: &Value) -> Value {
    let mut spec =
        json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    if !class.is_empty() {
        spec["storageClassName"] = json!(class);
    }
    merge(&mut spec, more);
    json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name }, "spec": spec })
}

fn class(name: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": name },
        "provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer",
    })
}

fn with_claim(name: &str) -> Value {
    pod("p", "1", &json!({ "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": name } }] }))
}

#[test]
fn missing_claim_is_found() {
    let there = [plain_node("a"), class("fast"), claim("data", "fast", &json!({}))];
    let with = |name: &str| [there.to_vec(), vec![with_claim(name)]].concat();
    finds("ClaimMissing", "error", Some("data"), &with("dta"), &with("data"));
}

#[test]
fn missing_storage_class_is_found_in_claims_and_templates() {
    let of = |name: &str| {
        vec![plain_node("a"), class("fast"), claim("data", name, &json!({})), with_claim("data")]
    };
    finds("StorageClassMissing", "error", Some("fast"), &of("fsat"), &of("fast"));
    // No StorageClass exists.
    let none = [plain_node("a"), claim("data", "fast", &json!({})), with_claim("data")];
    assert_eq!(found(&none), [("StorageClassMissing".to_owned(), "error".to_owned(), None)]);
    // A free volume of that class satisfies a claim, and a bound claim needs no class.
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "pv" },
        "spec": { "storageClassName": "fast", "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"] },
    });
    assert_eq!(found(&[&none[..], &[volume]].concat()), []);
    let bound = claim("data", "fast", &json!({ "volumeName": "pv" }));
    assert_eq!(found(&[plain_node("a"), bound, with_claim("data")]), []);
    let set = |class: &str| {
        let mut set = deployment("db", 1, &json!({}));
        set["kind"] = json!("StatefulSet");
        set["spec"]["volumeClaimTemplates"] = json!([claim("data", class, &json!({}))]);
        vec![plain_node("a"), self::class("fast"), set]
    };
    finds("StorageClassMissing", "error", Some("fast"), &set("fats"), &set("fast"));
}

#[test]
fn resource_on_excluded_nodes_is_not_called_a_typo() {
    let mut gpu = tainted("gpu", "gpu");
    gpu["status"]["allocatable"]["nvidia.com/gpu"] = json!("8");
    let mut asks = pod("p", "1", &json!({}));
    asks["spec"]["containers"][0]["resources"] = json!({ "limits": { "nvidia.com/gpu": "1" } });
    let ran = lint(&Cluster::of(&[plain_node("a"), gpu, asks]), &["-o", "json"]);
    let finding = ran.json("LintReport")["findings"][0].take();
    assert_eq!(finding["didYouMean"], Value::Null, "{finding:#}");
    let message = finding["message"].as_str().expect("a text");
    assert!(message.ends_with("its selectors and tolerations rule out the 1 node with it"), "{message}");
}

/// Returns the objects of the findings.
fn objects(ran: &Ran) -> Vec<String> {
    let report = ran.json("LintReport");
    let findings = report["findings"].as_array().expect("a list");
    let text = |it: &Value, field: &str| it[field].as_str().expect("a text").to_owned();
    findings.iter().map(|it| format!("{} {}", text(it, "kind"), text(it, "name"))).collect()
}

#[test]
fn positional_files_are_checked_alone_or_against_a_cluster() {
    let wrong = |name: &str| deployment(name, 1, &json!({ "nodeSelector": { "disk": "sdd" } }));
    let right = deployment("web", 1, &json!({ "nodeSelector": { "disk": "ssd" } }));
    let cluster = Cluster::of(&[ssd("a"), wrong("old"), right]);
    cluster.write("new.yaml", &wrong("new").to_string());
    std::fs::create_dir(cluster.folder().join("all")).expect("a folder");
    cluster.write("all/web.json", &wrong("web").to_string());
    let run = |args: &[&str]| run(cluster.folder(), &[&["lint", "-o", "json"], args].concat());

    let against = run(&["new.yaml", "--cluster", "cluster"]);
    assert_eq!(
        (objects(&against), against.code),
        (vec!["Deployment new".to_owned()], Some(3)),
        "{against:?}"
    );
    assert_eq!(against.json("LintReport")["judged"], 1);
    // An existing object is checked in the version of the file.
    let update = run(&["all", "--cluster", "cluster"]);
    assert_eq!((objects(&update), update.code), (vec!["Deployment web".to_owned()], Some(3)), "{update:?}");

    let alone = run(&["new.yaml"]);
    assert_eq!((objects(&alone), alone.code), (vec![], Some(0)), "{alone:?}");
    assert_eq!(alone.stderr, "the cluster has no nodes: node requirements of pods are not checked\n");
    let with_its_nodes = run(&["new.yaml", "cluster"]);
    assert_eq!(objects(&with_its_nodes), ["Deployment new", "Deployment old"], "{with_its_nodes:?}");
}

#[test]
fn every_rule_is_documented_with_its_severity() {
    let page = std::fs::read_to_string(root().join("docs/lint.md")).expect("the page exists");
    for rule in supercargo_whatif::explain::lint::Rule::ALL {
        let severity = format!("{:?}", rule.severity()).to_lowercase();
        assert!(page.contains(&format!("| `{rule:?}` | {severity}")), "{rule:?} is not explained");
    }
}
