//! Wires leader election: the elector and its dependencies. Without election, only waits until the API server's version
//! is known.

use super::server_version::Known;
use super::{ShutdownBudget, Step, host_name, kernel_host_name};
use crate::engine::{Answers, Heartbeat, Inbox};
use crate::lease::{BootClock, Dependencies, Elector, Ended, Fence, Lock, Standing};
use crate::telemetry::metrics::Metrics;
use anyhow::Context as _;
use std::sync::Arc;
use supercargo_apiserver::watch::{FAILING_MAX, Readiness};
use supercargo_config::Settings;
use supercargo_core::model::event::Event;
use supercargo_core::scheduler::Scheduler;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The lease fence, which exists before any election.
pub(super) struct Candidacy {
    clock: BootClock,
    /// Closed until the lease is held; always open without leader election.
    pub(super) fence: Fence,
}

impl Candidacy {
    pub(super) fn new(settings: &Settings) -> Self {
        let clock = BootClock::of_the_machine();
        let terms = settings.election.as_ref().map(|election| election.terms);
        let fence = terms.map(|terms| Fence::with_terms(clock.clone(), &terms)).unwrap_or_default();
        Self { clock, fence }
    }
}

/// Leader election, which runs in its own task.
pub(super) struct Election {
    task: JoinHandle<Ended>,
    stop: oneshot::Sender<()>,
    /// State of the election; `None` without leader election.
    pub(super) standing: Option<Standing>,
}

impl Election {
    /// Starts leader election, if the settings enable it.
    pub(super) fn start(
        candidacy: Candidacy,
        settings: &Settings,
        client: &kube::Client,
        inbox: &Inbox<Scheduler>,
        (readiness, version): (Readiness, Known),
        heartbeat: Heartbeat,
        metrics: &Metrics,
    ) -> anyhow::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let Some(election) = &settings.election else {
            // If the version is known at the start, the engine leads from then on.
            let leading = version.check().is_err().then(|| lead_once_known(version, inbox.clone()));
            let task = tokio::spawn(async move {
                let leading = async {
                    if let Some(leading) = leading {
                        leading.await;
                    }
                    std::future::pending::<()>().await;
                };
                tokio::select! {
                    // A dropped sender counts as shutdown.
                    _ = stopped => {}
                    () = leading => {}
                }
                Ended::Stopped
            });
            return Ok(Self { task, stop, standing: None });
        };
        let lock = Lock {
            client: client.clone(),
            namespace: election.namespace.clone(),
            name: election.name.clone(),
            identity: identity()?,
            component: settings.profiles.first().map(|profile| profile.name.clone()).unwrap_or_default(),
            timeout: election.terms.renew_deadline / 2,
        };
        let Candidacy { clock, fence } = candidacy;
        let listed = readiness.clone();
        let around = Dependencies {
            clock,
            fence,
            answers: Arc::new(inbox.clone()),
            known: Arc::new(move || {
                version.check()?;
                listed.check()?;
                listed.check_essential(FAILING_MAX)
            }),
            catch_up: Arc::new(move || Box::new(readiness.catch_up())),
            heartbeat,
            metrics: metrics.leader(),
        };
        let elector = Elector::new(lock, election.terms, around);
        let standing = Some(elector.standing());
        let task = tokio::spawn(elector.run(async move {
            let _ = stopped.await;
        }));
        Ok(Self { task, stop, standing })
    }

    /// Waits until the lease is lost, which this process cannot recover from. Returns the reason.
    pub(super) async fn lost(&mut self) -> anyhow::Error {
        match (&mut self.task).await {
            // Upstream's message.
            Ok(Ended::Lost(why)) => anyhow::anyhow!("leaderelection lost: {why}"),
            Ok(Ended::Stopped) => anyhow::anyhow!("leader election ended unexpectedly"),
            Err(error) => anyhow::anyhow!("leader election panicked: {error}"),
        }
    }

    /// Stops the election and releases the lease. Nothing is written after that.
    pub(super) async fn stop(mut self, ending: ShutdownBudget) {
        // The elector may have ended already.
        let _ = self.stop.send(());
        match ending.take(Step::Lease, &mut self.task).await {
            Some(Ok(_)) => {}
            Some(Err(error)) => tracing::error!(%error, "leader election panicked"),
            None => self.task.abort(),
        }
    }
}

/// Lets the engine lead once the API server's version is known.
async fn lead_once_known(mut version: Known, engine: impl Answers) {
    version.wait().await;
    engine.answer(vec![Event::Leading(true)]).await;
}

/// Returns `<host>_<uuid>`, as upstream does: a restarted process is a new candidate.
fn identity() -> anyhow::Result<String> {
    let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid")
        .context("cannot read a UUID for the leader-election identity")?;
    let host = kernel_host_name().unwrap_or_else(host_name);
    Ok(format!("{host}_{}", uuid.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Item, without_driver};
    use tokio::sync::watch;

    #[tokio::test]
    async fn engine_without_election_leads_once_the_version_is_known() {
        let (inbox, mut items) = without_driver::<Scheduler>(1);
        let (state, receiver) = watch::channel(Some("not read".to_owned()));
        let known = Known::of(receiver);
        let leading = tokio::spawn(lead_once_known(known.clone(), inbox));
        state.send_replace(Some("still not read".to_owned()));
        tokio::task::yield_now().await;
        assert!(items.try_recv().is_err());
        assert!(known.check().is_err_and(|why| why.ends_with("not known: still not read")));
        state.send_replace(None);
        leading.await.unwrap();
        let Ok(Item::Answer(events)) = items.try_recv() else { panic!("the engine does not lead") };
        assert!(matches!(events[..], [Event::Leading(true)]));
    }
}
