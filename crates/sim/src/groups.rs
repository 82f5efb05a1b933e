//! Pod groups: the objects, the users who create groups and members in any order, and the patches of their conditions.

use crate::devices::PodDevices;
use crate::draw::Draw;
use crate::drivers::has_members_with_devices;
use crate::objects::{Affinity, NodeChoice, Pod};
use crate::process::emulated_version;
use crate::server::By;
use crate::sim::{Sim, WIDE};
use crate::storage::claim_key;
use std::sync::Arc;
use std::time::Duration;
use supercargo_core::model::effect::{GroupPatch, Lane};
use supercargo_core::model::emulation::{EmulatedVersion, GroupGates};
use supercargo_core::model::group::{
    DisruptionMode, GroupApi, GroupCondition, GroupKey, GroupPolicy, Membership, PodGroup,
};
use supercargo_core::model::group_options::GroupOptions;
use supercargo_core::model::intern::{Symbol, Tables};
use supercargo_core::model::time::Time;

/// The maximum number of members created at once.
const MEMBERS_MAX: u64 = 6;

/// The time limit of some groups. A simulation takes longer.
const START_WITHIN: Duration = Duration::from_secs(150);

/// A PodGroup.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) namespace: &'static str,
    pub(crate) uid: String,
    pub(crate) version: u64,
    /// `minCount` of a gang; `None` for the policy basic.
    pub(crate) min: Option<usize>,
    /// Whether all members must be in one rack.
    pub(crate) in_rack: bool,
    pub(crate) priority: i32,
    /// Whether preemption takes all members or none.
    pub(crate) is_whole: bool,
    /// The condition that the scheduler wrote last.
    pub(crate) condition: Option<GroupCondition>,
}

impl Group {
    pub(crate) fn key(&self) -> String {
        claim_key(self.namespace, &self.name)
    }

    pub(crate) fn info(&self, api: GroupApi, tables: &mut Tables) -> PodGroup {
        PodGroup {
            key: group_key(tables, &self.key()),
            api,
            uid: self.uid.as_str().into(),
            generation: 1,
            policy: self.min.map_or(GroupPolicy::Basic, GroupPolicy::Gang),
            topology: self.in_rack.then(|| [tables.symbol("rack")].into()),
            disruption: if self.is_whole { DisruptionMode::All } else { DisruptionMode::Single },
            priority: self.priority,
            options: Ok(GroupOptions {
                preferred: self.preferred(tables),
                reserves: self.reserves(),
                start_within: self.start_within(),
                ..GroupOptions::default()
            }),
            scheduled: self.condition.clone(),
        }
    }
}

impl Group {
    /// Returns a number that decides what annotations a group has, so that no draw depends on them.
    fn name_number(&self) -> usize {
        self.name.bytes().map(usize::from).sum()
    }

    /// Whether the group keeps nodes while it waits.
    pub(crate) fn reserves(&self) -> bool {
        self.name_number().is_multiple_of(5)
    }

    /// Returns the time limit of some gangs.
    pub(crate) fn start_within(&self) -> Option<Duration> {
        (self.name_number() % 3 == 1 && self.min.is_some()).then_some(START_WITHIN)
    }

    /// Returns the keys of the topology that some groups prefer.
    fn preferred(&self, tables: &mut Tables) -> Box<[Symbol]> {
        let keys: &[&str] = match self.name_number() % 4 {
            0 => &["rack"],
            1 => &["topology.kubernetes.io/zone", "rack"],
            _ => &[],
        };
        keys.iter().map(|key| tables.symbol(key)).collect()
    }
}

/// Returns the engine's key of a group.
pub(crate) fn group_key(tables: &mut Tables, key: &str) -> GroupKey {
    let (namespace, name) = key.split_once('/').expect("a key has a namespace");
    GroupKey { namespace: tables.symbol(namespace), name: tables.symbol(name) }
}

