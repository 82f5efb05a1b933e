//! Tests against a real API server, for everything that a simulated one could get wrong. All tests share a control
//! plane, each with its own namespace. A test that breaks components starts its own control plane.
//!
//! They need the pinned binaries, which `make upstream` builds.

use supercargo_dev::harness;

use supercargo_dev::cluster_state;

mod audited;
mod bad_input;
mod chaos;
mod claims;
mod control_plane;
mod doctor;
mod drop_in;
mod encoding;
mod examples;
mod explain;
mod extenders;
mod families;
mod fleet;
mod groups;
mod hostile;
mod leading;
mod leftovers;
mod logging;
mod packages;
mod pages;
mod path;
mod plan;
mod preemption;
mod proxied;
mod queue;
mod record;
mod relabel;
mod reload;
mod restart;
mod rights;
mod serving;
mod shadow;
mod status;
mod takeover;
mod two_schedulers;
mod versions;
mod volumes;
mod whatif;
mod world;
