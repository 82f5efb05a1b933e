//! The HTTPS server over real sockets, with a fake reviewer instead of an API server; and signals during the start.
//!
//! `src/serve/review.rs` tests the review requests themselves.

#![allow(clippy::unwrap_used, reason = "test helpers may panic like tests")]

mod flags;
mod hostile;
mod identity;
mod server;
mod signals;

use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;
use rustls::pki_types::CertificateDer;
use supercargo::serve::{Certificate, Checks, Gate, Limits, Routes, ServeOptions, Server};
use supercargo::telemetry::metrics::{Exposition, Metrics};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use server::{Answer, Fake, HANG, Running, SHORT, Setup, frame, soon};

fn text(code: u16, body: &str) -> (u16, String) {
    (code, body.to_owned())
}

#[tokio::test]
async fn health_endpoints_are_open_to_all() {
    let server = Running::usual().await;
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(server.get(path, "").await, text(200, "ok"));
        assert_eq!(server.get(path, "bad").await, text(200, "ok"));
    }
    assert_eq!(
        server.get("/readyz?verbose", "").await,
        text(200, "[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n")
    );
    assert!(server.fake.asked.lock().unwrap().is_empty());
    let answer = server.ask("GET", "/healthz", "").await;
    for header in [
        "content-type: text/plain; charset=utf-8",
        "cache-control: no-cache, private",
        "x-content-type-options: nosniff",
    ] {
        assert!(answer.head.contains(header), "no {header} in {}", answer.head);
    }
}

#[tokio::test]
async fn unsynced_server_is_live_but_not_ready() {
    let ready = Err("waiting for handlers to sync: Pod".to_owned());
    let server = Running::start(Setup { ready, ..Setup::default() }).await;
    assert_eq!(server.get("/livez", "").await, text(200, "ok"));
    let failed = "[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n";
    assert_eq!(server.get("/readyz", "").await, text(500, failed));
    let reason = "internal server error: waiting for handlers to sync: Pod\n";
    assert_eq!(server.get("/readyz/sched-handler-sync", "good").await, text(500, reason));
    assert_eq!(server.get("/readyz/sched-handler-sync", "").await.0, 403);
    let (_, slis) = server.get("/metrics/slis", "good").await;
    assert!(
        slis.contains("kubernetes_healthcheck{name=\"sched-handler-sync\",type=\"readyz\"} 0\n"),
        "{slis}"
    );
}

#[tokio::test]
async fn metrics_require_api_server_authorization() {
    let server = Running::usual().await;
    let allowed = server.ask("GET", "/metrics", "good").await;
    assert_eq!(allowed.code, 200);
    assert!(allowed.head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"));
    assert!(allowed.body.contains("\nscheduler_preemption_attempts_total 0\n"), "{}", allowed.body);

    let unauthorized = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#;
    let forbidden = |user: &str| {
        format!(
            r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"forbidden: User \"{user}\" cannot get path \"/metrics\"","reason":"Forbidden","details":{{}},"code":403}}"#
        ) + "\n"
    };
    assert_eq!(server.get("/metrics", "bad").await, (401, unauthorized.to_owned() + "\n"));
    assert_eq!(server.get("/metrics", "").await, (403, forbidden("system:anonymous")));
    assert_eq!(server.get("/metrics", "plain").await, (403, forbidden("&lt;plain&gt;")));
    let unknown =
        "Internal Server Error: \"/metrics?x=1&amp;y\": the API server could not review the request\n";
    assert_eq!(server.get("/metrics?x=1&y", "broken").await, text(500, unknown));
}

#[tokio::test]
async fn consecutive_scrapes_share_one_review_of_each_kind() {
    let server = Running::usual().await;
    for _ in 0..2 {
        assert_eq!(server.get("/metrics", "good").await.0, 200);
    }
    assert_eq!(*server.fake.asked.lock().unwrap(), ["who good", "may prometheus get /metrics"]);
}

