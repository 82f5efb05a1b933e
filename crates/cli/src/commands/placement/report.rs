//! Results of placement tests, in each output format.

use crate::screen::{Screen, plain};
use serde::Serialize;
use std::fmt::Write as _;
use supercargo_whatif::explain::format::count;

/// Results of all files.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub passed: usize,
    pub failed: usize,
    pub files: Vec<OfFile>,
}

/// Results of one file.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfFile {
    pub file: String,
    pub name: String,
    pub tests: Vec<OfCase>,
}

/// Result of one test.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfCase {
    pub name: String,
    pub passed: bool,
    /// Number of selected pods.
    pub pods: usize,
    /// Expectations that are not met.
    pub failures: Vec<String>,
}

impl Report {
    pub(super) fn new(files: Vec<OfFile>) -> Self {
        let passed = files.iter().flat_map(|file| &file.tests).filter(|case| case.passed).count();
        let all = files.iter().map(|file| file.tests.len()).sum::<usize>();
        let (api_version, kind) = (crate::commands::placement::spec::API_VERSION, "PlacementTestReport");
        Self { api_version, kind, passed, failed: all - passed, files }
    }

    /// Formats the report as a table.
    pub(super) fn table(&self) -> String {
        let mut screen = Screen::of_stdout();
        for file in &self.files {
            let name = if file.name.is_empty() { String::new() } else { format!(": {}", file.name) };
            screen.heading(&format!("{}{name}", file.file));
            for case in &file.tests {
                let word = if case.passed { "passed" } else { "FAILED" };
                screen.line(&format!("  {word}  {}", case.name));
                for failure in &case.failures {
                    screen.line(&format!("          {failure}"));
                }
            }
        }
        let all = count(self.passed + self.failed, "test");
        screen.heading(&match self.failed {
            0 => format!("{all} passed"),
            failed => format!("{failed} of {all} failed"),
        });
        screen.into_text()
    }

    /// Formats the report as JUnit XML.
    pub(super) fn junit(&self) -> String {
        let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
        let (all, failed) = (self.passed + self.failed, self.failed);
        // Writing to a String cannot fail.
        let _ = writeln!(out, "<testsuites tests=\"{all}\" failures=\"{failed}\" errors=\"0\">");
        for file in &self.files {
            let name = escaped(if file.name.is_empty() { &file.file } else { &file.name });
            let (path, all) = (escaped(&file.file), file.tests.len());
            let failed = file.tests.iter().filter(|case| !case.passed).count();
            let _ = writeln!(
                out,
                "  <testsuite name=\"{name}\" file=\"{path}\" tests=\"{all}\" failures=\"{failed}\" errors=\"0\" skipped=\"0\">"
            );
            for case in &file.tests {
                let head = format!(
                    "    <testcase name=\"{}\" classname=\"{name}\" file=\"{path}\"",
                    escaped(&case.name)
                );
                match case.failures.first() {
                    None => drop(writeln!(out, "{head}/>")),
                    Some(first) => {
                        let all = escaped(&case.failures.join("; "));
                        let _ = writeln!(out, "{head}>");
                        let _ =
                            writeln!(out, "      <failure message=\"{}\">{all}</failure>", escaped(first));
                        out.push_str("    </testcase>\n");
                    }
                }
            }
            out.push_str("  </testsuite>\n");
        }
        out.push_str("</testsuites>\n");
        out
    }
}

/// Escapes a text for XML, including characters that XML does not allow.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\u{fffe}' | '\u{ffff}' => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}
