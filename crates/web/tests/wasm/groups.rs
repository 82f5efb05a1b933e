//! Recorded cycles of pod groups, each as a simulation: the cluster as it was before the cycle, and the pods that
//! kube-scheduler tried in it.
//!
//! A simulation has no queue. So the recording says which pods are tried when, and what is compared is the decision of
//! each cycle. `tests/golden/groups.rs` compares the queue, too, natively.

use crate::group_changes::{DELETED_AT, Edit, Key, bind, edits, key, pod_key};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Vectors in which a PodGroup or its members change while the members are queued: only the queue knows that.
const OF_THE_QUEUE: [&str; 4] = [
    "trap-25-group-gone",
    "trap-26-group-gone-at-once",
    "trap-33-member-gated",
    "trap-121-member-deleted-in-backoff",
];

/// A recorded cycle, and the request that decides it again.
pub(crate) struct Cycle {
    name: String,
    pub(crate) request: Value,
    recorded: Value,
    /// Whether the request has all that the decision depends on: no pod is nominated to a node or terminating, which
    /// the recording shows only for the end of a step.
    pub(crate) is_comparable: bool,
}

/// The objects of a scenario.
struct World<'a> {
    scenario: &'a Value,
    objects: BTreeMap<Key, Value>,
    /// The pending pods, in the order in which they became ready.
    arrivals: Vec<Key>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the recorded cycles of a vector.
pub(crate) fn cycles(vector: &Value) -> Vec<Cycle> {
    let scenario = &vector["scenario"];
    let mut world = World { scenario, objects: BTreeMap::new(), arrivals: Vec::new() };
    list(&scenario["objects"]).iter().for_each(|object| world.put(object.clone()));
    let is_of_queue = OF_THE_QUEUE.iter().any(|name| scenario["name"] == *name);
    let mut all = Vec::new();
    let steps = list(&scenario["steps"]).iter().zip(list(&vector["steps"]));
    for (number, (step, recorded)) in steps.enumerate() {
        list(&step["do"]).iter().for_each(|change| world.change(change));
        for (at, cycle) in list(&recorded["cycles"]).iter().enumerate() {
            all.push(Cycle {
                name: format!("{}, step {number}, cycle {at}", text(&scenario["name"])),
                request: world.request(cycle),
                recorded: cycle.clone(),
                is_comparable: !is_of_queue && world.is_settled(),
            });
            world.carry_out(cycle);
        }
        world.take_over(recorded);
    }
    all
}

/// Returns the requests of the page about the objects and pods at the start of a scenario, and the objects as a list.
pub(crate) fn page_requests(vector: &Value) -> (Vec<Value>, Vec<u8>) {
    let scenario = &vector["scenario"];
    let created = list(&scenario["steps"]).iter().flat_map(|step| list(&step["do"])).map(|it| &it["create"]);
    let mut names = BTreeSet::new();
    let all = list(&scenario["objects"]).iter().chain(created.filter(|it| !it.is_null()));
    let items: Vec<&Value> = all.filter(|object| names.insert(key(object))).collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    let config = &scenario["config"];
    let text = if config.is_object() { config.to_string() } else { String::new() };
    let requests = vec![
        json!({ "do": "load", "inputs": ["vector"], "version": version(scenario), "asWritten": true, "featureGates": gates(scenario) }),
        json!({ "do": "ask", "config": text }),
        json!({ "do": "pods", "limit": 500 }),
        json!({ "do": "groups", "limit": 500 }),
    ];
    (requests, list.to_string().into_bytes())
}

fn version(scenario: &Value) -> &str {
    scenario["version"].as_str().unwrap_or("1.36")
}

fn gates(scenario: &Value) -> String {
    let gates: Vec<String> =
        list(&scenario["gates"]).iter().map(|gate| format!("{}=true", text(gate))).collect();
    gates.join(",")
}

