//! Names as people write them: with the kind in front, as kubectl prints them, or without.

/// What kubectl calls nodes and pods.
const NODES: [&str; 3] = ["node", "nodes", "no"];
const PODS: [&str; 3] = ["pod", "pods", "po"];

/// Whether a word stands for pods.
pub(super) fn is_pod(kind: &str) -> bool {
    PODS.contains(&kind)
}

/// The name of a node, written as `worker-1` or `node/worker-1`.
///
/// # Errors
/// In words, where it is empty or of another kind.
pub(super) fn node(text: &str) -> Result<String, String> {
    let name = match text.split_once('/') {
        Some((kind, name)) if NODES.contains(&kind) => name,
        Some((kind, _)) => return Err(format!("{kind:?} is no node; write node/NAME or NAME")),
        None => text,
    };
    if name.is_empty() || name.contains('/') {
        return Err("write node/NAME or NAME".to_owned());
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_its_kind_in_front_and_no_other() {
        for written in ["w1", "node/w1", "nodes/w1", "no/w1"] {
            assert_eq!(node(written).as_deref(), Ok("w1"), "{written}");
        }
        for wrong in ["", "node/", "pod/w1", "node/a/b"] {
            assert!(node(wrong).is_err(), "{wrong}");
        }
    }
}
