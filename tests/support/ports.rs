//! Free loopback ports that stay ours while a component is down, so that it can come back on the same one.
//!
//! They lie below the range from which the kernel takes the local ports of outgoing connections; otherwise any client could take
//! the port of a component that is being restarted. Control planes of several test binaries keep out of each other's way by an
//! abstract Unix socket per port, which ends with the process that holds it and leaves no file.

use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

/// Linux hands out local ports from 32768 on by default.
const FIRST: u16 = 21_000;
const LAST: u16 = 32_000;

/// A port on 127.0.0.1 that no other control plane of this machine takes while this value lives.
pub(crate) struct Port {
    number: u16,
    _claim: UnixListener,
}

impl Port {
    /// Takes a free port.
    pub(crate) fn reserve() -> Result<Self> {
        let count = LAST - FIRST;
        let offset = somewhere(count);
        (0..count)
            .map(|step| FIRST + (offset + step) % count)
            .find_map(Self::claim)
            .with_context(|| format!("no port between {FIRST} and {LAST} is free on 127.0.0.1"))
    }

    /// The number.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    fn claim(number: u16) -> Option<Self> {
        let name = SocketAddr::from_abstract_name(format!("supercargo-port-{number}")).ok()?;
        let claim = UnixListener::bind_addr(&name).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Self { number, _claim: claim })
    }
}

/// Any number below `count`: where it starts only decides how many ports are tried.
fn somewhere(count: u16) -> u16 {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    let mixed = nanos.wrapping_mul(2_654_435_761).wrapping_add(std::process::id().wrapping_mul(40_503));
    u16::try_from(mixed % u32::from(count)).expect("a remainder of a u16 is a u16")
}
