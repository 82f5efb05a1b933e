//! Pods with claims for devices: explain, fit, drain-check, lint and report.

use crate::support::{Cluster, Ran, codes, node, plain_node, pod, run};
use serde_json::{Value, json};

const DRIVER: &str = "gpu.example.com";

/// A slice for one node, which is a whole pool.
fn slice(node: &str, devices: &Value) -> Value {
    json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": format!("{node}-slice") },
        "spec": { "driver": DRIVER, "nodeName": node, "devices": devices,
            "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 } } })
}

fn gpu(name: &str, model: &str) -> Value {
    json!({ "name": name, "attributes": { "model": { "string": model } }, "capacity": { "memory": { "value": "40Gi" } } })
}

fn class(name: &str) -> Value {
    let selectors = json!([{ "cel": { "expression": format!("device.driver == '{DRIVER}'") } }]);
    json!({ "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": name },
        "spec": { "selectors": selectors } })
}

/// A claim with one request `gpu` of the class `gpu`; `more` is merged into the request.
fn claim_spec(more: &Value) -> Value {
    let mut exactly = json!({ "deviceClassName": "gpu" });
    crate::offline::merge(&mut exactly, more);
    json!({ "devices": { "requests": [{ "name": "gpu", "exactly": exactly }] } })
}

fn claim(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": { "name": name, "namespace": "default" }, "spec": spec })
}

fn template(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": { "name": name, "namespace": "default" }, "spec": { "spec": spec } })
}

/// A claim that holds a device of a node for the pod of this name.
fn held(name: &str, node: &str, device: &str, pod: &str) -> Value {
    let mut claim = claim(name, &claim_spec(&json!({})));
    claim["status"] = json!({
        "reservedFor": [{ "resource": "pods", "name": pod, "uid": pod }],
        "allocation": {
            "devices": { "results": [{ "request": "gpu", "driver": DRIVER, "pool": node, "device": device }] },
            "nodeSelector": { "nodeSelectorTerms": [{ "matchFields": [
                { "key": "metadata.name", "operator": "In", "values": [node] }] }] } } });
    claim
}

/// A pod that uses a claim by name, or by template if `from` is `resourceClaimTemplateName`.
fn user(name: &str, from: &str, of: &str, more: &Value) -> Value {
    let mut spec = json!({ "resourceClaims": [{ "name": "gpu", from: of }] });
    crate::offline::merge(&mut spec, more);
    let mut pod = pod(name, "100m", &spec);
    pod["metadata"]["uid"] = name.into();
    pod
}

const NAMED: &str = "resourceClaimName";
const TEMPLATE: &str = "resourceClaimTemplateName";

/// The text of the reasons with this code.
fn text(answer: &Value, list: &str) -> String {
    let groups = answer[list].as_array().expect("a list").iter();
    groups.map(|group| group["text"].as_str().expect("a text")).collect::<Vec<_>>().join("\n")
}

fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

#[test]
fn expression_value_and_holder_of_each_device_are_named() {
    let wants = claim_spec(&json!({ "selectors": [
        { "cel": { "expression": "device.attributes['gpu.example.com'].model == 'a100'" } }] }));
    let cluster = Cluster::of(&[
        plain_node("a"),
        class("gpu"),
        slice("a", &json!([gpu("gpu-0", "a100"), gpu("gpu-1", "t4")])),
        held("taken", "a", "gpu-0", "owner"),
        user("owner", NAMED, "taken", &json!({ "nodeName": "a" })),
        claim("mine", &wants),
        user("p", NAMED, "mine", &json!({})),
    ]);
    let (answer, code) = cluster.answer("p", &[]);
    assert_eq!((code, &answer["verdict"]), (Some(3), &json!("blocked")), "{answer:#}");
    assert_eq!(answer["reasons"][0]["code"], "DevicesUnavailable");
    assert_contains(
        &text(&answer, "reasons"),
        &[
            "cannot allocate all claims: the request gpu of the claim default/mine wants 1 device of the class gpu, and 0 of 2 devices can be used",
            "gpu-0 in use by the claim default/taken of the pod default/owner",
            "gpu-1 not selected by the request, selector #0: device.attributes['gpu.example.com'].model == 'a100' (model is \"t4\")",
        ],
    );
    assert_eq!(codes(&answer), ["FreeDevices", "DropDeviceSelector"], "{answer:#}");
}

