//! Anonymous hostile clients, all at once and from the probes' address: probes must still be answered, and
//! the log must stay short.
//!
//! The server runs on a thread of its own, whose log lines are counted; the clients run on another.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use supercargo::serve::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::server::{HANG, Running, connect, frame, trusting};

/// Number of probes of each path.
const PROBES: usize = 100;

/// Connections each kind of attack holds open. Together they exceed the server's limit for either group.
const HELD: usize = 70;

/// How long an attacker waits for a server that does not read.
const STUCK: Duration = Duration::from_millis(200);

/// Log lines written by one thread.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs a future on a new thread.
fn apart<F: Future<Output = ()>>(name: &str, future: impl FnOnce() -> F + Send + 'static) -> JoinHandle<()> {
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(future());
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(run).unwrap()
}

/// Starts a server that logs to `lines`; returns its address and a function that stops it.
async fn server(lines: Lines) -> (SocketAddr, impl FnOnce()) {
    let (sender, receiver) = oneshot::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        let log = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .with_writer(move || lines.clone())
            .finish();
        tracing::subscriber::with_default(log, || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut server = Running::usual().await;
                sender.send(server.address).unwrap();
                let _ = stopped.await;
                server.stop();
                server.ended().await;
            });
        });
    });
    let end = move || {
        drop(stop);
        thread.join().unwrap();
    };
    (receiver.await.unwrap(), end)
}

/// A hostile client.
#[derive(Clone)]
struct Attacker {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    /// Number of connections made.
    made: Arc<AtomicU64>,
}

