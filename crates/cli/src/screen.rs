//! Output for a terminal: lines, headings and tables. Escapes control characters, since names in a cluster
//! are untrusted.

use crate::progress;
use clap::ValueEnum;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Exit code if standard output cannot be written.
const FAILED: u8 = 1;

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A table for people.
    Table,
    /// A table with more columns and rows.
    Wide,
    /// A JSON object with apiVersion and kind.
    Json,
    /// The same object in YAML.
    Yaml,
}

/// Output format of a command that lists objects: also their names, as kubectl prints them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListOutput {
    /// A table for people.
    Table,
    /// A table with more columns and rows.
    Wide,
    /// A JSON object with apiVersion and kind.
    Json,
    /// The same object in YAML.
    Yaml,
    /// One KIND/NAME a line, for other commands.
    Name,
}

/// Formats a list in the requested output format; `names` returns the objects as KIND/NAME.
pub fn in_list_form(
    form: ListOutput,
    answer: &impl Serialize,
    text: impl FnOnce(bool) -> String,
    names: impl FnOnce() -> Vec<String>,
) -> String {
    match form {
        ListOutput::Table => in_form(Output::Table, answer, text),
        ListOutput::Wide => in_form(Output::Wide, answer, text),
        ListOutput::Json => in_form(Output::Json, answer, text),
        ListOutput::Yaml => in_form(Output::Yaml, answer, text),
        ListOutput::Name => names().iter().map(|name| plain(name) + "\n").collect(),
    }
}

/// Color of a table's cell on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// A failure.
    Red,
    /// Blocked.
    Yellow,
    /// Waiting for something known.
    Cyan,
    /// In progress.
    Green,
}

impl Tone {
    /// Returns the SGR code of the color.
    fn code(self) -> u8 {
        match self {
            Self::Red => 31,
            Self::Yellow => 33,
            Self::Cyan => 36,
            Self::Green => 32,
        }
    }
}

/// Returns whether a terminal may get colors and bold text: `NO_COLOR` (<https://no-color.org>) is not set, and
/// `TERM` is not `dumb`.
pub fn may_color() -> bool {
    let objected = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !objected && !is_dumb
}

/// Prints a line to stderr.
pub fn complain(text: &str) {
    progress::make_way();
    // If stderr is closed, there is nowhere to report to.
    let _ = writeln!(io::stderr(), "{}", plain(text));
}

/// Prints a result to stdout. Returns `code`, or 1 if it cannot be written.
pub fn say(text: &str, code: u8) -> ExitCode {
    ExitCode::from(if print(text) { code } else { FAILED })
}

/// Prints a text to stdout. Reports an error on stderr, and returns whether there was none.
pub(crate) fn print(text: &str) -> bool {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => true,
        Err(error) => {
            // The reader closed the pipe early, as `head` does: not worth an error message.
            if error.kind() != io::ErrorKind::BrokenPipe {
                complain(&format!("error: cannot write to standard output: {error}"));
            }
            false
        }
    }
}

/// Formats a result in the requested output format; `text` builds the table, wide if its argument is true.
pub fn in_form(form: Output, answer: &impl Serialize, text: impl FnOnce(bool) -> String) -> String {
    let value = || serde_json::to_value(answer).expect("a result holds only strings, numbers and lists");
    match form {
        Output::Table => text(false),
        Output::Wide => text(true),
        Output::Json => {
            let text = serde_json::to_string_pretty(answer);
            plain_json(text.expect("a result holds only strings, numbers and lists") + "\n")
        }
        Output::Yaml => serde_saphyr::to_string(&value()).expect("a value can be written as YAML"),
    }
}

/// Text built line by line.
pub struct Screen {
    text: String,
    /// Whether headings are bold and cells have colors.
    is_colored: bool,
}

impl Screen {
    /// Returns a screen for standard output. Headings are bold and cells colored on a terminal, if [`may_color`].
    pub fn of_stdout() -> Self {
        Self { text: String::new(), is_colored: io::stdout().is_terminal() && may_color() }
    }

    /// Returns a screen without colors and bold text.
    pub fn plain() -> Self {
        Self { text: String::new(), is_colored: false }
    }

