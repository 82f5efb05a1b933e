//! Certificates and clocks: what the API server shows, what the kubeconfig has, and whether both sides agree what time it is. Judges; asks nobody.

use super::judge::{check, unknown, well};
use super::{Check, Status};
use crate::cli::live::certificates::{Certificates, Found, Validity};
use jiff::{SignedDuration, Timestamp};

/// A certificate that ends sooner than this wants to be renewed.
const SOON: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Clocks that are further apart than this disagree. The API server tells whole seconds, and an answer takes its time.
const APART: SignedDuration = SignedDuration::from_secs(5);

/// What time it is.
#[derive(Clone, Debug)]
pub(super) struct Clocks {
    /// To this machine, when the answer came.
    pub(super) here: Timestamp,
    /// To the API server, or why that is not known.
    pub(super) there: Result<Timestamp, String>,
}

impl Clocks {
    /// As an answer tells that came just now; `date` is as HTTP has it.
    pub(super) fn read(here: Timestamp, date: Option<&str>) -> Self {
        let parsed = date.map(|date| jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date));
        let there = match parsed {
            Some(Ok(there)) => Ok(there),
            Some(Err(error)) => Err(format!("it says {:?}: {error}", date.unwrap_or_default())),
            None => Err("it does not say what time it is".to_owned()),
        };
        Self { here, there }
    }

    /// What time it is in the cluster, as far as that is known.
    pub(super) fn now(&self) -> Timestamp {
        *self.there.as_ref().unwrap_or(&self.here)
    }
}

/// The checks of certificates and clocks.
pub(super) fn checks(certificates: &Certificates, clocks: &Clocks) -> [Check; 4] {
    let now = clocks.now();
    [
        certificate(
            (
                "ApiServerCertificate",
                "the API server's certificate",
                "the API server is spoken to without TLS",
            ),
            &certificates.serving,
            now,
            "renew it (kubeadm: kubeadm certs renew apiserver) and restart the API server: without it nobody, supercargo too, reaches the cluster",
        ),
        certificate(
            (
                "ClientCertificate",
                "the kubeconfig's client certificate",
                "the kubeconfig has no client certificate",
            ),
            &certificates.client,
            now,
            "have a new one made (kubeadm: kubeadm certs renew admin.conf); of supercargo's own kubeconfig, if it has one, ask with --kubeconfig",
        ),
        certificate(
            (
                "CertificateAuthority",
                "the authority that the kubeconfig trusts",
                "the kubeconfig names no authority of its own",
            ),
            &certificates.authority,
            now,
            "give the cluster a new authority and hand it on, while the old one is good still: all that it has signed ends with it",
        ),
        skew(clocks),
    ]
}

fn certificate(
    (id, what, none): (&'static str, &str, &str),
    found: &Found,
    now: Timestamp,
    to_do: &str,
) -> Check {
    let Validity { from, until } = match found {
        Ok(Some(validity)) => *validity,
        Ok(None) => return well(id, none),
        Err(why) => return unknown(id, why, ""),
    };
    let left = until.duration_since(now);
    if left <= SignedDuration::ZERO {
        return check(id, Status::Problem, format!("{what} has ended: it was good until {until}"), to_do);
    }
    if from > now {
        let clock = "see that the clocks of both sides are right, or wait";
        return check(id, Status::Problem, format!("{what} is not good yet: it is from {from} on"), clock);
    }
    let text = format!("{what} is good until {until}, {} from now", days(left));
    if left < SOON { check(id, Status::Warning, text, to_do) } else { well(id, text) }
}

fn days(left: SignedDuration) -> String {
    match left.as_hours() / 24 {
        0 => "less than a day".to_owned(),
        1 => "a day".to_owned(),
        days => format!("{days} days"),
    }
}

fn skew(clocks: &Clocks) -> Check {
    let id = "ClockSkew";
    let there = match &clocks.there {
        Ok(there) => *there,
        Err(why) => return unknown(id, why, ""),
    };
    let apart = clocks.here.duration_since(there);
    let seconds = apart.as_secs().unsigned_abs();
    if apart.abs() <= APART {
        return well(id, "this machine and the API server agree what time it is");
    }
    let which = if apart.is_positive() { "ahead of" } else { "behind" };
    check(
        id,
        Status::Warning,
        format!("the clock of this machine is {seconds} s {which} the API server's"),
        "set both by NTP: certificates, tokens and the ages of leases are judged by the clock of whoever looks",
    )
}
