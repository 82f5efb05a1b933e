//! Devices, as CEL expressions see them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Error;
use crate::value::{Map, Quantity, Value, Version};

/// A device: the value of the variable `device`. Build it once and evaluate it many times. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Device(Arc<Fields>);

#[derive(Debug)]
struct Fields {
    /// The map of all fields.
    value: Value,
    /// The error of every evaluation for this device, if an attribute or capacity is invalid.
    broken: Option<Error>,
}

/// The value of an attribute, with the variants of the API type `DeviceAttribute`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// An integer.
    Int(i64),
    /// A boolean.
    Bool(bool),
    /// A string.
    String(Arc<str>),
    /// A semantic version, as a string. If it does not parse, every evaluation for the device fails.
    Version(Arc<str>),
    /// A list of integers. With a list of any type, every evaluation for the device fails, as in Kubernetes
    /// 1.36 without the feature gate `DRAListTypeAttributes`.
    Ints(Vec<i64>),
    /// A list of booleans.
    Bools(Vec<bool>),
    /// A list of strings.
    Strings(Vec<Arc<str>>),
    /// A list of semantic versions.
    Versions(Vec<Arc<str>>),
}

/// Builds a [`Device`].
#[derive(Clone, Debug, Default)]
pub struct DeviceBuilder {
    driver: Arc<str>,
    allow_multiple_allocations: bool,
    attributes: BTreeMap<String, Attribute>,
    capacity: BTreeMap<String, String>,
}

impl Device {
    /// Returns a builder for a device of a driver, for example `gpu.example.com`.
    pub fn builder(driver: &str) -> DeviceBuilder {
        DeviceBuilder { driver: driver.into(), ..DeviceBuilder::default() }
    }

    pub(crate) fn value(&self) -> &Value {
        &self.0.value
    }

    pub(crate) fn broken(&self) -> Option<&Error> {
        self.0.broken.as_ref()
    }
}

impl DeviceBuilder {
    /// Sets `device.allowMultipleAllocations`, which is false otherwise.
    #[must_use]
    pub fn allow_multiple_allocations(mut self, allow: bool) -> Self {
        self.allow_multiple_allocations = allow;
        self
    }

    /// Adds an attribute. `name` is qualified (`domain/id`) or a bare id, whose domain is the name of the
    /// driver. If a device has both, the qualified one takes precedence; upstream's choice is random.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: Attribute) -> Self {
        self.attributes.insert(name.to_owned(), value);
        self
    }

    /// Adds a capacity, as a quantity string. If it does not parse, every evaluation for the device fails.
    /// `name` has the same form as in [`attribute`](Self::attribute).
    #[must_use]
    pub fn capacity(mut self, name: &str, quantity: &str) -> Self {
        self.capacity.insert(name.to_owned(), quantity.to_owned());
        self
    }

    /// Builds the device.
    pub fn build(self) -> Device {
        let mut broken = None;
        let mut domains = Domains { driver: &self.driver, maps: BTreeMap::new() };
        for (name, attribute) in by_precedence(&self.attributes) {
            match attribute_value(attribute) {
                Ok(value) => domains.add(name, value),
                Err(reason) => broken = broken.or(Some(Error::new(format!("attribute {name}: {reason}")))),
            }
        }
        let attributes = domains.finish();
        let mut domains = Domains { driver: &self.driver, maps: BTreeMap::new() };
        for (name, text) in by_precedence(&self.capacity) {
            match Quantity::parse(text) {
                Ok(quantity) => domains.add(name, Value::Quantity(Arc::new(quantity))),
                Err(reason) => broken = broken.or(Some(Error::new(format!("capacity {name}: {reason}")))),
            }
        }
        let fields = [
            ("driver", Value::String(self.driver.clone())),
            ("allowMultipleAllocations", Value::Bool(self.allow_multiple_allocations)),
            ("attributes", attributes),
            ("capacity", domains.finish()),
        ];
        let value = Value::Map(Map::of_texts(fields.map(|(name, value)| (name.into(), value)).into()));
        Device(Arc::new(Fields { value, broken }))
    }
}

/// Iterates over bare names first, so that qualified ones replace them.
fn by_precedence<T>(entries: &BTreeMap<String, T>) -> impl Iterator<Item = (&String, &T)> {
    let qualified = |name: &str| name.contains('/');
    let bare = entries.iter().filter(move |(name, _)| !qualified(name));
    bare.chain(entries.iter().filter(move |(name, _)| qualified(name)))
}

/// Values by domain and id.
struct Domains<'d> {
    driver: &'d str,
    maps: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Value>>,
}

impl Domains<'_> {
    fn add(&mut self, name: &str, value: Value) {
        let (domain, id) = name.split_once('/').unwrap_or((self.driver, name));
        self.maps.entry(domain.into()).or_default().insert(id.into(), value);
    }

    fn finish(self) -> Value {
        let maps = self.maps.into_iter().map(|(domain, ids)| (domain, Value::Map(Map::of_texts(ids))));
        Value::Map(Map::open(maps.collect()))
    }
}

fn attribute_value(attribute: &Attribute) -> Result<Value, String> {
    match attribute {
        Attribute::Int(value) => Ok(Value::Int(*value)),
        Attribute::Bool(value) => Ok(Value::Bool(*value)),
        Attribute::String(text) => Ok(Value::String(text.clone())),
        Attribute::Version(text) => match Version::parse(text) {
            Ok(version) => Ok(Value::Version(Arc::new(version))),
            Err(reason) => Err(format!("parse semantic version: {reason}")),
        },
        Attribute::Ints(_) | Attribute::Bools(_) | Attribute::Strings(_) | Attribute::Versions(_) => {
            Err("unsupported attribute value".into())
        }
    }
}
