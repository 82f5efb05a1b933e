//! Checks `manifests/`, the Dockerfile and the examples without a cluster: roles grant exactly the permissions in
//! use, the pod is restricted, and references between files are valid.
//!
//! The tests against a real API server show that it admits the manifests, and that supercargo works with exactly these
//! permissions.

use clap::Parser as _;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use supercargo::args::Args;
use supercargo_config::Settings;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the documents of a YAML file.
fn documents(name: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the names of the YAML files in a folder.
fn yaml_files(folder: &str) -> BTreeSet<String> {
    fs::read_dir(path(folder))
        .unwrap_or_else(|error| panic!("{folder}: {error}"))
        .map(|entry| entry.expect("an entry can be read").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".yaml"))
        .collect()
}

/// Returns every object of the kustomize base.
fn base() -> Vec<Value> {
    let files = yaml_files("manifests/base").into_iter().filter(|name| name != "kustomization.yaml");
    files.flat_map(|name| documents(&format!("manifests/base/{name}"))).collect()
}

fn of_kind(kind: &str) -> Vec<Value> {
    base().into_iter().filter(|object| object["kind"] == kind).collect()
}

/// Returns the only object of a kind.
fn the(kind: &str) -> Value {
    let mut objects = of_kind(kind);
    assert_eq!(objects.len(), 1, "one {kind}");
    objects.remove(0)
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().expect("an object has a name")
}

fn strings(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .map_or(vec![], |items| items.iter().map(|item| item.as_str().expect("a string")).collect())
}

fn pod_spec() -> Value {
    the("Deployment")["spec"]["template"]["spec"].clone()
}

fn container() -> Value {
    let containers = pod_spec()["containers"].clone();
    assert_eq!(containers.as_array().map(Vec::len), Some(1), "one container");
    containers[0].clone()
}

#[test]
fn kustomization_lists_every_file_of_its_folder() {
    let listed = documents("manifests/base/kustomization.yaml").remove(0)["resources"].clone();
    let mut files = yaml_files("manifests/base");
    assert!(files.remove("kustomization.yaml"));
    assert_eq!(strings(&listed).into_iter().map(str::to_owned).collect::<BTreeSet<_>>(), files);
}

#[test]
fn every_namespaced_object_is_in_kube_system() {
    for object in base() {
        let kind = object["kind"].as_str().expect("an object has a kind");
        let is_of_cluster = kind.starts_with("ClusterRole") || kind == "FlowSchema";
        let expected = if is_of_cluster { Value::Null } else { json!("kube-system") };
        assert_eq!(object["metadata"]["namespace"], expected, "{kind} {}", name(&object));
    }
}

#[test]
fn manifests_have_the_crates_version() {
    let version = env!("CARGO_PKG_VERSION");
    let kustomization = documents("manifests/base/kustomization.yaml").remove(0);
    assert_eq!(kustomization["images"], json!([{"name": "supercargo", "newTag": version}]));
    assert_eq!(kustomization["labels"][0]["pairs"]["app.kubernetes.io/version"], version);
    assert!(read("Dockerfile").contains(&format!("org.opencontainers.image.version=\"{version}\"")));
}

#[test]
fn deployment_has_two_replicas_with_a_budget_and_another_scheduler() {
    let deployment = the("Deployment");
    assert_eq!(deployment["spec"]["replicas"], 2);
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}});
    assert_eq!(deployment["spec"]["strategy"], strategy);
    let budget = the("PodDisruptionBudget")["spec"].clone();
    assert_eq!(budget["maxUnavailable"], 1);
    let spread = &pod_spec()["affinity"]["podAntiAffinity"];
    let term = spread["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"].clone();
    assert_eq!(term["topologyKey"], "kubernetes.io/hostname");
    assert!(
        spread["requiredDuringSchedulingIgnoredDuringExecution"].is_null(),
        "the spreading must be soft, so that one node suffices"
    );
    for selector in [&budget["selector"], &term["labelSelector"]] {
        assert_eq!(selector, &deployment["spec"]["selector"]);
    }
    let pod = pod_spec();
    assert_eq!(pod["schedulerName"], "default-scheduler");
    assert_eq!(pod["priorityClassName"], "system-cluster-critical");
    assert_eq!(pod["serviceAccountName"], name(&the("ServiceAccount")));
    assert_eq!(pod["terminationGracePeriodSeconds"], 30);
}

