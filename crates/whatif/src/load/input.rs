//! Opens input files. Small files are kept whole, so that later errors can name a line. Large files are read in
//! pieces, so that memory does not grow with the file. Directories and gzip files are supported.

use crate::load::files::values;
use crate::load::packed::Held;
use crate::load::stream::{Bad, objects};
use flate2::read::MultiGzDecoder;
use serde_json::Map;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// Files up to this size (4 MiB) are kept as text.
const SMALL: u64 = 4 << 20;
/// Up to this size (32 MiB) a large file that cannot be read in pieces is parsed whole, which takes about 24 times as
/// much memory: YAML lists in flow style, or with aliases between items.
const WHOLE: u64 = 32 << 20;
/// The default input limit, 512 MiB.
const DEFAULT: u64 = 512 << 20;
/// Size of the read buffer, in bytes.
const BUFFER: usize = 256 << 10;

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// File name extensions that are read from directories; `.gz` may follow.
const READ_OF_DIRECTORIES: [&str; 3] = [".yaml", ".yml", ".json"];

/// Maximum size of a file in bytes, after decompression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputLimit(u64);

impl Default for InputLimit {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

impl InputLimit {
    /// Returns a limit of so many bytes.
    pub fn of_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Parses a size such as `512Mi`, `2Gi`, `64Ki` or a number of bytes.
    ///
    /// # Errors
    /// A message for the user if the text is not a size or exceeds 64 bits.
    pub fn parse(text: &str) -> Result<Self, String> {
        let units = [("Ki", 10), ("Mi", 20), ("Gi", 30)];
        let (digits, shift) = units
            .iter()
            .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))
            .unwrap_or((text, 0));
        let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
        bytes.map(Self).ok_or_else(|| format!("{text:?} is not a size; use for example 512Mi or 2Gi"))
    }
}

/// Returns the files of a path: the path itself, or the object files of a directory sorted by name.
///
/// Subdirectories are not read, as with `kubectl apply -f`.
///
/// # Errors
/// A message if a directory cannot be read or has no object files.
pub fn listed(path: &Path) -> Result<Vec<PathBuf>, String> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unread = |error: io::Error| format!("cannot be read: {error}; check the path");
    let entries: io::Result<Vec<_>> = std::fs::read_dir(path).map_err(unread)?.collect();
    let is_read = |file: &PathBuf| {
        let name = file.file_name().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
        let name = name.strip_suffix(".gz").unwrap_or(name);
        file.is_file() && READ_OF_DIRECTORIES.iter().any(|end| name.ends_with(end))
    };
    let mut files: Vec<PathBuf> =
        entries.map_err(unread)?.into_iter().map(|entry| entry.path()).filter(is_read).collect();
    files.sort();
    if files.is_empty() {
        return Err(
            "the directory contains no *.yaml, *.yml or *.json file, compressed (.gz) or not".to_owned()
        );
    }
    Ok(files)
}

/// Wraps a reader so that gzip data is decompressed.
///
/// # Errors
/// Fails if the first bytes cannot be read.
pub fn decompressed<'r>(mut reader: impl Read + 'r) -> io::Result<Box<dyn Read + 'r>> {
    let mut begin = Vec::with_capacity(GZIP.len());
    reader.by_ref().take(GZIP.len() as u64).read_to_end(&mut begin)?;
    let is_gzip = begin == GZIP;
    let whole = io::Cursor::new(begin).chain(reader);
    Ok(if is_gzip { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) })
}

/// The content of an input file.
pub enum Opened {
    /// The bytes as written.
    Small(Vec<u8>),
    /// The parsed objects.
    Large(Vec<Held>),
}

impl Opened {
    /// Reads a file, or `stdin` for `-`.
    pub fn of(path: &Path, stdin: &mut dyn Read, limit: InputLimit) -> Result<Self, String> {
        let unread = |error: io::Error| format!("cannot be read: {error}; check the path");
        if path.as_os_str() == "-" {
            return Self::of_reader(stdin, limit);
        }
        let file = File::open(path).map_err(unread)?;
        let length = file.metadata().map_err(unread)?.len();
        if length > limit.0 {
            return Err(too_large(limit));
        }
        match Self::of_reader(&mut &file, limit) {
            // If the file is small enough, parse it whole: that error message is more precise.
            Err(why) if why != too_large(limit) => {
                let Some(text) = whole(path) else { return Err(why) };
                let all = values(&text).map_err(told)?;
                Ok(Self::Large(all.into_iter().map(|held| held.of_list(&Map::new(), Held::lean)).collect()))
            }
            outcome => outcome,
        }
    }

    /// Reads a stream.
    pub fn of_reader(reader: &mut dyn Read, limit: InputLimit) -> Result<Self, String> {
        let unread = |error: io::Error| format!("cannot be read: {error}; check the path");
        let mut begin = Vec::new();
        let reader = &mut decompressed(reader).map_err(unread)?;
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
        all.map(Self::Large).map_err(told)
    }
}

