//! Compares everything derived from the manifests (overlays, the static pod and the chart) with the base.
//!
//! Runs the pinned kubectl (for kustomize) and helm, which `make upstream` and `make packaging` build, without an API
//! server.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser as _;
use serde_json::{Value, json};
use supercargo::args::Args;
use supercargo_config::{Effective, Settings};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns a pinned tool in `folder` of the target folder, built by `make <made_by>`.
fn tool(folder: &str, name: &str, made_by: &str) -> PathBuf {
    let given = std::env::var_os("CARGO_TARGET_DIR").map(|target| root().join(target));
    let targets = given.into_iter().chain([root().join("target")]);
    let mut candidates = targets.map(|target| target.join(folder).join("bin").join(name));
    candidates
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("{name} is not built; run `make {made_by}` first"))
}

/// Returns a tool's output, or its error output if it failed.
fn run(tool: &Path, args: &[&str]) -> Result<String, String> {
    let output = Command::new(tool).args(args).current_dir(root()).output().expect("the tool can be run");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

type Objects = BTreeMap<(String, String), Value>;

/// Parses YAML documents to objects by kind and name, without what each tool formats in its own way.
fn objects(text: &str) -> Objects {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).expect("a tool writes YAML");
    let mut objects = Objects::new();
    for mut object in documents.into_iter().filter(|object| !object.is_null()) {
        for labels in ["/metadata/labels", "/spec/template/metadata/labels"] {
            if let Some(labels) = object.pointer_mut(labels).and_then(Value::as_object_mut) {
                labels.remove("app.kubernetes.io/managed-by");
            }
        }
        if let Some(config) = object.pointer_mut("/data/config.yaml") {
            *config = serde_saphyr::from_str(config.as_str().expect("a text")).expect("it is YAML");
        }
        let key = |at: &str| {
            object.pointer(at).and_then(Value::as_str).expect("an object has a kind and a name").to_owned()
        };
        let key = (key("/kind"), key("/metadata/name"));
        assert!(objects.insert(key.clone(), object).is_none(), "duplicate object {key:?}");
    }
    objects
}

fn kustomize(folder: &str) -> Objects {
    let kubectl = tool("upstream", "kubectl", "upstream");
    objects(&run(&kubectl, &["kustomize", folder]).unwrap_or_else(|error| panic!("{folder}: {error}")))
}

const CHART: &str = "manifests/chart/supercargo";

fn helm(release: &str, namespace: &str, set: &[&str]) -> Result<Objects, String> {
    let mut args = vec!["template", release, CHART, "--namespace", namespace, "--kube-version", "1.36.3"];
    args.extend(set.iter().flat_map(|value| ["--set-json", value]));
    run(&tool("packaging", "helm", "packaging"), &args).map(|text| objects(&text))
}

fn get<'a>(objects: &'a Objects, kind: &str, name: &str) -> &'a Value {
    objects.get(&(kind.to_owned(), name.to_owned())).unwrap_or_else(|| panic!("no {kind} {name}"))
}

#[test]
fn chart_with_default_values_equals_the_base() {
    let (base, chart) =
        (kustomize("manifests/base"), helm("supercargo", "kube-system", &[]).expect("it renders"));
    assert_eq!(base.keys().collect::<Vec<_>>(), chart.keys().collect::<Vec<_>>());
    for (key, object) in &base {
        assert_eq!(&chart[key], object, "{key:?}");
    }
}