#[test]
fn pod_complies_with_restricted_standard() {
    let pod = pod_spec();
    let context = &pod["securityContext"];
    assert_eq!(context["runAsNonRoot"], true);
    assert_eq!(context["runAsUser"], 65532);
    assert_eq!(context["seccompProfile"], json!({"type": "RuntimeDefault"}));
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        assert!(pod[field].is_null(), "no {field}");
    }
    for volume in pod["volumes"].as_array().expect("there are volumes") {
        let kinds: Vec<&String> =
            volume.as_object().expect("a volume").keys().filter(|key| *key != "name").collect();
        assert!(kinds == ["configMap"] || kinds == ["emptyDir"], "{volume}");
    }
    let expected = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
    });
    assert_eq!(container()["securityContext"], expected);
}

#[test]
fn pod_requests_the_resources_it_needs() {
    let resources = container()["resources"].clone();
    assert_eq!(resources["requests"], json!({"cpu": "200m", "memory": "256Mi"}));
    assert!(resources["limits"]["memory"].is_string());
    assert!(resources["limits"]["cpu"].is_null(), "a CPU limit would throttle scheduling");
}

#[test]
fn probes_use_the_https_port() {
    let container = container();
    assert_eq!(container["ports"], json!([{"name": "https", "containerPort": 10259, "protocol": "TCP"}]));
    for (probe, path) in
        [("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")]
    {
        let expected = json!({"path": path, "port": "https", "scheme": "HTTPS"});
        assert_eq!(container[probe]["httpGet"], expected, "{probe}");
        assert_eq!(
            container[probe]["timeoutSeconds"], 15,
            "{probe} has the timeout of kubeadm's kube-scheduler"
        );
    }
    let port = json!([{"name": "https-metrics", "port": 10259, "targetPort": "https", "protocol": "TCP"}]);
    assert_eq!(the("Service")["spec"]["ports"], port);
    assert_eq!(the("Service")["spec"]["clusterIP"], "None");
}

#[test]
fn selectors_match_the_pod_without_version_labels() {
    let deployment = the("Deployment");
    let selector = deployment["spec"]["selector"]["matchLabels"].clone();
    assert_eq!(
        selector,
        json!({"app.kubernetes.io/name": "supercargo", "app.kubernetes.io/instance": "supercargo"})
    );
    assert_eq!(the("Service")["spec"]["selector"], selector);
    for (key, value) in selector.as_object().expect("labels") {
        assert_eq!(&deployment["spec"]["template"]["metadata"]["labels"][key], value);
    }
}

#[test]
fn program_accepts_the_arguments_and_their_files_are_mounted() {
    let container = container();
    let arguments = strings(&container["args"]);
    let args = Args::try_parse_from(std::iter::once("supercargo").chain(arguments))
        .expect("the program accepts the arguments");
    assert_eq!(args.secure_port, 10259);
    let file = args.config.expect("a configuration is given");
    let mount = &container["volumeMounts"][0];
    let key =
        file.strip_prefix(mount["mountPath"].as_str().expect("a path")).expect("the file is in the mount");
    let volume = pod_spec()["volumes"][0].clone();
    assert_eq!(volume["name"], mount["name"]);
    assert_eq!(volume["configMap"]["name"], name(&the("ConfigMap")));
    assert!(the("ConfigMap")["data"][key.to_str().expect("a name")].is_string());
}