/// The version of the API that the server of a seed serves.
pub(crate) fn group_api(seed: u64) -> GroupApi {
    match emulated_version(seed) {
        EmulatedVersion::V1_37 => GroupApi::V1Beta1,
        _ => GroupApi::V1Alpha2,
    }
}

/// Whether some pods of this seed are members of groups.
pub(crate) fn has_groups(seed: u64) -> bool {
    seed % 6 == 3 && !seed.is_multiple_of(WIDE)
}

/// Whether many starts of groups are disturbed in this seed.
fn disturbs_starts(seed: u64) -> bool {
    seed / 6 % 8 == 5
}

/// The feature gates of a seed. They are not drawn with the rest, as the version.
pub(crate) fn group_gates(seed: u64) -> GroupGates {
    if !has_groups(seed) {
        return GroupGates::OFF;
    }
    let mut draw = Draw::new(!seed ^ 1);
    let [topology, preemption] = [draw.percent(50), draw.percent(50)];
    let gangs = draw.percent(85);
    GroupGates { workloads: true, gangs, topology, preemption: preemption && (gangs || is_merged(seed)) }
}

/// Whether the profiles of a seed check `minCount`.
pub(crate) fn checks_minimum(seed: u64) -> bool {
    group_gates(seed).gangs || is_merged(seed)
}

/// Whether one gate enables all plugins for groups, as from 1.37 on.
fn is_merged(seed: u64) -> bool {
    emulated_version(seed) >= EmulatedVersion::V1_37
}

impl Pod {
    /// Returns the key of its group.
    pub(crate) fn group_key(&self) -> Option<String> {
        self.group.as_ref().map(|(name, _)| claim_key(self.namespace, name))
    }

    /// Returns what the engine knows of its membership.
    pub(crate) fn membership(&self, tables: &mut Tables) -> Option<Membership> {
        let (name, created) = self.group.as_ref()?;
        Some(Membership { group: tables.symbol(name), created: Time::from_nanos(1_000_000_000 * created) })
    }
}

impl Sim {
    /// Performs an action about groups, or none. Returns whether it did.
    pub(crate) fn act_on_groups(&mut self) -> bool {
        if !has_groups(self.seed) || !self.draw.percent(25) {
            return false;
        }
        if group_gates(self.seed).preemption && self.draw.percent(70) {
            self.create_rival();
            return true;
        }
        match self.draw.below(12) {
            0..=4 => self.create_groups(),
            5 | 6 => self.create_missing_group(),
            7 | 8 => self.join_group(),
            9 => self.delete_group(),
            10 => self.delete_members(),
            _ => self.change_min_count(),
        }
        true
    }

    /// Creates one or two groups with their members, interleaved. A group may come after its members or never.
    fn create_groups(&mut self) {
        let count = self.draw.pick(&[1, 1, 2]);
        let mut waiting: Vec<(Group, Pod, u64)> = Vec::new();
        for _ in 0..count {
            let template = self.draw_member();
            let size = self.draw.between(1, MEMBERS_MAX);
            let group = self.draw_group(&template, size);
            if self.draw.percent(60) {
                self.put_group(group.clone());
            }
            waiting.push((group, template, size));
        }
        while !waiting.is_empty() {
            let at = self.draw.below(waiting.len() as u64) as usize;
            let (group, template, size) = &mut waiting[at];
            let (name, template) = (group.name.clone(), template.clone());
            *size -= 1;
            if *size == 0 {
                let (group, ..) = waiting.swap_remove(at);
                if !self.server.groups.contains_key(&group.key()) && self.draw.percent(80) {
                    self.put_group(group);
                }
            }
            self.create_member(&template, name);
        }
    }

