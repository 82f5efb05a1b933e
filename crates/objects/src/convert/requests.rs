//! Computes pod resource requests, in each variant that plugins use.
//!
//! Upstream: `component-helpers/resource/helpers.go#PodRequests`, called with different options by each consumer, and
//! `pkg/scheduler/framework/types.go` (`CalculateResource`, `Resource.Add`, `SetMaxResource`). Quantities are summed
//! exactly and rounded once for the whole pod. Upstream's sums wrap around outside the range of i64; these saturate.

pub mod shown;

use super::quantity::Quantity;
use super::syntax;
use crate::api::core::{Container, ContainerStatus, PodSpec, PodStatus, StatusRequests};
use crate::api::meta::ResourceList;
use std::cmp::Ordering;
use supercargo_core::model::emulation::{PodRequests, VersionRules};
use supercargo_core::model::intern::Tables;
use supercargo_core::model::resources::{PodResources, Resources};

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
const PODS: &str = "pods";
const HUGEPAGES: &str = "hugepages-";

/// CPU request that scoring assumes for a container without one (upstream `DefaultMilliCPURequest`), in millicores.
const DEFAULT_CPU_MILLI: i64 = 100;
/// Memory request that scoring assumes for a container without one (upstream `DefaultMemoryRequest`), in bytes.
const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;

/// Parsed amounts by resource name: upstream's `ResourceList`.
pub type Amounts<'a> = Vec<(&'a str, Quantity)>;

/// Requests of one container.
struct Requested<'a> {
    /// Requests in the spec.
    spec: Amounts<'a>,
    /// Requests in spec and status combined, if the status affects them ([`PodRequests::PerContainer`]).
    placed: Option<Amounts<'a>>,
    /// Allocated and actuated requests, each with its substitute, if the status affects them
    /// ([`PodRequests::PerPod`]).
    status: Option<[Amounts<'a>; 2]>,
    restartable: bool,
}

/// Parsed requests of a pod, before any sum.
struct Lists<'a> {
    containers: Vec<Requested<'a>>,
    init_containers: Vec<Requested<'a>>,
    /// The pod-level requests in `spec.resources.requests`, without and with the status.
    pod_level: Option<(Amounts<'a>, Amounts<'a>)>,
    /// Allocated and actuated requests of the whole pod, which replace those of the containers
    /// ([`PodRequests::PerPod`]).
    status_totals: Option<[Amounts<'a>; 2]>,
    /// Whether the spec does not count for a placed pod ([`PodRequests::PerPod`]).
    ignores_spec: bool,
    overhead: Amounts<'a>,
}

/// Computes [`PodResources`].
///
/// # Errors
/// A message naming the field that is not a valid quantity.
pub(super) fn pod_resources(
    tables: &mut Tables,
    spec: &PodSpec,
    status: &PodStatus,
) -> Result<PodResources, String> {
    let lists = Lists::read(spec, status, tables.rules())?;
    let request = lists.sum(|asked| &asked.spec, &[], lists.pod_level.as_ref().map(|(spec, _)| spec));
    let placed_level = lists.pod_level.as_ref().map(|(_, placed)| placed);
    let placed = lists.placed(&[], placed_level);
    let mut defaults =
        vec![(CPU, Quantity::milli(DEFAULT_CPU_MILLI)), (MEMORY, Quantity::whole(DEFAULT_MEMORY))];
    let score = lists.sum(|asked| &asked.spec, &defaults, None);
    if placed_level.is_some() {
        defaults.retain(|&(name, _)| find(&placed, name).is_none());
    }
    let non_zero = lists.placed(&defaults, placed_level);
    Ok(PodResources {
        request: tracked(tables, &request, |amount| amount.max(0)),
        placed: tracked(tables, &placed, |amount| amount),
        non_zero_cpu_milli: find(&non_zero, CPU).map_or(0, Quantity::clamped_milli_value),
        non_zero_memory: find(&non_zero, MEMORY).map_or(0, Quantity::clamped_value),
        score: tracked(tables, &score, |amount| amount),
    })
}

/// Returns a node's allocatable resources and its maximum number of pods.
///
/// # Errors
/// A message naming the field that is not a valid quantity.
pub(super) fn allocatable(tables: &mut Tables, list: &ResourceList) -> Result<(Resources, i64), String> {
    let amounts = parse(list, "status.allocatable")?;
    let pods = find(&amounts, PODS).map_or(0, Quantity::clamped_value);
    Ok((tracked(tables, &amounts, |amount| amount), pods))
}

