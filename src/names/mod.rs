//! Names of hosts, resolved as Go programs do it: by `/etc/hosts`, and by the servers of `/etc/resolv.conf`.
//!
//! The C library's way loads further libraries at run time, which a static binary in an empty image has not. So there is one way
//! for all builds. Both files are read anew for each name, and answers are not kept: a connection lasts long, and a new one
//! is to see what is true by then.

use hickory_resolver::config::{
    LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{self as dns, RecordType};
use hickory_resolver::{Hosts, TokioResolver, system_conf};
use hyper_util::client::legacy::connect::dns::Name;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use tower::Service;

/// Resolves names for connections.
#[derive(Clone, Debug)]
pub struct Resolver {
    hosts: PathBuf,
    settings: PathBuf,
    port: u16,
}

impl Default for Resolver {
    /// By the files of this machine.
    fn default() -> Self {
        Self { hosts: "/etc/hosts".into(), settings: "/etc/resolv.conf".into(), port: 53 }
    }
}

impl Resolver {
    /// The addresses of a name, those of IPv4 first.
    ///
    /// # Errors
    /// When nobody knows it, or nobody answers; with the name.
    pub async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let failed =
            |error: &dyn std::fmt::Display| io::Error::other(format!("cannot resolve {name}: {error}"));
        let mut hosts = Hosts::default();
        hosts.read_hosts_conf(read(&self.hosts).await.as_slice()).map_err(|error| failed(&error))?;
        // What the machine itself knows of a name is all there is to it.
        let known = written_down(&hosts, name);
        if !known.is_empty() {
            return Ok(known);
        }
        match self.resolver().await.map_err(|error| failed(&error))?.lookup_ip(name).await {
            Ok(found) => Ok(four_first(found.iter().collect())),
            Err(error) if error.is_no_records_found() => {
                Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no host {name}")))
            }
            Err(error) => Err(failed(&error)),
        }
    }

    async fn resolver(&self) -> Result<TokioResolver, NetError> {
        let (mut config, mut options) = settings(&read(&self.settings).await);
        for server in &mut config.name_servers {
            server.connections.iter_mut().for_each(|connection| connection.port = self.port);
        }
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        options.use_hosts_file = ResolveHosts::Never;
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        builder.with_options(options).build()
    }
}

/// The addresses that the file of hosts has of a name.
fn written_down(hosts: &Hosts, name: &str) -> Vec<IpAddr> {
    let Ok(name) = dns::Name::from_utf8(name) else { return Vec::new() };
    let of = |kind| hosts.lookup_static_host(&Query::query(name.clone(), kind));
    let known = [RecordType::A, RecordType::AAAA].into_iter().filter_map(of);
    known
        .flat_map(|of| of.answers().iter().filter_map(|record| record.data.ip_addr()).collect::<Vec<_>>())
        .collect()
}

fn four_first(mut addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    addresses.sort_by_key(IpAddr::is_ipv6);
    addresses
}

/// What the file says; where it names no server, one of this machine is asked, as elsewhere.
fn settings(file: &[u8]) -> (ResolverConfig, ResolverOpts) {
    system_conf::parse_resolv_conf(file).unwrap_or_else(|_| {
        let local = NameServerConfig::udp_and_tcp(Ipv4Addr::LOCALHOST.into());
        (ResolverConfig::from_parts(None, Vec::new(), vec![local]), ResolverOpts::default())
    })
}

/// A file that is not there says nothing.
async fn read(path: &Path) -> Vec<u8> {
    tokio::fs::read(path).await.unwrap_or_default()
}

/// What a connection is made with: the port is put in by who makes it.
impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolver = self.clone();
        Box::pin(async move {
            let addresses = resolver.resolve(name.as_str()).await?;
            Ok(addresses.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect::<Vec<_>>().into_iter())
        })
    }
}

#[cfg(test)]
mod tests;
