//! The flag that selects the version of kube-scheduler to behave as.

use clap::Args;
use supercargo_config::flags::parse_emulated_version;
use supercargo_core::model::emulation::EmulatedVersion;

/// The version of kube-scheduler to behave as.
#[derive(Clone, Copy, Debug, Args)]
pub struct EmulationArgs {
    /// Version of kube-scheduler whose decisions and messages to give, 1.34 to 1.37. It means the real program of that
    /// version with default feature gates.
    #[arg(
        long,
        value_name = "VERSION",
        default_value_t = EmulatedVersion::default(),
        value_parser = parse_emulated_version
    )]
    pub emulated_version: EmulatedVersion,
}
