//! The CEL functions `semver`, `isSemver`, `major`, `minor` and `patch`. Comparisons are in the parent
//! module.
//!
//! Upstream: `apiserver/pkg/cel/library/semverlib.go`.

use std::sync::Arc;

use super::Implementation;
use crate::Value;
use crate::error::{Error, Result};
use crate::value::Version;

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "semver" => |_, args| parse(args)?.map(|version| Value::Version(Arc::new(version))),
        "isSemver" => |_, args| parse(args).map(|version| Value::Bool(version.is_ok())),
        "major" => |_, args| number(args, |version| version.major),
        "minor" => |_, args| number(args, |version| version.minor),
        "patch" => |_, args| number(args, |version| version.patch),
        _ => return None,
    })
}

fn parse(args: &[Value]) -> Result<std::result::Result<Version, Error>> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Ok(Version::parse(text)),
        [Value::String(text), Value::Bool(true)] => Ok(Version::parse_normalized(text)),
        _ => Err(Error::NO_OVERLOAD),
    }
}

fn number(args: &[Value], get: fn(&Version) -> u64) -> Result {
    match args {
        [Value::Version(version)] => Ok(Value::Int(get(version).cast_signed())),
        _ => Err(Error::NO_OVERLOAD),
    }
}
