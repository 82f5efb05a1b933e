//! `supercargo queue` with a file or a port: complete outputs, and invalid input.

use crate::offline::{self, page};
use crate::shown::assert_output;
use crate::support::{Ran, root, run};
use serde_json::{Value, json};

fn queue(args: &[&str]) -> Ran {
    let mut all = vec!["queue", "-f", "docs/queue/report.json"];
    all.extend(args);
    run(root(), &all)
}

#[test]
fn queue_prints_every_output_format() {
    for form in ["table", "wide", "json", "yaml"] {
        let ran = queue(&["-A", "-o", form]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{form}");
        assert_output(&format!("queue.{form}.txt"), &ran.stdout);
    }
}

#[test]
fn queue_filters_by_namespace_and_labels_and_counts_the_rest() {
    let pods_and_counts = |args: &[&str]| {
        let mut all = args.to_vec();
        all.extend(["-o", "json"]);
        let ran = queue(&all);
        let report: Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        let pods: Vec<_> =
            report["pods"].as_array().expect("a list").iter().map(|pod| pod["name"].clone()).collect();
        (json!(pods), report["counts"].clone())
    };
    assert_eq!(pods_and_counts(&["-n", "ml"]), (json!(["trainer-7x2lp"]), json!({ "gated": 1 })));
    assert_eq!(
        pods_and_counts(&["-A", "-l", "app in (web,db)"]),
        (json!(["db-0", "web-7d4f-x1"]), json!({ "backoff": 1, "volumes": 1 }))
    );
    assert_eq!(pods_and_counts(&["-n", "nowhere"]), (json!([]), json!({})));
    assert_eq!(queue(&["-n", "nowhere"]).stdout, "no pending pods\n");
}

#[test]
fn filtering_a_truncated_report_counts_only_listed_pods() {
    let folder = offline::Folder::new();
    let mut report: Value =
        serde_json::from_str(&page("docs/queue/report.json")).expect("the text is valid JSON");
    report["leftOut"] = json!(7);
    report["counts"]["backoff"] = json!(8);
    folder.write("report", &report.to_string());
    let output = |more: &[&str]| folder.run(&[&["queue", "-f", "report"], more].concat()).stdout;
    assert!(output(&["-n", "ml"]).starts_with("1 gated\n"), "{}", output(&["-n", "ml"]));
    // Without a filter, the counts are unchanged.
    assert!(output(&["-A"]).contains("8 backoff"), "{}", output(&["-A"]));
    assert!(output(&["-A"]).contains("7 more, not listed"), "{}", output(&["-A"]));
}

#[test]
fn control_characters_in_names_are_escaped() {
    let folder = tempfile::tempdir().expect("the temporary directory is created");
    let report = std::fs::read_to_string(root().join("docs/queue/report.json")).expect("the entry exists");
    let evil = report
        .replace("a scheduling attempt", "a \\u001b[2J\\u202escheduling attempt")
        .replace("import-1", "import\\u0007\\n");
    std::fs::write(folder.path().join("report"), evil).expect("the file is written");
    for form in ["table", "wide", "json", "yaml"] {
        let ran = run(folder.path(), &["queue", "-A", "-f", "report", "-o", form]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let forbidden =
            |c: char| (c.is_control() && c != '\n') || (form != "json" && form != "yaml" && c == '\u{202e}');
        assert!(!ran.stdout.contains(forbidden), "{form}: {:?}", ran.stdout);
    }
}

#[test]
fn queue_rejects_invalid_flags_and_files() {
    for (args, expected) in [
        (&["queue", "-f", "README.md"][..], "README.md: not a QueueReport"),
        (&["queue", "-f", "no-such-file"], "cannot read no-such-file"),
        (&["queue", "-n", "a", "-A"], "cannot be used with"),
        (&["queue", "-l", "a b"], "is not a label selector"),
        (&["queue", "-f", "a", "--server", "https://localhost:1"], "cannot be used with"),
        (&["queue", "--insecure-skip-tls-verify"], "--server"),
        (&["queue", "--server", "10259"], "; write https://127.0.0.1:10259\n"),
        (&["queue", "--server", "127.0.0.1:10259"], "; write https://127.0.0.1:10259\n"),
        (&["top", "--server", "localhost"], "; write https://localhost:10259\n"),
        (&["shadow", "report", "--server", "localhost:1"], "; write https://localhost:1\n"),
        (&["queue", "-o", "html"], "possible values"),
        (&["queue", "--kubeconfig", "no-such-file"], "cannot read the kubeconfig no-such-file"),
        (&["queue", "--server", "https://127.0.0.1:1", "--token-file", "no-such-file"], "no-such-file"),
    ] {
        let ran = run(root(), args);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(expected), "{args:?}: {ran:?}");
    }
    let ran = run(root(), &["queue", "--server", "http://127.0.0.1:1"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.starts_with("error: cannot ask http://127.0.0.1:1/: "), "{ran:?}");
}

#[test]
fn names_are_printed_as_kubectl_does() {
    let ran = queue(&["-n", "shop", "-o", "name"]);
    assert_eq!(ran.stdout, "pod/cart-5b8d-9wq2m\npod/db-0\npod/web-7d4f-x1\n");
}

#[test]
fn pods_of_one_reason_are_one_row_except_in_the_wide_table() {
    let rows = |form: &str| {
        let ran = run(root(), &["queue", "-n", "shop", "-f", "docs/top/report.json", "-o", form]);
        ran.stdout.lines().filter(|line| line.contains("cart-5b8d")).count()
    };
    assert_eq!((rows("table"), rows("wide"), rows("name")), (1, 8, 8));
    let three = run(root(), &["queue", "-n", "batch", "-f", "docs/top/report.json"]);
    assert_eq!(three.stdout.matches("import-").count(), 4, "{}", three.stdout);
}

#[test]
fn one_pod_is_read_from_an_explanation() {
    let one =
        |args: &[&str]| run(root(), &[&["queue", "-f", "docs/queue/explanation.json"][..], args].concat());
    let ran = one(&["pod/cart-5b8d-9wq2m", "-o", "json"]);
    let written: Value = serde_json::from_str(&page("docs/queue/explanation.json")).expect("JSON");
    assert_eq!(ran.json("PendingExplanation"), written);
    assert_eq!(one(&["cart-5b8d-9wq2m", "-o", "name"]).stdout, "pod/cart-5b8d-9wq2m\n");
    for (args, expected) in [
        (&["web"][..], "about pod cart-5b8d-9wq2m; ask for it with: queue cart-5b8d-9wq2m -n shop"),
        (&["cart-5b8d-9wq2m", "-n", "prod"], "ask for it with"),
        (&["cart-5b8d-9wq2m", "-A"], "cannot be used with"),
        (&["cart-5b8d-9wq2m", "--watch"], "cannot be used with"),
    ] {
        let ran = one(args);
        assert!(ran.code == Some(2) && ran.stderr.contains(expected), "{args:?}: {ran:?}");
    }
    let report = run(root(), &["queue", "web-7d4f-x1", "-f", "docs/queue/report.json"]);
    assert!(report.refused().contains("not a PendingExplanation"), "{report:?}");
}

#[test]
fn watch_has_a_bounded_interval_and_reads_no_file() {
    for (args, expected) in [
        (&["queue", "--watch", "--interval", "10ms"][..], "from 1s to 1h"),
        (&["queue", "--interval", "5s"], "--watch"),
        (&["explain", "pod", "p", "--watch", "--cluster", "-"], "give a file with --cluster"),
    ] {
        let ran = run(root(), args);
        assert!(ran.code == Some(2) && ran.stderr.contains(expected), "{args:?}: {ran:?}");
    }
    let unreachable = run(root(), &["queue", "--watch", "--server", "http://127.0.0.1:1"]);
    assert_eq!(unreachable.code, Some(1), "the first question must be answered: {unreachable:?}");
}

#[test]
fn address_of_the_scheduler_excludes_the_search_for_it() {
    for other in [["--kubeconfig", "x"], ["--context", "x"], ["--lease", "x"], ["--port", "1"]] {
        let ran = run(root(), &[&["queue", "--server", "https://127.0.0.1:1"], &other[..]].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("cannot be used with"), "{ran:?}");
    }
}
