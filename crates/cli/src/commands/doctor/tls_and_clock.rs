//! Checks of certificates and clocks: validity of the API server's and the kubeconfig's certificates, and
//! clock skew. Contacts no server.

use crate::commands::doctor::judge::{check, unknown, well};
use crate::commands::doctor::{Check, Status};
use crate::live::certificates::{Certificates, Validity, ValidityResult};
use jiff::{SignedDuration, Timestamp};

/// Remaining validity below which a certificate should be renewed.
const SOON: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Maximum difference of clocks. Covers the API server's precision of one second and the duration of a
/// request.
const APART: SignedDuration = SignedDuration::from_secs(5);

/// Clocks of both sides.
#[derive(Clone, Debug)]
pub(super) struct Clocks {
    /// Time of this machine when the answer arrived.
    pub here: Timestamp,
    /// Time of the API server, or why it is unknown.
    pub there: Result<Timestamp, String>,
}

impl Clocks {
    /// Reads the clocks from an answer that just arrived; `date` is its HTTP Date header.
    pub(super) fn read(here: Timestamp, date: Option<&str>) -> Self {
        let parsed = date.map(|date| jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date));
        let there = match parsed {
            Some(Ok(there)) => Ok(there),
            Some(Err(error)) => Err(format!("invalid Date header {:?}: {error}", date.unwrap_or_default())),
            None => Err("the answer has no Date header".to_owned()),
        };
        Self { here, there }
    }

    /// Returns the API server's time, or this machine's if it is unknown.
    pub(super) fn now(&self) -> Timestamp {
        *self.there.as_ref().unwrap_or(&self.here)
    }
}

/// Returns the checks of certificates and clocks.
pub(super) fn checks(certificates: &Certificates, clocks: &Clocks) -> [Check; 4] {
    let now = clocks.now();
    [
        certificate(
            (
                "ApiServerCertificate",
                "the API server's certificate",
                "the connection to the API server uses no TLS",
            ),
            &certificates.serving,
            now,
            "renew it (kubeadm: kubeadm certs renew apiserver) and restart the API server: otherwise no client, including supercargo, can connect",
        ),
        certificate(
            (
                "ClientCertificate",
                "the kubeconfig's client certificate",
                "the kubeconfig has no client certificate",
            ),
            &certificates.client,
            now,
            "renew it (kubeadm: kubeadm certs renew admin.conf); to check supercargo's own kubeconfig, pass it with --kubeconfig",
        ),
        certificate(
            (
                "CertificateAuthority",
                "the certificate authority of the kubeconfig",
                "the kubeconfig has no certificate authority",
            ),
            &certificates.authority,
            now,
            "create a new certificate authority and distribute it while the old one is valid: all certificates it signed expire with it",
        ),
        skew(clocks),
    ]
}

fn certificate(
    (id, what, none): (&'static str, &str, &str),
    found: &ValidityResult,
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
        return check(id, Status::Problem, format!("{what} has expired: it was valid until {until}"), to_do);
    }
    if from > now {
        let clock = "check the clocks of both sides, or wait";
        return check(
            id,
            Status::Problem,
            format!("{what} is not valid yet: it is valid from {from}"),
            clock,
        );
    }
    let text = format!("{what} is valid until {until}, {} from now", days(left));
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
        return well(id, "the clocks of this machine and the API server agree");
    }
    let which = if apart.is_positive() { "ahead of" } else { "behind" };
    check(
        id,
        Status::Warning,
        format!("the clock of this machine is {seconds} s {which} the API server's"),
        "synchronize both with NTP: each side checks certificates, tokens and lease ages by its own clock",
    )
}
