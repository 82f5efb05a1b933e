//! Recorded decisions of kube-scheduler, and the world in which supercargo decides about the same objects.

pub mod changes;
pub mod compare;
mod group_changes;
pub mod groups;
pub mod world;
