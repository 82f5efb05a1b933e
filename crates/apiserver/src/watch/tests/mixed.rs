//! Answers to other requests: lists and events of another kind, and bookmarks that name no version, count for nothing.

use super::*;

fn page(api_version: &str, kind: &str) -> Value {
    let other = json!({ "metadata": { "name": "other", "resourceVersion": "4" } });
    json!({ "kind": kind, "apiVersion": api_version, "metadata": { "resourceVersion": "9" }, "items": [other] })
}

fn other(change: &str) -> Value {
    let metadata = json!({ "name": "other", "resourceVersion": "9", "annotations": { "k8s.io/initial-events-end": "true" } });
    json!({ "type": change, "object": { "kind": "Service", "apiVersion": "v1", "metadata": metadata } })
}

/// A bookmark that ends a list, of another kind.
fn other_frame() -> Vec<u8> {
    let mut frame = bookmark_frame("9", true);
    let at = frame.windows(4).position(|part| part == b"Node").unwrap();
    frame[at] = b'C';
    frame
}

/// Returns the events up to the end of the first complete list.
async fn first_list(fixture: &mut Fixture) -> Vec<String> {
    let mut events = Vec::new();
    while events.last().is_none_or(|last| last != "Node list ends") {
        events.push(fixture.event().await);
    }
    events.retain(|event| event != "Node list");
    events
}

#[tokio::test(start_paused = true)]
async fn list_of_another_kind_is_rejected() {
    let no_stream = || Reply::Json(422, failure(422, "sendInitialEvents is forbidden"));
    let message = field(1, &field(2, b"9"));
    let cases = [
        vec![no_stream(), Reply::Json(200, page("v1", "ServiceList"))],
        vec![no_stream(), Reply::Json(200, page("v2", "NodeList"))],
        vec![no_stream(), Reply::Json(200, page("v1", "Node"))],
        vec![no_stream(), Reply::Json(200, page("", ""))],
        vec![no_stream(), Reply::Protobuf(200, enveloped("ServiceList", &message))],
        vec![Reply::Lines(vec![other("ADDED"), other("BOOKMARK")])],
        vec![Reply::Lines(vec![other("BOOKMARK")])],
        vec![Reply::Frames(64, other_frame())],
        vec![Reply::Lines(vec![bookmark("", true)])],
        vec![Reply::Frames(64, bookmark_frame("", true))],
    ];
    for (case, mut replies) in cases.into_iter().enumerate() {
        let true_page = json!({
            "kind": "NodeList", "apiVersion": "v1", "metadata": { "resourceVersion": "5" },
            "items": [node("", "a", "3")["object"]],
        });
        let is_by_pages = replies.len() == 1;
        replies.push(if is_by_pages { Reply::Json(200, true_page) } else { listed() });
        let wanted = replies.len();
        let mut fixture = Fixture::new::<Node>(replies);
        assert_eq!(first_list(&mut fixture).await, ["node a", "Node list ends"], "case {case}");
        assert!(fixture.asked().len() >= wanted, "case {case}: {:?}", fixture.asked());
    }
}

#[tokio::test(start_paused = true)]
async fn event_of_another_kind_or_without_version_forces_a_relist() {
    let no_version = |change: &str| json!({ "type": change, "object": node(change, "other", "")["object"] });
    let not_an_error = json!({ "type": "ERROR", "object": node("ERROR", "other", "9")["object"] });
    let cases = [
        Reply::Lines(vec![other("ADDED")]),
        Reply::Lines(vec![other("DELETED")]),
        Reply::Lines(vec![other("BOOKMARK")]),
        Reply::Frames(64, other_frame()),
        Reply::Lines(vec![bookmark("", false)]),
        Reply::Frames(64, bookmark_frame("", false)),
        Reply::Lines(vec![no_version("MODIFIED")]),
        Reply::Lines(vec![not_an_error]),
    ];
    for (case, reply) in cases.into_iter().enumerate() {
        let mut fixture = Fixture::new::<Node>([listed(), reply, listed()]);
        let events = fixture.events::<6>().await;
        assert_eq!(events[3..], ["Node list", "node a", "Node list ends"], "case {case}");
        assert_eq!(fixture.asked()[..3], [STREAM.to_owned(), follow("5"), STREAM.to_owned()], "case {case}");
    }
}

#[tokio::test(start_paused = true)]
async fn oversized_frame_is_rejected_by_its_length() {
    let huge = Reply::Frames(4, vec![0x7f, 0xff, 0xff, 0xff, 0]);
    let mut fixture = Fixture::new::<Node>([listed(), huge, listed()]);
    let events = fixture.events::<6>().await;
    assert_eq!(events[3..], ["Node list", "node a", "Node list ends"]);
}
