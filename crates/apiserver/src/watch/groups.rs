//! The watch of PodGroups, in whichever version of their API the server serves.
//!
//! `scheduling.k8s.io/v1alpha2`, of Kubernetes 1.36, is gone in 1.37, which serves `v1beta1`; objects are not
//! converted. The engine sees one kind, so a change of the version looks like a relist.

use super::backoff::Backoff;
use super::kind::{ABSENT_FOR, Stopped, Watch};
use supercargo_objects::api::{PodGroupV1Alpha2, PodGroupV1Beta1};

/// Watches PodGroups in the newest version that is served, until the scheduling thread ends.
pub(super) async fn run(mut newer: Watch<PodGroupV1Beta1>, mut older: Watch<PodGroupV1Alpha2>) {
    let mut known = Known::Nothing;
    loop {
        let Stopped::NotServed { was_served: was_newer } = newer.run_while_served().await else { return };
        let Stopped::NotServed { was_served: was_older } = older.run_while_served().await else { return };
        if was_newer || was_older {
            // An upgrade may have replaced one version with the other.
            known = Known::Groups;
            tokio::time::sleep(Backoff::after_short_watch()).await;
            continue;
        }
        match known {
            Known::Nothing => {
                if newer.list_nothing().await.is_err() {
                    return;
                }
                known = Known::Empty;
            }
            // Keep them: behind a load balancer, other servers may still serve that version.
            Known::Groups => {
                tracing::warn!("the API server does not serve PodGroups any more; the known ones are kept");
                known = Known::Kept;
            }
            Known::Empty | Known::Kept => {}
        }
        newer.rests(ABSENT_FOR).await;
    }
}

/// The engine's state of knowledge about PodGroups while no version is served.
enum Known {
    /// Nothing was reported yet.
    Nothing,
    /// An empty list was reported.
    Empty,
    /// Groups of a version that was served until now.
    Groups,
    /// As `Groups`, and the warning was logged.
    Kept,
}
