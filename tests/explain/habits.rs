//! Rules for all commands: the same flags, output formats and exit codes, and plain text without a terminal.

use crate::support::{Cluster, node, plain_node, pod, root, run};
use clap::{Command, CommandFactory as _};
use serde_json::json;
use supercargo::args::Args;

/// Returns all executable commands with their full names.
fn commands() -> Vec<(String, Command)> {
    fn add(path: &str, command: &Command, all: &mut Vec<(String, Command)>) {
        for inner in command.get_subcommands() {
            let path = format!("{path}{}", inner.get_name());
            if inner.has_subcommands() {
                add(&format!("{path} "), inner, all);
            } else {
                all.push((path, inner.clone()));
            }
        }
    }
    let mut all = Vec::new();
    add("", &Args::command(), &mut all);
    all
}

#[test]
fn flags_have_the_same_meaning_in_every_command() {
    let shorts = [
        ('o', "output"),
        ('n', "namespace"),
        ('A', "all-namespaces"),
        ('l', "selector"),
        ('f', "file"),
        ('f', "filename"),
    ];
    for (name, command) in commands() {
        for flag in command.get_arguments() {
            let (short, long) = (flag.get_short(), flag.get_long().unwrap_or_default());
            if let Some((known, _)) = shorts.iter().find(|(_, known)| *known == long) {
                assert_eq!(short, Some(*known), "{name} --{long}");
            }
            if let Some(short) = short.filter(|short| shorts.iter().any(|(known, _)| known == short)) {
                // `-f` is an input file everywhere, also as --pods.
                let is_known = shorts.contains(&(short, long)) || (short, long) == ('f', "pods");
                assert!(is_known, "{name} -{short} is --{long}");
            }
        }
        let has = |long: &str| command.get_arguments().any(|flag| flag.get_long() == Some(long));
        if has("kubeconfig") {
            assert!(has("context") && has("request-timeout"), "{name}");
        }
        if has("all-namespaces") {
            assert!(has("namespace"), "{name}");
        }
    }
}

#[test]
fn answers_have_four_formats_and_help_lists_exit_codes() {
    // These print a file for another program (a recording, a page, a JUnit report), or a text with carets.
    // top draws a screen.
    let texts = ["config diff", "completion", "man", "record", "report", "test", "top", "whatif serve"];
    for (name, command) in commands() {
        let output = command.get_arguments().find(|flag| flag.get_long() == Some("output"));
        if texts.contains(&name.as_str()) {
            continue;
        }
        let Some(output) = output else { panic!("{name} has no --output") };
        let forms: Vec<String> =
            output.get_possible_values().iter().map(|form| form.get_name().to_owned()).collect();
        assert!(
            forms.starts_with(&["table", "wide", "json", "yaml"].map(str::to_owned)),
            "{name}: {forms:?}"
        );
        assert_eq!(output.get_default_values(), ["table"], "{name}");
        let about = command.get_long_about().map(ToString::to_string).unwrap_or_default();
        assert!(about.contains("Exit code: 0 "), "{name} does not tell its exit codes: {about}");
    }
}

