//! Questions about one pod: why it is where it is, and which nodes are feasible for it.

use super::{Cluster, ClusterError};
use crate::explain::{Explanation, Place, Question, explain, explain_group};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use supercargo_config::{DEFAULT_NAME, OWN_NAME};
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::PodInfo;

/// The nodes for a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FeasibleNodes {
    /// `namespace/name`.
    pub pod: String,
    /// The feasible nodes, in the order in which they were given, or else sorted.
    pub nodes: Vec<String>,
    /// The other nodes, in the same order.
    pub rejected: Vec<RejectedNode>,
}

/// A node that is not feasible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RejectedNode {
    /// The node's name.
    pub node: String,
    /// All reasons against it, in the scheduler's words.
    pub reasons: Vec<String>,
}

impl Cluster {
    /// Explains why a pod, given as `namespace/name`, is on its node or pending, with changes that would help.
    /// With `scores`, the answer has the score table. The cluster stays as it is.
    ///
    /// # Errors
    /// Fails if there is no such pod.
    pub fn explain(&mut self, pod: &str, scores: bool) -> Result<Explanation, ClusterError> {
        let pod = self.pod_info(pod).cloned().ok_or_else(|| ClusterError::NoPod(pod.to_owned()))?;
        // A pod that was placed here is assumed on its node, which its object does not name.
        let node = self.trial().placement(&pod.uid).map(|(_, node)| node).or(pod.node_name);
        Ok(self.explained(&Arc::new(PodInfo { node_name: node, ..PodInfo::clone(&pod) }), scores))
    }

    /// Explains where a pod would go, or why nowhere. The pod is the first that [`Self::place`] would place.
    ///
    /// # Errors
    /// As [`Self::place`], and if the objects make no pod.
    pub fn explain_given(&mut self, objects: &[Value]) -> Result<Explanation, ClusterError> {
        self.with_given(objects, |cluster, pod| Ok(cluster.explained(pod, false)))
    }

    fn explained(&mut self, pod: &Arc<PodInfo>, scores: bool) -> Explanation {
        let pending: Vec<Arc<PodInfo>> =
            self.queue.values().filter_map(|key| self.pod_info(key)).cloned().collect();
        let is_ours = self.is_ours(pod);
        let mut place = Place { trial: self.trial_mut(), pending: &pending };
        let mut answer = explain(&mut place, pod, Question { is_ours, scores, ..Question::default() });
        if let Some(key) = pod.group_key() {
            let group = explain_group(&mut place, key);
            group.apply_to(pod, &mut answer);
            answer.group = Some(group.explanation);
        }
        self.trial_mut().refreshed();
        answer
    }

    /// Returns whether a profile serves the pod's scheduler name. The default plugins serve the usual names.
    fn is_ours(&self, pod: &PodInfo) -> bool {
        let name = self.trial().tables().text(pod.scheduler_name);
        let is_default = self.trial().profile_names().eq([OWN_NAME]);
        self.trial().profile_names().any(|own| own == name)
            || is_default && [DEFAULT_NAME, ""].contains(&name)
    }

    /// Returns which nodes are feasible for a pod now, and all reasons against the others. `among` names the nodes to
    /// judge; without it, all are judged. The cluster stays as it is.
    ///
    /// # Errors
    /// As [`Self::place`], and if a named node does not exist.
    pub fn feasible_nodes(
        &mut self,
        objects: &[Value],
        among: Option<&[String]>,
    ) -> Result<FeasibleNodes, ClusterError> {
        self.with_given(objects, |cluster, pod| {
            let names: Vec<String> = match among {
                Some(names) => names.to_vec(),
                None => cluster.nodes().into_iter().map(str::to_owned).collect(),
            };
            cluster.judged(pod, &names)
        })
    }

    fn judged(&self, pod: &PodInfo, names: &[String]) -> Result<FeasibleNodes, ClusterError> {
        let snapshot = self.trial().snapshot();
        let find = |name: &String| {
            let node = self.node(name)?;
            snapshot.find_node(node).ok_or_else(|| ClusterError::NoNode(name.clone()))
        };
        let nodes: Vec<NodeIdx> = names.iter().map(find).collect::<Result<_, _>>()?;
        let findings = self.trial().framework(pod).explain_on(pod, snapshot, nodes);
        let before: Vec<String> = findings.before.iter().flat_map(texts).collect();
        let (mut feasible, mut rejected) = (Vec::new(), Vec::new());
        for (name, judged) in names.iter().zip(findings.nodes) {
            let reasons: Vec<String> =
                before.iter().cloned().chain(judged.objections.iter().flat_map(texts)).collect();
            match reasons.is_empty() {
                true => feasible.push(name.clone()),
                false => rejected.push(RejectedNode { node: name.clone(), reasons }),
            }
        }
        Ok(FeasibleNodes { pod: snapshot.pod_key(pod), nodes: feasible, rejected })
    }

    /// Answers a question about the first pod of these objects, and undoes what belongs to it.
    fn with_given<T>(
        &mut self,
        objects: &[Value],
        ask: impl FnOnce(&mut Self, &Arc<PodInfo>) -> Result<T, ClusterError>,
    ) -> Result<T, ClusterError> {
        self.fork();
        let answer = self.given_pods(objects).and_then(|pods| {
            let pod = pods.into_iter().next();
            let pod = pod.ok_or_else(|| ClusterError::Invalid("the objects make no pod".to_owned()))?;
            self.trial_mut().refreshed();
            ask(self, &pod)
        });
        self.undo()?;
        answer
    }
}

fn texts(objection: &supercargo_core::explain::Objection) -> Vec<String> {
    objection.reasons.iter().map(ToString::to_string).collect()
}
