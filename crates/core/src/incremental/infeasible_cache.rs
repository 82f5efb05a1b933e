//! Cached each node said to pods that no node can take, remembered by what they are to nodes: the next pod alike costs what changed
//! since, and so do the dry runs of a preemption.
//!
//! Only of pods on which plugins that judge nodes one by one have a say, and nobody else. Whether a pod can be placed after all, and
//! where, is none of its business: then there is no answer from here.

use super::DecisionCache;
use crate::cache::Snapshot;
use crate::cycle::Refusing;
use crate::cycle::{Diagnosis, Failed, Filtered, Framework, NoProbe, Point, PostFilter, Probe};
use crate::framework::dry_runs::DryRuns;
use crate::framework::histogram::Histogram;
use crate::framework::post_filter::Draws;
use crate::framework::{Code, CycleError, PluginName, Reads, Rejection};
use crate::hash::Hashed;
use crate::mutation::{self, Mutation};
use crate::node::NodeIdx;
use crate::node_set::NodeSet;
use crate::pod::PodInfo;
use crate::signature::NodeSignature;
use crate::time::Time;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes that all signatures take at most, but for the one that was met last.
const BYTES_MAX: usize = 32 << 20;
/// Signatures remembered at most.
const SIGNATURES_MAX: usize = 64;
/// Of so many signatures that were refused once it is known that they were: what is refused only once is not worth remembering, nor is
/// any of more signatures in turn than there is room for.
const REJECTED_ONCE_MAX: usize = SIGNATURES_MAX;
/// More kinds of refusals than this are not told apart.
const GROUPS_MAX: usize = 1_024;
/// The kind of a node that refuses nothing, or is none.
const NO_GROUP: u16 = u16::MAX;

/// Cached is known of all signatures.
#[derive(Default)]
pub(super) struct InfeasibleCache {
    /// In the order in which they were met, the last at the end.
    pub(super) signatures: Vec<InfeasibleEntry>,
    /// Hashes of signatures that were refused once.
    rejected_once: VecDeque<u64>,
}

/// One signature.
pub(super) struct InfeasibleEntry {
    pub(super) signature: Hashed<NodeSignature>,
    era: u64,
    /// When it was made, or last compared with a full evaluation in turn.
    pub(super) checked: Time,
    /// The cache's clocks when this was last brought up to date.
    seen: Option<(u64, u64)>,
    groups: Vec<RejectionGroup>,
    /// By slot, which of them.
    by_slot: Vec<u16>,
    /// The nodes that do not refuse.
    passing: NodeSet,
    curable: NodeSet,
    runs: DryRuns,
}

/// Nodes that refuse alike.
struct RejectionGroup {
    plugin: PluginName,
    /// The rule's number for it, if it gave one.
    number: Option<u64>,
    rejection: Rejection,
    nodes: usize,
}

impl InfeasibleCache {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn is_empty(&self) -> bool {
        self.signatures.is_empty() && self.rejected_once.is_empty()
    }

    /// A pod was refused by all nodes.
    fn note(&mut self, signature: &Hashed<NodeSignature>) {
        let hash = signature.hash_of();
        if self.signatures.iter().any(|signatures| signatures.signature == *signature)
            || self.rejected_once.contains(&hash)
        {
            return;
        }
        if self.rejected_once.len() == REJECTED_ONCE_MAX {
            self.rejected_once.pop_front();
        }
        self.rejected_once.push_back(hash);
    }

    /// Cached is known of a signature, which may be nothing yet; `None` where it is met for the first time.
    fn of(&mut self, signature: Hashed<NodeSignature>, era: u64, now: Time) -> Option<&mut InfeasibleEntry> {
        if let Some(at) = self.signatures.iter().position(|signatures| signatures.signature == signature) {
            let mut signatures = self.signatures.remove(at);
            if signatures.era != era {
                signatures = InfeasibleEntry::new(signatures.signature, era, now);
            }
            self.signatures.push(signatures);
        } else {
            self.rejected_once.iter().position(|&rejected_once| rejected_once == signature.hash_of())?;
            self.make_room();
            self.signatures.push(InfeasibleEntry::new(signature, era, now));
        }
        self.signatures.last_mut()
    }

