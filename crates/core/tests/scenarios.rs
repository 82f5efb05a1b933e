//! Stories: behavior of the whole engine as script and transcript. A line that starts with `>` is an input; the lines
//! below it are the engine's reaction. `UPDATE_EXPECT=1` rewrites the transcripts.
//!
//! ```text
//! == a pod is placed, and bound when the API server says so
//! > node a cpu=4
//! > pod p cpu=1
//! placed default/p on a (1 of 1 nodes)
//! bind default/p to a
//! > accepted p
//! record Normal Scheduled Binding: Successfully assigned default/p to a
//! bound default/p to a
//! ```
//!
//! The clock starts at `at 100.2` and advances only by `at SECONDS`. All lists are complete and there are enough
//! credits, unless the first line is `> bare`. Nodes and pods are written in the cluster language.

mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use supercargo_core::cycle::{Framework, NoProbe};
use supercargo_core::model::effect::{Effect, Lane, Nomination, StatusPatch, VolumeChange};
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_core::model::event::{
    BindOutcome, BindingState, Event, EvictOutcome, Kind, ObjectKey, WriteOutcome,
};
use supercargo_core::model::extender::Extender;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::queue::QueueConfig;
use supercargo_core::registry::Plan;
use supercargo_core::report::group::GroupReport;
use supercargo_core::report::{Outcome, Preemption};
use supercargo_core::scheduler::{Config, Pending, PodLocation, Profile, Reconfiguration, Scheduler, Step};
use support::{begin, extenders, groups, language, storage};

#[test]
fn pod_lifecycle() {
    check("lifecycle.txt");
}

#[test]
fn requeueing() {
    check("requeueing.txt");
}

#[test]
fn binding_failures() {
    check("binding.txt");
}

#[test]
fn lists_and_credits() {
    check("lists_and_credits.txt");
}

#[test]
fn victim_selection() {
    check("victim_selection.txt");
}

#[test]
fn leadership() {
    check("leadership.txt");
}

#[test]
fn volume_binding() {
    check("volumes.txt");
}

#[test]
fn preemption_execution() {
    check("preemption.txt");
}

#[test]
fn reconfiguration() {
    check("reconfiguration.txt");
}

#[test]
fn versions() {
    check("versions.txt");
}

#[test]
fn inspection() {
    check("inspection.txt");
}

#[test]
fn upstream_integration_tests() {
    check("upstream_integration.txt");
}

#[test]
fn pod_groups() {
    let topics = "s_since_1.37 _victims _members _binding _starts _progress _refusals _changes _reports _placements _preferences";
    check("groups.txt");
    for topic in topics.split(' ') {
        check(&format!("group{topic}.txt"));
    }
}

#[test]
fn extender_calls() {
    check("extenders.txt");
}

struct Scenario {
    scheduler: Scheduler,
    now: Time,
    output: String,
    /// The last volume write of each pod.
    writes: BTreeMap<String, u64>,
    extenders: Vec<Extender>,
    /// The open calls: pod, extender, id.
    calls: Vec<(String, String, u64)>,
    /// The report of the last cycle of a group.
    group_report: Option<Box<GroupReport>>,
}

impl Scenario {
    fn new(bare: bool) -> Self {
        let now = Time::from_nanos(100_200_000_000);
        let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
        let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
        let mut scheduler = Scheduler::new(config, now);
        scheduler.report_members_of_placements();
        let mut scenario = Self {
            scheduler,
            now,
            output: String::new(),
            writes: BTreeMap::new(),
            extenders: Vec::new(),
            calls: Vec::new(),
            group_report: None,
        };
        if !bare {
            begin(&mut scenario.scheduler, now, 1_000);
        }
        scenario
    }

    fn handle(&mut self, event: Event) {
        self.scheduler.handle(self.now, event);
    }

