//! The client against servers and proxies on the loopback.

use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::TcpListener;

use super::rotate::{Known, Rotating};
use super::*;
use crate::Throttle;

#[tokio::test]
async fn connections_set_tcp_nodelay() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connection = connector().oneshot(format!("https://{address}").parse().unwrap()).await.unwrap();
    assert!(connection.inner().nodelay().unwrap());
}

type Answer = Result<Response<Full<Bytes>>, std::convert::Infallible>;

/// Starts an HTTP server, with TLS if configured. `answer` receives each request and its client certificate.
async fn serve(
    tls: Option<Arc<Mutex<Arc<rustls::ServerConfig>>>>,
    answer: impl Fn(Request<Incoming>, Vec<u8>) -> Response<Full<Bytes>> + Clone + Send + 'static,
) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let (tls, answer) = (tls.as_ref().map(|tls| tls.lock().unwrap().clone()), answer.clone());
            tokio::spawn(async move {
                let http = hyper::server::conn::http1::Builder::new();
                let Some(tls) = tls else {
                    let service = service_fn(move |request| {
                        let answer = answer(request, Vec::new());
                        async move { Answer::Ok(answer) }
                    });
                    let _ = http.serve_connection(TokioIo::new(connection), service).await;
                    return;
                };
                let Ok(connection) = tokio_rustls::TlsAcceptor::from(tls).accept(connection).await else {
                    return;
                };
                let client = connection.get_ref().1.peer_certificates().unwrap_or_default();
                let client = client.first().map(|certificate| certificate.to_vec()).unwrap_or_default();
                let service = service_fn(move |request| {
                    let answer = answer(request, client.clone());
                    async move { Answer::Ok(answer) }
                });
                let _ = http.serve_connection(TokioIo::new(connection), service).await;
            });
        }
    });
    port
}

fn response(code: u16, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    Response::builder().status(code).body(Full::new(body.into())).unwrap()
}

async fn get<S>(service: S) -> (u16, Bytes)
where
    S: tower::Service<Request<Body>, Response = Response<Limited>, Error = BoxError>,
{
    let answer = service.oneshot(Request::get("/version").body(Body::empty()).unwrap()).await.unwrap();
    (answer.status().as_u16(), answer.into_body().collect().await.unwrap().to_bytes())
}

/// Starts a proxy for one connection, HTTP or SOCKS; returns its port and the log of its requests.
async fn proxy() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let tell = Arc::clone(&tell);
            tokio::spawn(async move {
                let first = near.read_u8().await.unwrap();
                let target = if first == 5 { socks(&mut near).await } else { tunnel(&mut near, &tell).await };
                tell.lock().unwrap().push(target.clone());
                let mut far = TcpStream::connect(target).await.unwrap();
                let _ = copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    (port, asked)
}

/// Accepts a CONNECT request (RFC 9110, 9.3.6).
async fn tunnel(near: &mut TcpStream, tell: &Mutex<Vec<String>>) -> String {
    let mut head = vec![b'C'];
    while !head.ends_with(b"\r\n\r\n") {
        head.push(near.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    let authorization = head.lines().find(|line| line.to_lowercase().starts_with("proxy-authorization"));
    tell.lock().unwrap().extend(authorization.map(str::to_owned));
    head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap().to_owned()
}

/// Accepts a SOCKS request for an IPv4 target (RFC 1928 and 1929).
async fn socks(near: &mut TcpStream) -> String {
    let methods = usize::from(near.read_u8().await.unwrap());
    near.read_exact(&mut vec![0; methods]).await.unwrap();
    near.write_all(&[5, 2]).await.unwrap();
    let mut login = [0; "_*me*secret".len()];
    near.read_exact(&mut login).await.unwrap();
    assert_eq!(&login, b"\x01\x02me\x06secret");
    near.write_all(&[1, 0]).await.unwrap();
    let mut request = [0; 10];
    near.read_exact(&mut request).await.unwrap();
    near.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
    let [_, _, _, _, a, b, c, d, high, low] = request;
    format!("{a}.{b}.{c}.{d}:{}", u16::from_be_bytes([high, low]))
}

#[tokio::test]
async fn server_is_reached_through_http_and_socks_proxies() {
    let server = serve(None, |_, _| response(200, "hello")).await;
    for scheme in ["http", "socks5"] {
        let (proxy, asked) = proxy().await;
        let mut config = kube::Config::new(format!("http://127.0.0.1:{server}").parse().unwrap());
        config.proxy_url = Some(format!("{scheme}://me:secret@127.0.0.1:{proxy}").parse().unwrap());
        assert_eq!(get(carrier(&config, false).unwrap()).await, (200, Bytes::from("hello")), "{scheme}");
        let asked = asked.lock().unwrap().clone();
        assert_eq!(asked.last(), Some(&format!("127.0.0.1:{server}")), "{scheme}");
        let authorization = asked[0].split_once(": ").map(|(_, value)| value.to_owned());
        assert_eq!(authorization, (scheme == "http").then(|| "Basic bWU6c2VjcmV0".to_owned()));
    }
}

#[tokio::test]
async fn user_agent_has_upstreams_format() {
    let agent =
        |request: Request<Incoming>, _| response(200, request.headers()["user-agent"].as_bytes().to_vec());
    let server = serve(None, agent).await;
    let config = kube::Config::new(format!("http://127.0.0.1:{server}").parse().unwrap());
    let text = |answer: (u16, Bytes)| String::from_utf8(answer.1.to_vec()).unwrap();
    let agent = text(get(carrier(&config, false).unwrap()).await);
    let of_scheduler = text(get(Rotating::new(carrier(&config, false).unwrap())).await);
    assert_eq!(of_scheduler, format!("{agent}/scheduler"));
    let (program, commit) = agent.split_once(" kubernetes/").unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        program.starts_with(&format!("supercargo/v{version} (linux/")) && program.ends_with("64)"),
        "{agent}"
    );
    assert!(commit.len() == 7, "{agent}");
}

#[tokio::test]
async fn kubeconfig_without_proxy_url_sets_no_proxy() {
    let file = |proxy: &str| {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'https://h', {proxy}}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
        );
        of_kubeconfig_text(text)
    };
    assert_eq!(file("").await.proxy_url, None);
    assert_eq!(file("proxy-url: ''").await.proxy_url, None);
    assert_eq!(file("proxy-url: 'socks5://p'").await.proxy_url.unwrap(), "socks5://p/");
}

