//! The result of a replay, as a versioned kind.

use serde::Serialize;
use serde_json::value::RawValue;
use supercargo_core::compare::{Agreement, Comparison, OtherDecision, Scored};
use supercargo_core::report::Preemption;
use supercargo_core::scheduler::{Alternative, AlternativeOutcome};
use supercargo_whatif::recording::decision::API_VERSION;
use supercargo_whatif::recording::header::Header;
use supercargo_whatif::recording::header::Mode;
use supercargo_whatif::recording::replay::Summary;
use supercargo_whatif::recording::watched::ObservedBinding;

/// Maximum number of differences that are kept; further ones are only counted.
const KEPT_MAX: usize = 10_000;
/// Number of victims named in a row.
const NAMED: usize = 3;

/// Result of a replay.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReplayReport {
    api_version: &'static str,
    kind: &'static str,
    pub recording: Recording,
    /// Name of the other scheduler whose bindings were recorded; absent for a scheduler's own recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watched: Option<String>,
    /// Number of attempts that ended with a decision.
    pub decisions: u64,
    /// Number of decisions that found a node.
    pub placed: u64,
    /// Whether all decisions equal the recorded ones.
    pub identical: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub divergence: Option<Divergence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<Compared>,
}

/// Data about the recording.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Recording {
    /// Start time.
    pub time: String,
    /// Version of the program that recorded it.
    pub version: String,
    /// Number of lines replayed.
    pub lines: usize,
    /// Number of inputs to the engine.
    pub inputs: u64,
    /// Time from the first to the last input.
    pub seconds: f64,
    /// Why it ends: `stopped`, `full` or `overrun`; absent if the end marker is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<String>,
}

/// First difference from the recording.
#[derive(Debug, Serialize)]
pub(super) struct Divergence {
    /// Line of the recording.
    pub line: usize,
    /// Decision recorded at that line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<Box<RawValue>>,
    /// Decision made by the replay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<Box<RawValue>>,
}

/// Comparison with another configuration.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Compared {
    /// File of the configuration.
    pub config: String,
    /// Decisions compared. Excludes decisions that called extenders, and bindings that cannot be evaluated.
    pub asked: u64,
    /// Same node, or unschedulable both times. For another scheduler's bindings, also a node with the same
    /// total score.
    pub same: u64,
    /// Another node.
    pub elsewhere: u64,
    /// Placed then, unschedulable now.
    pub nowhere: u64,
    /// Unschedulable then, placed now.
    pub only_now: u64,
    /// Unschedulable both times, with different victims.
    pub other_victims: u64,
    /// The configuration has no profile for the pod.
    pub not_ours: u64,
    /// The decision fails with an error.
    pub failed: u64,
    /// Differences to another scheduler's bindings that disappear if concurrent events are reordered.
    pub raced: u64,
    /// Bindings that cannot be evaluated.
    pub unjudged: u64,
    /// Differences, in order.
    pub differences: Vec<Difference>,
    /// Number of further differences.
    pub more: u64,
}

/// A decision that differs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Difference {
    /// Last line replayed before it.
    pub line: usize,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub attempt: u32,
    /// Node chosen then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// Node chosen now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// Reason, as text.
    pub why: String,
    /// Total score of the new node minus that of the recorded node, under the other configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<i64>,
    /// Contribution of each plugin to that, largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<Lead>,
    /// Victims of the recorded decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempted_then: Option<Room>,
    /// Victims of the new decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempted_now: Option<Room>,
}

/// Node and victims of a preemption.
#[derive(Debug, Serialize)]
pub(super) struct Room {
    pub node: String,
    pub victims: Vec<Victim>,
}

/// Pod that a preemption evicts.
#[derive(Debug, Serialize)]
pub(super) struct Victim {
    namespace: String,
    name: String,
    uid: String,
}

impl Room {
    fn of(preemption: &Preemption) -> Option<Self> {
        let Preemption::Nominated { node, victims, .. } = preemption else { return None };
        let victims = victims.iter().map(|it| Victim {
            namespace: it.namespace.clone(),
            name: it.name.clone(),
            uid: it.uid.to_string(),
        });
        Some(Self { node: node.clone(), victims: victims.collect() })
    }

    /// Formats the victims and their node.
    fn describe(of: Option<&Self>) -> String {
        let Some(Self { node, victims }) = of else { return "no pods".to_owned() };
        let named = victims.iter().take(NAMED).map(|it| format!("{}/{}", it.namespace, it.name));
        let named = named.collect::<Vec<_>>().join(", ");
        match victims.len().saturating_sub(NAMED) {
            0 => format!("{named} from {node}"),
            more => format!("{named} and {more} more from {node}"),
        }
    }
}

