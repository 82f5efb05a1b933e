//! Parses `examples/*/steps.txt`, as specified in examples/README.md, and checks expectations.
//!
//! Independent of an API server: expectations are checked against a [`View`], which [`runner`] fetches.

pub mod runner;

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;

use super::binaries;
use super::objects::node_of;

/// Reporting controller of expected events.
const REPORTER: &str = "supercargo";

/// One folder of `examples/`.
#[derive(Debug)]
pub struct Example {
    /// The folder's name: `01-reserve-a-node`.
    pub name: String,
    /// The folder's path.
    pub folder: PathBuf,
    /// Its heading.
    pub title: String,
    /// The only version of Kubernetes on which it runs, if not all.
    pub only: Option<String>,
    /// Whether the lines after `since` are for a later version than the chosen one.
    is_left_out: bool,
    /// Its steps, in order.
    pub steps: Vec<Step>,
    /// The arguments of its `finally` lines.
    pub finally: Vec<Vec<String>>,
}

/// A step: any line but `title`, `only` and `finally`.
#[derive(Debug)]
pub enum Step {
    /// Text to print.
    Say(String),
    /// Arguments of a kubectl command that must succeed.
    Kubectl(Vec<String>),
    /// Arguments of a supercargo command that must succeed.
    Supercargo(Vec<String>),
    /// An expectation to be met.
    Expect(Expectation),
}

/// `expect PODS CLAIM`.
#[derive(Debug)]
pub struct Expectation {
    /// A pod's name or, if it contains `=`, a label.
    pub pods: String,
    /// The claim about these pods.
    pub claim: Claim,
}

/// A claim about pods.
#[derive(Debug, PartialEq, Eq)]
pub enum Claim {
    /// The one pod is bound to one of these nodes.
    On(Vec<String>),
    /// This many of the pods have a node.
    Placed(usize),
    /// Numbers of placed pods per value of this node label, largest first.
    Spread { label: String, counts: Vec<usize> },
    /// One pod has no node, and its condition PodScheduled has this reason and a message that begins with this text.
    Waiting { reason: String, text: String },
    /// One of the pods has an event of ours with this reason and a note that begins with this text.
    Event { reason: String, text: String },
    /// The pods have no event with this reason at this moment.
    NoEvent { reason: String },
}

/// The state that expectations are checked against.
#[derive(Debug, Default)]
pub struct View {
    /// The pods of the example's namespace.
    pub pods: Vec<Pod>,
    /// All nodes by name.
    pub nodes: BTreeMap<String, Node>,
    /// The events of the example's namespace.
    pub events: Vec<Event>,
}

impl Example {
    /// Reads all examples, in numeric order.
    pub fn all() -> Result<Vec<Self>> {
        let folder = examples_dir();
        let mut folders = Vec::new();
        for entry in std::fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))? {
            let path = entry?.path();
            // The other folders are programs.
            let is_numbered =
                path.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit());
            if path.is_dir() && is_numbered {
                folders.push(path);
            }
        }
        folders.sort();
        folders.iter().map(|folder| Self::read(folder)).collect()
    }

    /// Reads the example in `folder`.
    pub fn read(folder: &Path) -> Result<Self> {
        let name = folder.file_name().context("an example must be a folder")?.to_string_lossy().into_owned();
        let file = folder.join("steps.txt");
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Self::parse(name, folder.to_owned(), &text)
    }

    /// Parses the text of a `steps.txt`.
    pub fn parse(name: String, folder: PathBuf, text: &str) -> Result<Self> {
        ensure!(
            name.split_once('-').is_some_and(|(number, rest)| !number.is_empty() && !rest.is_empty()),
            "an example's folder must be named NUMBER-NAME, not {name:?}"
        );
        let mut example = Self {
            name,
            folder,
            title: String::new(),
            only: None,
            is_left_out: false,
            steps: Vec::new(),
            finally: Vec::new(),
        };
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if !line.is_empty() && !line.starts_with('#') {
                let place = format!("examples/{}/steps.txt:{}", example.name, number + 1);
                example.add(line).with_context(|| place)?;
            }
        }
        ensure!(!example.title.is_empty(), "examples/{}/steps.txt is empty", example.name);
        Ok(example)
    }

    /// Whether it runs on this version of Kubernetes.
    pub fn runs_on(&self, version: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == version)
    }

    /// Returns its namespace: the folder's name without the number.
    pub fn namespace(&self) -> &str {
        self.name.split_once('-').map_or(&self.name, |(_, rest)| rest)
    }

    fn add(&mut self, line: &str) -> Result<()> {
        let (verb, rest) = line.split_once(' ').with_context(|| format!("{line:?} is incomplete"))?;
        let first = self.title.is_empty();
        ensure!((verb == "title") == first, "`title` must be the first line and occur once");
        ensure!(verb == "finally" || self.finally.is_empty(), "`finally` lines must come last");
        let known = self.steps.len();
        match verb {
            "since" => self.is_left_out = binaries::chosen_minor() < binaries::minor_of(rest)?,
            "title" => self.title = rest.to_owned(),
            "only" => self.only = Some(rest.to_owned()),
            "say" => self.steps.push(Step::Say(rest.to_owned())),
            "kubectl" => self.steps.push(Step::Kubectl(words(rest)?)),
            "supercargo" => self.steps.push(Step::Supercargo(words(rest)?)),
            "expect" => self.steps.push(Step::Expect(rest.parse()?)),
            "finally" => {
                let command = rest.strip_prefix("kubectl ").context("`finally` must run kubectl")?;
                self.finally.push(words(command)?);
            }
            _ => bail!("unknown step {verb:?}; examples/README.md lists all steps"),
        }
        if self.is_left_out {
            self.steps.truncate(known);
        }
        Ok(())
    }
}

