//! Names of hosts, resolved here as Go programs do it: by `/etc/hosts`, and by the servers of `/etc/resolv.conf`.
//!
//! The C library's way loads further libraries at run time, which a static binary in an empty image has not. So there is one way
//! for all builds. Answers are not kept: a connection lasts long, and a new one is to see what is true by then.

mod files;
mod message;

use files::Settings;
use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;
use tower::Service;

use hyper_util::client::legacy::connect::dns::Name;
use message::{Answer, Kind};

/// The largest answer that comes by UDP, as the questions say.
const UDP_BYTES: usize = 1_232;

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
        if let Ok(address) = name.parse() {
            return Ok(vec![address]);
        }
        // Read anew each time: they are short, and a pod's may change under it.
        let known = files::hosts(&read(&self.hosts).await, name);
        if !known.is_empty() {
            return Ok(known);
        }
        let settings = Settings::read(&read(&self.settings).await);
        let mut failure = None;
        for candidate in settings.candidates(name) {
            match self.ask_all(&settings, &candidate).await {
                Ok(addresses) if !addresses.is_empty() => return Ok(addresses),
                Ok(_) => {}
                Err(error) => failure = Some(error),
            }
        }
        Err(match failure {
            Some(error) => io::Error::new(error.kind(), format!("cannot resolve {name}: {error}")),
            None => io::Error::new(io::ErrorKind::NotFound, format!("there is no host {name}")),
        })
    }

    /// Both kinds of addresses of one name, in full.
    async fn ask_all(&self, settings: &Settings, name: &str) -> io::Result<Vec<IpAddr>> {
        let (four, six) =
            tokio::join!(self.ask(settings, name, Kind::Four), self.ask(settings, name, Kind::Six));
        match (four, six) {
            (Ok(mut four), six) => {
                four.extend(six.unwrap_or_default());
                Ok(four)
            }
            (Err(_), Ok(six)) if !six.is_empty() => Ok(six),
            (Err(error), _) => Err(error),
        }
    }

    async fn ask(&self, settings: &Settings, name: &str, kind: Kind) -> io::Result<Vec<IpAddr>> {
        let mut failure = io::Error::new(io::ErrorKind::InvalidInput, "it is no name of a host");
        let Some(question) = message::question(number(name, kind), name, kind) else { return Err(failure) };
        for server in (0..settings.attempts).flat_map(|_| &settings.servers) {
            let server = SocketAddr::new(*server, self.port);
            let answer = timeout(settings.timeout, exchange(server, &question)).await;
            match answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(Answer::Addresses(addresses)) => return Ok(addresses),
                Ok(Answer::Failed) => failure = io::Error::other(format!("{server} cannot tell")),
                Ok(Answer::Truncated) => failure = io::Error::other(format!("{server} answers in part")),
                Err(error) => failure = io::Error::new(error.kind(), format!("{server}: {error}")),
            }
        }
        Err(failure)
    }
}

/// A number nobody can guess: an answer has to bear it.
fn number(name: &str, kind: Kind) -> u16 {
    // Seeded anew for each state, by the system.
    (RandomState::new().hash_one((name, kind)) >> 48) as u16
}

async fn read(path: &PathBuf) -> String {
    // One that is not there says nothing.
    let bytes = tokio::fs::read(path).await.unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn exchange(server: SocketAddr, question: &[u8]) -> io::Result<Answer> {
    let any: SocketAddr = if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut bytes = vec![0; UDP_BYTES];
    loop {
        let length = socket.recv(&mut bytes).await?;
        // What answers another question was sent by somebody else.
        match message::answer(question, &bytes[..length]) {
            Some(Answer::Truncated) => return exchange_in_full(server, question).await,
            Some(answer) => return Ok(answer),
            None => {}
        }
    }
}

async fn exchange_in_full(server: SocketAddr, question: &[u8]) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    stream.write_all(&[&length.to_be_bytes(), question].concat()).await?;
    let length = stream.read_u16().await?;
    let mut bytes = vec![0; usize::from(length)];
    stream.read_exact(&mut bytes).await?;
    message::answer(question, &bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
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

/// How long a server has for an answer, and how often all are asked, where nothing else is said.
const TIMEOUT: Duration = Duration::from_secs(5);
const ATTEMPTS: usize = 2;

#[cfg(test)]
mod tests;
