//! One scheduler process under test, and a copy of its inputs against which its state is checked.

use crate::check::{Broken, check_kept};
use crate::devices::{DeviceClaim, PodDevices, Slice, device_claim_id, slice_id};
use crate::draw::Draw;
use crate::drivers::{has_devices, has_members_with_devices};
use crate::groups::{Group, group_api, group_gates, group_key, has_groups};
use crate::objects::{Node, OURS, Pod};
use crate::server::{Change, Stamp};
use crate::storage::{Claim, Volume, claim_id, claim_key, csi_node, csi_node_id, volume_id};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use supercargo_core::cycle::Framework;
use supercargo_core::model::device::DeviceId;
use supercargo_core::model::effect::Lane;
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_core::model::event::{Event, Kind, ObjectKey};
use supercargo_core::model::group::GroupApi;
use supercargo_core::model::intern::Tables;
use supercargo_core::model::lookup_objects::Service;
use supercargo_core::model::node::NodeInfo;
use supercargo_core::model::pod::{PodInfo, Uid};
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::model::volume::StorageObject;
use supercargo_core::plugins::{dynamic_resources, gang_scheduling, scheduling_gates};
use supercargo_core::queue::{QueueConfig, QueuedPod};
use supercargo_core::registry::Plan;
use supercargo_core::scheduler::{Config, Limits, Profile, Scheduler};

/// What an extender said of nodes.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    /// Whether it failed, so that all nodes pass if it is ignorable.
    pub(crate) all_pass: bool,
    /// Whether it accepted each node.
    pub(crate) nodes: BTreeMap<String, bool>,
}

/// A current decision: as far as anyone outside can know, its pod is assumed on its node.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(crate) node: String,
    /// The number of the decision.
    pub(crate) number: u64,
    /// The server's stamp at the decision, if the scheduler's state was current.
    pub(crate) on: Option<Stamp>,
    /// The node's stamp when the binding was first sent, if the scheduler's state was current. The outer `None`
    /// means not sent yet, or refused.
    pub(crate) released: Option<Option<Stamp>>,
    /// Whether the last sent binding has no answer yet.
    pub(crate) in_flight: bool,
    /// Whether the outcome of an earlier request is unknown.
    pub(crate) may_arrive: bool,
    /// Whether an answer reported the pod's state, and no watch has yet.
    pub(crate) settled: bool,
}

/// What the scheduler reported about a pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportedState {
    /// The message of its last failure.
    pub(crate) failure: Option<String>,
    /// Whether the watch of pods was behind at that time, so that the pod's condition was outdated.
    pub(crate) out_of_date: bool,
    pub(crate) failed_records: u32,
    pub(crate) scheduled_records: u32,
}

