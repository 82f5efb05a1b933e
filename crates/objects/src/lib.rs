//! API objects: lean types decoded from JSON and protobuf, and their conversion to the engine's types. No I/O.

pub mod api;
pub mod convert;
pub mod input_text;