/// Returns a message, which is written as up to 1.36, as the chosen version has it.
fn of_chosen(message: &str) -> String {
    match binaries::chosen_minor() {
        ..37 => message.to_owned(),
        _ => message.replace(" no new claims to deallocate,", ""),
    }
}

/// Returns the path of `examples/`.
pub fn examples_dir() -> PathBuf {
    crate::root().join("examples")
}

fn words(line: &str) -> Result<Vec<String>> {
    ensure!(!line.contains(['\'', '"', '$', '|']), "quoting, variables and pipes are not supported: {line}");
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    ensure!(!words.is_empty(), "a command without arguments");
    Ok(words)
}

impl FromStr for Expectation {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let (pods, claim) = line.split_once(' ').with_context(|| format!("{line:?} has no claim"))?;
        Ok(Self { pods: pods.to_owned(), claim: claim.parse()? })
    }
}

impl FromStr for Claim {
    type Err = anyhow::Error;

    fn from_str(claim: &str) -> Result<Self> {
        let no_claim = || anyhow!("unknown claim {claim:?}; examples/README.md lists all claims");
        let (verb, rest) = claim.split_once(' ').ok_or_else(no_claim)?;
        let reason_and_text = || {
            let (reason, text) = rest.split_once(": ").context("expected REASON: TEXT")?;
            anyhow::Ok((reason.to_owned(), text.to_owned()))
        };
        Ok(match verb {
            "on" => Self::On(rest.split(',').map(str::to_owned).collect()),
            "placed" => Self::Placed(rest.parse().with_context(|| format!("{rest:?} is not a count"))?),
            "spread" => {
                let (label, counts) =
                    rest.strip_prefix("over ").and_then(|rest| rest.split_once(": ")).ok_or_else(no_claim)?;
                let counts = counts.split(' ').map(str::parse).collect::<Result<_, _>>();
                let counts = counts.with_context(|| format!("{rest:?} is not a list of counts"))?;
                Self::Spread { label: label.to_owned(), counts }
            }
            "waiting" => {
                let (reason, text) = reason_and_text()?;
                Self::Waiting { reason, text }
            }
            "event" => {
                let (reason, text) = reason_and_text()?;
                Self::Event { reason, text }
            }
            "no" => {
                let reason = rest.strip_prefix("event ").ok_or_else(no_claim)?;
                Self::NoEvent { reason: reason.to_owned() }
            }
            _ => return Err(no_claim()),
        })
    }
}

impl Display for Expectation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.pods, self.claim)
    }
}

impl Display for Claim {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::On(nodes) => write!(f, "on {}", nodes.join(",")),
            Self::Placed(count) => write!(f, "placed {count}"),
            Self::Spread { label, counts } => write!(f, "spread over {label}: {}", join(counts)),
            Self::Waiting { reason, text } => write!(f, "waiting {reason}: {text}"),
            Self::Event { reason, text } => write!(f, "event {reason}: {text}"),
            Self::NoEvent { reason } => write!(f, "no event {reason}"),
        }
    }
}

