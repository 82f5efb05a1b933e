//! Follows a file that may be written, replaced, or be a symbolic link. A mounted ConfigMap is a link that is
//! swapped.
//!
//! Polls the metadata of the link's target, and reads the file only if the target or its metadata changed. A file
//! written in place is read only after its metadata stayed the same for one interval, so that no half-written file is
//! applied. The swap of a ConfigMap is atomic and read at once. This module does not interpret the text.

use futures::{Stream, stream};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// Interval between polls. A kubelet takes up to a minute to update a mounted ConfigMap, so faster polls gain little.
/// A writer that pauses for longer than this may have its half-written file read.
const POLL: Duration = Duration::from_secs(3);

/// The metadata that identifies a state of the file.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    leads_to: PathBuf,
    device: u64,
    inode: u64,
    /// Modification time: seconds and nanoseconds.
    written: (i64, i64),
    size: u64,
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        let leads_to = std::fs::canonicalize(path)?;
        let file = std::fs::metadata(&leads_to)?;
        Ok(Self {
            leads_to,
            device: file.dev(),
            inode: file.ino(),
            written: (file.mtime(), file.mtime_nsec()),
            size: file.size(),
        })
    }
}

/// A followed file and its state at the last poll.
#[derive(Debug)]
struct Source {
    path: PathBuf,
    /// The metadata when the text was last read.
    stamp: Option<Stamp>,
    /// New metadata; the file is read if it is the same at the next poll.
    changing: Option<Stamp>,
    text: Option<String>,
    /// Whether the last poll failed.
    is_unread: bool,
}

impl Source {
    /// Creates the state before the first poll, which finds the file changed.
    fn new(path: PathBuf) -> Self {
        Self { path, stamp: None, changing: None, text: None, is_unread: false }
    }

    /// Polls the file. Returns its text if that changed or the file became readable again. Of consecutive errors, it
    /// returns only the first.
    fn look(&mut self) -> Option<io::Result<String>> {
        match self.read() {
            Ok(text) => {
                if self.changing.is_some() {
                    return None;
                }
                let is_back = std::mem::take(&mut self.is_unread);
                text.or_else(|| self.text.clone().filter(|_| is_back)).map(Ok)
            }
            Err(error) => {
                (self.stamp, self.changing) = (None, None);
                let is_news = !std::mem::replace(&mut self.is_unread, true);
                is_news.then_some(Err(error))
            }
        }
    }

    fn read(&mut self) -> io::Result<Option<String>> {
        let stamp = Stamp::of(&self.path)?;
        if self.stamp.as_ref() == Some(&stamp) {
            self.changing = None;
            return Ok(None);
        }
        let is_swapped = self.stamp.as_ref().is_some_and(|before| before.leads_to != stamp.leads_to);
        if !is_swapped && self.changing.as_ref() != Some(&stamp) {
            self.changing = Some(stamp);
            return Ok(None);
        }
        let text = std::fs::read_to_string(&stamp.leads_to)?;
        let after = Stamp::of(&self.path)?;
        if after != stamp {
            // The file was written or swapped while it was read.
            self.changing = Some(after);
            return Ok(None);
        }
        (self.stamp, self.changing) = (Some(stamp), None);
        if self.text.as_ref() == Some(&text) {
            return Ok(None);
        }
        self.text = Some(text.clone());
        Ok(Some(text))
    }
}