    /// Creates a group that fits almost anywhere and is evicted as a whole, or one that has to evict others.
    fn create_rival(&mut self) {
        let size = self.draw.between(2, MEMBERS_MAX);
        let template = self.draw_member();
        let mut group = self.draw_group(&template, size);
        let (is_weak, cpus) = match self.draw.percent(50) {
            true => (true, [200, 500, 1_000]),
            false => (false, [1_000, 2_000, 3_000]),
        };
        let template = Pod {
            priority: if is_weak { -5 } else { 10 },
            cpu_milli: self.draw.pick(&cpus),
            gpus: 0,
            claims: Vec::new(),
            gated: false,
            port: None,
            affinity: Affinity::default(),
            spread: Vec::new(),
            node_choice: NodeChoice::Anything,
            ..template
        };
        (group.priority, group.in_rack) = (template.priority, false);
        (group.is_whole, group.min) = (is_weak, Some(if is_weak { 1 } else { size.div_ceil(2) as usize }));
        let name = group.name.clone();
        self.put_group(group);
        (0..size).for_each(|_| self.create_member(&template, name.clone()));
    }

    /// Draws a pod that members are created from.
    fn draw_member(&mut self) -> Pod {
        let mut pod = self.draw_pod(true);
        if !self.draw.percent(30) {
            pod.claims.clear();
        }
        if has_members_with_devices(self.seed) && self.draw.percent(60) {
            // Each member has a claim of its own.
            (pod.devices, pod.tpus) = (vec![PodDevices::Template(None)], 0);
        }
        if self.extended {
            pod.gpus = 0;
        }
        pod
    }

    fn draw_group(&mut self, template: &Pod, size: u64) -> Group {
        self.groups_made += 1;
        let gates = group_gates(self.seed);
        let draw = &mut self.draw;
        let min = draw.pick(&[1, size.div_ceil(2), size, size, size + 1]);
        Group {
            name: format!("g{}", self.groups_made),
            namespace: template.namespace,
            uid: format!("g{}", self.groups_made),
            version: 0,
            min: (!draw.percent(15)).then_some(min as usize),
            in_rack: gates.topology && draw.percent(50),
            priority: template.priority,
            is_whole: gates.preemption && draw.percent(50),
            condition: None,
        }
    }

    fn put_group(&mut self, group: Group) {
        let (min, in_rack) = (group.min, group.in_rack);
        self.say(
            "cluster",
            &group.key(),
            format_args!("group created, minCount {min:?}, in one rack: {in_rack}"),
        );
        self.server.put_group(group);
    }

    /// Creates a member: an equal pod most of the time, or one with other requests, of another priority or scheduler.
    fn create_member(&mut self, template: &Pod, group: String) {
        if self.server.pods.len() as u64 >= self.scale.pods {
            return;
        }
        self.created += 1;
        let uid = format!("p{}", self.created);
        let mut pod =
            Pod { name: uid.clone(), group: Some((group, self.created)), ..template.successor(uid) };
        match self.draw.below(10) {
            0 => pod.cpu_milli = self.draw.pick(&[100, 1_000, 3_000]),
            1 => pod.gated = true,
            2 if self.draw.percent(30) => (pod.ours, pod.gated) = (false, false),
            3 if self.draw.percent(20) => pod.priority += 1,
            _ => {}
        }
        let (group, cpu) = (pod.group_key().unwrap_or_default(), pod.cpu_milli);
        self.say("cluster", &pod.uid, format_args!("created in group {group}, cpu {cpu}"));
        self.server.put_pod(pod, By::Others);
    }

    /// Creates a group that some pod names.
    fn create_missing_group(&mut self) {
        let groups = &self.server.groups;
        let is_missing = |pod: &Pod| pod.group_key().is_some_and(|key| !groups.contains_key(&key));
        let found: Vec<_> = self.server.pods.values().filter(|pod| is_missing(pod)).cloned().collect();
        if found.is_empty() {
            return;
        }
        let pod = &found[self.draw.below(found.len() as u64) as usize];
        let size = found.iter().filter(|other| other.group_key() == pod.group_key()).count() as u64;
        let Some((name, _)) = &pod.group else { return };
        let group = Group { name: name.clone(), ..self.draw_group(pod, size) };
        self.put_group(group);
    }