pub(crate) struct Process {
    pub(crate) scheduler: Scheduler,
    /// The number of the process.
    pub(crate) incarnation: u32,
    pub(crate) pods: BTreeMap<String, Arc<Pod>>,
    pub(crate) nodes: BTreeMap<String, Arc<Node>>,
    /// Namespaces with their value of the label `team`.
    pub(crate) namespaces: BTreeMap<&'static str, &'static str>,
    /// By key.
    pub(crate) claims: BTreeMap<String, Arc<Claim>>,
    pub(crate) volumes: BTreeMap<String, Arc<Volume>>,
    /// ResourceClaims by key.
    pub(crate) device_claims: BTreeMap<String, Arc<DeviceClaim>>,
    /// ResourceSlices by name.
    pub(crate) slices: BTreeMap<String, Arc<Slice>>,
    /// PodGroups by key.
    pub(crate) groups: BTreeMap<String, Arc<Group>>,
    group_api: GroupApi,
    /// The groups that run, by key.
    pub(crate) started: BTreeSet<String>,
    /// The uids of the groups of which this process chose members.
    pub(crate) chosen: BTreeSet<String>,
    /// Those of them that were chosen since it leads.
    pub(crate) chosen_by_leader: BTreeSet<String>,
    /// The gangs that were scheduled and of which no Binding was sent since, by key, with their `minCount` then.
    pub(crate) starting: BTreeMap<String, usize>,
    /// The groups of which the watch or an answer showed a Binding since members were chosen last, by key.
    pub(crate) bound_since_chosen: BTreeSet<String>,
    /// The members of gangs that are to be bound after the first one, by key.
    pub(crate) rests: BTreeMap<String, BTreeSet<String>>,
    /// Pods whose PreBind succeeded and whose bindings were not sent yet.
    pub(crate) pre_bound: BTreeSet<String>,
    pub(crate) decided: BTreeMap<String, Decided>,
    pub(crate) reported: BTreeMap<String, ReportedState>,
    /// The number of each pod's last decision.
    pub(crate) numbers: BTreeMap<String, u64>,
    /// Pods that are deleted according to an answer, or were terminating according to a watch.
    pub(crate) going: BTreeSet<String>,
    /// Pods that a list of an older state reset. What was known about them since that state was dropped.
    pub(crate) reset_by_stale_list: BTreeSet<String>,
    /// Pods missing from a list while their bindings have no outcome; the scheduler has to query them.
    unlisted: BTreeSet<String>,
    /// Pods whose bindings were sent and have no answer.
    pub(crate) unanswered: BTreeSet<String>,
    /// The last call of the extender for each pod. Answers to earlier calls are outdated.
    pub(crate) calls: BTreeMap<String, u64>,
    /// For pods that wait for the extender, what it said of nodes in this attempt.
    pub(crate) verdicts: BTreeMap<String, Verdicts>,
    /// Whether the process is the leader.
    pub(crate) leads: bool,
    /// Granted and unused credits, in the order of `Lane::ALL`.
    pub(crate) credits: [usize; Lane::ALL.len()],
    /// Pods that it ever nominated to a node.
    pub(crate) nominated: BTreeSet<String>,
    /// Victims whose decisions the currently checked decision withdrew in memory.
    pub(crate) taken_back: BTreeSet<String>,
    /// Pods that it evicted, unless an answer reports that the eviction failed.
    pub(crate) evicting: BTreeSet<String>,
    /// Pods that the five-minute flush requeued, and that had no attempt before the scheduler became idle; and those
    /// whose attempt was not finished by then.
    pub(crate) flushed: BTreeSet<String>,
    /// The nodes with nominated pods, and these pods, when the scheduler's current run began.
    pub(crate) held_places: BTreeSet<(String, String)>,
    /// The devices that claims avoided before the last step, by the uids of the claims.
    pub(crate) avoided: BTreeMap<Uid, BTreeSet<DeviceId>>,
    /// For each pod, the second of its last decision, and how often it was decided in it.
    pub(crate) decided_in: BTreeMap<String, (u64, u32)>,
    /// The wake-up time that it requested.
    pub(crate) wake: Option<Time>,
    /// The number of consecutive wake-ups without work, and the time of the first.
    pub(crate) idle_wakes: (u32, Time),
    /// The pass of comparisons: its position, and its begin.
    comparing: (usize, Time),
    listing: BTreeMap<Kind, BTreeSet<String>>,
    converted: BTreeMap<String, (u64, Arc<PodInfo>)>,
    converted_nodes: BTreeMap<String, (u64, Arc<NodeInfo>)>,
}

/// Whether the scheduling gates of another member keep the pod out of the queue.
pub(crate) fn is_held_by_others(queued: &QueuedPod) -> bool {
    queued.gate == Some(scheduling_gates::NAME) && queued.pod.gates.is_empty()
}

/// Whether a queued pod is not tried because of its claims or its group.
pub(crate) fn is_held(queued: &QueuedPod) -> bool {
    let gates = [dynamic_resources::NAME, gang_scheduling::NAME];
    gates.iter().any(|name| queued.gate == Some(*name)) || is_held_by_others(queued)
}

/// Whether most pods are large, and thus evaluated in slices. Many searches of members for devices pause then.
pub(crate) fn has_large_pods(seed: u64) -> bool {
    seed % 5 == 2 || has_members_with_devices(seed) && !(seed / 12).is_multiple_of(4)
}

