//! Leader election, wired: the elector and what it works with, or nothing of it where there is no election.

use super::{Ending, Step, host_name, kernel_host_name};
use crate::config::Settings;
use crate::driver::{Inbox, Pulse};
use crate::lease::{BootClock, Elector, Ended, Fence, Lock, Standing, Surroundings, Terms};
use crate::metrics::Metrics;
use crate::watch::Readiness;
use anyhow::Context as _;
use std::sync::Arc;
use supercargo_core::scheduler::Scheduler;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Who may write, from before anybody is elected.
pub(super) struct Candidacy {
    clock: BootClock,
    /// Closed until the lease is held; open where there is no election.
    pub(super) fence: Fence,
}

impl Candidacy {
    pub(super) fn new(settings: &Settings) -> Self {
        let clock = BootClock::of_the_machine();
        let terms = settings.election.as_ref().map(|election| election.terms);
        let fence = terms.map(|terms: Terms| terms.fence(clock.clone())).unwrap_or_default();
        Self { clock, fence }
    }
}

/// The election, which goes on beside everything else.
pub(super) struct Election {
    task: JoinHandle<Ended>,
    stop: oneshot::Sender<()>,
    /// How it stands; `None` where there is no election.
    pub(super) standing: Option<Standing>,
}

impl Election {
    /// Stands for election, if the settings ask for one.
    pub(super) fn start(
        candidacy: Candidacy,
        settings: &Settings,
        client: &kube::Client,
        inbox: &Inbox<Scheduler>,
        readiness: Readiness,
        pulse: Pulse,
        metrics: &Metrics,
    ) -> anyhow::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let Some(election) = &settings.election else {
            let task = tokio::spawn(async move {
                // A dropped sender is the end, too.
                let _ = stopped.await;
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
        let around = Surroundings {
            clock,
            fence,
            answers: Arc::new(inbox.clone()),
            known: Box::new(move || listed.check()),
            catch_up: Arc::new(move || Box::new(readiness.catch_up())),
            pulse,
            metrics: metrics.leader(),
        };
        let elector = Elector::new(lock, election.terms, around);
        let standing = Some(elector.standing());
        let task = tokio::spawn(elector.run(async move {
            let _ = stopped.await;
        }));
        Ok(Self { task, stop, standing })
    }

    /// Waits until the lease is lost, which nobody recovers from in this process; why.
    pub(super) async fn lost(&mut self) -> anyhow::Error {
        match (&mut self.task).await {
            // In upstream's words.
            Ok(Ended::Lost(why)) => anyhow::anyhow!("leaderelection lost: {why}"),
            Ok(Ended::Stopped) => anyhow::anyhow!("leader election ended without being told to"),
            Err(error) => anyhow::anyhow!("leader election panicked: {error}"),
        }
    }

    /// Releases the lease. Nothing is written any more.
    pub(super) async fn stop(mut self, ending: Ending) {
        // It ends by itself where nobody listens any more.
        let _ = self.stop.send(());
        match ending.take(Step::Lease, &mut self.task).await {
            Some(Ok(_)) => {}
            Some(Err(error)) => tracing::error!(%error, "leader election panicked"),
            None => self.task.abort(),
        }
    }
}

/// `<host>_<uuid>`, as upstream has it: a process that starts again is another candidate.
fn identity() -> anyhow::Result<String> {
    let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid").context("cannot make an identity")?;
    let host = kernel_host_name().unwrap_or_else(host_name);
    Ok(format!("{host}_{}", uuid.trim()))
}
