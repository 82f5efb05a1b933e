//! Real control planes for tests, the demo and interactive use: etcd, kube-apiserver and other components, started
//! from pinned binaries on free loopback ports and always stopped.
//!
//! A test calls `harness::shared().await` for the control plane shared by its binary, creates a namespace with
//! [`objects::create_namespace`], and waits for conditions with [`wait::wait_for`]. A fault test starts its own
//! control plane with [`ControlPlane::builder`]. [`Access`] is an identity: a kubeconfig file, a client and kubectl.
//!
//! The scheduler under test is just another [`Program`]. Linux only: process identity is checked through `/proc`.
pub mod access;
pub mod binaries;
pub mod component;
pub mod groups;
pub mod guard;
pub mod hostile;
pub mod http;
pub mod nodes;
pub mod objects;
pub mod pki;
pub mod plane;
pub mod ports;
pub mod process;
pub mod proxy;
pub mod steps;
pub mod supercargo;
pub mod wait;

pub use access::Access;
pub use component::Component;
pub use nodes::KwokNode;
pub use plane::{ControlPlane, shared};
pub use process::{Process, Program};
pub use wait::wait_for;
