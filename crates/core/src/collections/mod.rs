//! Maps, lists and pools without random order, which know nothing of scheduling.

pub mod hash;
pub(crate) mod index;
pub(crate) mod list;
pub mod shared;
pub mod thin_list;
pub(crate) mod uniques;
