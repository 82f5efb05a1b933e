//! `supercargo explain`: shows why a pod is on its node or pending, or why a group waits, and what would help. It
//! writes nothing to the cluster.
//!
//! Reads a cluster from files or an API server and calls `supercargo_whatif::explain`; `render` formats the answer.

mod args;
mod group;
mod render;

pub use args::{ExplainArgs, Target, TargetKind, WhyArgs};
pub(crate) use group::short_verdict;
pub(crate) use render::new_pods_text;

use crate::cluster::{Cluster, Refused, SourceArgs, Wanted, is_ours, meant_scheduler};
use crate::live::LiveArgs;
use crate::progress::Working;
use crate::screen::{Output, Screen, complain, in_form, plain, say};
use crate::watching::{Between, Shown, watch};
use args::ExplainFlags;
use std::path::Path;
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
/// The error of a watch without a file to read again.
const READ_ONCE: &str = "--watch reads the cluster again and again, and standard input only once; give a file with \
    --cluster";
/// Exit code when the pod or group cannot be scheduled now.
const NOT_WELL: u8 = 3;

/// Runs the command on the process's own streams.
pub fn main(args: &ExplainArgs) -> ExitCode {
    let flags = &args.flags;
    let mut said = Vec::new();
    let mut ask = || -> Result<Answered, Refused> {
        let asked = shown(args)?;
        if said != asked.notices {
            asked.notices.iter().for_each(|notice| complain(notice));
            said.clone_from(&asked.notices);
        }
        Ok(asked)
    };
    if flags.watch.watch {
        if flags.source.cluster.iter().any(|file| file == Path::new("-")) {
            return Refused::from(InputError(READ_ONCE.to_owned())).report();
        }
        let is_table = matches!(flags.output, Output::Table | Output::Wide);
        let between = Between::of_stdout(is_table, flags.output == Output::Yaml);
        return watch(flags.watch, between, || {
            let Answered { text, .. } = ask()?;
            Ok(Shown { state: text.clone(), text })
        });
    }
    match ask() {
        Ok(asked) => say(&asked.text, if asked.is_well { 0 } else { NOT_WELL }),
        Err(refused) => refused.report(),
    }
}

/// An answer as text.
struct Answered {
    text: String,
    /// Whether the pod can run, runs or ran, or the group starts.
    is_well: bool,
    /// Messages about the input for the user.
    notices: Vec<String>,
}

fn shown(args: &ExplainArgs) -> Result<Answered, Refused> {
    let output = args.flags.output;
    if args.target.kind == TargetKind::PodGroup {
        let (answer, notices) = group_answer(args)?;
        let text = in_form(output, &answer, |_| group::text(&answer));
        return Ok(Answered { text, is_well: answer.verdict.is_well(), notices });
    }
    let found = found(args)?;
    let asked = Asked { scores: args.flags.scores, by_node: output != Output::Table };
    let (answer, notices) = answer(&args.flags.source, found, asked);
    let live = live(&args.flags.source);
    let text = in_form(output, &answer, |wide| render::text(&answer, wide, live, Screen::of_stdout()));
    Ok(Answered { text, is_well: answer.verdict.is_well(), notices })
}

/// Explains a pod as `explain pod` does, as plain text with the notices at the end.
///
/// # Errors
/// Fails as `explain` does, and if the pod of this name is not the one with the UID.
pub(crate) fn pod_text(
    source: &SourceArgs,
    (namespace, name): (&str, &str),
    uid: &str,
) -> Result<String, Refused> {
    let wanted = Wanted::Pod(Some(namespace.to_owned()), name.to_owned());
    let cluster = Cluster::load(source, wanted, None)?;
    let (pod, has_ended) = cluster.requested_pod()?;
    let owner = cluster.requested_owner();
    if *pod.uid != *uid {
        let text = format!(
            "pod {name} in namespace {namespace} is not the one in the queue: it was replaced, or the kubeconfig is \
             of another cluster; give that of the scheduler's with --kubeconfig or --context"
        );
        return Err(InputError(text).into());
    }
    let found = Found { cluster, pod, owner, has_ended };
    let (answer, notices) = answer(source, found, Asked { scores: false, by_node: false });
    let mut text = render::text(&answer, false, live(source), Screen::plain());
    for notice in notices {
        text.push_str(&format!("\n{}\n", plain(&notice)));
    }
    Ok(text)
}

