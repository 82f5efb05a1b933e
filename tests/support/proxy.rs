//! A way to the API server that can be cut: TCP connections are passed on as they are, TLS and all, until somebody cuts them.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The way. Dropping it cuts it for good.
pub(crate) struct Proxy {
    address: SocketAddr,
    cuts: watch::Sender<u64>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// A way to the port of this machine.
    pub(crate) async fn to(port: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("cannot listen")?;
        let address = listener.local_addr()?;
        let (cuts, cut) = watch::channel(0);
        let accepting = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(pass_on(near, port, cut.clone()));
            }
        });
        Ok(Self { address, cuts, accepting })
    }

    /// Where it begins, as a URL of the API server.
    pub(crate) fn server(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Breaks all connections there are. New ones are let through.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass_on(mut near: TcpStream, port: u16, mut cut: watch::Receiver<u64>) {
    cut.mark_unchanged();
    let Ok(mut far) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    tokio::select! {
        // However it ends, both sides see a broken connection.
        _ = copy_bidirectional(&mut near, &mut far) => {}
        _ = cut.changed() => {}
    }
}
