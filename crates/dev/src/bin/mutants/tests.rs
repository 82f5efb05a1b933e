//! Tests of the program itself, on a package of its own whose mutants have known outcomes.

use super::build::{Compiled, Tree};
use super::mutant::{self, Genre, Mutant, Name};
use super::run::{Outcome, Tests};
use super::schema;
use super::table::Results;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// A package with mutants that its test catches, cannot catch, does not reach, and that loop or do not compile.
const SOURCE: &str = r#"//! A package.
pub fn clamp(value: i64, most: i64) -> i64 {
    if value > most { most } else { value }
}
pub fn sum(values: &[u32]) -> u32 {
    let mut at = 0;
    let mut sum = 0;
    while at < values.len() {
        sum += values[at];
        at += 1;
    }
    sum
}
pub fn unused(a: bool, b: bool) -> bool {
    a && !b
}
pub fn word(number: u8) -> &'static str {
    match number {
        1 => "one",
        n if n > 8 => "many",
        _ => "some",
    }
}
pub fn kind(of: Option<u8>, is_strict: bool) -> u8 {
    match of {
        None => 0,
        _ if is_strict => 1,
        Some(_) => 2,
    }
}
pub const fn double(number: u32) -> u32 {
    number * 2
}
pub fn joined(text: &str) -> String {
    text.to_string() + "!"
}
pub fn both(first: Option<u32>, is_set: bool) -> u32 {
    if let Some(value) = first && is_set { value } else { 0 }
}
#[derive(Clone, Copy)]
pub struct Size {
    pub width: u32,
    pub height: u32,
}
pub fn wide(size: Size) -> Size {
    Size { width: size.width * 10 - 1, ..size }
}
pub fn tall(size: Size, height: u32) -> Size {
    Size { height, ..size }
}
pub fn odd(numbers: &[u32]) -> impl Iterator<Item = u32> + Clone {
    let of = numbers.iter().copied();
    of.filter(|number| number % 2 == 1)
}
pub fn texts(texts: &[String]) -> impl Iterator<Item = &String> {
    texts.iter()
}
"#;

const TEST: &str = r#"//! A test.
use fixture::*;
#[test]
fn values_are_right() {
    assert_eq!((clamp(3, 2), clamp(1, 2)), (2, 1));
    assert_eq!(sum(&[1, 2, 3]), 6);
    assert_eq!((word(1), word(5), word(9)), ("one", "some", "many"));
    assert_eq!(double(4), 8);
    assert_eq!(joined("a"), "a!");
    assert_eq!((both(Some(1), true), both(None, true)), (1, 0));
    let wide = wide(Size { width: 2, height: 3 });
    assert_eq!((wide.width, wide.height), (19, 3));
    assert_eq!(tall(wide, 4).height, 4);
    assert_eq!(odd(&[1, 2, 3]).clone().collect::<Vec<_>>(), [1, 3]);
    assert!(odd(&[1]).count() == 1 && texts(&[]).next().is_none());
}
"#;

const ODD_BODY: &str = "let of = numbers.iter().copied();\n    of.filter(|number| number % 2 == 1)";
const LEAKED: &str = "::std::iter::once(Box::leak(Box::new(Default::default())))";