    fn run(&mut self) {
        for _ in 0..1_000 {
            match self.scheduler.step(self.now, &mut NoProbe) {
                Step::Idle { .. } => return,
                Step::Effect(effect) => self.push_effect(&effect),
                Step::GroupReport(report) => self.group_report = Some(report),
                Step::Notice(notice) => {
                    let _ = writeln!(self.output, "notice {}: {}", notice.object, notice.text);
                }
                Step::Report(report) => {
                    let pod = format!("{}/{}", report.pod.namespace, report.pod.name);
                    let line = match &report.outcome {
                        Outcome::Placed { node, nodes, feasible, .. } => {
                            format!("placed {pod} on {node} ({feasible} of {nodes} nodes)")
                        }
                        Outcome::Unschedulable { message, rejectors, preemption, .. } => {
                            format!(
                                "unschedulable {pod}, attempt {}: {message} {rejectors:?}{}",
                                report.attempt,
                                describe_preemption(preemption)
                            )
                        }
                        Outcome::Error { message } => {
                            format!("error {pod}, attempt {}: {message}", report.attempt)
                        }
                        Outcome::Skipped => format!("skipped {pod}"),
                        Outcome::PreBound { succeeded: true, .. } => format!("volumes of {pod} bound"),
                        Outcome::PreBound { succeeded: false, .. } => format!("volumes of {pod} not bound"),
                        Outcome::Bound { node, .. } => format!("bound {pod} to {node}"),
                        Outcome::BindFailed { message } => format!("bind failed {pod}: {message}"),
                        Outcome::PreemptionEnded { node, error: None } => {
                            format!("preempted for {pod} on {node}")
                        }
                        Outcome::PreemptionEnded { node, error: Some(error) } => {
                            format!("preemption failed for {pod} on {node}: {error}")
                        }
                    };
                    let _ = writeln!(self.output, "{line}");
                }
            }
        }
        panic!("the engine does not become idle: {:?}", self.output.lines().last());
    }

    fn push_effect(&mut self, effect: &Effect) {
        let line = match effect {
            Effect::Bind { pod, node } => format!("bind {}/{} to {node}", pod.namespace, pod.name),
            Effect::BindBy { extender, pod, node } => {
                let by = &self.extenders.iter().find(|it| it.id == *extender).expect("a known extender").url;
                format!("bind {}/{} to {node} by {by}", pod.namespace, pod.name)
            }
            Effect::Extend(call) => {
                let by = self.extenders.iter().find(|it| it.id == call.extender).expect("a known extender");
                self.calls.push((call.pod.name.clone(), by.url.to_string(), call.call));
                extenders::describe_call(call, &by.url)
            }
            Effect::QueryBinding { pod } => format!("query {}/{}", pod.namespace, pod.name),
            Effect::WriteVolume(write) => {
                self.writes.insert(write.pod.name.clone(), write.write);
                format!(
                    "write for {}/{}: {}",
                    write.pod.namespace,
                    write.pod.name,
                    describe_change(&write.change)
                )
            }
            Effect::Evict(eviction) => {
                let condition = eviction.condition.as_ref();
                let condition = condition
                    .map_or("condition already set".to_owned(), |c| format!("condition {:?}", c.message));
                format!("evict {}/{}, {condition}", eviction.pod.namespace, eviction.pod.name)
            }
            Effect::Patch(patch) => patch_line(patch),
            Effect::PatchGroup(patch) => groups::patch_line(patch),
            Effect::Record(record) => {
                // The pod is named unless it is the one of the scenario's previous line.
                let of = if record.reason == "Preempted" {
                    format!(" of {}", record.pod.name)
                } else {
                    String::new()
                };
                let related = record.related.as_ref().map_or_else(String::new, |it| {
                    format!(" (related: {} {}/{})", it.kind, it.object.namespace, it.object.name)
                });
                format!(
                    "record {} {} {}{of}: {}{related}",
                    record.severity.as_str(),
                    record.reason,
                    record.action,
                    record.note
                )
            }
        };
        let _ = writeln!(self.output, "{line}");
    }

