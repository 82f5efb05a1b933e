//! Writes under a lease: uncovered ones are not sent, covered ones end before the lease does.

use super::*;
use crate::lease::{BootClock, Fence};
use supercargo_config::LeaseTerms;
use tokio::time::Instant;

const TERMS: LeaseTerms = LeaseTerms {
    lease_duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};

impl Fixture {
    /// Returns a fixture whose lease was renewed `ago`, or never.
    fn under_a_lease(replies: impl IntoIterator<Item = Reply>, ago: Option<Duration>) -> Self {
        let began = Instant::now();
        let hour = Duration::from_secs(3_600);
        let clock = BootClock::of(move || hour + began.elapsed());
        let fence = Fence::with_terms(clock, &TERMS);
        if let Some(ago) = ago {
            fence.renewed(hour - ago);
        }
        Self::behind(replies, fence)
    }
}

#[tokio::test(start_paused = true)]
async fn writes_without_the_lease_are_rejected_unsent() {
    for ago in [None, Some(TERMS.renew_deadline), Some(Duration::from_secs(60))] {
        let mut fixture = Fixture::under_a_lease([], ago);
        let BindOutcome::Refused { message } = fixture.bind().await else { panic!("it was never sent") };
        assert_eq!(
            message,
            "Post \"https://10.0.0.1:6443/api/v1/namespaces/default/pods/plain0/binding\": not sent: this scheduler does \
             not hold its lease, or has not renewed it in time"
        );
        fixture.patch("no room").await;
        fixture.record(failed("no room")).await;
        assert_eq!(fixture.asked(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn reading_the_outcome_of_a_binding_needs_no_lease() {
    let pod = shown("u1", Some("n1"), None);
    let mut fixture = Fixture::under_a_lease([Reply::Json(200, pod)], None);
    assert_eq!(fixture.query_binding().await, BindingState::Bound("n1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn binding_under_a_fresh_lease_gets_the_full_deadline() {
    let mut fixture = Fixture::under_a_lease([Reply::Silence], Some(Duration::from_secs(5)));
    let began = Instant::now();
    assert!(matches!(fixture.bind().await, BindOutcome::Unknown { .. }));
    assert_eq!(began.elapsed(), Duration::from_secs(10));
    assert!(fixture.asked()[0].uri.ends_with("/binding?timeout=10s"), "{:?}", fixture.asked());
}

#[tokio::test(start_paused = true)]
async fn binding_deadline_is_bounded_by_the_remaining_lease() {
    let mut fixture = Fixture::under_a_lease([Reply::Silence], Some(Duration::from_millis(9_500)));
    let began = Instant::now();
    assert!(matches!(fixture.bind().await, BindOutcome::Unknown { .. }));
    assert!(began.elapsed() <= Duration::from_millis(5_501), "{:?}", began.elapsed());
    assert!(
        fixture.asked()[0].uri.ends_with("/binding?timeout=5500ms"),
        "the server gets the same limit: {:?}",
        fixture.asked()
    );
}

#[tokio::test(start_paused = true)]
async fn retry_after_beyond_the_lease_is_not_sent() {
    let mut fixture = Fixture::under_a_lease([Reply::Later(429, 3)], Some(Duration::from_secs(8)));
    let BindOutcome::Refused { message } = fixture.bind().await else { panic!("refused, then not sent") };
    assert!(message.contains("not sent"), "{message}");
    assert_eq!(fixture.methods(), ["POST"]);
}
