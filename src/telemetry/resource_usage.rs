//! Requests and limits of all pods in the cluster, for `/metrics/resources` only.
//!
//! Receives pods from the pod watch, starting with the first scrape. The engine does not keep these amounts:
//! it stores requests in its own units, and other schedulers' pods only after they have a node. Upstream
//! computes the metrics from its pod informer. No decision reads this module.

use crate::telemetry::metrics::{PodAmount, render_resources};
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use supercargo_apiserver::watch::{Onlooker, Relist};
use supercargo_objects::api::Pod;
use supercargo_objects::convert::requests::shown::{is_zero, requests_and_limits};
use tokio::sync::watch;

/// How long the first scrape waits for the pod list.
const LISTED_WITHIN: Duration = Duration::from_secs(8);

/// Requests and limits of the pods in the cluster.
#[derive(Debug)]
pub struct ResourceUsage {
    pods: Mutex<Pods>,
    /// Whether a complete list of pods has been read.
    whole: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Pods {
    wanted: bool,
    /// Number of the list that is being read or was read last.
    list: u32,
    /// Whether that list began after the first scrape, so that it is complete here.
    counts: bool,
    by_name: HashMap<Name, Known>,
    texts: Shared<str>,
    amounts: Shared<Amounts>,
}

/// Data of one pod. Equal values are shared between pods.
#[derive(Clone, Debug)]
struct Known {
    list: u32,
    node: Arc<str>,
    scheduler: Arc<str>,
    priority: Arc<str>,
    amounts: Arc<Amounts>,
}

/// Namespace and name of a pod.
type Name = (Arc<str>, Arc<str>);
/// Amount by resource, as the bits of an `f64`: values are compared and printed, never added.
type List = Vec<(Box<str>, u64)>;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Amounts {
    requests: List,
    limits: List,
}

/// Interned values: equal values share one allocation.
#[derive(Debug)]
struct Shared<T: ?Sized> {
    values: HashSet<Arc<T>>,
    /// Number of values at which unused ones are dropped next.
    sweep_at: usize,
}

impl<T: ?Sized> Default for Shared<T> {
    fn default() -> Self {
        Self { values: HashSet::new(), sweep_at: 1_024 }
    }
}

impl<T: ?Sized + Hash + Eq> Shared<T> {
    fn get<O: AsRef<T> + Into<Arc<T>>>(&mut self, value: O) -> Arc<T> {
        if let Some(known) = self.values.get(value.as_ref()) {
            return Arc::clone(known);
        }
        if self.values.len() >= self.sweep_at {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.sweep_at = (2 * self.values.len()).max(1_024);
        }
        let value = value.into();
        self.values.insert(Arc::clone(&value));
        value
    }
}

impl AsRef<Amounts> for Amounts {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Default for ResourceUsage {
    fn default() -> Self {
        Self { pods: Mutex::default(), whole: watch::channel(false).0 }
    }
}

impl ResourceUsage {
    /// Returns the text of `/metrics/resources`; `None` if the pods are not listed within `LISTED_WITHIN`.
    /// The first call requests a new list of pods through `relist`.
    pub async fn render(&self, relist: &Relist) -> Option<String> {
        if !std::mem::replace(&mut self.lock().wanted, true) {
            relist.request();
        }
        let mut whole = self.whole.subscribe();
        tokio::time::timeout(LISTED_WITHIN, whole.wait_for(|whole| *whole)).await.ok()?.ok()?;
        // Copied, so that the pod watch does not wait for the lock while rows are sorted and formatted.
        let pods: Vec<_> =
            self.lock().by_name.iter().map(|(name, pod)| (name.clone(), pod.clone())).collect();
        tokio::task::spawn_blocking(move || render(&pods)).await.ok()
    }

    fn lock(&self) -> MutexGuard<'_, Pods> {
        // Every update leaves the data consistent, so a poisoned lock is usable.
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn render(pods: &[(Name, Known)]) -> String {
    let rows = |of: fn(&Amounts) -> &List| {
        let all = pods.iter().flat_map(|((namespace, name), pod)| {
            of(&pod.amounts).iter().map(|(resource, amount)| PodAmount {
                namespace,
                pod: name,
                node: &pod.node,
                scheduler: &pod.scheduler,
                priority: &pod.priority,
                resource,
                amount: f64::from_bits(*amount),
            })
        });
        all.collect()
    };
    render_resources(rows(|amounts| &amounts.requests), rows(|amounts| &amounts.limits))
}

fn key(pod: &Pod) -> Name {
    let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
    (text(&pod.metadata.namespace), text(&pod.metadata.name))
}

/// Returns the amounts to show for a pod; `None` if it has ended or cannot be decoded.
fn amounts(pod: &Pod) -> Option<Amounts> {
    let content = pod.content().ok()?;
    if !content.spec.node_name.is_empty() && pod.has_ended() {
        return None;
    }
    let (requests, limits) = requests_and_limits(&content.spec).ok()?;
    let shown = |amounts: Vec<(&str, supercargo_objects::convert::quantity::Quantity)>| {
        let some = amounts.into_iter().filter(|(_, amount)| !is_zero(*amount));
        some.map(|(name, amount)| (name.into(), amount.approximately().to_bits())).collect()
    };
    Some(Amounts { requests: shown(requests), limits: shown(limits) })
}

impl Onlooker<Pod> for ResourceUsage {
    fn list_began(&self) {
        let mut pods = self.lock();
        pods.list = pods.list.wrapping_add(1);
        pods.counts = pods.wanted;
    }

