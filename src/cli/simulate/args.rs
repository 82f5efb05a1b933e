//! The flags of `supercargo simulate`. Others script against them: they are added to, not changed.

use super::input::InputLimit;
use super::what_if::ChangeArgs;
use crate::cli::live::LiveArgs;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// What is simulated, by which rules, and how it is told.
#[derive(Clone, Debug, Args)]
pub struct SimulateArgs {
    /// Files with the cluster: nodes, pods that run on them, and whatever else the scheduler reads. YAML or JSON, as
    /// `kubectl get ... -o yaml` prints it; `-` is standard input.
    #[arg(
        long, value_name = "FILE", num_args = 1..,
        required_unless_present = "live", conflicts_with_all = ["kubeconfig", "context"],
    )]
    pub cluster: Vec<PathBuf>,

    /// Take the cluster of the kubeconfig instead, as it is. Nothing is changed in it.
    #[arg(long, conflicts_with_all = ["cluster", "as_written"])]
    pub live: bool,

    /// How the cluster is reached, with --live.
    #[command(flatten)]
    pub connection: LiveArgs,

    /// Files with the pods to decide about, in this order; Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and
    /// CronJobs stand for the pods their controllers would make. `-` is standard input.
    #[arg(
        long, value_name = "FILE", num_args = 1..,
        required_unless_present_any = ["add_nodes", "remove_node", "scale", "compare_config"],
    )]
    pub pods: Vec<PathBuf>,

    /// What is changed first.
    #[command(flatten)]
    pub changes: ChangeArgs,

    /// Decide once more by this configuration, and tell what goes elsewhere. Without pods and changes all pods of the cluster are
    /// placed anew by both.
    #[arg(long, value_name = "FILE")]
    pub compare_config: Option<PathBuf>,

    /// File with a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1). Without it: the default plugins.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Which of several best nodes wins.
    #[arg(long, value_name = "RULE", default_value = "seeded")]
    pub tie_break: TieBreak,

    /// Seed of the draws among equally good nodes; the same seed gives the same answer.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// What becomes of a pod that could be placed if others went.
    #[arg(long, value_name = "WHAT", default_value = "report")]
    pub preemption: PreemptionMode,

    /// How much is told of each decision in JSON and YAML.
    #[arg(long, value_name = "HOW", default_value = "brief")]
    pub detail: Detail,

    /// Take objects as they are written, without what an API server would fill in.
    #[arg(long)]
    pub as_written: bool,

    /// How large a file may be, for example 2Gi.
    #[arg(long, value_name = "SIZE", default_value = "512Mi", value_parser = InputLimit::parse)]
    pub input_limit: InputLimit,

    /// Refuse files that are empty, and objects with unknown fields. Without it both are warned about.
    #[arg(long)]
    pub strict: bool,

    /// Form of the report.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "table")]
    pub output: Output,
}

/// Which of several best nodes wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TieBreak {
    /// The one with the smallest name, also where preemption could go to several. A pod's nominated node is not tried
    /// before the others, and a single feasible node is scored, too: for comparison with recorded decisions.
    Name,
    /// The one the scheduler itself draws, given the seed.
    Seeded,
}

/// What becomes of a pod that could be placed if others went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PreemptionMode {
    /// It is told who would have to go, and they stay. The place is promised to the pod, so that no later one gets it.
    Report,
    /// They go, and the pod is placed.
    Apply,
    /// Nobody asks.
    Off,
}

/// How much is told of each decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Detail {
    /// Each node's verdict and scores: much text where there are many nodes.
    Full,
    /// How many nodes gave which reason.
    Brief,
    /// Nothing of nodes.
    None,
}

/// Form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Lines for people.
    Table,
    /// The same with more to a line.
    Wide,
    /// One object with apiVersion and kind, for programs.
    Json,
    /// The same in YAML.
    Yaml,
}
