//! A DNS resolver for connections. It resolves host names as Go programs do: from `/etc/hosts` and with the
//! servers in `/etc/resolv.conf`.
//!
//! The C library's resolver loads shared libraries at run time, which an empty image with a static binary
//! lacks. All builds use this resolver instead. It rereads both files for every name and caches nothing:
//! connections live long, and a new one must see the current state.

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

/// Resolves host names for new connections.
#[derive(Clone, Debug)]
pub struct Resolver {
    hosts: PathBuf,
    settings: PathBuf,
    port: u16,
}

impl Default for Resolver {
    /// Uses the files of this machine.
    fn default() -> Self {
        Self { hosts: "/etc/hosts".into(), settings: "/etc/resolv.conf".into(), port: 53 }
    }
}

impl Resolver {
    /// Returns the addresses of a name, IPv4 first.
    ///
    /// # Errors
    /// Fails if the name does not exist or no server answers. The message contains the name.
    pub async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let failed =
            |error: &dyn std::fmt::Display| io::Error::other(format!("cannot resolve {name}: {error}"));
        let mut hosts = Hosts::default();
        hosts.read_hosts_conf(read(&self.hosts).await.as_slice()).map_err(|error| failed(&error))?;
        // An entry in the hosts file has precedence over DNS.
        let known = written_down(&hosts, name);
        if !known.is_empty() {
            return Ok(known);
        }
        match self.resolver().await.map_err(|error| failed(&error))?.lookup_ip(name).await {
            Ok(found) => Ok(four_first(found.iter().collect())),
            Err(error) if error.is_no_records_found() => {
                Err(io::Error::new(io::ErrorKind::NotFound, format!("host {name} not found")))
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

/// Returns the addresses of a name in the hosts file.
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

/// Parses resolv.conf. If it names no server, a server on this machine is asked, as other resolvers do.
fn settings(file: &[u8]) -> (ResolverConfig, ResolverOpts) {
    system_conf::parse_resolv_conf(file).unwrap_or_else(|_| {
        let local = NameServerConfig::udp_and_tcp(Ipv4Addr::LOCALHOST.into());
        (ResolverConfig::from_parts(None, Vec::new(), vec![local]), ResolverOpts::default())
    })
}

/// Returns the content of a file; empty if it does not exist.
async fn read(path: &Path) -> Vec<u8> {
    tokio::fs::read(path).await.unwrap_or_default()
}

/// Resolver interface of hyper's connector. The port is 0: the connector sets it.
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
