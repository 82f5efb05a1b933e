//! Reads YAML and JSON strictly: unknown and duplicate fields are problems, each with its position and a suggestion.

pub(crate) mod decode;
pub(crate) mod document;
pub(crate) mod field;
pub mod file;
mod nearest;
mod scalar;

pub use decode::decode;
pub use document::{Document, Entry, Node, NodeId, Value};
pub use field::{Place, Problem};
pub use nearest::nearest;
