//! Watches that are answered and deliver nothing: they count as failing.

use super::*;

const MINUTES: Duration = Duration::from_secs(600);

/// Returns what the health check says ten minutes after a list that is followed by these responses, the last of them
/// repeated.
async fn health_after(replies: Vec<Reply>) -> Result<(), String> {
    let last = replies.last().cloned().expect("a response to repeat");
    let replies = [listed()].into_iter().chain(replies).collect();
    let mut fixture =
        Fixture::of::<Node>(Script { replies: Mutex::new(replies), cycle: vec![last], ..Script::default() });
    let end = tokio::time::Instant::now() + MINUTES;
    while let Ok(item) = tokio::time::timeout_at(end, fixture.items.recv()).await {
        let (convert, _) = item.expect("a watch sends objects");
        convert(&mut fixture.tables);
    }
    Readiness { states: [Arc::clone(&fixture.state)].into() }.check_failing(FAILING_MAX)
}

#[tokio::test(start_paused = true)]
async fn answers_that_deliver_nothing_end_no_failure() {
    let services = json!({ "kind": "ServiceList", "apiVersion": "v1", "metadata": { "resourceVersion": "9" }, "items": [] });
    let expired = || Reply::Json(410, failure(410, "too old resource version: 5 (7)"));
    let cases = [
        ("a head, then silence", vec![Reply::Open(vec![])]),
        ("a page of a proxy", vec![Reply::Json(200, json!("<html>"))]),
        ("an empty object", vec![Reply::Json(200, json!({}))]),
        ("a list of another kind", vec![expired(), Reply::Json(200, services)]),
        ("a bookmark of the same version", vec![Reply::Lines(vec![bookmark("5", false)])]),
        ("an old event", vec![Reply::Lines(vec![node("MODIFIED", "a", "4")])]),
        (
            "a list without an end",
            vec![expired(), Reply::Endless(Duration::from_secs(40), node("ADDED", "a", "3"))],
        ),
    ];
    for (name, replies) in cases {
        let health = health_after(replies).await;
        let failing = health.expect_err(name);
        assert!(failing.starts_with("watch of Node has been failing for "), "{name}: {failing}");
    }
}

#[tokio::test(start_paused = true)]
async fn quiet_watch_recovers_from_an_outage() {
    let outage = || [Reply::Away, Reply::Away, Reply::Silence, Reply::Json(503, json!({}))].into_iter();
    let quiet = Reply::Quiet(Duration::from_secs(5), vec![]);
    for last in [quiet, Reply::News("BOOKMARK"), Reply::News("MODIFIED")] {
        assert_eq!(health_after(outage().chain([last]).collect()).await, Ok(()));
    }
}

/// The server ends a quiet watch at the requested time, so a short time shows soon that the watch works.
#[tokio::test(start_paused = true)]
async fn watch_after_a_failure_asks_for_a_short_life() {
    let mut fixture = Fixture::new::<Node>([
        listed(),
        Reply::Away,
        Reply::Quiet(Duration::from_secs(5), vec![]),
        Reply::Open(vec![node("MODIFIED", "a", "6")]),
    ]);
    fixture.events::<4>().await;
    let asked = fixture.script.asked.lock().unwrap().clone();
    let life = |uri: &String| {
        let seconds = uri.split("timeoutSeconds=").nth(1).and_then(|rest| rest.split('&').next());
        seconds.expect("each watch names its life").parse::<u64>().unwrap()
    };
    let lives: Vec<u64> = asked[1..].iter().map(life).collect();
    assert!(lives[0] >= 40 && (5..=6).contains(&lives[1]) && lives[2] >= 40, "{lives:?}");
}
