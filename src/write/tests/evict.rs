//! Evictions and nominations.

use supercargo_core::model::effect::{Disruption, Eviction};
use supercargo_core::model::event::EvictOutcome;

use super::*;

const OTHER_UID: &str = "Operation cannot be fulfilled on pods \"plain0\": StorageError: invalid object, Code: 4, Key: /registry/pods/default/plain0, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: u1, UID in object meta: u2";

pub(super) fn eviction() -> Eviction {
    let condition = Disruption {
        message: "supercargo: preempting to accommodate a higher priority pod".to_owned(),
        observed_generation: 3,
    };
    Eviction { pod: pod(), condition: Some(condition) }
}

fn done() -> Reply {
    Reply::Done
}

fn found(uid: &str, deleted: Option<&str>) -> Reply {
    Reply::Json(200, shown(uid, None, deleted))
}

fn failed_with(message: &str) -> EvictOutcome {
    EvictOutcome::Failed { message: message.to_owned() }
}

async fn evict(fixture: &mut Fixture, eviction: Eviction) -> EvictOutcome {
    fixture.dispatcher.submit(Effect::Evict(eviction));
    let events = fixture.answer().await;
    assert!(matches!(events[1], Event::Credits { lane: Lane::Evict, count: 1 }), "{events:?}");
    let Event::EvictFinished { uid, outcome } = &events[0] else { panic!("{events:?}") };
    assert_eq!(**uid, *"u1");
    outcome.clone()
}

/// Runs one eviction; returns its outcome and the methods of its requests.
async fn conversation(replies: impl IntoIterator<Item = Reply>) -> (EvictOutcome, String) {
    let mut fixture = Fixture::new(replies);
    let outcome = evict(&mut fixture, eviction()).await;
    (outcome, fixture.methods().join(" "))
}

#[tokio::test(start_paused = true)]
async fn victim_gets_its_disruption_condition_then_is_deleted_by_uid() {
    let mut fixture = Fixture::new([done(), done()]);
    assert_eq!(evict(&mut fixture, eviction()).await, EvictOutcome::Deleted);
    let mut asked = fixture.asked();
    let since = asked[0].body["status"]["conditions"][0]["lastTransitionTime"].take();
    assert_eq!(since.as_str().unwrap().len(), "2026-11-20T19:18:14Z".len());
    let mark = SentRequest {
        method: "PATCH".to_owned(),
        uri: "/api/v1/namespaces/default/pods/plain0/status".to_owned(),
        content_type: "application/strategic-merge-patch+json".to_owned(),
        body: json!({
            "metadata": { "uid": "u1" },
            "status": { "conditions": [{
                "lastProbeTime": null, "lastTransitionTime": null, "observedGeneration": 3,
                "message": "supercargo: preempting to accommodate a higher priority pod",
                "reason": "PreemptionByScheduler", "status": "True", "type": "DisruptionTarget",
            }] },
        }),
    };
    let delete = SentRequest {
        method: "DELETE".to_owned(),
        uri: "/api/v1/namespaces/default/pods/plain0?timeout=10s".to_owned(),
        content_type: "application/json".to_owned(),
        body: json!({ "kind": "DeleteOptions", "apiVersion": "v1", "preconditions": { "uid": "u1" } }),
    };
    assert_eq!(asked, [mark, delete]);
}

