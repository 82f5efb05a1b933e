//! How much of a file is taken, and how: small ones whole, so that what is wrong later is told with its line; large ones piece by piece, so that memory
//! does not follow the file. A directory stands for its files, and what gzip compressed is read as what it was.

use super::files::values;
use super::packed::Held;
use super::stream::{Bad, objects};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// Files up to this size are kept as they are written.
const SMALL: u64 = 4 << 20;
/// A large file that cannot be read piece by piece is read at once up to this size, which takes some sixteen times as much memory.
const WHOLE: u64 = 32 << 20;
/// What is taken unless more is asked for.
const DEFAULT: u64 = 512 << 20;
/// Bytes that are read from a file at a time.
const BUFFER: usize = 256 << 10;

/// How a file begins that gzip wrote.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Ends of the names of files that are read of a directory; each may be compressed.
const READ_OF_DIRECTORIES: [&str; 3] = [".yaml", ".yml", ".json"];

/// How large a file may be, in bytes; of a compressed one, what it becomes.
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

/// The files that a path stands for: itself, or those of a directory with objects, by name. As kubectl does, directories within are not looked into.
///
/// # Errors
/// In words, where a directory cannot be read or has none.
pub(super) fn listed(path: &Path) -> Result<Vec<PathBuf>, String> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unread = |error: io::Error| format!("cannot be read: {error}");
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
        return Err("the directory has no file named *.yaml, *.yml or *.json, or *.gz of these".to_owned());
    }
    Ok(files)
}

/// What a reader gives, decompressed where gzip wrote it.
///
/// # Errors
/// When its first bytes cannot be read.
pub(in crate::cli) fn decompressed<'r>(mut reader: impl Read + 'r) -> io::Result<Box<dyn Read + 'r>> {
    let mut begin = Vec::with_capacity(GZIP.len());
    reader.by_ref().take(GZIP.len() as u64).read_to_end(&mut begin)?;
    let is_gzip = begin == GZIP;
    let whole = io::Cursor::new(begin).chain(reader);
    Ok(if is_gzip { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) })
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
            Err(why) if why != too_large(limit) => {
                let Some(text) = whole(path) else { return Err(why) };
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
        all.map(Self::Large).map_err(|bad| match bad {
            Bad::Io(error) => unread(error),
            Bad::Text(line, column, what) => at(line, column, &what),
        })
    }
}

/// The text of a file, where it is small enough to be read at once.
fn whole(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    decompressed(File::open(path).ok()?).ok()?.take(WHOLE + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > WHOLE {
        return None;
    }
    String::from_utf8(bytes).ok()
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
    reader: &'r mut (dyn Read + 'r),
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
        read_bytes(text.as_bytes(), limit)
    }

    fn read_bytes(mut bytes: &[u8], limit: &str) -> Result<usize, String> {
        let limit = InputLimit::parse(limit).expect("it is a size");
        Opened::of(Path::new("-"), &mut bytes, limit).map(|opened| match opened {
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

    fn compressed(text: &str) -> Vec<u8> {
        use std::io::Write as _;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).expect("memory takes all");
        encoder.finish().expect("memory takes all")
    }

    #[test]
    fn a_compressed_file_is_bounded_by_what_it_becomes() {
        assert_eq!(read_bytes(&compressed("kind: Pod"), "9"), Ok(9));
        let told = "is larger than 8 bytes, which is what is taken at most; --input-limit takes more";
        assert_eq!(read_bytes(&compressed("kind: Pod"), "8"), Err(told.to_owned()));
        let bomb = compressed(&" ".repeat(12 << 20));
        assert!(bomb.len() < 1 << 20, "{} bytes become 12 MiB", bomb.len());
        let told = "is larger than 8 MiB, which is what is taken at most; --input-limit takes more";
        assert_eq!(read_bytes(&bomb, "8Mi"), Err(told.to_owned()));
        let broken = &compressed(&"kind: Pod\n".repeat(1_000))[..40];
        assert!(read_bytes(broken, "1Mi").is_err_and(|told| told.starts_with("cannot be read: ")));
    }

    #[test]
    fn a_directory_stands_for_its_files_by_name() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let none = listed(folder.path());
        assert!(none.is_err_and(|why| why.starts_with("the directory has no file named *.yaml")));
        for name in ["b.yml", "a.yaml", "c.json.gz", "README.md", "d.txt.gz"] {
            std::fs::write(folder.path().join(name), "").expect("a file");
        }
        std::fs::create_dir(folder.path().join("inner.yaml")).expect("a folder");
        let names = listed(folder.path()).expect("it has some");
        let names: Vec<_> =
            names.iter().map(|file| file.strip_prefix(folder.path()).expect("it is there")).collect();
        assert_eq!(names, ["a.yaml", "b.yml", "c.json.gz"].map(Path::new));
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
