//! Tests of the watch of PodGroups: it follows the version of the API that the server serves.

use super::*;

/// The refusal of a list, and the discovery document that confirms it.
fn absent() -> Vec<Reply> {
    let [groups, _] = discovery("apps", "v1", &[]);
    vec![Reply::Json(404, failure(404, "the server could not find the requested resource")), groups]
}

fn group(version: &str, uid: &str) -> Value {
    json!({"type": "ADDED", "object": {
        "apiVersion": format!("scheduling.k8s.io/{version}"), "kind": "PodGroup",
        "metadata": {"name": uid, "namespace": "default", "uid": uid, "resourceVersion": "4"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }})
}

fn list_end(version: &str) -> Value {
    let mut end = bookmark("5", true);
    end["object"]["apiVersion"] = json!(format!("scheduling.k8s.io/{version}"));
    end["object"]["kind"] = json!("PodGroup");
    end
}

fn started(replies: Vec<Vec<Reply>>) -> Fixture {
    let replies = replies.into_iter().flatten().collect();
    let script = Script { replies: Mutex::new(replies), ..Script::default() };
    Fixture::starting(script, Kind::PodGroup, |start| start.groups())
}

/// Returns the version of each list that was asked for.
fn lists(fixture: &Fixture) -> Vec<String> {
    let asked = fixture.asked();
    let lists = asked.iter().filter(|uri| uri.contains("sendInitialEvents=true"));
    lists.map(|uri| uri.split('/').nth(3).expect("a path of a group").to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn older_version_is_watched_until_an_upgrade_replaces_it_by_the_newer() {
    let gone = Reply::Json(410, failure(410, "too old resource version"));
    let mut fixture = started(vec![
        absent(),
        vec![Reply::Lines(vec![group("v1alpha2", "a"), list_end("v1alpha2")]), gone],
        absent(),
        vec![Reply::Open(vec![group("v1beta1", "b"), list_end("v1beta1")])],
    ]);
    let of_older = ["PodGroup list", "group a of V1Alpha2", "PodGroup list ends"];
    assert_eq!(fixture.events::<3>().await, of_older);
    assert_eq!(fixture.readiness(), Ok(()));
    let of_newer = ["PodGroup list", "group b of V1Beta1", "PodGroup list ends"];
    assert_eq!(fixture.events::<3>().await, of_newer);
    assert_eq!(lists(&fixture), ["v1beta1", "v1alpha2", "v1alpha2", "v1beta1"]);
}

#[tokio::test(start_paused = true)]
async fn groups_are_empty_until_a_version_is_served() {
    let appears = vec![Reply::Open(vec![group("v1beta1", "b"), list_end("v1beta1")])];
    let mut fixture = started(vec![absent(), absent(), absent(), absent(), appears]);
    assert_eq!(fixture.events::<2>().await, ["PodGroup list", "PodGroup list ends"]);
    assert_eq!(fixture.readiness(), Ok(()));
    assert_eq!(fixture.events::<3>().await[1], "group b of V1Beta1");
    assert_eq!(lists(&fixture), ["v1beta1", "v1alpha2", "v1beta1", "v1alpha2", "v1beta1"]);
}

/// Behind a load balancer, another server may still serve the version.
#[tokio::test(start_paused = true)]
async fn known_groups_are_kept_while_no_version_is_served() {
    let gone = vec![Reply::Json(410, failure(410, "too old resource version"))];
    let served = || vec![Reply::Lines(vec![group("v1beta1", "b"), list_end("v1beta1")])];
    let mut fixture = started(vec![served(), gone, absent(), absent(), absent(), absent(), served()]);
    assert_eq!(fixture.events::<3>().await[2], "PodGroup list ends");
    // The next list is that of the version that is served again: no empty list is reported in between.
    assert_eq!(fixture.events::<3>().await[1], "group b of V1Beta1");
    let asked = lists(&fixture);
    assert_eq!(asked[..6], ["v1beta1", "v1beta1", "v1alpha2", "v1beta1", "v1alpha2", "v1beta1"]);
}
