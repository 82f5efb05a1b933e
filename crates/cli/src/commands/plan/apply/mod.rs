//! `--apply`: carries out a plan, one step at a time, and stops at the first surprise.
//!
//! Before each step the cluster is read and planned again, so that a step never follows from an outdated state. A Lease
//! keeps other plans away meanwhile. The nodes that it cordons have a mark: if it is killed, the next run uncordons
//! them.

mod step;

use super::{CommonArgs, evicted};
use crate::cluster::Refused;
use crate::live::session::Session;
use crate::screen::{ListOutput, complain, in_list_form, plain, say};
use clap::Args;
use serde::Serialize;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use supercargo_config::parse_duration;
use supercargo_whatif::explain::API_VERSION;
use supercargo_whatif::plan::{Blocker, Move};

/// Exit code if the plan was carried out in part.
const STOPPED: u8 = 4;
/// Pause between two plans while something that passes by itself is in the way.
const AGAIN_AFTER: Duration = Duration::from_secs(2);
/// Pause after nodes were cordoned, until the scheduler has seen that.
const CORDON_SEEN_AFTER: Duration = Duration::from_secs(1);
/// Number of steps beyond twice those of the first plan. Further ones would mean that the plan does not end.
const EXTRA_STEPS: usize = 10;

/// Flags of plans that are carried out.
#[derive(Clone, Debug, Args)]
pub struct ApplyArgs {
    /// Carry out the plan through the Eviction API, one step at a time. Without it, nothing is changed.
    #[arg(long, conflicts_with = "cluster")]
    pub apply: bool,

    /// Maximum time from an eviction until the replacement is ready.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration, requires = "apply")]
    pub step_timeout: Duration,

    /// Namespace of the Lease supercargo-plan, which only one plan can hold.
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system", requires = "apply")]
    pub plan_lease_namespace: String,
}

/// A plan that can be carried out.
pub(super) trait Plan: Serialize {
    /// Whether the nodes of [`Self::cordoned`] stay cordoned afterwards.
    const KEEPS_CORDONS: bool;

    /// Returns the nodes that are cordoned from the first step to the last.
    fn cordoned(&self) -> &[String];

    /// Returns the steps.
    fn moves(&self) -> &[Move];

    /// Returns what keeps this plan, made after some steps of `first`, from its goal.
    fn blockers_since(&self, first: &Self) -> Vec<Blocker>;
}

/// What was carried out, as it is printed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Applied<'a> {
    api_version: &'static str,
    kind: &'static str,
    /// Whether all of it was carried out.
    is_done: bool,
    /// The steps that were carried out.
    moves: &'a [Moved],
    /// The nodes that stay cordoned.
    cordoned: &'a [String],
    /// Why it stopped.
    stopped: Option<&'a str>,
}

/// A step that was carried out.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Moved {
    #[serde(flatten)]
    step: Move,
    /// The name of the pod that was created instead.
    replacement: String,
}

/// Carries out what `plan` plans. `plan` gets the nodes that are cordoned for the plan only, which it must take as
/// schedulable, and the first plan, once there is one.
pub(super) fn carry_out<P: Plan>(
    common: &CommonArgs,
    (text, exit_code): (impl FnOnce(&P) -> String, impl Fn(&P) -> u8),
    mut plan: impl FnMut(&[String], Option<&P>) -> Result<P, Refused>,
) -> ExitCode {
    let ApplyArgs { step_timeout, plan_lease_namespace: namespace, .. } = &common.applied;
    let mut session = match Session::open(&common.source.live, namespace, *step_timeout) {
        Ok(session) => session,
        Err(error) => return Refused::Live(error).report(),
    };
    let first = match plan(&[], None) {
        Ok(first) => first,
        Err(refused) => {
            session.close();
            return refused.report();
        }
    };
    let is_text = matches!(common.output, ListOutput::Table | ListOutput::Wide);
    let code = exit_code(&first);
    if is_text || code != 0 {
        let printed =
            say(&in_list_form(common.output, &first, |_| text(&first), || evicted(first.moves())), code);
        if code != 0 {
            session.close();
            return printed;
        }
    }
    let mut moved = Vec::new();
    let outcome = run((&mut session, &mut moved), is_text, &first, plan);
    let stays = session.end(P::KEEPS_CORDONS && outcome.is_ok());
    session.close();
    let stopped = outcome.err();
    let applied = Applied {
        api_version: API_VERSION,
        kind: "AppliedPlan",
        is_done: stopped.is_none(),
        moves: &moved,
        cordoned: &stays,
        stopped: stopped.as_deref(),
    };
    let names = || moved.iter().flat_map(|it| evicted(std::slice::from_ref(&it.step))).collect();
    let text = in_list_form(common.output, &applied, |_| summary(&applied, first.moves().len()), names);
    say(&text, if stopped.is_none() { 0 } else { STOPPED })
}

