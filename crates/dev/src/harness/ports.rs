//! Free loopback ports that stay reserved while a component is down, so that it can restart on the same port.
//!
//! They are below the kernel's range of ephemeral ports; otherwise any client could take the port of a restarting
//! component. Test binaries avoid each other's ports through one abstract Unix socket per port, which vanishes with
//! its process.

use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

/// Linux allocates ephemeral ports from 32768 by default.
const FIRST: u16 = 21_000;
const LAST: u16 = 32_000;

/// A port on 127.0.0.1 that no other control plane of this machine uses while the value lives.
pub struct Port {
    number: u16,
    _claim: UnixListener,
}

impl Port {
    /// Reserves a free port.
    pub fn reserve() -> Result<Self> {
        let count = LAST - FIRST;
        let offset = somewhere(count);
        (0..count)
            .map(|step| FIRST + (offset + step) % count)
            .find_map(Self::claim)
            .with_context(|| format!("no port between {FIRST} and {LAST} is free on 127.0.0.1"))
    }

    /// Returns the port number.
    pub fn number(&self) -> u16 {
        self.number
    }

    fn claim(number: u16) -> Option<Self> {
        let name = SocketAddr::from_abstract_name(format!("supercargo-port-{number}")).ok()?;
        let claim = UnixListener::bind_addr(&name).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Self { number, _claim: claim })
    }
}

/// Returns an arbitrary number below `count`, to start the search at.
fn somewhere(count: u16) -> u16 {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    let mixed = nanos.wrapping_mul(2_654_435_761).wrapping_add(std::process::id().wrapping_mul(40_503));
    u16::try_from(mixed % u32::from(count)).expect("a remainder of a u16 is a u16")
}