    /// Adds a member to a group that has some.
    fn join_group(&mut self) {
        let Some(pod) = self.some_pod(|pod| pod.group.is_some() && pod.ours) else { return };
        if let Some((name, _)) = pod.group.clone() {
            self.create_member(&pod, name);
        }
    }

    fn some_group(&mut self) -> Option<Arc<Group>> {
        let found: Vec<_> = self.server.groups.values().cloned().collect();
        if found.is_empty() {
            return None;
        }
        Some(Arc::clone(&found[self.draw.below(found.len() as u64) as usize]))
    }

    fn delete_group(&mut self) {
        let Some(group) = self.some_group() else { return };
        self.say("cluster", &group.key(), format_args!("group deleted"));
        self.server.remove_group(&group.key());
    }

    /// Deletes all members of a group.
    fn delete_members(&mut self) {
        let Some(key) = self.some_pod(|pod| pod.group.is_some()).and_then(|pod| pod.group_key()) else {
            return;
        };
        self.say("cluster", &key, format_args!("members deleted"));
        let members = self.server.pods.values().filter(|pod| pod.group_key().as_ref() == Some(&key));
        let members: Vec<_> = members.map(|pod| pod.uid.clone()).collect();
        members.iter().for_each(|uid| self.server.remove_pod(uid));
    }

    /// Disturbs some groups when a member is bound, while the Bindings of others may not be sent yet: bound members end
    /// at once, and others are deleted, or bound by another client.
    pub(crate) fn disturb_start(&mut self, uid: &str) {
        let key = self.server.pods.get(uid).and_then(|pod| pod.group_key());
        let Some(key) = key.filter(|_| !self.is_settling()) else { return };
        if self.draw.percent(4) {
            self.end_member(uid);
        }
        if !self.draw.percent(if disturbs_starts(self.seed) { 40 } else { 4 }) {
            return;
        }
        let others: Vec<_> =
            self.server.pods.values().filter(|pod| pod.group_key().as_ref() == Some(&key)).cloned().collect();
        let ends = self.draw.percent(80);
        for other in others {
            if other.node.is_some() {
                if ends {
                    self.end_member(&other.uid);
                }
            } else if self.draw.percent(20) {
                self.say("cluster", &other.uid, format_args!("deleted before its binding"));
                self.server.remove_pod(&other.uid);
            } else if self.draw.percent(10) {
                self.bind_elsewhere(&other);
            }
        }
    }

    fn end_member(&mut self, uid: &str) {
        self.say("cluster", uid, format_args!("finished at once"));
        self.server.remove_pod(uid);
    }

    /// Changes minCount of a gang, which v1beta1 allows.
    fn change_min_count(&mut self) {
        let Some(group) = self.some_group() else { return };
        let Some(min) = group.min.filter(|_| group_api(self.seed) == GroupApi::V1Beta1) else { return };
        let min = if self.draw.percent(70) { (min - 1).max(1) } else { min + 1 };
        self.say("cluster", &group.key(), format_args!("minCount becomes {min}"));
        self.server.put_group(Group { min: Some(min), ..Group::clone(&group) });
    }

    /// Handles a patch of a group's condition that arrives at the API server.
    pub(crate) fn group_patch_arrives(&mut self, incarnation: u32, patch: &GroupPatch) {
        self.agenda.write(self.now, crate::agenda::Due::Credit { incarnation, lane: Lane::Status });
        let key = claim_key(&patch.namespace, &patch.name);
        if self.draw.percent(self.fault_rates.lost_patch) {
            *self.lost_group_patches.entry(key).or_default() += 1;
            return self.fault("patch lost");
        }
        self.lost_group_patches.remove(&key);
        let Some(group) = self.server.groups.get(&key).filter(|group| *group.uid == *patch.uid) else {
            return;
        };
        let condition = Some(patch.condition.clone());
        let group = Group { condition, ..Group::clone(group) };
        self.say("server", &key, format_args!("condition {}", patch.condition.reason));
        self.server.put_group(group);
    }
}
