//! Switches of tests and benchmarks; the program is built without their features.

pub mod ablation;
pub mod mutation;