#[tokio::test]
async fn unknown_path_is_404_only_for_authorized_clients() {
    let server = Running::usual().await;
    for path in ["/", "/version", "/api", "/metrics/resources", "/healthz/nope", "/metrics/"] {
        assert_eq!(server.get(path, "good").await, text(404, "404 page not found\n"), "{path}");
        assert_eq!(server.get(path, "").await.0, 403, "{path}");
    }
}

#[tokio::test]
async fn methods_other_than_get_and_head_are_405() {
    let server = Running::usual().await;
    for method in ["POST", "DELETE", "PUT", "OPTIONS"] {
        let answer = server.ask(method, "/metrics", "good").await;
        assert_eq!(answer.code, 405);
        assert!(answer.head.contains("allow: get, head"));
    }
    let head = server.ask("HEAD", "/healthz", "").await;
    assert_eq!((head.code, head.body.as_str()), (200, ""));
    assert!(head.head.contains("content-length: 2"), "{}", head.head);
    assert_eq!(server.ask("HEAD", "/metrics", "good").await.code, 200);
    assert!(server.fake.asked.lock().unwrap().contains(&"may prometheus head /metrics".to_owned()));
}

#[tokio::test]
async fn http2_is_negotiated_by_alpn() {
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const SETTINGS: u8 = 4;
    let server = Running::usual().await;
    let mut stream = server.connect_as(&[b"h2", b"http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));

    // HPACK: ":method: GET" and ":scheme: https" are indexed, ":path" and ":authority" are literal.
    let fields = [&[0x82, 0x87, 0x04, 0x08][..], b"/healthz", &[0x01, 0x01], b"x"].concat();
    let mut request = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    request.extend(frame(SETTINGS, 0, 0, &[]));
    request.extend(frame(HEADERS, 0x5, 1, &fields));
    stream.write_all(&request).await.unwrap();

    let (mut status, mut body) = (None, Vec::new());
    while body != b"ok" {
        let mut head = [0; 9];
        soon("a frame", stream.read_exact(&mut head)).await.unwrap();
        let mut payload = vec![0; usize::from(head[1]) * 256 + usize::from(head[2])];
        soon("a frame", stream.read_exact(&mut payload)).await.unwrap();
        match head[3] {
            HEADERS => status = payload.first().copied(),
            DATA => body.extend(payload),
            _ => {}
        }
    }
    assert_eq!(status, Some(0x88), "the indexed field :status: 200");
}

fn write_pair(folder: &Path) -> CertificateDer<'static> {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("tls.key"), pair.signing_key.serialize_pem()).unwrap();
    std::fs::write(folder.join("tls.crt"), pair.cert.pem()).unwrap();
    pair.cert.der().clone()
}

async fn shown(server: &Running) -> CertificateDer<'static> {
    server.connect().await.get_ref().1.peer_certificates().unwrap()[0].clone()
}

#[tokio::test]
async fn changed_certificate_is_presented_to_the_next_client() {
    let folder = tempfile::tempdir().unwrap();
    let first = write_pair(folder.path());
    let certificate =
        Certificate::Files { certificate: folder.path().join("tls.crt"), key: folder.path().join("tls.key") };
    let server = Running::start(Setup { certificate, ..Setup::default() }).await;
    assert_eq!(shown(&server).await, first);
    let mut open = server.connect().await;

    let second = write_pair(folder.path());
    soon("the new certificate", async {
        while shown(&server).await != second {
            tokio::task::yield_now().await;
        }
    })
    .await;
    open.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    assert_eq!(Answer::read(&mut open).await.body, "ok", "an open connection stays usable");
}