/// Contribution of a plugin to a difference in total score.
#[derive(Debug, Serialize)]
pub(super) struct Lead {
    pub plugin: String,
    pub weighted: i64,
}

impl ReplayReport {
    pub(super) fn new(beginning: &Header, summary: Summary, compared: Option<Compared>) -> Self {
        let raw = |json: String| RawValue::from_string(json).expect("decisions are written as JSON");
        Self {
            api_version: API_VERSION,
            kind: "ReplayReport",
            recording: Recording {
                time: beginning.time.clone(),
                version: beginning.version.clone(),
                lines: summary.lines,
                inputs: summary.inputs,
                seconds: summary.took.as_secs_f64(),
                ends: summary.ends,
            },
            watched: match &beginning.mode {
                Mode::Scheduler => None,
                Mode::Watcher { of } => Some(of.clone()),
            },
            decisions: summary.decisions,
            placed: summary.placed,
            identical: summary.divergence.is_none(),
            divergence: summary.divergence.map(|it| Divergence {
                line: it.line,
                then: it.then.map(raw),
                now: it.now.map(raw),
            }),
            compared,
        }
    }

    /// Returns whether no decision differs.
    pub(super) fn is_same(&self) -> bool {
        self.identical && self.compared.as_ref().is_none_or(|it| it.same + it.raced == it.asked)
    }

    /// Returns a warning if the recording ended early.
    pub(super) fn notice(&self) -> Option<String> {
        let lines = self.recording.lines;
        match self.recording.ends.as_deref() {
            _ if !self.identical => None,
            Some("stopped") => None,
            Some("full") => Some(format!("the recording ends after {lines} lines: size limit reached")),
            Some("overrun") => {
                Some(format!("the recording ends after {lines} lines: the disk could not keep up"))
            }
            Some(other) => Some(format!("the recording ends after {lines} lines: {other}")),
            None => Some(format!(
                "the recording breaks off after {lines} lines, as if its process was killed; the complete lines are used"
            )),
        }
    }
}

impl Compared {
    pub(super) fn by(config: &str) -> Self {
        Self { config: config.to_owned(), ..Self::default() }
    }

    /// Counts a decision of the other configuration, and keeps it if it differs.
    pub(super) fn count(&mut self, line: usize, alternative: &Alternative) {
        self.asked += 1;
        let mut difference = Difference {
            line,
            namespace: alternative.pod.namespace.clone(),
            name: alternative.pod.name.clone(),
            uid: alternative.pod.uid.to_string(),
            attempt: alternative.attempt,
            then: alternative.chosen.clone(),
            now: None,
            why: String::new(),
            ahead: None,
            plugins: Vec::new(),
            preempted_then: Room::of(&alternative.room),
            preempted_now: Room::of(&alternative.other_room),
        };
        match &alternative.otherwise {
            AlternativeOutcome::Same if alternative.is_room_the_same() => {
                self.same += 1;
                return;
            }
            AlternativeOutcome::Same => self.other_victims += 1,
            AlternativeOutcome::NotOurs => {
                self.not_ours += 1;
                difference.why = "no profile has the pod's schedulerName".to_owned();
            }
            AlternativeOutcome::Failed(text) => {
                self.failed += 1;
                difference.why = text.clone();
            }
            AlternativeOutcome::Differs(comparison) => {
                match (&alternative.chosen, &comparison.ours) {
                    (Some(_), Some(_)) => self.elsewhere += 1,
                    (Some(_), None) => self.nowhere += 1,
                    (None, _) => self.only_now += 1,
                }
                difference.compare(comparison);
            }
        }
        difference.compare_room(matches!(
            alternative.otherwise,
            AlternativeOutcome::Failed(_) | AlternativeOutcome::NotOurs
        ));
        self.keep(difference);
    }