    fn make_room(&mut self) {
        let bytes =
            |signatures: &[InfeasibleEntry]| signatures.iter().map(InfeasibleEntry::bytes).sum::<usize>();
        while self.signatures.len() >= SIGNATURES_MAX || bytes(&self.signatures) > BYTES_MAX {
            self.signatures.remove(0);
        }
    }
}

impl InfeasibleEntry {
    fn new(signature: Hashed<NodeSignature>, era: u64, now: Time) -> Self {
        Self {
            signature,
            era,
            checked: now,
            seen: None,
            groups: Vec::new(),
            by_slot: Vec::new(),
            passing: NodeSet::new(),
            curable: NodeSet::new(),
            runs: DryRuns::default(),
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.by_slot.capacity() * size_of::<u16>()
            + self.groups.capacity() * size_of::<RejectionGroup>()
            + self.runs.bytes()
    }

    /// Brings it up to date; `None` where something is out of the ordinary.
    fn catch_up(&mut self, filtered: &Filtered, pod: &PodInfo, snapshot: Snapshot<'_>) -> Option<()> {
        let clocks = (snapshot.clock(), snapshot.clock_beside());
        if self.seen == Some(clocks) || mutation::is_on(Mutation::ShapesStand) && self.seen.is_some() {
            return Some(());
        }
        // Whoever does not come to an end here begins anew.
        let touched = self.seen.take().and_then(|seen| touched_since(snapshot, seen));
        let touched = touched.unwrap_or_else(|| {
            *self = Self::new(self.signature.clone(), self.era, self.checked);
            snapshot.nodes().clone()
        });
        for node in touched.iter() {
            self.forget(node);
            if snapshot.nodes().contains(node) {
                self.judge(filtered, pod, snapshot, node).ok()?;
            }
        }
        self.seen = Some(clocks);
        Some(())
    }

    fn forget(&mut self, node: NodeIdx) {
        self.runs.forget(node);
        self.passing.remove(node);
        self.curable.remove(node);
        if let Some(group) = self.by_slot.get_mut(node.index()) {
            let group = std::mem::replace(group, NO_GROUP);
            if let Some(group) = self.groups.get_mut(usize::from(group)) {
                group.nodes -= 1;
            }
        }
    }

    fn judge(
        &mut self,
        filtered: &Filtered,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
    ) -> Result<(), CycleError> {
        let is_kind =
            |group: &RejectionGroup, plugin, number| group.plugin == plugin && group.number == Some(number);
        let at = match filtered.refusing(pod, snapshot, node)? {
            Refusing::Not => {
                self.passing.insert(node);
                return Ok(());
            }
            Refusing::Numbered(plugin, number) => {
                let signatures = self.groups.iter().position(|group| is_kind(group, plugin, number));
                match signatures {
                    Some(at) => at,
                    None => {
                        let verdict = filtered.first_rejector(&snapshot.node(node))?;
                        let Some((plugin, rejection)) = verdict else {
                            return Err(CycleError(format!("{plugin}: a number, and no verdict")));
                        };
                        self.new_group(RejectionGroup { plugin, number: Some(number), rejection, nodes: 0 })?
                    }
                }
            }
            Refusing::Plain(plugin, rejection) => {
                let is_it = |group: &RejectionGroup| group.plugin == plugin && group.rejection == rejection;
                let signatures = self.groups.iter().position(is_it);
                signatures.map_or_else(
                    || {
                        self.new_group(RejectionGroup {
                            plugin,
                            number: None,
                            rejection: rejection.clone(),
                            nodes: 0,
                        })
                    },
                    Ok,
                )?
            }
        };
        let group = &mut self.groups[at];
        group.nodes += 1;
        if group.rejection.code == Code::Unschedulable {
            self.curable.insert(node);
        }
        if self.by_slot.len() <= node.index() {
            self.by_slot.resize(node.index() + 1, NO_GROUP);
        }
        self.by_slot[node.index()] = u16::try_from(at).expect("there are few kinds");
        Ok(())
    }

    fn new_group(&mut self, group: RejectionGroup) -> Result<usize, CycleError> {
        if self.groups.len() == GROUPS_MAX {
            return Err(CycleError("too many kinds".to_owned()));
        }
        self.groups.push(group);
        Ok(self.groups.len() - 1)
    }

    /// The same as [`Filtered::diagnose`] finds.
    fn diagnosis(&self, snapshot: Snapshot<'_>) -> Diagnosis {
        let mut reasons = Histogram::default();
        let groups = || self.groups.iter().filter(|group| group.nodes > 0);
        for group in groups() {
            for reason in &group.rejection.reasons {
                reasons.add_times(reason.clone(), group.nodes);
            }
        }
        Diagnosis {
            rejectors: groups().map(|group| group.plugin).collect(),
            message: reasons.message(snapshot.nodes().len()),
            curable: self.curable.clone(),
        }
    }
}

/// The nodes that changed since, and those to which pods were nominated, or whose pods started; `None` where that is too long ago.
fn touched_since(snapshot: Snapshot<'_>, (seen, seen_beside): (u64, u64)) -> Option<NodeSet> {
    let mut touched: NodeSet = snapshot.touched_since(seen)?.map(|(node, _)| node).collect();
    for node in snapshot.touched_beside_since(seen_beside)? {
        touched.insert(node);
    }
    Some(touched)
}

impl Framework {
    /// Whether a refusal of a pod can be remembered at all.
    fn remembers_refusals(&self, pod: &PodInfo) -> bool {
        // A walk looks at other nodes each time.
        self.sampling.is_none() && pod.nominated_node.is_none() && pod.volumes.is_empty()
    }

