//! Configurations of forks: each is in effect for its own fork only, is undone like other changes, and is refused as a
//! whole if it is invalid.

use super::*;
use crate::cluster::tests::storage;

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

/// A configuration that prefers full nodes, as YAML.
fn packing() -> String {
    let strategy = "scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}";
    format!("{HEAD}profiles:\n- pluginConfig:\n  - name: NodeResourcesFit\n    args: {{{strategy}}}\n")
}

/// A configuration as an object, with these profiles.
fn object(profiles: &Value) -> Value {
    let version = "kubescheduler.config.k8s.io/v1";
    json!({ "apiVersion": version, "kind": "KubeSchedulerConfiguration", "profiles": profiles })
}

fn any_config(random: &mut Random) -> Value {
    match random.below(4) {
        0 => packing().into(),
        1 => object(&json!([{ "plugins": { "score": { "disabled": [{ "name": "*" }] } } }])),
        2 => object(&json!([
            { "schedulerName": "other" },
            { "plugins": { "multiPoint": { "disabled": [{ "name": "PodTopologySpread" }, { "name": "NodePorts" }] } } },
        ])),
        _ => object(&json!([])),
    }
}

/// Two empty nodes: the default configuration prefers `large`, and [`packing`] prefers `small`.
fn small_and_large() -> Vec<Value> {
    let of = |(name, cpu): (&str, &str)| {
        let mut node = node(name, &mut Random(1));
        node["status"]["allocatable"]["cpu"] = cpu.into();
        (node["spec"], node["status"]["images"]) = (json!({}), json!([]));
        node
    };
    [("large", "8"), ("small", "2")].map(of).to_vec()
}

/// Returns the node where a pod with this label key would go.
fn chosen(desk: &mut Desk, path: &str, label: &str) -> Value {
    let mut probe = plain("probe");
    probe["metadata"]["labels"] = json!({ label: "x" });
    desk.done("ann", &format!("{path}/fits"), &json!({ "objects": [probe] }))["placements"][0]["node"].clone()
}

/// Returns the paths of a snapshot of these objects, and of forks of it.
fn forks(desk: &mut Desk, objects: &[Value], count: usize) -> (String, Vec<String>) {
    let snapshot = desk.id("ann", "snapshots", &list(objects));
    let fork = |desk: &mut Desk| format!("forks/{}", desk.id("ann", "forks", &json!({ "of": snapshot })));
    let forks = (0..count).map(|_| fork(desk)).collect();
    (format!("snapshots/{snapshot}"), forks)
}

#[test]
fn configuration_is_in_effect_for_its_fork_only_until_undone() {
    let mut desk = Desk::new(Limits::default(), None);
    let (snapshot, own) = forks(&mut desk, &small_and_large(), 2);
    let (packed, other) = (&own[0], &own[1]);
    let set = |desk: &mut Desk, config: Value| {
        desk.done("ann", &format!("{packed}/setConfig"), &json!({ "config": config }))
    };
    assert_eq!(set(&mut desk, packing().into()), json!({ "profiles": ["default-scheduler"] }));
    let copy =
        format!("forks/{}", desk.id("ann", "forks", &json!({ "of": packed.trim_start_matches("forks/") })));
    for _ in 0..2 {
        for (path, node) in [(packed, "small"), (other, "large"), (&copy, "small"), (&snapshot, "large")] {
            assert_eq!(chosen(&mut desk, path, "app"), node, "{path}");
        }
    }
    assert_eq!(desk.get("ann", packed).1["changes"], 1);
    assert_eq!(desk.get("ann", &format!("{packed}/diff")).1["isReconfigured"], true);
    assert_eq!(desk.get("ann", &format!("{other}/diff")).1["isReconfigured"], false);
    // A later configuration replaces the earlier one as a whole, and a placed pod stays.
    desk.done("ann", &format!("{packed}/place"), &json!({ "objects": [plain("p")] }));
    let two = object(&json!([{ "schedulerName": "b" }, { "schedulerName": "a" }]));
    assert_eq!(set(&mut desk, two), json!({ "profiles": ["b", "a"] }));
    assert_eq!(chosen(&mut desk, packed, "app"), "large");
    let diff = desk.get("ann", &format!("{packed}/diff")).1;
    assert_eq!(diff["pods"]["default/p"]["to"]["node"], "small");
    desk.done("ann", &format!("{packed}/undo"), &json!({ "changes": 2 }));
    assert_eq!(chosen(&mut desk, packed, "app"), "small", "the first configuration is in effect again");
    assert_eq!(desk.done("ann", &format!("{packed}/undo"), &json!({}))["changes"], 0);
    assert_eq!(chosen(&mut desk, packed, "app"), "large");
    assert_eq!(desk.get("ann", &format!("{packed}/diff")).1["isReconfigured"], false);
    assert_eq!(chosen(&mut desk, &copy, "app"), "small", "the copy keeps its changes");
}

