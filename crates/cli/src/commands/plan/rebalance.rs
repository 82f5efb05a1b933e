//! `supercargo plan rebalance`.

use super::apply::{Plan, carry_out};
use super::{CommonArgs, evicted, table, to_plan_in};
use crate::cluster::{Cluster, Refused};
use crate::progress::Working;
use crate::screen::{ListOutput, Screen, complain, in_list_form, say};
use clap::Args;
use std::process::ExitCode;
use supercargo_whatif::explain::format::count;
use supercargo_whatif::load::files::InputError;
use supercargo_whatif::plan::{Blocker, Bounds, Excess, Move, RebalancePlan, rebalance};

/// Exit code if something exceeds a bound after the moves.
const NOT_BALANCED: u8 = 3;
/// Number of nodes, workloads and resources above a bound that the table shows without `-o wide`.
const SHOWN: usize = 10;

/// Arguments of `supercargo plan rebalance`.
#[derive(Clone, Debug, Args)]
#[group(id = "bounds", required = true, multiple = true, args = ["max_requested", "max_skew", "max_fragmented"])]
pub struct RebalanceArgs {
    /// Share of a node's allocatable CPU and memory that its pods may request, for example 80%.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub max_requested: Option<u32>,

    /// How much the numbers of a workload's pods may differ between the domains of a topology key, for example
    /// topology.kubernetes.io/zone=1.
    #[arg(long, value_name = "KEY=N", value_parser = skew)]
    pub max_skew: Option<(String, u32)>,

    /// How much of the free amount of an extended resource may be on nodes with pods that use it, for example
    /// nvidia.com/gpu=20%.
    #[arg(long, value_name = "RESOURCE=PERCENT", value_parser = fragmented)]
    pub max_fragmented: Option<(String, u32)>,

    /// Flags of every plan.
    #[command(flatten)]
    pub common: CommonArgs,
}

fn percent(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<u32>().ok();
    number.filter(|number| (1..=100).contains(number)).ok_or_else(|| "expected 1% to 100%".to_owned())
}

fn skew(text: &str) -> Result<(String, u32), String> {
    let parts = text.rsplit_once('=').filter(|(key, _)| !key.is_empty());
    let parsed = parts.and_then(|(key, number)| Some((key.to_owned(), number.parse::<u32>().ok()?)));
    let bound = parsed.filter(|(_, number)| *number > 0);
    bound.ok_or_else(|| "expected a topology key and a number of at least 1, as in zone=1".to_owned())
}

fn fragmented(text: &str) -> Result<(String, u32), String> {
    let (resource, share) = text.rsplit_once('=').unwrap_or_default();
    let share = share.strip_suffix('%').unwrap_or(share).parse::<u32>().ok().filter(|share| *share < 100);
    let parsed = share.filter(|_| resource.contains('/')).map(|share| (resource.to_owned(), share));
    parsed.ok_or_else(|| "expected an extended resource and 0% to 99%, as in nvidia.com/gpu=20%".to_owned())
}

impl Plan for RebalancePlan {
    const KEEPS_CORDONS: bool = false;

    fn cordoned(&self) -> &[String] {
        &self.cordoned
    }

    fn moves(&self) -> &[Move] {
        &self.moves
    }

    fn blockers_since(&self, first: &Self) -> Vec<Blocker> {
        let lost = self.after.iter().filter(|it| !first.after.iter().any(|old| old.subject == it.subject));
        let blocker = |it: &Excess| {
            let reason = format!("it stays above its bound: {}", it.text);
            Blocker { pod: it.subject.clone(), reason, passes: true }
        };
        lost.map(blocker).collect()
    }
}

/// Runs the command: prints the plan and returns the exit code.
pub(super) fn main(args: &RebalanceArgs) -> ExitCode {
    let exit_code = |plan: &RebalancePlan| if plan.is_balanced { 0 } else { NOT_BALANCED };
    let form = args.common.output;
    if args.common.applied.apply {
        // A plan that only comes closer to its bounds is worth its moves.
        let refused = |plan: &RebalancePlan| if plan.moves.is_empty() { exit_code(plan) } else { 0 };
        let text = |plan: &RebalancePlan| text(plan, form == ListOutput::Wide);
        return carry_out(&args.common, (text, refused), |uncordoned, first| {
            answer(args, uncordoned, first.is_none())
        });
    }
    match answer(args, &[], true) {
        Ok(plan) => {
            let text = in_list_form(form, &plan, |wide| text(&plan, wide), || evicted(&plan.moves));
            say(&text, exit_code(&plan))
        }
        Err(refused) => refused.report(),
    }
}

fn answer(args: &RebalanceArgs, uncordoned: &[String], is_first: bool) -> Result<RebalancePlan, Refused> {
    let cluster = Cluster::load_with_pods(&args.common.source, None)?;
    if is_first {
        cluster.notices.iter().for_each(|notice| complain(notice));
    }
    let bounds = Bounds {
        requested_percent: args.max_requested,
        skew: args.max_skew.clone(),
        fragmented: args.max_fragmented.clone(),
    };
    let _working = Working::on("planning");
    let plan = rebalance(&mut to_plan_in(cluster, uncordoned)?, &bounds, args.common.accepted());
    Ok(plan.map_err(|error| InputError(error.to_string()))?)
}

fn text(plan: &RebalancePlan, wide: bool) -> String {
    let mut screen = Screen::of_stdout();
    let moves = count(plan.moves.len(), "eviction");
    let before = match plan.before.len() {
        1 => "1 node, workload or resource exceeds".to_owned(),
        before => format!("{before} nodes, workloads or resources exceed"),
    };
    screen.heading(&match (plan.before.len(), plan.after.len()) {
        (0, _) => "nothing exceeds a bound".to_owned(),
        (_, 0) => format!("{before} a bound now, none after {moves}"),
        (_, after) => format!("{before} a bound now, {after} after {moves}"),
    });
    if !plan.cordoned.is_empty() {
        screen.line(&format!("  cordon during the moves: {}", plan.cordoned.join(", ")));
    }
    table(&mut screen, &plan.moves);
    for (heading, excesses) in
        [("Above a bound now", &plan.before), ("Above a bound after the moves", &plan.after)]
    {
        if !excesses.is_empty() {
            screen.heading(heading);
            list(&mut screen, excesses, wide);
        }
    }
    screen.into_text()
}

fn list(screen: &mut Screen, excesses: &[Excess], wide: bool) {
    let shown = if wide { excesses.len() } else { excesses.len().min(SHOWN) };
    let rows: Vec<Vec<String>> =
        excesses[..shown].iter().map(|it| vec![it.subject.clone(), it.text.clone()]).collect();
    screen.table(&[], &rows);
    if excesses.len() > shown {
        screen.line(&format!("  and {} more", excesses.len() - shown));
    }
}
