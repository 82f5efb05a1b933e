//! Bindings by extenders: what is sent, and how responses are interpreted.

use super::*;
use crate::extenders::Extenders;
use crate::lease::{BootClock, Fence};
use std::path::Path;
use supercargo_config::LeaseTerms;
use supercargo_config::{Effective, Flags, Settings};
use supercargo_core::model::extender::ExtenderId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Starts an extender on the loopback that gives every call this response, and counts the calls.
async fn extender(status: u16, body: &'static str) -> (u16, Arc<std::sync::atomic::AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let mut read = vec![0; 4_096];
            let _ = connection.read(&mut read).await;
            let length = body.len();
            let answer =
                format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
            let _ = connection.write_all(answer.as_bytes()).await;
        }
    });
    (port, calls)
}

/// Returns a configuration whose first extender listens on `port`.
fn at(port: u16) -> Extenders {
    let text = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
         extenders: [{{urlPrefix: 'http://127.0.0.1:{port}', bindVerb: bind}}]\n"
    );
    let effective = Effective::parse(Path::new("f"), &text, &Flags::default()).unwrap();
    let extenders = Extenders::default();
    let prepared = extenders.prepare(&Settings::of(&effective).unwrap().extenders).unwrap();
    extenders.add(&prepared);
    extenders
}

async fn bound_by(mut fixture: Fixture, port: u16) -> (BindOutcome, Vec<String>) {
    let mut dispatcher = fixture.dispatcher.clone().with_extenders(at(port));
    dispatcher.submit(Effect::BindBy { extender: ExtenderId(0), pod: pod(), node: "n1".to_owned() });
    let events = fixture.answer().await;
    let methods = fixture.methods();
    match events.into_iter().next() {
        Some(Event::BindFinished { outcome, .. }) => (outcome, methods),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn outcome_of_an_extender_binding_is_checked_with_the_api_server() {
    let refused = |message: &str| BindOutcome::Refused { message: message.to_owned() };
    let found = |node: Option<&str>| shown("u1", node, None);
    let (port, _) = extender(200, "{}").await;
    assert_eq!(bound_by(Fixture::new([]), port).await, (BindOutcome::Accepted, vec![]));
    let (port, _) = extender(200, r#"{"Error": "no slot"}"#).await;
    let unbound = Fixture::new([Reply::Json(200, found(None))]);
    assert_eq!(bound_by(unbound, port).await, (refused("no slot"), vec!["GET".to_owned()]));
    let bound = Fixture::new([Reply::Json(200, found(Some("n1")))]);
    let moot = BindOutcome::NotNeeded(BindingState::Bound("n1".to_owned()));
    assert_eq!(bound_by(bound, port).await.0, moot, "it bound before it failed");
    let (port, _) = extender(500, "").await;
    let failed = format!("failed bind with extender at URL http://127.0.0.1:{port}/bind, code 500");
    let unbound = Fixture::new([Reply::Json(200, found(None))]);
    assert_eq!(bound_by(unbound, port).await.0, refused(&failed));
}

#[tokio::test]
async fn extender_binding_needs_the_lease() {
    let second = Duration::from_secs(1);
    let terms =
        LeaseTerms { lease_duration: 15 * second, renew_deadline: 10 * second, retry_period: 2 * second };
    let fence = Fence::with_terms(BootClock::of(|| Duration::from_secs(3_600)), &terms);
    let (port, calls) = extender(200, "{}").await;
    let (outcome, _) = bound_by(Fixture::behind([], fence), port).await;
    let BindOutcome::Refused { message } = outcome else { panic!("{outcome:?}") };
    assert!(message.contains("does not hold its lease"), "{message}");
    assert_eq!(calls.load(std::sync::atomic::Ordering::SeqCst), 0);
}
