//! `supercargo cel`: expressions, the files of their devices, and bad input.

use crate::offline::{Folder, run_with_input};
use crate::support::{Ran, root, run};
use serde_json::{Value, json};

/// A slice with one device for each model.
fn slice(name: &str, driver: &str, models: &[&str]) -> Value {
    let devices: Vec<Value> = models
        .iter()
        .enumerate()
        .map(|(number, model)| {
            json!({ "name": format!("gpu-{number}"), "attributes": { "model": { "string": model } },
                "capacity": { "memory": { "value": format!("{}Gi", 40 + 40 * number) } } })
        })
        .collect();
    json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": name },
        "spec": { "driver": driver, "nodeName": "a", "devices": devices,
            "pool": { "name": "a", "generation": 1, "resourceSliceCount": 1 } } })
}

const A100: &str = "device.attributes['gpu.example.com'].model == 'a100'";

fn results(ran: &Ran) -> Vec<(String, Option<bool>)> {
    let answer = ran.json("ExpressionCheck");
    let devices = answer["devices"].as_array().expect("a list").iter();
    devices.map(|it| (it["device"].as_str().expect("a name").to_owned(), it["selected"].as_bool())).collect()
}

#[test]
fn devices_of_lists_folders_gzip_and_standard_input_are_evaluated() {
    let folder = Folder::new();
    let one = slice("s1", "gpu.example.com", &["a100", "t4"]).to_string();
    let two = slice("s2", "other.example.com", &["a100"]).to_string();
    std::fs::create_dir(folder.path().join("slices")).expect("the folder is created");
    folder.write("slices/one.json", &one);
    folder.write("list", &crate::offline::list(&[slice("s3", "gpu.example.com", &["a100"])]));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, one.as_bytes()).expect("memory takes it");
    std::fs::write(folder.path().join("one.gz"), gzip.finish().expect("memory takes it")).expect("written");
    let args = ["cel", A100, "-o", "json", "--slice", "slices", "list", "one.gz", "--slice", "-"];
    let ran = run_with_input(folder.path(), &args, &two);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let gpu = |number: u32, selected| (format!("gpu-{number}"), selected);
    let expected = [
        gpu(0, Some(true)),
        gpu(1, Some(false)),
        gpu(0, Some(true)),
        gpu(0, Some(true)),
        gpu(1, Some(false)),
        gpu(0, None),
    ];
    assert_eq!(results(&ran), expected);
    let answer = ran.json("ExpressionCheck");
    assert_eq!(answer["devices"][5]["error"], "no such key: model");
    assert_eq!((&answer["type"], &answer["costLimit"]), (&json!("bool"), &json!(1_000_000)));
    assert_eq!((&answer["selected"], &answer["devices"][0]["cost"]), (&json!(3), &json!(5)));
}

#[test]
fn driver_flag_leaves_out_other_drivers() {
    let folder = Folder::new();
    let both = [slice("s1", "gpu.example.com", &["t4"]), slice("s2", "other.example.com", &["a100"])];
    folder.write("list", &crate::offline::list(&both));
    let ran = folder.run(&["cel", A100, "--slice", "list", "--driver", "gpu.example.com", "-o", "json"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert_eq!(results(&ran), [("gpu-0".to_owned(), Some(false))]);
    let none = folder.run(&["cel", A100, "--slice", "list", "--driver", "x"]);
    assert_eq!(none.refused(), "none of 2 slices is of the driver x; check --driver");
}

#[test]
fn expression_alone_shows_type_and_estimated_cost() {
    let ran = run(root(), &["cel", "device.attributes['d'].flag"]);
    let text = "type google.protobuf.Any, estimated cost 4 of at most 1000000\n";
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), text, ""));
}

#[test]
fn expression_the_api_server_would_refuse_exits_with_3() {
    let inner = "device.attributes['d'].all(y, device.attributes['d'].all(z, y != z))";
    let expensive = format!("device.attributes['d'].all(v, device.attributes['d'].all(w, {inner}))");
    let ran = run(root(), &["cel", &expensive]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stdout.contains("the API server refuses it: its estimated cost is "), "{ran:?}");
    let long = format!("true{}", " ".repeat(10 * 1024));
    let ran = run(root(), &["cel", &long]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stdout.contains("it has 10244 bytes, and the API server accepts at most 10240"), "{ran:?}");
}

#[test]
fn invalid_expression_exits_with_2_and_the_compilers_text() {
    let ran = run(root(), &["cel", "device.memory > 1"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    let expected = "error: the expression does not compile at line 1, column 7\n\
        compilation failed: ERROR: <input>:1:7: undefined field 'memory'\n | device.memory > 1\n | ......^\n";
    assert_eq!(ran.stderr, expected);
    let ran = run(root(), &["cel", "1 + 1"]);
    let expected =
        "error: the expression does not compile\nmust evaluate to bool or the unknown type, not int\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(2), expected));
}

#[test]
fn files_without_slices_and_malformed_slices_exit_with_2() {
    let folder = Folder::new();
    let mut old = slice("s1", "d", &["a100"]);
    old["apiVersion"] = json!("resource.k8s.io/v1beta1");
    folder.write("old", &old.to_string());
    let ran = folder.run(&["cel", "true", "--slice", "old"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    let told = "skipped 1 object that are no ResourceSlice of resource.k8s.io/v1: 1 resource.k8s.io/v1beta1 ResourceSlice";
    assert!(ran.stderr.contains(told), "{ran:?}");
    assert!(ran.stderr.contains("error: the files contain no ResourceSlice (resource.k8s.io/v1)"), "{ran:?}");
    let mut broken = slice("s1", "d", &["a100"]);
    broken["spec"]["devices"] = json!("none");
    folder.write("broken", &broken.to_string());
    let ran = folder.run(&["cel", "true", "--slice", "broken"]);
    let error = ran.refused();
    assert!(error.starts_with("broken:1:") && error.contains("ResourceSlice s1 is malformed"), "{error}");
    let ran = folder.run(&["cel", "true", "--slice", "missing"]);
    assert!(ran.refused().starts_with("missing: "), "{ran:?}");
}