/// Returns the mutant that replaces `old`, the first text after `after`, as cargo-mutants lists it.
fn listed(function: &str, after: &str, old: &str, new: &str, genre: &str) -> Value {
    let position = |at: usize| {
        let before = &SOURCE[..at];
        let line = before.rfind('\n').map_or(0, |end| end + 1);
        json!({"line": before.matches('\n').count() + 1, "column": before[line..].chars().count() + 1})
    };
    let start = SOURCE.find(after).expect("the text is there") + after.len();
    let start = start + SOURCE[start..].find(old).expect("the replaced text is there");
    let head = SOURCE.find(&format!("fn {function}(")).expect("the function is there");
    let foot = head + SOURCE[head..].find("\n}").expect("it ends") + 2;
    let return_type = SOURCE[head..].split(" {").next().and_then(|head| head.split(") ").nth(1));
    let change = match genre {
        "FnValue" => format!("replace {function} {} with {new}", return_type.unwrap_or_default()),
        "MatchArm" => format!("delete match arm {old} in {function}"),
        _ => format!("replace {old} with {new} in {function}"),
    };
    json!({
        "name": format!("src/lib.rs:1:1: {change}"),
        "file": "src/lib.rs",
        "function": {
            "function_name": function,
            "return_type": return_type.unwrap_or_default(),
            "span": {"start": position(head), "end": position(foot)},
        },
        "span": {"start": position(start), "end": position(start + old.len())},
        "replacement": new,
        "genre": genre,
    })
}

fn list() -> Value {
    let binary = |function, after, old, new| listed(function, after, old, new, "BinaryOperator");
    json!([
        binary("clamp", "if value ", ">", "<"),
        binary("clamp", "if value ", ">", ">="),
        listed("clamp", "-> i64 {\n    ", "if value > most { most } else { value }", "0", "FnValue"),
        binary("sum", "        at ", "+=", "*="),
        binary("sum", "while at ", "<", ">"),
        binary("unused", "a ", "&&", "||"),
        listed("unused", "a && ", "!", "", "UnaryOperator"),
        listed("word", "match number {\n        ", "1 => \"one\",", "", "MatchArm"),
        listed("word", "n if ", "n > 8", "true", "MatchArmGuard"),
        binary("word", "n if n ", ">", "=="),
        listed("kind", "match of {\n        ", "None => 0,", "", "MatchArm"),
        binary("double", "number ", "*", "+"),
        binary("joined", "to_string() ", "+", "-"),
        binary("both", "= first ", "&&", "||"),
        listed("wide", "Size { ", "width: size.width * 10 - 1,", "", "StructField"),
        binary("wide", "* 10 ", "-", "*"),
        binary("wide", "size.width ", "*", "+"),
        listed("tall", "height: u32) -> Size {\n    Size { ", "height,", "", "StructField"),
        listed("odd", "u32> + Clone {\n    ", ODD_BODY, "::std::iter::empty()", "FnValue"),
        listed("odd", "u32> + Clone {\n    ", ODD_BODY, "::std::iter::once(1)", "FnValue"),
        listed("odd", "u32> + Clone {\n    ", ODD_BODY, "::std::iter::once(\"xyzzy\")", "FnValue"),
        listed("texts", "&String> {\n    ", "texts.iter()", "::std::iter::empty()", "FnValue"),
        listed("texts", "&String> {\n    ", "texts.iter()", LEAKED, "FnValue"),
    ])
}

/// Writes the package, and returns its files.
fn package(root: &Path) -> Vec<PathBuf> {
    let manifest = "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
    for (file, text) in [("Cargo.toml", manifest), ("src/lib.rs", SOURCE), ("tests/values.rs", TEST)] {
        let path = root.join(file);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the folder can be made");
        fs::write(path, text).expect("the file can be written");
    }
    ["Cargo.toml", "src/lib.rs", "tests/values.rs"].map(PathBuf::from).to_vec()
}

fn mutants(root: &Path) -> Vec<Mutant> {
    mutant::read_list(&list().to_string(), root).expect("the list can be read")
}

fn at(mutants: &[Mutant], function: &str, change: &str) -> usize {
    mutants
        .iter()
        .position(|mutant| mutant.name.function == function && mutant.name.change == change)
        .unwrap_or_else(|| panic!("no mutant {change} in {function}"))
}

