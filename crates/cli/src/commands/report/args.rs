//! Flags of `supercargo report`. Scripts depend on them: new ones may be added, existing ones do not change.

use crate::cluster::SourceArgs;
use crate::commands::simulate::ChangeArgs;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use supercargo_whatif::simulate::decide::PreemptionMode;

/// Arguments of `supercargo report`.
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// Source of the cluster.
    #[command(flatten)]
    pub source: SourceArgs,

    /// Files with pods to place first, in the format of `simulate`; `-` reads standard input. The report then
    /// shows the cluster before and after.
    #[arg(short = 'f', long, value_name = "FILE", num_args = 1..)]
    pub pods: Vec<PathBuf>,

    /// Changes to apply first.
    #[command(flatten)]
    pub changes: ChangeArgs,

    /// A plan, as `plan -o json` prints it. The report shows the cluster before and after its moves.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pods", "add_nodes", "remove_node", "scale"])]
    pub plan: Option<PathBuf>,

    /// Seed of tie-breaks when pods are placed.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// Handling of pods that could only be placed by preemption.
    #[arg(long, value_name = "WHAT", default_value = "report")]
    pub preemption: PreemptionMode,

    /// Number of decisions shown with scores: one of each owner first.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub score_tables: usize,

    /// Number of explained groups of pending pods; identical pods form one group.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub explanations: usize,

    /// File to write the report to. Defaults to standard output, unless that is a terminal.
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,

    /// Output format.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "html")]
    pub output: Form,
}

impl ReportArgs {
    /// Returns whether pods are to be placed or changes to be applied.
    pub fn is_what_if(&self) -> bool {
        !self.pods.is_empty() || !self.changes.is_empty()
    }
}

/// Output formats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A single HTML page without external resources.
    Html,
    /// A ClusterReport as JSON: the data of the page.
    Json,
}
