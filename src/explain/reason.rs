//! The codes of reasons: what a program may rely on, and a person can look up in docs/explain.md.
//!
//! Codes are added, and never change their meaning.

use super::words;
use serde::Serialize;
use supercargo_core::explain::Objection;
use supercargo_core::framework::{Fact, Measure};
use supercargo_core::intern::Tables;

/// Why a node, or the whole cluster, cannot take a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum ReasonCode {
    /// The node is cordoned.
    NodeCordoned,
    /// `spec.nodeName` names another node.
    NodeNameMismatch,
    /// The node has a taint that the pod does not tolerate.
    UntoleratedTaint,
    /// `spec.nodeSelector` asks for a label the node has not.
    NodeSelectorMismatch,
    /// No term of the required node affinity is fulfilled.
    NodeAffinityMismatch,
    /// The terms of the required node affinity name nodes and rule each other out.
    NodeAffinityConflict,
    /// The profile's `addedAffinity` is not fulfilled.
    AddedAffinityMismatch,
    /// A host port is in use.
    HostPortTaken,
    /// The node has as many pods as it may have.
    TooManyPods,
    /// Too little cpu is free.
    InsufficientCpu,
    /// Too little memory is free.
    InsufficientMemory,
    /// Too little ephemeral storage is free.
    InsufficientEphemeralStorage,
    /// Too little of another resource is free.
    InsufficientResource,
    /// No pod that required pod affinity asks for is near.
    PodAffinityUnmet,
    /// A pod that the required anti-affinity names is near.
    PodAntiAffinity,
    /// A pod that is there refuses this one by its required anti-affinity.
    ExistingPodAntiAffinity,
    /// `maxSkew` would be broken.
    SpreadSkew,
    /// The node lacks the label that a spread constraint goes by.
    SpreadLabelMissing,
    /// A volume cannot be reached from the node.
    VolumeNodeMismatch,
    /// No volume for a claim is to be had on the node.
    VolumeUnavailable,
    /// A disk or claim is in use by another pod.
    VolumeInUse,
    /// The node has as many volumes attached as it may have.
    VolumeLimit,
    /// A claim is not there, or not ready.
    ClaimNotReady,
    /// The pod asks for devices, which this version does not place.
    DevicesUnsupported,
    /// The node does not declare a feature that the pod's spec presumes.
    NodeFeatureMissing,
    /// A plugin named the nodes it would have, and this is none of them.
    OutsideSelection,
    /// Affinity or spreading of the pod cannot be read.
    SpecUnreadable,
    /// A plugin failed: the whole decision ends there.
    PluginFailed,
    /// A plugin of another name says no.
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
        Self::DevicesUnsupported,
        Self::NodeFeatureMissing,
        Self::OutsideSelection,
        Self::SpecUnreadable,
        Self::PluginFailed,
        Self::Other,
    ];
}

/// One reason against one node.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) code: ReasonCode,
    pub(super) plugin: &'static str,
    /// What tells reasons of one code apart in a summary: the resource, the taint, the label's key.
    pub(super) about: String,
    /// What is behind it, where the plugin tells.
    pub(super) fact: Option<Fact>,
    /// The plugin's own words.
    pub(super) words: String,
    pub(super) preemption_may_help: bool,
    pub(super) because_nominated: bool,
}

/// The reasons of an objection: one for each fact that was told, else one of the plugin's words.
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

/// Whether different texts of the plugin are different reasons.
fn is_only_words(plugin: &str) -> bool {
    plugin.starts_with("Volume") || plugin.starts_with("NodeVolume") || plugin == "DynamicResources"
}

fn about(fact: &Fact, tables: &Tables) -> String {
    match fact {
        Fact::Short { of, .. } => words::resource(tables, *of).to_owned(),
        Fact::Taint(taint) => words::taint(tables, taint),
        Fact::Selector { key, wanted, .. } => words::pair(tables, *key, *wanted),
        Fact::Term { unmet, term, .. } => format!("{term} {}", words::requirement(tables, unmet)),
        Fact::Port(port) => format!("{}/{}", port.port, tables.text(port.protocol)),
        Fact::Skew { key, selector, .. }
        | Fact::NoPeer { key, selector, .. }
        | Fact::Foes { key, selector, .. } => {
            format!("{} {}", tables.text(*key), words::selector(tables, selector))
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

/// Plugins that tell no facts are told apart by themselves, and those about volumes by upstream's texts.
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
        "DynamicResources" => ReasonCode::DevicesUnsupported,
        "NodeDeclaredFeatures" => ReasonCode::NodeFeatureMissing,
        _ => ReasonCode::Other,
    }
}
