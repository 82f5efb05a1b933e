//! One step: evicts a pod, and waits until its replacement is ready on the planned node.

use super::CORDON_SEEN_AFTER;
use crate::live::session::Session;
use crate::live::writes::{Unwritten, controller_of};
use k8s_openapi::api::core::v1::Pod;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use supercargo_whatif::plan::Move;

/// How often the replacement is looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long to wait after the API server refused an eviction for now.
const EVICT_AFTER: Duration = Duration::from_secs(2);

/// What became of a step.
pub(super) enum Outcome {
    /// The pod with this name replaces the evicted one.
    Moved(String),
    /// The cluster changed since the plan, so nothing was evicted.
    Changed(String),
}

/// The pod to evict.
struct Evicted<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: String,
    controller: String,
    /// The uids of the controller's pods before the eviction.
    before: BTreeSet<String>,
}

impl Session {
    /// Makes a step. Nodes that tie with the planned one are cordoned during the step.
    ///
    /// # Errors
    /// Fails with the reason if the result is another than the planned one.
    pub(super) fn step(&mut self, step: &Move) -> Result<Outcome, String> {
        let until = Instant::now() + self.step_timeout;
        let (namespace, name) = step.pod.split_once('/').ok_or("the plan names a pod without namespace")?;
        let pod = self.runtime.block_on(self.writer.pod(namespace, name)).map_err(Unwritten::into_text)?;
        let Some(pod) =
            pod.filter(|pod| node_of(pod) == Some(&step.from) && pod.metadata.deletion_timestamp.is_none())
        else {
            return Ok(Outcome::Changed(format!("{} has left {}", step.pod, step.from)));
        };
        let Some(controller) = controller_of(&pod) else {
            return Ok(Outcome::Changed(format!("{} has no controller any more", step.pod)));
        };
        let others = self.runtime.block_on(self.writer.pods_of(namespace, controller));
        let before = others.map_err(Unwritten::into_text)?.iter().map(uid_of).collect();
        let evicted =
            Evicted { namespace, name, uid: uid_of(&pod), controller: controller.to_owned(), before };
        let mut kept_off = Vec::new();
        let ties = step.ties.iter().filter(|node| step.is_forced && **node != step.to);
        for node in ties {
            if self.cordon(node)? {
                kept_off.push(node);
            }
        }
        if !kept_off.is_empty() {
            self.pause(CORDON_SEEN_AFTER)?;
        }
        let outcome = self.evict(&evicted, until).and_then(|changed| match changed {
            Some(why) => Ok(Outcome::Changed(why)),
            None => self.replaced(&evicted, step, until).map(Outcome::Moved),
        });
        for node in kept_off {
            self.uncordon(node)?;
        }
        outcome
    }

    /// Evicts the pod. Returns why not, if it has changed.
    fn evict(&self, evicted: &Evicted<'_>, until: Instant) -> Result<Option<String>, String> {
        loop {
            let asked = self.writer.evict(evicted.namespace, evicted.name, &evicted.uid);
            match self.runtime.block_on(asked) {
                Ok(()) => return Ok(None),
                Err(Unwritten::Changed(why)) => return Ok(Some(why)),
                Err(Unwritten::Later(_)) if Instant::now() < until => self.pause(EVICT_AFTER)?,
                Err(Unwritten::Later(why) | Unwritten::Failed(why)) => return Err(why),
            }
        }
    }

    /// Waits until the pod is gone and its replacement is ready. Returns the name of the replacement.
    fn replaced(&self, evicted: &Evicted<'_>, step: &Move, until: Instant) -> Result<String, String> {
        let Evicted { namespace, name, .. } = evicted;
        let mut problem = String::new();
        loop {
            // One request that fails does not change what was decided.
            if let (Ok(old), Ok(pods)) = (
                self.runtime.block_on(self.writer.pod(namespace, name)),
                self.runtime.block_on(self.writer.pods_of(namespace, &evicted.controller)),
            ) {
                let is_gone = old.is_none_or(|old| uid_of(&old) != evicted.uid);
                let new: Vec<&Pod> =
                    pods.iter().filter(|pod| !evicted.before.contains(&uid_of(pod))).collect();
                match judge(&new, step)? {
                    Judged::Ready(replacement) if is_gone => return Ok(replacement),
                    Judged::Ready(_) => problem = format!("{} is still terminating", step.pod),
                    Judged::Waits(why) => problem = why,
                }
            }
            if Instant::now() >= until {
                return Err(format!("{} was evicted, but after {:?} {problem}", step.pod, self.step_timeout));
            }
            self.pause(LOOK_EVERY)?;
        }
    }
}

