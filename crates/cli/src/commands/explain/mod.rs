//! `supercargo explain`: shows why a pod is on its node or pending, or why a group waits, and what would help. It
//! writes nothing to the cluster.
//!
//! Reads a cluster from files or an API server and calls `supercargo_whatif::explain`; `render` formats the answer.

mod args;
mod group;
mod render;

pub use args::{ExplainArgs, Target, TargetKind, WhyArgs};
pub(crate) use group::short_verdict;

use crate::cluster::{Cluster, Refused, Wanted, is_ours};
use crate::screen::Output;
use crate::screen::{complain, in_form, say};
use args::ExplainFlags;
use std::process::ExitCode;
use std::sync::Arc;
use supercargo_config::yaml::nearest;
use supercargo_core::model::pod::PodInfo;
use supercargo_whatif::explain::format::count;
use supercargo_whatif::explain::{Explanation, GroupExplanation, Place, Question, explain, explain_group};
use supercargo_whatif::load::files::InputError;
use supercargo_whatif::prepare::owners::Owner;

/// The error without feature gates.
const GROUPS_ARE_OFF: &str = "pod groups are off; pass --feature-gates with the gates of your scheduler, for example \
    --feature-gates=GenericWorkload=true,GangScheduling=true, and --emulated-version 1.36 or later";
/// Exit code when the pod or group cannot be scheduled now.
const NOT_WELL: u8 = 3;

/// Runs the command on the process's own streams.
pub fn main(args: &ExplainArgs) -> ExitCode {
    let shown = match args.target.kind {
        TargetKind::Pod | TargetKind::Workload(_) => answer(args).map(|answer| {
            let text = in_form(args.flags.output, &answer, |wide| render::text(&answer, wide));
            (text, answer.verdict.is_well())
        }),
        TargetKind::PodGroup => group_answer(args).map(|answer| {
            let text = in_form(args.flags.output, &answer, |_| group::text(&answer));
            (text, answer.verdict.is_well())
        }),
    };
    match shown {
        Ok((text, is_well)) => say(&text, if is_well { 0 } else { NOT_WELL }),
        Err(refused) => refused.report(),
    }
}

fn group_answer(args: &ExplainArgs) -> Result<GroupExplanation, Refused> {
    let name = args.name()?;
    let mut cluster = Cluster::load(&args.flags.source, Wanted::Nothing, None)?;
    if !cluster.trial.tables().rules().groups.workloads {
        return Err(InputError(GROUPS_ARE_OFF.to_owned()).into());
    }
    let namespace = args.flags.namespace.clone().unwrap_or_else(|| cluster.namespace().to_owned());
    let key = cluster.group(&namespace, name)?;
    cluster.notices.iter().for_each(|notice| complain(notice));
    let mut place = Place { trial: &mut cluster.trial, pending: &cluster.pending };
    Ok(explain_group(&mut place, key).explanation)
}

fn answer(args: &ExplainArgs) -> Result<Explanation, Refused> {
    let flags = &args.flags;
    let (mut cluster, pod, has_ended) = match args.target.kind {
        TargetKind::Workload(kind) => {
            let (cluster, pod) = of_workload(flags, kind, args.name()?)?;
            (cluster, pod, false)
        }
        _ => {
            let wanted = Wanted::Pod(flags.namespace.clone(), args.name()?.to_owned());
            let cluster = Cluster::load(&flags.source, wanted, None)?;
            let (pod, has_ended) = cluster.requested_pod()?;
            (cluster, pod, has_ended)
        }
    };
    cluster.notices.iter().for_each(|notice| complain(notice));
    let scheduler = cluster.trial.tables().text(pod.scheduler_name);
    let question = Question {
        has_ended,
        is_ours: is_ours(&flags.source, &cluster.trial, scheduler),
        scores: flags.scores,
        by_node: flags.output != Output::Table,
    };
    let mut place = Place { trial: &mut cluster.trial, pending: &cluster.pending };
    let mut answer = explain(&mut place, &pod, question);
    if let Some(key) = pod.group_key().filter(|_| !has_ended) {
        let group = explain_group(&mut place, key);
        group.apply_to(&pod, &mut answer);
        answer.group = Some(group.explanation);
    }
    Ok(answer)
}

/// Reads a cluster, and returns the pod of a workload to explain: the first pending one by name, or else the first one.
fn of_workload(
    flags: &ExplainFlags,
    kind: &'static str,
    name: &str,
) -> Result<(Cluster, Arc<PodInfo>), Refused> {
    let mut cluster = Cluster::load_with_pods(&flags.source, None)?;
    let namespace = flags.namespace.clone().unwrap_or_else(|| cluster.namespace().to_owned());
    let pods = cluster.owners.as_ref().map(|owners| owners.pods.as_slice()).unwrap_or_default();
    let tables = cluster.trial.tables();
    let here = || pods.iter().filter(|owned| tables.text(owned.pod.namespace) == namespace);
    let is_of = |owner: &Owner| &*owner.kind == kind && &*owner.name == name;
    let mut own: Vec<_> = here().filter(|owned| owned.owner.as_ref().is_some_and(is_of)).collect();
    own.sort_by_key(|owned| (owned.pod.node_name.is_some(), &owned.pod.name));
    let Some(first) = own.first() else {
        let owners = here().filter_map(|owned| owned.owner.as_ref()).filter(|owner| &*owner.kind == kind);
        let meant =
            nearest(name, owners.map(|owner| &*owner.name)).map(|meant| format!("; did you mean {meant}?"));
        let text = format!(
            "no unfinished pod of {kind} {name} in namespace {namespace}{}",
            meant.unwrap_or_default()
        );
        return Err(InputError(text).into());
    };
    let pod = Arc::clone(&first.pod);
    let pending = own.iter().filter(|owned| owned.pod.node_name.is_none()).count();
    let notice = format!(
        "{kind} {name} has {}, {pending} of them pending; this is {}",
        count(own.len(), "pod"),
        pod.name
    );
    cluster.notices.push(notice);
    Ok((cluster, pod))
}