#[test]
fn every_command_times_out_on_a_silent_cluster() {
    let cluster = Cluster::of(&[plain_node("a")]);
    // The listener accepts connections but never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let server = format!("http://{}", silent.local_addr().expect("the listener has an address"));
    let config = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": server } }],
        "users": [{ "name": "u", "user": {} }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }] });
    cluster.write("kubeconfig", &config.to_string());
    cluster.write("pod", &pod("p", "1", &json!({})).to_string());
    let asking = commands()
        .into_iter()
        .filter(|(_, it)| it.get_arguments().any(|flag| flag.get_long() == Some("kubeconfig")))
        // It shows errors on its screen, and goes on.
        .filter(|(name, _)| name != "top");
    let mut asked = 0;
    for (name, _) in asking {
        let mut args: Vec<&str> = name.split(' ').collect();
        args.extend(match name.as_str() {
            "explain" => &["pod", "p"][..],
            "why" => &["p"],
            "fit" => &["-f", "pod"],
            "drain-check" => &["a"],
            "plan free-nodes" => &["--all-possible"],
            "plan make-room" => &["-f", "pod"],
            "plan rebalance" => &["--max-requested", "80%"],
            "simulate" => &["--live", "--pods", "pod"],
            "record" => &["recording"],
            "whatif serve" => &["--bind-address", "127.0.0.1", "--secure-port", "0"],
            "report" => &["--to", "page.html"],
            "queue" | "doctor" | "lint" => &[],
            name => panic!("{name} reads a cluster, but this test has no arguments for it"),
        });
        args.extend(["--kubeconfig", "kubeconfig", "--request-timeout", "300ms"]);
        let ran = run(cluster.folder(), &args);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{name}: {ran:?}");
        assert!(ran.stderr.contains("not answer") && ran.stderr.contains("300ms"), "{name}: {ran:?}");
        asked += 1;
    }
    assert_eq!(asked, 14);
    for file in ["recording", "page.html"] {
        assert!(!cluster.folder().join(file).exists(), "{file} is of a cluster that said nothing");
    }
}

/// A name with characters that clear a screen, ring the bell and change the text direction.
const EVIL: &str = "p\u{1b}[2J\u{7}\u{202e}\u{9b}2J\u{7f}\u{85}";

/// A cluster with such names, and pods to schedule in it.
fn evil() -> Cluster {
    let mut busy = pod("busy", "1", &json!({ "nodeName": "a" }));
    busy["metadata"]["labels"] = json!({ "app\u{1b}[31m": EVIL });
    let cluster = Cluster::of(&[
        plain_node("a"),
        node("n\u{1b}]0;x\u{7}", &json!({ "disk\u{1b}[31m": "a\nb" }), &json!({})),
        busy,
        pod(EVIL, "9", &json!({ "nodeSelector": { "disk\u{1b}[31": "x" } })),
    ]);
    cluster.write("pods", &pod(EVIL, "1", &json!({ "nodeSelector": { "x\u{1b}[31": EVIL } })).to_string());
    let test = json!({ "apiVersion": "supercargo.dev/v1alpha1", "kind": "PlacementTest", "cluster": ["cluster"], "pods": ["pods"],
        "tests": [{ "name": EVIL, "pods": { "name": EVIL }, "expect": { "count": 9 } }] });
    // YAML needs such characters escaped.
    cluster.write("test", &test.to_string().replace('\u{7f}', "\\u007f").replace('\u{9b}', "\\u009b"));
    let report = std::fs::read_to_string(root().join("docs/queue/report.json")).expect("the entry exists");
    cluster.write("queue", &report.replace("a scheduling attempt", "a \\u001b[2J\\u202escheduling attempt"));
    let slice = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": "s" },
        "spec": { "driver": EVIL, "pool": { "name": EVIL }, "devices": [{ "name": EVIL }] } });
    cluster.write("slice", &slice.to_string());
    let shadow = json!({ "apiVersion": "supercargo.dev/v1alpha1", "kind": "ShadowReport", "shadowOf": EVIL, "since": "x", "decisions": { EVIL: 1 },
        "unjudged": {}, "dropped": 0, "disagreements": [] });
    cluster.write("shadow", &shadow.to_string());
    cluster
}

