//! A file line by line, in bounded memory whatever is in it.

use std::io::{self, BufRead, Read as _};

/// The longest line that is taken: an object of the API is some megabytes at most, and what is read of it less.
pub const LINE_MAX: usize = 16 << 20;

/// What comes next in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A whole line, without its end.
    Line(String),
    /// What is left of a line whose end never came.
    Cut(String),
    /// More than a line may have.
    TooLong,
    /// Bytes that are no text.
    NoText,
    /// Nothing.
    End,
}

/// Reads lines and counts them.
#[derive(Debug)]
pub(super) struct Lines<R> {
    from: R,
    number: usize,
    line_max: usize,
}

impl<R: BufRead> Lines<R> {
    /// Of lines no longer than [`LINE_MAX`].
    pub(super) fn new(from: R) -> Self {
        Self { from, number: 0, line_max: LINE_MAX }
    }

    #[cfg(test)]
    pub(super) fn no_longer_than(mut self, line_max: usize) -> Self {
        self.line_max = line_max;
        self
    }

    /// The number of the line that was read last, from 1.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Reads on.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn read(&mut self) -> io::Result<Next> {
        let mut bytes = Vec::new();
        let most = self.line_max as u64 + 1;
        if self.from.by_ref().take(most).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(Next::End);
        }
        self.number += 1;
        let is_whole = bytes.last() == Some(&b'\n');
        if is_whole {
            bytes.pop();
        } else if bytes.len() > self.line_max {
            return Ok(Next::TooLong);
        }
        Ok(match String::from_utf8(bytes) {
            Ok(line) if is_whole => Next::Line(line),
            Ok(line) => Next::Cut(line),
            // Cut in the middle of a character, perhaps.
            Err(_) if !is_whole => Next::Cut(String::new()),
            Err(_) => Next::NoText,
        })
    }
}