async fn of_kubeconfig_text(text: String) -> kube::Config {
    of_kubeconfig(Kubeconfig::from_yaml(&text).unwrap(), &KubeConfigOptions::default()).await.unwrap()
}

/// A certificate authority for servers and clients.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: CertificateDer<'static>,
}

/// A certificate with its key.
struct Identity {
    pem: String,
    der: CertificateDer<'static>,
    key: KeyPair,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let own = params.self_signed(&key).unwrap();
        Self { pem: own.pem(), der: own.der().clone(), issuer: Issuer::new(params, key) }
    }

    fn issue(&self, usage: ExtendedKeyUsagePurpose) -> Identity {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let own = params.signed_by(&key, &self.issuer).unwrap();
        Identity { pem: own.pem(), der: own.der().clone(), key }
    }

    /// Returns a server configuration with a certificate of this authority, which requires client
    /// certificates of `clients`.
    fn server(&self, clients: &Self) -> Arc<rustls::ServerConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(clients.der.clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
        let own = self.issue(ExtendedKeyUsagePurpose::ServerAuth);
        let key = PrivateKeyDer::try_from(own.key.serialize_der()).unwrap();
        let config = rustls::ServerConfig::builder().with_client_cert_verifier(verifier);
        Arc::new(config.with_single_cert(vec![own.der], key).unwrap())
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

#[tokio::test]
async fn changed_certificate_and_ca_files_are_reloaded() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (Authority::new(), Authority::new());
    let tls = Arc::new(Mutex::new(old.server(&old)));
    let server = serve(Some(Arc::clone(&tls)), |_, client| response(200, client)).await;
    let [first, second] = [(); 2].map(|()| old.issue(ExtendedKeyUsagePurpose::ClientAuth));
    let folder = folder.path();
    write(folder, "ca.crt", &old.pem);
    write(folder, "client.crt", &first.pem);
    write(folder, "client.key", &first.key.serialize_pem());
    let file = |name| folder.join(name).display().to_string();
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{server}', certificate-authority: {}}}}}]\n\
         users: [{{name: u, user: {{client-certificate: {}, client-key: {}}}}}]\n",
        file("ca.crt"),
        file("client.crt"),
        file("client.key")
    );
    let source = Source::new(Some(Kubeconfig::from_yaml(&text).unwrap()), None, None);
    let config = source.settings().await.unwrap();
    let rotating = Rotating::new(carrier(&config, false).unwrap());
    let (mut known, failures) = (Known::of(source.files(&config), &config), Throttle::new(Duration::MAX));
    let mut reload = async || source.reload(&mut known, &rotating.current, false, &failures).await;
    let seen = async || get(rotating.clone()).await.1;
    assert_eq!(*seen().await, *first.der);
    assert!(!reload().await, "nothing changed");
    write(folder, "client.crt", &second.pem);
    assert!(reload().await);
    assert_eq!(*seen().await, *first.der, "the new certificate has no key yet");
    write(folder, "client.key", &second.key.serialize_pem());
    assert!(reload().await);
    assert_eq!(*seen().await, *second.der);
    for text in ["", "-----BEGIN CERTIFICATE-----\nMII"] {
        write(folder, "ca.crt", text);
        assert!(reload().await);
        assert_eq!(*seen().await, *second.der, "truncated CA file");
    }
    *tls.lock().unwrap() = new.server(&old);
    write(folder, "ca.crt", &new.pem);
    assert!(reload().await);
    assert_eq!(*seen().await, *second.der);
    assert!(!reload().await, "nothing changed since");
}

