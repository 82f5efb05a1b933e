//! The flags of `supercargo report`. Others script against them: they are added to, not changed.

use crate::cli::cluster::SourceArgs;
use crate::cli::simulate::{ChangeArgs, PreemptionMode};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// What is reported of, how much of it, and where the report goes.
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub source: SourceArgs,

    /// Files with pods to place first, as `simulate` takes them: the report then shows the cluster before and after. `-` is
    /// standard input.
    #[arg(short = 'f', long, value_name = "FILE", num_args = 1..)]
    pub pods: Vec<PathBuf>,

    /// What is changed first.
    #[command(flatten)]
    pub changes: ChangeArgs,

    /// Seed of the draws among equally good nodes, where pods are placed.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// What becomes of a pod that is decided about and could be placed if others went.
    #[arg(long, value_name = "WHAT", default_value = "report")]
    pub preemption: PreemptionMode,

    /// How many decisions are shown with their scores: one of each owner first.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub score_tables: usize,

    /// How many sorts of waiting pods are explained; pods that are alike share an explanation.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub explanations: usize,

    /// File the report is written to; without it, standard output, unless that is a terminal.
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,

    /// Form of the report.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "html")]
    pub output: Form,
}

impl ReportArgs {
    /// Whether there is anything to decide about.
    pub(super) fn is_what_if(&self) -> bool {
        !self.pods.is_empty() || !self.changes.is_empty()
    }
}

/// Form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// One page that needs nothing else.
    Html,
    /// A ClusterReport, for programs: what the page is made of.
    Json,
}
