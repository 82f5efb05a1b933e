//! The scheduling framework: plugin traits for the extension points and the types of their results.
//!
//! It names no concrete plugin; `registry` lists them. Upstream: `kube-scheduler/framework/interface.go`.

pub mod device_rule;
pub mod dry_runs;
pub mod event;
pub mod event_set;
pub mod extension_point;
pub mod fact;
pub mod histogram;
pub mod node_devices;
pub mod node_plugin;
pub mod placement;
pub mod plugin;
pub mod post_filter;
pub(crate) mod simd;
pub mod status;
pub mod tally;

pub use device_rule::{DeviceRequests, DeviceRule};
pub use event::{ClusterEvent, Hint, NodeAction, PodAction, pending_pod_label};
pub use event_set::EventSet;
pub use fact::{Fact, Measure};
pub use node_devices::{NodeDevices, PoolDevices, ReadAttributes};
pub use node_plugin::{NodeFilterPlugin, NodeScorePlugin};
pub use plugin::{
    DependsOn, FilterPlugin, FilterRule, Prepared, Reads, Scale, ScorePlugin, ScoreRule, Tallied,
};
pub use status::{Code, CycleError, Reason, Rejection, Verdict};

/// A plugin's name, as in KubeSchedulerConfiguration.
pub type PluginName = &'static str;

/// The highest normalized score of a node (upstream `MaxNodeScore`).
pub const MAX_NODE_SCORE: i64 = 100;
