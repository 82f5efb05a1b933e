//! Extenders over real loopback connections: requests, and the decoding of responses.

use super::*;
use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use supercargo_config::{Effective, Flags, Settings};
use supercargo_core::model::effect::{PodRef, Question, Victims};
use supercargo_core::model::extender::{Answer, CandidateAnswer, FilterAnswer};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// An extender's reaction to a request.
#[derive(Clone)]
enum Reply {
    Text(u16, String),
    /// It never responds.
    Silence,
    /// It closes the connection.
    Hangs,
}

impl Reply {
    fn json(value: &Value) -> Self {
        Self::Text(200, value.to_string())
    }
}

/// A request as the extender received it.
struct ReceivedRequest {
    path: String,
    headers: http::HeaderMap,
    body: Value,
}

/// An extender on the loopback that gives every request the same response.
struct Server {
    port: u16,
    got: mpsc::UnboundedReceiver<ReceivedRequest>,
}

impl Server {
    async fn start(reply: Reply) -> Self {
        Self::start_with(reply, None).await
    }

    async fn start_with(reply: Reply, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let (sender, got) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (reply, sender, tls) = (reply.clone(), sender.clone(), tls.clone());
                tokio::spawn(async move {
                    let service = service_fn(move |request| answer(request, reply.clone(), sender.clone()));
                    let http = hyper::server::conn::http1::Builder::new();
                    // A client that does not trust the server disconnects; the test sees the client's error.
                    let _ = match tls {
                        None => http.serve_connection(TokioIo::new(connection), service).await,
                        Some(tls) => match tokio_rustls::TlsAcceptor::from(tls).accept(connection).await {
                            Ok(connection) => http.serve_connection(TokioIo::new(connection), service).await,
                            Err(_) => Ok(()),
                        },
                    };
                });
            }
        });
        Self { port, got }
    }
}

async fn answer(
    request: http::Request<hyper::body::Incoming>,
    reply: Reply,
    sender: mpsc::UnboundedSender<ReceivedRequest>,
) -> Result<Response<Full<Bytes>>, std::io::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let (path, headers) = (parts.uri.path().to_owned(), parts.headers);
    sender.send(ReceivedRequest { path, headers, body }).expect("the test listens");
    match reply {
        Reply::Text(code, text) => {
            Ok(Response::builder().status(code).body(Full::from(text)).expect("an answer"))
        }
        Reply::Silence => std::future::pending().await,
        Reply::Hangs => Err(std::io::Error::other("the test asks for it")),
    }
}

/// Returns the extenders of a configuration that has one, with these fields.
fn configured(fields: &str) -> Vec<v1::Extender> {
    let text = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders: [{{{fields}}}]\n"
    );
    let effective = Effective::parse(Path::new("f"), &text, &Flags::default()).expect("a valid file");
    Settings::of(&effective).expect("settings").extenders
}

fn client(fields: &str) -> Client {
    Client::new(&configured(fields)[0]).expect("it can be made")
}

fn pod_ref(pod: &Value) -> PodRef {
    let text = |name: &str| pod["metadata"][name].as_str().unwrap_or_default().to_owned();
    PodRef { namespace: text("namespace"), name: text("name"), uid: text("uid").as_str().into() }
}

/// Stores objects as the API server writes them: with their kind, and pods with managedFields.
fn kept(pods: &[&Value], nodes: &[&Value]) -> RawObjects {
    let objects = RawObjects::default();
    objects.want(Wanted { pods: Pods::All, nodes: true });
    for (kind, name, of) in [(Kind::Pod, "Pod", pods), (Kind::Node, "Node", nodes)] {
        objects.list_began(kind);
        for object in of {
            let mut object = (*object).clone();
            object["kind"] = json!(name);
            object["apiVersion"] = json!("v1");
            if kind == Kind::Pod {
                object["metadata"]["managedFields"] = json!([{"manager": "kubectl", "operation": "Update"}]);
            }
            objects.note(kind, &object.to_string(), false);
        }
        objects.list_ended(kind);
    }
    objects
}

