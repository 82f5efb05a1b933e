//! `supercargo drain-check`: who would have no place if a node were drained. Changes nothing.

use super::cluster::{Cluster, Refused, Resident, SourceArgs, Wanted, complain, in_form, say};
use super::screen::Screen;
use super::simulate::decide::profile_of;
use super::simulate::{Output, profiles};
use crate::explain::{DrainCheck, Leaving, Moved, Place, drain_check};
use clap::Args;
use std::process::ExitCode;
use std::sync::Arc;

/// Exit code when a pod would have no place.
const WITHOUT_PLACE: u8 = 3;

/// What is drained in mind.
#[derive(Clone, Debug, Args)]
pub struct DrainCheckArgs {
    /// The node.
    #[arg(value_name = "NODE", value_parser = super::names::node)]
    pub node: String,

    /// Where the cluster is.
    #[command(flatten)]
    pub source: SourceArgs,

    /// Form of the answer.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "table")]
    pub output: Output,
}

/// Runs the command on the process's own streams.
pub fn main(args: &DrainCheckArgs) -> ExitCode {
    match answer(args) {
        Ok(answer) => {
            let text = in_form(args.output, &answer, |wide| text(&answer, wide));
            say(&text, if answer.without_place == 0 { 0 } else { WITHOUT_PLACE })
        }
        Err(refused) => refused.tell(),
    }
}

fn answer(args: &DrainCheckArgs) -> Result<DrainCheck, Refused> {
    let mut cluster = Cluster::load(&args.source, Wanted::OnNode(args.node.clone()), None)?;
    let profiles = profiles(args.source.config.as_deref(), &mut cluster.world.tables)?;
    cluster.has_node(&args.node)?;
    cluster.notices.iter().for_each(|notice| complain(notice));
    let leaving: Vec<Leaving> = cluster.residents.iter().map(leaving).collect();
    let mut place = Place {
        tables: &mut cluster.world.tables,
        cache: &mut cluster.world.cache,
        framework: profile_of(&profiles, ""),
        pending: &cluster.pending,
    };
    Ok(drain_check(&mut place, &args.node, &leaving))
}

/// What `kubectl drain --ignore-daemonsets` would do with it.
fn leaving(of: &Resident) -> Leaving {
    let stays = match of.owner.as_str() {
        "DaemonSet" => Some("a DaemonSet's: it belongs to the node"),
        "Node" => Some("the kubelet's own: it belongs to the node"),
        _ if of.is_mirror => Some("the kubelet's own: it belongs to the node"),
        _ => None,
    };
    Leaving { pod: Arc::clone(&of.pod), stays, is_unmanaged: of.owner.is_empty() }
}

fn text(of: &DrainCheck, wide: bool) -> String {
    let mut screen = Screen::of_stdout();
    let (going, out) = (of.pods.len(), of.without_place);
    let pods = if going == 1 { "pod" } else { "pods" };
    let verdict = match (going, out) {
        (0, _) => "no pod would have to go".to_owned(),
        (_, 0) => format!("{going} {pods} would have to go, and each has another place"),
        _ => format!("{out} of {going} {pods} would have no place"),
    };
    screen.heading(&format!("{}: {verdict}", of.node));
    let shown = of.pods.iter().filter(|pod| wide || pod.to.is_none());
    for pod in shown {
        tell(&mut screen, pod);
    }
    if !of.budgets.is_empty() {
        screen.heading("Budgets that would make the drain wait");
        for budget in &of.budgets {
            let (name, pods, allowed) = (&budget.budget, budget.pods, budget.allowed);
            screen.line(&format!("  {name}: {pods} of its pods are here, and {allowed} may go now"));
        }
    }
    if !of.stay.is_empty() && wide {
        screen.heading("Pods a drain leaves where they are");
        let rows: Vec<Vec<String>> =
            of.stay.iter().map(|(pod, why)| vec![pod.clone(), (*why).to_owned()]).collect();
        screen.table(&[], &rows);
    }
    screen.into_text()
}

fn tell(screen: &mut Screen, pod: &Moved) {
    let alone = if pod.is_unmanaged { " (nobody would make it anew)" } else { "" };
    match &pod.to {
        Some(node) => screen.line(&format!("  {} would go to {node}{alone}", pod.pod)),
        None => {
            screen.line(&format!("  {} would have no place{alone}", pod.pod));
            let rows: Vec<Vec<String>> = pod
                .reasons
                .iter()
                .map(|group| {
                    vec![
                        String::new(),
                        group.nodes.to_string(),
                        format!("{:?}", group.code),
                        group.text.clone(),
                    ]
                })
                .collect();
            screen.table(&[1], &rows);
        }
    }
}
