//! `/metrics/resources`: requests and limits of each pod, as kube-scheduler shows them
//! (`pkg/scheduler/metrics/resources`).
//!
//! Rendered directly as text, because registry families would hold a second copy of every pod's labels.
//! `src/telemetry/resource_usage.rs` supplies the amounts.

use crate::telemetry::metrics::text::{escape, go_float};
use std::fmt::Write as _;

/// One resource amount of one pod.
#[derive(Clone, Copy, Debug)]
pub struct PodAmount<'a> {
    /// The pod's namespace.
    pub namespace: &'a str,
    /// The pod's name.
    pub pod: &'a str,
    /// The pod's node, or empty if it has none.
    pub node: &'a str,
    /// Its `spec.schedulerName`.
    pub scheduler: &'a str,
    /// The pod's priority, or empty.
    pub priority: &'a str,
    /// The resource's name.
    pub resource: &'a str,
    /// The amount, in the resource's [`unit`].
    pub amount: f64,
}

impl<'a> PodAmount<'a> {
    /// Returns the labels, sorted by name; series are sorted by their values.
    fn labels(&self) -> [(&'static str, &'a str); 7] {
        [
            ("namespace", self.namespace),
            ("node", self.node),
            ("pod", self.pod),
            ("priority", self.priority),
            ("resource", self.resource),
            ("scheduler", self.scheduler),
            ("unit", unit(self.resource)),
        ]
    }
}

/// Returns the unit of a resource, or "" if upstream defines none.
fn unit(resource: &str) -> &'static str {
    match resource {
        "cpu" => "cores",
        "memory" | "storage" | "ephemeral-storage" => "bytes",
        _ if resource.starts_with("hugepages-") => "bytes",
        _ if resource.starts_with("attachable-volumes-") => "integer",
        _ => "",
    }
}

const LIMIT: (&str, &str) = (
    "kube_pod_resource_limit",
    "[STABLE] Resources limit for workloads on the cluster, broken down by pod. This shows the resource usage the scheduler and \
     kubelet expect per pod for resources along with the unit for the resource if any.",
);
const REQUEST: (&str, &str) = (
    "kube_pod_resource_request",
    "[STABLE] Resources requested by workloads on the cluster, broken down by pod. This shows the resource usage the scheduler \
     and kubelet expect per pod for resources along with the unit for the resource if any.",
);

/// Renders the text of `/metrics/resources`.
pub fn render_resources(requests: Vec<PodAmount<'_>>, limits: Vec<PodAmount<'_>>) -> String {
    let mut text = String::new();
    for ((name, help), mut amounts) in [(LIMIT, limits), (REQUEST, requests)] {
        if amounts.is_empty() {
            continue;
        }
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n");
        amounts.sort_by_cached_key(|amount| amount.labels().map(|(_, value)| value));
        for amount in amounts {
            let mut separator = '{';
            text.push_str(name);
            for (label, value) in amount.labels() {
                let _ = write!(text, "{separator}{label}=\"");
                escape(&mut text, value, true);
                text.push('"');
                separator = ',';
            }
            let _ = writeln!(text, "}} {}", go_float(amount.amount));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_series_are_sorted_by_label_and_carry_known_units() {
        let amount = |pod, node, resource, amount| PodAmount {
            namespace: "team",
            pod,
            node,
            scheduler: "s",
            priority: "0",
            resource,
            amount,
        };
        let requests = vec![
            amount("b", "", "memory", 134_217_728.0),
            amount("a", "n", "cpu", 0.25),
            amount("a", "", "hugepages-2Mi", 2.0),
            amount("a", "", "attachable-volumes-csi", 3.0),
            amount("a", "", "example.com/\"gpu\"", 1.0),
        ];
        let text = render_resources(requests, Vec::new());
        let lines: Vec<&str> = text.lines().skip(2).collect();
        let series = |node: &str, pod: &str, resource: &str, rest: &str| {
            format!(
                "kube_pod_resource_request{{namespace=\"team\",node=\"{node}\",pod=\"{pod}\",priority=\"0\",resource=\"{resource}\",\
                 scheduler=\"s\",unit={rest}"
            )
        };
        let expected = [
            series("", "a", "attachable-volumes-csi", "\"integer\"} 3"),
            series("", "a", "example.com/\\\"gpu\\\"", "\"\"} 1"),
            series("", "a", "hugepages-2Mi", "\"bytes\"} 2"),
            series("", "b", "memory", "\"bytes\"} 1.34217728e+08"),
            series("n", "a", "cpu", "\"cores\"} 0.25"),
        ];
        assert_eq!(lines, expected);
        assert_eq!(render_resources(Vec::new(), Vec::new()), "");
    }
}