#[test]
fn program_accepts_the_configuration_and_its_single_profile() {
    let text = the("ConfigMap")["data"]["config.yaml"].as_str().expect("a text").to_owned();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("config.yaml");
    fs::write(&file, text).expect("the folder can be written to");
    let settings = Settings::load(&file).expect("the program accepts it");
    assert_eq!(settings, Settings::default(), "kube-scheduler's defaults, for the profile supercargo");
}

/// The permissions of each role, one line per resource, with object names where a rule has them. Add a permission
/// here together with its use.
const RIGHTS: [(&str, &[&str]); 5] = [
    (
        "supercargo-act",
        &[
            "/pods/binding create",
            "/pods delete",
            "/pods/status patch",
            "/persistentvolumes patch",
            "/persistentvolumeclaims patch",
            "resource.k8s.io/resourceclaims get,create,patch,delete",
            "resource.k8s.io/resourceclaims/status patch",
            "resource.k8s.io/resourceclaims/binding patch",
            "scheduling.k8s.io/podgroups/status patch",
            "events.k8s.io/events create,patch",
        ],
    ),
    (
        "supercargo-lead",
        &["coordination.k8s.io/leases create", "coordination.k8s.io/leases get,update supercargo"],
    ),
    ("supercargo-metrics-reader", &["/metrics get", "/metrics/slis get"]),
    (
        "supercargo-read",
        &[
            "/pods get,list,watch",
            "/nodes list,watch",
            "/namespaces list,watch",
            "/services list,watch",
            "/replicationcontrollers list,watch",
            "apps/replicasets list,watch",
            "apps/statefulsets list,watch",
            "/persistentvolumes list,watch",
            "/persistentvolumeclaims list,watch",
            "storage.k8s.io/storageclasses list,watch",
            "storage.k8s.io/csinodes list,watch",
            "storage.k8s.io/csidrivers list,watch",
            "storage.k8s.io/csistoragecapacities list,watch",
            "storage.k8s.io/volumeattachments list,watch",
            "policy/poddisruptionbudgets list,watch",
            "resource.k8s.io/deviceclasses list,watch",
            "resource.k8s.io/resourceclaims list,watch",
            "resource.k8s.io/resourceslices list,watch",
            "scheduling.k8s.io/podgroups list,watch",
        ],
    ),
    (
        "supercargo-serve-auth",
        &["authentication.k8s.io/tokenreviews create", "authorization.k8s.io/subjectaccessreviews create"],
    ),
];

#[test]
fn roles_grant_exactly_the_permissions_in_use() {
    let mut roles: Vec<(String, Vec<String>)> = Vec::new();
    for role in
        base().into_iter().filter(|object| matches!(object["kind"].as_str(), Some("Role" | "ClusterRole")))
    {
        assert!(role["aggregationRule"].is_null(), "aggregated roles are not reviewed");
        let mut rights = Vec::new();
        for rule in role["rules"].as_array().expect("a role has rules") {
            let names = strings(&rule["resourceNames"]);
            let names = if names.is_empty() { String::new() } else { format!(" {}", names.join(",")) };
            let verbs = strings(&rule["verbs"]).join(",") + &names;
            for resource in strings(&rule["resources"]) {
                rights.extend(
                    strings(&rule["apiGroups"]).iter().map(|group| format!("{group}/{resource} {verbs}")),
                );
            }
            rights.extend(strings(&rule["nonResourceURLs"]).iter().map(|url| format!("{url} {verbs}")));
        }
        assert!(!rights.iter().any(|right| right.contains('*') || right.contains("secrets")), "{rights:?}");
        roles.push((name(&role).to_owned(), rights));
    }
    roles.sort();
    let expected: Vec<(String, Vec<String>)> = RIGHTS
        .iter()
        .map(|(role, rights)| ((*role).to_owned(), rights.iter().map(|right| (*right).to_owned()).collect()))
        .collect();
    assert_eq!(roles, expected);
}

