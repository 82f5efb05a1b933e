//! `supercargo plan free-nodes`.

use super::apply::{Plan, carry_out};
use super::{CommonArgs, evicted, table, to_plan_in};
use crate::cluster::{Cluster, Refused};
use crate::live::candidates;
use crate::progress::Working;
use crate::screen::{ListOutput, Screen, complain, in_list_form, say};
use clap::Args;
use clap_complete::ArgValueCompleter;
use std::process::ExitCode;
use supercargo_whatif::explain::format::count;
use supercargo_whatif::load::files::InputError;
use supercargo_whatif::plan::{Blocker, FreeNodesPlan, Goal, KeptNode, Move, free_nodes};

/// Exit code if the plan frees fewer nodes than asked for.
const TOO_FEW: u8 = 3;
/// Number of kept nodes that the table shows without `-o wide`, unless they were named.
const KEPT_SHOWN: usize = 5;

/// Arguments of `supercargo plan free-nodes`.
#[derive(Clone, Debug, Args)]
#[group(id = "goal", required = true, multiple = false, args = ["count", "nodes", "all_possible"])]
pub struct FreeNodesArgs {
    /// Number of nodes to empty: those with the fewest evictions.
    #[arg(long, value_name = "N")]
    pub count: Option<usize>,

    /// Nodes to empty, separated by commas.
    #[arg(long, value_name = "NODE,...", value_delimiter = ',', value_parser = crate::names::node, add = ArgValueCompleter::new(candidates::nodes))]
    pub nodes: Vec<String>,

    /// Empty as many nodes as possible.
    #[arg(long)]
    pub all_possible: bool,

    /// Flags of every plan.
    #[command(flatten)]
    pub common: CommonArgs,
}

impl FreeNodesArgs {
    fn goal(&self) -> Goal {
        match self.count {
            Some(count) => Goal::Count(count),
            None if self.all_possible => Goal::All,
            None => Goal::Nodes(self.nodes.clone()),
        }
    }
}

impl Plan for FreeNodesPlan {
    const KEEPS_CORDONS: bool = true;

    fn cordoned(&self) -> &[String] {
        &self.freed
    }

    fn moves(&self) -> &[Move] {
        &self.moves
    }

    fn blockers_since(&self, first: &Self) -> Vec<Blocker> {
        let lost = first.freed.iter().filter(|node| !self.freed.contains(node));
        lost.flat_map(|node| {
            let kept = self.kept.iter().find(|kept| kept.node == *node);
            let blockers = kept.map(|kept| kept.blockers.clone()).unwrap_or_default();
            if blockers.is_empty() {
                let reason = "it can no longer be emptied".to_owned();
                return vec![Blocker { pod: node.clone(), reason, passes: false }];
            }
            blockers
        })
        .collect()
    }
}

/// Runs the command: prints the plan and returns the exit code.
pub(super) fn main(args: &FreeNodesArgs) -> ExitCode {
    let exit_code = |plan: &FreeNodesPlan| if is_enough(args, plan) { 0 } else { TOO_FEW };
    let form = args.common.output;
    if args.common.applied.apply {
        let text = |plan: &FreeNodesPlan| text(args, plan, form == ListOutput::Wide);
        return carry_out(&args.common, (text, exit_code), |uncordoned, first| {
            answer(args, uncordoned, first)
        });
    }
    match answer(args, &[], None) {
        Ok(plan) => {
            let text = in_list_form(form, &plan, |wide| text(args, &plan, wide), || evicted(&plan.moves));
            say(&text, exit_code(&plan))
        }
        Err(refused) => refused.report(),
    }
}

/// Plans; after the `first` plan, for the nodes that it empties.
fn answer(
    args: &FreeNodesArgs,
    uncordoned: &[String],
    first: Option<&FreeNodesPlan>,
) -> Result<FreeNodesPlan, Refused> {
    let cluster = Cluster::load_with_pods(&args.common.source, None)?;
    for name in &args.nodes {
        cluster.has_node(name)?;
    }
    if first.is_none() {
        cluster.notices.iter().for_each(|notice| complain(notice));
    }
    let goal = first.map_or_else(|| args.goal(), |first| Goal::Nodes(first.freed.clone()));
    let _working = Working::on("planning");
    let plan = free_nodes(&mut to_plan_in(cluster, uncordoned)?, &goal, args.common.accepted());
    Ok(plan.map_err(|error| InputError(error.to_string()))?)
}

fn is_enough(args: &FreeNodesArgs, plan: &FreeNodesPlan) -> bool {
    match args.goal() {
        Goal::Count(asked) => plan.freed.len() >= asked,
        Goal::Nodes(named) => named.iter().all(|name| plan.freed.contains(name)),
        Goal::All => !plan.freed.is_empty(),
    }
}

fn text(args: &FreeNodesArgs, plan: &FreeNodesPlan, wide: bool) -> String {
    let mut screen = Screen::of_stdout();
    let (nodes, evictions) = (count(plan.freed.len(), "node"), count(plan.moves.len(), "eviction"));
    if plan.freed.is_empty() {
        screen.heading("No node can be freed");
    } else {
        screen.heading(&format!("{nodes} can be freed with {evictions}: {}", plan.freed.join(", ")));
    }
    table(&mut screen, &plan.moves);
    let is_all_shown = wide || !args.nodes.is_empty();
    let shown = if is_all_shown { plan.kept.len() } else { plan.kept.len().min(KEPT_SHOWN) };
    if shown > 0 {
        screen.heading("Nodes that stay");
        let rows: Vec<Vec<String>> = plan.kept[..shown].iter().flat_map(|kept| rows(kept, wide)).collect();
        screen.table(&[], &rows);
        if plan.kept.len() > shown {
            screen.line(&format!("  and {}", count(plan.kept.len() - shown, "more node")));
        }
    }
    if plan.pending > 0 {
        screen.line(&format!("\n{} of the cluster not considered", count(plan.pending, "pending pod")));
    }
    screen.into_text()
}

/// Returns a row for each pod that keeps a node; without `wide`, only for the first.
fn rows(kept: &KeptNode, wide: bool) -> Vec<Vec<String>> {
    if kept.blockers.is_empty() {
        return vec![vec![kept.node.clone(), "its room is needed for displaced pods".to_owned()]];
    }
    let shown = if wide { kept.blockers.len() } else { 1 };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for blocker in &kept.blockers[..shown] {
        rows.push(vec![kept.node.clone(), format!("{}: {}", blocker.pod, blocker.reason)]);
    }
    rows
}
