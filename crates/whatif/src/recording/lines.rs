//! Reads a file line by line in bounded memory.

use std::io::{self, BufRead, Read as _};

/// Maximum length of a line in bytes. API objects have at most a few megabytes, and their recorded form is
/// smaller.
pub const LINE_MAX: usize = 16 << 20;

/// Result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A complete line, without the line break.
    Line(String),
    /// An incomplete last line.
    Cut(String),
    /// A line above the length limit.
    TooLong,
    /// A line that is not UTF-8.
    NoText,
    /// End of the file.
    End,
}

/// A line reader that counts lines.
#[derive(Debug)]
pub(super) struct Lines<R> {
    from: R,
    number: usize,
    line_max: usize,
}

impl<R: BufRead> Lines<R> {
    /// Returns a reader with the limit [`LINE_MAX`].
    pub(super) fn new(from: R) -> Self {
        Self { from, number: 0, line_max: LINE_MAX }
    }

    #[cfg(test)]
    fn no_longer_than(mut self, line_max: usize) -> Self {
        self.line_max = line_max;
        self
    }

    /// Returns the number of the line read last, from 1.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Reads the next line.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
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
            // The line may be cut within a character.
            Err(_) if !is_whole => Next::Cut(String::new()),
            Err(_) => Next::NoText,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_in_bounded_memory() {
        let read = |bytes: &[u8]| {
            let mut lines = Lines::new(bytes).no_longer_than(8);
            let mut all = Vec::new();
            loop {
                match lines.read().unwrap() {
                    Next::End => return all,
                    Next::TooLong => {
                        all.push(Next::TooLong);
                        return all;
                    }
                    other => all.push(other),
                }
            }
        };
        let line = |text: &str| Next::Line(text.to_owned());
        assert_eq!(read(b""), []);
        assert_eq!(read(b"a\n\nb\n"), [line("a"), line(""), line("b")]);
        assert_eq!(read(b"12345678\n"), [line("12345678")]);
        assert_eq!(read(b"123456789\n"), [Next::TooLong]);
        assert_eq!(read(&[b'x'; 1_000]), [Next::TooLong]);
        assert_eq!(read(b"a\nbc"), [line("a"), Next::Cut("bc".to_owned())]);
        assert_eq!(read(b"\xff\n"), [Next::NoText]);
        assert_eq!(read("aé".as_bytes().split_last().unwrap().1), [Next::Cut(String::new())]);
    }
}
