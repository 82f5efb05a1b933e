//! The flags of `supercargo explain`. Others script against them: they are added to, not changed.

use crate::cli::live::LiveArgs;
use crate::cli::simulate::Output;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// What is explained, of which cluster, and how it is told.
#[derive(Clone, Debug, Args)]
pub struct ExplainArgs {
    /// What is asked about.
    #[arg(value_name = "KIND")]
    pub kind: Kind,

    /// Its name.
    #[arg(value_name = "NAME")]
    pub name: String,

    /// The pod's namespace; without it the kubeconfig's, or `default`.
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,

    /// Files with the cluster, as `simulate` takes them; `-` is standard input. Without it, the cluster of the kubeconfig is
    /// asked.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub cluster: Vec<PathBuf>,

    /// How a cluster is reached.
    #[command(flatten)]
    pub live: LiveArgs,

    /// File with a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1). Without it: the default plugins, for pods of
    /// `supercargo` and of `default-scheduler`.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Show what each plugin scored each node with, and what decided it.
    #[arg(long)]
    pub scores: bool,

    /// Take objects of files as they are written, without what an API server would fill in.
    #[arg(long, requires = "cluster")]
    pub as_written: bool,

    /// Form of the answer.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "table")]
    pub output: Output,
}

/// What can be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A pod.
    #[value(alias = "pods", alias = "po")]
    Pod,
}
