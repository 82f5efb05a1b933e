//! Invalid input is reported in one line, with the right exit code and bounded memory and time.

use crate::support::{Cluster, Ran, plain_node, pod, run};
use serde_json::json;

#[test]
fn unknown_pod_is_reported_with_similar_names() {
    let cluster =
        Cluster::of(&[plain_node("a"), pod("web-7d4-x1", "1", &json!({})), pod("db-0", "1", &json!({}))]);
    let text = |name: &str, more: &[&str]| cluster.ask(name, more).refused().to_owned();
    assert_eq!(text("web", &[]), "pod web not found in namespace default; did you mean web-7d4-x1?");
    assert_eq!(text("db-1", &[]), "pod db-1 not found in namespace default; did you mean db-0?");
    assert_eq!(
        text("other", &[]),
        "pod other not found in namespace default; the namespace has 2 other pods: check the name and -n"
    );
    assert_eq!(
        text("db-0", &["-n", "prod"]),
        "pod db-0 not found in namespace prod; it exists with -n default"
    );
    assert_eq!(
        text("x", &["-n", "prod"]),
        "pod x not found in namespace prod; the namespace has no pods: give another one with -n"
    );
}

#[test]
fn incomplete_dump_is_explained_as_far_as_possible() {
    // One node, no owner, no namespace, no claim, no class.
    let mut asked = pod(
        "p",
        "1",
        &json!({
            "priorityClassName": "gold", "priority": 7, "runtimeClassName": "kata", "overhead": { "cpu": "100m" },
            "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }],
        }),
    );
    asked["metadata"]["resourceVersion"] = json!("12");
    asked["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": "u", "controller": true }]);
    let elsewhere = pod("elsewhere", "1", &json!({ "nodeName": "unknown-node" }));
    let cluster = Cluster::of(&[plain_node("a"), asked, elsewhere]);
    let (answer, code) = cluster.answer("p", &[]);
    assert_eq!((&answer["beforeNodes"][0]["code"], code), (&json!("ClaimNotReady"), Some(3)), "{answer:#}");
    let (answer, code) = cluster.answer("elsewhere", &[]);
    assert_eq!(
        (&answer["summary"], code),
        (&json!("the pod is on unknown-node, which is not a known node"), Some(0))
    );
}

#[test]
fn explain_escapes_control_characters_in_names() {
    let evil = "p\u{1b}[2J\u{7}\u{202e}";
    let mut label = plain_node("n\u{1b}]0;x\u{7}");
    label["metadata"]["labels"]["disk\u{1b}[31m"] = json!("a\nb");
    let cluster = Cluster::of(&[label, pod(evil, "9", &json!({ "nodeSelector": { "disk\u{1b}[31": "x" } }))]);
    for form in ["table", "wide", "json", "yaml"] {
        let ran = cluster.ask(evil, &["-o", form]);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        let forbidden =
            |c: char| (c.is_control() && c != '\n') || (form != "json" && form != "yaml" && c == '\u{202e}');
        assert!(!ran.stdout.contains(forbidden), "{form}: {:?}", ran.stdout);
    }
    let unknown = cluster.ask("q\u{1b}[2J", &[]);
    assert!(!unknown.stderr.trim_end().contains(char::is_control), "{unknown:?}");
}

#[test]
fn lint_and_simulate_escape_control_characters_in_names() {
    let evil = "p\u{1b}[2J\u{7}\u{202e}";
    let mut asked = pod("p", "9", &json!({ "nodeSelector": { "disk\u{1b}[31": "x" } }));
    asked["metadata"]["name"] = json!(evil);
    let cluster = Cluster::of(&[plain_node("n"), asked]);
    let test = "apiVersion: supercargo.dev/v1alpha1\nkind: PlacementTest\ncluster: [cluster]\n\
                tests: [{name: \"\\e[2J\", pods: {namespace: default}, expect: {scheduled: true}}]\n";
    cluster.write("test", test);
    let forbidden = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    for command in [
        &["lint", "--cluster", "cluster"][..],
        &["lint", "--cluster", "cluster", "-o", "wide"],
        &["simulate", "--cluster", "cluster", "--add-nodes", "1:template=n"],
        &["simulate", "--cluster", "cluster", "--add-nodes", "1:template=n", "-o", "wide"],
        &["test", "test"],
        &["test", "test", "-o", "junit"],
    ] {
        let ran = run(cluster.folder(), command);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        assert!(!ran.stdout.contains(forbidden) && !ran.stdout.is_empty(), "{command:?}: {:?}", ran.stdout);
    }
}