fn names(list: &Value) -> Vec<String> {
    list.as_array().expect("a list").iter().map(|it| it.as_str().expect("a name").to_owned()).collect()
}

/// Returns the engine's query for a captured request, and the pods and nodes in it.
fn question_of(captured: &Value) -> (Question, Vec<Value>, Vec<Value>) {
    let request = &captured["request"];
    let listed = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let (mut pods, nodes) = (vec![request["Pod"].clone()], listed(&request["Nodes"]["items"]));
    let asked = match request["NodeNames"].is_array() {
        true => names(&request["NodeNames"]),
        false => {
            nodes.iter().map(|node| node["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
        }
    };
    let question = match captured["verb"].as_str().expect("a verb") {
        "filter" => Question::Filter { nodes: asked },
        "prioritize" => Question::Prioritize { nodes: asked },
        _ => {
            let whole = request["NodeNameToVictims"].as_object();
            let rooms = whole.or_else(|| request["NodeNameToMetaVictims"].as_object()).expect("victims");
            let room = |(node, victims): (&String, &Value)| {
                let list = listed(&victims["Pods"]);
                let victim = |pod: &Value| match pod["UID"].as_str() {
                    Some(uid) => PodRef { namespace: String::new(), name: String::new(), uid: uid.into() },
                    None => pod_ref(pod),
                };
                pods.extend(list.iter().filter(|pod| pod["UID"].is_null()).cloned());
                Victims { node: node.clone(), pods: list.iter().map(victim).collect(), violations: 0 }
            };
            Question::Preempt { rooms: rooms.iter().map(room).collect() }
        }
    };
    (question, pods, nodes)
}

/// Covers every verb, as kube-scheduler v1.36.3 called a real extender.
#[tokio::test]
async fn requests_equal_kube_schedulers_field_by_field() {
    let text = include_str!("../../tests/fixtures/extender-requests.json");
    let captures: Vec<Value> = serde_json::from_str(text).expect("a list of captures");
    assert_eq!(captures.len(), 7);
    for captured in &captures {
        let what = format!("{} with caches {}", captured["verb"], captured["nodeCacheCapable"]);
        let mut server = Server::start(Reply::json(&captured["response"])).await;
        let caches = captured["nodeCacheCapable"].as_bool().unwrap_or_default();
        let client = client(&format!(
            "urlPrefix: 'http://127.0.0.1:{}/ext/', nodeCacheCapable: {caches}, filterVerb: filter, weight: 1, \
             prioritizeVerb: prioritize, preemptVerb: preempt, bindVerb: bind",
            server.port
        ));
        if captured["verb"] == "bind" {
            let text = |name: &str| captured["request"][name].as_str().expect("a text").to_owned();
            let (namespace, name, uid) = (text("PodNamespace"), text("PodName"), text("PodUID"));
            let pod = PodRef { namespace, name, uid: uid.as_str().into() };
            client.bind(&pod, &text("Node"), Duration::from_secs(5)).await.expect("it is bound");
        } else {
            let (question, pods, nodes) = question_of(captured);
            let objects = kept(&pods.iter().collect::<Vec<_>>(), &nodes.iter().collect::<Vec<_>>());
            let pod = pod_ref(&captured["request"]["Pod"]);
            let answer = client.ask(&pod, &question, &objects).await.expect("an answer that was accepted");
            assert!(says(&answer, &captured["response"]), "{what}: {answer:?}");
        }
        let got = server.got.try_recv().expect("it was asked");
        assert_eq!(got.body, captured["request"], "{what}");
        assert_eq!(got.path, captured["path"].as_str().expect("a path"), "{what}");
        assert_eq!(got.headers["content-type"], "application/json");
        assert!(got.headers.contains_key("content-length"), "{:?}", got.headers);
    }
}

/// Whether an answer equals the captured response.
fn says(answer: &Answer, response: &Value) -> bool {
    match answer {
        Answer::Filtered(it) => {
            let listed = response["Nodes"]["items"].as_array();
            let passed = match listed {
                Some(nodes) => nodes.iter().map(|node| node["metadata"]["name"].clone()).collect(),
                None => response["NodeNames"].clone(),
            };
            json!(it.passed) == passed && it.failed == [("n1".to_owned(), "no licence".to_owned())]
        }
        Answer::Scored(it) => {
            let scores = response.as_array().expect("a list").iter();
            it.iter().map(|(host, score)| json!({"Host": host, "Score": score})).eq(scores.cloned())
        }
        Answer::Candidates(it) => {
            it.len() == response["NodeNameToMetaVictims"].as_object().map_or(0, serde_json::Map::len)
                && it.iter().all(|room| room.victims.len() == 1)
        }
    }
}

fn small_pod() -> Value {
    json!({"metadata": {"name": "p", "namespace": "default", "uid": "u"}})
}

async fn asked(fields: String, question: Question) -> Result<Answer, Failed> {
    let pod = small_pod();
    client(&fields).ask(&pod_ref(&pod), &question, &kept(&[&pod], &[])).await
}

fn filter() -> Question {
    Question::Filter { nodes: vec!["a".to_owned(), "b".to_owned()] }
}

async fn ask(reply: Reply, question: Question) -> Result<Answer, Failed> {
    let server = Server::start(reply).await;
    let verbs = "nodeCacheCapable: true, filterVerb: f, prioritizeVerb: s, weight: 1, preemptVerb: p";
    asked(format!("urlPrefix: 'http://127.0.0.1:{}', {verbs}, httpTimeout: 300ms", server.port), question)
        .await
}

#[tokio::test]
async fn responses_are_decoded_like_in_go() {
    let filtered = |text: &str| ask(Reply::Text(200, text.to_owned()), filter());
    let names = |passed: &[&str]| {
        let passed = passed.iter().map(|&name| name.to_owned()).collect();
        Ok(Answer::Filtered(FilterAnswer { passed, ..FilterAnswer::default() }))
    };
    assert_eq!(
        filtered(r#"{"nodenames": ["b"], "Beside": 1} and more"#).await,
        names(&["b"]),
        "case-insensitive"
    );
    assert_eq!(filtered(r#"{"NODES": {"items": [{"metadata": {"name": "a"}}]}}"#).await, names(&["a"]));
    assert_eq!(filtered("{}").await, names(&[]), "neither names nor nodes");
    assert_eq!(filtered("null").await, names(&[]));
    let scored = ask(
        Reply::Text(200, r#"[{"host": "a", "score": 3}, {}]"#.to_owned()),
        Question::Prioritize { nodes: vec![] },
    );
    assert_eq!(scored.await, Ok(Answer::Scored(vec![("a".to_owned(), 3), (String::new(), 0)])));
    let rooms =
        r#"{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "v"}], "NumPDBViolations": 2}, "b": null}}"#;
    let rooms = ask(Reply::Text(200, rooms.to_owned()), Question::Preempt { rooms: vec![] }).await;
    let room = |node: &str, victims: Vec<String>, violations| CandidateAnswer {
        node: node.to_owned(),
        victims,
        violations,
    };
    assert_eq!(rooms, Ok(Answer::Candidates(vec![room("a", vec!["v".to_owned()], 2), room("b", vec![], 0)])));
}

#[tokio::test]
async fn errors_have_upstreams_wording() {
    let failed = |reply| async move { ask(reply, filter()).await.expect_err("it fails").into_text() };
    let ends = |text: String, end: &str| assert!(text.ends_with(end), "{text}");
    ends(failed(Reply::Text(500, "{}".to_owned())).await, "/f, code 500");
    ends(failed(Reply::Text(204, String::new())).await, "/f, code 204");
    assert_eq!(failed(Reply::Text(200, r#"{"Error": "no slot"}"#.to_owned())).await, "no slot");
    assert_eq!(failed(Reply::Text(200, String::new())).await, "EOF");
    assert_eq!(failed(Reply::Text(200, r#"{"NodeNames": ["#.to_owned())).await, "unexpected EOF");
    ends(failed(Reply::Text(200, "<html>".to_owned())).await, "expected value at line 1 column 1");
    let text = failed(Reply::Text(200, r#"{"NodeNames": 5}"#.to_owned())).await;
    assert_eq!(text, "the response's NodeNames is a number; expected an array");
    ends(
        failed(Reply::Silence).await,
        "/f\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
    );
    ends(failed(Reply::Hangs).await, "/f\": EOF");
    let huge = format!(r#"{{"NodeNames": ["{}"]}}"#, "a".repeat(5 << 20));
    ends(failed(Reply::Text(200, huge)).await, "exceeds 4194304 bytes");
    let gone =
        TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("it is bound").port();
    let refused = asked(
        format!("urlPrefix: 'http://127.0.0.1:{gone}/x', filterVerb: f, nodeCacheCapable: true"),
        filter(),
    );
    let text = format!(
        "Post \"http://127.0.0.1:{gone}/x/f\": dial tcp 127.0.0.1:{gone}: connect: connection refused"
    );
    assert_eq!(refused.await, Err(Failed::NotSent(text)));
}

/// A certificate authority.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "an authority");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"));
        Self(issuer.expect("a certificate"))
    }

    /// Issues a certificate for a name; returns it with its key.
    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        (params.signed_by(&key, &self.0).expect("a certificate"), key)
    }

    /// Returns a server configuration for this name; with `clients` it requires client certificates of this
    /// authority.
    fn server(&self, name: &str, clients: bool) -> Arc<rustls::ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (certificate, key) = self.issue(name);
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("a root");
        let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("versions");
        let builder = if clients {
            let verifier =
                rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Arc::new(builder.with_single_cert(vec![certificate.der().clone()], key).expect("a configuration"))
    }
}

#[tokio::test]
async fn https_follows_tls_config_and_enable_https() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let authority = Authority::new();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("the folder can be written to");
        path.display().to_string()
    };
    let ca = write("ca.pem", authority.0.pem());
    let other = write("other.pem", Authority::new().0.pem());
    let (certificate, key) = authority.issue("us");
    let (cert, key) = (write("cert.pem", certificate.pem()), write("key.pem", key.serialize_pem()));
    for (server_name, clients, tls, works) in [
        ("127.0.0.1", false, format!("tlsConfig: {{caFile: {ca}}}"), true),
        ("127.0.0.1", false, format!("enableHTTPS: true, tlsConfig: {{caFile: {ca}}}"), true),
        ("127.0.0.1", false, format!("enableHTTPS: true, tlsConfig: {{caFile: {other}}}"), false),
        ("elsewhere", false, "enableHTTPS: true".to_owned(), true),
        ("elsewhere", false, "tlsConfig: {insecure: true}".to_owned(), true),
        ("elsewhere", false, format!("tlsConfig: {{caFile: {ca}}}"), false),
        ("elsewhere", false, format!("tlsConfig: {{caFile: {ca}, serverName: elsewhere}}"), true),
        ("127.0.0.1", true, format!("tlsConfig: {{caFile: {ca}}}"), false),
        ("127.0.0.1", true, format!("tlsConfig: {{caFile: {ca}, certFile: {cert}, keyFile: {key}}}"), true),
    ] {
        let tls_of_server = authority.server(server_name, clients);
        let server = Server::start_with(Reply::json(&json!({"NodeNames": ["a"]})), Some(tls_of_server)).await;
        let fields = format!(
            "urlPrefix: 'https://127.0.0.1:{}', nodeCacheCapable: true, filterVerb: f, {tls}",
            server.port
        );
        let answer = asked(fields, filter()).await;
        assert_eq!(answer.is_ok(), works, "{server_name}, {tls}: {answer:?}");
    }
}

#[test]
fn only_wanted_objects_are_kept_as_written() {
    let objects = RawObjects::default();
    let pod = |uid: &str, node: &str| {
        json!({"kind": "Pod", "apiVersion": "v1", "spec": {"nodeName": node, "unheardOf": 1},
               "metadata": {"uid": uid, "name": uid, "managedFields": []}})
        .to_string()
    };
    objects.note(Kind::Pod, &pod("a", ""), false);
    assert!(objects.is_empty(), "nothing is wanted");
    assert_eq!(objects.want(Wanted { pods: Pods::Pending, nodes: false }), [Kind::Pod]);
    objects.note(Kind::Pod, &pod("a", ""), false);
    objects.note(Kind::Pod, &pod("b", "n"), false);
    objects.note(Kind::Node, r#"{"metadata": {"name": "n"}}"#, false);
    assert_eq!(objects.len(), 1);
    let kept = objects.pod("a").expect("it has no node");
    let kept: Value = serde_json::from_str(kept.get()).expect("an object");
    assert_eq!(
        kept,
        json!({"spec": {"nodeName": "", "unheardOf": 1}, "metadata": {"uid": "a", "name": "a"}})
    );
    objects.note(Kind::Pod, &pod("a", "n"), false);
    assert!(objects.is_empty(), "the pod is bound");
    assert_eq!(objects.want(Wanted { pods: Pods::All, nodes: true }), [Kind::Pod, Kind::Node]);
    for uid in ["a", "b"] {
        objects.note(Kind::Pod, &pod(uid, "n"), false);
    }
    objects.note(Kind::Pod, &pod("b", "n"), true);
    assert_eq!(objects.len(), 1, "one pod was deleted");
    objects.list_began(Kind::Pod);
    objects.note(Kind::Pod, &pod("c", "n"), false);
    objects.list_ended(Kind::Pod);
    assert_eq!((objects.len(), objects.pod("a").is_some()), (1, false), "absent from the list");
    assert_eq!(objects.want(Wanted::default()), []);
    assert!(objects.is_empty());
}

#[tokio::test]
async fn query_waits_until_the_objects_are_listed() {
    let objects = RawObjects::default();
    objects.list_began(Kind::Node);
    objects.want(Wanted { pods: Pods::None, nodes: true });
    objects.list_ended(Kind::Node);
    let waiting = objects.complete(Kind::Node);
    let mut waiting = std::pin::pin!(waiting);
    assert!(futures::poll!(&mut waiting).is_pending(), "the list had begun before nodes were wanted");
    objects.list_began(Kind::Node);
    objects.list_ended(Kind::Node);
    waiting.await;
}

#[tokio::test]
async fn replaced_client_certificate_is_used_and_an_unusable_one_is_not() {
    let (authority, other) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let write = |issuer: &Authority| {
        let (certificate, key) = issuer.issue("us");
        std::fs::write(path("cert.pem"), certificate.pem()).expect("it is written");
        std::fs::write(path("key.pem"), key.serialize_pem()).expect("it is written");
    };
    write(&other);
    let tls_of_server = authority.server("127.0.0.1", true);
    let server = Server::start_with(Reply::json(&json!({"NodeNames": ["a"]})), Some(tls_of_server)).await;
    let client = client(&format!(
        "urlPrefix: 'https://127.0.0.1:{}', nodeCacheCapable: true, filterVerb: f, \
         tlsConfig: {{insecure: true, certFile: {}, keyFile: {}}}",
        server.port,
        path("cert.pem").display(),
        path("key.pem").display(),
    ));
    let pod = small_pod();
    let works = async || {
        // The files are checked every ten seconds.
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(10)).await;
        tokio::time::resume();
        client.ask(&pod_ref(&pod), &filter(), &kept(&[&pod], &[])).await.is_ok()
    };
    assert!(!works().await, "the extender does not trust the other authority");
    write(&authority);
    assert!(works().await);
    std::fs::write(path("key.pem"), "no key").expect("it is written");
    assert!(works().await, "the previous pair is kept");
    write(&other);
    assert!(!works().await);
}
