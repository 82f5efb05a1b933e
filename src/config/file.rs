//! The text of a configuration file, up to a bound.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Bytes that are read: a ConfigMap holds one, and a thousand profiles take a tenth of it.
const BYTES_MAX: u64 = 4 << 20;

/// Reads a file.
///
/// # Errors
/// When it cannot be read, is no UTF-8, or is larger than any configuration.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(io::Error::other(format!(
            "it is larger than {} MiB, as no configuration is",
            BYTES_MAX >> 20
        )));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_larger_than_any_configuration_is_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file can be made");
        file.as_file().set_len(BYTES_MAX).expect("it can grow");
        assert_eq!(read(file.path()).map(|text| text.len() as u64).ok(), Some(BYTES_MAX));
        file.as_file().set_len(BYTES_MAX + 1).expect("it can grow");
        let error = read(file.path()).expect_err("it is too large").to_string();
        assert_eq!(error, "it is larger than 4 MiB, as no configuration is");
    }
}
