//! Commands that a person or a script runs: reports, simulations and checks. None of them schedules a
//! cluster.

mod cluster;
pub mod completion;
pub mod config;
pub mod doctor;
pub mod drain_check;
pub mod explain;
pub mod fit;
pub mod lint;
mod live;
pub mod man;
mod names;
pub mod placement;
pub mod queue;
pub mod record;
pub mod replay;
pub mod report;
mod screen;
pub mod shadow;
pub mod simulate;
