//! Tests of the resolver with temporary files and a local DNS server.

use super::*;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};

/// Record type of a question: A or AAAA.
#[derive(PartialEq)]
enum Kind {
    Four,
    Six,
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Returns a DNS reply with these addresses. The name is a compression pointer to the question.
fn reply(question: &[u8], records: &[(&str, IpAddr)], flags: u8) -> Vec<u8> {
    let mut bytes = question.to_vec();
    bytes[2] |= 0x80 | flags;
    bytes[7] = u8::try_from(records.len()).unwrap();
    for (_, address) in records {
        bytes.extend([0xc0, 12]);
        let data = match address {
            IpAddr::V4(four) => four.octets().to_vec(),
            IpAddr::V6(six) => six.octets().to_vec(),
        };
        let code = if address.is_ipv4() { 1_u8 } else { 28 };
        bytes.extend([0, code, 0, 1, 0, 0, 0, 60, 0, u8::try_from(data.len()).unwrap()]);
        bytes.extend(data);
    }
    bytes
}

/// Returns the name and the record type of a question.
fn asked(question: &[u8]) -> (String, Kind) {
    let (mut labels, mut at) = (Vec::new(), 12);
    while question[at] != 0 {
        let end = at + 1 + usize::from(question[at]);
        labels.push(String::from_utf8(question[at + 1..end].to_vec()).unwrap());
        at = end;
    }
    (labels.join("."), if question[at + 2] == 1 { Kind::Four } else { Kind::Six })
}

/// A DNS server with fixed records that stores the questions it receives. Names that begin with `large` are
/// truncated over UDP.
struct Zone {
    resolver: Resolver,
    asked: Arc<Mutex<Vec<String>>>,
    _folder: tempfile::TempDir,
}

impl Zone {
    async fn start(settings: &str, known: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings_file = folder.path().join("resolv.conf");
        std::fs::write(&settings_file, format!("nameserver 127.0.0.1\n{settings}")).unwrap();
        // A port that is free for UDP may be in use for TCP.
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            match TcpListener::bind(udp.local_addr().unwrap()).await {
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                tcp => break (udp, tcp.unwrap()),
            }
        };
        let address = udp.local_addr().unwrap();
        let mut names: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
        for (name, address) in known {
            names.entry((*name).to_owned()).or_default().push(ip(address));
        }
        let asked_for = Arc::new(Mutex::new(Vec::new()));
        let (heard, all) = (Arc::clone(&asked_for), names.clone());
        tokio::spawn(async move {
            let mut bytes = [0; 512];
            while let Ok((length, from)) = udp.recv_from(&mut bytes).await {
                let question = &bytes[..length];
                let (name, _) = asked(question);
                heard.lock().unwrap().push(name.clone());
                // A forged reply with a wrong ID comes first and must be ignored.
                let mut forged = reply(question, &[("", ip("6.6.6.6"))], 0);
                forged[1] ^= 0xff;
                let _ = udp.send_to(&forged, from).await;
                let truncated = name.starts_with("large");
                let answer = if truncated { reply(question, &[], 0x02) } else { of_zone(question, &all) };
                let _ = udp.send_to(&answer, from).await;
            }
        });
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = tcp.accept().await {
                let length = stream.read_u16().await.unwrap();
                let mut question = vec![0; usize::from(length)];
                stream.read_exact(&mut question).await.unwrap();
                let answer = of_zone(&question, &names);
                stream.write_u16(u16::try_from(answer.len()).unwrap()).await.unwrap();
                stream.write_all(&answer).await.unwrap();
            }
        });
        let resolver =
            Resolver { hosts: folder.path().join("hosts"), settings: settings_file, port: address.port() };
        Self { resolver, asked: asked_for, _folder: folder }
    }

    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, String> {
        self.resolver.resolve(name).await.map_err(|error| error.to_string())
    }
}

fn of_zone(question: &[u8], names: &BTreeMap<String, Vec<IpAddr>>) -> Vec<u8> {
    let (name, kind) = asked(question);
    if name.starts_with("broken") {
        return reply(question, &[], 0)
            .into_iter()
            .enumerate()
            .map(|(at, byte)| if at == 3 { 2 } else { byte })
            .collect();
    }
    match names.get(&name) {
        Some(all) => {
            let of_kind = all.iter().filter(|address| address.is_ipv4() == (kind == Kind::Four));
            let records: Vec<_> = of_kind.map(|address| ("", *address)).collect();
            reply(question, &records, 0)
        }
        None => reply(question, &[], 0)
            .into_iter()
            .enumerate()
            .map(|(at, byte)| if at == 3 { 3 } else { byte })
            .collect(),
    }
}

#[tokio::test]
async fn search_domains_resolve_and_forged_replies_are_ignored() {
    let known = [
        ("kubernetes.default.svc.cluster.local", "10.96.0.1"),
        ("kubernetes.default.svc.cluster.local", "fd00::1"),
    ];
    let zone = Zone::start("search svc.cluster.local cluster.local\noptions ndots:5\n", &known).await;
    assert_eq!(zone.resolve("kubernetes.default.svc").await, Ok(vec![ip("10.96.0.1"), ip("fd00::1")]));
    let asked = zone.asked.lock().unwrap().clone();
    assert!(asked.contains(&"kubernetes.default.svc.svc.cluster.local".to_owned()), "{asked:?}");
}

#[tokio::test]
async fn truncated_reply_is_retried_over_tcp() {
    let zone = Zone::start("", &[("large.example", "10.0.0.1"), ("large.example", "10.0.0.2")]).await;
    assert_eq!(zone.resolve("large.example").await, Ok(vec![ip("10.0.0.1"), ip("10.0.0.2")]));
}

#[tokio::test]
async fn unknown_host_and_server_failure_are_different_errors() {
    let zone = Zone::start("options attempts:1\n", &[]).await;
    assert_eq!(zone.resolve("nowhere.example").await, Err("host nowhere.example not found".to_owned()));
    let error = zone.resolve("broken.example").await.unwrap_err();
    assert!(
        error.starts_with("cannot resolve broken.example: ") && error.ends_with("Server Failure"),
        "{error}"
    );
    let error = zone.resolve("a..b").await.unwrap_err();
    assert!(error.starts_with("cannot resolve a..b: "), "{error}");
}

#[tokio::test]
async fn ip_addresses_and_hosts_file_need_no_dns_server() {
    let zone = Zone::start("", &[]).await;
    std::fs::write(&zone.resolver.hosts, "10.1.1.1 control-plane\n").unwrap();
    assert_eq!(zone.resolve("10.2.2.2").await, Ok(vec![ip("10.2.2.2")]));
    assert_eq!(zone.resolve("control-plane").await, Ok(vec![ip("10.1.1.1")]));
    let local = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    assert_eq!(zone.resolve("localhost").await, Ok(local.to_vec()));
    assert!(zone.asked.lock().unwrap().is_empty());
}
