//! Scale-up: which node templates to add, and how many nodes of each, so that pods get nodes.
//!
//! Every count is tried: the nodes are added, the scheduler decides about all pods, and both are undone. The answer is
//! therefore what really adding the nodes gives. Arithmetic on requests only chooses which counts to try.

use super::changes::{NodeTemplate, Placement};
use super::packing::EmptyNode;
use super::{Cluster, ClusterError};
use crate::prepare::owners::OwnedPod;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use supercargo_core::model::node::NodeInfo;
use supercargo_core::model::pod::PodInfo;

/// A kind of node that can be added.
#[derive(Clone, Copy, Debug)]
pub struct ScaleUpTemplate<'a> {
    /// The name by which the answer refers to it.
    pub name: &'a str,
    /// The template of its nodes.
    pub node: NodeTemplate<'a>,
}

/// The pods that need nodes.
#[derive(Clone, Copy, Debug)]
pub enum ScaleUpPods<'a> {
    /// The pending pods of the cluster, in the order of their arrival.
    Pending,
    /// These, as [`Cluster::place`] takes them.
    Objects(&'a [Value]),
    /// So many copies of a pod, as [`Cluster::place_copies`] makes them.
    Copies(&'a Value, usize),
}

/// Which nodes to add.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleUp {
    /// The nodes to add, in this order; empty if no node helps or none is needed.
    pub nodes: Vec<ScaleUpNodes>,
    /// The decision about each pod once these nodes exist.
    pub placements: Vec<Placement>,
    /// Number of pods that stay pending.
    pub pending: usize,
    /// Number of pods that stay pending without new nodes.
    pub pending_without: usize,
    /// The result of each template alone, in the order in which they were given.
    pub options: Vec<ScaleUpOption>,
}

/// New nodes of one template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleUpNodes {
    /// The template's name.
    pub template: String,
    /// The number of nodes.
    pub count: usize,
    /// Their names.
    pub names: Vec<String>,
}

/// The result with one template alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleUpOption {
    /// The template's name.
    pub template: String,
    /// The number of nodes: with one less, more pods stay pending.
    pub count: usize,
    /// Number of pods that stay pending with these nodes.
    pub pending: usize,
}

impl Cluster {
    /// Returns which nodes to add, at most `nodes_max`, so that as few of these pods as possible stay pending.
    /// Templates are combined if one alone does not suffice. The cluster stays as it is.
    ///
    /// Adding the nodes of the answer in its order with [`Self::add_nodes`], and placing the pods then, gives the
    /// placements of the answer. Of templates that leave equally many pods pending, the one with the fewest nodes is
    /// chosen.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use supercargo_whatif::cluster::{Cluster, NodeTemplate, ScaleUpPods, ScaleUpTemplate, Setup};
    /// let node = |name: &str, cpu: &str| json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
    ///     "status": { "allocatable": { "cpu": cpu, "memory": "8Gi", "pods": "110" } } });
    /// let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" }, "spec": { "containers":
    ///     [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": "3" } } }] } });
    /// let mut cluster = Cluster::from_objects(vec![node("a", "4")], &Setup::default())?;
    /// let large = node("large", "8");
    /// let templates = [
    ///     ScaleUpTemplate { name: "small", node: NodeTemplate::Like("a") },
    ///     ScaleUpTemplate { name: "large", node: NodeTemplate::Object(&large) },
    /// ];
    /// let answer = cluster.scale_up(&templates, ScaleUpPods::Copies(&pod, 5), 100)?;
    /// assert_eq!((answer.nodes[0].template.as_str(), answer.nodes[0].count), ("large", 2));
    /// assert_eq!(answer.options.iter().map(|it| it.count).collect::<Vec<_>>(), [4, 2]);
    /// assert_eq!((answer.pending_without, answer.pending), (4, 0));
    /// # Ok::<(), supercargo_whatif::cluster::ClusterError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::place`], and if a template is invalid.
    pub fn scale_up(
        &mut self,
        templates: &[ScaleUpTemplate<'_>],
        pods: ScaleUpPods<'_>,
        nodes_max: usize,
    ) -> Result<ScaleUp, ClusterError> {
        self.fork();
        let answer = Search::new(self, templates, pods, nodes_max).and_then(|mut search| search.run());
        self.undo()?;
        answer
    }
}

/// Numbers of nodes by position of the template, in the order in which they are added.
type Nodes = Vec<(usize, usize)>;

struct Template {
    name: String,
    info: NodeInfo,
    daemons: Vec<OwnedPod>,
}

/// The result of a trial with some nodes.
struct Tried {
    names: Vec<Vec<String>>,
    placements: Vec<Placement>,
    pending: usize,
}

struct Search<'a> {
    cluster: &'a mut Cluster,
    templates: Vec<Template>,
    /// The pods to place; `None` for those of the queue.
    pods: Option<Vec<OwnedPod>>,
    /// All pods in question, by `namespace/name`.
    by_key: BTreeMap<String, Arc<PodInfo>>,
    nodes_max: usize,
}

