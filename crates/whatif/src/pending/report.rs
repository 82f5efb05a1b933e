//! The report at `/debug/pending`, which `supercargo queue` reads. A versioned kind, serialized only by these
//! types.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use supercargo_core::model::time::Time;

/// `apiVersion` of the report.
pub(super) const API_VERSION: &str = "supercargo.dev/v1alpha1";
/// `kind` of the report.
const KIND: &str = "QueueReport";

/// Report of pods without a confirmed binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueReport {
    /// API version of this kind.
    pub api_version: String,
    /// Kind of this object.
    pub kind: String,
    /// Time of the report, RFC 3339.
    pub time: String,
    /// Whether this replica is the leader; standby replicas do not schedule.
    pub leading: bool,
    /// Whether all requested namespaces are covered. Otherwise only those in which the caller may read pods.
    pub complete: bool,
    /// Number of selected pods at each place.
    pub counts: BTreeMap<String, usize>,
    /// Number of selected pods beyond the listed ones.
    pub left_out: usize,
    /// Groups of the listed pods, sorted by namespace and name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<PendingGroup>,
    /// Pods, sorted by namespace and name.
    pub pods: Vec<PendingPod>,
}

impl QueueReport {
    /// Returns a report without pods.
    pub fn new(now: Time, leading: bool, complete: bool) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            time: moment(now),
            leading,
            complete,
            counts: BTreeMap::new(),
            left_out: 0,
            groups: Vec::new(),
            pods: Vec::new(),
        }
    }

    /// Returns whether kind and API version are those of this program.
    pub fn is_of_this_version(&self) -> bool {
        self.api_version == API_VERSION && self.kind == KIND
    }
}

/// A group with a listed pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingGroup {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// Whether the PodGroup exists.
    pub exists: bool,
    /// The number of members that must have a node together; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_count: Option<usize>,
    /// Number of members that the scheduler knows.
    pub members: usize,
    /// Number of members that have a node.
    pub placed: usize,
    /// Whether its condition says that the group was scheduled.
    pub scheduled: bool,
    /// The reason of its condition; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The message of its condition; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A pod without a confirmed binding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingPod {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.labels`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// `spec.schedulerName`.
    pub scheduler_name: String,
    /// `spec.priority`.
    pub priority: i32,
    /// Name of its group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Place in the scheduler: `active`, `backoff`, `unschedulable`, `gated`, `extenders`, `volumes` or
    /// `binding`.
    pub place: String,
    /// What it waits for, as text.
    pub waits_for: String,
    /// Plugins that rejected it or gate it.
    pub plugins: Vec<String>,
    /// Plugins whose rejections preemption could not resolve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hindered_by: Vec<String>,
    /// Its scheduling gates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<String>,
    /// Node it is being bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Node where its preemption victims terminate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominated_node: Option<String>,
    /// Time it entered this place, RFC 3339.
    pub since: String,
    /// Time it first entered the active queue, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_queued: Option<String>,
    /// Number of scheduling attempts.
    pub attempts: u32,
    /// Number of consecutive latest attempts that ended with an error.
    pub errors: u32,
    /// Latest time of the next attempt, RFC 3339. A cluster change may cause an earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try: Option<String>,
}

/// Formats a time as the API server does.
pub fn moment(time: Time) -> String {
    let nanos = i128::from(time.as_nanos());
    jiff::Timestamp::from_nanosecond(nanos).map_or_else(|_| "?".to_owned(), |at| format!("{at:.0}"))
}
