//! The engine of supercargo: `f(seed, sequence of (now, Event)) -> Effects`.
//!
//! It has one dependency, which brings nothing but wide registers, reads no clock, starts no threads and does no I/O. Text becomes ids in [`intern`] as objects
//! come in; a decision works on ids and numbers; text comes back only for messages. See ARCHITECTURE.md.

pub mod cache;
pub mod cycle;
pub mod effect;
pub mod event;
pub mod explain;
pub mod extender;
pub mod framework;
pub mod hash;
mod index;
pub mod intern;
mod list;
pub mod ln;
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
pub mod slice;
pub mod time;
mod uniques;
pub mod version;
pub mod volume;
mod wide;
