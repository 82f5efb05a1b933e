//! Trials: decisions of the scheduler about given pods, without effects and with undo. Everything offline uses them.
//!
//! The queue takes no part: the caller gives the pods in its own order, and each pod is decided once. A chosen pod
//! counts on its node as an assumed pod. There are no bindings, patches, evictions and Events.

mod ties;

pub use ties::BestNodes;

use super::attempt::{Choice, Decided, NO_NODES};
use super::budget::Size;
use super::groups::{GroupTried, MemberBefore, MemberTried, Scope};
use super::{Config, Profile, Reconfiguration, Scheduler};
use crate::cache::{PodState, Snapshot, UndoLog};
use crate::cycle::{Framework, Nominate, Probe, Unschedulable};
use crate::framework::CycleError;
use crate::framework::post_filter::Deallocated;
use crate::model::event::Event;
use crate::model::group::{GroupKey, PodGroup};
use crate::model::intern::{LabelSetId, Symbol, Tables};
use crate::model::node::NodeInfo;
use crate::model::pod::{ControllerKind, PodInfo, Uid};
use crate::model::rng::Seed;
use crate::model::selector::Requirement;
use crate::model::time::Time;
use crate::model::volume::{Reservation, StorageObject};
use crate::queue::{QueueConfig, QueuedPod};
use crate::report::Notice;
use crate::report::group::{GroupOutcome, PlacementReport};
use std::sync::Arc;

/// The attempt number of each decision: every pod is tried once.
const ATTEMPT: u32 = 1;
/// The time of all events and decisions, after every time in the objects. Preemption assumes that a pod without a
/// start time starts now, and the result must not depend on the clock.
const NOW: Time = Time::from_nanos(u64::MAX);
/// The time at which the limits of binding conditions are judged: all allocations but those of a far future are old.
const DECIDED_AT: Time = Time::from_secs(4_000_000_000);
/// The profile for pods whose `schedulerName` no profile has.
const DEFAULT_PROFILE: &str = "default-scheduler";

/// A [`Scheduler`] for questions about a cluster: nothing leaves it, and its changes can be undone.
pub struct Trial {
    scheduler: Scheduler,
    log: UndoLog,
    /// What undoes that pods count as members of their groups, in the order of decisions and changes.
    joined: Vec<MemberBefore>,
}

/// A state of a [`Trial`] to return to.
#[derive(Clone, Copy, Debug)]
pub struct TrialMark {
    changes: usize,
    walk: usize,
    joined: usize,
}

/// How to decide about a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialOptions {
    /// Whether cached decisions are used. They are not if a report needs the full evaluation
    /// ([`Probe::evaluated`]).
    pub uses_caches: bool,
    /// Whether PostFilter runs if no node is feasible.
    pub preempts: bool,
    /// Whether the decision is comparable with decisions of kube-scheduler that were recorded one by one.
    ///
    /// Then a single feasible node is scored, the pod's own nomination is ignored and kept, the first name wins
    /// among equal nodes and candidates, and the dry run of preemption ignores host ports. It implies
    /// `uses_caches: false`.
    pub is_comparable: bool,
}

/// The result of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialDecision {
    /// The pod is assumed on a node.
    Placed {
        /// The node's name.
        node: Symbol,
        /// The number of feasible nodes.
        feasible: usize,
        /// The total score of the node; `None` if nodes were not scored.
        score: Option<i64>,
    },
    /// No node is feasible, or the chosen one cannot be reserved.
    Unplaced {
        /// Why, without the result of preemption.
        message: String,
        /// The full message of the FailedScheduling event.
        event: String,
        /// Where preemption would place the pod.
        room: Option<Room>,
        /// The claim that would be freed or deleted.
        deallocated: Option<Box<Deallocated>>,
    },
    /// The decision failed with this error.
    Failed(String),
}