    /// A pod was refused by all nodes: if one alike comes, it is worth remembering.
    pub fn note_infeasible(&self, decisions: &mut DecisionCache, pod: &Arc<PodInfo>, filtered: &Filtered) {
        if self.remembers_refusals(pod) && self.judges_one_by_one(filtered) {
            let signature = Hashed::of(NodeSignature::of(pod), &decisions.hashing);
            decisions.infeasible.note(&signature);
        }
    }

    /// That no node can take `pod`, from what is remembered of pods like it, and what PostFilter makes of it, told to `then`; `None`
    /// where [`Self::decide`] is to be asked.
    ///
    /// Of several candidates of least harm the nomination names one, that which [`Nomination::choose`](crate::cycle::Nomination::choose)
    /// would draw of them.
    pub fn reject_cached<R>(
        &self,
        decisions: &mut DecisionCache,
        pod: &Arc<PodInfo>,
        snapshot: Snapshot<'_>,
        (draws, now): (Draws, Time),
        probe: &mut dyn Probe,
        then: impl FnOnce(Failed<'_>, &PostFilter<'_>) -> R,
    ) -> Option<R> {
        if !self.remembers_refusals(pod) || decisions.infeasible.is_empty() {
            return None;
        }
        let signature = Hashed::of(NodeSignature::of(pod), &decisions.hashing);
        let entry = decisions.infeasible.of(signature, snapshot.era(), now)?;
        self.reject_from(entry, pod, snapshot, (draws, now), probe, then)
    }

    /// The same, from what is remembered of this signature.
    pub(super) fn reject_from<R>(
        &self,
        entry: &mut InfeasibleEntry,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        (draws, now): (Draws, Time),
        probe: &mut dyn Probe,
        then: impl FnOnce(Failed<'_>, &PostFilter<'_>) -> R,
    ) -> Option<R> {
        let mut filtered = self.prepare(pod, snapshot, &mut NoProbe).ok()?;
        if !self.judges_one_by_one(&filtered) {
            return None;
        }
        entry.catch_up(&filtered, pod, snapshot)?;
        if !entry.passing.is_empty() {
            return None;
        }
        probe.enter(Point::PreFilter);
        probe.leave(Point::PreFilter, "Success");
        probe.enter(Point::Filter);
        let diagnosis = entry.diagnosis(snapshot);
        filtered.is_refused_by(snapshot.nodes().clone());
        probe.leave(Point::Filter, "Unschedulable");
        let failed = Failed { pod, snapshot, filtered: &filtered, diagnosis: &diagnosis };
        let outcome = self.post_filter_again(failed, (draws, now), &mut entry.runs, probe);
        Some(then(failed, &outcome))
    }

    /// Whether those that have a say judge each node by itself, and all nodes.
    fn judges_one_by_one(&self, filtered: &Filtered) -> bool {
        let is_by_node = |name: PluginName| {
            let seat = self.filters.iter().find(|seat| seat.plugin.name() == name);
            seat.is_some_and(|seat| seat.plugin.reads() == Reads::Pod)
        };
        filtered.looks_at_all() && filtered.judges().all(is_by_node)
    }
}