#[test]
fn mutants_are_caught_missed_unreached_and_unviable() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path().join("source");
    let files = package(&root);
    let mutants = mutants(&root);
    let tree =
        Tree::copy(&root, &files, &folder.path().join("tree"), "fixture", "src/lib.rs").expect("copied");
    let (fates, programs) = tree.build(&mutants, |_| false).expect("the package compiles with its mutants");
    let tests = Tests::measure(&programs, &folder.path().join("log")).expect("the test passes");
    let outcome = |function: &str, change: &str| {
        let number = at(&mutants, function, change);
        let mutant = &mutants[number];
        match fates[number] {
            Compiled::Unviable => Outcome::Unviable,
            Compiled::Switch => tests.test(number, &mutant.name, None).expect("run").expect("has the time"),
            Compiled::Single => tests.test_single(&tree, mutant).expect("cargo runs"),
        }
    };
    let caught = || Outcome::Caught("values: values_are_right".to_string());
    assert_eq!(outcome("clamp", "replace > with <"), caught());
    assert_eq!(outcome("clamp", "replace > with >="), Outcome::Missed);
    assert_eq!(outcome("clamp", "return 0"), caught());
    assert_eq!(
        outcome("sum", "replace += with *="),
        Outcome::TimedOut("values: values_are_right".to_string())
    );
    assert_eq!(outcome("sum", "replace < with >"), caught());
    assert_eq!(outcome("unused", "replace && with ||"), Outcome::Unreached);
    assert_eq!(outcome("unused", "replace ! with"), Outcome::Unreached);
    assert_eq!(outcome("word", "delete match arm 1 => \"one\","), caught());
    assert_eq!(outcome("word", "replace n > 8 with true"), caught());
    assert_eq!(outcome("word", "replace > with =="), caught());
    // Without the arm, the match is not exhaustive.
    assert_eq!(outcome("kind", "delete match arm None => 0,"), Outcome::Unviable);
    assert_eq!(outcome("joined", "replace + with -"), Outcome::Unviable);
    assert_eq!(outcome("both", "replace && with ||"), Outcome::Unviable);
    assert_eq!(outcome("wide", "replace width: size.width * 10 - 1, with"), caught());
    assert_eq!(outcome("wide", "replace - with *"), caught());
    assert_eq!(fates[at(&mutants, "tall", "replace height, with")], Compiled::Switch);
    assert_eq!(outcome("tall", "replace height, with"), caught());
    assert_eq!(outcome("odd", "return ::std::iter::empty()"), caught());
    assert_eq!(outcome("odd", "return ::std::iter::once(1)"), caught());
    assert_eq!(outcome("odd", "return ::std::iter::once(\"xyzzy\")"), Outcome::Unviable);
    assert_eq!(outcome("texts", "return ::std::iter::empty()"), Outcome::Missed);
    assert_eq!(outcome("texts", &format!("return {LEAKED}")), Outcome::Unviable);
    // A constant function cannot read a switch: it needs its own build, which is why it comes last.
    assert_eq!(fates[at(&mutants, "double", "replace * with +")], Compiled::Single);
    assert_eq!(outcome("double", "replace * with +"), caught());
}

#[test]
fn mutated_branches_keep_the_original_grouping() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    package(folder.path());
    let mutants: Vec<Mutant> = mutants(folder.path());
    let number = at(&mutants, "wide", "replace - with *");
    let schema = schema::compile_in(SOURCE, &[(number, &mutants[number])]).expect("the source parses");
    let line = format!(
        "width: (if crate::mutant_switch::on({number}) {{ (size.width * 10) * (1) }} else \
         {{size.width * 10 - 1}}),"
    );
    assert!(schema.text.contains(&line), "{}", schema.text);
}

fn named(file: &str, function: &str) -> Mutant {
    Mutant {
        name: Name { file: file.into(), function: function.into(), change: "return 0".into() },
        fingerprint: "0".into(),
        genre: Genre::FnValue,
        start: 0,
        end: 0,
        replacement: "0".into(),
    }
}