/// The result of a decision about a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDecision {
    /// Whether the group starts. Only then are members assumed on nodes.
    pub outcome: GroupOutcome,
    /// The text of the group's condition; empty if the group starts.
    pub status: String,
    /// The members in the order in which they were tried.
    pub members: Vec<(Arc<PodInfo>, TrialDecision)>,
    /// The placements, by name, if the group requires a topology domain.
    pub placements: Vec<PlacementReport>,
    /// The name of the chosen placement.
    pub chosen: Option<String>,
    /// The pods whose eviction lets the group start. Some may be terminating already.
    pub victims: Vec<Uid>,
    /// The members that have a node, each with its name, whether the group starts or not. If no placement fits, these
    /// are the members that fit in the first one.
    pub nodes: Vec<(Uid, Symbol)>,
}

/// A node that becomes feasible when victims are evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// The node's name.
    pub node: Symbol,
    /// The victims in descending order of importance. Some may be terminating already.
    pub victims: Vec<Uid>,
}

impl Trial {
    /// Creates a trial with an empty cluster; there is at least one profile. `tables` are those that the plugins of
    /// the profiles were created with.
    pub fn new(seed: Seed, profiles: Vec<Profile>, tables: Tables) -> Self {
        assert!(!profiles.is_empty(), "a configuration has a profile");
        let config = Config { seed, profiles, queue: QueueConfig::default() };
        let mut scheduler = Scheduler::with_tables(config, tables, NOW);
        // A comparison evaluates every node again, and a trial has no idle time for it. Tests compare the caches.
        scheduler.verify_decisions(None);
        scheduler.cache.undo_exactly();
        scheduler.report_members_of_placements();
        Self { scheduler, log: UndoLog::default(), joined: Vec::new() }
    }

    /// Sets the seed of all random choices.
    pub fn set_seed(&mut self, seed: Seed) {
        self.scheduler.seed = seed;
    }

    /// Replaces the profiles; there is at least one.
    pub fn set_profiles(&mut self, profiles: Vec<Profile>) {
        self.replace_profiles(profiles);
    }

    /// Replaces the profiles, of which there is at least one, and returns the previous ones. No mark restores them.
    pub fn replace_profiles(&mut self, profiles: Vec<Profile>) -> Vec<Profile> {
        assert!(!profiles.is_empty(), "a configuration has a profile");
        let before = std::mem::take(&mut self.scheduler.profiles);
        let QueueConfig { initial_backoff, max_backoff, .. } = QueueConfig::default();
        let extenders = Vec::new();
        let emulated_version = self.scheduler.tables.rules().version;
        let to = Reconfiguration { emulated_version, profiles, initial_backoff, max_backoff, extenders };
        self.scheduler.reconfigure(NOW, to);
        before.into_iter().map(|(_, profile)| profile).collect()
    }

    /// Applies the event of an object, as a watch reports it. It cannot be undone.
    pub fn handle(&mut self, event: Event) {
        self.scheduler.handle(NOW, event);
    }

    /// Takes the next message for operators: an object that makes the engine panic is left out with one.
    pub fn take_notice(&mut self) -> Option<Notice> {
        self.scheduler.take_notice()
    }

    /// Returns the tables that incoming objects are converted with.
    pub fn tables_mut(&mut self) -> &mut Tables {
        &mut self.scheduler.tables
    }

    /// Returns the intern tables.
    pub fn tables(&self) -> &Tables {
        &self.scheduler.tables
    }

