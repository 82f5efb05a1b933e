//! Upgrades under load, which need binaries of another version: the API server from 1.36 to 1.37, and supercargo itself
//! from and to the previous release.
//!
//! Part of `make release-check`, which builds these binaries first.

use supercargo_dev::harness;

#[allow(dead_code, reason = "the API server tests use the rest")]
#[path = "../apiserver/fleet.rs"]
mod fleet;
#[allow(dead_code, reason = "the API server tests use the rest")]
#[path = "../apiserver/world.rs"]
mod world;

mod api_server;
mod previous;
