//! Recordings: replays are byte-identical, and differences are reported with their line.

#[allow(dead_code, reason = "other tests use the rest of it")]
mod offline;
#[path = "replay/run.rs"]
mod run;

use offline::{Ran, assert_matches_file, page, root};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use supercargo_whatif::recording::replay::Replay;

/// Returns a scratch folder of this test binary, emptied at the start.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("replay");
        // The folder may not exist.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("the folder of tests can be written");
        folder
    })
}

/// A short recording, created once.
fn short() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let file = folder().join("short.jsonl");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
        let run = runtime.block_on(run::recorded(&file, 12, 300));
        assert!(run.bound > 100, "{}", run.bound);
        fs::read_to_string(&file).expect("it was written")
    })
}

fn replay(args: &[&str], input: &str) -> Ran {
    offline::run_with_input(root(), &[&["replay", "-"], args].concat(), input)
}

#[tokio::test(flavor = "multi_thread")]
async fn replay_of_ten_thousand_decisions_is_identical() {
    let file = folder().join("long.jsonl");
    let run = run::recorded(&file, 9, 10_500).await;
    assert!(
        run.refused > 30 && run.asked_about > 30 && run.evicted > 30,
        "{} {} {}",
        run.refused,
        run.asked_about,
        run.evicted
    );
    assert_eq!(run.shown["kind"], "DecisionList");
    assert_eq!(run.shown["decisions"].as_array().map(Vec::len), Some(100));

    let recording = fs::read_to_string(&file).expect("it was written");
    assert!(!recording.contains("not-to-be-recorded"));
    let summary = Replay::open(recording.as_bytes()).expect("it is a recording").run(|_, _| {});
    let summary = summary.expect("every line can be read");
    assert_eq!(summary.divergence, None);
    assert_eq!(summary.ends.as_deref(), Some("stopped"));
    assert!(summary.decisions >= 10_000, "{summary:?}");
    assert!(summary.placed < summary.decisions, "some pods find no node: {summary:?}");
    println!("{summary:?}, {} bytes", recording.len());
    // The decisions shown by the server are among the recorded ones.
    let last = run.shown["decisions"][99].to_string();
    let found = recording.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    assert!(found.map(|it| it["decided"].to_string()).any(|decided| decided == last), "{last}");
}

#[test]
fn replay_of_an_unchanged_recording_is_identical() {
    let output = replay(&[], short());
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(output.stdout.contains("all decisions equal the recording, byte for byte"), "{}", output.stdout);
    assert_eq!(output.stderr, "");
}

/// Returns the recording with one line changed, and that line's number.
fn changed(of: impl Fn(&Value) -> bool, change: impl Fn(&mut Value)) -> (String, usize) {
    let mut lines: Vec<String> = short().lines().map(str::to_owned).collect();
    let json = |line: &String| serde_json::from_str::<Value>(line).expect("it is JSON");
    let at = lines.iter().position(|line| of(&json(line))).expect("there is such a line");
    let mut line = json(&lines[at]);
    change(&mut line);
    lines[at] = line.to_string();
    (lines.join("\n") + "\n", at + 1)
}

#[test]
fn first_difference_is_reported_with_its_line() {
    // Give the first pod's node no capacity in the list.
    let first =
        short().lines().position(|line| line.contains("\"result\":\"placed\"")).expect("one was placed");
    let decided: Value =
        serde_json::from_str(short().lines().nth(first).expect("it is there")).expect("it is JSON");
    let node = decided["decided"]["node"].clone();
    let is_node =
        |line: &Value| line["applied"]["kind"] == "Node" && line["applied"]["metadata"]["name"] == node;
    let (input, _) = changed(is_node, |line| line["applied"]["status"]["allocatable"]["cpu"] = "1m".into());
    let output = replay(&["-o", "json"], &input);
    assert_eq!(output.code, Some(3), "{}", output.stderr);
    let report = output.json("ReplayReport");
    assert_eq!(report["kind"], "ReplayReport");
    assert_eq!(report["identical"], false);
    assert_eq!(report["divergence"]["line"], first + 1);
    assert_eq!(report["divergence"]["then"], decided["decided"]);
    assert_ne!(report["divergence"]["now"]["node"], node);

    let output = replay(&[], &input);
    let heading = format!("first difference at line {}; later lines are not compared", first + 1);
    assert!(output.stdout.contains(&heading), "{}", output.stdout);
    assert!(output.stdout.contains("  then  default/p"), "{}", output.stdout);
}

