//! What the pods of the cluster ask for, of all schedulers, for `/metrics/resources`: kept from when it is first asked for.
//!
//! The engine knows amounts as decisions need them, and pods of others only where they take room; upstream shows from the
//! pods its informer keeps. Nobody decides by what is here.

use crate::api::Pod;
use crate::convert::requests::shown::{is_zero, requests_and_limits};
use crate::metrics::{PodAmount, render_resources};
use crate::watch::{Onlooker, Relist};
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// How long whoever asks first waits for the list of pods.
const LISTED_WITHIN: Duration = Duration::from_secs(8);

/// The pods of the cluster, by what they ask for.
#[derive(Debug)]
pub struct Census {
    pods: Mutex<Pods>,
    /// Whether all pods are known.
    whole: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Pods {
    wanted: bool,
    /// The list that is being read, or was read last.
    list: u32,
    /// Whether that list was asked for from its beginning on.
    counts: bool,
    by_name: HashMap<Name, Known>,
    texts: Shared<str>,
    amounts: Shared<Amounts>,
}

/// A pod. All of it is shared with others where it is the same.
#[derive(Clone, Debug)]
struct Known {
    list: u32,
    node: Arc<str>,
    scheduler: Arc<str>,
    priority: Arc<str>,
    amounts: Arc<Amounts>,
}

/// Namespace and name.
type Name = (Arc<str>, Arc<str>);
/// By resource, the bits of a float each: they are told apart, and not reckoned with.
type List = Vec<(Box<str>, u64)>;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Amounts {
    requests: List,
    limits: List,
}

/// Values of which there is one of a kind.
#[derive(Debug)]
struct Shared<T: ?Sized> {
    values: HashSet<Arc<T>>,
    /// How many there may be before those that nobody has any more are looked for.
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

impl Default for Census {
    fn default() -> Self {
        Self { pods: Mutex::default(), whole: watch::channel(false).0 }
    }
}

impl Census {
    /// The text of `/metrics/resources`; `None` where the pods cannot be listed in good time. Whoever is the first to ask has them
    /// listed anew by `relist`.
    pub async fn render(&self, relist: &Relist) -> Option<String> {
        if !std::mem::replace(&mut self.lock().wanted, true) {
            relist.request();
        }
        let mut whole = self.whole.subscribe();
        tokio::time::timeout(LISTED_WITHIN, whole.wait_for(|whole| *whole)).await.ok()?.ok()?;
        // The watch is not kept waiting while this is sorted and written.
        let pods: Vec<_> =
            self.lock().by_name.iter().map(|(name, pod)| (name.clone(), pod.clone())).collect();
        tokio::task::spawn_blocking(move || render(&pods)).await.ok()
    }

    fn lock(&self) -> MutexGuard<'_, Pods> {
        // Every change leaves it whole.
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

/// What is shown of a pod; nothing of one that has ended or cannot be read.
fn amounts(pod: &Pod) -> Option<Amounts> {
    let content = pod.content().ok()?;
    if !content.spec.node_name.is_empty() && pod.has_ended() {
        return None;
    }
    let (requests, limits) = requests_and_limits(&content.spec).ok()?;
    let shown = |amounts: Vec<(&str, crate::convert::quantity::Quantity)>| {
        let some = amounts.into_iter().filter(|(_, amount)| !is_zero(*amount));
        some.map(|(name, amount)| (name.into(), amount.approximately().to_bits())).collect()
    };
    Some(Amounts { requests: shown(requests), limits: shown(limits) })
}

impl Onlooker<Pod> for Census {
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

    fn listed(census: &Census, pods: &[Pod]) {
        census.list_began();
        pods.iter().for_each(|pod| census.applied(pod));
        census.list_ended();
    }

    /// The names of the pods that are shown, with their requests.
    async fn shown(census: &Census) -> Vec<String> {
        let text = census.render(&Relist::default()).await.unwrap();
        let series = text.lines().filter_map(|line| line.strip_prefix("kube_pod_resource_request{"));
        series
            .map(|line| {
                let name = line.split("pod=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
                format!("{name} {}", line.rsplit(' ').next().unwrap())
            })
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_before_it_is_asked_for_and_then_the_pods_are_listed_anew() {
        let (census, relist) = (Census::default(), Relist::default());
        listed(&census, &[asking("early", "1")]);
        assert!(census.lock().by_name.is_empty());
        let asked = census.render(&relist);
        let answered = async {
            relist.requested().await;
            listed(&census, &[asking("a", "100m"), asking("b", "2")]);
        };
        let (text, ()) = tokio::join!(asked, answered);
        let line = "kube_pod_resource_request{namespace=\"team\",node=\"n\",pod=\"a\",priority=\"7\",resource=\"cpu\",\
                    scheduler=\"s\",unit=\"cores\"} 0.1\n";
        assert!(text.unwrap().contains(line));
        assert_eq!(shown(&census).await, ["a 0.1", "b 2"]);
        assert_eq!(
            Arc::strong_count(&census.lock().by_name.values().next().unwrap().node),
            3,
            "one text for both"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn pods_come_change_and_go_and_a_list_takes_away_what_it_does_not_name() {
        let census = Census::default();
        census.lock().wanted = true;
        listed(&census, &[asking("a", "1"), asking("b", "1")]);
        census.applied(&asking("a", "3"));
        census.applied(&pod("nothing", r#"{"containers": [{"resources": {"requests": {"cpu": "0"}}}]}"#));
        assert_eq!(shown(&census).await, ["a 3", "b 1"]);
        census.gone(&asking("a", "3"));
        assert_eq!(shown(&census).await, ["b 1"]);
        census.list_began();
        census.applied(&asking("c", "1"));
        assert_eq!(shown(&census).await, ["b 1", "c 1"], "a list that is not whole takes nothing away");
        listed(&census, &[asking("c", "1")]);
        assert_eq!(shown(&census).await, ["c 1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_began_before_anybody_asked_is_not_taken_for_whole() {
        let (census, relist) = (Census::default(), Relist::default());
        census.list_began();
        let late = async {
            census.list_ended();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            text = census.render(&relist) => assert_eq!(text, None),
            () = late => {}
        }
    }

    #[test]
    fn what_nobody_has_any_more_is_not_kept() {
        let mut shared = Shared::<str>::default();
        let kept = shared.get("kept");
        for n in 0..5_000 {
            let _ = shared.get(format!("{n}").as_str());
        }
        assert!(shared.values.len() <= 1_025, "{}", shared.values.len());
        assert!(Arc::ptr_eq(&kept, &shared.get("kept")));
    }
}
