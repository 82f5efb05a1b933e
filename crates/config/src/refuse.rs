//! Checks a valid configuration for fields that this version does not support.

use crate::DEFAULT_NAME;
use crate::effective::Effective;
use crate::lease_terms::RETRY_JITTER;
use crate::v1::defaults::{LEASE_NAME, LEASE_NAMESPACE};
use crate::v1::duration::GoDuration;
use crate::v1::{Configuration, Profile};
use crate::yaml::field::Problem;

/// Returns the unsupported fields, each with advice.
pub(crate) fn problems(effective: &Effective) -> Vec<Problem> {
    let (written, complete) = (&effective.written, &effective.configuration);
    let mut problems = Vec::new();
    let mut refuse = |path: String, text: String| {
        let place = effective.document.as_ref().and_then(|document| document.find(&path));
        problems.push(Problem { place, ..Problem::new(path, text) });
    };
    if complete.leader_election.leader_elect == Some(true) {
        election(complete, effective.allow_second_default_scheduler, &mut refuse);
    }
    if written.delay_cache_until_active {
        let text = "delaying the cache is not supported by this version; remove the field";
        refuse("delayCacheUntilActive".to_owned(), text.to_owned());
    }
    problems
}

/// Checks leader election. Upstream detects the first problem only at run time
/// (`client-go/tools/leaderelection`), the others never.
fn election(complete: &Configuration, second_allowed: bool, refuse: &mut impl FnMut(String, String)) {
    let election = &complete.leader_election;
    let path = |field: &str| format!("leaderElection.{field}");
    if election.renew_deadline.0 as f64 <= RETRY_JITTER * election.retry_period.0 as f64 {
        let text =
            "couldn't create leader elector: renewDeadline must be greater than retryPeriod*JitterFactor";
        refuse(path("renewDeadline"), text.to_owned());
    }
    if election.lease_duration < GoDuration::seconds(1) {
        let text =
            "must be at least 1s: a Lease has whole seconds, and other replicas would take it immediately";
        refuse(path("leaseDuration"), text.to_owned());
    }
    let lease = (election.resource_namespace.as_str(), election.resource_name.as_str());
    let is_default = |profile: &Profile| profile.scheduler_name.as_deref() == Some(DEFAULT_NAME);
    if lease != (LEASE_NAMESPACE, LEASE_NAME)
        && !second_allowed
        && let Some(at) = complete.profiles.iter().position(is_default)
    {
        let text = format!(
            "{DEFAULT_NAME:?} is kube-scheduler's name, and with the lease {}/{} both could schedule the \
             same pods; use the lease {LEASE_NAMESPACE}/{LEASE_NAME}, rename the profile, or set \
             --allow-second-default-scheduler if no kube-scheduler runs",
            lease.0, lease.1
        );
        refuse(format!("profiles[{at}].schedulerName"), text);
    }
}
