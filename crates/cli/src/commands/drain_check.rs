//! `supercargo drain-check`: whether nodes can be drained, and which of their pods fit nowhere else. Changes
//! nothing.

use crate::cluster::{Cluster, Refused, SourceArgs};
use crate::live::{self, candidates};
use crate::progress::Working;
use crate::screen::{ListOutput, Screen, complain, in_list_form, say};
use clap::Args;
use clap_complete::ArgValueCompleter;
use std::process::ExitCode;
use std::sync::Arc;
use supercargo_whatif::explain::format::count;
use supercargo_whatif::explain::{
    Accepted, DrainCheck, GroupBelow, Leaving, Moved, Obstacle, ObstacleCode, Place, drain_check,
};
use supercargo_whatif::load::files::InputError;
use supercargo_whatif::pending::LabelQuery;
use supercargo_whatif::prepare::owners::{OwnedPod, Owners};

/// Exit code if a pod cannot be placed elsewhere.
const WITHOUT_PLACE: u8 = 3;
/// Exit code if all pods can be placed elsewhere, but a drain cannot evict all of them, or this is unknown.
const WILL_NOT_DRAIN: u8 = 4;
/// Number of pod names in a line without `-o wide`.
const NAMED: usize = 3;

/// Arguments of `supercargo drain-check`.
#[derive(Clone, Debug, Args)]
pub struct DrainCheckArgs {
    /// Nodes to drain, all at once.
    #[arg(value_name = "NODE", required_unless_present = "selector", conflicts_with = "selector", value_parser = crate::names::node, add = ArgValueCompleter::new(candidates::nodes))]
    pub nodes: Vec<String>,

    /// Label selector of the nodes to drain, for example pool=old.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = LabelQuery::parse)]
    pub selector: Option<LabelQuery>,

    /// Accept that pods without a controller are deleted for good, as `kubectl drain --force` does.
    #[arg(long)]
    pub force: bool,

    /// Accept that data in emptyDir volumes is deleted, as `kubectl drain --delete-emptydir-data` does.
    #[arg(long)]
    pub delete_emptydir_data: bool,

    /// Delete pods regardless of disruption budgets, as `kubectl drain --disable-eviction` does.
    #[arg(long)]
    pub disable_eviction: bool,

    /// Ignore pods of DaemonSets. Always on; accepted for compatibility with kubectl.
    #[arg(long)]
    pub ignore_daemonsets: bool,

    /// Source of the cluster.
    #[command(flatten)]
    pub source: SourceArgs,

    /// Output format. `name` prints the pods that cannot be placed elsewhere.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "table")]
    pub output: ListOutput,
}

/// Runs the command: prints the result and returns the exit code.
pub fn main(args: &DrainCheckArgs) -> ExitCode {
    match answer(args) {
        Ok(answer) => {
            let out = answer.pods.iter().filter(|pod| pod.to.is_none());
            let names = || out.map(|pod| format!("pod/{}", name_of(&pod.pod))).collect();
            let text = in_list_form(args.output, &answer, |wide| text(&answer, wide), names);
            let code = match (answer.without_place, answer.will_drain) {
                (0, true) => 0,
                (0, false) => WILL_NOT_DRAIN,
                _ => WITHOUT_PLACE,
            };
            say(&text, code)
        }
        Err(refused) => refused.report(),
    }
}

/// Returns the name in `namespace/name`.
fn name_of(pod: &str) -> &str {
    pod.split_once('/').map_or(pod, |(_, name)| name)
}

fn answer(args: &DrainCheckArgs) -> Result<DrainCheck, Refused> {
    let mut cluster = Cluster::load_with_pods(&args.source, None)?;
    let nodes = nodes(args, &mut cluster)?;
    cluster.notices.iter().for_each(|notice| complain(notice));
    let Owners { pods, budgets, .. } = cluster.owners.take().unwrap_or_default();
    let budgets = Some(&budgets).filter(|_| !cluster.unread.contains(&live::BUDGETS));
    let tables = cluster.trial.tables();
    let is_here = |noted: &&OwnedPod| {
        let node = noted.pod.node_name.map(|node| tables.text(node));
        node.is_some_and(|node| nodes.iter().any(|name| name == node))
    };
    let leaving: Vec<Leaving> = pods.iter().filter(is_here).map(leaving).collect();
    let _working = Working::on("placing the pods elsewhere");
    let mut place = Place { trial: &mut cluster.trial, pending: &cluster.pending };
    let accepted = Accepted {
        force: args.force,
        empty_dir_data: args.delete_emptydir_data,
        no_eviction: args.disable_eviction,
    };
    let answer = drain_check(&mut place, &nodes, (&leaving, budgets), accepted);
    Ok(DrainCheck { unread: cluster.unread, ..answer })
}

/// Returns the names of the nodes to drain, each once.
fn nodes(args: &DrainCheckArgs, cluster: &mut Cluster) -> Result<Vec<String>, InputError> {
    let Some(selector) = &args.selector else {
        let mut nodes: Vec<String> = Vec::new();
        for name in &args.nodes {
            cluster.has_node(name)?;
            if !nodes.contains(name) {
                nodes.push(name.clone());
            }
        }
        return Ok(nodes);
    };
    let snapshot = cluster.trial.refreshed();
    let is_meant = |labels: supercargo_core::model::intern::Labels<'_>| {
        selector.matches(|key| {
            let value = snapshot.tables().find(key).and_then(|key| labels.get(key))?;
            Some(snapshot.text(value))
        })
    };
    let meant = snapshot.nodes().iter().filter(|&node| is_meant(snapshot.node_labels(node)));
    let mut nodes: Vec<String> =
        meant.map(|node| snapshot.text(snapshot.node_info(node).name).to_owned()).collect();
    nodes.sort_unstable();
    if nodes.is_empty() {
        let text = format!(
            "--selector: matches none of {}; check it with `kubectl get nodes -l`",
            count(snapshot.nodes().len(), "node")
        );
        return Err(InputError(text));
    }
    Ok(nodes)
}

