//! Paths of the pinned control plane binaries, which `make upstream` builds.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// Returns cargo's target folder.
pub fn target_dir() -> PathBuf {
    let package = crate::root();
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| package.join("target"), |given| package.join(given))
}

/// Returns the path of a control plane binary.
pub fn binary(name: &str) -> Result<PathBuf> {
    find(&Path::new("bin").join(name))
}

/// Returns the path of kwok's stages, which simulate nodes and pods.
pub fn kwok_stages() -> Result<PathBuf> {
    find(Path::new("kwok-stages.yaml"))
}

/// Falls back to the package's own target folder if another target folder is configured.
fn find(file: &Path) -> Result<PathBuf> {
    let own = crate::root().join("target");
    let candidates = [target_dir(), own].map(|target| target.join("upstream").join(file));
    if let Some(found) = candidates.iter().find(|path| path.is_file()) {
        return Ok(found.clone());
    }
    bail!("the control plane is not built: {} is missing; run `make upstream` first", candidates[0].display())
}
