//! The PodScheduled condition: its patch, retries, and merging of queued patches.

use super::*;

#[tokio::test(start_paused = true)]
async fn condition_patch_carries_the_pods_uid() {
    let mut fixture = Fixture::new([Reply::Done]);
    fixture.dispatcher.submit(Effect::Patch(unscheduled("why", Some("2026-11-20T19:18:14Z"))));
    fixture.answer().await;
    let asked = SentRequest {
        method: "PATCH".to_owned(),
        uri: "/api/v1/namespaces/default/pods/plain0/status".to_owned(),
        content_type: "application/strategic-merge-patch+json".to_owned(),
        body: json!({
            "metadata": { "uid": "u1" },
            "status": { "conditions": [{
                "lastProbeTime": null, "lastTransitionTime": "2026-11-20T19:18:14Z", "message": "why",
                "observedGeneration": 1, "reason": "Unschedulable", "status": "False", "type": "PodScheduled",
            }] },
        }),
    };
    assert_eq!(fixture.asked(), [asked]);
}

#[tokio::test(start_paused = true)]
async fn new_condition_gets_a_transition_time_in_seconds() {
    let mut fixture = Fixture::new([Reply::Done]);
    fixture.patch("why").await;
    let since = fixture.asked()[0].body["status"]["conditions"][0]["lastTransitionTime"].clone();
    let since = since.as_str().unwrap();
    assert_eq!(since.len(), "2026-11-20T19:18:14Z".len());
    since.parse::<jiff::Timestamp>().unwrap();
}

#[tokio::test(start_paused = true)]
async fn condition_patch_is_tried_four_times_on_transient_errors_only() {
    let conflict = || status(409, "Conflict", "the object has been modified");
    let mut fixture = Fixture::new([conflict(), Reply::Text(500, ""), Reply::Text(503, ""), conflict()]);
    fixture.patch("why").await;
    assert_eq!(fixture.asked().len(), 4);
    let another = "Operation cannot be fulfilled on pods \"plain0\": StorageError: invalid object, Code: 4, Key: /registry/pods/default/plain0, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: u1, UID in object meta: u2";
    for reply in [status(409, "Conflict", another), status(403, "Forbidden", "no"), Reply::Gone] {
        let mut fixture = Fixture::new([reply]);
        fixture.patch("why").await;
        assert_eq!(fixture.asked().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn binding_waits_for_a_patch_in_flight_and_drops_queued_ones() {
    let pause = Duration::from_secs(5);
    let mut fixture = Fixture::new([Reply::Slow(pause), created()]);
    fixture.dispatcher.submit(Effect::Patch(unscheduled("in flight", None)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    fixture.dispatcher.submit(Effect::Patch(unscheduled("waits", None)));
    fixture.dispatcher.submit(Effect::Bind { pod: pod(), node: "n1".to_owned() });
    for _ in 0..3 {
        fixture.answer().await;
    }
    let asked = fixture.asked();
    assert_eq!(fixture.methods(), ["PATCH", "POST"]);
    assert_eq!(asked[0].body["status"]["conditions"][0]["message"], "in flight");
}

#[tokio::test(start_paused = true)]
async fn queued_patches_merge_and_keep_the_newest_value_of_each_field() {
    let slow = || Reply::Slow(Duration::from_secs(5));
    let mut fixture = Fixture::new([slow(), slow()]);
    let submit = |fixture: &mut Fixture, message: Option<&str>, nomination| {
        let mut patch = unscheduled(message.unwrap_or_default(), None);
        patch.condition.take_if(|_| message.is_none());
        fixture.dispatcher.submit(Effect::Patch(StatusPatch { nomination, ..patch }));
    };
    submit(&mut fixture, Some("in flight"), Nomination::Keep);
    tokio::time::sleep(Duration::from_secs(1)).await;
    submit(&mut fixture, Some("first"), Nomination::Set("n1".to_owned()));
    submit(&mut fixture, None, Nomination::Clear);
    submit(&mut fixture, Some("last"), Nomination::Keep);
    // Merged patches return their credit at once.
    assert_eq!(fixture.dispatcher.pending().patches, 4);
    for _ in 0..2 {
        fixture.answer().await;
    }
    assert_eq!((fixture.dispatcher.pending().patches, fixture.asked().len()), (2, 1));
    for _ in 0..2 {
        fixture.answer().await;
    }
    let asked = fixture.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    let status = &asked[1].body["status"];
    assert_eq!(status["conditions"][0]["message"], "last");
    assert_eq!(status.get("nominatedNodeName"), Some(&Value::Null), "the nomination is cleared");
    assert_eq!(fixture.dispatcher.shared.waiting.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn retried_patch_is_merged_into_a_newer_one() {
    let conflict = status(409, "Conflict", "the object has been modified");
    let mut fixture = Fixture::new([conflict, Reply::Done]);
    let nominated = StatusPatch { nomination: Nomination::Set("n1".to_owned()), ..unscheduled("old", None) };
    fixture.dispatcher.submit(Effect::Patch(nominated));
    while fixture.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    fixture.dispatcher.submit(Effect::Patch(unscheduled("new", None)));
    for _ in 0..2 {
        fixture.answer().await;
    }
    let asked = fixture.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    let status = &asked[1].body["status"];
    assert_eq!(
        (&status["conditions"][0]["message"], &status["nominatedNodeName"]),
        (&json!("new"), &json!("n1"))
    );
}
