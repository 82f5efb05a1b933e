//! Real control planes for the tests, the demo and a person at a terminal: etcd, kube-apiserver and what belongs to them,
//! started from the pinned binaries on free loopback ports, and always stopped again.
//!
//! A test says `let plane = support::shared().await;` for the one control plane of its binary, takes a namespace of its own
//! with [`objects::create_namespace`], and waits on conditions with [`wait::wait_for`]. A test of faults starts one for itself
//! with [`ControlPlane::builder`]. Identities are [`Access`] values: a kubeconfig file, a client and kubectl.
//!
//! It knows nothing of the scheduler under test (that is one more [`Program`] to launch), and it runs on Linux only: whether
//! a process is still the one that was started is read from `/proc`.
#![allow(dead_code, unused_imports, reason = "every target that includes this tree uses its own part of it")]

pub(crate) mod access;
pub(crate) mod binaries;
pub(crate) mod component;
pub(crate) mod guard;
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
