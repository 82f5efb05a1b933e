//! ResourceClaims: requests, and how responses are interpreted.

use super::*;
use crate::telemetry::metrics::Exposition;
use supercargo_core::model::device::{
    AllocatedDevice, Allocation, DeviceId, PoolId, SelectorRequirement, SelectorTerm,
};
use supercargo_core::model::effect::{ClaimName, VolumeChange};
use supercargo_core::model::time::Time;

const CLAIM: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

fn claim() -> ClaimName {
    let (namespace, name) = ("default".to_owned(), "c".to_owned());
    ClaimName { namespace, name, uid: "u-c".into(), version: "5".to_owned() }
}

fn allocation() -> Arc<Allocation> {
    let name = SelectorRequirement {
        key: "metadata.name".into(),
        operator: "In".into(),
        values: ["n1".into()].into(),
    };
    Arc::new(Allocation {
        results: vec![AllocatedDevice {
            request: "r".into(),
            device: DeviceId {
                pool: PoolId { driver: "gpu.example.com".into(), name: "n1".into() },
                device: "g0".into(),
            },
            admin_access: false,
            tolerations: [].into(),
            share: None,
            consumed: [].into(),
            binding_conditions: [].into(),
            binding_failure_conditions: [].into(),
        }],
        config: Vec::new(),
        node_selector: Some([SelectorTerm { expressions: Vec::new(), fields: vec![name] }].into()),
        allocated_at: Some(Time::from_secs(7)),
    })
}

fn allocation_body() -> Value {
    json!({
        "allocationTimestamp": "1970-01-01T00:00:07Z",
        "devices": {"results": [{"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "g0"}]},
        "nodeSelector": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
        ]},
    })
}

fn reserve(add_finalizer: bool, allocation: Option<Arc<Allocation>>) -> VolumeChange {
    VolumeChange::Reserve { claim: claim(), add_finalizer, allocation, stamps: false }
}

fn create() -> VolumeChange {
    VolumeChange::Create {
        namespace: "default".to_owned(),
        requests: vec![("container-0-request-0".to_owned(), "gpu".to_owned(), 2)],
        allocation: allocation(),
        mappings: vec![("main".to_owned(), "example.com/gpu".to_owned(), "container-0-request-0".to_owned())],
    }
}

async fn write(fixture: &mut Fixture, change: VolumeChange) -> WriteOutcome {
    fixture.dispatcher.submit(Effect::WriteVolume(VolumeWrite { write: 3, pod: pod(), change }));
    let events = fixture.answer().await;
    let Event::VolumeWritten { write: 3, outcome, .. } = &events[0] else { panic!("{events:?}") };
    outcome.clone()
}

/// The claim as the API server returns it.
fn shown(name: &str, version: &str, status: &Value) -> Reply {
    let metadata = json!({"namespace": "default", "name": name, "uid": "u-c", "resourceVersion": version});
    let body = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "status": status});
    Reply::Json(200, body)
}

fn conflict() -> Reply {
    status(409, "Conflict", "the object has been modified")
}

/// Method, path without query, content type and body of all requests.
fn requests(fixture: &Fixture) -> Vec<(String, String, String, Value)> {
    let split = |it: SentRequest| {
        let (path, query) = it.uri.split_once('?').expect("a time limit");
        assert_eq!(query, "timeout=10s");
        (it.method, path.to_owned(), it.content_type, it.body)
    };
    fixture.asked().into_iter().map(split).collect()
}

fn patch(path: String, body: Value) -> (String, String, String, Value) {
    ("PATCH".to_owned(), path, STRATEGIC.to_owned(), body)
}

fn reservation(version: &str) -> (String, String, String, Value) {
    let reserved = json!([{"resource": "pods", "name": "plain0", "uid": "u1"}]);
    let body = json!({
        "metadata": {"uid": "u-c", "resourceVersion": version},
        "status": {"allocation": allocation_body(), "reservedFor": reserved},
    });
    patch(format!("{CLAIM}/status"), body)
}

#[tokio::test(start_paused = true)]
async fn new_devices_follow_the_finalizer_with_its_version() {
    let mut fixture = Fixture::new([shown("c", "6", &json!({})), shown("c", "7", &json!({}))]);
    assert_eq!(write(&mut fixture, reserve(true, Some(allocation()))).await, WriteOutcome::Done);
    let metadata = json!({
        "uid": "u-c", "resourceVersion": "5", "finalizers": ["resource.kubernetes.io/delete-protection"],
    });
    let finalizer = patch(CLAIM.to_owned(), json!({ "metadata": metadata }));
    assert_eq!(requests(&fixture), [finalizer, reservation("6")]);
}

