//! The modules at the root of a package form no cycle.

use super::{assert_none, sources};
use std::collections::{BTreeMap, BTreeSet};

type Uses = BTreeMap<String, BTreeSet<String>>;

/// Packages whose modules are checked. The simulator and the developer programs are small, and their modules belong
/// together.
const PACKAGES: [&str; 7] = [
    "src",
    "crates/apiserver/src",
    "crates/cli/src",
    "crates/config/src",
    "crates/core/src",
    "crates/objects/src",
    "crates/whatif/src",
];

#[test]
fn modules_of_a_package_form_no_cycle() {
    let sources = sources();
    let mut breaches = Vec::new();
    for package in PACKAGES {
        let uses = uses(package, &sources);
        assert!(uses.len() > 1, "{package} has modules: {uses:?}");
        breaches.extend(cycle(&uses).map(|cycle| format!("{package}: {}", cycle.join(" -> "))));
    }
    assert_none("modules that use each other", &breaches);
}

#[test]
fn cycle_of_modules_is_found() {
    let of = |pairs: &[(&str, &[&str])]| -> Uses {
        let owned = |names: &&[&str]| names.iter().map(|&name| name.to_owned()).collect();
        pairs.iter().map(|(name, names)| ((*name).to_owned(), owned(names))).collect()
    };
    assert_eq!(cycle(&of(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])), None);
    let found = cycle(&of(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]));
    assert_eq!(found, Some(["b", "c", "b"].map(str::to_owned).to_vec()));
}

/// Returns the modules of a package, each with those that its code names as `crate::module`. Tests may name any.
fn uses(package: &str, sources: &[(String, String)]) -> Uses {
    let mut uses = Uses::new();
    let own = || {
        sources.iter().filter_map(|(name, text)| Some((name.strip_prefix(package)?.strip_prefix('/')?, text)))
    };
    for (name, _) in own() {
        let module = name.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        if !["lib", "main"].contains(&module) {
            uses.entry(module.to_owned()).or_default();
        }
    }
    let modules: BTreeSet<String> = uses.keys().cloned().collect();
    for (name, text) in own().filter(|(name, _)| !name.ends_with("tests.rs") && !name.contains("/tests/")) {
        let module = name.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        for part in code.flat_map(|line| line.split("crate::").skip(1)) {
            let end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(part.len());
            let named = &part[..end];
            if modules.contains(named)
                && named != module
                && let Some(names) = uses.get_mut(&module)
            {
                names.insert(named.to_owned());
            }
        }
    }
    uses
}

/// Returns a cycle, from a module back to itself.
fn cycle(uses: &Uses) -> Option<Vec<String>> {
    let mut finished = BTreeSet::new();
    uses.keys().find_map(|start| search(uses, start, &mut Vec::new(), &mut finished))
}

fn search(
    uses: &Uses,
    at: &str,
    path: &mut Vec<String>,
    finished: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if let Some(from) = path.iter().position(|module| module == at) {
        return Some(path[from..].iter().cloned().chain([at.to_owned()]).collect());
    }
    if finished.contains(at) {
        return None;
    }
    path.push(at.to_owned());
    let found = uses.get(at).into_iter().flatten().find_map(|next| search(uses, next, path, finished));
    path.pop();
    finished.insert(at.to_owned());
    found
}