/// The version of kube-scheduler that the processes of a seed behave as. It is not drawn with the rest, which is thus
/// the same for all versions.
pub(crate) fn emulated_version(seed: u64) -> EmulatedVersion {
    let newer = [EmulatedVersion::V1_36, EmulatedVersion::V1_37];
    let is_newer = has_devices(seed) || has_groups(seed);
    Draw::new(!seed).pick(if is_newer { &newer[..] } else { &EmulatedVersion::ALL })
}

impl Process {
    /// Whether the claim of an entry exists, and the pod may use it.
    pub(crate) fn may_use(&self, pod: &Pod, entry: &PodDevices) -> bool {
        let claim = entry.claim().and_then(|name| self.device_claims.get(&claim_key(pod.namespace, name)));
        let may_use = |claim: &DeviceClaim| match entry {
            PodDevices::Named(_) => !claim.deleting,
            PodDevices::Template(_) => {
                !claim.deleting && claim.owner.as_ref().is_some_and(|(_, owner)| *owner == pod.uid)
            }
        };
        claim.is_some_and(|claim| may_use(claim))
    }

    pub(crate) fn new(seed: u64, incarnation: u32, now: Time) -> Self {
        let mut tables = Tables::new();
        tables.set_group_gates(group_gates(seed));
        tables.emulate(emulated_version(seed));
        let framework = Framework::new(&Plan::of(tables.rules()));
        let profile = Profile { name: OURS.to_owned(), framework };
        let config = Config { seed: Seed(seed), profiles: vec![profile], queue: QueueConfig::default() };
        let mut scheduler = Scheduler::with_tables(config, tables, now);
        // Verify each decision. A difference is reported as a notice in all builds.
        scheduler.verify_decisions(Some(NonZeroU32::MIN));
        if has_large_pods(seed) {
            scheduler.limit_attempts(Limits { large: 30, slice: 20, ..Limits::default() });
        }
        Self {
            scheduler,
            comparing: (0, now),
            incarnation,
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            claims: BTreeMap::new(),
            volumes: BTreeMap::new(),
            device_claims: BTreeMap::new(),
            slices: BTreeMap::new(),
            groups: BTreeMap::new(),
            group_api: group_api(seed),
            started: BTreeSet::new(),
            chosen: BTreeSet::new(),
            bound_since_chosen: BTreeSet::new(),
            rests: BTreeMap::new(),
            chosen_by_leader: BTreeSet::new(),
            starting: BTreeMap::new(),
            pre_bound: BTreeSet::new(),
            decided: BTreeMap::new(),
            reported: BTreeMap::new(),
            numbers: BTreeMap::new(),
            going: BTreeSet::new(),
            reset_by_stale_list: BTreeSet::new(),
            unlisted: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            calls: BTreeMap::new(),
            verdicts: BTreeMap::new(),
            leads: true,
            credits: [0; Lane::ALL.len()],
            nominated: BTreeSet::new(),
            taken_back: BTreeSet::new(),
            evicting: BTreeSet::new(),
            flushed: BTreeSet::new(),
            held_places: BTreeSet::new(),
            avoided: BTreeMap::new(),
            decided_in: BTreeMap::new(),
            wake: None,
            idle_wakes: (0, now),
            listing: BTreeMap::new(),
            converted: BTreeMap::new(),
            converted_nodes: BTreeMap::new(),
        }
    }

    /// Compares the next cached decision with a full evaluation. Returns whether there was one; after the last,
    /// a new pass begins.
    pub(crate) fn compare_next(&mut self, now: Time) -> bool {
        let (cursor, began) = &mut self.comparing;
        let was_one = self.scheduler.verify_one(now, cursor, *began);
        if !was_one {
            self.comparing = (0, now);
        }
        was_one
    }

    /// Runs a complete garbage collection. Converted objects are dropped first, since they hold ids.
    pub(crate) fn collect_ids(&mut self) {
        self.forget_converted();
        self.scheduler.collect_all_ids();
    }

    /// Runs a slice of garbage collection of any size.
    pub(crate) fn collect_ids_by(&mut self, work: usize) {
        self.forget_converted();
        self.scheduler.collect_ids_by(work);
    }