#[test]
fn shortage_of_devices_suggests_tolerations_and_fewer_devices() {
    let mut tainted = gpu("gpu-1", "t4");
    tainted["taints"] = json!([{ "key": "broken", "value": "yes", "effect": "NoSchedule" }]);
    let cluster = Cluster::of(&[
        plain_node("a"),
        class("gpu"),
        slice("a", &json!([gpu("gpu-0", "t4"), tainted])),
        claim("mine", &claim_spec(&json!({ "count": 2 }))),
        user("p", NAMED, "mine", &json!({})),
    ]);
    let (answer, _) = cluster.answer("p", &[]);
    let tainted = "wants 2 devices of the class gpu, and 1 of 2 devices can be used: gpu-1 tainted with broken=yes:NoSchedule, which is not tolerated";
    assert_contains(&text(&answer, "reasons"), &[tainted]);
    assert_eq!(codes(&answer), ["TolerateDeviceTaint", "RequestFewerDevices"], "{answer:#}");
    assert_eq!(answer["verdict"], "neverFits", "{answer:#}");
}

#[test]
fn constraints_counters_and_capacities_are_named_with_numbers() {
    let mut both = claim_spec(&json!({ "count": 2 }));
    both["devices"]["constraints"] = json!([{ "matchAttribute": "gpu.example.com/model" }]);
    let mut shared = gpu("shared", "t4");
    shared["allowMultipleAllocations"] = true.into();
    let part = |name: &str| {
        json!({ "name": name, "attributes": { "model": { "string": "part" } },
            "consumesCounters": [{ "counterSet": "whole", "counters": { "memory": { "value": "30Gi" } } }] })
    };
    let mut counters = slice("c", &json!([]));
    counters["metadata"]["name"] = "c-counters".into();
    counters["spec"]["sharedCounters"] =
        json!([{ "name": "whole", "counters": { "memory": { "value": "40Gi" } } }]);
    counters["spec"]["pool"]["resourceSliceCount"] = 2.into();
    counters["spec"].as_object_mut().expect("an object").remove("devices");
    let mut parts = slice("c", &json!([part("part-0"), part("part-1")]));
    parts["spec"]["pool"]["resourceSliceCount"] = 2.into();
    let on = |node: &str| json!({ "nodeSelector": { "kubernetes.io/hostname": node } });
    let cluster = Cluster::of(&[
        plain_node("a"),
        plain_node("b"),
        plain_node("c"),
        class("gpu"),
        slice("a", &json!([gpu("gpu-0", "t4"), gpu("gpu-1", "a100")])),
        slice("b", &json!([shared])),
        counters,
        parts,
        claim("both", &both),
        claim("large", &claim_spec(&json!({ "capacity": { "requests": { "memory": "50Gi" } } }))),
        held("part", "c", "part-0", "owner"),
        user("owner", NAMED, "part", &json!({ "nodeName": "c" })),
        claim("second", &claim_spec(&json!({}))),
        user("match", NAMED, "both", &on("a")),
        user("capacity", NAMED, "large", &on("b")),
        user("counter", NAMED, "second", &on("c")),
    ]);
    let of = |pod: &str| cluster.answer(pod, &[]).0;
    let matching = of("match");
    let sees = "the constraint matchAttribute: gpu.example.com/model of the claim default/both sees \"a100\" on 1, \"t4\" on 1";
    assert_contains(&text(&matching, "reasons"), &[sees]);
    assert!(codes(&matching).contains(&"DropDeviceConstraint".to_owned()), "{matching:#}");
    let capacity = of("capacity");
    assert_contains(
        &text(&capacity, "reasons"),
        &["gpu-0, gpu-1 short of the capacity memory: wanted 50Gi, 40Gi of 40Gi free"],
    );
    assert!(codes(&capacity).contains(&"LowerDeviceCapacity".to_owned()), "{capacity:#}");
    let counter = of("counter");
    assert_contains(
        &text(&counter, "reasons"),
        &[
            "part-1 short of the counter memory of whole: wanted 30Gi, 10Gi of 40Gi free",
            "part-0 in use by the claim default/part of the pod default/owner",
        ],
    );
    assert!(codes(&counter).contains(&"FreeDevices".to_owned()), "{counter:#}");
}