#[tokio::test]
async fn invalid_certificate_is_counted_and_the_previous_one_kept() {
    let folder = tempfile::tempdir().unwrap();
    let good = write_pair(folder.path());
    let (file, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let certificate = Certificate::Files { certificate: file.clone(), key };
    let server = Running::start(Setup { certificate, ..Setup::default() }).await;
    let counted = async |invalid: u32, success: u32| {
        let lines = [
            format!("supercargo_certificate_reloads_total{{result=\"invalid\"}} {invalid}"),
            format!("supercargo_certificate_last_reload_success {success}"),
        ];
        soon("the change to be counted", async {
            loop {
                let (_, metrics) = server.get("/metrics", "good").await;
                if lines.iter().all(|line| metrics.lines().any(|shown| shown == line)) {
                    return;
                }
            }
        })
        .await;
        assert_eq!(shown(&server).await, good);
    };
    counted(0, 1).await;
    let pem = std::fs::read(&file).unwrap();
    std::fs::write(&file, "no certificate").unwrap();
    counted(1, 0).await;
    std::fs::remove_file(&file).unwrap();
    counted(2, 0).await;
    std::fs::write(&file, pem).unwrap();
    counted(2, 1).await;
}

#[tokio::test]
async fn unfinished_request_is_cut_off() {
    let limits = Limits { request_head: SHORT, ..Limits::default() };
    let server = Running::start(Setup { limits, ..Setup::default() }).await;
    let mut slow = server.connect().await;
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHost: loc").await.unwrap();
    let mut rest = Vec::new();
    // The kind of disconnect depends on timing; only the disconnect matters.
    let _ = soon("the end of a slow connection", slow.read_to_end(&mut rest)).await;
    assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));

    let mut silent = server.connect().await;
    let _ = soon("the end of a silent connection", silent.read_to_end(&mut rest)).await;
}

#[tokio::test]
async fn unfinished_handshake_is_cut_off() {
    let limits = Limits { handshake: SHORT, ..Limits::default() };
    let server = Running::start(Setup { limits, ..Setup::default() }).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut rest = Vec::new();
    let _ = soon("the end of a connection without handshake", silent.read_to_end(&mut rest)).await;
    assert!(rest.is_empty());
    let mut plain = TcpStream::connect(server.address).await.unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").await.unwrap();
    let _ = soon("the end of a plain connection", plain.read_to_end(&mut rest)).await;
    assert!(!String::from_utf8_lossy(&rest).contains("200"), "there is no plain HTTP");
}

/// Maximum size of a request head, in bytes.
const HEAD_BYTES: usize = 64 * 1024;

#[tokio::test]
async fn request_head_above_64_kib_is_refused_with_431() {
    let server = Running::usual().await;
    let head = |bytes: usize| {
        let around = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nA: \r\n\r\n".len();
        let value = "a".repeat(bytes - around);
        format!("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nA: {value}\r\n\r\n")
    };
    assert_eq!(server.send(&head(HEAD_BYTES - 1024)).await.code, 200);
    assert_eq!(server.send(&head(HEAD_BYTES + 1)).await.code, 431);
    // Many small fields count the same.
    let fields: String = (0..64).map(|at| format!("A{at}: {}\r\n", "a".repeat(1024))).collect();
    let request = format!("GET /healthz HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
    assert_eq!(server.send(&request).await.code, 431);
    assert_eq!(server.get("/healthz", "").await, text(200, "ok"));
}

#[tokio::test]
async fn http_1_1_request_needs_exactly_one_valid_host() {
    let server = Running::usual().await;
    for (request, wanted) in [
        ("GET /healthz HTTP/1.1\r\n", "400 Bad Request: missing required Host header"),
        ("GET /healthz HTTP/1.1\r\nHost: a\r\nHost: a\r\n", "400 Bad Request: too many Host headers"),
        ("GET /healthz HTTP/1.1\r\nHost: a/b\r\n", "400 Bad Request: malformed Host header"),
        ("GET /healthz HTTP/1.1\r\nHost: a@b\r\n", "400 Bad Request: malformed Host header"),
    ] {
        let answer = server.send(&format!("{request}\r\n")).await;
        assert_eq!((answer.code, answer.body.as_str()), (400, wanted), "{request:?}");
        assert!(answer.head.contains("connection: close"), "{}", answer.head);
    }
    for request in [
        "GET /healthz HTTP/1.0\r\n",
        "GET /healthz HTTP/1.1\r\nHost:\r\nConnection: close\r\n",
        "GET /healthz HTTP/1.1\r\nHost: [::1]:10259\r\nConnection: close\r\n",
    ] {
        assert_eq!(server.send(&format!("{request}\r\n")).await.code, 200, "{request:?}");
    }
}

#[tokio::test]
async fn unspecified_address_answers_clients_of_both_families() {
    let address = "0.0.0.0:0".parse().unwrap();
    let mut server = Running::start(Setup { address, ..Setup::default() }).await;
    assert_eq!(server.get("/livez", "").await, text(200, "ok"));
    if tokio::net::TcpListener::bind("[::1]:0").await.is_ok() {
        server.address.set_ip("::1".parse().unwrap());
        assert_eq!(server.get("/livez", "").await, text(200, "ok"));
    }
}

#[tokio::test]
async fn idle_connections_do_not_block_new_clients() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let server = Running::start(Setup { limits, ..Setup::default() }).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(server.connect().await);
    }
    assert_eq!(server.get("/healthz", "").await, text(200, "ok"));
    let mut rest = Vec::new();
    let _ = soon("the end of the oldest connection", held[0].read_to_end(&mut rest)).await;
}

