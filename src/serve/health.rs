//! `/healthz`, `/livez` and `/readyz`, with the response bodies of upstream's `apiserver/pkg/server/healthz`.
//!
//! Each check is a closure, evaluated on every request; nothing is cached.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::telemetry::metrics::CheckTally;
use supercargo_apiserver::Throttle;

/// Log interval of failed checks, since anyone can request them. Kubelet probes run every 10 s by default.
const LOG_EVERY: Duration = Duration::from_secs(10);

type Look = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// One check of an endpoint.
pub struct Check {
    name: String,
    look: Look,
    successes: AtomicU64,
    errors: AtomicU64,
    passing: AtomicBool,
}

impl Check {
    /// Returns a check. Use upstream's name where one exists (`sched-handler-sync`, `leaderElection`). `look`
    /// runs on every request, so it must not block. Its error goes to the log, and to clients that may read
    /// `/readyz/<name>`.
    pub fn new(name: &str, look: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self {
            name: name.to_owned(),
            look: Box::new(look),
            successes: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            passing: AtomicBool::new(false),
        }
    }

    fn ping() -> Self {
        Self::new("ping", || Ok(()))
    }

    /// Runs the check as part of its endpoint and counts the result for `/metrics/slis`.
    fn run(&self) -> Result<(), String> {
        let result = (self.look)();
        let counter = if result.is_ok() { &self.successes } else { &self.errors };
        counter.fetch_add(1, Ordering::Relaxed);
        self.passing.store(result.is_ok(), Ordering::Relaxed);
        result
    }
}

/// Response of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Health {
    pub(super) healthy: bool,
    pub(super) body: String,
}

/// The checks of the three endpoints.
pub struct Checks {
    healthz: Vec<Check>,
    livez: Vec<Check>,
    readyz: Vec<Check>,
    draining: Arc<AtomicBool>,
    failures: Throttle,
}

impl Default for Checks {
    fn default() -> Self {
        Self::new()
    }
}

impl Checks {
    /// Returns upstream's checks without leader election: `ping` on `/healthz` and `/livez`, `shutdown` on
    /// `/readyz`.
    pub fn new() -> Self {
        let draining = Arc::new(AtomicBool::new(false));
        let seen = draining.clone();
        let shutdown = Check::new("shutdown", move || {
            if seen.load(Ordering::Relaxed) { Err("process is shutting down".to_owned()) } else { Ok(()) }
        });
        let (healthz, livez, readyz) = (vec![Check::ping()], vec![Check::ping()], vec![shutdown]);
        Self { healthz, livez, readyz, draining, failures: Throttle::new(LOG_EVERY) }
    }

    /// Adds a check to `/readyz`.
    #[must_use]
    pub fn with_ready(mut self, check: Check) -> Self {
        self.readyz.push(check);
        self
    }

    /// Adds a check to `/livez`. Use it only for failures that a restart repairs.
    #[must_use]
    pub fn with_live(mut self, check: Check) -> Self {
        self.livez.push(check);
        self
    }

    /// Replaces `ping` on `/healthz` with `leaderElection`, and adds the latter as first check of `/readyz`.
    #[must_use]
    pub fn with_leader_election(
        mut self,
        look: impl Fn() -> Result<(), String> + Clone + Send + Sync + 'static,
    ) -> Self {
        self.healthz = vec![Check::new("leaderElection", look.clone())];
        self.readyz.insert(0, Check::new("leaderElection", look));
        self
    }