    /// Handles an input line.
    fn act(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (verb, rest) = words.split_first().expect("a line has a command");
        let text = || rest[1..].join(" ");
        match *verb {
            "bare" => {}
            "at" => {
                let seconds: f64 = rest[0].parse().expect("a time");
                self.now = Time::from_nanos((seconds * 1e9) as u64);
            }
            "node" => {
                let node = language::node(self.scheduler.tables(), rest);
                self.handle(Event::NodeApplied(Box::new(Arc::unwrap_or_clone(node))));
            }
            "pod" => {
                let pod = language::pod(self.scheduler.tables(), rest);
                self.handle(Event::PodApplied(Box::new(Arc::unwrap_or_clone(pod))));
            }
            "budget" => {
                let (namespace, name, budget) = language::budget(self.scheduler.tables(), rest);
                self.handle(Event::DisruptionBudgetApplied { namespace, name, budget });
            }
            "group" | "gates" => groups::act(&mut self.scheduler, self.now, verb, rest),
            "namespace" => {
                let (name, labels) = language::namespace(self.scheduler.tables(), rest);
                self.handle(Event::NamespaceApplied { name, labels });
            }
            "gone" => {
                let key = self.key(rest[0], rest[1]);
                self.handle(Event::Gone(key));
            }
            "unreadable" => {
                let key = self.key(rest[0], rest[1]);
                self.handle(Event::Unreadable(key));
            }
            "not-admitted" => {
                self.handle(Event::NotAdmitted { uid: rest[0].into(), reason: text().into() });
            }
            "accepted" => self.answer(rest[0], BindOutcome::Accepted),
            "refused" => self.answer(rest[0], BindOutcome::Refused { message: text() }),
            "unknown" => self.answer(rest[0], BindOutcome::Unknown { message: text() }),
            "found" => self.handle(Event::BindingQueried { uid: rest[0].into(), found: found(rest[1]) }),
            "moot" => self.answer(rest[0], BindOutcome::NotNeeded(found(rest[1]))),
            "list" => self.handle(Event::ListBegan(kind(rest[0]))),
            "listed" => self.handle(Event::ListEnded(kind(rest[0]))),
            "list-all" => {
                for kind in Kind::ALL {
                    self.handle(Event::ListBegan(kind));
                    self.handle(Event::ListEnded(kind));
                }
            }
            "credit" => {
                let lane = Lane::ALL.into_iter().find(|l| l.as_str() == rest[0]).expect("a lane");
                self.handle(Event::Credits { lane, count: rest[1].parse().expect("a number") });
            }
            "deleted" => self.evicted(rest[0], EvictOutcome::Deleted),
            "not-found" => self.evicted(rest[0], EvictOutcome::Gone),
            "not-deleted" => self.evicted(rest[0], EvictOutcome::Failed { message: text() }),
            "configure" => self.configure(rest),
            "emulate" => self.emulate(rest[0]),
            "halt" => self.handle(Event::Halt),
            "leads" => self.handle(Event::Leading(true)),
            "lost-the-lead" => self.handle(Event::Leading(false)),
            "show" => self.show(),
            "print" => self.print(rest[0]),
            "extender" | "no-extenders" | "said" => self.act_on_extenders(verb, rest),
            verb => self.act_on_storage(line, verb, rest),
        }
    }

    /// Handles inputs about extenders.
    fn act_on_extenders(&mut self, verb: &str, rest: &[&str]) {
        match verb {
            "extender" => {
                let id = self.extenders.len() as u64;
                let extender = extenders::extender(self.scheduler.tables(), id, rest);
                self.extenders.push(extender);
                self.scheduler.set_extenders(self.extenders.clone());
            }
            "no-extenders" => self.extenders.clear(),
            _ => {
                let at = self.calls.iter().position(|(pod, by, _)| pod == rest[0] && by == rest[1]);
                let Some(at) = at else {
                    self.output.push_str("no such call\n");
                    return;
                };
                let (_, _, call) = self.calls.remove(at);
                self.handle(Event::Extended { call, answer: extenders::parse_answer(&rest[2..]) });
            }
        }
    }

    /// Handles inputs about storage and devices.
    fn act_on_storage(&mut self, line: &str, verb: &str, rest: &[&str]) {
        let message = || rest[1..].join(" ");
        match verb {
            "device-class" => {
                let (name, class) = language::device_class(self.scheduler.tables(), rest);
                self.handle(Event::DeviceClassApplied { name, class });
            }
            "written" => self.written(rest[0], WriteOutcome::Done),
            "write-refused" => self.written(rest[0], WriteOutcome::Refused { message: message() }),
            "write-unknown" => self.written(rest[0], WriteOutcome::Unknown { message: message() }),
            _ => {
                let object = storage::object(self.scheduler.tables(), line);
                let object = object.unwrap_or_else(|| panic!("unknown command {verb}"));
                self.handle(Event::StorageApplied(object));
            }
        }
    }

    /// `configure a b,without=NodeAffinity backoff=5..60`: profiles, each with its removed plugins, and backoffs.
    fn configure(&mut self, words: &[&str]) {
        let mut to = Reconfiguration {
            emulated_version: self.scheduler.tables().rules().version,
            profiles: Vec::new(),
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(10),
            extenders: self.extenders.clone(),
        };
        for word in words {
            if let Some((initial, max)) = word.strip_prefix("backoff=").and_then(|it| it.split_once("..")) {
                let seconds = |text: &str| Duration::from_secs(text.parse().expect("a number of seconds"));
                (to.initial_backoff, to.max_backoff) = (seconds(initial), seconds(max));
                continue;
            }
            let (name, without) = word.split_once(",without=").unwrap_or((word, ""));
            let mut plan = Plan::of(self.scheduler.tables().rules());
            plan.points.values_mut().for_each(|plugins| plugins.retain(|plugin| *plugin != without));
            to.profiles.push(Profile { name: name.to_owned(), framework: Framework::new(&plan) });
        }
        if self.scheduler.reconfigure(self.now, to) {
            self.output.push_str("there is a new profile: pods must be listed again\n");
        }
    }

