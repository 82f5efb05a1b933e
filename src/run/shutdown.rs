//! Time limits of shutdown: each step has a reserved share of one limit, which is below the manifests' grace period.
//!
//! A step that exceeds its time is abandoned. The time reserved for later steps is unaffected.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

/// Time limit of the whole shutdown. The manifests grant 30 s (`terminationGracePeriodSeconds`) before the kubelet
/// kills the process; 5 s are left for a late signal or a slow machine.
const END_WITHIN: Duration = Duration::from_secs(25);

/// Timeout for writing the remaining log lines at the very end.
pub const LOG_WITHIN: Duration = Duration::from_secs(1);

/// The steps of shutdown, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Bindings in flight are answered: more than a binding's own deadline of 10 s.
    Bindings,
    /// Events and pod conditions are written.
    Requests,
    /// The lease is released: one read and one write.
    Lease,
    /// Open HTTP requests, trace spans and record files finish concurrently.
    Rest,
}

impl Step {
    const ALL: [Self; 4] = [Self::Bindings, Self::Requests, Self::Lease, Self::Rest];

    /// Time reserved for this step.
    const fn reserved(self) -> Duration {
        Duration::from_secs(match self {
            Self::Bindings => 15,
            Self::Requests | Self::Rest => 2,
            Self::Lease => 5,
        })
    }

    /// Maximum time of this step, even if more is left.
    const fn most(self) -> Duration {
        match self {
            Self::Bindings => self.reserved(),
            Self::Requests | Self::Rest => Duration::from_secs(5),
            Self::Lease => END_WITHIN,
        }
    }
}

/// A shutdown in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShutdownBudget(Instant);

impl ShutdownBudget {
    /// Starts the shutdown now.
    pub(super) fn begin() -> Self {
        Self(Instant::now())
    }

    /// Returns how long `step` may take from now on.
    pub(super) fn share(self, step: Step) -> Duration {
        let after = Step::ALL.iter().skip_while(|it| **it != step).skip(1);
        let reserved = after.map(|it| it.reserved()).sum::<Duration>() + LOG_WITHIN;
        END_WITHIN.saturating_sub(self.0.elapsed() + reserved).min(step.most())
    }

    /// Runs a step within its share of time; `None` on timeout.
    pub(super) async fn take<T>(self, step: Step, work: impl Future<Output = T>) -> Option<T> {
        let within = self.share(step);
        let done = tokio::time::timeout(within, work).await.ok();
        if done.is_none() {
            tracing::warn!(?step, ?within, "shutdown step timed out; continuing without it");
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The grace period that the manifests grant.
    const GRACE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn shutdown_fits_grace_period_whichever_steps_hang() {
        for stuck in 0..1_u32 << Step::ALL.len() {
            let began = Instant::now();
            let ending = ShutdownBudget::begin();
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
    fn manifests_grant_the_assumed_grace_period() {
        for file in ["manifests/base/deployment.yaml", "manifests/static-pod.yaml"] {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
            let text = std::fs::read_to_string(&path).unwrap();
            let granted = format!("terminationGracePeriodSeconds: {}", GRACE.as_secs());
            assert!(text.contains(&granted), "{file}");
        }
    }
}