    fn forget_converted(&mut self) {
        self.converted.clear();
        self.converted_nodes.clear();
    }

    /// Returns the nodes with nominated pods, and these pods.
    pub(crate) fn nominations(&self) -> BTreeSet<(String, String)> {
        let snapshot = self.scheduler.snapshot();
        let of_node = |node| {
            let name = snapshot.text(snapshot.node(node).name()).to_owned();
            snapshot.nominated_on(node).iter().map(move |pod| (name.clone(), pod.uid.to_string()))
        };
        snapshot.nodes_with_nominations().into_iter().flat_map(of_node).collect()
    }

    /// Converts a pod with the tables of this process.
    pub(crate) fn info(&mut self, pod: &Pod) -> Arc<PodInfo> {
        match self.converted.get(&pod.uid) {
            Some((version, info)) if *version == pod.version => Arc::clone(info),
            _ => {
                let info = Arc::new(pod.info(self.scheduler.tables()));
                self.converted.insert(pod.uid.clone(), (pod.version, Arc::clone(&info)));
                info
            }
        }
    }

    /// Converts a node with the tables of this process.
    pub(crate) fn node_info(&mut self, node: &Node) -> Arc<NodeInfo> {
        match self.converted_nodes.get(&node.name) {
            Some((version, info)) if *version == node.version => Arc::clone(info),
            _ => {
                let info = Arc::new(node.info(self.scheduler.tables()));
                self.converted_nodes.insert(node.name.clone(), (node.version, Arc::clone(&info)));
                info
            }
        }
    }