    /// Returns the cluster as of the last decision or [`Self::refreshed`].
    pub fn snapshot(&self) -> Snapshot<'_> {
        self.scheduler.snapshot()
    }

    /// Returns the cluster with all changes.
    pub fn refreshed(&mut self) -> Snapshot<'_> {
        self.scheduler.cache.refresh();
        self.snapshot()
    }

    /// Returns the names of all profiles.
    pub fn profile_names(&self) -> impl Iterator<Item = &str> {
        self.scheduler.profile_names()
    }

    /// Returns the profile that decides about the pod: the one that its `schedulerName` selects, else
    /// `default-scheduler`, else the first.
    pub fn framework(&self, pod: &PodInfo) -> &Framework {
        &self.scheduler.profiles[self.profile_for(pod)].1.framework
    }

    fn profile_for(&self, pod: &PodInfo) -> usize {
        let profiles = &self.scheduler.profiles;
        let find = |name: Symbol| profiles.iter().position(|(own, _)| *own == name);
        let default = || find(self.tables().find(DEFAULT_PROFILE)?);
        find(pod.scheduler_name).or_else(default).unwrap_or(0)
    }

    /// Returns the pod as it counts on a node, and the name of that node.
    pub fn placement(&self, uid: &str) -> Option<(&Arc<PodInfo>, Symbol)> {
        self.scheduler.cache.placed(uid).map(|(pod, node, _)| (pod, node))
    }

    /// Returns what a placed pod reserves besides its requests.
    pub fn reservations_of(&self, uid: &str) -> &[Reservation] {
        self.scheduler.cache.volumes().reservations_of(uid)
    }

    /// Returns all pods that count on a node, each with the name of that node, in arbitrary order.
    pub fn placed_pods(&self) -> impl Iterator<Item = (&Arc<PodInfo>, Symbol)> {
        self.scheduler.cache.placed_uids().filter_map(|uid| self.placement(uid))
    }

    /// Returns the current state, for [`Self::roll_back_to`].
    pub fn mark(&self) -> TrialMark {
        TrialMark {
            changes: self.log.checkpoint(),
            walk: self.scheduler.walk.start(),
            joined: self.joined.len(),
        }
    }

    /// Keeps all changes for good: no mark undoes them any more.
    pub fn keep_changes(&mut self) {
        self.log = UndoLog::default();
        self.joined.clear();
    }

    /// Returns the number of changes since the mark, each of which costs one step to undo.
    pub fn changes_since(&self, mark: TrialMark) -> usize {
        self.log.checkpoint() - mark.changes + self.joined.len() - mark.joined
    }

    /// Undoes the decisions and changes since the mark. Events and profiles stay.
    pub fn roll_back_to(&mut self, mark: TrialMark) {
        self.log.roll_back_to(&mut self.scheduler.cache, mark.changes);
        self.scheduler.walk.return_to(mark.walk);
        for before in self.joined.drain(mark.joined..).rev() {
            self.scheduler.restore_member(before);
        }
    }

    /// Removes a pod from its node, with its assumed volumes. Returns whether it was on one.
    pub fn remove_pod(&mut self, uid: &str) -> bool {
        let Scheduler { cache, tables, .. } = &mut self.scheduler;
        self.log.remove_with_volumes(cache, tables, uid)
    }

    /// Counts a pod as a member of its group.
    fn join(&mut self, pod: &PodInfo) {
        self.joined.extend(self.scheduler.member_placed(pod));
    }

    /// Counts a pod on a node as bound. A pod that counts on a node already is moved or replaced.
    pub fn place_pod(&mut self, pod: &Arc<PodInfo>, node: Symbol) {
        self.join(pod);
        self.log.place(&mut self.scheduler.cache, pod, node, PodState::Added);
    }

    /// Adds or replaces a node.
    pub fn set_node(&mut self, node: &Arc<NodeInfo>) {
        self.log.set_node(&mut self.scheduler.cache, node);
    }

    /// Adds or replaces a storage object.
    pub fn set_storage(&mut self, object: StorageObject) {
        self.log.set_storage(&mut self.scheduler.cache, object);
    }

    /// Removes a node, and returns whether it existed. Remove its pods first: they would stay counted, invisible to
    /// decisions.
    pub fn remove_node(&mut self, name: Symbol) -> bool {
        self.log.remove_node(&mut self.scheduler.cache, name)
    }

    /// Sets or removes a group, and returns its previous state.
    pub fn replace_group(&mut self, key: GroupKey, group: Option<PodGroup>) -> Option<PodGroup> {
        self.log.replace_group(&mut self.scheduler.cache, key, group)
    }

    /// Adds a namespace or replaces its labels.
    pub fn set_namespace(&mut self, name: Symbol, labels: LabelSetId) {
        self.log.set_namespace(&mut self.scheduler.cache, name, labels);
    }

    /// Adds or replaces the selector of a controller.
    pub fn set_controller(
        &mut self,
        kind: ControllerKind,
        namespace: Symbol,
        name: Symbol,
        demands: Box<[Requirement]>,
    ) {
        self.log.set_controller(&mut self.scheduler.cache, (kind, namespace, name), demands);
    }

    /// Sets or removes the pod's nomination.
    pub fn nominate(&mut self, pod: &Arc<PodInfo>, node: Option<Symbol>) {
        self.log.nominate(&mut self.scheduler.cache, pod, node);
    }

    /// Nominates the pod to the node where preemption makes room, and removes the nominations of pods with a lower
    /// priority there, as a failed attempt does. The victims stay.
    pub fn nominate_to_room(&mut self, pod: &Arc<PodInfo>, room: &Room) {
        let nominated = self.scheduler.cache.nominated_to(room.node);
        let lesser: Vec<_> = nominated.iter().filter(|it| it.priority < pod.priority).cloned().collect();
        for other in lesser {
            self.nominate(&other, None);
        }
        self.nominate(pod, Some(room.node));
    }

    /// Decides about a pod as an attempt does, and assumes it on the chosen node with its volumes.
    pub fn decide(
        &mut self,
        pod: &Arc<PodInfo>,
        options: TrialOptions,
        probe: &mut dyn Probe,
    ) -> TrialDecision {
        let scheduler = &mut self.scheduler;
        scheduler.cache.set_now(DECIDED_AT);
        scheduler.cache.refresh();
        if scheduler.snapshot().nodes().is_empty() {
            return unplaced(NO_NODES.to_owned());
        }
        // Slices only let other pods go in between; one step gives the same result.
        if let Size::TooLarge(text) = scheduler.size_of(pod) {
            return unplaced(text);
        }
        let decided = self.decided(pod, options, probe);
        let applies_nomination = options.preempts && !options.is_comparable;
        match decided {
            Decided::Node(choice) => self.assume(pod, choice, options),
            Decided::Nowhere(found) | Decided::Refused(found) => {
                if applies_nomination && found.nominate == Nominate::Clear {
                    self.nominate(pod, None);
                }
                unplaced_by(found)
            }
            Decided::Failed(CycleError(text)) | Decided::Panicked(text) => {
                if applies_nomination {
                    self.nominate(pod, None);
                }
                TrialDecision::Failed(text)
            }
            Decided::Unfinished => unreachable!("only slices are left unfinished"),
        }
    }

    /// Decides about the members of a group that have no node, as a cycle of the group does. If the group starts,
    /// assumes each member that fits on its node.
    pub fn decide_group(
        &mut self,
        key: GroupKey,
        pods: &[Arc<PodInfo>],
        options: TrialOptions,
        probe: &mut dyn Probe,
    ) -> GroupDecision {
        let Some(first) = pods.first() else {
            return GroupDecision {
                outcome: GroupOutcome::Scheduled,
                status: String::new(),
                members: Vec::new(),
                placements: Vec::new(),
                chosen: None,
                victims: Vec::new(),
                nodes: Vec::new(),
            };
        };
        let (at, name) = (self.profile_for(first), first.scheduler_name);
        let scheduler = &mut self.scheduler;
        scheduler.cache.set_now(DECIDED_AT);
        scheduler.cache.refresh();
        let own_name = std::mem::replace(&mut scheduler.profiles[at].0, name);
        scheduler.is_comparable = options.is_comparable;
        let trust = (!options.uses_caches).then(|| scheduler.verify.suspend());
        let tried = scheduler.try_group(NOW, key, pods, options.preempts, probe);
        if let Some(trust) = trust {
            scheduler.verify.resume(trust);
        }
        scheduler.is_comparable = false;
        scheduler.profiles[at].0 = own_name;
        let GroupTried { outcome, status, members, placements, chosen, victims, nodes } = tried;
        let members = members.into_iter().map(|(pod, tried)| {
            let decision = match tried {
                MemberTried::Fits(choice) => self.assume(&pod, choice, options),
                MemberTried::Unschedulable(found) => unplaced_by(found),
                MemberTried::HeldBack(text) => unplaced(text),
                MemberTried::Failed(text) => TrialDecision::Failed(text),
            };
            (pod, decision)
        });
        let members = members.collect();
        GroupDecision { outcome, status, members, placements, chosen, victims, nodes }
    }

    fn decided(&mut self, pod: &Arc<PodInfo>, options: TrialOptions, probe: &mut dyn Probe) -> Decided {
        let at = self.profile_for(pod);
        let scheduler = &mut self.scheduler;
        let (name, profile) = &mut scheduler.profiles[at];
        // For this decision the profile serves the pod, and without PostFilter plugins it does not preempt.
        let own_name = std::mem::replace(name, pod.scheduler_name);
        let framework = &mut profile.framework;
        let post_filters = (!options.preempts).then(|| std::mem::take(&mut framework.post_filters));
        let decided = if options.is_comparable {
            scheduler.decide_comparably(pod, probe)
        } else {
            scheduler.decide_once(pod, options, probe)
        };
        let (name, profile) = &mut scheduler.profiles[at];
        *name = own_name;
        if let Some(post_filters) = post_filters {
            profile.framework.post_filters = post_filters;
        }
        decided
    }

    fn assume(&mut self, pod: &Arc<PodInfo>, choice: Choice, options: TrialOptions) -> TrialDecision {
        let Choice { node, feasible, score, reservations, .. } = choice;
        let node = self.snapshot().node_info(node).name;
        self.join(pod);
        if !options.is_comparable {
            self.nominate(pod, None);
        }
        self.log.place(&mut self.scheduler.cache, pod, node, PodState::Assumed);
        let Scheduler { cache, tables, .. } = &mut self.scheduler;
        cache.assume_volumes(tables, &pod.uid, reservations);
        TrialDecision::Placed { node, feasible, score }
    }
}

