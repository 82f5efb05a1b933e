//! Follows the API server's version, and with it the version of kube-scheduler to behave as.
//!
//! The version is read once before the first decision. While this replica leads, it rises when reads over a minute
//! agree: during a rolling upgrade behind a load balancer, reads show both versions. It falls only at a restart.

use super::lead::Election;
use crate::args::Args;
use crate::engine::reload::Versions;
use crate::lease::Standing;
use crate::telemetry::metrics::Metrics;
use std::time::Duration;
use supercargo_apiserver::request::{self, ANSWER_MAX, RequestError};
use supercargo_apiserver::retry::jittered;
use supercargo_apiserver::version::{ServerVersion, VersionInfo};
use supercargo_config::flags::gates::{self, Misfit};
use supercargo_core::model::emulation::EmulatedVersion;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// Reads that have to agree, and the time between two of them: together a minute.
const READS: u32 = 3;
const INTERVAL: Duration = Duration::from_secs(30);
/// Time limit of a read. The start waits for one read.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause after the first read that fails. It doubles with each further one, up to [`RETRY_MAX`].
const RETRY: Duration = Duration::from_secs(1);
/// The longest pause: nothing is scheduled meanwhile, and a read is cheap.
const RETRY_MAX: Duration = Duration::from_secs(10);
/// Maximum jitter of a pause, as a fraction.
const RETRY_JITTER: f64 = 0.5;
/// The longest `Retry-After` obeyed, as by the watches. A broken proxy must not stop the start for hours.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// Why the version could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unread {
    /// The API server refused, or did not answer with an answer of its own.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// No answer came in time.
    #[error("no answer within {} s", READ_TIMEOUT.as_secs())]
    TimedOut,
}

impl Unread {
    fn is_forbidden(&self) -> bool {
        matches!(self, Self::Request(error) if error.is_forbidden())
    }

    /// Returns the pause that the server asks for, or none.
    fn asked_pause(&self) -> Duration {
        let Self::Request(error) = self else { return Duration::ZERO };
        error.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX)
    }
}

/// Reads the version of the API server.
///
/// # Errors
/// If the server does not answer, or its answer is not a version.
async fn read(client: &kube::Client) -> Result<ServerVersion, Unread> {
    let request = http::Request::get("/version").body(Vec::new()).expect("the path is valid");
    let answer = timeout(READ_TIMEOUT, request::send(client, request, ANSWER_MAX));
    let answer = answer.await.map_err(|_| Unread::TimedOut)??;
    let version = answer.decoded::<VersionInfo>()?.version();
    Ok(version.ok_or_else(|| answer.foreign("it names no version"))?)
}

/// The result of the first read with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstRead {
    /// The API server named its version.
    Named(ServerVersion),
    /// The API server does not let this user read its version, so this one is assumed.
    Assumed(EmulatedVersion),
}

impl FirstRead {
    /// Returns the version to behave as.
    pub(super) const fn emulated(self) -> EmulatedVersion {
        match self {
            Self::Named(version) => version.emulated(),
            Self::Assumed(version) => version,
        }
    }

    fn is_assumed(self) -> bool {
        matches!(self, Self::Assumed(_))
    }

    /// Logs the version that is selected at the start, with warnings. Returns the values of `--feature-gates` that
    /// would be refused if a flag selected the version.
    pub(super) fn log(self, gates: &[String]) -> Vec<String> {
        let emulated = self.emulated();
        match self {
            Self::Named(version) => {
                if version.warning().is_none() {
                    tracing::info!(%emulated, "behaving as kube-scheduler of the API server's version");
                }
                log_warnings(version, gates)
            }
            Self::Assumed(_) => {
                tracing::warn!(
                    %emulated,
                    "not allowed to read the API server's version; assuming it until it can be read: bind ClusterRole system:public-info-viewer, or \
                     set --emulated-version"
                );
                log_misfits(emulated, gates)
            }
        }
    }
}

