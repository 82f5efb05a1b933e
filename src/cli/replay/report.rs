//! What a replay came to, as a versioned kind.

use crate::journal::replay::Summary;
use crate::journal::watched::Seen;
use crate::journal::{API_VERSION, Beginning, Mode};
use serde::Serialize;
use serde_json::value::RawValue;
use supercargo_core::report::Preemption;
use supercargo_core::scheduler::{Opinion, Otherwise};
use supercargo_core::shadow::{Agreement, Comparison, Scored, Theirs};

/// Differences that are kept; the others are counted.
const KEPT_MAX: usize = 10_000;
/// Pods that are sent away and told by name in a row.
const NAMED: usize = 3;

/// What a replay came to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReplayReport {
    api_version: &'static str,
    kind: &'static str,
    pub(super) recording: Recording,
    /// The other scheduler whose bindings were seen; absent of a scheduler's own recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) watched: Option<String>,
    /// Ends of attempts that had something to decide.
    pub(super) decisions: u64,
    /// Of those, the ones that found a node.
    pub(super) placed: u64,
    /// Whether all was decided again as it is recorded.
    pub(super) identical: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) divergence: Option<Divergence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compared: Option<Compared>,
}

/// The recording.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Recording {
    /// When it began.
    pub(super) time: String,
    /// The version of the program that recorded.
    pub(super) version: String,
    /// Lines that were played.
    pub(super) lines: usize,
    /// Things the engine was told.
    pub(super) inputs: u64,
    /// From the first to the last of them.
    pub(super) seconds: f64,
    /// Why it ends: `stopped`, `full`, `overrun`; absent where it breaks off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ends: Option<String>,
}

/// The first difference.
#[derive(Debug, Serialize)]
pub(super) struct Divergence {
    /// The line of the recording.
    pub(super) line: usize,
    /// The decision that is recorded there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) then: Option<Box<RawValue>>,
    /// The decision that is made now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) now: Option<Box<RawValue>>,
}

/// The decisions of another configuration.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Compared {
    /// Its file.
    pub(super) config: String,
    /// Decisions that it was asked about; not those that extenders were asked about, nor bindings that cannot be judged.
    pub(super) asked: u64,
    /// The same node, or none either; of another scheduler's bindings also one with as high a total.
    pub(super) same: u64,
    /// Another node.
    pub(super) elsewhere: u64,
    /// A node then, and none now.
    pub(super) nowhere: u64,
    /// None then, and a node now.
    pub(super) only_now: u64,
    /// No node either time, and others are sent away than then, or only one of the two sends any away.
    pub(super) other_victims: u64,
    /// The configuration has no profile for the pod.
    pub(super) not_ours: u64,
    /// The decision fails.
    pub(super) failed: u64,
    /// What only another order of what came explains, of another scheduler's bindings.
    pub(super) raced: u64,
    /// Bindings that cannot be judged.
    pub(super) unjudged: u64,
    /// What differs, in order.
    pub(super) differences: Vec<Difference>,
    /// What differs beyond that.
    pub(super) more: u64,
}

/// One decision that comes out otherwise.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Difference {
    /// The last line that was played before.
    pub(super) line: usize,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) attempt: u32,
    /// The node then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) then: Option<String>,
    /// The node now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) now: Option<String>,
    /// Why, in words.
    pub(super) why: String,
    /// By the other configuration: the total of its node less that of the recorded one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ahead: Option<i64>,
    /// How much of that comes from each plugin, the largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) plugins: Vec<Lead>,
    /// Whom the decision of then sent away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) preempted_then: Option<Room>,
    /// Whom the one of now would send away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) preempted_now: Option<Room>,
}

/// Who has to go, and where, so that a pod has room.
#[derive(Debug, Serialize)]
pub(super) struct Room {
    pub(super) node: String,
    pub(super) victims: Vec<Victim>,
}

/// A pod that has to go.
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

    /// In words.
    fn told(of: Option<&Self>) -> String {
        let Some(Self { node, victims }) = of else { return "nobody".to_owned() };
        let named = victims.iter().take(NAMED).map(|it| format!("{}/{}", it.namespace, it.name));
        let named = named.collect::<Vec<_>>().join(", ");
        match victims.len().saturating_sub(NAMED) {
            0 => format!("{named} from {node}"),
            more => format!("{named} and {more} more from {node}"),
        }
    }
}

/// A plugin's part in a difference of totals.
#[derive(Debug, Serialize)]
pub(super) struct Lead {
    pub(super) plugin: String,
    pub(super) weighted: i64,
}

