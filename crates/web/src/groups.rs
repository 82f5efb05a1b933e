//! Pod groups: which of them wait, and why.

use crate::protocol::{ExplainedGroup, GroupProgress, GroupRow, Only, Rows, ShortMember, Window, group_of};
use crate::session::Asked;
use std::collections::{BTreeMap, BTreeSet};
use supercargo_core::model::emulation::{EmulatedVersion, GroupGates};
use supercargo_whatif::cluster::{ClusterError, GroupState};
use supercargo_whatif::load::files::{InputError, Item};
use supercargo_whatif::simulate::decision::OfGroup;
use supercargo_whatif::simulate::gates;

/// The API group of PodGroups. Other projects have a kind of this name, too.
const API: &str = "scheduling.k8s.io/";

/// How the message of a member begins that has no node only because its group does not start.
const UNSCHEDULABLE: &str = "pod group is unschedulable";

/// The feature gates that are on, as a value of `--feature-gates`, and a note about them.
#[derive(Default)]
pub(crate) struct Gates {
    pub(crate) groups: GroupGates,
    pub(crate) text: String,
    pub(crate) note: Option<String>,
}

/// Returns the feature gates of a text, as the command line does. If the text is blank, all gates of pod groups are on
/// if the objects have a PodGroup: an API server has none unless GenericWorkload is on.
pub(crate) fn gates_of(text: &str, version: EmulatedVersion, items: &[Item]) -> Result<Gates, InputError> {
    if !text.trim().is_empty() {
        return Ok(Gates {
            groups: gates::of_text(text, version)?,
            text: text.trim().to_owned(),
            note: None,
        });
    }
    let is_group = |item: &Item| item.kind() == "PodGroup" && item.text("/apiVersion").starts_with(API);
    if !items.iter().any(is_group) {
        let names_one =
            |item: &Item| item.value.pointer("/spec/schedulingGroup").is_some_and(|it| !it.is_null());
        let note = "pods name a pod group, but the objects have no PodGroup, so these pods are decided as \
            ordinary pods; add the PodGroup, or enter feature gates";
        let note = items.iter().any(names_one).then(|| note.to_owned());
        return Ok(Gates { note, ..Gates::default() });
    }
    let Some(text) = gates::all_of(version) else {
        let note =
            format!("pod groups are ignored: they are scheduled from 1.36 on, not by {}", version.as_str());
        return Ok(Gates { note: Some(note), ..Gates::default() });
    };
    let note = format!("pod groups are on, since the objects have a PodGroup: --feature-gates={text}");
    Ok(Gates { groups: gates::of_text(&text, version)?, text, note: Some(note) })
}

impl Asked {
    /// Returns the groups with what each does, by namespace and name.
    fn progress(&self) -> Vec<(GroupState, GroupProgress)> {
        let groups = self.cluster.groups();
        if groups.is_empty() {
            return Vec::new();
        }
        let decided = self.decided_groups();
        let progress = |group: GroupState| {
            let is_running = group.bound >= group.min_count.unwrap_or(1);
            let progress = match decided.get(group.group.as_str()) {
                Some(decided) if decided.result == "scheduled" => GroupProgress::Starts,
                _ if is_running => GroupProgress::Runs,
                _ => GroupProgress::Waits,
            };
            (group, progress)
        };
        groups.into_iter().map(progress).collect()
    }

    /// Returns the decisions about groups, by namespace and name.
    fn decided_groups(&self) -> BTreeMap<&str, &OfGroup> {
        let decided = self.placements.values().filter_map(|it| it.group.as_deref());
        decided.map(|group| (group.name.as_str(), group)).collect()
    }

    /// Returns the number of all groups, and those that do not start.
    pub(crate) fn waiting_groups(&self) -> (usize, BTreeSet<String>) {
        let all = self.progress();
        let count = all.len();
        let waiting = all.into_iter().filter(|(_, progress)| *progress == GroupProgress::Waits);
        (count, waiting.map(|(group, _)| group.group).collect())
    }

    /// Returns rows of the table of pod groups, by namespace and name.
    pub(crate) fn group_rows(&self, window: &Window) -> Rows<GroupRow> {
        let all = self.progress().into_iter();
        let all =
            all.filter(|(_, progress)| window.only != Only::Pending || *progress == GroupProgress::Waits);
        let decided = self.decided_groups();
        window.of(
            all,
            |(group, _)| group.group.clone(),
            |(state, progress)| Some(self.group_row(state, progress, &decided)),
        )
    }

    fn group_row(
        &self,
        state: GroupState,
        progress: GroupProgress,
        decided: &BTreeMap<&str, &OfGroup>,
    ) -> GroupRow {
        let decided = decided.get(state.group.as_str()).copied();
        let is_waiting = progress == GroupProgress::Waits;
        let message = decided.map(|it| it.status.clone()).filter(|status| is_waiting && !status.is_empty());
        let closest = decided.and_then(|it| it.placements.iter().rev().max_by_key(|it| it.members)).cloned();
        let is_moved = self.waiting_before.contains(&state.group) != is_waiting;
        GroupRow {
            progress,
            message,
            short: self.short_member(&state.group, decided.map_or("", |it| &it.status)),
            closest: closest.filter(|_| is_waiting && state.topology_key.is_some()),
            victims: decided.map(|it| it.victims.clone()).unwrap_or_default(),
            is_moved,
            state,
        }
    }

    /// Returns the first member that has no node for a reason of its own. Others wait for the group, which `status`
    /// says.
    fn short_member(&self, group: &str, status: &str) -> Option<ShortMember> {
        let is_member = |pod: &str| {
            self.cluster.pod_state(pod).and_then(|pod| group_of(&pod)).is_some_and(|own| own == group)
        };
        let is_of_group = |message: &str| {
            message.starts_with(UNSCHEDULABLE) || !status.is_empty() && message.contains(status)
        };
        let pending = self.placements.values().filter(|it| it.node.is_none());
        let mut own = pending.filter_map(|it| {
            let message = it.message.as_ref().filter(|message| !is_of_group(message))?;
            is_member(&it.pod).then(|| ShortMember { pod: it.pod.clone(), message: message.clone() })
        });
        own.next()
    }

    /// Explains a group, and returns its members.
    pub(crate) fn explain_group(&mut self, group: &str) -> Result<ExplainedGroup, ClusterError> {
        let explanation = self.cluster.explain_group(group)?;
        let pods = self.cluster.pod_states().filter(|pod| group_of(pod).as_deref() == Some(group));
        let members = Window::first().of(pods, |_| String::new(), |pod| Some(self.pod_row(&pod)));
        Ok(ExplainedGroup { explanation, members })
    }
}
