//! Reads objects from files of YAML and JSON, strictly and with the position of each error.

pub mod files;
pub mod input;
mod json_stream;
pub mod owner;
mod packed;
mod position;
mod schema;
mod stream;
mod unique;
