//! Changes of a cluster: pods that come and go, nodes, and the configuration.

use super::{At, Cluster, ClusterError, Entry, Record};
use crate::explain::claims::{afresh, with_new_ephemeral_claims, with_own_claims};
use crate::explain::device_claims::release;
use crate::explain::{node_like, uncordon};
use crate::prepare::owners::OwnedPod;
use crate::simulate::decision::OfGroup;
use crate::simulate::objects;
use crate::simulate::profiles::profiles;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use supercargo_core::model::event::Event;
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::node::NodeInfo;
use supercargo_core::model::pod::PodInfo;
use supercargo_objects::api::Object;

const HOSTNAME: &str = "kubernetes.io/hostname";

/// What was decided about a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// `namespace/name`.
    pub pod: String,
    /// The pod's node; `None` if it stays pending.
    pub node: Option<String>,
    /// Why it stays pending, in the scheduler's words.
    pub message: Option<String>,
    /// The node where preemption would make room. The victims stay.
    pub nominated_node: Option<String>,
    /// The pods, as `namespace/name`, that preemption would evict there.
    pub victims: Vec<String>,
    /// What was decided about the pod's group with all its members; `None` for other pods.
    #[serde(skip)]
    pub group: Option<Arc<OfGroup>>,
}

/// What new nodes look like.
#[derive(Clone, Copy, Debug)]
pub enum NodeTemplate<'a> {
    /// Like an existing node, with copies of its DaemonSet pods.
    Like(&'a str),
    /// A Node object in its JSON form. Its name is the prefix of the new names.
    Object(&'a Value),
}

impl Cluster {
    /// Adds pods and decides about them in the given order, each placed pod counting for the next. The members of a
    /// pod group are decided together. Pods without a feasible node stay in the queue.
    ///
    /// The objects are pods and workloads, which are expanded, with the claims and pod groups that these name.
    ///
    /// # Errors
    /// Fails if an object is invalid or of another kind, or if a pod exists already.
    pub fn place(&mut self, objects: &[Value]) -> Result<Vec<Placement>, ClusterError> {
        self.atomically(|cluster| {
            let pods = cluster.given(objects)?;
            let keys = cluster.enqueue(pods)?;
            Ok(cluster.decide(&keys))
        })
    }

    /// Adds `count` copies of a pod, or of the first pod of a workload, and decides about them. Each gets a name of its
    /// own: that of the template with a number.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use supercargo_whatif::cluster::{Cluster, NodeTemplate, Setup};
    /// # let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "a" },
    /// #     "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "110" } } });
    /// # let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" }, "spec": { "containers":
    /// #     [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": "3" } } }] } });
    /// let mut cluster = Cluster::from_objects(vec![node], &Setup::default())?;
    /// let nodes = |placed: &[supercargo_whatif::cluster::Placement]| placed.iter().flat_map(|it| &it.node).count();
    /// cluster.fork();
    /// assert_eq!(nodes(&cluster.place_copies(&pod, 3)?), 1);
    /// assert_eq!(cluster.add_nodes(NodeTemplate::Like("a"), 2)?, ["a-new-1", "a-new-2"]);
    /// assert_eq!(nodes(&cluster.place_pending()), 2);
    /// cluster.undo()?;
    /// # Ok::<(), supercargo_whatif::cluster::ClusterError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::place`].
    pub fn place_copies(&mut self, template: &Value, count: usize) -> Result<Vec<Placement>, ClusterError> {
        self.atomically(|cluster| {
            let copies = cluster.copies(template, count)?;
            let keys = cluster.enqueue(copies)?;
            Ok(cluster.decide(&keys))
        })
    }

    /// Returns copies of a pod, which join nothing yet, each with a name of its own.
    pub(super) fn copies(&mut self, template: &Value, count: usize) -> Result<Vec<OwnedPod>, ClusterError> {
        let pods = self.given(std::slice::from_ref(template))?;
        let like = pods.into_iter().next();
        let like = like.ok_or_else(|| ClusterError::Invalid("the template makes no pod".to_owned()))?;
        let mut copies = Vec::with_capacity(count);
        let namespace = self.trial().tables().text(like.pod.namespace).to_owned();
        let mut number = 0;
        while copies.len() < count {
            number += 1;
            let name = format!("{}-{number}", like.pod.name);
            if self.pod_info(&format!("{namespace}/{name}")).is_some() {
                continue;
            }
            let uid = format!("{}/{name}", like.pod.uid).into();
            let pod = PodInfo { uid, name: name.into(), ..afresh(&like.pod) };
            let pod = Arc::new(with_own_claims(self.trial_mut(), &like.pod, pod));
            copies.push(OwnedPod { pod, ..like.clone() });
        }
        Ok(copies)
    }

    /// Decides about all pending pods, in the order of their arrival.
    pub fn place_pending(&mut self) -> Vec<Placement> {
        let keys: Vec<String> = self.queue.values().cloned().collect();
        self.decide(&keys)
    }

    /// Removes a pod, given as `namespace/name`, from its node. What its controller creates instead is pending; a pod
    /// of its node, such as a DaemonSet's, and a terminating pod are gone. Returns whether the pod is pending.
    ///
    /// # Errors
    /// Fails if there is no such pod, or if it is pending already.
    pub fn evict(&mut self, pod: &str) -> Result<bool, ClusterError> {
        let record = self.pods.get(pod).ok_or_else(|| ClusterError::NoPod(pod.to_owned()))?;
        if let At::Queue(_) = record.at {
            return Err(ClusterError::Pending(pod.to_owned()));
        }
        let owned = record.owned.clone();
        let trial = self.trial_mut();
        trial.remove_pod(&owned.pod.uid);
        release(trial, &owned.pod);
        if owned.is_of_its_node() || owned.pod.deleting {
            self.change(pod.to_owned(), None);
            self.finished();
            return Ok(false);
        }
        let again = Arc::new(with_new_ephemeral_claims(trial, afresh(&owned.pod)));
        self.note(pod.to_owned(), OwnedPod { pod: again, ..owned }, None);
        self.finished();
        Ok(true)
    }

    /// Makes a cordoned node schedulable. Returns whether it exists.
    pub fn uncordon(&mut self, node: &str) -> bool {
        let exists =
            self.trial().tables().find(node).and_then(|it| self.trial().snapshot().find_node(it)).is_some();
        uncordon(self.trial_mut(), node);
        self.finished();
        exists
    }

    /// Removes a node with its pods. Returns those that are pending now, as [`Self::evict`] leaves them.
    ///
    /// # Errors
    /// Fails if there is no such node.
    pub fn remove_node(&mut self, name: &str) -> Result<Vec<String>, ClusterError> {
        let symbol = self.node(name)?;
        let snapshot = self.trial().snapshot();
        let node = snapshot.find_node(symbol).expect("the node was found by this name");
        let keys: Vec<String> = snapshot.pods_on(node).map(|pod| snapshot.pod_key(pod)).collect();
        self.atomically(|cluster| {
            let mut pending = Vec::new();
            for key in keys {
                if cluster.evict(&key)? {
                    pending.push(key);
                }
            }
            cluster.trial_mut().remove_node(symbol);
            cluster.journal.push(Entry::Node(symbol));
            cluster.finished();
            Ok(pending)
        })
    }

    /// Adds `count` nodes and returns their names: the name of the template, `-new-` and a number. The label
    /// `kubernetes.io/hostname` of each is its name.
    ///
    /// # Errors
    /// Fails if the template is invalid or no node has its name.
    pub fn add_nodes(&mut self, like: NodeTemplate<'_>, count: usize) -> Result<Vec<String>, ClusterError> {
        let (info, daemons) = self.template(like)?;
        Ok(self.add_copies(&info, &daemons, count))
    }

    /// Adds `count` copies of a node with copies of these pods, and returns their names.
    pub(super) fn add_copies(&mut self, info: &NodeInfo, daemons: &[OwnedPod], count: usize) -> Vec<String> {
        let prefix = self.trial().tables().text(info.name).to_owned();
        let mut names = Vec::with_capacity(count);
        let mut number = 0;
        while names.len() < count {
            number += 1;
            let name = format!("{prefix}-new-{number}");
            if self.node(&name).is_err() {
                self.add_node(info, &name, daemons);
                names.push(name);
            }
        }
        self.finished();
        names
    }

    /// Replaces the KubeSchedulerConfiguration by that of a file, or by the defaults. Placed pods stay where they are.
    ///
    /// # Errors
    /// Fails if the configuration is invalid or names extenders.
    pub fn set_config(&mut self, config: Option<&Path>) -> Result<(), ClusterError> {
        let profiles = profiles(config, self.trial_mut().tables_mut())?;
        let before = self.trial_mut().replace_profiles(profiles);
        if !self.forks.is_empty() {
            self.journal.push(Entry::Profiles(before));
        }
        Ok(())
    }

    pub(super) fn node(&self, name: &str) -> Result<Symbol, ClusterError> {
        let symbol = self.trial().tables().find(name);
        let symbol = symbol.filter(|&symbol| self.trial().snapshot().find_node(symbol).is_some());
        symbol.ok_or_else(|| ClusterError::NoNode(name.to_owned()))
    }

    /// Returns the object of a template, and the pods that each new node gets a copy of.
    pub(super) fn template(
        &mut self,
        like: NodeTemplate<'_>,
    ) -> Result<(NodeInfo, Vec<OwnedPod>), ClusterError> {
        let name = match like {
            NodeTemplate::Object(value) => return Ok((self.node_object(value)?, Vec::new())),
            NodeTemplate::Like(name) => self.node(name)?,
        };
        let snapshot = self.trial().snapshot();
        let node = snapshot.find_node(name).expect("the node was found by this name");
        let keys = snapshot.pods_on(node).map(|pod| snapshot.pod_key(pod));
        let here = keys.filter_map(|key| self.pods.get(&key)).map(|record| record.owned.clone());
        let is_daemon = |owned: &OwnedPod| owned.owner.as_ref().is_some_and(|it| &*it.kind == "DaemonSet");
        let daemons = here.filter(is_daemon).collect();
        Ok((snapshot.node_info(node).clone(), daemons))
    }

    fn node_object(&mut self, value: &Value) -> Result<NodeInfo, ClusterError> {
        let invalid = |text: String| ClusterError::Invalid(format!("the node template: {text}"));
        let object = Object::from_value(value.clone()).map_err(|_| invalid("expected a Node".to_owned()))?;
        let event = objects::event(&object, self.trial_mut().tables_mut());
        match event.map_err(|malformed| invalid(malformed.to_string()))? {
            Event::NodeApplied(node) => Ok(*node),
            _ => Err(invalid("expected a Node".to_owned())),
        }
    }

    fn add_node(&mut self, like: &NodeInfo, name: &str, daemons: &[OwnedPod]) {
        let mut node = node_like(self.trial_mut(), like.clone(), name);
        let tables = self.trial_mut().tables_mut();
        let hostname = tables.symbol(HOSTNAME);
        if tables.labels(node.labels).get(hostname).is_none() {
            let labels = tables.labels(node.labels).iter().chain([(hostname, node.name)]).collect();
            node.labels = tables.label_set(labels);
        }
        let symbol = node.name;
        self.trial_mut().set_node(&Arc::new(node));
        if !self.forks.is_empty() {
            self.journal.push(Entry::Node(symbol));
        }
        for owned in daemons {
            let (uid, own) = (format!("{}-{name}", owned.pod.uid), format!("{}-{name}", owned.pod.name));
            let pod = PodInfo { uid: uid.into(), name: own.into(), ..afresh(&owned.pod) };
            let pod = with_own_claims(self.trial_mut(), &owned.pod, pod);
            let pod = Arc::new(PodInfo { node_name: Some(symbol), ..pod });
            self.trial_mut().place_pod(&pod, symbol);
            let key = self.trial().snapshot().pod_key(&pod);
            self.note(key, OwnedPod { pod, ..owned.clone() }, Some(symbol));
        }
    }

    /// Decides about pods of the queue, and records where they are.
    pub(super) fn decide(&mut self, keys: &[String]) -> Vec<Placement> {
        let pods: Vec<Arc<PodInfo>> = keys.iter().filter_map(|key| self.pod_info(key)).cloned().collect();
        self.trial_mut().refreshed();
        let turns = self.decider.turns(pods.iter().map(|pod| (pod, false)));
        let mut placements = Vec::with_capacity(pods.len());
        // The members of a group follow each other, and share what was decided about it.
        let mut last: Option<Arc<OfGroup>> = None;
        let interrupt = self.interrupt.clone();
        let turns = turns.iter().take_while(|_| !interrupt.is_over());
        for (pod, decided) in turns.flat_map(|turn| self.decider.decide_turn(turn)) {
            let decision = decided.decision;
            let (nominated_node, victims) = match decision.preemption {
                Some(room) => (Some(room.nominated_node), room.victims),
                None => (None, Vec::new()),
            };
            let message = decision.message.filter(|_| decision.node.is_none());
            let group = decision.group.map(|of| match last.take().filter(|last| last.name == of.name) {
                Some(same) => same,
                None => Arc::new(of),
            });
            last.clone_from(&group);
            let (key, node) = (decision.pod, decision.node);
            placements.push((pod, Placement { pod: key, node, message, nominated_node, victims, group }));
        }
        self.decider.forget_promises();
        for (pod, placement) in &placements {
            self.settle(pod, placement);
        }
        self.finished();
        placements.into_iter().map(|(_, placement)| placement).collect()
    }

    /// Records the node of a placed pod.
    fn settle(&mut self, pod: &Arc<PodInfo>, placement: &Placement) {
        let node = placement.node.as_deref().and_then(|node| self.trial().tables().find(node));
        if let (Some(node), Some(Record { owned, .. })) = (node, self.pods.get(&placement.pod)) {
            let owned = OwnedPod { pod: Arc::clone(pod), ..owned.clone() };
            self.note(placement.pod.clone(), owned, Some(node));
        }
    }
}
