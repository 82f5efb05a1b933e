//! Formats a report as a single HTML file without external resources. The most important parts are static
//! markup, readable without scripts. The rest is data for the page's script.
//!
//! The content security policy allows only this script and style sheet, by their hashes. So markup from a
//! name would have no effect even if it were not escaped.

mod groups;
mod markup;
mod moves;
mod sections;
mod waiting;

use crate::commands::report::model::{Report, Unit};
use k8s_openapi::ByteString;
use markup::{escaped, inert};
use supercargo_core::framework::Measure;
use supercargo_whatif::explain::format;
use supercargo_whatif::load::files::InputError;

const PAGE: &str = include_str!("report.html");
const STYLE: &str = include_str!("report.css");
/// Parts of the script, concatenated in this order.
const SCRIPT: &str = concat!(
    include_str!("data.js"),
    include_str!("table.js"),
    include_str!("panel.js"),
    include_str!("map.js"),
    include_str!("lists.js")
);

/// Formats the page.
///
/// # Errors
/// Fails if the build has no TLS 1.3 cipher suite, which provides the SHA-256 hash.
pub(super) fn page(report: &Report) -> Result<String, InputError> {
    let json = serde_json::to_string(report).expect("a report holds only strings, numbers and lists");
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
        source_of(STYLE)?,
        source_of(SCRIPT)?
    );
    let when = report.made_at.replace('T', " ").replace('Z', " UTC");
    let parts = [
        ("policy", policy),
        ("title", escaped(&format!("{} - supercargo report", report.source))),
        ("style", STYLE.to_owned()),
        ("source", escaped(&report.source)),
        ("made", escaped(&format!("{when}, {}", report.made_by))),
        ("notices", sections::notices(report)),
        ("waiting-count", waiting::count(report).to_string()),
        ("summary", sections::summary(report)),
        ("waiting", waiting::section(report)),
        ("moves-link", moves::link(report)),
        ("moves", moves::section(report)),
        ("spread", sections::spread(report)),
        ("data", inert(&json)),
        ("script", SCRIPT.to_owned()),
    ];
    Ok(filled(PAGE, &parts))
}

/// Replaces each `{{name}}` of the template. Inserted text is not expanded again.
fn filled(template: &str, parts: &[(&str, String)]) -> String {
    let mut out =
        String::with_capacity(template.len() + parts.iter().map(|(_, text)| text.len()).sum::<usize>());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").expect("the template closes each placeholder");
        let part = parts.iter().find(|(other, _)| *other == name);
        out.push_str(before);
        out.push_str(&part.unwrap_or_else(|| panic!("unknown placeholder {name}")).1);
        rest = after;
    }
    out + rest
}

/// Returns the policy source of a text: its SHA-256 hash in base64.
fn source_of(text: &str) -> Result<String, InputError> {
    let suite = rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let suite =
        suite.tls13().ok_or_else(|| InputError("this program was built without TLS 1.3".to_owned()))?;
    let hash = suite.common.hash_provider.hash(text.as_bytes());
    let base64 = serde_json::to_value(ByteString(hash.as_ref().to_vec())).expect("bytes become a text");
    Ok(format!("sha256-{}", base64.as_str().unwrap_or_default()))
}

/// Formats an amount.
fn amount(unit: Unit, value: i64) -> String {
    match unit {
        // Large amounts of CPU are shown in whole cores.
        Unit::Milli if value.abs() >= 100_000 => (value / 1_000).to_string(),
        Unit::Milli => format::amount(Measure::Cpu, value),
        Unit::Bytes => format::amount(Measure::Memory, value),
        Unit::One => value.to_string(),
    }
}

/// Returns the requested share of allocatable in percent; `None` if nothing is allocatable.
fn percent(requested: i64, allocatable: i64) -> Option<i64> {
    let share = i128::from(requested) * 100 / i128::from(allocatable.max(1));
    (allocatable > 0).then_some(i64::try_from(share).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_hash_matches_the_browsers() {
        let known = "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";
        assert_eq!(source_of("abc").map_err(|error| error.0), Ok(known.to_owned()));
    }

    #[test]
    fn inserted_text_is_not_expanded_again() {
        let parts = [("a", "{{b}}".to_owned()), ("b", "x".to_owned())];
        assert_eq!(filled("<{{a}}|{{b}}>", &parts), "<{{b}}|x>");
    }
}
