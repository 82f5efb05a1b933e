//! Paths of the control plane binaries, which `make upstream` builds in the pinned version.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Returns cargo's target folder.
pub fn target_dir() -> PathBuf {
    let package = crate::root();
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| package.join("target"), |given| package.join(given))
}

/// Programs that are part of Kubernetes, of which there is one per version.
const OF_KUBERNETES: [&str; 4] = ["e2e.test", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// The minor version of Kubernetes that `tests/upstream/go.mod` pins.
pub const PINNED: &str = "1.36";

/// Returns the minor version of Kubernetes of control planes whose test does not choose one: that of the environment
/// variable `SUPERCARGO_KUBERNETES`, or the pinned one.
pub fn chosen_version() -> String {
    std::env::var("SUPERCARGO_KUBERNETES").unwrap_or_else(|_| PINNED.to_owned())
}

/// Returns the number of the chosen minor version, for example 36.
pub fn chosen_minor() -> u32 {
    minor_of(&chosen_version()).expect("SUPERCARGO_KUBERNETES has the form 1.36")
}

/// Returns the minor number of a version such as `1.36`.
pub fn minor_of(version: &str) -> Result<u32> {
    let minor = version.strip_prefix("1.").and_then(|minor| minor.parse().ok());
    minor.with_context(|| format!("expected a version as in 1.36, not {version}"))
}

/// Returns the path of a control plane binary of the chosen version.
pub fn binary(name: &str) -> Result<PathBuf> {
    binary_of(&chosen_version(), name)
}

/// Returns the path of a control plane binary of a minor version of Kubernetes.
pub fn binary_of(version: &str, name: &str) -> Result<PathBuf> {
    if version == PINNED || !OF_KUBERNETES.contains(&name) {
        return find(&Path::new("bin").join(name), "make upstream");
    }
    let command = format!("tests/upstream/build.sh --version {version} {name}");
    find(&Path::new(version).join("bin").join(name), &command)
}

/// Returns the path of kwok's stages, which simulate nodes and pods.
pub fn kwok_stages() -> Result<PathBuf> {
    find(Path::new("kwok-stages.yaml"), "make upstream")
}

/// Falls back to the package's own target folder if another target folder is configured.
fn find(file: &Path, command: &str) -> Result<PathBuf> {
    let own = crate::root().join("target");
    let candidates = [target_dir(), own].map(|target| target.join("upstream").join(file));
    if let Some(found) = candidates.iter().find(|path| path.is_file()) {
        return Ok(found.clone());
    }
    bail!("the control plane is not built: {} is missing; run `{command}` first", candidates[0].display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_version_is_that_of_the_module_file() {
        let modules =
            std::fs::read_to_string(crate::root().join("tests/upstream/go.mod")).expect("a module file");
        assert!(modules.contains(&format!("\n\tk8s.io/kubernetes v{PINNED}.")), "{PINNED} is not pinned");
    }
}