impl<'a> Requested<'a> {
    fn placed(&self) -> &Amounts<'a> {
        self.placed.as_ref().unwrap_or(&self.spec)
    }
}

impl<'a> Lists<'a> {
    fn read(spec: &'a PodSpec, status: &'a PodStatus, rules: VersionRules) -> Result<Self, String> {
        let infeasible = is_resize_infeasible(status);
        let per_pod = rules.pod_requests == PodRequests::PerPod;
        let reads_status = |container: &Container| per_pod || container.is_restartable();
        Ok(Self {
            containers: containers(&spec.containers, "containers", status, rules, |_| true)?,
            init_containers: containers(
                &spec.init_containers,
                "initContainers",
                status,
                rules,
                reads_status,
            )?,
            pod_level: pod_level(spec, status, rules, infeasible)?,
            status_totals: if per_pod { status_totals(status)? } else { None },
            ignores_spec: per_pod && infeasible,
            overhead: parse(&spec.overhead, "spec.overhead")?,
        })
    }

    /// Returns the requests of a placed pod, which depend on its status during a resize.
    fn placed(&self, defaults: &[(&'a str, Quantity)], pod_level: Option<&Amounts<'a>>) -> Amounts<'a> {
        let all = || self.containers.iter().chain(&self.init_containers);
        if self.status_totals.is_none() && !self.ignores_spec && all().all(|it| it.status.is_none()) {
            return self.sum(Requested::placed, defaults, pod_level);
        }
        let spec = (!self.ignores_spec).then(|| self.sum_of_containers(|asked| asked.spec.clone(), defaults));
        let [allocated, actuated] = self.status_totals.clone().unwrap_or_else(|| {
            [0, 1].map(|at| {
                let of = |asked: &Requested<'a>| match &asked.status {
                    Some(status) => status[at].clone(),
                    None if self.ignores_spec => Amounts::new(),
                    None => asked.spec.clone(),
                };
                self.sum_of_containers(of, defaults)
            })
        });
        let mut total = spec.unwrap_or_default();
        raise(&mut total, &actuated);
        raise(&mut total, &allocated);
        self.complete(total, pod_level)
    }

    /// Upstream's `PodRequests`. `of` selects a container's amounts, `defaults` fill in resources that it does not
    /// name, and `pod_level` replaces the sums of the resources it names.
    fn sum(
        &self,
        of: impl for<'s> Fn(&'s Requested<'a>) -> &'s Amounts<'a>,
        defaults: &[(&'a str, Quantity)],
        pod_level: Option<&Amounts<'a>>,
    ) -> Amounts<'a> {
        self.complete(self.sum_of_containers(|asked| of(asked).clone(), defaults), pod_level)
    }

    fn sum_of_containers(
        &self,
        of: impl Fn(&Requested<'a>) -> Amounts<'a>,
        defaults: &[(&'a str, Quantity)],
    ) -> Amounts<'a> {
        let with_defaults = |asked: &Requested<'a>| {
            let mut amounts = of(asked);
            let missing = defaults.iter().filter(|(name, _)| find(&amounts, name).is_none());
            let missing: Vec<_> = missing.copied().collect();
            amounts.extend(missing);
            amounts
        };
        let mut total = Amounts::new();
        for container in &self.containers {
            add(&mut total, &with_defaults(container));
        }
        let (mut restartable, mut highest) = (Amounts::new(), Amounts::new());
        for container in &self.init_containers {
            let own = with_defaults(container);
            if container.restartable {
                add(&mut total, &own);
                add(&mut restartable, &own);
                raise(&mut highest, &restartable);
            } else {
                let mut running = own;
                add(&mut running, &restartable);
                raise(&mut highest, &running);
            }
        }
        raise(&mut total, &highest);
        total
    }

    /// Adds the pod-level requests and the overhead to the sum of the containers.
    fn complete(&self, mut total: Amounts<'a>, pod_level: Option<&Amounts<'a>>) -> Amounts<'a> {
        for &(name, amount) in pod_level.into_iter().flatten() {
            set(&mut total, name, amount);
        }
        add(&mut total, &self.overhead);
        total
    }
}

fn containers<'a>(
    list: &'a [Container],
    field: &str,
    status: &'a PodStatus,
    rules: VersionRules,
    reads_status: impl Fn(&Container) -> bool,
) -> Result<Vec<Requested<'a>>, String> {
    let infeasible = is_resize_infeasible(status);
    let asked = |(at, container): (usize, &'a Container)| {
        let spec = parse(&container.resources.requests, &format!("spec.{field}[{at}].resources.requests"))?;
        let found =
            status_of(status, &container.name, rules.pod_requests).filter(|_| reads_status(container));
        let (mut placed, mut status) = (None, None);
        match (rules.pod_requests, found) {
            (_, None) => {}
            (PodRequests::PerContainer, Some(found)) => {
                if let Some(actuated) = &found.resources {
                    let allocated = found.allocated_resources.as_ref();
                    placed = Some(effective(&spec, actuated, allocated, infeasible)?);
                }
            }
            (PodRequests::PerPod, Some(found)) => status = allocated_and_actuated(&spec, found, infeasible)?,
        }
        Ok(Requested { spec, placed, status, restartable: container.is_restartable() })
    };
    list.iter().enumerate().map(asked).collect()
}