    /// Counts a comparison with another scheduler's binding, and keeps it if it differs.
    pub(super) fn see(&mut self, line: usize, seen: &ObservedBinding) {
        let judgement = match seen {
            ObservedBinding::Unjudged(_) => {
                self.unjudged += 1;
                return;
            }
            ObservedBinding::Judged(judgement) => judgement,
        };
        self.asked += 1;
        match judgement.agreement {
            Agreement::Same | Agreement::EqualScore | Agreement::NeitherFits => self.same += 1,
            Agreement::Raced => self.raced += 1,
            Agreement::Different => self.elsewhere += 1,
            Agreement::TheyFitWeNot if judgement.comparison.as_ref().is_some_and(|it| it.ours.is_some()) => {
                self.elsewhere += 1;
            }
            Agreement::TheyFitWeNot => self.nowhere += 1,
            Agreement::WeFitTheyNot => self.only_now += 1,
        }
        let differs = [Agreement::Different, Agreement::TheyFitWeNot, Agreement::WeFitTheyNot];
        let is_difference = differs.contains(&judgement.agreement);
        let Some(comparison) = judgement.comparison.as_ref().filter(|_| is_difference) else { return };
        let mut difference = Difference {
            line,
            namespace: judgement.pod.namespace.clone(),
            name: judgement.pod.name.clone(),
            uid: judgement.pod.uid.to_string(),
            attempt: 1,
            then: match &comparison.theirs {
                OtherDecision::Scored(theirs) => Some(theirs.node.clone()),
                OtherDecision::Rejected { node, .. } => Some(node.clone()),
                OtherDecision::None { .. } => None,
            },
            now: None,
            why: String::new(),
            ahead: None,
            plugins: Vec::new(),
            preempted_then: None,
            preempted_now: None,
        };
        difference.compare(comparison);
        self.keep(difference);
    }

    fn keep(&mut self, difference: Difference) {
        if self.differences.len() < KEPT_MAX {
            self.differences.push(difference);
        } else {
            self.more += 1;
        }
    }
}

impl Difference {
    /// Adds the victims of both decisions to the reason, if there are any. `is_unknown`: the new decision
    /// failed or was not made.
    fn compare_room(&mut self, is_unknown: bool) {
        let (then, now) = (self.preempted_then.as_ref(), self.preempted_now.as_ref());
        let text = match (then, now) {
            (None, None) => return,
            (Some(_), _) if is_unknown => format!("preempted {}", Room::describe(then)),
            (Some(_), None) if self.now.is_some() => {
                format!("preempted {}, now needs no preemption", Room::describe(then))
            }
            (_, Some(_)) if self.then.is_some() => format!("would preempt {}", Room::describe(now)),
            _ => format!("preempted {}, would preempt {}", Room::describe(then), Room::describe(now)),
        };
        self.why = if self.why.is_empty() { text } else { format!("{}; {text}", self.why) };
    }

    fn compare(&mut self, comparison: &Comparison) {
        self.now = comparison.ours.as_ref().map(|ours| ours.node.clone());
        self.why = match (&comparison.theirs, &comparison.ours) {
            (OtherDecision::Rejected { plugin, reason, .. }, _) => match plugin {
                Some(plugin) => format!("{plugin}: {reason}"),
                None => reason.clone(),
            },
            (OtherDecision::None { message }, _) => format!("then: {message}"),
            (OtherDecision::Scored(theirs), Some(ours)) => {
                self.plugins = leads(ours, theirs);
                let ahead = ours.total - theirs.total;
                self.ahead = Some(ahead);
                if ahead == 0 {
                    "tie: both nodes have the highest total, among a different number of nodes".to_owned()
                } else {
                    let part = |it: &Lead| format!("{} {:+}", it.plugin, it.weighted);
                    let parts: Vec<String> = self.plugins.iter().take(3).map(part).collect();
                    format!("{ahead:+}: {}", parts.join(", "))
                }
            }
            (OtherDecision::Scored(_), None) => {
                "feasible, but what the pod needs cannot be reserved".to_owned()
            }
        };
    }
}

/// Returns the contribution of each plugin to the difference in total score, without zeros.
fn leads(ours: &Scored, theirs: &Scored) -> Vec<Lead> {
    let weighted = |of: &Scored, plugin: &str| {
        let cell = of.plugins.iter().find(|cell| cell.plugin == plugin);
        cell.map_or(0, |cell| cell.normalized * cell.weight)
    };
    let lead = |plugin: &str| weighted(ours, plugin) - weighted(theirs, plugin);
    let leads =
        ours.plugins.iter().map(|cell| Lead { plugin: cell.plugin.to_owned(), weighted: lead(cell.plugin) });
    let mut leads: Vec<Lead> = leads.filter(|it| it.weighted != 0).collect();
    leads.sort_by(|a, b| b.weighted.abs().cmp(&a.weighted.abs()).then_with(|| a.plugin.cmp(&b.plugin)));
    leads
}
