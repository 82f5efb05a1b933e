//! `--emulated-version`: the version of kube-scheduler to behave as.
//!
//! Upstream: `component-base/compatibility/{registry,version}.go`; error messages equal upstream's.

use supercargo_core::model::emulation::EmulatedVersion;

/// The component of a value without one, and the only one that kube-scheduler registers.
const COMPONENT: &str = "kube";

/// Parses a value of `--emulated-version`: `[kube=]major.minor`.
///
/// # Errors
/// Upstream's message: the value is malformed, names another component, or is outside the range of versions.
pub fn parse_emulated_version(value: &str) -> Result<EmulatedVersion, String> {
    let (component, text) = match value.split_once('=') {
        Some((component, version)) => (component.trim(), version.trim()),
        None => (COMPONENT, value),
    };
    let parts = components(text)?;
    let shown = parts.iter().map(u32::to_string).collect::<Vec<_>>().join(".");
    if parts.get(2).is_some_and(|patch| *patch != 0) {
        return Err(format!("patch version not allowed, got: {component}={shown}"));
    }
    if component != COMPONENT {
        return Err(format!("component not registered: {component}"));
    }
    let named = |version: &EmulatedVersion| version.as_str() == format!("{}.{}", parts[0], parts[1]);
    EmulatedVersion::ALL.into_iter().find(named).ok_or_else(|| {
        let (oldest, newest) = (EmulatedVersion::ALL[0], EmulatedVersion::NEWEST);
        format!("emulation version {shown} is not between [{oldest}, {newest}]")
    })
}

/// Returns the numbers of a version: at least two, after an optional `v`. As upstream, ignores what follows them.
fn components(text: &str) -> Result<Vec<u32>, String> {
    let bare = text.trim_start();
    let bare = bare.strip_prefix('v').unwrap_or(bare);
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let digits_and_dots = bare.find(|c: char| !c.is_ascii_digit() && c != '.').map_or(bare, |at| &bare[..at]);
    let parts: Vec<&str> = digits_and_dots.split('.').take_while(is_number).collect();
    match parts[..] {
        [] => return Err(format!("could not parse {text:?} as version")),
        [_] => return Err(format!("illegal version string {text:?}")),
        [major, ..] if major.starts_with('0') && major != "0" => {
            return Err(format!("illegal zero-prefixed version component {major:?} in {text:?}"));
        }
        _ => {}
    }
    let number = |part: &&str| {
        part.parse()
            .map_err(|error| format!("illegal non-numeric version component {part:?} in {text:?}: {error}"))
    };
    parts.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_may_name_the_component() {
        for value in ["1.36", "kube=1.36", " kube = 1.36 ", "v1.36", "1.36.0", "1.036", "1.36.x", "1.36+"] {
            assert_eq!(parse_emulated_version(value), Ok(EmulatedVersion::V1_36), "{value:?}");
        }
    }

    #[test]
    fn invalid_version_gives_upstreams_message() {
        for (value, expected) in [
            ("1.33", "emulation version 1.33 is not between [1.34, 1.37]"),
            ("kube=1.38", "emulation version 1.38 is not between [1.34, 1.37]"),
            ("1.36.2", "patch version not allowed, got: kube=1.36.2"),
            ("wardle=1.36", "component not registered: wardle"),
            ("1", "illegal version string \"1\""),
            ("01.36", "illegal zero-prefixed version component \"01\" in \"01.36\""),
            ("", "could not parse \"\" as version"),
            ("newest", "could not parse \"newest\" as version"),
        ] {
            assert_eq!(parse_emulated_version(value), Err(expected.to_owned()));
        }
    }
}