/// Returns the allocated and the actuated requests of a container; `None` if its status names none. Actuated ones are
/// replaced by allocated ones, and these by the spec, which does not count if the resize is infeasible.
fn allocated_and_actuated<'a>(
    spec: &Amounts<'a>,
    status: &'a ContainerStatus,
    infeasible: bool,
) -> Result<Option<[Amounts<'a>; 2]>, String> {
    let allocated = parse_some(status.allocated_resources.as_ref(), "status: allocatedResources")?;
    let actuated = status.resources.as_ref().and_then(|it| it.requests.as_ref());
    let actuated = parse_some(actuated, "status: resources.requests")?;
    if allocated.is_none() && actuated.is_none() {
        return Ok(None);
    }
    let substitute = || if infeasible { Amounts::new() } else { spec.clone() };
    let allocated = allocated.unwrap_or_else(substitute);
    let actuated = actuated.unwrap_or_else(|| allocated.clone());
    Ok(Some([allocated, actuated]))
}

/// Returns the allocated and the actuated requests of the whole pod, if its status has both.
fn status_totals(status: &PodStatus) -> Result<Option<[Amounts<'_>; 2]>, String> {
    let actuated = status.resources.as_ref().and_then(|it| it.requests.as_ref());
    let allocated = parse_some(status.allocated_resources.as_ref(), "status.allocatedResources")?;
    let actuated = parse_some(actuated, "status.resources.requests")?;
    Ok(allocated.zip(actuated).map(<[_; 2]>::from))
}

/// Returns the status of the container `name`. Of several, upstream takes the last one, and from 1.37 the first.
fn status_of<'a>(status: &'a PodStatus, name: &str, rules: PodRequests) -> Option<&'a ContainerStatus> {
    let mut all = status.container_statuses.iter().chain(&status.init_container_statuses);
    let is_its = |status: &&ContainerStatus| status.name == name;
    match rules {
        PodRequests::PerContainer => all.rev().find(is_its),
        PodRequests::PerPod => all.find(is_its),
    }
}

/// Returns `spec.resources.requests` without and with the status, if it names a resource supported at pod level.
fn pod_level<'a>(
    spec: &'a PodSpec,
    status: &'a PodStatus,
    rules: VersionRules,
    infeasible: bool,
) -> Result<Option<(Amounts<'a>, Amounts<'a>)>, String> {
    let Some(resources) = &spec.resources else { return Ok(None) };
    let all = parse(&resources.requests, "spec.resources.requests")?;
    let mut counted = all.clone();
    counted.retain(|(name, _)| at_pod_level(name));
    if counted.is_empty() {
        return Ok(None);
    }
    let mut placed = counted.clone();
    if let Some(actuated) = status.resources.as_ref().filter(|_| rules.reads_pod_level_status) {
        let mut effective = effective(&all, actuated, status.allocated_resources.as_ref(), infeasible)?;
        if rules.pod_requests == PodRequests::PerPod {
            effective.retain(|(name, _)| at_pod_level(name));
            placed = effective;
        } else {
            for (name, amount) in &mut placed {
                *amount = find(&effective, name).unwrap_or_default();
            }
        }
    }
    Ok(Some((counted, placed)))
}

