//! Watches from a version in the API server's future, which stay silent.

use super::*;

const LIFE: Duration = Duration::from_secs(41);
const PROBE: &str = "/api/v1/nodes?limit=1";

fn at(version: &str) -> Value {
    json!({ "kind": "NodeList", "apiVersion": "v1", "metadata": { "resourceVersion": version }, "items": [] })
}

/// Returns the requests of a watch at version 5 that was quiet for a lifetime, after this answer to the probe.
async fn asked_after(probe: Reply) -> Vec<String> {
    let change = || Reply::Open(vec![node("MODIFIED", "a", "6")]);
    let mut fixture = Fixture::new::<Node>([listed(), Reply::Quiet(LIFE, vec![]), probe, listed(), change()]);
    fixture.events::<4>().await;
    fixture.asked()
}

#[tokio::test(start_paused = true)]
async fn silent_watch_of_a_future_version_forces_a_relist() {
    let protobuf = enveloped("NodeList", &field(1, &field(2, b"4")));
    for probe in [Reply::Json(200, at("4")), Reply::Protobuf(200, protobuf)] {
        let asked = asked_after(probe).await;
        assert_eq!(asked[..4], [STREAM.to_owned(), follow("5"), PROBE.to_owned(), STREAM.to_owned()]);
    }
}

#[tokio::test(start_paused = true)]
async fn silent_watch_of_a_known_version_resumes() {
    let other_kind =
        json!({ "kind": "PodList", "apiVersion": "v1", "metadata": { "resourceVersion": "4" }, "items": [] });
    let probes = [
        Reply::Json(200, at("5")),
        Reply::Json(200, at("900")),
        Reply::Json(200, at("")),
        Reply::Json(200, at("opaque")),
        Reply::Json(200, other_kind),
        Reply::Json(500, failure(500, "no")),
        Reply::Protobuf(200, enveloped("NodeList", &field(1, &field(2, b"5")))),
        Reply::Away,
    ];
    for probe in probes {
        let asked = asked_after(probe).await;
        assert_eq!(asked, [STREAM.to_owned(), follow("5"), PROBE.to_owned(), follow("5")]);
    }
}

#[tokio::test(start_paused = true)]
async fn watch_with_an_event_is_not_probed() {
    let change = || Reply::Open(vec![node("MODIFIED", "a", "7")]);
    let news = Reply::Quiet(LIFE, vec![node("MODIFIED", "a", "6")]);
    let mut fixture = Fixture::new::<Node>([listed(), news, change()]);
    fixture.events::<5>().await;
    assert_eq!(fixture.asked(), [STREAM.to_owned(), follow("5"), follow("6")]);
}
