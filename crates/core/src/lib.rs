//! The engine of supercargo: a deterministic function `f(seed, sequence of (now, Event)) -> Effects`.
//!
//! It reads no clock, starts no threads and does no I/O. Its only dependency provides SIMD registers.
//! [`model::intern`] maps text to ids when objects arrive. Decisions use ids and numbers; only messages are text.
//! See ARCHITECTURE.md.

pub mod cache;
pub mod collections;
pub mod compare;
pub mod cycle;
pub mod explain;
pub mod framework;
pub mod incremental;
pub mod model;
pub mod plugins;
pub mod preemption;
pub mod queue;
pub mod registry;
pub mod report;
pub mod scheduler;
pub mod shadow;
pub mod switches;
