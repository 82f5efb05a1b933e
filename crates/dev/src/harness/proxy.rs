//! A TCP proxy to the API server whose connections a test can break. It forwards bytes unchanged, including
//! TLS. It may also act as an HTTP proxy that opens a tunnel to the API server for any requested name.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The proxy. Dropping it stops it.
pub struct Proxy {
    address: SocketAddr,
    cuts: watch::Sender<u64>,
    tunnels: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

/// The maximum size of the head of a CONNECT request.
const HEAD_MAX: usize = 4_096;

impl Proxy {
    /// Starts a proxy to a port of this machine.
    pub async fn to(port: u16) -> Result<Self> {
        Self::of(port, false).await
    }

    /// Starts an HTTP proxy whose tunnels lead to that port only.
    pub async fn tunnel_to(port: u16) -> Result<Self> {
        Self::of(port, true).await
    }

    async fn of(port: u16, is_tunnel: bool) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("cannot listen")?;
        let address = listener.local_addr()?;
        let (cuts, cut) = watch::channel(0);
        let tunnels = Arc::new(AtomicUsize::new(0));
        let opened = Arc::clone(&tunnels);
        let accepting = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (cut, opened) = (cut.clone(), Arc::clone(&opened));
                tokio::spawn(async move {
                    if is_tunnel {
                        if open(&mut near).await.is_none() {
                            return;
                        }
                        opened.fetch_add(1, Ordering::Relaxed);
                    }
                    pass_on(near, port, cut).await;
                });
            }
        });
        Ok(Self { address, cuts, tunnels, accepting })
    }

    /// Returns its URL as an HTTP proxy.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the number of opened tunnels.
    pub fn tunnels(&self) -> usize {
        self.tunnels.load(Ordering::Relaxed)
    }

    /// Returns its URL as an API server.
    pub fn server(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Breaks all current connections. New ones are accepted.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Answers a CONNECT request. Returns `None` for other requests.
async fn open(near: &mut TcpStream) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_MAX {
        head.push(near.read_u8().await.ok()?);
    }
    let wants_tunnel = head.starts_with(b"CONNECT ");
    let answer: &[u8] = if wants_tunnel { b"HTTP/1.1 200 OK\r\n\r\n" } else { b"HTTP/1.1 405 No\r\n\r\n" };
    near.write_all(answer).await.ok()?;
    wants_tunnel.then_some(())
}

async fn pass_on(mut near: TcpStream, port: u16, mut cut: watch::Receiver<u64>) {
    cut.mark_unchanged();
    let Ok(mut far) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    tokio::select! {
        // In each case, both sides see a broken connection.
        _ = copy_bidirectional(&mut near, &mut far) => {}
        _ = cut.changed() => {}
    }
}
