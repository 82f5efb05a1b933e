//! The API of pod groups in each version of Kubernetes. It is off by default.

use super::binaries::chosen_version;
use super::supercargo::Setup;

/// The API of pod groups in a version of Kubernetes.
#[derive(Clone, Copy, Debug)]
pub struct GroupApi {
    /// The version of `scheduling.k8s.io`.
    pub version: &'static str,
    /// The value of `--feature-gates`.
    pub gates: &'static str,
}

impl GroupApi {
    /// Returns the API in a minor version of Kubernetes that has it.
    pub fn of(version: &str) -> Option<Self> {
        match version {
            "1.36" => Some(Self {
                version: "v1alpha2",
                gates: "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true,\
                        WorkloadAwarePreemption=true",
            }),
            "1.37" => Some(Self {
                version: "v1beta1",
                gates: "GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
            }),
            _ => None,
        }
    }

    /// Returns the flag of the gates.
    pub fn gates_flag(self) -> String {
        format!("--feature-gates={}", self.gates)
    }
}

impl Setup {
    /// Switches pod groups on, if the chosen version of Kubernetes has them.
    #[must_use]
    pub fn with_groups(mut self) -> Self {
        self.args.extend(GroupApi::of(&chosen_version()).map(GroupApi::gates_flag));
        self
    }
}
