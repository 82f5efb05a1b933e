//! CEL values, with their type names, sizes and supported operations.

mod equality;
pub(crate) mod format_go;
mod list;
mod map;
pub(crate) mod net;
pub(crate) mod quantity;
pub(crate) mod semver;
pub(crate) mod time;
pub(crate) mod url;

use std::net::IpAddr;
use std::sync::Arc;

pub(crate) use equality::{compare, equal, equal_to};
pub use list::List;
pub use map::Map;
pub(crate) use map::lossless_int;
pub use net::Cidr;
pub use quantity::Quantity;
pub use semver::Version;
pub use time::Timestamp;
pub use url::Url;

use crate::error::{Error, Result};
use crate::library::formats::Format;

/// A CEL value. Cheap to clone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer, such as `1u`.
    Uint(u64),
    /// A floating-point number.
    Double(f64),
    /// A string.
    String(Arc<str>),
    /// Bytes, such as `b'abc'`.
    Bytes(Arc<[u8]>),
    /// A duration in nanoseconds.
    Duration(i64),
    /// A timestamp.
    Timestamp(Timestamp),
    /// A list.
    List(List),
    /// A map.
    Map(Map),
    /// An optional value.
    Optional(Option<Arc<Value>>),
    /// A type, by its name.
    Type(&'static str),
    /// A quantity, such as `10Gi`.
    Quantity(Arc<Quantity>),
    /// The result of adding or subtracting quantities. Upstream returns a pointer (`*Quantity`) there, which
    /// its `Equal` rejects on the right-hand side of `==` (`apiserver/pkg/cel/quantity.go`).
    ComputedQuantity(Arc<Quantity>),
    /// A semantic version.
    Version(Arc<Version>),
    /// An IP address.
    Ip(IpAddr),
    /// An IP network (CIDR).
    Cidr(Cidr),
    /// A URL.
    Url(Arc<Url>),
    /// A named string format, such as `format.dns1123Label()`.
    Format(&'static Format),
    /// An error in place of a value, such as in an optional. Reading the value returns the error.
    Broken(Error),
}

/// Operations that a value supports, with the bits of cel-go's `common/types/traits/traits.go`.
mod traits {
    pub(super) const ADD: u32 = 1;
    pub(super) const COMPARE: u32 = 2;
    pub(super) const CONTAIN: u32 = 4;
    pub(super) const DIVIDE: u32 = 8;
    pub(super) const TEST_FIELD: u32 = 16;
    pub(super) const INDEX: u32 = 32;
    pub(super) const ITERATE: u32 = 64;
    pub(super) const MATCH: u32 = 256;
    pub(super) const MODULO: u32 = 512;
    pub(super) const MULTIPLY: u32 = 1024;
    pub(super) const NEGATE: u32 = 2048;
    pub(super) const RECEIVE: u32 = 4096;
    pub(super) const SIZE: u32 = 8192;
    pub(super) const SUBTRACT: u32 = 16384;
}

/// The trait bit of values that support dynamic dispatch to methods (`ReceiverType`).
pub(crate) const RECEIVER: u32 = traits::RECEIVE;

impl Value {
    pub(crate) fn text(text: impl Into<Arc<str>>) -> Self {
        Self::String(text.into())
    }

    /// Returns the name of the value's type at run time.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Quantity(_) | Self::ComputedQuantity(_) => "kubernetes.Quantity",
            Self::Version(_) => "kubernetes.Semver",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Broken(_) => "error",
        }
    }

    /// Returns whether the value supports all of the given operations.
    pub(crate) fn supports(&self, wanted: u32) -> bool {
        use traits::{
            ADD, COMPARE, CONTAIN, DIVIDE, INDEX, ITERATE, MATCH, MODULO, MULTIPLY, NEGATE, RECEIVE, SIZE,
            SUBTRACT, TEST_FIELD,
        };
        let supported = match self {
            Self::Bool(_) => COMPARE | NEGATE,
            Self::Int(_) => ADD | COMPARE | DIVIDE | MODULO | MULTIPLY | NEGATE | SUBTRACT,
            Self::Uint(_) => ADD | COMPARE | DIVIDE | MODULO | MULTIPLY | SUBTRACT,
            Self::Double(_) => ADD | COMPARE | DIVIDE | MULTIPLY | NEGATE | SUBTRACT,
            Self::String(_) => ADD | COMPARE | MATCH | RECEIVE | SIZE,
            Self::Bytes(_) => ADD | COMPARE | SIZE,
            Self::Duration(_) => ADD | COMPARE | NEGATE | RECEIVE | SUBTRACT,
            Self::Timestamp(_) => ADD | COMPARE | RECEIVE | SUBTRACT,
            Self::List(_) => ADD | CONTAIN | INDEX | ITERATE | SIZE,
            Self::Map(_) => CONTAIN | INDEX | ITERATE | SIZE,
            Self::Quantity(_)
            | Self::ComputedQuantity(_)
            | Self::Version(_)
            | Self::Url(_)
            | Self::Format(_) => TEST_FIELD | INDEX,
            _ => 0,
        };
        supported & wanted == wanted
    }

    /// Returns the size of a value that has one, in characters, bytes, elements or entries.
    pub(crate) fn size(&self) -> Option<u64> {
        match self {
            Self::String(text) => {
                Some(if text.is_ascii() { text.len() } else { text.chars().count() } as u64)
            }
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::List(list) => Some(list.len()),
            Self::Map(map) => Some(map.len() as u64),
            Self::Ip(ip) => Some(if ip.is_ipv4() { 4 } else { 16 }),
            Self::Cidr(cidr) => Some(u64::from(cidr.bits()).div_ceil(8)),
            _ => None,
        }
    }

    /// Returns whether `optional.ofNonZeroValue` yields none for the value.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) | Self::Duration(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::String(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Timestamp(timestamp) => timestamp.is_zero(),
            Self::List(list) => list.is_empty(),
            Self::Map(map) => map.is_empty(),
            _ => false,
        }
    }

    /// Returns the value, or the error in its place.
    pub(crate) fn unbroken(self) -> Result {
        match self {
            Self::Broken(error) => Err(error),
            value => Ok(value),
        }
    }
}

/// Counts work that upstream's cost does not cover, so that no expression uses unbounded time or memory.
#[derive(Debug, Default)]
pub(crate) struct Work {
    done: u64,
}

/// Maximum number of elements visited and bytes created by functions during an evaluation. At 0.1 cost units
/// for each character, the cost limit of 1,000,000 allows 10,000,000 traversed characters; this limit is
/// slightly higher.
const WORK_LIMIT: u64 = 12_000_000;

impl Work {
    pub(crate) fn add(&mut self, amount: u64) -> Result<()> {
        self.done = self.done.saturating_add(amount);
        if self.done > WORK_LIMIT { Err(Error::LIMIT) } else { Ok(()) }
    }

    pub(crate) fn add_len(&mut self, amount: usize) -> Result<()> {
        self.add(amount as u64)
    }
}