    /// Passes a change to the scheduler and records it.
    // long because: one arm for each kind of change
    pub(crate) fn deliver(&mut self, now: Time, kind: Kind, change: &Change) -> Result<(), Broken> {
        // What the scheduler has before the end of a list that omits nothing.
        let mut kept = None;
        let event = match change {
            Change::ListBegan => {
                self.listing.insert(kind, BTreeSet::new());
                Event::ListBegan(kind)
            }
            Change::Bookmark => return Ok(()),
            Change::ListEnded(_) => {
                kept = (!self.end_list(kind)).then(|| self.scheduler.held());
                Event::ListEnded(kind)
            }
            Change::Pod(pod) => {
                self.see_pod(pod);
                Event::PodApplied(Box::new(PodInfo::clone(&self.info(pod))))
            }
            Change::PodGone(uid) => {
                self.lose_pod(uid);
                Event::Gone(ObjectKey::Pod(uid.as_str().into()))
            }
            Change::Node(node) => {
                self.name(Kind::Node, &node.name);
                self.nodes.insert(node.name.clone(), Arc::clone(node));
                Event::NodeApplied(Box::new(NodeInfo::clone(&self.node_info(node))))
            }
            Change::NodeGone(name) => {
                self.nodes.remove(name);
                Event::Gone(ObjectKey::Node(self.scheduler.tables().symbol(name)))
            }
            Change::Namespace(name, team) => {
                self.name(Kind::Namespace, name);
                self.namespaces.insert(name, team);
                let tables = self.scheduler.tables();
                let pair = (tables.symbol("team"), tables.symbol(team));
                Event::NamespaceApplied { name: tables.symbol(name), labels: tables.label_set(vec![pair]) }
            }
            Change::Claim(claim) => {
                self.name(Kind::PersistentVolumeClaim, &claim.key());
                self.claims.insert(claim.key(), Arc::clone(claim));
                Event::StorageApplied(StorageObject::Claim(Arc::new(claim.info(self.scheduler.tables()))))
            }
            Change::Volume(volume) => {
                self.name(Kind::PersistentVolume, &volume.name);
                self.volumes.insert(volume.name.clone(), Arc::clone(volume));
                Event::StorageApplied(StorageObject::Volume(Arc::new(volume.info(self.scheduler.tables()))))
            }
            Change::ClaimGone(key) => {
                self.claims.remove(key);
                Event::Gone(ObjectKey::Storage(claim_id(self.scheduler.tables(), key)))
            }
            Change::VolumeGone(name) => {
                self.volumes.remove(name);
                Event::Gone(ObjectKey::Storage(volume_id(self.scheduler.tables(), name)))
            }
            Change::Class(class, zone) => {
                let class = class.info(*zone, self.scheduler.tables());
                Event::StorageApplied(StorageObject::Class(Arc::new(class)))
            }
            Change::CsiNode(name, limit) => {
                let csi_node = csi_node(self.scheduler.tables(), name, *limit);
                Event::StorageApplied(StorageObject::CsiNode(Arc::new(csi_node)))
            }
            Change::CsiNodeGone(name) => {
                Event::Gone(ObjectKey::Storage(csi_node_id(self.scheduler.tables(), name)))
            }
            Change::DeviceClass(kind) => {
                let tables = self.scheduler.tables();
                Event::DeviceClassApplied {
                    name: tables.symbol(kind.name()),
                    class: kind.class(tables).into(),
                }
            }
            Change::DeviceClaim(claim) => {
                self.name(Kind::ResourceClaim, &claim.key());
                self.device_claims.insert(claim.key(), Arc::clone(claim));
                let claim = claim.info(self.scheduler.tables());
                Event::StorageApplied(StorageObject::ResourceClaim(Arc::new(claim)))
            }
            Change::DeviceClaimGone(key) => {
                self.device_claims.remove(key);
                Event::Gone(ObjectKey::Storage(device_claim_id(self.scheduler.tables(), key)))
            }
            Change::Slice(slice) => {
                self.name(Kind::ResourceSlice, &slice.name);
                self.slices.insert(slice.name.clone(), Arc::clone(slice));
                let slice = slice.info(self.scheduler.tables());
                Event::StorageApplied(StorageObject::ResourceSlice(Arc::new(slice)))
            }
            Change::SliceGone(name) => {
                self.slices.remove(name);
                Event::Gone(ObjectKey::Storage(slice_id(self.scheduler.tables(), name)))
            }
            Change::Group(group) => {
                self.name(Kind::PodGroup, &group.key());
                let old = self.groups.insert(group.key(), Arc::clone(group));
                if old.is_none_or(|old| (&old.uid, old.min) != (&group.uid, group.min)) {
                    self.bound_since_chosen.remove(&group.key());
                }
                let group = group.info(self.group_api, self.scheduler.tables());
                Event::PodGroupApplied(Box::new(group))
            }
            Change::GroupGone(key) => {
                self.groups.remove(key);
                self.bound_since_chosen.remove(key);
                Event::Gone(ObjectKey::PodGroup(group_key(self.scheduler.tables(), key)))
            }
            Change::Service(app) => {
                let tables = self.scheduler.tables();
                let pair = (tables.symbol("app"), tables.symbol(app));
                Event::ServiceApplied {
                    namespace: tables.symbol("default"),
                    name: tables.symbol(app),
                    service: Service { selector: Some([pair].into()) },
                }
            }
        };
        self.scheduler.handle(now, event);
        kept.map_or(Ok(()), |before| check_kept(kind, &before, &self.scheduler.held()))
    }

    fn name(&mut self, kind: Kind, name: &str) {
        if let Some(named) = self.listing.get_mut(&kind) {
            named.insert(name.to_owned());
        }
    }

    /// Forgets what the list omits. Returns whether it omits anything.
    fn end_list(&mut self, kind: Kind) -> bool {
        fn keep<K: Ord + AsRef<str>, V>(all: &mut BTreeMap<K, V>, named: &BTreeSet<String>) -> bool {
            let before = all.len();
            all.retain(|name, _| named.contains(name.as_ref()));
            all.len() < before
        }
        let named = self.listing.remove(&kind).unwrap_or_default();
        match kind {
            Kind::Pod => self.end_list_of_pods(&named),
            Kind::Namespace => keep(&mut self.namespaces, &named),
            Kind::Node => keep(&mut self.nodes, &named),
            Kind::PersistentVolume => keep(&mut self.volumes, &named),
            Kind::PersistentVolumeClaim => keep(&mut self.claims, &named),
            Kind::ResourceClaim => keep(&mut self.device_claims, &named),
            Kind::ResourceSlice => keep(&mut self.slices, &named),
            Kind::PodGroup => keep(&mut self.groups, &named),
            // No pod, and nothing that is kept for one, leaves with what other kinds omit.
            _ => false,
        }
    }

