//! Amounts of resources: integers in the units of upstream's `framework.Resource`, already rounded.

use crate::intern::Symbol;

/// Amounts of the resources the scheduler tracks, of a pod or of a node.
///
/// cpu in milli-cores, memory and ephemeral storage in bytes, all others in units of their own
/// (upstream `pkg/scheduler/framework/types.go#Resource`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    /// cpu, in thousandths of a core.
    pub cpu_milli: i64,
    /// Memory, in bytes.
    pub memory: i64,
    /// Ephemeral storage, in bytes.
    pub ephemeral_storage: i64,
    /// Extended and other scalar resources, sorted by name id; a name that is present with zero is not absent.
    pub scalar: Vec<(Symbol, i64)>,
}

impl Resources {
    /// The amount of the scalar resource `name`, if it is present.
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

    /// Adds `other`. Sums that do not fit stay at the end of the range: a node must never seem empty by overflow.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, i64::saturating_add);
    }

    /// Takes `other` away. Scalars that reach zero stay present, as upstream's do.
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

/// Whether a resource that is tracked at all, and so is known to be well formed, is an extended one (upstream
/// `IsExtendedResourceName`).
pub fn is_extended_resource(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

/// What one pod asks for, in each of the ways the plugins ask (`plugins.md` 5.5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodResources {
    /// What Filter weighs of an incoming pod: pod level honoured, no defaults, status not read.
    pub request: Resources,
    /// What the pod takes from its node once placed, and what BalancedAllocation weighs of an incoming one: as `request`,
    /// with the resize status honoured.
    pub placed: Resources,
    /// cpu the pod takes from its node for scoring, with 100m per container that asks for none.
    pub non_zero_cpu_milli: i64,
    /// Memory the pod takes from its node for scoring, with 200 MiB per container that asks for none.
    pub non_zero_memory: i64,
    /// What Score of NodeResourcesFit weighs of an incoming pod: with the defaults, pod level ignored.
    pub score: Resources,
}
