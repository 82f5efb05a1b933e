//! Volume and claim writes: requests, and how responses are interpreted.

use super::*;
use supercargo_core::model::effect::{ClaimName, VolumeChange};

pub(super) fn bind(by_controller: bool) -> VolumeChange {
    VolumeChange::Bind {
        volume: "v".to_owned(),
        version: "7".to_owned(),
        claim: ClaimName {
            namespace: "default".to_owned(),
            name: "c".to_owned(),
            uid: "u-c".into(),
            version: "5".to_owned(),
        },
        by_controller,
    }
}

fn select() -> VolumeChange {
    VolumeChange::SelectNode {
        namespace: "default".to_owned(),
        name: "c".to_owned(),
        version: "5".to_owned(),
        node: "n1".to_owned(),
    }
}

async fn write(fixture: &mut Fixture, change: VolumeChange) -> WriteOutcome {
    fixture.dispatcher.submit(Effect::WriteVolume(VolumeWrite { write: 3, pod: pod(), change }));
    let events = fixture.answer().await;
    assert!(matches!(events[1], Event::Credits { lane: Lane::Volume, count: 1 }), "{events:?}");
    let Event::VolumeWritten { uid, write: 3, outcome } = &events[0] else { panic!("{events:?}") };
    assert_eq!(**uid, *"u1");
    outcome.clone()
}

fn patched(uri: &str, body: Value) -> SentRequest {
    SentRequest {
        method: "PATCH".to_owned(),
        uri: uri.to_owned(),
        content_type: "application/merge-patch+json".to_owned(),
        body,
    }
}

#[tokio::test(start_paused = true)]
async fn volume_binding_patch_carries_the_version_of_the_decision() {
    let mut fixture = Fixture::new((0..2).map(|_| Reply::Done));
    assert_eq!(write(&mut fixture, bind(true)).await, WriteOutcome::Done);
    assert_eq!(write(&mut fixture, bind(false)).await, WriteOutcome::Done);
    let uri = "/api/v1/persistentvolumes/v?timeout=10s";
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "c", "uid": "u-c",
        "resourceVersion": "5",
    });
    let annotations = json!({"pv.kubernetes.io/bound-by-controller": "yes"});
    let by_us = json!({
        "metadata": {"resourceVersion": "7", "annotations": annotations}, "spec": {"claimRef": claim},
    });
    let by_person = json!({"metadata": {"resourceVersion": "7"}, "spec": {"claimRef": claim}});
    assert_eq!(fixture.asked(), [patched(uri, by_us), patched(uri, by_person)]);
}

#[tokio::test(start_paused = true)]
async fn selected_node_patch_carries_the_version_of_the_decision() {
    let mut fixture = Fixture::new([Reply::Done]);
    assert_eq!(write(&mut fixture, select()).await, WriteOutcome::Done);
    let annotations = json!({"volume.kubernetes.io/selected-node": "n1"});
    let body = json!({"metadata": {"resourceVersion": "5", "annotations": annotations}});
    let uri = "/api/v1/namespaces/default/persistentvolumeclaims/c?timeout=10s";
    assert_eq!(fixture.asked(), [patched(uri, body)]);
}

#[tokio::test(start_paused = true)]
async fn refused_write_keeps_the_api_servers_message() {
    let conflict = "Operation cannot be fulfilled on persistentvolumes \"v\": the object has been modified; please apply your changes to the latest version and try again";
    let table = [
        (409, "Conflict", conflict),
        (403, "Forbidden", "persistentvolumes \"v\" is forbidden"),
        (422, "Invalid", "PersistentVolume \"v\" is invalid"),
    ];
    for (code, reason, message) in table {
        let mut fixture = Fixture::new([status(code, reason, message)]);
        let outcome = write(&mut fixture, bind(true)).await;
        assert_eq!(outcome, WriteOutcome::Refused { message: message.to_owned() });
    }
}

#[tokio::test(start_paused = true)]
async fn write_without_a_response_is_unknown_and_sent_once() {
    let url = "Patch \"https://10.0.0.1:6443/api/v1/namespaces/default/persistentvolumeclaims/c\"";
    let table = [
        (status(500, "InternalError", "Internal error occurred: x"), "Internal error occurred: x".to_owned()),
        (Reply::Broken, format!("{url}: read: connection reset by peer")),
        (Reply::Silence, format!("{url}: context deadline exceeded")),
    ];
    for (reply, message) in table {
        let mut fixture = Fixture::new([reply]);
        assert_eq!(write(&mut fixture, select()).await, WriteOutcome::Unknown { message });
        assert_eq!(fixture.asked().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn refusal_after_an_ambiguous_write_is_unknown() {
    let mut fixture = Fixture::new([Reply::Later(503, 1), status(409, "Conflict", "modified")]);
    let outcome = write(&mut fixture, select()).await;
    assert_eq!(outcome, WriteOutcome::Unknown { message: "modified".to_owned() });
}

#[tokio::test(start_paused = true)]
async fn slow_volume_writes_do_not_delay_bindings() {
    let mut fixture = Fixture::new([Reply::Silence, created()]);
    let change = select();
    fixture.dispatcher.submit(Effect::WriteVolume(VolumeWrite { write: 1, pod: pod(), change }));
    tokio::task::yield_now().await;
    fixture.dispatcher.submit(Effect::Bind { pod: pod(), node: "n1".to_owned() });
    let events = fixture.answer().await;
    assert!(matches!(events[0], Event::BindFinished { outcome: BindOutcome::Accepted, .. }), "{events:?}");
    assert_eq!(fixture.dispatcher.pending().volumes, 1);
}
