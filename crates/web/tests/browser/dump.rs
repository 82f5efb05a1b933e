//! A dump of 5,000 nodes and 50,000 pods: the page stays responsive, and answers in time and memory that are bounded.
//! These are measurements of a browser; no other test times anything.

use super::{answered, cluster, is_quiet, opened, outcome, page, slide};
use crate::driver::Driver;
use serde_json::{Value, json};
use std::io::{BufWriter, Write as _};

const NODES: usize = 5_000;
const PODS: usize = 50_000;
/// The longest task of the main thread from the choice of the files on, in milliseconds. The browser reports tasks from
/// 50 ms on.
const TASK_MS_MAX: u64 = 50;
/// The largest resident size of the page's process, in bytes.
const MEMORY_MAX: u64 = 1_500_000_000;
/// From a change to the page that shows its answer, in milliseconds.
const ANSWER_MS_MAX: f64 = 200.0;
/// From opening the page to its first decision, in milliseconds.
const FIRST_MS_MAX: f64 = 2_000.0;

/// Adds what an API server and controllers write, so that an object has its usual size.
fn as_listed(mut object: Value, number: usize) -> Value {
    let fields: serde_json::Map<String, Value> =
        (0..24).map(|at| (format!("f:field-{at}"), json!({ "f:name": {}, "f:value": {} }))).collect();
    let managed = |manager: &str| json!({ "manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsV1": fields });
    let metadata = object["metadata"].as_object_mut().expect("an object has metadata");
    metadata.insert("uid".into(), format!("00000000-0000-4000-8000-{number:012}").into());
    metadata.insert("resourceVersion".into(), number.to_string().into());
    metadata.insert("creationTimestamp".into(), "2026-01-01T00:00:00Z".into());
    metadata.entry("namespace").or_insert_with(|| "default".into());
    metadata.insert("managedFields".into(), json!([managed("kube-controller-manager"), managed("kubelet")]));
    if object["kind"] == "Node" {
        object["metadata"].as_object_mut().expect("an object").remove("namespace");
    } else {
        object["status"] = json!({ "phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.1.0.1",
            "conditions": [{ "type": "Ready", "status": "True" }, { "type": "ContainersReady", "status": "True" }] });
    }
    object
}

#[test]
fn dump_of_5000_nodes_and_50000_pods_is_answered_within_the_bounds() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("dump.json");
    let mut out = BufWriter::new(std::fs::File::create(&file).expect("a file can be made"));
    out.write_all(b"{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[").expect("a file can be written");
    for (number, object) in cluster::cluster(NODES, PODS).into_iter().enumerate() {
        let separator = if number == 0 { "" } else { "," };
        write!(out, "{separator}{}", as_listed(object, number)).expect("a file can be written");
    }
    out.write_all(b"]}").expect("a file can be written");
    out.flush().expect("a file can be written");
    let size = std::fs::metadata(&file).expect("a file").len();
    let workload = folder.path().join("checkout.json");
    std::fs::write(&workload, cluster::checkout(60).to_string()).expect("a file can be written");

    let driver = Driver::start();
    let browser = opened(&driver, (1400, 1000), false);
    let first = browser.eval("timings.firstDecision").as_f64().expect("a number");
    let observe = |variable: &str, options: &str| {
        browser.eval(&format!(
            "(window.{variable} = 0, new PerformanceObserver((list) => {{ for (const it of list.getEntries()) {variable} = Math.max({variable}, it.duration); }}).observe({{ type: 'longtask'{options} }}))"
        ));
    };
    observe("whole", ", buffered: true");
    observe("longest", "");
    answered(&browser, || {
        browser.write("#files", &format!("{}\n{}", file.display(), workload.display()));
    });
    let loaded = outcome(&browser);
    let load = browser.eval("timings.loadMilliseconds").as_f64().expect("a number");
    assert!(loaded.starts_with("60 of 6"), "{loaded}: {}", super::problem(&browser));
    assert_eq!(browser.text("document.querySelector('#figures b').textContent"), "5,000");
    let mut answers = vec![browser.eval("timings.askMilliseconds").as_f64().expect("a number")];
    let mut timed = |change: &dyn Fn()| {
        answered(&browser, change);
        answers.push(browser.eval("timings.askMilliseconds").as_f64().expect("a number"));
    };
    browser.eval("(document.querySelector('#workloads-search').value = 'checkout', document.querySelector('#workloads-search').dispatchEvent(new Event('input')))");
    browser.wait_for("document.querySelectorAll('#workloads-table tbody tr').length === 1");
    timed(&|| slide(&browser, "#more", 20));
    timed(&|| slide(&browser, "#workloads input[type=range]", 120));
    browser.eval("(document.querySelector('#taint-node').value = 'worker-a-0000', document.querySelector('#taint').value = 'a=b:NoSchedule')");
    timed(&|| browser.click("#add-taint"));
    browser.eval("document.querySelector('#config-details').open = true");
    timed(&|| browser.click("#config-example"));
    browser.write("#pods-search", "checkout");
    browser.wait_for("document.querySelectorAll('#pods-table tbody tr').length === 25");
    browser.eval("document.querySelector('#pods-table button').click()");
    browser.wait_for("!document.querySelector('#panel').hidden");
    let whole = browser.eval("Math.round(whole)").as_u64().expect("a number");
    let longest = browser.eval("Math.round(longest)").as_u64().expect("a number");
    let memory = driver.peak_memory();
    let module = browser.eval("timings.memory").as_u64().expect("a number");
    let slowest = answers[1..].iter().copied().fold(0.0, f64::max);
    println!(
        "{} MB dump: loaded in {load:.0} ms; first decision of the page {first:.0} ms; first answer {:.0} ms; edit to answer at most {slowest:.0} ms of {:?}; longest task {longest} ms, with the start of the page {whole} ms; peak memory {} MB, of the module {} MB",
        size / 1_000_000,
        answers[0],
        answers.iter().map(|it| it.round() as u64).collect::<Vec<_>>(),
        memory / 1_000_000,
        module / 1_000_000
    );
    assert!(first <= FIRST_MS_MAX, "first decision after {first} ms");
    assert!(slowest <= ANSWER_MS_MAX, "an answer took {slowest} ms");
    assert!(longest <= TASK_MS_MAX, "a task of the main thread took {longest} ms");
    assert!((1..=MEMORY_MAX).contains(&memory), "{memory} bytes");
    is_quiet(&browser);
    assert!(page().is_file());
}