#[test]
fn yaml_bomb_is_rejected() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        text += &format!("a{level}: &a{level} [{}]\n", [before.as_str(); 10].join(", "));
    }
    let cluster = Cluster::written(&format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\n{text}"));
    let ran = cluster.ask("p", &[]);
    assert!(ran.refused().starts_with("cluster:"), "{ran:?}");
    for command in
        [&["lint", "--cluster", "cluster"][..], &["simulate", "--cluster", "cluster", "--remove-node", "n"]]
    {
        assert!(run(cluster.folder(), command).refused().starts_with("cluster:"), "{command:?}");
    }
}

#[test]
fn deep_nesting_is_rejected_without_a_crash() {
    for text in [format!("{{\"kind\": {}", "[".repeat(200_000)), format!("kind: {}", "[".repeat(200_000))] {
        let ran = Cluster::written(&text).ask("p", &[]);
        assert!(ran.refused().starts_with("cluster:"), "{ran:?}");
    }
}

#[test]
fn unreadable_file_and_unknown_flag_are_reported() {
    let cluster = Cluster::of(&[plain_node("a")]);
    let missing = run(cluster.folder(), &["explain", "pod", "p", "--cluster", "absent"]);
    assert!(missing.refused().starts_with("absent: cannot be read: "), "{missing:?}");
    for wrong in [
        &["explain", "node", "p", "--cluster", "cluster"][..],
        &["explain", "pod"],
        &["explain", "pod", "p", "--cluster", "cluster", "--context", "c"],
        &["explain", "pod", "p", "--cluster", "cluster", "-o", "html"],
    ] {
        assert_eq!(run(cluster.folder(), wrong).code, Some(2), "{wrong:?}");
    }
}

/// Runs a command with limited memory, in KiB.
fn run_within(kib: u32, cluster: &Cluster, args: &[&str]) -> Ran {
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", &format!("ulimit -v {kib} && exec \"$0\" \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_supercargo"));
    Ran::of(command.args(args).current_dir(cluster.folder()).output().expect("the shell runs"))
}

/// A pod on a node as an API server returns it, with fields that scheduling never reads.
fn chatty(at: usize) -> serde_json::Value {
    let mut chatty = pod(&format!("p{at}"), "1m", &json!({ "nodeName": format!("n{}", at / 10) }));
    let fields: serde_json::Map<_, _> =
        (0..60).map(|field| (format!("f:{field}"), json!({ "f:x": {} }))).collect();
    chatty["metadata"]["managedFields"] = json!([{ "manager": "kubelet", "fieldsV1": fields }]);
    let env: Vec<_> =
        (0..20).map(|at| json!({ "name": format!("E{at}"), "value": "v".repeat(40) })).collect();
    chatty["spec"]["containers"][0]["env"] = json!(env);
    chatty
}

#[test]
fn large_dump_needs_little_memory_beyond_its_kept_fields() {
    let mut objects: Vec<_> = (0..600).map(|at| plain_node(&format!("n{at}"))).collect();
    objects.extend((0..6_000).map(chatty));
    objects.push(pod("waits", "99", &json!({})));
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    let json = serde_json::to_string_pretty(&list).expect("the text is valid JSON");
    let yaml = serde_saphyr::to_string(&list).expect("the list serializes to YAML");
    for text in [json, yaml] {
        assert!(text.len() > 16 << 20, "{}", text.len());
        let cluster = Cluster::written(&text);
        // Parsing the whole YAML at once takes 16 times its size.
        let ran = run_within(220_000, &cluster, &["explain", "pod", "waits", "--cluster", "cluster"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(3), ""), "{}", ran.stdout);
        let limit = ["explain", "pod", "waits", "--cluster", "cluster", "--input-limit", "16Mi"];
        let error = run(cluster.folder(), &limit).refused().to_owned();
        assert_eq!(error, "cluster: is larger than the limit of 16 MiB; raise the limit with --input-limit");
    }
}

#[test]
fn pod_name_accepts_a_kind_prefix() {
    let cluster = Cluster::of(&[plain_node("a"), pod("p", "1", &json!({}))]);
    let ask = |args: &[&str]| run(cluster.folder(), &[args, &["--cluster", "cluster"]].concat());
    for args in
        [&["explain", "pod", "p"][..], &["explain", "pod/p"], &["explain", "po/p"], &["explain", "pods", "p"]]
    {
        assert_eq!(ask(args).code, Some(0), "{args:?}");
    }
    for args in
        [&["explain", "pod"][..], &["explain", "pod/p", "p"], &["explain", "pod/"], &["explain", "node/a"]]
    {
        let ran = ask(args);
        assert_eq!(ran.code, Some(2), "{args:?}");
        assert!(ran.stderr.contains("pod/NAME"), "{args:?}: {ran:?}");
    }
    for node in ["a", "node/a", "nodes/a"] {
        assert_eq!(ask(&["drain-check", node]).code, Some(0), "{node}");
    }
    assert_eq!(ask(&["drain-check", "pod/a"]).code, Some(2));
}