#[test]
fn interleaved_forks_with_and_without_configuration_equal_two_clusters() {
    let mut differing = 0;
    for run in 0..8 {
        let mut random = Random(run);
        let mut objects = storage();
        objects.extend(nodes(3, &mut random));
        let mut desk = Desk::new(Limits::default(), None);
        let (snapshot, own) = forks(&mut desk, &objects, 2);
        let mut real =
            [(), ()].map(|()| Cluster::from_objects(objects.clone(), &setup()).expect("they are valid"));
        let of = |at: usize| own[at].trim_start_matches("forks/");
        for number in 0..12 {
            let at = random.below(2);
            // In half of the runs it is the first change of all.
            if number == 4 * (run as usize % 2) {
                desk.done("ann", &format!("{}/setConfig", own[0]), &json!({ "config": packing() }));
                real[0].set_config_text("config", &packing()).expect("it is valid");
            }
            change(&mut desk, of(at), &mut real[at], number, &mut random);
            if number % 3 == 0 {
                compare(&mut desk, of(1 - at), &mut real[1 - at]);
                compare(&mut desk, of(at), &mut real[at]);
            }
        }
        let ids = |desk: &mut Desk| {
            let user = User { name: "ann".to_owned(), uid: "uid of ann".to_owned() };
            let id = snapshot.trim_start_matches("snapshots/");
            let upload = desk.service.sessions.snapshot(&user, id).expect("it exists");
            upload.base.as_ref().map(|base| base.cluster.ids()).expect("no question is asked")
        };
        // Without its configuration, the first fork would give other answers.
        let mut random = Random(9);
        let probes: Vec<Value> = (0..4).map(|at| pod(&format!("f{at}"), &mut random)).collect();
        let packed = real[0].fits(&probes).expect("they are valid");
        real[0].fork();
        real[0].set_config(None).expect("the defaults are valid");
        differing += usize::from(real[0].fits(&probes).expect("they are valid") != packed);
        real[0].undo().expect("a transaction is open");
        let mut after = Vec::new();
        for at in [0, 1, 0, 1] {
            compare(&mut desk, of(at), &mut real[at]);
            after.push(ids(&mut desk));
        }
        assert_eq!(after[3], after[1], "a configuration that is set again leaves nothing behind");
    }
    assert!(differing > 2, "{differing}");
}

