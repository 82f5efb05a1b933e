//! Resource versions of objects. They are compared and sent back unchanged, never interpreted.

use std::fmt;

/// A `metadata.resourceVersion`.
#[derive(Clone, PartialEq, Eq)]
pub struct Version(Repr);

/// The representation is unique, so that equal representations are equal texts.
#[derive(Clone, PartialEq, Eq)]
enum Repr {
    /// A number in its shortest form. Most versions are of this kind, since etcd counts revisions.
    Number(u64),
    /// Any other text.
    Text(Box<str>),
}

impl From<&str> for Version {
    fn from(text: &str) -> Self {
        let is_shortest =
            text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
        let number = if is_shortest { text.parse().ok() } else { None };
        Self(number.map_or_else(|| Repr::Text(text.into()), Repr::Number))
    }
}

impl From<String> for Version {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Number(number) => number.fmt(f),
            Repr::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_round_trips() {
        let number = u64::MAX.to_string();
        for text in ["", "0", "1", "00", "01", "+1", "-1", "x", " 1", number.as_str(), "18446744073709551616"]
        {
            assert_eq!(Version::from(text).to_string(), text);
        }
        assert_ne!(Version::from("01"), Version::from("1"));
        assert_eq!(size_of::<Version>(), 2 * size_of::<usize>(), "no more than the text's own place");
    }
}
