//! Mutations: deliberate mistakes that tests switch on to prove that they would detect them.
//!
//! Without the feature `mutations`, and outside this crate's own tests, every check is false at compile time
//! and the program contains none of this. With it, a thread can switch on one mistake for the engines it
//! runs.

/// A mistake at one of the engine's decision points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutation {
    /// A binding without an answer counts as rejected.
    UnknownOutcomeCountsAsRejected,
    /// A binding that was not confirmed is given up at once, although a copy of its request may still arrive.
    LostBindingGivenUpAtOnce,
    /// Assumed pods expire after 30 seconds.
    AssumedPodsExpire,
    /// A failed binding does not release the resources of the assumed pod.
    FailedBindingKeepsResources,
    /// A failed binding requeues no pods.
    FailedBindingRequeuesNoPod,
    /// A lookup of a binding without an answer counts as an answer: the pod is gone.
    NoAnswerCountsAsGone,
    /// A pod whose binding failed is not requeued.
    FailedPodNotRequeued,
    /// A binding that turns out to be carried out is reported as failed.
    BoundCountsAsFailed,
    /// The recheck before a binding is skipped.
    RecheckSkipped,
    /// Leadership is not checked.
    LeadershipIgnored,
    /// A pod is bound when its volumes are written, whether its claims are bound or not.
    PodBoundBeforeVolumes,
    /// Volume reservations of a pod are never released.
    VolumesNotReleased,
    /// Scheduling gates are ignored.
    SchedulingGatesIgnored,
    /// NodeResourcesFit's hint never requeues a pod.
    ResourceHintSkipsAll,
    /// InterPodAffinity's hint never requeues a pod.
    AffinityHintSkipsAll,
    /// InterPodAffinity's hint ignores deleted pods.
    AffinityHintIgnoresDeletions,
    /// PodTopologySpread's hint never requeues a pod.
    SpreadHintSkipsAll,
    /// TaintToleration's hint never requeues a pod.
    TaintHintSkipsAll,
    /// A pod misses events that arrive during its failed attempt.
    EventDuringAttemptLost,
    /// After an error, a pod keeps the plugins of an earlier rejection and waits for their events.
    EarlierRejectorsKept,
    /// A relist adds and removes nothing.
    RelistRemovesNothing,
    /// An older version of a bound pod replaces a newer one.
    OlderPodVersionApplied,
    /// Host ports of removed pods are not released.
    HostPortsNotReleased,
    /// A removed pod's resources are released twice.
    ResourcesReleasedTwice,
    /// A repeated event for a pod counts it again.
    RepeatedPodCountedAgain,
    /// The number of pods on a node is not updated.
    PodCountNotUpdated,
    /// The columns of requested resources are not updated.
    RequestedColumnsNotUpdated,
    /// Deleting a node also deletes its pods from the cache.
    NodeDeletionDropsPods,
    /// State of deleted pods is kept.
    DeletedPodStateKept,
    /// Gauges ignore deleted pods.
    GaugesIgnoreDeletedPods,
    /// Preemption ignores insufficient memory.
    PreemptionIgnoresMemory,
    /// Cached results of a pod survive changes of the cluster.
    UnschedulableResultsNeverStale,
    /// A gang starts although fewer members than its minimum have a node.
    GangStartsShort,
    /// Gated members stay gated when the last one comes that their gang needs.
    GatedMembersNotReleased,
    /// A group that is disrupted only as a whole is evicted pod by pod.
    WholeGroupEvictedInPart,
    /// Signature states are not updated with changes of nodes.
    SignatureStatesNotUpdated,
    /// A change of a node or its pods does not update the other nodes of its topology domains.
    DomainPeersNotUpdated,
    /// Partial results of an evaluation in slices are kept although the node changed.
    SliceResultsNotDropped,
    /// Changes of devices do not reach cached decisions.
    DeviceChangesNotLogged,
    /// A number of nodes is assumed to be above zero.
    NodeCountAssumedPositive,
    /// A resource that a pod requested is assumed to remain in its requests.
    ResourceAssumedToRemain,
    /// Nominated pods are ignored.
    NominatedPodsIgnored,
    /// Ids are never freed.
    IdsNeverFreed,
    /// Ids that only pending pods hold are freed.
    PendingPodsNotMarked,
    /// Objects that move during garbage collection are not marked.
    MovedObjectsNotMarked,
    /// Pods of lower priority are scheduled before those that wait for an extender.
    LowerPriorityGoesFirst,
    /// Lookups for a deleted pod continue.
    DeletedPodStaysSuspended,
    /// Nodes that an extender rejects pass.
    ExtenderRejectionsIgnored,
}

