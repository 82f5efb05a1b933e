//! Names of objects of the cluster, as candidates for completion. Any error gives no candidates.

use crate::live::listed::{self, Listed, Named};
use crate::names::{is_pod, is_pod_group, workload_kind};
use clap_complete::CompletionCandidate;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Kinds that `explain` takes, as kubectl's users write them.
const KINDS: [&str; 7] = ["pod/", "podgroup/", "deploy/", "sts/", "ds/", "job/", "rs/"];

/// The command line that is being completed. Completers see only their own word, and need the flags beside it.
static LINE: OnceLock<Vec<String>> = OnceLock::new();

/// Remembers the command line, once for the process.
pub(crate) fn remember(line: &[OsString]) {
    // A second line exists only in tests.
    let _ = LINE.set(line.iter().map(|word| word.to_string_lossy().into_owned()).collect());
}

fn line() -> &'static [String] {
    LINE.get().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the value of a flag in a line, written as `--long VALUE`, `--long=VALUE`, `-s VALUE` or `-sVALUE`.
fn flag<'l>(line: &'l [String], long: &str, short: Option<char>) -> Option<&'l str> {
    let mut found = None;
    let mut words = line.iter();
    while let Some(word) = words.next() {
        let rest = match word.strip_prefix("--") {
            Some(rest) => rest.strip_prefix(long).filter(|rest| rest.is_empty() || rest.starts_with('=')),
            None => short.and_then(|short| word.strip_prefix('-')?.strip_prefix(short)),
        };
        match rest {
            Some("") => found = words.next().map(String::as_str),
            Some(rest) => found = Some(rest.strip_prefix('=').unwrap_or(rest)),
            None => {}
        }
    }
    found
}

/// Returns the names of a kind that begin with `current`, after `prefix`.
fn of(kind: Named, prefix: &str, current: &str) -> Vec<CompletionCandidate> {
    let line = line();
    let asked = Listed {
        kubeconfig: flag(line, "kubeconfig", None).map(PathBuf::from),
        context: flag(line, "context", None).map(str::to_owned),
        namespace: flag(line, "namespace", Some('n')).map(str::to_owned),
    };
    let names = listed::names(asked, kind).into_iter().filter(|name| name.starts_with(current));
    names.map(|name| CompletionCandidate::new(format!("{prefix}{name}"))).collect()
}

/// Completes names of pods.
pub fn pods(current: &OsStr) -> Vec<CompletionCandidate> {
    of(Named::Pods, "", &current.to_string_lossy())
}

/// Completes names of pods without a node.
pub fn pending_pods(current: &OsStr) -> Vec<CompletionCandidate> {
    of(Named::PendingPods, "", &current.to_string_lossy())
}

/// Completes names of nodes.
pub fn nodes(current: &OsStr) -> Vec<CompletionCandidate> {
    of(Named::Nodes, "", &current.to_string_lossy())
}

/// Completes names of namespaces.
pub fn namespaces(current: &OsStr) -> Vec<CompletionCandidate> {
    of(Named::Namespaces, "", &current.to_string_lossy())
}

/// Completes names of the kubeconfig's contexts.
pub fn contexts(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let file = flag(line(), "kubeconfig", None).map(PathBuf::from);
    let names = listed::contexts(file).into_iter().filter(|name| name.starts_with(&*current));
    names.map(CompletionCandidate::new).collect()
}

/// Completes `KIND/NAME`.
pub fn targets(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    match current.split_once('/') {
        Some((kind, name)) => of_kind(kind, &format!("{kind}/"), name),
        None => {
            let kinds = KINDS.into_iter().filter(|kind| kind.starts_with(&*current));
            kinds.map(CompletionCandidate::new).collect()
        }
    }
}

/// Completes the name of a pod, or `KIND/NAME`.
pub fn pods_and_targets(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut all = targets(current);
    if !current.to_string_lossy().contains('/') {
        all.extend(pods(current));
    }
    all
}

/// Completes the name after a kind: `explain pod NAME`.
pub fn names_of_kind(current: &OsStr) -> Vec<CompletionCandidate> {
    let kind = line().iter().map(String::as_str).find(|word| kind_named(word).is_some());
    of_kind(kind.unwrap_or_default(), "", &current.to_string_lossy())
}

fn of_kind(kind: &str, prefix: &str, name: &str) -> Vec<CompletionCandidate> {
    kind_named(kind).map_or_else(Vec::new, |kind| of(kind, prefix, name))
}

fn kind_named(kind: &str) -> Option<Named> {
    if is_pod(kind) {
        return Some(Named::Pods);
    }
    if is_pod_group(kind) {
        return Some(Named::PodGroups);
    }
    workload_kind(kind).map(Named::Workloads)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(candidates: &[CompletionCandidate]) -> Vec<String> {
        candidates.iter().map(|it| it.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn flags_of_the_line_are_found_in_every_form() {
        let line = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for text in
            ["why -n shop p", "why -nshop p", "why --namespace shop", "why --namespace=shop", "-n a -n shop"]
        {
            assert_eq!(flag(&line(text), "namespace", Some('n')), Some("shop"), "{text}");
        }
        for text in ["why p", "why --namespaces=shop", "why -n"] {
            assert_ne!(flag(&line(text), "namespace", Some('n')), Some("shop"), "{text}");
        }
    }

    #[test]
    fn kinds_are_completed_without_a_cluster() {
        assert_eq!(values(&targets(OsStr::new("d"))), ["deploy/", "ds/"]);
        assert_eq!(values(&targets(OsStr::new("nodes/"))), [""; 0]);
    }

    #[test]
    fn kinds_are_named_as_in_kubectl() {
        assert_eq!(kind_named("deploy"), Some(Named::Workloads("Deployment")));
        assert_eq!([kind_named("po"), kind_named("podgroup")], [Some(Named::Pods), Some(Named::PodGroups)]);
        assert_eq!(kind_named("node"), None);
    }
}