impl World<'_> {
    fn put(&mut self, object: Value) {
        let key = key(&object);
        if key.0 == "Pod" && !self.arrivals.contains(&key) {
            self.arrivals.push(key.clone());
        }
        self.objects.insert(key, object);
    }

    /// Returns whether no pod is nominated to a node or terminating.
    fn is_settled(&self) -> bool {
        let mut pods = self.objects.values().filter(|it| it["kind"] == "Pod");
        pods.all(|it| {
            it["metadata"]["deletionTimestamp"].is_null() && it["status"]["nominatedNodeName"].is_null()
        })
    }

    fn remove(&mut self, key: &Key) {
        self.objects.remove(key);
        self.arrivals.retain(|it| it != key);
    }

    fn pod(&mut self, pod: &Value) -> &mut Value {
        let key = pod_key(pod.as_str().unwrap_or_default());
        self.objects.get_mut(&key).expect("the pod exists")
    }

    fn change(&mut self, change: &Value) {
        for (what, value) in change.as_object().into_iter().flatten() {
            for edit in edits(what, value, &self.objects) {
                match edit {
                    Edit::Put(value) => self.put(value),
                    Edit::Remove(key) => self.remove(&key),
                }
            }
        }
    }

    /// Returns the simulation of a cycle. Members that the cycle did not come to are tried after the others.
    fn request(&self, cycle: &Value) -> Value {
        let mut tried: Vec<Key> =
            list(&cycle["members"]).iter().map(|it| pod_key(&text(&it["pod"]))).collect();
        let group = text(&cycle["group"]);
        for key in &self.arrivals {
            let pod = &self.objects[key];
            let own = &pod["spec"]["schedulingGroup"]["podGroupName"];
            let is_member = own.as_str().is_some_and(|own| format!("{}/{own}", key.1) == group);
            let is_pending = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
            if is_member && is_pending && pod["spec"]["schedulingGates"].is_null() && !tried.contains(key) {
                tried.push(key.clone());
            }
        }
        let others = self.objects.iter().filter(|(key, _)| !tried.contains(key));
        let cluster: Vec<&Value> = others.map(|(_, object)| object).collect();
        // A simulation tries the members of a group in the order of their creation.
        let in_order = |(at, key): (usize, &Key)| {
            let mut pod = self.objects[key].clone();
            pod["metadata"]["creationTimestamp"] =
                format!("2023-11-14T22:{:02}:{:02}Z", at / 60, at % 60).into();
            pod
        };
        let pods: Vec<Value> = tried.iter().enumerate().map(in_order).collect();
        json!({
            "do": "simulate", "cluster": cluster, "pods": pods, "config": self.scenario["config"],
            "version": version(self.scenario), "featureGates": gates(self.scenario),
            "compatUpstream": true, "asWritten": true,
        })
    }

    /// Changes the objects as the recorded cycle did.
    fn carry_out(&mut self, cycle: &Value) {
        for member in list(&cycle["members"]) {
            if cycle["result"] == "scheduled" && member["code"] == "Success" {
                bind(self.pod(&member["pod"]), member["node"].clone());
            } else if member["preempt"] == true {
                self.pod(&member["pod"])["status"]["nominatedNodeName"] = member["node"].clone();
            }
        }
        for victim in list(&cycle["victims"]) {
            let pod = self.pod(victim);
            pod["metadata"]["deletionTimestamp"] = DELETED_AT.into();
            pod["status"]["conditions"] = json!([
                { "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler" },
            ]);
        }
    }

    /// Takes over what the recording says about nominations and groups after a step.
    fn take_over(&mut self, recorded: &Value) {
        for (pod, state) in recorded["pending"].as_object().into_iter().flatten() {
            let pod = self.objects.get_mut(&pod_key(pod)).expect("the pod exists");
            pod["status"]["nominatedNodeName"] = state["nominated"].clone();
        }
        for (group, state) in recorded["groups"].as_object().into_iter().flatten() {
            let (_, namespace, name) = pod_key(group);
            let key = ("PodGroup".to_owned(), namespace, name);
            let Some(group) = self.objects.get_mut(&key) else { continue };
            let kind = state["type"].as_str().unwrap_or("PodGroupScheduled");
            group["status"]["conditions"] = json!([{ "type": kind, "status": state["status"],
                "reason": state["reason"], "message": state["message"] }]);
        }
        for (pod, node) in recorded["bound"].as_object().into_iter().flatten() {
            let own = &self.objects[&pod_key(pod)]["spec"]["nodeName"];
            assert_eq!(text(node).split(' ').next(), own.as_str(), "{pod} of {}", self.scenario["name"]);
        }
    }
}

impl Cycle {
    /// Returns how an answer differs from the recorded cycle.
    pub(crate) fn differences(&self, answer: &Value) -> Vec<String> {
        let decisions = list(&answer["decisions"]);
        if decisions.is_empty() {
            return vec![format!("{}: got {answer}", self.name)];
        }
        let mut found = Vec::new();
        let mut same = |what: &str, expected: &Value, got: &Value| {
            if expected != got {
                found.push(format!("{}: {what}: expected {expected}, got {got}", self.name));
            }
        };
        let (recorded, group) = (&self.recorded, &decisions[0]["group"]);
        let is_group = recorded["kind"] == "group";
        if is_group {
            let result = if recorded["result"] == "waiting" {
                &json!("waiting_on_preemption")
            } else {
                &recorded["result"]
            };
            same("result", result, &group["result"]);
            same("status", &text(&recorded["status"]).into(), &text(&group["status"]).into());
            same("topology domain", &recorded["chosen"], &group["placement"]);
        }
        // kube-scheduler 1.36 evicts pods for members of a group that stays unschedulable. A simulation names none.
        if recorded["result"] != "unschedulable" || !is_group {
            let of_group = list(&group["victims"]).iter();
            let of_pods = decisions.iter().flat_map(|it| list(&it["preemption"]["victims"]));
            let victims: BTreeSet<String> = of_group.chain(of_pods).map(text).collect();
            same("victims", &json!(list(&recorded["victims"])), &json!(victims));
        }
        for member in list(&recorded["members"]) {
            let own = decisions.iter().find(|it| it["pod"] == member["pod"]).unwrap_or(&Value::Null);
            let is_placed = recorded["result"] == "scheduled" && member["code"] == "Success";
            let node = if is_placed { &member["node"] } else { &Value::Null };
            same(&format!("node of {}", member["pod"]), node, &own["node"]);
            // From 1.37 on, a cycle skips the members that cannot help any more. A simulation explains them, too.
            let is_explained = is_group && self.request["version"] == "1.37";
            if !is_placed && !is_explained {
                let text = if own["event"] == member["message"] { "event" } else { "message" };
                same(&format!("message of {}", member["pod"]), &member["message"], &own[text]);
            }
        }
        found
    }
}
