//! Request rates of watches against a misbehaving server, over ten minutes of simulated time.

use super::*;

const MINUTES: Duration = Duration::from_secs(600);
/// Pauses of 0.8 s to 25.6 s, then some of at least 30 s: no more attempts fit into ten minutes.
const ATTEMPTS: usize = 6 + (600 - 50) / 30 + 1;
/// At most one attempt per 0.8 s.
const STEADY: usize = 600 * 10 / 8 + 2;

/// Returns the requests sent in ten minutes to a server that repeats the responses of `cycle`.
async fn requests(cycle: Vec<Reply>) -> Vec<String> {
    let mut fixture = Fixture::of::<Node>(Script { cycle, ..Script::default() });
    let end = tokio::time::Instant::now() + MINUTES;
    while let Ok(item) = tokio::time::timeout_at(end, fixture.items.recv()).await {
        let (convert, _) = item.expect("a watch sends objects");
        convert(&mut fixture.tables);
    }
    fixture.asked()
}

fn lists(asked: &[String]) -> usize {
    asked.iter().filter(|uri| *uri == STREAM || *uri == "/api/v1/nodes?limit=500").count()
}

/// A server without list streaming, and a page with one node and a continue token.
fn page_of_many() -> [Reply; 2] {
    let item = node("", "a", "3")["object"].clone();
    let page = json!({ "kind": "NodeList", "apiVersion": "v1", "metadata": { "resourceVersion": "5", "continue": "x" }, "items": [item] });
    [Reply::Json(422, failure(422, "sendInitialEvents is forbidden")), Reply::Json(200, page)]
}

fn expired() -> Value {
    failure(410, "too old resource version: 5 (7)")
}

#[tokio::test(start_paused = true)]
async fn watches_without_progress_back_off() {
    let close = || Reply::Lines(vec![]);
    let stale = || Reply::Lines(vec![bookmark("5", false)]);
    let older = || Reply::Lines(vec![node("MODIFIED", "a", "4")]);
    let garbage = || Reply::Frames(64, node_frame("ADDED", "a", "6")[..20].repeat(20));
    let broken_off = || Reply::Lines(vec![node("ADDED", "a", "3")]);
    let [no_stream, page] = page_of_many();
    // The server's behavior, its responses, and the requests per attempt.
    let cases: Vec<(&str, Vec<Reply>, usize)> = vec![
        ("list, then 410", vec![listed(), Reply::Json(410, expired())], 2),
        ("list, then 410 in the watch", vec![listed(), Reply::NewsThen(expired())], 2),
        ("list, news, then 410", vec![listed(), Reply::News("MODIFIED"), Reply::Json(410, expired())], 3),
        ("list, then garbage", vec![listed(), garbage()], 2),
        ("list refused", vec![Reply::Json(403, failure(403, "no"))], 1),
        ("list breaks off", vec![broken_off(), Reply::Json(200, json!({}))], 1),
        ("no connection", vec![Reply::Away], 1),
        ("continue token expired", vec![no_stream, page, Reply::Json(410, expired())], 3),
        ("500 without a body", vec![Reply::Json(500, Value::Null)], 1),
    ];
    for (name, cycle, requests_each) in cases {
        let asked = requests(cycle).await;
        let most = ATTEMPTS * requests_each;
        assert!(asked.len() <= most && asked.len() > 10, "{name}: {} requests, {most} allowed", asked.len());
    }
    for (name, reply) in
        [("immediately", close()), ("after a stale bookmark", stale()), ("after an old event", older())]
    {
        // The first response is a list; all others end the watch.
        let cycle = [listed()].into_iter().chain(std::iter::repeat_n(reply, 100_000)).collect();
        let asked = requests(cycle).await.len();
        assert!(asked <= ATTEMPTS + 1 && asked > 10, "closed {name}: {asked} requests");
    }
}

