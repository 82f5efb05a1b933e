//! Reads a configuration file of limited size.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Maximum size in bytes. A ConfigMap holds at most 1 MiB, and a thousand profiles take a tenth of the limit.
const BYTES_MAX: u64 = 4 << 20;

/// Reads a file.
///
/// # Errors
/// Fails if the file cannot be read, is not UTF-8, or exceeds 4 MiB.
pub fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(io::Error::other(format!(
            "larger than {} MiB, the limit for a configuration",
            BYTES_MAX >> 20
        )));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_above_the_size_limit_is_rejected() {
        let file = tempfile::NamedTempFile::new().expect("a file can be made");
        file.as_file().set_len(BYTES_MAX).expect("it can grow");
        assert_eq!(read(file.path()).map(|text| text.len() as u64).ok(), Some(BYTES_MAX));
        file.as_file().set_len(BYTES_MAX + 1).expect("it can grow");
        let error = read(file.path()).expect_err("it is too large").to_string();
        assert_eq!(error, "larger than 4 MiB, the limit for a configuration");
    }
}
