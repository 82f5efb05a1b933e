//! Requests of the page, and the answers. Both are JSON; names of fields are in camel case.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use supercargo_whatif::cluster::{GroupState, NodeState, Placement, PodState, WorkloadState};
use supercargo_whatif::explain::GroupExplanation;
use supercargo_whatif::simulate::decision::OfPlacement;

/// A request; the field `do` says which.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Request {
    /// Replaces the cluster by the objects of inputs, which are read one after the other.
    Load {
        /// The names of the inputs in messages, in their order.
        inputs: Vec<String>,
        /// The version of kube-scheduler to behave as, for example `1.36`; the newest by default.
        #[serde(default)]
        version: Option<String>,
        /// Reads objects as written, without the defaults and admission of an API server.
        #[serde(default)]
        as_written: bool,
        /// The value of `--feature-gates`. If it is blank, all gates of pod groups are on if the objects have a
        /// PodGroup, and off otherwise.
        #[serde(default)]
        feature_gates: String,
    },
    /// Decides about all pending pods, with a configuration and changes.
    Ask(Question),
    /// Returns rows of the table of pods.
    Pods(Window),
    /// Returns rows of the table of nodes.
    Nodes(Window),
    /// Returns rows of the table of workloads.
    Workloads(Window),
    /// Returns rows of the table of pod groups.
    Groups(Window),
    /// Explains a pod, given as `namespace/name`.
    Explain {
        /// The pod.
        pod: String,
    },
    /// Explains a pod group, given as `namespace/name`, and returns its members.
    ExplainGroup {
        /// The group.
        group: String,
    },
    /// Simulates as `supercargo simulate --tie-break name --detail full`, without the loaded cluster.
    Simulate(Simulate),
}

/// The question, which replaces the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Question {
    /// A KubeSchedulerConfiguration in YAML; blank for the default plugins.
    #[serde(default)]
    pub config: String,
    /// Changes of the loaded cluster, in their order.
    #[serde(default)]
    pub changes: Vec<Change>,
}

/// A change of the loaded cluster; the field `change` says which.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "change", rename_all = "camelCase", deny_unknown_fields)]
pub enum Change {
    /// Adds nodes like an existing one.
    AddNodes {
        /// The name of the node to copy.
        like: String,
        /// The number of copies, at most 10,000.
        count: usize,
    },
    /// Removes a node; the pods that its controllers create again are pending.
    RemoveNode {
        /// The name of the node.
        node: String,
    },
    /// Adds a taint.
    Taint {
        /// The name of the node.
        node: String,
        /// `KEY[=VALUE]:EFFECT`.
        taint: String,
    },
    /// Removes a taint.
    Untaint {
        /// The name of the node.
        node: String,
        /// `KEY[=VALUE]:EFFECT`.
        taint: String,
    },
    /// Sets the number of pods of a workload.
    Scale {
        /// The kind of the workload.
        kind: String,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The number of pods.
        replicas: usize,
    },
}

/// A part of a table.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Window {
    /// Only rows that contain each of these words.
    #[serde(default)]
    pub filter: String,
    /// Which pods to list; ignored for other tables.
    #[serde(default)]
    pub only: Only,
    /// The number of rows before the first one.
    #[serde(default)]
    pub offset: usize,
    /// The maximum number of rows.
    #[serde(default)]
    pub limit: usize,
}

/// Which pods to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Only {
    /// All.
    #[default]
    All,
    /// The pods that were decided; they were pending before.
    Decided,
    /// The pods that are still pending.
    Pending,
    /// The pods that the changes or the configuration moved.
    Moved,
}

/// A cluster and pods to schedule, as JSON objects.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Simulate {
    /// The objects of the cluster.
    pub cluster: Vec<Value>,
    /// The pods and workloads to schedule, in order.
    pub pods: Vec<Value>,
    /// A KubeSchedulerConfiguration.
    #[serde(default)]
    pub config: Option<Value>,
    /// The version of kube-scheduler to behave as; the newest by default.
    #[serde(default)]
    pub version: Option<String>,
    /// Whether defects of kube-scheduler are kept, as `--compat upstream` does.
    #[serde(default)]
    pub compat_upstream: bool,
    /// Reads objects as written.
    #[serde(default)]
    pub as_written: bool,
    /// The value of `--feature-gates`; blank for the defaults, in which pod groups are off.
    #[serde(default)]
    pub feature_gates: String,
}

/// The answer to a request that failed. The session is as it was before.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Failure {
    /// The message: the failed action, the place, the reason, and the next step.
    pub(crate) error: String,
}

