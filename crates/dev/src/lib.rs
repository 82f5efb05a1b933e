//! Development only: real control planes, the comparison with kube-scheduler, and the programs `demo`, `cluster` and
//! `fuzz`.
#![allow(missing_docs, reason = "development only")]

use std::path::Path;

pub mod cluster_state;
pub mod draw;
pub mod generate;
pub mod golden;
pub mod harness;
pub mod oracle;

/// Returns the repository's root folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the package is two folders below the root")
}