#[test]
fn release_and_namespace_names_are_used_everywhere() {
    let objects = helm("blue", "scheduling", &[]).expect("it renders");
    let names: BTreeSet<&str> = objects.keys().map(|(_, name)| name.as_str()).collect();
    assert!(names.iter().all(|name| name.starts_with("blue-supercargo")), "{names:?}");
    for ((kind, name), object) in &objects {
        let is_of_cluster = kind.starts_with("ClusterRole") || kind == "FlowSchema";
        let namespace = if is_of_cluster { Value::Null } else { json!("scheduling") };
        assert_eq!(object["metadata"]["namespace"], namespace, "{kind} {name}");
        assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/instance"], "blue", "{kind} {name}");
        for subject in object["subjects"].as_array().into_iter().flatten() {
            let account =
                json!({"kind": "ServiceAccount", "name": "blue-supercargo", "namespace": "scheduling"});
            assert_eq!(subject, &account, "{kind} {name}");
        }
        if object["roleRef"].is_object() {
            let kind = object["roleRef"]["kind"].as_str().expect("a kind");
            get(&objects, kind, object["roleRef"]["name"].as_str().expect("a name"));
        }
        for rule in object["spec"]["rules"].as_array().into_iter().flatten() {
            let account = json!({"name": "blue-supercargo", "namespace": "scheduling"});
            assert_eq!(rule["subjects"][0]["serviceAccount"], account, "{kind} {name}");
        }
    }
    let pod = &get(&objects, "Deployment", "blue-supercargo")["spec"]["template"];
    assert_eq!(pod["spec"]["serviceAccountName"], "blue-supercargo");
    assert_eq!(pod["spec"]["volumes"][0]["configMap"]["name"], "blue-supercargo-config");
    let selector = &get(&objects, "Deployment", "blue-supercargo")["spec"]["selector"]["matchLabels"];
    assert_eq!(
        selector,
        &json!({"app.kubernetes.io/name": "supercargo", "app.kubernetes.io/instance": "blue"})
    );
    assert_eq!(&get(&objects, "Service", "blue-supercargo")["spec"]["selector"], selector);
    for (key, value) in selector.as_object().expect("labels") {
        assert_eq!(&pod["metadata"]["labels"][key], value);
    }
}

#[test]
fn chart_values_apply_to_pod_and_configuration() {
    let spread = r#"topologySpreadConstraints=[{"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"ScheduleAnyway"}]"#;
    let config = r#"config={"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration","leaderElection":{"resourceName":"second"},"profiles":[{"schedulerName":"second"}]}"#;
    let objects = helm(
        "supercargo",
        "kube-system",
        &[
            r#"image={"repository":"example.com/s","tag":"9"}"#,
            "replicas=3",
            spread,
            config,
            r#"extraArgs=["--v=4"]"#,
        ],
    )
    .expect("it renders");
    let deployment = get(&objects, "Deployment", "supercargo");
    assert_eq!(deployment["spec"]["replicas"], 3);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["image"], "example.com/s:9");
    assert_eq!(pod["topologySpreadConstraints"][0]["maxSkew"], 1);
    let args = pod["containers"][0]["args"].as_array().expect("arguments");
    assert_eq!(args.last(), Some(&json!("--v=4")));
    assert_eq!(arguments(deployment).verbosity, 4, "it replaces the base's flag");
    let settings = &get(&objects, "ConfigMap", "supercargo-config")["data"]["config.yaml"];
    assert_eq!(settings["profiles"][0]["schedulerName"], "second");
}

#[test]
fn optional_parts_are_complete_when_enabled() {
    let on = [
        "networkPolicy.enabled=true",
        "serviceMonitor.enabled=true",
        "prometheusRule.enabled=true",
        "dashboards.enabled=true",
    ];
    let objects = helm("supercargo", "kube-system", &on).expect("it renders");
    let policy = &get(&objects, "NetworkPolicy", "supercargo")["spec"];
    assert_eq!(policy["ingress"][0]["ports"], json!([{"port": "https", "protocol": "TCP"}]));
    assert_eq!(policy["policyTypes"], json!(["Ingress", "Egress"]));
    let monitor = &get(&objects, "ServiceMonitor", "supercargo")["spec"];
    assert_eq!(
        monitor["jobLabel"], "app.kubernetes.io/name",
        "the job is named supercargo, as the rules expect"
    );
    let service = get(&objects, "Service", "supercargo");
    assert_eq!(service["metadata"]["labels"]["app.kubernetes.io/name"], "supercargo");
    for endpoint in monitor["endpoints"].as_array().expect("endpoints") {
        assert_eq!(endpoint["port"], service["spec"]["ports"][0]["name"]);
    }
    for (key, value) in monitor["selector"]["matchLabels"].as_object().expect("labels") {
        assert_eq!(&service["metadata"]["labels"][key], value);
    }
    get(
        &objects,
        "ClusterRole",
        get(&objects, "ClusterRoleBinding", "supercargo-metrics-reader")["roleRef"]["name"]
            .as_str()
            .expect("a name"),
    );
    let rules: Value =
        serde_saphyr::from_str(&fs::read_to_string(root().join("dashboards/rules.yaml")).expect("rules"))
            .expect("YAML");
    assert_eq!(get(&objects, "PrometheusRule", "supercargo")["spec"], rules);
    let dashboard = &get(&objects, "ConfigMap", "supercargo-dashboards")["data"]["supercargo.json"];
    let file = fs::read_to_string(root().join("dashboards/supercargo.json")).expect("the dashboard");
    assert_eq!(dashboard.as_str(), Some(file.as_str()));
}

