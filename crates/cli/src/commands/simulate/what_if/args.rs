//! The flags of `supercargo simulate` that apply hypothetical changes or compare configurations.

use crate::live::candidates;
use clap::Args;
use clap_complete::ArgValueCompleter;

/// The most nodes or pods that one flag may add.
pub(super) const MOST: usize = 100_000;

/// Hypothetical changes to apply before scheduling.
#[derive(Clone, Debug, Default, Args)]
pub struct ChangeArgs {
    /// Add N nodes that copy an existing node, with copies of its DaemonSet pods.
    #[arg(long, value_name = "N:template=NODE", value_parser = AddNodes::parse)]
    pub add_nodes: Vec<AddNodes>,

    /// Remove a node. Its pods are rescheduled, except DaemonSet pods and static pods, which disappear with the node.
    #[arg(
        long,
        value_name = "NODE",
        value_parser = crate::names::node,
        add = ArgValueCompleter::new(candidates::nodes)
    )]
    pub remove_node: Vec<String>,

    /// Set the number of pods of a workload, for example `web=5` or `deployment/web=5`.
    #[arg(long, value_name = "[KIND/]NAME=N", value_parser = Scale::parse)]
    pub scale: Vec<Scale>,

    /// Namespace of the workloads in --scale; the default is the namespace of the kubeconfig context, or `default`.
    #[arg(short = 'n', long, value_name = "NAMESPACE", add = ArgValueCompleter::new(candidates::namespaces))]
    pub namespace: Option<String>,
}

impl ChangeArgs {
    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.add_nodes.is_empty() && self.remove_node.is_empty() && self.scale.is_empty()
    }
}

/// The value of `--add-nodes`: `N:template=NODE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddNodes {
    /// Number of nodes to add, 0 to 100,000.
    pub count: usize,
    /// Name of the node to copy.
    pub template: String,
}

impl AddNodes {
    /// # Errors
    /// Fails if the text does not have this form; the error names the expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "expected N:template=NODE, for example 3:template=worker-1".to_owned();
        let (count, template) = text.split_once(":template=").ok_or_else(wrong)?;
        let template = crate::names::node(template).map_err(|_| wrong())?;
        Ok(Self { count: number(count)?, template })
    }
}

/// The value of `--scale`: `[KIND/]NAME=N`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The kind as written, or `None` if omitted.
    pub kind: Option<String>,
    /// The workload's name.
    pub name: String,
    /// The desired number of pods, 0 to 100,000.
    pub replicas: usize,
}

impl Scale {
    /// # Errors
    /// Fails if the text does not have this form; the error names the expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "expected [KIND/]NAME=N, for example web=5 or deployment/web=5".to_owned();
        let (workload, replicas) = text.split_once('=').ok_or_else(wrong)?;
        let (kind, name) = match workload.split_once('/') {
            Some((kind, name)) => (Some(kind.to_owned()), name),
            None => (None, workload),
        };
        if name.is_empty() || name.contains('/') || kind.as_ref().is_some_and(String::is_empty) {
            return Err(wrong());
        }
        Ok(Self { kind, name: name.to_owned(), replicas: number(replicas)? })
    }
}

fn number(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|&number| number <= MOST);
    number.ok_or_else(|| format!("{text:?} is not a number from 0 to {MOST}"))
}

/// Built-in workloads with the short names that kubectl accepts; empty if there is none.
pub(super) const WORKLOADS: [(&str, &str); 7] = [
    ("Deployment", "deploy"),
    ("StatefulSet", "sts"),
    ("ReplicaSet", "rs"),
    ("ReplicationController", "rc"),
    ("DaemonSet", "ds"),
    ("Job", ""),
    ("CronJob", "cj"),
];

/// Returns whether `written` names this kind, in any form that kubectl accepts: the kind, its plural or its short
/// name, and a group after a point.
pub(crate) fn means_kind(written: &str, kind: &str) -> bool {
    let written = written.to_lowercase();
    let name = written.split('.').next().unwrap_or_default();
    let singular = kind.to_lowercase();
    let is_short = |&(of, short): &(&str, &str)| of == kind && !short.is_empty() && short == name;
    name == singular || name.strip_suffix('s') == Some(&singular) || WORKLOADS.iter().any(is_short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn add_nodes_and_scale_parse_valid_values_and_reject_others() {
        let two = AddNodes { count: 2, template: "worker".to_owned() };
        assert_eq!(AddNodes::parse("2:template=worker"), Ok(two));
        let scale =
            |kind: Option<&str>| Scale { kind: kind.map(str::to_owned), name: "web".to_owned(), replicas: 5 };
        assert_eq!(Scale::parse("web=5"), Ok(scale(None)));
        assert_eq!(Scale::parse("deploy/web=5"), Ok(scale(Some("deploy"))));
        for wrong in ["", "2", "2:worker", ":template=a", "2:template=", "-1:template=a", "100001:template=a"]
        {
            assert!(AddNodes::parse(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "web", "web=", "web=x", "=5", "/web=5", "a/b/c=5", "web=100001"] {
            assert!(Scale::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn kinds_are_accepted_as_singular_plural_and_short_name() {
        for (kind, short) in WORKLOADS {
            let singular = kind.to_lowercase();
            let forms =
                [kind.to_owned(), format!("{singular}s"), format!("{singular}s.apps"), short.to_owned()];
            for form in [singular].iter().chain(&forms).filter(|form| !form.is_empty()) {
                let meant = WORKLOADS.iter().filter(|(other, _)| means_kind(form, other));
                assert_eq!(meant.map(|it| it.0).collect::<Vec<_>>(), [kind], "{form}");
            }
        }
        assert!(
            means_kind("rollouts.argoproj.io", "Rollout")
                && !means_kind("", "Job")
                && !means_kind("s", "Job")
        );
    }
}