/// Reports whether a resource can be requested for a whole pod (upstream `IsSupportedPodLevelResource`).
fn at_pod_level(name: &str) -> bool {
    matches!(name, CPU | MEMORY) || name.starts_with(HUGEPAGES)
}

/// Upstream's `determineEffectiveRequests`: during a resize, the largest of all amounts counts.
fn effective<'a>(
    spec: &Amounts<'a>,
    actuated: &'a StatusRequests,
    allocated: Option<&'a ResourceList>,
    infeasible: bool,
) -> Result<Amounts<'a>, String> {
    let mut largest = if infeasible { Amounts::new() } else { spec.clone() };
    let actuated = parse_some(actuated.requests.as_ref(), "status: resources.requests")?;
    let allocated = parse_some(allocated, "status: allocatedResources")?;
    actuated.into_iter().chain(allocated).for_each(|amounts| raise(&mut largest, &amounts));
    Ok(largest)
}

fn is_resize_infeasible(status: &PodStatus) -> bool {
    let pending = status.conditions.iter().find(|condition| condition.kind == "PodResizePending");
    pending.is_some_and(|condition| condition.reason == "Infeasible")
}

fn parse<'a>(list: &'a ResourceList, field: &str) -> Result<Amounts<'a>, String> {
    let amount = |(name, text): (&'a String, &'a crate::api::meta::QuantityText)| {
        let text = text.as_str();
        match Quantity::parse(text) {
            Ok(amount) => Ok((name.as_str(), amount)),
            Err(error) => Err(format!("{field}[{name}]: {text:?}: {error}")),
        }
    };
    list.iter().map(amount).collect()
}

fn parse_some<'a>(list: Option<&'a ResourceList>, field: &str) -> Result<Option<Amounts<'a>>, String> {
    list.map(|list| parse(list, field)).transpose()
}

fn find(amounts: &Amounts<'_>, name: &str) -> Option<Quantity> {
    amounts.iter().find(|(n, _)| *n == name).map(|&(_, amount)| amount)
}

fn set<'a>(amounts: &mut Amounts<'a>, name: &'a str, amount: Quantity) {
    match amounts.iter_mut().find(|(n, _)| *n == name) {
        Some(entry) => entry.1 = amount,
        None => amounts.push((name, amount)),
    }
}

/// Upstream's `addResourceList`.
fn add<'a>(amounts: &mut Amounts<'a>, more: &Amounts<'a>) {
    for &(name, amount) in more {
        set(amounts, name, find(amounts, name).map_or(amount, |so_far| so_far.plus(amount)));
    }
}

/// Upstream's `maxResourceList`.
fn raise<'a>(amounts: &mut Amounts<'a>, to: &Amounts<'a>) {
    for &(name, amount) in to {
        if find(amounts, name).is_none_or(|so_far| amount.compare(so_far) == Ordering::Greater) {
            set(amounts, name, amount);
        }
    }
}

/// Returns the tracked resources, rounded; other names are dropped.
fn tracked(tables: &mut Tables, amounts: &Amounts<'_>, clamp: impl Fn(i64) -> i64) -> Resources {
    let mut resources = Resources::default();
    for &(name, amount) in amounts {
        match name {
            CPU => resources.cpu_milli = clamp(amount.clamped_milli_value()),
            MEMORY => resources.memory = clamp(amount.clamped_value()),
            EPHEMERAL_STORAGE => resources.ephemeral_storage = clamp(amount.clamped_value()),
            _ if is_scalar(name) => resources.set_scalar(tables.symbol(name), clamp(amount.clamped_value())),
            _ => {}
        }
    }
    resources
}

/// Reports whether a resource without a column of its own is tracked (upstream `IsScalarResourceName`).
fn is_scalar(name: &str) -> bool {
    name.starts_with(HUGEPAGES)
        || name.contains("kubernetes.io/")
        || name.starts_with("attachable-volumes-")
        || is_extended(name)
}

/// Upstream's `IsExtendedResourceName`.
pub fn is_extended(name: &str) -> bool {
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && syntax::label_key_errors(&format!("requests.{name}")).is_empty()
}
