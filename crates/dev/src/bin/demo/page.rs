//! Terminal output: headings, marks, columns and wrapped lines, independent of the content.

use std::io::{IsTerminal, Write, stdout};

use anyhow::Result;

/// Maximum line length on any terminal, for legibility.
const WIDEST: usize = 120;
const NARROWEST: usize = 60;

/// Text style: a color or weight, as an ANSI escape code.
#[derive(Clone, Copy)]
pub(crate) enum Ink {
    Plain,
    Bold,
    Faint,
    Good,
    Bad,
    Waiting,
}

impl Ink {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "0",
            Self::Bold => "1",
            Self::Faint => "2",
            Self::Good => "32",
            Self::Bad => "31",
            Self::Waiting => "33",
        }
    }
}

/// Standard output.
pub(crate) struct Page {
    width: usize,
    colours: bool,
}

impl Page {
    /// Uses colors only on terminals, and not with NO_COLOR (no-color.org).
    pub(crate) fn new() -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        Self {
            width: columns.unwrap_or(WIDEST).clamp(NARROWEST, WIDEST),
            colours: stdout().is_terminal() && !set("NO_COLOR") && !dumb,
        }
    }

    /// Prints a heading across the page.
    pub(crate) fn heading(&mut self, text: &str) -> Result<()> {
        let rest = self.width.saturating_sub(text.chars().count() + 4);
        self.blank()?;
        self.line(Ink::Bold, &format!("━━ {text} {}", "━".repeat(rest)))
    }

    /// Prints an empty line.
    pub(crate) fn blank(&mut self) -> Result<()> {
        writeln!(stdout())?;
        Ok(())
    }

    /// Prints `label text`. The text starts at `column`, as do its continuation lines.
    pub(crate) fn item(&mut self, label: &str, column: usize, ink: Ink, text: &str) -> Result<()> {
        let mut first = format!("{label:column$}");
        if label.chars().count() >= column {
            first.push(' ');
        }
        let room = self.width.saturating_sub(column).max(NARROWEST / 3);
        for (number, part) in
            wrap(text, room, first.chars().count().saturating_sub(column)).iter().enumerate()
        {
            let start = if number == 0 { first.clone() } else { " ".repeat(column) };
            writeln!(stdout(), "{start}{}", self.dyed(ink, part))?;
        }
        Ok(())
    }

    /// Prints a line without wrapping.
    pub(crate) fn line(&mut self, ink: Ink, text: &str) -> Result<()> {
        writeln!(stdout(), "{}", self.dyed(ink, text))?;
        Ok(())
    }

    fn dyed(&self, ink: Ink, text: &str) -> String {
        if self.colours { format!("\x1b[{}m{text}\x1b[0m", ink.code()) } else { text.to_owned() }
    }
}

/// Wraps a text at blanks. The first line is shorter by `less`; a word that is too long gets its own line.
fn wrap(text: &str, width: usize, less: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut room = width.saturating_sub(less);
    for word in text.split_whitespace() {
        let line = lines.last().expect("it is never empty");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
            lines.push(String::new());
            room = width;
        }
        let line = lines.last_mut().expect("it is never empty");
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}