/// Makes the steps. Returns the reason if it stops before the goal.
fn run<P: Plan>(
    (session, moved): (&mut Session, &mut Vec<Moved>),
    is_text: bool,
    first: &P,
    mut plan: impl FnMut(&[String], Option<&P>) -> Result<P, Refused>,
) -> Result<(), String> {
    let steps_max = 2 * first.moves().len() + EXTRA_STEPS;
    let mut until = Instant::now() + session.step_timeout;
    let mut announced = false;
    for _ in 0..=steps_max {
        let next = loop {
            session.check()?;
            let cordoned: Vec<String> = session.cordoned.iter().cloned().collect();
            let again = plan(&cordoned, Some(first)).map_err(Refused::into_text)?;
            let blockers = again.blockers_since(first);
            let Some(blocker) = blockers.first() else { break again };
            let why = format!("{}: {}", blocker.pod, blocker.reason);
            if !blockers.iter().all(|blocker| blocker.passes) || Instant::now() >= until {
                return Err(why);
            }
            if !announced {
                progress(is_text, &format!("     waiting: {why}"));
                announced = true;
            }
            session.pause(AGAIN_AFTER)?;
        };
        let mut is_any_new = false;
        for node in next.cordoned() {
            is_any_new |= session.cordon(node)?;
        }
        let Some(step) = next.moves().first() else { return Ok(()) };
        if is_any_new {
            session.pause(CORDON_SEEN_AFTER)?;
        }
        let number = moved.len() + 1;
        progress(is_text, &format!("{number:4}  {}: leaves {}", step.pod, step.from));
        match session.step(step)? {
            step::Outcome::Moved(replacement) => {
                progress(is_text, &format!("      {replacement} is ready on {}", step.to));
                moved.push(Moved { step: Move { step: number, ..step.clone() }, replacement });
                until = Instant::now() + session.step_timeout;
                announced = false;
            }
            step::Outcome::Changed(why) => progress(is_text, &format!("      planning again: {why}")),
        }
    }
    Err(format!(
        "after {steps_max} steps there are still pods to move: the cluster changes faster than the plan"
    ))
}

fn summary(applied: &Applied<'_>, planned: usize) -> String {
    let mut lines = String::from("\n");
    match applied.stopped {
        None => lines.push_str("done\n"),
        Some(why) => {
            let done = applied.moves.len();
            lines.push_str(&format!("stopped after {done} of {planned} planned steps: {}\n", plain(why)));
            lines.push_str("what this plan cordoned is uncordoned; the same command goes on from here\n");
        }
    }
    if !applied.cordoned.is_empty() {
        lines.push_str(&format!("cordoned: {}\n", plain(&applied.cordoned.join(", "))));
    }
    lines
}

/// Prints a line at once: to standard output, or to stderr if that has a document.
fn progress(is_text: bool, line: &str) {
    if is_text {
        let mut out = std::io::stdout().lock();
        // A closed pipe does not stop the plan.
        let _ = writeln!(out, "{}", plain(line)).and_then(|()| out.flush());
    } else {
        complain(line);
    }
}