#[tokio::test(start_paused = true)]
async fn shared_claim_gets_a_missing_timestamp() {
    let mut fixture = Fixture::new([shown("c", "6", &json!({}))]);
    let change =
        VolumeChange::Reserve { claim: claim(), add_finalizer: false, allocation: None, stamps: true };
    assert_eq!(write(&mut fixture, change).await, WriteOutcome::Done);
    let [(_, _, _, body)] = &requests(&fixture)[..] else { panic!("one request") };
    let at = body["status"]["allocation"]["allocationTimestamp"].as_str().expect("a time");
    assert!(at.len() == "2026-11-24T00:00:00Z".len() && at.ends_with('Z'), "{at}");
    assert_eq!(body["status"]["allocation"].as_object().map(serde_json::Map::len), Some(1));
}

#[tokio::test(start_paused = true)]
async fn shared_claim_gets_only_a_reservation() {
    let mut fixture = Fixture::new([shown("c", "6", &json!({}))]);
    assert_eq!(write(&mut fixture, reserve(false, None)).await, WriteOutcome::Done);
    let reserved = json!([{"resource": "pods", "name": "plain0", "uid": "u1"}]);
    let body =
        json!({"metadata": {"uid": "u-c", "resourceVersion": "5"}, "status": {"reservedFor": reserved}});
    assert_eq!(requests(&fixture), [patch(format!("{CLAIM}/status"), body)]);
}

#[tokio::test(start_paused = true)]
async fn conflict_of_a_new_allocation_is_tried_again_with_the_current_claim() {
    let mut fixture =
        Fixture::new([conflict(), shown("c", "8", &json!({})), shown("c", "9", &json!({})), Reply::Done]);
    let outcome = write(&mut fixture, reserve(false, Some(allocation()))).await;
    assert_eq!(outcome, WriteOutcome::Done);
    assert_eq!(
        fixture.methods(),
        ["PATCH", "GET", "PATCH", "PATCH"],
        "the current claim lacks the finalizer"
    );
    assert_eq!(requests(&fixture)[3], reservation("9"));

    let replies = (0..5).flat_map(|_| [conflict(), protected()]).take(9);
    let mut fixture = Fixture::new(replies);
    let outcome = write(&mut fixture, reserve(false, Some(allocation()))).await;
    let message = "add allocation and reservation to claim default/c: the object has been modified";
    assert_eq!(outcome, WriteOutcome::Refused { message: message.to_owned() });
    assert_eq!(fixture.methods().len(), 9, "five tries");
}

fn protected() -> Reply {
    let Reply::Json(code, mut body) = shown("c", "8", &json!({})) else { unreachable!() };
    body["metadata"]["finalizers"] = json!(["resource.kubernetes.io/delete-protection"]);
    Reply::Json(code, body)
}

#[tokio::test(start_paused = true)]
async fn conflict_with_a_changed_claim_is_refused() {
    let deleted = || {
        let Reply::Json(code, mut body) = protected() else { unreachable!() };
        body["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        Reply::Json(code, body)
    };
    let table = [
        (
            shown("c", "8", &json!({"allocation": {}})),
            "claim default/c got allocated elsewhere in the meantime",
        ),
        (deleted(), "claim default/c got deleted in the meantime"),
        (
            Reply::Broken,
            "get updated claim default/c after conflict: Get \"https://10.0.0.1:6443/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c\": read: connection reset by peer",
        ),
    ];
    for (reply, message) in table {
        let mut fixture = Fixture::new([conflict(), reply]);
        let outcome = write(&mut fixture, reserve(false, Some(allocation()))).await;
        assert_eq!(outcome, WriteOutcome::Refused { message: message.to_owned() });
    }
    let mut fixture = Fixture::new([conflict()]);
    let message = "add reservation to claim default/c: the object has been modified".to_owned();
    assert_eq!(write(&mut fixture, reserve(false, None)).await, WriteOutcome::Refused { message });
}

#[tokio::test(start_paused = true)]
async fn lost_reservation_is_unknown() {
    let mut fixture = Fixture::new([Reply::Broken]);
    let outcome = write(&mut fixture, reserve(false, Some(allocation()))).await;
    assert!(matches!(outcome, WriteOutcome::Unknown { .. }), "{outcome:?}");
    assert_eq!(fixture.methods(), ["PATCH"]);
}

#[tokio::test(start_paused = true)]
async fn claim_for_extended_resources_is_named_before_it_gets_devices() {
    let made = "plain0-extended-resources-x7k2p";
    let mut fixture = Fixture::new([shown(made, "5", &json!({})), Reply::Done, shown(made, "6", &json!({}))]);
    assert_eq!(write(&mut fixture, create()).await, WriteOutcome::Done);
    let claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2});
    let post = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "generateName": "plain0-extended-resources-", "namespace": "default",
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "plain0", "uid": "u1", "controller": true}],
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        },
        "spec": {"devices": {"requests": [{"name": "container-0-request-0", "exactly": exactly}]}},
    });
    let mapping = json!({
        "containerName": "main", "resourceName": "example.com/gpu", "requestName": "container-0-request-0",
    });
    let named = json!({
        "metadata": {"uid": "u1"},
        "status": {"extendedResourceClaimStatus": {"resourceClaimName": made, "requestMappings": [mapping]}},
    });
    let (method, _, content_type, body) = reservation("5");
    let expected = [
        ("POST".to_owned(), claims.to_owned(), "application/json".to_owned(), post),
        patch("/api/v1/namespaces/default/pods/plain0/status".to_owned(), named),
        (method, format!("{claims}/{made}/status"), content_type, body),
    ];
    assert_eq!(requests(&fixture), expected);
    let text = Exposition::new(Arc::clone(&fixture.dispatcher.shared.metrics)).render().await;
    let counted = "scheduler_resourceclaim_creates_total{status=\"success\"} 1";
    assert!(text.lines().any(|line| line == counted), "{text}");
}

