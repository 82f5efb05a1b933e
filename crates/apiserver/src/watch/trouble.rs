//! Logs watch failures: the first one, repetitions at an interval, and the recovery.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use supercargo_core::model::event::Kind;

use super::lines::Trouble;
use super::object::Object;
use crate::Throttle;

/// Log interval of a repeated failure.
const PERIOD: Duration = Duration::from_secs(60);

/// Failure state of all watches.
#[derive(Debug)]
pub(super) struct Troubles {
    /// Shared by all kinds, since an unreachable API server affects all of them.
    away: Throttle,
    /// One per kind, since a refusal concerns one kind.
    refusals: [Throttle; Kind::EVERY.len()],
    troubled: Mutex<BTreeSet<Kind>>,
}

impl Troubles {
    pub(super) fn new() -> Self {
        let throttle = || Throttle::new(PERIOD);
        let refusals = Kind::EVERY.map(|_| throttle());
        Self { away: throttle(), refusals, troubled: Mutex::default() }
    }

    /// Logs that the watch of a kind failed.
    pub(super) fn failed<K: Object>(&self, trouble: &Trouble) {
        self.report(K::KIND, &K::kind(&()), resource::<K>, trouble);
    }

    fn report(&self, of: Kind, kind: &str, resource: fn() -> String, trouble: &Trouble) {
        self.troubled.lock().unwrap_or_else(PoisonError::into_inner).insert(of);
        let throttle = match trouble {
            Trouble::Refused(_) | Trouble::Garbled(_) | Trouble::TooLarge(_) | Trouble::Ahead { .. } => {
                &self.refusals[of as usize]
            }
            Trouble::NobodyListens | Trouble::Lost(_) | Trouble::Ended(_) => &self.away,
        };
        let Some(withheld) = throttle.admit() else {
            tracing::debug!(%kind, %trouble, "watch failed; retrying");
            return;
        };
        match trouble {
            Trouble::Refused(status) if status.code == 403 => tracing::error!(
                %kind, withheld,
                "{trouble}: grant list and watch on {} as in manifests/base/cluster-role-read.yaml; retrying",
                resource()
            ),
            Trouble::Refused(status) if status.code == 401 => tracing::error!(
                %kind, withheld,
                "{trouble}: the API server rejected our credentials; check the kubeconfig or service account token; retrying"
            ),
            Trouble::Refused(status) if status.code == 410 => {
                tracing::info!(%kind, %trouble, withheld, "resource version is too old; relisting");
            }
            _ => tracing::warn!(%kind, %trouble, withheld, "watch failed; retrying"),
        }
    }

    /// Records that the watch of a kind works again.
    pub(super) fn over<K: Object>(&self) {
        self.over_with(K::KIND, &K::kind(&()));
    }

    fn over_with(&self, of: Kind, kind: &str) {
        tracing::debug!(%kind, "watch recovered");
        let mut troubled = self.troubled.lock().unwrap_or_else(PoisonError::into_inner);
        if troubled.remove(&of) && troubled.is_empty() {
            self.away.reset();
            self.refusals.iter().for_each(Throttle::reset);
            tracing::info!("all watches have recovered");
        }
    }
}

/// Returns the resource as RBAC rules name it.
fn resource<K: Object>() -> String {
    let (plural, group) = (K::plural(&()), K::group(&()));
    if group.is_empty() { plural.into_owned() } else { format!("{plural}.{group}") }
}