#[test]
fn sample_depends_on_function_names_and_not_on_lines_or_files() {
    let functions: Vec<String> = (0..2000).map(|number| format!("Type{number}::function")).collect();
    let sample = |file: &str| -> Vec<String> {
        let mut mutants: Vec<Mutant> = functions.iter().map(|function| named(file, function)).collect();
        for (line, mutant) in mutants.iter_mut().enumerate() {
            mutant.start = line * file.len();
        }
        mutant::select(mutants).into_iter().map(|mutant| mutant.name.function).collect()
    };
    let plugins = sample("crates/core/src/plugins/a.rs");
    assert_eq!(plugins, sample("crates/core/src/cache/elsewhere.rs"));
    // 15 % of 2,000 functions, with four standard deviations of room.
    assert!((236..=364).contains(&plugins.len()), "{} of 2,000 functions", plugins.len());
    assert_eq!(sample("crates/core/src/incremental/a.rs").len(), functions.len());
    assert_eq!(sample("crates/core/src/scheduler.rs").len(), functions.len());
    assert_eq!(sample("crates/core/src/switches/mutation.rs").len(), 0);
}

#[test]
fn fingerprint_changes_with_the_tokens_of_a_function_only() {
    let fingerprint = |text: &str| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        package(folder.path());
        // The change keeps all positions of the list.
        fs::write(folder.path().join("src/lib.rs"), text).expect("the file can be written");
        let mutants = mutants(folder.path());
        mutants[at(&mutants, "clamp", "replace > with <")].fingerprint.clone()
    };
    let original = fingerprint(SOURCE);
    assert_eq!(original, fingerprint(&SOURCE.replace("sum += ", "sum -= ")));
    assert_eq!(original, fingerprint(&SOURCE.replace("{ value }", "{value  }")));
    assert_ne!(original, fingerprint(&SOURCE.replace("if value >", "if value <")));
}

#[test]
fn results_survive_a_restart_until_their_function_changes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    package(folder.path());
    let (log, root) = (folder.path().join("results.tsv"), folder.path());
    let mut selected = mutants(root);
    selected.retain(|mutant| mutant.name.function == "clamp");
    let mut results = Results::read(root, &log).expect("nothing is read");
    let caught = Outcome::Caught("values: values_are_right".into());
    let outcomes = [caught.clone(), Outcome::Missed, caught];
    let elsewhere = || Results::read(root, &folder.path().join("none.tsv")).expect("read elsewhere");
    for (at, (mutant, outcome)) in selected.iter().zip(&outcomes).enumerate() {
        // Another machine has the results of an unfinished function.
        let known = |mutant| elsewhere().own(mutant).is_some();
        assert_eq!(selected.iter().map(known).collect::<Vec<_>>(), [at > 0, at > 1, false]);
        assert_eq!(results.own(mutant), None);
        results.record(mutant, outcome.clone()).expect("recorded");
        results.write(&selected).expect("written");
    }

    // The same machine has every result; another one has the counts and the survivor.
    let again = Results::read(root, &log).expect("read again");
    assert!(selected.iter().zip(&outcomes).all(|(mutant, outcome)| again.own(mutant) == Some(outcome)));
    let mut other = elsewhere();
    assert!(selected.iter().all(|mutant| other.own(mutant).is_none() && other.is_counted(mutant, 3)));
    assert_eq!(selected.iter().map(|mutant| other.is_open(mutant)).collect::<Vec<_>>(), [false, true, false]);

    // A test that catches the survivor later moves it from one count to the other.
    other.record(&selected[1], Outcome::Caught("new".into())).expect("recorded");
    other.write(&selected).expect("written");
    let counts = fs::read_to_string(root.join("tests/mutants/results.tsv")).expect("there are counts");
    assert!(counts.ends_with("\t3\t0\t0\t0\n"), "{counts}");

    // A changed function has no results, and its row leaves the table.
    selected[0].fingerprint = "changed".into();
    selected[1].fingerprint = "changed".into();
    selected[2].fingerprint = "changed".into();
    assert!(selected.iter().all(|mutant| again.own(mutant).is_none() && !again.is_counted(mutant, 3)));
}
