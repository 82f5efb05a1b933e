//! `supercargo explain`: shows why a pod is on its node or pending, and what would help. It writes nothing to the
//! cluster.
//!
//! Reads a cluster from files or an API server and calls `supercargo_whatif::explain`; `render` formats the answer.

mod args;
mod render;

pub use args::{ExplainArgs, Target};

use crate::cluster::{Cluster, Refused, Wanted, is_ours};
use crate::screen::Output;
use crate::screen::{complain, in_form, say};
use std::process::ExitCode;
use supercargo_whatif::explain::{Explanation, Place, Question, explain};

/// Exit code when the pod cannot be scheduled now.
const NOT_WELL: u8 = 3;

/// Runs the command on the process's own streams.
pub fn main(args: &ExplainArgs) -> ExitCode {
    match answer(args) {
        Ok(answer) => {
            let text = in_form(args.output, &answer, |wide| render::text(&answer, wide));
            say(&text, if answer.verdict.is_well() { 0 } else { NOT_WELL })
        }
        Err(refused) => refused.report(),
    }
}

fn answer(args: &ExplainArgs) -> Result<Explanation, Refused> {
    let wanted = Wanted::Pod(args.namespace.clone(), args.pod_name()?.to_owned());
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
    Ok(explain(&mut place, &pod, question))
}