#[tokio::test(start_paused = true)]
async fn victim_with_a_disruption_condition_is_only_deleted() {
    let mut fixture = Fixture::new([done()]);
    let outcome = evict(&mut fixture, Eviction { condition: None, ..eviction() }).await;
    assert_eq!((outcome, fixture.methods()), (EvictOutcome::Deleted, vec!["DELETE".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn deleted_or_recreated_victim_is_left_alone() {
    let gone = || Reply::Gone;
    let another = || status(409, "Conflict", OTHER_UID);
    let immutable = "Pod \"plain0\" is invalid: metadata.uid: Invalid value: \"u1\": field is immutable";
    for reply in [gone(), another(), status(422, "Invalid", immutable)] {
        assert_eq!(conversation([reply]).await, (EvictOutcome::Gone, "PATCH".to_owned()));
    }
    for reply in [gone(), another()] {
        assert_eq!(conversation([done(), reply]).await, (EvictOutcome::Gone, "PATCH DELETE".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn forbidden_eviction_fails_and_keeps_the_victim() {
    let text = "pods \"plain0\" is forbidden: no";
    let refused = || status(403, "Forbidden", text);
    assert_eq!(conversation([refused()]).await, (failed_with(text), "PATCH".to_owned()));
    assert_eq!(conversation([done(), refused()]).await, (failed_with(text), "PATCH DELETE".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn disruption_condition_is_retried_on_transient_errors_only() {
    let replies = [Reply::Text(500, ""), Reply::Broken, status(409, "Conflict", "modified"), done(), done()];
    let (outcome, methods) = conversation(replies).await;
    assert_eq!((outcome, &*methods), (EvictOutcome::Deleted, "PATCH PATCH PATCH PATCH DELETE"));
    let (outcome, methods) = conversation((0..4).map(|_| Reply::Text(503, "down"))).await;
    assert!(matches!(outcome, EvictOutcome::Failed { .. }));
    assert_eq!(methods, "PATCH PATCH PATCH PATCH");
}

#[tokio::test(start_paused = true)]
async fn lost_deletion_response_is_resolved_by_a_read_not_a_second_delete() {
    let lost = || [Reply::Broken, Reply::Silence, Reply::Text(500, "")];
    let going = || [found("u1", Some("2026-11-20T19:18:14Z")), found("u2", None), Reply::Gone];
    for (lost, going) in lost().into_iter().zip(going()) {
        let result = conversation([done(), lost, going]).await;
        assert_eq!(result, (EvictOutcome::Deleted, "PATCH DELETE GET".to_owned()));
    }
    for lost in lost() {
        let (outcome, methods) = conversation([done(), lost, found("u1", None)]).await;
        assert!(matches!(outcome, EvictOutcome::Failed { .. }), "{outcome:?}");
        assert_eq!(methods, "PATCH DELETE GET");
    }
    let (outcome, _) = conversation([done(), Reply::Broken, Reply::Broken]).await;
    assert!(matches!(outcome, EvictOutcome::Failed { .. }), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn slow_deletion_is_sent_once() {
    let mut fixture = Fixture::new([done(), Reply::Slow(Duration::from_secs(9))]);
    let began = tokio::time::Instant::now();
    assert_eq!(evict(&mut fixture, eviction()).await, EvictOutcome::Deleted);
    assert_eq!((began.elapsed().as_secs(), fixture.methods().len()), (9, 2));
}

#[tokio::test(start_paused = true)]
async fn eviction_waits_for_a_binding_of_the_same_pod() {
    let mut fixture = Fixture::new([Reply::Slow(Duration::from_secs(5)), done(), done()]);
    fixture.dispatcher.submit(Effect::Bind { pod: pod(), node: "n1".to_owned() });
    fixture.dispatcher.submit(Effect::Evict(eviction()));
    fixture.answer().await;
    fixture.answer().await;
    assert_eq!(fixture.methods(), ["POST", "PATCH", "DELETE"]);
}

#[tokio::test(start_paused = true)]
async fn nomination_is_patched_with_the_condition_or_alone() {
    let table = [
        (Nomination::Keep, None),
        (Nomination::Clear, Some(Value::Null)),
        (Nomination::Set("n1".to_owned()), Some(json!("n1"))),
    ];
    for (nomination, sent) in table {
        let mut fixture = Fixture::new([done()]);
        fixture.dispatcher.submit(Effect::Patch(StatusPatch { nomination, ..unscheduled("why", None) }));
        fixture.answer().await;
        let status = fixture.asked()[0].body["status"].clone();
        assert_eq!(status.get("nominatedNodeName").cloned(), sent);
        assert_eq!(status["conditions"][0]["message"], "why");
    }
    let mut fixture = Fixture::new([done()]);
    let alone = StatusPatch { pod: pod(), condition: None, nomination: Nomination::Clear };
    fixture.dispatcher.submit(Effect::Patch(alone));
    fixture.answer().await;
    let body = json!({ "metadata": { "uid": "u1" }, "status": { "nominatedNodeName": null } });
    assert_eq!(fixture.asked()[0].body, body);
}