    /// `emulate 1.37`: the default configuration of another version of kube-scheduler.
    fn emulate(&mut self, version: &str) {
        let emulated_version: EmulatedVersion = version.parse().expect("a version");
        let plan = Plan::of(emulated_version.rules());
        let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::new(&plan) };
        let to = Reconfiguration {
            emulated_version,
            profiles: vec![profile],
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(10),
            extenders: self.extenders.clone(),
        };
        self.scheduler.reconfigure(self.now, to);
    }

    fn key(&mut self, kind: &str, name: &str) -> ObjectKey {
        match kind {
            "pod" => ObjectKey::Pod(name.into()),
            "node" => ObjectKey::Node(self.scheduler.tables().symbol(name)),
            "namespace" => ObjectKey::Namespace(self.scheduler.tables().symbol(name)),
            "group" => ObjectKey::PodGroup(groups::group(self.scheduler.tables(), &[name]).key),
            _ => {
                let object = storage::object(self.scheduler.tables(), &format!("{kind} {name}"));
                ObjectKey::Storage(object.unwrap_or_else(|| panic!("unknown kind {kind}")).key())
            }
        }
    }

    fn answer(&mut self, pod: &str, outcome: BindOutcome) {
        self.handle(Event::BindFinished { uid: pod.into(), outcome });
    }

    /// Answers the last volume write of a pod.
    fn written(&mut self, pod: &str, outcome: WriteOutcome) {
        let write = *self.writes.get(pod).expect("something was written for the pod");
        self.handle(Event::VolumeWritten { uid: pod.into(), write, outcome });
    }

    fn evicted(&mut self, pod: &str, outcome: EvictOutcome) {
        self.handle(Event::EvictFinished { uid: pod.into(), outcome });
    }

    /// `print WHAT`: one fact of the engine that most transcripts leave out.
    fn print(&mut self, what: &str) {
        let stats = self.scheduler.stats();
        let line = match what {
            "recalled" => format!("recalled {}", stats.recalled),
            "rechecks" => format!("rechecks failed {}", stats.rechecks_failed),
            "settled" => format!("settled {}", self.scheduler.is_settled()),
            "label" => format!("label {:?}", self.scheduler.event_label()),
            "pending" => self.describe_pending(),
            "groups" => format!("waiting, fragmented {:?}", (stats.groups.waiting, stats.groups.fragmented)),
            "group" => groups::describe_report(self.group_report.as_ref().expect("a group was tried")),
            "incoming" => {
                let incoming = stats.queue.incoming.iter();
                let lines: Vec<String> = incoming
                    .map(|((place, event), count)| format!("{} {event} {count}", place.as_str()))
                    .collect();
                format!("incoming {lines:?}")
            }
            "outgoing" => {
                let lanes = Lane::ALL.into_iter().zip(stats.outgoing).filter(|(_, waiting)| *waiting > 0);
                let lanes: Vec<String> =
                    lanes.map(|(lane, waiting)| format!("{} {waiting}", lane.as_str())).collect();
                format!("outgoing {lanes:?}")
            }
            other => panic!("nothing to print about {other}"),
        };
        let _ = writeln!(self.output, "{line}");
    }

    /// Returns all pending pods with their stages. One pod by its uid gives the same.
    fn describe_pending(&self) -> String {
        let snapshot = self.scheduler.snapshot();
        let describe = |pending: &Pending<'_>| {
            let at = match pending.at {
                PodLocation::Queued(place) => place.as_str().to_owned(),
                PodLocation::Extenders => "extenders".to_owned(),
                PodLocation::Evaluation => "evaluation".to_owned(),
                PodLocation::Volumes(node) => format!("volumes for {}", snapshot.text(node)),
                PodLocation::Binding { node, is_outcome_unknown: false } => {
                    format!("binding to {}", snapshot.text(node))
                }
                PodLocation::Binding { node, is_outcome_unknown: true } => {
                    format!("unknown binding to {}", snapshot.text(node))
                }
            };
            format!("{} in {at} since {:?}", pending.pod().name, pending.since)
        };
        let mut lines = Vec::new();
        for pending in self.scheduler.pending() {
            let line = describe(&pending);
            let one = self.scheduler.pending_one(&pending.pod().uid).expect("it is pending");
            assert_eq!(describe(&one), line, "the same by its uid");
            lines.push(line);
        }
        lines.sort_unstable();
        format!("pending {lines:?}")
    }

    fn show(&mut self) {
        let stats = self.scheduler.stats();
        let mut waiting: Vec<String> = self
            .scheduler
            .queue()
            .waiting()
            .map(|(place, queued)| format!("{} in {}", queued.pod.name, place.as_str()))
            .collect();
        waiting.sort();
        let volumes = match stats.volume_bindings {
            0 => String::new(),
            pods => format!(", waiting for volumes {pods}"),
        };
        let extending = match stats.extender_calls {
            0 => String::new(),
            pods => format!(", waiting for extenders {pods}"),
        };
        let _ = writeln!(
            self.output,
            "waiting {waiting:?}, on nodes {}, assumed {}, bindings {}{volumes}{extending}",
            stats.cache.pods, stats.cache.assumed_pods, stats.bindings
        );
        if stats.preemptions + stats.evictions > 0 {
            let _ = writeln!(self.output, "preemptions {}, evictions {}", stats.preemptions, stats.evictions);
        }
    }
}

