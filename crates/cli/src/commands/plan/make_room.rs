//! `supercargo plan make-room`.

use super::apply::{Plan, carry_out};
use super::{CommonArgs, evicted, table, to_plan_in};
use crate::cluster::{Cluster, Refused};
use crate::progress::Working;
use crate::screen::{Screen, complain, in_list_form, say};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use supercargo_whatif::explain::format::count;
use supercargo_whatif::load::files::InputError;
use supercargo_whatif::plan::{Blocker, MakeRoomPlan, Move, PlannedPod, make_room};

/// Exit code if a pod does not fit.
const DOES_NOT_FIT: u8 = 3;

/// Arguments of `supercargo plan make-room`.
#[derive(Clone, Debug, Args)]
pub struct MakeRoomArgs {
    /// File with pods or workloads; `-` reads standard input. Its other objects are added to the cluster.
    #[arg(short = 'f', long, value_name = "FILE")]
    pub filename: PathBuf,

    /// Flags of every plan.
    #[command(flatten)]
    pub common: CommonArgs,
}

impl Plan for MakeRoomPlan {
    const KEEPS_CORDONS: bool = false;

    fn cordoned(&self) -> &[String] {
        if self.moves.is_empty() { &[] } else { &self.cordoned }
    }

    fn moves(&self) -> &[Move] {
        &self.moves
    }

    fn blockers_since(&self, _first: &Self) -> Vec<Blocker> {
        let unplaced = self.pods.iter().filter(|pod| pod.to.is_none());
        let blocker = |pod: &PlannedPod| {
            let reason = format!("it does not fit any more: {}", pod.reason.as_deref().unwrap_or_default());
            Blocker { pod: pod.pod.clone(), reason, passes: false }
        };
        unplaced.map(blocker).collect()
    }
}

/// Runs the command: prints the plan and returns the exit code.
pub(super) fn main(args: &MakeRoomArgs) -> ExitCode {
    let exit_code = |plan: &MakeRoomPlan| if plan.fits { 0 } else { DOES_NOT_FIT };
    if args.common.applied.apply {
        if args.filename.as_os_str() == "-" {
            let text = "with --apply the pods are read several times; give a file instead of standard input";
            return Refused::from(InputError(text.to_owned())).report();
        }
        return carry_out(&args.common, (text, exit_code), |uncordoned, first| {
            answer(args, uncordoned, first.is_none())
        });
    }
    match answer(args, &[], true) {
        Ok(plan) => {
            let text = in_list_form(args.common.output, &plan, |_| text(&plan), || evicted(&plan.moves));
            say(&text, exit_code(&plan))
        }
        Err(refused) => refused.report(),
    }
}

fn answer(args: &MakeRoomArgs, uncordoned: &[String], is_first: bool) -> Result<MakeRoomPlan, Refused> {
    let mut cluster = Cluster::load_with_pods(&args.common.source, Some(&args.filename))?;
    let file = args.filename.display();
    let pods = std::mem::take(&mut cluster.templates);
    if pods.is_empty() {
        return Err(InputError(format!("{file}: expected a pod or a workload that is not placed yet")).into());
    }
    if let Some((namespace, name)) = cluster.leaving.first() {
        let text = format!("{file}: it replaces the existing pod {namespace}/{name}; give only new pods");
        return Err(InputError(text).into());
    }
    if is_first {
        cluster.notices.iter().for_each(|notice| complain(notice));
    }
    // Pods to come are nominated to no node.
    pods.iter().for_each(|pod| cluster.trial.nominate(pod, None));
    let _working = Working::on("planning");
    Ok(make_room(&mut to_plan_in(cluster, uncordoned)?, &pods, args.common.accepted()))
}

fn text(plan: &MakeRoomPlan) -> String {
    let mut screen = Screen::of_stdout();
    let (pods, moves) = (count(plan.pods.len(), "pod"), count(plan.moves.len(), "eviction"));
    let unplaced = plan.pods.iter().filter(|pod| pod.to.is_none()).count();
    screen.heading(&match (unplaced, plan.moves.len()) {
        (0, 0) => format!("{pods} to place: all fit without evictions"),
        (0, _) => format!("{pods} to place: all fit after {moves}"),
        (_, 0) => format!("{pods} to place: {unplaced} cannot be placed"),
        (..) => format!("{pods} to place: {unplaced} cannot be placed, even after {moves}"),
    });
    if !plan.moves.is_empty() {
        screen.line(&format!("  cordon during the moves: {}", plan.cordoned.join(", ")));
    }
    table(&mut screen, &plan.moves);
    screen.heading("Then");
    let rows: Vec<Vec<String>> = plan
        .pods
        .iter()
        .map(|pod| match (&pod.to, &pod.reason) {
            (Some(node), _) => vec![pod.pod.clone(), format!("is placed on {node}")],
            (None, reason) => {
                let why = reason.as_deref().unwrap_or_default();
                vec![pod.pod.clone(), format!("stays pending: {why}")]
            }
        })
        .collect();
    screen.table(&[], &rows);
    screen.into_text()
}
