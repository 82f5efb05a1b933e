//! Reports one example: its steps, where each pod is placed or why it is pending, the events, and whether
//! expectations hold.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;

use crate::page::{Ink, Page};
use supercargo_dev::harness::objects::node_of;
use supercargo_dev::harness::steps::runner::Runner;
use supercargo_dev::harness::steps::{Claim, Example, Expectation, Step, View, note, waiting_for};
use supercargo_dev::harness::supercargo::NAME;
use supercargo_dev::harness::wait_for;

/// How long to wait for events of observed changes. Events are sent concurrently with bindings.
const SETTLING: Duration = Duration::from_secs(1);

/// Indentation of texts.
const INDENT: usize = 3;

/// Result of an example.
pub(crate) struct Outcome {
    name: String,
    checks: usize,
    seconds: f64,
    /// The first failed step, or what cleanup left behind.
    failure: Option<String>,
}

impl Outcome {
    pub(crate) fn is_good(&self) -> bool {
        self.failure.is_none()
    }
}

/// What has been printed of an example so far.
#[derive(Default)]
struct PrintedState {
    /// The last printed state of each pod.
    pods: BTreeMap<String, String>,
    events: BTreeSet<(String, String, String)>,
}

/// Runs an example and prints its steps and results.
pub(crate) async fn run(runner: &Runner, example: &Example, page: &mut Page) -> Result<Outcome> {
    let number = example.name.split('-').next().unwrap_or_default();
    page.heading(&format!("{number} {}", example.title))?;
    let began = Instant::now();
    let mut printed = PrintedState::default();
    let (mut checks, mut failure) = (0, None);
    for paragraph in paragraphs(&example.steps) {
        let mut held = Vec::new();
        page.blank()?;
        for step in paragraph {
            print_step(page, example, step)?;
            if let Err(error) = runner.perform(example, step).await {
                failure = Some(format!("{error:#}"));
                break;
            }
            if let Step::Expect(expectation) = step {
                held.push(expectation);
            }
        }
        printed.scene(page, &settled(runner, example).await?)?;
        checks += held.len();
        for expectation in held {
            page.item("   ✓", INDENT + 2, Ink::Good, &in_short(expectation))?;
        }
        if let Some(failure) = &failure {
            page.item("   ✗", INDENT + 2, Ink::Bad, failure)?;
            break;
        }
    }
    if let Err(error) = runner.tidy_up(example).await {
        page.item("   ✗", INDENT + 2, Ink::Bad, &format!("{error:#}"))?;
        failure.get_or_insert(format!("{error:#}"));
    }
    Ok(Outcome { name: example.name.clone(), checks, seconds: began.elapsed().as_secs_f64(), failure })
}

/// Prints the table of all examples.
pub(crate) fn summary(outcomes: &[Outcome], page: &mut Page) -> Result<()> {
    page.heading("Examples")?;
    page.blank()?;
    let width = outcomes.iter().map(|outcome| outcome.name.len()).max().unwrap_or_default();
    for outcome in outcomes {
        let (mark, ink, verdict) = match outcome.failure {
            None => ("✓", Ink::Good, "as expected"),
            Some(_) => ("✗", Ink::Bad, "NOT as expected"),
        };
        let (name, checks, seconds) = (&outcome.name, outcome.checks, outcome.seconds);
        page.line(
            ink,
            &format!("   {mark} {name:width$}  {verdict:15}  {checks:3} checks passed  {seconds:5.1} s"),
        )?;
        if let Some(failure) = &outcome.failure {
            page.item("", INDENT + 4, Ink::Bad, failure)?;
        }
    }
    let good = outcomes.iter().filter(|outcome| outcome.is_good()).count();
    let ink = if good == outcomes.len() { Ink::Good } else { Ink::Bad };
    page.blank()?;
    page.line(ink, &format!("   {good} of {} examples are as expected.", outcomes.len()))
}

/// Splits the steps at each `say`.
fn paragraphs(steps: &[Step]) -> Vec<&[Step]> {
    let mut starts: Vec<usize> = (0..steps.len()).filter(|at| matches!(steps[*at], Step::Say(_))).collect();
    if starts.first() != Some(&0) {
        starts.insert(0, 0);
    }
    let ends = starts.iter().skip(1).copied().chain([steps.len()]);
    starts.iter().zip(ends).map(|(start, end)| &steps[*start..end]).collect()
}

