//! Reason codes. Programs may rely on them; docs/explain.md explains each.
//!
//! New codes may be added; existing codes keep their meaning.

use crate::explain::format;
use serde::Serialize;
use supercargo_core::explain::Objection;
use supercargo_core::framework::{Fact, Measure};
use supercargo_core::model::intern::Tables;

/// Why a node, or the whole cluster, is infeasible for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum ReasonCode {
    /// The node is cordoned.
    NodeCordoned,
    /// `spec.nodeName` names another node.
    NodeNameMismatch,
    /// The node has a taint that the pod does not tolerate.
    UntoleratedTaint,
    /// `spec.nodeSelector` requires a label that the node lacks.
    NodeSelectorMismatch,
    /// The node matches no term of the required node affinity.
    NodeAffinityMismatch,
    /// The terms of the required node affinity name nodes and contradict each other.
    NodeAffinityConflict,
    /// The node does not match the profile's `addedAffinity`.
    AddedAffinityMismatch,
    /// A requested host port is in use.
    HostPortTaken,
    /// The node runs its maximum number of pods.
    TooManyPods,
    /// Too little cpu is free.
    InsufficientCpu,
    /// Too little memory is free.
    InsufficientMemory,
    /// Too little ephemeral storage is free.
    InsufficientEphemeralStorage,
    /// Too little of another resource is free.
    InsufficientResource,
    /// No pod that the required pod affinity selects runs in the domain.
    PodAffinityUnmet,
    /// A pod that the required anti-affinity selects runs in the domain.
    PodAntiAffinity,
    /// The required anti-affinity of an existing pod excludes this pod.
    ExistingPodAntiAffinity,
    /// The pod would exceed `maxSkew`.
    SpreadSkew,
    /// The node lacks the topology key of a spread constraint.
    SpreadLabelMissing,
    /// A volume is not reachable from the node.
    VolumeNodeMismatch,
    /// No volume for a claim is available on the node.
    VolumeUnavailable,
    /// Another pod uses the disk or claim exclusively.
    VolumeInUse,
    /// The node has its maximum number of volumes attached.
    VolumeLimit,
    /// A claim does not exist or is not ready.
    ClaimNotReady,
    /// The node lacks devices for a claim or an extended resource, or the claim cannot be used there.
    DevicesUnavailable,
    /// The node does not declare a feature that the pod's spec requires.
    NodeFeatureMissing,
    /// A PreFilter plugin selected other nodes.
    OutsideSelection,
    /// The pod's affinity or spread constraints are invalid.
    SpecUnreadable,
    /// A plugin failed, which ends the whole decision.
    PluginFailed,
    /// A plugin without its own code rejects the pod.
    Other,
}

impl ReasonCode {
    /// All codes, in the order of the documentation.
    pub const ALL: [Self; 29] = [
        Self::NodeCordoned,
        Self::NodeNameMismatch,
        Self::UntoleratedTaint,
        Self::NodeSelectorMismatch,
        Self::NodeAffinityMismatch,
        Self::NodeAffinityConflict,
        Self::AddedAffinityMismatch,
        Self::HostPortTaken,
        Self::TooManyPods,
        Self::InsufficientCpu,
        Self::InsufficientMemory,
        Self::InsufficientEphemeralStorage,
        Self::InsufficientResource,
        Self::PodAffinityUnmet,
        Self::PodAntiAffinity,
        Self::ExistingPodAntiAffinity,
        Self::SpreadSkew,
        Self::SpreadLabelMissing,
        Self::VolumeNodeMismatch,
        Self::VolumeUnavailable,
        Self::VolumeInUse,
        Self::VolumeLimit,
        Self::ClaimNotReady,
        Self::DevicesUnavailable,
        Self::NodeFeatureMissing,
        Self::OutsideSelection,
        Self::SpecUnreadable,
        Self::PluginFailed,
        Self::Other,
    ];
}

// A variant before the last one that `ALL` lacks does not compile.
const _: () = assert!(ReasonCode::ALL.len() == ReasonCode::Other as usize + 1);

/// A reason against one node.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub code: ReasonCode,
    pub plugin: &'static str,
    /// Distinguishes reasons with the same code in a summary: the resource, the taint, the label.
    pub about: String,
    /// The facts behind it, if the plugin reports any.
    pub fact: Option<Fact>,
    /// The plugin's message.
    pub words: String,
    pub preemption_may_help: bool,
    pub because_nominated: bool,
}