#[test]
fn every_command_escapes_control_characters_in_names() {
    let cluster = evil();
    for command in [
        &["explain", "pod", EVIL, "--cluster", "cluster"][..],
        &["explain", "pod", "busy", "--scores", "--cluster", "cluster"],
        &["explain", "pod", "q\u{1b}[2J", "--cluster", "cluster"],
        &["why", "deploy/q\u{1b}[2J", "--cluster", "cluster"],
        &["fit", "-f", "pods", "--cluster", "cluster"],
        &["drain-check", "a", "--cluster", "cluster"],
        &["drain-check", "a\u{1b}[2J", "--cluster", "cluster"],
        &["plan", "free-nodes", "--all-possible", "--cluster", "cluster"],
        &["plan", "free-nodes", "--nodes", "a\u{1b}[2J", "--cluster", "cluster"],
        &["plan", "make-room", "-f", "pods", "--cluster", "cluster"],
        &["plan", "rebalance", "--max-requested", "10%", "--cluster", "cluster"],
        &["simulate", "--cluster", "cluster", "--pods", "pods"],
        &["simulate", "--cluster", "no\u{1b}[2J", "--pods", "pods"],
        &["simulate", "--cluster", "cluster", "--add-nodes", "1:template=a", "--detail", "full"],
        &["lint", "--cluster", "cluster"],
        &["report", "--cluster", "cluster", "-f", "pods"],
        &["cel", "device.driver == '\u{1b}[2J\u{202e}'", "--slice", "slice"],
        &["test", "test"],
        &["queue", "-A", "-f", "queue"],
        &["queue", "-A", "-f", "no\u{1b}[2J"],
        &["shadow", "report", "-f", "shadow"],
        &["shadow", "report", "-f", "no\u{1b}[2J"],
    ] {
        let forms: &[&str] = match command[0] {
            "report" => &["html", "json"],
            "test" => &["table", "json", "junit"],
            _ => &["table", "wide", "json", "yaml"],
        };
        for &form in forms {
            let mut args = command.to_vec();
            args.extend(["-o", form]);
            let ran = run(cluster.folder(), &args);
            assert!(matches!(ran.code, Some(0 | 2 | 3 | 4)), "{ran:?}");
            // An error must not be about the flags.
            assert!(!ran.stderr.contains("Usage:"), "{ran:?}");
            let is_forbidden = |c: char| c.is_control() && c != '\n';
            assert!(!ran.stdout.contains(is_forbidden), "{args:?}: {:?}", ran.stdout);
            assert!(!ran.stderr.contains(is_forbidden), "{args:?}: {:?}", ran.stderr);
            if form != "yaml" {
                assert!(!ran.stdout.contains('\u{202e}'), "{args:?}: {:?}", ran.stdout);
            }
        }
    }
    for command in [&["config", "check", "no\u{1b}[2J"][..], &["config", "diff", "a\u{7}", "b"]] {
        let ran = run(cluster.folder(), command);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(!ran.stderr.contains(|c: char| c.is_control() && c != '\n'), "{ran:?}");
    }
}