#[tokio::test]
async fn token_file_precedes_token_and_its_newline_is_not_sent() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "token", "from-file\n");
    let answer = |request: Request<Incoming>, _| {
        let values = request.headers().get_all(AUTHORIZATION).iter();
        response(200, values.map(|value| value.to_str().unwrap()).collect::<Vec<_>>().join(", "))
    };
    let server = format!("http://127.0.0.1:{}", serve(None, answer).await);
    let mut config = kube::Config::new(server.parse().unwrap());
    config.auth_info.token = Some("inline".to_owned().into());
    assert_eq!(get(carrier(&config, false).unwrap()).await.1, "Bearer inline");
    config.auth_info.token_file = Some(folder.path().join("token").display().to_string());
    assert_eq!(get(carrier(&config, false).unwrap()).await.1, "Bearer from-file");
    config.auth_info.token_file = Some(folder.path().join("none").display().to_string());
    assert_eq!(get(carrier(&config, false).unwrap()).await.1, "Bearer inline");
    config.auth_info.token = None;
    assert!(carrier(&config, false).is_err());
}

#[tokio::test]
async fn credential_plugin_is_called_again_when_its_token_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let answer = |request: Request<Incoming>, _| {
        let is_known = request.headers().get(AUTHORIZATION).is_some_and(|token| token == "Bearer two");
        response(if is_known { 200 } else { 401 }, "")
    };
    let server = serve(None, answer).await;
    write(folder, "token", "one");
    let script = "printf '%s' \"$KUBERNETES_EXEC_INFO\" > \"$0/info\"; \
        printf '{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \"status\": {\"token\": \"%s\"}}' \
        \"$(cat \"$0/token\")\"";
    let text = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        "clusters": [{ "name": "c", "cluster": { "server": format!("http://127.0.0.1:{server}") } }],
        "users": [{ "name": "u", "user": { "exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh", "args": ["-c", script, folder],
            "provideClusterInfo": true, "interactiveMode": "Never",
        } } }],
    });
    let source = Source::new(Some(Kubeconfig::from_yaml(&text.to_string()).unwrap()), None, None);
    let config = source.settings().await.unwrap();
    let rotating = Rotating::new(carrier(&config, false).unwrap());
    let (mut known, failures) = (Known::of(source.files(&config), &config), Throttle::new(Duration::MAX));
    let mut reload =
        async |was_rejected| source.reload(&mut known, &rotating.current, was_rejected, &failures).await;
    let info: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("info")).unwrap()).unwrap();
    assert_eq!(info["spec"]["interactive"], false);
    assert_eq!(info["spec"]["cluster"]["server"], format!("http://127.0.0.1:{server}"));
    assert!(info["spec"]["cluster"]["proxy-url"].is_null(), "{info}");
    assert_eq!(get(rotating.clone()).await.0, 401);
    rotating.rejected.notified().await;
    write(folder, "token", "two");
    assert!(!reload(false).await, "the token was not rejected");
    assert!(reload(true).await);
    assert_eq!(get(rotating.clone()).await.0, 200);
    write(folder, "token", "\"");
    assert!(reload(true).await);
    assert_eq!(get(rotating.clone()).await.0, 200, "a failing plugin keeps the previous credentials");
}

#[tokio::test]
async fn missing_credential_plugin_is_named_once() {
    let mut config = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
    let exec = serde_json::json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin", "interactiveMode": "Never",
        "installHint": "apt install it\n",
    });
    config.auth_info.exec = Some(serde_json::from_value(exec).unwrap());
    let error = format!("{:#}", carrier(&config, false).err().unwrap());
    assert_eq!(
        error,
        "cannot run the kubeconfig's credential plugin \"no-such-plugin\": No such file or directory (os error 2); install it \
         (apt install it), or correct the command in the kubeconfig"
    );
}

#[test]
fn server_without_scheme_is_an_error() {
    for url in ["10259", "127.0.0.1:6443", "localhost", "/path"] {
        let config = kube::Config::new(url.parse().unwrap());
        let error = carrier(&config, false).err().unwrap().to_string();
        assert!(error.starts_with(&format!("{url} is not the URL of a server; ")), "{error}");
    }
}
