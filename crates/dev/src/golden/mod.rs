//! Recorded decisions of kube-scheduler: their format, and the world in which supercargo decides about the same objects.

pub mod compare;
pub mod world;
