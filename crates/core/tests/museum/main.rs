//! The bug museum: what once broke other schedulers, one named test each. A scenario holds here, and, where the feature
//! `mutations` is on, does not with the mistake it was written for.
//!
//! Beside these: B16 and B26 (memory and stalls over long churn) are in `make soak`; B23 (sidecars counted as a maximum) is
//! `sidecars_add_to_later_init_containers_and_main_sum` in `src/convert`, which has the objects; B18 (a hung
//! process that keeps its lease), B19 (two leaders after a pause) and B22 (a scheduler without all its rights) are about the process
//! and its lease, and in `src/lease` and `tests/apiserver/{leading,rights}.rs`.
//!
//! Open: B14 waits for dynamic resources.

#[path = "../support/mod.rs"]
mod support;

mod bench;
mod bindings;
mod nodes;
mod objects;
mod preempting;
mod wakes;

use bench::{Bench, exhibit};
