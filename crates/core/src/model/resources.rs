//! Amounts of resources: integers in the units of upstream's `framework.Resource`, already rounded.

use crate::model::intern::{Symbol, trace_ids};

/// Amounts of the resources that the scheduler tracks, of a pod or of a node.
///
/// cpu is in millicores, memory and ephemeral storage in bytes, all others in their own units (upstream
/// `pkg/scheduler/framework/types.go#Resource`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    /// cpu, in thousandths of a core.
    pub cpu_milli: i64,
    /// Memory, in bytes.
    pub memory: i64,
    /// Ephemeral storage, in bytes.
    pub ephemeral_storage: i64,
    /// Extended and other scalar resources, sorted by name id. An entry of zero is distinct from an absent
    /// one.
    pub scalar: Vec<(Symbol, i64)>,
}

impl Resources {
    /// Returns the amount of the scalar resource `name`, if present.
    pub fn scalar(&self, name: Symbol) -> Option<i64> {
        self.scalar.binary_search_by_key(&name, |&(n, _)| n).ok().map(|at| self.scalar[at].1)
    }

    /// Sets the scalar resource `name`.
    pub fn set_scalar(&mut self, name: Symbol, amount: i64) {
        match self.scalar.binary_search_by_key(&name, |&(n, _)| n) {
            Ok(at) => self.scalar[at].1 = amount,
            Err(at) => self.scalar.insert(at, (name, amount)),
        }
    }

    /// Adds `other`, saturating: an overflow must never make a node look empty.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, i64::saturating_add);
    }

    /// Subtracts `other`. Scalars that reach zero stay present, as upstream's do.
    pub fn subtract(&mut self, other: &Self) {
        self.combine(other, i64::saturating_sub);
    }

    fn combine(&mut self, other: &Self, op: impl Fn(i64, i64) -> i64) {
        self.cpu_milli = op(self.cpu_milli, other.cpu_milli);
        self.memory = op(self.memory, other.memory);
        self.ephemeral_storage = op(self.ephemeral_storage, other.ephemeral_storage);
        for &(name, amount) in &other.scalar {
            let so_far = self.scalar(name).unwrap_or(0);
            self.set_scalar(name, op(so_far, amount));
        }
    }
}

/// Whether a tracked resource, whose name is therefore valid, is an extended one (upstream
/// `IsExtendedResourceName`).
pub fn is_extended_resource(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

/// One pod's requests, in each form that plugins read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodResources {
    /// The request that Filter checks for an incoming pod: pod-level resources included, no defaults, status
    /// ignored.
    pub request: Resources,
    /// The amount counted on the pod's node once placed: like `request`, but with the resize status.
    /// BalancedAllocation uses it for incoming pods, too.
    pub placed: Resources,
    /// cpu counted for scoring once placed, with 100m for each container without a request.
    pub non_zero_cpu_milli: i64,
    /// Memory counted for scoring once placed, with 200 MiB for each container without a request.
    pub non_zero_memory: i64,
    /// The request that NodeResourcesFit scores for an incoming pod: with those defaults, without pod-level
    /// resources.
    pub score: Resources,
}

trace_ids!(Resources { scalar } but not { cpu_milli, memory, ephemeral_storage });
trace_ids!(PodResources { request, placed, score } but not { non_zero_cpu_milli, non_zero_memory });