impl<'a> Search<'a> {
    fn new(
        cluster: &'a mut Cluster,
        templates: &[ScaleUpTemplate<'_>],
        pods: ScaleUpPods<'_>,
        nodes_max: usize,
    ) -> Result<Self, ClusterError> {
        let mut read = Vec::with_capacity(templates.len());
        for &ScaleUpTemplate { name, node } in templates {
            let (info, daemons) = cluster.template(node).map_err(|error| match error {
                ClusterError::Invalid(text) => ClusterError::Invalid(format!("template {name}: {text}")),
                other => other,
            })?;
            read.push(Template { name: name.to_owned(), info, daemons });
        }
        let pods = match pods {
            ScaleUpPods::Pending => None,
            ScaleUpPods::Objects(objects) => Some(cluster.given(objects)?),
            ScaleUpPods::Copies(template, count) => Some(cluster.copies(template, count)?),
        };
        let mut by_key = BTreeMap::new();
        let queued = cluster.queue.values().filter_map(|key| cluster.pod_info(key));
        for pod in queued.chain(pods.iter().flatten().map(|owned| &owned.pod)) {
            by_key.insert(cluster.trial().snapshot().pod_key(pod), Arc::clone(pod));
        }
        Ok(Self { cluster, templates: read, pods, by_key, nodes_max })
    }

    fn run(&mut self) -> Result<ScaleUp, ClusterError> {
        let (mut chosen, mut best) = (Nodes::new(), self.tried(&[])?);
        let pending_without = best.pending;
        let mut options = Vec::new();
        while best.pending > 0 && chosen.len() < self.templates.len() && !self.is_over() {
            let mut next: Option<(Nodes, Tried)> = None;
            for at in 0..self.templates.len() {
                if chosen.iter().any(|&(before, _)| before == at) {
                    continue;
                }
                let found = self.fewest(&chosen, at, &best)?;
                if chosen.is_empty() {
                    let (count, pending) =
                        found.as_ref().map_or((0, best.pending), |(count, tried)| (*count, tried.pending));
                    options.push(ScaleUpOption { template: self.templates[at].name.clone(), count, pending });
                }
                let Some((count, tried)) = found else { continue };
                let nodes: Nodes = chosen.iter().copied().chain([(at, count)]).collect();
                let rank = |nodes: &Nodes, tried: &Tried| (tried.pending, total(nodes));
                if next.as_ref().is_none_or(|(other, of)| rank(&nodes, &tried) < rank(other, of)) {
                    next = Some((nodes, tried));
                }
            }
            let Some(found) = next else { break };
            (chosen, best) = found;
        }
        let Tried { names, placements, pending } = best;
        let nodes = chosen.into_iter().zip(names).map(|((at, count), names)| ScaleUpNodes {
            template: self.templates[at].name.clone(),
            count,
            names,
        });
        Ok(ScaleUp { nodes: nodes.collect(), placements, pending, pending_without, options })
    }

    fn is_over(&self) -> bool {
        self.cluster.interrupt().is_over()
    }

    /// Adds nodes, decides about all pods, and undoes both.
    fn tried(&mut self, nodes: &[(usize, usize)]) -> Result<Tried, ClusterError> {
        self.cluster.fork();
        let names = nodes.iter().map(|&(at, count)| {
            let Template { info, daemons, .. } = &self.templates[at];
            self.cluster.add_copies(info, daemons, count)
        });
        let names = names.collect();
        let decided = match self.pods.clone() {
            None => Ok(self.cluster.place_pending()),
            Some(pods) => self.cluster.enqueue(pods).map(|keys| self.cluster.decide(&keys)),
        };
        self.cluster.undo()?;
        let placements = decided?;
        let pending = placements.iter().filter(|it| it.node.is_none()).count();
        Ok(Tried { names, placements, pending })
    }

    /// Finds the fewest nodes of a template, beside the chosen ones, that leave as few pods pending as possible.
    fn fewest(
        &mut self,
        chosen: &Nodes,
        at: usize,
        before: &Tried,
    ) -> Result<Option<(usize, Tried)>, ClusterError> {
        let room = self.nodes_max.saturating_sub(total(chosen));
        // The largest count that is known to leave more pods pending than the best one, which follows.
        let mut low = 0;
        let mut best: Option<(usize, Tried)> = None;
        let mut step = self.estimate(at, before);
        let mut is_last = false;
        loop {
            let (count, now) = best.as_ref().map_or((0, before), |(count, tried)| (*count, tried));
            let next = (count + step).min(room);
            if now.pending == 0 || next == count || self.is_over() {
                break;
            }
            let tried = self.tried(&with(chosen, at, next))?;
            if tried.pending < now.pending {
                let (gained, added) = (now.pending - tried.pending, next - count);
                step = (tried.pending * added).div_ceil(gained).max(self.estimate(at, &tried));
                low = count;
                best = Some((next, tried));
                is_last = false;
            } else if is_last {
                break;
            } else {
                // Pods that start only together, or repel each other, may need a node each.
                step = now.pending.max(next - count + 1);
                is_last = true;
            }
        }
        let Some((mut count, mut found)) = best else { return Ok(None) };
        // One less is the most probable candidate, then a few less.
        let (mut less, mut is_close) = (1, true);
        while count - low > 1 && !self.is_over() {
            let probe =
                if is_close { count.saturating_sub(less).max(low + 1) } else { low + (count - low) / 2 };
            let tried = self.tried(&with(chosen, at, probe))?;
            if tried.pending <= found.pending {
                (count, found) = (probe, tried);
                less *= 2;
            } else {
                (low, is_close) = (probe, false);
            }
        }
        Ok(Some((count, found)))
    }

    /// Returns about how many empty nodes of a template the pending pods need; at least 1.
    fn estimate(&self, at: usize, tried: &Tried) -> usize {
        let Template { info, daemons, .. } = &self.templates[at];
        let node = EmptyNode::of(info, daemons.iter().map(|owned| &owned.pod.resources.placed));
        let pending = tried.placements.iter().filter(|it| it.node.is_none());
        let requests = pending.filter_map(|it| Some(&self.by_key.get(&it.pod)?.resources.placed));
        node.needed(&requests.collect::<Vec<_>>())
    }
}

fn total(nodes: &Nodes) -> usize {
    nodes.iter().map(|&(_, count)| count).sum()
}

fn with(chosen: &Nodes, at: usize, count: usize) -> Nodes {
    chosen.iter().copied().chain([(at, count)]).collect()
}
