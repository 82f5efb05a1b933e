//! `supercargo fit`: how many more pods like a given one fit, and what limits the number. Changes nothing.

use crate::cluster::{Cluster, Refused, SourceArgs, Wanted};
use crate::progress::Working;
use crate::screen::{ListOutput, Screen, complain, in_list_form, say};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use supercargo_core::model::pod::PodInfo;
use supercargo_whatif::explain::claims::{is_replica, ordinal};
use supercargo_whatif::explain::format::count;
use supercargo_whatif::explain::{FitCheck, GroupFit, Place, PreemptingFit, fit};
use supercargo_whatif::load::files::InputError;

/// Exit code if no pod fits.
const NONE_FITS: u8 = 3;
/// Number of nodes the table shows without `-o wide`.
const NODES_SHOWN: usize = 10;

/// Arguments of `supercargo fit`.
#[derive(Clone, Debug, Args)]
pub struct FitArgs {
    /// File with a pod or a workload; `-` reads standard input. Its other objects are added to the cluster.
    #[arg(short = 'f', long, value_name = "FILE")]
    pub filename: PathBuf,

    /// Source of the cluster.
    #[command(flatten)]
    pub source: SourceArgs,

    /// Maximum number of pods to try; counting stops there.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub limit: usize,

    /// Also report how many more fit if the scheduler preempts pods of lower priority, and which.
    #[arg(long)]
    pub preempt: bool,

    /// Output format. `name` prints the nodes with copies.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "table")]
    pub output: ListOutput,
}

/// Runs the command: prints the result and returns the exit code.
pub fn main(args: &FitArgs) -> ExitCode {
    match answer(args) {
        Ok(answer) => {
            let names = || answer.nodes.iter().map(|on| format!("node/{}", on.node)).collect();
            let text = in_list_form(args.output, &answer, |wide| text(&answer, wide), names);
            let more = answer.preemption.as_ref().map_or(0, |preemption| preemption.fits);
            say(&text, if answer.fits + more > 0 { 0 } else { NONE_FITS })
        }
        Err(refused) => refused.report(),
    }
}

fn answer(args: &FitArgs) -> Result<FitCheck, Refused> {
    let mut cluster = Cluster::load(&args.source, Wanted::Nothing, Some(&args.filename))?;
    let pod = cluster.templates.first().cloned().ok_or_else(|| {
        let file = args.filename.display();
        InputError(format!("{file}: expected a pod or a workload, as in `kubectl get deploy NAME -o yaml`"))
    })?;
    cluster.notices.iter().for_each(|notice| complain(notice));
    // The template pods are hypothetical, so they are nominated to no node.
    for template in &cluster.templates {
        cluster.trial.nominate(template, None);
    }
    let first = first_ordinal(&cluster, &pod);
    let _working = Working::on("placing copies");
    let mut place = Place { trial: &mut cluster.trial, pending: &cluster.pending };
    Ok(fit(&mut place, &pod, args.limit, first, args.preempt))
}

/// Returns the ordinal after those of the StatefulSet's existing replicas; 0 for other pods.
fn first_ordinal(cluster: &Cluster, pod: &PodInfo) -> usize {
    let Some((set, own)) = ordinal(&pod.name).filter(|_| is_replica(pod)) else { return 0 };
    let namespace = cluster.trial.tables().text(pod.namespace);
    let taken = cluster.names_in(namespace).filter_map(ordinal).filter(|&(of, _)| of == set);
    taken.map(|(_, number)| number + 1).max().map_or(own, |next| next.max(own))
}

fn text(of: &FitCheck, wide: bool) -> String {
    let mut screen = Screen::of_stdout();
    let more = if of.at_limit { " or more" } else { "" };
    screen.heading(&format!("{}: {}{more} fit", of.pod, of.fits));
    let shown = if wide { of.nodes.len() } else { NODES_SHOWN.min(of.nodes.len()) };
    let mut rows = vec![vec!["PODS".to_owned(), "NODE".to_owned()]];
    rows.extend(of.nodes[..shown].iter().map(|on| vec![on.pods.to_string(), on.node.clone()]));
    if shown > 0 {
        screen.table(&[0], &rows);
    }
    if of.nodes.len() > shown {
        screen.line(&format!("  and {}", count(of.nodes.len() - shown, "more node")));
    }
    if let Some(GroupFit { group, min_count, starts, at_limit }) = &of.groups {
        let more = if *at_limit { " or more" } else { "" };
        let groups = count(*starts, "group");
        screen.line(&format!("  as {group}: {groups}{more} of {min_count} can start one after the other"));
    }
    if !of.limited_by.is_empty() {
        screen.heading("Why no more fit");
        let mut rows = vec![["NODES", "ONLY REASON", "REASON", "DETAILS"].map(str::to_owned).to_vec()];
        for group in &of.limited_by {
            let numbers = [group.nodes, group.alone_on].map(|number| number.to_string());
            let mut row = numbers.to_vec();
            row.extend([format!("{:?}", group.code), group.text.clone()]);
            rows.push(row);
        }
        screen.table(&[0, 1], &rows);
    }
    if let Some(preemption) = &of.preemption {
        preempting(&mut screen, preemption, wide);
    }
    screen.into_text()
}

fn preempting(screen: &mut Screen, of: &PreemptingFit, wide: bool) {
    let more = if of.at_limit { " or more" } else { "" };
    if of.fits == 0 && !of.at_limit {
        screen.heading("No more fit by preemption");
        return;
    }
    let victims = count(of.victims, "victim");
    screen.heading(&format!("By preemption: {}{more} more fit, with {victims}", of.fits));
    let shown = if wide { of.steps.len() } else { NODES_SHOWN.min(of.steps.len()) };
    let mut rows = vec![["NODE", "VICTIMS"].map(str::to_owned).to_vec()];
    rows.extend(of.steps[..shown].iter().map(|step| {
        let victims = if step.victims.is_empty() { "-".to_owned() } else { step.victims.join(", ") };
        vec![step.node.clone(), victims]
    }));
    if shown > 0 {
        screen.table(&[], &rows);
    }
    if of.steps.len() > shown {
        screen.line(&format!("  and {} with -o wide", count(of.steps.len() - shown, "more pod")));
    }
}