/// Prints a step's action.
fn print_step(page: &mut Page, example: &Example, step: &Step) -> Result<()> {
    match step {
        Step::Say(text) => page.item("", INDENT, Ink::Bold, text),
        Step::Kubectl(words) => {
            page.item("   $", INDENT + 2, Ink::Plain, &format!("kubectl {}", words.join(" ")))?;
            for text in words.windows(2).filter(|pair| matches!(&*pair[0], "-f" | "--patch-file")) {
                let intent = intent(&std::fs::read_to_string(example.folder.join(&text[1]))?);
                page.item("     #", INDENT + 4, Ink::Faint, &intent)?;
            }
            Ok(())
        }
        Step::Supercargo(words) => {
            page.item("   $", INDENT + 2, Ink::Plain, &format!("supercargo {}", words.join(" ")))
        }
        Step::Expect(_) => Ok(()),
    }
}

/// Returns the opening comment of a file, up to its `Expect:` line.
fn intent(text: &str) -> String {
    let comment = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
    comment.take_while(|line| !line.starts_with("Expect:")).collect::<Vec<_>>().join(" ")
}

fn in_short(expectation: &Expectation) -> String {
    match &expectation.claim {
        Claim::Waiting { reason, .. } => {
            format!("{} waiting {reason}, with the expected text", expectation.pods)
        }
        Claim::Event { reason, .. } => format!("{} event {reason}, with the expected text", expectation.pods),
        Claim::On(_) | Claim::Placed(_) | Claim::Spread { .. } | Claim::NoEvent { .. } => {
            expectation.to_string()
        }
    }
}

/// Returns the state once the events of all bindings have arrived, or after a timeout: a pod with `nodeName` has no
/// event.
async fn settled(runner: &Runner, example: &Example) -> Result<View> {
    let complete = wait_for("the events", SETTLING, || async {
        let view = runner.view(example).await?;
        let has_event = |pod: &&Pod| {
            view.events
                .iter()
                .any(|event| event.reason.as_deref() == Some("Scheduled") && is_about(event, pod))
        };
        let placed = view.pods.iter().filter(|pod| node_of(pod).is_some());
        ensure!(placed.into_iter().all(|pod| has_event(&pod)), "some events are missing");
        Ok(view)
    });
    match complete.await {
        Ok(view) => Ok(view),
        Err(_) => runner.view(example).await,
    }
}

fn is_about(event: &Event, pod: &Pod) -> bool {
    event.regarding.as_ref().is_some_and(|regarding| regarding.uid == pod.metadata.uid)
}

impl PrintedState {
    /// Prints the pods and events that changed since the last call.
    fn scene(&mut self, page: &mut Page, view: &View) -> Result<()> {
        let seen: BTreeMap<String, (Ink, String)> =
            view.pods.iter().map(|pod| (pod.name_any(), fate(pod))).collect();
        let gone: Vec<String> = self.pods.keys().filter(|name| !seen.contains_key(*name)).cloned().collect();
        let column = INDENT + 4 + seen.keys().map(String::len).max().unwrap_or_default();
        for (name, (ink, fate)) in seen {
            if self.pods.get(&name) != Some(&fate) {
                page.item(&format!("     {name}"), column, ink, &fate)?;
                self.pods.insert(name, fate);
            }
        }
        for name in gone {
            self.pods.remove(&name);
            page.item(&format!("     {name}"), column, Ink::Faint, "deleted")?;
        }
        for event in view.events.iter().filter(|event| event.reporting_controller.as_deref() == Some(NAME)) {
            let about =
                event.regarding.as_ref().and_then(|regarding| regarding.name.clone()).unwrap_or_default();
            let (reason, note) = (event.reason.clone().unwrap_or_default(), note(event));
            if self.events.insert((about.clone(), reason.clone(), note.to_owned())) {
                let repeats = view.pods.iter().any(|pod| {
                    is_about(event, pod) && waiting_for(pod).is_some_and(|(_, message)| message == note)
                });
                let text = match () {
                    () if repeats => format!("{reason} ({about}), with the same message"),
                    () if note.contains(&about) => format!("{reason}: {note}"),
                    () => format!("{reason} ({about}): {note}"),
                };
                page.item("     event", INDENT + 8, Ink::Faint, &text)?;
            }
        }
        Ok(())
    }
}

/// Describes a pod's placement, or the reason why it is pending.
fn fate(pod: &Pod) -> (Ink, String) {
    let going = if pod.metadata.deletion_timestamp.is_some() { ", being deleted" } else { "" };
    if let Some(node) = node_of(pod) {
        return (Ink::Good, format!("→ {node}{going}"));
    }
    let (reason, message) = waiting_for(pod).unwrap_or(("not yet tried", ""));
    (Ink::Waiting, format!("pending{going}: {reason} {message}").trim_end().to_owned())
}
