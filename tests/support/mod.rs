//! Real control planes for tests, the demo and interactive use: etcd, kube-apiserver and other components, started
//! from pinned binaries on free loopback ports and always stopped.
//!
//! A test calls `support::shared().await` for the control plane shared by its binary, creates a namespace with
//! [`objects::create_namespace`], and waits for conditions with [`wait::wait_for`]. A fault test starts its own
//! control plane with [`ControlPlane::builder`]. [`Access`] is an identity: a kubeconfig file, a client and kubectl.
//!
//! The scheduler under test is just another [`Program`]. Linux only: process identity is checked through `/proc`.
#![allow(dead_code, unused_imports, reason = "each target that includes this module uses a part of it")]

pub(crate) mod access;
pub(crate) mod binaries;
pub(crate) mod component;
pub(crate) mod guard;
pub(crate) mod hostile;
pub(crate) mod http;
pub(crate) mod nodes;
pub(crate) mod objects;
pub(crate) mod pki;
pub(crate) mod plane;
pub(crate) mod ports;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod steps;
pub(crate) mod supercargo;
pub(crate) mod wait;

pub(crate) use access::Access;
pub(crate) use component::Component;
pub(crate) use nodes::KwokNode;
pub(crate) use plane::{ControlPlane, shared};
pub(crate) use process::{Process, Program};
pub(crate) use wait::wait_for;
