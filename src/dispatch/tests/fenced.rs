//! What the lease does not cover is not sent, and what it covers ends before it does.

use super::*;
use crate::lease::{BootClock, Terms};
use tokio::time::Instant;

const TERMS: Terms = Terms {
    lease_duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};

impl Fixture {
    /// One under a lease that was renewed `ago`, or never.
    fn under_a_lease(replies: impl IntoIterator<Item = Reply>, ago: Option<Duration>) -> Self {
        let began = Instant::now();
        let hour = Duration::from_secs(3_600);
        let clock = BootClock::of(move || hour + began.elapsed());
        let fence = TERMS.fence(clock);
        if let Some(ago) = ago {
            fence.renewed(hour - ago);
        }
        Self::behind(replies, fence)
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_lease_nothing_is_sent_and_each_write_is_told_so() {
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
async fn what_became_of_a_binding_is_asked_without_the_lease_too() {
    let pod = shown("u1", Some("n1"), None);
    let mut fixture = Fixture::under_a_lease([Reply::Json(200, pod)], None);
    assert_eq!(fixture.settle().await, Found::Bound("n1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn under_a_fresh_lease_a_binding_has_its_ten_seconds() {
    let mut fixture = Fixture::under_a_lease([Reply::Silence], Some(Duration::from_secs(5)));
    let began = Instant::now();
    assert!(matches!(fixture.bind().await, BindOutcome::Unknown { .. }));
    assert_eq!(began.elapsed(), Duration::from_secs(10));
    assert!(fixture.asked()[0].uri.ends_with("/binding?timeout=10s"), "{:?}", fixture.asked());
}

#[tokio::test(start_paused = true)]
async fn the_older_the_renewal_the_less_time_a_binding_has_so_that_it_ends_before_the_lease() {
    let mut fixture = Fixture::under_a_lease([Reply::Silence], Some(Duration::from_millis(9_500)));
    let began = Instant::now();
    assert!(matches!(fixture.bind().await, BindOutcome::Unknown { .. }));
    assert!(began.elapsed() <= Duration::from_millis(5_501), "{:?}", began.elapsed());
    assert!(
        fixture.asked()[0].uri.ends_with("/binding?timeout=5500ms"),
        "the server is told: {:?}",
        fixture.asked()
    );
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_the_server_asks_to_send_later_is_not_sent_after_the_lease() {
    let mut fixture = Fixture::under_a_lease([Reply::Later(429, 3)], Some(Duration::from_secs(8)));
    let BindOutcome::Refused { message } = fixture.bind().await else {
        panic!("it was refused, and then not sent")
    };
    assert!(message.contains("not sent"), "{message}");
    assert_eq!(fixture.methods(), ["POST"]);
}