#[test]
fn claims_and_classes_that_do_not_exist_suggest_the_closest_name() {
    let mut misnamed = claim_spec(&json!({}));
    misnamed["devices"]["requests"][0]["exactly"]["deviceClassName"] = "gpus".into();
    let cluster = Cluster::of(&[
        plain_node("a"),
        class("gpu"),
        slice("a", &json!([gpu("gpu-0", "t4")])),
        claim("mine", &claim_spec(&json!({}))),
        claim("wrong", &misnamed),
        user("claim", NAMED, "mien", &json!({})),
        user("class", NAMED, "wrong", &json!({})),
        user("made", TEMPLATE, "none", &json!({})),
    ]);
    let (claim, _) = cluster.answer("claim", &[]);
    assert_eq!(claim["beforeNodes"][0]["code"], "ClaimNotReady", "{claim:#}");
    assert_contains(
        &text(&claim, "beforeNodes"),
        &[
            "could not find ResourceClaim \"default/mien\": create it in the namespace default, or correct its name; did you mean mine?",
        ],
    );
    assert_eq!(codes(&claim), ["CorrectClaim"], "{claim:#}");
    let (class, _) = cluster.answer("class", &[]);
    let parts = [
        "request gpu: device class gpus does not exist: create the DeviceClass, or correct deviceClassName; did you mean gpu?",
    ];
    assert_contains(&text(&class, "beforeNodes"), &parts);
    assert_eq!(codes(&class), ["CorrectDeviceClass"], "{class:#}");
    let (made, _) = cluster.answer("made", &[]);
    let parts = [
        "ResourceClaim not created yet: kube-controller-manager makes the claim gpu from its ResourceClaimTemplate",
    ];
    assert_contains(&text(&made, "beforeNodes"), &parts);
}

#[test]
fn claim_reserved_for_256_pods_is_reported() {
    let mut full = held("full", "a", "gpu-0", "owner");
    let consumers =
        (0..256).map(|n| json!({ "resource": "pods", "name": format!("c{n}"), "uid": format!("c{n}") }));
    full["status"]["reservedFor"] = consumers.collect::<Vec<_>>().into();
    let cluster = Cluster::of(&[
        plain_node("a"),
        class("gpu"),
        slice("a", &json!([gpu("gpu-0", "t4")])),
        full,
        user("p", NAMED, "full", &json!({})),
    ]);
    let (answer, _) = cluster.answer("p", &[]);
    let summary = answer["summary"].as_str().expect("a text");
    assert_contains(
        summary,
        &["the claim default/full is reserved for 256 pods, and the API server accepts at most 256"],
    );
    cluster.write("pod", &user("q", NAMED, "full", &json!({})).to_string());
    let ran = run(cluster.folder(), &["fit", "-f", "pod", "--cluster", "cluster", "-o", "json"]);
    assert_eq!(ran.json("FitCheck")["fits"], 0, "{ran:?}");
}

#[test]
fn each_copy_of_a_pod_with_a_template_gets_devices_of_its_own() {
    let objects = [
        plain_node("a"),
        plain_node("b"),
        class("gpu"),
        slice("a", &json!([gpu("gpu-0", "t4"), gpu("gpu-1", "t4"), gpu("gpu-2", "t4")])),
        slice("b", &json!([gpu("gpu-0", "t4")])),
        held("taken", "a", "gpu-0", "owner"),
        user("owner", NAMED, "taken", &json!({ "nodeName": "a" })),
        template("one", &claim_spec(&json!({}))),
        claim("shared", &claim_spec(&json!({}))),
    ];
    let cluster = Cluster::of(&objects);
    let fit = |pod: &Value| {
        cluster.write("pod", &pod.to_string());
        run(cluster.folder(), &["fit", "-f", "pod", "--cluster", "cluster", "-o", "json"]).json("FitCheck")
    };
    let own = fit(&user("p", TEMPLATE, "one", &json!({})));
    assert_eq!(own["fits"], 3, "{own:#}");
    assert_contains(&text(&own, "limitedBy"), &["wants 1 device of the class gpu"]);
    // Ten pods fit on a node, and all must go where the claim is allocated.
    let shared = fit(&user("p", NAMED, "shared", &json!({})));
    assert_eq!(
        (&shared["fits"], shared["nodes"].as_array().map(Vec::len)),
        (&json!(10), Some(1)),
        "{shared:#}"
    );
    let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": 4, "selector": { "matchLabels": { "app": "web" } }, "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": user("p", TEMPLATE, "one", &json!({}))["spec"] } } });
    cluster.write("web", &deployment.to_string());
    let args = ["simulate", "--cluster", "cluster", "--pods", "web", "-o", "json"];
    let ran = run(cluster.folder(), &args);
    assert!(ran.stderr.contains("3 of 4 pods placed"), "{ran:?}");
    let scaled = [&objects[..], std::slice::from_ref(&deployment)].concat();
    let cluster = Cluster::of(&scaled);
    let ran = run(cluster.folder(), &["simulate", "--cluster", "cluster", "--scale", "web=3", "-o", "json"]);
    assert!(ran.stderr.contains("3 of 3 pods placed"), "{ran:?}");
    let ran =
        run(cluster.folder(), &["simulate", "--cluster", "cluster", "--remove-node", "a", "-o", "json"]);
    assert!(
        ran.stderr.contains("1 of 1 pod placed"),
        "the devices of the removed node are given up: {ran:?}"
    );
}

