//! Helpers for benchmark results: statistics over runs, a description of the machine, and the sections of
//! `docs/benchmarks.md`.
#![allow(dead_code, reason = "each target that includes this module uses a part of it")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The same measurement from several runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers(Vec<f64>);

impl Numbers {
    pub(crate) fn push(&mut self, number: f64) {
        self.0.push(number);
        self.0.sort_by(f64::total_cmp);
    }

    pub(crate) fn median(&self) -> f64 {
        match self.0.len() {
            0 => f64::NAN,
            count if count % 2 == 1 => self.0[count / 2],
            count => f64::midpoint(self.0[count / 2 - 1], self.0[count / 2]),
        }
    }

    /// Returns the median with the range.
    pub(crate) fn median_and_range(&self) -> String {
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else { return "-".to_owned() };
        if self.0.len() == 1 {
            return short(*first);
        }
        format!("{} ({} to {})", short(self.median()), short(*first), short(*last))
    }
}

impl FromIterator<f64> for Numbers {
    fn from_iter<T: IntoIterator<Item = f64>>(numbers: T) -> Self {
        let mut all = Self::default();
        numbers.into_iter().for_each(|number| all.push(number));
        all
    }
}

/// Formats a number with three significant digits and thousands separators.
pub(crate) fn short(number: f64) -> String {
    if !number.is_finite() {
        return "-".to_owned();
    }
    let places = match number.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{number:.places$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), ""), |(whole, rest)| (whole, rest));
    let mut out = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && !out.ends_with('-') {
            out.push(',');
        }
        out.push(digit);
    }
    if !rest.is_empty() {
        let _ = write!(out, ".{rest}");
    }
    out
}

/// A Markdown table.
pub(crate) struct Table {
    text: String,
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        let mut table = Self { text: String::new() };
        table.row(head);
        table.row(&vec!["---"; head.len()]);
        table
    }

    pub(crate) fn row(&mut self, cells: &[impl AsRef<str>]) {
        let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
        let _ = writeln!(self.text, "| {} |", cells.join(" | "));
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

fn command_output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

/// Describes machine, versions, date and load in one sentence.
pub(crate) fn circumstances(upstream: &str) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("of unknown model", |(_, model)| model);
    let day = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    let commit = command_output("git", &["rev-parse", "--short", "HEAD"]);
    let load = read("/proc/loadavg").split_whitespace().take(2).collect::<Vec<_>>().join(" and ");
    format!(
        "{day}; {cores} cores ({model}), {}; {}; supercargo {} at {commit}; {upstream}. Load average at the end, over one and five minutes: {load}.",
        command_output("uname", &["-sr"]),
        command_output("rustc", &["--version"]).split(" (").next().unwrap_or_default(),
        env!("CARGO_PKG_VERSION"),
    )
}

/// Returns the root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns cargo's target folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Replaces the text between the markers of a section of `docs/benchmarks.md`.
///
/// # Errors
/// If the file cannot be read or written, or lacks the markers.
pub(crate) fn write_section(section: &str, text: &str) -> std::io::Result<()> {
    write_section_of("docs/benchmarks.md", section, text)
}

/// Replaces the text between the markers of a section of a page.
///
/// # Errors
/// If the file cannot be read or written, or lacks the markers.
pub(crate) fn write_section_of(page: &str, section: &str, text: &str) -> std::io::Result<()> {
    let (name, file) = (page, root().join(page));
    let page = std::fs::read_to_string(&file)?;
    let (begin, end) = (format!("<!-- begin {section} -->\n"), format!("<!-- end {section} -->"));
    let marks = page.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(&end)?;
        Some(format!("{before}{begin}{text}{end}{after}"))
    });
    let page = marks.ok_or_else(|| std::io::Error::other(format!("{name} lacks {begin}")))?;
    std::fs::write(file, page)
}
