//! Label values that upstream fixes, as closed sets: nobody can record a series a dashboard does not know.

macro_rules! label {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident => $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_meta])* $variant,)+ }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The value as it stands in a series.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

label! {
    /// How an attempt to schedule a pod ended: `result` of the attempt families.
    AttemptResult {
        /// Bound; counted when the binding is done.
        Scheduled => "scheduled",
        /// No node fits.
        Unschedulable => "unschedulable",
        /// Something failed that is not the pod's fault, a refused binding included.
        Error => "error",
    }
}

label! {
    /// A point of the framework: `extension_point` (`pkg/scheduler/metrics/metrics.go`).
    ExtensionPoint {
        /// May the pod enter activeQ.
        PreEnqueue => "PreEnqueue",
        /// Once per pod, before the nodes.
        PreFilter => "PreFilter",
        /// Which nodes fit.
        Filter => "Filter",
        /// What if a pod were added to a node.
        PreFilterExtensionAddPod => "PreFilterExtensionAddPod",
        /// What if a pod were removed from a node.
        PreFilterExtensionRemovePod => "PreFilterExtensionRemovePod",
        /// No node fits: preemption.
        PostFilter => "PostFilter",
        /// Once per pod, before scoring.
        PreScore => "PreScore",
        /// How good each node is.
        Score => "Score",
        /// Scores brought to 0..=100.
        ScoreExtensionNormalize => "ScoreExtensionNormalize",
        /// The node is taken for the pod.
        Reserve => "Reserve",
        /// And given back.
        Unreserve => "Unreserve",
        /// May it be bound now.
        Permit => "Permit",
        /// Is there anything to do before binding.
        PreBindPreFlight => "PreBindPreFlight",
        /// What is done before binding.
        PreBind => "PreBind",
        /// The binding.
        Bind => "Bind",
        /// What is done after binding.
        PostBind => "PostBind",
        /// The pod's signature.
        Sign => "Sign",
    }
}

label! {
    /// What a point or a plugin answered: `status` (`Code.String` of upstream's framework).
    StatusCode {
        /// Yes.
        Success => "Success",
        /// It failed.
        Error => "Error",
        /// No, but preemption may help.
        Unschedulable => "Unschedulable",
        /// No, whatever is preempted.
        UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
        /// Not yet.
        Wait => "Wait",
        /// Nothing to do.
        Skip => "Skip",
        /// Waits for something outside.
        Pending => "Pending",
    }
}

label! {
    /// What a queueing hint answered: `hint`.
    HintResult {
        /// The event may help the pod.
        Queue => "Queue",
        /// It does not.
        QueueSkip => "QueueSkip",
        /// The hint failed; the pod is queued.
        Error => "Error",
    }
}