#[test]
fn drained_pods_need_devices_elsewhere() {
    let objects = |devices: &Value| {
        [
            plain_node("a"),
            plain_node("b"),
            class("gpu"),
            slice("a", &json!([gpu("gpu-0", "t4")])),
            slice("b", devices),
            held("taken", "a", "gpu-0", "owner"),
            user("owner", NAMED, "taken", &json!({ "nodeName": "a" })),
        ]
    };
    let check = |devices: &Value| -> (Ran, Value) {
        let cluster = Cluster::of(&objects(devices));
        let ran =
            run(cluster.folder(), &["drain-check", "a", "--cluster", "cluster", "--force", "-o", "json"]);
        let answer = ran.json("DrainCheck");
        (ran, answer)
    };
    let (ran, answer) = check(&json!([gpu("gpu-0", "t4")]));
    assert_eq!((ran.code, &answer["pods"][0]["to"]), (Some(0), &json!("b")), "{answer:#}");
    let (ran, answer) = check(&json!([]));
    assert_eq!((ran.code, &answer["withoutPlace"]), (Some(3), &json!(1)), "{answer:#}");
    let reasons = text(&answer["pods"][0], "reasons");
    assert_contains(&reasons, &["no ResourceSlice offers a device here"]);
}

#[test]
fn lint_finds_selectors_classes_and_templates_that_cannot_work() {
    let selector = |expression: &str| json!({ "selectors": [{ "cel": { "expression": expression } }] });
    let inner = "device.attributes['d'].all(y, device.attributes['d'].all(z, y != z))";
    let expensive = format!("device.attributes['d'].all(v, device.attributes['d'].all(w, {inner}))");
    let mut other = claim_spec(&json!({}));
    other["devices"]["requests"][0]["exactly"]["deviceClassName"] = "gpus".into();
    let mut old = class("old");
    old["apiVersion"] = "resource.k8s.io/v1beta1".into();
    let mut empty = class("empty");
    empty["spec"]["selectors"][0]["cel"]["expression"] = "device.driver == 'none'".into();
    let workload = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "web" } }, "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": user("p", TEMPLATE, "missing", &json!({}))["spec"] } } });
    let cluster = Cluster::of(&[
        plain_node("a"),
        class("gpu"),
        empty,
        old,
        slice("a", &json!([gpu("gpu-0", "t4")])),
        template("known", &claim_spec(&json!({}))),
        claim("invalid", &claim_spec(&selector("device.memory > 1"))),
        claim("expensive", &claim_spec(&selector(&expensive))),
        claim("nothing", &claim_spec(&selector("device.attributes['gpu.example.com'].model == 'x'"))),
        claim("large", &claim_spec(&json!({ "count": 2 }))),
        claim("other", &other),
        user("missing", NAMED, "lareg", &json!({})),
        user("invalid", NAMED, "invalid", &json!({})),
        user("expensive", NAMED, "expensive", &json!({})),
        user("nothing", NAMED, "nothing", &json!({})),
        user("large", NAMED, "large", &json!({})),
        user("other", NAMED, "other", &json!({})),
        user("fine", TEMPLATE, "known", &json!({})),
        workload,
    ]);
    // Objects given as files to check.
    let ran = run(cluster.folder(), &["lint", "cluster", "-o", "json"]);
    let answer = ran.json("LintReport");
    let findings = answer["findings"].as_array().expect("a list");
    let mut found: Vec<(&str, &str)> = findings
        .iter()
        .map(|it| (it["rule"].as_str().expect("a rule"), it["name"].as_str().expect("a name")))
        .collect();
    found.sort_unstable();
    let expected = [
        ("ClaimTemplateMissing", "web"),
        ("DeprecatedVersion", "old"),
        ("DeviceClassMissing", "other"),
        ("DeviceClassSelectsNothing", "empty"),
        ("DeviceRequestTooLarge", "large"),
        ("DeviceSelectorInvalid", "invalid"),
        ("DeviceSelectorMatchesNothing", "nothing"),
        ("DeviceSelectorTooExpensive", "expensive"),
        ("ResourceClaimMissing", "missing"),
    ];
    assert_eq!(found, expected, "{answer:#}");
    let message = |rule: &str| {
        let finding = findings.iter().find(|it| it["rule"] == rule).expect("it is found");
        finding["message"].as_str().expect("a text").to_owned()
    };
    assert_contains(
        &message("DeviceSelectorInvalid"),
        &["selector #0: line 1, column 7: undefined field 'memory'"],
    );
    assert_contains(
        &message("DeviceRequestTooLarge"),
        &["wants 2 devices, and the node with most of them has 1"],
    );
}

