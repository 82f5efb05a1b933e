//! Waiting for a condition with a deadline. There is no sleeping for a fixed time anywhere else.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

/// What a test waits at most for something that takes a second on a quiet machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Looks again and again until `look` answers `Ok`. Its error says what is still missing; at the deadline the last one is told:
/// `waited 90s for pod default/x to be bound; last seen: it has no node`.
pub(crate) async fn wait_for<T, F, Fut>(what: &str, within: Duration, mut look: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T>>,
{
    let deadline = Instant::now() + within;
    let mut pause = Duration::from_millis(20);
    let mut last = anyhow!("not a single answer");
    loop {
        // A look may hang, for example at a paused API server.
        match tokio::time::timeout_at(deadline.into(), look()).await {
            Ok(Ok(seen)) => return Ok(seen),
            Ok(Err(missing)) => last = missing,
            Err(_) => last = last.context("the last look did not end"),
        }
        if Instant::now() + pause >= deadline {
            return Err(anyhow!("waited {within:?} for {what}; last seen: {last:#}"));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 5 / 4).min(Duration::from_millis(250));
    }
}
