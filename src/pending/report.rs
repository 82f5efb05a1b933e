//! What `/debug/pending` shows and `supercargo queue` reads: a versioned kind, written and read by these types alone.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use supercargo_core::time::Time;

/// `apiVersion` of the report.
pub(super) const API_VERSION: &str = "supercargo.dev/v1alpha1";
/// `kind` of the report.
const KIND: &str = "QueueReport";

/// The pods on their way to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueReport {
    /// Always the same of this version.
    pub api_version: String,
    /// Always the same.
    pub kind: String,
    /// When it was written, RFC 3339.
    pub time: String,
    /// Whether who wrote it decides about pods, or stands by for another that does.
    pub leading: bool,
    /// Whether all namespaces are told of that were asked for; otherwise only those whose pods may be read by whoever asked.
    pub complete: bool,
    /// How many pods are at which place, of those that are told of.
    pub counts: BTreeMap<String, usize>,
    /// How many more there are than are listed.
    pub left_out: usize,
    /// The pods, by namespace and name.
    pub pods: Vec<PendingPod>,
}

impl QueueReport {
    /// A report without pods.
    pub(super) fn new(now: Time, leading: bool, complete: bool) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            time: moment(now),
            leading,
            complete,
            counts: BTreeMap::new(),
            left_out: 0,
            pods: Vec::new(),
        }
    }

    /// Whether this is what it says it is, of this version.
    pub fn is_of_this_version(&self) -> bool {
        self.api_version == API_VERSION && self.kind == KIND
    }
}

/// A pod on its way to a node.
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
    /// Where it waits: `active`, `backoff`, `unschedulable`, `gated`, `extenders`, `volumes` or `binding`.
    pub place: String,
    /// What it waits for, in words.
    pub waits_for: String,
    /// The plugins that rejected it, or hold it back.
    pub plugins: Vec<String>,
    /// The plugins because of which preemption did not help.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hindered_by: Vec<String>,
    /// Its scheduling gates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<String>,
    /// The node it is on its way to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The node where room is being made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominated_node: Option<String>,
    /// Since when it waits there, RFC 3339.
    pub since: String,
    /// When it was first to be tried, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_queued: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// How many of its last attempts in a row ended with an error, rather than with a verdict.
    pub errors: u32,
    /// When it is tried at the latest, RFC 3339, if nothing happens before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try: Option<String>,
}

/// A time as the API writes it.
pub fn moment(time: Time) -> String {
    let nanos = i128::from(time.as_nanos());
    jiff::Timestamp::from_nanosecond(nanos).map_or_else(|_| "?".to_owned(), |at| format!("{at:.0}"))
}
