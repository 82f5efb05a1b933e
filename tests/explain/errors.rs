//! Errors of all commands end with what to do next, or with what was expected.

use crate::support::{Cluster, plain_node, pod, run};
use serde_json::json;

/// Advice for files that cannot be read.
const PATH: &str = "; check the path";
/// Advice for a kubeconfig, if files can be given instead.
const OR_FILES: &str =
    "; check --kubeconfig, --context and KUBECONFIG; or read the cluster from files with --cluster";
const KUBECONFIG: &str = "; check --kubeconfig, --context and KUBECONFIG";
const REACH: &str = "; check its address and the network, or allow more time with --request-timeout";

/// Command lines that fail in a folder with the files `cluster` and `broken`, and the end of the error.
const ADVICE: [(&[&str], &str); 37] = [
    (&["explain", "pod"], "exactly once: pod NAME, or pod/NAME"),
    (&["explain", "pod", "other", "--cluster", "cluster"], "has 1 other pod: check the name and -n"),
    (&["explain", "pod", "p", "--cluster", "absent"], PATH),
    (&["explain", "pod", "p", "--cluster", "broken"], "expected YAML or JSON: EOF while parsing an object"),
    (&["explain", "pod", "p"], OR_FILES),
    (&["explain", "pod", "p", "--kubeconfig", "absent"], OR_FILES),
    (&["explain", "podgroup", "g", "--cluster", "cluster"], "and --emulated-version 1.36 or later"),
    (&["explain", "pod", "p", "--cluster", "cluster", "--config", "absent"], PATH),
    (
        &["explain", "pod", "p", "--cluster", "cluster", "--feature-gates", "X=true"],
        "; --help lists those of pod groups",
    ),
    (&["why", "deploy/x", "--cluster", "cluster"], "; check the name and -n, and whether it has replicas"),
    (&["fit", "-f", "absent", "--cluster", "cluster"], PATH),
    (&["drain-check", "x", "--cluster", "cluster"], "has 1 node: check the name and the cluster"),
    (&["drain-check", "-l", "a=b", "--cluster", "cluster"], "; check it with `kubectl get nodes -l`"),
    (
        &["plan", "free-nodes", "--nodes", "x", "--cluster", "cluster"],
        "has 1 node: check the name and the cluster",
    ),
    (&["plan", "make-room", "-f", "absent", "--cluster", "cluster"], PATH),
    (&["simulate", "--cluster", "absent", "--pods", "cluster"], PATH),
    (
        &["simulate", "--cluster", "cluster", "--add-nodes", "1:template=x"],
        "has 1 node: check the name and the cluster",
    ),
    (&["simulate", "--cluster", "cluster", "--scale", "x=3"], "; check the name and -n"),
    (&["record", "recording", "--kubeconfig", "absent"], KUBECONFIG),
    (&["replay", "absent"], "; give a file of --record-to or `supercargo record`"),
    (&["replay", "cluster"], "; give a file of --record-to or `supercargo record`"),
    (&["lint", "absent"], PATH),
    (&["lint", "--cluster", "cluster", "-n", "nope"], "; check -n"),
    (&["cel", "true", "--slice", "cluster"], "; `kubectl get resourceslices -o yaml` writes some"),
    (&["test", "absent"], "; give a file with a PlacementTest"),
    (&["report", "--cluster", "absent", "--to", "page"], PATH),
    (&["queue"], "; or give the URL of the scheduler's port with --server"),
    (&["queue", "-f", "absent"], "such as the output of `supercargo queue -A -o json`"),
    (&["queue", "-f", "cluster"], "; expected an answer of /debug/pending"),
    (&["queue", "--server", "http://127.0.0.1:1"], REACH),
    (&["queue", "--server", "http://127.0.0.1:1", "--token-file", "absent"], "; check the flags of the port"),
    (&["shadow", "report", "-f", "absent"], "; give a file with an answer of /debug/shadow"),
    (&["shadow", "report", "-f", "cluster"], "; give an answer of /debug/shadow"),
    (&["shadow", "report", "--server", "http://127.0.0.1:1"], REACH),
    (&["doctor", "--kubeconfig", "absent"], KUBECONFIG),
    (&["config", "check", "absent"], "; name a file with a KubeSchedulerConfiguration"),
    (&["man", "--dir", "/proc/x"], "; give another folder with --dir"),
];

#[test]
fn errors_end_with_what_to_do_next() {
    let cluster = Cluster::of(&[plain_node("a"), pod("p", "1", &json!({}))]);
    cluster.write("broken", "{");
    let mut wrong = Vec::new();
    for (args, advice) in ADVICE {
        let ran = run(cluster.folder(), args);
        if !matches!(ran.code, Some(1 | 2)) || !ran.stderr.ends_with(&format!("{advice}\n")) {
            wrong.push(format!("{args:?}: {:?}: {}", ran.code, ran.stderr));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
