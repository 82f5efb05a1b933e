//! Decides about pods of a cluster without an API server.

pub mod decide;
pub mod decision;
pub mod gates;
pub mod objects;
pub mod profiles;
pub mod run;
