//! Mistakes the engine can be told to make, so that tests show that they would notice.
//!
//! Without the feature `mutations`, which nothing but those tests enables, and outside this crate's own tests, every question is answered no at compile time and
//! nothing of this is in the program. With it, a thread can switch one mistake on for the engines it runs.

/// A mistake at one of the engine's decision points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutation {
    /// A binding without an answer counts as refused.
    UnknownIsRefused,
    /// A binding that was not seen carried out is given up at once, though a copy of it is still on its way.
    NoPatience,
    /// An assumed pod is forgotten after 30 seconds.
    AssumedExpire,
    /// What an assumed pod took is not given back when its binding fails.
    FailedBindFreesNothing,
    /// Nobody is told of the room that a failed binding gives back.
    FailedBindWakesNobody,
    /// A question about a binding that brings no answer counts as answered: the pod is gone.
    NoAnswerIsGone,
    /// A pod whose binding failed is put back nowhere.
    PodDropped,
    /// A binding that was found carried out is told of as failed.
    BoundIsFailed,
    /// No last look.
    NoLastLook,
    /// The lead is taken for granted.
    LeadIgnored,
    /// A pod is bound when its volumes are written, whether its claims are bound or not.
    PodBeforeVolumes,
    /// What is assumed of volumes for a pod is never taken back.
    VolumesNotGivenBack,
    /// Gates are ignored.
    GateIgnored,
    /// NodeResourcesFit never wakes a pod.
    DeafResources,
    /// InterPodAffinity never wakes a pod.
    DeafAffinity,
    /// InterPodAffinity overlooks pods that go.
    DeafAffinityDelete,
    /// PodTopologySpread never wakes a pod.
    DeafSpread,
    /// TaintToleration never wakes a pod.
    DeafTaints,
    /// An event at the moment of a failed attempt is missed by that pod.
    EventInFlightLost,
    /// A pod once rejected waits for an event after an error, too.
    OldBlameStays,
    /// A list adds and removes nothing.
    RelistAdds,
    /// An older state of a bound pod is believed.
    StepBack,
    /// Host ports are not given back.
    PortsStay,
    /// What a pod took is given back twice.
    FreedTwice,
    /// A pod that is told of again counts again.
    CountedAgain,
    /// The number of pods on a node is not kept.
    PlacesUncounted,
    /// What the pods of a node take is known, but not where all nodes are looked at together.
    ColumnStands,
    /// Pods of a node that is gone are forgotten with it.
    NodeTakesItsPods,
    /// Something is kept for pods that are gone.
    PodGoneLeaves,
    /// Gauges do not see pods that are deleted.
    GaugeDrifts,
    /// Preemption overlooks that memory falls short.
    ShortOfMemoryUnseen,
    /// What was found of a pod is remembered though the cluster changed.
    MemoryStays,
    /// What is remembered of a signature is not told what happened to nodes since.
    ShapesStand,
    /// The other nodes of a topology domain are not told that a node, or its pods, came or went.
    OthersInDomainStand,
    /// Partial results of an evaluation in slices stand although the node changed.
    ResultsStand,
    /// A number of nodes is taken to be above zero.
    NoNodesUnheardOf,
    /// A resource that a pod asked for is taken to be there ever after.
    ResourceTakenForGranted,
    /// Nominated pods are ignored.
    NominatedIgnored,
    /// Ids are never given back.
    IdsStay,
    /// Ids that only waiting pods hold are given back.
    HolderOverlooked,
    /// What moves while ids are looked for is overlooked.
    MovedUnmarked,
    /// Pods that matter less go before those that wait for an extender.
    LesserGoFirst,
    /// A pod that is gone is asked about on.
    AskedStays,
    /// What an extender rejects passes all the same.
    ExtenderUnheard,
}

impl Mutation {
    /// All but [`Self::MovedUnmarked`], which takes a rare order of things to show: a test beside the code has it. And but
    /// [`Self::ResultsStand`], which takes larger pods than a simulated cluster has: the law of `tests/domains.rs` has it.
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

    /// Whether it can show only where there is an extender.
    pub fn is_about_extenders(self) -> bool {
        matches!(self, Self::LesserGoFirst | Self::AskedStays | Self::ExtenderUnheard)
    }
}

/// Whether the mistake is to be made.
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

    /// Whether the mistake is to be made.
    pub(crate) fn is_on(mutation: Mutation) -> bool {
        ON.get() == Some(mutation)
    }

    /// Runs `run` with the mistake switched on, on this thread; afterwards, and after a panic, what was on before is.
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