/// Returns a stream of the texts and errors of [`Source::look`], starting with the current text.
pub(super) fn follow(path: PathBuf) -> impl Stream<Item = io::Result<String>> + Send {
    let mut looks = tokio::time::interval(POLL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    stream::unfold((Source::new(path), looks), |(mut source, mut looks)| async move {
        loop {
            looks.tick().await;
            // The file system may be remote and slow.
            let looked = tokio::task::spawn_blocking(move || {
                let looked = source.look();
                (source, looked)
            });
            let (same, looked) = looked.await.ok()?;
            source = same;
            if let Some(text) = looked {
                return Some((text, (source, looks)));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt as _;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::pin::pin;

    fn next_change(source: &mut Source) -> Option<String> {
        source.look().map(|text| text.expect("the file is readable"))
    }

    /// Polls a new source twice: the first poll might see a half-written file.
    fn first(source: &mut Source) -> Option<String> {
        assert_eq!(next_change(source), None, "the metadata must be equal twice");
        next_change(source)
    }

    /// A ConfigMap as the kubelet mounts it: the file is a link through `..data`, which is swapped atomically.
    struct Mount(tempfile::TempDir);

    impl Mount {
        fn new(text: &str) -> Self {
            let mount = Self(tempfile::tempdir().expect("the temporary directory is created"));
            mount.swap("first", text);
            symlink("..data/config.yaml", mount.0.path().join("config.yaml")).expect("the link is created");
            mount
        }

        fn swap(&self, version: &str, text: &str) {
            let folder = self.0.path();
            fs::create_dir(folder.join(version)).expect("the directory is created");
            fs::write(folder.join(version).join("config.yaml"), text).expect("the file is written");
            symlink(version, folder.join("..data_tmp")).expect("the link is created");
            fs::rename(folder.join("..data_tmp"), folder.join("..data")).expect("the link is swapped");
        }

        fn source(&self) -> Source {
            Source::new(self.0.path().join("config.yaml"))
        }
    }

    #[test]
    fn swapped_config_map_is_reported_once() {
        let mount = Mount::new("one");
        let mut source = mount.source();
        assert_eq!(first(&mut source).as_deref(), Some("one"));
        assert_eq!(next_change(&mut source), None);
        mount.swap("second", "two");
        assert_eq!(next_change(&mut source).as_deref(), Some("two"));
        assert_eq!(next_change(&mut source), None);
    }

    #[test]
    fn swap_to_equal_text_is_not_reported() {
        let mount = Mount::new("one");
        let mut source = mount.source();
        assert_eq!(first(&mut source).as_deref(), Some("one"));
        mount.swap("second", "one");
        assert_eq!(next_change(&mut source), None);
    }

    #[test]
    fn file_written_in_place_is_read_when_stable_for_two_polls() {
        let folder = tempfile::tempdir().expect("the temporary directory is created");
        let path = folder.path().join("config.yaml");
        let whole = "profiles: [{schedulerName: a}]\npodMaxBackoffSeconds: 30\n";
        fs::write(&path, "one").expect("the file is written");
        let mut source = Source::new(path.clone());
        assert_eq!(first(&mut source).as_deref(), Some("one"));
        // Each poll sees one prefix: first empty, then one byte longer each time. Some prefixes are valid
        // configurations.
        for end in 0..=whole.len() {
            fs::write(&path, &whole[..end]).expect("the file is written");
            assert_eq!(next_change(&mut source), None, "{end} bytes are written");
        }
        assert_eq!(next_change(&mut source).as_deref(), Some(whole));
        assert_eq!(next_change(&mut source), None);
    }

    #[test]
    fn renamed_file_is_read_when_stable_for_two_polls() {
        let folder = tempfile::tempdir().expect("the temporary directory is created");
        let (path, other) = (folder.path().join("config.yaml"), folder.path().join("other"));
        fs::write(&path, "one").expect("the file is written");
        let mut source = Source::new(path.clone());
        assert_eq!(first(&mut source).as_deref(), Some("one"));
        fs::write(&other, "two").expect("the file is written");
        fs::rename(&other, &path).expect("the file is replaced");
        assert_eq!((next_change(&mut source), next_change(&mut source).as_deref()), (None, Some("two")));
    }

    #[test]
    fn missing_file_is_reported_once_and_again_when_it_returns() {
        let mount = Mount::new("one");
        let mut source = mount.source();
        assert_eq!(first(&mut source).as_deref(), Some("one"));
        fs::remove_file(mount.0.path().join("..data")).expect("the link is removed");
        assert!(source.look().is_some_and(|look| look.is_err()));
        assert!(source.look().is_none());
        mount.swap("second", "one");
        assert_eq!(first(&mut source).as_deref(), Some("one"));
        assert_eq!(next_change(&mut source), None);
        mount.swap("third", "two");
        assert_eq!(next_change(&mut source).as_deref(), Some("two"));
    }

    #[tokio::test(start_paused = true)]
    async fn stream_continues_after_a_read_error() {
        let mount = Mount::new("one");
        let mut texts = pin!(follow(mount.0.path().join("config.yaml")));
        let mut next = async || texts.next().await.expect("the stream continues").ok();
        assert_eq!(next().await.as_deref(), Some("one"));
        fs::remove_file(mount.0.path().join("..data")).expect("the link is removed");
        assert_eq!(next().await, None);
        mount.swap("second", "two");
        assert_eq!(next().await.as_deref(), Some("two"));
    }
}
