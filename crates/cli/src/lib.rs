//! The commands that a person or a script runs: reports, simulations and checks. None of them schedules a cluster.
//!
//! [`commands`] has a module for each command; `cluster` reads the cluster they work on, from files or through `live`.

pub mod cluster;
pub mod commands;
pub mod emulation;
pub mod live;
mod names;
mod progress;
pub mod screen;
mod signals;
mod template;
pub mod watching;
