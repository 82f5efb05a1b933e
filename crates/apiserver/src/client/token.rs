//! Reads a bearer token from a file, rereads it as it rotates, and trims white space around it. Independent of
//! kubeconfigs.
//!
//! kube's own client sends the file's text untrimmed. A text that ends in a newline is not a valid header, so every
//! request would fail.

use anyhow::{Context as _, Result, bail};
use http::HeaderValue;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Age at which a token is read again: client-go's minute less its leeway of ten seconds (`transport/token_source.go`).
const READ_EVERY: Duration = Duration::from_secs(50);

/// A file that holds a bearer token, and the token read last.
#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    read: Mutex<(HeaderValue, Instant)>,
}

impl TokenFile {
    /// Reads the token.
    ///
    /// # Errors
    /// When the file cannot be read or holds no token.
    pub(super) fn open(path: &str) -> Result<Self> {
        let path = PathBuf::from(path);
        let read = Mutex::new((header(&path)?, Instant::now()));
        Ok(Self { path, read })
    }

    /// The `Authorization` header. If the file cannot be read any more, the last token stays in use.
    pub(super) fn header(&self) -> HeaderValue {
        self.header_at(Instant::now())
    }

    fn header_at(&self, now: Instant) -> HeaderValue {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(read.1) >= READ_EVERY {
            let current = header(&self.path).unwrap_or_else(|_| read.0.clone());
            *read = (current, now);
        }
        read.0.clone()
    }
}

fn header(path: &Path) -> Result<HeaderValue> {
    let token = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the token file {}", path.display()))?;
    let token = token.trim();
    if token.is_empty() {
        bail!("the token file {} is empty", path.display());
    }
    let header = HeaderValue::try_from(format!("Bearer {token}"));
    let mut header = header.with_context(|| format!("the token file {} holds no token", path.display()))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_around_a_token_is_trimmed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let open = || TokenFile::open(path.to_str().unwrap());
        for text in ["abc", "abc\n", "abc\r\n", " \tabc \n\n"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(open().unwrap().header(), "Bearer abc", "{text:?}");
        }
        for text in ["", "\n", "a\nb"] {
            std::fs::write(&path, text).unwrap();
            assert!(open().is_err(), "{text:?}");
        }
        assert!(TokenFile::open("/no/such/file").is_err());
    }

    #[test]
    fn rotated_token_is_read_within_a_minute_and_a_missing_file_keeps_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "one\n").unwrap();
        let file = TokenFile::open(path.to_str().unwrap()).unwrap();
        std::fs::write(&path, "two\n").unwrap();
        let start = Instant::now();
        assert_eq!(file.header_at(start), "Bearer one");
        assert_eq!(file.header_at(start + READ_EVERY), "Bearer two");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.header_at(start + 3 * READ_EVERY), "Bearer two");
    }
}