    /// Adds a line.
    pub fn line(&mut self, text: &str) {
        self.text.push_str(plain(text).trim_end());
        self.text.push('\n');
    }

    /// Adds a heading after an empty line.
    pub fn heading(&mut self, text: &str) {
        let text = plain(text);
        let text = if self.is_colored { format!("\x1b[1m{text}\x1b[0m") } else { text };
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(&text);
        self.text.push('\n');
    }

    /// Adds a table. Columns are as wide as their widest cell, except the last; columns in `right` are
    /// right-aligned.
    pub fn table(&mut self, right: &[usize], rows: &[Vec<String>]) {
        self.toned_table(right, rows, |_, _| None);
    }

    /// Adds a table whose cells have colors on a terminal: `tone` returns that of a cell by row and column.
    pub fn toned_table(
        &mut self,
        right: &[usize],
        rows: &[Vec<String>],
        tone: impl Fn(usize, usize) -> Option<Tone>,
    ) {
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width =
            |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
        for (number, row) in rows.iter().enumerate() {
            let mut line = String::new();
            for (at, cell) in row.iter().enumerate() {
                let width = if at + 1 == row.len() && !right.contains(&at) { 0 } else { widths[at] };
                let cell =
                    if right.contains(&at) { format!("{cell:>width$}") } else { format!("{cell:width$}") };
                // Writing to a String cannot fail.
                let _ = match tone(number, at).filter(|_| self.is_colored) {
                    Some(tone) => write!(line, "  \x1b[{}m{cell}\x1b[0m", tone.code()),
                    None => write!(line, "  {cell}"),
                };
            }
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
    }

    /// Returns the whole text.
    pub fn into_text(self) -> String {
        self.text
    }
}

/// Escapes what a terminal would interpret: control characters, zero-width characters and bidirectional
/// controls.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_obeyed(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Escapes the same characters in JSON text as `\u` sequences. They occur only inside strings, so the value
/// stays the same.
pub fn plain_json(json: String) -> String {
    let is_escaped = |c: char| c != '\n' && is_obeyed(c);
    if !json.contains(is_escaped) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        // Writing to a String cannot fail. All escaped characters fit in four hex digits.
        let _ = if is_escaped(c) { write!(out, "\\u{:04x}", u32::from(c)) } else { out.write_char(c) };
    }
    out
}

/// Returns whether a terminal or viewer would interpret a character instead of showing it.
pub fn is_obeyed(c: char) -> bool {
    let turns =
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    c.is_control() || turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(plain("a\x1b[2Jb\nc\u{202e}d é"), "a\\u{1b}[2Jb\\nc\\u{202e}d é");
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let value = serde_json::json!({ "a\u{9b}2J": ["\u{7f}\u{85}\u{202e}", "\u{1b}\n é"] });
        let written = plain_json(format!("{value:#}"));
        assert!(!written.contains(|c: char| c != '\n' && is_obeyed(c)), "{written:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&written).ok(), Some(value));
    }

    #[test]
    fn table_columns_fit_their_widest_cell() {
        let mut screen = Screen { text: String::new(), is_colored: false };
        let rows = [["N", "WHAT", "MORE"], ["10", "a", "x y"]].map(|row| row.map(str::to_owned).to_vec());
        screen.table(&[0], &rows);
        assert_eq!(screen.into_text(), "   N  WHAT  MORE\n  10  a     x y\n");
    }

    #[test]
    fn cells_have_colors_only_on_a_terminal() {
        let rows = [["N", "WHAT"], ["10", "a"]].map(|row| row.map(str::to_owned).to_vec());
        let tone = |row, column| (row == 1 && column == 0).then_some(Tone::Red);
        for (is_colored, expected) in
            [(false, "  N   WHAT\n  10  a\n"), (true, "  N   WHAT\n  \u{1b}[31m10\u{1b}[0m  a\n")]
        {
            let mut screen = Screen { text: String::new(), is_colored };
            screen.toned_table(&[], &rows, tone);
            assert_eq!(screen.into_text(), expected);
        }
    }
}