#[test]
fn output_errors_are_reported_without_a_panic() {
    let cluster = evil();
    let profile = |name: &str| {
        format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{{schedulerName: {name}}}]\n"
        )
    };
    cluster.write("one", &profile("one"));
    let spec = json!({ "apiVersion": "supercargo.dev/v1alpha1", "kind": "PlacementTest", "cluster": ["cluster"], "pods": ["other"],
        "tests": [{ "name": "it", "pods": { "name": "other" }, "expect": { "count": 1 } }] });
    cluster.write("placement", &spec.to_string());
    cluster.write("other", &pod("other", "1", &json!({})).to_string());
    cluster.write("two", &profile("two"));
    let asked = [
        &["explain", "pod", EVIL, "--cluster", "cluster"][..],
        &["why", EVIL, "--cluster", "cluster"],
        &["fit", "-f", "other", "--cluster", "cluster"],
        &["drain-check", "a", "--cluster", "cluster"],
        &["plan", "free-nodes", "--all-possible", "--cluster", "cluster"],
        &["plan", "make-room", "-f", "other", "--cluster", "cluster"],
        &["plan", "rebalance", "--max-requested", "80%", "--cluster", "cluster"],
        &["simulate", "--cluster", "cluster", "--pods", "other"],
        &["simulate", "--cluster", "cluster", "--pods", "other", "-o", "json"],
        &["simulate", "--cluster", "cluster", "--add-nodes", "1:template=a"],
        &["lint", "--cluster", "cluster"],
        &["report", "--cluster", "cluster", "-f", "other"],
        &["cel", "true"],
        &["test", "placement"],
        &["queue", "-A", "-f", "queue"],
        &["shadow", "report", "-f", "shadow"],
        &["config", "diff", "one", "two"],
        &["config", "check", "one", "two"],
        &["completion", "bash"],
        &["man"],
        &["--help"],
        &["--version"],
    ];
    // These write to a file, print nothing, or need a cluster or a terminal.
    let elsewhere = ["record", "replay", "doctor", "top", "whatif serve"];
    for (name, _) in commands() {
        let is_asked = asked.iter().any(|args| args.join(" ").starts_with(&name));
        assert!(is_asked || elsewhere.contains(&name.as_str()), "{name} is not tried");
    }
    for args in asked {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full exists");
        let (reader, closed) = std::io::pipe().expect("the pipe is created");
        drop(reader);
        for (stdout, is_full) in [(std::process::Stdio::from(full), true), (closed.into(), false)] {
            let mut command = crate::offline::command(cluster.folder(), args);
            let out = command.stdout(stdout).output().expect("the program is built");
            let stderr = String::from_utf8_lossy(&out.stderr);
            assert_eq!(out.status.code(), Some(1), "{args:?}: {stderr}");
            assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
            let is_command = !args[0].starts_with("--");
            assert!(!is_full || !is_command || stderr.contains("cannot write"), "{args:?}: {stderr}");
        }
    }
}

#[test]
fn version_is_one_line_on_standard_output() {
    for args in [&["--version"][..], &["--version=true", "--v=2"]] {
        let ran = run(root(), args);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
        let version = ran.stdout.strip_suffix('\n').expect("a line");
        assert!(version.starts_with("supercargo ") && !version.contains('\n'), "{args:?}: {version:?}");
    }
}

#[test]
fn version_names_the_profile_of_the_build() {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_supercargo"));
    let profile = program.parent().and_then(|folder| folder.file_name()).expect("the folder has a name");
    let build = format!("{} build)", profile.to_string_lossy());
    let version = run(root(), &["--version"]).stdout;
    assert_eq!(version.trim_end().ends_with(&build), profile != "release", "{version}");
}

#[test]
fn help_of_the_program_is_printed_without_an_error() {
    for args in [&["--help"][..], &["-h"], &["simulate", "--help"]] {
        let ran = run(root(), args);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
        assert!(ran.stdout.contains("Usage: supercargo") && !ran.stdout.contains("error:"), "{args:?}");
    }
}

/// The page with the exit codes of all commands.
const EXIT_CODES: &str = "docs/exit-codes.md";

#[test]
fn table_of_exit_codes_is_that_of_the_help() {
    let mut page = "# Exit codes\n\n0 is a yes, 3 a no, 2 a mistake in flags or files, and 1 any other failure. \
                    `UPDATE_EXPECT=1 cargo test --test explain habits` writes this table from the help texts.\n\n\
                    | Command | Exit codes |\n|---|---|\n"
        .to_owned();
    for (name, command) in commands() {
        let about = command.get_long_about().map(ToString::to_string).unwrap_or_default();
        let codes = about.rsplit("Exit code: ").next().unwrap_or_default();
        if !about.contains("Exit code: ") {
            continue;
        }
        let codes: Vec<&str> = codes.trim_end_matches('.').split_whitespace().collect();
        page += &format!("| `supercargo {name}` | {} |\n", codes.join(" ").replace('|', "\\|"));
    }
    let path = root().join(EXIT_CODES);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).expect("the page exists");
    assert_eq!(written, page, "{EXIT_CODES} differs from the help; UPDATE_EXPECT=1 rewrites it");
}