impl Attacker {
    /// Repeats the attack until the test is over. Keeps up to [`HELD`] of the attack's connections open.
    async fn repeat<T, F>(self, attack: impl Fn(SocketAddr) -> F)
    where
        F: Future<Output = io::Result<T>>,
    {
        let mut held = VecDeque::new();
        while !self.is_over.load(Ordering::Relaxed) {
            // Connections closed by the server are expected.
            if let Ok(left) = attack(self.address).await {
                held.push_back(left);
            }
            self.made.fetch_add(1, Ordering::Relaxed);
            if held.len() > HELD {
                held.pop_front();
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Returns the first bytes of a TLS client.
fn client_hello() -> Vec<u8> {
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(trusting(&[b"http/1.1"]), name).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    hello
}

/// Sends `bytes` and leaves the connection open.
async fn half_open(address: SocketAddr, bytes: &[u8]) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(bytes).await?;
    Ok(stream)
}

/// Sends garbage and waits for the server to close the connection.
async fn garbage(address: SocketAddr) -> io::Result<()> {
    let mut stream = half_open(address, b"\x16\x03\x01\xff\xff this is no handshake at all").await?;
    stream.shutdown().await?;
    let mut rest = Vec::new();
    let _ = timeout(STUCK, stream.read_to_end(&mut rest)).await;
    Ok(())
}

type Tls = tokio_rustls::client::TlsStream<TcpStream>;

/// Sends text after a handshake and reads some of the response.
async fn say(address: SocketAddr, text: &str) -> io::Result<Tls> {
    let mut stream = connect(address, trusting(&[b"http/1.1"])).await?;
    stream.write_all(text.as_bytes()).await?;
    let mut some = [0; 64];
    let _ = timeout(STUCK, stream.read(&mut some)).await;
    Ok(stream)
}

/// Sends HTTP/2 frames after a handshake, as long as the server reads them.
async fn frames(address: SocketAddr, frames: &[u8]) -> io::Result<Tls> {
    let mut stream = connect(address, trusting(&[b"h2"])).await?;
    let start = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat();
    stream.write_all(&start).await?;
    let _ = timeout(STUCK, stream.write_all(frames)).await;
    Ok(stream)
}

/// HPACK fields of `GET /livez`.
const GET: [u8; 12] = *b"\x82\x87\x04\x06/livez\x01\x00";
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// 500 requests, each cancelled immediately.
fn rapid_resets() -> Vec<u8> {
    let request = |at: u32| {
        let stream = 2 * at + 1;
        [frame(HEADERS, END_STREAM | END_HEADERS, stream, &GET), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])]
            .concat()
    };
    (0..500).flat_map(request).collect()
}

/// 500 concurrent requests.
fn many_streams() -> Vec<u8> {
    (0..500).flat_map(|at| frame(HEADERS, END_STREAM | END_HEADERS, 2 * at + 1, &GET)).collect()
}

/// An endless header block.
fn endless_fields() -> Vec<u8> {
    let mut frames = frame(HEADERS, END_STREAM, 1, &GET);
    // A literal field of 100 bytes, without indexing.
    let field = [&[0x00, 1, b'a', 100][..], &[b'a'; 100]].concat();
    for _ in 0..200 {
        frames.extend(frame(CONTINUATION, 0, 1, &field.repeat(40)));
    }
    frames
}

/// Runs every attack an anonymous client can make, concurrently.
async fn attack(attacker: Attacker) {
    let hello = client_hello();
    let (part, whole) = (hello[..hello.len() / 2].to_vec(), hello);
    let (resets, streams, fields) = (rapid_resets(), many_streams(), endless_fields());
    let one = || attacker.clone();
    let get = |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n");
    let (live, huge) = (get("/livez", ""), get("/livez", &format!("A: {}\r\n", "a".repeat(200_000))));
    let guess = |at: u64| get("/metrics", &format!("Authorization: Bearer guess-{at}\r\n"));
    let made = attacker.made.clone();
    // Connections that are closed at once outnumber all others.
    let churn = async || {
        one().repeat(async |address| TcpStream::connect(address).await.map(drop)).await;
    };
    tokio::join!(
        churn(),
        churn(),
        churn(),
        one().repeat(async |address| half_open(address, b"").await),
        one().repeat(async |address| half_open(address, &part).await),
        one().repeat(async |address| half_open(address, &whole).await),
        one().repeat(garbage),
        one().repeat(async |address| say(address, "").await),
        one().repeat(async |address| say(address, "GET /livez HTTP/1.1\r\nHost: ").await),
        one().repeat(async |address| say(address, &live).await),
        one().repeat(async |address| say(address, &huge).await),
        one().repeat(async |address| say(address, &guess(made.load(Ordering::Relaxed))).await),
        one().repeat(async |address| frames(address, &resets).await),
        one().repeat(async |address| frames(address, &streams).await),
        one().repeat(async |address| frames(address, &fields).await),
    );
}

/// Probes like the kubelet: a new connection, one request, its response.
async fn probe(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = connect(address, trusting(&[b"http/1.1"])).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn hostile_clients_neither_starve_probes_nor_flood_the_log() {
    // Both ends of every connection are in this process.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let lines = Lines::default();
    let (address, end) = server(lines.clone()).await;
    let (is_over, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let attacker = Attacker { address, is_over: is_over.clone(), made: made.clone() };
    let attackers = apart("attackers", || attack(attacker));
    timeout(HANG, async {
        // Fill both groups before the first probe.
        while made.load(Ordering::Relaxed) < 10 * Limits::default().connections as u64 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("attackers connect");

    let mut unanswered = Vec::new();
    for path in ["/livez", "/readyz"].repeat(PROBES) {
        match timeout(HANG, probe(address, path)).await {
            Ok(Ok(answer)) if answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\nok") => {}
            other => unanswered.push(format!("{path}: {other:?}")),
        }
    }
    is_over.store(true, Ordering::Relaxed);
    attackers.join().unwrap();
    end();
    let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let ours: Vec<&str> = log.lines().filter(|line| line.contains("supercargo")).collect();
    let count = unanswered.len();
    let some: Vec<&String> = unanswered.iter().take(5).collect();
    let made = made.load(Ordering::Relaxed);
    assert_eq!(count, 0, "of {} probes beside {made} connections: {some:#?}", 2 * PROBES);
    // A log line that clients can cause is written at most once a minute.
    assert!(ours.len() <= 10, "{} lines, beside {made} connections:\n{}", ours.len(), ours.join("\n"));
    println!("{made} connections, {} lines", ours.len());
}
