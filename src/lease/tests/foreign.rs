//! Responses that are not the API server's, and responses that ask for a pause.

use super::*;

/// Responses of a proxy: pages, empty or truncated bodies, and objects other than the lease.
const FOREIGN: [(u16, &str); 12] = [
    (200, ""),
    (200, "{}"),
    (200, "<html>welcome</html>"),
    (201, r#"{"kind":"Status","apiVersion":"v1","status":"Success","code":201}"#),
    (200, r#"{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"lease","names"#),
    (
        200,
        r#"{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"other","namespace":"there","uid":"u"},"spec":{"holderIdentity":"a"}}"#,
    ),
    (
        200,
        r#"{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"lease","namespace":"elsewhere","uid":"u"},"spec":{"holderIdentity":"a"}}"#,
    ),
    (404, ""),
    (404, "<html>404 Not Found</html>"),
    (404, r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#),
    (
        404,
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"details":{"name":"other","group":"coordination.k8s.io","kind":"leases"}}"#,
    ),
    (410, "gone"),
];

#[tokio::test(start_paused = true)]
async fn foreign_response_neither_elects_nor_creates_a_lease() {
    for (code, body) in FOREIGN {
        let server = Server::new();
        server.is(Behavior::Foreign(code, body));
        let mut candidate = Candidate::start(&server, "a");
        pass(60 * SECOND).await;
        assert!(candidate.leading.try_recv().is_err() && candidate.fence.pass().is_err(), "{code} {body}");
        let asked = server.asked();
        assert!(asked.iter().all(|method| method == "GET"), "{code} {body}: {asked:?}");
        server.is(Behavior::Healthy);
        assert_eq!(candidate.leading.recv().await, Some(true), "once the API server responds itself");
    }
}

#[tokio::test(start_paused = true)]
async fn foreign_response_does_not_renew_the_lease() {
    for (code, body) in FOREIGN {
        let server = Server::new();
        let leader = Candidate::leader(&server, "a").await;
        pass(SECOND).await;
        server.is(Behavior::Foreign(code, body));
        pass(10 * SECOND).await;
        assert!(leader.fence.pass().is_err(), "{code} {body}");
        assert!(leader.lost().await.contains("10s"), "{code} {body}");
    }
}

#[tokio::test(start_paused = true)]
async fn candidate_honors_retry_after() {
    let server = Server::new();
    server.is(Behavior::Later(4));
    let mut candidate = Candidate::start(&server, "a");
    pass(60 * SECOND).await;
    // Each attempt is one question, and 4 s to 4.4 s lie between two, where the retry period is 2 s to 4.4 s.
    let asked = server.asked();
    assert!((13..=16).contains(&asked.len()), "{asked:?}");
    server.is(Behavior::Healthy);
    assert_eq!(candidate.leading.recv().await, Some(true));
}

#[tokio::test(start_paused = true)]
async fn leader_honors_retry_after_up_to_half_the_renew_deadline() {
    for (seconds, most) in [(1, 5), (3, 4), (4, 3), (3_600, 2)] {
        let server = Server::new();
        let leader = Candidate::leader(&server, "a").await;
        pass(SECOND).await;
        server.asked();
        server.is(Behavior::Later(seconds));
        assert!(leader.lost().await.contains("10s"));
        // Events about the lease are no attempts.
        let asked: Vec<_> = server.asked().into_iter().filter(|method| method != "POST").collect();
        assert!((2..=most).contains(&asked.len()), "{seconds} s: {asked:?}");
        assert!(asked.iter().all(|method| method == "PUT"), "reads would come too early: {asked:?}");
    }
}