#[test]
fn every_role_except_the_metrics_readers_is_bound() {
    let account =
        json!([{"kind": "ServiceAccount", "name": name(&the("ServiceAccount")), "namespace": "kube-system"}]);
    for kind in ["Role", "ClusterRole"] {
        let mut bound = BTreeSet::new();
        for binding in of_kind(&format!("{kind}Binding")) {
            assert_eq!(binding["roleRef"]["kind"], kind);
            assert_eq!(binding["subjects"], account, "{}", name(&binding));
            bound.insert(binding["roleRef"]["name"].as_str().expect("a name").to_owned());
        }
        let mut roles: BTreeSet<String> = of_kind(kind).iter().map(|role| name(role).to_owned()).collect();
        if kind == "ClusterRole" {
            assert!(roles.remove("supercargo-metrics-reader"), "the installer of Prometheus binds this role");
        }
        assert_eq!(bound, roles);
    }
}

#[test]
fn lease_role_names_the_configured_lease() {
    let text = the("ConfigMap")["data"]["config.yaml"].as_str().expect("a text").to_owned();
    let configuration: Value = serde_saphyr::from_str(&text).expect("it is YAML");
    let election = &configuration["leaderElection"];
    let role = the("Role");
    let named = role["rules"].as_array().expect("rules").iter().find(|rule| !rule["resourceNames"].is_null());
    let named = named.expect("a rule that names the lease");
    assert_eq!(strings(&named["resourceNames"]), [election["resourceName"].as_str().expect("a name")]);
    assert_eq!(role["metadata"]["namespace"], election["resourceNamespace"]);
    assert_eq!(election["leaderElect"], true);
}

