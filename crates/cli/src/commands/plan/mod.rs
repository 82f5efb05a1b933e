//! `supercargo plan`: which pods to move so that nodes can be emptied, pods fit, or the load is even. Changes
//! nothing without `--apply`.

mod apply;
mod free_nodes;
mod make_room;
mod rebalance;

pub use apply::ApplyArgs;
pub use free_nodes::FreeNodesArgs;
pub use make_room::MakeRoomArgs;
pub use rebalance::RebalanceArgs;

use crate::cluster::{self, Refused, SourceArgs};
use crate::live::{self, GRANT, LiveError};
use crate::screen::{ListOutput, Screen};
use clap::{Args, Subcommand};
use std::process::ExitCode;
use supercargo_whatif::cluster::Cluster;
use supercargo_whatif::plan::{Accepted, Move};

/// Arguments of `supercargo plan`.
#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    /// What to plan.
    #[command(subcommand)]
    pub command: PlanCommand,
}

/// What to plan.
#[derive(Clone, Debug, Subcommand)]
pub enum PlanCommand {
    /// Plan how to empty nodes with the fewest evictions.
    ///
    /// Decides the new node of every displaced pod beforehand, as the scheduler will. Reads the cluster of the
    /// kubeconfig, or files (`--cluster`). Changes nothing without --apply, which leaves the emptied nodes cordoned.
    ///
    /// Exit code: 0 the plan frees what was asked for, or with --all-possible at least one node; 3 it frees less; 4
    /// --apply stopped before the end; 2 invalid flags or files, or no such node; 1 any other failure.
    FreeNodes(FreeNodesArgs),

    /// Plan which pods to move so that the pods of a file fit.
    ///
    /// Reads the cluster of the kubeconfig, or files (`--cluster`). Changes nothing without --apply, which does not
    /// create the pods.
    ///
    /// Exit code: 0 all pods fit, at once or after the moves; 3 at least one does not; 4 --apply stopped before the
    /// end; 2 invalid flags or files; 1 any other failure.
    MakeRoom(MakeRoomArgs),

    /// Plan which pods to move so that no node has too many requests, no workload too much skew, and no extended
    /// resource too many fragments.
    ///
    /// Reads the cluster of the kubeconfig, or files (`--cluster`). Changes nothing without --apply.
    ///
    /// Exit code: 0 nothing exceeds a bound, at once or after the moves; 3 something still does; 4 --apply stopped
    /// before the end; 2 invalid flags or files; 1 any other failure.
    Rebalance(RebalanceArgs),
}

/// Flags of every plan.
#[derive(Clone, Debug, Args)]
pub struct CommonArgs {
    /// Accept that data in emptyDir and hostPath volumes is lost.
    #[arg(long)]
    pub delete_emptydir_data: bool,

    /// Source of the cluster.
    #[command(flatten)]
    pub source: SourceArgs,

    /// Output format. `name` prints the pods to evict.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "table")]
    pub output: ListOutput,

    /// Whether and how the plan is carried out.
    #[command(flatten)]
    pub applied: ApplyArgs,
}

impl CommonArgs {
    fn accepted(&self) -> Accepted {
        Accepted { local_data: self.delete_emptydir_data }
    }
}

/// Runs the command: prints the plan and returns the exit code.
pub fn main(args: &PlanArgs) -> ExitCode {
    match &args.command {
        PlanCommand::FreeNodes(args) => free_nodes::main(args),
        PlanCommand::MakeRoom(args) => make_room::main(args),
        PlanCommand::Rebalance(args) => rebalance::main(args),
    }
}

/// Returns the loaded cluster as one to plan in, with some of its cordoned nodes taken as schedulable.
///
/// # Errors
/// Fails if the disruption budgets could not be read, since each step must respect them.
fn to_plan_in(cluster: cluster::Cluster, uncordoned: &[String]) -> Result<Cluster, Refused> {
    if cluster.unread.contains(&live::BUDGETS) {
        let text = format!(
            "the disruption budgets cannot be read, so no eviction is known to be safe: {} is forbidden; {GRANT}",
            live::BUDGETS
        );
        return Err(Refused::Live(LiveError::Cluster(text)));
    }
    let owners = cluster.owners.unwrap_or_default();
    let mut cluster = Cluster::of(cluster.trial, owners.pods, owners.budgets);
    for node in uncordoned {
        cluster.uncordon(node);
    }
    Ok(cluster)
}

/// Returns the pods to evict as KIND/NAME.
fn evicted(moves: &[Move]) -> Vec<String> {
    // A pod of a move is `namespace/name`.
    moves.iter().map(|it| format!("pod/{}", it.pod.rsplit('/').next().unwrap_or_default())).collect()
}

/// Adds the table of the steps.
fn table(screen: &mut Screen, moves: &[Move]) {
    if moves.is_empty() {
        return;
    }
    let mut rows = vec![["STEP", "POD", "FROM", "TO", "WHY IT IS SAFE"].map(str::to_owned).to_vec()];
    rows.extend(moves.iter().map(|it| {
        let why = if it.is_swap { format!("makes room; {}", it.why) } else { it.why.clone() };
        vec![it.step.to_string(), it.pod.clone(), it.from.clone(), it.to.clone(), why]
    }));
    screen.table(&[0], &rows);
}
