//! Reads YAML, and JSON as YAML, with positions. All crates read YAML here; `serde_saphyr` itself only writes it.
//!
//! Configurations are read strictly: unknown and duplicate fields are problems, each with its position and a
//! suggestion. Objects are read as kubectl reads them.

pub(crate) mod decode;
pub(crate) mod document;
pub(crate) mod field;
pub mod file;
mod nearest;
mod reader;
mod scalar;

pub use decode::decode;
pub use document::{Document, Entry, Located, Node, NodeId, Value, values};
pub use field::{Place, Problem};
pub use nearest::nearest;
