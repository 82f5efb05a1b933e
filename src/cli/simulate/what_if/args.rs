//! The flags of `supercargo simulate` that change the cluster first, or compare.

use clap::Args;

/// The most nodes or pods that one flag makes.
pub(in crate::cli) const MOST: usize = 100_000;

/// What is changed before anything is decided.
#[derive(Clone, Debug, Default, Args)]
pub struct ChangeArgs {
    /// So many more nodes like one there is, with copies of its DaemonSets' pods.
    #[arg(long, value_name = "N:template=NODE", value_parser = AddNodes::parse)]
    pub add_nodes: Vec<AddNodes>,

    /// A node less. Its pods are placed anew; those of DaemonSets and of the kubelet go with it.
    #[arg(long, value_name = "NODE", value_parser = crate::cli::names::node)]
    pub remove_node: Vec<String>,

    /// So many pods of a workload, such as `web=5` or `deployment/web=5`.
    #[arg(long, value_name = "[KIND/]NAME=N", value_parser = Scale::parse)]
    pub scale: Vec<Scale>,

    /// Namespace of the workloads of --scale. Without it: that of the context, or `default`.
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
}

impl ChangeArgs {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.add_nodes.is_empty() && self.remove_node.is_empty() && self.scale.is_empty()
    }
}

/// `N:template=NODE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddNodes {
    /// How many.
    pub count: usize,
    /// The node they are like.
    pub template: String,
}

impl AddNodes {
    /// # Errors
    /// With what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || "write how many and which node they are like, for example 3:template=worker-1".to_owned();
        let (count, template) = text.split_once(":template=").ok_or_else(wrong)?;
        let template = crate::cli::names::node(template).map_err(|_| wrong())?;
        Ok(Self { count: number(count)?, template })
    }
}

/// `[KIND/]NAME=N`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The kind, as written; `None` where none is.
    pub kind: Option<String>,
    /// The name.
    pub name: String,
    /// How many pods there are to be.
    pub replicas: usize,
}

impl Scale {
    /// # Errors
    /// With what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || "write the workload and how many pods, for example web=5 or deployment/web=5".to_owned();
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
    number.ok_or_else(|| format!("{text:?} is no number from 0 to {MOST}"))
}

/// What others call a kind.
const SHORT: [(&str, &str); 10] = [
    ("deploy", "Deployment"),
    ("deployments", "Deployment"),
    ("sts", "StatefulSet"),
    ("statefulsets", "StatefulSet"),
    ("rs", "ReplicaSet"),
    ("replicasets", "ReplicaSet"),
    ("rc", "ReplicationController"),
    ("replicationcontrollers", "ReplicationController"),
    ("ds", "DaemonSet"),
    ("jobs", "Job"),
];

/// Whether `written` means this kind, as kubectl takes it.
pub(in crate::cli) fn means_kind(written: &str, kind: &str) -> bool {
    let written = written.to_lowercase();
    written == kind.to_lowercase() || SHORT.contains(&(written.as_str(), kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_as_they_are_written() {
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
        assert!(means_kind("Deploy", "Deployment") && means_kind("statefulset", "StatefulSet"));
        assert!(!means_kind("sts", "Deployment"));
    }
}