    /// Makes `/readyz` fail from now on, since the process is shutting down; it may still serve for a while.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    fn endpoint(&self, endpoint: &str) -> Option<&[Check]> {
        match endpoint {
            "healthz" => Some(&self.healthz),
            "livez" => Some(&self.livez),
            "readyz" => Some(&self.readyz),
            _ => None,
        }
    }

    /// Returns the response for a path such as `/readyz` or `/readyz/shutdown`; `None` if there is no such
    /// check.
    pub(super) fn answer(&self, path: &str, query: Option<&str>) -> Option<Health> {
        let path = path.strip_prefix('/')?;
        match path.split_once('/') {
            None => Some(self.all(path, query.unwrap_or_default())?),
            Some((endpoint, name)) => {
                let check = self.endpoint(endpoint)?.iter().find(|check| check.name == name)?;
                Some(match (check.look)() {
                    Ok(()) => Health { healthy: true, body: "ok".to_owned() },
                    Err(reason) => {
                        Health { healthy: false, body: format!("internal server error: {reason}\n") }
                    }
                })
            }
        }
    }

    /// Runs all checks of an endpoint; `None` if there is no such endpoint.
    fn all(&self, endpoint: &str, query: &str) -> Option<Health> {
        let checks = self.endpoint(endpoint)?;
        let parameters: Vec<(String, String)> = query
            .split('&')
            .filter(|part| !part.is_empty())
            .map(|part| part.split_once('=').unwrap_or((part, "")))
            .map(|(key, value)| (percent_decoded(key), percent_decoded(value)))
            .collect();
        let excluded: BTreeSet<&str> =
            parameters.iter().filter(|(key, _)| key == "exclude").map(|(_, value)| value.as_str()).collect();
        let mut unknown = excluded.clone();
        let (mut body, mut failed) = (String::new(), Vec::new());
        for check in checks {
            let name = check.name.as_str();
            let _ = if excluded.contains(name) {
                unknown.remove(name);
                writeln!(body, "[+]{name} excluded: ok")
            } else if let Err(reason) = check.run() {
                failed.push(format!("{name}: {reason}"));
                writeln!(body, "[-]{name} failed: reason withheld")
            } else {
                writeln!(body, "[+]{name} ok")
            };
        }
        if !unknown.is_empty() {
            let names: Vec<String> = unknown.iter().map(|name| format!("{name:?}")).collect();
            let names = names.join(",");
            let _ = writeln!(body, "warn: some health checks cannot be excluded: no matches for {names}");
        }
        if !failed.is_empty() {
            if let Some(withheld) = self.failures.admit() {
                tracing::info!(endpoint, failed = failed.join("; "), withheld, "health check failed");
            }
            let _ = writeln!(body, "{endpoint} check failed");
            return Some(Health { healthy: false, body });
        }
        if parameters.iter().any(|(key, _)| key == "verbose") {
            let _ = writeln!(body, "{endpoint} check passed");
        } else {
            "ok".clone_into(&mut body);
        }
        Some(Health { healthy: true, body })
    }

    /// Returns the results of all checks that have run.
    pub(super) fn tallies(&self) -> Vec<CheckTally<'_>> {
        [("healthz", &self.healthz), ("livez", &self.livez), ("readyz", &self.readyz)]
            .into_iter()
            .flat_map(|(endpoint, checks)| checks.iter().map(move |check| (endpoint, check)))
            .map(|(endpoint, check)| CheckTally {
                name: &check.name,
                endpoint,
                passing: check.passing.load(Ordering::Relaxed),
                successes: check.successes.load(Ordering::Relaxed),
                errors: check.errors.load(Ordering::Relaxed),
            })
            .filter(|tally| tally.successes + tally.errors > 0)
            .collect()
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = if first == b'%' { tail.get(..2).and_then(hex_byte) } else { None };
        bytes.push(escaped.unwrap_or(if first == b'+' { b' ' } else { first }));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(digits[0])? * 16 + digit(digits[1])?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(synced: bool) -> Checks {
        Checks::new().with_ready(Check::new("sched-handler-sync", move || {
            if synced { Ok(()) } else { Err("waiting for handlers to sync: Pod".to_owned()) }
        }))
    }

    fn body(checks: &Checks, path: &str, query: &str) -> String {
        let health = checks.answer(path, Some(query)).unwrap();
        format!("{} {}", if health.healthy { 200 } else { 500 }, health.body)
    }

    #[test]
    fn response_bodies_equal_upstreams() {
        let checks = checks(true);
        for path in ["/healthz", "/livez", "/readyz"] {
            assert_eq!(body(&checks, path, ""), "200 ok");
        }
        assert_eq!(body(&checks, "/healthz", "verbose"), "200 [+]ping ok\nhealthz check passed\n");
        assert_eq!(body(&checks, "/livez", "verbose=1"), "200 [+]ping ok\nlivez check passed\n");
        assert_eq!(
            body(&checks, "/readyz", "verbose"),
            "200 [+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n"
        );
        assert_eq!(
            body(&checks, "/readyz", "verbose&exclude=shutdown"),
            "200 [+]shutdown excluded: ok\n[+]sched-handler-sync ok\nreadyz check passed\n"
        );
        assert_eq!(
            body(&checks, "/readyz", "exclude=nope&verbose&exclude=a%20b"),
            "200 [+]shutdown ok\n[+]sched-handler-sync ok\n\
             warn: some health checks cannot be excluded: no matches for \"a b\",\"nope\"\n\
             readyz check passed\n"
        );
        let elected = checks.with_leader_election(|| Ok(()));
        assert_eq!(body(&elected, "/healthz", "verbose"), "200 [+]leaderElection ok\nhealthz check passed\n");
        assert_eq!(
            body(&elected, "/readyz", "verbose"),
            "200 [+]leaderElection ok\n[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n"
        );
    }

    #[test]
    fn failure_reason_is_shown_only_on_the_path_of_the_check() {
        let checks = checks(false);
        let failed =
            "500 [+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n";
        assert_eq!(body(&checks, "/readyz", ""), failed);
        assert_eq!(body(&checks, "/readyz", "verbose"), failed);
        assert_eq!(body(&checks, "/readyz", "exclude=sched-handler-sync"), "200 ok");
        assert_eq!(
            body(&checks, "/readyz/sched-handler-sync", ""),
            "500 internal server error: waiting for handlers to sync: Pod\n"
        );
        assert_eq!(body(&checks, "/healthz", ""), "200 ok");
    }

    #[test]
    fn draining_process_is_live_but_not_ready() {
        let checks = checks(true);
        assert_eq!(body(&checks, "/readyz/shutdown", ""), "200 ok");
        checks.drain();
        assert_eq!(
            body(&checks, "/readyz", ""),
            "500 [-]shutdown failed: reason withheld\n[+]sched-handler-sync ok\nreadyz check failed\n"
        );
        assert_eq!(body(&checks, "/livez", ""), "200 ok");
    }

    #[test]
    fn unknown_check_has_no_response() {
        let checks = checks(true);
        for path in ["/readyz/nope", "/readyz/", "/healthz/shutdown", "/metrics", "/", "", "healthz"] {
            assert_eq!(checks.answer(path, None), None, "{path}");
        }
    }

    #[test]
    fn only_endpoint_requests_count_as_check_runs() {
        let checks = checks(false);
        let _ = checks.answer("/readyz/sched-handler-sync", None);
        assert_eq!(checks.tallies(), []);
        let _ = checks.answer("/readyz", Some("exclude=shutdown"));
        let _ = checks.answer("/livez", None);
        let seen: Vec<_> =
            checks.tallies().iter().map(|t| (t.name, t.endpoint, t.passing, t.successes, t.errors)).collect();
        assert_eq!(
            seen.iter().map(|row| format!("{row:?}")).collect::<Vec<_>>(),
            [r#"("ping", "livez", true, 1, 0)"#, r#"("sched-handler-sync", "readyz", false, 0, 1)"#]
        );
    }

    #[test]
    fn query_is_percent_decoded() {
        assert_eq!(percent_decoded("a%2Fb+c%zz%4"), "a/b c%zz%4");
    }
}
