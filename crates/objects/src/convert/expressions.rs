//! Compiled device selectors: expressions of `supercargo-cel`, as the engine evaluates them.
//!
//! Each distinct text is compiled once, and evaluated once for all devices that agree in what it reads. The table of
//! texts is shared by the process, since an expression is the same in every cluster.

use crate::api::resource::Device as ApiDevice;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use supercargo_cel::{Device, Parts, Program, Quantity, Version, compile};
use supercargo_core::model::device::{Attribute, Expression, Facts};

/// The number of results that an expression keeps: a few per model of device. More are dropped, all at once; of a
/// selector that reads a serial number, no result is asked for twice anyway.
const RESULTS_MAX: usize = 4_096;

/// The size of the table of texts below which unused ones are not looked for.
const PURGE_MIN: usize = 64;

/// What expressions read of a device.
#[derive(Debug)]
pub(super) struct DeviceFacts {
    driver: Arc<str>,
    is_shareable: bool,
    /// Sorted by name as written.
    attributes: Box<[(Arc<str>, Attribute)]>,
    /// Quantities as written, sorted by name.
    capacity: Box<[(Arc<str>, Arc<str>)]>,
    /// Whether every expression fails for the device, whatever it reads.
    is_broken: bool,
    /// Built when an expression is evaluated for this device.
    device: OnceLock<Device>,
}

impl DeviceFacts {
    /// Collects the facts of a device with these attributes.
    pub(super) fn new(driver: &Arc<str>, device: &ApiDevice, attributes: &[(Arc<str>, Attribute)]) -> Self {
        let capacity = device.capacity.iter();
        let capacity: Box<[(Arc<str>, Arc<str>)]> =
            capacity.map(|(name, it)| (name.as_str().into(), it.value.as_str().into())).collect();
        let fails = |attribute: &Attribute| match attribute {
            Attribute::Text(_) | Attribute::Int(_) | Attribute::Bool(_) => false,
            Attribute::Version(text) => Version::parse(text).is_err(),
            Attribute::Other => true,
        };
        let is_broken = attributes.iter().any(|(_, attribute)| fails(attribute))
            || capacity.iter().any(|(_, text)| Quantity::parse(text).is_err());
        Self {
            driver: Arc::clone(driver),
            is_shareable: device.allow_multiple_allocations == Some(true),
            attributes: attributes.into(),
            capacity,
            is_broken,
            device: OnceLock::new(),
        }
    }

    pub(super) fn device(&self) -> &Device {
        self.device.get_or_init(|| {
            let mut device = Device::builder(&self.driver).allow_multiple_allocations(self.is_shareable);
            for (name, attribute) in &self.attributes {
                device = device.attribute(
                    name,
                    match attribute {
                        Attribute::Text(text) => supercargo_cel::Attribute::String(Arc::clone(text)),
                        Attribute::Int(number) => supercargo_cel::Attribute::Int(*number),
                        Attribute::Bool(flag) => supercargo_cel::Attribute::Bool(*flag),
                        Attribute::Version(text) => supercargo_cel::Attribute::Version(Arc::clone(text)),
                        Attribute::Other => supercargo_cel::Attribute::Ints(Vec::new()),
                    },
                );
            }
            for (name, quantity) in &self.capacity {
                device = device.capacity(name, quantity);
            }
            device.build()
        })
    }

    /// Returns what a program reads of the device; `None` if that cannot be listed.
    fn read_by(&self, program: &Program) -> Option<Vec<Read>> {
        let reads = program.reads();
        let names = |parts| match parts {
            &Parts::None => Some(&[][..]),
            Parts::Some(names) => Some(&names[..]),
            Parts::All => None,
        };
        let (attributes, capacity) = (names(&reads.attributes)?, names(&reads.capacity)?);
        let mut read = Vec::with_capacity(2 + attributes.len() + capacity.len());
        read.push(if reads.driver { Read::Text(Arc::clone(&self.driver)) } else { Read::Absent });
        read.push(Read::Bool(reads.allow_multiple_allocations && self.is_shareable));
        for (domain, id) in attributes {
            read.push(match self.named(&self.attributes, domain, id) {
                None | Some(Attribute::Other) => Read::Absent,
                Some(Attribute::Text(text)) => Read::Text(Arc::clone(text)),
                Some(Attribute::Int(number)) => Read::Int(*number),
                Some(Attribute::Bool(flag)) => Read::Bool(*flag),
                Some(Attribute::Version(text)) => Read::Version(Arc::clone(text)),
            });
        }
        for (domain, id) in capacity {
            let quantity = self.named(&self.capacity, domain, id);
            read.push(quantity.map_or(Read::Absent, |text| Read::Text(Arc::clone(text))));
        }
        Some(read)
    }