#[tokio::test]
async fn connection_at_its_age_limit_is_closed_between_requests() {
    let limits = Limits { age: SHORT, ..Limits::default() };
    let server = Running::start(Setup { limits, ..Setup::default() }).await;
    soon("an answer", async {
        loop {
            let mut stream = server.connect().await;
            // On a slow machine the connection may age before its request; then the next one is tried.
            let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
            let mut text = String::new();
            // Without "Connection: close" only the server's age limit ends this.
            if stream.read_to_string(&mut text).await.is_ok() && text.ends_with("\r\n\r\nok") {
                return;
            }
        }
    })
    .await;
}

/// Returns an exposition whose scrapes signal `entered` and wait for `release`.
fn held() -> (Exposition, Arc<Notify>, Arc<Notify>) {
    let (entered, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (entered.clone(), release.clone());
    let core = Box::new(move || {
        let (tell, wait) = (tell.clone(), wait.clone());
        async move {
            tell.notify_one();
            wait.notified().await;
            None
        }
        .boxed()
    });
    let exposition = Exposition::new(Arc::new(Metrics::new())).with_core(core).with_core_deadline(HANG);
    (exposition, entered, release)
}

#[tokio::test]
async fn shutdown_waits_for_a_running_request() {
    let (exposition, entered, release) = held();
    let limits = Limits { drain: HANG, ..Limits::default() };
    let mut server = Running::start(Setup { exposition, limits, ..Setup::default() }).await;
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\n\r\n")
        .await
        .unwrap();
    soon("the scrape", entered.notified()).await;
    // An unused connection does not delay shutdown.
    let _idle = server.connect().await;

    server.stop();
    soon("the closed port", async {
        while TcpStream::connect(server.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(!server.server.is_finished());
    release.notify_one();
    let answer = Answer::read(&mut stream).await;
    assert_eq!(answer.code, 200);
    assert!(answer.body.contains("supercargo_core_scrape_failures_total 1\n"));
    server.ended().await;
}

#[tokio::test]
async fn request_beyond_the_drain_time_is_aborted() {
    let (exposition, entered, _release) = held();
    let limits = Limits { drain: SHORT, ..Limits::default() };
    let mut server = Running::start(Setup { exposition, limits, ..Setup::default() }).await;
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\n\r\n")
        .await
        .unwrap();
    soon("the scrape", entered.notified()).await;
    server.stop();
    server.ended().await;
    let mut rest = Vec::new();
    let _ = soon("the end of the connection", stream.read_to_end(&mut rest)).await;
    assert!(rest.is_empty());
}

#[tokio::test]
async fn port_in_use_error_names_the_flags() {
    let server = Running::usual().await;
    let exposition = Exposition::new(Arc::new(Metrics::new()));
    let routes = Routes::new(Arc::new(Checks::new()), exposition, Gate::new(Fake::default()));
    let options = ServeOptions::new(server.address, Certificate::self_signed(None), &Metrics::new());
    let error = Server::bind(options, routes).await.map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot listen on {}: ", server.address)), "{error}");
    assert!(error.ends_with("choose another with --bind-address and --secure-port"), "{error}");
}
