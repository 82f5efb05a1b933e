//! Parses names of nodes and pods as kubectl prints them, with or without the kind: `node/worker-1`,
//! `worker-1`.

/// Names that kubectl accepts for the kinds Node, Pod and PodGroup.
const NODES: [&str; 3] = ["node", "nodes", "no"];
const PODS: [&str; 3] = ["pod", "pods", "po"];
const POD_GROUPS: [&str; 2] = ["podgroup", "podgroups"];

/// Returns whether a word is a name of the kind Pod.
pub(crate) fn is_pod(kind: &str) -> bool {
    PODS.contains(&kind)
}

/// Returns whether a word is a name of the kind PodGroup.
pub(crate) fn is_pod_group(kind: &str) -> bool {
    POD_GROUPS.contains(&kind)
}

/// Returns the kind of workload that a word names as in kubectl.
pub(crate) fn workload_kind(word: &str) -> Option<&'static str> {
    let kinds: [(&str, &[&str]); 6] = [
        ("Deployment", &["deployment", "deployments", "deploy"]),
        ("ReplicaSet", &["replicaset", "replicasets", "rs"]),
        ("StatefulSet", &["statefulset", "statefulsets", "sts"]),
        ("DaemonSet", &["daemonset", "daemonsets", "ds"]),
        ("Job", &["job", "jobs"]),
        ("ReplicationController", &["replicationcontroller", "replicationcontrollers", "rc"]),
    ];
    kinds.into_iter().find(|(_, words)| words.contains(&word)).map(|(kind, _)| kind)
}

/// Parses the name of a node, written as `worker-1` or `node/worker-1`.
///
/// # Errors
/// Returns a message if the name is empty or has another kind.
pub(crate) fn node(text: &str) -> Result<String, String> {
    let name = match text.split_once('/') {
        Some((kind, name)) if NODES.contains(&kind) => name,
        Some((kind, _)) => return Err(format!("{kind:?} is not a kind of node; expected node/NAME or NAME")),
        None => text,
    };
    if name.is_empty() || name.contains('/') {
        return Err("expected node/NAME or NAME".to_owned());
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_name_accepts_only_the_node_kind_prefix() {
        for written in ["w1", "node/w1", "nodes/w1", "no/w1"] {
            assert_eq!(node(written).as_deref(), Ok("w1"), "{written}");
        }
        for wrong in ["", "node/", "pod/w1", "node/a/b"] {
            assert!(node(wrong).is_err(), "{wrong}");
        }
    }
}
