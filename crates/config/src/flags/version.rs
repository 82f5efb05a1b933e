//! Flags with versions: `--emulated-version`, the version of kube-scheduler to behave as, and others.
//!
//! Upstream: `component-base/compatibility/{registry,version}.go`; error messages equal upstream's.

use supercargo_core::model::emulation::EmulatedVersion;

/// The component of a value without one, and the only one that kube-scheduler registers.
const COMPONENT: &str = "kube";

/// How many minor versions `--min-compatibility-version` may be older than the emulated version.
const MINORS: u32 = 3;

/// Parses a value of `--emulated-version`: `[kube=]major.minor`.
///
/// # Errors
/// Upstream's message: the value is malformed, names another component, or is outside the range of versions.
pub fn parse_emulated_version(value: &str) -> Result<EmulatedVersion, String> {
    let (parts, shown) = kube_version(value)?;
    let named = |version: &EmulatedVersion| version.as_str() == format!("{}.{}", parts[0], parts[1]);
    EmulatedVersion::ALL.into_iter().find(named).ok_or_else(|| {
        let (oldest, newest) = (EmulatedVersion::ALL[0], EmulatedVersion::NEWEST);
        format!("emulation version {shown} is not between [{oldest}, {newest}]")
    })
}

/// Checks a value of `--min-compatibility-version` against the emulated version, which may be any if none is given.
pub(super) fn check_minimum(value: &str, emulated: Option<EmulatedVersion>) -> Result<(), String> {
    let (parts, shown) = kube_version(value)?;
    let oldest = |version: EmulatedVersion| (version.numbers().0, version.numbers().1 - MINORS);
    let takes =
        |version: EmulatedVersion| (oldest(version)..=version.numbers()).contains(&(parts[0], parts[1]));
    if emulated.map_or_else(|| EmulatedVersion::ALL.into_iter().any(takes), takes) {
        return Ok(());
    }
    let newest = emulated.unwrap_or(EmulatedVersion::NEWEST);
    let (major, minor) = oldest(newest);
    Err(format!("minCompatibilityVersion version {shown} is not between [{major}.{minor}, {newest}]"))
}

/// Returns the only value of a version flag, which may be repeated only for other components.
pub(super) fn only(values: &[String]) -> Result<Option<String>, String> {
    match values {
        [] => Ok(None),
        [only] => Ok(Some(only.clone())),
        [first, second, ..] => {
            let [(_, first), (_, second)] = [kube_version(first)?, kube_version(second)?];
            Err(format!("duplicate version flag, {COMPONENT}={first} and {COMPONENT}={second}"))
        }
    }
}

/// Returns the minor version before this one.
pub(super) fn previous(version: EmulatedVersion) -> String {
    let minor = version.as_str().rsplit('.').next().and_then(|minor| minor.parse::<u32>().ok());
    format!("1.{}", minor.unwrap_or_default().saturating_sub(1))
}

/// Checks a value of `--version=vX.Y.Z`, the version to report: of the emulated minor version, or of any.
pub(super) fn reported(value: &str, emulated: Option<EmulatedVersion>) -> Result<(), String> {
    let parts = components(value)?;
    let is_known = |version: EmulatedVersion| {
        parts.len() == 3 && version.as_str() == format!("{}.{}", parts[0], parts[1])
    };
    if emulated.map_or_else(|| EmulatedVersion::ALL.into_iter().any(is_known), is_known) {
        return Ok(());
    }
    if let Some(emulated) = emulated {
        return Err(format!(
            "version {value:?} must match major/minor/patch of default version \"v{emulated}.0\""
        ));
    }
    let (oldest, newest) = (EmulatedVersion::ALL[0], EmulatedVersion::NEWEST);
    Err(format!("version {value:?} must match major/minor/patch of a version between {oldest} and {newest}"))
}

/// Returns the numbers of `[kube=]major.minor`, and the version as upstream prints it.
fn kube_version(value: &str) -> Result<(Vec<u32>, String), String> {
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
    Ok((parts, shown))
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
    #[test]
    fn minimum_version_is_at_most_the_emulated_one() {
        let check = |value: &str| check_minimum(value, Some(EmulatedVersion::V1_35));
        assert_eq!(check("1.32"), Ok(()));
        assert_eq!(check_minimum("1.37", None), Ok(()));
        assert_eq!(check("kube=1.35"), Ok(()));
        for (value, expected) in [
            ("1.36", "minCompatibilityVersion version 1.36 is not between [1.32, 1.35]"),
            ("1.31", "minCompatibilityVersion version 1.31 is not between [1.32, 1.35]"),
            ("1.35.1", "patch version not allowed, got: kube=1.35.1"),
            ("wardle=1.35", "component not registered: wardle"),
        ] {
            assert_eq!(check(value), Err(expected.to_owned()));
        }
    }

    #[test]
    fn version_flag_is_given_once() {
        let only =
            |values: &[&str]| only(&values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>());
        assert_eq!(only(&[]), Ok(None));
        assert_eq!(only(&["1.35"]), Ok(Some("1.35".to_owned())));
        assert_eq!(
            only(&["1.35", "1.36"]),
            Err("duplicate version flag, kube=1.35 and kube=1.36".to_owned())
        );
    }
}
