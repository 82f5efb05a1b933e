//! A cluster without an API server: reads objects, completes them, decides about pods, and explains the decisions. It
//! has no client and no runtime.

pub mod cluster;
pub mod explain;
pub mod load;
pub mod pending;
pub mod plan;
pub mod prepare;
pub mod recording;
pub mod server;
pub mod shadow_report;
pub mod simulate;
