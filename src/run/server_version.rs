//! Follows the API server's version, and with it the version of kube-scheduler to behave as.
//!
//! The version is read once before the first decision. While this replica leads, it rises when reads over a minute
//! agree: during a rolling upgrade behind a load balancer, reads show both versions. It falls only at a restart.

use super::lead::Election;
use crate::args::Args;
use crate::lease::Standing;
use crate::telemetry::metrics::Metrics;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use supercargo_apiserver::version::{ServerVersion, VersionInfo};
use supercargo_config::flags::gates::{self, Misfit};
use supercargo_core::model::emulation::EmulatedVersion;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Reads that have to agree, and the time between two of them: together a minute.
const READS: u32 = 3;
const INTERVAL: Duration = Duration::from_secs(30);
/// Time limit of a read. The start waits for one read.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// Time between reads until the first one succeeds.
const RETRY: Duration = Duration::from_secs(1);

/// Reads the version of the API server.
///
/// # Errors
/// A message if the server does not answer, or its answer is not a version.
pub(super) async fn read(client: &kube::Client) -> Result<ServerVersion, String> {
    let request = http::Request::get("/version").body(Vec::new()).map_err(|error| error.to_string())?;
    let answer = timeout(READ_TIMEOUT, client.request::<VersionInfo>(request)).await;
    let info = answer
        .map_err(|_| format!("no answer within {READ_TIMEOUT:?}"))?
        .map_err(|error| error.to_string())?;
    info.version().ok_or_else(|| "the answer names no version".to_owned())
}

/// Logs the version that a server's version selects at the start, with warnings. Returns the values of
/// `--feature-gates` that would be refused if a flag selected the version.
pub(super) fn log_choice(version: ServerVersion, gates: &[String]) -> Vec<String> {
    if version.warning().is_none() {
        let emulated = version.emulated();
        tracing::info!(%emulated, "behaving as kube-scheduler of the API server's version");
    }
    log_warnings(version, gates)
}

/// Warns about a server's version out of range, and about values of `--feature-gates` that do not suit it.
///
/// Returns those that would be refused if a flag selected the version.
fn log_warnings(version: ServerVersion, gates: &[String]) -> Vec<String> {
    if let Some(warning) = version.warning() {
        tracing::warn!("{warning}");
    }
    let version = version.emulated();
    let mut refused = Vec::new();
    for Misfit { setting, is_unknown, why } in gates::misfits(gates, version) {
        if is_unknown {
            tracing::warn!(gate = setting, %version, "kube-scheduler of this version does not know the feature gate; it has no effect");
        } else {
            tracing::error!(gate = setting, %version, why, "the feature gate has its default in this version");
            refused.push(why);
        }
    }
    refused
}

/// Agreement between reads.
#[derive(Debug)]
struct Agreement {
    current: EmulatedVersion,
    /// A newer version, and how many reads in a row named it.
    newer: Option<(EmulatedVersion, u32)>,
}

impl Agreement {
    /// Takes a read. Returns the version to rise to, if enough reads agree.
    fn read(&mut self, version: EmulatedVersion) -> Option<EmulatedVersion> {
        let reads = match self.newer {
            Some((newer, reads)) if newer == version => reads + 1,
            _ => 1,
        };
        self.newer = (version > self.current).then_some((version, reads));
        if self.newer.is_none() || reads < READS {
            return None;
        }
        (self.current, self.newer) = (version, None);
        Some(version)
    }
}

/// Whether the API server's version is known. No decision is made before.
#[derive(Clone, Debug, Default)]
pub(super) struct Known(Arc<AtomicBool>);

impl Known {
    /// Creates it: known from the start, or not yet.
    pub(super) fn new(is_known: bool) -> Self {
        Self(Arc::new(AtomicBool::new(is_known)))
    }

    /// Returns whether the version is known.
    ///
    /// # Errors
    /// A message if it is not.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.0.load(Ordering::Acquire) {
            Ok(())
        } else {
            Err("the API server's version is not known".to_owned())
        }
    }
}

/// Follows the version of the API server.
pub(super) struct Follower {
    current: EmulatedVersion,
    known: Known,
    versions: watch::Sender<EmulatedVersion>,
}

impl Follower {
    /// Begins with a version, which is provisional if it is not known. Also returns a receiver of changes.
    pub(super) fn new(
        current: EmulatedVersion,
        is_known: bool,
        metrics: &Metrics,
    ) -> (Self, watch::Receiver<EmulatedVersion>) {
        metrics.emulates(current);
        let (versions, receiver) = watch::channel(current);
        (Self { current, known: Known::new(is_known), versions }, receiver)
    }

    /// Returns whether the version is known.
    pub(super) fn known(&self) -> Known {
        self.known.clone()
    }

    /// Starts to follow, unless a flag sets the version.
    pub(super) fn start(self, args: &Args, client: &kube::Client, election: &Election) -> JoinHandle<()> {
        let is_set = args.emulated_version.is_some();
        let (client, standing) = (client.clone(), election.standing.clone());
        let gates = args.upstream.gates().to_vec();
        tokio::spawn(async move {
            if !is_set {
                self.run(client, standing, &gates).await;
            }
        })
    }

    async fn run(self, client: kube::Client, standing: Option<Standing>, gates: &[String]) {
        let Self { current, known, versions } = self;
        let mut agreement = Agreement { current, newer: None };
        while known.check().is_err() {
            match read(&client).await {
                Ok(version) => {
                    log_choice(version, gates);
                    agreement.current = version.emulated();
                    versions.send_replace(agreement.current);
                    known.0.store(true, Ordering::Release);
                }
                Err(_) => sleep(RETRY).await,
            }
        }
        loop {
            sleep(INTERVAL).await;
            // A standby changes nothing: its engine follows the version once it leads.
            if standing.as_ref().is_some_and(|standing| !standing.leads()) {
                agreement.newer = None;
                continue;
            }
            // A read without an answer neither agrees nor disagrees.
            let Ok(read) = read(&client).await else { continue };
            if let Some(version) = agreement.read(read.emulated()) {
                // The engine logs the change itself.
                log_warnings(read, gates);
                versions.send_replace(version);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_rises_only_when_three_reads_in_a_row_agree() {
        use EmulatedVersion::{V1_34, V1_35, V1_36, V1_37};
        let mut agreement = Agreement { current: V1_35, newer: None };
        let rises: Vec<_> = [
            V1_36, V1_36, V1_35, V1_36, V1_36, V1_37, V1_36, V1_36, V1_36, // Rises with the ninth read.
            V1_35, V1_34, V1_35, V1_35, V1_36, // Never falls.
            V1_37, V1_37, V1_37, // Rises again.
        ]
        .into_iter()
        .enumerate()
        .filter_map(|(at, version)| agreement.read(version).map(|rise| (at + 1, rise)))
        .collect();
        assert_eq!(rises, [(9, V1_36), (17, V1_37)]);
    }

    #[test]
    fn version_is_unknown_until_it_was_read() {
        assert!(Known::new(true).check().is_ok());
        assert!(Known::default().check().is_err());
    }
}