/// Returns how `kubectl drain --ignore-daemonsets` treats the pod.
fn leaving(of: &OwnedPod) -> Leaving {
    let stays = match of.owner.as_ref().map(|owner| &*owner.kind) {
        Some("DaemonSet") => Some("managed by a DaemonSet: it stays on the node"),
        Some("Node") => Some("a static pod of the kubelet: it stays on the node"),
        _ if of.is_mirror => Some("a static pod of the kubelet: it stays on the node"),
        _ => None,
    };
    Leaving {
        pod: Arc::clone(&of.pod),
        stays,
        is_unmanaged: of.owner.is_none(),
        has_empty_dir: of.has_empty_dir,
        is_pending: of.is_pending,
        is_ready: of.is_ready,
    }
}

fn text(of: &DrainCheck, wide: bool) -> String {
    let mut screen = Screen::of_stdout();
    screen.heading(&format!("{}: {}", of.nodes.join(", "), verdict(of)));
    let shown = of.pods.iter().filter(|pod| wide || pod.to.is_none());
    for pod in shown {
        print_pod(&mut screen, pod);
    }
    let headings = ["Pods that the drain cannot evict", "Pods that the drain may be unable to evict"];
    for (heading, are_uncertain) in headings.into_iter().zip([false, true]) {
        let obstacles = of.obstacles.iter().filter(|it| is_uncertain(it) == are_uncertain);
        for (at, it) in obstacles.enumerate() {
            if at == 0 {
                screen.heading(heading);
            }
            obstacle(&mut screen, it, wide);
        }
    }
    let is_waited_for = |budget: &&supercargo_whatif::explain::Budget| budget.allowed > 0;
    if of.budgets.iter().any(|it| is_waited_for(&it)) {
        screen.heading("Disruption budgets that make the drain wait");
        for budget in of.budgets.iter().filter(is_waited_for) {
            let (name, pods, allowed) = (&budget.budget, budget.pods, budget.allowed);
            screen.line(&format!(
                "  {name}: {pods} of its pods are on these nodes, {allowed} may be evicted now"
            ));
        }
    }
    if !of.groups.is_empty() {
        screen.heading("Pod groups that fall below their minCount");
        of.groups.iter().for_each(|group| screen.line(&group_below(group)));
    }
    if !of.stay.is_empty() && wide {
        screen.heading("Pods that the drain leaves on the nodes");
        let rows: Vec<Vec<String>> =
            of.stay.iter().map(|(pod, why)| vec![pod.clone(), (*why).to_owned()]).collect();
        screen.table(&[], &rows);
    }
    screen.into_text()
}

fn group_below(of: &GroupBelow) -> String {
    let left = of.bound - of.evicted;
    let then = match (of.recovers, of.placed_again) {
        (true, again) => format!("{again} of the evicted members get a node again, which is enough"),
        (false, again) => format!("{again} of the evicted members get a node again, which is not enough"),
    };
    let (group, evicted, min) = (&of.group, count(of.evicted, "member"), of.min_count);
    format!("  {group}: {evicted} evicted, {left} left of at least {min}; {then}")
}

/// Returns the one-line result: whether all pods can be placed elsewhere, and whether a drain can evict them.
fn verdict(of: &DrainCheck) -> String {
    let (going, out) = (of.pods.len(), of.without_place);
    let all = count(going, "pod");
    let certain = of.obstacles.iter().filter(|it| !is_uncertain(it));
    let mut held: Vec<&String> = certain.flat_map(|it| &it.pods).collect();
    held.sort_unstable();
    held.dedup();
    let held = held.len();
    match (going, out, held) {
        (0, ..) => "no pods to evict".to_owned(),
        (_, 0, 0) if !of.will_drain => {
            format!("{all} to evict, all fit elsewhere; unknown whether the drain can evict all of them")
        }
        (_, 0, 0) => format!("{all} to evict, all fit elsewhere"),
        (_, 0, _) => format!("drain blocked: {held} of {all} cannot be evicted; all fit elsewhere"),
        (_, _, 0) => format!("{out} of {all} cannot be placed elsewhere"),
        _ => format!("drain blocked: {held} of {all} cannot be evicted, {out} cannot be placed elsewhere"),
    }
}

/// Returns whether it is unknown if the obstacle exists.
fn is_uncertain(obstacle: &Obstacle) -> bool {
    obstacle.code == ObstacleCode::BudgetsUnknown
}

fn obstacle(screen: &mut Screen, of: &Obstacle, wide: bool) {
    let shown = if wide { of.pods.len() } else { of.pods.len().min(NAMED) };
    let mut names = of.pods[..shown].join(", ");
    if of.pods.len() > shown {
        names = format!("{names} and {} more", of.pods.len() - shown);
    }
    let accepted = of.accepted_by.map_or_else(String::new, |flag| format!(" (accepted with {flag})"));
    screen.line(&format!("  {names}: {}{accepted}", of.text));
}

fn print_pod(screen: &mut Screen, pod: &Moved) {
    let alone = if pod.is_unmanaged { "  (no controller recreates it)" } else { "" };
    match &pod.to {
        Some(node) => screen.line(&format!("  {} would move to {node}{alone}", pod.pod)),
        None => {
            screen.line(&format!("  {} cannot be placed elsewhere{alone}", pod.pod));
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
