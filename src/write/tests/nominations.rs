//! The `nominatedNodeName` of a pod's status.

use super::*;

fn nominated(nomination: Nomination) -> StatusPatch {
    StatusPatch { pod: pod(), condition: None, nomination }
}

#[tokio::test(start_paused = true)]
async fn nomination_patch_stands_alone_or_joins_the_condition() {
    let mut fixture = Fixture::new((0..3).map(|_| Reply::Done));
    fixture.dispatcher.submit(Effect::Patch(nominated(Nomination::Set("n1".to_owned()))));
    fixture.answer().await;
    fixture.dispatcher.submit(Effect::Patch(nominated(Nomination::Clear)));
    fixture.answer().await;
    let both = StatusPatch { nomination: Nomination::Clear, ..unscheduled("why", None) };
    fixture.dispatcher.submit(Effect::Patch(both));
    fixture.answer().await;
    let bodies: Vec<Value> = fixture.asked().into_iter().map(|asked| asked.body).collect();
    assert_eq!(bodies[0], json!({"metadata": {"uid": "u1"}, "status": {"nominatedNodeName": "n1"}}));
    assert_eq!(bodies[1], json!({"metadata": {"uid": "u1"}, "status": {"nominatedNodeName": null}}));
    assert_eq!(bodies[2]["status"]["nominatedNodeName"], Value::Null);
    assert!(bodies[2]["status"].as_object().unwrap().contains_key("nominatedNodeName"));
    assert_eq!(bodies[2]["status"]["conditions"][0]["message"], "why");
}

#[tokio::test(start_paused = true)]
async fn cleared_nomination_survives_a_newer_patch() {
    let mut fixture = Fixture::new([Reply::Slow(Duration::from_secs(5)), created()]);
    fixture.dispatcher.submit(Effect::Patch(nominated(Nomination::Set("n1".to_owned()))));
    tokio::time::sleep(Duration::from_secs(1)).await;
    fixture.dispatcher.submit(Effect::Patch(nominated(Nomination::Set("n2".to_owned()))));
    fixture.dispatcher.submit(Effect::Patch(nominated(Nomination::Clear)));
    fixture.dispatcher.submit(Effect::Patch(unscheduled("newer", None)));
    for _ in 0..4 {
        fixture.answer().await;
    }
    let said: Vec<Value> =
        fixture.asked().into_iter().map(|asked| asked.body["status"]["nominatedNodeName"].clone()).collect();
    assert_eq!(said, [json!("n1"), Value::Null]);
    let last = &fixture.asked()[1].body["status"]["conditions"][0]["message"];
    assert_eq!(last, "newer");
}
