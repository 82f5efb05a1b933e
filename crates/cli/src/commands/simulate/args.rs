//! The flags of `supercargo simulate`. Scripts depend on them: flags may be added but not changed.

use crate::commands::simulate::what_if::ChangeArgs;
use crate::emulation::EmulationArgs;
use crate::live::LiveArgs;
use crate::screen::Output;
use clap::Args;
use std::path::PathBuf;
use supercargo_whatif::load::input::InputLimit;
use supercargo_whatif::simulate::decide::{Detail, PreemptionMode, TieBreak};

/// Flags of `supercargo simulate`: the cluster, the pods, the scheduling options and the report.
#[derive(Clone, Debug, Args)]
pub struct SimulateArgs {
    /// Files with the cluster state: nodes, the pods that run on them, and any other objects the scheduler reads.
    /// YAML or JSON as `kubectl get ... -o yaml` prints it; `-` reads standard input.
    #[arg(
        long, value_name = "FILE", num_args = 1..,
        required_unless_present = "live", conflicts_with_all = ["kubeconfig", "context"],
    )]
    pub cluster: Vec<PathBuf>,

    /// Read the cluster of the current kubeconfig context instead of files. The cluster is never modified.
    #[arg(long, conflicts_with_all = ["cluster", "as_written"])]
    pub live: bool,

    /// How to connect to the cluster with --live.
    #[command(flatten)]
    pub connection: LiveArgs,

    /// Files with the pods to schedule, in this order. Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and
    /// CronJobs are expanded into the pods their controllers would create. `-` reads standard input.
    #[arg(
        long, value_name = "FILE", num_args = 1..,
        required_unless_present_any = ["add_nodes", "remove_node", "scale", "compare_config"],
    )]
    pub pods: Vec<PathBuf>,

    /// Hypothetical changes to apply to the cluster first.
    #[command(flatten)]
    pub changes: ChangeArgs,

    /// Schedule a second time with this configuration and report which pods it places differently. Without --pods and
    /// without changes, both configurations reschedule all pods of the cluster.
    #[arg(long, value_name = "FILE")]
    pub compare_config: Option<PathBuf>,

    /// KubeSchedulerConfiguration file (kubescheduler.config.k8s.io/v1); the default is one profile with the default
    /// plugins.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Version of kube-scheduler to behave as.
    #[command(flatten)]
    pub emulation: EmulationArgs,

    /// How to choose among nodes with the same best score.
    #[arg(long, value_name = "RULE", default_value = "seeded")]
    pub tie_break: TieBreak,

    /// Seed for random tie-breaking; the same seed and input give the same result.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// What to do when a pod could be scheduled by preempting others.
    #[arg(long, value_name = "WHAT", default_value = "report")]
    pub preemption: PreemptionMode,

    /// Amount of detail about nodes for each decision in JSON and YAML output.
    #[arg(long, value_name = "HOW", default_value = "brief")]
    pub detail: Detail,

    /// Use objects exactly as written, without the defaults that an API server would set.
    #[arg(long)]
    pub as_written: bool,

    /// Maximum size of an input file, for example 2Gi; for compressed files, the size after decompression.
    #[arg(long, value_name = "SIZE", default_value = "512Mi", value_parser = InputLimit::parse)]
    pub input_limit: InputLimit,

    /// Reject empty files and objects with unknown fields or versions. The default is to warn about them.
    #[arg(long)]
    pub strict: bool,

    /// Output format of the report.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "table")]
    pub output: Output,
}