/// The state of a replacement.
#[derive(Debug, PartialEq, Eq)]
enum Judged {
    /// It has this name, and is ready on the planned node.
    Ready(String),
    /// It is not ready yet.
    Waits(String),
}

/// Looks at the pods that the controller has created since the eviction.
///
/// # Errors
/// Fails if one of them has another node than the planned one.
fn judge(new: &[&Pod], step: &Move) -> Result<Judged, String> {
    let mut waits = "its controller has created no replacement".to_owned();
    for pod in new {
        let name = pod.metadata.name.clone().unwrap_or_default();
        match node_of(pod) {
            Some(node) if *node == step.to && is_ready(pod) => return Ok(Judged::Ready(name)),
            Some(node) if *node == step.to => waits = format!("its replacement {name} is not ready"),
            Some(node) => {
                return Err(format!(
                    "the replacement {name} of {} is on {node}, and was expected on {}",
                    step.pod, step.to
                ));
            }
            None => waits = format!("its replacement {name} is pending{}", reason_of(pod)),
        }
    }
    Ok(Judged::Waits(waits))
}

fn uid_of(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

fn node_of(pod: &Pod) -> Option<&String> {
    pod.spec.as_ref()?.node_name.as_ref()
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<(&'a str, &'a str)> {
    let conditions = pod.status.as_ref()?.conditions.as_deref()?;
    let condition = conditions.iter().find(|condition| condition.type_ == kind)?;
    Some((&condition.status, condition.message.as_deref().unwrap_or_default()))
}

/// Whether a pod is ready, or has done its work already.
fn is_ready(pod: &Pod) -> bool {
    let has_ended = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Succeeded");
    has_ended || condition(pod, "Ready").is_some_and(|(status, _)| status == "True")
}

/// Returns why a pod is unschedulable.
fn reason_of(pod: &Pod) -> String {
    match condition(pod, "PodScheduled") {
        Some(("False", message)) if !message.is_empty() => format!(": {message}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn step() -> Move {
        let names = ["shop/web-1", "a", "b"].map(str::to_owned);
        let [pod, from, to] = names;
        let ties = vec![to.clone()];
        Move {
            step: 1,
            pod,
            from,
            to,
            ties,
            is_forced: false,
            feasible: 1,
            is_swap: false,
            why: String::new(),
        }
    }

    fn pod(node: Option<&str>, ready: &str) -> Pod {
        let conditions = json!([
            {"type": "Ready", "status": ready},
            {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"},
        ]);
        let pod = json!({
            "metadata": {"name": "web-2", "uid": "u2"},
            "spec": {"containers": [], "nodeName": node},
            "status": {"conditions": conditions},
        });
        serde_json::from_value(pod).expect("it is a pod")
    }

    #[test]
    fn replacement_counts_once_it_is_ready_on_the_planned_node() {
        let waits = |text: &str| Ok(Judged::Waits(text.to_owned()));
        assert_eq!(judge(&[], &step()), waits("its controller has created no replacement"));
        let pending = waits("its replacement web-2 is pending: 0/3 nodes are available");
        assert_eq!(judge(&[&pod(None, "False")], &step()), pending);
        assert_eq!(judge(&[&pod(Some("b"), "False")], &step()), waits("its replacement web-2 is not ready"));
        assert_eq!(judge(&[&pod(Some("b"), "True")], &step()), Ok(Judged::Ready("web-2".to_owned())));
    }

    #[test]
    fn replacement_on_another_node_is_a_surprise() {
        let wrong = Err("the replacement web-2 of shop/web-1 is on c, and was expected on b".to_owned());
        assert_eq!(judge(&[&pod(Some("c"), "True")], &step()), wrong);
    }
}
