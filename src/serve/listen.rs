//! The listening socket: dual-stack if the address is unspecified, as in kube-scheduler.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nix::errno::Errno;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket};

/// Length of the accept queue, as in the standard library and Tokio.
const BACKLOG: u32 = 1024;

/// Listens on `address`, shared with other processes if `share_port` (SO_REUSEPORT). As in kube-scheduler (Go's
/// `net.favoriteAddrFamily`), an unspecified address (0.0.0.0 or ::) means all addresses of both IP families. If the
/// kernel has no IPv6, it means all IPv4 addresses.
///
/// # Errors
/// Returns the system's error when the address is in use or does not belong to this machine.
pub(super) async fn listen(address: SocketAddr, share_port: bool) -> io::Result<TcpListener> {
    if !address.ip().is_unspecified() {
        return of_one_family(address, share_port);
    }
    match of_both_families(address.port(), share_port) {
        Err(error) if is_without_ipv6(&error) => {
            of_one_family((IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port()).into(), share_port)
        }
        outcome => outcome,
    }
}

/// Whether the error means that the kernel has no IPv6 support or no IPv6 address.
fn is_without_ipv6(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL))
}

fn of_one_family(address: SocketAddr, share_port: bool) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    bind(socket, address, share_port)
}

fn of_both_families(port: u16, share_port: bool) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v6()?;
    // The default depends on `net.ipv6.bindv6only`.
    SockRef::from(&socket).set_only_v6(false)?;
    bind(socket, (IpAddr::V6(Ipv6Addr::UNSPECIFIED), port).into(), share_port)
}

fn bind(socket: TcpSocket, address: SocketAddr, share_port: bool) -> io::Result<TcpListener> {
    // Allows a restart while connections of the previous process linger.
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(share_port)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpStream;

    async fn answers(listener: &TcpListener, address: &str) -> bool {
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((address.parse::<IpAddr>().unwrap(), port)).await.is_ok()
    }

    #[tokio::test]
    async fn unspecified_address_serves_both_families() {
        for address in ["0.0.0.0:0", "[::]:0"] {
            let listener = listen(address.parse().unwrap(), false).await.unwrap();
            assert!(answers(&listener, "127.0.0.1").await, "{address}");
            // A machine without IPv6 serves IPv4 only.
            let has_ipv6 = TcpListener::bind("[::1]:0").await.is_ok();
            assert_eq!(answers(&listener, "::1").await, has_ipv6, "{address}");
        }
    }

    #[tokio::test]
    async fn specific_address_serves_only_itself() {
        let listener = listen("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
        assert!(answers(&listener, "127.0.0.1").await);
        assert!(!answers(&listener, "::1").await);
        let Ok(listener) = listen("[::1]:0".parse().unwrap(), false).await else { return };
        assert!(answers(&listener, "::1").await);
        assert!(!answers(&listener, "127.0.0.1").await);
    }

    #[tokio::test]
    async fn port_is_shared_only_on_request() {
        for (share, shared) in [(true, true), (false, false)] {
            let first = listen("127.0.0.1:0".parse().unwrap(), share).await.unwrap();
            let second = listen(first.local_addr().unwrap(), share).await;
            assert_eq!(second.is_ok(), shared);
        }
    }

    #[test]
    fn only_a_kernel_without_ipv6_falls_back_to_ipv4() {
        let codes = [(Errno::EAFNOSUPPORT, true), (Errno::EADDRNOTAVAIL, true), (Errno::EADDRINUSE, false)];
        for (code, falls_back) in codes {
            assert_eq!(is_without_ipv6(&code.into()), falls_back, "{code}");
        }
    }
}