    fn end_list_of_pods(&mut self, named: &BTreeSet<String>) -> bool {
        let unlisted: Vec<_> = self.pods.keys().filter(|uid| !named.contains(*uid)).cloned().collect();
        let omits_any = !unlisted.is_empty();
        for uid in unlisted {
            let is_open = |decided: &Decided| decided.released.is_some() && !decided.settled;
            if self.decided.get(&uid).is_some_and(is_open) {
                self.unlisted.insert(uid);
            } else {
                self.lose_pod(&uid);
                self.reset_by_stale_list.insert(uid);
            }
        }
        omits_any
    }

    fn see_pod(&mut self, pod: &Arc<Pod>) {
        self.name(Kind::Pod, &pod.uid);
        if self.unlisted.remove(&pod.uid) {
            self.reset_by_stale_list.insert(pod.uid.clone());
        }
        let mut pod = Arc::clone(pod);
        if let Some(known) = self.pods.get(&pod.uid) {
            if known.version > pod.version {
                self.reset_by_stale_list.insert(pod.uid.clone());
            }
            if known.deleting && !pod.deleting {
                self.evicting.remove(&pod.uid);
            }
            // A pod cannot become unbound or gated again, so this is an older state.
            if known.node.is_some() && pod.node.is_none() {
                return;
            }
            if pod.gated && !known.gated {
                pod = Arc::new(Pod { gated: false, ..Pod::clone(&pod) });
            }
        }
        if pod.nominated.is_some() {
            self.nominated.insert(pod.uid.clone());
        }
        if pod.deleting {
            self.going.insert(pod.uid.clone());
        }
        let is_sent_to = |node: &String| {
            self.decided.get(&pod.uid).is_some_and(|it| it.released.is_some() && it.node == *node)
        };
        if pod.node.as_ref().is_some_and(is_sent_to) {
            self.bound_since_chosen.extend(pod.group_key());
        }
        // A watch change with a node settles the decision. A terminating pod can no longer be bound. An old version
        // releases its node after PreBind.
        let frees = self.scheduler.snapshot().rules().frees_terminating_pods;
        let stays =
            !frees && self.scheduler.waiting_for_volumes().any(|(queued, ..)| *queued.pod.uid == *pod.uid);
        if pod.node.is_some() || pod.deleting && !stays {
            self.decided.remove(&pod.uid);
        }
        self.pods.insert(pod.uid.clone(), pod);
    }

    /// Notes that members of a group were chosen.
    pub(crate) fn note_chosen(&mut self, key: String, uid: Option<String>) {
        self.bound_since_chosen.remove(&key);
        self.rests.remove(&key);
        self.started.insert(key);
        self.chosen.extend(uid.clone());
        self.chosen_by_leader.extend(uid);
    }

    /// Records that the API server reported the pod as deleted before the watch did.
    pub(crate) fn found_gone(&mut self, uid: &str) {
        self.decided.remove(uid);
        self.going.insert(uid.to_owned());
        if self.unlisted.contains(uid) {
            self.lose_pod(uid);
        }
    }

    /// Whether a pod is not tried because of its claims or its group: PreEnqueue reports nothing.
    pub(crate) fn is_held(&self, uid: &str) -> bool {
        let mut waiting = self.scheduler.queue().waiting();
        waiting.any(|(_, queued)| *queued.pod.uid == *uid && is_held(queued))
    }

    /// Whether a list omitted the pod and no later input reported its state.
    pub(crate) fn is_unlisted(&self, uid: &str) -> bool {
        self.unlisted.contains(uid)
    }

    fn lose_pod(&mut self, uid: &str) {
        self.pods.remove(uid);
        self.decided.remove(uid);
        self.reported.remove(uid);
        self.numbers.remove(uid);
        self.pre_bound.remove(uid);
        self.evicting.remove(uid);
        self.going.remove(uid);
        self.unlisted.remove(uid);
        self.reset_by_stale_list.remove(uid);
        self.converted.remove(uid);
    }
}