/// Reads the version; `provisional` is assumed if that is forbidden.
async fn first_read(client: &kube::Client, provisional: EmulatedVersion) -> Result<FirstRead, Unread> {
    match read(client).await {
        Ok(version) => Ok(FirstRead::Named(version)),
        Err(error) if error.is_forbidden() => Ok(FirstRead::Assumed(provisional)),
        Err(error) => Err(error),
    }
}

/// Reads the version once, and then again until `patience` is over. `provisional` is assumed if that is forbidden.
///
/// # Errors
/// The last error.
pub(super) async fn read_within(
    client: &kube::Client,
    provisional: EmulatedVersion,
    patience: Duration,
) -> Result<FirstRead, Unread> {
    let give_up = Instant::now() + patience;
    let mut pauses = Pauses::default();
    loop {
        let error = match first_read(client, provisional).await {
            Ok(found) => return Ok(found),
            Err(error) => error,
        };
        let pause = pauses.after(&error);
        if Instant::now() + pause >= give_up {
            return Err(error);
        }
        tracing::warn!(%error, ?pause, "cannot read the API server's version yet; trying again");
        sleep(pause).await;
    }
}

/// Pauses between reads that fail.
#[derive(Debug)]
struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(RETRY)
    }
}

impl Pauses {
    /// Returns the pause after a failure: the backoff, or what the server asks for if that is longer.
    fn after(&mut self, error: &Unread) -> Duration {
        let pause = jittered(self.0, RETRY_JITTER).max(error.asked_pause());
        self.0 = (self.0 * 2).min(RETRY_MAX);
        pause
    }
}

/// Warns about a server's version out of range, and about values of `--feature-gates` that do not suit it.
///
/// Returns those that would be refused if a flag selected the version.
fn log_warnings(version: ServerVersion, gates: &[String]) -> Vec<String> {
    if let Some(warning) = version.warning() {
        tracing::warn!("{warning}");
    }
    log_misfits(version.emulated(), gates)
}

