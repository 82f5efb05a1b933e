//! Text for a terminal: headings, marks, columns, lines that end before the edge. It knows nothing of what is told.

use std::io::{IsTerminal, Write, stdout};

use anyhow::Result;

/// No line is longer, however wide the terminal is; long lines are hard to read.
const WIDEST: usize = 120;
const NARROWEST: usize = 60;

/// A colour or weight of the terminal, as the number of its escape sequence.
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
    /// Colours go to terminals only, and not to those who ask for none (no-color.org).
    pub(crate) fn new() -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        Self {
            width: columns.unwrap_or(WIDEST).clamp(NARROWEST, WIDEST),
            colours: stdout().is_terminal() && !set("NO_COLOR") && !dumb,
        }
    }

    /// A heading across the page.
    pub(crate) fn heading(&mut self, text: &str) -> Result<()> {
        let rest = self.width.saturating_sub(text.chars().count() + 4);
        self.blank()?;
        self.line(Ink::Bold, &format!("━━ {text} {}", "━".repeat(rest)))
    }

    /// An empty line.
    pub(crate) fn blank(&mut self) -> Result<()> {
        writeln!(stdout())?;
        Ok(())
    }

    /// `label text`, where the text starts at `column` and goes on there on the lines that follow.
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

    /// A whole line as it is.
    pub(crate) fn line(&mut self, ink: Ink, text: &str) -> Result<()> {
        writeln!(stdout(), "{}", self.dyed(ink, text))?;
        Ok(())
    }

    fn dyed(&self, ink: Ink, text: &str) -> String {
        if self.colours { format!("\x1b[{}m{text}\x1b[0m", ink.code()) } else { text.to_owned() }
    }
}

/// Cuts a text into lines at blanks; the first is shorter by `less`. A word that fits nowhere has a line for itself.
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