#[test]
fn report_counts_devices_of_each_class_by_node() {
    let cluster = Cluster::of(&[
        plain_node("a"),
        node("b", &json!({}), &json!({})),
        class("gpu"),
        slice("a", &json!([gpu("gpu-0", "t4"), gpu("gpu-1", "t4")])),
        held("taken", "a", "gpu-0", "owner"),
        user("owner", NAMED, "taken", &json!({ "nodeName": "a" })),
    ]);
    let ran = run(cluster.folder(), &["report", "--cluster", "cluster", "-o", "json"]);
    let answer = ran.json("ClusterReport");
    let resources = answer["resources"].as_array().expect("a list");
    let is_class = |it: &Value| it["name"] == "deviceclass.resource.kubernetes.io/gpu";
    let at = resources.iter().position(is_class).expect("the class has a column");
    assert_eq!(answer["nodes"]["allocatable"][at], json!([2, 0]), "{answer:#}");
    assert_eq!(answer["nodes"]["requested"][0][at], json!([1, 0]), "{answer:#}");
}

#[test]
fn invalid_devices_of_one_pod_do_not_stop_other_pods() {
    let selector = json!({ "selectors": [{ "cel": { "expression": "device.memory > 1" } }] });
    let mut contradicting = slice("b", &json!([gpu("gpu-0", "t4"), gpu("gpu-0", "t4")]));
    contradicting["metadata"]["name"] = "contradicting".into();
    let cluster = Cluster::of(&[
        plain_node("a"),
        plain_node("b"),
        class("gpu"),
        slice("a", &json!([gpu("gpu-0", "t4")])),
        contradicting,
        claim("invalid", &claim_spec(&selector)),
        claim(
            "unknown",
            &json!({ "devices": { "requests": [{ "name": "gpu", "exactly": { "deviceClassName": "x" } }] } }),
        ),
        claim("fine", &claim_spec(&json!({}))),
    ]);
    let pods: Vec<Value> = ["invalid", "unknown", "fine"]
        .iter()
        .map(|name| user(name, NAMED, name, &json!({})))
        .chain([pod("plain", "100m", &json!({}))])
        .collect();
    cluster.write("pods", &crate::offline::list(&pods));
    let ran = run(cluster.folder(), &["simulate", "--cluster", "cluster", "--pods", "pods", "-o", "json"]);
    assert!(ran.stderr.contains("2 of 4 pods placed"), "{ran:?}");
    assert_contains(
        &ran.stdout,
        &[
            "claim default/invalid: selector #0: CEL compile error: compilation failed: ERROR: <input>:1:7: undefined field 'memory'",
            "request gpu: device class x does not exist",
        ],
    );
}

#[test]
fn explanation_of_many_devices_describes_a_bounded_number() {
    let wants = claim_spec(&json!({ "selectors": [
        { "cel": { "expression": "device.attributes['gpu.example.com'].model == 'a100'" } }] }));
    let mut objects =
        vec![plain_node("a"), class("gpu"), claim("mine", &wants), user("p", NAMED, "mine", &json!({}))];
    for number in 0..80 {
        let devices: Vec<Value> = (0..128).map(|at| gpu(&format!("gpu-{number}-{at}"), "t4")).collect();
        let mut part = slice("a", &devices.into());
        part["metadata"]["name"] = format!("a-{number}").into();
        part["spec"]["pool"]["resourceSliceCount"] = 80.into();
        objects.push(part);
    }
    let (answer, code) = Cluster::of(&objects).answer("p", &[]);
    assert_eq!(code, Some(3));
    let text = text(&answer, "reasons");
    assert_contains(&text, &["0 of 10240 devices can be used", "and 9984 more devices"]);
    assert!(text.len() < 2_000, "{text}");
}
