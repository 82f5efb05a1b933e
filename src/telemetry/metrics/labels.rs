//! Label values defined by upstream, as closed enums, so no series outside upstream's set can be recorded.

macro_rules! label {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident => $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_meta])* $variant,)+ }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Returns the label value.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

label! {
    /// Result of a scheduling attempt: label `result` of the attempt families.
    AttemptResult {
        /// The pod was bound. Counted when the binding has finished.
        Scheduled => "scheduled",
        /// No node is feasible.
        Unschedulable => "unschedulable",
        /// An internal error, or a binding that the API server rejected.
        Error => "error",
    }
}

label! {
    /// A scheduling framework extension point: label `extension_point` (`pkg/scheduler/metrics/metrics.go`).
    ExtensionPoint {
        /// Decides whether the pod may enter activeQ.
        PreEnqueue => "PreEnqueue",
        /// Runs once per pod before Filter.
        PreFilter => "PreFilter",
        /// Decides which nodes are feasible.
        Filter => "Filter",
        /// Updates PreFilter state for a pod hypothetically added to a node.
        PreFilterExtensionAddPod => "PreFilterExtensionAddPod",
        /// Updates PreFilter state for a pod hypothetically removed from a node.
        PreFilterExtensionRemovePod => "PreFilterExtensionRemovePod",
        /// Runs if no node is feasible: preemption.
        PostFilter => "PostFilter",
        /// Runs once per pod before Score.
        PreScore => "PreScore",
        /// Scores each feasible node.
        Score => "Score",
        /// Normalizes scores to 0..=100.
        ScoreExtensionNormalize => "ScoreExtensionNormalize",
        /// Reserves resources on the chosen node.
        Reserve => "Reserve",
        /// Releases the reservation.
        Unreserve => "Unreserve",
        /// Approves, delays or denies the binding.
        Permit => "Permit",
        /// Reports whether PreBind has work to do.
        PreBindPreFlight => "PreBindPreFlight",
        /// Work before the binding, such as binding volumes.
        PreBind => "PreBind",
        /// Binds the pod to the node.
        Bind => "Bind",
        /// Runs after the binding.
        PostBind => "PostBind",
        /// Computes the pod's signature.
        Sign => "Sign",
    }
}

label! {
    /// Status of an extension point or plugin: label `status` (`Code.String` of upstream's framework).
    StatusCode {
        /// Success.
        Success => "Success",
        /// Internal error.
        Error => "Error",
        /// Rejected; preemption may help.
        Unschedulable => "Unschedulable",
        /// Rejected; preemption cannot help.
        UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
        /// The Permit plugin delays the pod.
        Wait => "Wait",
        /// The plugin has nothing to do for this pod.
        Skip => "Skip",
        /// Waits for an external condition.
        Pending => "Pending",
    }
}

label! {
    /// Result of a queueing hint: label `hint`.
    HintResult {
        /// The event may make the pod schedulable.
        Queue => "Queue",
        /// The event cannot make the pod schedulable.
        QueueSkip => "QueueSkip",
        /// The hint failed; the pod is queued.
        Error => "Error",
    }
}
