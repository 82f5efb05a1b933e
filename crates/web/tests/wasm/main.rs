//! The engine as WebAssembly, run by an interpreter: the module of the page gives the answers of the native program, on
//! every golden vector.
//!
//! `crates/web/wasm.sh --test` builds the module. `SUPERCARGO_WASM` names another one, such as that of the page.

#[path = "../../../dev/src/golden/group_changes.rs"]
mod group_changes;
mod groups;
mod module;
#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../../../../tests/golden/recorded.rs"]
mod recorded;

use flate2::Compression;
use flate2::write::GzEncoder;
use module::Module;
use serde_json::{Value, json};
use std::io::{Read, Write as _};
use std::path::Path;
use supercargo_web::Session;

/// The number of threads that interpret vectors: the cores of CI.
const THREADS: usize = 2;
/// For every fourth vector of pod groups, all cycles and what the page asks are compared with the native program; for
/// the others, the cycles that are also compared with kube-scheduler. So the test takes 15 s on two cores, not 25 s.
const SAMPLE: usize = 4;

/// Returns the native answers to requests, the inputs of which are one text.
fn native(session: &mut Session, request: &Value, input: &[u8]) -> Value {
    let mut inputs = |_: usize| -> Box<dyn Read> { Box::new(std::io::Cursor::new(input.to_vec())) };
    session.answer(request.to_string().as_bytes(), &mut inputs)
}

/// Returns the requests about a vector: a simulation with every node's results, and what the page asks. The page takes
/// the objects as a list.
fn requests(vector: &Value) -> (Vec<Value>, Vec<u8>) {
    let scenario = &vector["scenario"];
    let config = &scenario["config"];
    let text = if config.is_object() { config.to_string() } else { String::new() };
    let all = [&scenario["objects"], &scenario["pods"]];
    let items: Vec<&Value> = all.into_iter().flat_map(|list| list.as_array().into_iter().flatten()).collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    let requests = vec![
        json!({
            "do": "simulate", "cluster": scenario["objects"], "pods": scenario["pods"], "version": "1.36",
            "config": config, "compatUpstream": true, "asWritten": true,
        }),
        json!({ "do": "load", "inputs": ["vector"], "version": "1.36", "asWritten": true }),
        json!({ "do": "ask", "config": text }),
        json!({ "do": "pods", "limit": 500 }),
    ];
    (requests, list.to_string().into_bytes())
}

/// Compares the answers about a vector, and returns the number of decisions and the differences.
fn compare(module: &mut Module, _number: usize, vector: &Value) -> (usize, Vec<String>) {
    let name = vector["scenario"]["name"].as_str().unwrap_or("?");
    let (requests, input) = requests(vector);
    let mut session = Session::default();
    let (mut decisions, mut differences) = (0, Vec::new());
    for request in requests {
        let expected = native(&mut session, &request, &input);
        let got = module.ask(&request, &input);
        if got != expected {
            differences.push(format!("{name}: {}: expected {expected}, got {got}", request["do"]));
        }
        if request["do"] == "simulate" {
            let of_native = got["decisions"].as_array().map(Vec::as_slice).unwrap_or_default();
            let recorded = vector["decisions"].as_array().map(Vec::as_slice).unwrap_or_default();
            decisions = of_native.len();
            let nodes =
                |all: &[Value], field: &str| all.iter().map(|it| it[field].clone()).collect::<Vec<_>>();
            if nodes(of_native, "node") != nodes(recorded, "selected") {
                differences.push(format!("{name}: other nodes than kube-scheduler's"));
            }
        }
    }
    (decisions, differences)
}

/// Calls a function with the number of each vector of a folder, on several threads. Returns the number of vectors, and
/// the results.
fn of_each_vector<R: Send>(folder: &str, compare: fn(&mut Module, usize, &Value) -> R) -> (usize, Vec<R>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let text = recorded::of_folder(&folder).concat();
    let lines: Vec<&str> = text.lines().collect();
    let results: Vec<R> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|first| {
                let lines = &lines;
                scope.spawn(move || {
                    let mut module = Module::start();
                    let own = lines.iter().enumerate().skip(first).step_by(THREADS);
                    let vectors =
                        own.map(|(at, line)| (at, serde_json::from_str(line).expect("a line is a vector")));
                    vectors.map(|(at, vector)| compare(&mut module, at, &vector)).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no comparison panics")).collect()
    });
    (lines.len(), results)
}

/// Asserts that there are no differences.
fn none<'a>(differences: impl Iterator<Item = &'a String>) {
    let all: Vec<&str> = differences.map(String::as_str).collect();
    let first = &all[..all.len().min(5)];
    assert!(all.is_empty(), "{} differences, the first:\n{}", all.len(), first.join("\n"));
}