impl Scheduler {
    /// Decides about a pod with the functions of an attempt.
    fn decide_once(&mut self, pod: &Arc<PodInfo>, options: TrialOptions, probe: &mut dyn Probe) -> Decided {
        // The results of an attempt without preemption are not those of the profile.
        let uses_results = options.uses_caches && options.preempts;
        if uses_results && let Some(found) = self.recall(pod) {
            self.walk.advance(found.walked, self.snapshot().node_count());
            return Decided::Nowhere(found);
        }
        let mut queued = QueuedPod::new(Arc::clone(pod), None);
        queued.attempts = ATTEMPT;
        let trust = (!options.uses_caches).then(|| self.verify.suspend());
        let decided = self.decide(NOW, &queued, None, probe);
        if let Some(trust) = trust {
            self.verify.resume(trust);
        }
        // A report names the plugin of a PreFilter rejection, which evaluates no node and is cheap.
        if let Decided::Nowhere(found) = &decided
            && uses_results
            && found.evaluated > 0
            && self.is_like_others(&queued.pod)
        {
            self.decisions.store(self.state_version(), &queued.pod, found);
        }
        decided
    }

    /// Decides about a pod by [`TrialOptions::is_comparable`].
    fn decide_comparably(&mut self, pod: &Arc<PodInfo>, probe: &mut dyn Probe) -> Decided {
        let mut queued = QueuedPod::new(Arc::clone(pod), None);
        queued.attempts = ATTEMPT;
        self.decide_in(NOW, &queued, Scope::comparable(), probe)
    }
}