/// A fork, and the changes that it has, each as it was sent.
struct Expected {
    path: String,
    changes: Vec<(&'static str, Value)>,
}

/// Returns a random change. It may name a pod or node that is not there.
fn any_change(number: usize, random: &mut Random) -> (&'static str, Value) {
    match random.below(8) {
        0 | 1 => ("setConfig", json!({ "config": any_config(random) })),
        2 => {
            let pods = ["a", "b"].map(|suffix| pod(&format!("p{number}{suffix}"), random));
            ("place", json!({ "objects": pods }))
        }
        3 => ("place", json!({ "template": pod(&format!("c{number}"), random), "count": 3 })),
        4 => ("place", json!({ "pending": true })),
        5 => ("evict", json!({ "pods": [format!("default/p{}a", random.below(number + 1))] })),
        6 => ("addNodes", json!({ "like": format!("n{}", random.below(3)), "count": 1 })),
        _ => ("removeNodes", json!({ "nodes": [format!("n{}", random.below(3))] })),
    }
}

/// Returns answers about a snapshot or fork.
fn answers(desk: &mut Desk, path: &str) -> Vec<Value> {
    let mut random = Random(7);
    let objects: Vec<Value> = (0..5).map(|at| pod(&format!("f{at}"), &mut random)).collect();
    let questions = [
        ("fits", json!({ "objects": objects })),
        ("feasible", json!({ "objects": objects[..1] })),
        ("explain", json!({ "objects": objects[1..2] })),
        ("plan/freeNodes", json!({ "count": 1 })),
    ];
    questions.iter().map(|(question, body)| desk.done("ann", &format!("{path}/{question}"), body)).collect()
}

/// Checks that a fork is as one with its changes in a snapshot that was uploaded just now.
fn equals_fresh(desk: &mut Desk, of: &Expected, objects: &[Value]) {
    let mut fresh = Desk::new(Limits::default(), None);
    let (_, own) = forks(&mut fresh, objects, 1);
    for (change, body) in &of.changes {
        fresh.done("ann", &format!("{}/{change}", own[0]), body);
    }
    assert_eq!(answers(desk, &of.path), answers(&mut fresh, &own[0]), "{:?}", of.changes);
    let diff = |desk: &mut Desk, path: &str| desk.get("ann", &format!("{path}/diff"));
    assert_eq!(diff(desk, &of.path), diff(&mut fresh, &own[0]), "{:?}", of.changes);
}

#[test]
fn forks_undone_in_random_order_equal_fresh_ones_with_the_remaining_changes() {
    let (mut configured, mut compared) = (0, 0);
    for run in 0..10 {
        let mut random = Random(100 + run);
        let mut objects = storage();
        objects.extend(nodes(3, &mut random));
        let mut desk = Desk::new(Limits::default(), None);
        let (snapshot, own) = forks(&mut desk, &objects, 3);
        let before = answers(&mut desk, &snapshot);
        let mut own: Vec<Expected> =
            own.into_iter().map(|path| Expected { path, changes: Vec::new() }).collect();
        let undo = |desk: &mut Desk, of: &mut Expected, random: &mut Random| {
            let count = 1 + random.below(of.changes.len());
            of.changes.truncate(of.changes.len() - count);
            let left = desk.done("ann", &format!("{}/undo", of.path), &json!({ "changes": count }));
            assert_eq!(left["changes"], json!(of.changes.len()));
        };
        for number in 0..24 {
            let of = &mut own[random.below(3)];
            if random.below(5) == 0 && !of.changes.is_empty() {
                undo(&mut desk, of, &mut random);
                continue;
            }
            let (name, body) = any_change(number, &mut random);
            let (status, answer) = desk.post("ann", &format!("{}/{name}", of.path), &body);
            assert!(matches!(status, 200 | 400), "{name} {body}: {status} {answer}");
            if status == 200 {
                configured += usize::from(name == "setConfig");
                of.changes.push((name, body));
            }
        }
        own.iter().for_each(|of| equals_fresh(&mut desk, of, &objects));
        while own.iter().any(|of| !of.changes.is_empty()) {
            let of = &mut own[random.below(3)];
            if !of.changes.is_empty() {
                undo(&mut desk, of, &mut random);
                equals_fresh(&mut desk, of, &objects);
                compared += 1;
            }
        }
        own.iter().for_each(|of| equals_fresh(&mut desk, of, &objects));
        assert_eq!(answers(&mut desk, &snapshot), before, "run {run}");
    }
    assert!(configured > 30 && compared > 40, "{configured} configurations, {compared} compared");
}

#[test]
fn configuration_outlives_the_live_cluster_that_is_built_again() {
    let (store, live) = live(&small_and_large());
    let mut desk = Desk::new(Limits { ids: 60, ..Limits::default() }, Some(live));
    let fork = format!("forks/{}", desk.id("ann", "forks", &json!({ "of": "live" })));
    desk.done("ann", &format!("{fork}/setConfig"), &json!({ "config": packing() }));
    // Each question has a new label key, so that the cluster is built again several times.
    let mut ids = Vec::new();
    for at in 0..120 {
        assert_eq!(chosen(&mut desk, &fork, &format!("key-{at}")), "small", "question {at}");
        let base = desk.service.live.as_ref().and_then(|of| of.base.as_ref()).expect("it was asked about");
        ids.push(base.cluster.ids());
    }
    assert!(ids.windows(2).filter(|pair| pair[1] < pair[0]).count() > 1, "{ids:?}");
    // As after a bug that lost the cluster.
    desk.service.live.iter_mut().for_each(|of| of.base = None);
    assert_eq!(chosen(&mut desk, &fork, "app"), "small");
    assert_eq!(chosen(&mut desk, "snapshots/live", "app"), "large");
    // The cluster changes below the fork.
    show(&store, &small_and_large()[1], true);
    assert_eq!(chosen(&mut desk, &fork, "app"), "large");
    show(&store, &small_and_large()[1], false);
    assert_eq!(chosen(&mut desk, &fork, "app"), "small");
}

#[test]
fn invalid_configuration_is_400_with_field_and_position_and_changes_nothing() {
    let mut desk = Desk::new(Limits::default(), None);
    let (_, own) = forks(&mut desk, &small_and_large(), 1);
    let path = format!("{}/setConfig", own[0]);
    let config = |text: &str| json!({ "config": format!("{HEAD}{text}") });
    let many: Vec<Value> = (0..33).map(|at| json!({ "schedulerName": format!("p{at}") })).collect();
    for (body, named) in [
        (config("profiles: 3\n"), &["config:3:11: profiles", "expected a list"][..]),
        (config("profiles:\n- plugin: {}\n"), &["config:4:3: profiles[0].plugin", "unknown field"]),
        (
            config("profiles:\n- plugins: {score: {enabled: [{name: Packing}]}}\n"),
            &["config:4:", "profiles[0].plugins.score.enabled[0]", "\"Packing\" does not exist"],
        ),
        (
            json!({ "config": packing().replace("MostAllocated", "Most") }),
            &["config:6:", "profiles[0].pluginConfig[0].args.scoringStrategy.type", "supported values: "],
        ),
        (json!({ "config": object(&json!([{ "plugin": {} }])) }), &["config:1:", "profiles[0].plugin"]),
        (json!({ "config": object(&json!(many)) }), &["config: profiles: expected at most 32, found 33"]),
        (
            json!({ "config": { "kind": "Pod", "apiVersion": "v1" } }),
            &["config:1:", "KubeSchedulerConfiguration"],
        ),
        (json!({ "config": "a: [" }), &["config:1:4: unclosed bracket"]),
        (json!({ "config": " \n" }), &["config: expected a KubeSchedulerConfiguration"]),
        (json!({ "config": null }), &["config: expected a KubeSchedulerConfiguration"]),
        (json!({ "config": [HEAD] }), &["config: expected a KubeSchedulerConfiguration"]),
        (json!({}), &["missing field `config`"]),
        (json!({ "config": packing(), "name": "x" }), &["unknown field `name`"]),
        (config("extenders: [{urlPrefix: http://x}]\n"), &["extenders: ", "remove the field"]),
        (config("a: &a {x: 1}\nb: {<<: [[*a]]}\n"), &["config:", "map merge requires map"]),
    ] {
        let (status, answer) = desk.post("ann", &path, &body);
        let message = answer["message"].as_str().unwrap_or_default();
        let is_named = named.iter().all(|name| message.contains(name));
        assert!(status == 400 && is_named, "{body}: {status} {message}");
    }
    assert_eq!(desk.get("ann", &own[0]).1["changes"], 0);
    assert_eq!(desk.get("ann", &format!("{}/diff", own[0])).1["isReconfigured"], false);
    assert_eq!(chosen(&mut desk, &own[0], "app"), "large");
}

#[test]
fn object_with_a_repeated_field_is_refused_with_its_position_as_sent() {
    let mut desk = Desk::new(Limits::default(), None);
    let (_, own) = forks(&mut desk, &small_and_large(), 1);
    let lines = [
        "{\"config\": {",
        "\t\"apiVersion\": \"kubescheduler.config.k8s.io/v1\",",
        "\t\"kind\": \"KubeSchedulerConfiguration\",",
        "\t\"parallelism\": 4,",
        "\t\"parallelism\": 8",
        "}}",
    ];
    let send = |desk: &mut Desk, lines: &[&str]| {
        desk.ask("ann", Method::Post, &format!("{}/setConfig", own[0]), &lines.join("\n"))
    };
    let (status, answer) = send(&mut desk, &lines);
    let text = "config:5:2: parallelism: strict decoding error: key \"parallelism\" already set in map";
    assert_eq!((status, &answer["message"]), (400, &json!(text)));
    let (status, answer) = send(&mut desk, &[&lines[..3], &lines[4..]].concat());
    assert_eq!((status, answer), (200, json!({ "profiles": ["default-scheduler"] })));
}

#[test]
fn configuration_counts_in_the_limits_of_its_fork() {
    let limits = Limits { changes: 3, fork_bytes: 1_000, config_bytes: 900, ..Limits::default() };
    let mut desk = Desk::new(limits, None);
    let (_, own) = forks(&mut desk, &small_and_large(), 2);
    let mut set = |fork: usize, text: String| {
        let (status, answer) =
            desk.post("ann", &format!("{}/setConfig", own[fork]), &json!({ "config": text }));
        (status, answer["message"].as_str().unwrap_or_default().to_owned())
    };
    let filled = |bytes: usize| format!("{HEAD}# {}\n", "x".repeat(bytes));
    let (status, why) = set(0, filled(900));
    assert!(status == 413 && why.contains("900 bytes"), "{status} {why}");
    for _ in 0..2 {
        assert_eq!(set(0, filled(300)).0, 200);
    }
    let (status, why) = set(0, filled(300));
    assert!(status == 429 && why.contains("1000 bytes"), "{status} {why}");
    for _ in 0..3 {
        assert_eq!(set(1, HEAD.to_owned()).0, 200);
    }
    let (status, why) = set(1, HEAD.to_owned());
    assert!(status == 429 && why.contains("3 changes"), "{status} {why}");
}

#[test]
fn configuration_that_aliases_multiply_is_413_without_being_expanded() {
    let mut desk = Desk::new(Limits::default(), None);
    let (_, own) = forks(&mut desk, &small_and_large(), 1);
    let repeat = |what: &str, times: usize| vec![what; times].join(", ");
    // 100 × 100 × 100 × 100 values in less than 3 kB.
    let mut terms = format!("- key: &l0 [{}]\n", repeat("x", 100));
    for level in 1..4 {
        terms += &format!("- key: &l{level} [{}]\n", repeat(&format!("*l{}", level - 1), 100));
    }
    let wide = format!("- &text {}\n- [{}]\n", "x".repeat(100_000), repeat("*text", 10_000));
    for text in [format!("{HEAD}profiles:\n{terms}"), format!("{HEAD}profiles:\n{wide}")] {
        let (status, answer) = desk.post("ann", &format!("{}/setConfig", own[0]), &json!({ "config": text }));
        assert_eq!((status, &answer["reason"]), (413, &json!("RequestEntityTooLarge")), "{answer}");
    }
    // Aliases as people use them are fine.
    let shared = format!(
        "{HEAD}profiles:\n- schedulerName: a\n  plugins: &same {{}}\n- {{schedulerName: b, plugins: *same}}\n"
    );
    let answer = desk.done("ann", &format!("{}/setConfig", own[0]), &json!({ "config": shared }));
    assert_eq!(answer, json!({ "profiles": ["a", "b"] }));
}

#[test]
fn late_configuration_is_504_and_not_applied() {
    let mut desk = Desk::new(Limits::default(), None);
    let (_, own) = forks(&mut desk, &small_and_large(), 1);
    desk.interrupt = Interrupt::new(|| true);
    let (status, _) = desk.post("ann", &format!("{}/setConfig", own[0]), &json!({ "config": packing() }));
    desk.interrupt = Interrupt::default();
    assert_eq!((status, desk.get("ann", &own[0]).1["changes"].clone()), (504, json!(0)));
    assert_eq!(chosen(&mut desk, &own[0], "app"), "large");
}

#[test]
fn documented_configuration_has_the_documented_effect() {
    let mut desk = Desk::new(Limits::default(), None);
    let cluster = include_str!("../../../../../docs/what-if/cluster.yaml");
    assert_eq!(desk.ask("ann", Method::Post, "snapshots", cluster).0, 201);
    assert_eq!(desk.id("ann", "forks", &json!({ "of": "upload-1" })), "fork-2");
    let shown: Vec<Value> = PAGE
        .split("```json")
        .skip(2)
        .filter_map(|rest| serde_json::from_str(rest.split("```").next().unwrap_or_default()).ok())
        .collect();
    let config = include_str!("../../../../../docs/whatif-server/config.json");
    let pod = include_str!("../../../../../docs/whatif-server/pod.json");
    let mut given = Vec::new();
    for (path, body) in
        [("snapshots/upload-1/fits", pod), ("forks/fork-2/setConfig", config), ("forks/fork-2/fits", pod)]
    {
        let (status, answer) = desk.ask("ann", Method::Post, path, body);
        assert_eq!(status, 200, "{path}: {answer}");
        given.push(answer);
    }
    assert_eq!(given, shown);
}
