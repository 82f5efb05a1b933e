//! Mutants as cargo-mutants lists them, their names that survive moved lines, and the sample.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Seed and size of the sample outside the folders that are tested in full.
const SAMPLE_SEED: u64 = 1;
const SAMPLE_PERCENT: u64 = 15;
/// Folders and files of which every mutant is tested.
const FULL: [&str; 3] =
    ["crates/core/src/incremental/", "crates/core/src/scheduler/", "crates/core/src/scheduler.rs"];
/// Deliberate mistakes and ablation switches: no test build compiles them in the form in which they act.
const NEVER: &str = "crates/core/src/switches/";

/// What kind of change a mutant makes; cargo-mutants calls it the genre.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Genre {
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArm,
    MatchArmGuard,
    StructField,
}

/// A mutant's name: stable while its function keeps its text, wherever its lines move.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name {
    pub(crate) file: String,
    /// The function's path inside its file; empty for an expression outside functions.
    pub(crate) function: String,
    /// The change as cargo-mutants words it, with a number where the function has several alike.
    pub(crate) change: String,
}

/// One mutant.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    pub(crate) name: Name,
    /// Hash of the function's tokens: a result is valid while it stays.
    pub(crate) fingerprint: String,
    pub(crate) genre: Genre,
    /// The replaced bytes of the file.
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) replacement: String,
}

/// A mutant in the JSON of `cargo mutants --list --json`.
#[derive(Deserialize)]
pub(crate) struct Listed {
    name: String,
    file: String,
    function: Option<ListedFunction>,
    span: Span,
    replacement: String,
    genre: Genre,
}

#[derive(Deserialize)]
struct ListedFunction {
    function_name: String,
    return_type: String,
    span: Span,
}

#[derive(Clone, Copy, Deserialize)]
struct Span {
    start: Position,
    end: Position,
}

/// A line and a column in characters, both counted from 1.
#[derive(Clone, Copy, Deserialize)]
struct Position {
    line: usize,
    column: usize,
}

/// Reads the list of cargo-mutants for the source tree at `root`.
pub(crate) fn read_list(json: &str, root: &Path) -> Result<Vec<Mutant>> {
    let listed: Vec<Listed> = serde_json::from_str(json).context("cannot read the list of cargo-mutants")?;
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for one in &listed {
        if !texts.contains_key(&one.file) {
            let text = std::fs::read_to_string(root.join(&one.file))
                .with_context(|| format!("cannot read {}", one.file))?;
            texts.insert(one.file.clone(), text);
        }
    }
    let mut fingerprints = HashMap::new();
    for one in &listed {
        let text = &texts[&one.file];
        let (function, tokens) = match &one.function {
            Some(function) => (function.function_name.clone(), tokens(&text[bytes(text, function.span)])),
            None => (String::new(), tokens(text)),
        };
        // Functions of one name in one file, such as variants by `cfg`, share a fingerprint.
        let known: &mut Vec<String> = fingerprints.entry((one.file.clone(), function)).or_default();
        if !known.contains(&tokens) {
            known.push(tokens);
        }
    }
    let mut seen: HashMap<Name, usize> = HashMap::new();
    let mutants = listed.into_iter().map(|one| {
        let text = &texts[&one.file];
        let range = bytes(text, one.span);
        let change = change(&one);
        let function = one.function.map_or_else(String::new, |function| function.function_name);
        let fingerprint = &fingerprints[&(one.file.clone(), function.clone())];
        let fingerprint = format!("{:08x}", hash(&fingerprint.join("\n")) >> 32);
        let mut name = Name { file: one.file, function, change };
        let number = seen.entry(name.clone()).or_default();
        *number += 1;
        if *number > 1 {
            name.change = format!("{} #{number}", name.change);
        }
        Mutant {
            name,
            fingerprint,
            genre: one.genre,
            start: range.start,
            end: range.end,
            replacement: one.replacement,
        }
    });
    Ok(mutants.collect())
}

/// Returns the change without location and function: `replace == with !=`.
fn change(one: &Listed) -> String {
    let Some(function) = &one.function else {
        return one.name.splitn(2, ": ").last().unwrap_or(&one.name).replace('\t', " ");
    };
    let after_location = one.name.splitn(2, ": ").last().unwrap_or(&one.name);
    let change = if one.genre == Genre::FnValue {
        let head = format!("replace {} {}", function.function_name, function.return_type);
        let value = after_location.strip_prefix(head.trim_end()).unwrap_or(after_location);
        format!("return{}", value.strip_prefix(" with").unwrap_or(value))
    } else {
        after_location
            .strip_suffix(&format!(" in {}", function.function_name))
            .unwrap_or(after_location)
            .to_string()
    };
    change.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the mutants to test: every one of the full folders, and those of the sampled functions elsewhere.
pub(crate) fn select(mutants: Vec<Mutant>) -> Vec<Mutant> {
    let mut selected: Vec<Mutant> = mutants.into_iter().filter(|mutant| is_selected(&mutant.name)).collect();
    // The folders that are tested in full come first, in their order; the sample follows.
    selected.sort_by_key(|mutant| {
        FULL.iter().position(|prefix| mutant.name.file.starts_with(prefix)).unwrap_or(FULL.len())
    });
    selected
}

/// Returns whether a mutant is tested. The draw depends on the function's name only, so that moved lines, files and new
/// functions elsewhere change nothing.
fn is_selected(name: &Name) -> bool {
    if name.file.starts_with(NEVER) {
        return false;
    }
    is_full(&name.file) || hash(&format!("{SAMPLE_SEED} {}", name.function)) % 100 < SAMPLE_PERCENT
}

/// Returns whether every mutant of the file is tested.
pub(crate) fn is_full(file: &str) -> bool {
    FULL.iter().any(|prefix| file.starts_with(prefix))
}

/// Returns the tokens of Rust text, without comments and layout.
fn tokens(text: &str) -> String {
    text.parse::<proc_macro2::TokenStream>().map_or_else(|_| text.to_string(), |tokens| tokens.to_string())
}

/// FNV-1a with a final mix, so that every bit depends on every byte.
pub(crate) fn hash(text: &str) -> u64 {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

/// Returns the bytes of a span.
fn bytes(text: &str, span: Span) -> std::ops::Range<usize> {
    offset(text, span.start)..offset(text, span.end)
}

fn offset(text: &str, position: Position) -> usize {
    let line: usize = text.split_inclusive('\n').take(position.line - 1).map(str::len).sum();
    let chars = text[line..].chars().take(position.column - 1);
    line + chars.map(char::len_utf8).sum::<usize>()
}