/// Returns the reasons of an objection: one per fact, else one with the plugin's message.
pub(super) fn of_objection(objection: &Objection, tables: &Tables) -> Vec<Found> {
    let words = objection.reasons.join(", ");
    let found = |code, about: String, fact: Option<Fact>| Found {
        code,
        plugin: objection.plugin,
        about,
        fact,
        words: words.clone(),
        preemption_may_help: objection.code == Some(supercargo_core::framework::Code::Unschedulable),
        because_nominated: objection.because_nominated,
    };
    if objection.facts.is_empty() {
        let about = if is_only_words(objection.plugin) { words.clone() } else { String::new() };
        return vec![found(code_of_words(objection, &words), about, None)];
    }
    let each = objection.facts.iter().map(|fact| {
        let code = code_of_fact(objection.plugin, fact);
        found(code, about(fact, tables), Some(fact.clone()))
    });
    each.collect()
}

/// Returns whether different messages of the plugin are different reasons.
fn is_only_words(plugin: &str) -> bool {
    plugin.starts_with("Volume") || plugin.starts_with("NodeVolume") || plugin == "DynamicResources"
}

fn about(fact: &Fact, tables: &Tables) -> String {
    match fact {
        Fact::Short { of, .. } => format::resource(tables, *of).to_owned(),
        Fact::Taint(taint) => format::taint(tables, taint),
        Fact::Selector { key, wanted, .. } => format::pair(tables, *key, *wanted),
        Fact::Term { unmet, term, .. } => format!("{term} {}", format::requirement(tables, unmet)),
        Fact::Port(port) => format!("{}/{}", port.port, tables.text(port.protocol)),
        Fact::Skew { key, selector, .. }
        | Fact::NoPeer { key, selector, .. }
        | Fact::Foes { key, selector, .. } => {
            format!("{} {}", tables.text(*key), format::selector(tables, selector))
        }
        Fact::NoKey(key) | Fact::FoeOf { key, .. } => tables.text(*key).to_owned(),
    }
}

fn code_of_fact(plugin: &str, fact: &Fact) -> ReasonCode {
    match fact {
        Fact::Short { of, .. } => match of {
            Measure::Pods => ReasonCode::TooManyPods,
            Measure::Cpu => ReasonCode::InsufficientCpu,
            Measure::Memory => ReasonCode::InsufficientMemory,
            Measure::EphemeralStorage => ReasonCode::InsufficientEphemeralStorage,
            Measure::Scalar(_) => ReasonCode::InsufficientResource,
        },
        Fact::Taint(_) => ReasonCode::UntoleratedTaint,
        Fact::Selector { .. } => ReasonCode::NodeSelectorMismatch,
        Fact::Term { added: true, .. } => ReasonCode::AddedAffinityMismatch,
        Fact::Term { .. } => ReasonCode::NodeAffinityMismatch,
        Fact::Port(_) => ReasonCode::HostPortTaken,
        Fact::Skew { .. } => ReasonCode::SpreadSkew,
        Fact::NoKey(_) if plugin == "PodTopologySpread" => ReasonCode::SpreadLabelMissing,
        Fact::NoKey(_) | Fact::NoPeer { .. } => ReasonCode::PodAffinityUnmet,
        Fact::Foes { .. } => ReasonCode::PodAntiAffinity,
        Fact::FoeOf { .. } => ReasonCode::ExistingPodAntiAffinity,
    }
}

/// Returns the code for a plugin without facts, by its name and, for volumes, by its message.
fn code_of_words(objection: &Objection, words: &str) -> ReasonCode {
    if objection.code.is_none() {
        return ReasonCode::PluginFailed;
    }
    if words.starts_with("node(s) didn't satisfy plugin(s)") {
        return ReasonCode::OutsideSelection;
    }
    match objection.plugin {
        "NodeUnschedulable" => ReasonCode::NodeCordoned,
        "NodeName" => ReasonCode::NodeNameMismatch,
        "NodeAffinity" if words.contains("conflict") => ReasonCode::NodeAffinityConflict,
        "NodeAffinity" => ReasonCode::NodeAffinityMismatch,
        "InterPodAffinity" | "PodTopologySpread" => ReasonCode::SpecUnreadable,
        "NodeVolumeLimits" if words.contains("exceed max volume count") => ReasonCode::VolumeLimit,
        "VolumeZone" if words.contains("no available volume zone") => ReasonCode::VolumeNodeMismatch,
        "VolumeRestrictions" if words.starts_with("node(s)") => ReasonCode::VolumeInUse,
        "VolumeBinding" if words.contains("node affinity") => ReasonCode::VolumeNodeMismatch,
        "VolumeBinding" if words.starts_with("node(s)") => ReasonCode::VolumeUnavailable,
        "NodeVolumeLimits" | "VolumeZone" | "VolumeRestrictions" | "VolumeBinding" => {
            ReasonCode::ClaimNotReady
        }
        "DynamicResources" => ReasonCode::DevicesUnavailable,
        "NodeDeclaredFeatures" => ReasonCode::NodeFeatureMissing,
        _ => ReasonCode::Other,
    }
}
