//! Prepares read objects for decisions: sorts them, applies updates, creates the pods of workloads, and sets the
//! defaults that an API server would set.

mod compare;
mod complete;
pub mod expand;
pub mod identity;
pub mod inventory;
mod job;
pub mod owners;
pub mod scale;
pub mod update;
