//! Generates preemption inputs: priorities, start times and disruption budgets.

use super::Mix;
use super::selectors::label_selector;
use crate::draw::Draw;
use serde_json::{Map, Value, json};

/// Gives a running pod, a possible victim, priority and start time.
pub(super) fn running(draw: &mut Draw, pod: &mut Value) {
    if draw.percent(90) {
        pod["spec"]["priority"] =
            draw.weighted(&[(5, 0), (3, 10), (3, 50), (2, -5), (1, 100), (1, 2_000_000)]).into();
    }
    if draw.percent(70) {
        pod["status"]["startTime"] = format!("2024-01-01T00:0{}:00Z", draw.below(6)).into();
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() && draw.percent(60) {
        let reason = draw.pick(&["PreemptionByScheduler", "PreemptionByScheduler", "EvictionByEvictionAPI"]);
        let condition =
            json!({ "type": "DisruptionTarget", "status": draw.pick(&["True", "False"]), "reason": reason });
        pod["status"]["conditions"] = json!([condition]);
    }
}

/// Gives a pod to place a priority, and sometimes a nomination from an earlier attempt.
pub(super) fn incoming(draw: &mut Draw, pod: &mut Value, nodes: usize) {
    pod["spec"]["priority"] = draw.weighted(&[(5, 100), (3, 1000), (2, 50), (1, 10), (1, 0)]).into();
    if draw.percent(15) {
        pod["spec"]["preemptionPolicy"] = draw.pick(&["Never", "PreemptLowerPriority"]).into();
    }
    if draw.percent(8) {
        pod["status"]["nominatedNodeName"] = super::node_name(draw, nodes).into();
    }
    if draw.percent(60) {
        let requests =
            json!({ "cpu": draw.pick(&["1", "2", "500m"]), "memory": draw.pick(&["512Mi", "1Gi"]) });
        pod["spec"]["containers"] =
            json!([{ "name": "c0", "image": "other:v1", "resources": { "requests": requests } }]);
    }
}

/// Returns PodDisruptionBudgets.
pub(super) fn budgets(draw: &mut Draw, mix: Mix) -> Vec<Value> {
    let count = draw.weighted(&[(2, 0), (4, 1), (4, 2), (2, 3)]);
    let mut index = 0;
    draw.list(count, |draw| {
        index += 1;
        let name = format!("b{index}");
        let namespace = draw.pick(&["default", "default", "team-a"]);
        let mut budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": name, "namespace": namespace, "uid": format!("uid-{name}") },
            "spec": {},
            "status": { "disruptionsAllowed": draw.weighted(&[(5, 0), (4, 1), (1, 2), (1, 5)]) },
        });
        let selector = label_selector(draw, mix);
        if !selector.is_null() {
            budget["spec"]["selector"] = selector;
        }
        if draw.percent(20) {
            let names = draw.list(2, |draw| format!("e{}", draw.below(12)));
            let times = names.into_iter().map(|name| (name, "2024-01-01T00:00:00Z".into()));
            budget["status"]["disruptedPods"] = times.collect::<Map<_, _>>().into();
        }
        budget
    })
}