    /// Returns the entry of a qualified name; in the driver's domain, else the entry of the id alone.
    fn named<'a, T>(&self, entries: &'a [(Arc<str>, T)], domain: &str, id: &str) -> Option<&'a T> {
        let qualified = || domain.bytes().chain([b'/']).chain(id.bytes());
        let at = entries.binary_search_by(|(known, _)| known.bytes().cmp(qualified()));
        let at = at.or_else(|_| match *domain == *self.driver {
            true => entries.binary_search_by(|(known, _)| (**known).cmp(id)),
            false => Err(0),
        });
        Some(&entries[at.ok()?].1)
    }
}

impl From<DeviceFacts> for Facts {
    fn from(facts: DeviceFacts) -> Self {
        Self(Arc::new(facts))
    }
}

/// A value that an expression reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Read {
    Absent,
    Text(Arc<str>),
    Int(i64),
    Bool(bool),
    Version(Arc<str>),
}

type Outcome = Result<bool, Arc<str>>;

/// An expression, compiled.
struct Selector {
    text: Arc<str>,
    program: Result<Program, Arc<str>>,
    /// The full names of all attributes that the program can read; `None` if they cannot be listed.
    reads: Option<Box<[Arc<str>]>>,
    /// The results by what was read.
    results: Mutex<HashMap<Vec<Read>, Outcome>>,
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Selector").field(&self.text).finish()
    }
}

impl Selector {
    fn new(text: &str) -> Self {
        let program = compile(text).map_err(|error| format!("CEL compile error: {error}").into());
        let reads = program.as_ref().map_or(Some([].into()), attributes_read);
        Self { text: text.into(), program, reads, results: Mutex::default() }
    }
}

/// Returns the full names of all attributes that a program can read; `None` if they, or the capacities that it reads,
/// cannot be listed.
fn attributes_read(program: &Program) -> Option<Box<[Arc<str>]>> {
    let reads = program.reads();
    if reads.capacity == Parts::All {
        return None;
    }
    match &reads.attributes {
        Parts::None => Some([].into()),
        Parts::Some(names) => {
            Some(names.iter().map(|(domain, id)| format!("{domain}/{id}").into()).collect())
        }
        Parts::All => None,
    }
}

impl Expression for Selector {
    fn text(&self) -> &str {
        &self.text
    }

    fn matches(&self, facts: &Facts) -> Outcome {
        let program = self.program.as_ref().map_err(Arc::clone)?;
        let facts: &DeviceFacts = facts.0.downcast_ref().expect("devices are converted with these facts");
        let evaluate = || {
            let result = program.matches(facts.device());
            result.map_err(|error| Arc::from(format!("CEL runtime error: {error}")))
        };
        let read = if facts.is_broken { None } else { facts.read_by(program) };
        let Some(read) = read else { return evaluate() };
        if let Some(known) = locked(&self.results).get(&read) {
            return known.clone();
        }
        let outcome = evaluate();
        let mut results = locked(&self.results);
        if results.len() >= RESULTS_MAX {
            results.clear();
        }
        results.insert(read, outcome.clone());
        outcome
    }

    fn reads(&self) -> Option<&[Arc<str>]> {
        self.reads.as_deref()
    }

    fn matches_unshared(&self, facts: &Facts) -> Outcome {
        let device: &DeviceFacts = facts.0.downcast_ref().expect("devices are converted with these facts");
        let reads = self.program.as_ref().is_ok_and(|program| program.reads().allow_multiple_allocations);
        if !device.is_shareable || !reads {
            return self.matches(facts);
        }
        let unshared = DeviceFacts {
            driver: Arc::clone(&device.driver),
            is_shareable: false,
            attributes: device.attributes.clone(),
            capacity: device.capacity.clone(),
            is_broken: device.is_broken,
            device: OnceLock::new(),
        };
        self.matches(&unshared.into())
    }
}

/// The expressions in use by their text.
#[derive(Default)]
struct Table {
    expressions: HashMap<Arc<str>, Weak<Selector>>,
    /// The size at which unused texts are removed.
    purge_at: usize,
}

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

/// Returns the compiled expression of a text.
pub(super) fn expression(text: &str) -> Arc<dyn Expression> {
    selector(&mut locked(&TABLE), text)
}