impl Mutation {
    /// All mutations except two that the simulator cannot detect.
    ///
    /// [`Self::MovedObjectsNotMarked`] needs a rare order of events; a unit test covers it.
    /// [`Self::SliceResultsNotDropped`] needs larger pods than simulated clusters have; the law in
    /// `tests/domains.rs` covers it.
    pub const ALL: [Self; 46] = [
        Self::UnknownOutcomeCountsAsRejected,
        Self::LostBindingGivenUpAtOnce,
        Self::AssumedPodsExpire,
        Self::FailedBindingKeepsResources,
        Self::FailedBindingRequeuesNoPod,
        Self::NoAnswerCountsAsGone,
        Self::FailedPodNotRequeued,
        Self::BoundCountsAsFailed,
        Self::RecheckSkipped,
        Self::LeadershipIgnored,
        Self::PodBoundBeforeVolumes,
        Self::VolumesNotReleased,
        Self::SchedulingGatesIgnored,
        Self::ResourceHintSkipsAll,
        Self::AffinityHintSkipsAll,
        Self::AffinityHintIgnoresDeletions,
        Self::SpreadHintSkipsAll,
        Self::TaintHintSkipsAll,
        Self::EventDuringAttemptLost,
        Self::EarlierRejectorsKept,
        Self::RelistRemovesNothing,
        Self::OlderPodVersionApplied,
        Self::HostPortsNotReleased,
        Self::ResourcesReleasedTwice,
        Self::RepeatedPodCountedAgain,
        Self::PodCountNotUpdated,
        Self::RequestedColumnsNotUpdated,
        Self::NodeDeletionDropsPods,
        Self::DeletedPodStateKept,
        Self::GaugesIgnoreDeletedPods,
        Self::PreemptionIgnoresMemory,
        Self::UnschedulableResultsNeverStale,
        Self::SignatureStatesNotUpdated,
        Self::DomainPeersNotUpdated,
        Self::DeviceChangesNotLogged,
        Self::GangStartsShort,
        Self::GatedMembersNotReleased,
        Self::WholeGroupEvictedInPart,
        Self::NodeCountAssumedPositive,
        Self::ResourceAssumedToRemain,
        Self::NominatedPodsIgnored,
        Self::IdsNeverFreed,
        Self::PendingPodsNotMarked,
        Self::LowerPriorityGoesFirst,
        Self::DeletedPodStaysSuspended,
        Self::ExtenderRejectionsIgnored,
    ];

    /// Whether the mutation shows only with an extender.
    pub fn is_about_extenders(self) -> bool {
        matches!(
            self,
            Self::LowerPriorityGoesFirst | Self::DeletedPodStaysSuspended | Self::ExtenderRejectionsIgnored
        )
    }
}

/// Whether the mutation is switched on.
#[cfg(not(any(test, feature = "mutations")))]
#[inline(always)]
pub(crate) const fn is_on(_mutation: Mutation) -> bool {
    false
}

#[cfg(any(test, feature = "mutations"))]
pub(crate) use switch::is_on;
#[cfg(any(test, feature = "mutations"))]
pub use switch::with;

#[cfg(any(test, feature = "mutations"))]
mod switch {
    use super::Mutation;
    use std::cell::Cell;

    thread_local! {
        static ON: Cell<Option<Mutation>> = const { Cell::new(None) };
    }

    /// Whether the mutation is switched on.
    pub(crate) fn is_on(mutation: Mutation) -> bool {
        ON.get() == Some(mutation)
    }

    /// Runs `run` with the mutation switched on for this thread, then restores the previous one, also after a
    /// panic.
    pub fn with<T>(mutation: Option<Mutation>, run: impl FnOnce() -> T) -> T {
        struct Before(Option<Mutation>);
        impl Drop for Before {
            fn drop(&mut self) {
                ON.set(self.0);
            }
        }
        let _before = Before(ON.replace(mutation));
        run()
    }
}
