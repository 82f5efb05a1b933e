//! Semantic versions, parsed as `github.com/blang/semver/v4` does.

use std::cmp::Ordering;
use std::fmt;

use super::format_go::quote;
use crate::error::Error;

/// A semantic version. Comparisons in CEL ignore its build metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    pre: Vec<Identifier>,
    build: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    // The order of the variants is that of semantic versioning: numbers precede texts.
    Number(u64),
    Text(String),
}

impl Version {
    /// Parses a version strictly: three numbers without leading zeros.
    ///
    /// # Errors
    ///
    /// Returns the error text of upstream's library if the text is not a version.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Err(Error::fixed("Version string empty"));
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(Error::fixed("No Major.Minor.Patch elements found"));
        };
        let (major, minor) = (number(major, "major", "Major")?, number(minor, "minor", "Minor")?);
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, pre) = match rest.split_once('-') {
            Some((patch, pre)) => (patch, Some(pre)),
            None => (rest, None),
        };
        let patch = number(patch, "patch", "Patch")?;
        let pre = pre.map(|pre| pre.split('.').map(identifier).collect()).transpose()?.unwrap_or_default();
        let build =
            build.map(|build| build.split('.').map(metadata).collect()).transpose()?.unwrap_or_default();
        Ok(Self { major, minor, patch, pre, build })
    }

    /// Parses a version leniently: with a leading `v`, leading zeros or missing numbers.
    pub(crate) fn parse_normalized(text: &str) -> Result<Self, Error> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err(Error::fixed("short version cannot contain PreRelease/Build meta data"));
            }
            parts.resize(3, "0".into());
        }
        Self::parse(&parts.join("."))
    }

    /// Returns the order of two versions by their precedence.
    pub(crate) fn precedence(&self, other: &Self) -> Ordering {
        let numbers = |v: &Self| (v.major, v.minor, v.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.pre.cmp(&other.pre),
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        for (index, identifier) in self.pre.iter().enumerate() {
            f.write_str(if index == 0 { "-" } else { "." })?;
            match identifier {
                Identifier::Number(number) => write!(f, "{number}")?,
                Identifier::Text(text) => f.write_str(text)?,
            }
        }
        for (index, part) in self.build.iter().enumerate() {
            write!(f, "{}{part}", if index == 0 { "+" } else { "." })?;
        }
        Ok(())
    }
}

fn without_leading_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    if trimmed.starts_with(|c: char| c.is_ascii_digit()) { trimmed.to_owned() } else { format!("0{trimmed}") }
}

fn number(text: &str, name: &str, title: &str) -> Result<u64, Error> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Error::new(format!("Invalid character(s) found in {name} number {}", quote(text))));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(Error::new(format!("{title} number must not contain leading zeroes {}", quote(text))));
    }
    parse_uint(text)
}

fn parse_uint(text: &str) -> Result<u64, Error> {
    text.parse().map_err(|_| {
        let reason = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        Error::new(format!("strconv.ParseUint: parsing {}: {reason}", quote(text)))
    })
}

fn alphanumeric(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn identifier(text: &str) -> Result<Identifier, Error> {
    if text.is_empty() {
        return Err(Error::fixed("Prerelease is empty"));
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(Error::new(format!(
                "Numeric PreRelease version must not contain leading zeroes {}",
                quote(text)
            )));
        }
        return parse_uint(text).map(Identifier::Number);
    }
    if !alphanumeric(text) {
        return Err(Error::new(format!("Invalid character(s) found in prerelease {}", quote(text))));
    }
    Ok(Identifier::Text(text.to_owned()))
}

fn metadata(text: &str) -> Result<String, Error> {
    if text.is_empty() {
        return Err(Error::fixed("Build meta data is empty"));
    }
    if !alphanumeric(text) {
        return Err(Error::new(format!("Invalid character(s) found in build meta data {}", quote(text))));
    }
    Ok(text.to_owned())
}
