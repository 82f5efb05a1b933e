//! Waits for conditions with a deadline. Nothing else sleeps for a fixed time.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

/// Default timeout for operations that take a second on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Retries `look` until it returns `Ok`. Its error describes what is missing; at the deadline, the last error is
/// returned: `waited 90s for pod default/x to be bound; last seen: it has no node`.
pub async fn wait_for<T, F, Fut>(what: &str, within: Duration, mut look: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T>>,
{
    let deadline = Instant::now() + within;
    let mut pause = Duration::from_millis(20);
    let mut last = anyhow!("no answer");
    loop {
        // An attempt may hang, for example at a suspended API server.
        match tokio::time::timeout_at(deadline.into(), look()).await {
            Ok(Ok(seen)) => return Ok(seen),
            Ok(Err(missing)) => last = missing,
            Err(_) => last = last.context("the last attempt did not finish"),
        }
        if Instant::now() + pause >= deadline {
            return Err(anyhow!("waited {within:?} for {what}; last seen: {last:#}"));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 5 / 4).min(Duration::from_millis(250));
    }
}