    fn applied(&self, pod: &Pod) {
        let mut pods = self.lock();
        if !pods.wanted {
            return;
        }
        let (Some(amounts), Ok(content)) = (amounts(pod), pod.content()) else {
            pods.by_name.remove(&key(pod));
            return;
        };
        let spec = &content.spec;
        let priority = spec.priority.map(|priority| priority.to_string()).unwrap_or_default();
        let (namespace, name) = key(pod);
        let pods = &mut *pods;
        let known = Known {
            list: pods.list,
            node: pods.texts.get(spec.node_name.as_str()),
            scheduler: pods.texts.get(spec.scheduler_name.as_str()),
            priority: pods.texts.get(priority.as_str()),
            amounts: pods.amounts.get(amounts),
        };
        let namespace = pods.texts.get(&*namespace);
        pods.by_name.insert((namespace, name), known);
    }

    fn gone(&self, pod: &Pod) {
        self.lock().by_name.remove(&key(pod));
    }

    fn list_ended(&self) {
        let mut pods = self.lock();
        if !pods.counts {
            return;
        }
        let list = pods.list;
        pods.by_name.retain(|_, pod| pod.list == list);
        drop(pods);
        self.whole.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, spec: &str) -> Pod {
        let text = format!(r#"{{"metadata": {{"name": "{name}", "namespace": "team"}}, "spec": {spec}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    fn asking(name: &str, cpu: &str) -> Pod {
        let spec = r#"{"schedulerName": "s", "priority": 7, "nodeName": "n", "containers": [{"resources": {"requests": {"cpu": "CPU"}}}]}"#;
        pod(name, &spec.replace("CPU", cpu))
    }

    fn listed(usage: &ResourceUsage, pods: &[Pod]) {
        usage.list_began();
        pods.iter().for_each(|pod| usage.applied(pod));
        usage.list_ended();
    }

    /// Returns name and request of each pod in the metrics.
    async fn shown(usage: &ResourceUsage) -> Vec<String> {
        let text = usage.render(&Relist::default()).await.unwrap();
        let series = text.lines().filter_map(|line| line.strip_prefix("kube_pod_resource_request{"));
        series
            .map(|line| {
                let name = line.split("pod=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
                format!("{name} {}", line.rsplit(' ').next().unwrap())
            })
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn first_scrape_requests_a_new_pod_list() {
        let (usage, relist) = (ResourceUsage::default(), Relist::default());
        listed(&usage, &[asking("early", "1")]);
        assert!(usage.lock().by_name.is_empty());
        let asked = usage.render(&relist);
        let answered = async {
            relist.requested().await;
            listed(&usage, &[asking("a", "100m"), asking("b", "2")]);
        };
        let (text, ()) = tokio::join!(asked, answered);
        let line = "kube_pod_resource_request{namespace=\"team\",node=\"n\",pod=\"a\",priority=\"7\",resource=\"cpu\",\
                    scheduler=\"s\",unit=\"cores\"} 0.1\n";
        assert!(text.unwrap().contains(line));
        assert_eq!(shown(&usage).await, ["a 0.1", "b 2"]);
        assert_eq!(
            Arc::strong_count(&usage.lock().by_name.values().next().unwrap().node),
            3,
            "both pods share the text"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn complete_list_removes_pods_it_does_not_contain() {
        let usage = ResourceUsage::default();
        usage.lock().wanted = true;
        listed(&usage, &[asking("a", "1"), asking("b", "1")]);
        usage.applied(&asking("a", "3"));
        usage.applied(&pod("nothing", r#"{"containers": [{"resources": {"requests": {"cpu": "0"}}}]}"#));
        assert_eq!(shown(&usage).await, ["a 3", "b 1"]);
        usage.gone(&asking("a", "3"));
        assert_eq!(shown(&usage).await, ["b 1"]);
        usage.list_began();
        usage.applied(&asking("c", "1"));
        assert_eq!(shown(&usage).await, ["b 1", "c 1"], "an incomplete list removes nothing");
        listed(&usage, &[asking("c", "1")]);
        assert_eq!(shown(&usage).await, ["c 1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn list_begun_before_first_scrape_is_not_complete() {
        let (usage, relist) = (ResourceUsage::default(), Relist::default());
        usage.list_began();
        let late = async {
            usage.list_ended();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            text = usage.render(&relist) => assert_eq!(text, None),
            () = late => {}
        }
    }

    #[test]
    fn unused_shared_values_are_dropped() {
        let mut shared = Shared::<str>::default();
        let kept = shared.get("kept");
        for n in 0..5_000 {
            let _ = shared.get(format!("{n}").as_str());
        }
        assert!(shared.values.len() <= 1_025, "{}", shared.values.len());
        assert!(Arc::ptr_eq(&kept, &shared.get("kept")));
    }
}
