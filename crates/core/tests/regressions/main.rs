//! Regression tests for bugs of other schedulers, one each.
//!
//! Each scenario passes here. With the feature `mutations`, it must fail with the deliberate mistake that it was
//! written for.
//!
//! Elsewhere: B16 and B26 (memory and stalls over long churn) are in `make soak`. B23 (sidecars counted as a maximum)
//! is `sidecars_add_to_later_init_containers_and_main_sum` in `crates/objects/src/convert`, which has the objects.
//! B18 (a hung process that keeps its lease), B19 (two leaders after a pause) and B22 (missing permissions) concern
//! the process and its lease; they are in `src/lease` and `tests/apiserver/{leading,rights}.rs`.
//!
//! Open: B14 requires Dynamic Resource Allocation.

#[path = "../support/mod.rs"]
mod support;

mod bindings;
mod harness;
mod nodes;
mod objects;
mod preemption;
mod requeueing;

use harness::{Harness, check_scenario};
