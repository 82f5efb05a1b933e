//! The engine as WebAssembly, run by an interpreter: the module of the page gives the answers of the native program, on
//! every golden vector.
//!
//! `crates/web/wasm.sh --test` builds the module. `SUPERCARGO_WASM` names another one, such as that of the page.

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
fn compare(module: &mut Module, vector: &Value) -> (usize, Vec<String>) {
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

#[test]
fn module_decides_as_the_native_program_on_all_golden_vectors() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let text = recorded::of_folder(&folder).concat();
    let lines: Vec<&str> = text.lines().collect();
    let results: Vec<(usize, Vec<String>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|first| {
                let lines = &lines;
                scope.spawn(move || {
                    let mut module = Module::start();
                    let own = lines.iter().skip(first).step_by(THREADS);
                    let vectors = own.map(|line| serde_json::from_str(line).expect("a line is a vector"));
                    vectors.map(|vector| compare(&mut module, &vector)).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no comparison panics")).collect()
    });
    let differences: Vec<&str> = results.iter().flat_map(|(_, all)| all).map(String::as_str).collect();
    assert!(
        differences.is_empty(),
        "{} differences, the first:\n{}",
        differences.len(),
        differences[..differences.len().min(5)].join("\n")
    );
    let decisions: usize = results.iter().map(|(decisions, _)| decisions).sum();
    println!("{} vectors, {decisions} decisions", lines.len());
    assert!(lines.len() > 1_300 && decisions > 2_000, "{} vectors, {decisions} decisions", lines.len());
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