#[test]
fn unrecorded_decision_is_a_difference() {
    let placed = |line: &&str| line.contains("\"result\":\"placed\"");
    let at = short().lines().position(|line| placed(&line)).expect("one was placed");
    let lines = short().lines().enumerate().filter(|(number, _)| *number != at);
    let input: String = lines.map(|(_, line)| format!("{line}\n")).collect();
    let output = replay(&["-o", "json"], &input);
    assert_eq!(output.code, Some(3));
    let report = output.json("ReplayReport");
    assert_eq!(report["divergence"]["line"], at + 1);
}

#[test]
fn other_configuration_is_compared_for_each_decision() {
    let config = folder().join("least.yaml");
    let text_of = |profile: &str| {
        format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: supercargo\n{profile}"
        )
    };
    fs::write(&config, text_of("")).expect("it can be written");
    let path = config.to_str().expect("it is text");
    let output = replay(&["--config", path, "-o", "json"], short());
    let report = output.json("ReplayReport");
    assert_eq!(output.code, Some(0), "the same rules decide the same: {report}");
    assert_eq!(report["compared"]["asked"], report["compared"]["same"]);
    assert!(report["compared"]["asked"].as_u64() >= Some(250), "{report}");

    let most = "  pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}\n";
    fs::write(&config, text_of(most)).expect("it can be written");
    let output = replay(&["--config", path, "--diff", "-o", "json"], short());
    let report = output.json("ReplayReport");
    assert_eq!(output.code, Some(3));
    assert_eq!(report["identical"], true, "what is recorded is decided again all the same");
    let compared = &report["compared"];
    assert!(compared["elsewhere"].as_u64() > Some(20), "{compared}");
    let differences = compared["differences"].as_array().expect("it is a list");
    assert_eq!(
        differences.len() as u64,
        compared["asked"].as_u64().unwrap() - compared["same"].as_u64().unwrap()
    );
    for it in differences.iter().filter(|it| it["ahead"].as_i64() > Some(0)) {
        let sum: i64 =
            it["plugins"].as_array().unwrap().iter().map(|lead| lead["weighted"].as_i64().unwrap()).sum();
        assert_eq!(Some(sum), it["ahead"].as_i64(), "{it}");
        assert_ne!(it["then"], it["now"]);
    }
    let output = replay(&["--config", path, "--diff"], short());
    assert!(output.stdout.contains("NodeResourcesFit +"), "{}", output.stdout);
}