#[test]
fn image_is_built_by_make_and_holds_one_static_binary() {
    let docker = read("Dockerfile");
    let (build, run) = docker.split_once("\nFROM scratch\n").expect("the last stage is empty");
    assert!(build.contains("\nRUN make release-binary sbom\n"));
    // A slim Debian image has bash, which is make's shell, and a C compiler.
    assert!(build.contains("-slim-trixie AS build\n"), "the tested C library");
    assert!(build.contains(" apt-get install --yes --no-install-recommends make "), "the build runs make");
    let makefile = read("Makefile");
    let (_, recipe) = makefile.split_once("\nrelease-binary:").expect("the Makefile has that target");
    let recipe: Vec<&str> = recipe.lines().skip(1).take_while(|line| line.starts_with('\t')).collect();
    for flag in ["cargo build", "--release", "--locked", "$(TARGET)/dist/supercargo"] {
        assert!(recipe.iter().any(|line| line.contains(flag)), "release-binary: {flag}");
    }
    for line in ["USER 0:0", "STOPSIGNAL SIGTERM", "ENTRYPOINT [\"/supercargo\"]", "ENV PATH=/usr/local/bin"]
    {
        assert!(run.lines().any(|other| other == line), "{line}");
    }
    let copies: Vec<&str> =
        run.lines().filter(|line| line.starts_with("COPY ") || line.starts_with("ADD ")).collect();
    let files = ["supercargo", "supercargo.cdx.json"];
    let files = files.map(|file| format!("COPY --from=build /build/dist/{file} /{file}"));
    assert_eq!(copies[..2], files);
    // kubeadm's manifest calls `kube-scheduler`, without a path.
    assert_eq!(copies[2..], ["COPY --from=build /build/links/ /"]);
    assert!(build.contains(" ln -s /supercargo /build/links/usr/local/bin/kube-scheduler\n"));
    let version = format!("org.opencontainers.image.version=\"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(run.contains(&version), "the version label differs");
    assert!(!run.lines().any(|line| line.starts_with("RUN ")), "an image from scratch has no shell");
}

/// Returns the pod template within an object of the examples, if it has one.
fn pod_specs(object: &Value) -> Option<&Value> {
    let at = match object["kind"].as_str()? {
        "Pod" => "/spec",
        "Deployment" | "StatefulSet" | "DaemonSet" | "Job" => "/spec/template/spec",
        "CronJob" => "/spec/jobTemplate/spec/template/spec",
        _ => return None,
    };
    object.pointer(at)
}

#[test]
fn example_pods_use_this_scheduler_and_their_namespace() {
    let mut pods = 0;
    for entry in fs::read_dir(path("examples")).expect("there are examples") {
        let example = entry.expect("an entry can be read").file_name().to_string_lossy().into_owned();
        let Some((_, namespace)) =
            example.split_once('-').filter(|_| path("examples").join(&example).is_dir())
        else {
            continue;
        };
        let folder = format!("examples/{example}");
        for file in yaml_files(&folder) {
            let file = format!("{folder}/{file}");
            assert!(read(&file).starts_with("# "), "{file} begins with a comment");
            for object in documents(&file) {
                match object["kind"].as_str() {
                    Some("Namespace") => assert_eq!(name(&object), namespace, "{file}"),
                    // An object without a kind is a patch.
                    Some(
                        "Node" | "PriorityClass" | "StorageClass" | "PersistentVolume" | "DeviceClass"
                        | "ResourceSlice",
                    )
                    | None => {}
                    Some(_) => assert_eq!(object["metadata"]["namespace"], namespace, "{file}"),
                }
                let Some(spec) = pod_specs(&object) else { continue };
                pods += 1;
                assert_eq!(spec["schedulerName"], "supercargo", "{file}");
                let requests = &spec["containers"][0]["resources"]["requests"];
                assert!(requests["cpu"].is_string() && requests["memory"].is_string(), "{file} has requests");
            }
        }
    }
    assert!(pods >= 20, "{pods} pods");
}

#[test]
fn examples_start_from_four_nodes() {
    let nodes = documents("examples/nodes.yaml");
    let names: Vec<&str> = nodes.iter().map(name).collect();
    assert_eq!(names, ["kind-control-plane", "kind-worker", "kind-worker2", "kind-worker3"]);
    for node in &nodes {
        assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], name(node));
        assert_eq!(node["status"]["allocatable"], json!({"cpu": "8", "memory": "16Gi", "pods": "110"}));
        let taints = json!([{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]);
        let expected = if name(node) == "kind-control-plane" { taints } else { Value::Null };
        assert_eq!(node["spec"]["taints"], expected);
    }
}

#[test]
fn whatif_server_reads_what_the_scheduler_reads_and_writes_nothing() {
    let objects = documents("manifests/whatif-server.yaml");
    let find = |kind: &str, called: &str| {
        objects.iter().find(|it| it["kind"] == kind && name(it) == called).cloned().unwrap_or_default()
    };
    let rights = |role: &Value, verb: &str| {
        let mut rights = BTreeSet::new();
        for rule in role["rules"].as_array().into_iter().flatten() {
            for group in rule["apiGroups"].as_array().into_iter().flatten() {
                for resource in strings(&rule["resources"]) {
                    if strings(&rule["verbs"]).contains(&verb) {
                        rights.insert((group.to_string(), resource.to_owned()));
                    }
                }
            }
        }
        rights
    };
    let server = find("ClusterRole", "supercargo-whatif");
    let read = documents("manifests/base/cluster-role-read.yaml");
    assert_eq!(rights(&server, "watch"), rights(&read[0], "watch"));
    for verb in ["update", "patch", "delete"] {
        assert_eq!(rights(&server, verb), BTreeSet::new(), "{verb}");
    }
    let created: Vec<String> = rights(&server, "create").into_iter().map(|(_, resource)| resource).collect();
    assert_eq!(created, ["tokenreviews", "subjectaccessreviews"]);
    let pod = &find("Deployment", "supercargo-whatif")["spec"]["template"]["spec"];
    let args = strings(&pod["containers"][0]["args"]);
    Args::try_parse_from(["supercargo"].into_iter().chain(args)).expect("the program accepts them");
}
