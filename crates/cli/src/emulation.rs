//! The flags that select the version of kube-scheduler to behave as, and whether to reproduce its defects.

use clap::Args;
use supercargo_config::flags::{gates, parse_emulated_version};
use supercargo_core::model::emulation::{Compat, EmulatedVersion, GroupGates};
use supercargo_whatif::load::files::InputError;

/// The version of kube-scheduler to behave as.
#[derive(Clone, Debug, Args)]
pub struct EmulationArgs {
    /// Version of kube-scheduler whose decisions and messages to give, 1.34 to 1.37. It means the real program of that
    /// version with default feature gates. Defaults to the version of the API server, or to the newest for files.
    #[arg(long, value_name = "VERSION", value_parser = parse_emulated_version)]
    pub emulated_version: Option<EmulatedVersion>,

    /// What to do where kube-scheduler loses a pod with devices, or breaks a claim's own constraints: `repaired`
    /// decides correctly, `upstream` reproduces the defect. FIDELITY.md lists them.
    #[arg(long, value_name = "BEHAVIOR", default_value = "repaired")]
    pub compat: Compat,

    /// Feature gates of pod groups, as NAME=true: GenericWorkload, GangScheduling, TopologyAwareWorkloadScheduling and
    /// WorkloadAwarePreemption. Without them, members of a group are ordinary pods, as in kube-scheduler.
    #[arg(long, value_name = "NAME=BOOL,...")]
    pub feature_gates: Vec<String>,
}

impl EmulationArgs {
    /// Returns the version for objects from files.
    pub fn of_files(&self) -> EmulatedVersion {
        self.emulated_version.unwrap_or(EmulatedVersion::NEWEST)
    }

    /// Returns the feature gates of pod groups.
    ///
    /// # Errors
    /// Fails if a value is malformed, or is none that the version accepts; without a version, that any accepts.
    pub fn groups(&self, version: impl Into<Option<EmulatedVersion>>) -> Result<GroupGates, InputError> {
        gates::judge(&self.feature_gates, version.into()).map_err(|wrong| {
            InputError(format!("--feature-gates: {}; --help lists those of pod groups", wrong.join("; ")))
        })?;
        Ok(gates::groups(&self.feature_gates))
    }
}