/// Compares a recording with another configuration, whose profile has these lines.
fn compared_by(input: &str, name: &str, profile: &str) -> (Option<i32>, Value) {
    let config = folder().join(name);
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: supercargo\n";
    fs::write(&config, format!("{head}{profile}")).expect("it can be written");
    let output = replay(&["--config", config.to_str().expect("it is text"), "--diff", "-o", "json"], input);
    (output.code, output.json("ReplayReport")["compared"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn victims_of_both_configurations_are_compared() {
    // With few nodes, high-priority pods must preempt others.
    let file = folder().join("crowded.jsonl");
    run::recorded(&file, 6, 4_000).await;
    let crowded = fs::read_to_string(&file).expect("it was written");
    let recorded: Vec<Value> = crowded
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("it is JSON")["decided"].take())
        .filter(|decided| !decided["preemption"]["nominated"].is_null())
        .collect();
    assert!(recorded.len() > 50, "{} pods preempted others", recorded.len());
    let (code, same) = compared_by(&crowded, "the-same.yaml", "");
    assert_eq!((code, &same["asked"]), (Some(0), &same["same"]));

    let (code, compared) = compared_by(
        &crowded,
        "no-victims.yaml",
        "  plugins:\n    postFilter:\n      disabled: [{name: DefaultPreemption}]\n",
    );
    assert_eq!(code, Some(3));
    let differences = compared["differences"].as_array().expect("it is a list");
    assert_eq!(
        (compared["otherVictims"].as_u64(), differences.len()),
        (Some(recorded.len() as u64), recorded.len())
    );
    for (it, decided) in differences.iter().zip(&recorded) {
        let nominated = &decided["preemption"]["nominated"];
        assert_eq!((&it["name"], &it["attempt"]), (&decided["pod"]["name"], &decided["attempt"]));
        assert_eq!(it["preemptedThen"]["victims"], nominated["victims"]);
        assert_eq!(it["preemptedThen"]["node"], nominated["node"]);
        assert!(it["preemptedNow"].is_null() && it["then"].is_null() && it["now"].is_null(), "{it}");
        let why = it["why"].as_str().expect("it is text");
        assert!(why.starts_with("preempted default/p") && why.ends_with(", would preempt no pods"), "{why}");
    }

    // A scheduler that evaluates a single node takes the first feasible one.
    let (code, compared) = compared_by(
        &crowded,
        "first-goes.yaml",
        "  pluginConfig:\n  - name: DefaultPreemption\n    args: {minCandidateNodesPercentage: 1, minCandidateNodesAbsolute: 1}\n",
    );
    assert_eq!(code, Some(3));
    let differences = compared["differences"].as_array().expect("it is a list");
    assert!(!differences.is_empty(), "{compared}");
    assert_eq!(compared["otherVictims"].as_u64(), Some(differences.len() as u64));
    for it in differences {
        assert!(it["preemptedNow"]["victims"].as_array().is_some_and(|victims| !victims.is_empty()), "{it}");
        assert_ne!(it["preemptedThen"], it["preemptedNow"]);
    }
}

/// Returns exit code and error output for an invalid input.
fn refused(input: &str) -> (Option<i32>, String) {
    let output = replay(&[], input);
    (output.code, output.stderr)
}

#[test]
fn invalid_recording_is_rejected_with_a_message() {
    let said = |input: &str, words: &str| {
        let (code, error) = refused(input);
        assert_eq!(code, Some(2), "{error}");
        assert!(error.starts_with(&format!("error: standard input: {words}")), "{error}");
    };
    said("", "the file is empty; expected the first line of a recording");
    said("\u{0}garbage\n", "line 1: not a recording of supercargo: expected value at line 1 column 1");
    let other = short().replacen("supercargo.dev/v1alpha1", "supercargo.dev/v7", 1);
    said(
        &other,
        "line 1: Recording of supercargo.dev/v7 is not supported by this version of supercargo; expected supercargo.dev/v1alpha1",
    );
    let (head, rest) = short().split_once('\n').expect("it has lines");
    said(&format!("{head}\nnonsense\n{rest}"), "line 2: expected ident at column 2");
    let object = r#"{"at":1,"applied":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}}"#;
    said(&format!("{head}\n{object}\n"), "line 2: v1 Secret a is of an unsupported kind");
    let output = offline::run(root(), &["replay", "no-such-file"]);
    assert_eq!(output.code, Some(2));
    assert_eq!(
        output.stderr,
        "error: no-such-file: No such file or directory (os error 2); give a file of --record-to or \
         `supercargo record`\n"
    );
}

#[test]
fn extra_decision_at_the_end_is_a_difference() {
    let recording = page("docs/record/recording.jsonl");
    let mut lines: Vec<&str> = recording.lines().collect();
    let last = lines.iter().rposition(|line| line.starts_with("{\"decided\"")).expect("it decides");
    let decision = lines.remove(last);
    assert_eq!(lines.len() - last, 1, "the end alone comes after it");
    let output = replay(&["-o", "json"], &(lines.join("\n") + "\n"));
    assert_eq!(output.code, Some(3), "{}", output.stderr);
    let report = output.json("ReplayReport");
    let now = serde_json::from_str::<Value>(decision).expect("it is JSON")["decided"].clone();
    assert_eq!((&report["identical"], &report["divergence"]["now"]), (&Value::Bool(false), &now));
    assert!(report["divergence"]["then"].is_null());
    // After the truncation, decisions may have been made but not written.
    lines.pop();
    assert_eq!(replay(&[], &(lines.join("\n") + "\n")).code, Some(0));
}

#[test]
fn truncated_recording_is_replayed_up_to_the_last_complete_line() {
    let whole = short();
    let cut = &whole[..whole.len() - 3 - whole.lines().last().expect("it has lines").len() / 2];
    let output = replay(&[], cut);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let warning = &output.stderr;
    assert!(
        warning.starts_with("the recording breaks off after ")
            && warning.contains("the complete lines are used"),
        "{warning}"
    );
    assert!(output.stdout.contains("all decisions equal the recording, byte for byte"));
}

/// A line of 200 MB, generated while it is read.
#[test]
fn endless_line_is_rejected_without_using_memory() {
    let head = short().lines().next().expect("it has lines");
    let script = format!(
        "ulimit -v 1500000; {{ printf '%s\\n' \"$HEAD\"; head -c 200000000 /dev/zero | tr '\\0' 'x'; }} | {} replay -",
        env!("CARGO_BIN_EXE_supercargo")
    );
    let output = Command::new("bash").args(["-c", &script]).env("HEAD", head).output();
    let output = Ran::of(output.expect("a shell runs"));
    assert_eq!(output.code, Some(2), "{}", output.stderr);
    assert_eq!(output.stderr, "error: standard input: line 2: longer than 16 MiB, the limit for a line\n");
}

/// Compares with `replay/shown/NAME`; `UPDATE_EXPECT=1` writes the file.
fn is_shown(name: &str, output: &str) {
    assert_matches_file(&format!("tests/replay/shown/{name}"), output);
}

#[test]
fn replay_prints_every_output_format() {
    for form in ["table", "wide", "json", "yaml"] {
        let args =
            ["replay", "docs/record/recording.jsonl", "--config", "docs/record/packing.yaml", "-o", form];
        let output = offline::run(root(), &args);
        assert_eq!(output.code, Some(3), "{form}");
        is_shown(&format!("packing.{form}.txt"), &output.stdout);
    }
    // A recording in which the unschedulable pod is placed.
    let recording = page("docs/record/recording.jsonl");
    let changed = recording.replacen("\"result\":\"unschedulable\"", "\"result\":\"placed\"", 1);
    for (name, args) in [("short", &[][..]), ("diff", &["--diff"][..]), ("json", &["-o", "json"][..])] {
        let output = replay(args, &changed);
        assert_eq!((output.code, output.stderr.as_str()), (Some(3), ""), "{name}");
        is_shown(&format!("diverges.{name}.txt"), &output.stdout);
    }
}

#[test]
fn failed_recording_reports_the_error_and_creates_no_file() {
    let file = folder().join("never.jsonl");
    let kubeconfig = folder().join("kubeconfig");
    let kubeconfig_text = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n\
                  clusters: [{name: a, cluster: {server: \"http://127.0.0.1:1\"}}]\nusers: [{name: a, user: {}}]\n";
    fs::write(&kubeconfig, kubeconfig_text).expect("it can be written");
    let ran = |kubeconfig: &Path, args: &[&str]| {
        let mut command = offline::command(root(), &["record"]);
        let output = command.arg(&file).arg("--kubeconfig").arg(kubeconfig).args(args).output();
        let output = Ran::of(output.expect("it runs"));
        (output.code, output.stderr)
    };
    let (code, error) = ran(&kubeconfig, &[]);
    assert_eq!(code, Some(1), "{error}");
    assert!(error.starts_with("error: http://127.0.0.1:1/ does not answer: "), "{error}");
    let (code, error) = ran(Path::new("no-such-file"), &[]);
    assert_eq!(code, Some(2), "{error}");
    assert!(
        error.starts_with("error: cannot read the kubeconfig no-such-file: ") && !error.contains("--cluster"),
        "{error}"
    );
    let (code, error) = ran(&kubeconfig, &["--config", "no-such-file"]);
    assert_eq!(
        (code, error.as_str()),
        (Some(2), "error: cannot read no-such-file: No such file or directory (os error 2)\n")
    );
    assert!(!file.exists());
}

/// The recording in docs/record.md. With `UPDATE_EXPECT=1` it is created if missing; a new one has new times.
#[test]
fn documented_recording_replays_identically() {
    let file = root().join("docs/record/recording.jsonl");
    if !file.exists() && std::env::var_os("UPDATE_EXPECT").is_some() {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
        let made = folder().join("documentation.jsonl");
        runtime.block_on(run::recorded(&made, 4, 14));
        fs::copy(&made, &file).expect("it can be written");
    }
    let recording = fs::read_to_string(&file).expect("it is there");
    let summary = Replay::open(recording.as_bytes()).expect("it is a recording").run(|_, _| {});
    assert_eq!(summary.expect("every line can be read").divergence, None);
}