/// Returns the text of a file, or `None` if it is larger than [`WHOLE`] or not readable.
fn whole(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    decompressed(File::open(path).ok()?).ok()?.take(WHOLE + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > WHOLE {
        return None;
    }
    String::from_utf8(bytes).ok()
}

fn told(bad: Bad) -> String {
    match bad {
        Bad::Io(error) => format!("cannot be read: {error}; check the path"),
        Bad::Text(line, column, what) => {
            format!("line {line}, column {column}: expected YAML or JSON: {what}")
        }
    }
}

fn too_large(limit: InputLimit) -> String {
    let text = match limit.0 {
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes => format!("{bytes} bytes"),
    };
    format!("is larger than the limit of {text}; raise the limit with --input-limit")
}

/// A reader that fails after a number of bytes.
struct Bounded<'r> {
    reader: &'r mut (dyn Read + 'r),
    left: u64,
    /// Whether the limit was exceeded.
    is_over: bool,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left.saturating_add(1)).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.reader.read(&mut buffer[..most])?;
        if read as u64 > self.left {
            self.is_over = true;
            return Err(io::Error::other("input limit exceeded"));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, limit: &str) -> Result<usize, String> {
        read_bytes(text.as_bytes(), limit)
    }

    fn read_bytes(mut bytes: &[u8], limit: &str) -> Result<usize, String> {
        let limit = InputLimit::parse(limit).expect("the limit is a valid size");
        Opened::of(Path::new("-"), &mut bytes, limit).map(|opened| match opened {
            Opened::Small(bytes) => bytes.len(),
            Opened::Large(values) => values.len(),
        })
    }

    #[test]
    fn sizes_parse_with_binary_suffixes() {
        let size = |text: &str| InputLimit::parse(text).ok().map(|limit| limit.0);
        assert_eq!(
            (size("7"), size("2Ki"), size("3Mi"), size("1Gi")),
            (Some(7), Some(2_048), Some(3 << 20), Some(1 << 30))
        );
        for wrong in ["", "-1", "1.5Gi", "2GB", "99999999999999Gi"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }

    fn compressed(text: &str) -> Vec<u8> {
        use std::io::Write as _;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).expect("writing to memory succeeds");
        encoder.finish().expect("writing to memory succeeds")
    }

    #[test]
    fn limit_applies_to_decompressed_size() {
        assert_eq!(read_bytes(&compressed("kind: Pod"), "9"), Ok(9));
        let message = "is larger than the limit of 8 bytes; raise the limit with --input-limit";
        assert_eq!(read_bytes(&compressed("kind: Pod"), "8"), Err(message.to_owned()));
        let bomb = compressed(&" ".repeat(12 << 20));
        assert!(bomb.len() < 1 << 20, "{} bytes become 12 MiB", bomb.len());
        let message = "is larger than the limit of 8 MiB; raise the limit with --input-limit";
        assert_eq!(read_bytes(&bomb, "8Mi"), Err(message.to_owned()));
        let broken = &compressed(&"kind: Pod\n".repeat(1_000))[..40];
        assert!(read_bytes(broken, "1Mi").is_err_and(|error| error.starts_with("cannot be read: ")));
    }

    #[test]
    fn directory_yields_its_object_files_sorted_by_name() {
        let folder = tempfile::tempdir().expect("the temporary directory is created");
        let none = listed(folder.path());
        assert!(none.is_err_and(|why| why.starts_with("the directory contains no *.yaml")));
        for name in ["b.yml", "a.yaml", "c.json.gz", "README.md", "d.txt.gz"] {
            std::fs::write(folder.path().join(name), "").expect("the file is written");
        }
        std::fs::create_dir(folder.path().join("inner.yaml")).expect("the directory is created");
        let names = listed(folder.path()).expect("the directory has object files");
        let names: Vec<_> = names
            .iter()
            .map(|file| file.strip_prefix(folder.path()).expect("the file is in the directory"))
            .collect();
        assert_eq!(names, ["a.yaml", "b.yml", "c.json.gz"].map(Path::new));
    }

    #[test]
    fn limit_applies_to_small_and_large_files() {
        assert_eq!(read("kind: Pod", "9"), Ok(9));
        let message = "is larger than the limit of 8 bytes; raise the limit with --input-limit";
        assert_eq!(read("kind: Pod", "8"), Err(message.to_owned()));
        let item = "- kind: Pod\n  apiVersion: v1\n  metadata:\n    name: p\n";
        let large = format!("kind: List\nitems:\n{}", item.repeat(120_000));
        assert!(large.len() as u64 > SMALL);
        assert_eq!(read(&large, "64Mi"), Ok(120_000));
        let message = "is larger than the limit of 5 MiB; raise the limit with --input-limit";
        assert_eq!(read(&large, "5Mi"), Err(message.to_owned()));
        let broken = format!("{large}- kind: [\n");
        assert!(read(&broken, "64Mi").is_err_and(|error| error.starts_with("line 480003, column ")));
    }
}
