//! The engine of supercargo: a deterministic function `f(seed, sequence of (now, Event)) -> Effects`.
//!
//! It reads no clock, starts no threads and does no I/O. Its only dependency provides SIMD registers.
//! [`intern`] maps text to ids when objects arrive. Decisions use ids and numbers; only messages are text.
//! See ARCHITECTURE.md.

pub mod ablation;
pub mod cache;
pub mod cycle;
pub mod effect;
pub mod event;
pub mod explain;
pub mod extender;
pub mod framework;
pub mod go_log;
pub mod hash;
pub mod incremental;
mod index;
pub mod intern;
mod list;
pub mod mutation;
pub mod node;
pub mod node_set;
pub mod plugins;
pub mod pod;
pub mod preemption;
pub mod queue;
pub mod report;
pub mod resources;
pub mod rng;
pub mod scheduler;
pub mod selector;
pub mod shadow;
pub mod shared;
pub mod signature;
mod simd;
pub mod slice;
pub mod time;
mod uniques;
pub mod version;
pub mod volume;
