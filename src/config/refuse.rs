//! What a valid configuration may ask for and this version does not do.

use super::DEFAULT_NAME;
use super::defaults::{LEASE_NAME, LEASE_NAMESPACE};
use super::duration::GoDuration;
use super::effective::Effective;
use super::field::Problem;
use super::v1::{Configuration, Profile};
use crate::lease::JITTER;

/// The fields that cannot be honoured, each with what to do.
pub(super) fn problems(effective: &Effective) -> Vec<Problem> {
    let (written, complete) = (&effective.written, &effective.configuration);
    let mut problems = Vec::new();
    let mut refuse = |path: String, text: String| {
        let place = effective.document.as_ref().and_then(|document| document.find(&path));
        problems.push(Problem { place, ..Problem::new(path, text) });
    };
    let not_built = |what: &str| format!("{what} is not part of this version; remove the field");
    if complete.leader_election.leader_elect == Some(true) {
        election(complete, effective.allow_second_default_scheduler, &mut refuse);
    }
    let profiling = [
        ("enableProfiling", written.enable_profiling),
        ("enableContentionProfiling", written.enable_contention_profiling),
    ];
    for (field, _) in profiling.into_iter().filter(|(_, enabled)| *enabled == Some(true)) {
        refuse(field.to_owned(), not_built("serving profiles"));
    }
    if written.delay_cache_until_active {
        refuse("delayCacheUntilActive".to_owned(), not_built("delaying the cache"));
    }
    problems
}

/// What cannot be elected. Upstream finds the first when it runs (`client-go/tools/leaderelection`), and the others never.
fn election(complete: &Configuration, second_allowed: bool, refuse: &mut impl FnMut(String, String)) {
    let election = &complete.leader_election;
    let path = |field: &str| format!("leaderElection.{field}");
    if election.renew_deadline.0 as f64 <= JITTER * election.retry_period.0 as f64 {
        let text =
            "couldn't create leader elector: renewDeadline must be greater than retryPeriod*JitterFactor";
        refuse(path("renewDeadline"), text.to_owned());
    }
    if election.lease_duration < GoDuration::seconds(1) {
        let text = "must be at least 1s: a Lease counts whole seconds, and others would take it at any time";
        refuse(path("leaseDuration"), text.to_owned());
    }
    let lease = (election.resource_namespace.as_str(), election.resource_name.as_str());
    let is_default = |profile: &Profile| profile.scheduler_name.as_deref() == Some(DEFAULT_NAME);
    if lease != (LEASE_NAMESPACE, LEASE_NAME)
        && !second_allowed
        && let Some(at) = complete.profiles.iter().position(is_default)
    {
        let text = format!(
            "{DEFAULT_NAME:?} is kube-scheduler's own name, and under the lease {}/{} nothing keeps the two from scheduling the \
             same pods; contend for {LEASE_NAMESPACE}/{LEASE_NAME}, name the profile otherwise, or say \
             --allow-second-default-scheduler where no kube-scheduler runs",
            lease.0, lease.1
        );
        refuse(format!("profiles[{at}].schedulerName"), text);
    }
}
