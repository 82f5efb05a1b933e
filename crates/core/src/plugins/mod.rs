//! The in-tree plugins, one file or folder each under its upstream name.
//!
//! A plugin knows the vocabulary, the traits of `framework` and a [`crate::cache::Snapshot`]; never another plugin.