fn selector(table: &mut Table, text: &str) -> Arc<Selector> {
    if let Some(known) = table.expressions.get(text).and_then(Weak::upgrade) {
        return known;
    }
    let compiled = Arc::new(Selector::new(text));
    if table.expressions.len() >= table.purge_at.max(PURGE_MIN) {
        table.expressions.retain(|_, expression| expression.strong_count() > 0);
        table.purge_at = 2 * table.expressions.len();
    }
    table.expressions.insert(Arc::clone(&compiled.text), Arc::downgrade(&compiled));
    compiled
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use supercargo_core::model::intern::Tables;

    /// Returns the facts of a device of the driver `d`.
    fn facts(device: &Value) -> Facts {
        let slice = json!({"metadata": {"name": "s"}, "spec": {"driver": "d", "devices": [device]}});
        let slice = serde_json::from_value(slice).unwrap();
        let slice = crate::convert::devices::resource_slice(&mut Tables::new(), &slice).unwrap();
        slice.devices[0].facts.clone()
    }

    fn number(value: i64) -> Facts {
        facts(&json!({"name": "x", "attributes": {"n": {"int": value}, "serial": {"int": value * 7}}}))
    }

    #[test]
    fn expressions_see_all_kinds_of_facts() {
        let device = facts(&json!({
            "name": "x", "allowMultipleAllocations": true,
            "attributes": {"t": {"string": "a"}, "d/i": {"int": 3}, "other/b": {"bool": true}, "v": {"version": "1.2.3"}},
            "capacity": {"m": {"value": "2Gi"}},
        }));
        for text in [
            "device.driver == 'd' && device.allowMultipleAllocations",
            "device.attributes['d'].t == 'a' && device.attributes['d'].i == 3 && device.attributes['other'].b",
            "device.attributes['d'].v.isGreaterThan(semver('1.2.0'))",
            "device.capacity['d'].m.compareTo(quantity('2Gi')) == 0",
            "device.attributes.exists(domain, domain == 'other')",
        ] {
            assert_eq!(expression(text).matches(&device), Ok(true), "{text}");
            assert_eq!(expression(text).matches(&device), Ok(true), "{text}, again");
        }
    }

    #[test]
    fn errors_say_when_they_occur() {
        let error = |text: &str, facts: &Facts| expression(text).matches(facts).unwrap_err().to_string();
        assert!(error("device.", &number(1)).starts_with("CEL compile error: compilation failed: ERROR: "));
        assert_eq!(error("device.attributes['d'].m == 1", &number(1)), "CEL runtime error: no such key: m");
        let list = facts(&json!({"name": "x", "attributes": {"n": {"int": 1}, "l": {"ints": [1]}}}));
        let text = "device.attributes['d'].n == 1";
        assert_eq!(expression(text).matches(&number(1)), Ok(true));
        assert_eq!(error(text, &list), "CEL runtime error: attribute l: unsupported attribute value");
    }

    #[test]
    fn devices_that_agree_in_what_is_read_share_one_evaluation() {
        let selector = Selector::new("device.attributes['d'].n > 1");
        let outcomes: Vec<_> = [1, 2, 1, 2].map(|value| selector.matches(&number(value)).unwrap()).into();
        assert_eq!(outcomes, [false, true, false, true]);
        assert_eq!(locked(&selector.results).len(), 2);
        let other = facts(&json!({"name": "x", "attributes": {"n": {"int": 1}, "d/n": {"int": 2}}}));
        assert_eq!(selector.matches(&other), Ok(true), "the qualified name counts");
        assert_eq!(locked(&selector.results).len(), 2);
        let all = Selector::new("device.attributes.exists(domain, domain == 'x')");
        assert_eq!(all.matches(&number(1)), Ok(false));
        assert!(locked(&all.results).is_empty(), "what it reads cannot be listed");
        for value in 0..=i64::try_from(RESULTS_MAX).unwrap() {
            assert_eq!(selector.matches(&number(value)), Ok(value > 1));
        }
        assert!(locked(&selector.results).len() <= RESULTS_MAX);
    }

    #[test]
    fn text_is_compiled_once_while_it_is_in_use() {
        let mut table = Table::default();
        let first = selector(&mut table, "true");
        assert!(Arc::ptr_eq(&first, &selector(&mut table, "true")));
        for number in 0..10 * PURGE_MIN {
            drop(selector(&mut table, &format!("{number} == 0")));
        }
        assert!(table.expressions.len() <= 2 * PURGE_MIN, "{}", table.expressions.len());
        assert!(Arc::ptr_eq(&first, &selector(&mut table, "true")), "an expression in use is kept");
    }
}
