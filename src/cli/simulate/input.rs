//! How much of a file is taken, and how: small ones whole, so that what is wrong later is told with its line; large ones piece by piece, so that memory
//! does not follow the file.

use super::files::values;
use super::packed::Held;
use super::stream::{Bad, objects};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// Files up to this size are kept as they are written.
const SMALL: u64 = 4 << 20;
/// A large file that cannot be read piece by piece is read at once up to this size, which takes some sixteen times as much memory.
const WHOLE: u64 = 32 << 20;
/// What is taken unless more is asked for.
const DEFAULT: u64 = 512 << 20;
/// Bytes that are read from a file at a time.
const BUFFER: usize = 256 << 10;

/// How large a file may be, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputLimit(u64);

impl Default for InputLimit {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

impl InputLimit {
    /// Reads `512Mi`, `2Gi`, or a number of bytes.
    ///
    /// # Errors
    /// In words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let units = [("Ki", 10), ("Mi", 20), ("Gi", 30)];
        let (digits, shift) = units
            .iter()
            .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))
            .unwrap_or((text, 0));
        let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
        bytes.map(Self).ok_or_else(|| format!("{text:?} is no size; write for example 512Mi or 2Gi"))
    }
}

/// What a file was read as.
pub(super) enum Opened {
    /// As it is written.
    Small(Vec<u8>),
    /// As its objects.
    Large(Vec<Held>),
}

impl Opened {
    /// Reads a file, or what `stdin` gives for `-`.
    pub(super) fn of(path: &Path, stdin: &mut dyn Read, limit: InputLimit) -> Result<Self, String> {
        let unread = |error: io::Error| format!("cannot be read: {error}");
        if path.as_os_str() == "-" {
            return Self::of_reader(stdin, limit);
        }
        let file = File::open(path).map_err(unread)?;
        let length = file.metadata().map_err(unread)?.len();
        if length > limit.0 {
            return Err(too_large(limit));
        }
        match Self::of_reader(&mut &file, limit) {
            // Its own words tell more where the file is not too large for them.
            Err(why) if length > SMALL && length <= WHOLE => {
                let text = std::fs::read_to_string(path).map_err(|_| why)?;
                let all = values(&text);
                let held = |all: Vec<_>| Self::Large(all.into_iter().map(Held::lean).collect());
                all.map(held).map_err(|(line, column, what)| at(line, column, &what))
            }
            outcome => outcome,
        }
    }

    fn of_reader(reader: &mut dyn Read, limit: InputLimit) -> Result<Self, String> {
        let unread = |error: io::Error| format!("cannot be read: {error}");
        let mut begin = Vec::new();
        let small = SMALL.min(limit.0);
        reader.take(small + 1).read_to_end(&mut begin).map_err(unread)?;
        if begin.len() as u64 <= small {
            return Ok(Self::Small(begin));
        }
        let mut left = Bounded { reader, left: limit.0.saturating_sub(begin.len() as u64), is_over: false };
        let all = objects(BufReader::with_capacity(BUFFER, begin.as_slice().chain(&mut left)));
        if left.is_over || begin.len() as u64 > limit.0 {
            return Err(too_large(limit));
        }
        all.map(Self::Large).map_err(|bad| match bad {
            Bad::Io(error) => unread(error),
            Bad::Text(line, column, what) => at(line, column, &what),
        })
    }
}

fn at(line: u64, column: u64, what: &str) -> String {
    format!("line {line}, column {column}: expected YAML or JSON: {what}")
}

fn too_large(limit: InputLimit) -> String {
    let text = match limit.0 {
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes => format!("{bytes} bytes"),
    };
    format!("is larger than {text}, which is what is taken at most; --input-limit takes more")
}

/// Reads no more than it may.
struct Bounded<'r> {
    reader: &'r mut dyn Read,
    left: u64,
    /// Whether there was more.
    is_over: bool,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left.saturating_add(1)).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.reader.read(&mut buffer[..most])?;
        if read as u64 > self.left {
            self.is_over = true;
            return Err(io::Error::other("there is more than is taken"));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, limit: &str) -> Result<usize, String> {
        let limit = InputLimit::parse(limit).expect("it is a size");
        Opened::of(Path::new("-"), &mut text.as_bytes(), limit).map(|opened| match opened {
            Opened::Small(bytes) => bytes.len(),
            Opened::Large(values) => values.len(),
        })
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let size = |text: &str| InputLimit::parse(text).ok().map(|limit| limit.0);
        assert_eq!(
            (size("7"), size("2Ki"), size("3Mi"), size("1Gi")),
            (Some(7), Some(2_048), Some(3 << 20), Some(1 << 30))
        );
        for wrong in ["", "-1", "1.5Gi", "2GB", "99999999999999Gi"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn small_and_large_are_told_apart_and_neither_may_be_larger_than_is_taken() {
        assert_eq!(read("kind: Pod", "9"), Ok(9));
        let told = "is larger than 8 bytes, which is what is taken at most; --input-limit takes more";
        assert_eq!(read("kind: Pod", "8"), Err(told.to_owned()));
        let item = "- kind: Pod\n  apiVersion: v1\n  metadata:\n    name: p\n";
        let large = format!("kind: List\nitems:\n{}", item.repeat(120_000));
        assert!(large.len() as u64 > SMALL);
        assert_eq!(read(&large, "64Mi"), Ok(120_000));
        let told = "is larger than 5 MiB, which is what is taken at most; --input-limit takes more";
        assert_eq!(read(&large, "5Mi"), Err(told.to_owned()));
        let broken = format!("{large}- kind: [\n");
        assert!(read(&broken, "64Mi").is_err_and(|told| told.starts_with("line 480003, column ")));
    }
}
