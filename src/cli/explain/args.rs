//! The flags of `supercargo explain`. Others script against them: they are added to, not changed.

use crate::cli::cluster::SourceArgs;
use crate::cli::simulate::Output;
use clap::{Args, ValueEnum};

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

    /// Where the cluster is.
    #[command(flatten)]
    pub source: SourceArgs,

    /// Show what each plugin scored each node with, and what decided it.
    #[arg(long)]
    pub scores: bool,

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