fn found(word: &str) -> BindingState {
    match word {
        "unbound" => BindingState::Unbound,
        "gone" => BindingState::Gone,
        "no-answer" => BindingState::NoAnswer,
        node => BindingState::Bound(node.to_owned()),
    }
}

fn patch_line(patch: &StatusPatch) -> String {
    let mut line = format!("patch {}/{}", patch.pod.namespace, patch.pod.name);
    line += &match &patch.nomination {
        Nomination::Keep => String::new(),
        Nomination::Clear => " nominated nowhere".to_owned(),
        Nomination::Set(node) => format!(" nominated {node}"),
    };
    if let Some(condition) = &patch.condition {
        let since = condition.since.as_deref().unwrap_or("now");
        line += &format!(" {} (since {since}): {}", condition.reason, condition.message);
    }
    line
}

/// Formats a successful preemption.
fn describe_preemption(preemption: &Preemption) -> String {
    match preemption {
        Preemption::NotTried | Preemption::NoCandidate => String::new(),
        Preemption::Nominated { node, victims, .. } => {
            let victims: Vec<&str> = victims.iter().map(|victim| victim.name.as_str()).collect();
            format!(", but for {} on {node}", victims.join(" "))
        }
    }
}

fn describe_change(change: &VolumeChange) -> String {
    match change {
        VolumeChange::Bind { volume, version, claim, by_controller } => {
            let mark = if *by_controller { ", by controller" } else { "" };
            let claim = format!("{}/{} ({}, {})", claim.namespace, claim.name, claim.uid, claim.version);
            format!("volume {volume} at {version} is for {claim}{mark}")
        }
        VolumeChange::SelectNode { namespace, name, version, node } => {
            format!("claim {namespace}/{name} at {version} selects {node}")
        }
        other => unreachable!("no pod has claims: {other:?}"),
    }
}

fn kind(name: &str) -> Kind {
    Kind::ALL.into_iter().find(|k| k.as_str() == name).expect("a kind")
}

fn check(file: &str) {
    let path = format!("{}/tests/scenarios/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut actual = String::new();
    let mut scenario = Scenario::new(false);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("== ") {
            scenario = Scenario::new(lines.peek() == Some(&"> bare"));
        }
        if let Some(action) = line.strip_prefix("> ") {
            let _ = writeln!(actual, "{line}");
            scenario.act(action);
            // Simultaneous inputs are all handled before the engine runs.
            if lines.peek().is_none_or(|next| *next != "> and") {
                scenario.run();
                actual.push_str(&std::mem::take(&mut scenario.output));
            } else {
                lines.next();
                let _ = writeln!(actual, "> and");
            }
        } else if line.is_empty() || line.starts_with("== ") || line.starts_with('#') {
            let _ = writeln!(actual, "{line}");
        }
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &actual).unwrap_or_else(|error| panic!("{path}: {error}"));
    } else {
        let differing = text.lines().zip(actual.lines()).find(|(e, a)| e != a);
        assert!(
            text == actual,
            "{path} differs from the transcript, first at {differing:?}; UPDATE_EXPECT=1 rewrites it:\n{actual}"
        );
    }
}
