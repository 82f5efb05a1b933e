//! Requests and limits for `/metrics/resources`: from the spec only, all resources, unrounded.
//!
//! Upstream: `pkg/scheduler/metrics/resources/resources.go`, which uses
//! `component-helpers/resource/helpers.go#PodRequests` and `#PodLimits`.

use super::{Amounts, Lists, Requested, at_pod_level, find, parse, set};
use crate::api::core::{Container, PodSpec};
use crate::convert::quantity::Quantity;
use std::cmp::Ordering;

/// Returns a pod's requests and limits by resource name.
///
/// # Errors
/// A message naming the field that is not a valid quantity.
pub fn requests_and_limits(spec: &PodSpec) -> Result<(Amounts<'_>, Amounts<'_>), String> {
    Ok((requests(spec)?, limits(spec)?))
}

fn requests(spec: &PodSpec) -> Result<Amounts<'_>, String> {
    let (overhead, pod_level) = (parse(&spec.overhead, "spec.overhead")?, pod_level(spec, true)?);
    Ok(of_containers(spec, true, overhead)?.sum(|asked| &asked.spec, &[], Some(&pod_level)))
}

fn limits(spec: &PodSpec) -> Result<Amounts<'_>, String> {
    let pod_level = pod_level(spec, false)?;
    let mut total =
        of_containers(spec, false, Amounts::new())?.sum(|asked| &asked.spec, &[], Some(&pod_level));
    // Overhead adds to existing limits only.
    for (name, overhead) in parse(&spec.overhead, "spec.overhead")? {
        if let Some(limit) = find(&total, name).filter(|limit| !is_zero(*limit)) {
            set(&mut total, name, limit.plus(overhead));
        }
    }
    Ok(total)
}

/// Reports whether an amount is zero. Such amounts are not shown.
pub fn is_zero(amount: Quantity) -> bool {
    amount.compare(Quantity::default()) == Ordering::Equal
}

fn of_containers<'a>(spec: &'a PodSpec, requests: bool, overhead: Amounts<'a>) -> Result<Lists<'a>, String> {
    let read = |list: &'a [Container]| -> Result<Vec<Requested<'a>>, String> {
        let asked = |container: &'a Container| {
            let resources = &container.resources;
            let list = if requests { &resources.requests } else { &resources.limits };
            let spec = parse(list, "resources of a container")?;
            Ok(Requested { spec, placed: None, status: None, restartable: container.is_restartable() })
        };
        list.iter().map(asked).collect()
    };
    let (containers, init_containers) = (read(&spec.containers)?, read(&spec.init_containers)?);
    Ok(Lists {
        containers,
        init_containers,
        pod_level: None,
        status_totals: None,
        ignores_spec: false,
        overhead,
    })
}

fn pod_level(spec: &PodSpec, requests: bool) -> Result<Amounts<'_>, String> {
    let Some(resources) = &spec.resources else { return Ok(Amounts::new()) };
    let list = if requests { &resources.requests } else { &resources.limits };
    let mut amounts = parse(list, "spec.resources")?;
    amounts.retain(|(name, _)| at_pod_level(name));
    Ok(amounts)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Row = (String, f64);

    fn shown(spec: &str) -> (Vec<Row>, Vec<Row>) {
        let spec: PodSpec = serde_json::from_str(spec).unwrap();
        let (requests, limits) = requests_and_limits(&spec).unwrap();
        let plain = |amounts: Amounts<'_>| {
            amounts.iter().map(|(name, amount)| ((*name).to_owned(), amount.approximately())).collect()
        };
        (plain(requests), plain(limits))
    }

    fn row(name: &str, amount: f64) -> Row {
        (name.to_owned(), amount)
    }

    #[test]
    fn sidecars_and_init_containers_count_as_upstream() {
        let (requests, limits) = shown(
            r#"{"containers": [{"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m", "example.com/gpu": "1"}}}],
                "initContainers": [
                  {"restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}, "limits": {"cpu": "60m"}}},
                  {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}]}"#,
        );
        assert_eq!(requests, [row("cpu", 1.05)]);
        assert_eq!(limits, [row("cpu", 2.06), row("example.com/gpu", 1.0)]);
    }

    #[test]
    fn overhead_adds_to_requests_and_to_existing_limits() {
        let (requests, limits) = shown(
            r#"{"containers": [{"resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi", "cpu": "0"}}}],
                "overhead": {"cpu": "10m", "memory": "1Mi"}}"#,
        );
        assert_eq!(requests, [row("cpu", 0.11), row("memory", 1_048_576.0)]);
        assert_eq!(limits, [row("cpu", 0.0), row("memory", 1_074_790_400.0)]);
    }

    #[test]
    fn pod_level_amounts_replace_sums() {
        let (requests, limits) = shown(
            r#"{"containers": [{"resources": {"requests": {"cpu": "100m", "example.com/gpu": "1"}, "limits": {"cpu": "1"}}}],
                "resources": {"requests": {"cpu": "3", "example.com/gpu": "7"}, "limits": {"cpu": "4"}}}"#,
        );
        assert_eq!(requests, [row("cpu", 3.0), row("example.com/gpu", 1.0)]);
        assert_eq!(limits, [row("cpu", 4.0)]);
    }
}
