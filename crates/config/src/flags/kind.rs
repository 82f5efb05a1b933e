//! The types of flag values, and how each is read. Error messages equal upstream's.

use super::go;
use crate::GoDuration;
use std::net::IpAddr;

/// The type of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A boolean; without a value it is true.
    Bool,
    /// An integer of 64 bits.
    Int,
    /// An integer of 32 bits.
    Int32,
    /// A number with 32 bits.
    Float32,
    /// A duration, such as `1m30s`.
    Duration,
    /// An IP address; empty for the default.
    Ip,
    /// Any text.
    Text,
    /// Comma-separated texts; can be repeated.
    List,
    /// Comma-separated integers of 32 bits; can be repeated.
    Ints32,
    /// Comma-separated pairs `KEY=VALUE`; can be repeated.
    Pairs,
    /// Files of a certificate and a key, with optional names; can be repeated.
    CertKeys,
    /// Comma-separated feature gates; can be repeated.
    Gates,
    /// A log level.
    Level,
    /// Comma-separated log levels of source files; can be repeated.
    Modules,
    /// A quantity, such as `1Ki`.
    Quantity,
}

impl Kind {
    /// Returns whether each occurrence of the flag adds to the value. Otherwise the last one counts.
    pub const fn adds(self) -> bool {
        matches!(self, Self::List | Self::Ints32 | Self::Pairs | Self::CertKeys | Self::Gates | Self::Modules)
    }

    /// Checks a value, and returns it in a form that is read alike by every parser.
    ///
    /// # Errors
    /// Upstream's reason.
    pub fn read(self, text: &str) -> Result<String, String> {
        let unchanged = || text.to_owned();
        match self {
            Self::Bool => go::bool(text).map(|value| value.to_string()),
            Self::Int => go::int(text, 64).map(|value| value.to_string()),
            Self::Int32 => go::int(text, 32).map(|value| value.to_string()),
            Self::Float32 => go::float32(text).map(|value| value.to_string()),
            Self::Duration => GoDuration::parse(text).map(|value| value.to_string()),
            Self::Ip if text.is_empty() => Ok(unchanged()),
            Self::Ip => {
                let ip: Result<IpAddr, _> = text.trim().parse();
                ip.map(|ip| ip.to_string()).map_err(|_| format!("failed to parse IP: {text:?}"))
            }
            Self::Text | Self::Gates => Ok(unchanged()),
            Self::List => go::csv(text).map(|_| unchanged()),
            Self::Ints32 => {
                text.split(',').try_for_each(|number| go::int(number, 32).map(drop))?;
                Ok(unchanged())
            }
            Self::Pairs => go::pairs(text).map(|_| unchanged()),
            Self::CertKeys => CertKey::parse(text).map(|_| unchanged()),
            Self::Level => go::uint31(text).map(|level| level.to_string()),
            Self::Modules => modules(text).map(|()| unchanged()),
            Self::Quantity => go::is_zero_quantity(text).map(|_| unchanged()),
        }
    }
}

/// A value of `--tls-sni-cert-key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertKey {
    /// File of the certificate.
    pub certificate: String,
    /// File of the key.
    pub key: String,
    /// Names it is for; empty for those in the certificate.
    pub names: Vec<String>,
}

impl CertKey {
    /// Parses `CERT,KEY[:NAME,NAME]`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (files, names) = match text.split_once(':') {
            Some((_, names)) if names.trim().is_empty() => {
                return Err("empty names list is not allowed".to_owned());
            }
            Some((files, names)) => (files, names.split(',').map(|name| name.trim().to_owned()).collect()),
            None => (text, Vec::new()),
        };
        let trimmed = |file: &str| file.trim().to_owned();
        match files.split(',').collect::<Vec<_>>()[..] {
            [certificate, key] => Ok(Self { certificate: trimmed(certificate), key: trimmed(key), names }),
            _ => Err("expected comma separated certificate and key file paths".to_owned()),
        }
    }
}

fn modules(text: &str) -> Result<(), String> {
    text.split(',').filter(|item| !item.is_empty()).try_for_each(|item| {
        match item.split('=').collect::<Vec<_>>()[..] {
            [pattern, level] if !pattern.is_empty() && !level.is_empty() => {
                go::uint31(level).map(drop).map_err(|error| format!("parsing verbosity in {item:?}: {error}"))
            }
            _ => Err(format!("{item:?} does not have the pattern=N format")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_and_key_may_have_names() {
        let pair = |names: &[&str]| CertKey {
            certificate: "a.crt".to_owned(),
            key: "a.key".to_owned(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(CertKey::parse(" a.crt , a.key"), Ok(pair(&[])));
        assert_eq!(CertKey::parse("a.crt,a.key:*.b.c, d"), Ok(pair(&["*.b.c", "d"])));
        assert!(CertKey::parse("a.crt,a.key:").is_err() && CertKey::parse("a,b,c").is_err());
    }

    #[test]
    fn values_get_one_form() {
        for (kind, text, form) in [
            (Kind::Bool, "T", "true"),
            (Kind::Int, "0x10", "16"),
            (Kind::Duration, "90s", "1m30s"),
            (Kind::Ip, " ::1 ", "::1"),
            (Kind::Level, "02", "2"),
        ] {
            assert_eq!(kind.read(text).as_deref(), Ok(form), "{text}");
        }
    }
}