fn log_misfits(version: EmulatedVersion, gates: &[String]) -> Vec<String> {
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

/// Whether the engine behaves as the API server's version. No decision is made before.
#[derive(Clone, Debug)]
pub(super) struct Known(
    /// Why it is not known yet.
    watch::Receiver<Option<String>>,
);

impl Known {
    #[cfg(test)]
    pub(super) fn of(state: watch::Receiver<Option<String>>) -> Self {
        Self(state)
    }

    /// Returns whether the version is known.
    ///
    /// # Errors
    /// A message if it is not, with the error of the last read.
    pub(super) fn check(&self) -> Result<(), String> {
        match &*self.0.borrow() {
            None => Ok(()),
            Some(why) => Err(format!("the API server's version is not known: {why}")),
        }
    }

    /// Waits until the version is known. If it never will be, waits forever.
    pub(super) async fn wait(&mut self) {
        if self.0.wait_for(Option::is_none).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// How the version at the start was found.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// A flag sets it.
    Flag,
    /// It was read, or assumed.
    Read(FirstRead),
    /// It is provisional, for this reason.
    Provisional(Unread),
}

/// Follows the version of the API server.
pub(super) struct Follower {
    current: EmulatedVersion,
    origin: Origin,
    /// Why the version is not known yet.
    unknown: watch::Sender<Option<String>>,
    wanted: watch::Sender<EmulatedVersion>,
    taken: watch::Receiver<Option<EmulatedVersion>>,
}

impl Follower {
    /// Begins with a version. Also returns where changes appear.
    pub(super) fn new(current: EmulatedVersion, origin: Origin, metrics: &Metrics) -> (Self, Versions) {
        metrics.emulates(current);
        let (sender, wanted) = watch::channel(current);
        let (taken, receiver) = watch::channel(None);
        let (unknown, _) = watch::channel(match &origin {
            Origin::Flag | Origin::Read(_) => None,
            Origin::Provisional(error) => Some(error.to_string()),
        });
        (Self { current, origin, unknown, wanted: sender, taken: receiver }, Versions { wanted, taken })
    }

    /// Returns whether the version is known.
    pub(super) fn known(&self) -> Known {
        Known(self.unknown.subscribe())
    }

    /// Starts to follow, unless a flag sets the version.
    pub(super) fn start(self, args: &Args, client: &kube::Client, election: &Election) -> JoinHandle<()> {
        let (client, standing) = (client.clone(), election.standing.clone());
        let gates = args.upstream.gates().to_vec();
        tokio::spawn(self.run(client, standing, gates))
    }

    async fn run(mut self, client: kube::Client, standing: Option<Standing>, gates: Vec<String>) {
        let mut is_assumed = match self.origin.clone() {
            Origin::Flag => return,
            Origin::Read(found) => found.is_assumed(),
            Origin::Provisional(error) => self.first(&client, error, &gates).await.is_assumed(),
        };
        let mut agreement = Agreement { current: self.current, newer: None };
        let mut pause = INTERVAL;
        loop {
            sleep(std::mem::replace(&mut pause, INTERVAL)).await;
            // A standby changes nothing: its engine follows the version once it leads.
            if !is_assumed && standing.as_ref().is_some_and(|standing| !standing.leads()) {
                agreement.newer = None;
                continue;
            }
            let read = match read(&client).await {
                Ok(read) => read,
                // A read without an answer neither agrees nor disagrees.
                Err(error) => {
                    pause = INTERVAL.max(error.asked_pause());
                    continue;
                }
            };
            if std::mem::take(&mut is_assumed) {
                let found = FirstRead::Named(read);
                found.log(&gates);
                agreement.current = found.emulated();
                self.wanted.send_replace(found.emulated());
            } else if let Some(version) = agreement.read(read.emulated()) {
                // The engine logs the change itself.
                log_warnings(read, &gates);
                self.wanted.send_replace(version);
            }
        }
    }

    /// Reads the version until that succeeds, and waits until the engine behaves as it.
    async fn first(&mut self, client: &kube::Client, mut error: Unread, gates: &[String]) -> FirstRead {
        tracing::warn!(%error, "cannot read the API server's version; nothing is scheduled until it is read");
        let mut pauses = Pauses::default();
        let found = loop {
            sleep(pauses.after(&error)).await;
            match first_read(client, self.current).await {
                Ok(found) => break found,
                Err(why) => error = why,
            }
            self.unknown.send_replace(Some(error.to_string()));
        };
        found.log(gates);
        let current = found.emulated();
        self.current = current;
        self.wanted.send_replace(current);
        // If nothing takes it, the program is stopping.
        if self.taken.wait_for(|taken| *taken == Some(current)).await.is_ok() {
            self.unknown.send_replace(None);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::client::Body;
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

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

    /// An API server that answers `/version` as scripted, and then like the last time.
    fn server(answers: Vec<(u16, &'static str)>) -> (kube::Client, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            assert_eq!(request.uri().path(), "/version");
            let at = counter.fetch_add(1, Ordering::Relaxed);
            let (code, body) = answers[at.min(answers.len() - 1)];
            let response = http::Response::builder().status(code).header("retry-after", "60");
            let response = response.body(Body::from(body.as_bytes().to_vec())).unwrap();
            async move { Ok::<_, Infallible>(response) }
        });
        (kube::Client::new(service, "default"), asked)
    }

    const OF_1_35: &str = r#"{"major": "1", "minor": "35"}"#;
    const FORBIDDEN: &str =
        r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "message": "no"}"#;
    const PAGE: &str = "<html>captive portal</html>";

    /// Runs a follower whose configuration takes every version. Returns whether the version is known, and the version.
    fn following(client: kube::Client, origin: Origin) -> (Known, watch::Receiver<EmulatedVersion>) {
        let (follower, versions) = Follower::new(EmulatedVersion::NEWEST, origin, &Metrics::new());
        let (known, Versions { mut wanted, taken }) = (follower.known(), versions);
        let seen = wanted.clone();
        tokio::spawn(follower.run(client, None, Vec::new()));
        tokio::spawn(async move {
            while wanted.changed().await.is_ok() {
                taken.send_replace(Some(*wanted.borrow_and_update()));
            }
        });
        (known, seen)
    }

    #[tokio::test(start_paused = true)]
    async fn version_is_unknown_with_the_last_error_until_it_is_read() {
        let (client, asked) = server(vec![(200, PAGE), (403, PAGE), (200, OF_1_35)]);
        let (mut known, seen) = following(client, Origin::Provisional(Unread::TimedOut));
        let start = "the API server's version is not known: ";
        assert_eq!(known.check().unwrap_err(), format!("{start}no answer within 2 s"));
        known.0.changed().await.unwrap();
        let foreign = "the answer with status 200 is not the API server's: its body is not an API object";
        assert_eq!(known.check().unwrap_err(), format!("{start}{foreign}"));
        known.wait().await;
        assert_eq!((known.check(), *seen.borrow()), (Ok(()), EmulatedVersion::V1_35));
        assert_eq!(asked.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn version_is_known_only_once_the_engine_took_it() {
        let (client, _) = server(vec![(200, OF_1_35)]);
        let origin = Origin::Provisional(Unread::TimedOut);
        let (follower, Versions { mut wanted, taken }) =
            Follower::new(EmulatedVersion::NEWEST, origin, &Metrics::new());
        let mut known = follower.known();
        tokio::spawn(follower.run(client, None, Vec::new()));
        wanted.changed().await.unwrap();
        assert!(known.check().is_err());
        taken.send_replace(Some(EmulatedVersion::V1_35));
        known.wait().await;
    }

    #[tokio::test(start_paused = true)]
    async fn forbidden_version_is_assumed_until_it_can_be_read() {
        let (client, _) = server(vec![(403, FORBIDDEN)]);
        let found = read_within(&client, EmulatedVersion::V1_36, Duration::ZERO).await;
        assert_eq!(found, Ok(FirstRead::Assumed(EmulatedVersion::V1_36)));
        let (client, _) = server(vec![(403, FORBIDDEN), (403, FORBIDDEN), (200, OF_1_35)]);
        let (mut known, mut seen) = following(client, Origin::Provisional(Unread::TimedOut));
        known.wait().await;
        assert_eq!(*seen.borrow_and_update(), EmulatedVersion::NEWEST);
        seen.changed().await.unwrap();
        assert_eq!(*seen.borrow(), EmulatedVersion::V1_35);
    }

    #[tokio::test(start_paused = true)]
    async fn reads_are_repeated_with_backoff_until_the_limit() {
        let (client, asked) = server(vec![(404, PAGE)]);
        let began = Instant::now();
        assert!(read_within(&client, EmulatedVersion::NEWEST, Duration::from_secs(60)).await.is_err());
        // Pauses of 1, 2, 4, 8 and then 10 seconds, each up to half longer.
        let reads = asked.load(Ordering::Relaxed);
        assert!((6..=10).contains(&reads) && began.elapsed() <= Duration::from_secs(60), "{reads}");
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_delays_the_next_read() {
        let (client, _) = server(vec![(503, PAGE), (200, OF_1_35)]);
        let began = Instant::now();
        let found = read_within(&client, EmulatedVersion::NEWEST, Duration::from_secs(100)).await;
        assert_eq!(found.map(FirstRead::emulated), Ok(EmulatedVersion::V1_35));
        assert!(began.elapsed() >= Duration::from_secs(60), "{:?}", began.elapsed());
    }

    #[test]
    fn version_of_a_flag_is_known() {
        let (follower, _) = Follower::new(EmulatedVersion::V1_35, Origin::Flag, &Metrics::new());
        assert_eq!(follower.known().check(), Ok(()));
    }
}