#[test]
fn network_policy_of_manifests_and_chart_are_equal() {
    let text = fs::read_to_string(root().join("manifests/components/network-policy/network-policy.yaml"));
    let plain: Value = serde_saphyr::from_str(&text.expect("the file exists")).expect("it is YAML");
    let chart = helm("supercargo", "kube-system", &["networkPolicy.enabled=true"]).expect("it renders");
    let rendered = get(&chart, "NetworkPolicy", "supercargo");
    assert_eq!(plain["spec"], rendered["spec"]);
    let folder = root().join("manifests/components/network-policy/kustomization.yaml");
    let component: Value =
        serde_saphyr::from_str(&fs::read_to_string(folder).expect("the file exists")).expect("it is YAML");
    assert_eq!(
        (&component["kind"], &component["resources"]),
        (&json!("Component"), &json!(["network-policy.yaml"]))
    );
}

#[test]
fn unknown_and_invalid_values_are_rejected() {
    for (value, expected) in [
        ("replica=2", "replica"),
        ("replicas=-1", "replicas"),
        (r#"image={"repository":"a","pullPolicy":"Sometimes"}"#, "pullPolicy"),
        (r#"extraArgs=["v=4"]"#, "extraArgs"),
        (r#"shadowOf="Two words""#, "shadowOf"),
        (r#"config={"profiles":[]}"#, "config"),
        (r#"serviceMonitor={"interval":"30"}"#, "interval"),
        (r#"extraArgs=["--config=/etc/other.yaml"]"#, "set the value `config` instead"),
        (r#"extraArgs=["--shadow-of=a"]"#, "set the value `shadowOf` instead"),
        (r#"extraArgs=["--secure-port=1"]"#, "--secure-port"),
        (r#"extraArgs=["--decision-log=/var/log/decisions"]"#, "read-only except for /tmp"),
    ] {
        let error = helm("supercargo", "kube-system", &[value]).expect_err(value);
        assert!(error.contains(expected), "{value}: {error}");
    }
}

/// Parses a Deployment's arguments as the program does.
fn arguments(deployment: &Value) -> Args {
    let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().expect("arguments");
    let args = args.iter().map(|arg| arg.as_str().expect("a text"));
    Args::try_parse_from(std::iter::once("supercargo").chain(args))
        .expect("the program accepts the arguments")
}

/// Returns the lease that the program uses with these objects, as `namespace/name`, and the leases that its Roles let
/// it write.
fn contended_and_granted(objects: &Objects) -> (Option<String>, BTreeSet<String>) {
    let of =
        |kind: &'static str| objects.iter().filter(move |((it, _), _)| it == kind).map(|(_, object)| object);
    let args = arguments(of("Deployment").next().expect("a Deployment"));
    let maps = of("ConfigMap").filter_map(|map| map.pointer("/data/config.yaml"));
    let text = maps.map(Value::to_string).next().expect("a configuration");
    let effective = Effective::parse(Path::new("config.yaml"), &text, &args.election.flags());
    let effective = effective.unwrap_or_else(|error| panic!("the program rejects it: {error}"));
    let election = Settings::of(&effective).expect("the program accepts it").election;
    let mut granted = BTreeSet::new();
    for role in of("Role") {
        let namespace = &role["metadata"]["namespace"];
        let binding = of("RoleBinding").find(|it| it["roleRef"]["name"] == role["metadata"]["name"]);
        assert_eq!(&binding.expect("a Role is bound")["metadata"]["namespace"], namespace);
        for rule in role["rules"].as_array().expect("rules") {
            for name in rule["resourceNames"].as_array().into_iter().flatten() {
                assert_eq!(rule["verbs"], json!(["get", "update"]));
                granted.insert(format!(
                    "{}/{}",
                    namespace.as_str().expect("a text"),
                    name.as_str().expect("a text")
                ));
            }
        }
    }
    (election.map(|election| format!("{}/{}", election.namespace, election.name)), granted)
}

/// Returns a `config` value with this leader election and these profiles.
fn config(election: &str, profiles: &str) -> String {
    let head = r#""apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration""#;
    format!("config={{{head}{election}{profiles}}}")
}

#[test]
fn role_grants_the_configured_lease() {
    let (own, default) = (r#","profiles":[{"schedulerName":"own"}]"#, r#","profiles":[{}]"#);
    let named = r#","leaderElection":{"resourceName":"mine"}"#;
    let elsewhere = r#","leaderElection":{"resourceName":"mine","resourceNamespace":"leases"}"#;
    let off = r#","leaderElection":{"leaderElect":false}"#;
    let flags = r#"extraArgs=["--leader-elect-resource-name=f","--leader-elect-resource-namespace=g"]"#;
    let no_flag = r#"extraArgs=["--leader-elect=false"]"#;
    for (values, expected) in [
        (vec![], Some("scheduling/blue-supercargo")),
        (vec![config("", own)], Some("scheduling/blue-supercargo")),
        (vec![config(r#","leaderElection":null"#, own)], Some("scheduling/blue-supercargo")),
        (
            vec![config(r#","leaderElection":{"leaseDuration":"20s"}"#, own)],
            Some("scheduling/blue-supercargo"),
        ),
        (vec![config(named, own)], Some("scheduling/mine")),
        (vec![config(elsewhere, own)], Some("leases/mine")),
        (vec![config("", default)], Some("kube-system/kube-scheduler")),
        (vec![config("", "")], Some("kube-system/kube-scheduler")),
        (vec![config(off, own)], None),
        (vec![config(off, own), "replicas=1".to_owned()], None),
        (vec![flags.to_owned()], Some("g/f")),
        (vec![config(elsewhere, own), flags.to_owned()], Some("g/f")),
        (vec![no_flag.to_owned()], None),
        (
            vec![config(off, own), r#"extraArgs=["--leader-elect"]"#.to_owned()],
            Some("scheduling/blue-supercargo"),
        ),
        (vec![r#"shadowOf="default-scheduler""#.to_owned()], None),
    ] {
        let set: Vec<&str> = values.iter().map(String::as_str).collect();
        let objects = helm("blue", "scheduling", &set).unwrap_or_else(|error| panic!("{set:?}: {error}"));
        let (contended, granted) = contended_and_granted(&objects);
        assert_eq!(contended.as_deref(), expected, "{set:?}");
        assert_eq!(granted, contended.into_iter().collect(), "{set:?}");
        let spec = &get(&objects, "Deployment", "blue-supercargo")["spec"];
        if expected.is_none() {
            assert_eq!(
                (&spec["replicas"], &spec["strategy"]),
                (&json!(1), &json!({"type": "Recreate"})),
                "{set:?}"
            );
        }
    }
    for overlay in [
        "base",
        "overlays/single",
        "overlays/high-availability",
        "overlays/replace-default",
        "overlays/shadow",
    ] {
        let (contended, granted) = contended_and_granted(&kustomize(&format!("manifests/{overlay}")));
        assert_eq!(contended.is_none(), overlay.ends_with("shadow"), "{overlay}");
        assert_eq!(granted, contended.into_iter().collect(), "{overlay}");
    }
}

#[test]
fn several_replicas_without_leader_election_are_rejected() {
    let off =
        config(r#","leaderElection":{"leaderElect":false}"#, r#","profiles":[{"schedulerName":"own"}]"#);
    for without in [off.as_str(), r#"extraArgs=["--leader-elect=false"]"#] {
        let error =
            helm("blue", "scheduling", &[without, "replicas=2"]).expect_err("two replicas would schedule");
        assert!(error.contains("there is no leader election"), "{error}");
    }
    let text = config(r#","leaderElection":{"leaderElect":"no"}"#, "");
    let error = helm("blue", "scheduling", &[&text]).expect_err("it is not a boolean");
    assert!(error.contains("must be true or false"), "{error}");
}

/// The only writable folder of the container.
const TMP: &str = "/tmp";

#[test]
fn tmp_volume_fits_all_files_named_by_flags() {
    let mebibytes = |objects: &Objects, name: &str| -> u64 {
        let volume = &get(objects, "Deployment", name)["spec"]["template"]["spec"]["volumes"][1];
        assert_eq!(volume["name"], "tmp");
        let limit = volume["emptyDir"]["sizeLimit"].as_str().expect("a text");
        limit.strip_suffix("Mi").expect("mebibytes").parse().expect("a number")
    };
    let log = || format!("--decision-log={TMP}/log");
    let recording = || format!("--record-to={TMP}/recording");
    let bytes = |flag: &str, bytes: u64| format!("--{flag}-max-bytes={bytes}");
    for (args, is_as_base) in [
        (vec![], true),
        (vec![log()], true),
        (vec![log(), bytes("decision-log", 5_000_000_000)], false),
        (vec![recording()], false),
        (vec![recording(), bytes("record", 1_000), log()], true),
    ] {
        let value = format!("extraArgs={}", json!(args));
        let objects = helm("supercargo", "kube-system", &[&value]).expect("it renders");
        let keeping = arguments(get(&objects, "Deployment", "supercargo")).keeping;
        let log = keeping.decision_log.map_or(0, |_| keeping.decision_log_max_bytes);
        let recording = keeping.record_to.map_or(0, |_| keeping.record_max_bytes);
        let limit = mebibytes(&objects, "supercargo");
        assert!(limit << 20 > 2 * (log + recording), "{args:?}: {limit} MiB");
        let base = mebibytes(&kustomize("manifests/base"), "supercargo");
        assert_eq!(limit == base, is_as_base, "{args:?}: {limit} MiB");
    }
}

#[test]
fn requests_have_kube_schedulers_api_priority_in_any_namespace() {
    let objects = helm("blue", "scheduling", &[]).expect("it renders");
    let level =
        |name: &str| get(&objects, "FlowSchema", name)["spec"]["priorityLevelConfiguration"]["name"].clone();
    assert_eq!(level("blue-supercargo"), "workload-high");
    assert_eq!(level("blue-supercargo-leader-election"), "leader-election");
}

#[test]
fn single_overlay_is_the_base_with_one_replica() {
    let mut expected = kustomize("manifests/base");
    let deployment =
        expected.get_mut(&("Deployment".to_owned(), "supercargo".to_owned())).expect("a Deployment");
    deployment["spec"]["replicas"] = json!(1);
    deployment["spec"]["strategy"] = json!({"type": "Recreate"});
    assert_eq!(kustomize("manifests/overlays/single"), expected);
}

#[test]
fn high_availability_overlay_has_three_replicas_over_zones() {
    let mut expected = kustomize("manifests/base");
    let deployment =
        expected.get_mut(&("Deployment".to_owned(), "supercargo".to_owned())).expect("a Deployment");
    let selector = deployment["spec"]["selector"].clone();
    deployment["spec"]["replicas"] = json!(3);
    deployment["spec"]["template"]["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector,
    }]);
    assert_eq!(kustomize("manifests/overlays/high-availability"), expected);
    assert_eq!(get(&expected, "PodDisruptionBudget", "supercargo")["spec"]["maxUnavailable"], 1);
}

/// Returns the settings in a ConfigMap.
fn settings(objects: &Objects) -> Settings {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("config.yaml");
    let text = &get(objects, "ConfigMap", "supercargo-config")["data"]["config.yaml"];
    fs::write(&file, text.to_string()).expect("the folder can be written to");
    Settings::load(&file).expect("the program accepts it")
}

#[test]
fn replace_default_overlay_uses_kube_schedulers_profile_and_lease() {
    let objects = kustomize("manifests/overlays/replace-default");
    let settings = settings(&objects);
    let names: Vec<&str> = settings.profiles.iter().map(|profile| profile.name.as_str()).collect();
    assert_eq!(names, ["default-scheduler"]);
    let lease = &get(&objects, "ConfigMap", "supercargo-config")["data"]["config.yaml"]["leaderElection"];
    assert_eq!(lease["resourceName"], "kube-scheduler");
    let rules = get(&objects, "Role", "supercargo-lead")["rules"].as_array().expect("rules");
    let named: Vec<&Value> =
        rules.iter().filter_map(|rule| rule["resourceNames"].as_array()).flatten().collect();
    assert_eq!(named, [&lease["resourceName"]]);
}

/// Returns the permissions that a set of objects grants, one entry per verb and resource or path.
fn granted(objects: &Objects) -> BTreeSet<String> {
    let mut granted = BTreeSet::new();
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().into_iter().flatten();
        list.map(|text| text.as_str().expect("a text").to_owned()).collect()
    };
    for ((kind, _), object) in objects.iter().filter(|((kind, _), _)| kind.ends_with("Role")) {
        assert!(["Role", "ClusterRole"].contains(&kind.as_str()));
        for rule in object["rules"].as_array().expect("a role has rules") {
            let verbs = texts(&rule["verbs"]);
            for of in texts(&rule["resources"]).into_iter().chain(texts(&rule["nonResourceURLs"])) {
                granted.extend(verbs.iter().map(|verb| format!("{verb} {of}")));
            }
        }
    }
    granted
}

#[test]
fn shadow_overlay_is_the_renamed_base_without_write_permissions() {
    let (base, shadow) = (kustomize("manifests/base"), kustomize("manifests/overlays/shadow"));
    for (kind, name) in shadow.keys() {
        assert!(name.ends_with("-shadow"), "{kind} {name} may conflict with another installation");
    }
    let kinds = |objects: &Objects| objects.keys().map(|(kind, _)| kind.clone()).collect::<BTreeSet<_>>();
    let left_out = ["FlowSchema", "PodDisruptionBudget", "Role", "RoleBinding"].map(str::to_owned);
    assert_eq!(kinds(&base).difference(&kinds(&shadow)).cloned().collect::<BTreeSet<_>>(), left_out.into());
    let granted_here = granted(&shadow);
    for right in &granted_here {
        let reads = ["list ", "watch ", "get /"].iter().any(|reads| right.starts_with(reads));
        let reviews = ["create tokenreviews", "create subjectaccessreviews"].contains(&right.as_str());
        assert!(reads || reviews, "it grants {right}");
    }
    let reads = |rights: &BTreeSet<String>| {
        rights.iter().filter(|right| right.starts_with("watch ")).cloned().collect::<BTreeSet<_>>()
    };
    assert_eq!(reads(&granted_here), reads(&granted(&base)), "it watches what the scheduler watches");
    assert!(granted_here.contains("get /debug/shadow"));

    let selector =
        json!({"app.kubernetes.io/name": "supercargo", "app.kubernetes.io/instance": "supercargo-shadow"});
    let deployment = get(&shadow, "Deployment", "supercargo-shadow");
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], selector);
    assert_eq!(get(&shadow, "Service", "supercargo-shadow")["spec"]["selector"], selector);
    assert_eq!(deployment["spec"]["replicas"], 1);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], "supercargo-shadow");
    assert_eq!(pod["volumes"][0]["configMap"]["name"], "supercargo-config-shadow");
    let arguments = pod["containers"][0]["args"].as_array().expect("arguments");
    let arguments = arguments.iter().map(|arg| arg.as_str().expect("a text"));
    let args = Args::try_parse_from(std::iter::once("supercargo").chain(arguments))
        .expect("the program accepts the arguments");
    let name = args.shadow_of.expect("it is a shadow");
    let config = &get(&shadow, "ConfigMap", "supercargo-config-shadow")["data"]["config.yaml"];
    assert_eq!(
        config["profiles"],
        json!([{"schedulerName": name}]),
        "the shadowed scheduler and its profile"
    );
    for ((kind, _), binding) in shadow.iter().filter(|((kind, _), _)| kind == "ClusterRoleBinding") {
        let account =
            json!([{"kind": "ServiceAccount", "name": "supercargo-shadow", "namespace": "kube-system"}]);
        assert_eq!(binding["subjects"], account);
        get(&shadow, "ClusterRole", binding["roleRef"]["name"].as_str().expect(kind));
    }
}

#[test]
fn shadow_chart_grants_the_overlays_permissions() {
    let chart = helm("watch", "scheduling", &[r#"shadowOf="default-scheduler""#]).expect("it renders");
    assert_eq!(granted(&chart), granted(&kustomize("manifests/overlays/shadow")));
    let of = |kind: &str| chart.keys().filter(|(it, _)| it == kind).count();
    assert_eq!(["Role", "RoleBinding", "PodDisruptionBudget", "FlowSchema"].map(of), [0, 0, 0, 0]);
    let deployment = get(&chart, "Deployment", "watch-supercargo");
    assert_eq!(deployment["spec"]["replicas"], 1);
    let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().expect("arguments");
    assert_eq!(args.last(), Some(&json!("--shadow-of=default-scheduler")));
    let config = &get(&chart, "ConfigMap", "watch-supercargo-config")["data"]["config.yaml"];
    assert_eq!(config["profiles"], json!([{"schedulerName": "default-scheduler"}]));
    assert_eq!(config["leaderElection"]["leaderElect"], false);
}

#[test]
fn static_pod_mounts_its_files_and_uses_kube_schedulers_lease() {
    let text = fs::read_to_string(root().join("manifests/static-pod.yaml")).expect("the static pod");
    let pod = objects(&text);
    let spec = &get(&pod, "Pod", "supercargo")["spec"];
    let container = &spec["containers"][0];
    assert_eq!(container["image"], format!("supercargo:{}", env!("CARGO_PKG_VERSION")));
    let arguments =
        container["args"].as_array().expect("arguments").iter().map(|arg| arg.as_str().expect("a text"));
    let args = Args::try_parse_from(std::iter::once("supercargo").chain(arguments))
        .expect("the program accepts the arguments");
    let mounted = |file: &Path| {
        let mounts = container["volumeMounts"].as_array().expect("mounts");
        mounts.iter().any(|mount| file.starts_with(mount["mountPath"].as_str().expect("a path")))
    };
    assert!(
        mounted(&args.kubeconfig.expect("a kubeconfig")) && mounted(&args.config.expect("a configuration"))
    );
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        assert_eq!(container[probe]["httpGet"]["port"], args.secure_port, "{probe}");
        assert_eq!(container[probe]["httpGet"]["host"], args.bind_address.to_string(), "{probe}");
    }
    let base = kustomize("manifests/base");
    let of_base = &get(&base, "Deployment", "supercargo")["spec"]["template"]["spec"]["containers"][0];
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        assert_eq!(container[probe]["timeoutSeconds"], of_base[probe]["timeoutSeconds"], "{probe}");
    }
    assert_eq!(container["resources"], of_base["resources"]);
    let settings =
        Settings::load(&root().join("manifests/static-pod-config.yaml")).expect("the program accepts it");
    let election = settings.election.expect("it uses leader election, for several control plane nodes");
    let lease = (election.namespace.as_str(), election.name.as_str());
    assert_eq!(
        lease,
        ("kube-system", "kube-scheduler"),
        "the only lease that system:kube-scheduler may write"
    );
    let names: Vec<&str> = settings.profiles.iter().map(|profile| profile.name.as_str()).collect();
    assert_eq!(names, ["default-scheduler"]);
}