impl Expectation {
    /// Checks the expectation. The error describes the actual state.
    pub fn judge(&self, view: &View) -> Result<()> {
        let pods = view.select(&self.pods);
        match &self.claim {
            Claim::On(nodes) => {
                let [pod] = pods[..] else { bail!("{} pods match", pods.len()) };
                let node = node_of(pod).with_context(|| why_waiting(pod))?;
                ensure!(nodes.iter().any(|wanted| wanted == node), "it is on {node}");
            }
            Claim::Placed(count) => {
                let placed = pods.iter().filter(|pod| node_of(pod).is_some()).count();
                ensure!(placed == *count, "{placed} of {} have a node", pods.len());
            }
            Claim::Spread { label, counts } => {
                let seen = view.spread(&pods, label);
                ensure!(seen == *counts, "it is {:?}", join(&seen));
            }
            Claim::Waiting { reason, text } => {
                let waiting: Vec<_> = pods.iter().filter(|pod| node_of(pod).is_none()).collect();
                let [pod] = waiting[..] else { bail!("{} of {} wait", waiting.len(), pods.len()) };
                let (seen, message) = waiting_for(pod).with_context(|| why_waiting(pod))?;
                ensure!(seen == *reason && message.starts_with(&of_chosen(text)), "{}", why_waiting(pod));
            }
            Claim::Event { reason, text } => {
                let (seen, text) = (view.events_about(&pods), of_chosen(text));
                let wanted = |event: &&&Event| {
                    event.reason.as_ref() == Some(reason)
                        && event.reporting_controller.as_deref() == Some(REPORTER)
                        && note(event).starts_with(&text)
                };
                ensure!(seen.iter().find(wanted).is_some(), "the events are {}", list(&seen));
            }
            Claim::NoEvent { reason } => {
                let seen = view.events_about(&pods);
                let unwanted = seen.iter().any(|event| event.reason.as_ref() == Some(reason));
                ensure!(!unwanted, "the events are {}", list(&seen));
            }
        }
        Ok(())
    }
}

impl View {
    /// Returns the pods with this name or label.
    fn select(&self, wanted: &str) -> Vec<&Pod> {
        let is_wanted = |pod: &&Pod| match wanted.split_once('=') {
            Some((key, value)) => pod.labels().get(key).is_some_and(|seen| seen == value),
            None => pod.name_any() == wanted,
        };
        self.pods.iter().filter(is_wanted).collect()
    }

    fn spread(&self, pods: &[&Pod], label: &str) -> Vec<usize> {
        let mut by_value: BTreeMap<Option<&String>, usize> = BTreeMap::new();
        for name in pods.iter().filter_map(|pod| node_of(pod)) {
            let value = self.nodes.get(name).and_then(|node| node.labels().get(label));
            *by_value.entry(value).or_default() += 1;
        }
        let mut counts: Vec<usize> = by_value.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    fn events_about(&self, pods: &[&Pod]) -> Vec<&Event> {
        let about_one = |event: &&Event| {
            let uid = event.regarding.as_ref().and_then(|regarding| regarding.uid.as_ref());
            uid.is_some() && pods.iter().any(|pod| pod.metadata.uid.as_ref() == uid)
        };
        self.events.iter().filter(about_one).collect()
    }
}

/// Returns reason and message of a pending pod's condition PodScheduled.
pub fn waiting_for(pod: &Pod) -> Option<(&str, &str)> {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut scheduled =
        conditions.filter(|condition| condition.type_ == "PodScheduled" && condition.status == "False");
    let condition = scheduled.next()?;
    Some((condition.reason.as_deref().unwrap_or_default(), condition.message.as_deref().unwrap_or_default()))
}

/// Returns an event's note.
pub fn note(event: &Event) -> &str {
    event.note.as_deref().unwrap_or_default()
}

fn why_waiting(pod: &Pod) -> String {
    match waiting_for(pod) {
        Some((reason, message)) => format!("it is pending, {reason}: {message}"),
        None => String::from("it has no node and no condition with a reason"),
    }
}

fn list(events: &[&Event]) -> String {
    let texts: Vec<String> = events
        .iter()
        .map(|event| {
            let reporter = event.reporting_controller.as_deref().unwrap_or_default();
            format!("{} ({reporter}): {}", event.reason.as_deref().unwrap_or_default(), note(event))
        })
        .collect();
    if texts.is_empty() { String::from("none") } else { texts.join("; ") }
}

fn join(counts: &[usize]) -> String {
    counts.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
}
