//! `/metrics/resources`: what each pod of the cluster asks for and is limited to, as kube-scheduler shows it
//! (`pkg/scheduler/metrics/resources`).
//!
//! Written straight as text: the registry's families would hold every label of every pod once more. Knows nothing of where the
//! amounts come from.

use super::text::{escape, go_float};
use std::fmt::Write as _;

/// One amount of one pod.
#[derive(Clone, Copy, Debug)]
pub struct PodAmount<'a> {
    /// The pod's namespace.
    pub namespace: &'a str,
    /// The pod's name.
    pub pod: &'a str,
    /// Its node; empty while it has none.
    pub node: &'a str,
    /// Its `spec.schedulerName`.
    pub scheduler: &'a str,
    /// Its priority, or nothing.
    pub priority: &'a str,
    /// What is asked for.
    pub resource: &'a str,
    /// How much of it, in [`unit`].
    pub amount: f64,
}

impl<'a> PodAmount<'a> {
    /// The values of the labels, in the order of their names, by which series are sorted.
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

/// The unit of a resource, as far as upstream knows one.
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

/// The text of `/metrics/resources`.
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
    fn series_stand_in_the_order_of_their_labels_with_a_unit_where_there_is_one() {
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
