//! Where the pinned binaries of the control plane are. It does not build them: `make upstream` does.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// The folder all build products go to.
pub(crate) fn target_dir() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| package.join("target"), |given| package.join(given))
}

/// The binary `name` of the pinned control plane.
pub(crate) fn binary(name: &str) -> Result<PathBuf> {
    find(&Path::new("bin").join(name))
}

/// What kwok does to nodes and pods: the stages of its own module.
pub(crate) fn kwok_stages() -> Result<PathBuf> {
    find(Path::new("kwok-stages.yaml"))
}

/// Someone who builds into another target folder still has the control plane of the package's own.
fn find(file: &Path) -> Result<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    let candidates = [target_dir(), own].map(|target| target.join("upstream").join(file));
    if let Some(found) = candidates.iter().find(|path| path.is_file()) {
        return Ok(found.clone());
    }
    bail!("the control plane is not built: {} is missing; run `make upstream` first", candidates[0].display())
}
