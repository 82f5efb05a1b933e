//! Mutations: deliberate mistakes that tests switch on to prove that they would detect them.
//!
//! Without the feature `mutations`, and outside this crate's own tests, every check is false at compile time
//! and the program contains none of this. With it, a thread can switch on one mistake for the engines it
//! runs.

/// A mistake at one of the engine's decision points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutation {
    /// A binding without an answer counts as rejected.
    UnknownIsRefused,
    /// A binding that was not confirmed is given up at once, although a copy of its request may still arrive.
    NoPatience,
    /// Assumed pods expire after 30 seconds.
    AssumedExpire,
    /// A failed binding does not release the resources of the assumed pod.
    FailedBindFreesNothing,
    /// A failed binding requeues no pods.
    FailedBindWakesNobody,
    /// A lookup of a binding without an answer counts as an answer: the pod is gone.
    NoAnswerIsGone,
    /// A pod whose binding failed is not requeued.
    PodDropped,
    /// A binding that turns out to be carried out is reported as failed.
    BoundIsFailed,
    /// The recheck before a binding is skipped.
    NoLastLook,
    /// Leadership is not checked.
    LeadIgnored,
    /// A pod is bound when its volumes are written, whether its claims are bound or not.
    PodBeforeVolumes,
    /// Volume reservations of a pod are never released.
    VolumesNotGivenBack,
    /// Scheduling gates are ignored.
    GateIgnored,
    /// NodeResourcesFit's hint never requeues a pod.
    DeafResources,
    /// InterPodAffinity's hint never requeues a pod.
    DeafAffinity,
    /// InterPodAffinity's hint ignores deleted pods.
    DeafAffinityDelete,
    /// PodTopologySpread's hint never requeues a pod.
    DeafSpread,
    /// TaintToleration's hint never requeues a pod.
    DeafTaints,
    /// A pod misses events that arrive during its failed attempt.
    EventInFlightLost,
    /// After an error, a pod keeps the plugins of an earlier rejection and waits for their events.
    OldBlameStays,
    /// A relist adds and removes nothing.
    RelistAdds,
    /// An older version of a bound pod replaces a newer one.
    StepBack,
    /// Host ports of removed pods are not released.
    PortsStay,
    /// A removed pod's resources are released twice.
    FreedTwice,
    /// A repeated event for a pod counts it again.
    CountedAgain,
    /// The number of pods on a node is not updated.
    PlacesUncounted,
    /// The columns of requested resources are not updated.
    ColumnStands,
    /// Deleting a node also deletes its pods from the cache.
    NodeTakesItsPods,
    /// State of deleted pods is kept.
    PodGoneLeaves,
    /// Gauges ignore deleted pods.
    GaugeDrifts,
    /// Preemption ignores insufficient memory.
    ShortOfMemoryUnseen,
    /// Cached results of a pod survive changes of the cluster.
    MemoryStays,
    /// Signature states are not updated with changes of nodes.
    ShapesStand,
    /// A change of a node or its pods does not update the other nodes of its topology domains.
    OthersInDomainStand,
    /// Partial results of an evaluation in slices are kept although the node changed.
    ResultsStand,
    /// A number of nodes is assumed to be above zero.
    NoNodesUnheardOf,
    /// A resource that a pod requested is assumed to remain in its requests.
    ResourceTakenForGranted,
    /// Nominated pods are ignored.
    NominatedIgnored,
    /// Ids are never freed.
    IdsStay,
    /// Ids that only pending pods hold are freed.
    HolderOverlooked,
    /// Objects that move during garbage collection are not marked.
    MovedUnmarked,
    /// Pods of lower priority are scheduled before those that wait for an extender.
    LesserGoFirst,
    /// Lookups for a deleted pod continue.
    AskedStays,
    /// Nodes that an extender rejects pass.
    ExtenderUnheard,
}

impl Mutation {
    /// All mutations except two that the simulator cannot detect.
    ///
    /// [`Self::MovedUnmarked`] needs a rare order of events; a unit test covers it. [`Self::ResultsStand`]
    /// needs larger pods than simulated clusters have; the law in `tests/domains.rs` covers it.
    pub const ALL: [Self; 42] = [
        Self::UnknownIsRefused,
        Self::NoPatience,
        Self::AssumedExpire,
        Self::FailedBindFreesNothing,
        Self::FailedBindWakesNobody,
        Self::NoAnswerIsGone,
        Self::PodDropped,
        Self::BoundIsFailed,
        Self::NoLastLook,
        Self::LeadIgnored,
        Self::PodBeforeVolumes,
        Self::VolumesNotGivenBack,
        Self::GateIgnored,
        Self::DeafResources,
        Self::DeafAffinity,
        Self::DeafAffinityDelete,
        Self::DeafSpread,
        Self::DeafTaints,
        Self::EventInFlightLost,
        Self::OldBlameStays,
        Self::RelistAdds,
        Self::StepBack,
        Self::PortsStay,
        Self::FreedTwice,
        Self::CountedAgain,
        Self::PlacesUncounted,
        Self::ColumnStands,
        Self::NodeTakesItsPods,
        Self::PodGoneLeaves,
        Self::GaugeDrifts,
        Self::ShortOfMemoryUnseen,
        Self::MemoryStays,
        Self::ShapesStand,
        Self::OthersInDomainStand,
        Self::NoNodesUnheardOf,
        Self::ResourceTakenForGranted,
        Self::NominatedIgnored,
        Self::IdsStay,
        Self::HolderOverlooked,
        Self::LesserGoFirst,
        Self::AskedStays,
        Self::ExtenderUnheard,
    ];

    /// Whether the mutation shows only with an extender.
    pub fn is_about_extenders(self) -> bool {
        matches!(self, Self::LesserGoFirst | Self::AskedStays | Self::ExtenderUnheard)
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
