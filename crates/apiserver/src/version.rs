//! The version of kube-scheduler that suits an API server, from the server's `/version`.
//!
//! A server that emulates an older version serves that version's API, so that `emulationMajor` and `emulationMinor`
//! precede its own version.

use serde::Deserialize;
use supercargo_core::model::emulation::EmulatedVersion;

/// The answer of `/version`, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VersionInfo {
    major: String,
    minor: String,
    emulation_major: Option<String>,
    emulation_minor: Option<String>,
}

/// The version of an API server, compared with the versions that can be emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerVersion {
    /// This version can be emulated.
    Known(EmulatedVersion),
    /// The server is older than all versions that can be emulated.
    Older(u32, u32),
    /// The server is newer than all versions that can be emulated.
    Newer(u32, u32),
}

impl ServerVersion {
    /// Returns the version to emulate: the server's, or else the closest.
    pub const fn emulated(self) -> EmulatedVersion {
        match self {
            Self::Known(version) => version,
            Self::Older(..) => EmulatedVersion::OLDEST,
            Self::Newer(..) => EmulatedVersion::NEWEST,
        }
    }

    /// Returns a warning about a server outside the range.
    pub fn warning(self) -> Option<String> {
        let (oldest, newest) = (EmulatedVersion::OLDEST, EmulatedVersion::NEWEST);
        match self {
            Self::Known(_) => None,
            Self::Older(major, minor) => Some(format!(
                "the API server's version {major}.{minor} is older than {oldest}, the oldest version of kube-scheduler that supercargo \
                 emulates; it behaves as {oldest}, without what the API server lacks"
            )),
            Self::Newer(major, minor) => Some(format!(
                "the API server's version {major}.{minor} is newer than {newest}, the newest version of kube-scheduler that supercargo \
                 emulates; it behaves as {newest}: upgrade supercargo"
            )),
        }
    }
}

impl VersionInfo {
    /// Returns the version that the server behaves as; `None` if the answer names none, as that of another server.
    pub fn version(&self) -> Option<ServerVersion> {
        let emulated = self.emulation_major.as_deref().zip(self.emulation_minor.as_deref());
        let pair = |(major, minor): (&str, &str)| Some((number(major)?, number(minor)?));
        let (major, minor) = emulated.and_then(pair).or_else(|| pair((&self.major, &self.minor)))?;
        let named = format!("{major}.{minor}").parse();
        Some(match named {
            Ok(version) => ServerVersion::Known(version),
            Err(_) if (major, minor) > EmulatedVersion::NEWEST.numbers() => {
                ServerVersion::Newer(major, minor)
            }
            Err(_) => ServerVersion::Older(major, minor),
        })
    }
}

/// Returns the number at the start of a text. Vendors append a sign or a name to the minor version, such as `36+`.
fn number(text: &str) -> Option<u32> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).map_or(text, |at| &text[..at]);
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(json: &str) -> Option<ServerVersion> {
        serde_json::from_str::<VersionInfo>(json).expect("a JSON object").version()
    }

    #[test]
    fn version_of_the_api_server_selects_the_closest_emulated_version() {
        let known = |text: &str| Some(ServerVersion::Known(text.parse().expect("a version")));
        for (json, expected) in [
            (r#"{"major":"1","minor":"36","gitVersion":"v1.36.3"}"#, known("1.36")),
            (r#"{"major":"1","minor":"35+"}"#, known("1.35")),
            (r#"{"major":"1","minor":"34-gke.100"}"#, known("1.34")),
            (r#"{"major":"1","minor":"37","emulationMajor":"1","emulationMinor":"36"}"#, known("1.36")),
            (r#"{"major":"1","minor":"37","emulationMajor":"","emulationMinor":""}"#, known("1.37")),
            (r#"{"major":"1","minor":"33"}"#, Some(ServerVersion::Older(1, 33))),
            (r#"{"major":"1","minor":"38"}"#, Some(ServerVersion::Newer(1, 38))),
            (r#"{"major":"2","minor":"0"}"#, Some(ServerVersion::Newer(2, 0))),
            (r#"{"major":"","minor":""}"#, None),
            (r#"{"kind":"Status"}"#, None),
        ] {
            assert_eq!(version(json), expected, "{json}");
        }
    }

    #[test]
    fn servers_outside_the_range_get_the_closest_version_and_a_warning() {
        let (older, newer) = (ServerVersion::Older(1, 33), ServerVersion::Newer(1, 38));
        assert_eq!(older.emulated().as_str(), "1.34");
        assert_eq!(newer.emulated().as_str(), "1.37");
        assert!(older.warning().is_some_and(|text| text.contains("1.33 is older than 1.34")));
        assert!(newer.warning().is_some_and(|text| text.contains("1.38 is newer than 1.37")));
        assert_eq!(ServerVersion::Known(EmulatedVersion::NEWEST).warning(), None);
    }
}