fn unplaced(text: String) -> TrialDecision {
    TrialDecision::Unplaced { message: text.clone(), event: text, room: None, deallocated: None }
}

fn unplaced_by(found: Unschedulable) -> TrialDecision {
    let Unschedulable { message: event, filters_len, nominate, deallocated, .. } = found;
    let room = match nominate {
        Nominate::To { node, victims } => Some(Room { node, victims }),
        Nominate::Keep | Nominate::Clear => None,
    };
    TrialDecision::Unplaced { message: event[..filters_len].to_owned(), event, room, deallocated }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framework::extension_point::ExtensionPoint;
    use crate::registry::Plan;
    use crate::scheduler::quarantine::tests::{PanicPoint, World, pod};

    /// Creates a profile without one of the default filters.
    fn profile(name: &str, without: &str) -> Profile {
        let mut plan = Plan::default();
        plan.points.values_mut().for_each(|plugins| plugins.retain(|plugin| *plugin != without));
        Profile { name: name.to_owned(), framework: Framework::new(&plan) }
    }

    /// Returns which of these filters the framework for a pod of this scheduler lacks.
    fn lacks(trial: &mut Trial, scheduler_name: &str) -> Vec<&'static str> {
        let mut pod = pod(trial.tables_mut(), "p", 100, None);
        pod.template.scheduler_name = trial.tables_mut().symbol(scheduler_name);
        let framework = trial.framework(&pod);
        let filters = ["NodePorts", "NodeUnschedulable", "TaintToleration"];
        filters.into_iter().filter(|filter| !framework.runs(ExtensionPoint::Filter, filter)).collect()
    }

    #[test]
    fn profile_is_the_pods_own_or_the_default_or_the_first() {
        let first = || profile("first", "NodePorts");
        let default = || profile(DEFAULT_PROFILE, "NodeUnschedulable");
        let third = || profile("third", "TaintToleration");
        let mut trial = Trial::new(Seed(1), vec![first(), default(), third()], Tables::new());
        assert_eq!(lacks(&mut trial, "first"), ["NodePorts"]);
        assert_eq!(lacks(&mut trial, "third"), ["TaintToleration"]);
        assert_eq!(lacks(&mut trial, "unknown"), ["NodeUnschedulable"]);
        let mut trial = Trial::new(Seed(1), vec![third(), first()], Tables::new());
        assert_eq!(lacks(&mut trial, "unknown"), ["TaintToleration"]);
        trial.set_profiles(vec![first(), default()]);
        assert_eq!(lacks(&mut trial, "third"), ["NodeUnschedulable"]);
    }

    #[test]
    fn object_that_panics_is_left_out_with_one_notice() {
        let mut trial = Trial::new(Seed(1), vec![profile(DEFAULT_PROFILE, "")], Tables::new());
        trial.scheduler.panic_point = Some(PanicPoint::TakingIn);
        let poison = pod(trial.tables_mut(), "poison", 100, None);
        trial.handle(Event::PodApplied(poison));
        let notice = trial.take_notice().expect("the object is left out");
        assert_eq!(notice.object, "Pod default/poison");
        assert!(notice.text.starts_with("it makes the engine panic"), "{}", notice.text);
        assert_eq!(trial.take_notice(), None);
    }

    #[test]
    fn roll_back_keeps_the_changes_before_the_mark() {
        let mut world = World::new();
        ["x", "y", "z"].iter().for_each(|name| world.pod(name, 100, Some("a")));
        let (mut hypothetical, tables) = world.scheduler.hypothetical();
        hypothetical.remove("x");
        hypothetical.remove("y");
        let mark = hypothetical.checkpoint();
        hypothetical.remove("z");
        hypothetical.roll_back_to(mark);
        let snapshot = hypothetical.snapshot(tables);
        assert_eq!(["x", "y", "z"].map(|uid| snapshot.placed(uid).is_some()), [false, false, true]);
    }
}