#[tokio::test(start_paused = true)]
async fn claim_whose_pod_or_devices_are_refused_is_deleted() {
    let made = || shown("plain0-extended-resources-x7k2p", "5", &json!({}));
    let refused = || status(422, "Invalid", "no");
    let table = [
        (
            vec![made(), refused(), made(), made()],
            "update pod default/plain0 ExtendedResourceClaimStatus: no",
        ),
        (
            vec![made(), Reply::Done, refused(), made(), made()],
            "add allocation and reservation to claim default/plain0-extended-resources-x7k2p: no",
        ),
    ];
    for (replies, message) in table {
        let mut fixture = Fixture::new(replies);
        let outcome = write(&mut fixture, create()).await;
        assert_eq!(outcome, WriteOutcome::Refused { message: message.to_owned() });
        let all = requests(&fixture);
        let [unprotect, delete] = all.last_chunk().expect("a patch and a deletion");
        let finalizers = json!({
            "uid": "u-c", "$deleteFromPrimitiveList/finalizers": ["resource.kubernetes.io/delete-protection"],
        });
        assert_eq!((&*unprotect.0, &unprotect.3), ("PATCH", &json!({ "metadata": finalizers })));
        assert_eq!((&*delete.0, &delete.3["preconditions"]), ("DELETE", &json!({"uid": "u-c"})));
    }
}

#[tokio::test(start_paused = true)]
async fn claim_with_devices_of_unknown_outcome_stays() {
    let made = || shown("plain0-extended-resources-x7k2p", "5", &json!({}));
    let mut fixture = Fixture::new([made(), Reply::Done, Reply::Broken]);
    let outcome = write(&mut fixture, create()).await;
    assert!(matches!(outcome, WriteOutcome::Unknown { .. }), "{outcome:?}");
    assert_eq!(fixture.methods(), ["POST", "PATCH", "PATCH"]);

    let mut fixture = Fixture::new([Reply::Silence]);
    let outcome = write(&mut fixture, create()).await;
    assert!(matches!(outcome, WriteOutcome::Unknown { .. }), "{outcome:?}");
    let mut fixture = Fixture::new([shown("another-x7k2p", "5", &json!({}))]);
    let outcome = write(&mut fixture, create()).await;
    assert!(matches!(outcome, WriteOutcome::Unknown { .. }), "not an answer to this request: {outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn reservation_and_devices_are_withdrawn_from_this_claim_only() {
    let mut fixture = Fixture::new((0..4).map(|_| shown("c", "6", &json!({}))));
    for change in [
        VolumeChange::Unreserve { claim: claim() },
        VolumeChange::Deallocate { claim: claim() },
        VolumeChange::Delete { claim: claim() },
    ] {
        assert_eq!(write(&mut fixture, change).await, WriteOutcome::Done);
    }
    let all = requests(&fixture);
    let removed = json!([{"$patch": "delete", "uid": "u1"}]);
    let unreserved = json!({"metadata": {"uid": "u-c"}, "status": {"reservedFor": removed}});
    assert_eq!(all[0], patch(format!("{CLAIM}/status"), unreserved), "as upstream");
    let cleared = json!({
        "metadata": {"uid": "u-c", "resourceVersion": "5"}, "status": {"allocation": null, "reservedFor": null},
    });
    let merge = "application/merge-patch+json".to_owned();
    assert_eq!(all[1], ("PATCH".to_owned(), format!("{CLAIM}/status"), merge, cleared));
    let methods: Vec<_> = all.iter().map(|(method, path, ..)| (&**method, &**path)).collect();
    assert_eq!(methods[2..], [("PATCH", CLAIM), ("DELETE", CLAIM)]);
}