/// The answer to `load`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Loaded {
    /// The number of nodes.
    pub(crate) nodes: usize,
    /// The number of unfinished pods.
    pub(crate) pods: usize,
    /// The number of pending pods among them.
    pub(crate) pending: usize,
    /// The feature gates that are on, as a value of `--feature-gates`.
    pub(crate) feature_gates: String,
    /// Probable mistakes in the objects, and what was left out.
    pub(crate) notes: Vec<String>,
}

/// The answer to `ask`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outcome {
    /// The number of nodes.
    pub(crate) nodes: usize,
    /// The number of unfinished pods.
    pub(crate) pods: usize,
    /// The number of pods that were decided.
    pub(crate) decided: usize,
    /// The number of decided pods that got a node.
    pub(crate) placed: usize,
    /// The number of decided pods that got none.
    pub(crate) pending: usize,
    /// The number of decided pods that got another result than without changes and with the default plugins.
    pub(crate) moved: usize,
    /// The number of pods with a node without changes and with the default plugins.
    pub(crate) placed_before: usize,
    /// The number of pods without one.
    pub(crate) pending_before: usize,
    /// The number of pod groups.
    pub(crate) groups: usize,
    /// The number of pod groups that do not start.
    pub(crate) groups_waiting: usize,
    /// The number of pod groups that do not start without changes and with the default plugins.
    pub(crate) groups_waiting_before: usize,
}

/// A part of a table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Rows<T> {
    /// The number of rows that pass the filter.
    pub(crate) total: usize,
    /// The rows of the window.
    pub(crate) rows: Vec<T>,
}

/// A row of the table of pods.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodRow {
    /// `namespace/name`.
    pub(crate) pod: String,
    /// Its node; null if it is pending.
    pub(crate) node: Option<String>,
    /// Its pod group, as `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<String>,
    /// Whether the question decided about it.
    pub(crate) is_decided: bool,
    /// Why it is pending, in the scheduler's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// The node where preemption would make room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nominated_node: Option<String>,
    /// The pods that preemption would evict there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) victims: Vec<String>,
    /// Whether the result is another one than without changes and with the default plugins.
    pub(crate) is_moved: bool,
    /// The node that it had then; null if it was pending or did not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<String>,
}

impl PodRow {
    /// Returns the row of a pod with what was decided about it.
    pub(crate) fn of(state: &PodState<'_>, decided: Option<&Placement>) -> Self {
        Self {
            pod: state.key.to_owned(),
            node: state.node.map(str::to_owned),
            group: group_of(state),
            is_decided: decided.is_some(),
            message: decided.and_then(|it| it.message.clone()),
            nominated_node: decided.and_then(|it| it.nominated_node.clone()),
            victims: decided.map(|it| it.victims.clone()).unwrap_or_default(),
            is_moved: false,
            before: None,
        }
    }
}

/// Returns the group of a pod as `namespace/name`.
pub(crate) fn group_of(state: &PodState<'_>) -> Option<String> {
    let (namespace, _) = state.key.split_once('/')?;
    Some(format!("{namespace}/{}", state.group?))
}

/// What a pod group does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum GroupProgress {
    /// It ran before the question.
    Runs,
    /// The question starts it, or more of its members.
    Starts,
    /// It does not start.
    Waits,
}

/// A row of the table of pod groups.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupRow {
    /// The group and its members.
    #[serde(flatten)]
    pub(crate) state: GroupState,
    /// What it does.
    pub(crate) progress: GroupProgress,
    /// Why it waits, in the scheduler's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// A member that has no node for a reason of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) short: Option<ShortMember>,
    /// The topology domain where most members fit, if the group requires one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) closest: Option<OfPlacement>,
    /// The pods whose eviction lets the group start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) victims: Vec<String>,
    /// Whether it waits now and did not without changes and with the default plugins, or the other way round.
    pub(crate) is_moved: bool,
}

/// A member of a group that has no node for a reason of its own.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ShortMember {
    /// `namespace/name`.
    pub(crate) pod: String,
    /// The reason, in the scheduler's words.
    pub(crate) message: String,
}

/// The answer to `explainGroup`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExplainedGroup {
    /// The explanation.
    pub(crate) explanation: GroupExplanation,
    /// The members.
    pub(crate) members: Rows<PodRow>,
}

/// Rows of nodes.
pub(crate) type NodeRows = Rows<NodeState>;
/// Rows of workloads.
pub(crate) type WorkloadRows = Rows<WorkloadState>;
