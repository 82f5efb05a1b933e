//! The objects of a cluster as decisions read them, the ids of their texts, and the engine's inputs and outputs.

pub mod device;
pub mod effect;
pub mod emulation;
pub mod event;
pub mod extender;
pub mod group;
pub mod group_options;
pub mod intern;
pub mod lookup_objects;
pub mod node;
pub mod node_pod;
pub mod node_set;
pub mod pod;
pub mod quantity;

pub mod resources;
pub mod rng;
pub mod selector;
pub mod signature;
pub mod time;
pub mod version;
pub mod volume;
