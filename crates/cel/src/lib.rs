//! The Common Expression Language (CEL) with the Kubernetes libraries, for device selectors. The README is
//! its documentation.

#![doc = include_str!("../README.md")]

mod check;
mod device;
mod error;
mod estimate;
mod library;
mod parse;
mod program;
mod types;
mod value;

pub use device::{Attribute, Device, DeviceBuilder};
pub use error::{CompileError, Error};
pub use library::formats::Format;
#[doc(hidden)]
pub use program::compile_any;
pub use program::{COST_MAX, Evaluation, Parts, Program, Reads, compile};
pub use types::Type;
pub use value::{Cidr, List, Map, Quantity, Timestamp, Url, Value, Version};

/// Runs a recursive step. Allocates 2 MiB more stack if less than 128 KiB remain: expressions and values may
/// be nested several thousand levels deep.
pub(crate) fn deep<T>(step: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(128 << 10, 2 << 20, step)
}
