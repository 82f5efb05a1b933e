//! The in-tree plugins, one file or folder each under its upstream name.
//!
//! A plugin knows the vocabulary, the traits of `framework` and a [`crate::cache::Snapshot`]; never another plugin.

pub mod dynamic_resources;
pub mod gang_scheduling;
pub mod image_locality;
pub mod inter_pod_affinity;
pub mod node_affinity;
pub mod node_declared_features;
pub mod node_name;
pub mod node_ports;
pub mod node_resources;
pub mod node_unschedulable;
pub mod node_volume_limits;
pub mod normalize;
pub mod pod_group_pods_count;
pub mod pod_topology_spread;
pub mod scheduling_gates;
pub mod shape;
pub mod taint_toleration;
pub mod topology_placement;
pub mod volume_binding;
pub mod volume_restrictions;
pub mod volume_zone;
