//! The values of kube-scheduler's flags on a command line.

use super::kind::CertKey;
use super::table::{Effect, FLAGS, Flag, find};
use super::{gates, go, version};
use crate::GoDuration;
use std::collections::BTreeMap;
use std::time::Duration;
use supercargo_core::model::emulation::EmulatedVersion;

/// Values of flags, each of the flag's type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values(BTreeMap<&'static str, Vec<String>>);

impl Values {
    /// Sets or adds a value that [`super::Kind::read`] returned.
    pub(super) fn set(&mut self, flag: &Flag, value: String) {
        let values = self.0.entry(flag.name).or_default();
        if !flag.kind.adds() {
            values.clear();
        }
        values.push(value);
    }

    /// Returns the flags on the command line as `--NAME=VALUE`, in the form that `src/args.rs` reads. An empty value
    /// that means the default is left out.
    pub fn arguments(&self) -> impl Iterator<Item = String> {
        let given = self.0.iter().flat_map(|(name, values)| values.iter().map(move |value| (*name, value)));
        let meaningful = given
            .filter(|(name, value)| !value.is_empty() || find(name).is_some_and(|flag| flag.kind.adds()));
        meaningful.map(|(name, value)| match name {
            // Beyond 255, levels do not differ.
            "v" => format!("--v={}", value.parse::<u32>().unwrap_or_default().min(255)),
            // As upstream, a negative time has always passed.
            "pod-max-in-unschedulable-pods-duration" if value.starts_with('-') => format!("--{name}=0s"),
            _ => format!("--{name}={value}"),
        })
    }

    /// Returns whether the flag is on the command line.
    pub fn is_given(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the value of a flag that is not a list: the last one or the default.
    pub fn text(&self, name: &str) -> &str {
        match self.0.get(name).and_then(|values| values.last()) {
            Some(value) => value,
            None => find(name).map_or("", |flag| flag.default),
        }
    }

    /// Returns the value of a boolean.
    pub fn is_true(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// Returns the value of an integer; 0 if it has no default.
    pub fn int(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or_default()
    }

    /// Returns the value of a duration; a negative one is zero.
    pub fn duration(&self, name: &str) -> Duration {
        let nanoseconds = GoDuration::parse(self.text(name)).unwrap_or_default().0;
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or_default())
    }

    /// Returns every value of a list.
    pub fn list(&self, name: &str) -> Vec<String> {
        let values = self.0.get(name).map(|values| values.iter().map(String::as_str).collect());
        let values = values.unwrap_or_else(|| vec![self.text(name)]);
        values.into_iter().flat_map(|value| go::csv(value).unwrap_or_default()).collect()
    }

    /// Returns the numbers of a list.
    pub fn ints(&self, name: &str) -> Vec<i64> {
        let values = self.0.get(name).into_iter().flatten();
        values.flat_map(|value| value.split(',')).filter_map(|number| go::int(number, 32).ok()).collect()
    }

    /// Returns the pairs of a map.
    pub fn pairs(&self, name: &str) -> BTreeMap<String, String> {
        let values = self.0.get(name).into_iter().flatten();
        values.flat_map(|value| go::pairs(value).unwrap_or_default()).collect()
    }

    /// Returns the values of `--tls-sni-cert-key`.
    pub fn sni_certificates(&self) -> Vec<CertKey> {
        let values = self.0.get("tls-sni-cert-key").into_iter().flatten();
        values.filter_map(|value| CertKey::parse(value).ok()).collect()
    }

    /// Returns the values of `--feature-gates`.
    pub fn gates(&self) -> &[String] {
        self.0.get("feature-gates").map_or(&[], Vec::as_slice)
    }

    /// Returns the version of `--emulated-version`, if it is given and valid.
    pub fn emulated_version(&self) -> Option<EmulatedVersion> {
        let value = version::only(&self.list("emulated-version")).ok().flatten()?;
        version::parse_emulated_version(&value).ok()
    }

    /// Returns whether a feature gate is on, given the flags and the gates' defaults.
    pub(super) fn has_gate(&self, name: &str) -> bool {
        gates::is_on(self.gates(), name, self.emulated_version())
    }

    /// Returns the given flags without effect, with their values and the reason.
    pub fn without_effect(&self) -> Vec<(&'static str, String, &'static str)> {
        let flags = FLAGS.iter().filter_map(|flag| match (self.0.get(flag.name), flag.effect) {
            (Some(values), Effect::None(why)) => Some((flag.name, values.join(","), why)),
            _ => None,
        });
        flags.collect()
    }
}
