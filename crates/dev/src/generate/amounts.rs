//! Generates allocatable resources and requests.

use super::Mix;
use crate::draw::Draw;
use serde_json::{Map, Value, json};

const GPU: &str = "example.com/gpu";
const HUGE: &str = "hugepages-2Mi";

/// Resource names that are tracked, and names that are not.
const SELDOM: &[&str] = &[
    "example.com/fpga",
    "kubernetes.io/batch-cpu",
    "attachable-volumes-csi",
    "hugepages-1Gi",
    "storage",
    "foo",
    "requests.example.com/x",
    "pods",
    "deviceclass.resource.kubernetes.io/gpu",
];

const TIGHT_CPU: &[&str] = &["1", "2", "4", "4", "3500m", "1001m", "500m", "16"];
const TIGHT_MEMORY: &[&str] = &["1Gi", "2Gi", "4Gi", "4Gi", "1e9", "1073741825", "512Mi", "64Gi"];

/// Returns `status.allocatable` of a node.
pub(super) fn allocatable(draw: &mut Draw, mix: Mix, contest: bool) -> Value {
    let tight = contest || draw.percent(15 + mix.resources / 2);
    let mut amounts = Map::new();
    let mut set = |name: &str, amount: &str| drop(amounts.insert(name.to_owned(), amount.into()));
    if draw.percent(98) {
        set("cpu", draw.pick(if tight { TIGHT_CPU } else { &["8", "16", "32"] }));
    }
    if draw.percent(98) {
        set("memory", draw.pick(if tight { TIGHT_MEMORY } else { &["16Gi", "32Gi", "64Gi"] }));
    }
    if draw.percent(98) {
        set(
            "pods",
            draw.pick(if tight { &["110", "110", "110", "8", "5", "3", "1", "0"] } else { &["110"] }),
        );
    }
    if draw.percent(60) {
        set("ephemeral-storage", draw.weighted(&[(5, "20Gi"), (3, "5Gi"), (1, "1Gi"), (1, "0")]));
    }
    if draw.percent(mix.resources / 2) {
        set(GPU, draw.pick(&["0", "1", "2", "4", "8"]));
    }
    if draw.percent(mix.resources / 3) {
        set(HUGE, draw.pick(&["4Mi", "64Mi", "0"]));
    }
    if draw.percent(mix.resources / 6) {
        set(draw.pick(SELDOM), draw.pick(&["0", "1", "3", "2Gi"]));
    }
    if draw.percent(mix.odd) {
        set(draw.pick(&["cpu", "memory", GPU]), draw.pick(&["-1", "0", "1e-3", "0.5"]));
    }
    amounts.into()
}

/// Returns the requests of a container or pod, or an overhead.
pub(super) fn requests(draw: &mut Draw, mix: Mix) -> Value {
    let mut amounts = Map::new();
    let mut set = |name: &str, amount: &str| drop(amounts.insert(name.to_owned(), amount.into()));
    if draw.percent(65) {
        set("cpu", cpu(draw));
    }
    if draw.percent(60) {
        set("memory", memory(draw));
    }
    if draw.percent(mix.resources / 5) {
        set("ephemeral-storage", draw.pick(&["0", "1Gi", "500Mi", "5Gi", "20Gi"]));
    }
    if draw.percent(mix.resources / 4) {
        set(GPU, draw.pick(&["0", "1", "1", "2", "4"]));
    }
    if draw.percent(mix.resources / 6) {
        set(HUGE, draw.pick(&["0", "2Mi", "4Mi", "64Mi"]));
    }
    if draw.percent(mix.resources / 12) {
        set(draw.pick(SELDOM), draw.pick(&["0", "1", "2", "1Gi"]));
    }
    if draw.percent(mix.odd / 2) {
        set(draw.pick(&["cpu", "memory", GPU]), draw.pick(&["-1", "-100m", "0.5", "1e-9"]));
    }
    amounts.into()
}

fn cpu(draw: &mut Draw) -> &'static str {
    draw.weighted(&[
        (2, "0"),
        (6, "100m"),
        (6, "500m"),
        (5, "1"),
        (3, "250m"),
        (2, "333m"),
        (2, "2"),
        (1, "1500m"),
        (1, "4"),
        (1, "0.5m"),
        (1, "1e-4"),
        (1, "1m"),
        (1, "1001m"),
    ])
}

fn memory(draw: &mut Draw) -> &'static str {
    draw.weighted(&[
        (2, "0"),
        (5, "256Mi"),
        (5, "512Mi"),
        (4, "1Gi"),
        (3, "200Mi"),
        (2, "2Gi"),
        (1, "209715201"),
        (1, "100M"),
        (1, "0.5"),
        (1, "4Gi"),
        (1, "1"),
        (1, "1000m"),
        (1, "1.5Gi"),
    ])
}

/// Returns a container's status, with its resources.
pub(super) fn container_status(draw: &mut Draw, mix: Mix, name: &str) -> Value {
    let mut status = json!({ "name": name, "image": "", "imageID": "", "ready": true, "restartCount": 0 });
    match draw.below(6) {
        0 => {}
        1 => status["resources"] = json!({}),
        2 => status["resources"] = Value::Null,
        _ => status["resources"] = json!({ "requests": requests(draw, mix) }),
    }
    if draw.percent(60) {
        status["allocatedResources"] = requests(draw, mix);
    }
    status
}

/// Returns the conditions of a pod during a resize.
pub(super) fn resize_conditions(draw: &mut Draw) -> Value {
    let count = draw.weighted(&[(4, 0), (5, 1), (1, 2)]);
    let conditions = draw.list(count, |draw| {
        let kind = draw.weighted(&[(5, "PodResizePending"), (1, "PodResizeInProgress")]);
        let reason = draw.weighted(&[(4, "Infeasible"), (3, "Deferred"), (1, "")]);
        json!({ "type": kind, "status": draw.pick(&["True", "True", "False"]), "reason": reason })
    });
    conditions.into()
}