#[test]
fn module_decides_as_the_native_program_on_all_golden_vectors() {
    let (vectors, results) = of_each_vector("tests/golden", compare);
    none(results.iter().flat_map(|(_, all)| all));
    let decisions: usize = results.iter().map(|(decisions, _)| decisions).sum();
    println!("{vectors} vectors, {decisions} decisions");
    assert!(vectors > 1_300 && decisions > 2_000, "{vectors} vectors, {decisions} decisions");
}

/// Compares the answers about the cycles of a vector of pod groups, and about what the page asks. Returns the number of
/// cycles, those that are also compared with kube-scheduler's, and the differences.
fn compare_groups(module: &mut Module, number: usize, vector: &Value) -> (usize, usize, Vec<String>) {
    let name = &vector["scenario"]["name"];
    let is_whole = number.is_multiple_of(SAMPLE);
    let (mut decided, mut comparable, mut differences) = (0, 0, Vec::new());
    for cycle in groups::cycles(vector).iter().filter(|cycle| is_whole || cycle.is_comparable) {
        decided += 1;
        let expected = native(&mut Session::default(), &cycle.request, &[]);
        let got = module.ask(&cycle.request, &[]);
        if got != expected {
            differences.push(format!("{name}: expected {expected}, got {got}"));
        }
        if cycle.is_comparable {
            comparable += 1;
            differences.extend(cycle.differences(&got));
        }
    }
    let (requests, input) = groups::page_requests(vector);
    let mut session = Session::default();
    for request in requests.iter().filter(|_| is_whole) {
        let expected = native(&mut session, request, &input);
        let got = module.ask(request, &input);
        if got != expected || !got["error"].is_null() {
            differences.push(format!("{name}: {}: expected {expected}, got {got}", request["do"]));
        }
    }
    (decided, comparable, differences)
}

#[test]
fn module_decides_groups_as_the_native_program_and_kube_scheduler() {
    let (vectors, results) = of_each_vector("tests/golden/groups", compare_groups);
    none(results.iter().flat_map(|(.., all)| all));
    let cycles: usize = results.iter().map(|(cycles, ..)| cycles).sum();
    let comparable: usize = results.iter().map(|(_, comparable, _)| comparable).sum();
    println!("{vectors} vectors of groups, {cycles} cycles, {comparable} of them also as kube-scheduler");
    assert!(vectors >= 325 && cycles > 880 && comparable > 800, "{vectors}, {cycles}, {comparable}");
}

const NODE: &str = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: '4', memory: 8Gi, pods: '110'}}\n";

#[test]
fn compressed_input_is_read_in_pieces() {
    let pod = |number: usize| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p{number}}}\nspec: {{containers: [{{name: c, image: i}}]}}\n"
        )
    };
    let text = NODE.to_owned() + &(0..200).map(pod).collect::<String>();
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(text.as_bytes()).expect("writing to memory succeeds");
    let packed = packer.finish().expect("writing to memory succeeds");
    let mut module = Module::start();
    let load = json!({ "do": "load", "inputs": ["dump.yaml.gz"] });
    let loaded = module.ask(&load, &packed);
    assert_eq!((&loaded["nodes"], &loaded["pending"]), (&json!(1), &json!(200)), "{loaded}");
    assert!(module.reads() > 1, "the module asked for the input in pieces");
    let outcome = module.ask(&json!({ "do": "ask" }), &[]);
    assert_eq!((&outcome["placed"], &outcome["pending"]), (&json!(110), &json!(90)), "{outcome}");
}

#[test]
fn module_reports_an_invalid_object_and_keeps_the_cluster() {
    let mut module = Module::start();
    let load = json!({ "do": "load", "inputs": ["objects"] });
    assert_eq!(module.ask(&load, NODE.as_bytes())["nodes"], 1);
    let wrong = NODE.replace("'4'", "four");
    let error = module.ask(&load, wrong.as_bytes());
    let text = error["error"].as_str().unwrap_or_default();
    assert!(text.starts_with("objects:4:") && text.contains("status.allocatable"), "{error}");
    assert_eq!(module.ask(&json!({ "do": "ask" }), &[])["nodes"], 1);
    assert!(module.ask(&json!({ "do": "nonsense" }), &[])["error"].is_string());
}