impl ReplayReport {
    pub(super) fn new(beginning: &Beginning, summary: Summary, compared: Option<Compared>) -> Self {
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

    /// Whether nothing is decided otherwise.
    pub(super) fn is_same(&self) -> bool {
        self.identical && self.compared.as_ref().is_none_or(|it| it.same + it.raced == it.asked)
    }

    /// What a person should know of the recording.
    pub(super) fn notice(&self) -> Option<String> {
        let lines = self.recording.lines;
        match self.recording.ends.as_deref() {
            _ if !self.identical => None,
            Some("stopped") => None,
            Some("full") => Some(format!("the recording ends after {lines} lines, since its file was full")),
            Some("overrun") => {
                Some(format!("the recording ends after {lines} lines, since the disk did not keep up"))
            }
            Some(other) => Some(format!("the recording ends after {lines} lines: {other}")),
            None => Some(format!(
                "the recording breaks off after {lines} lines, as where its process was killed; what stands before is used"
            )),
        }
    }
}

impl Compared {
    pub(super) fn by(config: &str) -> Self {
        Self { config: config.to_owned(), ..Self::default() }
    }

    /// Enters what it thinks of a decision.
    pub(super) fn count(&mut self, line: usize, opinion: &Opinion) {
        self.asked += 1;
        let mut difference = Difference {
            line,
            namespace: opinion.pod.namespace.clone(),
            name: opinion.pod.name.clone(),
            uid: opinion.pod.uid.to_string(),
            attempt: opinion.attempt,
            then: opinion.chosen.clone(),
            now: None,
            why: String::new(),
            ahead: None,
            plugins: Vec::new(),
            preempted_then: Room::of(&opinion.room),
            preempted_now: Room::of(&opinion.other_room),
        };
        match &opinion.otherwise {
            Otherwise::Same if opinion.is_room_the_same() => {
                self.same += 1;
                return;
            }
            Otherwise::Same => self.other_victims += 1,
            Otherwise::NotOurs => {
                self.not_ours += 1;
                difference.why = "no profile has the pod's schedulerName".to_owned();
            }
            Otherwise::Failed(text) => {
                self.failed += 1;
                difference.why = text.clone();
            }
            Otherwise::Differs(comparison) => {
                match (&opinion.chosen, &comparison.ours) {
                    (Some(_), Some(_)) => self.elsewhere += 1,
                    (Some(_), None) => self.nowhere += 1,
                    (None, _) => self.only_now += 1,
                }
                difference.compare(comparison);
            }
        }
        difference.compare_room(matches!(opinion.otherwise, Otherwise::Failed(_) | Otherwise::NotOurs));
        self.keep(difference);
    }

    /// Enters what came of another scheduler's decision.
    pub(super) fn see(&mut self, line: usize, seen: &Seen) {
        let judgement = match seen {
            Seen::Unjudged(_) => {
                self.unjudged += 1;
                return;
            }
            Seen::Judged(judgement) => judgement,
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
                Theirs::Scored(theirs) => Some(theirs.node.clone()),
                Theirs::Rejected { node, .. } => Some(node.clone()),
                Theirs::None { .. } => None,
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
    /// Adds whom either sends away, if one does. Of a decision that is not made it is not known.
    fn compare_room(&mut self, is_unknown: bool) {
        let (then, now) = (self.preempted_then.as_ref(), self.preempted_now.as_ref());
        let told = match (then, now) {
            (None, None) => return,
            (Some(_), _) if is_unknown => format!("sent away {}", Room::told(then)),
            (Some(_), None) if self.now.is_some() => {
                format!("sent away {}, needs to send away nobody", Room::told(then))
            }
            (_, Some(_)) if self.then.is_some() => format!("would send away {}", Room::told(now)),
            _ => format!("sent away {}, would send away {}", Room::told(then), Room::told(now)),
        };
        self.why = if self.why.is_empty() { told } else { format!("{}; {told}", self.why) };
    }

    fn compare(&mut self, comparison: &Comparison) {
        self.now = comparison.ours.as_ref().map(|ours| ours.node.clone());
        self.why = match (&comparison.theirs, &comparison.ours) {
            (Theirs::Rejected { plugin, reason, .. }, _) => match plugin {
                Some(plugin) => format!("{plugin}: {reason}"),
                None => reason.clone(),
            },
            (Theirs::None { message }, _) => format!("then: {message}"),
            (Theirs::Scored(theirs), Some(ours)) => {
                self.plugins = leads(ours, theirs);
                let ahead = ours.total - theirs.total;
                self.ahead = Some(ahead);
                if ahead == 0 {
                    "both have the highest total, and it is drawn among fewer or more".to_owned()
                } else {
                    let part = |it: &Lead| format!("{} {:+}", it.plugin, it.weighted);
                    let parts: Vec<String> = self.plugins.iter().take(3).map(part).collect();
                    format!("{ahead:+}: {}", parts.join(", "))
                }
            }
            (Theirs::Scored(_), None) => "what the pod needs there cannot be had".to_owned(),
        };
    }
}

/// What each plugin adds to the lead of a node, where it does.
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
