//! Lists the objects that only the admission of pods reads, again and again: they are few and rarely change, and the
//! scheduler does not watch them.

use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use supercargo_whatif::load::files::items;
use supercargo_whatif::server::Store;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Their paths. StorageClasses are watched, too, but admission reads them from here.
const PATHS: [&str; 5] = [
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/node.k8s.io/v1/runtimeclasses",
    "/api/v1/limitranges",
    "/apis/resource.k8s.io/v1/resourceclaimtemplates",
    "/apis/storage.k8s.io/v1/storageclasses",
];
/// Interval of the lists.
const EVERY: Duration = Duration::from_secs(30);
/// Time limit of one list.
const WITHIN: Duration = Duration::from_secs(20);

/// The task that lists; dropping it stops it.
pub(super) struct Admission(JoinHandle<()>);

impl Drop for Admission {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Admission {
    /// Starts the lists.
    pub(super) fn follow(client: kube::Client, store: Arc<Store>) -> Self {
        Self(tokio::spawn(async move {
            let mut failing: BTreeSet<&str> = BTreeSet::new();
            let mut before: Vec<Option<Vec<Value>>> = vec![None; PATHS.len()];
            loop {
                let mut now = before.clone();
                for (at, path) in PATHS.into_iter().enumerate() {
                    match list(&client, path).await {
                        Ok(objects) => {
                            failing.remove(path);
                            now[at] = Some(objects);
                        }
                        Err(error) => {
                            if failing.insert(path) {
                                tracing::warn!(
                                    path,
                                    error,
                                    "failed to list what the admission of pods reads; pods are placed without it"
                                );
                            }
                        }
                    }
                }
                if now != before {
                    store.set_admission(now.iter().flatten().flatten().cloned().collect());
                    before = now;
                }
                tokio::time::sleep(EVERY).await;
            }
        }))
    }
}

async fn list(client: &kube::Client, path: &str) -> Result<Vec<Value>, String> {
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    match timeout(WITHIN, client.request::<Value>(request)).await {
        Err(_) => Err(format!("no response within {} s", WITHIN.as_secs())),
        // An API server that does not know the kind has no objects of it.
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(Vec::new()),
        Ok(Err(error)) => Err(error.to_string()),
        Ok(Ok(list)) => Ok(items(list)),
    }
}