/// Returns the connection, if the cluster is read from an API server.
fn live(source: &SourceArgs) -> Option<&LiveArgs> {
    source.cluster.is_empty().then_some(&source.live)
}

fn group_answer(args: &ExplainArgs) -> Result<(GroupExplanation, Vec<String>), Refused> {
    let name = args.name()?;
    let mut cluster = Cluster::load(&args.flags.source, Wanted::Nothing, None)?;
    if !cluster.trial.tables().rules().groups.workloads {
        return Err(InputError(GROUPS_ARE_OFF.to_owned()).into());
    }
    let namespace = args.flags.namespace.clone().unwrap_or_else(|| cluster.namespace().to_owned());
    let key = cluster.group(&namespace, name)?;
    let mut place = Place { trial: &mut cluster.trial, pending: &cluster.pending };
    Ok((explain_group(&mut place, key).explanation, cluster.notices))
}

/// A pod to explain, and its cluster.
struct Found {
    cluster: Cluster,
    pod: Arc<PodInfo>,
    owner: Option<Owner>,
    has_ended: bool,
}

fn found(args: &ExplainArgs) -> Result<Found, Refused> {
    let flags = &args.flags;
    if let TargetKind::Workload(kind) = args.target.kind {
        return of_workload(flags, kind, args.name()?);
    }
    let wanted = Wanted::Pod(flags.namespace.clone(), args.name()?.to_owned());
    let cluster = Cluster::load(&flags.source, wanted, None)?;
    let (pod, has_ended) = cluster.requested_pod()?;
    let owner = cluster.requested_owner();
    Ok(Found { cluster, pod, owner, has_ended })
}

/// The parts that an explanation may have in addition.
#[derive(Clone, Copy)]
struct Asked {
    scores: bool,
    by_node: bool,
}

fn answer(source: &SourceArgs, found: Found, asked: Asked) -> (Explanation, Vec<String>) {
    let Found { mut cluster, pod, owner, has_ended } = found;
    let scheduler = cluster.trial.tables().text(pod.scheduler_name);
    let meant = meant_scheduler(source, &cluster.trial, scheduler);
    let question = Question {
        has_ended,
        meant: meant.as_deref(),
        owner: owner.as_ref().into(),
        is_ours: is_ours(source, &cluster.trial, scheduler),
        scores: asked.scores,
        by_node: asked.by_node,
    };
    let _working = Working::on("deciding and looking for fixes");
    let mut place = Place { trial: &mut cluster.trial, pending: &cluster.pending };
    let mut answer = explain(&mut place, &pod, question);
    if let Some(key) = pod.group_key().filter(|_| !has_ended) {
        let group = explain_group(&mut place, key);
        group.apply_to(&pod, &mut answer);
        answer.group = Some(group.explanation);
    }
    (answer, cluster.notices)
}

/// Reads a cluster, and returns the pod of a workload to explain: the first pending one by name, or else the first one.
fn of_workload(flags: &ExplainFlags, kind: &'static str, name: &str) -> Result<Found, Refused> {
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
            meant.unwrap_or_else(|| "; check the name and -n, and whether it has replicas".to_owned())
        );
        return Err(InputError(text).into());
    };
    let (pod, owner) = (Arc::clone(&first.pod), first.owner.clone());
    let pending = own.iter().filter(|owned| owned.pod.node_name.is_none()).count();
    let notice = format!(
        "{kind} {name} has {}, {pending} of them pending; this is {}",
        count(own.len(), "pod"),
        pod.name
    );
    cluster.notices.push(notice);
    Ok(Found { cluster, pod, owner, has_ended: false })
}
