//! The end of the process: each step has a share of one limit, which is below the grace period of the manifests.
//!
//! A step that is late loses what it waits for and costs the next ones nothing: each has a share that nobody takes from it.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

/// How long the whole end may take. The manifests grant 30 s (`terminationGracePeriodSeconds`), after which the kubelet kills: five less, for
/// a signal that comes late and a machine that is slow.
const END_WITHIN: Duration = Duration::from_secs(25);

/// How long the log may take to be written at the very end.
pub const LOG_WITHIN: Duration = Duration::from_secs(1);

/// What happens at the end, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Bindings in flight are answered: longer than a binding's own deadline, 10 s.
    Bindings,
    /// Events and conditions are written.
    Requests,
    /// The lease is released: a read and a write.
    Lease,
    /// Running HTTP requests, spans and files end, all at once.
    Rest,
}

impl Step {
    const ALL: [Self; 4] = [Self::Bindings, Self::Requests, Self::Lease, Self::Rest];

    /// The share of the limit that nobody takes from it.
    const fn reserved(self) -> Duration {
        Duration::from_secs(match self {
            Self::Bindings => 15,
            Self::Requests | Self::Rest => 2,
            Self::Lease => 5,
        })
    }

    /// The most it may take, however much is left.
    const fn most(self) -> Duration {
        match self {
            Self::Bindings => self.reserved(),
            Self::Requests | Self::Rest => Duration::from_secs(5),
            Self::Lease => END_WITHIN,
        }
    }
}

/// An end that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending(Instant);

impl Ending {
    /// Begins now.
    pub(super) fn begin() -> Self {
        Self(Instant::now())
    }

    /// How long a step may take from now on.
    pub(super) fn share(self, step: Step) -> Duration {
        let after = Step::ALL.iter().skip_while(|it| **it != step).skip(1);
        let reserved = after.map(|it| it.reserved()).sum::<Duration>() + LOG_WITHIN;
        END_WITHIN.saturating_sub(self.0.elapsed() + reserved).min(step.most())
    }

    /// Waits for a step as long as it may take; `None` if that was not long enough.
    pub(super) async fn take<T>(self, step: Step, work: impl Future<Output = T>) -> Option<T> {
        let within = self.share(step);
        let done = tokio::time::timeout(within, work).await.ok();
        if done.is_none() {
            tracing::warn!(?step, ?within, "stopping without waiting any longer");
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the manifests grant.
    const GRACE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn end_fits_into_the_grace_period_whichever_steps_are_stuck() {
        for stuck in 0..1_u32 << Step::ALL.len() {
            let began = Instant::now();
            let ending = Ending::begin();
            for (at, step) in Step::ALL.into_iter().enumerate() {
                assert!(
                    ending.share(step) >= step.reserved(),
                    "{stuck:b}: {step:?} has {:?}",
                    ending.share(step)
                );
                let is_stuck = stuck & 1 << at != 0;
                let work = async move {
                    if is_stuck {
                        std::future::pending::<()>().await;
                    }
                };
                assert_eq!(ending.take(step, work).await.is_none(), is_stuck);
            }
            assert!(began.elapsed() + LOG_WITHIN <= END_WITHIN, "{stuck:b}: {:?}", began.elapsed());
        }
        assert!(END_WITHIN + Duration::from_secs(5) <= GRACE);
    }

    #[test]
    fn manifests_grant_the_grace_period_this_is_derived_from() {
        for file in ["manifests/base/deployment.yaml", "manifests/static-pod.yaml"] {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
            let text = std::fs::read_to_string(&path).unwrap();
            let granted = format!("terminationGracePeriodSeconds: {}", GRACE.as_secs());
            assert!(text.contains(&granted), "{file}");
        }
    }
}
