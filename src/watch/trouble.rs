//! Says what troubles the watches: once clearly, then once in a while, and when it is over.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use supercargo_core::event::Kind;

use super::lines::Trouble;
use super::object::Object;
use crate::dispatch::pause::Throttle;

/// How often the same trouble is told.
const PERIOD: Duration = Duration::from_secs(60);

/// The troubles of all watches.
#[derive(Debug)]
pub(super) struct Troubles {
    /// An API server that is away is away for all kinds: told once for all.
    away: Throttle,
    /// A refusal is about one kind.
    refusals: [Throttle; Kind::ALL.len()],
    troubled: Mutex<BTreeSet<Kind>>,
}

impl Troubles {
    pub(super) fn new() -> Self {
        let throttle = || Throttle::new(PERIOD);
        let refusals = Kind::ALL.map(|_| throttle());
        Self { away: throttle(), refusals, troubled: Mutex::default() }
    }

    /// The watch of a kind broke off.
    pub(super) fn tell<K: Object>(&self, trouble: &Trouble) {
        self.tell_of(K::KIND, &K::kind(&()), resource::<K>, trouble);
    }

    fn tell_of(&self, of: Kind, kind: &str, resource: fn() -> String, trouble: &Trouble) {
        self.troubled.lock().unwrap_or_else(PoisonError::into_inner).insert(of);
        let throttle = match trouble {
            Trouble::Refused(_) | Trouble::Garbled(_) | Trouble::TooLarge(_) => &self.refusals[of as usize],
            Trouble::NobodyListens | Trouble::Lost(_) | Trouble::Ended(_) => &self.away,
        };
        let Some(withheld) = throttle.admit() else {
            tracing::debug!(%kind, %trouble, "watch broke off; trying again");
            return;
        };
        match trouble {
            Trouble::Refused(status) if status.code == 403 => tracing::error!(
                %kind, withheld,
                "{trouble}: grant list and watch on {} as manifests/base/cluster-role-read.yaml does; trying again",
                resource()
            ),
            Trouble::Refused(status) if status.code == 401 => tracing::error!(
                %kind, withheld,
                "{trouble}: the API server does not accept our credentials; see that the kubeconfig or token is valid; trying again"
            ),
            Trouble::Refused(status) if status.code == 410 => {
                tracing::info!(%kind, %trouble, withheld, "what was known is too old; listing anew");
            }
            _ => tracing::warn!(%kind, %trouble, withheld, "cannot watch; trying again"),
        }
    }

    /// The watch of a kind works again.
    pub(super) fn over<K: Object>(&self) {
        self.over_with(K::KIND, &K::kind(&()));
    }

    fn over_with(&self, of: Kind, kind: &str) {
        tracing::debug!(%kind, "watching again");
        let mut troubled = self.troubled.lock().unwrap_or_else(PoisonError::into_inner);
        if troubled.remove(&of) && troubled.is_empty() {
            self.away.reset();
            self.refusals.iter().for_each(Throttle::reset);
            tracing::info!("the API server answers all watches again");
        }
    }
}

/// The resource as a role names it.
fn resource<K: Object>() -> String {
    let (plural, group) = (K::plural(&()), K::group(&()));
    if group.is_empty() { plural.into_owned() } else { format!("{plural}.{group}") }
}
