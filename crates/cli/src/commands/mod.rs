//! The commands, one module each.

pub mod cel;
pub mod completion;
pub mod config;
pub mod doctor;
pub mod drain_check;
pub mod explain;
pub mod fit;
pub mod lint;
pub mod man;
pub mod placement;
pub mod plan;
pub mod queue;
pub mod replay;
pub mod report;
pub mod shadow;
pub mod simulate;
pub mod top;