#[tokio::test(start_paused = true)]
async fn short_watches_with_progress_reopen_about_once_a_second() {
    for change in ["MODIFIED", "BOOKMARK"] {
        let cycle = [listed()].into_iter().chain(std::iter::repeat_n(Reply::News(change), 100_000)).collect();
        let asked = requests(cycle).await;
        assert!(asked.len() <= STEADY && asked.len() > STEADY / 3, "{change}: {} requests", asked.len());
        assert_eq!(lists(&asked), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_obeyed_by_lists_and_watches() {
    let lists = requests(vec![Reply::Later(429, 120)]).await.len();
    assert!((4..=6).contains(&lists), "{lists}");
    let watch = [listed()].into_iter().chain(std::iter::repeat_n(Reply::Later(503, 120), 100)).collect();
    let watches = requests(watch).await.len();
    assert!((5..=7).contains(&watches), "{watches}");
    let mut busy = failure(429, "too many requests");
    busy["details"] = json!({ "retryAfterSeconds": 120 });
    let in_stream = Reply::Lines(vec![json!({ "type": "ERROR", "object": busy })]);
    let watch = [listed()].into_iter().chain(std::iter::repeat_n(in_stream, 100)).collect();
    let watches = requests(watch).await.len();
    assert!((5..=7).contains(&watches), "{watches}");
}

#[tokio::test(start_paused = true)]
async fn new_leader_waits_no_longer_than_the_server_asks() {
    for (refusal, longest) in [(Reply::Json(503, json!({})), 0), (Reply::Later(503, 4), 5)] {
        let cycle = [listed()].into_iter().chain(std::iter::repeat_n(refusal, 100)).collect();
        let mut fixture = Fixture::of::<Node>(Script { cycle, ..Script::default() });
        fixture.events::<3>().await;
        // Pauses double to 30 seconds, so that the next attempt may be as far away.
        while fixture.asked().len() < 8 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let states: Arc<[_]> = [Arc::clone(&fixture.state)].into();
        let check = Readiness { states }.catch_up();
        tokio::time::sleep(Duration::from_secs(longest) + Duration::from_millis(100)).await;
        assert_eq!(fixture.asked().len(), 9, "with a pause of up to {longest} s");
        assert!(check().is_err(), "the watch still fails");
    }
}

#[tokio::test(start_paused = true)]
async fn endless_list_stays_within_the_request_budget() {
    let [no_stream, page] = page_of_many();
    let cycle = [no_stream].into_iter().chain(std::iter::repeat_n(page, 100_000)).collect();
    let asked = requests(cycle).await.len();
    assert!(asked <= 100 + 50 * 600 + 1 && asked > 50 * 500, "{asked}");
}

/// Returns random responses (SplitMix64), to be repeated forever.
fn drawn(seed: u64) -> Vec<Reply> {
    let mut state = seed;
    let mut draw = |below: usize| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = state;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((bits ^ bits >> 31) % below as u64).expect("it is small")
    };
    let [no_stream, _] = page_of_many();
    let pool = [
        listed(),
        listed(),
        Reply::Json(
            200,
            json!({ "kind": "NodeList", "apiVersion": "v1", "metadata": { "resourceVersion": "5" }, "items": [] }),
        ),
        Reply::Json(
            200,
            json!({ "kind": "ServiceList", "apiVersion": "v1", "metadata": { "resourceVersion": "5" }, "items": [] }),
        ),
        no_stream,
        Reply::Json(410, expired()),
        Reply::NewsThen(expired()),
        Reply::News("MODIFIED"),
        Reply::News("BOOKMARK"),
        Reply::Lines(vec![]),
        Reply::Lines(vec![bookmark("5", false)]),
        Reply::Lines(vec![json!({ "type": "ADDED", "object": { "metadata": {} } })]),
        Reply::Pieces(7, vec![node("MODIFIED", "a", "9")]),
        Reply::Frames(64, vec![0x7f; 64]),
        Reply::Json(200, json!({})),
        Reply::Json(404, Value::Null),
        Reply::Later(429, 1),
        Reply::Later(503, 7),
        Reply::Huge,
        Reply::Away,
    ];
    (0..1 + draw(5)).map(|_| pool[draw(pool.len())].clone()).collect()
}

/// A failure that forces a relist blocks resets for two minutes, in which pauses of 0.8 s, 1.6 s, … leave
/// room for eight.
#[tokio::test(start_paused = true)]
async fn no_server_receives_many_lists_or_more_than_a_few_requests_per_second() {
    for seed in 0..80 {
        let asked = requests(drawn(seed)).await;
        let rate = asked.len() as f64 / MINUTES.as_secs_f64();
        assert!(asked.len() > 3 && rate <= 3.0, "seed {seed}: {rate} requests a second");
        let streams = asked.iter().filter(|uri| *uri == STREAM).count();
        assert!(streams <= 8 * 5 + 1, "seed {seed}: {streams} lists");
    }
}
