//! The page: one file that needs no other and no network. What matters most stands in it as markup, for readers without scripts;
//! the rest is data, which the page's own script shows.
//!
//! Nothing but that script and that style sheet may run: the policy in the head names both by their hashes, so markup that got in
//! by a name would do nothing even if it were not escaped, which it is.

mod markup;
mod sections;
mod waiting;

use super::model::{Report, Unit};
use crate::cli::simulate::InputError;
use crate::explain::words;
use k8s_openapi::ByteString;
use markup::{escaped, inert};
use supercargo_core::framework::Measure;

const PAGE: &str = include_str!("report.html");
const STYLE: &str = include_str!("report.css");
/// The parts of one script, in this order.
const SCRIPT: &str = concat!(
    include_str!("data.js"),
    include_str!("table.js"),
    include_str!("panel.js"),
    include_str!("map.js"),
    include_str!("lists.js")
);

/// The page.
///
/// # Errors
/// When the hash of a script cannot be had, which a build without TLS 1.3 would be the reason of.
pub(super) fn page(report: &Report) -> Result<String, InputError> {
    let json = serde_json::to_string(report).expect("a report has texts, numbers and lists only");
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
        ("spread", sections::spread(report)),
        ("data", inert(&json)),
        ("script", SCRIPT.to_owned()),
    ];
    Ok(filled(PAGE, &parts))
}

/// The template with its `{{name}}`s filled in. What is filled in is not looked at again.
fn filled(template: &str, parts: &[(&str, String)]) -> String {
    let mut out =
        String::with_capacity(template.len() + parts.iter().map(|(_, text)| text.len()).sum::<usize>());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").expect("the template closes what it opens");
        let part = parts.iter().find(|(other, _)| *other == name);
        out.push_str(before);
        out.push_str(&part.unwrap_or_else(|| panic!("nothing is known of {name}")).1);
        rest = after;
    }
    out + rest
}

/// What a policy calls a text: its hash.
fn source_of(text: &str) -> Result<String, InputError> {
    let suite = rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let suite =
        suite.tls13().ok_or_else(|| InputError("this program was built without TLS 1.3".to_owned()))?;
    let hash = suite.common.hash_provider.hash(text.as_bytes());
    let base64 = serde_json::to_value(ByteString(hash.as_ref().to_vec())).expect("bytes become a text");
    Ok(format!("sha256-{}", base64.as_str().unwrap_or_default()))
}

/// An amount as people write it.
fn amount(unit: Unit, value: i64) -> String {
    match unit {
        // A cluster has thousands of cores, of which nobody counts thousandths.
        Unit::Milli if value.abs() >= 100_000 => (value / 1_000).to_string(),
        Unit::Milli => words::amount(Measure::Cpu, value),
        Unit::Bytes => words::amount(Measure::Memory, value),
        Unit::One => value.to_string(),
    }
}

/// How much of it is asked for, in hundredths; `None` where there is none.
fn percent(requested: i64, allocatable: i64) -> Option<i64> {
    let share = i128::from(requested) * 100 / i128::from(allocatable.max(1));
    (allocatable > 0).then_some(i64::try_from(share).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_text_is_what_browsers_expect() {
        let known = "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";
        assert_eq!(source_of("abc").map_err(|error| error.0), Ok(known.to_owned()));
    }

    #[test]
    fn what_is_filled_in_is_not_filled_in_again() {
        let parts = [("a", "{{b}}".to_owned()), ("b", "x".to_owned())];
        assert_eq!(filled("<{{a}}|{{b}}>", &parts), "<{{b}}|x>");
    }
}
