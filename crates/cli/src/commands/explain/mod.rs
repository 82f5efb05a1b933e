//! `supercargo explain`: shows why a pod is on its node or pending, or why a group waits, and what would help. It
//! writes nothing to the cluster.
//!
//! Reads a cluster from files or an API server and calls `supercargo_whatif::explain`; `render` formats the answer.

mod args;
mod group;
mod render;

pub use args::{ExplainArgs, Target, TargetKind};
pub(crate) use group::short_verdict;

use crate::cluster::{Cluster, Refused, Wanted, is_ours};
use crate::screen::Output;
use crate::screen::{complain, in_form, say};
use std::process::ExitCode;
use supercargo_whatif::explain::{Explanation, GroupExplanation, Place, Question, explain, explain_group};
use supercargo_whatif::load::files::InputError;

/// The error without feature gates.
const GROUPS_ARE_OFF: &str = "pod groups are off; pass --feature-gates with the gates of your scheduler, for example \
    --feature-gates=GenericWorkload=true,GangScheduling=true, and --emulated-version 1.36 or later";
/// Exit code when the pod or group cannot be scheduled now.
const NOT_WELL: u8 = 3;

/// Runs the command on the process's own streams.
pub fn main(args: &ExplainArgs) -> ExitCode {
    let shown = match args.target.kind {
        TargetKind::Pod => answer(args).map(|answer| {
            let text = in_form(args.output, &answer, |wide| render::text(&answer, wide));
            (text, answer.verdict.is_well())
        }),
        TargetKind::PodGroup => group_answer(args).map(|answer| {
            let text = in_form(args.output, &answer, |_| group::text(&answer));
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
    let mut cluster = Cluster::load(&args.source, Wanted::Nothing, None)?;
    if !cluster.trial.tables().rules().groups.workloads {
        return Err(InputError(GROUPS_ARE_OFF.to_owned()).into());
    }
    let namespace = args.namespace.clone().unwrap_or_else(|| cluster.namespace().to_owned());
    let key = cluster.group(&namespace, name)?;
    cluster.notices.iter().for_each(|notice| complain(notice));
    let mut place = Place { trial: &mut cluster.trial, pending: &cluster.pending };
    Ok(explain_group(&mut place, key).explanation)
}

fn answer(args: &ExplainArgs) -> Result<Explanation, Refused> {
    let wanted = Wanted::Pod(args.namespace.clone(), args.name()?.to_owned());
    let mut cluster = Cluster::load(&args.source, wanted, None)?;
    let (pod, has_ended) = cluster.requested_pod()?;
    cluster.notices.iter().for_each(|notice| complain(notice));
    let scheduler = cluster.trial.tables().text(pod.scheduler_name);
    let question = Question {
        has_ended,
        is_ours: is_ours(&args.source, &cluster.trial, scheduler),
        scores: args.scores,
        by_node: args.output != Output::Table,
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
